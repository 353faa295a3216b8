//! Two judges for the same block: Bitcoin Core's own chainstate, and our rules over plain maps.
//!
//! In:     blocks, valid ones and ones with a rule broken.
//! Out:    verdicts with reject words, to be compared.
//! Fails:  each judge says what it refused and why.

pub mod judge;
pub mod kernel;

pub use judge::Judge;
pub use kernel::Kernel;

/// What a judge says about a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is the new tip.
    Accepted,
    /// It is refused with Core's reject word.
    Refused(String),
}

impl Verdict {
    /// What our judge's answer is in these words.
    pub fn of(answer: &Result<(), judge::Refusal>) -> Verdict {
        match answer {
            Ok(()) => Verdict::Accepted,
            Err(refusal) => Verdict::Refused(refusal.word().to_owned()),
        }
    }
}

#[cfg(test)]
mod direct;
#[cfg(test)]
mod tests;
