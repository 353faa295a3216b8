//! Pure rules: dust, multisig, data, inputs, witnesses, packages.
//!
//! In:     scripts and transactions at both sides of each bound.
//! Out:    Core's words.
//! Fails:  with the row.

use chain::policy::{
    FeeRate, Policy, Reject, check_inputs, check_standard, check_witness, dust_outputs, dust_threshold_sat,
    package_hash, spends_witness_program,
};
use consensus::script::TxCoins;
use primitives::hash::sha256;
use primitives::{Coin, OutPoint, SpentCoins, Transaction, Txid, Wtxid};

use crate::world::{ANCHOR, Draft};

fn coin() -> OutPoint {
    OutPoint { txid: Txid([5; 32]), vout: 1 }
}

fn coins(scripts: &[Vec<u8>]) -> SpentCoins {
    let mut coins = SpentCoins::default();
    for script in scripts {
        coins.push(Coin { value_sat: 1_000, height: 1, coinbase: false, txo_num: 0, script });
    }
    coins
}

/// A transaction that spends one coin of a script, and Core's word about it.
#[track_caller]
fn spend(script: &[u8], script_sig: &[u8], witness: &[Vec<u8>]) -> (Transaction, SpentCoins) {
    let mut draft = Draft::new(&[coin()], &[500]);
    draft.inputs[0].2 = script_sig.to_vec();
    draft.inputs[0].3 = witness.to_vec();
    (draft.tx(), coins(&[script.to_vec()]))
}

fn p2sh(redeem: &[u8]) -> Vec<u8> {
    [&[0xa9, 20][..], &primitives::hash::hash160(redeem), &[0x87]].concat()
}

fn push(data: &[u8]) -> Vec<u8> {
    match data.len() {
        0..=75 => [&[data.len() as u8], data].concat(),
        76..=255 => [&[0x4c, data.len() as u8], data].concat(),
        length => [&[0x4d, length as u8, (length >> 8) as u8], data].concat(),
    }
}

#[test]
fn dust_depends_on_what_spending_costs() {
    #[track_caller]
    fn check(script: &[u8], want: i64) {
        assert_eq!(dust_threshold_sat(script, FeeRate::per_kvb(3_000)), want);
    }
    check(&[&[0x76, 0xa9, 20][..], &[0; 20], &[0x88, 0xac]].concat(), 546);
    check(&p2sh(&[]), 540);
    check(&[&[0, 20][..], &[0; 20]].concat(), 294);
    check(&[&[0, 32][..], &[0; 32]].concat(), 330);
    check(&[&[0x51, 32][..], &[0; 32]].concat(), 330);
    check(&ANCHOR, 240);
    check(&[0x6a, 1, 1], 0);
    let draft = Draft::new(&[coin()], &[239, 240, 0]);
    assert_eq!(dust_outputs(&draft.tx().tx(), FeeRate::per_kvb(3_000)).collect::<Vec<_>>(), [0, 2]);
}

#[test]
fn outputs_have_known_shapes() {
    let key = [&[33, 2][..], &[7; 32]].concat();
    let multisig = |m: u8, n: u8| [&[0x50 + m][..], &key.repeat(usize::from(n)), &[0x50 + n, 0xae]].concat();
    let check = |script: &[u8], policy: &Policy, want: Result<(), Reject>| {
        let mut draft = Draft::new(&[coin()], &[100_000]);
        draft.outputs[0].1 = script.to_vec();
        assert_eq!(check_standard(&draft.tx().tx(), policy), want, "{script:02x?}");
    };
    let policy = Policy::default();
    check(&multisig(1, 3), &policy, Ok(()));
    check(&multisig(3, 3), &policy, Ok(()));
    check(&multisig(1, 4), &policy, Err(Reject::OutputScript));
    check(&multisig(1, 1), &Policy { bare_multisig: false, ..policy }, Err(Reject::BareMultisig));
    check(&[0x52, 2, 1, 2], &policy, Ok(()));
    check(&[0x51], &policy, Err(Reject::OutputScript));
    check(&[0x6a, 0x61], &policy, Err(Reject::OutputScript));
    check(&[0x6a, 1, 1], &Policy { datacarrier_bytes_max: Some(4), ..policy }, Ok(()));
    check(&[0x6a, 1, 1], &Policy { datacarrier_bytes_max: Some(3), ..policy }, Err(Reject::DataCarrier));
    check(&[0x6a], &Policy { datacarrier_bytes_max: None, ..policy }, Err(Reject::DataCarrier));
}

