//! A slow mempool that computes everything anew, beside the real one, under random streams.
//!
//! In:     seeds: transactions, replacements, blocks, reorganisations, additions by hand, small memories.
//! Out:    the same verdicts, the same contents; tables that agree with each other after every step.
//! Fails:  with the seed and the step.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use chain::mempool::Mempool;
use chain::policy::{FeeFrac, Graph, Policy, chunks, compare_diagrams};
use primitives::{Block, OutPoint, Transaction, Txid};
use stdx::random::Random;

use crate::world::{Draft, Ledger, World, out, txid};

/// Most transactions of a cluster: few enough to try every order.
const CLUSTER_TXS: usize = 6;

#[derive(Clone)]
struct Known {
    tx: Transaction,
    fee_sat: i64,
}

impl Known {
    fn spends(&self) -> Vec<OutPoint> {
        self.tx.tx().inputs().map(|input| input.outpoint()).collect()
    }

    fn size_vb(&self) -> u32 {
        self.tx.tx().weight().div_ceil(4) as u32
    }
}

/// Transactions by txid, and nothing else.
#[derive(Clone, Default)]
struct Slow {
    known: BTreeMap<Txid, Known>,
    deltas: BTreeMap<Txid, i64>,
}

impl Slow {
    fn fee(&self, txid: &Txid) -> FeeFrac {
        let known = &self.known[txid];
        let delta = self.deltas.get(txid).copied().unwrap_or(0);
        FeeFrac::new(known.fee_sat + delta, known.tx.tx().weight() as u32)
    }

    fn parents(&self, txid: &Txid) -> BTreeSet<Txid> {
        let spends = self.known[txid].spends().into_iter().map(|outpoint| outpoint.txid);
        spends.filter(|parent| self.known.contains_key(parent)).collect()
    }

    /// Grows a set until nothing is added.
    fn grown(&self, from: BTreeSet<Txid>, up: bool, down: bool) -> BTreeSet<Txid> {
        let mut set = from;
        loop {
            let before = set.len();
            for txid in self.known.keys() {
                let parents = self.parents(txid);
                if down && parents.iter().any(|parent| set.contains(parent)) {
                    set.insert(*txid);
                }
                if up && set.contains(txid) {
                    set.extend(parents);
                }
            }
            if set.len() == before {
                return set;
            }
        }
    }

    /// The best diagram of some whole clusters, by trying every order of each.
    fn diagram(&self, clusters: &BTreeSet<Txid>) -> Vec<FeeFrac> {
        let (mut left, mut diagram) = (clusters.clone(), Vec::new());
        while let Some(first) = left.first().copied() {
            let cluster = self.grown(BTreeSet::from([first]), true, true);
            left.retain(|txid| !cluster.contains(txid));
            let members: Vec<Txid> = cluster.into_iter().collect();
            let mut graph = Graph::default();
            for txid in &members {
                let parents = self.parents(txid);
                let bits = (0..members.len()).filter(|&at| parents.contains(&members[at]));
                graph.push(self.fee(txid), bits.fold(0, |set, bit| set | 1 << bit));
            }
            diagram.extend(best(&graph, &mut Vec::new(), 0));
        }
        diagram.sort_by(|a, b| b.cmp_rate(a));
        diagram
    }

