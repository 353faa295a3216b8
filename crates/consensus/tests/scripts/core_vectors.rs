//! Bitcoin Core's own vectors: scripts, transactions, signature hashes, taproot wallets.
//!
//! In:     script_tests.json, tx_valid.json, tx_invalid.json, sighash.json, bip341_wallet_vectors.json.
//! Out:    the published verdicts and hashes.
//! Fails:  says "skipped" where the package's sources are not on this machine.
//!
//! Rows that name SIGPUSHONLY are left out: neither blocks nor mempools are judged by it. Every row is judged a second
//! time by all rules of a mempool, where templates and interpreter must agree.

use std::collections::HashMap;

use consensus::Flags;
use consensus::script::{Sighasher, TxCoins};
use primitives::hash::sha256d;
use primitives::{OutPoint, Transaction};
use serde_json::Value;
use stdx::hex;

use crate::published::{core_json, flags, script};
use crate::raw::{RawInput, RawTx, coins, judge};
use crate::spends::{Leaf, Tree};

/// The transaction that spends a coin of `value_sat` under `script` (Core: `BuildSpendingTransaction`).
fn spending(script: &[u8], value_sat: i64, script_sig: Vec<u8>, witness: Vec<Vec<u8>>) -> Transaction {
    let input = |outpoint: OutPoint, script_sig, witness| RawInput {
        outpoint: outpoint.encode(),
        script_sig,
        sequence: u32::MAX,
        witness,
    };
    let one = |input, output| RawTx { version: 1, inputs: vec![input], outputs: vec![output], lock_time: 0 };
    let credit = one(input(OutPoint::NULL, vec![0, 0], vec![]), (value_sat, script.to_vec()));
    let outpoint = OutPoint { txid: credit.parse().tx().txid(), vout: 0 };
    one(input(outpoint, script_sig, witness), (value_sat, vec![])).parse()
}

/// Witness items of a row; the marks of generated tapscripts are filled in, and give the output script.
fn witness(items: &[Value]) -> (Vec<Vec<u8>>, Option<Vec<u8>>) {
    // Core's key0 is the number one.
    let internal = secp256k1::SecretKey::from_secret_bytes(hex::decode_array(&format!("{:064x}", 1)).unwrap()).unwrap();
    let (mut stack, mut output) = (Vec::new(), None);
    for item in items {
        let text = item.as_str().unwrap();
        if let Some(words) = text.strip_prefix("#SCRIPT#") {
            stack.push(script(words));
        } else if text == "#CONTROLBLOCK#" {
            let tree = Tree::new(&internal, &[Leaf { version: 0xc0, script: stack.last().unwrap().clone() }]);
            output = Some([&[0x51, 0x20], &tree.output_key[..]].concat());
            stack.push(tree.control(0));
        } else {
            stack.push(hex::decode(text).unwrap());
        }
    }
    (stack, output)
}

#[test]
fn script_tests() {
    let Some(file) = core_json("script_tests.json") else { return };
    let (mut published, mut policy, mut by_template, mut strict_templates) = (0, 0, 0, 0);
    for row in file.as_array().unwrap().iter().filter(|row| row.as_array().unwrap().len() > 1) {
        let (mut fields, mut stack, mut output, mut value_sat) = (&row.as_array().unwrap()[..], vec![], None, 0);
        if let Some(items) = fields[0].as_array() {
            let (amount, items) = items.split_last().unwrap();
            value_sat = (amount.as_f64().unwrap() * 1e8).round() as i64;
            (stack, output) = witness(items);
            fields = &fields[1..];
        }
        let text = |index: usize| fields[index].as_str().unwrap();
        let script_sig = script(text(0));
        let script_pubkey = output.unwrap_or_else(|| script(text(1)));
        if text(2).contains("SIGPUSHONLY") {
            continue;
        }
        let flags = flags(text(2));
        let tx = spending(&script_pubkey, value_sat, script_sig, stack);
        let coins = coins([(value_sat as u64, &script_pubkey[..])]);
        let (valid, _) = judge(tx.tx(), &coins, flags, row);
        let want = text(3) == "OK";
        assert_eq!(valid, want, "{row}");
        *if flags.any_policy() { &mut policy } else { &mut published } += 1;
        by_template += judge(tx.tx(), &coins, Flags(flags.0 & Flags::ALL.0), row).1.template_inputs;
        strict_templates += judge(tx.tx(), &coins, Flags::STANDARD, row).1.template_inputs;
    }
    println!("script_tests: {published} rows as published, {policy} with policy rules, {by_template} by a template");
    assert!(published > 200 && policy > 900 && by_template > 50, "{published} {policy} {by_template}");
    assert!((10..by_template).contains(&strict_templates), "{strict_templates} of {by_template}");
}

