//! The mempool itself: its tables, and the one place where they change.
//!
//! In:     a [`Plan`] and the entries it brings.
//! Out:    tables that agree with each other; [`Event`]s in order.
//! Fails:  never: whatever may be refused is refused before a plan is applied.
//!
//! A transaction is a slot, a small number, in every table. Tables by something from outside are hashed with a secret.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use primitives::{OutPoint, ScriptHash, Txid, Wtxid};
use sigs::Engine;

use super::base::{Base, CoinMemory, Keyed};
use super::cluster::{ChunkKey, Cluster, Kin, Plan};
use super::entry::{Entry, Event, Reason, allocated};
use super::limits::Rolling;
use super::scripts::ScriptMemory;
use crate::policy::{FeeFrac, Policy};
use crate::view::Tip;

/// A transaction's number in the tables; used again after it has left.
pub(super) type Slot = u32;

/// Events that a subscriber may lag behind; then it is dropped. A block of 5,000 transactions fits many times.
const EVENTS_MAX: usize = 65_536;

/// Bytes of a row of each table, as they are on average between two doublings of a hash table (filled to 0.65), or in
/// the nodes of a tree (filled to 0.7).
const TXID_ROW_BYTES: u64 = 57;
const SPENT_ROW_BYTES: u64 = 63;
const SCRIPT_ROW_BYTES: u64 = 25;
const TIME_ROW_BYTES: u64 = 25;
const CHUNK_ROW_BYTES: u64 = 46;
/// Bytes of a cluster's own record and its two lists beside their contents.
const CLUSTER_BYTES: u64 = 48 + 2 * 32;

/// An entry and its place among the others.
pub(super) struct Node {
    pub entry: Arc<Entry>,
    /// What its owner has added to its fee by hand.
    pub delta_sat: i64,
    pub parents: Vec<Slot>,
    pub children: Vec<Slot>,
    pub cluster: u32,
    /// Position in the cluster's order.
    pub place: u8,
}

impl Node {
    /// What it is taken to pay, for its adjusted weight.
    pub fn fee(&self) -> FeeFrac {
        FeeFrac::new(self.modified_fee_sat(), self.entry.adjusted_weight)
    }

    pub fn modified_fee_sat(&self) -> i64 {
        self.entry.fee_sat.saturating_add(self.delta_sat)
    }
}

/// An entry on its way in.
pub(super) struct Arrival {
    pub entry: Entry,
    pub parents: Vec<Kin>,
    pub estimable: bool,
    pub announce: bool,
    /// It was here a moment ago, and nobody was told that it left.
    pub quiet: bool,
}

/// Unconfirmed transactions, in the order a miner would take them.
pub struct Mempool {
    pub(super) policy: Policy,
    pub(super) base: Arc<dyn Base>,
    pub(super) keyed: Keyed,
    nodes: Vec<Option<Node>>,
    free: Vec<Slot>,
    by_txid: HashMap<Txid, Slot, Keyed>,
    by_wtxid: HashMap<Wtxid, Slot, Keyed>,
    spent: HashMap<OutPoint, Slot, Keyed>,
    by_script: BTreeSet<(u64, Slot)>,
    pub(super) by_time: BTreeSet<(u64, Slot)>,
    clusters: Vec<Option<Cluster>>,
    free_clusters: Vec<u32>,
    pub(super) chunks: BTreeSet<ChunkKey>,
    pub(super) deltas: BTreeMap<Txid, i64>,
    pub(super) unbroadcast: BTreeSet<Txid>,
    pub(super) rolling: Rolling,
    pub(super) coins: CoinMemory,
    pub(super) scripts: Arc<ScriptMemory>,
    subscribers: Vec<SyncSender<Event>>,
    size_vb: u64,
    fee_sat: i64,
    bytes: u64,
    sequence: u64,
    changes: u64,
}

