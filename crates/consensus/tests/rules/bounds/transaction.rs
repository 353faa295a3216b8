//! Rules about one transaction.
//!
//! In:     forged transactions.
//! Out:    verdicts on both sides of every bound.
//! Fails:  where one differs.

use std::collections::HashSet;

use consensus::{MONEY_SAT_MAX, tx};
use primitives::OutPoint;
use stdx::random::Random;

use super::Broken;
use crate::forge::{ForgedTx, input, outpoint};

fn rule(forged: &ForgedTx) -> Option<&'static str> {
    let parsed = forged.parse();
    let tx = parsed.tx();
    tx::check(&tx, &tx.txid(), &mut tx::Scratch::default()).err().map(|error| error.rule())
}

pub fn table(broken: &mut Broken) {
    let spending = ForgedTx::spending([1]);
    let money = MONEY_SAT_MAX as i64;
    let mut check = |what: &str, change: &dyn Fn(&mut ForgedTx), want: &str| {
        let mut forged = spending.clone();
        change(&mut forged);
        broken.note(what, rule(&forged), want);
    };
    check("as it is", &|_| {}, "");
    check("nothing at all", &|tx| (tx.inputs, tx.outputs) = (vec![], vec![]), "NoInputs");
    check("no outputs", &|tx| tx.outputs.clear(), "NoOutputs");
    check("-1 sat", &|tx| tx.outputs[0].0 = -1, "NegativeOutput");
    check("least number", &|tx| tx.outputs[0].0 = i64::MIN, "NegativeOutput");
    check("all money", &|tx| tx.outputs[0].0 = money, "");
    check("one more", &|tx| tx.outputs[0].0 = money + 1, "OutputTooLarge");
    check("greatest number", &|tx| tx.outputs[0].0 = i64::MAX, "OutputTooLarge");
    check("all money in two", &|tx| tx.outputs = vec![(money - 1, vec![]), (1, vec![])], "");
    check("one more in two", &|tx| tx.outputs = vec![(money, vec![]), (1, vec![])], "OutputSumTooLarge");
    // 4 version, 1 + 41 input, 1 + 8 + 5 output without its script, 4 lock time: 64 bytes.
    check("1,000,000 bytes", &|tx| tx.outputs[0].1 = vec![0x51; 1_000_000 - 64], "");
    check("one more", &|tx| tx.outputs[0].1 = vec![0x51; 1_000_000 - 63], "Oversize");
    check("witness does not count", &|tx| tx.inputs[0].witness = vec![vec![0; 2_000_000]], "");
    check("two that differ", &|tx| tx.inputs.push(input(2)), "");
    check("the same twice", &|tx| tx.inputs.push(input(1)), "DuplicateInput");
    let null_second = |tx: &mut ForgedTx| {
        tx.inputs.push(input(2));
        tx.inputs[1].outpoint = OutPoint::NULL;
    };
    check("a null among others", &null_second, "NullInput");
    let null_twice = |tx: &mut ForgedTx| {
        tx.inputs.push(input(2));
        tx.inputs.iter_mut().for_each(|input| input.outpoint = OutPoint::NULL);
    };
    check("two nulls are duplicates first", &null_twice, "DuplicateInput");
    let almost = OutPoint { vout: u32::MAX, ..outpoint(3) };
    check("vout of a null only", &|tx| tx.inputs[0].outpoint = almost, "");
    check("txid of a null only", &|tx| tx.inputs[0].outpoint = OutPoint { vout: 0, ..OutPoint::NULL }, "");
    for (length, want) in [(1, "CoinbaseScriptLength"), (2, ""), (100, ""), (101, "CoinbaseScriptLength")] {
        let coinbase = |tx: &mut ForgedTx| {
            *tx = ForgedTx::coinbase();
            tx.inputs[0].script_sig = vec![0; length];
        };
        check("coinbase script", &coinbase, want);
    }
}

#[test]
fn duplicates_are_found_as_a_set_finds_them() {
    let mut random = Random::new(17_144);
    for round in 0..400 {
        let count = 1 + random.below(if round % 8 == 0 { 3_000 } else { 24 }) as u32;
        let mut forged = ForgedTx::spending(0..count);
        // Neighbours of one transaction, as wallets make them, and one repeated input in half of the rounds.
        let txid = forged.inputs[0].outpoint.txid;
        forged.inputs.iter_mut().filter(|_| round % 3 == 0).for_each(|input| input.outpoint.txid = txid);
        random.shuffle(&mut forged.inputs);
        if random.chance(1, 2) {
            let (from, to) = (random.below(u64::from(count)) as usize, random.below(u64::from(count)) as usize);
            forged.inputs[to].outpoint = forged.inputs[from].outpoint;
        }
        let distinct: HashSet<OutPoint> = forged.inputs.iter().map(|input| input.outpoint).collect();
        let want = (distinct.len() < forged.inputs.len()).then_some("DuplicateInput");
        assert_eq!(rule(&forged), want, "round {round}, {count} inputs");
    }
}
