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

use super::action::{Action, Arrival, PartReason};
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

/// Copies of one block on order at once.
const COPIES_MAX: usize = 3;
/// Least time before a delivery is called late; beyond it, twice the expected time.
const LATE_MS_MIN: u64 = 500;
/// Time an order has before the same block is asked of somebody quicker.
const SOONER_AFTER_MS: u64 = 250;
/// Blocks from the lowest on that are looked at for late ones: validation will not get further before the next look.
const LOOKED_AT: usize = 256;
/// Size assumed before any block has come.
const FIRST_SIZE_BYTES: u64 = 1_500_000;
/// Arrivals the mean size is taken over.
const MEAN_BLOCKS: u64 = 32;
/// A peer is parted with for its rate only so long after its first order, and after so many deliveries.
const JUDGED_AFTER_MS: u64 = 30_000;
const JUDGED_AFTER_BLOCKS: u32 = 2;
/// A peer that would take so many times as long as the quickest gets no block before the quickest has room again: a copy
/// from elsewhere would be asked for anyway.
const SLOWER_THAN_QUICKEST: u64 = 4;
/// Blocks that any peer may have on order near the chain's end.
const NEAR_ORDERS: usize = 16;
/// Least number of peers to compare with.
const COMPARED_PEERS_MIN: usize = 4;
/// A peer so many times slower than the median is replaced.
const SLOWER_THAN_MEDIAN: u64 = 10;

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
struct Order {
    peer: PeerId,
    since_ms: u64,
    /// When it is late.
    due_ms: u64,
}

struct Slot {
    hash: BlockHash,
    orders: Vec<Order>,
    /// Its size, once it is here.
    bytes: Option<u64>,
}

/// The window.
pub struct Window {
    limits: Limits,
    /// Height of the first slot: the block validation needs next.
    first: u32,
    slots: VecDeque<Slot>,
    places: HashMap<BlockHash, u32>,
    peers: BTreeMap<PeerId, Peer>,
    /// Bytes here and not validated.
    waiting_bytes: u64,
    /// Blocks that are on order and not here.
    ordered: usize,
    /// Mean size of late arrivals, and of how many.
    mean_bytes: u64,
    seen: u64,
    room: Room,
    /// Blocks that any peer may have on order, whatever it has shown.
    least: usize,
    bound: Bound,
    stall: Stall,
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

    /// What to do now; to be asked after every event, and some times a second.
    pub fn plan(&mut self, now_ms: u64) -> Vec<Action> {
        self.bound.count_until(now_ms);
        let mut actions = self.part(now_ms);
        let mut requests: BTreeMap<PeerId, Vec<(u32, BlockHash)>> = BTreeMap::new();
        for (at, peer) in self.order_new(now_ms).into_iter().chain(self.order_copies(now_ms)) {
            requests.entry(peer).or_default().push((self.first + at as u32, self.slots[at].hash));
        }
        if let Some((peer, ms)) = self.stall.note(self.holder(), now_ms) {
            self.leave(peer);
            requests.remove(&peer);
            actions.push(Action::Part { peer, why: PartReason::Stalls { ms } });
        }
        for (peer, mut blocks) in requests {
            blocks.sort_unstable_by_key(|(height, _)| *height);
            let blocks = blocks.into_iter().map(|(_, hash)| hash).collect();
            actions.push(Action::Request { peer, blocks });
        }
        let is_lacking = self.slots.front().is_some_and(|slot| slot.bytes.is_none());
        self.bound.note(now_ms, is_lacking, self.peers.values().all(|peer| peer.orders.is_empty()));
        actions
    }

    /// True where one more block may be asked for.
    fn has_room_for_one(&self) -> bool {
        let ordered_bytes = (self.ordered as u64 + 1) * self.mean_bytes;
        self.waiting_bytes + ordered_bytes <= self.limits.bytes_ahead_max
            && ordered_bytes <= self.room.queue_bytes
            && (ordered_bytes <= self.room.memory_bytes || self.bound.is_the_line())
    }

    /// Who holds up the window: nothing more may be asked for of somebody who has more, and the block validation needs next was
    /// asked of that peer first. When it delivered last stands beside it.
    fn holder(&self) -> Option<(PeerId, u64)> {
        let first = self.slots.front().filter(|slot| slot.bytes.is_none())?;
        let is_full = self.room() == 0 || !self.has_room_for_one();
        let has_more = |peer: &Peer| peer.has(self.end()) && peer.has_room(self.least);
        let order = first.orders.first().filter(|_| is_full && self.peers.values().any(has_more))?;
        Some((order.peer, self.peers.get(&order.peer)?.heard_ms))
    }