    /// Core's word, or none and what would be gone.
    fn judge(&self, tx: &Transaction, ledger: &Ledger, policy: &Policy) -> Result<BTreeSet<Txid>, &'static str> {
        if self.known.contains_key(&txid(tx)) {
            return Err("txn-already-in-mempool");
        }
        let mut in_sat = 0;
        for input in tx.tx().inputs() {
            let outpoint = input.outpoint();
            in_sat += match (self.known.get(&outpoint.txid), ledger.coins.get(&outpoint)) {
                (Some(parent), _) => parent.tx.tx().output(outpoint.vout as usize).value_sat,
                (None, Some(coin)) => coin.value_sat as i64,
                (None, None) => return Err("bad-txns-inputs-missingorspent"),
            };
        }
        let known = Known { tx: tx.clone(), fee_sat: in_sat - tx.tx().outputs().map(|o| o.value_sat).sum::<i64>() };
        if known.fee_sat < 0 {
            return Err("bad-txns-in-belowout");
        }
        let spends = known.spends();
        let rivals = self.known.iter().filter(|(_, other)| other.spends().iter().any(|o| spends.contains(o)));
        let rivals: BTreeSet<Txid> = rivals.map(|(txid, _)| *txid).collect();
        let gone = self.grown(rivals.clone(), false, true);
        let mut after = self.clone();
        gone.iter().for_each(|txid| {
            after.known.remove(txid);
        });
        let size_vb = known.size_vb();
        after.known.insert(txid(tx), known);
        let fee_sat = after.fee(&txid(tx)).fee_sat;
        if fee_sat < policy.min_relay.fee_sat(size_vb) {
            return Err("min relay fee not met");
        }
        let replaced_sat: i64 = gone.iter().map(|txid| self.fee(txid).fee_sat).sum();
        if !gone.is_empty() && fee_sat < replaced_sat + policy.incremental.fee_sat(size_vb) {
            return Err("insufficient fee");
        }
        let cluster = after.grown(BTreeSet::from([txid(tx)]), true, true);
        if cluster.len() > CLUSTER_TXS {
            return Err("too-large-cluster");
        }
        if !gone.is_empty() {
            let parents = after.parents(&txid(tx));
            let touched = self.grown(gone.iter().chain(&parents).copied().collect(), true, true);
            let mut left: BTreeSet<Txid> = touched.difference(&gone).copied().collect();
            left.insert(txid(tx));
            if compare_diagrams(&after.diagram(&left), &self.diagram(&touched)) != Some(Ordering::Greater) {
                return Err("replacement-failed");
            }
            let parents: BTreeSet<Txid> =
                spends.iter().map(|o| o.txid).filter(|t| self.known.contains_key(t)).collect();
            if self.grown(parents, true, false).intersection(&rivals).next().is_some() {
                return Err("bad-txns-spends-conflicting-tx");
            }
        }
        Ok(gone)
    }
}

/// The best diagram over all orders; of two that cannot be compared there is a third above both.
fn best(graph: &Graph, order: &mut Vec<u8>, done: u64) -> Vec<FeeFrac> {
    if order.len() == graph.len() {
        return chunks(graph, order).iter().map(|chunk| chunk.fee).collect();
    }
    let mut found: Vec<FeeFrac> = Vec::new();
    for index in 0..graph.len() {
        if done >> index & 1 == 0 && graph.parents(index) & !done == 0 {
            order.push(index as u8);
            let other = best(graph, order, done | 1 << index);
            if found.is_empty() || compare_diagrams(&other, &found) == Some(Ordering::Greater) {
                found = other;
            }
            order.pop();
        }
    }
    found
}

/// A random transaction that spends confirmed coins, taken or not, and outputs of the mempool.
fn random_tx(random: &mut Random, world: &World, coins: &[OutPoint]) -> Transaction {
    let entries: Vec<Transaction> = world.pool.entries().map(|entry| entry.transaction.clone()).collect();
    let mut inputs: Vec<OutPoint> = Vec::new();
    let mut in_sat = 0;
    for _ in 0..=random.below(2) {
        let unconfirmed = !entries.is_empty() && random.chance(6, 10);
        let (outpoint, value) = if unconfirmed {
            let tx = &entries[random.below(entries.len() as u64) as usize];
            // The last two outputs are OP_RETURN.
            let vout = random.below(tx.tx().output_count() as u64 - 2) as u32;
            (out(tx, vout), tx.tx().output(vout as usize).value_sat)
        } else {
            let coin = coins[random.below(coins.len() as u64) as usize];
            (coin, world.ledger.coins.get(&coin).map_or(0, |coin| coin.value_sat as i64))
        };
        if !inputs.contains(&outpoint) {
            inputs.push(outpoint);
            in_sat += value;
        }
    }
    let fee = [0, 7, 50, 100, 500, 2_000, 10_000][random.below(7) as usize] + random.below(30) as i64;
    let count = 1 + random.below(3) as i64;
    let outputs: Vec<i64> = (0..count).map(|_| ((in_sat - fee) / count).max(300)).collect();
    Draft::new(&inputs, &outputs).padded(2 + random.below(1_500) as usize).tx()
}

