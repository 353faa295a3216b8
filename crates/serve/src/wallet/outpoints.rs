//! Outpoints: who funds them, who spends them, what they hold.
//!
//! In:     a session's state and checked arguments.
//! Out:    the result appended to a buffer whose answer is already open.
//! Fails:  [`Fault`].
//! Source: Electrum protocol 1.7, docs/protocol-methods.rst; Fulcrum for `utxo.get_info`.
//!
//! The script that a client gives as a hint is checked for its form and not needed: spenders are found by the outpoint.

use std::io::Write as _;

use chain::mempool::Mempool;
use primitives::{OutPoint, ScriptHash, Transaction, Txid};

use super::methods::{Reply, require_ready, write};
use super::moment::{shown_height, still};
use crate::electrum::Env;
use crate::electrum::answer;
use crate::electrum::error::Fault;
use crate::electrum::machine::Machine;
use crate::electrum::params::Arguments;
use crate::electrum::subscriptions::Topic;
use crate::source::View;

/// What became of an outpoint. Heights are those of blocks, 0 in the mempool, -1 there on another unconfirmed transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutpointStatus {
    /// Where its transaction is; none while nobody knows it.
    pub funder_height: Option<i64>,
    /// Who spends it, and where that is.
    pub spender: Option<(Txid, i64)>,
}

impl OutpointStatus {
    /// The protocol's object, of no, one or three members.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        if let Some(height) = self.funder_height {
            write!(out, "\"funder_height\":{height}").expect("writing to memory");
            if let Some((txid, height)) = &self.spender {
                out.extend_from_slice(b",\"spender_txhash\":");
                answer::hash_string(&txid.0, out);
                write!(out, ",\"spender_height\":{height}").expect("writing to memory");
            }
        }
        out.push(b'}');
    }
}

/// What the mempool says of an outpoint.
fn in_mempool(mempool: &Mempool, outpoint: &OutPoint) -> OutpointStatus {
    let height = |txid: &Txid| shown_height(mempool.is_on_unconfirmed(txid));
    let funder = mempool.get(&outpoint.txid).filter(|entry| (outpoint.vout as usize) < entry.tx().output_count());
    let spender = mempool.spender(outpoint).map(|(entry, _)| (entry.txid, height(&entry.txid)));
    OutpointStatus { funder_height: funder.map(|entry| height(&entry.txid)), spender }
}

/// True where the chain has the output, spent or not; its height.
fn funder_height(view: &dyn View, outpoint: &OutPoint) -> Result<Option<i64>, Fault> {
    let Some(found) = view.transaction(&outpoint.txid)? else { return Ok(None) };
    let outputs = Transaction::parse(found.bytes).map_or(0, |parsed| parsed.tx().output_count());
    Ok(((outpoint.vout as usize) < outputs).then_some(i64::from(found.height)))
}

/// What became of an outpoint, by chain and mempool.
pub fn status_of(env: &Env, outpoint: &OutPoint) -> Result<OutpointStatus, Fault> {
    let look = |mempool: Option<&Mempool>| mempool.map(|mempool| in_mempool(mempool, outpoint)).unwrap_or_default();
    let (view, mut status) = still(&*env.source, |_, mempool| look(mempool))?;
    if status.funder_height.is_none() {
        status.funder_height = funder_height(&*view, outpoint)?;
        if status.funder_height.is_some() && status.spender.is_none() {
            status.spender = view.spender(outpoint)?.map(|(txid, height)| (txid, i64::from(height)));
        }
    }
    Ok(status)
}

/// The outpoint asked for; the hint is looked at for its form only.
fn asked(machine: &Machine, arguments: &Arguments<'_>) -> Result<OutPoint, Fault> {
    let outpoint = arguments.outpoint(0)?;
    if arguments.text(2).is_some_and(|text| text != "null") {
        arguments.bytes(2)?;
    }
    require_ready(machine)?;
    Ok(outpoint)
}

pub(super) fn subscribe(machine: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let outpoint = asked(machine, arguments)?;
    let status = machine.wish_and_read(&Topic::Outpoint(outpoint), |env| status_of(env, &outpoint))?;
    machine.wishes.outpoints.insert(outpoint, Some(status));
    status.write(out);
    Ok(Reply::Written)
}

pub(super) fn get_status(machine: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let outpoint = asked(machine, arguments)?;
    status_of(&machine.env, &outpoint)?.write(out);
    Ok(Reply::Written)
}

pub(super) fn unsubscribe(machine: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let known = machine.forget(&Topic::Outpoint(arguments.outpoint(0)?));
    write(out, if known { "true" } else { "false" })
}

/// An output that nothing spends, neither in a block nor in the mempool; null for every other.
pub(super) fn get_info(machine: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let outpoint = arguments.outpoint(0)?;
    require_ready(machine)?;
    let look = |mempool: &Mempool| {
        let entry = mempool.get(&outpoint.txid)?;
        let output = entry.tx().outputs().nth(outpoint.vout as usize)?;
        Some((output.value_sat as u64, ScriptHash::of(output.script)))
    };
    let (view, (spent, waiting)) = still(&*machine.env.source, |_, mempool| {
        (mempool.is_some_and(|mempool| mempool.spender(&outpoint).is_some()), mempool.and_then(look))
    })?;
    if spent {
        return write(out, "null");
    }
    let (height, value_sat, script) = match (waiting, view.coin(&outpoint)?) {
        (Some((value_sat, script)), _) => (None, value_sat, script),
        (None, Some(coin)) => (Some(coin.height), coin.value_sat, ScriptHash::of(&coin.script)),
        (None, None) => return write(out, "null"),
    };
    out.push(b'{');
    if let Some(height) = height {
        out.extend_from_slice(format!("\"confirmed_height\":{height},").as_bytes());
    }
    out.extend_from_slice(b"\"scripthash\":");
    answer::hash_string(&script.0, out);
    write(out, &format!(",\"value\":{value_sat}}}"))
}
