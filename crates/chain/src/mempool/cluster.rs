//! Clusters: transactions that depend on each other, the order they would be mined in, and changes tried before they happen.
//!
//! In:     what would go and what would come.
//! Out:    [`Plan`]: the clusters as they would be, with chunks; feerate diagrams before and after.
//! Fails:  [`TooLarge`] where a cluster would hold more than policy allows.
//! Source: Bitcoin Core 31, `txgraph.h` (staging, `GetMainStagingDiagrams`).

use std::cmp::Ordering;
use std::collections::HashMap;

use super::pool::{Mempool, Slot};
use crate::policy::{Chunk, FeeFrac, Graph, chunks, linearize};

/// One cluster: members in the order of mining, cut into chunks.
pub(super) struct Cluster {
    pub members: Vec<Slot>,
    pub chunks: Vec<Chunk>,
}

/// A chunk's place in the order of all chunks: the best-paying first; within a cluster in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChunkKey {
    /// Satoshi for weight.
    pub fee: FeeFrac,
    pub cluster: u32,
    pub index: u32,
}

impl Ord for ChunkKey {
    fn cmp(&self, other: &ChunkKey) -> Ordering {
        let rate = other.fee.cmp_rate(&self.fee);
        rate.then_with(|| (self.cluster, self.index).cmp(&(other.cluster, other.index)))
    }
}

