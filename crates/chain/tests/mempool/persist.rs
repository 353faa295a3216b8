//! The mempool's file: written, read, cut, overwritten.
//!
//! In:     a mempool, files made by hand, random bytes.
//! Out:    the same mempool again; errors for everything else.
//! Fails:  with the position.

use chain::mempool::{Event, KEY_BYTES, Mempool, SavedError, SavedReader, SavedTail, SavedTx, SharedMempool};
use chain::policy::Policy;
use chain::upkeep::{Loaded, Restore, RestoreWish};
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

type Key = Option<[u8; KEY_BYTES]>;

fn encoded(pool: &Mempool, key: Key) -> Vec<u8> {
    let mut bytes = Vec::new();
    let length = pool.dump().write(key, &mut |part| {
        bytes.extend_from_slice(part);
        Ok(())
    });
    assert_eq!(length.unwrap(), bytes.len() as u64);
    bytes
}

fn reader(bytes: &[u8]) -> Result<SavedReader<'_>, SavedError> {
    let source = |buffer: &mut [u8], offset: u64| {
        buffer.copy_from_slice(&bytes[offset as usize..][..buffer.len()]);
        Ok(())
    };
    SavedReader::open(Box::new(source), bytes.len() as u64)
}

fn decoded(bytes: &[u8]) -> Result<(Vec<SavedTx>, SavedTail), SavedError> {
    let mut reader = reader(bytes)?;
    let mut txs = Vec::new();
    while let Some(tx) = reader.next_tx()? {
        txs.push(tx);
    }
    Ok((txs, reader.tail()?))
}

/// Another mempool on the same coins.
fn beside(world: &World) -> SharedMempool {
    let mut other = World::new(Policy::default());
    other.ledger = world.ledger.clone();
    other.publish();
    SharedMempool::new(other.pool)
}

fn restored(pool: &SharedMempool, bytes: &[u8], wish: RestoreWish, now_s: u64) -> Result<Loaded, SavedError> {
    let mut restore = Restore::new(reader(bytes)?, wish);
    while restore.step(pool, now_s)? {}
    Ok(restore.loaded())
}

#[test]
fn a_file_brings_the_mempool_back() {
    let (world, txs) = filled();
    let now_s = world.now_s;
    for key in [None, Some([1, 2, 3, 4, 5, 6, 7, 8])] {
        let bytes = encoded(&world.pool, key);
        assert_eq!(decoded(&bytes).unwrap().0.len(), 3);
        let other = beside(&world);
        let events = other.write().subscribe();
        let loaded = restored(&other, &bytes, RestoreWish::ALL, now_s).unwrap();
        assert_eq!(loaded, Loaded { taken: 3, unbroadcast: 1, ..Loaded::default() });
        assert!(txs.iter().all(|tx| other.read().get(&txid(tx)).is_some()));
        assert_eq!(encoded(&other.read(), key), bytes);
        let told: Vec<Event> = events.try_iter().collect();
        assert!(told.len() == 3 && told.iter().all(|event| matches!(event, Event::Added { announce: false, .. })));
        // Again: all are known, and additions are added once more, as Core does.
        assert_eq!(restored(&other, &bytes, RestoreWish::ALL, now_s).unwrap().known, 3);
    }
    // What is too old stays away, and its child finds no parent.
    let bytes = encoded(&world.pool, None);
    let loaded = restored(&beside(&world), &bytes, RestoreWish::ALL, now_s - 60 + 336 * 3_600).unwrap();
    assert_eq!(loaded, Loaded { taken: 1, expired: 1, refused: 1, ..Loaded::default() });
}

