//! The order in which a miner takes the transactions of a cluster, and the chunks it takes them in.
//!
//! In:     a [`Graph`] of at most 64 transactions, and any order that puts parents first.
//! Out:    an order at least as good at every size; chunks of an order.
//! Fails:  never. Optimal unless [`STEPS_MAX`] ends the search, which only costs quality.
//! Source: the idea of Bitcoin Core 31's `cluster_linearize.h` (spanning-forest linearisation, a form of the simplex
//!         method): choose dependencies, one tree a chunk; merge chunks where a child pays more than what it needs; split
//!         a chunk at the dependency whose upper part pays more than its lower part, until there is none.
//!
//! Core picks dependencies at random to escape from cycles; here the largest gain is taken and ties by position, so that
//! the same cluster always has the same order. All orders of clusters up to 8 are compared with the best one in tests.

use std::cmp::Ordering;

use super::CLUSTER_TXS_BOUND;
use super::FeeFrac;

/// Transactions of one cluster, a bit each.
pub type Set = u64;

/// Splits of one search. A cluster of 64 in a bad order takes about 150; 2,000 take about a millisecond.
const STEPS_MAX: usize = 2_000;

/// Fees and dependencies of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    fees: Vec<FeeFrac>,
    /// Direct parents.
    parents: Vec<Set>,
}

/// A set of transactions that is mined together or not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// What it pays, for its weight.
    pub fee: FeeFrac,
    /// How many transactions.
    pub count: u32,
}

/// The positions in a set, rising.
fn members(mut set: Set) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = set.trailing_zeros() as usize;
        (set != 0).then(|| {
            set &= set - 1;
            lowest
        })
    })
}

impl Graph {
    /// Adds a transaction with its direct parents, which were added before or come later.
    pub fn push(&mut self, fee: FeeFrac, parents: Set) {
        assert!(self.fees.len() < CLUSTER_TXS_BOUND, "a cluster fits the bits of a set");
        self.fees.push(fee);
        self.parents.push(parents);
    }

    /// Number of transactions.
    pub fn len(&self) -> usize {
        self.fees.len()
    }

    /// True without transactions.
    pub fn is_empty(&self) -> bool {
        self.fees.is_empty()
    }

    /// Fee and size of one.
    pub fn fee(&self, index: usize) -> FeeFrac {
        self.fees[index]
    }

    /// Direct parents of one.
    pub fn parents(&self, index: usize) -> Set {
        self.parents[index]
    }

    /// True where every transaction occurs once, after its parents.
    pub fn is_topological(&self, order: &[u8]) -> bool {
        let mut done: Set = 0;
        let ordered = order.iter().all(|&index| {
            let fits = self.parents[usize::from(index)] & !done == 0 && done >> index & 1 == 0;
            done |= 1 << index;
            fits
        });
        ordered && order.len() == self.len()
    }

    /// Ancestors of each, itself included; `order` puts parents first.
    fn ancestors(&self, order: &[u8]) -> Vec<Set> {
        let mut ancestors = vec![0; self.len()];
        for &index in order {
            let index = usize::from(index);
            ancestors[index] = members(self.parents[index]).fold(1 << index, |set, parent| set | ancestors[parent]);
        }
        ancestors
    }
}

/// The chunks of an order: each as large as raises its feerate.
pub fn chunks(graph: &Graph, order: &[u8]) -> Vec<Chunk> {
    let mut chunks: Vec<Chunk> = Vec::with_capacity(order.len());
    for &index in order {
        let mut chunk = Chunk { fee: graph.fees[usize::from(index)], count: 1 };
        while let Some(last) = chunks.pop_if(|last| chunk.fee.above(&last.fee)) {
            chunk = Chunk { fee: chunk.fee + last.fee, count: chunk.count + last.count };
        }
        chunks.push(chunk);
    }
    chunks
}

/// An order at least as good as `order` everywhere.
pub fn linearize(graph: &Graph, order: &[u8]) -> Vec<u8> {
    assert!(graph.is_topological(order), "parents stand before children in the order to begin with");
    if order.len() < 2 {
        return order.to_vec();
    }
    let mut forest = Forest::new(graph, order);
    forest.improve();
    forest.split_equals();
    forest.order()
}

/// A dependency, and whether it holds a chunk together.
#[derive(Clone, Copy)]
struct Edge {
    parent: u8,
    child: u8,
    active: bool,
}

/// Chunks as trees of active dependencies.
struct Forest<'g> {
    graph: &'g Graph,
    edges: Vec<Edge>,
    /// Position of the chunk of each transaction.
    chunk_of: Vec<u8>,
    /// Transactions and sums of each chunk; empty where it went into another.
    chunks: Vec<(Set, FeeFrac)>,
}

