//! A signature engine that learns hints, and looks closely at those it is given.
//!
//! In:     rows, as for any engine; an engine to ask, or none to believe every row.
//! Out:    that engine's verdicts; hints; [`Seen`], what came with the rows.
//! Fails:  panics where a row that needs none comes with a hint.
//!
//! Any bit that depends on all of a row serves as its parity: what is tested is that it comes back with the same row.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sigs::{Check, Counters, Engine, Hint};
use stdx::checksum::checksum;

/// The engine.
#[derive(Default)]
pub struct Learner {
    inner: Option<Arc<dyn Engine>>,
    schnorr: AtomicU64,
    ecdsa: AtomicU64,
    proved: AtomicU64,
    right: AtomicU64,
    wrong: AtomicU64,
}

/// Rows seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// BIP 340 rows.
    pub schnorr: u64,
    /// ECDSA rows.
    pub ecdsa: u64,
    /// ECDSA rows proved.
    pub proved: u64,
    /// ECDSA rows that came with their own hint.
    pub right: u64,
    /// ECDSA rows that came with another one.
    pub wrong: u64,
}

impl Learner {
    /// Asks this engine for verdicts.
    pub fn asking(engine: Arc<dyn Engine>) -> Learner {
        Learner { inner: Some(engine), ..Learner::default() }
    }

    /// Believes every row: for tests in which signatures only cost time.
    pub fn believing() -> Learner {
        Learner::default()
    }

    /// What it has seen.
    pub fn seen(&self) -> Seen {
        let load = |count: &AtomicU64| count.load(Relaxed);
        Seen {
            schnorr: load(&self.schnorr),
            ecdsa: load(&self.ecdsa),
            proved: load(&self.proved),
            right: load(&self.right),
            wrong: load(&self.wrong),
        }
    }
}

/// The hint of a row; BIP 340 has none.
fn hint_of(check: &Check) -> Option<Hint> {
    let Check::Ecdsa { key, signature, message } = check else { return None };
    let bit = checksum(1, &[key.as_slice(), signature, message].concat()) & 1;
    Some(if bit == 1 { Hint::Odd } else { Hint::Even })
}

impl Engine for Learner {
    fn name(&self) -> &'static str {
        "learner"
    }

    fn verify(&self, checks: &[Check], verdicts: &mut [bool]) {
        match &self.inner {
            Some(inner) => inner.verify(checks, verdicts),
            None => verdicts.fill(true),
        }
    }

    fn prove(&self, checks: &[Check], hints: &mut [Hint], proved: &mut [bool]) {
        match &self.inner {
            Some(inner) => inner.prove(checks, &mut vec![Hint::Unknown; checks.len()], proved),
            None => proved.fill(true),
        }
        for ((check, hint), proved) in checks.iter().zip(hints).zip(proved) {
            let Some(own) = hint_of(check) else {
                assert_eq!(*hint, Hint::Unknown, "BIP 340 needs no hint");
                self.schnorr.fetch_add(1, Relaxed);
                continue;
            };
            self.ecdsa.fetch_add(1, Relaxed);
            self.right.fetch_add(u64::from(*hint == own), Relaxed);
            self.wrong.fetch_add(u64::from(*hint != own && *hint != Hint::Unknown), Relaxed);
            if *proved {
                self.proved.fetch_add(1, Relaxed);
                *hint = own;
            }
        }
    }

    fn counters(&self) -> Counters {
        self.inner.as_ref().map_or_else(Counters::default, |inner| inner.counters())
    }
}
