//! The Electrum status of a script: one hash over its history.
//!
//! In:     (txid, height) of every transaction of the history, in chain order.
//! Out:    SHA-256 of `"txid:height:"` for each, or none for an empty history.
//! Fails:  never.
//! Source: Electrum protocol 1.4, "Status of a script".

use std::io::Write;

use bitcoin_hashes::{HashEngine, sha256};
use primitives::Txid;

/// A status under construction; takes one transaction at a time, so a long history needs no memory.
#[derive(Clone, Default)]
pub struct Status {
    engine: sha256::HashEngine,
    any: bool,
}

impl Status {
    /// Appends a transaction.
    pub fn push(&mut self, txid: &Txid, height: i64) {
        // 64 digits, two colons, a sign and nineteen digits.
        let mut text = [0u8; 96];
        let mut rest = &mut text[..];
        write!(rest, "{txid}:{height}:").expect("the longest entry has 86 bytes");
        let length = 96 - rest.len();
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
        let (a, b) = (Txid([1; 32]), Txid([2; 32]));
        let mut status = Status::default();
        status.push(&a, 100);
        status.push(&b, -1);
        assert_eq!(status.finish(), Some(sha256(format!("{a}:100:{b}:-1:").as_bytes())));
    }
}
