//! Replacement: fees, diagrams, clusters, version 3's sibling.
//!
//! In:     transactions that conflict.
//! Out:    Core's reject words, and who is left.
//! Fails:  with the row.

use chain::policy::{Policy, Reject};
use primitives::Transaction;

use crate::world::{Draft, World, out};

#[test]
fn a_replacement_pays_for_what_goes_and_for_its_relay() {
    let mut world = World::new(Policy::default());
    let [coin] = world.coins(1_000_000);
    world.must(&Draft::new(&[coin], &[999_000]).tx());
    // 74 bytes of relay are 8 satoshi.
    assert_eq!(world.word(&Draft::new(&[coin], &[999_000 - 7]).tx()), "insufficient fee");
    assert_eq!(world.word(&Draft::new(&[coin], &[999_000 - 8]).tx()), "");
    assert_eq!(world.word(&Draft::new(&[coin], &[999_001]).tx()), "insufficient fee");
    let better = Draft::new(&[coin], &[990_000]).tx();
    let replaced = world.must(&better).replaced;
    assert_eq!((replaced.len(), replaced[0].fee_sat), (1, 1_000));
    assert_eq!((world.pool.len(), world.has(&better)), (1, true));
}

#[test]
fn descendants_go_with_what_is_replaced_and_are_paid_for() {
    let mut world = World::new(Policy::default());
    let [coin] = world.coins(1_000_000);
    let parent = Draft::new(&[coin], &[999_000]).tx();
    let child = Draft::new(&[out(&parent, 0)], &[990_000]).tx();
    world.must(&parent);
    world.must(&child);
    assert_eq!(world.word(&Draft::new(&[coin], &[990_000 - 7]).tx()), "insufficient fee");
    let replacement = Draft::new(&[coin], &[990_000 - 8]).tx();
    assert_eq!(world.must(&replacement).replaced.len(), 2);
    assert_eq!(world.pool.len(), 1);
}

#[test]
fn more_fee_in_a_worse_diagram_is_refused() {
    let mut world = World::new(Policy::default());
    let [coin] = world.coins(1_000_000);
    let small = Draft::new(&[coin], &[999_000]).tx();
    world.must(&small);
    // 74 bytes for 1,000 satoshi; 1,000 satoshi more for 20 times the size earn less at the first 74 bytes.
    let large = Draft::new(&[coin], &[998_000]).padded(1_300).tx();
    assert_eq!(world.word(&large), "replacement-failed");
    let rich = Draft::new(&[coin], &[970_000]).padded(1_300).tx();
    assert_eq!(world.word(&rich), "");
}

#[test]
fn nothing_may_spend_from_what_it_replaces() {
    let mut world = World::new(Policy::default());
    let [a, b] = world.coins(1_000_000);
    let parent = Draft::new(&[a], &[999_000]).tx();
    world.must(&parent);
    let both = Draft::new(&[a, out(&parent, 0), b], &[2_000_000]).tx();
    assert_eq!(world.word(&both), "bad-txns-spends-conflicting-tx");
}

#[test]
fn at_most_a_hundred_clusters_go_at_once() {
    let mut world = World::new(Policy::default());
    let coins: [_; 101] = world.coins(100_000);
    for coin in coins {
        world.must(&Draft::new(&[coin], &[99_900]).tx());
    }
    let all = Draft::new(&coins, &[9_000_000]).tx();
    assert_eq!(world.word(&all), "too many potential replacements");
    let hundred = Draft::new(&coins[..100], &[8_000_000]).tx();
    assert_eq!(world.must(&hundred).replaced.len(), 100);
    assert_eq!(world.pool.len(), 2);
}

/// A parent of version 3 and its child.
fn family(world: &mut World) -> (Transaction, Transaction) {
    let [coin] = world.coins(1_000_000);
    let parent = Draft::new(&[coin], &[400_000, 500_000]).version(3).tx();
    let child = Draft::new(&[out(&parent, 0)], &[390_000]).version(3).tx();
    world.must(&parent);
    world.must(&child);
    (parent, child)
}

#[test]
fn a_version_3_child_gives_way_to_a_sibling_that_pays() {
    let mut world = World::new(Policy::default());
    let (parent, child) = family(&mut world);
    let sibling = |value: i64| Draft::new(&[out(&parent, 1)], &[value]).version(3).tx();
    assert_eq!(world.word(&sibling(495_000)), "insufficient fee (including sibling eviction)");
    let richer = sibling(480_000);
    assert_eq!(world.must(&richer).replaced.len(), 1);
    assert!(!world.has(&child) && world.has(&richer) && world.has(&parent));
}

#[test]
fn version_3_families_are_two_of_a_kind_and_small() {
    let mut world = World::new(Policy::default());
    let (parent, child) = family(&mut world);
    let mut refused = |tx: Transaction, want: &str| {
        let reject = world.accept(&tx).err().unwrap();
        assert!(matches!(&reject, Reject::Truc(text) if text.contains(want)), "{reject}");
    };
    refused(Draft::new(&[out(&parent, 1)], &[100_000]).tx(), "cannot spend from version=3");
    refused(Draft::new(&[out(&child, 0)], &[100_000]).version(3).tx(), "too many ancestors");
    let [coin, other] = world.coins(1_000_000);
    let plain = Draft::new(&[coin], &[900_000]).tx();
    world.must(&plain);
    let tx = Draft::new(&[out(&plain, 0)], &[800_000]).version(3).tx();
    assert_eq!(world.word(&tx), "TRUC-violation");
    // 10,000 virtual bytes alone, 1,000 with a parent.
    let sized = |inputs: &[_], version, size_vb: usize| {
        let base = Draft::new(inputs, &[300_000]).version(version).padded(500);
        let grown = size_vb - base.tx().tx().stripped_length();
        Draft::new(inputs, &[300_000]).version(version).padded(500 + grown).tx()
    };
    assert_eq!(sized(&[other], 3, 10_000).tx().stripped_length(), 10_000);
    assert_eq!(world.word(&sized(&[other], 3, 10_000)), "");
    assert_eq!(world.word(&sized(&[other], 3, 10_001)), "TRUC-violation");
    assert_eq!(world.word(&sized(&[other], 2, 10_001)), "");
    let lonely = Draft::new(&[other], &[900_000]).version(3).tx();
    world.must(&lonely);
    assert_eq!(world.word(&sized(&[out(&lonely, 0)], 3, 1_000)), "");
    assert_eq!(world.word(&sized(&[out(&lonely, 0)], 3, 1_001)), "TRUC-violation");
}
