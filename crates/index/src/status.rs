//! The Electrum status of a script: one hash over its history.
//!
//! In:     (txid, height) of every transaction of the history, in chain order.
//! Out:    SHA-256 of `"txid:height:"` for each, or none for an empty history.
//! Fails:  never.
//! Source: Electrum protocol 1.4, "Status of a script".

use std::io::Write;

use bitcoin_hashes::{HashEngine, sha256};
use primitives::Txid;

/// Bytes of one entry's text at most.
const TEXT_BYTES_MAX: usize = 64 + 1 + 20 + 1;

/// A status under construction; takes one transaction at a time, so a long history needs no memory.
#[derive(Clone, Default)]
pub struct Status {
    engine: sha256::HashEngine,
    any: bool,
}

impl Status {
    /// Appends a transaction.
    pub fn push(&mut self, txid: &Txid, height: i64) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        // 64 digits, two colons, a sign and nineteen digits. Identifiers are shown with their last byte first.
        let mut text = [b':'; TEXT_BYTES_MAX];
        for (pair, byte) in text.chunks_exact_mut(2).zip(txid.0.iter().rev()) {
            pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        let mut rest = &mut text[65..];
        write!(rest, "{height}:").expect("the longest entry has 86 bytes");
        let length = TEXT_BYTES_MAX - rest.len();
        self.engine.input(&text[..length]);
        self.any = true;
    }

    /// The status.
    pub fn finish(self) -> Option<[u8; 32]> {
        self.any.then(|| sha256::Hash::from_engine(self.engine).to_byte_array())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::hash::sha256;

    #[test]
    fn equals_the_hash_of_the_joined_text() {
        assert_eq!(Status::default().finish(), None);
        let (mut status, mut joined) = (Status::default(), String::new());
        for (round, height) in (0..).zip([0, 100, -1, i64::MAX, i64::MIN, 900_000]) {
            let txid = Txid(sha256(&[round]));
            status.push(&txid, height);
            joined += &format!("{txid}:{height}:");
            assert_eq!(status.clone().finish(), Some(sha256(joined.as_bytes())), "up to {height}");
        }
    }
}
