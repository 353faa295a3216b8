//! Serving block filters.
//!
//! In:     getcfilters, getcfheaders, getcfcheckpt.
//! Out:    cfilter for each block, as fast as the peer reads; cfheaders, cfcheckpt.
//! Fails:  a peer that asks for what it was not offered, for blocks we would not serve, or for more than the limits loses its
//!         connection. What was offered and cannot be read after all is not answered.
//! Source: BIP 157; Bitcoin Core, `PrepareBlockFilterRequest`, `ProcessGetCFilters`, `ProcessGetCFHeaders`,
//!         `ProcessGetCFCheckPt`.

use primitives::BlockHash;

use super::{Chain, Hub, Place};
use crate::peer::{End, PeerId};
use crate::wire::limits::{FILTER_HASHES_MAX, FILTERS_MAX, INVENTORY_MAX};
use crate::wire::{Filter, FilterCheckpoints, FilterHeaders, FilterRange, Message, Services};

/// The basic filter of BIP 158.
const BASIC: u8 = 0;
/// Blocks between two headers of cfcheckpt; Core's `CFCHECKPT_INTERVAL`.
pub const CHECKPOINT_INTERVAL: u32 = 1_000;

impl<C: Chain> Hub<C> {
    /// What a new connection is offered: filters once every block has its own.
    pub(super) fn services_now(&self) -> Services {
        let others = self.local.services.without(Services::COMPACT_FILTERS);
        if self.chain.serves_filters() { others.and(Services::COMPACT_FILTERS) } else { others }
    }

    /// The last block of a range that may be asked for; none after the connection was closed.
    fn last_of(&mut self, id: PeerId, kind: u8, first: u32, stop: &BlockHash, count_max: u32) -> Option<Place> {
        if kind != BASIC || !self.talks.get(&id)?.offers_filters {
            self.end(id, End::ClosedByUs("it asks for a kind of block filter that is not offered"));
            return None;
        }
        let Some(last) = self.chain.find(stop).filter(|place| self.chain.may_serve(&place.hash)) else {
            self.end(id, End::ClosedByUs("it asks for filters up to an unknown block"));
            return None;
        };
        let count = last.height.checked_sub(first);
        if count.is_none_or(|count| count >= count_max) {
            self.end(id, End::ClosedByUs("it asks for a range of filters beyond the limits"));
            return None;
        }
        Some(last)
    }

    pub(super) fn serve_filters(&mut self, id: PeerId, asked: &FilterRange) {
        let first = asked.start_height;
        let Some(last) = self.last_of(id, asked.filter_type, first, &asked.stop, FILTERS_MAX) else { return };
        let Some(heads) = self.chain.filter_heads(first, &last.hash) else { return };
        let Some(talk) = self.talks.get_mut(&id) else { return };
        if talk.filters.len() + heads.len() > INVENTORY_MAX {
            return self.end(id, End::ClosedByUs("it asks for more than it reads"));
        }
        talk.filters.extend(heads.iter().map(|head| head.block));
        self.send_filters(id);
    }

    /// Sends the filters a peer asked for, until its queue is full.
    pub(super) fn send_filters(&mut self, id: PeerId) {
        loop {
            let Some(talk) = self.talks.get_mut(&id).filter(|talk| !talk.peer.is_clogged()) else { return };
            let Some(block) = talk.filters.pop_front() else { return };
            // One that a reorganisation took away is left out.
            let Some(filter) = self.chain.filter(&block) else { continue };
            self.send(id, &Message::Filter(Filter { filter_type: BASIC, block, filter }));
        }
    }

    pub(super) fn serve_filter_hashes(&mut self, id: PeerId, asked: &FilterRange) {
        let first = asked.start_height;
        let Some(last) = self.last_of(id, asked.filter_type, first, &asked.stop, FILTER_HASHES_MAX as u32) else {
            return;
        };
        // The header before the range comes with it.
        let Some(heads) = self.chain.filter_heads(first.saturating_sub(1), &last.hash) else { return };
        let (previous, heads) = match heads.split_first() {
            Some((before, rest)) if first > 0 => (before.header, rest),
            _ => ([0; 32], &heads[..]),
        };
        let hashes = heads.iter().map(|head| head.hash).collect();
        let told = FilterHeaders { filter_type: BASIC, stop: last.hash, previous, hashes };
        self.send(id, &Message::FilterHeaders(told));
    }

    pub(super) fn serve_filter_checkpoints(&mut self, id: PeerId, kind: u8, stop: &BlockHash) {
        let Some(last) = self.last_of(id, kind, 0, stop, u32::MAX) else { return };
        let Some(headers) = self.chain.filter_checkpoints(&last.hash, CHECKPOINT_INTERVAL) else { return };
        let told = FilterCheckpoints { filter_type: BASIC, stop: last.hash, headers };
        self.send(id, &Message::FilterCheckpoints(told));
    }
}