/// Judges every row of a transaction file by the flags `flags_of` gives.
fn transactions(name: &str, mut check: impl FnMut(&Value, &str, Transaction, primitives::SpentCoins)) {
    let Some(file) = core_json(name) else { return };
    for row in file.as_array().unwrap().iter().filter(|row| row.as_array().unwrap().len() > 1) {
        let flags = row[2].as_str().unwrap();
        if flags == "BADTX" {
            continue; // refused before any script runs; `consensus::tx` is tested with these
        }
        let mut prevouts = HashMap::new();
        for prevout in row[0].as_array().unwrap() {
            let vout = prevout[1].as_i64().unwrap() as u32;
            let outpoint = OutPoint { txid: prevout[0].as_str().unwrap().parse().unwrap(), vout };
            let value_sat = prevout.get(3).map_or(0, |value| value.as_u64().unwrap());
            prevouts.insert(outpoint, (value_sat, script(prevout[2].as_str().unwrap())));
        }
        let tx = Transaction::parse(hex::decode(row[1].as_str().unwrap()).unwrap()).unwrap();
        let spent = tx.tx().inputs().map(|input| &prevouts[&input.outpoint()]);
        let coins = coins(spent.map(|(value_sat, script)| (*value_sat, &script[..])));
        check(row, flags, tx, coins);
    }
}

#[test]
fn valid_transactions() {
    let mut count = 0;
    transactions("tx_valid.json", |row, text, tx, coins| {
        // The row names the rules it would break. What needs a rule that is left out is left out too.
        let without = flags(text);
        let mut rules = Flags(Flags::ALL.0 & !without.0);
        if !rules.has(Flags::P2SH) {
            rules = Flags(rules.0 & !Flags::WITNESS.0);
        }
        if !rules.has(Flags::WITNESS) {
            rules = Flags(rules.0 & !Flags::TAPROOT.0);
        }
        for rules in [rules, Flags(rules.0 & !Flags::TAPROOT.0), Flags::NONE] {
            assert!(judge(tx.tx(), &coins, rules, row).0, "{row}");
        }
        count += 1;
    });
    println!("tx_valid: {count} transactions");
    assert!(count == 0 || count > 100, "{count}");
}

#[test]
fn invalid_transactions() {
    let (mut published, mut policy) = (0, 0);
    transactions("tx_invalid.json", |row, text, tx, coins| {
        let rules = flags(text);
        let (valid, _) = judge(tx.tx(), &coins, rules, row);
        assert!(!valid, "{row}");
        *if rules.any_policy() { &mut policy } else { &mut published } += 1;
    });
    println!("tx_invalid: {published} transactions as published, {policy} with policy rules");
    assert!(published + policy == 0 || published > 40, "{published} {policy}");
}

/// A script without its OP_CODESEPARATORs, as Core serializes it for hashing; templates never hold one.
fn without_code_separators(script: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(&code) = script.get(at) {
        let announced = |bytes: usize| {
            let digits = script.get(at + 1..at + 1 + bytes)?;
            Some(1 + bytes + digits.iter().rev().fold(0usize, |value, &digit| value << 8 | usize::from(digit)))
        };
        let length = match code {
            1..=75 => Some(1 + usize::from(code)),
            76 => announced(1),
            77 => announced(2),
            78 => announced(4),
            _ => Some(1),
        };
        let Some(operation) = length.and_then(|length| script.get(at..at + length)) else {
            out.extend(&script[at..]);
            break;
        };
        out.extend(operation.iter().filter(|_| code != 0xab));
        at += operation.len();
    }
    out
}

