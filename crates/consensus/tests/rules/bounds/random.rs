//! Blocks at random, judged beside Core's `CheckBlock`.
//!
//! In:     a seed.
//! Out:    the same kind of verdict from both, for thousands of blocks; the same count of signature operations.
//! Fails:  where one differs; the seed and the round say which.

use consensus::{MONEY_SAT_MAX, sigops};
use primitives::OutPoint;
use stdx::random::Random;

use super::block::check_beside_core;
use crate::forge::{ForgedBlock, ForgedTx, input};

/// Bytes that look like a script: mostly operations that matter, pushes that fit and pushes that do not.
fn script(random: &mut Random, length_max: u64) -> Vec<u8> {
    let mut script = Vec::new();
    let length = random.below(length_max + 1);
    while (script.len() as u64) < length {
        match random.below(8) {
            0 => script.push(random.next_u64() as u8),
            1 => script.extend(0x51 + random.below(16) as u8..=0x60),
            2 => script.extend_from_slice(&[0x4c + random.below(3) as u8, random.below(4) as u8, 0, 0, 0]),
            3 => {
                let push = random.below(76) as u8;
                script.push(push);
                script.extend((0..push).map(|_| 0xac));
            }
            // The usual shapes, whole or with one byte changed.
            4 => {
                let shapes = [
                    [&[0x76, 0xa9, 20][..], &[0; 20], &[0x88, 0xac]].concat(),
                    [&[0xa9, 20][..], &[0; 20], &[0x87]].concat(),
                    [&[0, 20][..], &[0xac; 20]].concat(),
                    [&[0x51, 32][..], &[0xae; 32]].concat(),
                    [&[71][..], &[0xac; 71], &[33], &[0xac; 33]].concat(),
                ];
                let mut shape = shapes[random.below(5) as usize].clone();
                if random.chance(1, 2) {
                    let at = random.below(shape.len() as u64) as usize;
                    shape[at] = random.next_u64() as u8;
                }
                if random.chance(1, 2) {
                    script.clear();
                    return shape;
                }
                script.append(&mut shape);
            }
            _ => script.push(0xac + random.below(4) as u8),
        }
    }
    script
}

fn amount(random: &mut Random) -> i64 {
    let money = MONEY_SAT_MAX as i64;
    match random.below(40) {
        0 => -1,
        1 => money,
        2 => money + 1,
        3 => money / 2,
        _ => random.below(1 << 40) as i64,
    }
}

fn transaction(random: &mut Random) -> ForgedTx {
    let mut tx = ForgedTx::spending([]);
    let (inputs, outputs) = (random.below(13), random.below(6));
    let pool = if random.chance(1, 12) { 40 } else { 1 << 30 };
    tx.inputs.extend((0..inputs + u64::from(random.chance(9, 10))).map(|_| input(random.below(pool) as u32)));
    for input in &mut tx.inputs {
        input.script_sig = script(random, 30);
        if random.chance(1, 60) {
            input.outpoint = OutPoint::NULL;
        }
    }
    tx.outputs = (0..outputs + u64::from(random.chance(9, 10))).map(|_| (amount(random), script(random, 30))).collect();
    tx
}

#[test]
fn random_blocks_get_the_verdicts_of_core() {
    let mut random = Random::new(2_008);
    let (mut valid, mut rules) = (0, std::collections::BTreeSet::new());
    for _ in 0..3_000 {
        let count = random.below(4);
        let mut forged = ForgedBlock::of((0..count).map(|_| transaction(&mut random)));
        let coinbase = &mut forged.txs[0].inputs[0];
        match random.below(12) {
            0 => coinbase.script_sig = vec![0; random.below(104) as usize],
            1 => drop(forged.txs.remove(0)),
            2 => forged.txs.extend(forged.txs.last().cloned()),
            3 => forged.root = Some([random.next_u64() as u8; 32]),
            4 => forged.bits = random.next_u64() as u32,
            _ => {}
        }
        // A transaction without inputs cannot be told from one with witnesses, and does not parse.
        forged.txs.retain(|tx| !tx.inputs.is_empty());
        match check_beside_core(forged.seal()) {
            Ok(_) => valid += 1,
            Err(error) => drop(rules.insert(error.rule())),
        }
    }
    assert!(valid > 300 && rules.len() >= 12, "{valid} valid, {rules:?}");
}

/// Core says nothing of its counts but where their sum passes 20,000: scripts are filled up to exactly that.
#[test]
fn signature_operations_are_counted_as_core_counts_them() {
    let mut random = Random::new(20_000);
    for round in 0..400 {
        let (script_sig, output) = (script(&mut random, 400), script(&mut random, 400));
        let counted = sigops::count_input(&script_sig) + sigops::count_output(&output);
        let plain = sigops::count(&script_sig, false) + sigops::count(&output, false);
        assert_eq!(counted, plain, "{round}");
        for (over, want) in [(0, true), (1, false)] {
            let mut tx = ForgedTx::spending([1]);
            tx.inputs[0].script_sig = script_sig.clone();
            tx.outputs = vec![(0, output.clone()), (0, vec![0xac; 20_000 + over - counted as usize])];
            let verdict = check_beside_core(ForgedBlock::of([tx]).seal());
            assert_eq!(verdict.is_ok(), want, "round {round}: {:?}", verdict.err());
        }
    }
}
