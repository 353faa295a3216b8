//! What a script has, had and waits for.
//!
//! In:     a session's state and checked arguments.
//! Out:    the result appended to a buffer whose answer is already open, or a stream that will write it.
//! Fails:  [`Fault`].
//! Source: Electrum protocol 1.4.3, docs/protocol-methods.rst; where it is silent, ElectrumX.

use primitives::ScriptHash;

use super::methods::{Reply, require_ready, write};
use super::stream::{Purpose, Stream};
use crate::electrum::error::{Error, Fault};
use crate::electrum::machine::Machine;
use crate::electrum::params::Arguments;

pub(super) fn script_of(machine: &Machine, arguments: &Arguments<'_>) -> Result<ScriptHash, Error> {
    let script = arguments.script_hash(0)?;
    require_ready(machine)?;
    Ok(script)
}

pub(super) fn scripthash_get_balance(
    machine: &mut Machine,
    arguments: &Arguments<'_>,
    out: &mut Vec<u8>,
) -> Result<Reply, Fault> {
    let script = script_of(machine, arguments)?;
    let confirmed_sat = machine.env.source.view().balance_sat(&script)?;
    write(out, &format!("{{\"confirmed\":{confirmed_sat},\"unconfirmed\":0}}"))
}

pub(super) fn scripthash_get_history(
    machine: &mut Machine,
    arguments: &Arguments<'_>,
    _: &mut Vec<u8>,
) -> Result<Reply, Fault> {
    let script = script_of(machine, arguments)?;
    Ok(Reply::Stream(Stream::new(&machine.env, script, Purpose::History)))
}

pub(super) fn scripthash_listunspent(
    machine: &mut Machine,
    arguments: &Arguments<'_>,
    _: &mut Vec<u8>,
) -> Result<Reply, Fault> {
    let script = script_of(machine, arguments)?;
    Ok(Reply::Stream(Stream::new(&machine.env, script, Purpose::Unspent)))
}

/// There is no mempool yet, so nothing is ever in it.
pub(super) fn scripthash_get_mempool(
    machine: &mut Machine,
    arguments: &Arguments<'_>,
    out: &mut Vec<u8>,
) -> Result<Reply, Fault> {
    script_of(machine, arguments)?;
    write(out, "[]")
}

pub(super) fn scripthash_subscribe(
    machine: &mut Machine,
    arguments: &Arguments<'_>,
    _: &mut Vec<u8>,
) -> Result<Reply, Fault> {
    let script = script_of(machine, arguments)?;
    // Known to the table before its status is read, so that no change falls between the two.
    if !machine.scripts.contains_key(&script) {
        let max = machine.env.limits.subscriptions_session_max;
        if machine.scripts.len() >= max {
            return Err(Error::TooManySubscriptions { max }.into());
        }
        machine.env.subscriptions.add(machine.id, &script, machine.env.limits.subscriptions_max)?;
        machine.env.metrics.subscriptions_now.add(1);
        machine.scripts.insert(script, None);
    }
    Ok(Reply::Stream(Stream::new(&machine.env, script, Purpose::Subscribe)))
}

pub(super) fn scripthash_unsubscribe(
    machine: &mut Machine,
    arguments: &Arguments<'_>,
    out: &mut Vec<u8>,
) -> Result<Reply, Fault> {
    let script = arguments.script_hash(0)?;
    let known = machine.forget(&script);
    write(out, if known { "true" } else { "false" })
}
