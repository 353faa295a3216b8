//! Orders of the operator: which blocks not to follow, which to follow again, which to prefer.
//!
//! In:     the hash of a block.
//! Out:    [`Pending`], answered when the writer stands where the order wants it; the ends of all branches.
//! Fails:  [`ControlError`].
//! Source: Bitcoin Core: `invalidateblock`, `reconsiderblock`, `preciousblock`, `getchaintips` (`rpc/blockchain.cpp`).
//!
//! Refusals and their end outlast a restart, a preference does not: as in Core.

use std::fmt;

use primitives::BlockHash;
use store::Fact;

use super::pass::{Pending, Waiter, Wish};
use crate::handle::{Handle, Shared};
use crate::tree::{HeaderTree, NodeId, TipKind};

/// Why an order cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlError {
    /// No header has this hash.
    UnknownBlock,
    /// The genesis block stays.
    Genesis,
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ControlError::UnknownBlock => "Block not found",
            ControlError::Genesis => "the genesis block cannot be left",
        })
    }
}

impl std::error::Error for ControlError {}

/// The end of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainTip {
    /// Its height.
    pub height: u32,
    /// Its hash.
    pub hash: BlockHash,
    /// Blocks between it and the active chain.
    pub branch_blocks: u32,
    /// What is known of it.
    pub kind: TipKind,
}

impl Shared {
    /// Changes the tree; the answer comes after the writer's next pass.
    fn order(
        &self,
        hash: &BlockHash,
        change: impl FnOnce(&mut HeaderTree, NodeId) -> Option<Fact>,
    ) -> Result<Pending, ControlError> {
        let mut tree = self.intake.tree_mut();
        let id = tree.find(hash).ok_or(ControlError::UnknownBlock)?;
        let before = tree.best_header();
        let fact = change(&mut tree, id);
        self.intake.facts().extend(fact);
        drop(tree);
        self.announce_header_after(before);
        Ok(self.next_pass())
    }

    /// Answered at the end of a pass that begins after this.
    pub(crate) fn next_pass(&self) -> Pending {
        let (answer, pending) = Pending::pair();
        self.intake.waiters.add(Waiter { block: None, wish: Wish::Committed, answer });
        self.intake.signal.ring_urgently();
        pending
    }
}

impl Handle {
    /// Refuses a block and what builds on it; the writer moves to the best chain without it.
    pub fn invalidate_block(&self, hash: &BlockHash) -> Result<Pending, ControlError> {
        if *hash == self.0.intake.params.genesis_hash {
            return Err(ControlError::Genesis);
        }
        self.0.order(hash, |tree, id| {
            tree.invalidate(id);
            Some(Fact::Refused(tree.header(id).encode()))
        })
    }

    /// Takes back refusals of a block, of its ancestors and of what builds on it.
    pub fn reconsider_block(&self, hash: &BlockHash) -> Result<Pending, ControlError> {
        self.0.order(hash, |tree, id| {
            tree.reconsider(id);
            Some(Fact::Reconsidered(tree.header(id).encode()))
        })
    }

    /// Treats a block as if it had come before others of the same work.
    pub fn prefer_block(&self, hash: &BlockHash) -> Result<Pending, ControlError> {
        self.0.order(hash, |tree, id| {
            tree.prefer(id, tree.connected());
            None
        })
    }

    /// Answered when the writer has looked at everything that was handed in before, and committed.
    pub fn flush(&self) -> Pending {
        self.0.next_pass()
    }

    /// Ends of all branches, the highest first. Looks at every header: some milliseconds on mainnet.
    pub fn chain_tips(&self) -> Vec<ChainTip> {
        let tree = self.0.intake.tree();
        let active = tree.active();
        let mut tips: Vec<ChainTip> = tree
            .tips(active)
            .into_iter()
            .map(|(id, kind)| {
                let height = tree.height(id);
                let branch_blocks = height - tree.height(tree.fork_point(id, active));
                ChainTip { height, hash: tree.hash(id), branch_blocks, kind }
            })
            .collect();
        tips.sort_by_key(|tip| std::cmp::Reverse((tip.height, tip.hash.0)));
        tips
    }
}
