//! What an engine is, and which there are.
//!
//! In:     the engine's name from the configuration.
//! Out:    a shared [`Engine`].
//! Fails:  [`EngineError`]: an unknown name, or an engine this program does not have.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

#[cfg(target_arch = "x86_64")]
use crate::batch::LanesCurve;
use crate::batch::{BatchEngine, Limits, WordCurve};
use crate::check::{Check, Hint};
use crate::lanes;
#[cfg(target_arch = "x86_64")]
use crate::lanes::vector::{AvxIfma, Ifma};
use crate::scalar::ScalarEngine;

/// Fewest rows of a batch where the lanes are the alternative: 64 cost the same in both, 128 a fifth less in a batch.
const BATCH_ROWS_MIN_OVER_LANES: usize = 96;
/// Fewest rows of a batch where libsecp256k1 is the alternative: 4 are 0.8 times as fast, 8 are 1.1, 16 are 1.4, 32 are 1.7.
const BATCH_ROWS_MIN_OVER_SCALAR: usize = 16;

/// Checks rows; called from many threads at once.
///
/// An engine may decide rows in any order and by any method; its verdicts are those of [`crate::verify_one`].
pub trait Engine: Send + Sync {
    /// The name shown in logs and reports.
    fn name(&self) -> &'static str;

    /// What of the processor its arithmetic is made for, shown in logs and reports.
    fn instructions(&self) -> &'static str {
        "64-bit integers"
    }

    /// Writes the verdict of row `i` to `verdicts[i]`; panics when the lengths differ.
    fn verify(&self, checks: &[Check], verdicts: &mut [bool]);

    /// Writes to `proved[i]` whether row `i` is proved good; `false` decides nothing. For callers who have another judge
    /// for what is left, and so need no second opinion here.
    ///
    /// `hints[i]` is what an earlier proof of row `i` learnt; an engine that learns it in this one writes it there. It
    /// changes the time taken, never a verdict. Panics unless there are a hint and a place for each row.
    fn prove(&self, checks: &[Check], hints: &mut [Hint], proved: &mut [bool]) {
        assert_eq!(checks.len(), hints.len(), "a hint for each row");
        self.verify(checks, proved);
    }

    /// What it has done since it was made.
    fn counters(&self) -> Counters;
}

/// Work done by an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Calls of [`Engine::verify`].
    pub calls: u64,
    /// Rows in them.
    pub checks: u64,
    /// Rows found good.
    pub accepted: u64,
    /// Rows decided by libsecp256k1, one at a time.
    pub scalar: u64,
    /// Rows accepted by the lanes.
    pub lanes: u64,
    /// Rows the lanes were asked about and did not accept; libsecp256k1 decided them.
    pub fallbacks: u64,
    /// Rows that lanes or batches accepted and libsecp256k1 was asked about again.
    pub audits: u64,
    /// Batches tried.
    pub batches: u64,
    /// Rows of those that were proved.
    pub batched: u64,
    /// Batches that proved nothing; each row was decided by the engine underneath.
    pub failed_batches: u64,
}

/// Engines by the name the configuration uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineName {
    /// The fastest one this machine can run.
    #[default]
    Auto,
    /// Eight signatures in the lanes of a vector register.
    Lanes,
    /// Random linear combinations of many signatures.
    Batch,
    /// libsecp256k1, one signature after the other.
    Scalar,
}

impl EngineName {
    /// Every name, in the order messages list them.
    pub const ALL: [EngineName; 4] = [EngineName::Auto, EngineName::Lanes, EngineName::Batch, EngineName::Scalar];

    /// The word in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            EngineName::Auto => "auto",
            EngineName::Lanes => "lanes",
            EngineName::Batch => "batch",
            EngineName::Scalar => "scalar",
        }
    }
}

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for EngineName {
    type Err = EngineError;

    fn from_str(text: &str) -> Result<EngineName, EngineError> {
        let known = EngineName::ALL.into_iter().find(|name| name.as_str() == text);
        known.ok_or_else(|| EngineError::Unknown(text.to_owned()))
    }
}

