//! What a script has, had and waits for.
//!
//! In:     a session's state and checked arguments: the script by its hash, as itself, or as an address.
//! Out:    the result appended to a buffer whose answer is already open, or a stream that will write it.
//! Fails:  [`Fault`].
//! Source: Electrum protocol 1.4 to 1.7, docs/protocol-methods.rst; where it is silent, ElectrumX; Fulcrum for addresses,
//!         paged histories, `get_first_use` and `get_status`.

use primitives::ScriptHash;
use primitives::hash::sha256d;

use super::methods::{Reply, require_ready, write};
use super::moment::{self, still};
use super::stream::{Purpose, Stream};
use crate::electrum::answer;
use crate::electrum::error::{Error, Fault};
use crate::electrum::machine::Machine;
use crate::electrum::params::{Arguments, Named};
use crate::electrum::subscriptions::Topic;

/// Fulcrum's word for "to the end, and the mempool".
const TO_THE_END: &str = "-1";

fn script_of(machine: &Machine, arguments: &Arguments<'_>) -> Result<ScriptHash, Error> {
    let script = arguments.script(0, &machine.env.config.params)?;
    require_ready(machine)?;
    Ok(script)
}

/// Protocol 1.7 puts lists into objects, so that something may stand beside them one day.
fn member(arguments: &Arguments<'_>, name: &'static str) -> Option<&'static str> {
    (arguments.named(0) == Named::Script).then_some(name)
}

pub(super) fn get_balance(machine: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let script = script_of(machine, arguments)?;
    let change = |mempool: Option<&chain::mempool::Mempool>| mempool.map_or(0, |it| it.balance_change_sat(&script));
    let (view, unconfirmed_sat) = still(&*machine.env.source, |_, mempool| change(mempool))?;
    let confirmed_sat = view.balance_sat(&script)?;
    write(out, &format!("{{\"confirmed\":{confirmed_sat},\"unconfirmed\":{unconfirmed_sat}}}"))
}

pub(super) fn get_history(machine: &mut Machine, arguments: &Arguments<'_>, _: &mut Vec<u8>) -> Result<Reply, Fault> {
    let script = script_of(machine, arguments)?;
    let height = |height: u64| u32::try_from(height).unwrap_or(u32::MAX);
    let from = height(arguments.number(1, Some(0))?);
    let to = match arguments.text(2) {
        None | Some(TO_THE_END) => None,
        Some(_) => Some(height(arguments.number(2, None)?)),
    };
    let stream = Stream::new(script, Purpose::History).in_member(member(arguments, "history"));
    Ok(Reply::Stream(stream.between(from, to)))
}

pub(super) fn get_mempool(machine: &mut Machine, arguments: &Arguments<'_>, _: &mut Vec<u8>) -> Result<Reply, Fault> {
    let script = script_of(machine, arguments)?;
    Ok(Reply::Stream(Stream::new(script, Purpose::Mempool).in_member(member(arguments, "history"))))
}

pub(super) fn listunspent(machine: &mut Machine, arguments: &Arguments<'_>, _: &mut Vec<u8>) -> Result<Reply, Fault> {
    let script = script_of(machine, arguments)?;
    Ok(Reply::Stream(Stream::new(script, Purpose::Unspent).in_member(member(arguments, "utxos"))))
}

pub(super) fn get_status(machine: &mut Machine, arguments: &Arguments<'_>, _: &mut Vec<u8>) -> Result<Reply, Fault> {
    Ok(Reply::Stream(Stream::new(script_of(machine, arguments)?, Purpose::Status)))
}

pub(super) fn subscribe(machine: &mut Machine, arguments: &Arguments<'_>, _: &mut Vec<u8>) -> Result<Reply, Fault> {
    let script = script_of(machine, arguments)?;
    // Known to the table before its status is read, so that no change falls between the two.
    let new = machine.wish(&Topic::Script(script))?;
    let addresses = &mut machine.wishes.addresses;
    if arguments.named(0) == Named::Address {
        let address = arguments.string(0)?;
        addresses.entry(script).or_insert((address, !new));
    } else if let Some((_, by_hash)) = addresses.get_mut(&script) {
        *by_hash = true;
    }
    Ok(Reply::Stream(Stream::new(script, Purpose::Subscribe)))
}

pub(super) fn unsubscribe(machine: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let script = arguments.script(0, &machine.env.config.params)?;
    let by_address = arguments.named(0) == Named::Address;
    // Whoever asked by address and by hash goes on hearing by the other.
    let known = match machine.wishes.addresses.get_mut(&script) {
        None => !by_address && machine.forget(&Topic::Script(script)),
        Some((_, by_hash @ true)) => {
            *by_hash = false;
            if by_address {
                machine.wishes.addresses.remove(&script);
            }
            true
        }
        Some((_, false)) => by_address && machine.forget(&Topic::Script(script)),
    };
    write(out, if known { "true" } else { "false" })
}

/// The first transaction of a history; one of the mempool is in block 0 with a hash of zeros.
pub(super) fn get_first_use(
    machine: &mut Machine,
    arguments: &Arguments<'_>,
    out: &mut Vec<u8>,
) -> Result<Reply, Fault> {
    let script = script_of(machine, arguments)?;
    let (view, waiting) = still(&*machine.env.source, |_, mempool| moment::history(mempool, &script))?;
    let (height, block_hash, txid) = match (view.history(&script, 0, 1)?.first(), waiting.first()) {
        (Some(first), _) => {
            let header = view.header(first.height)?.ok_or(Fault::Stale)?;
            (first.height, sha256d(&header), first.txid)
        }
        (None, Some(first)) => (0, [0; 32], first.txid),
        (None, None) => return write(out, "null"),
    };
    out.extend_from_slice(b"{\"block_hash\":");
    answer::hash_string(&block_hash, out);
    out.extend_from_slice(format!(",\"height\":{height},\"block_height\":{height},\"tx_hash\":").as_bytes());
    answer::hash_string(&txid.0, out);
    write(out, "}")
}

pub(super) fn get_scripthash(
    machine: &mut Machine,
    arguments: &Arguments<'_>,
    out: &mut Vec<u8>,
) -> Result<Reply, Fault> {
    let script = arguments.script(0, &machine.env.config.params)?;
    answer::hash_string(&script.0, out);
    Ok(Reply::Written)
}
