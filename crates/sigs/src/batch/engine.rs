//! Batches as an engine: which rows go together, what happens when a batch fails, and how batches are watched.
//!
//! In:     rows, and hints of those of ECDSA.
//! Out:    `true` for every row of a batch whose sum is infinity; the verdict of the engine underneath for all others, so
//!         never a "no" of our own.
//! Fails:  [`EngineError`] at the start, where the self-test goes wrong or the operating system has no random bytes. A
//!         panic with the row, where libsecp256k1 refuses in an audit what a batch proved (audit.rs).
//! Source: docs/signatures.md, "Batches" and "Safety".

use std::any::TypeId;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use super::curve::Curve;
use super::randomisers::Randomisers;
use super::rows::{Batch, may_fit};
use super::sum::{WIDTHS, Windows};
use crate::audit::Auditor;
use crate::check::{Check, Hint};
use crate::engine::{Counters, Engine, EngineError};
use crate::self_test;

/// Rows a batch should have: with twice as many its points leave a second-level cache of 2 MiB.
const ROWS: usize = 1024;
/// After failures in a row, at most 2^6 times a batch's rows pass batches by.
const FAILURES_MAX: u32 = 6;

/// The engine, on one kind of arithmetic, over another engine.
pub struct BatchEngine<C> {
    curve: C,
    under: Arc<dyn Engine>,
    limits: Limits,
    randomisers: Randomisers,
    patience: Patience,
    /// Memory of calls that have ended, for calls to come: at most one a thread.
    idle: Mutex<Vec<Box<Memory<C>>>>,
    calls: AtomicU64,
    checks: AtomicU64,
    batches: AtomicU64,
    batched: AtomicU64,
    failed_batches: AtomicU64,
    audits: AtomicU64,
}

/// When batches are made.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Fewest rows of a batch; with fewer the engine underneath is faster.
    pub rows_min: usize,
    /// Whether rows pass batches by after a failure.
    pub backs_off: bool,
}

/// What one call works in.
struct Memory<C> {
    batch: Batch<C>,
    auditor: Auditor,
    /// Rows that may be fit for a batch.
    fit: Vec<u32>,
    rest: Rest,
}

/// Rows left to the engine underneath.
#[derive(Default)]
struct Rest {
    numbers: Vec<u32>,
    checks: Vec<Check>,
    hints: Vec<Hint>,
    verdicts: Vec<bool>,
}

/// How many rows pass batches by after failures.
///
/// A failed batch costs its time on top of that of the engine underneath. When it is the k-th in a row, 2^(k-1) times its
/// rows, at most 2^6 times, are not tried: whoever makes every batch fail adds at first one batch to two underlying checks
/// of each row, and in the end one to 65. Threads may disagree by a call.
#[derive(Default)]
struct Patience {
    failures: AtomicU32,
    rows_to_pass: AtomicU64,
}

impl Patience {
    /// Whether these rows pass batches by.
    fn passes(&self, rows: usize) -> bool {
        let less = |left: u64| left.checked_sub(1).map(|_| left.saturating_sub(rows as u64));
        self.rows_to_pass.fetch_update(Relaxed, Relaxed, less).is_ok()
    }

    fn record(&self, rows: usize, proved: bool) {
        if proved {
            self.failures.store(0, Relaxed);
        } else {
            let before = self.failures.fetch_add(1, Relaxed).min(FAILURES_MAX);
            self.rows_to_pass.store((rows as u64) << before, Relaxed);
        }
    }
}

/// What the self-test of each kind of arithmetic said: it makes some ninety batches, and is made once.
static TESTED: Mutex<BTreeMap<TypeId, Result<(), EngineError>>> = Mutex::new(BTreeMap::new());

