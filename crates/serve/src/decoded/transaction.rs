//! A transaction as JSON, with Bitcoin Core's members in Core's order.
//!
//! In:     a parsed transaction, the block it is in, the network for addresses.
//! Out:    JSON appended to a buffer, about eight times the transaction's bytes at most.
//! Fails:  never.
//! Source: Bitcoin Core, `TxToUniv` (`src/core_io.cpp`) and `TxToJSON` (`src/rpc/rawtransaction.cpp`), without the
//!         members that need the coins spent (`fee`, `prevout`) and without descriptors (`desc`).

use std::io::Write as _;

use primitives::script::ScriptType;
use primitives::{Header, Input, Output, Params, Tx, address};
use stdx::hex;

use super::asm;

/// The block a transaction is in.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Its header.
    pub header: Header,
    /// Blocks from it to the tip, itself included.
    pub confirmations: u32,
}

macro_rules! put {
    ($out:expr, $($format:tt)*) => { write!($out, $($format)*).expect("writing to memory") };
}

/// Appends the JSON of a transaction.
pub fn write(tx: &Tx<'_>, block: Option<&Block>, params: &Params, out: &mut Vec<u8>) {
    let (txid, hash) = (tx.txid(), tx.wtxid());
    let (version, size, weight, locktime) = (tx.version(), tx.raw().len(), tx.weight(), tx.lock_time());
    let vsize = weight.div_ceil(4);
    put!(out, "{{\"txid\":\"{txid}\",\"hash\":\"{hash}\",\"version\":{version},\"size\":{size},\"vsize\":{vsize},");
    put!(out, "\"weight\":{weight},\"locktime\":{locktime},\"vin\":[");
    let coinbase = tx.is_coinbase();
    for (index, input) in tx.inputs().enumerate() {
        put!(out, "{}", if index == 0 { "" } else { "," });
        write_input(&input, coinbase, out);
    }
    put!(out, "],\"vout\":[");
    for (index, output) in tx.outputs().enumerate() {
        put!(out, "{}", if index == 0 { "" } else { "," });
        write_output(&output, index, params, out);
    }
    put!(out, "],\"hex\":\"{}\"", hex::encode(tx.raw()));
    if let Some(Block { header, confirmations }) = block {
        let (hash, time_s) = (header.hash(), header.time_s);
        put!(out, ",\"blockhash\":\"{hash}\",\"confirmations\":{confirmations}");
        put!(out, ",\"time\":{time_s},\"blocktime\":{time_s}");
    }
    put!(out, "}}");
}

fn write_input(input: &Input<'_>, coinbase: bool, out: &mut Vec<u8>) {
    let script = hex::encode(input.script_sig());
    if coinbase {
        put!(out, "{{\"coinbase\":\"{script}\"");
    } else {
        let outpoint = input.outpoint();
        let text = asm::text(input.script_sig(), true);
        put!(out, "{{\"txid\":\"{}\",\"vout\":{}", outpoint.txid, outpoint.vout);
        put!(out, ",\"scriptSig\":{{\"asm\":\"{text}\",\"hex\":\"{script}\"}}");
    }
    let witness = input.witness();
    if witness.len() > 0 {
        put!(out, ",\"txinwitness\":[");
        for (index, item) in witness.enumerate() {
            put!(out, "{}\"{}\"", if index == 0 { "" } else { "," }, hex::encode(item));
        }
        put!(out, "]");
    }
    put!(out, ",\"sequence\":{}}}", input.sequence());
}

fn write_output(output: &Output<'_>, index: usize, params: &Params, out: &mut Vec<u8>) {
    let kind = ScriptType::of(output.script);
    let text = asm::text(output.script, false);
    put!(out, "{{\"value\":");
    put_amount(output.value_sat, out);
    put!(out, ",\"n\":{index},\"scriptPubKey\":{{\"asm\":\"{text}\",\"hex\":\"{}\"", hex::encode(output.script));
    if let Some(address) = address::of_script(output.script, params) {
        put!(out, ",\"address\":\"{address}\"");
    }
    put!(out, ",\"type\":\"{}\"}}}}", kind.name());
}

/// An amount in bitcoin with eight decimals (Core: `ValueFromAmount`).
fn put_amount(value_sat: i64, out: &mut Vec<u8>) {
    let sign = if value_sat < 0 { "-" } else { "" };
    let absolute = value_sat.unsigned_abs();
    put!(out, "{sign}{}.{:08}", absolute / 100_000_000, absolute % 100_000_000);
}
