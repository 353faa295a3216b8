//! What the window asks for now: of whom, in which order, and of whom a second time.
//!
//! In:     the window as it is, the time.
//! Out:    [`Action`]s; the window, with the orders in it.
//! Fails:  never.

use std::collections::BTreeMap;

use primitives::BlockHash;

use super::action::{Action, PartReason};
use super::supplier::Peer;
use super::window::{LATE_MS_MIN, PeerId, Window};

/// Copies of one block on order at once.
const COPIES_MAX: usize = 3;
/// Time an order has before the same block is asked of somebody quicker.
const SOONER_AFTER_MS: u64 = 250;
/// Blocks from the lowest on that are looked at for late ones: validation will not get further before the next look.
const LOOKED_AT: usize = 256;
/// A peer is parted with for its rate only so long after its first order, and after so many deliveries.
const JUDGED_AFTER_MS: u64 = 30_000;
const JUDGED_AFTER_BLOCKS: u32 = 2;
/// A peer that would take so many times as long as the quickest gets no block before the quickest has room again: a copy
/// from elsewhere would be asked for anyway.
const SLOWER_THAN_QUICKEST: u64 = 4;
/// Least number of peers to compare with.
const COMPARED_PEERS_MIN: usize = 4;
/// A peer so many times slower than the median is replaced.
const SLOWER_THAN_MEDIAN: u64 = 10;

impl Window {
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
            let silent_ms = peer.silent_ms(now_ms);
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
}
