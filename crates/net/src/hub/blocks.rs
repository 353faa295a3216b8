//! Blocks: what is missing is asked for, what comes goes to the chain, and what the chain says of it falls back on the
//! sender.
//!
//! In:     blocks and compact blocks of peers, verdicts of the chain.
//! Out:    getdata, getblocktxn; blocks for the chain.
//! Fails:  a peer that sends a block that breaks a rule loses its connection.
//! Source: Bitcoin Core, `ProcessMessage` (`BLOCK`, `CMPCTBLOCK`, `BLOCKTXN`), `BlockChecked`,
//!         `MaybeSetPeerAsAnnouncingHeaderAndIDs`; BIP 152.

use consensus::Work;
use consensus::header::{check_proof_of_work, work_of};
use primitives::encode::ParseError;
use primitives::{Block, BlockHash};

use super::talk::Pending;
use super::{Chain, Hub, JUDGED_BLOCKS_MAX, Judgement, Newest, Place};
use crate::peer::{COMPACT_VERSION, End, PeerId};
use crate::sync::{Action, Arrival, PartReason};
use crate::wire::limits::GETDATA_SENT_MAX;
use crate::wire::{
    BlockBytes, BlockTxs, BlockTxsRequest, CompactBlock, Inventory, InventoryKind, Message, Rebuilt, Reconstruction,
    SendCompact, Services, TxList,
};

/// Compact blocks are put together this near the tip only: Core's figure too.
const COMPACT_AHEAD_MAX: u32 = 2;
/// Blocks from the tip on that are asked for as soon as they are told of: a day's.
const NEAR_BLOCKS_MAX: u32 = 144;
/// Blocks above the tip that are taken without having been asked for; Core's `MIN_BLOCKS_TO_KEEP`.
const UNASKED_AHEAD_MAX: u32 = 288;
/// Blocks of one branch beside the best headers that are on their way; Core's `MAX_BLOCKS_IN_TRANSIT_PER_PEER`.
const BRANCH_FETCHED_MAX: usize = 16;
/// Longest branch that is fetched before its headers have most work: two weeks of blocks.
const BRANCH_BLOCKS_MAX: u32 = 2_016;
/// Peers asked for the missing transactions of one compact block.
const FILLERS_MAX: usize = 3;
/// Peers asked to announce compact blocks at once (BIP 152).
const ANNOUNCERS_MAX: usize = 3;

/// A block as it came.
enum Brought {
    /// In its full bytes.
    Whole(Vec<u8>),
    /// As identifiers of transactions, nearly all of which were here.
    Rebuilt(Rebuilt),
}

impl Brought {
    fn length(&self) -> u64 {
        match self {
            Brought::Whole(bytes) => bytes.len() as u64,
            Brought::Rebuilt(rebuilt) => rebuilt.block.bytes().len() as u64,
        }
    }
}

/// Bytes that are no block leave a line, in Core's words, and nothing else.
pub(super) fn log_unreadable(length: usize, error: ParseError) {
    let words = error.core_words();
    log::debug!(target: "net", "ProcessMessages(block, {length} bytes): Exception '{words}' caught");
}

impl<C: Chain> Hub<C> {
    /// What follows from any event: the window moves, blocks are asked for, new blocks are told of.
    pub(super) fn settle(&mut self) {
        self.release();
        self.follow_headers();
        self.follow_tip();
        self.extend_window();
        self.window.set_room(self.chain.room());
        let ahead = self.chain.best_header().height.saturating_sub(self.chain.connected().height);
        self.window.set_near(ahead <= NEAR_BLOCKS_MAX && !self.chain.is_initial_download());
        for action in self.window.plan(self.now_ms()) {
            match action {
                Action::Request { peer, blocks } => self.request(PeerId(peer), &blocks),
                Action::Part { peer, why } => {
                    let why = match why {
                        PartReason::Stalls { .. } => "Peer is stalling block download",
                        _ => "its blocks come too slowly",
                    };
                    self.end(PeerId(peer), End::ClosedByUs(why));
                }
            }
        }
        self.announce();
    }

