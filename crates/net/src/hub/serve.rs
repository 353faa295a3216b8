//! What peers ask for: headers, block hashes, blocks, parts of blocks.
//!
//! In:     getheaders, getblocks, getdata, getblocktxn.
//! Out:    answers, as fast as the peer reads: nothing is read from disk for a peer whose queue is full.
//! Fails:  a peer that asks for what cannot be loses its connection; so does one that wants old blocks when the day's upload
//!         is spent.
//! Source: Bitcoin Core, `ProcessGetBlockData`, `ProcessMessage` (`GETHEADERS`, `GETBLOCKS`, `GETBLOCKTXN`).

use consensus::Work;
use primitives::{Block, BlockHash};

use super::{Chain, Hub, Place};
use crate::peer::{End, PeerId, Permissions};
use crate::relay::TxName;
use crate::wire::limits::{HEADERS_MAX, INVENTORY_MAX};
use crate::wire::{
    BlockBytes, BlockTxs, BlockTxsRequest, CompactBlock, Inventory, InventoryKind, LocatorRequest, Message, TxList,
};

/// Hashes of one answer to getblocks; Core's figure.
const HASHES_MAX: usize = 500;
/// Blocks below the tip that are served as compact blocks; Core's `MAX_CMPCTBLOCK_DEPTH`.
const COMPACT_DEPTH_MAX: u32 = 5;
/// Blocks below the tip whose transactions are served one by one; Core's `MAX_BLOCKTXN_DEPTH`.
const BLOCK_TXS_DEPTH_MAX: u32 = 10;
/// Blocks older than this count as history when the upload is nearly spent; Core's `HISTORICAL_BLOCK_AGE`.
const HISTORY_AGE_S: u64 = 7 * 24 * 60 * 60;
impl<C: Chain> Hub<C> {
    pub(super) fn serve_headers(&mut self, id: PeerId, request: &LocatorRequest) {
        // One header by its hash: only of a block that everybody may know we have.
        if request.locator.is_empty() && !self.chain.may_serve(&request.stop) {
            return;
        }
        // Before our own chain has shown its work it is nobody's business (Core: an empty answer, so that nobody waits).
        let least = Work::from_be_bytes(&self.params.minimum_chainwork);
        let headers = match self.chain.tip().work < least && !self.has_permission(id, Permissions::DOWNLOAD) {
            true => Vec::new(),
            false => self.chain.headers_after(&request.locator, &request.stop, HEADERS_MAX),
        };
        let told = headers.last().map_or_else(|| self.chain.tip().hash, |last| last.hash());
        self.send(id, &Message::Headers(headers));
        if let Some(talk) = self.talks.get_mut(&id) {
            talk.told = Some(told);
        }
    }

    pub(super) fn serve_hashes(&mut self, id: PeerId, request: &LocatorRequest) {
        let headers = self.chain.headers_after(&request.locator, &request.stop, HASHES_MAX);
        let entry = |hash: BlockHash| Inventory { kind: InventoryKind::Block, hash: hash.0 };
        if !headers.is_empty() {
            self.send(id, &Message::Inv(headers.iter().map(|header| entry(header.hash())).collect()));
        }
    }

    /// Remembers what a peer asks for; it is served as it reads.
    pub(super) fn take_wants(&mut self, id: PeerId, inventory: Vec<Inventory>) {
        let Some(talk) = self.talks.get_mut(&id) else { return };
        if talk.wants.len() + inventory.len() > INVENTORY_MAX {
            return self.end(id, End::ClosedByUs("it asks for more than it reads"));
        }
        talk.wants.extend(inventory);
        self.serve(id);
    }

    /// Serves what a peer asked for, until its queue is full.
    pub(super) fn serve(&mut self, id: PeerId) {
        let mut absent = Vec::new();
        loop {
            let Some(talk) = self.talks.get_mut(&id).filter(|talk| !talk.peer.is_clogged()) else { break };
            let Some(wanted) = talk.wants.pop_front() else { break };
            if let Some(name) = TxName::of(&wanted) {
                log::trace!(target: "net", "received getdata for: {name} peer={}", id.0);
            }
            if wanted.kind.is_block() {
                self.serve_block(id, wanted);
            } else if wanted.kind.is_tx() && !self.serve_tx(id, wanted) {
                absent.push(wanted);
            }
            // What nobody knows is passed over, so that it cannot stand in the way of the rest (CVE-2024-52920).
        }
        if !absent.is_empty() {
            self.send(id, &Message::NotFound(absent));
        }
        self.send_filters(id);
    }

