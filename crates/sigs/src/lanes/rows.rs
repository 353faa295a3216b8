//! Rows laid out for the lanes.
//!
//! In:     up to 256 [`Check`]s.
//! Out:    groups of eight: the multipliers' digits, the key's x, what the result is compared with.
//! Fails:  a row the lanes must not decide (row.rs says which), or no row at all, is left out of `usable`; its lane
//!         computes a harmless sum and libsecp256k1 decides the row.
//! Source: docs/signatures.md, "What is checked before the lanes".

use super::digits::{HALF_BITS, encode_generator, encode_half, split};
use super::row::{Row, RowReader};
use super::vector::{LANES, Lanes, Mask};
use crate::check::Check;
use crate::number::order::{N_WORDS, Scalar, invert_all};

/// Groups handled at once. Their tables take 0.9 MiB, which with the generator's fits a second-level cache of 2 MiB.
pub const GROUPS: usize = 32;
/// Rows handled at once; each inversion of the tables serves them all.
pub const ROWS: usize = GROUPS * LANES;

/// x of G: a key for lanes without one.
const GENERATOR_X: [u64; 4] =
    [0x59f2_815b_16f8_1798, 0x029b_fcdb_2dce_28d9, 0x55a0_6295_ce87_0b07, 0x79be_667e_f9dc_bbac];
/// x of 2 G, whose y is even.
const TWICE_GENERATOR_X: [u64; 4] =
    [0xabac_09b9_5c70_9ee5, 0x5c77_8e4b_8cef_3ca7, 0x3045_406e_95c0_7cd8, 0xc604_7f94_41ed_7d6d];
/// Eight rows, lane by lane.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// K of the key's half multipliers, three words each.
    pub halves: [[Lanes; 3]; 2],
    /// K of the generator's multiplier.
    pub generator: [Lanes; 5],
    /// Where that is the multiplier's negative.
    pub generator_negative: Mask,
    /// The key's x, below p.
    pub x: [Lanes; 4],
    /// The key's y where `has_y`, below p.
    pub y: [Lanes; 4],
    /// r, below p.
    pub r: [Lanes; 4],
    /// Where the key's y is odd.
    pub odd: Mask,
    /// Where the key came with a y.
    pub has_y: Mask,
    /// Where r + n is below p.
    pub wraps: Mask,
    /// Where the row is of BIP 340.
    pub schnorr: Mask,
    /// Where the lanes may accept.
    pub usable: Mask,
}

/// Reads rows; keeps its memory from call to call.
pub struct Reader {
    reader: RowReader,
    rows: Vec<Option<Row>>,
    inverses: Vec<Scalar>,
    products: Vec<Scalar>,
}

impl Reader {
    /// One with BIP 340's tag hashed.
    pub fn new() -> Reader {
        Reader { reader: RowReader::new(), rows: Vec::new(), inverses: Vec::new(), products: Vec::new() }
    }

    /// Lays `checks` out in `groups`. Pre: no more checks than the groups have lanes.
    pub fn read(&mut self, checks: &[Check], groups: &mut [Group]) {
        assert!(checks.len() <= groups.len() * LANES, "a lane for each row");
        self.rows.clear();
        self.rows.extend(checks.iter().map(|check| self.reader.read(check)));
        self.inverses.clear();
        self.inverses.extend(self.rows.iter().flatten().filter(|row| !row.schnorr).map(|row| row.s));
        invert_all(&mut self.inverses, &mut self.products);
        let mut inverses = self.inverses.iter();
        for (number, group) in groups.iter_mut().enumerate() {
            group.usable = 0;
            for lane in 0..LANES {
                let row = self.rows.get(number * LANES + lane).copied().flatten();
                group.usable |= Mask::from(row.is_some()) << lane;
                let row = row.unwrap_or(HARMLESS);
                let [u1, u2] = match row.schnorr {
                    true => row.factors,
                    false => {
                        let inverse = inverses.next().copied().unwrap_or(Scalar::ONE);
                        row.factors.map(|factor| factor.times(inverse))
                    }
                };
                group.set(lane, &row, u1, u2);
            }
        }
    }
}

/// What an unusable lane computes: G + G by way of BIP 340, without an exception (tested below).
const HARMLESS: Row = Row {
    x: GENERATOR_X,
    y: None,
    odd: false,
    r: TWICE_GENERATOR_X,
    schnorr: true,
    factors: [Scalar::ONE, Scalar::ONE],
    s: Scalar::ONE,
};

impl Group {
    fn set(&mut self, lane: usize, row: &Row, u1: Scalar, u2: Scalar) {
        let put = |vectors: &mut [Lanes], words: &[u64]| {
            for (vector, word) in vectors.iter_mut().zip(words) {
                vector.0[lane] = *word;
            }
        };
        let (k1, k2) = split(u2);
        put(&mut self.halves[0], &encode_half(k1, HALF_BITS));
        put(&mut self.halves[1], &encode_half(k2, HALF_BITS));
        let (generator, negative) = encode_generator(u1);
        put(&mut self.generator, &generator);
        put(&mut self.x, &row.x);
        put(&mut self.y, &row.y.unwrap_or_default());
        put(&mut self.r, &row.r);
        let mut flag = |mask: fn(&mut Group) -> &mut Mask, set: bool| {
            let mask = mask(self);
            *mask = *mask & !(1 << lane) | Mask::from(set) << lane;
        };
        flag(|group| &mut group.generator_negative, negative);
        flag(|group| &mut group.odd, row.odd);
        flag(|group| &mut group.has_y, row.y.is_some());
        flag(|group| &mut group.wraps, row.wraps());
        flag(|group| &mut group.schnorr, row.schnorr);
    }
}

/// n, to be added to an r that wraps.
pub const ORDER: [u64; 4] = N_WORDS;

#[cfg(test)]
mod tests {
    use super::super::stages::{Machine, Scratch};
    use super::super::vector::Portable;
    use super::*;

    #[test]
    fn lanes_without_a_row_meet_no_exception_and_are_never_accepted() {
        let seed = Portable([0; LANES]);
        let (generator, mut scratch) = (Portable::generator(seed), Scratch::new(seed));
        Reader::new().read(&[], &mut scratch.groups[..1]);
        assert_eq!(Portable::accept(&mut scratch, &generator, 1, false)[0], 0);
        // Were they usable, their G + G would be found to be 2 G.
        scratch.groups[0].usable = Mask::MAX;
        assert_eq!(Portable::accept(&mut scratch, &generator, 1, false)[0], Mask::MAX);
    }
}
