//! The transactions of a block to be mined.
//!
//! In:     what the block has room for.
//! Out:    entries, parents first.
//! Fails:  never.
//! Source: Bitcoin Core 31, `node/miner.cpp` (`addChunks`): chunks from the best-paying down, whole or not at all.

use std::collections::HashSet;
use std::sync::Arc;

use super::entry::Entry;
use super::pool::Mempool;
use crate::policy::{FeeRate, vsize};

/// Chunks in a row that do not fit before the search ends, once the block is nearly full.
const MISSES_MAX: usize = 1_000;
/// Weight below which a block is nearly full.
const NEARLY_FULL_WEIGHT: u64 = 4_000;

/// Room of a block.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Weight for transactions, coinbase and header left out.
    pub weight_max: u64,
    /// Signature operation cost for transactions.
    pub sigop_cost_max: u64,
    /// What pays less is left out.
    pub min_feerate: FeeRate,
}

impl Mempool {
    /// Chooses the transactions of a block.
    pub fn select(&self, room: &Room) -> Vec<Arc<Entry>> {
        let (mut chosen, mut weight, mut sigop_cost, mut misses) = (Vec::new(), 0, 0, 0);
        // Once a chunk is left out, what comes after it in its cluster may need it.
        let mut closed: HashSet<u32> = HashSet::new();
        for key in &self.chunks {
            let size_vb = vsize(key.fee.size);
            if FeeRate::of(key.fee.fee_sat, size_vb) < room.min_feerate {
                break;
            }
            if closed.contains(&key.cluster) {
                continue;
            }
            let entries: Vec<&Arc<Entry>> =
                self.slots_of_chunk(key).into_iter().map(|slot| &self.node(slot).entry).collect();
            let chunk_weight: u64 = entries.iter().map(|entry| u64::from(entry.weight)).sum();
            let chunk_cost: u64 = entries.iter().map(|entry| entry.sigop_cost).sum();
            if weight + chunk_weight > room.weight_max || sigop_cost + chunk_cost > room.sigop_cost_max {
                closed.insert(key.cluster);
                misses += 1;
                if misses > MISSES_MAX && weight + NEARLY_FULL_WEIGHT > room.weight_max {
                    break;
                }
                continue;
            }
            misses = 0;
            (weight, sigop_cost) = (weight + chunk_weight, sigop_cost + chunk_cost);
            chosen.extend(entries.into_iter().cloned());
        }
        chosen
    }
}