impl Mempool {
    /// An empty mempool on top of `base`. `secret`: 16 random bytes, the key of its tables.
    pub fn new(policy: Policy, base: Arc<dyn Base>, engine: Arc<dyn Engine>, secret: [u8; 16]) -> Mempool {
        assert!(policy.cluster_txs_max <= crate::policy::CLUSTER_TXS_BOUND, "a cluster fits the bits of a set");
        let keyed = Keyed::new(secret);
        Mempool {
            policy,
            base,
            keyed,
            nodes: Vec::new(),
            free: Vec::new(),
            by_txid: HashMap::with_hasher(keyed),
            by_wtxid: HashMap::with_hasher(keyed),
            spent: HashMap::with_hasher(keyed),
            by_script: BTreeSet::new(),
            by_time: BTreeSet::new(),
            clusters: Vec::new(),
            free_clusters: Vec::new(),
            chunks: BTreeSet::new(),
            deltas: BTreeMap::new(),
            unbroadcast: BTreeSet::new(),
            rolling: Rolling::default(),
            coins: CoinMemory::new(keyed, policy.mempool_bytes_max),
            scripts: Arc::new(ScriptMemory::new(keyed, policy.mempool_bytes_max, engine)),
            subscribers: Vec::new(),
            size_vb: 0,
            fee_sat: 0,
            bytes: 0,
            // Core counts from 1 on: 0 says "came back out of a block".
            sequence: 1,
            changes: 0,
        }
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The block it stands on: every coin it spends is of this chain or its own.
    pub fn tip(&self) -> Tip {
        self.base.tip()
    }

    /// Verdicts on scripts, for whoever connects blocks.
    pub fn scripts(&self) -> &Arc<ScriptMemory> {
        &self.scripts
    }

    /// Number of transactions.
    pub fn len(&self) -> usize {
        self.by_txid.len()
    }

    /// True without transactions.
    pub fn is_empty(&self) -> bool {
        self.by_txid.is_empty()
    }

    /// Bytes of memory held for transactions and their places, counted as allocators round them.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Virtual bytes of all transactions.
    pub fn size_vb(&self) -> u64 {
        self.size_vb
    }

    /// What all transactions pay.
    pub fn fee_sat(&self) -> i64 {
        self.fee_sat
    }

    /// Number of the next change (getrawmempool's `mempool_sequence`).
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Changes of any kind since the start; two equal numbers mean that nothing happened between.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Every change from now on. Who lags 65,536 events behind is dropped: its receiver ends, and it begins anew with what
    /// the mempool holds.
    pub fn subscribe(&mut self) -> Receiver<Event> {
        let (sender, receiver) = sync_channel(EVENTS_MAX);
        self.subscribers.push(sender);
        receiver
    }

    pub(super) fn node(&self, slot: Slot) -> &Node {
        self.nodes[slot as usize].as_ref().expect("a slot in use")
    }

    pub(super) fn node_mut(&mut self, slot: Slot) -> &mut Node {
        self.nodes[slot as usize].as_mut().expect("a slot in use")
    }

    pub(super) fn cluster(&self, id: u32) -> &Cluster {
        self.clusters[id as usize].as_ref().expect("a cluster in use")
    }

    pub(super) fn slot(&self, txid: &Txid) -> Option<Slot> {
        self.by_txid.get(txid).copied()
    }

    pub(super) fn slot_of_wtxid(&self, wtxid: &Wtxid) -> Option<Slot> {
        self.by_wtxid.get(wtxid).copied()
    }

    pub(super) fn spender_slot(&self, outpoint: &OutPoint) -> Option<Slot> {
        self.spent.get(outpoint).copied()
    }

    /// All wtxids, in no order that means anything: a look along one table, for a block's short identifiers.
    pub fn wtxids(&self) -> impl Iterator<Item = &Wtxid> + '_ {
        self.by_wtxid.keys()
    }

