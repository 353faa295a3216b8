//! Memory, age and the least feerate.
//!
//! In:     the time.
//! Out:    a mempool within its bounds: what pays least goes first, and its feerate becomes the least that is taken.
//! Fails:  never.
//! Source: Bitcoin Core, `txmempool.cpp` (`TrimToSize`, `GetMinFee`, `Expire`); chunks are taken whole, worst first.

use super::cluster::ChunkKey;
use super::entry::Reason;
use super::pool::{Mempool, Slot};
use crate::policy::{FeeRate, vsize};

/// The rolling minimum halves in this time while the mempool is full; faster when it is not.
const HALF_LIFE_S: f64 = 12.0 * 3_600.0;
/// Shortest time between two looks at the clock.
const UPDATE_S: u64 = 10;

/// The least feerate that is taken, while it falls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rolling {
    sat_per_kvb: f64,
    updated_s: u64,
    /// It falls only after a block has made room.
    falling: bool,
}

impl Mempool {
    /// The least feerate after evictions; zero where nothing was evicted lately.
    pub(super) fn rolling_minimum(&self, time_s: u64) -> FeeRate {
        let Rolling { sat_per_kvb, updated_s, falling } = self.rolling;
        if !falling || sat_per_kvb == 0.0 {
            return FeeRate::per_kvb(sat_per_kvb.round() as i64);
        }
        let mut now = sat_per_kvb;
        if time_s > updated_s + UPDATE_S {
            now = self.fallen(time_s);
            if now == 0.0 {
                return FeeRate::ZERO;
            }
        }
        FeeRate::per_kvb(now.round() as i64).max(self.policy.incremental)
    }

    /// What the minimum has fallen to.
    fn fallen(&self, time_s: u64) -> f64 {
        let most = self.policy.mempool_bytes_max;
        let half_life_s = match self.bytes() {
            bytes if bytes < most / 4 => HALF_LIFE_S / 4.0,
            bytes if bytes < most / 2 => HALF_LIFE_S / 2.0,
            _ => HALF_LIFE_S,
        };
        let passed_s = time_s.saturating_sub(self.rolling.updated_s) as f64;
        let now = self.rolling.sat_per_kvb / (passed_s / half_life_s).exp2();
        if now < self.policy.incremental.sat_per_kvb() as f64 / 2.0 { 0.0 } else { now }
    }

    /// The least feerate that is taken alone (getmempoolinfo's `mempoolminfee`, and the fee filter).
    pub fn minimum(&self, time_s: u64) -> FeeRate {
        self.rolling_minimum(time_s).max(self.policy.min_relay)
    }

    /// A block has come: the minimum may fall from now on.
    pub(super) fn note_block(&mut self, time_s: u64) {
        self.settle(time_s);
        (self.rolling.updated_s, self.rolling.falling) = (time_s, true);
    }

    /// Writes down how far the minimum has fallen.
    fn settle(&mut self, time_s: u64) {
        if self.rolling.falling && time_s > self.rolling.updated_s + UPDATE_S {
            self.rolling.sat_per_kvb = self.fallen(time_s);
            self.rolling.updated_s = time_s;
        }
    }

    /// Expires what is old, then evicts what pays least until memory is within its bound.
    pub fn limit(&mut self, time_s: u64) {
        self.expire(time_s.saturating_sub(self.policy.expiry_s));
        while self.bytes() > self.policy.mempool_bytes_max {
            let Some(&worst) = self.chunks.last() else { break };
            self.evict(worst, time_s);
        }
    }

    /// Takes out the chunk that pays least. What spends from it pays less still and is in it.
    fn evict(&mut self, worst: ChunkKey, time_s: u64) {
        let slots = self.slots_of_chunk(&worst);
        let evicted = FeeRate::of(worst.fee.fee_sat, vsize(worst.fee.size));
        let minimum = evicted.sat_per_kvb().saturating_add(self.policy.incremental.sat_per_kvb()) as f64;
        self.settle(time_s);
        if minimum > self.rolling.sat_per_kvb {
            (self.rolling.sat_per_kvb, self.rolling.falling) = (minimum, false);
        }
        self.remove(&slots, Reason::SizeLimit);
    }

    /// Removes what came before `time_s`, with all that spends from it; returns how many went.
    fn expire(&mut self, time_s: u64) -> usize {
        let old: Vec<Slot> = self.by_time.range(..(time_s, 0)).map(|&(_, slot)| slot).collect();
        if old.is_empty() {
            return 0;
        }
        let all = self.with_descendants(&old);
        self.remove(&all, Reason::Expiry);
        all.len()
    }

    /// Removes transactions; everything that spends from one of them must be among them, or be given by a block.
    pub(super) fn remove(&mut self, slots: &[Slot], reason: Reason) {
        if slots.is_empty() {
            return;
        }
        let plan = self.plan(slots, &[], &[]).expect("clusters only get smaller");
        self.apply(plan, Vec::new(), Some(reason));
    }

    /// Takes out what goes for different reasons, told of in this order.
    pub(super) fn remove_each(&mut self, leaving: &[(Slot, Reason)]) {
        if leaving.is_empty() {
            return;
        }
        let slots: Vec<Slot> = leaving.iter().map(|(slot, _)| *slot).collect();
        let plan = self.plan(&slots, &[], &[]).expect("clusters only get smaller");
        self.apply_each(plan, Vec::new(), |index| Some(leaving[index].1));
    }

    pub(super) fn slots_of_chunk(&self, key: &ChunkKey) -> Vec<Slot> {
        let cluster = self.cluster(key.cluster);
        let start: u32 = cluster.chunks[..key.index as usize].iter().map(|chunk| chunk.count).sum();
        let count = cluster.chunks[key.index as usize].count;
        cluster.members[start as usize..(start + count) as usize].to_vec()
    }
}
