//! New blocks are told of, to each peer the way it asked for.
//!
//! In:     the tip of the chain; blocks that were put together of known transactions.
//! Out:    compact blocks, headers, or hashes.
//! Fails:  never.
//! Source: Bitcoin Core, `NewPoWValidBlock`, `UpdatedBlockTip`, `SendMessages`; BIP 130, BIP 152.

use consensus::block::{CheckedBlock, check_contextual, check_identified};
use primitives::{BlockHash, Header};

use super::{Chain, Hub, Newest, Place};
use crate::peer::PeerId;
use crate::wire::{Inventory, InventoryKind, Message, Rebuilt};

/// New headers told of at once; where more are new, or blocks were left, the last one's hash does. Core's
/// `MAX_BLOCKS_TO_ANNOUNCE`.
const HEADERS_TOLD_MAX: usize = 8;

impl<C: Chain> Hub<C> {
    /// Tells peers of a tip they have not been told of.
    pub(super) fn announce(&mut self) {
        let tip = self.chain.tip();
        if tip.hash == self.announced {
            return;
        }
        let before = std::mem::replace(&mut self.announced, tip.hash);
        if self.chain.is_initial_download() {
            return;
        }
        self.txs.download.tip_changed();
        let new = self.new_since(&before, tip);
        if new.is_empty() {
            return;
        }
        for id in self.ids() {
            if self.talks.get(&id).is_some_and(|talk| talk.peer.is_ready()) && !self.knows(id, &tip) {
                self.tell(id, &new);
            }
        }
    }

    /// Blocks of the tip's branch that were not told of when `before` was, lowest first; the tip alone where there are many.
    ///
    /// The tip need not be an ancestor of the best header: another of as much work may be known, whose block nobody has.
    fn new_since(&self, before: &BlockHash, tip: Place) -> Vec<Place> {
        let (mut new, mut at) = (Vec::new(), tip);
        while !self.chain.ancestor(before, at.height).is_some_and(|told| told.hash == at.hash) {
            if new.len() == HEADERS_TOLD_MAX {
                return vec![tip];
            }
            new.push(at);
            let Some(parent) = self.chain.find(&at.header.previous) else { return vec![tip] };
            at = parent;
        }
        new.reverse();
        new
    }

    /// Looks at a block that was put together here, while all of it is at hand: those who want blocks at once get it before
    /// it is on the disk, and before its scripts are judged (Core: `AcceptBlock`, `NewPoWValidBlock`).
    pub(super) fn take_rebuilt(&mut self, id: PeerId, hash: BlockHash, rebuilt: Rebuilt) -> bool {
        let Rebuilt { block, txids, wtxids } = rebuilt;
        let bytes = || block.bytes().to_vec();
        let Some(parent) = self.chain.find(&block.header().previous) else {
            return self.chain.take_block(id, hash, bytes());
        };
        let checked = check_identified(block.clone(), txids.clone(), wtxids.clone(), &self.params);
        let in_place = |checked: &CheckedBlock| {
            check_contextual(checked, parent.height + 1, parent.median_time_past_s, &self.params).is_ok()
        };
        // What fails is judged where every block is, and falls back on nobody (BIP 152).
        let Some(checked) = checked.ok().filter(in_place) else { return self.chain.take_block(id, hash, bytes()) };
        if parent.hash != self.chain.tip().hash || self.chain.is_initial_download() {
            return self.chain.take_checked(id, checked);
        }
        self.newest = Some(Newest::identified(hash, block, txids, wtxids));
        self.announce_early(&hash);
        self.held.push((id, checked));
        true
    }

    /// True while a block waits that peers are being told of.
    pub fn holds_block(&self) -> bool {
        !self.held.is_empty()
    }

    /// Hands the block that peers were told of to the chain: other threads wake, and would take the processor from the one
    /// that writes to the sockets.
    pub fn hand_over(&mut self) {
        for (id, checked) in std::mem::take(&mut self.held) {
            let hash = *checked.hash();
            if !self.chain.take_checked(id, checked) {
                self.judging.remove(&hash);
                self.window.lost(&hash);
            }
        }
    }

    /// A block that follows the tip passed every rule that needs no coins: those who want blocks at once get it now, before
    /// its scripts are judged (BIP 152 allows it; Core: `NewPoWValidBlock`).
    pub(super) fn announce_early(&mut self, hash: &BlockHash) {
        let Some(place) = self.chain.find(hash) else { return };
        let follows = place.header.previous == self.chain.tip().hash && !place.is_invalid;
        if !follows || self.chain.is_initial_download() {
            return;
        }
        let parent = self.chain.tip();
        for id in self.ids() {
            let at_once = self.features(id).is_some_and(|features| features.compact_at_once);
            if at_once && self.knows(id, &parent) && !self.knows(id, &place) {
                self.tell(id, &[place]);
            }
        }
    }

    /// Tells one peer of new blocks, lowest first.
    fn tell(&mut self, id: PeerId, new: &[Place]) {
        let Some(features) = self.features(id) else { return };
        let (at_once, headers) = (features.compact_at_once, features.prefers_headers);
        let tip = new.last().expect("the tip is new");
        // Only what follows something it has makes sense to it.
        let lacks = new.iter().position(|place| !self.knows(id, place)).unwrap_or(new.len() - 1);
        let follows = self.chain.find(&new[lacks].header.previous).is_some_and(|parent| self.knows(id, &parent));
        let message = if at_once && follows && lacks + 1 == new.len() {
            self.compact(tip)
        } else if headers && follows {
            let headers: Vec<Header> = new[lacks..].iter().map(|place| place.header).collect();
            Some(Message::Headers(headers))
        } else {
            None
        };
        let Some(message) = message else {
            // A hash alone says nothing of what is below: who got no more does not know the block (Core: `pindexBestHeaderSent`).
            let entry = Inventory { kind: InventoryKind::Block, hash: tip.hash.0 };
            return self.send(id, &Message::Inv(vec![entry]));
        };
        let hash = tip.hash;
        self.send(id, &message);
        if let Some(talk) = self.talks.get_mut(&id) {
            talk.told = Some(hash);
        }
    }

    fn compact(&mut self, place: &Place) -> Option<Message> {
        if self.newest.as_ref().is_none_or(|newest| newest.hash != place.hash) {
            let block = self.parse_block(self.chain.block(&place.hash)?)?;
            self.newest = Some(Newest::new(place.hash, block));
        }
        let nonce = self.random.next_u64();
        Some(self.newest.as_mut()?.compact(nonce).clone())
    }
}