    fn now_ms(&self) -> u64 {
        self.now.monotonic.as_millis() as u64
    }

    /// The best headers may be others than they were.
    fn follow_headers(&mut self) {
        let best = self.chain.best_header();
        if best.hash == self.best {
            return;
        }
        let fork = self.chain.common_height(&self.best);
        self.best = best.hash;
        self.window.cut(fork + 1);
        for id in self.ids() {
            self.note_supply(id);
        }
    }

    /// Validation may have got further, or stand on a branch that is to be left.
    fn follow_tip(&mut self) {
        let connected = self.chain.connected();
        let fork = self.chain.common_height(&connected.hash);
        if fork < connected.height {
            return self.pass_over_kept(fork);
        }
        match fork + 1 < self.window.first() {
            true => self.window.cut(fork + 1),
            false => self.window.connected(fork),
        }
    }

    /// Validation stands on a branch that is to be left, and leaves it once the best headers' blocks have more work: those that
    /// are here wait for the others, however many there are, and not the other way round.
    fn pass_over_kept(&mut self, fork: u32) {
        self.window.connected(fork);
        while let Some(hash) = self.window.lowest()
            && self.chain.find(&hash).is_some_and(|place| place.has_block)
        {
            self.window.connected(self.window.first());
        }
    }

    fn extend_window(&mut self) {
        let best = self.chain.best_header();
        // Blocks are worth asking for once the headers have the network's least work.
        if best.work < Work::from_be_bytes(&self.params.minimum_chainwork) {
            return;
        }
        let end = best.height.saturating_add(1).min(self.window.end() + self.window.room() as u32);
        let places = (self.window.end()..end).map_while(|height| self.chain.on_best(height));
        let blocks: Vec<(BlockHash, bool)> = places.map(|place| (place.hash, place.has_block)).collect();
        self.window.extend(blocks.iter().copied());
        // What was on its way as part of a branch need not be asked for again.
        for (hash, _) in blocks {
            if let Some((id, _)) = self.fetching.remove(&hash) {
                self.window.expect(id.0, &hash, self.now_ms());
            }
        }
    }

    /// Asks for blocks: whole, but a single one that follows our tip in its compact form, most of which is here already.
    pub(super) fn request(&mut self, id: PeerId, blocks: &[BlockHash]) {
        let follows = |hash: &BlockHash| {
            self.chain.find(hash).is_some_and(|place| place.header.previous == self.chain.tip().hash)
        };
        let can = self.local.relays_txs && self.features(id).is_some_and(|features| features.compact_blocks);
        let is_compact = can && matches!(blocks, [hash] if follows(hash)) && !self.chain.is_initial_download();
        let kind = if is_compact { InventoryKind::CompactBlock } else { InventoryKind::WitnessBlock };
        self.request_as(id, blocks, kind);
    }

    fn request_as(&mut self, id: PeerId, blocks: &[BlockHash], kind: InventoryKind) {
        for part in blocks.chunks(GETDATA_SENT_MAX) {
            let entry = |hash: &BlockHash| Inventory { kind, hash: hash.0 };
            self.send(id, &Message::GetData(part.iter().map(entry).collect()));
        }
    }

    /// A block came.
    pub(super) fn take_block(&mut self, id: PeerId, block: BlockBytes) {
        let hash = block.hash();
        if self.chain.find(&hash).is_none() {
            // Sent without being asked for: its header is as good an announcement as any, if the block is the header's.
            // Who cannot show work for it has not earned that its transactions are hashed: the header alone is refused.
            let header = block.header();
            let is_placed = self.chain.find(&header.previous).is_some();
            let has_work = check_proof_of_work(&hash, header.bits, &self.params).is_ok();
            if is_placed && has_work && !self.is_of_its_header(id, &block) {
                return;
            }
            self.take_headers(id, vec![header]);
            self.follow_headers();
            self.extend_window();
        }
        self.keep_block(id, hash, Brought::Whole(block.into_bytes()));
    }

