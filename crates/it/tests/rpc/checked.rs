//! Answers compared with what the blocks themselves say.
//!
//! In:     the forged chain as blocks, walked here by the plainest means.
//! Out:    equality, block by block and coin by coin.

use std::collections::HashMap;

use primitives::muhash::{MuHash, coin_bytes};
use primitives::script::is_unspendable;
use primitives::{OutPoint, Params, address};
use serde_json::{Value as Json, json};
use stdx::hex;

use crate::world::{BLOCKS, World};

type Coins = HashMap<OutPoint, (u64, u32, bool, Vec<u8>)>;

fn amount(value: &Json) -> i64 {
    (value.as_f64().unwrap() * 1e8).round() as i64
}

#[test]
fn fees_and_coins_of_every_block_are_those_of_its_inputs() {
    let world = World::new("fees");
    let mut coins = Coins::new();
    for (height, block) in (0u32..).zip(&world.blocks) {
        let shown = world.call("getblock", &format!("[\"{}\",3]", block.header().hash())).unwrap();
        let (mut fees, mut spent_rows) = (0, Vec::new());
        for (tx, shown) in block.txs().zip(shown["tx"].as_array().unwrap()) {
            let txid = tx.txid();
            assert_eq!((&shown["txid"], &shown["hex"]), (&json!(txid.to_string()), &json!(hex::encode(tx.raw()))));
            let mut in_sat = 0;
            for (input, shown) in tx.inputs().zip(shown["vin"].as_array().unwrap()).filter(|_| tx.index() > 0) {
                let (value_sat, made_at, coinbase, script) = coins.remove(&input.outpoint()).unwrap();
                in_sat += value_sat as i64;
                let prevout = &shown["prevout"];
                assert_eq!(amount(&prevout["value"]), value_sat as i64);
                assert_eq!((&prevout["height"], &prevout["generated"]), (&json!(made_at), &json!(coinbase)));
                assert_eq!(prevout["scriptPubKey"]["hex"], json!(hex::encode(&script)));
                spent_rows.push(value_sat);
            }
            let out_sat: i64 = tx.outputs().map(|output| output.value_sat).sum();
            match tx.index() {
                0 => assert!(shown.get("fee").is_none()),
                _ => {
                    assert_eq!(amount(&shown["fee"]), in_sat - out_sat);
                    fees += in_sat - out_sat;
                }
            }
            for (vout, output) in (0u32..).zip(tx.outputs()) {
                if height > 0 && !is_unspendable(output.script) {
                    let coin = (output.value_sat as u64, height, tx.index() == 0, output.script.to_vec());
                    coins.insert(OutPoint { txid, vout }, coin);
                }
            }
        }
        if height > 0 {
            let stats = world.call("getblockstats", &format!("[{height}]")).unwrap();
            assert_eq!(stats["totalfee"], json!(fees));
            assert_eq!(stats["ins"], json!(spent_rows.len()));
        }
    }
    set_is(&world, &coins);
    every_coin_is_found(&world, &coins);
}

fn set_is(world: &World, coins: &Coins) {
    let mut hash = MuHash::default();
    for (outpoint, (value_sat, height, coinbase, script)) in coins {
        hash.insert(&coin_bytes(outpoint, *height, *coinbase, *value_sat, script));
    }
    let told = world.call("gettxoutsetinfo", "[\"muhash\"]").unwrap();
    let shown: Vec<u8> = hash.finalize().into_iter().rev().collect();
    assert_eq!(told["muhash"], json!(hex::encode(&shown)));
    assert_eq!(told["txouts"], json!(coins.len()));
    assert_eq!(amount(&told["total_amount"]), coins.values().map(|coin| coin.0 as i64).sum::<i64>());
    // The serialised hash, over all coins in order.
    let mut sorted: Vec<_> = coins.iter().collect();
    sorted.sort_by_key(|(outpoint, _)| (outpoint.txid.0, outpoint.vout));
    let bytes: Vec<u8> = sorted.iter().flat_map(|(o, (v, h, c, s))| coin_bytes(o, *h, *c, *v, s)).collect();
    let shown: Vec<u8> = primitives::hash::sha256d(&bytes).into_iter().rev().collect();
    let told = world.call("gettxoutsetinfo", "[]").unwrap();
    assert_eq!(told["hash_serialized_3"], json!(hex::encode(&shown)));
}

fn every_coin_is_found(world: &World, coins: &Coins) {
    let mut by_script: HashMap<&[u8], Vec<(&OutPoint, u64)>> = HashMap::new();
    for (outpoint, (value_sat, height, coinbase, script)) in coins {
        by_script.entry(script).or_default().push((outpoint, *value_sat));
        let told = world.call("gettxout", &format!("[\"{}\",{}]", outpoint.txid, outpoint.vout)).unwrap();
        assert_eq!(told["confirmations"], json!(BLOCKS - height + 1));
        assert_eq!((amount(&told["value"]), &told["coinbase"]), (*value_sat as i64, &json!(coinbase)));
    }
    let params = Params::of(primitives::Network::Regtest);
    for (script, want) in by_script.iter().take(100) {
        let named = address::of_script(script, &params);
        let descriptor = named.map_or(format!("raw({})", hex::encode(script)), |address| format!("addr({address})"));
        let told = world.call("scantxoutset", &format!("[\"start\",[\"{descriptor}\"]]")).unwrap();
        assert_eq!(told["unspents"].as_array().unwrap().len(), want.len(), "{descriptor}");
        assert_eq!(amount(&told["total_amount"]), want.iter().map(|(_, sat)| *sat as i64).sum::<i64>());
    }
}