impl<C: Curve + 'static> BatchEngine<C> {
    /// The engine, where it knows the known answers.
    pub fn start(curve: C, under: Arc<dyn Engine>, limits: Limits) -> Result<Self, EngineError> {
        let randomisers = Randomisers::draw().map_err(|error| EngineError::NoRandom(error.to_string()))?;
        let mut tested = TESTED.lock().expect("the self-test does not panic");
        let run = || test(&mut Batch::new(curve.clone()), &randomisers);
        tested.entry(TypeId::of::<C>()).or_insert_with(run).clone()?;
        drop(tested);
        Ok(BatchEngine {
            curve,
            under,
            limits,
            randomisers,
            patience: Patience::default(),
            idle: Mutex::default(),
            calls: AtomicU64::default(),
            checks: AtomicU64::default(),
            batches: AtomicU64::default(),
            batched: AtomicU64::default(),
            failed_batches: AtomicU64::default(),
            audits: AtomicU64::default(),
        })
    }

    /// Sets the verdicts of the rows that batches prove.
    fn prove_batches(&self, memory: &mut Memory<C>, checks: &[Check], hints: &[Hint], verdicts: &mut [bool]) {
        let Memory { batch, auditor, fit, .. } = memory;
        fit.clear();
        fit.extend((0..checks.len() as u32).filter(|&row| may_fit(&checks[row as usize], hints[row as usize])));
        for range in shares(fit.len(), self.limits.rows_min) {
            let numbers = &fit[range];
            if self.limits.backs_off && self.patience.passes(numbers.len()) {
                continue;
            }
            let count = batch.read(checks, hints, numbers);
            if count < self.limits.rows_min {
                continue;
            }
            let proved = batch.prove(&self.randomisers);
            self.patience.record(count, proved);
            self.batches.fetch_add(1, Relaxed);
            if !proved {
                self.failed_batches.fetch_add(1, Relaxed);
                continue;
            }
            batch.fit().for_each(|row| verdicts[row] = true);
            self.batched.fetch_add(count as u64, Relaxed);
            self.audits.fetch_add(auditor.audit("batch", batch.fit().map(|row| &checks[row])), Relaxed);
        }
    }

    /// Batches' proofs, and for all other rows what the engine underneath says by `ask`.
    fn judge(&self, checks: &[Check], hints: &mut [Hint], verdicts: &mut [bool], ask: Ask) {
        assert!(checks.len() == hints.len() && checks.len() == verdicts.len(), "a hint and a verdict for each row");
        verdicts.fill(false);
        let idle = self.idle.lock().expect("nobody panics inside the lock").pop();
        let mut memory = idle.unwrap_or_else(|| {
            let batch = Batch::new(self.curve.clone());
            Box::new(Memory { batch, auditor: Auditor::new(), fit: Vec::new(), rest: Rest::default() })
        });
        self.prove_batches(&mut memory, checks, hints, verdicts);
        memory.rest.ask(&*self.under, checks, hints, verdicts, ask);
        self.calls.fetch_add(1, Relaxed);
        self.checks.fetch_add(checks.len() as u64, Relaxed);
        self.idle.lock().expect("nobody panics inside the lock").push(memory);
    }
}

/// What is asked of the engine underneath.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ask {
    Verdicts,
    Proofs,
}

impl Rest {
    /// Has the rows without a yes decided by `under`, and takes over what it learns.
    fn ask(&mut self, under: &dyn Engine, checks: &[Check], hints: &mut [Hint], verdicts: &mut [bool], ask: Ask) {
        self.numbers.clear();
        self.numbers.extend((0..checks.len() as u32).filter(|&row| !verdicts[row as usize]));
        let decide = |checks: &[Check], hints: &mut [Hint], verdicts: &mut [bool]| match ask {
            Ask::Verdicts => under.verify(checks, verdicts),
            Ask::Proofs => under.prove(checks, hints, verdicts),
        };
        if self.numbers.len() == checks.len() {
            return decide(checks, hints, verdicts);
        }
        if self.numbers.is_empty() {
            return;
        }
        self.checks.clear();
        self.checks.extend(self.numbers.iter().map(|&row| checks[row as usize]));
        self.hints.clear();
        self.hints.extend(self.numbers.iter().map(|&row| hints[row as usize]));
        self.verdicts.clear();
        self.verdicts.resize(self.numbers.len(), false);
        decide(&self.checks, &mut self.hints, &mut self.verdicts);
        for (&row, (hint, verdict)) in self.numbers.iter().zip(self.hints.iter().zip(&self.verdicts)) {
            (hints[row as usize], verdicts[row as usize]) = (*hint, *verdict);
        }
    }
}

/// `count` rows in even shares of at least [`ROWS`], or one of at least `rows_min`, or none.
fn shares(count: usize, rows_min: usize) -> impl Iterator<Item = Range<usize>> {
    let shares = if count < rows_min { 0 } else { (count / ROWS).max(1) };
    (0..shares).map(move |share| count * share / shares..count * (share + 1) / shares)
}

/// Good rows must be proved with windows of every width, and not with one bit of any row or one hint changed.
fn test<C: Curve>(batch: &mut Batch<C>, randomisers: &Randomisers) -> Result<(), EngineError> {
    let (all, all_hints) = (self_test::rows().0, self_test::hints());
    let every_second = |first: usize| all.iter().copied().skip(first).step_by(2).collect::<Vec<Check>>();
    let (good, bad) = (every_second(0), every_second(1));
    let mut hints: Vec<Hint> = all_hints.into_iter().step_by(2).collect();
    let numbers: Vec<u32> = (0..good.len() as u32).collect();
    let failure =
        |row: usize, check: &[Check], want| Err(EngineError::SelfTest { engine: "batch", check: check[row], want });
    for width in WIDTHS {
        if batch.read(&good, &hints, &numbers) != good.len() || !batch.prove_by(randomisers, |_, _| Windows::of(width))
        {
            return failure(0, &good, true);
        }
    }
    let mut rows = good.clone();
    for (row, bad) in bad.iter().enumerate() {
        rows[row] = *bad;
        batch.read(&rows, &hints, &numbers);
        if batch.fit().any(|fit| fit == row) && batch.prove(randomisers) {
            return failure(row, &rows, false);
        }
        rows[row] = good[row];
    }
    for row in 0..good.len() {
        let right = hints[row];
        hints[row] = match right {
            Hint::Unknown => continue,
            Hint::Even => Hint::Odd,
            Hint::Odd => Hint::Even,
        };
        batch.read(&good, &hints, &numbers);
        if batch.prove(randomisers) {
            return failure(row, &good, false);
        }
        hints[row] = right;
    }
    Ok(())
}

