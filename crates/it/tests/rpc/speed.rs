//! What writing straight into the answer saves against building a tree of values first.
//!
//! In:     a forged block.
//! Out:    the ratio of both, in one process, in turns, least of several.

use std::time::{Duration, Instant};

use primitives::Params;
use serde_json::{Value as Json, json};
use serve::decoded::asm;
use serve::decoded::transaction::{Shown, write_members};
use serve::json::Json as Writer;
use stdx::hex;

use crate::world::World;

/// The same object as a tree: the plain second version.
fn tree(tx: &primitives::Tx<'_>, params: &Params) -> Json {
    let vin: Vec<Json> = tx
        .inputs()
        .map(|input| {
            let mut object = json!({});
            if tx.is_coinbase() {
                object["coinbase"] = json!(hex::encode(input.script_sig()));
            } else {
                object["txid"] = json!(input.outpoint().txid.to_string());
                object["vout"] = json!(input.outpoint().vout);
                let text = asm::text(input.script_sig(), true);
                object["scriptSig"] = json!({ "asm": text, "hex": hex::encode(input.script_sig()) });
            }
            if input.witness().len() > 0 {
                object["txinwitness"] = input.witness().map(hex::encode).collect();
            }
            object["sequence"] = json!(input.sequence());
            object
        })
        .collect();
    let vout: Vec<Json> = (0..)
        .zip(tx.outputs())
        .map(|(n, output)| {
            let kind = primitives::script::ScriptType::of(output.script);
            let mut desc = Vec::new();
            serve::decoded::descriptor::push_of_script(output.script, kind, params, &mut desc);
            let mut script = json!({
                "asm": asm::text(output.script, false),
                "desc": String::from_utf8(desc).unwrap(),
                "hex": hex::encode(output.script),
            });
            if let Some(address) = primitives::address::of_script(output.script, params) {
                script["address"] = json!(address);
            }
            script["type"] = json!(kind.name());
            json!({ "value": output.value_sat as f64 / 1e8, "n": n, "scriptPubKey": script })
        })
        .collect();
    json!({
        "txid": tx.txid().to_string(), "hash": tx.wtxid().to_string(), "version": tx.version(), "size": tx.raw().len(),
        "vsize": tx.weight().div_ceil(4), "weight": tx.weight(), "locktime": tx.lock_time(), "vin": vin, "vout": vout,
        "hex": hex::encode(tx.raw()),
    })
}

#[test]
fn writing_straight_is_no_slower_than_a_tree_and_says_the_same() {
    let world = World::new("speed");
    let blocks = &world.blocks[100..];
    let params = &world.env.params;
    let count: usize = blocks.iter().map(|block| block.tx_count()).sum();
    let (mut straight, mut by_tree) = (Duration::MAX, Duration::MAX);
    let mut out = Vec::new();
    for _ in 0..7 {
        let started = Instant::now();
        out.clear();
        for tx in blocks.iter().flat_map(|block| block.txs()) {
            let mut json = Writer::new(&mut out);
            json.begin_object();
            write_members(&tx, &Shown::PLAIN, params, &mut json);
            json.end_object();
            out.push(b'\n');
        }
        straight = straight.min(started.elapsed());
        let started = Instant::now();
        let texts: Vec<String> =
            blocks.iter().flat_map(|block| block.txs()).map(|tx| tree(&tx, params).to_string()).collect();
        by_tree = by_tree.min(started.elapsed());
        assert_eq!(texts.len(), count);
    }
    let ratio = by_tree.as_secs_f64() / straight.as_secs_f64();
    let per_tx = straight.as_nanos() as f64 / count as f64;
    println!("{count} transactions, {per_tx:.0} ns each straight; as a tree {ratio:.2} times as long");
    let lines = String::from_utf8(out).unwrap();
    for (line, tx) in lines.lines().zip(blocks.iter().flat_map(|block| block.txs())) {
        let (got, want): (Json, Json) = (serde_json::from_str(line).unwrap(), tree(&tx, params));
        assert_eq!(got, want);
    }
    assert!(ratio > 1.0, "a tree takes {ratio:.2} times as long");
}
