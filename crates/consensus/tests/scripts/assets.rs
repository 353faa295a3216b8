//! The script assets: 2,760 spends that Bitcoin Core's functional test of taproot produced.
//!
//! In:     `../shared/vectors/scripts/script_assets.json.xz`.
//! Out:    `success` is valid and `failure` is not; a `final` success is valid under every subset of its flags.
//! Fails:  says "skipped" where the file is not on this machine.
//! Source: Core's test/script_assets_tests.cpp.

use consensus::Flags;
use primitives::{SpentCoins, Transaction};
use serde_json::Value;
use stdx::bytes::Reader;
use stdx::hex;

use crate::published::{flags, shared};
use crate::raw::{RawInput, RawTx, coins, one_input};

#[test]
fn script_assets() {
    let Some(path) = shared("scripts/script_assets.json.xz") else { return };
    let mut json = Vec::new();
    lzma_rs::xz_decompress(&mut std::io::BufReader::new(std::fs::File::open(path).unwrap()), &mut json).unwrap();
    let file: Value = serde_json::from_slice(&json).unwrap();
    let rows = file.as_array().unwrap();
    assert_eq!(rows.len(), 2760);
    let (mut good, mut bad, mut by_template) = (0, 0, 0);
    for row in rows {
        let rules = flags(row["flags"].as_str().unwrap());
        assert!(!rules.any_policy(), "{row}");
        let coins = prevouts(row);
        if let Some(tx) = spend(row, "success") {
            for rules in subsets(rules, row["final"] == true) {
                by_template += check(&tx, &coins, rules, row, true);
            }
            // By the rules of a mempool both judges must agree, whatever they say.
            one_input(tx.tx(), &coins, row["index"].as_u64().unwrap() as usize, Flags::STANDARD);
            good += 1;
        }
        if let Some(tx) = spend(row, "failure") {
            // Fewer rules may accept it.
            check(&tx, &coins, rules, row, false);
            bad += 1;
        }
    }
    println!("script_assets: {good} valid, {bad} invalid spends; {by_template} verdicts by a template");
    assert!(good > 2000 && bad > 2000 && by_template > 1000, "{good} {bad} {by_template}");
}

/// Judges the row's input; the others are signed for other spends.
fn check(tx: &Transaction, coins: &SpentCoins, rules: Flags, row: &Value, want: bool) -> u64 {
    let index = row["index"].as_u64().unwrap() as usize;
    let (verdict, by_template) = one_input(tx.tx(), coins, index, rules);
    assert_eq!(verdict, want, "{rules:?} {row}");
    by_template
}

/// All flags; for a final row, also without each of them (and without what needs it).
fn subsets(rules: Flags, is_final: bool) -> Vec<Flags> {
    let mut all = vec![rules];
    if is_final {
        let bits = (0..32).map(|bit| 1 << bit).filter(|bit| rules.0 & bit != 0);
        all.extend(bits.map(|bit| trimmed(Flags(rules.0 & !bit))));
    }
    all
}

fn trimmed(mut rules: Flags) -> Flags {
    if !rules.has(Flags::P2SH) {
        rules = Flags(rules.0 & !Flags::WITNESS.0);
    }
    if !rules.has(Flags::WITNESS) {
        rules = Flags(rules.0 & !Flags::TAPROOT.0);
    }
    rules
}

fn prevouts(row: &Value) -> SpentCoins {
    let outputs: Vec<Vec<u8>> =
        row["prevouts"].as_array().unwrap().iter().map(|text| hex::decode(text.as_str().unwrap()).unwrap()).collect();
    coins(outputs.iter().map(|output| {
        let mut reader = Reader::new(output);
        let value_sat = reader.u64().unwrap();
        let length = primitives::encode::compact_size(&mut reader).unwrap() as usize;
        (value_sat, reader.take(length).unwrap())
    }))
}

/// The row's transaction with the input script and witness of `kind`.
fn spend(row: &Value, kind: &str) -> Option<Transaction> {
    let parts = row.get(kind)?;
    let bytes = hex::decode(row["tx"].as_str().unwrap()).unwrap();
    let unsigned = Transaction::parse(bytes).unwrap();
    let tx = unsigned.tx();
    let input = |input: primitives::Input<'_>| RawInput {
        outpoint: *input.outpoint_bytes(),
        script_sig: input.script_sig().to_vec(),
        sequence: input.sequence(),
        witness: input.witness().map(<[u8]>::to_vec).collect(),
    };
    let mut raw = RawTx {
        version: tx.version(),
        inputs: tx.inputs().map(input).collect(),
        outputs: tx.outputs().map(|output| (output.value_sat, output.script.to_vec())).collect(),
        lock_time: tx.lock_time(),
    };
    let subject = &mut raw.inputs[row["index"].as_u64().unwrap() as usize];
    subject.script_sig = hex::decode(parts["scriptSig"].as_str().unwrap()).unwrap();
    subject.witness =
        parts["witness"].as_array().unwrap().iter().map(|item| hex::decode(item.as_str().unwrap()).unwrap()).collect();
    Some(raw.parse())
}
