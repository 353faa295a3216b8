//! Which blocks to ask which peer for: a window that moves ahead of validation.
//!
//! In:     the best headers' hashes, which peer has them, what arrives, what is validated, the time.
//! Out:    [`Action`]s: requests, and peers to part with.
//! Fails:  never; a block nobody asked for is said to be one.
//!
//! Three rules keep the line full and memory bounded.
//!
//! - **Bytes ahead are bounded.** Blocks asked for and blocks waiting for validation count together, the former by the
//!   mean size of late ones. Only the block validation waits for may be asked for beyond that. Nor is more asked for than
//!   the chain has room for; where validation is the bound, that is room in memory, since a block that has waited on the
//!   disk is checked twice (221 MB of forged blocks from 4 peers on loopback: 439 MB came before, 221 MB since).
//! - **A peer gets as much as it delivers.** What it may have on order grows by a block with each that comes soon after it
//!   was asked for, and shrinks with each that takes long; the lowest heights go to whoever would deliver first, by the
//!   rates measured. So a line of any length is full, and a peer at a hundredth of the others' rate holds one block.
//! - **Nobody waits for one peer.** A block whose delivery is late, or that idle peers could bring sooner, is asked for
//!   a second time elsewhere, from the lowest height on; the first copy counts. Who holds up all others, lets blocks wait for
//!   long, or stays far below the others while the line is the bound, is parted with.

use std::collections::{BTreeMap, HashMap, VecDeque};

use primitives::BlockHash;

use super::action::Arrival;
use super::bound::{Bound, Waiting};
use super::stall::Stall;
use super::supplier::{FIRST_ORDER_MS, Peer};

/// A connection's number, never used twice.
pub type PeerId = u64;

/// How much may be under way; the defaults suit a line of 10 MB/s to 1 GB/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes asked for or waiting for validation.
    pub bytes_ahead_max: u64,
    /// Blocks asked for or waiting; Core's `BLOCK_DOWNLOAD_WINDOW`.
    pub blocks_ahead_max: usize,
    /// Blocks on order from one peer; Core's `MAX_BLOCKS_IN_TRANSIT_PER_PEER` is 16, and honest peers serve any number.
    pub blocks_per_peer_max: usize,
    /// How long blocks may take from order to delivery before fewer are ordered; below half of it, more are.
    pub ordered_ms: u64,
    /// How long a peer may be silent with orders open before it is parted with.
    pub silence_ms_max: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            bytes_ahead_max: 256 << 20,
            blocks_ahead_max: 1_024,
            blocks_per_peer_max: 128,
            ordered_ms: 2_000,
            silence_ms_max: 20_000,
        }
    }
}

/// Least time before a delivery is called late; beyond it, twice the expected time.
pub(super) const LATE_MS_MIN: u64 = 500;
/// Size assumed before any block has come.
const FIRST_SIZE_BYTES: u64 = 1_500_000;
/// Arrivals the mean size is taken over.
const MEAN_BLOCKS: u64 = 32;
/// Blocks that any peer may have on order near the chain's end.
const NEAR_ORDERS: usize = 16;

/// What the chain could take now, on top of what it was given, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Blocks nobody has looked at: what comes on top is refused, and would have to come again.
    pub queue_bytes: u64,
    /// Checked blocks in memory: what comes on top is read back from the disk and checked again.
    pub memory_bytes: u64,
}

impl Default for Room {
    fn default() -> Room {
        Room { queue_bytes: u64::MAX, memory_bytes: u64::MAX }
    }
}

/// One copy on order.
#[derive(Clone, Copy)]
pub(super) struct Order {
    pub(super) peer: PeerId,
    pub(super) since_ms: u64,
    /// When it is late.
    pub(super) due_ms: u64,
}

pub(super) struct Slot {
    pub(super) hash: BlockHash,
    pub(super) orders: Vec<Order>,
    /// Its size, once it is here.
    pub(super) bytes: Option<u64>,
}

