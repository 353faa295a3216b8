//! Context-free rules of transactions against Bitcoin Core's `tx_valid.json` and `tx_invalid.json`.
//!
//! In:     the vectors that the `libbitcoinkernel-sys` package carries.
//! Out:    rows marked BADTX fail, all others pass.
//! Fails:  where a verdict differs.

use std::collections::BTreeSet;

use consensus::tx;
use primitives::Transaction;
use serde_json::Value;
use stdx::{hex, vectors};

/// Verdicts of `CheckTransaction` by row: (expected to pass, rule broken).
fn check(name: &str) -> Option<Vec<(bool, Option<&'static str>)>> {
    let Some(path) = vectors::core_source(&format!("test/data/{name}")) else {
        println!("skipped: {name} is absent");
        return None;
    };
    let rows: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut verdicts = Vec::new();
    // One-column rows are comments.
    for row in rows.iter().filter(|row| row[0].is_array()) {
        let (bytes, flags) = (row[1].as_str().unwrap(), row[2].as_str().unwrap());
        let parsed = Transaction::parse(hex::decode(bytes).unwrap()).expect("every row parses");
        let tx = parsed.tx();
        let error = tx::check(&tx, &tx.txid(), &mut tx::Scratch::default()).err();
        assert_eq!(error.is_some(), flags == "BADTX", "{name}: {bytes} {flags} {error:?}");
        verdicts.push((flags != "BADTX", error.map(|error| error.rule())));
    }
    Some(verdicts)
}

#[test]
fn vectors_of_core_get_their_verdicts() {
    if let Some(verdicts) = check("tx_valid.json") {
        assert!(verdicts.len() >= 100 && verdicts.iter().all(|row| row.0), "{}", verdicts.len());
    }
    if let Some(verdicts) = check("tx_invalid.json") {
        let rules: BTreeSet<_> = verdicts.iter().filter_map(|row| row.1).collect();
        assert!(verdicts.len() >= 80 && rules.len() >= 7, "{} {rules:?}", verdicts.len());
    }
}
