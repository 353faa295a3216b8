//! What readers ask: by txid, by script, by output, and of the mempool as a whole.
//!
//! In:     identifiers.
//! Out:    entries (shared, so that a reader may keep them after the lock is gone) and numbers about them.
//! Fails:  never; what is not here is `None` or empty.
//! Source: fields of getmempoolentry: Bitcoin Core, `rpc/mempool.cpp`; of the histogram: the Electrum protocol.

use std::sync::Arc;

use primitives::{OutPoint, ScriptHash, Txid, Wtxid};

use super::cluster::ChunkKey;
use super::entry::Entry;
use super::pool::{Mempool, Slot};
use crate::policy::{FeeFrac, vsize};

/// Sequences below it ask for replacement (BIP 125).
const SEQUENCE_FINAL_MIN: u32 = 0xffff_fffe;
/// A bar of the fee histogram is at least so large in virtual bytes, and each next one a tenth more (ElectrumX).
const BAR_VBYTES: u64 = 100_000;
/// Transactions of one second that are put in order for [`Mempool::recent`]; a file read in may bring all in one.
const RECENT_LOOKED_AT_MAX: usize = 10_000;

/// Where a transaction stands among the others.
#[derive(Clone)]
pub struct Details {
    /// The transaction.
    pub entry: Arc<Entry>,
    /// What it is taken to pay, with what its owner has added.
    pub modified_fee_sat: i64,
    /// It and what it needs: count, virtual bytes, fees with additions.
    pub ancestors: (usize, u64, i64),
    /// It and what needs it.
    pub descendants: (usize, u64, i64),
    /// Transactions of its cluster.
    pub cluster_txs: usize,
    /// What its chunk pays, for its weight.
    pub chunk: FeeFrac,
    /// Unconfirmed parents.
    pub depends: Vec<Txid>,
    /// Unconfirmed children.
    pub spent_by: Vec<Txid>,
    /// It or an ancestor asks for replacement (BIP 125); every transaction may be replaced all the same.
    pub signals_replacement: bool,
    /// No peer has asked for it yet.
    pub unbroadcast: bool,
}

/// A transaction of a script, as the Electrum protocol shows it.
#[derive(Clone)]
pub struct Unconfirmed {
    /// The transaction.
    pub entry: Arc<Entry>,
    /// It spends from another unconfirmed transaction: shown at height -1, others at 0.
    pub on_unconfirmed: bool,
}

impl Mempool {
    /// The transaction of a txid.
    pub fn get(&self, txid: &Txid) -> Option<&Arc<Entry>> {
        Some(&self.node(self.slot(txid)?).entry)
    }

    /// The transaction of a wtxid.
    pub fn get_by_wtxid(&self, wtxid: &Wtxid) -> Option<&Arc<Entry>> {
        Some(&self.node(self.slot_of_wtxid(wtxid)?).entry)
    }

    /// True where a transaction spends from another unconfirmed one.
    pub fn is_on_unconfirmed(&self, txid: &Txid) -> bool {
        self.slot(txid).is_some_and(|slot| !self.node(slot).parents.is_empty())
    }

    /// Who spends an output, and with which input.
    pub fn spender(&self, outpoint: &OutPoint) -> Option<(&Arc<Entry>, u32)> {
        let entry = &self.node(self.spender_slot(outpoint)?).entry;
        let input = entry.tx().inputs().position(|input| input.outpoint() == *outpoint);
        Some((entry, input.expect("the table of spent outputs names its spender") as u32))
    }

    /// Transactions that spend from a script or pay to it: those with confirmed inputs first, each group by txid.
    pub fn history(&self, script_hash: &ScriptHash) -> Vec<Unconfirmed> {
        let touches = |slot: &Slot| self.node(*slot).entry.script_hashes().any(|hash| hash == *script_hash);
        let mut found: Vec<Unconfirmed> = self
            .slots_of_script(script_hash)
            .filter(touches)
            .map(|slot| {
                let node = self.node(slot);
                Unconfirmed { entry: node.entry.clone(), on_unconfirmed: !node.parents.is_empty() }
            })
            .collect();
        found.sort_by_key(|found| (found.on_unconfirmed, found.entry.txid));
        found
    }