/// What must hold of the real one whatever happened.
fn check(pool: &Mempool, ledger: &Ledger, name: &str) {
    let mut seen: BTreeSet<Txid> = BTreeSet::new();
    let mut spent: BTreeSet<OutPoint> = BTreeSet::new();
    let mut last: Option<FeeFrac> = None;
    let (mut size_vb, mut fee_sat) = (0, 0);
    for (fee, entries) in pool.chunks() {
        assert!(last.is_none_or(|last| !fee.above(&last)), "{name}: chunks fall");
        last = Some(fee);
        let modified = entries.iter().map(|entry| pool.details(&entry.txid).unwrap().modified_fee_sat).sum::<i64>();
        assert_eq!(fee.fee_sat, modified, "{name}");
        assert_eq!(fee.size, entries.iter().map(|entry| entry.adjusted_weight).sum::<u32>(), "{name}");
        for entry in entries {
            for input in entry.tx().inputs() {
                let outpoint = input.outpoint();
                assert!(spent.insert(outpoint), "{name}: {outpoint:?} is spent twice");
                let there = seen.contains(&outpoint.txid) || ledger.coins.contains_key(&outpoint);
                assert!(there, "{name}: {} comes before what it needs", entry.txid);
                assert_eq!(pool.spender(&outpoint).unwrap().0.txid, entry.txid, "{name}");
            }
            assert_eq!(pool.get_by_wtxid(&entry.wtxid).unwrap().txid, entry.txid, "{name}");
            for hash in entry.script_hashes() {
                assert!(pool.history(&hash).iter().any(|one| one.entry.txid == entry.txid), "{name}");
            }
            (size_vb, fee_sat) = (size_vb + u64::from(entry.size_vb()), fee_sat + entry.fee_sat);
            seen.insert(entry.txid);
        }
    }
    assert_eq!((seen.len(), size_vb, fee_sat), (pool.len(), pool.size_vb(), pool.fee_sat()), "{name}");
    for txid in &seen {
        let cluster: usize = pool.cluster_of(txid).unwrap().iter().map(|(_, txids)| txids.len()).sum();
        assert_eq!(cluster, pool.details(txid).unwrap().cluster_txs, "{name}");
        assert!(cluster <= pool.policy().cluster_txs_max, "{name}");
    }
}

fn txids(pool: &Mempool) -> BTreeSet<Txid> {
    pool.entries().map(|entry| entry.txid).collect()
}

/// A set of transactions that a block could hold: each with what it needs.
fn minable(random: &mut Random, pool: &Mempool) -> Vec<Transaction> {
    let mut chosen: BTreeSet<Txid> = BTreeSet::new();
    for entry in pool.entries() {
        if random.chance(1, 4) {
            chosen.insert(entry.txid);
            chosen.extend(pool.ancestors(&entry.txid).unwrap());
        }
    }
    pool.entries().filter(|entry| chosen.contains(&entry.txid)).map(|entry| entry.transaction.clone()).collect()
}

