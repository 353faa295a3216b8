//! The numbers the rows of a batch are multiplied by.
//!
//! In:     32 bytes drawn from the operating system when the engine starts; the number of the try.
//! Out:    two numbers of 60 bits a row, other ones in every try.
//! Fails:  where the operating system gives no random bytes.
//! Source: docs/signatures.md, "Randomisers". SHA-256 of secret, try and block: who does not know the secret cannot tell
//!         the numbers from chance, whatever tries he saw pass or fail.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bitcoin_hashes::sha256;

use super::sum::RANDOMISER_BITS;

/// Rows of one hash: 16 of its 32 bytes each.
const ROWS_A_HASH: usize = 2;

/// Draws randomisers; shared by all threads.
pub struct Randomisers {
    secret: [u8; 32],
    tries: AtomicU64,
}

impl Randomisers {
    /// With a secret of the operating system.
    pub fn draw() -> Result<Randomisers, getrandom::Error> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        Ok(Randomisers::from_secret(secret))
    }

    /// With this secret.
    pub fn from_secret(secret: [u8; 32]) -> Randomisers {
        Randomisers { secret, tries: AtomicU64::new(0) }
    }

    /// Appends two numbers for each of `count` rows; no two calls hash the same bytes.
    pub fn append(&self, count: usize, numbers: &mut Vec<[u64; 2]>) {
        let number_of_try = self.tries.fetch_add(1, Relaxed);
        let end = numbers.len() + count;
        let mut input = [0; 48];
        input[..32].copy_from_slice(&self.secret);
        input[32..40].copy_from_slice(&number_of_try.to_be_bytes());
        for block in 0..count.div_ceil(ROWS_A_HASH) as u64 {
            input[40..].copy_from_slice(&block.to_be_bytes());
            let hash = sha256::Hash::hash(&input).to_byte_array();
            let word = |at: usize| {
                let word = u64::from_be_bytes(hash[8 * at..8 * at + 8].try_into().expect("eight bytes"));
                word >> (64 - RANDOMISER_BITS)
            };
            numbers.extend([[word(0), word(1)], [word(2), word(3)]]);
        }
        numbers.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_try_and_every_row_has_its_own() {
        let randomisers = [Randomisers::from_secret([1; 32]), Randomisers::from_secret([2; 32])];
        let mut numbers = Vec::new();
        for (number, count) in [0, 1, 2, 3, 100, 101].into_iter().enumerate() {
            randomisers[number % 2].append(count, &mut numbers);
        }
        assert_eq!(numbers.len(), 207);
        let mut all = numbers.concat();
        // Each bit is set in about half of them.
        for bit in 0..64 {
            let set = all.iter().filter(|number| **number >> bit & 1 == 1).count();
            assert!(
                if bit < RANDOMISER_BITS { (140..275).contains(&set) } else { set == 0 },
                "bit {bit}: {set} of 414"
            );
        }
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 2 * numbers.len());
    }

    #[test]
    fn two_engines_have_two_secrets() {
        let [one, two] = [Randomisers::draw().unwrap(), Randomisers::draw().unwrap()];
        assert!(one.secret != two.secret && one.secret != [0; 32]);
    }
}
