//! Which tip is best: blocks that are there or not, refusals, and what the operator prefers.
//!
//! In:     nodes of the tree; places of blocks; verdicts.
//! Out:    the best header, and the best tip whose blocks are all there.
//! Fails:  never.
//! Source: Bitcoin Core, `validation.cpp`: `ReceivedBlockTransactions` (blocks arrive in any order), `InvalidateBlock`,
//!         `ResetBlockFailureFlags`, `PreciousBlock`; `CBlockIndexWorkComparator`.

use std::collections::VecDeque;

use primitives::Header;
use store::blockfiles::Position;

use super::{CONNECTED, HeaderTree, INVALID, LINKED, NO_POSITION, NodeId, REFUSED};

/// What a tip of some branch is, in Core's words (`getchaintips`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TipKind {
    /// The chain that is followed.
    Active,
    /// All of its blocks were connected once since the start.
    ValidFork,
    /// All of its blocks are there, and not all of them were tried.
    ValidHeaders,
    /// Not all of its blocks are there.
    HeadersOnly,
    /// It or an ancestor was refused.
    Invalid,
}

impl TipKind {
    /// Core's word.
    pub fn name(self) -> &'static str {
        match self {
            TipKind::Active => "active",
            TipKind::ValidFork => "valid-fork",
            TipKind::ValidHeaders => "valid-headers",
            TipKind::HeadersOnly => "headers-only",
            TipKind::Invalid => "invalid",
        }
    }
}

impl HeaderTree {
    /// The block of a known header lies at `position`; of one that is there already, this is a copy.
    pub fn add_block(&mut self, id: NodeId, position: Position) {
        let index = id.0 as usize;
        if self.nodes[index].position == NO_POSITION {
            self.nodes[index].position = position;
            self.link_if_possible(id.0);
        } else if self.nodes[index].position != position {
            self.copies.entry(id.0).or_default().push(position);
        }
    }

    /// Links a node whose block is there to the genesis block, if its parent is, and all that waited for it.
    fn link_if_possible(&mut self, id: u32) {
        let parent = self.nodes[id as usize].parent;
        if self.nodes[parent as usize].marks & LINKED == 0 {
            self.unlinked.entry(parent).or_default().push(id);
            return;
        }
        // In the order they came: of equal ones the first stays (Core: `ReceivedBlockTransactions`).
        let mut linked = VecDeque::from([id]);
        while let Some(id) = linked.pop_front() {
            let node = &mut self.nodes[id as usize];
            node.marks |= LINKED;
            node.sequence = self.next_sequence;
            self.next_sequence = self.next_sequence.saturating_add(1);
            if self.nodes[id as usize].marks & INVALID == 0 && self.is_better(id, self.best) {
                self.best = id;
            }
            linked.extend(self.unlinked.remove(&id).unwrap_or_default());
        }
    }

    /// More work, or as much and linked earlier (Core: `CBlockIndexWorkComparator`).
    fn is_better(&self, id: u32, than: u32) -> bool {
        let (one, other) = (&self.nodes[id as usize], &self.nodes[than as usize]);
        one.work > other.work || (one.work == other.work && one.sequence < other.sequence)
    }

    /// Marks a node and all that build on it; the best tips are found anew.
    pub fn invalidate(&mut self, id: NodeId) {
        self.nodes[id.0 as usize].marks |= REFUSED;
        self.judge_anew();
    }

    /// Takes back refusals of a node, of its ancestors and of all that build on it.
    pub fn reconsider(&mut self, id: NodeId) {
        let mut below = vec![false; self.nodes.len()];
        below[id.0 as usize] = true;
        self.nodes[id.0 as usize].marks &= !REFUSED;
        for index in id.0 as usize + 1..self.nodes.len() {
            if below[self.nodes[index].parent as usize] {
                below[index] = true;
                self.nodes[index].marks &= !REFUSED;
            }
        }
        let mut walk = id;
        while walk != NodeId::GENESIS {
            walk = self.parent(walk);
            self.nodes[walk.0 as usize].marks &= !REFUSED;
        }
        self.judge_anew();
    }

    /// Treats a block as if it had come before all others of the same work.
    pub fn prefer(&mut self, id: NodeId, tip: NodeId) {
        let tip_work = self.nodes[tip.0 as usize].work;
        if self.nodes[id.0 as usize].work < tip_work {
            return;
        }
        if tip_work > self.preferred_work {
            self.next_preferred = -1;
        }
        self.preferred_work = tip_work;
        self.nodes[id.0 as usize].sequence = self.next_preferred;
        self.next_preferred = self.next_preferred.saturating_sub(1);
        self.offer(id);
    }

    /// After a start: the tip of before stays where another has as much work (Core: `SEQ_ID_BEST_CHAIN_FROM_DISK`).
    pub fn keep_tip(&mut self, tip: NodeId) {
        self.nodes[tip.0 as usize].sequence = 0;
        self.offer(tip);
    }

    fn offer(&mut self, id: NodeId) {
        let candidate = self.nodes[id.0 as usize].marks & (LINKED | INVALID) == LINKED;
        if candidate && self.is_better(id.0, self.best) {
            self.best = id.0;
        }
    }