impl PartialOrd for ChunkKey {
    fn partial_cmp(&self, other: &ChunkKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A member of a planned cluster: there already, or the n-th of those that would come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kin {
    Old(Slot),
    New(usize),
}

/// A transaction that would come, its parents before it.
pub(super) struct Newcomer {
    /// What it pays in all, for its adjusted weight.
    pub fee: FeeFrac,
    pub parents: Vec<Kin>,
}

/// A cluster as it would be.
pub(super) struct PlannedCluster {
    pub members: Vec<Kin>,
    pub chunks: Vec<Chunk>,
}

/// The clusters as they would be after a change.
pub(super) struct Plan {
    pub removed: Vec<Slot>,
    /// Clusters that would no longer be.
    pub touched: Vec<u32>,
    pub clusters: Vec<PlannedCluster>,
}

/// A cluster would be larger than policy allows.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLarge;

/// Groups joined one after the other.
struct Groups(Vec<usize>);

impl Groups {
    fn find(&mut self, mut at: usize) -> usize {
        while self.0[at] != at {
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }

    /// The smaller number stands for both.
    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        self.0[a.max(b)] = a.min(b);
    }
}

impl Mempool {
    /// What clusters would be without `removed` and with `newcomers`; those of `touch` are ordered anew.
    pub(super) fn plan(&self, removed: &[Slot], newcomers: &[Newcomer], touch: &[Slot]) -> Result<Plan, TooLarge> {
        if let ([], [newcomer], []) = (removed, newcomers, touch)
            && newcomer.parents.is_empty()
        {
            return self.plan_alone(newcomer);
        }
        let parents = newcomers.iter().flat_map(|newcomer| &newcomer.parents);
        let parents = parents.filter_map(|parent| if let Kin::Old(slot) = parent { Some(slot) } else { None });
        let mut touched: Vec<u32> =
            removed.iter().chain(touch).chain(parents).map(|&slot| self.node(slot).cluster).collect();
        touched.sort_unstable();
        touched.dedup();
        let members = self.members_left(&touched, removed, newcomers.len());
        let parents = self.parents_of(&members, newcomers);
        let mut groups = Groups((0..members.len()).collect());
        for (child, parents) in parents.iter().enumerate() {
            parents.iter().for_each(|&parent| groups.join(child, parent));
        }
        let mut by_group: Vec<Vec<usize>> = vec![Vec::new(); members.len()];
        for at in 0..members.len() {
            by_group[groups.find(at)].push(at);
        }
        let mut clusters = Vec::new();
        for group in by_group.into_iter().filter(|group| !group.is_empty()) {
            clusters.push(self.planned(&group, &members, &parents, newcomers)?);
        }
        Ok(Plan { removed: removed.to_vec(), touched, clusters })
    }

    /// The common case: a transaction without unconfirmed parents, in place of nothing.
    fn plan_alone(&self, newcomer: &Newcomer) -> Result<Plan, TooLarge> {
        if u64::from(newcomer.fee.size) > self.policy.cluster_vbytes_max * 4 {
            return Err(TooLarge);
        }
        let chunks = vec![Chunk { fee: newcomer.fee, count: 1 }];
        let cluster = PlannedCluster { members: vec![Kin::New(0)], chunks };
        Ok(Plan { removed: Vec::new(), touched: Vec::new(), clusters: vec![cluster] })
    }

    /// Members of clusters that stay, chunks from the highest feerate down, then those that come: parents first.
    fn members_left(&self, touched: &[u32], removed: &[Slot], newcomers: usize) -> Vec<Kin> {
        let mut gone = removed.to_vec();
        gone.sort_unstable();
        let mut parts: Vec<(FeeFrac, &[Slot])> = Vec::new();
        for &id in touched {
            let cluster = self.cluster(id);
            let mut start = 0;
            for chunk in &cluster.chunks {
                let end = start + chunk.count as usize;
                parts.push((chunk.fee, &cluster.members[start..end]));
                start = end;
            }
        }
        parts.sort_by(|(a, _), (b, _)| b.cmp_rate(a));
        let slots = parts.into_iter().flat_map(|(_, slots)| slots.iter().copied());
        let left = slots.filter(|slot| gone.binary_search(slot).is_err()).map(Kin::Old);
        left.chain((0..newcomers).map(Kin::New)).collect()
    }

    /// Positions of the parents of each member among the members.
    fn parents_of(&self, members: &[Kin], newcomers: &[Newcomer]) -> Vec<Vec<usize>> {
        let mut place: HashMap<Kin, usize, _> = HashMap::with_capacity_and_hasher(members.len(), self.keyed);
        place.extend(members.iter().enumerate().map(|(at, &kin)| (kin, at)));
        let places = |kin: &Kin| place.get(kin).copied();
        let of = |kin: &Kin| match *kin {
            Kin::Old(slot) => self.node(slot).parents.iter().filter_map(|&slot| places(&Kin::Old(slot))).collect(),
            Kin::New(index) => newcomers[index].parents.iter().filter_map(places).collect(),
        };
        members.iter().map(of).collect()
    }

    /// One connected group, in a good order.
    fn planned(
        &self,
        group: &[usize],
        members: &[Kin],
        parents: &[Vec<usize>],
        newcomers: &[Newcomer],
    ) -> Result<PlannedCluster, TooLarge> {
        let fee = |kin: Kin| match kin {
            Kin::Old(slot) => self.node(slot).fee(),
            Kin::New(index) => newcomers[index].fee,
        };
        if group.iter().any(|&at| matches!(members[at], Kin::New(_))) {
            let weight: u64 = group.iter().map(|&at| u64::from(fee(members[at]).size)).sum();
            if group.len() > self.policy.cluster_txs_max || weight > self.policy.cluster_vbytes_max * 4 {
                return Err(TooLarge);
            }
        }
        let mut graph = Graph::default();
        for &at in group {
            let bit = |parent: &usize| 1u64 << group.binary_search(parent).expect("parents are in the group");
            graph.push(fee(members[at]), parents[at].iter().map(bit).fold(0, |set, bit| set | bit));
        }
        let natural: Vec<u8> = (0..group.len() as u8).collect();
        let order = linearize(&graph, &natural);
        let chunks = chunks(&graph, &order);
        let members = order.iter().map(|&index| members[group[usize::from(index)]]).collect();
        Ok(PlannedCluster { members, chunks })
    }

    /// The diagram of the clusters that a plan would touch, as they are.
    pub(super) fn diagram_before(&self, plan: &Plan) -> Vec<FeeFrac> {
        sorted(plan.touched.iter().flat_map(|&id| &self.cluster(id).chunks))
    }
}

impl Plan {
    /// The diagram of the clusters as they would be.
    pub fn diagram_after(&self) -> Vec<FeeFrac> {
        sorted(self.clusters.iter().flat_map(|cluster| &cluster.chunks))
    }
}

fn sorted<'a>(chunks: impl Iterator<Item = &'a Chunk>) -> Vec<FeeFrac> {
    let mut fees: Vec<FeeFrac> = chunks.map(|chunk| chunk.fee).collect();
    fees.sort_by(|a, b| b.cmp_rate(a));
    fees
}