    /// False for a block that is not what its header says: nobody is to wait for another copy of what nobody announced.
    fn is_of_its_header(&mut self, id: PeerId, block: &BlockBytes) -> bool {
        match Block::parse_first(block.bytes()).map(|block| consensus::block::check_root(&block)) {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => {
                log::debug!(target: "validation", "Block mutated: {}, {}", error.reject_reason(), error.detail());
                self.misbehaved(id, "mutated block");
            }
            Err(error) => log_unreadable(block.bytes().len(), error),
        }
        false
    }

    /// A block came, whole or so that it could be put together.
    fn keep_block(&mut self, id: PeerId, hash: BlockHash, block: Brought) {
        if let Some(talk) = self.talks.get_mut(&id) {
            talk.failed.take_if(|failed| *failed == hash);
        }
        match self.window.arrived(id.0, &hash, block.length(), self.now_ms()) {
            Arrival::Again => {}
            Arrival::Unasked if self.fetching.remove(&hash).is_none() && !self.is_welcome(&hash) => {}
            Arrival::Wanted { .. } | Arrival::Unasked => {
                self.note_known(id, &hash);
                let compact = matches!(block, Brought::Rebuilt(_));
                let is_taken = match block {
                    Brought::Whole(bytes) => {
                        self.keep_in_memory(hash, &bytes);
                        self.chain.take_block(id, hash, bytes)
                    }
                    Brought::Rebuilt(rebuilt) => self.take_rebuilt(id, hash, rebuilt),
                };
                if !is_taken {
                    return self.window.lost(&hash);
                }
                self.open(id, hash);
                self.judging.insert(hash, (id, compact));
                self.judging_order.push_back(hash);
                if self.judging_order.len() > JUDGED_BLOCKS_MAX
                    && let Some(oldest) = self.judging_order.pop_front()
                {
                    self.judging.remove(&oldest);
                }
                self.fetch_branch(id);
            }
        }
    }

    /// Asks a peer for blocks of its branch beside the best headers where that has as much work as the tip: it may turn out
    /// to be the best, and who was first need not be right (Core: `HeadersDirectFetchBlocks`, `FindNextBlocksToDownload`).
    pub(super) fn fetch_branch(&mut self, id: PeerId) {
        let Some(last) = self.talks.get(&id).and_then(|talk| talk.branch) else { return };
        let (tip, Some(place)) = (self.chain.tip(), self.chain.find(&last)) else { return };
        let is_beside = |place: &Place| self.chain.on_best(place.height).is_none_or(|best| best.hash != place.hash);
        let depth = place.height.saturating_sub(self.chain.common_height(&last));
        let is_worth_it = !place.is_invalid && place.work >= tip.work && depth <= BRANCH_BLOCKS_MAX;
        let has_witnesses = self.services_of(id).has(Services::WITNESS);
        if !has_witnesses || !is_worth_it || !is_beside(&place) || self.chain.is_initial_download() {
            return;
        }
        let (mut missing, mut at) = (Vec::new(), place);
        while is_beside(&at) {
            if !at.has_block && !self.is_fetched(&at.hash) {
                missing.push(at.hash);
            }
            let Some(parent) = self.chain.find(&at.header.previous) else { return };
            at = parent;
        }
        let under_way = self.fetching.values().filter(|(by, _)| *by == id).count();
        let wanted: Vec<BlockHash> =
            missing.into_iter().rev().take(BRANCH_FETCHED_MAX.saturating_sub(under_way)).collect();
        wanted.iter().for_each(|hash| self.note_fetching(*hash, id));
        self.request(id, &wanted);
    }

