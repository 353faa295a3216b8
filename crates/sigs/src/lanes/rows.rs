//! Rows of checks, read, range-checked and laid out for the lanes.
//!
//! In:     up to 256 [`Check`]s.
//! Out:    groups of eight: the multipliers' digits, the key's x, what the result is compared with.
//! Fails:  a row the lanes must not decide (a number out of range, a hybrid key, no row at all) is left out of
//!         `usable`; its lane computes a harmless sum and libsecp256k1 decides the row.
//! Source: SEC 1, section 4.1.4; BIP 340; Core's pubkey.cpp. docs/signatures.md, "What is checked before the lanes".
//!
//! Both kinds ask for a point R = u1 G + u2 Q. ECDSA: u1 = m/s, u2 = r/s, and x(R) modulo n is r. BIP 340: u1 = s,
//! u2 = -e, x(R) is r and y(R) is even.

use bitcoin_hashes::{HashEngine, sha256};

use super::digits::{encode_generator, encode_half, split};
use super::field::P_WORDS;
use super::order::{N_WORDS, Scalar, invert_all, less, words_from_bytes};
use super::vector::{LANES, Lanes, Mask};
use crate::check::Check;

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
/// p - n: an r below it may stand for the x coordinate r + n too.
const P_MINUS_N: [u64; 4] = [0x402d_a172_2fc9_baee, 0x4551_2319_50b7_5fc4, 1, 0];

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

/// One row, read.
#[derive(Clone, Copy)]
struct Row {
    x: [u64; 4],
    y: Option<[u64; 4]>,
    odd: bool,
    r: [u64; 4],
    schnorr: bool,
    /// ECDSA: m and r, to be multiplied by 1/s. BIP 340: u1 and u2.
    factors: [Scalar; 2],
    s: Scalar,
}

/// Reads rows; keeps its memory from call to call.
pub struct Reader {
    challenge: sha256::HashEngine,
    rows: Vec<Option<Row>>,
    inverses: Vec<Scalar>,
    products: Vec<Scalar>,
}

impl Reader {
    /// One with BIP 340's tag hashed.
    pub fn new() -> Reader {
        let challenge = sha256::Midstate::hash_tag(b"BIP0340/challenge").to_engine();
        Reader { challenge, rows: Vec::new(), inverses: Vec::new(), products: Vec::new() }
    }

