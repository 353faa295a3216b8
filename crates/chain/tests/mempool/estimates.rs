//! Fee estimates: streams whose answer is plain.
//!
//! In:     transactions at ten feerates, blocks that confirm the dear ones at once and the cheap ones late.
//! Out:    the feerate where they part.
//! Fails:  with the target.

use chain::estimates::{Estimates, EstimatesError, Span};
use chain::policy::FeeRate;
use primitives::Txid;
use primitives::hash::sha256;

/// Levels of 1,000 to 10,000 satoshi for 1,000 virtual bytes, 4 transactions each in every block. From level `dear` on
/// they are confirmed by the next block, others 8 blocks later, and those of the first level never where `starving`.
fn learnt(blocks: u32, dear: u32, starving: bool) -> Estimates {
    let mut estimates = Estimates::default();
    let mut waiting: Vec<(Txid, u32, f64, u32)> = Vec::new();
    estimates.block(100, Vec::new());
    for height in 101..101 + blocks {
        for level in 1..=10 {
            for copy in 0..4 {
                let txid = Txid(sha256(&[height.to_le_bytes(), [level as u8, copy, 0, 0]].concat()));
                let rate = f64::from(level) * 1_000.0;
                estimates.watch(txid, height - 1, rate);
                let due = if level >= dear { height } else { height + 8 };
                let due = if starving && level == 1 { u32::MAX } else { due };
                waiting.push((txid, height - 1, rate, due));
            }
        }
        let due = |one: &mut (Txid, u32, f64, u32)| one.3 <= height;
        let confirmed = waiting.extract_if(.., due).map(|(txid, since, rate, _)| (txid, since, rate)).collect();
        estimates.block(height, confirmed);
    }
    estimates
}

fn rate(estimates: &Estimates, target: u32, cautious: bool) -> f64 {
    estimates.smart(target, cautious).0.unwrap_or(FeeRate::ZERO).sat_per_kvb() as f64
}

#[test]
fn the_answer_is_where_early_and_late_part() {
    let estimates = learnt(300, 6, false);
    for cautious in [false, true] {
        for target in [1, 2, 4] {
            let rate = rate(&estimates, target, cautious);
            assert!((6_000.0..=6_300.0).contains(&rate), "{target} {cautious}: {rate}");
        }
        for target in [20, 40, 100] {
            let rate = rate(&estimates, target, cautious);
            assert!((1_000.0..=1_050.0).contains(&rate), "{target} {cautious}: {rate}");
        }
        let rates: Vec<f64> = (2..=140).map(|target| rate(&estimates, target, cautious)).collect();
        assert!(rates.windows(2).all(|pair| pair[1] <= pair[0]), "{rates:?}");
    }
    assert_eq!(estimates.smart(0, true), (None, 0));
    assert_eq!(estimates.smart(1_009, true), (None, 1_009));
    // 300 blocks were seen, so that 150 is the highest target that they say something about.
    assert_eq!((estimates.target_usable(), estimates.smart(1_008, false).1), (149, 149));
    let raw = estimates.raw(2, 0.95, Span::Short).unwrap();
    let fail = raw.fail.unwrap();
    let pass = raw.pass.unwrap();
    assert!(pass.within_target > 0.95 * pass.confirmed && fail.end < 6_000.0 && fail.within_target < 1.0);
    assert!(estimates.raw(13, 0.5, Span::Short).is_none() && estimates.raw(12, 0.5, Span::Short).is_some());
    assert_eq!(Span::ALL.map(|span| estimates.target_max(span)), [12, 48, 1_008]);
}

#[test]
fn what_is_never_confirmed_is_no_answer() {
    let mut estimates = learnt(300, 1, true);
    let before = rate(&estimates, 40, true);
    assert!(before >= 2_000.0, "{before}");
    // Those that leave unconfirmed still count.
    estimates.unwatch_all();
    assert!(rate(&estimates, 40, true) >= 2_000.0);
}

#[test]
fn nothing_is_said_before_enough_was_seen() {
    assert_eq!(Estimates::default().smart(6, true).0, None);
    assert_eq!(learnt(3, 1, false).smart(2, true).0, None);
    assert!(learnt(40, 1, false).smart(2, true).0.is_some());
}

#[test]
fn a_file_keeps_what_was_learnt() {
    let estimates = learnt(300, 6, false);
    let bytes = estimates.encode();
    let read = Estimates::decode(&bytes).unwrap();
    assert_eq!(read.encode(), bytes);
    // What waited is not kept, so the dear side may only get better.
    assert_eq!(rate(&read, 100, true), rate(&estimates, 100, true));
    assert_eq!(read.target_usable(), 149);
    assert_eq!(Estimates::decode(&[]).err(), Some(EstimatesError::Unknown));
    for end in [8, 100, bytes.len() - 1] {
        assert_eq!(Estimates::decode(&bytes[..end]).err(), Some(EstimatesError::Damaged), "{end}");
    }
    let mut changed = bytes.clone();
    changed[5_000] ^= 1;
    assert_eq!(Estimates::decode(&changed).err(), Some(EstimatesError::Damaged));
}