#[test]
fn what_of_a_file_counts_can_be_chosen() {
    let (world, txs) = filled();
    let (bytes, late_s) = (encoded(&world.pool, None), world.now_s + 336 * 3_600);
    let wish = RestoreWish { current_time: true, deltas: false, unbroadcast: false };
    let other = beside(&world);
    assert_eq!(restored(&other, &bytes, wish, late_s).unwrap(), Loaded { taken: 3, ..Loaded::default() });
    let other = other.read();
    assert_eq!((other.prioritised().count(), other.unbroadcast().count()), (0, 0));
    assert_eq!(other.get(&txid(&txs[0])).unwrap().time_s, late_s);
}

#[test]
fn what_stands_before_the_damage_is_taken_in() {
    let (world, txs) = filled();
    let bytes = encoded(&world.pool, None);
    let second = 16 + txs[0].tx().raw().len() + 16;
    let other = beside(&world);
    let damaged = restored(&other, &bytes[..second + 5], RestoreWish::ALL, world.now_s);
    assert_eq!(damaged, Err(SavedError::Damaged { position: second as u64 }));
    assert_eq!(other.read().len(), 1);
    // A tail that is cut costs the tail.
    let other = beside(&world);
    assert!(restored(&other, &bytes[..bytes.len() - 1], RestoreWish::ALL, world.now_s).is_err());
    assert_eq!(other.read().len(), 3);
}

#[test]
fn a_file_larger_than_the_window_is_read_whole() {
    let mut world = World::new(Policy::default());
    let coins: [_; 120] = world.coins(10_000_000);
    for (index, coin) in coins.into_iter().enumerate() {
        world.must(&Draft::new(&[coin], &[9_000_000]).padded(65_000 + 7 * index).padded(10_000).tx());
    }
    let bytes = encoded(&world.pool, Some([3; 8]));
    assert!(bytes.len() > 8_200_000, "{}", bytes.len());
    let other = beside(&world);
    assert_eq!(restored(&other, &bytes, RestoreWish::ALL, world.now_s).unwrap().taken, 120);
    assert_eq!(encoded(&other.read(), Some([3; 8])), bytes);
}

#[test]
fn the_bytes_are_those_of_core() {
    let (world, txs) = filled();
    let plain = encoded(&world.pool, None);
    assert_eq!(plain[..16], [1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
    // The cluster of two pays 100,000 satoshi and comes first, parents first.
    let first = txs[0].tx().raw();
    assert_eq!(&plain[16..16 + first.len()], first);
    let time = &plain[16 + first.len()..][..8];
    assert_eq!(time, crate::world::START_S.to_le_bytes());
    let tail = [&[1][..], &[9; 32], &(-77i64).to_le_bytes(), &[1], &txid(&txs[1]).0].concat();
    assert!(plain.ends_with(&tail));
    let key = [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88];
    let keyed = encoded(&world.pool, Some(key));
    assert_eq!(keyed[..17], [&[2, 0, 0, 0, 0, 0, 0, 0, 8][..], &key].concat());
    // The number of transactions stands at byte 17, which the second byte of the key hides.
    assert_eq!((keyed[17], keyed[18]), (3 ^ 0x22, 0x33));
    assert_eq!(keyed.len(), plain.len() + 9);
}

#[test]
fn damaged_files_are_refused_without_a_panic() {
    let (world, _) = filled();
    for key in [None, Some([7; 8])] {
        let bytes = encoded(&world.pool, key);
        for end in 0..bytes.len() {
            assert!(matches!(decoded(&bytes[..end]), Err(SavedError::Damaged { .. })), "{end}");
        }
    }
    let unknown = decoded(&[3, 0, 0, 0, 0, 0, 0, 0]).err();
    assert_eq!(unknown, Some(SavedError::UnknownVersion { version: 3 }));
    let mut random = Random::new(4);
    let whole = encoded(&world.pool, None);
    for _ in 0..2_000 {
        let mut bytes = whole.clone();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.next_u64() as u8;
        }
        let _ = decoded(&bytes);
        let mut noise = vec![0; random.below(200) as usize];
        random.fill(&mut noise);
        let _ = decoded(&[&1u64.to_le_bytes()[..], &noise].concat());
    }
}