#[test]
fn signature_hashes() {
    let Some(file) = core_json("sighash.json") else { return };
    let rows: Vec<&Value> = file.as_array().unwrap().iter().filter(|row| row.as_array().unwrap().len() > 1).collect();
    assert_eq!(rows.len(), 500);
    for row in rows {
        let text = |index: usize| row[index].as_str().unwrap();
        let tx = Transaction::parse(hex::decode(text(0)).unwrap()).unwrap();
        let code = without_code_separators(&hex::decode(text(1)).unwrap());
        let (input, hash_type) = (row[2].as_u64().unwrap() as usize, row[3].as_i64().unwrap() as u32);
        let coins = coins(tx.tx().inputs().map(|_| (0, &[][..])));
        let mut hasher = Sighasher::new(tx.tx(), TxCoins::new(&coins, 0, coins.len()));
        let mut got = hasher.legacy(input, &code, hash_type);
        got.reverse();
        assert_eq!(hex::encode(&got), text(4), "{row}");
    }
}

#[test]
fn taproot_wallets() {
    let Some(file) = core_json("bip341_wallet_vectors.json") else { return };
    let mut trees = 0;
    for row in file["scriptPubKey"].as_array().unwrap() {
        let script = hex::decode(row["expected"]["scriptPubKey"].as_str().unwrap()).unwrap();
        let paths = row["expected"]["scriptPathControlBlocks"].as_array().map_or(&[][..], |blocks| blocks);
        let mut leaves = Vec::new();
        collect_leaves(&row["given"]["scriptTree"], &mut leaves);
        for ((version, leaf), control) in leaves.iter().zip(paths) {
            // No signature can be made; that the commitment holds shows in the interpreter's and our common verdict on
            // a witness whose leaf is of an unknown version, which is valid once the commitment is.
            let control = hex::decode(control.as_str().unwrap()).unwrap();
            assert_eq!(control[0] & 0xfe, *version);
            let tx = spending(&script, 1000, vec![], vec![leaf.clone(), control]);
            judge(tx.tx(), &coins([(1000, &script[..])]), Flags::ALL, row);
            trees += 1;
        }
    }
    assert!(trees > 5);

    let spend = &file["keyPathSpending"][0];
    let tx = Transaction::parse(hex::decode(spend["given"]["rawUnsignedTx"].as_str().unwrap()).unwrap()).unwrap();
    let spent: Vec<(u64, Vec<u8>)> = spend["given"]["utxosSpent"].as_array().unwrap().iter().map(utxo).collect();
    let coins = coins(spent.iter().map(|(value_sat, script)| (*value_sat, &script[..])));
    let mut hasher = Sighasher::new(tx.tx(), TxCoins::new(&coins, 0, coins.len()));
    let inputs = spend["inputSpending"].as_array().unwrap();
    assert_eq!(inputs.len(), 7);
    for input in inputs {
        let index = input["given"]["txinIndex"].as_u64().unwrap() as usize;
        let hash_type = input["given"]["hashType"].as_u64().unwrap() as u8;
        let got = hasher.taproot(index, hash_type, None, None).unwrap();
        assert_eq!(hex::encode(&got), input["intermediary"]["sigHash"].as_str().unwrap(), "{input}");
    }
    let whole =
        Transaction::parse(hex::decode(spend["auxiliary"]["fullySignedTx"].as_str().unwrap()).unwrap()).unwrap();
    let (valid, work) = judge(whole.tx(), &coins, Flags::ALL, &"the fully signed transaction");
    assert!(valid);
    assert_eq!((work.inputs, work.fallback_inputs), (9, 0));
}

fn utxo(value: &Value) -> (u64, Vec<u8>) {
    (value["amountSats"].as_u64().unwrap(), hex::decode(value["scriptPubKey"].as_str().unwrap()).unwrap())
}

fn collect_leaves(tree: &Value, leaves: &mut Vec<(u8, Vec<u8>)>) {
    match tree {
        Value::Array(branches) => branches.iter().for_each(|branch| collect_leaves(branch, leaves)),
        Value::Object(leaf) => {
            let script = hex::decode(leaf["script"].as_str().unwrap()).unwrap();
            leaves.push((leaf["leafVersion"].as_u64().unwrap() as u8, script));
        }
        _ => {}
    }
}

#[test]
fn words_of_scripts_are_read_as_core_reads_them() {
    #[track_caller]
    fn check(text: &str, hex_want: &str) {
        assert_eq!(hex::encode(&script(text)), hex_want, "{text}");
    }
    check("0 -1 1 16 17 -17 127 128 -128 1000", "004f5160011101910 17f0280000280 8002e803".replace(' ', "").as_str());
    check("0x4c01 0x07 'Az' CHECKSIG OP_NOP10", "4c010702417aacb9");
    assert_eq!(sha256d(&[])[0], 0x5d);
}