/// The window.
pub struct Window {
    pub(super) limits: Limits,
    /// Height of the first slot: the block validation needs next.
    pub(super) first: u32,
    pub(super) slots: VecDeque<Slot>,
    pub(super) places: HashMap<BlockHash, u32>,
    pub(super) peers: BTreeMap<PeerId, Peer>,
    /// Bytes here and not validated.
    pub(super) waiting_bytes: u64,
    /// Blocks that are on order and not here.
    pub(super) ordered: usize,
    /// Mean size of late arrivals, and of how many.
    pub(super) mean_bytes: u64,
    pub(super) seen: u64,
    pub(super) room: Room,
    /// Blocks that any peer may have on order, whatever it has shown.
    pub(super) least: usize,
    pub(super) bound: Bound,
    pub(super) stall: Stall,
}

impl Window {
    /// A window over the blocks after `connected`.
    pub fn new(limits: Limits, connected: u32) -> Window {
        Window {
            limits,
            first: connected + 1,
            slots: VecDeque::new(),
            places: HashMap::new(),
            peers: BTreeMap::new(),
            waiting_bytes: 0,
            ordered: 0,
            mean_bytes: FIRST_SIZE_BYTES,
            seen: 0,
            room: Room::default(),
            least: 0,
            bound: Bound::default(),
            stall: Stall::default(),
        }
    }

    /// The block validation needs next.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// Its hash, where it is in the window.
    pub fn lowest(&self) -> Option<BlockHash> {
        self.slots.front().map(|slot| slot.hash)
    }

    /// The height after the highest block in the window: where [`Window::extend`] goes on.
    pub fn end(&self) -> u32 {
        self.first + self.slots.len() as u32
    }

    /// Blocks that may still be added.
    pub fn room(&self) -> usize {
        self.limits.blocks_ahead_max - self.slots.len()
    }

    /// Bytes asked for or waiting for validation.
    pub fn bytes_ahead(&self) -> u64 {
        self.waiting_bytes + self.ordered as u64 * self.mean_bytes
    }

    /// How much of the time the line was the bound.
    pub fn waiting(&self) -> Waiting {
        self.bound.waiting()
    }

    /// What the chain could take now; without, as much as is asked for.
    pub fn set_room(&mut self, room: Room) {
        self.room = room;
    }

    /// With `near`, the chain's end is not far: all that a peer tells of is asked for at once, 16 blocks at most (Core:
    /// `MAX_BLOCKS_IN_TRANSIT_PER_PEER`); what it delivers need not be learned first.
    pub fn set_near(&mut self, near: bool) {
        self.least = if near { NEAR_ORDERS } else { 0 };
    }

    /// True where a peer was asked for a block and has not answered.
    pub fn has_order(&self, peer: PeerId, hash: &BlockHash) -> bool {
        self.peers.get(&peer).is_some_and(|peer| peer.orders.iter().any(|(order, _)| order == hash))
    }

    /// Blocks on order from a peer.
    pub fn orders_of(&self, peer: PeerId) -> usize {
        self.peers.get(&peer).map_or(0, |peer| peer.orders.len())
    }

    /// Heights of the blocks on order from a peer.
    pub fn heights_of(&self, peer: PeerId) -> Vec<u32> {
        let orders = self.peers.get(&peer).map_or(&[][..], |peer| &peer.orders);
        orders.iter().filter_map(|(hash, _)| self.places.get(hash).copied()).collect()
    }

    /// What a peer delivers, in bytes a second; none before it has shown.
    pub fn rate_of(&self, peer: PeerId) -> Option<u64> {
        self.peers.get(&peer).and_then(Peer::rate_per_s)
    }

    /// A peer that serves blocks joined.
    pub fn join(&mut self, peer: PeerId) {
        self.peers.insert(peer, Peer::new());
    }

    /// A peer left; what it had on order is free again.
    pub fn leave(&mut self, peer: PeerId) {
        let orders = self.peers.remove(&peer).map_or(Vec::new(), |peer| peer.orders);
        orders.iter().for_each(|(hash, _)| self.take_back(hash, peer));
    }