    /// True for a block that nobody asked for and that is worth a look: it may be the next tip (Core: `AcceptBlock`).
    fn is_welcome(&self, hash: &BlockHash) -> bool {
        let tip = self.chain.tip();
        self.chain.find(hash).is_some_and(|place| {
            let is_near = place.height <= tip.height.saturating_add(UNASKED_AHEAD_MAX);
            let has_work = place.work >= tip.work && place.work >= Work::from_be_bytes(&self.params.minimum_chainwork);
            !place.has_block && !place.is_invalid && is_near && has_work
        })
    }

    /// A block that may be the next tip stays in memory: it is told of as soon as it was looked at, and asked for then.
    fn keep_in_memory(&mut self, hash: BlockHash, bytes: &[u8]) {
        let follows = self.chain.find(&hash).is_some_and(|place| place.header.previous == self.chain.tip().hash);
        if follows && !self.chain.is_initial_download() {
            self.coming = self.parse_block(bytes.to_vec()).map(|block| Newest::new(hash, block));
        }
    }

    /// The chain has a new best header or tip.
    pub fn chain_changed(&mut self, now: crate::moment::Moment) {
        self.now = now;
        self.settle();
    }

    /// The chain has looked at a block, as far as it could.
    pub fn judged(&mut self, hash: &BlockHash, judgement: Judgement, now: crate::moment::Moment) {
        self.now = now;
        if judgement == Judgement::Tried {
            self.tried(hash);
            return self.settle();
        }
        // A block that is good so far may turn out to be bad when it is connected: its sender is remembered.
        let sender = match judgement {
            Judgement::Good => self.judging.get(hash).copied(),
            _ => self.judging.remove(hash),
        };
        match (judgement, sender) {
            (Judgement::Good, Some((id, _))) => {
                if let Some(talk) = self.talks.get_mut(&id) {
                    talk.peer.earned_block(now);
                }
                self.choose_announcer(id);
                if self.coming.as_ref().is_some_and(|coming| coming.hash == *hash) {
                    self.newest = self.coming.take();
                    self.announce_early(hash);
                }
            }
            (Judgement::Good, None) | (Judgement::Tried, _) => {}
            (Judgement::Invalid(word), Some((id, false))) => self.misbehaved(id, word),
            // Compact blocks may be told of before they are judged (BIP 152): who does so is not at fault.
            (Judgement::Invalid(_), _) => {}
            (Judgement::Malformed, sender) => {
                self.window.lost(hash);
                sender.into_iter().for_each(|(id, _)| self.window.spoiled(id.0, hash));
            }
            (Judgement::Mutated(word), sender) => {
                self.window.lost(hash);
                match sender {
                    Some((id, false)) => {
                        self.window.spoiled(id.0, hash); // who may misbehave stays, and would send the same again
                        self.misbehaved(id, word);
                    }
                    // Two transactions may share an identifier: a block put together here says nothing about its sender.
                    // What he sends whole does (Core: `READ_STATUS_FAILED`).
                    Some((id, true)) if self.talks.contains_key(&id) => {
                        self.window.expect(id.0, hash, self.now_ms());
                        self.request_as(id, &[*hash], InventoryKind::WitnessBlock);
                    }
                    _ => {}
                }
            }
        }
        self.settle();
    }

    pub(super) fn take_not_found(&mut self, id: PeerId, inventory: &[Inventory]) {
        for entry in inventory.iter().filter(|entry| entry.kind.is_block()) {
            self.window.not_found(id.0, &BlockHash(entry.hash));
        }
    }

