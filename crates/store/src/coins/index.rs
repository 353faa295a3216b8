//! From 32 bits of a hash to the number of an entry: open addressing with linear steps.
//!
//! In:     hashes and numbers; the caller compares what the numbers stand for.
//! Out:    the numbers that may be meant, nearest first.
//! Fails:  never.
//!
//! A slot is eight bytes, so one cache line answers most questions; hashbrown keeps control bytes elsewhere and needs
//! two: create took 310 ns with it and takes 160, 1M coins. Slots lie in the order of their hashes, so growing reads and
//! writes in order, and by half instead of twice.
//! Source: D. Knuth, "The Art of Computer Programming", volume 3, 6.4, algorithms L and R.

/// Slots of an index that was never used.
const SLOTS_FIRST: usize = 16;

/// One shard of the index.
#[derive(Default)]
pub(super) struct Index {
    /// Hash in the upper half, number plus one in the lower; 0 is empty.
    slots: Vec<u64>,
    used: usize,
}

/// The number in a slot that is not empty.
#[inline]
fn number(slot: u64) -> u32 {
    (slot as u32).wrapping_sub(1)
}

impl Index {
    #[inline]
    fn home(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.slots.len() as u64) >> 32) as usize
    }

    #[inline]
    fn next(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }

    /// The first slot from `hash`'s home on that `is_it` takes.
    #[inline]
    fn position(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut at = self.home(hash);
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return None;
            }
            if (slot >> 32) as u32 == hash && is_it(number(slot)) {
                return Some(at);
            }
            at = self.next(at);
        }
    }

    /// The number with this hash that `is_it` takes.
    #[inline]
    pub(super) fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.position(hash, is_it).map(|at| number(self.slots[at]))
    }

    /// Adds a number that is not there.
    #[inline]
    pub(super) fn insert(&mut self, hash: u32, id: u32) {
        assert!(id < u32::MAX, "numbers fit beside the empty slot");
        // Above seven tenths, a search for what is not there takes seven steps and more.
        if (self.used + 1) * 10 > self.slots.len() * 7 {
            self.grow();
        }
        let mut at = self.home(hash);
        while self.slots[at] != 0 {
            at = self.next(at);
        }
        self.slots[at] = u64::from(hash) << 32 | u64::from(id + 1);
        self.used += 1;
    }

    fn grow(&mut self) {
        let larger = (self.slots.len() / 2 * 3).max(SLOTS_FIRST);
        let old = std::mem::replace(&mut self.slots, vec![0; larger]);
        for slot in old.into_iter().filter(|slot| *slot != 0) {
            let mut at = self.home((slot >> 32) as u32);
            while self.slots[at] != 0 {
                at = self.next(at);
            }
            self.slots[at] = slot;
        }
    }

    /// Removes a number; what lies behind moves up where it may, so that no gap hides it.
    #[inline]
    pub(super) fn remove(&mut self, hash: u32, id: u32) {
        let mut gap = self.position(hash, |other| other == id).expect("an entry in use is in the index");
        let slots = self.slots.len();
        let distance = |from: usize, to: usize| if to >= from { to - from } else { to + slots - from };
        let mut at = gap;
        loop {
            at = self.next(at);
            let slot = self.slots[at];
            if slot == 0 {
                break;
            }
            if distance(self.home((slot >> 32) as u32), at) >= distance(gap, at) {
                self.slots[gap] = slot;
                gap = at;
            }
        }
        self.slots[gap] = 0;
        self.used -= 1;
    }

    /// Bytes of memory it takes.
    pub(super) fn bytes(&self) -> usize {
        self.slots.capacity() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use stdx::random::Random;

    #[test]
    fn random_changes_agree_with_a_set() {
        for (seed, hashes) in [(1, 40), (2, 1 << 32), (3, 3)] {
            let mut random = Random::new(seed);
            let (mut index, mut set) = (Index::default(), BTreeSet::new());
            for id in 0..20_000u32 {
                // Near the end of the hashes too, so that slots wrap around.
                let hash = u32::MAX - random.below(hashes) as u32;
                index.insert(hash, id);
                set.insert((id, hash));
                while set.len() > 200 || random.chance(1, 2) && !set.is_empty() {
                    let from = (random.below(u64::from(id) + 1) as u32, 0);
                    let &(id, hash) = set.range(from..).next().or(set.first()).expect("not empty");
                    index.remove(hash, id);
                    set.remove(&(id, hash));
                    assert_eq!(index.find(hash, |other| other == id), None);
                }
                if id % 100 == 0 {
                    for &(id, hash) in &set {
                        assert_eq!(index.find(hash, |other| other == id), Some(id));
                    }
                    assert_eq!(index.slots.iter().filter(|slot| **slot != 0).count(), set.len());
                }
            }
        }
    }
}
