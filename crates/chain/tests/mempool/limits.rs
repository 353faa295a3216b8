//! Clusters, memory, age, the rolling minimum.
//!
//! In:     chains of transactions, small memories, clocks.
//! Out:    what is refused, what goes first, and what must be paid afterwards.
//! Fails:  with the row.

use chain::mempool::Room;
use chain::policy::{FeeFrac, FeeRate, Policy};
use primitives::{OutPoint, Transaction};

use crate::world::{Draft, World, out, txid};

/// `count` transactions, each spending the one before.
fn chain_of(world: &mut World, first: OutPoint, count: usize, step_sat: i64) -> Vec<Transaction> {
    let (mut last, mut value) = (first, 1_000_000);
    let mut all = Vec::new();
    for _ in 0..count {
        value -= step_sat;
        let tx = Draft::new(&[last], &[value]).tx();
        world.must(&tx);
        last = out(&tx, 0);
        all.push(tx);
    }
    all
}

#[test]
fn a_cluster_holds_64_transactions() {
    let mut world = World::new(Policy::default());
    let [coin, other] = world.coins(1_000_000);
    let chain = chain_of(&mut world, coin, 64, 100);
    let next = Draft::new(&[out(&chain[63], 0)], &[900_000]).tx();
    assert_eq!(world.word(&next), "too-large-cluster");
    // A transaction that would join it from the side is one too many as well.
    let side = Draft::new(&[out(&chain[63], 0), other], &[900_000]).tx();
    assert_eq!(world.word(&side), "too-large-cluster");
    world.mine(&chain[..1]);
    assert_eq!(world.word(&next), "");
}

#[test]
fn a_cluster_holds_101_000_virtual_bytes() {
    let mut world = World::new(Policy::default());
    let [coin] = world.coins(10_000_000);
    let parent = Draft::new(&[coin], &[9_000_000]).padded(60_000).tx();
    world.must(&parent);
    let child = |bytes: usize| Draft::new(&[out(&parent, 0)], &[8_000_000]).padded(bytes).tx();
    let base = parent.tx().stripped_length() + child(40_000).tx().stripped_length() - 40_000;
    assert_eq!(world.word(&child(101_000 - base)), "");
    assert_eq!(world.word(&child(101_001 - base)), "too-large-cluster");
}

#[test]
fn the_chunk_that_pays_least_goes_first_and_sets_the_minimum() {
    let mut world = World::new(Policy { mempool_bytes_max: 20_000, ..Policy::default() });
    let coins: [_; 40] = world.coins(1_000_000);
    // A parent that pays nothing much and a child that pays for both stay together.
    let parent = Draft::new(&[coins[39]], &[999_990]).tx();
    let child = Draft::new(&[out(&parent, 0)], &[900_000]).tx();
    world.must(&parent);
    world.must(&child);
    let (mut taken, mut refused) = (0, 0);
    for (number, &coin) in coins[..39].iter().enumerate() {
        match world.accept(&Draft::new(&[coin], &[1_000_000 - 100 - 10 * number as i64]).tx()) {
            Ok(_) => taken += 1,
            Err(reject) => {
                assert!(["mempool full", "mempool min fee not met"].contains(&&*reject.reject_word()), "{reject}");
                refused += 1;
            }
        }
        assert!(world.pool.bytes() <= 20_000);
    }
    assert!(taken > 10 && world.has(&parent) && world.has(&child), "{taken} {refused}");
    let worst = world.pool.chunks().last().unwrap().0;
    let minimum = world.pool.minimum(world.now_s);
    // What was evicted paid 10 satoshi in 74 less than what is left; the step of 100 is added.
    assert!(minimum > FeeRate::per_kvb(1_000) && minimum <= FeeRate::of(worst.fee_sat + 10, worst.size / 4));
    // It stays until a block makes room, and then halves in three hours, the mempool being less than a quarter full.
    world.now_s += 100_000;
    assert_eq!(world.pool.minimum(world.now_s), minimum);
    let all: Vec<Transaction> = world.pool.entries().map(|entry| entry.transaction.clone()).collect();
    world.mine(&all);
    assert_eq!(world.pool.minimum(world.now_s), minimum);
    let half = FeeRate::per_kvb((minimum.sat_per_kvb() as f64 / 2.0).round() as i64);
    assert_eq!(world.pool.minimum(world.now_s + 3 * 3_600), half);
    assert_eq!(world.pool.minimum(world.now_s + 100 * 3_600), world.pool.policy().min_relay);
}

#[test]
fn bytes_are_counted_back_to_nothing() {
    let mut world = World::new(Policy::default());
    let [a, b] = world.coins(1_000_000);
    let chain = chain_of(&mut world, a, 20, 1_000);
    world.must(&Draft::new(&[b, out(&chain[19], 0)], &[1_500_000]).tx());
    let full = world.pool.bytes();
    assert!(full > 21 * 400 && full < 21 * 2_000, "{full}");
    let all: Vec<Transaction> = world.pool.entries().map(|entry| entry.transaction.clone()).collect();
    world.mine(&all);
    assert_eq!((world.pool.bytes(), world.pool.size_vb(), world.pool.fee_sat()), (0, 0, 0));
}

#[test]
fn what_is_two_weeks_old_goes_with_its_children() {
    let mut world = World::new(Policy::default());
    let [a, b] = world.coins(1_000_000);
    let old = chain_of(&mut world, a, 1, 1_000);
    world.now_s += 336 * 3_600;
    let child = Draft::new(&[out(&old[0], 0)], &[900_000]).tx();
    let other = Draft::new(&[b], &[900_000]).tx();
    world.must(&child);
    assert!(world.has(&old[0]));
    world.now_s += 1;
    world.must(&other);
    assert!(!world.has(&old[0]) && !world.has(&child) && world.has(&other));
}

#[test]
fn a_block_takes_whole_chunks_while_they_fit() {
    let mut world = World::new(Policy::default());
    let [a, b, c] = world.coins(1_000_000);
    let poor = Draft::new(&[a], &[999_990]).tx();
    let rich = Draft::new(&[out(&poor, 0)], &[900_000]).tx();
    let middle = Draft::new(&[b], &[990_000]).tx();
    let large = Draft::new(&[c], &[500_000]).padded(5_000).tx();
    for tx in [&poor, &rich, &middle, &large] {
        world.must(tx);
    }
    let room = |weight_max, sat| Room { weight_max, sigop_cost_max: 80_000, min_feerate: FeeRate::per_kvb(sat) };
    let chosen = |world: &World, room| world.pool.select(&room).iter().map(|entry| entry.txid).collect::<Vec<_>>();
    let want = [&poor, &rich, &middle, &large].map(txid);
    assert_eq!(chosen(&world, room(4_000_000, 1)), want);
    assert_eq!(chosen(&world, room(1_000, 1)), want[..3]);
    assert_eq!(chosen(&world, room(591, 1)), [want[2]]);
    assert_eq!(chosen(&world, room(4_000_000, 200_000)), want[..2]);
    let details = world.pool.details(&want[0]).unwrap();
    assert_eq!((details.chunk, details.cluster_txs), (FeeFrac::new(100_000, 592), 2));
    assert_eq!((details.ancestors.0, details.descendants), (1, (2, 148, 100_000)));
    assert_eq!((details.depends.len(), &details.spent_by[..]), (0, &want[1..2]));
    let mut order = [want[3], want[1], want[2], want[0]];
    world.pool.sort_for_relay(&mut order);
    assert_eq!(order, want);
}
