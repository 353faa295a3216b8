//! The mempool's file: written, read, cut, overwritten.
//!
//! In:     a mempool, files made by hand, random bytes.
//! Out:    the same mempool again; errors for everything else.
//! Fails:  with the position.

use chain::mempool::{Loaded, Saved, SavedError};
use chain::policy::Policy;
use primitives::Txid;
use stdx::random::Random;

use crate::world::{Draft, World, out, txid};

fn filled() -> (World, Vec<primitives::Transaction>) {
    let mut world = World::new(Policy::default());
    let [a, b] = world.coins(1_000_000);
    let parent = Draft::new(&[a], &[990_000]).tx();
    let child = Draft::new(&[out(&parent, 0)], &[900_000]).tx();
    let other = Draft::new(&[b], &[990_000]).tx();
    world.must(&parent);
    world.now_s += 60;
    world.must(&child);
    world.must(&other);
    world.pool.prioritise(&txid(&other), 5_000);
    world.pool.prioritise(&Txid([9; 32]), -77);
    world.pool.set_unbroadcast(&txid(&child));
    (world, vec![parent, child, other])
}

#[test]
fn a_file_brings_the_mempool_back() {
    let (mut world, txs) = filled();
    for key in [None, Some([1, 2, 3, 4, 5, 6, 7, 8])] {
        let bytes = world.pool.encode(key);
        let saved = Saved::decode(bytes.clone()).unwrap();
        assert_eq!(saved.txs.len(), 3);
        let mut other = World::new(Policy::default());
        other.ledger = world.ledger.clone();
        other.publish();
        let loaded = other.pool.load(&saved, world.now_s);
        assert_eq!(loaded, Loaded { taken: 3, ..Loaded::default() });
        assert!(txs.iter().all(|tx| other.has(tx)));
        assert_eq!(other.pool.encode(key), bytes);
        // Again: all are known, and additions are added once more, as Core does.
        assert_eq!(other.pool.load(&saved, world.now_s).known, 3);
    }
    // What is too old stays away, and its child finds no parent.
    let saved = Saved::decode(world.pool.encode(None)).unwrap();
    let mut late = World::new(Policy::default());
    late.ledger = world.ledger.clone();
    late.publish();
    let loaded = late.pool.load(&saved, world.now_s - 60 + 336 * 3_600);
    assert_eq!(loaded, Loaded { taken: 1, expired: 1, refused: 1, known: 0 });
    world.now_s += 1;
}

#[test]
fn the_bytes_are_those_of_core() {
    let (world, txs) = filled();
    let plain = world.pool.encode(None);
    assert_eq!(plain[..16], [1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
    // The cluster of two pays 100,000 satoshi and comes first, parents first.
    let first = txs[0].tx().raw();
    assert_eq!(&plain[16..16 + first.len()], first);
    let time = &plain[16 + first.len()..][..8];
    assert_eq!(time, crate::world::START_S.to_le_bytes());
    let tail = [&[1][..], &[9; 32], &(-77i64).to_le_bytes(), &[1], &txid(&txs[1]).0].concat();
    assert!(plain.ends_with(&tail));
    let key = [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88];
    let keyed = world.pool.encode(Some(key));
    assert_eq!(keyed[..17], [&[2, 0, 0, 0, 0, 0, 0, 0, 8][..], &key].concat());
    // The number of transactions stands at byte 17, which the second byte of the key hides.
    assert_eq!((keyed[17], keyed[18]), (3 ^ 0x22, 0x33));
    assert_eq!(keyed.len(), plain.len() + 9);
}

#[test]
fn damaged_files_are_refused_without_a_panic() {
    let (world, _) = filled();
    for key in [None, Some([7; 8])] {
        let bytes = world.pool.encode(key);
        for end in 0..bytes.len() {
            assert!(matches!(Saved::decode(bytes[..end].to_vec()), Err(SavedError::Damaged { .. })), "{end}");
        }
    }
    let unknown = Saved::decode([3, 0, 0, 0, 0, 0, 0, 0].to_vec()).err();
    assert_eq!(unknown, Some(SavedError::UnknownVersion { version: 3 }));
    let mut random = Random::new(4);
    let whole = world.pool.encode(None);
    for _ in 0..2_000 {
        let mut bytes = whole.clone();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.next_u64() as u8;
        }
        let _ = Saved::decode(bytes);
        let mut noise = vec![0; random.below(200) as usize];
        random.fill(&mut noise);
        let _ = Saved::decode([&1u64.to_le_bytes()[..], &noise].concat());
    }
}
