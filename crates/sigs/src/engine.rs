//! What an engine is, and which there are.
//!
//! In:     the engine's name from the configuration.
//! Out:    a shared [`Engine`].
//! Fails:  [`EngineError`]: an unknown name, or an engine this program does not have.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::check::Check;
#[cfg(target_arch = "x86_64")]
use crate::lanes::LanesEngine;
use crate::scalar::ScalarEngine;

/// Checks rows; called from many threads at once.
///
/// An engine may decide rows in any order and by any method; its verdicts are those of [`crate::verify_one`].
pub trait Engine: Send + Sync {
    /// The name shown in logs and reports.
    fn name(&self) -> &'static str;

    /// Writes the verdict of row `i` to `verdicts[i]`; panics when the lengths differ.
    fn verify(&self, checks: &[Check], verdicts: &mut [bool]);

    /// Writes to `proved[i]` whether row `i` is proved good; `false` decides nothing. For callers who have another judge
    /// for what is left, and so need no second opinion here; panics unless there is a place for each row.
    fn prove(&self, checks: &[Check], proved: &mut [bool]) {
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
    /// Rows the lanes accepted and libsecp256k1 was asked about again.
    pub audits: u64,
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
    /// The name is reserved for an engine this version does not have.
    NotBuilt(EngineName),
    /// The processor or the operating system has no AVX-512 with IFMA.
    NoIfma,
    /// The engine gave a wrong answer to a question with a known one.
    SelfTest {
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
            EngineError::NotBuilt(name) => {
                write!(f, "this version has no signature engine \"{name}\"; use auto or scalar")
            }
            EngineError::NoIfma => write!(
                f,
                "signature engine \"lanes\" needs a processor with AVX-512 IFMA, which this is not; use auto or scalar"
            ),
            EngineError::SelfTest { check, want } => write!(
                f,
                "signature engine \"lanes\" failed its self-test: the verdict on {check:x?} must be {want}; the \
                 processor or this program is at fault, use scalar and report this"
            ),
        }
    }
}

impl std::error::Error for EngineError {}

/// The engine of that name.
pub fn engine(name: EngineName) -> Result<Arc<dyn Engine>, EngineError> {
    match name {
        // A processor that fails the lanes' self-test is served by libsecp256k1; asking for the lanes by name says why.
        EngineName::Auto => lanes().or_else(|_| engine(EngineName::Scalar)),
        EngineName::Scalar => Ok(Arc::new(ScalarEngine::default())),
        EngineName::Lanes => lanes(),
        EngineName::Batch => Err(EngineError::NotBuilt(name)),
    }
}

#[cfg(target_arch = "x86_64")]
fn lanes() -> Result<Arc<dyn Engine>, EngineError> {
    Ok(Arc::new(LanesEngine::start()?))
}

#[cfg(not(target_arch = "x86_64"))]
fn lanes() -> Result<Arc<dyn Engine>, EngineError> {
    Err(EngineError::NoIfma)
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
        let best = if engine(EngineName::Lanes).is_ok() { "lanes" } else { "scalar" };
        assert_eq!(engine(EngineName::Auto).unwrap().name(), best);
        assert_eq!(engine(EngineName::Scalar).unwrap().name(), "scalar");
        let error = engine(EngineName::Batch).err().unwrap();
        assert_eq!(error, EngineError::NotBuilt(EngineName::Batch));
        assert!(error.to_string().contains("batch"));
        match engine(EngineName::Lanes) {
            Ok(engine) => assert_eq!(engine.name(), "lanes"),
            Err(error) => assert_eq!(error, EngineError::NoIfma),
        }
    }
}
