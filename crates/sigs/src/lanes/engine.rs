//! The lanes as an engine: who is accepted, who is asked again, and how the lanes are watched.
//!
//! In:     rows.
//! Out:    [`start`], the engine. `true` where the lanes accept; libsecp256k1's verdict everywhere else, so never a "no" of our own.
//! Fails:  [`EngineError`] at the start, where the processor has no kind of IFMA or the self-test goes wrong. A panic with
//!         the row, where libsecp256k1 refuses in an audit what the lanes accepted (audit.rs).
//! Source: docs/signatures.md, "Safety".

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

use super::generator::Generator;
use super::rows::{ROWS, Reader};
use super::stages::{Machine, Scratch};
#[cfg(target_arch = "x86_64")]
use super::vector::{AvxIfma, Ifma};
use super::vector::{LANES, Mask};
use crate::audit::Auditor;
use crate::check::{Check, Hint};
use crate::engine::{Counters, Engine, EngineError};
use crate::scalar::verify_one;
use crate::self_test;

/// Fewest rows for the lanes. One group of eight costs as much as two rows of libsecp256k1, whether it is full or not:
/// 2 rows are 0.9 times as fast, 3 are 1.4, 4 are 1.9, 8 are 3.8, 16 are 6.3 times as fast.
const ROWS_MIN: usize = 4;

/// The engine, on one kind of vector.
pub struct LanesEngine<M> {
    seed: M,
    generator: Arc<Generator>,
    /// Memory of calls that have ended, for calls to come: at most one a thread.
    idle: Mutex<Vec<Box<Memory<M>>>>,
    calls: AtomicU64,
    checks: AtomicU64,
    accepted: AtomicU64,
    lanes: AtomicU64,
    scalar: AtomicU64,
    fallbacks: AtomicU64,
    audits: AtomicU64,
}

/// What one call works in.
struct Memory<M> {
    scratch: Scratch<M>,
    reader: Reader,
    auditor: Auditor,
}

impl<M: Machine> Memory<M> {
    fn new(seed: M) -> Self {
        Memory { scratch: Scratch::new(seed), reader: Reader::new(), auditor: Auditor::new() }
    }
}

/// The engine on the widest vector this processor has, where it knows the known answers.
///
/// The tables and the self-test, some 10 ms, are those of the first call.
#[cfg(target_arch = "x86_64")]
pub fn start() -> Result<Arc<dyn Engine>, EngineError> {
    match (Ifma::detect(), AvxIfma::detect()) {
        (Some(seed), _) => start_on(seed),
        (None, Some(seed)) => start_on(seed),
        (None, None) => Err(EngineError::NoIfma),
    }
}

/// The engine on the vector of `seed`.
#[cfg(target_arch = "x86_64")]
fn start_on<M: Machine + Send + Sync + 'static>(seed: M) -> Result<Arc<dyn Engine>, EngineError> {
    /// One for all kinds: on one processor [`start`] always finds the same.
    static TESTED: OnceLock<Result<Arc<Generator>, EngineError>> = OnceLock::new();
    let tested = TESTED.get_or_init(|| LanesEngine::on(seed).map(|engine| engine.generator));
    Ok(Arc::new(LanesEngine::with(seed, tested.clone()?)))
}

/// No vector is known for this kind of processor.
#[cfg(not(target_arch = "x86_64"))]
pub fn start() -> Result<Arc<dyn Engine>, EngineError> {
    Err(EngineError::NoIfma)
}

impl<M: Machine> LanesEngine<M> {
    fn with(seed: M, generator: Arc<Generator>) -> Self {
        LanesEngine {
            seed,
            generator,
            idle: Mutex::default(),
            calls: AtomicU64::default(),
            checks: AtomicU64::default(),
            accepted: AtomicU64::default(),
            lanes: AtomicU64::default(),
            scalar: AtomicU64::default(),
            fallbacks: AtomicU64::default(),
            audits: AtomicU64::default(),
        }
    }