#[test]
fn inputs_have_known_shapes_and_few_signature_operations() {
    #[track_caller]
    fn check(script: &[u8], script_sig: &[u8], want: &str) {
        let (tx, coins) = spend(script, script_sig, &[]);
        let got = check_inputs(&tx.tx(), TxCoins::new(&coins, 0, 1)).err().map_or(String::new(), |r| r.to_string());
        let want = if want.is_empty() { String::new() } else { format!("bad-txns-nonstandard-inputs, {want}") };
        assert_eq!(got, want);
    }
    check(&ANCHOR, &[], "");
    check(&[0x51], &[], "input 0 script unknown");
    check(&[0x52, 2, 1, 2], &[], "input 0 witness program is undefined");
    let sigops = |count: usize| vec![0xac; count];
    check(&p2sh(&sigops(15)), &push(&sigops(15)), "");
    let text = "p2sh redeemscript sigops exceed limit (input 0: 16 > 15)";
    check(&p2sh(&sigops(16)), &push(&sigops(16)), text);
    check(&p2sh(&[]), &[], "input 0 P2SH redeemscript missing");
    check(&p2sh(&[]), &[0x50], "p2sh scriptsig malformed (input 0: Opcode missing or not understood)");
    check(&p2sh(&[]), &push(&[0; 520]), "");
    check(&p2sh(&[]), &push(&[0; 521]), "p2sh scriptsig malformed (input 0: Push value size limit exceeded)");
    check(&p2sh(&[]), &[0; 1_000], "");
    check(&p2sh(&[]), &[0; 1_001], "p2sh scriptsig malformed (input 0: Stack size limit exceeded)");
    check(&p2sh(&[]), &[2, 1], "p2sh scriptsig malformed (input 0: Opcode missing or not understood)");
    // 167 P2SH inputs of 15 are 2,505 signature operations, of which 2,500 are let pass (BIP 54).
    for (count, want) in [(166, true), (167, false)] {
        let outpoints: Vec<OutPoint> = (0..count).map(|vout| OutPoint { vout, ..coin() }).collect();
        let mut draft = Draft::new(&outpoints, &[500]);
        draft.inputs.iter_mut().for_each(|input| input.2 = push(&sigops(15)));
        let coins = coins(&vec![p2sh(&sigops(15)); count as usize]);
        let tx = draft.tx();
        assert_eq!(check_inputs(&tx.tx(), TxCoins::new(&coins, 0, count as usize)).is_ok(), want);
    }
}

#[test]
fn witnesses_have_limits_by_their_programs() {
    #[track_caller]
    fn check(script: &[u8], script_sig: &[u8], witness: &[Vec<u8>], want: bool) {
        let (tx, coins) = spend(script, script_sig, witness);
        assert_eq!(check_witness(&tx.tx(), TxCoins::new(&coins, 0, 1)).is_ok(), want);
    }
    let p2wsh = [&[0, 32][..], &[1; 32]].concat();
    let items =
        |count: usize, bytes: usize, script: usize| [vec![vec![1; bytes]; count], vec![vec![0x51; script]]].concat();
    check(&p2wsh, &[], &items(100, 80, 3_600), true);
    check(&p2wsh, &[], &items(101, 80, 3_600), false);
    check(&p2wsh, &[], &items(100, 81, 3_600), false);
    check(&p2wsh, &[], &items(100, 80, 3_601), false);
    check(&p2sh(&p2wsh), &push(&p2wsh), &items(1, 80, 9), true);
    check(&p2sh(&p2wsh), &push(&p2wsh), &items(1, 81, 9), false);
    check(&p2sh(&p2wsh), &[], &items(1, 80, 9), false);
    check(&[&[0x76, 0xa9, 20][..], &[3; 20], &[0x88, 0xac]].concat(), &[], &items(1, 1, 1), false);
    check(&ANCHOR, &[], &[vec![]], false);
    let taproot = [&[0x51, 32][..], &[1; 32]].concat();
    let leaf = |item: usize, control: u8| vec![vec![1; item], vec![0x51], vec![control; 33]];
    check(&taproot, &[], &[vec![1; 64]], true);
    check(&taproot, &[], &[vec![1; 64], vec![0x50, 1]], false);
    check(&taproot, &[], &leaf(80, 0xc0), true);
    check(&taproot, &[], &leaf(81, 0xc1), false);
    check(&taproot, &[], &leaf(81, 0xc2), true);
    check(&taproot, &[], &[vec![0x51], vec![]], false);
}

#[test]
fn a_lost_witness_is_suspected_where_one_belongs() {
    let check = |script: &[u8], script_sig: &[u8], want: bool| {
        let (tx, coins) = spend(script, script_sig, &[]);
        assert_eq!(spends_witness_program(&tx.tx(), TxCoins::new(&coins, 0, 1)), want);
    };
    let keyhash = [&[0, 20][..], &[1; 20]].concat();
    check(&keyhash, &[], true);
    check(&ANCHOR, &[], false);
    check(&p2sh(&keyhash), &push(&keyhash), true);
    check(&p2sh(&[0x51]), &push(&[0x51]), false);
}

#[test]
fn a_package_is_named_by_its_wtxids_as_numbers() {
    // 1 < 256 as numbers, the other way round as bytes.
    let (mut one, mut large) = ([0; 32], [0; 32]);
    (one[0], large[1]) = (1, 1);
    let want = sha256(&[one, large].concat());
    assert_eq!(package_hash(&[Wtxid(large), Wtxid(one)]), want);
    assert_eq!(package_hash(&[Wtxid(one), Wtxid(large)]), want);
}
