//! A set of hashes that forgets the oldest, in memory that does not grow.
//!
//! In:     hashes of 32 bytes.
//! Out:    whether one was put in lately: always yes for the last `capacity`, and by mistake for one stranger in a million.
//! Fails:  never.
//! Source: the purpose is that of Bitcoin Core's `CRollingBloomFilter`; three plain Bloom filters take less memory than its one.
//!
//! Keyed, so that nobody outside can choose a hash that is taken for another.

use crate::siphash::siphash;

/// Generations: the one that is filled, and two that are only asked.
const GENERATIONS: usize = 3;
/// Bits set for an entry; with [`BITS_PER_ENTRY`] the mistakes of three generations come to one in a million.
const HASHES: u32 = 22;
/// Bits of a generation for each entry: 22 / ln 2.
const BITS_PER_ENTRY: usize = 32;

/// The set.
pub struct Rolling {
    key: [u64; 2],
    /// Entries of a generation: half of what is always remembered.
    entries_max: usize,
    /// The youngest first; without memory until something is put in.
    generations: [Vec<u64>; GENERATIONS],
    /// Entries of the youngest.
    entries: usize,
}

impl Rolling {
    /// An empty set that remembers the last `capacity` entries at least, and half as many more at most.
    pub fn new(capacity: usize, key: [u64; 2]) -> Rolling {
        Rolling { key, entries_max: capacity.div_ceil(2).max(1), generations: Default::default(), entries: 0 }
    }

    fn words(&self) -> usize {
        (self.entries_max * BITS_PER_ENTRY).div_ceil(64)
    }

    /// Positions of the bits of a hash.
    fn bits(&self, hash: &[u8; 32]) -> impl Iterator<Item = usize> + use<> {
        let hashed = siphash(self.key, hash);
        let (start, step) = (hashed as u32, (hashed >> 32) as u32 | 1);
        let count = self.words() as u64 * 64;
        (0..HASHES).map(move |at| {
            // A second mixing: plain multiples of a step would meet those of others.
            let mixed = start.wrapping_add(step.wrapping_mul(at)).wrapping_mul(0x9e37_79b1) ^ step.rotate_left(at);
            ((u64::from(mixed) * count) >> 32) as usize
        })
    }

    /// Puts a hash in; the oldest are forgotten.
    pub fn insert(&mut self, hash: &[u8; 32]) {
        if self.entries == self.entries_max {
            self.generations.rotate_right(1);
            self.generations[0].fill(0);
            self.entries = 0;
        }
        if self.generations[0].is_empty() {
            self.generations[0] = vec![0; self.words()];
        }
        for bit in self.bits(hash) {
            self.generations[0][bit / 64] |= 1 << (bit % 64);
        }
        self.entries += 1;
    }

    /// True where the hash was put in lately.
    pub fn contains(&self, hash: &[u8; 32]) -> bool {
        let has =
            |words: &Vec<u64>| !words.is_empty() && self.bits(hash).all(|bit| words[bit / 64] & (1 << (bit % 64)) != 0);
        self.generations.iter().any(has)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.generations.iter_mut().for_each(|words| words.fill(0));
        self.entries = 0;
    }

    /// Bytes of memory it holds.
    pub fn bytes(&self) -> usize {
        self.generations.iter().map(|words| words.len() * 8).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::random::Random;

    #[test]
    fn the_last_are_remembered_and_the_oldest_forgotten() {
        let mut random = Random::new(1);
        let mut set = Rolling::new(1_000, [1, 2]);
        assert!(!set.contains(&[0; 32]));
        assert_eq!(set.bytes(), 0, "memory comes with the first entry");
        let all: Vec<[u8; 32]> = (0..10_000).map(|_| random.bytes()).collect();
        for (index, hash) in all.iter().enumerate() {
            set.insert(hash);
            let newest = index.saturating_sub(999)..=index;
            assert!(newest.step_by(97).all(|at| set.contains(&all[at])), "entry {index}");
        }
        assert!(all[..8_400].iter().all(|hash| !set.contains(hash)), "1,500 at most are remembered");
        let full = set.bytes();
        assert!(full <= 3 * 500 * 4 + 64, "{full} bytes");
        set.clear();
        assert!(all.iter().all(|hash| !set.contains(hash)));
        assert_eq!(set.bytes(), full);
    }

    #[test]
    fn strangers_are_known_once_in_a_million() {
        let mut random = Random::new(2);
        let mut set = Rolling::new(20_000, [random.next_u64(), random.next_u64()]);
        (0..30_000).for_each(|_| set.insert(&random.bytes()));
        let mistakes = (0..1_000_000).filter(|_| set.contains(&random.bytes())).count();
        assert!(mistakes <= 10, "{mistakes} of a million");
    }
}