    /// A peer has the block at `height` of our best headers and all below, and nothing else is known.
    pub fn has(&mut self, peer: PeerId, height: u32) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.height = height;
        }
    }

    /// A peer tells of the block at `height` of our best headers: it has it, whatever was said of it before.
    pub fn tells(&mut self, peer: PeerId, height: u32) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.height = peer.height.max(height);
        }
    }

    /// A peer has no block below `lowest`, and may have `most` on order.
    pub fn serves(&mut self, peer: PeerId, lowest: u32, most: usize) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            (peer.lowest, peer.most) = (lowest, most);
        }
    }

    /// True for a block of the window that is not here.
    pub fn wants(&self, hash: &BlockHash) -> bool {
        self.places.get(hash).is_some_and(|height| self.slots[(height - self.first) as usize].bytes.is_none())
    }

    /// A block will come from a peer without a request: parts of it are on their way.
    pub fn expect(&mut self, peer: PeerId, hash: &BlockHash, now_ms: u64) {
        let Some(at) = self.places.get(hash).map(|height| (height - self.first) as usize) else { return };
        let slot = &self.slots[at];
        if self.peers.contains_key(&peer) && slot.bytes.is_none() && !slot.orders.iter().any(|order| order.peer == peer)
        {
            self.order(at, peer, FIRST_ORDER_MS, now_ms);
        }
    }

    /// A peer will not be waited for with this block.
    pub fn cancel(&mut self, peer: PeerId, hash: &BlockHash) {
        self.settle(peer, hash);
    }

    /// A block that was here is not: it could not be kept, or is not what its header says.
    pub fn lost(&mut self, hash: &BlockHash) {
        let Some(at) = self.places.get(hash).map(|height| (height - self.first) as usize) else { return };
        let slot = &mut self.slots[at];
        if let Some(bytes) = slot.bytes.take() {
            self.waiting_bytes -= bytes;
            self.ordered += usize::from(!slot.orders.is_empty());
        }
    }

    /// A peer's copy of a block is bad: another's is wanted, and not his again unless he tells of it anew.
    pub fn spoiled(&mut self, peer: PeerId, hash: &BlockHash) {
        self.lost(hash);
        if let (Some(&height), Some(peer)) = (self.places.get(hash), self.peers.get_mut(&peer)) {
            peer.height = peer.height.min(height - 1);
        }
    }

    /// A peer does not have a block it was asked for.
    pub fn not_found(&mut self, peer: PeerId, hash: &BlockHash) {
        if self.settle(peer, hash).is_none() {
            return;
        }
        if let (Some(&height), Some(peer)) = (self.places.get(hash), self.peers.get_mut(&peer)) {
            peer.height = peer.height.min(height - 1);
        }
    }

    /// The next blocks of the best headers, [`Window::end`] being the height of the first; true in the second place where
    /// the block is here already. No more than [`Window::room`].
    pub fn extend(&mut self, blocks: impl IntoIterator<Item = (BlockHash, bool)>) {
        for (hash, here) in blocks {
            assert!(self.room() > 0, "no more than there is room for");
            self.places.insert(hash, self.end());
            // What was asked for before it left the window is still on its way.
            let orders = if here { Vec::new() } else { self.orders_for(&hash) };
            self.ordered += usize::from(!orders.is_empty());
            self.slots.push_back(Slot { hash, orders, bytes: here.then_some(0) });
        }
    }

    fn orders_for(&self, hash: &BlockHash) -> Vec<Order> {
        let of = |(id, peer): (&PeerId, &Peer)| {
            let (_, since_ms) = *peer.orders.iter().find(|(order, _)| order == hash)?;
            Some(Order { peer: *id, since_ms, due_ms: since_ms + 2 * FIRST_ORDER_MS })
        };
        self.peers.iter().filter_map(of).collect()
    }

    /// The best headers are others from `height` on, or validation is to go on from there.
    pub fn cut(&mut self, height: u32) {
        while self.end() > height.max(self.first) {
            let slot = self.slots.pop_back().expect("the end is above the first");
            self.forget(slot);
        }
        self.first = self.first.min(height);
    }

    /// Blocks up to `height` are validated.
    pub fn connected(&mut self, height: u32) {
        while self.first <= height {
            if let Some(slot) = self.slots.pop_front() {
                self.forget(slot);
            }
            self.first += 1;
            self.stall.connected();
        }
    }

    /// So many bytes are here of a message of this peer that is on its way.
    pub fn growing(&mut self, peer: PeerId, bytes: u64, now_ms: u64) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.growing(bytes, now_ms);
        }
    }

    /// A block of `bytes` came.
    pub fn arrived(&mut self, peer: PeerId, hash: &BlockHash, bytes: u64, now_ms: u64) -> Arrival {
        // A copy that is thrown away tells as much about its peer's rate as the first one.
        if let Some(ordered_ms) = self.settle(peer, hash) {
            let peer = self.peers.get_mut(&peer).expect("it had an order");
            peer.delivered(bytes, now_ms, ordered_ms, &self.limits);
        }
        let Some(height) = self.places.get(hash) else {
            self.bound.note_unused(bytes);
            return Arrival::Unasked;
        };
        let at = (height - self.first) as usize;
        let slot = &mut self.slots[at];
        if slot.bytes.is_some() {
            self.bound.note_unused(bytes);
            return Arrival::Again;
        }
        slot.bytes = Some(bytes);
        if !slot.orders.is_empty() {
            self.ordered -= 1; // copies still under way are thrown away when they come
        }
        self.waiting_bytes += bytes;
        self.seen = (self.seen + 1).min(MEAN_BLOCKS);
        self.mean_bytes = (self.mean_bytes * (self.seen - 1) + bytes).div_ceil(self.seen).max(1);
        Arrival::Wanted { height: self.first + at as u32 }
    }

    pub(super) fn order(&mut self, at: usize, id: PeerId, ms: u64, now_ms: u64) -> PeerId {
        let peer = self.peers.get_mut(&id).expect("quickest names a peer there is");
        if peer.orders.is_empty() {
            peer.heard_ms = now_ms;
        }
        peer.began_ms.get_or_insert(now_ms);
        let slot = &mut self.slots[at];
        peer.orders.push((slot.hash, now_ms));
        self.ordered += usize::from(slot.orders.is_empty());
        slot.orders.push(Order { peer: id, since_ms: now_ms, due_ms: now_ms + (2 * ms).max(LATE_MS_MIN) });
        id
    }

    /// A peer's order is fulfilled or refused: when it was placed; none where there was none.
    fn settle(&mut self, id: PeerId, hash: &BlockHash) -> Option<u64> {
        let peer = self.peers.get_mut(&id)?;
        let index = peer.orders.iter().position(|(order, _)| order == hash)?;
        let (_, ordered_ms) = peer.orders.remove(index);
        self.take_back(hash, id);
        Some(ordered_ms)
    }

    /// A block is no longer on order from a peer.
    fn take_back(&mut self, hash: &BlockHash, id: PeerId) {
        let Some(height) = self.places.get(hash) else { return };
        let slot = &mut self.slots[(height - self.first) as usize];
        let before = slot.orders.len();
        slot.orders.retain(|order| order.peer != id);
        if before > 0 && slot.orders.is_empty() && slot.bytes.is_none() {
            self.ordered -= 1;
        }
    }

    /// A block leaves the window; what is on its way comes as a copy nobody keeps.
    fn forget(&mut self, slot: Slot) {
        self.places.remove(&slot.hash);
        self.waiting_bytes -= slot.bytes.unwrap_or(0);
        self.ordered -= usize::from(slot.bytes.is_none() && !slot.orders.is_empty());
    }

    /// The counts against what they count.
    #[cfg(test)]
    pub(super) fn is_consistent(&self) -> bool {
        let missing = |slot: &&Slot| slot.bytes.is_none();
        let ordered = self.slots.iter().filter(missing).filter(|slot| !slot.orders.is_empty()).count();
        let has_order =
            |order: &Order, hash: &BlockHash| self.peers[&order.peer].orders.iter().any(|(order, _)| order == hash);
        self.ordered == ordered
            && self.waiting_bytes == self.slots.iter().filter_map(|slot| slot.bytes).sum::<u64>()
            && self.slots.iter().all(|slot| slot.orders.iter().all(|order| has_order(order, &slot.hash)))
            && self.places.len() == self.slots.len()
    }
}
