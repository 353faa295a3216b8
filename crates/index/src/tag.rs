//! Script tags: the eight bytes that stand for an output script in the tables.
//!
//! In:     the SHA-256 of an output script, and a key that only this data directory knows.
//! Out:    a 64-bit tag.
//! Fails:  never. Two scripts share a tag with chance 2^-64; nobody outside can look for such a pair, since the key is
//!         drawn at random (docs/decisions/0003-keyed-script-tags.md).
//! Source: SipHash-2-4 (Aumasson, Bernstein 2012).

use bitcoin_hashes::siphash24;
use primitives::ScriptHash;

/// The secret of a data directory that makes tags unpredictable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagKey([u64; 2]);

impl TagKey {
    /// The key of 16 bytes.
    pub fn new(bytes: [u8; 16]) -> TagKey {
        let half = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        TagKey([half(0), half(8)])
    }

    /// The tag of a script's hash.
    #[inline]
    pub fn tag(&self, script_hash: &ScriptHash) -> u64 {
        siphash24::Hash::hash_to_u64_with_keys(self.0[0], self.0[1], &script_hash.0)
    }

    /// The tag of a script.
    #[inline]
    pub fn tag_of_script(&self, script: &[u8]) -> u64 {
        self.tag(&ScriptHash::of(script))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_decides_the_tag() {
        let hash = ScriptHash::of(b"script");
        let key = TagKey::new([7; 16]);
        assert_eq!(key.tag(&hash), key.tag_of_script(b"script"));
        assert_ne!(key.tag(&hash), TagKey::new([8; 16]).tag(&hash));
        assert_ne!(key.tag(&hash), key.tag_of_script(b"scripT"));
    }
}
