//! All engines at once, as one engine that panics where they differ: for tests of what is built on engines.
//!
//! In:     rows; calls of any size.
//! Out:    the verdicts all engines agree on; a proof of all that is good, and the hints that were learnt.
//! Fails:  with a panic that has the row, where an engine differs from libsecp256k1.
//!
//! A test's calls have a row or two, which a vector engine leaves to libsecp256k1. Here good rows of other signers go
//! along, before and after, so that each engine decides every row itself, in any of its lanes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::check::{Check, Hint};
use crate::engine::{Counters, Engine, EngineName, eager_batch, engine};
use crate::fuzz::{Kind, fuzz_checks};
use crate::scalar::ScalarEngine;

/// Rows in a call: two groups of eight in the lanes, and a batch that is worth summing.
const ROWS: usize = 16;

/// Every engine of this machine.
pub struct Jury {
    judge: ScalarEngine,
    jurors: Vec<Arc<dyn Engine>>,
    company: Vec<Check>,
    calls: AtomicUsize,
}

impl Default for Jury {
    fn default() -> Jury {
        Jury::new()
    }
}

impl Jury {
    /// With every engine there is.
    pub fn new() -> Jury {
        let jurors = [engine(EngineName::Lanes), eager_batch()].into_iter().filter_map(Result::ok);
        let ordinary = |(kind, check): &(Kind, Check)| match check {
            Check::Ecdsa { key, .. } => *kind == Kind::Ecdsa && key.as_slice().len() == 33,
            Check::Schnorr { .. } => *kind == Kind::Schnorr,
        };
        let company = fuzz_checks(1, 1000).into_iter().filter(ordinary).map(|(_, check)| check).collect();
        Jury { judge: ScalarEngine::default(), jurors: jurors.collect(), company, calls: AtomicUsize::default() }
    }

    /// What each engine has done, the judge first.
    pub fn engines(&self) -> Vec<(&'static str, Counters)> {
        let judge: &dyn Engine = &self.judge;
        let jurors = self.jurors.iter().map(|engine| &**engine);
        std::iter::once(judge).chain(jurors).map(|engine| (engine.name(), engine.counters())).collect()
    }

    /// The rows in company, and where they begin in it.
    fn accompany(&self, checks: &[Check], call: usize) -> (Vec<Check>, usize) {
        let others = ROWS.saturating_sub(checks.len()).min(self.company.len());
        let before = if others == 0 { 0 } else { call % (others + 1) };
        ([&self.company[..before], checks, &self.company[before..others]].concat(), before)
    }

    /// libsecp256k1's verdicts.
    fn truth(&self, checks: &[Check]) -> Vec<bool> {
        let mut truth = vec![false; checks.len()];
        self.judge.verify(checks, &mut truth);
        truth
    }
}

impl Engine for Jury {
    fn name(&self) -> &'static str {
        "jury"
    }

    fn verify(&self, checks: &[Check], verdicts: &mut [bool]) {
        assert_eq!(checks.len(), verdicts.len(), "a verdict for each row");
        let call = self.calls.fetch_add(1, Relaxed);
        verdicts.copy_from_slice(&self.truth(checks));
        for engine in &self.jurors {
            let (all, first) = self.accompany(checks, call);
            let mut got = vec![false; all.len()];
            engine.verify(&all, &mut got);
            for (check, (got, want)) in checks.iter().zip(got[first..].iter().zip(&*verdicts)) {
                assert_eq!(got, want, "engine {} left, libsecp256k1 right: {check:x?}", engine.name());
            }
        }
    }

    fn prove(&self, checks: &[Check], hints: &mut [Hint], proved: &mut [bool]) {
        assert!(checks.len() == hints.len() && checks.len() == proved.len(), "a hint and a place for each row");
        let call = self.calls.fetch_add(1, Relaxed);
        proved.copy_from_slice(&self.truth(checks));
        let (truth, given) = (proved.to_vec(), hints.to_vec());
        for engine in &self.jurors {
            let (all, first) = self.accompany(checks, call);
            let here = first..first + checks.len();
            let mut told = vec![Hint::Unknown; all.len()];
            told[here.clone()].copy_from_slice(&given);
            let mut got = vec![false; all.len()];
            engine.prove(&all, &mut told, &mut got);
            for (check, (got, good)) in checks.iter().zip(got[here.clone()].iter().zip(&truth)) {
                assert!(!got || *good, "engine {} proves what libsecp256k1 refuses: {check:x?}", engine.name());
            }
            for (hint, told) in hints.iter_mut().zip(&told[here]).filter(|(_, told)| **told != Hint::Unknown) {
                *hint = *told;
            }
        }
    }

    fn counters(&self) -> Counters {
        self.judge.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::self_test;

    #[test]
    fn every_engine_decides_the_smallest_call() {
        let jury = Jury::new();
        let (rows, want) = self_test::rows();
        for (check, want) in rows.iter().zip(want) {
            let mut verdict = [!want];
            jury.verify(&[*check], &mut verdict);
            assert_eq!(verdict, [want]);
            let mut proved = [!want];
            jury.prove(&[*check], &mut [Hint::Unknown], &mut proved);
            assert!(want || !proved[0]);
        }
        let engines = jury.engines();
        assert_eq!(engines[0].1.checks, 2 * rows.len() as u64, "{engines:?}");
        for (name, counters) in &engines[1..] {
            let by_itself = counters.accepted - counters.fallbacks.min(counters.accepted);
            assert!(counters.checks >= 2 * (ROWS * rows.len()) as u64 && by_itself > 0, "{name}: {counters:?}");
        }
    }
}
