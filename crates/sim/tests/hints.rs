//! Hints of an earlier validation, through the whole writer: they come back with their rows, and nothing depends on them.
//!
//! In:     forged chains, imported again and again beside the same folder of hints; damaged, wrong and planted hints.
//! Out:    every signature proved before is proved with its hint; states, verdicts and reasons are the same whatever the
//!         folder holds.
//! Fails:  with what was kept and what came of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chain::{Chain, Digest, HintsUse, Options, Status, World as ChainWorld};
use primitives::{Block, BlockHash, Network, Params};
use sigs::EngineName;
use sim::disk::FakeDisk;
use sim::forge::{Forge, ForgeOptions, forge_to};
use sim::learner::{Learner, Seen};
use sim::mutate::world::NOW_S;
use sim::mutate::{self, Craft, World};
use stdx::clock::Clock;
use stdx::disk::{Disk, Open};
use stdx::pool::Pool;
use stdx::random::Random;
use store::{Hints, HintsWriter};

const BLOCKS: &str = "/blocks";
const HINTS: &str = "/hints";

struct FixedClock;

impl Clock for FixedClock {
    fn unix_s(&self) -> u64 {
        NOW_S
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

fn params() -> Params {
    Params::of(Network::Regtest)
}

fn open(disk: &FakeDisk, datadir: &str, hints: HintsUse, engine: Arc<Learner>) -> Chain {
    let world = ChainWorld {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(FixedClock),
        pool: Arc::new(Pool::new("test", 2)),
        engine,
    };
    let options = Options { hints, ..Options::new(params(), datadir.into(), PathBuf::from(BLOCKS), [9; 32]) };
    Chain::open(world, options).unwrap()
}

fn learner() -> Arc<Learner> {
    Arc::new(Learner::asking(sigs::engine(EngineName::Auto).unwrap()))
}

fn keep() -> HintsUse {
    HintsUse::Keep(HINTS.into())
}

/// Imports everything into a folder of its own.
fn import(disk: &FakeDisk, datadir: &str, hints: HintsUse) -> (Digest, Status, Seen) {
    let engine = learner();
    let mut chain = open(disk, datadir, hints, engine.clone());
    chain.catch_up().unwrap();
    let handle = chain.handle();
    (Digest::of(handle.view().snapshot(), |_, _| ()).unwrap(), handle.status(), engine.seen())
}

fn forged(blocks: u32, inputs: u64) -> FakeDisk {
    let disk = FakeDisk::default();
    let options = ForgeOptions { seed: 40, blocks, inputs, odd_permille: 50, ..ForgeOptions::default() };
    forge_to(&disk, Path::new(BLOCKS), &options, &Pool::new("forge", 2), &mut |_| ()).unwrap();
    disk
}

fn hint_files() -> [PathBuf; 2] {
    ["hints.records", "hints.places"].map(|name| Path::new(HINTS).join(name))
}

fn contents(disk: &FakeDisk) -> [Vec<u8>; 2] {
    hint_files().map(|path| disk.bytes(&path).unwrap_or_default())
}

fn put(disk: &FakeDisk, path: &Path, bytes: &[u8]) {
    disk.create_dir(path.parent().unwrap()).unwrap();
    disk.open(path, Open::Truncate).unwrap().write_all_at(bytes, 0).unwrap();
}

#[test]
fn a_second_import_proves_every_signature_with_its_hint() {
    let disk = forged(160, 3_000);
    let (digest, status, first) = import(&disk, "/first", keep());
    assert!(first.ecdsa > first.proved && first.schnorr > 100, "{first:?}");
    assert_eq!((first.right, first.wrong, status.hinted_signatures), (0, 0, 0));
    let kept = contents(&disk);
    assert_eq!(status.hints_bytes, (kept[0].len() + kept[1].len()) as u64);
    // A record's 48 bytes, a few for its segment, and less than two bits a signature.
    assert!((kept[0].len() as u64) < 160 * 54 + first.proved / 4, "{} bytes for {first:?}", kept[0].len());

    // Rows whose inputs are the interpreter's in the end have no hint.
    let (again, status, second) = import(&disk, "/second", keep());
    assert_eq!((&again, second.wrong, second.proved), (&digest, 0, first.proved));
    assert_eq!(status.hinted_signatures, second.right);
    let without = second.ecdsa - second.right;
    assert!(without < first.ecdsa - first.proved && without * 50 < second.ecdsa, "{first:?} {second:?}");
    assert_eq!(contents(&disk), kept, "nothing better was learnt, so nothing was written");

    // As `assay verify` does it: used, and not written; with an empty folder nothing comes of it.
    let (again, _, third) = import(&disk, "/third", HintsUse::Read(HINTS.into()));
    assert_eq!((&again, third), (&digest, second));
    let (again, status, fourth) = import(&disk, "/fourth", HintsUse::Read("/nothing".into()));
    assert_eq!((&again, fourth, status.hints_bytes, status.hints_off), (&digest, first, 0, None));
    let (again, _, fifth) = import(&disk, "/fifth", HintsUse::Off);
    assert_eq!((again, fifth), (digest, first));
}

#[test]
fn damaged_hints_cost_nothing_but_time_and_are_mended() {
    let disk = forged(130, 500);
    let (digest, _, first) = import(&disk, "/first", keep());
    let whole = contents(&disk);
    let mut random = Random::new(41);
    for round in 0..24u64 {
        let disk = disk.copy();
        let mut files = whole.clone();
        let file = &mut files[round as usize % 2];
        match round / 2 % 4 {
            0 => (0..8).for_each(|_| {
                let at = random.below(file.len() as u64) as usize;
                file[at] ^= 1 << random.below(8);
            }),
            1 => file.truncate(random.below(file.len() as u64) as usize),
            2 => random.fill(file),
            _ => file.clear(),
        }
        hint_files().iter().zip(&files).for_each(|(path, bytes)| put(&disk, path, bytes));
        let (again, _, seen) = import(&disk, "/second", keep());
        assert_eq!((&again, seen.wrong, seen.proved), (&digest, 0, first.proved), "round {round}");
        let (again, _, mended) = import(&disk, "/third", keep());
        assert!(again == digest && mended.right >= seen.right && mended.right * 50 > first.proved * 49, "{mended:?}");
    }
}

/// Every block of a chain, lowest first.
fn hashes(disk: &FakeDisk) -> Vec<(u32, BlockHash)> {
    let chain = open(disk, "/first", HintsUse::Off, learner());
    let snapshot = chain.handle().view().snapshot().clone();
    let hash = |height| primitives::Header::decode(&snapshot.header(height).unwrap().unwrap()).hash();
    (1..snapshot.block_count()).map(|height| (height, hash(height))).collect()
}

#[test]
fn hints_of_other_blocks_and_hints_of_no_sense_give_the_same_state() {
    let disk = forged(130, 800);
    let (digest, _, first) = import(&disk, "/first", keep());
    let blocks = hashes(&disk);
    let hints = Hints::open(&disk, Path::new(HINTS), &params()).unwrap();
    let of = |index: usize| hints.of(blocks[index].0, &blocks[index].1);
    let mut random = Random::new(42);
    let mut wrong = 0;
    for round in 0..6 {
        let disk = disk.copy();
        let mut writer = HintsWriter::open(&disk, Path::new(HINTS), &params()).unwrap();
        for (index, (height, hash)) in blocks.iter().enumerate() {
            let mut bytes = match round {
                0 => of((index + 1) % blocks.len()),
                1 => of(index).iter().map(|byte| !byte).collect(),
                2 => vec![0xff; 100],
                3 => random.bytes::<64>().to_vec(),
                _ => of(index),
            };
            if round == 4 {
                bytes.truncate(bytes.len() / 2);
            } else if round == 5 && !bytes.is_empty() {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << random.below(8);
            }
            writer.keep(*height, hash, &bytes).unwrap();
        }
        writer.flush().unwrap();
        let (again, status, seen) = import(&disk, "/second", keep());
        assert_eq!((&again, status.refused), (&digest, None), "round {round}");
        // Where not all pairs of a multisig are proved, those that are are proved again on its walk.
        assert!(seen.proved >= first.proved, "round {round}: {seen:?}");
        wrong += seen.wrong;
        let (again, _, mended) = import(&disk, "/third", keep());
        assert_eq!((&again, mended.wrong), (&digest, 0), "round {round}: better ones were kept");
        assert!(mended.right * 50 > first.proved * 49, "round {round}: {mended:?}");
    }
    assert!(wrong > 200, "{wrong} wrong hints");
}

/// Appends a record to the block file.
fn append(disk: &FakeDisk, block: &[u8]) {
    let file = disk.open(&Path::new(BLOCKS).join("blk00000.dat"), Open::Create).unwrap();
    let mut record = params().magic.to_vec();
    record.extend_from_slice(&(block.len() as u32).to_le_bytes());
    record.extend_from_slice(block);
    file.write_all_at(&record, file.length().unwrap()).unwrap();
}

#[test]
fn broken_blocks_are_refused_for_the_same_reason_whatever_is_kept_of_them() {
    let disk = FakeDisk::default();
    disk.create_dir(Path::new(BLOCKS)).unwrap();
    append(&disk, &params().genesis_block());
    let mut world = World::new(43, &mut |block| append(&disk, block));
    let mut writer = HintsWriter::open(&disk, Path::new(HINTS), &params()).unwrap();
    let mut plain = open(&disk, "/plain", HintsUse::Off, learner());
    let engine = learner();
    let mut hinted = open(&disk, "/hinted", HintsUse::Read(HINTS.into()), engine.clone());
    let mut random = Random::new(43);
    let mut refused = 0;
    for (number, case) in mutate::cases().into_iter().enumerate() {
        let mut craft = Craft::new(&world, &mut random);
        if (case.make)(&mut craft).is_none() {
            continue;
        }
        let block = craft.build();
        // All single and even; all single and odd; anything.
        let planted = match number % 3 {
            0 => [vec![3, 0b1_0000000, 0, 0], vec![0; 30]].concat(),
            1 => [vec![36, 0, 0b1, 0b10], vec![0xff; 33]].concat(),
            _ => random.bytes::<40>().to_vec(),
        };
        writer.keep(world.next_height(), &Block::parse(&block[..]).unwrap().header().hash(), &planted).unwrap();
        writer.flush().unwrap();
        append(&disk, &block);
        let ours = world.feed(&block);
        plain.catch_up().unwrap();
        hinted.catch_up().unwrap();
        let (want, got) = (plain.handle().status(), hinted.handle().status());
        assert_eq!((got.hash, &got.refused), (want.hash, &want.refused), "{:?}", case.name);
        refused += u32::from(ours.is_err());
    }
    let seen = engine.seen();
    assert!(refused > 100 && seen.right > 10 && seen.wrong > 10, "{refused} refused, {seen:?}");
}

#[test]
fn a_block_that_comes_back_after_a_reorganisation_finds_its_hints() {
    let pool = Pool::new("forge", 2);
    let options = ForgeOptions { seed: 44, blocks: 130, inputs: 900, ..ForgeOptions::default() };
    let mut forge = Forge::new(&options, &pool).unwrap();
    let disk = FakeDisk::default();
    disk.create_dir(Path::new(BLOCKS)).unwrap();
    append(&disk, &params().genesis_block());
    let engine = learner();
    let mut chain = open(&disk, "/data", keep(), engine.clone());
    (0..110).for_each(|_| append(&disk, &forge.extend(&pool).bytes));
    chain.catch_up().unwrap();
    let mut fork = forge.clone();
    fork.diverge(45);
    let before = engine.seen();
    (0..6).for_each(|_| append(&disk, &forge.extend(&pool).bytes));
    chain.catch_up().unwrap();
    let six = engine.seen().proved - before.proved;
    (0..7).for_each(|_| append(&disk, &fork.extend(&pool).bytes));
    chain.catch_up().unwrap();
    assert_eq!((chain.handle().status().disconnected, engine.seen().right), (6, 0));
    (0..3).for_each(|_| append(&disk, &forge.extend(&pool).bytes));
    chain.catch_up().unwrap();
    let status = chain.handle().status();
    assert_eq!((status.disconnected, status.height), (13, 119));
    let seen = engine.seen();
    assert!(six > 20 && seen.right * 50 > six * 49 && seen.right <= six && seen.wrong == 0, "{six}, {seen:?}");
}
