//! The lanes as an engine: who is accepted, who is asked again, and how the lanes are watched.
//!
//! In:     rows.
//! Out:    `true` where the lanes accept; libsecp256k1's verdict everywhere else, so never a "no" of our own.
//! Fails:  [`EngineError`] at the start, where the processor lacks AVX-512 IFMA or the self-test goes wrong. A panic with
//!         the row, where libsecp256k1 refuses in an audit what the lanes accepted: nothing decided since is certain.
//! Source: docs/signatures.md, "Safety".

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

use stdx::random::Random;

use super::generator::Generator;
use super::rows::{ROWS, Reader};
use super::stages::{Machine, Scratch};
use super::vector::LANES;
use crate::check::Check;
use crate::engine::{Counters, Engine, EngineError};
use crate::scalar::verify_one;
use crate::self_test;

/// Fewest rows for the lanes. One group of eight costs as much as two rows of libsecp256k1, whether it is full or not:
/// 2 rows are 0.9 times as fast, 3 are 1.4, 4 are 1.9, 8 are 3.8, 16 are 6.3 times as fast.
const ROWS_MIN: usize = 4;
/// One accepted row in so many is checked again, at random: 3 % of the time.
const AUDIT_ONE_IN: u64 = 256;

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
    /// Which rows are audited. Seeded by the operating system: nobody who makes signatures can know.
    random: Random,
}

impl<M: Machine> Memory<M> {
    fn new(seed: M) -> Self {
        let random = Random::new(RandomState::new().build_hasher().finish());
        Memory { scratch: Scratch::new(seed), reader: Reader::new(), random }
    }
}

#[cfg(target_arch = "x86_64")]
impl LanesEngine<super::vector::Ifma> {
    /// The engine, where this processor can run it and it knows the known answers.
    ///
    /// The tables and the self-test, some 10 ms, are those of the first call.
    pub fn start() -> Result<Self, EngineError> {
        static TESTED: OnceLock<Result<Arc<Generator>, EngineError>> = OnceLock::new();
        let seed = super::vector::Ifma::detect().ok_or(EngineError::NoIfma)?;
        let tested = TESTED.get_or_init(|| LanesEngine::on(seed).map(|engine| engine.generator));
        Ok(LanesEngine::with(seed, tested.clone()?))
    }
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
        engine.accept(&mut memory, &rows, &mut got);
        match (0..rows.len()).find(|&row| got[row] != want[row]) {
            Some(row) => Err(EngineError::SelfTest { check: rows[row], want: want[row] }),
            None => Ok(engine),
        }
    }

    /// Writes to `accepted[i]` whether the lanes accept row `i`; `false` decides nothing.
    fn accept(&self, memory: &mut Memory<M>, checks: &[Check], accepted: &mut [bool]) {
        for (checks, accepted) in checks.chunks(ROWS).zip(accepted.chunks_mut(ROWS)) {
            let groups = checks.len().div_ceil(LANES);
            memory.reader.read(checks, &mut memory.scratch.groups[..groups]);
            let masks = M::accept(&mut memory.scratch, &self.generator, groups);
            for (row, accepted) in accepted.iter_mut().enumerate() {
                *accepted = masks[row / LANES] >> (row % LANES) & 1 == 1;
            }
        }
    }

    /// As [`LanesEngine::accept`], by even shares of a call, with audits.
    fn accept_audited(&self, checks: &[Check], accepted: &mut [bool]) {
        let idle = self.idle.lock().expect("nobody panics inside the lock").pop();
        let mut memory = idle.unwrap_or_else(|| Box::new(Memory::new(self.seed)));
        let shares = checks.len().div_ceil(ROWS);
        let share = checks.len().div_ceil(shares).next_multiple_of(LANES);
        for (checks, accepted) in checks.chunks(share).zip(accepted.chunks_mut(share)) {
            self.accept(&mut memory, checks, accepted);
        }
        let mut audits = 0;
        for (check, _) in checks.iter().zip(accepted).filter(|(_, accepted)| **accepted) {
            if memory.random.chance(1, AUDIT_ONE_IN) {
                audits += 1;
                audit(check, verify_one);
            }
        }
        self.audits.fetch_add(audits, Relaxed);
        self.idle.lock().expect("nobody panics inside the lock").push(memory);
    }

    /// The lanes' verdicts, and libsecp256k1's on what they do not accept where it is to be asked.
    fn judge(&self, checks: &[Check], verdicts: &mut [bool], ask_again: bool) {
        assert_eq!(checks.len(), verdicts.len(), "a verdict for each row");
        let by_lanes = checks.len() >= ROWS_MIN;
        verdicts.fill(false);
        if by_lanes {
            self.accept_audited(checks, verdicts);
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

/// Panics where libsecp256k1 refuses what the lanes accepted.
fn audit(check: &Check, judge: fn(&Check) -> bool) {
    assert!(
        judge(check),
        "signature engine \"lanes\" accepted what libsecp256k1 refuses; the processor or this program is at fault, \
         restart with sig_engine = \"scalar\" and report this row: {check:x?}"
    );
}

impl<M: Machine + Send + Sync> Engine for LanesEngine<M> {
    fn name(&self) -> &'static str {
        "lanes"
    }

    fn verify(&self, checks: &[Check], verdicts: &mut [bool]) {
        self.judge(checks, verdicts, true);
    }

    fn prove(&self, checks: &[Check], proved: &mut [bool]) {
        // Too few for the lanes: libsecp256k1's yes is a proof too.
        self.judge(checks, proved, checks.len() < ROWS_MIN);
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::vector::Portable;
    use super::*;
    use crate::fuzz::{Kind, fuzz};

    #[test]
    fn plain_rust_agrees_with_libsecp256k1() {
        let engine = LanesEngine::on(Portable([0; 8])).unwrap();
        let report = fuzz(&engine, 400, 1).unwrap();
        let good: u64 = report.good.iter().sum();
        let (counters, exceptions) = (engine.counters(), report.good[Kind::Exception as usize]);
        assert!(counters.lanes > good * 8 / 10 && counters.lanes <= good - exceptions, "{counters:?} {report}");
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
    fn proving_leaves_open_what_the_lanes_do_not_accept() {
        let engine = LanesEngine::on(Portable([0; 8])).unwrap();
        let (rows, want) = self_test::rows();
        let mut proved = vec![true; rows.len()];
        engine.prove(&rows, &mut proved);
        assert!(proved.iter().zip(&want).all(|(proved, want)| !proved || *want));
        let counters = engine.counters();
        assert_eq!((counters.lanes, counters.fallbacks), (proved.iter().filter(|proved| **proved).count() as u64, 0));
        assert!(counters.lanes > 0);
        let few = &rows[..ROWS_MIN - 1];
        engine.prove(few, &mut proved[..few.len()]);
        assert_eq!(proved[..few.len()], want[..few.len()]);
    }

    #[test]
    #[should_panic(expected = "accepted what libsecp256k1 refuses")]
    fn a_failed_audit_stops_the_program() {
        audit(&self_test::rows().0[1], verify_one);
    }
}
