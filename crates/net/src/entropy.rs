//! Chance, as an argument.
//!
//! In:     nothing.
//! Out:    random bytes: from the operating system in the program, from a seed in a simulation.
//! Fails:  never; where the operating system has none, the shell's implementation ends the program.

use stdx::random::Random;

/// Where random bytes come from.
pub trait Entropy: Send {
    /// Fills `bytes`.
    fn fill(&mut self, bytes: &mut [u8]);
}

/// For simulations and tests only: whoever knows the seed knows the keys.
impl Entropy for Random {
    fn fill(&mut self, bytes: &mut [u8]) {
        Random::fill(self, bytes);
    }
}

/// `N` random bytes.
pub fn bytes<const N: usize>(entropy: &mut dyn Entropy) -> [u8; N] {
    let mut bytes = [0; N];
    entropy.fill(&mut bytes);
    bytes
}

/// 64 random bits.
pub fn number(entropy: &mut dyn Entropy) -> u64 {
    u64::from_le_bytes(bytes(entropy))
}

/// A time drawn from the exponential distribution with this mean.
pub fn exponential(entropy: &mut dyn Entropy, mean: std::time::Duration) -> std::time::Duration {
    // The unit interval without 0, whose logarithm has no end.
    let unit = (below(entropy, 1 << 48) + 1) as f64 / (1u64 << 48) as f64;
    mean.mul_f64(-unit.ln())
}

/// A number in `0..bound`; the bias is below `bound / 2^64`.
pub fn below(entropy: &mut dyn Entropy, bound: u64) -> u64 {
    assert!(bound > 0, "an empty range has no number");
    ((u128::from(number(entropy)) * u128::from(bound)) >> 64) as u64
}
