//! Merkle trees of the blocks asked about last: a wallet asks for a branch per transaction, often of the same blocks.
//!
//! In:     txids of a block.
//! Out:    branches.
//! Fails:  never.
//!
//! A tree takes 64 bytes a transaction, a block of 4,000 transactions 256 KB; reading and hashing such a block again
//! takes about 3 ms.

use std::sync::{Arc, Mutex, PoisonError};

use primitives::hash::merkle_level_up;

/// Bytes of all trees kept: those of 64 full blocks.
const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Trees kept: bounds the search through them.
const KEPT_MAX: usize = 256;

/// Every node of a block's merkle tree.
pub(super) struct MerkleTree {
    /// Leaves first, the root alone last.
    levels: Vec<Vec<[u8; 32]>>,
}

impl MerkleTree {
    /// The tree over the identifiers of a block's transactions, of which there is at least one.
    pub(super) fn of(leaves: Vec<[u8; 32]>) -> MerkleTree {
        let mut levels = vec![leaves];
        while levels[levels.len() - 1].len() > 1 {
            levels.push(merkle_level_up(&levels[levels.len() - 1]));
        }
        MerkleTree { levels }
    }

    pub(super) fn leaves(&self) -> &[[u8; 32]] {
        &self.levels[0]
    }

    /// The root; zeros for a block without transactions.
    pub(super) fn root(&self) -> [u8; 32] {
        self.levels[self.levels.len() - 1].first().copied().unwrap_or_default()
    }

    /// Siblings from a leaf up to the root; none beyond the last leaf.
    pub(super) fn branch(&self, index: usize) -> Option<Vec<[u8; 32]>> {
        let below_root = &self.levels[..self.levels.len() - 1];
        let sibling = |(height, level): (usize, &Vec<[u8; 32]>)| level[(index >> height ^ 1).min(level.len() - 1)];
        (index < self.leaves().len()).then(|| below_root.iter().enumerate().map(sibling).collect())
    }

    fn bytes(&self) -> usize {
        32 * self.levels.iter().map(Vec::len).sum::<usize>()
    }
}

/// The trees, the one asked for last at the end.
#[derive(Default)]
pub(super) struct MerkleMemory(Mutex<Vec<Arc<MerkleTree>>>);

impl MerkleMemory {
    pub(super) fn find(&self, root: &[u8; 32]) -> Option<Arc<MerkleTree>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().rposition(|tree| tree.root() == *root)?;
        kept[at..].rotate_left(1);
        kept.last().cloned()
    }

    /// Keeps a tree, and lets those go that were not asked for the longest.
    pub(super) fn keep(&self, tree: MerkleTree) -> Arc<MerkleTree> {
        let tree = Arc::new(tree);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|other| other.root() != tree.root());
        kept.push(tree.clone());
        let mut bytes: usize = kept.iter().map(|tree| tree.bytes()).sum();
        let mut first = 0;
        while bytes > KEPT_BYTES_MAX || kept.len() - first > KEPT_MAX {
            bytes -= kept[first].bytes();
            first += 1;
        }
        kept.drain(..first);
        tree
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::hash::{merkle_branch, merkle_root, sha256};

    fn leaves(count: u32, seed: u8) -> Vec<[u8; 32]> {
        (0..count).map(|n| sha256(&[&n.to_le_bytes()[..], &[seed]].concat())).collect()
    }

    #[test]
    fn branches_equal_those_made_from_the_leaves() {
        for count in (1..40).chain([1023, 1024, 1025]) {
            let leaves = leaves(count, 0);
            let tree = MerkleTree::of(leaves.clone());
            assert_eq!(tree.root(), merkle_root(&leaves).0);
            assert_eq!(tree.leaves(), leaves);
            for index in 0..count as usize {
                assert_eq!(tree.branch(index), Some(merkle_branch(&leaves, index)), "{index} of {count}");
            }
            assert_eq!(tree.branch(count as usize), None);
        }
    }

    #[test]
    fn the_trees_asked_for_last_are_kept_within_their_bytes_and_number() {
        let memory = MerkleMemory::default();
        let roots: Vec<[u8; 32]> = (0..=255).map(|seed| memory.keep(MerkleTree::of(leaves(1, seed))).root()).collect();
        assert!(memory.find(&roots[0]).is_some());
        let one_more = memory.keep(MerkleTree::of(leaves(2, 0)));
        // The first was asked for meanwhile, so the second went.
        assert!(memory.find(&roots[0]).is_some() && memory.find(&roots[1]).is_none());
        // A tree of nearly all bytes leaves room for what came last.
        let large = memory.keep(MerkleTree::of(leaves(1 << 17, 1)));
        assert!(memory.find(&large.root()).is_some() && memory.find(&one_more.root()).is_some());
        let larger = memory.keep(MerkleTree::of(leaves((1 << 17) + 1, 2)));
        assert!(memory.find(&large.root()).is_none() && memory.find(&larger.root()).is_some());
        let bytes: usize = memory.0.lock().unwrap().iter().map(|tree| tree.bytes()).sum();
        assert!(bytes <= KEPT_BYTES_MAX);
    }
}