    /// The bytes kept of a block are not its block: it counts as missing, and what builds on it is no candidate. With
    /// `again`, the same bytes are tried once more by [`HeaderTree::retry_damaged`].
    pub fn mark_damaged(&mut self, id: NodeId, again: bool) {
        let node = &mut self.nodes[id.0 as usize];
        let position = std::mem::replace(&mut node.position, NO_POSITION);
        if again {
            self.damaged.push((id.0, position));
        }
        self.unlinked.clear();
        for index in 1..self.nodes.len() {
            let parent = self.nodes[index].parent;
            let parent_linked = self.nodes[parent as usize].marks & LINKED != 0;
            let node = &mut self.nodes[index];
            let has_block = node.position != NO_POSITION;
            match has_block && parent_linked {
                true => node.marks |= LINKED,
                false => node.marks &= !LINKED,
            }
            if has_block && !parent_linked {
                self.unlinked.entry(parent).or_default().push(index as u32);
            }
        }
        self.judge_anew();
    }

    /// Turns to another copy of a block, because the one at [`HeaderTree::position`] is damaged. False: there is none.
    pub fn use_other_copy(&mut self, id: NodeId) -> bool {
        let other = self.copies.get_mut(&id.0).and_then(Vec::pop);
        if let Some(position) = other {
            self.nodes[id.0 as usize].position = position;
        }
        other.is_some()
    }

    /// Takes damaged blocks for whole, of which no other copy has come, so that they are read again. False: there are
    /// none.
    pub fn retry_damaged(&mut self) -> bool {
        let mut any = false;
        for (id, position) in std::mem::take(&mut self.damaged) {
            if self.nodes[id as usize].position == NO_POSITION {
                self.add_block(NodeId(id), position);
                any = true;
            }
        }
        any
    }

    /// One pass over all nodes, some 3 ms on mainnet: refusals reach what builds on them, and both bests are found.
    fn judge_anew(&mut self) {
        (self.best, self.best_header) = (0, 0);
        for index in 1..self.nodes.len() {
            let parent_invalid = self.nodes[self.nodes[index].parent as usize].marks & INVALID != 0;
            let node = &mut self.nodes[index];
            match node.marks & REFUSED != 0 || parent_invalid {
                true => node.marks |= INVALID,
                false => node.marks &= !INVALID,
            }
            if node.marks & INVALID != 0 {
                continue;
            }
            let (linked, work) = (node.marks & LINKED != 0, node.work);
            if work > self.nodes[self.best_header as usize].work {
                self.best_header = index as u32;
            }
            if linked && self.is_better(index as u32, self.best) {
                self.best = index as u32;
            }
        }
    }

    /// Ends of all branches, and the active tip.
    pub fn tips(&self, active: NodeId) -> Vec<(NodeId, TipKind)> {
        let mut is_tip = vec![true; self.nodes.len()];
        for node in &self.nodes[1..] {
            is_tip[node.parent as usize] = false;
        }
        is_tip[active.0 as usize] = true;
        let on_active = |id: NodeId| self.ancestor(active, self.height(id)) == Some(id);
        let tips = (0..self.nodes.len() as u32).map(NodeId).filter(|id| is_tip[id.0 as usize]);
        tips.filter(|id| *id == active || !on_active(*id)).map(|id| (id, self.kind(id, active))).collect()
    }

    fn kind(&self, id: NodeId, active: NodeId) -> TipKind {
        match self.nodes[id.0 as usize].marks {
            _ if id == active => TipKind::Active,
            marks if marks & INVALID != 0 => TipKind::Invalid,
            marks if marks & LINKED == 0 => TipKind::HeadersOnly,
            marks if marks & CONNECTED != 0 => TipKind::ValidFork,
            _ => TipKind::ValidHeaders,
        }
    }

    /// Headers above `above` on the way to `towards` whose blocks are missing, lowest first: of the first `window` of
    /// them, at most `count`.
    pub fn missing(&self, towards: NodeId, above: u32, window: u32, count: usize) -> Vec<NodeId> {
        let end = self.height(towards).min(above.saturating_add(window));
        let Some(mut walk) = self.ancestor(towards, end) else { return Vec::new() };
        let mut missing = Vec::new();
        while self.height(walk) > above {
            if !self.has_block(walk) {
                missing.push(walk);
            }
            walk = self.parent(walk);
        }
        missing.reverse();
        missing.truncate(count);
        missing
    }

    /// Blocks of the first `window` above `above` on the way to `towards` that are there: their number and bytes.
    pub fn waiting_in(&self, towards: NodeId, above: u32, window: u32) -> (u32, u64) {
        let end = self.height(towards).min(above.saturating_add(window));
        let Some(mut walk) = self.ancestor(towards, end) else { return (0, 0) };
        let (mut blocks, mut bytes) = (0, 0);
        while self.height(walk) > above {
            let size = self.nodes[walk.0 as usize].position.size;
            blocks += u32::from(size > 0);
            bytes += u64::from(size);
            walk = self.parent(walk);
        }
        (blocks, bytes)
    }

    /// True where the block is in the files and, as far as anyone has looked, whole; the genesis block always is.
    pub fn has_block(&self, id: NodeId) -> bool {
        id == NodeId::GENESIS || self.nodes[id.0 as usize].position != NO_POSITION
    }

    /// True where its block and those of all its ancestors are there.
    pub fn is_linked(&self, id: NodeId) -> bool {
        self.nodes[id.0 as usize].marks & LINKED != 0
    }

    /// Its header, put together again: the parent's hash is not stored twice.
    pub fn header(&self, id: NodeId) -> Header {
        let node = &self.nodes[id.0 as usize];
        let previous = match id {
            NodeId::GENESIS => self.params.genesis.previous,
            _ => self.nodes[node.parent as usize].hash,
        };
        Header {
            version: node.version,
            previous,
            merkle_root: node.merkle_root,
            time_s: node.time_s,
            bits: node.bits,
            nonce: node.nonce,
        }
    }
}
