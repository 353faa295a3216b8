//! The hashes of Bitcoin and the types that name them.
//!
//! In:     bytes.
//! Out:    SHA-256, double SHA-256, HASH160, merkle roots and branches; one type for each kind of identifier.
//! Fails:  only in parsing text.
//! Source: identifiers are shown with their bytes reversed, as Bitcoin Core's `uint256::GetHex`.

use std::fmt;
use std::str::FromStr;

use bitcoin_hashes::{hash160, sha256, sha256d};
use stdx::hex::{self, HexError};

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub [u8; 32]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut bytes = self.0;
                bytes.reverse();
                f.write_str(&hex::encode(&bytes))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        }

        impl FromStr for $name {
            type Err = HexError;

            fn from_str(text: &str) -> Result<Self, HexError> {
                let mut bytes = hex::decode_array::<32>(text)?;
                bytes.reverse();
                Ok($name(bytes))
            }
        }
    };
}

identifier! {
    /// Double SHA-256 of a transaction without its witnesses.
    Txid
}
identifier! {
    /// Double SHA-256 of a transaction with its witnesses.
    Wtxid
}
identifier! {
    /// Double SHA-256 of an 80-byte header.
    BlockHash
}
identifier! {
    /// SHA-256 of an output script, as the Electrum protocol names scripts.
    ScriptHash
}

impl ScriptHash {
    /// The hash of an output script.
    pub fn of(script: &[u8]) -> ScriptHash {
        ScriptHash(sha256(script))
    }
}

/// SHA-256.
#[inline]
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    sha256::Hash::hash(bytes).to_byte_array()
}

/// SHA-256 of SHA-256.
#[inline]
pub fn sha256d(bytes: &[u8]) -> [u8; 32] {
    sha256d::Hash::hash(bytes).to_byte_array()
}

/// SHA-256 of SHA-256 of the parts in a row.
#[inline]
pub fn sha256d_parts(parts: &[&[u8]]) -> [u8; 32] {
    sha256d::Hash::hash_byte_chunks(parts).to_byte_array()
}

/// RIPEMD-160 of SHA-256.
#[inline]
pub fn hash160(bytes: &[u8]) -> [u8; 20] {
    hash160::Hash::hash(bytes).to_byte_array()
}

/// One level up a merkle tree: `nodes` pairwise, the last one with itself when their number is odd.
pub fn merkle_level_up(nodes: &[[u8; 32]]) -> Vec<[u8; 32]> {
    let mut pairs: Vec<[u8; 64]> = Vec::with_capacity(nodes.len().div_ceil(2));
    for pair in nodes.chunks(2) {
        let mut both = [0u8; 64];
        both[..32].copy_from_slice(&pair[0]);
        both[32..].copy_from_slice(pair.last().expect("chunks are not empty"));
        pairs.push(both);
    }
    let mut above = vec![[0u8; 32]; pairs.len()];
    sha256d::Hash::hash_64_many(&mut above, &pairs);
    above
}

/// A merkle root and whether some level held two equal neighbours in one pair.
///
/// Such a pair lets different lists have one root (CVE-2012-2459): Core's `ComputeMerkleRoot` reports it as `mutated`.
pub fn merkle_root(leaves: &[[u8; 32]]) -> ([u8; 32], bool) {
    let mut level = leaves.to_vec();
    let mut mutated = false;
    while level.len() > 1 {
        mutated |= level.chunks_exact(2).any(|pair| pair[0] == pair[1]);
        level = merkle_level_up(&level);
    }
    (level.first().copied().unwrap_or_default(), mutated)
}

/// The siblings from leaf `index` up to the root; an empty list for a single leaf.
pub fn merkle_branch(leaves: &[[u8; 32]], mut index: usize) -> Vec<[u8; 32]> {
    assert!(index < leaves.len(), "leaf {index} of {}", leaves.len());
    let mut branch = Vec::new();
    let mut level = leaves.to_vec();
    while level.len() > 1 {
        branch.push(level[(index ^ 1).min(level.len() - 1)]);
        level = merkle_level_up(&level);
        index /= 2;
    }
    branch
}

/// The root that a branch leads to from `leaf` at `index`.
pub fn merkle_root_of_branch(leaf: [u8; 32], mut index: usize, branch: &[[u8; 32]]) -> [u8; 32] {
    let mut node = leaf;
    for sibling in branch {
        node = if index & 1 == 0 { sha256d_parts(&[&node, sibling]) } else { sha256d_parts(&[sibling, &node]) };
        index /= 2;
    }
    node
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_of_every_leaf_lead_to_the_root() {
        for count in 1..40usize {
            let leaves: Vec<[u8; 32]> = (0..count).map(|n| sha256(&[n as u8])).collect();
            let (root, mutated) = merkle_root(&leaves);
            assert!(!mutated);
            for index in 0..count {
                let branch = merkle_branch(&leaves, index);
                assert_eq!(merkle_root_of_branch(leaves[index], index, &branch), root, "{index} of {count}");
            }
        }
    }

    #[test]
    fn a_repeated_tail_has_the_same_root_and_is_reported() {
        let leaves: Vec<[u8; 32]> = (0..3).map(|n| sha256(&[n])).collect();
        let repeated = [leaves[0], leaves[1], leaves[2], leaves[2]];
        assert_eq!(merkle_root(&leaves).0, merkle_root(&repeated).0);
        assert!(merkle_root(&repeated).1);
        // Core reports equal pairs at inner levels too: 6 leaves repeated to 8.
        let six: Vec<[u8; 32]> = (0..6).map(|n| sha256(&[n])).collect();
        let eight = [&six[..], &six[4..]].concat();
        assert_eq!(merkle_root(&six).0, merkle_root(&eight).0);
        assert!(merkle_root(&eight).1);
        assert_eq!(merkle_root(&[]), ([0; 32], false));
    }

    #[test]
    fn identifiers_are_shown_reversed() {
        let text = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f";
        let hash: BlockHash = text.parse().unwrap();
        assert_eq!(hash.0[0], 0x6f);
        assert_eq!(hash.to_string(), text);
    }
}