    /// What unconfirmed transactions add to a script's balance; below zero where they take away.
    pub fn balance_change_sat(&self, script_hash: &ScriptHash) -> i64 {
        self.slots_of_script(script_hash).fold(0, |sum: i64, slot| sum + self.change_by(slot, script_hash))
    }

    fn change_by(&self, slot: Slot, script_hash: &ScriptHash) -> i64 {
        let entry = &self.node(slot).entry;
        let is_it = |script: &[u8]| ScriptHash::of(script) == *script_hash;
        let spent = entry.coins.iter().filter(|coin| is_it(coin.script)).map(|coin| coin.value_sat as i64);
        let paid = entry.tx().outputs().filter(|output| is_it(output.script)).map(|output| output.value_sat);
        paid.sum::<i64>() - spent.sum::<i64>()
    }

    /// Outputs to a script that no unconfirmed transaction spends: where, how much, and of which transaction.
    pub fn unspent(&self, script_hash: &ScriptHash) -> Vec<(OutPoint, u64, Arc<Entry>)> {
        let mut found = Vec::new();
        for slot in self.slots_of_script(script_hash) {
            let entry = &self.node(slot).entry;
            for (vout, output) in entry.tx().outputs().enumerate() {
                let outpoint = OutPoint { txid: entry.txid, vout: vout as u32 };
                if ScriptHash::of(output.script) == *script_hash && self.spender_slot(&outpoint).is_none() {
                    found.push((outpoint, output.value_sat as u64, entry.clone()));
                }
            }
        }
        found.sort_by_key(|(outpoint, ..)| *outpoint);
        found
    }

    /// Everything getmempoolentry tells.
    pub fn details(&self, txid: &Txid) -> Option<Details> {
        let slot = self.slot(txid)?;
        let node = self.node(slot);
        let (ancestors, descendants) = (self.with_ancestors(&[slot]), self.with_descendants(&[slot]));
        let signals = |slot: &Slot| self.node(*slot).entry.tx().inputs().any(|i| i.sequence() < SEQUENCE_FINAL_MIN);
        let txids = |slots: &[Slot]| slots.iter().map(|&slot| self.node(slot).entry.txid).collect();
        Some(Details {
            entry: node.entry.clone(),
            modified_fee_sat: node.modified_fee_sat(),
            ancestors: self.sums(&ancestors),
            descendants: self.sums(&descendants),
            cluster_txs: self.cluster(node.cluster).members.len(),
            chunk: self.rank(slot).0.fee,
            depends: txids(&node.parents),
            spent_by: txids(&node.children),
            signals_replacement: ancestors.iter().any(signals),
            unbroadcast: self.unbroadcast.contains(txid),
        })
    }

    fn sums(&self, slots: &[Slot]) -> (usize, u64, i64) {
        let size_vb = slots.iter().map(|&slot| u64::from(self.node(slot).entry.size_vb())).sum();
        (slots.len(), size_vb, self.fees_sat(slots))
    }

    /// What a transaction needs, itself left out.
    pub fn ancestors(&self, txid: &Txid) -> Option<Vec<Txid>> {
        let all = self.with_ancestors(&[self.slot(txid)?]);
        Some(all[1..].iter().map(|&slot| self.node(slot).entry.txid).collect())
    }

    /// What needs a transaction, itself left out.
    pub fn descendants(&self, txid: &Txid) -> Option<Vec<Txid>> {
        let all = self.with_descendants(&[self.slot(txid)?]);
        Some(all[1..].iter().map(|&slot| self.node(slot).entry.txid).collect())
    }