    /// A compact block came. Its header is taken in any case; the block, where it was asked for or the peer was asked to send
    /// it without, and only from those that said how they would.
    pub(super) fn take_compact(&mut self, id: PeerId, compact: CompactBlock) {
        let header = compact.header;
        let hash = header.hash();
        let Some(parent) = self.chain.find(&header.previous) else { return self.ask_for_headers(id) };
        if check_proof_of_work(&hash, header.bits, &self.params).is_err() {
            return self.misbehaved(id, "header with invalid proof of work");
        }
        if parent.work + work_of(header.bits) < self.chain.enough_work() {
            log::debug!(target: "net", "Ignoring low-work compact block from peer {}", id.0);
            return;
        }
        let can = self.features(id).is_some_and(|features| features.compact_blocks);
        if !can || !self.local.relays_txs {
            return;
        }
        let was_asked = self.window.has_order(id.0, &hash) || self.is_fetched_from(&hash, id);
        let is_solicited = was_asked || self.announcers.contains(&id);
        // It comes with its header, and is not to be asked for besides.
        let is_noted = is_solicited && !was_asked && !self.is_fetched(&hash);
        if is_noted {
            self.note_fetching(hash, id);
        }
        self.take_headers(id, vec![header]);
        self.follow_headers();
        self.follow_tip();
        self.extend_window();
        if is_noted {
            self.fetching.remove(&hash);
            self.window.cancel(id.0, &hash);
        }
        if is_solicited {
            self.take_solicited(id, hash, compact, was_asked);
        }
    }

    /// A compact block came that was asked for, or that its sender was to send unasked.
    fn take_solicited(&mut self, id: PeerId, hash: BlockHash, compact: CompactBlock, was_asked: bool) {
        let (tip, Some(place)) = (self.chain.tip(), self.chain.find(&hash)) else { return };
        // On a branch beside the best headers, too: the block of those may be held back.
        let on_best = self.chain.on_best(place.height).is_some_and(|best| best.hash == hash);
        let is_missing = if on_best { self.window.wants(&hash) } else { !self.judging.contains_key(&hash) };
        if !is_missing || place.has_block || place.is_invalid || !self.talks.contains_key(&id) {
            return;
        }
        if place.work > tip.work && place.height <= tip.height.saturating_add(COMPACT_AHEAD_MAX) {
            self.put_together(id, hash, compact);
        } else if was_asked {
            // The mempool is of no use for it.
            self.request_as(id, &[hash], InventoryKind::WitnessBlock);
        }
    }

    fn put_together(&mut self, id: PeerId, hash: BlockHash, compact: CompactBlock) {
        // Once is enough: each costs a look at the whole mempool.
        let is_known = |talk: &super::Talk| {
            talk.failed == Some(hash) || talk.pending.as_ref().is_some_and(|pending| pending.hash == hash)
        };
        if self.talks.get(&id).is_none_or(is_known) {
            return;
        }
        match Reconstruction::open(compact) {
            Ok(mut reconstruction) => {
                for (ids, tx) in self.txs.pool.find(&mut |wtxid| reconstruction.wants(wtxid)) {
                    reconstruction.offer(&ids, &tx);
                }
                self.txs.extra.iter().for_each(|(ids, tx)| reconstruction.offer(ids, tx));
                let indexes = reconstruction.missing();
                if !indexes.is_empty() && !self.may_fill(id, &hash) {
                    return;
                }
                self.expect(id, &hash);
                let pending = Pending { hash, reconstruction };
                if indexes.is_empty() {
                    return self.finish(id, pending, &TxList::of([]));
                }
                self.send(id, &Message::GetBlockTxs(BlockTxsRequest { block: hash, indexes }));
                if let Some(talk) = self.talks.get_mut(&id) {
                    talk.pending = Some(pending);
                }
            }
            Err(error) if error.is_misbehaviour() => self.misbehaved(id, "invalid compact block"),
            // Identifiers collide: the whole block is asked for.
            Err(_) => {
                self.expect(id, &hash);
                self.request_as(id, &[hash], InventoryKind::WitnessBlock);
            }
        }
    }