    /// The engine on this kind of vector, with tables of its own, tested.
    pub fn on(seed: M) -> Result<Self, EngineError> {
        let engine = LanesEngine::with(seed, Arc::new(M::generator(seed)));
        let mut memory = Memory::new(seed);
        let (rows, want) = self_test::rows();
        let mut got = vec![false; rows.len()];
        engine.accept(&mut memory, &rows, &mut got, None);
        match (0..rows.len()).find(|&row| got[row] != want[row]) {
            Some(row) => Err(EngineError::SelfTest { engine: "lanes", check: rows[row], want: want[row] }),
            None => Ok(engine),
        }
    }

    /// Writes to `accepted[i]` whether the lanes accept row `i`; `false` decides nothing. Pre: at most [`ROWS`] rows.
    fn accept(&self, memory: &mut Memory<M>, checks: &[Check], accepted: &mut [bool], hints: Option<&mut [Hint]>) {
        let groups = checks.len().div_ceil(LANES);
        memory.reader.read(checks, &mut memory.scratch.groups[..groups]);
        let masks = M::accept(&mut memory.scratch, &self.generator, groups, hints.is_some());
        let is_set = |masks: &[Mask], row: usize| masks[row / LANES] >> (row % LANES) & 1 == 1;
        for (row, accepted) in accepted.iter_mut().enumerate() {
            *accepted = is_set(&masks, row);
        }
        for (row, hint) in hints.into_iter().flatten().enumerate() {
            if is_set(&masks, row) && matches!(checks[row], Check::Ecdsa { .. }) {
                *hint = if is_set(&memory.scratch.odd, row) { Hint::Odd } else { Hint::Even };
            }
        }
    }

    /// As [`LanesEngine::accept`], by even shares of a call, with audits.
    fn accept_audited(&self, checks: &[Check], accepted: &mut [bool], mut hints: Option<&mut [Hint]>) {
        let idle = self.idle.lock().expect("nobody panics inside the lock").pop();
        let mut memory = idle.unwrap_or_else(|| Box::new(Memory::new(self.seed)));
        let shares = checks.len().div_ceil(ROWS);
        let share = checks.len().div_ceil(shares).next_multiple_of(LANES);
        for start in (0..checks.len()).step_by(share) {
            let rows = start..(start + share).min(checks.len());
            let hints = hints.as_deref_mut().map(|hints| &mut hints[rows.clone()]);
            self.accept(&mut memory, &checks[rows.clone()], &mut accepted[rows], hints);
        }
        let good = checks.iter().zip(accepted).filter(|(_, accepted)| **accepted).map(|(check, _)| check);
        self.audits.fetch_add(memory.auditor.audit("lanes", good), Relaxed);
        self.idle.lock().expect("nobody panics inside the lock").push(memory);
    }

    /// The lanes' verdicts, and libsecp256k1's on what they do not accept where it is to be asked.
    fn judge(&self, checks: &[Check], verdicts: &mut [bool], hints: Option<&mut [Hint]>, ask_again: bool) {
        assert_eq!(checks.len(), verdicts.len(), "a verdict for each row");
        let by_lanes = checks.len() >= ROWS_MIN;
        verdicts.fill(false);
        if by_lanes {
            self.accept_audited(checks, verdicts, hints);
        }
        let (mut lanes, mut scalar, mut others) = (0, 0, 0);
        for (check, verdict) in checks.iter().zip(verdicts) {
            if *verdict {
                lanes += 1;
            } else if ask_again {
                *verdict = verify_one(check);
                scalar += 1;
                others += u64::from(*verdict);
            }
        }
        let count = checks.len() as u64;
        self.calls.fetch_add(1, Relaxed);
        self.checks.fetch_add(count, Relaxed);
        self.accepted.fetch_add(lanes + others, Relaxed);
        self.lanes.fetch_add(lanes, Relaxed);
        self.scalar.fetch_add(scalar, Relaxed);
        self.fallbacks.fetch_add(if by_lanes { scalar } else { 0 }, Relaxed);
    }
}

