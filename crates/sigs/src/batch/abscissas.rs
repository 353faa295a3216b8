//! Which x coordinates a batch has seen, and where they stand in its list.
//!
//! In:     x coordinates, made by anybody.
//! Out:    the place of an equal one seen before.
//! Fails:  never; a hash keyed by a secret keeps those who choose the coordinates from making them collide.
//! Source: open addressing; Knuth's multiplicative hash of the lowest word.

use std::hash::{BuildHasher, RandomState};

/// No coordinate has this place.
const FREE: u32 = u32::MAX;

/// Places by coordinate.
pub struct Abscissas {
    /// Odd.
    factor: u64,
    slots: Vec<u32>,
    shift: u32,
}

impl Abscissas {
    /// None seen yet.
    pub fn new() -> Abscissas {
        Abscissas { factor: RandomState::new().hash_one(0) | 1, slots: Vec::new(), shift: 0 }
    }

    /// Forgets all, and makes room for so many.
    pub fn start(&mut self, count: usize) {
        let slots = (2 * count).next_power_of_two().max(2);
        self.slots.clear();
        self.slots.resize(slots, FREE);
        self.shift = u64::BITS - slots.trailing_zeros();
    }

    /// The place of this x, if it was seen; else it is remembered with `place`. `x_at` tells what stands at a place.
    #[inline]
    pub fn find_or_insert(&mut self, x: &[u64; 4], place: usize, x_at: impl Fn(usize) -> [u64; 4]) -> Option<usize> {
        let mut slot = (x[0].wrapping_mul(self.factor) >> self.shift) as usize;
        loop {
            match self.slots[slot] {
                FREE => {
                    self.slots[slot] = place as u32;
                    return None;
                }
                known if x_at(known as usize) == *x => return Some(known as usize),
                _ => slot = (slot + 1) % self.slots.len(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::random::Random;

    #[test]
    fn equal_coordinates_are_found_and_others_are_not() {
        let mut random = Random::new(4);
        let mut abscissas = Abscissas::new();
        for count in [1usize, 2, 3, 100, 1000] {
            abscissas.start(count);
            // Coordinates that differ in any of the four words.
            let all: Vec<[u64; 4]> =
                (0..count).map(|k| std::array::from_fn(|word| (k >> (3 * word) & 7) as u64)).collect();
            let mut seen = std::collections::BTreeMap::new();
            for place in 0..count {
                let at = random.below(count as u64) as usize;
                let known = abscissas.find_or_insert(&all[at], place, |place| *seen.get(&place).unwrap());
                let want = seen.iter().find(|(_, x)| **x == all[at]).map(|(place, _)| *place);
                assert_eq!(known, want);
                if known.is_none() {
                    seen.insert(place, all[at]);
                }
            }
        }
    }
}