    /// Slots in use, in no order that means anything.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        (0..self.nodes.len() as Slot).filter(|&slot| self.nodes[slot as usize].is_some())
    }

    /// Slots of transactions that may touch a script; others may share its tag.
    pub(super) fn slots_of_script(&self, script_hash: &ScriptHash) -> impl Iterator<Item = Slot> + '_ {
        let tag = self.keyed.of(&script_hash.0);
        self.by_script.range((tag, 0)..=(tag, Slot::MAX)).map(|&(_, slot)| slot)
    }

    /// A slot and all that leads away from it by `next`, itself first.
    fn closure<'a>(&'a self, from: &[Slot], next: impl Fn(&'a Node) -> &'a [Slot]) -> Vec<Slot> {
        let mut found: Vec<Slot> = Vec::with_capacity(from.len());
        let mut seen = std::collections::HashSet::with_hasher(self.keyed);
        found.extend(from.iter().copied().filter(|&slot| seen.insert(slot)));
        let mut at = 0;
        while let Some(&slot) = found.get(at) {
            found.extend(next(self.node(slot)).iter().copied().filter(|&slot| seen.insert(slot)));
            at += 1;
        }
        found
    }

    /// These and everything that spends from them.
    pub(super) fn with_descendants(&self, slots: &[Slot]) -> Vec<Slot> {
        self.closure(slots, |node| &node.children)
    }

    /// These and everything they need.
    pub(super) fn with_ancestors(&self, slots: &[Slot]) -> Vec<Slot> {
        self.closure(slots, |node| &node.parents)
    }

    pub(super) fn tell(&mut self, event: Event) {
        self.subscribers.retain(|sender| match sender.try_send(event.clone()) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        });
    }

    pub(super) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence - 1
    }

    /// Makes a plan true. `reason`: of what it removes; none where it comes back at once and nobody is told.
    pub(super) fn apply(&mut self, plan: Plan, arrivals: Vec<Arrival>, reason: Option<Reason>) -> Vec<Arc<Entry>> {
        self.apply_each(plan, arrivals, |_| reason)
    }

    /// The same, with a reason for each that is removed, by its position in the plan.
    pub(super) fn apply_each(
        &mut self,
        plan: Plan,
        arrivals: Vec<Arrival>,
        reason: impl Fn(usize) -> Option<Reason>,
    ) -> Vec<Arc<Entry>> {
        self.changes += 1;
        for &id in &plan.touched {
            self.drop_cluster(id);
        }
        let removed: Vec<Arc<Entry>> = plan.removed.iter().map(|&slot| self.remove_node(slot)).collect();
        for (index, entry) in removed.iter().enumerate() {
            let Some(reason) = reason(index) else { continue };
            let sequence = self.next_sequence();
            self.unbroadcast.remove(&entry.txid);
            self.tell(Event::Removed { entry: entry.clone(), reason, sequence });
        }
        let mut slots: Vec<Slot> = Vec::with_capacity(arrivals.len());
        for arrival in arrivals {
            let slot = self.insert_node(arrival, &slots);
            slots.push(slot);
        }
        for cluster in plan.clusters {
            let members = cluster.members.iter().map(|kin| match *kin {
                Kin::Old(slot) => slot,
                Kin::New(index) => slots[index],
            });
            let members = members.collect();
            self.add_cluster(Cluster { members, chunks: cluster.chunks });
        }
        removed
    }

    fn drop_cluster(&mut self, id: u32) {
        let cluster = self.clusters[id as usize].take().expect("a cluster in use");
        self.bytes -= cluster_bytes(&cluster);
        for (index, chunk) in cluster.chunks.iter().enumerate() {
            let known = self.chunks.remove(&ChunkKey { fee: chunk.fee, cluster: id, index: index as u32 });
            assert!(known, "every chunk is in the order of chunks");
        }
        self.free_clusters.push(id);
    }

    fn add_cluster(&mut self, cluster: Cluster) {
        let id = self.free_clusters.pop().unwrap_or_else(|| {
            self.clusters.push(None);
            self.clusters.len() as u32 - 1
        });
        for (index, chunk) in cluster.chunks.iter().enumerate() {
            self.chunks.insert(ChunkKey { fee: chunk.fee, cluster: id, index: index as u32 });
        }
        for (place, &slot) in cluster.members.iter().enumerate() {
            let node = self.node_mut(slot);
            (node.cluster, node.place) = (id, place as u8);
        }
        self.bytes += cluster_bytes(&cluster);
        self.clusters[id as usize] = Some(cluster);
    }

    fn remove_node(&mut self, slot: Slot) -> Arc<Entry> {
        let node = self.nodes[slot as usize].take().expect("a slot in use");
        self.free.push(slot);
        for &parent in &node.parents {
            if let Some(parent) = &mut self.nodes[parent as usize] {
                parent.children.retain(|&child| child != slot);
            }
        }
        for &child in &node.children {
            if let Some(child) = &mut self.nodes[child as usize] {
                child.parents.retain(|&parent| parent != slot);
            }
        }
        let entry = node.entry;
        self.by_txid.remove(&entry.txid);
        self.by_wtxid.remove(&entry.wtxid);
        for input in entry.tx().inputs() {
            self.spent.remove(&input.outpoint());
        }
        for hash in entry.script_hashes() {
            self.by_script.remove(&(self.keyed.of(&hash.0), slot));
        }
        self.by_time.remove(&(entry.time_s, slot));
        self.size_vb -= u64::from(entry.size_vb());
        self.fee_sat -= entry.fee_sat;
        self.bytes -= node_bytes(&entry);
        entry
    }

    fn insert_node(&mut self, arrival: Arrival, before: &[Slot]) -> Slot {
        let Arrival { entry, parents, estimable, announce, quiet } = arrival;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.nodes.push(None);
            self.nodes.len() as Slot - 1
        });
        let parents: Vec<Slot> = parents
            .into_iter()
            .map(|kin| match kin {
                Kin::Old(slot) => slot,
                Kin::New(index) => before[index],
            })
            .collect();
        for &parent in &parents {
            self.node_mut(parent).children.push(slot);
        }
        self.by_txid.insert(entry.txid, slot);
        self.by_wtxid.insert(entry.wtxid, slot);
        for input in entry.tx().inputs() {
            let other = self.spent.insert(input.outpoint(), slot);
            assert!(other.is_none(), "no two transactions of the mempool spend one output");
        }
        for hash in entry.script_hashes() {
            self.by_script.insert((self.keyed.of(&hash.0), slot));
        }
        self.by_time.insert((entry.time_s, slot));
        self.size_vb += u64::from(entry.size_vb());
        self.fee_sat += entry.fee_sat;
        self.bytes += node_bytes(&entry);
        let delta_sat = self.deltas.get(&entry.txid).copied().unwrap_or(0);
        let entry = Arc::new(entry);
        if !quiet {
            let sequence = self.next_sequence();
            self.tell(Event::Added { entry: entry.clone(), sequence, estimable, announce });
        }
        self.nodes[slot as usize] =
            Some(Node { entry, delta_sat, parents, children: Vec::new(), cluster: 0, place: 0 });
        slot
    }
}

fn cluster_bytes(cluster: &Cluster) -> u64 {
    let lists = 4 * cluster.members.len() as u64 + 24 * cluster.chunks.len() as u64;
    CLUSTER_BYTES + lists + CHUNK_ROW_BYTES * cluster.chunks.len() as u64
}

/// An entry with its rows; lists of relatives are counted as one of each.
fn node_bytes(entry: &Entry) -> u64 {
    let (inputs, outputs) = (entry.tx().input_count() as u64, entry.tx().output_count() as u64);
    entry.bytes()
        + size_of::<Option<Node>>() as u64
        + 2 * allocated(16)
        + 2 * TXID_ROW_BYTES
        + TIME_ROW_BYTES
        + SPENT_ROW_BYTES * inputs
        + SCRIPT_ROW_BYTES * (inputs + outputs)
}
