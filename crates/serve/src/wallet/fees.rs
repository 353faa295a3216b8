//! What to pay, what others offer, and who came last.
//!
//! In:     a session's state and checked arguments.
//! Out:    the result appended to a buffer whose answer is already open; rates in BTC for 1,000 virtual bytes.
//! Fails:  [`Fault`].
//! Source: Electrum protocol 1.4 to 1.7, docs/protocol-methods.rst; where it is silent, ElectrumX.

use super::methods::{Reply, write};
use super::moment::still;
use crate::electrum::answer;
use crate::electrum::error::{Error, Fault};
use crate::electrum::machine::Machine;
use crate::electrum::params::Arguments;
use crate::json::push_amount;

/// Transactions in the answer of `mempool.recent`.
const RECENT_MAX: usize = 10;
/// What all nodes relayed until Core 29.1 (`DEFAULT_MIN_RELAY_TX_FEE`), for as long as there is no mempool to ask.
const USUAL_SAT_PER_KVB: i64 = 1_000;

/// What to pay to be confirmed within so many blocks, at least what the mempool asks; -1 where nobody knows.
pub(super) fn estimatefee(machine: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let blocks = arguments.number(0, None)?;
    let mode = match arguments.text(1) {
        None | Some("null") => String::new(),
        Some(_) => arguments.string(1)?.to_ascii_lowercase(),
    };
    let conservative = match &*mode {
        "conservative" => true,
        "" | "economical" | "unset" => false,
        _ => return Err(Error::InvalidParams("mode is CONSERVATIVE or ECONOMICAL".into()).into()),
    };
    let Some(pool) = machine.env.source.pool() else {
        return write(out, "-1");
    };
    // Nobody is confirmed at once, and nobody is asked further ahead than is known.
    let blocks = u32::try_from(blocks).unwrap_or(u32::MAX).clamp(1, pool.estimate_blocks_max().max(1));
    match pool.estimate(blocks, conservative).sat_per_kvb {
        None => write(out, "-1"),
        Some(rate) => {
            let totals = pool.totals();
            push_amount(out, rate.max(totals.floor_sat_per_kvb).max(totals.relay_floor_sat_per_kvb));
            Ok(Reply::Written)
        }
    }
}

pub(super) fn relayfee(machine: &mut Machine, _: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let pool = machine.env.source.pool();
    push_amount(out, pool.map_or(USUAL_SAT_PER_KVB, |pool| pool.totals().relay_floor_sat_per_kvb));
    Ok(Reply::Written)
}

pub(super) fn get_info(machine: &mut Machine, _: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let totals = machine.env.source.pool().ok_or(Error::NoMempool)?.totals();
    let floor_sat_per_kvb = totals.floor_sat_per_kvb.max(totals.relay_floor_sat_per_kvb);
    out.extend_from_slice(b"{\"mempoolminfee\":");
    push_amount(out, floor_sat_per_kvb);
    out.extend_from_slice(b",\"minrelaytxfee\":");
    push_amount(out, totals.relay_floor_sat_per_kvb);
    out.extend_from_slice(b",\"incrementalrelayfee\":");
    push_amount(out, totals.increment_sat_per_kvb);
    write(out, "}")
}

/// Satoshi for a virtual byte, in tenths, and the virtual bytes that pay as much or more than it and less than the row above.
pub(super) fn get_fee_histogram(machine: &mut Machine, _: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let bars = machine.env.histogram.of(&*machine.env.source)?;
    out.push(b'[');
    for (index, (tenths, size_vb)) in bars.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let rate = match tenths % 10 {
            0 => (tenths / 10).to_string(),
            tenth => format!("{}.{tenth}", tenths / 10),
        };
        out.extend_from_slice(format!("{comma}[{rate},{size_vb}]").as_bytes());
    }
    write(out, "]")
}

/// The last transactions to come, the newest first.
pub(super) fn recent(machine: &mut Machine, _: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let (_, entries) = still(&*machine.env.source, |_, mempool| mempool.map(|mempool| mempool.recent(RECENT_MAX)))?;
    out.push(b'[');
    for (index, entry) in entries.unwrap_or_default().iter().enumerate() {
        out.extend_from_slice(if index > 0 { b",{\"txid\":" } else { b"{\"txid\":" });
        answer::hash_string(&entry.txid.0, out);
        out.extend_from_slice(format!(",\"fee\":{},\"vsize\":{}}}", entry.fee_sat, entry.size_vb()).as_bytes());
    }
    write(out, "]")
}