#[test]
fn proofs_of_every_transaction_verify() {
    let world = World::new("proofs");
    for block in world.blocks.iter().skip(100) {
        let txids: Vec<String> = block.txs().map(|tx| tx.txid().to_string()).collect();
        for wanted in [&txids[..1], &txids[..], &txids[txids.len() - 1..]] {
            let proof = world.call("gettxoutproof", &format!("[{}]", json!(wanted))).unwrap();
            assert_eq!(world.call("verifytxoutproof", &format!("[{proof}]")).unwrap(), json!(wanted));
        }
    }
}

#[test]
fn what_is_signed_with_keys_is_valid() {
    let world = World::new("signing");
    // The private key 1, in two forms.
    let key = "cMahea7zqjxrtgAbB7LSGbcQUr1uX1ojuat9jZodMN87JcbXMTcA";
    let point = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";
    let second = "cMahea7zqjxrtgAbB7LSGbcQUr1uX1ojuat9jZodMN87K7XCyj5v";
    let second_point = "02c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5";
    let multi = world.call("createmultisig", &format!("[2,[\"{point}\",\"{second_point}\"]]")).unwrap();
    let redeem = multi["redeemScript"].as_str().unwrap().to_owned();
    let nested = world.call("createmultisig", &format!("[1,[\"{second_point}\"],\"p2sh-segwit\"]")).unwrap();
    let witness = nested["redeemScript"].as_str().unwrap().to_owned();
    let short = &point[2..];
    let lock = |descriptor: &str| {
        let scan = world.call("scantxoutset", &format!("[\"start\",[\"{descriptor}\"]]"));
        scan.unwrap();
        let parsed = serve::keys::descriptor::parse(descriptor, &world.env.params, false).unwrap();
        hex::encode(&parsed.scripts(0, &world.env.params).unwrap()[0].0)
    };
    let rows = [
        (lock(&format!("pk({point})")), ""),
        (lock(&format!("pkh({point})")), ""),
        (lock(&format!("wpkh({point})")), ""),
        (lock(&format!("sh(wpkh({point}))")), ""),
        (lock(&format!("tr({short})")), ""),
        (lock(&format!("rawtr({short})")), ""),
        (lock(&format!("multi(2,{point},{second_point})")), ""),
        (lock(&format!("sh(multi(2,{point},{second_point}))")), redeem.as_str()),
        (lock(&format!("wsh(multi(2,{point},{second_point}))")), redeem.as_str()),
        (lock(&format!("sh(wsh(multi(1,{second_point})))")), witness.as_str()),
    ];
    let (mut inputs, mut previous) = (Vec::new(), Vec::new());
    for (vout, (script, inner)) in rows.iter().enumerate() {
        let txid = "22".repeat(32);
        inputs.push(json!({ "txid": txid, "vout": vout }));
        let mut coin = json!({ "txid": txid, "vout": vout, "scriptPubKey": script, "amount": 1.5 });
        if script.starts_with("a914") && inner.is_empty() {
            coin["redeemScript"] = json!(lock(&format!("wpkh({point})")));
        } else if !inner.is_empty() {
            coin[if script.starts_with("0020") || *inner == witness { "witnessScript" } else { "redeemScript" }] =
                json!(inner);
        }
        previous.push(coin);
    }
    let outputs = json!([{ "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080": 10 }]);
    let raw = world.call("createrawtransaction", &json!([inputs, outputs]).to_string()).unwrap();
    for kind in ["DEFAULT", "ALL", "NONE", "SINGLE|ANYONECANPAY"] {
        // One key signs what it can, the second the rest.
        let half = world.call("signrawtransactionwithkey", &json!([raw, [key], previous, kind]).to_string()).unwrap();
        assert_eq!(half["complete"], json!(false));
        let told = half["errors"].as_array().unwrap();
        let incomplete = if kind.starts_with("SINGLE") { rows.len() - 1 } else { 4 };
        assert!(told.len() >= incomplete.min(4), "{told:?}");
        let whole =
            world.call("signrawtransactionwithkey", &json!([half["hex"], [second], previous, kind]).to_string());
        let whole = whole.unwrap();
        if kind.starts_with("SINGLE") {
            // Only the first input has an output at its position.
            assert_eq!(whole["complete"], json!(false));
            continue;
        }
        assert_eq!(whole["complete"], json!(true), "{kind}: {}", whole["errors"]);
        let both = world.call("signrawtransactionwithkey", &json!([raw, [key, second], previous, kind]).to_string());
        assert_eq!(both.unwrap()["hex"], whole["hex"], "{kind}");
    }
}