    fn serve_block(&mut self, id: PeerId, wanted: Inventory) {
        let hash = BlockHash(wanted.hash);
        let Some(place) = self.servable(&hash) else { return };
        let is_history = u64::from(place.header.time_s) + HISTORY_AGE_S < self.now.unix_s;
        if is_history && self.upload.is_spent_for_history(self.now) && !self.has_permission(id, Permissions::DOWNLOAD) {
            return self.end(id, End::ClosedByUs("historical block serving limit reached"));
        }
        let newest = self.newest.as_ref().filter(|newest| newest.hash == hash);
        let Some(bytes) = newest.map(|newest| newest.block.bytes().to_vec()).or_else(|| self.chain.block(&hash)) else {
            return;
        };
        let is_near = self.chain.tip().height.saturating_sub(place.height) <= COMPACT_DEPTH_MAX;
        let message = match wanted.kind {
            InventoryKind::Block => self.parse_block(bytes).map(|block| block.stripped_bytes()).and_then(whole),
            InventoryKind::CompactBlock if is_near => self.compact_of(&place, bytes),
            // Core serves whole blocks to those who ask for filtered ones only with bloom filters on; they are off here.
            InventoryKind::FilteredBlock => None,
            _ => whole(bytes),
        };
        let Some(message) = message else { return };
        let before = self.output(id).len();
        self.send(id, &message);
        let bytes = self.output(id).len().saturating_sub(before) as u64;
        if let Some(talk) = self.talks.get_mut(&id) {
            talk.served_bytes += bytes;
        }
    }

    /// The compact form, of the newest block the one that everybody gets.
    fn compact_of(&mut self, place: &Place, bytes: Vec<u8>) -> Option<Message> {
        let nonce = self.random.next_u64();
        match &mut self.newest {
            Some(newest) if newest.hash == place.hash => Some(newest.compact(nonce).clone()),
            _ => self.parse_block(bytes).map(|block| Message::CompactBlock(CompactBlock::of(&block, nonce))),
        }
    }

    pub(super) fn parse_block(&self, bytes: Vec<u8>) -> Option<Block> {
        Block::parse(bytes).ok()
    }

    /// A block that is here, on disk or as the newest in memory, and may be had.
    fn servable(&self, hash: &BlockHash) -> Option<Place> {
        // Whoever was told of a block before it was stored may ask for it then.
        let is_newest = self.newest.as_ref().is_some_and(|newest| newest.hash == *hash);
        let is_here =
            |place: &Place| (is_newest && !place.is_invalid) || (place.has_block && self.chain.may_serve(&place.hash));
        self.chain.find(hash).filter(is_here)
    }

    /// Transactions of a block near the tip, by their positions.
    pub(super) fn serve_block_txs(&mut self, id: PeerId, request: &BlockTxsRequest) {
        let hash = request.block;
        if request.indexes.is_empty() {
            return self.end(id, End::ClosedByUs("getblocktxn received with no transaction indexes"));
        }
        // Parts of the newest block are served even where it turned out to be bad: who was told of it before it was judged waits
        // for them, and judges for himself (Core: `m_most_recent_block`).
        let told = self.newest.as_ref().filter(|newest| newest.hash == hash).and_then(|_| self.chain.find(&hash));
        let Some(place) = told.or_else(|| self.servable(&hash)) else { return };
        if self.chain.tip().height.saturating_sub(place.height) > BLOCK_TXS_DEPTH_MAX {
            // The whole block costs us a read and the peer its bandwidth, so nobody asks twice without need.
            return self.take_wants(id, vec![Inventory { kind: InventoryKind::WitnessBlock, hash: hash.0 }]);
        }
        let newest = self.newest.as_ref().filter(|newest| newest.hash == hash);
        let block = newest.map(|newest| newest.block.clone());
        let Some(block) = block.or_else(|| self.parse_block(self.chain.block(&hash)?)) else { return };
        if request.indexes.iter().any(|index| usize::from(*index) >= block.tx_count()) {
            return self.misbehaved(id, "getblocktxn with out-of-bounds tx indices");
        }
        let txs = TxList::of(request.indexes.iter().map(|index| block.tx(usize::from(*index)).raw()));
        self.send(id, &Message::BlockTxs(BlockTxs { block: hash, txs }));
    }
}

fn whole(bytes: Vec<u8>) -> Option<Message> {
    BlockBytes::new(bytes).ok().map(Message::Block)
}
