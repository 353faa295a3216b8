//! Finding a header by its hash in four bytes a slot.
//!
//! In:     numbers of headers; a function that gives the hash of one.
//! Out:    the number of a hash.
//! Fails:  never.
//!
//! A `HashMap<BlockHash, u32>` takes 41 to 82 bytes a header, because it keeps the hashes a second time. This keeps the
//! numbers alone and compares with the hashes where they are: 5 to 11 bytes. Slots are chosen by a keyed hash, so that
//! nobody can mine headers that collide.

use std::hash::{BuildHasher, RandomState};

use primitives::BlockHash;

/// Slots of an empty table.
const SLOTS_MIN: usize = 64;
/// A slot without a header.
const EMPTY: u32 = u32::MAX;

pub(super) struct Table {
    slots: Vec<u32>,
    count: usize,
    hasher: RandomState,
}

impl Table {
    pub(super) fn new() -> Table {
        Table { slots: vec![EMPTY; SLOTS_MIN], count: 0, hasher: RandomState::new() }
    }

    /// The number whose hash is `hash`.
    pub(super) fn find(&self, hash: &BlockHash, hash_of: impl Fn(u32) -> BlockHash) -> Option<u32> {
        let mut slot = self.first_slot(hash);
        loop {
            match self.slots[slot] {
                EMPTY => return None,
                id if hash_of(id) == *hash => return Some(id),
                _ => slot = (slot + 1) % self.slots.len(),
            }
        }
    }

    /// Enters a number whose hash is not in the table.
    pub(super) fn insert(&mut self, id: u32, hash_of: impl Fn(u32) -> BlockHash) {
        // A quarter stays empty, so that a search ends after a few slots.
        if (self.count + 1) * 4 > self.slots.len() * 3 {
            let slots = vec![EMPTY; self.slots.len() * 2];
            for id in std::mem::replace(&mut self.slots, slots).into_iter().filter(|id| *id != EMPTY) {
                self.place(id, &hash_of(id));
            }
        }
        self.place(id, &hash_of(id));
        self.count += 1;
    }

    fn place(&mut self, id: u32, hash: &BlockHash) {
        let mut slot = self.first_slot(hash);
        while self.slots[slot] != EMPTY {
            slot = (slot + 1) % self.slots.len();
        }
        self.slots[slot] = id;
    }

    fn first_slot(&self, hash: &BlockHash) -> usize {
        self.hasher.hash_one(hash.0) as usize % self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hash_is_found_and_no_other() {
        let hash = |n: u32| BlockHash(primitives::hash::sha256d(&n.to_le_bytes()));
        let mut table = Table::new();
        for n in 0..5_000 {
            assert_eq!(table.find(&hash(n), hash), None);
            table.insert(n, hash);
            assert_eq!(table.find(&hash(n / 2), hash), Some(n / 2));
        }
        assert!((0..5_000).all(|n| table.find(&hash(n), hash) == Some(n)));
        assert!((5_000..9_000).all(|n| table.find(&hash(n), hash).is_none()));
    }
}