    /// A transaction's cluster in the order of mining, cut into chunks with what each pays for its weight.
    pub fn cluster_of(&self, txid: &Txid) -> Option<Vec<(FeeFrac, Vec<Txid>)>> {
        let id = self.node(self.slot(txid)?).cluster;
        let mut members = self.cluster(id).members.iter().map(|&slot| self.node(slot).entry.txid);
        let chunks = self.cluster(id).chunks.iter();
        Some(chunks.map(|chunk| (chunk.fee, members.by_ref().take(chunk.count as usize).collect())).collect())
    }

    /// The place of a transaction in the order of all: its chunk's, then its own in the cluster.
    pub(super) fn rank(&self, slot: Slot) -> (ChunkKey, u8) {
        let node = self.node(slot);
        let mut end = 0;
        for (index, chunk) in self.cluster(node.cluster).chunks.iter().enumerate() {
            end += chunk.count;
            if u32::from(node.place) < end {
                return (ChunkKey { fee: chunk.fee, cluster: node.cluster, index: index as u32 }, node.place);
            }
        }
        panic!("every member of a cluster is in one of its chunks")
    }

    /// Puts txids into the order in which a miner would take them, parents first; those not here come last.
    pub fn sort_for_relay(&self, txids: &mut [Txid]) {
        txids.sort_by_cached_key(|txid| {
            let rank = self.slot(txid).map(|slot| self.rank(slot));
            (rank.is_none(), rank)
        });
    }

    /// Chunks from the best-paying down: what each pays for its weight, and its transactions with parents first.
    pub fn chunks(&self) -> impl Iterator<Item = (FeeFrac, Vec<&Arc<Entry>>)> + '_ {
        self.chunks.iter().map(|key| {
            let entries = self.slots_of_chunk(key).into_iter().map(|slot| &self.node(slot).entry);
            (key.fee, entries.collect())
        })
    }

    /// All transactions in the order in which a miner would take them, parents first.
    pub fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> + '_ {
        self.chunks().flat_map(|(_, entries)| entries)
    }

    /// The Electrum protocol's histogram: feerate in tenths of a satoshi for a virtual byte, and virtual bytes; falling. Each
    /// bar holds what pays at least its feerate and less than the one before, rounded down to tenths.
    pub fn histogram(&self) -> Vec<(u64, u64)> {
        let mut bars: Vec<(u64, u64)> = Vec::new();
        let mut bar_vb = BAR_VBYTES;
        // The bar under way, and whether it is wide enough to end where the feerate changes.
        let mut under_way: Option<(u64, u64)> = None;
        for key in &self.chunks {
            let chunk_vb = u64::from(vsize(key.fee.size)).max(1);
            let tenths = u64::try_from(key.fee.fee_sat).unwrap_or(0).saturating_mul(10) / chunk_vb;
            under_way = match under_way {
                Some((feerate, size_vb)) if feerate != tenths && size_vb >= bar_vb => {
                    bars.push((feerate, size_vb));
                    bar_vb = bar_vb * 11 / 10;
                    Some((tenths, chunk_vb))
                }
                // Rounding of sizes may put a chunk a tenth above the one before it.
                Some((feerate, size_vb)) => Some((feerate.min(tenths), size_vb + chunk_vb)),
                None => Some((tenths, chunk_vb)),
            };
        }
        bars.extend(under_way);
        bars
    }

    /// The last transactions to come, the newest first, at most `count`.
    pub fn recent(&self, count: usize) -> Vec<Arc<Entry>> {
        let mut found: Vec<Arc<Entry>> = Vec::new();
        for &(time_s, slot) in self.by_time.iter().rev() {
            // Those of one second are in the order of their slots, which says nothing.
            let enough = found.len() >= count && found.last().is_some_and(|last| last.time_s != time_s);
            if enough || found.len() >= RECENT_LOOKED_AT_MAX {
                break;
            }
            found.push(self.node(slot).entry.clone());
        }
        found.sort_by_key(|entry| std::cmp::Reverse((entry.time_s, entry.sequence)));
        found.truncate(count);
        found
    }
}
