//! Block filters through the whole writer: with the import, afterwards, across reorganisations, switched on and off.
//!
//! In:     forged chains on a disk in memory.
//! Out:    the same filters however they came to be, each as the plain book of the chain has it.
//! Fails:  with the height whose filter differs.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chain::{Chain, Digest, Handle, Options, View, World as ChainWorld};
use index::filter;
use primitives::{Block, BlockHash, Network, OutPoint, Params};
use sim::disk::FakeDisk;
use sim::forge::{Forge, ForgeOptions, ForgedBlock};
use sim::mutate::world::NOW_S;
use stdx::clock::Clock;
use stdx::disk::{Disk, Open};
use stdx::pool::Pool;
use store::FilterEntry;

const BLOCKS: &str = "/blocks";

struct FixedClock;

impl Clock for FixedClock {
    fn unix_s(&self) -> u64 {
        NOW_S
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

fn open(disk: &FakeDisk, datadir: &str, block_filters: bool) -> Chain {
    let world = ChainWorld {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(FixedClock),
        pool: Arc::new(Pool::new("test", 2)),
        engine: Arc::new(sigs::Jury::new()),
    };
    let options = Options::new(Params::of(Network::Regtest), datadir.into(), PathBuf::from(BLOCKS), [9; 32]);
    Chain::open(world, Options { block_filters, ..options }).unwrap()
}

fn append(disk: &FakeDisk, blocks: &[ForgedBlock]) {
    disk.create_dir(Path::new(BLOCKS)).unwrap();
    let file = disk.open(&Path::new(BLOCKS).join("blk00000.dat"), Open::Create).unwrap();
    let mut at = file.length().unwrap();
    for block in blocks {
        let mut record = Params::of(Network::Regtest).magic.to_vec();
        record.extend_from_slice(&(block.bytes.len() as u32).to_le_bytes());
        record.extend_from_slice(&block.bytes);
        file.write_all_at(&record, at).unwrap();
        at += record.len() as u64;
    }
}

/// Every filter of the view as one made from blocks alone, and the chain of their headers.
fn check(view: &View) {
    assert!(view.has_all_filters(), "{} of {}", view.filter_count(), view.tip().height + 1);
    let (mut made, mut previous) = (HashMap::new(), [0; 32]);
    for height in 0..=view.tip().height {
        let block = Block::parse(view.block_bytes(height).unwrap().unwrap()).unwrap();
        let mut spent: Vec<Vec<u8>> = Vec::new();
        for tx in block.txs() {
            let inputs = tx.inputs().filter(|_| tx.index() > 0);
            spent.extend(inputs.map(|input| made.remove(&input.outpoint()).expect("made before")));
            for (vout, output) in tx.outputs().enumerate() {
                made.insert(OutPoint { txid: tx.txid(), vout: vout as u32 }, output.script.to_vec());
            }
        }
        let want = filter::of_block(&block, &block.header().hash(), spent.iter().map(Vec::as_slice));
        previous = filter::header(&filter::hash(&want), &previous);
        let (entry, got) = view.filter(height).unwrap().expect("all are there");
        assert_eq!((got, entry.header), (want, previous), "height {height}");
    }
}

fn digest(chain: &Chain) -> Digest {
    Digest::of(chain.handle().view().snapshot(), |_, _| ()).unwrap()
}

#[test]
fn filters_are_the_same_however_they_came() {
    let pool = Pool::new("forge", 2);
    let options = ForgeOptions { seed: 50, blocks: 200, inputs: 1_500, odd_permille: 50, ..ForgeOptions::default() };
    let mut forge = Forge::new(&options, &pool).unwrap();
    let mut grow = |count: usize| -> Vec<ForgedBlock> { (0..count).map(|_| forge.extend(&pool)).collect() };
    let disk = FakeDisk::default();
    append(&disk, &grow(150));

    let mut with = open(&disk, "/with", true);
    with.catch_up().unwrap();
    check(&with.handle().view());
    let status = with.handle().status().filters;
    assert!(status.on && status.count == 151 && status.bytes > 151 * 70 && status.problem.is_none(), "{status:?}");

    // Built without: none is there, none is served; switched on, the missing ones are built.
    let mut without = open(&disk, "/without", false);
    without.catch_up().unwrap();
    assert_eq!((without.handle().view().filter_count(), digest(&without).filters.rows), (0, 0));
    drop(without);
    let mut later = open(&disk, "/without", true);
    later.catch_up().unwrap();
    check(&later.handle().view());
    // From then on they come with the blocks.
    append(&disk, &grow(20));
    later.catch_up().unwrap();
    with.catch_up().unwrap();
    check(&later.handle().view());
    assert_eq!(digest(&later).filters, digest(&with).filters);

    // Switched off for a while: what is there stays, a note says so, and the gap is filled later.
    drop(later);
    let mut off = open(&disk, "/without", false);
    assert!(off.handle().status().notes.iter().any(|note| note.contains("block filters of 171 blocks")));
    append(&disk, &grow(20));
    off.catch_up().unwrap();
    with.catch_up().unwrap();
    let view = off.handle().view();
    assert_eq!((view.filter_count(), view.has_all_filters(), digest(&off).filters.rows), (171, false, 0));
    assert!(view.filter(171).unwrap().is_none() && view.filter(170).unwrap().is_some());
    drop((off, view));
    let mut again = open(&disk, "/without", true);
    again.catch_up().unwrap();
    check(&again.handle().view());
    assert_eq!(digest(&again).filters, digest(&with).filters);
}

/// Filters of the branch that was left are still told, by the blocks' hashes, and join the chain below.
fn check_both_branches(handle: &Handle, left: &[(BlockHash, (FilterEntry, Vec<u8>))]) {
    for (block, (entry, bytes)) in left {
        let found = handle.block_filter(block).unwrap().expect("kept");
        assert_eq!((found.head.hash, found.head.header, &found.bytes), (entry.hash, entry.header, bytes));
        assert_eq!(handle.filter_head(block).unwrap(), Some(found.head));
    }
    let stop = left.last().unwrap().0;
    let heads = handle.filter_heads(0, &stop).unwrap().expect("all are kept");
    let want: Vec<_> = left.iter().map(|(block, (entry, _))| (*block, entry.header)).collect();
    assert_eq!(heads.iter().map(|head| (head.block, head.header)).collect::<Vec<_>>(), want);
    let tip = handle.view().tip();
    let heads = handle.filter_heads(100, &tip.hash).unwrap().expect("all are built");
    assert_eq!((heads.len(), heads[35].block, heads[10].block), (36, tip.hash, left[110].0));
    assert_eq!(handle.filter_heads(tip.height + 1, &tip.hash).unwrap(), None);
    assert_eq!(handle.filter_head(&BlockHash([1; 32])).unwrap(), None);
}

#[test]
fn a_reorganisation_cuts_filters_whether_they_go_on_or_not() {
    let pool = Pool::new("forge", 2);
    let options = ForgeOptions { seed: 51, blocks: 160, inputs: 900, ..ForgeOptions::default() };
    let mut forge = Forge::new(&options, &pool).unwrap();
    let grow =
        |forge: &mut Forge, count: usize| -> Vec<ForgedBlock> { (0..count).map(|_| forge.extend(&pool)).collect() };
    let disk = FakeDisk::default();
    append(&disk, &grow(&mut forge, 110));
    let mut fork = forge.clone();
    fork.diverge(99);
    append(&disk, &grow(&mut forge, 20));
    let mut on = open(&disk, "/on", true);
    on.catch_up().unwrap();
    let old = on.handle().view();
    check(&old);
    let tips: Vec<_> = (0..=130)
        .map(|height| {
            let block = Block::parse(old.block_bytes(height).unwrap().unwrap()).unwrap().header().hash();
            (block, old.filter(height).unwrap().unwrap())
        })
        .collect();
    drop(open(&disk, "/off", true).catch_up().map(|()| ()));
    let mut off = open(&disk, "/off", false);

    append(&disk, &grow(&mut fork, 25));
    on.catch_up().unwrap();
    off.catch_up().unwrap();
    let view = on.handle().view();
    assert_eq!((view.tip().height, on.handle().status().disconnected), (135, 20));
    check(&view);
    check_both_branches(&on.handle(), &tips);
    assert!(matches!(old.filter(120), Err(chain::ViewError::Stale)), "an old view says so");
    assert_eq!(off.handle().view().filter_count(), 111, "what the fork left, and no more");
    drop(off);
    let mut off = open(&disk, "/off", true);
    off.catch_up().unwrap();
    check(&off.handle().view());
}