    /// Lays `checks` out in `groups`. Pre: no more checks than the groups have lanes.
    pub fn read(&mut self, checks: &[Check], groups: &mut [Group]) {
        assert!(checks.len() <= groups.len() * LANES, "a lane for each row");
        self.rows.clear();
        for check in checks {
            let row = match check {
                Check::Ecdsa { key, signature, message } => read_ecdsa(key.as_slice(), signature, message),
                Check::Schnorr { key, signature, message } => self.read_schnorr(key, signature, message),
            };
            self.rows.push(row);
        }
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

    fn read_schnorr(&self, key: &[u8; 32], signature: &[u8; 64], message: &[u8; 32]) -> Option<Row> {
        let (r, s) = halves(signature);
        let (x, r_words) = (words_from_bytes(key), words_from_bytes(r));
        let s = Scalar::from_bytes(s)?;
        if !less(&x, &P_WORDS) || !less(&r_words, &P_WORDS) {
            return None;
        }
        let mut engine = self.challenge.clone();
        for part in [r, key, message] {
            engine.input(part);
        }
        let e = Scalar::from_bytes_reduced(&sha256::Hash::from_engine(engine).to_byte_array());
        Some(Row { x, y: None, odd: false, r: r_words, schnorr: true, factors: [s, e.negate()], s })
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

fn halves(signature: &[u8; 64]) -> (&[u8; 32], &[u8; 32]) {
    let (r, s) = signature.split_at(32);
    (r.try_into().expect("32 bytes"), s.try_into().expect("32 bytes"))
}

/// Reads a row of ECDSA. A high s needs no normalising: -s gives -R, whose x is the same.
fn read_ecdsa(key: &[u8], signature: &[u8; 64], message: &[u8; 32]) -> Option<Row> {
    let (r, s) = halves(signature);
    let (r, s) = (Scalar::from_bytes(r)?, Scalar::from_bytes(s)?);
    if r.is_zero() || s.is_zero() {
        return None;
    }
    let number = |at: usize| words_from_bytes(key[at..at + 32].try_into().expect("32 bytes"));
    let (x, y, odd) = match key[0] {
        2 | 3 => (number(1), None, key[0] == 3),
        4 => (number(1), Some(number(33)), key[64] & 1 == 1),
        // The hybrid forms are rare enough for libsecp256k1.
        _ => return None,
    };
    if !less(&x, &P_WORDS) || y.is_some_and(|y| !less(&y, &P_WORDS)) {
        return None;
    }
    let m = Scalar::from_bytes_reduced(message);
    Some(Row { x, y, odd, r: r.words(), schnorr: false, factors: [m, r], s })
}

impl Group {
    fn set(&mut self, lane: usize, row: &Row, u1: Scalar, u2: Scalar) {
        let put = |vectors: &mut [Lanes], words: &[u64]| {
            for (vector, word) in vectors.iter_mut().zip(words) {
                vector.0[lane] = *word;
            }
        };
        let (k1, k2) = split(u2);
        put(&mut self.halves[0], &encode_half(k1));
        put(&mut self.halves[1], &encode_half(k2));
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
        flag(|group| &mut group.wraps, !row.schnorr && less(&row.r, &P_MINUS_N));
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
        assert_eq!(Portable::accept(&mut scratch, &generator, 1)[0], 0);
        // Were they usable, their G + G would be found to be 2 G.
        scratch.groups[0].usable = Mask::MAX;
        assert_eq!(Portable::accept(&mut scratch, &generator, 1)[0], Mask::MAX);
    }

    #[test]
    fn only_rows_in_range_are_usable() {
        use crate::check::PublicKeyBytes;
        #[track_caller]
        fn check(key: &[u8], r: [u8; 32], s: [u8; 32], want: bool) {
            let mut signature = [0; 64];
            signature[..32].copy_from_slice(&r);
            signature[32..].copy_from_slice(&s);
            let row = match key.len() {
                32 => Check::Schnorr { key: key.try_into().unwrap(), signature, message: [1; 32] },
                _ => Check::Ecdsa { key: PublicKeyBytes::new(key).unwrap(), signature, message: [1; 32] },
            };
            let mut groups = [Group::default()];
            Reader::new().read(&[row], &mut groups);
            assert_eq!(groups[0].usable == 1, want, "{row:x?}");
        }
        // Just below a number, and the number.
        let edge = |words: [u64; 4], below: u64| {
            let mut bytes = [0; 32];
            for (chunk, word) in bytes.chunks_mut(8).zip(words.iter().rev()) {
                chunk.copy_from_slice(&word.to_be_bytes());
            }
            bytes[31] -= below as u8;
            bytes
        };
        let (n, p, one, zero) = (N_WORDS, P_WORDS, edge([1, 0, 0, 0], 0), [0; 32]);
        let long = |first: u8, x: [u8; 32], y: [u8; 32]| [&[first][..], &x, &y].concat();
        let short = |first: u8, x: [u8; 32]| [&[first][..], &x].concat();
        for (r, s, ecdsa, schnorr) in [
            (one, one, true, true),
            (edge(n, 1), edge(n, 1), true, true),
            (zero, one, false, true),
            (one, zero, false, true),
            (edge(n, 0), one, false, true),
            (one, edge(n, 0), false, false),
            (edge(p, 1), one, false, true),
            (edge(p, 0), one, false, false),
        ] {
            check(&short(2, one), r, s, ecdsa);
            check(&one, r, s, schnorr);
        }
        for (key, want) in [
            (short(3, edge(p, 1)), true),
            (short(2, edge(p, 0)), false),
            (long(4, one, edge(p, 1)), true),
            (long(4, one, edge(p, 0)), false),
            (long(4, edge(p, 0), one), false),
            (long(6, one, one), false),
            (long(7, one, one), false),
            (edge(p, 1).to_vec(), true),
            (edge(p, 0).to_vec(), false),
        ] {
            check(&key, one, one, want);
        }
    }
}
