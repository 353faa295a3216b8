//! One check, read: its numbers, where all of them are in range.
//!
//! In:     a [`Check`].
//! Out:    [`Row`]: the key's x, r, and what the multipliers are made of.
//! Fails:  none where a number is out of range or the key is of a hybrid form; libsecp256k1 decides such rows.
//! Source: SEC 1, section 4.1.4; BIP 340; Core's pubkey.cpp. docs/signatures.md, "What is checked before the lanes".
//!
//! Both kinds ask for a point R = u1 G + u2 Q. ECDSA: u1 = m/s, u2 = r/s, and x(R) modulo n is r. BIP 340: u1 = s,
//! u2 = -e, x(R) is r and y(R) is even.

use bitcoin_hashes::{HashEngine, sha256};

use super::field::P_WORDS;
use crate::check::Check;
use crate::number::order::{Scalar, less, words_from_bytes};

/// p - n: an r below it may stand for the x coordinate r + n too.
const P_MINUS_N: [u64; 4] = [0x402d_a172_2fc9_baee, 0x4551_2319_50b7_5fc4, 1, 0];

/// One row, read.
#[derive(Clone, Copy)]
pub struct Row {
    /// The key's x, below p.
    pub x: [u64; 4],
    /// The key's y, below p, where the key came with one.
    pub y: Option<[u64; 4]>,
    /// Whether the key's y is odd.
    pub odd: bool,
    /// r, below p; of ECDSA, below n.
    pub r: [u64; 4],
    /// Whether the row is of BIP 340.
    pub schnorr: bool,
    /// ECDSA: m and r, to be multiplied by 1/s. BIP 340: u1 and u2.
    pub factors: [Scalar; 2],
    /// s; of ECDSA, not zero.
    pub s: Scalar,
}

impl Row {
    /// Whether x(R) may be r + n.
    pub fn wraps(&self) -> bool {
        !self.schnorr && less(&self.r, &P_MINUS_N)
    }
}

/// Reads rows.
pub struct RowReader {
    /// BIP 340's tag, hashed.
    challenge: sha256::HashEngine,
}

impl RowReader {
    /// A reader.
    pub fn new() -> RowReader {
        RowReader { challenge: sha256::Midstate::hash_tag(b"BIP0340/challenge").to_engine() }
    }

    /// The row's numbers.
    pub fn read(&self, check: &Check) -> Option<Row> {
        match check {
            Check::Ecdsa { key, signature, message } => read_ecdsa(key.as_slice(), signature, message),
            Check::Schnorr { key, signature, message } => self.read_schnorr(key, signature, message),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::PublicKeyBytes;
    use crate::number::order::N_WORDS;

    #[test]
    fn only_numbers_in_range_are_read() {
        #[track_caller]
        fn check(key: &[u8], r: [u8; 32], s: [u8; 32], want: bool) {
            let mut signature = [0; 64];
            signature[..32].copy_from_slice(&r);
            signature[32..].copy_from_slice(&s);
            let row = match key.len() {
                32 => Check::Schnorr { key: key.try_into().unwrap(), signature, message: [1; 32] },
                _ => Check::Ecdsa { key: PublicKeyBytes::new(key).unwrap(), signature, message: [1; 32] },
            };
            assert_eq!(RowReader::new().read(&row).is_some(), want, "{row:x?}");
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
