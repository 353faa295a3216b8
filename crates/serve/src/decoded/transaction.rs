//! A transaction as JSON, with Bitcoin Core's members in Core's order.
//!
//! In:     a parsed transaction, what is known about it (its block, the coins it spends), the network for addresses.
//! Out:    JSON appended to a buffer, about eight times the transaction's bytes at most.
//! Fails:  never.
//! Source: Bitcoin Core, `TxToUniv` and `ScriptToUniv` (`src/core_io.cpp`), `TxToJSON` (`src/rpc/rawtransaction.cpp`).
//!
//! Nothing is built in between: a block of 4,000 transactions is written at the speed of its digits.

use primitives::hash::BlockHash;
use primitives::script::ScriptType;
use primitives::{Coin, Header, Input, Output, Params, Tx, address};

use super::{asm, descriptor};
use crate::json::{Json, push_u64};

/// The block a transaction is in.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Its header.
    pub header: Header,
    /// Blocks from it to the tip, itself included.
    pub confirmations: u32,
}

/// The coins of a transaction's inputs.
pub type CoinOf<'a> = &'a dyn Fn(usize) -> Coin<'a>;

/// What is written of a transaction.
#[derive(Clone, Copy)]
pub struct Shown<'a> {
    /// Descriptors of its output scripts.
    pub descriptors: bool,
    /// Its bytes.
    pub hex: bool,
    /// The coins of its inputs, by position: their sum gives the fee.
    pub coins: Option<CoinOf<'a>>,
    /// Each input's coin too.
    pub prevouts: bool,
    /// The hash of its block, where nothing more is said of it.
    pub block_hash: Option<BlockHash>,
}

impl Shown<'_> {
    /// Everything that the transaction says by itself.
    pub const PLAIN: Shown<'static> =
        Shown { descriptors: true, hex: true, coins: None, prevouts: false, block_hash: None };
}

/// Appends the JSON of a transaction as Electrum servers show it.
pub fn write(tx: &Tx<'_>, block: Option<&Block>, params: &Params, out: &mut Vec<u8>) {
    let mut json = Json::new(out);
    json.begin_object();
    write_members(tx, &Shown { descriptors: false, ..Shown::PLAIN }, params, &mut json);
    if let Some(block) = block {
        write_block(block, &mut json);
    }
    json.end_object();
}

/// Writes where a transaction is.
pub fn write_block(block: &Block, json: &mut Json<'_>) {
    json.key("blockhash").hash(&block.header.hash().0);
    json.key("confirmations").number(block.confirmations);
    json.key("time").number(block.header.time_s);
    json.key("blocktime").number(block.header.time_s);
}

/// Writes the members of a transaction's object.
pub fn write_members(tx: &Tx<'_>, shown: &Shown<'_>, params: &Params, json: &mut Json<'_>) {
    let txid = tx.txid();
    let weight = tx.weight();
    json.key("txid").hash(&txid.0);
    json.key("hash").hash(&if tx.has_witness() { tx.wtxid().0 } else { txid.0 });
    json.key("version").number(tx.version());
    json.key("size").count(tx.raw().len());
    json.key("vsize").count(weight.div_ceil(4));
    json.key("weight").count(weight);
    json.key("locktime").number(tx.lock_time());
    json.key("vin").begin_array();
    let coinbase = tx.is_coinbase();
    let coins = shown.coins.filter(|_| !coinbase);
    let mut spent_sat = 0;
    for (index, input) in tx.inputs().enumerate() {
        let coin = coins.map(|coin_of| coin_of(index));
        spent_sat += coin.map_or(0, |coin| coin.value_sat as i64);
        write_input(&input, coinbase, coin.filter(|_| shown.prevouts), shown, params, json);
    }
    json.end_array();
    json.key("vout").begin_array();
    let mut paid_sat: i64 = 0;
    for (index, output) in tx.outputs().enumerate() {
        paid_sat = paid_sat.saturating_add(output.value_sat);
        write_output(&output, index, shown, params, json);
    }
    json.end_array();
    if coins.is_some() {
        json.key("fee").amount(spent_sat.saturating_sub(paid_sat));
    }
    if let Some(hash) = shown.block_hash {
        json.key("blockhash").hash(&hash.0);
    }
    if shown.hex {
        json.key("hex").hex(tx.raw());
    }
}

fn write_input(
    input: &Input<'_>,
    coinbase: bool,
    coin: Option<Coin<'_>>,
    shown: &Shown<'_>,
    params: &Params,
    json: &mut Json<'_>,
) {
    json.begin_object();
    if coinbase {
        json.key("coinbase").hex(input.script_sig());
    } else {
        let outpoint = input.outpoint();
        json.key("txid").hash(&outpoint.txid.0);
        json.key("vout").number(outpoint.vout);
        json.key("scriptSig").begin_object();
        write_asm(input.script_sig(), true, json);
        json.key("hex").hex(input.script_sig());
        json.end_object();
    }
    let witness = input.witness();
    if witness.len() > 0 {
        json.key("txinwitness").begin_array();
        witness.for_each(|item| json.hex(item));
        json.end_array();
    }
    if let Some(coin) = coin {
        json.key("prevout").begin_object();
        json.key("generated").bool(coin.coinbase);
        json.key("height").number(coin.height);
        json.key("value").amount(coin.value_sat as i64);
        json.key("scriptPubKey");
        write_script(coin.script, shown.descriptors, params, json);
        json.end_object();
    }
    json.key("sequence").number(input.sequence());
    json.end_object();
}

fn write_output(output: &Output<'_>, index: usize, shown: &Shown<'_>, params: &Params, json: &mut Json<'_>) {
    json.begin_object();
    json.key("value").amount(output.value_sat);
    json.key("n").with(|out| push_u64(out, index as u64));
    json.key("scriptPubKey");
    write_script(output.script, shown.descriptors, params, json);
    json.end_object();
}

fn write_asm(script: &[u8], signatures: bool, json: &mut Json<'_>) {
    json.key("asm").with(|out| {
        out.push(b'"');
        asm::push(script, signatures, out);
        out.push(b'"');
    });
}

/// Writes the object that stands for an output script.
pub fn write_script(script: &[u8], descriptors: bool, params: &Params, json: &mut Json<'_>) {
    json.begin_object();
    write_script_members(script, descriptors, true, params, json);
    json.end_object();
}

/// Writes the members of such an object, with the script itself where `hex` says so.
pub fn write_script_members(script: &[u8], descriptors: bool, hex: bool, params: &Params, json: &mut Json<'_>) {
    let kind = ScriptType::of(script);
    write_asm(script, false, json);
    if descriptors {
        json.key("desc").with(|out| {
            out.push(b'"');
            descriptor::push_of_script(script, kind, params, out);
            out.push(b'"');
        });
    }
    if hex {
        json.key("hex").hex(script);
    }
    if let Some(address) = address::of_script(script, params) {
        json.key("address").with(|out| {
            out.push(b'"');
            out.extend_from_slice(address.as_bytes());
            out.push(b'"');
        });
    }
    json.key("type").with(|out| {
        out.push(b'"');
        out.extend_from_slice(kind.name().as_bytes());
        out.push(b'"');
    });
}