    /// True where a peer may be asked for what a compact block lacks: the first one to tell of it, and two more of those who
    /// announce at once, of which one has to be ours by choice (Core: `MAX_CMPCTBLOCKS_INFLIGHT_PER_BLOCK`).
    fn may_fill(&self, id: PeerId, hash: &BlockHash) -> bool {
        let is_outbound = |id: &PeerId| self.talks.get(id).is_some_and(|talk| talk.peer.setup().kind.is_outbound());
        let fills = |(other, talk): &(&PeerId, &super::Talk)| {
            **other != id && talk.pending.as_ref().is_some_and(|pending| pending.hash == *hash)
        };
        let others: Vec<PeerId> = self.talks.iter().filter(fills).map(|(other, _)| *other).collect();
        let has_outbound = is_outbound(&id) || others.iter().any(is_outbound);
        let room = if has_outbound { FILLERS_MAX } else { FILLERS_MAX - 1 };
        others.is_empty() || (self.announcers.contains(&id) && others.len() < room)
    }

    /// The missing transactions of a compact block came.
    pub(super) fn take_block_txs(&mut self, id: PeerId, txs: &BlockTxs) {
        let Some(talk) = self.talks.get_mut(&id) else { return };
        if let Some(pending) = talk.pending.take_if(|pending| pending.hash == txs.block) {
            self.finish(id, pending, &txs.txs);
        } else if talk.failed == Some(txs.block) {
            self.misbehaved(id, "previous compact block reconstruction attempt failed");
        }
    }

    /// A block will come from a peer in parts.
    fn expect(&mut self, id: PeerId, hash: &BlockHash) {
        match self.window.wants(hash) {
            true => self.window.expect(id.0, hash, self.now_ms()),
            false => self.note_fetching(*hash, id),
        }
    }

    fn finish(&mut self, id: PeerId, pending: Pending, txs: &TxList) {
        let hash = pending.hash;
        match pending.reconstruction.finish(txs) {
            Ok(rebuilt) => self.keep_block(id, hash, Brought::Rebuilt(rebuilt)),
            Err(error) if error.is_misbehaviour() => {
                self.misbehaved(id, "invalid compact block/non-matching block transactions")
            }
            // An identifier stood for two transactions: the block is asked for whole, and its parts are not taken again.
            Err(_) => {
                self.request_as(id, &[hash], InventoryKind::WitnessBlock);
                if let Some(talk) = self.talks.get_mut(&id) {
                    talk.failed = Some(hash);
                }
            }
        }
    }

    /// Whoever brought a good new block announces the next ones at once; three peers do, and one of them we chose.
    fn choose_announcer(&mut self, id: PeerId) {
        let can = self.features(id).is_some_and(|features| features.compact_blocks);
        // Without transactions nothing could be put together.
        if !can || !self.local.relays_txs || self.chain.is_initial_download() {
            return;
        }
        if let Some(index) = self.announcers.iter().position(|announcer| *announcer == id) {
            let id = self.announcers.remove(index);
            self.announcers.push(id);
            return;
        }
        if self.announcers.len() == ANNOUNCERS_MAX {
            let outbound = |id: &PeerId| self.talks.get(id).is_some_and(|talk| talk.peer.setup().kind.is_outbound());
            let chosen = self.announcers.iter().filter(|id| outbound(id)).count();
            // The last one we chose stays, unless another of that kind comes.
            let index = usize::from(chosen == 1 && !outbound(&id) && outbound(&self.announcers[0]));
            let left = self.announcers.remove(index);
            self.ask_compact(left, false);
        }
        self.announcers.push(id);
        self.ask_compact(id, true);
    }

    fn ask_compact(&mut self, id: PeerId, announce: bool) {
        self.send(id, &Message::SendCompact(SendCompact { announce, version: COMPACT_VERSION }));
    }

    /// The peer has this block, or was told of it.
    pub(super) fn knows(&self, id: PeerId, place: &Place) -> bool {
        let Some(talk) = self.talks.get(&id) else { return false };
        let reaches = |hash: Option<BlockHash>| {
            hash.and_then(|hash| self.chain.ancestor(&hash, place.height)).is_some_and(|has| has.hash == place.hash)
        };
        reaches(talk.known) || reaches(talk.told)
    }
}
