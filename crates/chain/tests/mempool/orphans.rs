//! Orphans: shares, fairness, children, and a slow book beside them.
//!
//! In:     peers that send much and little.
//! Out:    who keeps what.
//! Fails:  with the seed.

use std::collections::{BTreeMap, BTreeSet};

use chain::orphans::{Orphans, PeerId};
use primitives::hash::sha256;
use primitives::{OutPoint, Transaction, Txid, Wtxid};
use stdx::random::Random;

use crate::world::{Draft, block, out};

/// An orphan with so many inputs; `number` makes it one of its own.
fn orphan(number: u32, inputs: u32) -> Transaction {
    let txid = Txid(sha256(&number.to_le_bytes()));
    let inputs: Vec<OutPoint> = (0..inputs).map(|vout| OutPoint { txid, vout }).collect();
    Draft::new(&inputs, &[1_000]).tx()
}

fn wtxid(tx: &Transaction) -> Wtxid {
    tx.tx().wtxid()
}

#[test]
fn a_peer_that_floods_drives_out_only_its_own() {
    let mut orphans = Orphans::default();
    let quiet: Vec<Transaction> = (0..100).map(|number| orphan(number, 1)).collect();
    quiet.iter().for_each(|tx| assert!(orphans.add(tx, 1)));
    for number in 1_000..6_000 {
        orphans.add(&orphan(number, 1), 2);
    }
    assert!(quiet.iter().all(|tx| orphans.has(&wtxid(tx))));
    // Two shares of 404,000 hold 2,729 orphans of 296.
    assert_eq!((orphans.load(1).announcements, orphans.load(2).announcements), (100, 2_629));
    // The youngest of the flood are kept.
    assert!(orphans.has(&wtxid(&orphan(5_999, 1))) && !orphans.has(&wtxid(&orphan(1_000, 1))));
    // Weight has a share of its own: 404,000 for each of two peers.
    for number in 10_000..10_100 {
        let mut large = Draft::new(&[OutPoint { txid: Txid([8; 32]), vout: number }], &[1_000]).padded(9_000);
        large.lock_time = number;
        orphans.add(&large.tx(), 2);
    }
    assert!(orphans.weight() <= 2 * 404_000);
    assert!(quiet.iter().all(|tx| orphans.has(&wtxid(tx))));
    orphans.erase_peer(2);
    assert_eq!((orphans.len(), orphans.weight()), (100, quiet.iter().map(|tx| tx.tx().weight() as u64).sum()));
}

#[test]
fn an_orphan_stays_while_somebody_stands_for_it() {
    let mut orphans = Orphans::default();
    let tx = orphan(1, 1);
    assert!(orphans.add(&tx, 1));
    assert!(!orphans.add(&tx, 1) && !orphans.add(&tx, 2));
    assert!(!orphans.add_announcer(&wtxid(&tx), 2) && orphans.add_announcer(&wtxid(&tx), 3));
    assert!(!orphans.add_announcer(&wtxid(&orphan(2, 1)), 3));
    assert_eq!(orphans.announcers(&wtxid(&tx)).collect::<Vec<_>>(), [1, 2, 3]);
    orphans.erase_peer(1);
    orphans.erase_peer(3);
    assert!(orphans.has_from(&wtxid(&tx), 2) && !orphans.has_from(&wtxid(&tx), 1));
    orphans.erase_peer(2);
    assert!(orphans.is_empty() && orphans.weight() == 0);
    // 400,000 is the heaviest.
    let sized = |padding| {
        Draft::new(&[OutPoint { txid: Txid([1; 32]), vout: 0 }], &[1_000]).padded(50_000).padded(padding).tx()
    };
    let padding = 49_000 + (400_000 - sized(49_000).tx().weight()) / 4;
    assert!(orphans.add(&sized(padding), 1) && !orphans.add(&sized(padding + 1), 1));
}

#[test]
fn children_are_looked_at_again_by_one_peer_each() {
    let mut orphans = Orphans::default();
    let parent = orphan(1, 1);
    let first = Draft::new(&[out(&parent, 0)], &[900]).tx();
    let second = Draft::new(&[out(&parent, 0)], &[800]).tx();
    for (tx, peer) in [(&first, 1), (&first, 2), (&second, 2)] {
        orphans.add(tx, peer);
    }
    let told = orphans.reconsider_children(&parent, &mut Random::new(3));
    assert_eq!(told.len(), 2);
    assert!(orphans.reconsider_children(&parent, &mut Random::new(4)).is_empty(), "on a list already");
    for (wtxid_told, peer) in told {
        assert!(orphans.has_to_reconsider(peer));
        let next = orphans.next_to_reconsider(peer).unwrap();
        assert!([wtxid(&first), wtxid(&second)].contains(&wtxid(&next)) && orphans.has(&wtxid_told));
    }
    assert!((1..=2).all(|peer| !orphans.has_to_reconsider(peer) && orphans.next_to_reconsider(peer).is_none()));
    let of_two: Vec<Wtxid> = orphans.children_from(&parent, 2).iter().map(wtxid).collect();
    assert_eq!(of_two, [wtxid(&second), wtxid(&first)]);
    assert_eq!(orphans.children_from(&parent, 1).len(), 1);
    // A block that spends what the second one spends takes both away.
    let rival = Draft::new(&[out(&parent, 0)], &[100]).tx();
    orphans.erase_for_block(&block(1, &[rival]).0);
    assert!(orphans.is_empty());
}

#[test]
fn random_calls_leave_books_that_agree() {
    for seed in 0..5 {
        let mut random = Random::new(seed);
        let mut orphans = Orphans::new(60, 4_000);
        let all: Vec<Transaction> = (0..60).map(|number| orphan(number, 1 + number % 25)).collect();
        for step in 0..1_500 {
            let tx = &all[random.below(60) as usize];
            let peer = random.below(6);
            match random.below(10) {
                0..6 => drop(orphans.add(tx, peer)),
                6 => drop(orphans.add_announcer(&wtxid(tx), peer)),
                7 => drop(orphans.erase(&wtxid(tx))),
                8 if random.chance(1, 5) => orphans.erase_peer(peer),
                _ => drop(orphans.next_to_reconsider(peer)),
            }
            let mut loads: BTreeMap<PeerId, (u64, u64)> = BTreeMap::new();
            let (mut weight, mut work, mut seen) = (0, 0, BTreeSet::new());
            for tx in all.iter().filter(|tx| orphans.has(&wtxid(tx))) {
                let (own, inputs) = (tx.tx().weight() as u64, tx.tx().input_count() as u64 / 10);
                for peer in orphans.announcers(&wtxid(tx)) {
                    let load = loads.entry(peer).or_default();
                    (load.0, load.1, work) = (load.0 + own, load.1 + 1 + inputs, work + 1);
                }
                (weight, work) = (weight + own, work + inputs);
                seen.insert(wtxid(tx));
            }
            assert_eq!((seen.len(), weight), (orphans.len(), orphans.weight()), "seed {seed} step {step}");
            assert!(work <= 60 && weight <= 4_000 * loads.len().max(1) as u64, "seed {seed} step {step}");
            for peer in 0..6 {
                let load = orphans.load(peer);
                assert_eq!((load.weight, load.work), loads.get(&peer).copied().unwrap_or_default());
            }
        }
    }
}