/// Why there is no engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineError {
    /// No engine has this name.
    Unknown(String),
    /// The operating system gave no random bytes; what it said.
    NoRandom(String),
    /// The processor or the operating system has neither AVX-512 IFMA nor AVX-IFMA.
    NoIfma,
    /// The engine gave a wrong answer to a question with a known one.
    SelfTest {
        /// The engine's name.
        engine: &'static str,
        /// The question.
        check: Check,
        /// The answer.
        want: bool,
    },
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EngineError::Unknown(text) => {
                write!(f, "no signature engine is named \"{text}\"; known are auto, lanes, batch, scalar")
            }
            EngineError::NoRandom(why) => {
                write!(
                    f,
                    "signature engine \"batch\" needs random bytes of the operating system: {why}; use lanes or scalar"
                )
            }
            EngineError::NoIfma => write!(
                f,
                "signature engine \"lanes\" needs a processor with AVX-512 IFMA or AVX-IFMA, which this is not; use auto, \
                 batch or scalar"
            ),
            EngineError::SelfTest { engine, check, want } => write!(
                f,
                "signature engine \"{engine}\" failed its self-test: the verdict on {check:x?} must be {want}; the \
                 processor or this program is at fault, use scalar and report this"
            ),
        }
    }
}

impl std::error::Error for EngineError {}

/// The engine of that name.
pub fn engine(name: EngineName) -> Result<Arc<dyn Engine>, EngineError> {
    match name {
        // An engine that fails its self-test is passed over; asking for it by name says why.
        EngineName::Auto => batch().or_else(|_| lanes::start()).or_else(|_| engine(EngineName::Scalar)),
        EngineName::Scalar => Ok(Arc::new(ScalarEngine::default())),
        EngineName::Lanes => lanes::start(),
        EngineName::Batch => batch(),
    }
}

/// The batch engine as it is used, over the fastest engine that decides single rows.
fn batch() -> Result<Arc<dyn Engine>, EngineError> {
    batch_by(false)
}

/// The batch engine for trials: it makes batches of any number of rows, and is not put off by failures.
pub fn eager_batch() -> Result<Arc<dyn Engine>, EngineError> {
    batch_by(true)
}

/// The batch engine as processors without IFMA have it, on any processor: one number at a time, over libsecp256k1.
pub fn portable_batch() -> Result<Arc<dyn Engine>, EngineError> {
    portable_batch_by(false)
}

/// The portable batch engine for trials, as [`eager_batch`].
pub fn eager_portable_batch() -> Result<Arc<dyn Engine>, EngineError> {
    portable_batch_by(true)
}

fn limits(rows_min: usize, eager: bool) -> Limits {
    Limits { rows_min: if eager { 1 } else { rows_min }, backs_off: !eager }
}

#[cfg(target_arch = "x86_64")]
fn batch_by(eager: bool) -> Result<Arc<dyn Engine>, EngineError> {
    let under = match lanes::start() {
        Err(EngineError::NoIfma) => return portable_batch_by(eager),
        under => under?,
    };
    let limits = limits(BATCH_ROWS_MIN_OVER_LANES, eager);
    if let Some(seed) = Ifma::detect() {
        return Ok(Arc::new(BatchEngine::start(LanesCurve::new(seed), under, limits)?));
    }
    let seed = AvxIfma::detect().ok_or(EngineError::NoIfma)?;
    Ok(Arc::new(BatchEngine::start(LanesCurve::new(seed), under, limits)?))
}

#[cfg(not(target_arch = "x86_64"))]
fn batch_by(eager: bool) -> Result<Arc<dyn Engine>, EngineError> {
    portable_batch_by(eager)
}

fn portable_batch_by(eager: bool) -> Result<Arc<dyn Engine>, EngineError> {
    let limits = limits(BATCH_ROWS_MIN_OVER_SCALAR, eager);
    Ok(Arc::new(BatchEngine::start(WordCurve::new(), Arc::new(ScalarEngine::default()), limits)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in EngineName::ALL {
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        assert_eq!("Scalar".parse::<EngineName>(), Err(EngineError::Unknown("Scalar".into())));
    }

    #[test]
    fn engines_that_do_not_exist_are_refused_by_name() {
        assert_eq!(engine(EngineName::Auto).unwrap().name(), "batch");
        assert_eq!(engine(EngineName::Scalar).unwrap().name(), "scalar");
        match engine(EngineName::Lanes) {
            Ok(engine) => assert_eq!(engine.name(), "lanes"),
            Err(error) => assert_eq!(error, EngineError::NoIfma),
        }
    }

    #[test]
    fn batches_need_no_vector() {
        let (vector, portable) = (engine(EngineName::Batch).unwrap(), portable_batch().unwrap());
        assert_eq!([vector.name(), portable.name()], ["batch"; 2]);
        assert_eq!(portable.instructions(), "64-bit integers");
        match engine(EngineName::Lanes) {
            Ok(lanes) => assert_eq!(vector.instructions(), lanes.instructions()),
            Err(_) => assert_eq!(vector.instructions(), portable.instructions()),
        }
    }
}
