//! What a row costs in a batch, with and without vectors: an ignored test that prints a table.
//!
//! In:     nothing; ASSAY_PACE_TURNS says how many turns (default 300).
//! Out:    nanoseconds a row, of all turns the fastest, and the ratio to libsecp256k1 (parse key and signature, verify).
//! Fails:  where a batch of good rows is refused.
//! Source: docs/signatures.md, "Figures". `cargo test --release -p assay-sigs --lib pace -- --ignored --nocapture`

use super::curve::Curve;
#[cfg(target_arch = "x86_64")]
use super::lanes::LanesCurve;
use super::randomisers::Randomisers;
use super::rows::Batch;
use super::word::WordCurve;
use crate::check::{Check, Hint};
#[cfg(target_arch = "x86_64")]
use crate::lanes::vector::Ifma;
use crate::pace_tests::{LIBRARY_ROWS, fastest, rows, turns};
use crate::scalar::verify_one;
use crate::self_test::right_hint;

/// Rows of a batch.
const COUNTS: [usize; 7] = [4, 8, 16, 32, 64, 256, 1024];

/// One batch of these rows.
fn turn<C: Curve + 'static>(curve: C, checks: &[Check], hints: &[Hint]) -> impl FnMut() {
    let (mut batch, checks, hints) = (Batch::new(curve), checks.to_vec(), hints.to_vec());
    let numbers: Vec<u32> = (0..checks.len() as u32).collect();
    move || {
        assert_eq!(batch.read(&checks, &hints, &numbers), checks.len());
        assert!(batch.prove(&Randomisers::draw().unwrap()));
    }
}

#[test]
#[ignore = "a measurement"]
fn pace_of_batches() {
    for (schnorr, count) in [false, true].into_iter().flat_map(|kind| COUNTS.map(|count| (kind, count))) {
        println!("{}, batches of {count}", if schnorr { "BIP 340" } else { "ECDSA with hints" });
        let pool = rows(schnorr, count.max(LIBRARY_ROWS));
        let checks = &pool[..count];
        let hints: Vec<Hint> = checks.iter().map(right_hint).collect();
        let mut library = || assert!(pool[..LIBRARY_ROWS].iter().all(verify_one));
        let mut word = turn(WordCurve::new(), checks, &hints);
        let mut contestants: Vec<(&str, usize, &mut dyn FnMut())> =
            vec![("libsecp256k1", LIBRARY_ROWS, &mut library), ("one point at a time", count, &mut word)];
        #[cfg(target_arch = "x86_64")]
        let mut lanes = Ifma::detect().map(|seed| turn(LanesCurve::new(seed), checks, &hints));
        #[cfg(target_arch = "x86_64")]
        if let Some(lanes) = &mut lanes {
            contestants.push(("eight points at a time", count, lanes));
        }
        fastest(turns() * 64 / count.max(32) + 20, &mut contestants);
    }
}
