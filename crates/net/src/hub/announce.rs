//! New blocks are told of, to each peer the way it asked for.
//!
//! In:     the tip of the chain.
//! Out:    compact blocks, headers, or hashes.
//! Fails:  never.
//! Source: Bitcoin Core, `NewPoWValidBlock`, `UpdatedBlockTip`, `SendMessages`; BIP 130, BIP 152.

use primitives::{BlockHash, Header};

use super::{Chain, Hub, Newest, Place};
use crate::peer::PeerId;
use crate::wire::{Inventory, InventoryKind, Message};

/// New headers told of at once; where more are new, or blocks were left, the last one's hash does. Core's
/// `MAX_BLOCKS_TO_ANNOUNCE`.
const HEADERS_TOLD_MAX: u32 = 8;

impl<C: Chain> Hub<C> {
    /// Tells peers of a tip they have not been told of.
    pub(super) fn announce(&mut self) {
        let tip = self.chain.tip();
        if tip.hash == self.announced {
            return;
        }
        let on_best = self.chain.on_best(tip.height).is_some_and(|place| place.hash == tip.hash);
        if self.chain.is_initial_download() || !on_best {
            self.announced = tip.hash;
            return;
        }
        self.txs.download.tip_changed();
        let fork = self.chain.common_height(&self.announced).min(tip.height);
        self.announced = tip.hash;
        let new: Vec<Place> = match tip.height - fork {
            0 => return,
            1..=HEADERS_TOLD_MAX => (fork + 1..=tip.height).filter_map(|height| self.chain.on_best(height)).collect(),
            _ => vec![tip],
        };
        for id in self.ids() {
            if self.talks.get(&id).is_some_and(|talk| talk.peer.is_ready()) && !self.knows(id, &tip) {
                self.tell(id, &new);
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