#[test]
fn verdicts_and_contents_are_those_of_a_slow_mempool() {
    let mut words: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..10 {
        let mut random = Random::new(seed);
        let policy = Policy { cluster_txs_max: CLUSTER_TXS, ..Policy::default() };
        let mut world = World::new(policy);
        let coins = world.coins::<25>(1_000_000).to_vec();
        let mut slow = Slow::default();
        let mut blocks: Vec<(Block, Ledger)> = Vec::new();
        for step in 0..250 {
            let name = format!("seed {seed} step {step}");
            match random.below(100) {
                0..85 => {
                    let tx = random_tx(&mut random, &world, &coins);
                    let want = slow.judge(&tx, &world.ledger, &policy);
                    let got = world.accept(&tx);
                    let word = got.as_ref().err().map(|reject| reject.reject_word().into_owned());
                    // Confirmed transactions are told apart by their outputs, which the slow one does not look at.
                    let word = word.map(|word| word.replace("txn-already-known", "bad-txns-inputs-missingorspent"));
                    assert_eq!(word.as_deref(), want.as_ref().err().copied(), "{name}: {:?}", got.err());
                    *words.entry(want.as_ref().map_or_else(|word| *word, |_| "taken")).or_default() += 1;
                    if let (Ok(gone), Ok(taken)) = (want, got) {
                        gone.iter().for_each(|txid| {
                            slow.known.remove(txid);
                        });
                        slow.known.insert(txid(&tx), Known { tx, fee_sat: taken.fee_sat });
                    }
                }
                85..90 => {
                    let delta = random.below(4_000) as i64 - 1_000;
                    let all: Vec<Txid> = slow.known.keys().copied().collect();
                    if let Some(txid) = all.get(random.below(all.len().max(1) as u64) as usize) {
                        world.pool.prioritise(txid, delta);
                        *slow.deltas.entry(*txid).or_default() += delta;
                    }
                }
                90..97 => {
                    let txs = minable(&mut random, &world.pool);
                    blocks.push(world.mine(&txs));
                    txs.iter().for_each(|tx| {
                        slow.known.remove(&txid(tx));
                        slow.deltas.remove(&txid(tx));
                    });
                }
                _ => {
                    let Some((block, before)) = blocks.pop() else { continue };
                    world.disconnect(std::slice::from_ref(&block), before);
                    // What comes back is for the tests of reorganisations to say; the slow one takes it over.
                    let taken = world
                        .pool
                        .entries()
                        .map(|entry| (entry.txid, Known { tx: entry.transaction.clone(), fee_sat: entry.fee_sat }));
                    slow.known = taken.collect();
                    slow.deltas = world.pool.prioritised().map(|(txid, delta, _)| (txid, delta)).collect();
                }
            }
            assert_eq!(txids(&world.pool), slow.known.keys().copied().collect(), "{name}");
            if step % 8 == 0 {
                check(&world.pool, &world.ledger, &name);
                let all: BTreeSet<Txid> = slow.known.keys().copied().collect();
                let real: Vec<FeeFrac> = world.pool.chunks().map(|(fee, _)| fee).collect();
                assert_eq!(compare_diagrams(&real, &slow.diagram(&all)), Some(Ordering::Equal), "{name}");
            }
        }
    }
    println!("{words:?}");
    for word in ["taken", "insufficient fee", "too-large-cluster", "replacement-failed", "min relay fee not met"] {
        assert!(words.get(word).is_some_and(|&count| count > 5), "{word}: {words:?}");
    }
}

#[test]
fn small_memories_stay_within_their_bound() {
    for seed in 0..4 {
        let mut random = Random::new(1_000 + seed);
        let mut world = World::new(Policy { mempool_bytes_max: 30_000, ..Policy::default() });
        let coins = world.coins::<60>(1_000_000).to_vec();
        let (mut blocks, mut refused): (Vec<(Block, Ledger)>, usize) = (Vec::new(), 0);
        for step in 0..400 {
            world.now_s += random.below(600);
            let name = format!("seed {seed} step {step}");
            match random.below(60) {
                0 => blocks.push({
                    let txs = minable(&mut random, &world.pool);
                    world.mine(&txs)
                }),
                1 => {
                    if let Some((block, before)) = blocks.pop() {
                        world.disconnect(&[block], before);
                    }
                }
                _ => refused += usize::from(world.accept(&random_tx(&mut random, &world, &coins)).is_err()),
            }
            assert!(world.pool.bytes() <= 30_000, "{name}");
            if step % 10 == 0 {
                check(&world.pool, &world.ledger, &name);
            }
        }
        assert!(world.pool.len() > 5 && refused > 50);
    }
}

#[test]
fn the_same_stream_makes_the_same_mempool() {
    let run = || {
        let mut random = Random::new(77);
        let mut world = World::new(Policy { mempool_bytes_max: 40_000, ..Policy::default() });
        let coins = world.coins::<40>(1_000_000).to_vec();
        for _ in 0..300 {
            let _ = world.accept(&random_tx(&mut random, &world, &coins));
        }
        world.pool.entries().map(|entry| entry.txid).collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}