    /// Peers to part with; their orders are free again.
    fn part(&mut self, now_ms: u64) -> Vec<Action> {
        let mut rates: Vec<u64> = self.peers.values().filter_map(Peer::rate_per_s).collect();
        rates.sort_unstable();
        let median = rates.get(rates.len() / 2).copied().unwrap_or(0);
        // Where validation is the bound, peers are idle and their rates say nothing.
        let line_is_bound = self.slots.front().is_some_and(|slot| slot.bytes.is_none());
        let compared = rates.len() >= COMPARED_PEERS_MIN && line_is_bound;
        let mut parted = Vec::new();
        for (&id, peer) in &self.peers {
            let silent_ms = if !peer.orders.is_empty() { now_ms.saturating_sub(peer.heard_ms) } else { 0 };
            let shown = peer.blocks >= JUDGED_AFTER_BLOCKS
                && peer.began_ms.is_some_and(|began_ms| now_ms >= began_ms + JUDGED_AFTER_MS);
            let rate = peer.rate_per_s().filter(|_| compared && shown);
            if silent_ms > self.limits.silence_ms_max {
                parted.push((id, PartReason::Silent { ms: silent_ms }));
            } else if let Some(bytes_per_s) = rate.filter(|rate| rate * SLOWER_THAN_MEDIAN < median) {
                parted.push((id, PartReason::Slow { bytes_per_s, median_bytes_per_s: median }));
            }
        }
        parted.iter().for_each(|&(peer, _)| self.leave(peer));
        parted.into_iter().map(|(peer, why)| Action::Part { peer, why }).collect()
    }

    /// Orders for blocks nobody was asked for, lowest first.
    fn order_new(&mut self, now_ms: u64) -> Vec<(usize, PeerId)> {
        let mut placed = Vec::new();
        for at in 0..self.slots.len() {
            let slot = &self.slots[at];
            if slot.bytes.is_some() || !slot.orders.is_empty() {
                continue;
            }
            if at > 0 && !self.has_room_for_one() {
                break;
            }
            // Peers differ in what they have: a block that none has room for may be followed by one that some has.
            match self.quickest(at) {
                Some((peer, ms)) => placed.push((at, self.order(at, peer, ms, now_ms))),
                None if !self.peers.values().any(|peer| peer.has_room(self.least)) => break,
                None => {}
            }
        }
        placed
    }

    /// Second and third orders for blocks that are late, or that an idle peer would bring sooner.
    fn order_copies(&mut self, now_ms: u64) -> Vec<(usize, PeerId)> {
        let mut placed = Vec::new();
        for at in 0..self.slots.len().min(LOOKED_AT) {
            let slot = &self.slots[at];
            let soonest_ms = slot.orders.iter().map(|order| order.due_ms).min();
            let Some(due_ms) = soonest_ms.filter(|_| slot.bytes.is_none() && slot.orders.len() < COPIES_MAX) else {
                continue;
            };
            let Some((peer, ms)) = self.quickest(at) else { continue };
            let late = now_ms > due_ms;
            // Of the block validation waits for, a copy is had wherever it comes in half the time.
            let is_young = slot.orders.iter().any(|order| now_ms < order.since_ms + SOONER_AFTER_MS);
            let sooner = !is_young && due_ms > now_ms + 2 * ms.max(LATE_MS_MIN);
            let idle = self.peers[&peer].orders.is_empty();
            if late || (sooner && (at == 0 || idle)) {
                placed.push((at, self.order(at, peer, ms, now_ms)));
            }
        }
        placed
    }

    /// Who would bring this block first, having room and no order for it, and in how many milliseconds.
    fn quickest(&self, at: usize) -> Option<(PeerId, u64)> {
        let height = self.first + at as u32;
        let asked = |id: &PeerId| self.slots[at].orders.iter().any(|order| order.peer == *id);
        let able = self.peers.iter().filter(|(id, peer)| peer.has(height) && !asked(id));
        let best_rate = self.peers.values().filter_map(Peer::rate_per_s).max();
        let timed = able.map(|(&id, peer)| (peer.expected_ms(1, self.mean_bytes, best_rate), id, peer));
        let (mut quickest_ms, mut free) = (u64::MAX, None::<(u64, PeerId)>);
        for (ms, id, peer) in timed {
            quickest_ms = quickest_ms.min(ms);
            if peer.has_room(self.least) && free.is_none_or(|known| (ms, id) < known) {
                free = Some((ms, id));
            }
        }
        let (ms, id) = free?;
        (ms / SLOWER_THAN_QUICKEST <= quickest_ms).then_some((id, ms))
    }

    fn order(&mut self, at: usize, id: PeerId, ms: u64, now_ms: u64) -> PeerId {
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