impl<'g> Forest<'g> {
    /// The chunks of `order`, connected by dependencies.
    fn new(graph: &'g Graph, order: &[u8]) -> Forest<'g> {
        let ancestors = graph.ancestors(order);
        let mut edges = Vec::new();
        for child in 0..graph.len() {
            for parent in members(graph.parents[child]) {
                // What follows from another dependency is left out.
                let implied =
                    members(graph.parents[child]).any(|other| other != parent && ancestors[other] >> parent & 1 == 1);
                if !implied {
                    edges.push(Edge { parent: parent as u8, child: child as u8, active: false });
                }
            }
        }
        let chunk_of = (0..graph.len() as u8).collect();
        let chunks = (0..graph.len()).map(|index| (1 << index, graph.fees[index])).collect();
        let mut forest = Forest { graph, edges, chunk_of, chunks };
        let mut loaded: Set = 0;
        for &index in order {
            loaded |= 1 << index;
            forest.merge_up(usize::from(index), loaded);
        }
        // A chunk that grew upwards may pay less than another one below it.
        forest.merge_all();
        forest
    }

    fn chunk_of(&self, index: u8) -> usize {
        usize::from(self.chunk_of[usize::from(index)])
    }

    /// Joins the chunks at both ends of an edge.
    fn merge(&mut self, edge: usize) -> usize {
        let Edge { parent, child, .. } = self.edges[edge];
        let (into, from) = (self.chunk_of(parent), self.chunk_of(child));
        assert_ne!(into, from, "an active dependency joins two chunks");
        self.edges[edge].active = true;
        let (set, fee) = std::mem::take(&mut self.chunks[from]);
        members(set).for_each(|index| self.chunk_of[index] = into as u8);
        self.chunks[into] = (self.chunks[into].0 | set, self.chunks[into].1 + fee);
        into
    }

    /// Merges the chunk of `index` with chunks it needs that pay no more, the poorest first; looks only at `loaded` ones.
    fn merge_up(&mut self, index: usize, loaded: Set) {
        loop {
            let chunk = usize::from(self.chunk_of[index]);
            let fee = self.chunks[chunk].1;
            let mut poorest: Option<(usize, FeeFrac)> = None;
            for (number, edge) in self.edges.iter().enumerate() {
                let above = self.chunk_of(edge.parent);
                if self.chunk_of(edge.child) != chunk || above == chunk || loaded >> edge.parent & 1 == 0 {
                    continue;
                }
                let other = self.chunks[above].1;
                if !other.above(&fee) && poorest.is_none_or(|(_, least)| least.above(&other)) {
                    poorest = Some((number, other));
                }
            }
            match poorest {
                Some((edge, _)) => self.merge(edge),
                None => return,
            };
        }
    }

    /// Merges until every chunk pays more than each one that needs it: then no two chunks need each other.
    fn merge_all(&mut self) {
        loop {
            let mut widest: Option<(usize, i128)> = None;
            for (number, edge) in self.edges.iter().enumerate() {
                let (above, below) = (self.chunk_of(edge.parent), self.chunk_of(edge.child));
                if above == below {
                    continue;
                }
                let gap = gap(&self.chunks[below].1, &self.chunks[above].1);
                if gap >= 0 && widest.is_none_or(|(_, most)| gap > most) {
                    widest = Some((number, gap));
                }
            }
            match widest {
                Some((edge, _)) => self.merge(edge),
                None => return,
            };
        }
    }

    /// For each active edge of a chunk the transactions on its child's side, with their sums.
    fn lower_sides(&self, chunk: usize) -> Vec<(usize, Set, FeeFrac)> {
        let (set, whole) = self.chunks[chunk];
        let root = set.trailing_zeros() as usize;
        // The tree from the root, each transaction after the edge that leads to it.
        let (mut reached, mut queue): (Set, Vec<(usize, usize)>) = (1 << root, vec![(root, usize::MAX)]);
        let inner: Vec<usize> = (0..self.edges.len())
            .filter(|&edge| self.edges[edge].active && set >> self.edges[edge].parent & 1 == 1)
            .collect();
        let mut next = 0;
        while let Some(&(index, _)) = queue.get(next) {
            next += 1;
            for &number in &inner {
                let Edge { parent, child, .. } = self.edges[number];
                let far = match (usize::from(parent) == index, usize::from(child) == index) {
                    (true, _) => usize::from(child),
                    (_, true) => usize::from(parent),
                    _ => continue,
                };
                if reached >> far & 1 == 0 {
                    reached |= 1 << far;
                    queue.push((far, number));
                }
            }
        }
        let mut sides: Vec<(Set, FeeFrac)> = (0..self.graph.len()).map(|i| (1 << i, self.graph.fees[i])).collect();
        let mut found = Vec::with_capacity(inner.len());
        for &(index, number) in queue[1..].iter().rev() {
            let (far_set, far_fee) = sides[index];
            let Edge { parent, child, .. } = self.edges[number];
            let near = if usize::from(parent) == index { child } else { parent };
            let near = usize::from(near);
            sides[near] = (sides[near].0 | far_set, sides[near].1 + far_fee);
            let far_is_lower = usize::from(child) == index;
            found.push(match far_is_lower {
                true => (number, far_set, far_fee),
                false => (number, set & !far_set, whole - far_fee),
            });
        }
        found.sort_unstable_by_key(|&(number, ..)| number);
        found
    }

    /// Takes an edge out of its chunk's tree.
    fn split(&mut self, edge: usize, lower: Set, lower_fee: FeeFrac) {
        let chunk = self.chunk_of(self.edges[edge].parent);
        let (set, fee) = self.chunks[chunk];
        let free = self.chunks.iter().position(|&(set, _)| set == 0).expect("no more chunks than transactions");
        self.edges[edge].active = false;
        self.chunks[chunk] = (set & !lower, fee - lower_fee);
        self.chunks[free] = (lower, lower_fee);
        members(lower).for_each(|index| self.chunk_of[index] = free as u8);
    }

    /// Splits where the upper part pays more than the lower one, and merges again what then needs it.
    fn improve(&mut self) {
        for _ in 0..STEPS_MAX {
            let mut best: Option<(usize, Set, FeeFrac, i128)> = None;
            for chunk in 0..self.chunks.len() {
                let (set, whole) = self.chunks[chunk];
                if set.count_ones() < 2 {
                    continue;
                }
                for (edge, lower, lower_fee) in self.lower_sides(chunk) {
                    let gain = gap(&(whole - lower_fee), &lower_fee);
                    if gain > 0 && best.is_none_or(|(.., most)| gain > most) {
                        best = Some((edge, lower, lower_fee, gain));
                    }
                }
            }
            let Some((edge, lower, lower_fee, _)) = best else { return };
            self.split(edge, lower, lower_fee);
            self.merge_all();
        }
    }

    /// Splits chunks whose parts pay the same and whose upper part does not need the lower one: smaller chunks are worth
    /// more to a miner, and to whoever evicts.
    fn split_equals(&mut self) {
        let mut chunk = 0;
        while chunk < self.chunks.len() {
            let (set, whole) = self.chunks[chunk];
            let found = (set.count_ones() > 1).then(|| self.lower_sides(chunk)).into_iter().flatten();
            let split = found.into_iter().find(|&(_, lower, lower_fee)| {
                let upper = set & !lower;
                (whole - lower_fee).cmp_rate(&lower_fee).is_eq()
                    && members(upper).all(|index| self.graph.parents[index] & lower == 0)
            });
            match split {
                // The chunk is looked at again, and the new one too where it lies in front.
                Some((edge, lower, lower_fee)) => {
                    self.split(edge, lower, lower_fee);
                    chunk = 0;
                }
                None => chunk += 1,
            }
        }
    }

    /// Chunks from the highest feerate down, transactions of a chunk with parents first and the best-paying next.
    fn order(&self) -> Vec<u8> {
        let mut left: Vec<(Set, FeeFrac)> = self.chunks.iter().copied().filter(|&(set, _)| set != 0).collect();
        let mut order = Vec::with_capacity(self.graph.len());
        let mut done: Set = 0;
        while !left.is_empty() {
            // Chunks that pay the same may need one another, in one direction.
            let ready =
                |&(set, _): &(Set, FeeFrac)| members(set).all(|index| self.graph.parents[index] & !done & !set == 0);
            let next = (0..left.len()).filter(|&at| ready(&left[at]));
            let next = next.reduce(|best, at| if left[at].1.above(&left[best].1) { at } else { best });
            let (mut set, _) = left.remove(next.expect("chunks do not need each other in a circle"));
            while set != 0 {
                let free = members(set).filter(|&index| self.graph.parents[index] & !done == 0);
                let best = free.max_by(|&a, &b| match self.graph.fees[a].cmp_rate(&self.graph.fees[b]) {
                    Ordering::Equal => b.cmp(&a),
                    different => different,
                });
                let index = best.expect("dependencies have no circle");
                order.push(index as u8);
                set &= !(1 << index);
                done |= 1 << index;
            }
        }
        order
    }
}

/// How far `left` pays more than `right`, as the difference of cross products; zero where they pay the same.
fn gap(left: &FeeFrac, right: &FeeFrac) -> i128 {
    i128::from(left.fee_sat) * i128::from(right.size) - i128::from(right.fee_sat) * i128::from(left.size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::compare_diagrams;
    use stdx::random::Random;

    fn fees(graph: &Graph, order: &[u8]) -> Vec<FeeFrac> {
        chunks(graph, order).iter().map(|chunk| chunk.fee).collect()
    }

    /// A random graph whose natural order is topological.
    fn random_graph(random: &mut Random, count: usize, density: u64) -> Graph {
        let mut graph = Graph::default();
        for index in 0..count {
            let parents = (0..index).filter(|_| random.chance(density, 10)).fold(0, |set, parent| set | 1 << parent);
            graph.push(FeeFrac::new(random.below(20) as i64, 1 + random.below(6) as u32), parents);
        }
        graph
    }

    /// Every order that puts parents first.
    fn each_order(graph: &Graph, order: &mut Vec<u8>, each: &mut dyn FnMut(&[u8])) {
        if order.len() == graph.len() {
            return each(order);
        }
        let done: Set = order.iter().fold(0, |set, &index| set | 1 << index);
        for index in 0..graph.len() {
            if done >> index & 1 == 0 && graph.parents(index) & !done == 0 {
                order.push(index as u8);
                each_order(graph, order, each);
                order.pop();
            }
        }
    }

    #[test]
    fn no_order_of_a_small_cluster_is_better_anywhere() {
        let mut random = Random::new(1);
        for round in 0..400 {
            let count = 1 + random.below(if round % 20 == 0 { 8 } else { 6 }) as usize;
            let density = 1 + random.below(6);
            let graph = random_graph(&mut random, count, density);
            let natural: Vec<u8> = (0..count as u8).collect();
            let got = linearize(&graph, &natural);
            assert!(graph.is_topological(&got));
            let best = fees(&graph, &got);
            each_order(&graph, &mut Vec::new(), &mut |order| {
                let verdict = compare_diagrams(&best, &fees(&graph, order));
                assert!(verdict.is_some_and(Ordering::is_ge), "{graph:?}: {order:?} against {got:?}");
            });
        }
    }

    #[test]
    fn larger_clusters_get_no_worse_and_end() {
        let mut random = Random::new(2);
        for round in 0..60 {
            let count = 20 + random.below(45) as usize;
            let graph = random_graph(&mut random, count, 1 + round % 4);
            let mut order: Vec<u8> = (0..count as u8).collect();
            let first = linearize(&graph, &order);
            assert!(graph.is_topological(&first));
            let (before, after) = (fees(&graph, &order), fees(&graph, &first));
            assert!(compare_diagrams(&after, &before).is_some_and(Ordering::is_ge));
            // Whatever the order to begin with, the best one is found.
            order = first.clone();
            assert_eq!(compare_diagrams(&fees(&graph, &linearize(&graph, &order)), &after), Some(Ordering::Equal));
            let mut done: Set = 0;
            let mut other = Vec::new();
            while other.len() < count {
                let free: Vec<usize> =
                    (0..count).filter(|&i| done >> i & 1 == 0 && graph.parents(i) & !done == 0).collect();
                let pick = free[random.below(free.len() as u64) as usize];
                done |= 1 << pick;
                other.push(pick as u8);
            }
            assert_eq!(compare_diagrams(&fees(&graph, &linearize(&graph, &other)), &after), Some(Ordering::Equal));
        }
    }

    #[test]
    fn equal_parts_are_chunks_of_their_own() {
        // A parent and a child that pay the same: two chunks, in that order.
        let mut graph = Graph::default();
        graph.push(FeeFrac::new(10, 10), 0);
        graph.push(FeeFrac::new(20, 20), 1);
        let order = linearize(&graph, &[0, 1]);
        assert_eq!((&order[..], chunks(&graph, &order).len()), (&[0, 1][..], 2));
        // A child that pays for its parent: one chunk.
        let mut graph = Graph::default();
        graph.push(FeeFrac::new(0, 10), 0);
        graph.push(FeeFrac::new(20, 10), 1);
        assert_eq!(chunks(&graph, &linearize(&graph, &[0, 1])), [Chunk { fee: FeeFrac::new(20, 20), count: 2 }]);
    }
}