impl<C: Curve + 'static> Engine for BatchEngine<C> {
    fn name(&self) -> &'static str {
        "batch"
    }

    fn instructions(&self) -> &'static str {
        self.under.instructions()
    }

    fn verify(&self, checks: &[Check], verdicts: &mut [bool]) {
        self.judge(checks, &mut vec![Hint::Unknown; checks.len()], verdicts, Ask::Verdicts);
    }

    fn prove(&self, checks: &[Check], hints: &mut [Hint], proved: &mut [bool]) {
        self.judge(checks, hints, proved, Ask::Proofs);
    }

    fn counters(&self) -> Counters {
        let (under, batched) = (self.under.counters(), self.batched.load(Relaxed));
        Counters {
            calls: self.calls.load(Relaxed),
            checks: self.checks.load(Relaxed),
            accepted: under.accepted + batched,
            audits: under.audits + self.audits.load(Relaxed),
            batches: self.batches.load(Relaxed),
            batched,
            failed_batches: self.failed_batches.load(Relaxed),
            ..under
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lanes::LanesCurve;
    use super::super::word::WordCurve;
    use super::*;
    use crate::lanes::vector::Portable;
    use crate::scalar::ScalarEngine;

    fn engine(rows_min: usize, backs_off: bool) -> BatchEngine<LanesCurve<Portable>> {
        let curve = LanesCurve::new(Portable([0; 8]));
        BatchEngine::start(curve, Arc::new(ScalarEngine::default()), Limits { rows_min, backs_off }).unwrap()
    }

    #[test]
    fn a_batch_gives_no_refusal_and_the_engine_underneath_decides() {
        let engine = engine(4, false);
        let (rows, want, hints) = (self_test::rows().0, self_test::rows().1, self_test::hints());
        let good: Vec<Check> = rows.iter().copied().step_by(2).collect();
        let mut good_hints: Vec<Hint> = hints.iter().copied().step_by(2).collect();
        let mut got = vec![false; good.len()];
        engine.prove(&good, &mut good_hints, &mut got);
        assert!(got.iter().all(|proved| *proved));
        let counters = engine.counters();
        assert_eq!((counters.batches, counters.batched, counters.scalar, counters.accepted), (1, 52, 0, 52));
        // Without hints only those of BIP 340.
        engine.verify(&good, &mut got);
        assert!(got.iter().all(|good| *good));
        let counters = engine.counters();
        assert_eq!((counters.batches, counters.batched, counters.scalar, counters.accepted), (2, 52 + 27, 25, 104));
        // A batch with bad rows fails.
        let mut got = vec![true; rows.len()];
        engine.prove(&rows, &mut hints.clone(), &mut got);
        assert_eq!(got, want);
        let counters = engine.counters();
        assert_eq!((counters.batches, counters.failed_batches, counters.batched), (3, 1, 79));
        assert_eq!((counters.calls, counters.checks, counters.scalar), (3, 208, 25 + 104));
        // Too few rows for a batch.
        engine.verify(&rows[..6], &mut got[..6]);
        assert_eq!(got[..6], want[..6]);
        assert_eq!(engine.counters().batches, 3);
    }

    #[test]
    fn one_number_at_a_time_agrees_with_libsecp256k1() {
        // The lanes teach it hints, where there are any; libsecp256k1 does not.
        let under = crate::lanes::start().unwrap_or_else(|_| Arc::new(ScalarEngine::default()));
        let limits = Limits { rows_min: 1, backs_off: false };
        let engine = BatchEngine::start(WordCurve::new(), under, limits).unwrap();
        let report = crate::fuzz(&[&engine], 10_000, 3).unwrap();
        let counters = engine.counters();
        assert!(counters.batches > counters.failed_batches && counters.batched > 100, "{counters:?} {report}");
    }

    #[test]
    fn failures_in_a_row_are_paid_for_less_and_less() {
        let patience = Patience::default();
        let mut tried = Vec::new();
        for call in 0..400 {
            if !patience.passes(10) {
                tried.push(call);
                patience.record(10, false);
            }
        }
        assert_eq!(tried, [0, 2, 5, 10, 19, 36, 69, 134, 199, 264, 329, 394]);
        patience.record(10, true);
        patience.record(10, false);
        assert!(patience.passes(1000) && !patience.passes(1));
    }

    #[test]
    fn shares_are_even_and_none_is_too_small() {
        for (count, rows_min, want) in [
            (0, 1, vec![]),
            (99, 100, vec![]),
            (100, 100, vec![100]),
            (1024, 100, vec![1024]),
            (2047, 100, vec![2047]),
            (2048, 100, vec![1024, 1024]),
            (4097, 100, vec![1024, 1024, 1024, 1025]),
        ] {
            let lengths: Vec<usize> = shares(count, rows_min).map(|share| share.len()).collect();
            assert_eq!(lengths, want, "{count} rows");
        }
    }
}
