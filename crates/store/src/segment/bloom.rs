//! A filter that says "surely not here" without reading the disk.
//!
//! In:     keys of coins.
//! Out:    64-byte lines, one for each 51 keys (10 bits a key); a key sets 7 bits of one line: one cache miss a question.
//! Fails:  never; about one key in 80 that is not there is taken for one that may be.
//! Source: B. H. Bloom (1970); lines as F. Putze, P. Sanders, J. Singler, "Cache-, Hash- and Space-Efficient Bloom
//!         Filters" (2007).

use stdx::checksum::checksum;

use super::coin::COIN_KEY_BYTES;

/// Bits of filter for each key.
const BITS_PER_KEY: u64 = 10;
/// Bits a key sets.
const PROBES: u32 = 7;
/// 64-bit words of a line.
const LINE_WORDS: usize = 8;

/// The filter of one segment's coins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bloom {
    words: Vec<u64>,
}

impl Bloom {
    /// An empty filter for up to `keys` keys.
    pub fn new(keys: u64) -> Bloom {
        let lines = (keys * BITS_PER_KEY).div_ceil(LINE_WORDS as u64 * 64).max(1);
        Bloom { words: vec![0; lines as usize * LINE_WORDS] }
    }

    /// A filter from its bytes; None if they are not whole lines.
    pub fn decode(bytes: &[u8]) -> Option<Bloom> {
        if bytes.is_empty() || !bytes.len().is_multiple_of(LINE_WORDS * 8) {
            return None;
        }
        let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        Some(Bloom { words: words.collect() })
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Bytes it takes in memory.
    pub fn bytes(&self) -> usize {
        self.words.len() * 8
    }

    fn line_and_bits(&self, key: &[u8; COIN_KEY_BYTES]) -> (usize, u64) {
        let hash = checksum(0, key);
        let lines = (self.words.len() / LINE_WORDS) as u64;
        let line = (u128::from(hash) * u128::from(lines)) >> 64;
        (line as usize * LINE_WORDS, hash.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Adds a key.
    pub fn insert(&mut self, key: &[u8; COIN_KEY_BYTES]) {
        let (line, mut bits) = self.line_and_bits(key);
        for _ in 0..PROBES {
            self.words[line + (bits >> 6 & 7) as usize] |= 1 << (bits & 63);
            bits >>= 9;
        }
    }

    /// False: the key was never added.
    pub fn may_have(&self, key: &[u8; COIN_KEY_BYTES]) -> bool {
        let (line, bits) = self.line_and_bits(key);
        (0..PROBES).all(|probe| {
            let bits = bits >> (9 * probe);
            self.words[line + (bits >> 6 & 7) as usize] >> (bits & 63) & 1 == 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::random::Random;

    #[test]
    fn a_key_that_is_there_is_found_and_others_rarely_are() {
        let mut random = Random::new(5);
        let keys: Vec<[u8; COIN_KEY_BYTES]> = (0..20_000).map(|_| random.bytes()).collect();
        let mut bloom = Bloom::new(10_000);
        keys[..10_000].iter().for_each(|key| bloom.insert(key));
        let bloom = Bloom::decode(&bloom.encode()).expect("whole lines");
        assert!(keys[..10_000].iter().all(|key| bloom.may_have(key)));
        let wrong = keys[10_000..].iter().filter(|key| bloom.may_have(key)).count();
        assert!(wrong < 250, "{wrong} of 10,000");
        assert_eq!(Bloom::decode(&[0; 63]), None);
    }
}
