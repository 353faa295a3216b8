//! One signature to check, as a row that owns its bytes.
//!
//! In:     a public key as it stands in a script, a signature as parsed, the message that was signed.
//! Out:    [`Check`], 162 bytes without a pointer, so that rows of many blocks lie in one slice.
//! Fails:  a key whose length does not go with its first byte is no [`PublicKeyBytes`].
//! Source: Core's `CPubKey::GetLen` (pubkey.h); BIP 340.

use std::fmt;

/// A serialized public key: 33 bytes (first byte 2 or 3) or 65 bytes (first byte 4, or 6 or 7 for the hybrid form).
///
/// Whether it names a point of the curve is found out by the engine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKeyBytes {
    bytes: [u8; 65],
}

impl PublicKeyBytes {
    /// Takes a key whose length fits its first byte (Core: `CPubKey::Set` followed by `IsValid`).
    #[inline]
    pub fn new(key: &[u8]) -> Option<PublicKeyBytes> {
        if key.is_empty() || key.len() != length_of(key[0])? {
            return None;
        }
        let mut bytes = [0; 65];
        bytes[..key.len()].copy_from_slice(key);
        Some(PublicKeyBytes { bytes })
    }

    /// The 33 or 65 bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        let length = length_of(self.bytes[0]).expect("new has looked at the first byte");
        &self.bytes[..length]
    }
}

/// Length that the first byte of a key announces.
#[inline]
fn length_of(first: u8) -> Option<usize> {
    match first {
        2 | 3 => Some(33),
        4 | 6 | 7 => Some(65),
        _ => None,
    }
}

impl fmt::Debug for PublicKeyBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&stdx::hex::encode(self.as_slice()))
    }
}

/// One row: is this the signature of that message by this key?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// ECDSA as Bitcoin uses it: a high S counts like its low twin.
    Ecdsa {
        /// Who signed.
        key: PublicKeyBytes,
        /// r and s, 32 bytes each, big endian, as [`crate::parse_der_lax`] gives them; neither reduced nor normalised.
        signature: [u8; 64],
        /// The hash that was signed.
        message: [u8; 32],
    },
    /// BIP 340.
    Schnorr {
        /// The x coordinate of the key.
        key: [u8; 32],
        /// R.x and s.
        signature: [u8; 64],
        /// The hash that was signed.
        message: [u8; 32],
    },
}

/// The one bit that makes an ECDSA row fit for a batch: whether y(R) is odd, R being the point whose x is r.
///
/// Learnt by an engine that proved the row, kept, and given back when the row is proved again. Never trusted: with a
/// wrong hint a row costs more time, and gets the same verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hint {
    /// Not known, or of no use: BIP 340 needs none.
    #[default]
    Unknown,
    /// y(R) is even.
    Even,
    /// y(R) is odd.
    Odd,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_as_small_as_the_contract_says() {
        assert_eq!(size_of::<Check>(), 162);
    }

    #[test]
    fn a_key_is_as_long_as_its_first_byte_says() {
        #[track_caller]
        fn check(first: u8, length: usize, want: bool) {
            let mut key = vec![7; length];
            if let Some(byte) = key.first_mut() {
                *byte = first;
            }
            let got = PublicKeyBytes::new(&key);
            assert_eq!(got.is_some(), want, "first byte {first}, {length} bytes");
            if let Some(taken) = got {
                assert_eq!(taken.as_slice(), key);
            }
        }
        for first in [2, 3] {
            check(first, 33, true);
            check(first, 32, false);
            check(first, 65, false);
        }
        for first in [4, 6, 7] {
            check(first, 65, true);
            check(first, 33, false);
            check(first, 66, false);
        }
        for first in [0, 1, 5, 8, 255] {
            check(first, 33, false);
            check(first, 65, false);
        }
        check(0, 0, false);
    }
}
