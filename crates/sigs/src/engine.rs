//! What an engine is, and which there are.
//!
//! In:     the engine's name from the configuration.
//! Out:    a shared [`Engine`].
//! Fails:  [`EngineError`]: an unknown name, or an engine this program does not have.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::check::Check;
use crate::scalar::ScalarEngine;

/// Checks rows; called from many threads at once.
///
/// An engine may decide rows in any order and by any method; its verdicts are those of [`crate::verify_one`].
pub trait Engine: Send + Sync {
    /// The name shown in logs and reports.
    fn name(&self) -> &'static str;

    /// Writes the verdict of row `i` to `verdicts[i]`; panics when the lengths differ.
    fn verify(&self, checks: &[Check], verdicts: &mut [bool]);

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
        }
    }
}

impl std::error::Error for EngineError {}

/// The engine of that name.
pub fn engine(name: EngineName) -> Result<Arc<dyn Engine>, EngineError> {
    match name {
        EngineName::Auto | EngineName::Scalar => Ok(Arc::new(ScalarEngine::default())),
        EngineName::Lanes | EngineName::Batch => Err(EngineError::NotBuilt(name)),
    }
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
        assert_eq!(engine(EngineName::Auto).unwrap().name(), "scalar");
        assert_eq!(engine(EngineName::Scalar).unwrap().name(), "scalar");
        for name in [EngineName::Lanes, EngineName::Batch] {
            let error = engine(name).err().unwrap();
            assert_eq!(error, EngineError::NotBuilt(name));
            assert!(error.to_string().contains(name.as_str()));
        }
    }
}
