//! The node's writer before forged chains, and before blocks that break rules.
//!
//! In:     forged block files in every disorder; blocks of `sim::mutate`, one after the other.
//! Out:    coins and every answer of the index as the plain book has them; broken blocks leave no trace.
//! Fails:  with the case or the first answer that differs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chain::{Chain, Handle, Options, World as ChainWorld};
use primitives::hash::merkle_root;
use primitives::{Block, Network, Params};
use sim::book::Book;
use sim::compare;
use sim::disk::FakeDisk;
use sim::forge::{Forge, ForgeOptions, Mix, forge_to};
use sim::mutate::world::NOW_S;
use sim::mutate::{self, Craft, Want, World};
use stdx::clock::Clock;
use stdx::disk::{Disk, Open};
use stdx::pool::Pool;
use stdx::random::Random;

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

fn open(disk: &FakeDisk, threads: usize, memory_bytes: u64) -> Chain {
    let world = ChainWorld {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(FixedClock),
        pool: Arc::new(Pool::new("test", threads)),
        engine: Arc::new(sigs::Jury::new()),
    };
    let mut options = Options::new(Params::of(Network::Regtest), "/data".into(), PathBuf::from(BLOCKS), [9; 32]);
    options.memory_bytes = memory_bytes;
    Chain::open(world, options).unwrap()
}

fn genesis() -> Block {
    Block::parse(Params::of(Network::Regtest).genesis_block()).unwrap()
}

fn book_of(options: &ForgeOptions, pool: &Pool) -> Book {
    let mut forge = Forge::new(options, pool).unwrap();
    let mut book = Book::new(genesis());
    while let Some(block) = forge.next_block(pool) {
        book.connect(Block::parse(block.bytes).unwrap());
    }
    book
}

#[test]
fn forged_chains_end_as_the_book_has_them() {
    let pool = Pool::new("forge", 2);
    let plain = ForgeOptions { seed: 20, blocks: 160, inputs: 2_500, odd_permille: 50, ..ForgeOptions::default() };
    let disordered = ForgeOptions {
        seed: 21,
        mix: Mix::Recent,
        xor_key: Some([1, 2, 3, 4, 5, 6, 7, 250]),
        shuffle_blocks: 40,
        ..plain.clone()
    };
    for (options, threads, memory_bytes) in [(&plain, 1, 1_000_000), (&disordered, 3, 64 << 20)] {
        let disk = FakeDisk::default();
        let report = forge_to(&disk, Path::new(BLOCKS), options, &pool, &mut |_| ()).unwrap();
        let mut chain = open(&disk, threads, memory_bytes);
        chain.catch_up().unwrap();
        let status = chain.handle().status();
        assert_eq!((status.height, status.hash, status.refused), (options.blocks, report.tip, None));
        assert_eq!(status.inputs, report.inputs);
        assert!(status.interpreter_inputs > 0 && status.template_inputs > status.interpreter_inputs);
        let book = book_of(options, &pool);
        compare::agree(&chain.handle().view(), &book).unwrap();
        chain.settle().unwrap();
        compare::agree(&chain.handle().view(), &book).unwrap();
    }
}

/// Appends a record to the block file.
fn append(disk: &FakeDisk, block: &[u8]) {
    disk.create_dir(Path::new(BLOCKS)).unwrap();
    let file = disk.open(&Path::new(BLOCKS).join("blk00000.dat"), Open::Create).unwrap();
    let mut record = Params::of(Network::Regtest).magic.to_vec();
    record.extend_from_slice(&(block.len() as u32).to_le_bytes());
    record.extend_from_slice(block);
    file.write_all_at(&record, file.length().unwrap()).unwrap();
}

/// The valid block under the same header as one whose last transactions were repeated.
fn without_repeated_tail(bytes: &[u8]) -> Vec<u8> {
    let block = Block::parse(bytes).unwrap();
    let leaves: Vec<[u8; 32]> = block.txs().map(|tx| tx.txid().0).collect();
    let count = (1..leaves.len())
        .rev()
        .find(|&count| merkle_root(&leaves[..count]) == (block.header().merkle_root, false))
        .expect("a block without repetition has this root");
    let mut whole = bytes[..80].to_vec();
    whole.push(count as u8);
    block.txs().take(count).for_each(|tx| whole.extend_from_slice(tx.raw()));
    whole
}

fn tip(handle: &Handle) -> (u32, primitives::BlockHash) {
    let tip = handle.view().tip();
    (tip.height, tip.hash)
}

#[test]
fn broken_blocks_leave_no_trace() {
    let disk = FakeDisk::default();
    append(&disk, &Params::of(Network::Regtest).genesis_block());
    let mut world = World::new(30, &mut |block| append(&disk, block));
    let mut chain = open(&disk, 2, 64 << 20);
    chain.catch_up().unwrap();
    let handle = chain.handle();
    let mut random = Random::new(30);
    let mut taken = 0;
    for case in mutate::cases() {
        let mut craft = Craft::new(&world, &mut random);
        if (case.make)(&mut craft).is_none() {
            continue;
        }
        let block = craft.build();
        append(&disk, &block);
        let mut ours = world.feed(&block);
        if case.want == Want::Broken("MerkleMutated") {
            // The header is not to blame: the block it belongs to is in the files too, and is taken instead.
            let whole = without_repeated_tail(&block);
            append(&disk, &whole);
            ours = world.feed(&whole);
        }
        chain.catch_up().unwrap();
        let book = world.judge.book();
        assert_eq!(tip(&handle), (book.height(), book.tip()), "{:?}: {ours:?}", case.name);
        taken += u32::from(ours.is_ok());
        if let (Err(refusal), Some((height, _, reason))) = (&ours, handle.status().refused) {
            // The last refusal is this one, unless the header kept it from being tried or it breaks two rules.
            let is_this = height == world.next_height() && reason.contains(refusal.word());
            let other_word = matches!(case.want, Want::Broken(rule) if OTHER_WORD.contains(&rule));
            assert!(is_this || other_word || case.want == Want::Agreement, "{:?}: {reason}", case.name);
        }
    }
    assert!(taken > 50, "{taken} blocks were valid");
    compare::agree(&handle.view(), world.judge.book()).unwrap();
    // Another start finds the same, and tries nothing that was refused into its state.
    drop(chain);
    let mut again = open(&disk, 1, 64 << 20);
    again.catch_up().unwrap();
    compare::agree(&again.handle().view(), world.judge.book()).unwrap();
}

/// Rules that the header tree judges, before a block is tried; and one whose blocks spend missing coins as well, which
/// the writer finds first.
const OTHER_WORD: [&str; 6] = ["HighHash", "BadBits", "TimeTooOld", "TimeTooNew", "BadVersion", "Bip30"];