impl<M: Machine + Send + Sync> Engine for LanesEngine<M> {
    fn name(&self) -> &'static str {
        "lanes"
    }

    fn instructions(&self) -> &'static str {
        M::NAME
    }

    fn verify(&self, checks: &[Check], verdicts: &mut [bool]) {
        self.judge(checks, verdicts, None, true);
    }

    fn prove(&self, checks: &[Check], hints: &mut [Hint], proved: &mut [bool]) {
        assert_eq!(checks.len(), hints.len(), "a hint for each row");
        // Too few for the lanes: libsecp256k1's yes is a proof too.
        self.judge(checks, proved, Some(hints), checks.len() < ROWS_MIN);
    }

    fn counters(&self) -> Counters {
        Counters {
            calls: self.calls.load(Relaxed),
            checks: self.checks.load(Relaxed),
            accepted: self.accepted.load(Relaxed),
            scalar: self.scalar.load(Relaxed),
            lanes: self.lanes.load(Relaxed),
            fallbacks: self.fallbacks.load(Relaxed),
            audits: self.audits.load(Relaxed),
            ..Counters::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::vector::Portable;
    use super::*;
    use crate::fuzz::{Kind, fuzz};

    /// The whole engine on one kind of vector.
    fn check_vector<M: Machine + Send + Sync>(seed: Option<M>, cases: u64) {
        let Some(seed) = seed else { return println!("skipped: this processor has no {}", M::NAME) };
        let engine = LanesEngine::on(seed).unwrap();
        assert_eq!((engine.name(), engine.instructions()), ("lanes", M::NAME));
        let report = fuzz(&[&engine], cases, 1).unwrap();
        let proofs = &report.engines[0];
        assert_eq!(proofs.ordinary, report.ordinary, "{report}");
        assert_eq!(proofs.proved[Kind::Exception as usize], 0, "{report}");
        assert!(report.good[Kind::Exception as usize] > 0 && engine.counters().lanes > cases, "{report}");
    }

    #[test]
    fn plain_rust_agrees_with_libsecp256k1() {
        check_vector(Some(Portable([0; 8])), 400);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn two_registers_agree_with_libsecp256k1() {
        check_vector(AvxIfma::detect(), 20_000);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_twin_of_two_registers_agrees_with_libsecp256k1() {
        check_vector(super::super::vector::Twin::detect(), 20_000);
    }

    #[test]
    fn calls_below_the_minimum_go_to_libsecp256k1() {
        let engine = LanesEngine::on(Portable([0; 8])).unwrap();
        let (rows, want) = self_test::rows();
        for (count, by_lanes) in [(0, false), (1, false), (ROWS_MIN - 1, false), (ROWS_MIN, true), (ROWS_MIN + 1, true)]
        {
            let before = engine.counters();
            let mut got = vec![true; count];
            engine.verify(&rows[..count], &mut got);
            assert_eq!(got, want[..count]);
            let after = engine.counters();
            assert_eq!(after.lanes > before.lanes, by_lanes, "{count} rows");
            assert_eq!(after.checks - before.checks, count as u64);
        }
    }

    #[test]
    fn proving_learns_hints_and_leaves_open_what_the_lanes_do_not_accept() {
        let engine = LanesEngine::on(Portable([0; 8])).unwrap();
        let (rows, want) = self_test::rows();
        let (mut proved, mut hints) = (vec![true; rows.len()], vec![Hint::Unknown; rows.len()]);
        engine.prove(&rows, &mut hints, &mut proved);
        let known = self_test::hints();
        for row in 0..rows.len() {
            assert_eq!(hints[row], if proved[row] { known[row] } else { Hint::Unknown }, "{:x?}", rows[row]);
        }
        assert!(proved.iter().zip(&want).all(|(proved, want)| !proved || *want));
        let counters = engine.counters();
        assert_eq!((counters.lanes, counters.fallbacks), (proved.iter().filter(|proved| **proved).count() as u64, 0));
        assert!(counters.lanes > 0);
        let few = &rows[..ROWS_MIN - 1];
        engine.prove(few, &mut vec![Hint::Unknown; few.len()], &mut proved[..few.len()]);
        assert_eq!(proved[..few.len()], want[..few.len()]);
    }
}
