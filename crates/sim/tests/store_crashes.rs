//! The store on a disk that crashes at every operation: what was committed is there, whole, and nothing else.
//!
//! In:     a workload of blocks, cuts, merges and reorganisations from a seed; a fault at the n-th operation.
//! Out:    after power comes back, the store stands at the last commit that returned, or the one that was under way.
//! Fails:  naming seed and operation.

use std::path::Path;
use std::sync::Arc;

use primitives::hash::sha256d;
use primitives::{BlockHash, Coin, Network, OutPoint, Params, Txid};
use sim::disk::{FakeDisk, Fault, Operation};
use stdx::disk::Disk;
use stdx::pool::Pool;
use stdx::random::Random;
use store::blockfiles::{Found, Position};
use store::{Batch, Coins, CoinsOptions, Cut, Options, Snapshot, Store, StoreError, Table, Tip, TxEntry};

const DIR: &str = "/data";
const SCRIPT: [u8; 25] = [0x76; 25];

fn tagger() -> store::Tagger {
    Arc::new(|script: &[u8]| stdx::checksum::checksum(1, script))
}

fn open(disk: &FakeDisk) -> Result<Store, StoreError> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Store::open(disk, Path::new(DIR), &Params::of(Network::Regtest), &Options { tag_key_seed: [1; 16] })
}

/// Everything a reader can see, as numbers.
fn dump(snapshot: &Snapshot) -> Result<Vec<u64>, StoreError> {
    let mut all = vec![snapshot.block_count().into(), snapshot.tx_count().into(), snapshot.txo_count()];
    for table in Table::ALL {
        all.push(u64::MAX);
        for row in snapshot.all_rows(table)? {
            let row = row?;
            all.extend([row.hi, row.lo, row.value]);
        }
    }
    snapshot.each_coin(&mut |outpoint, coin| {
        all.extend([outpoint.txid.0[0].into(), outpoint.vout.into(), coin.txo_num]);
        true
    })?;
    let headers = snapshot.headers(0, u32::MAX)?;
    all.extend(headers.iter().map(|byte| u64::from(*byte)));
    all.extend(snapshot.tx_entries(0, u32::MAX)?.iter().map(|entry| u64::from(entry.offset)));
    for height in 0..snapshot.filter_count() {
        let (entry, filter) = snapshot.filter(height)?.expect("below their number");
        all.extend([entry.end, entry.header[0].into(), filter.len() as u64]);
        all.extend(filter.iter().map(|byte| u64::from(*byte)));
    }
    Ok(all)
}

#[derive(Clone)]
struct Block {
    first_tx: u32,
    txo: u64,
    made: Vec<(OutPoint, u64)>,
    spent: Vec<(OutPoint, u64)>,
}

fn coin(txo_num: u64) -> Coin<'static> {
    Coin { value_sat: txo_num * 7, height: 1, coinbase: false, txo_num, script: &SCRIPT[..20 + (txo_num % 5) as usize] }
}

/// Runs the workload until an error; `committed` is told of each commit that returned.
fn work(disk: &FakeDisk, seed: u64, committed: &mut dyn FnMut(&Store)) -> Result<(), StoreError> {
    let (mut random, pool) = (Random::new(seed), Pool::new("test", 1));
    let mut store = open(disk)?;
    committed(&store);
    let options = CoinsOptions { bytes_max: 1 << 20, hash_key: [5, 6] };
    let mut coins = Coins::new(store.snapshot(), tagger(), &options);
    let (mut blocks, mut live): (Vec<Block>, Vec<(OutPoint, u64)>) = Default::default();
    for _ in 0..14 {
        let mut batch = Batch::default();
        if blocks.len() > 60 && random.chance(1, 3) {
            let keep = blocks.len() - random.below(55) as usize;
            while blocks.len() > keep {
                let block = blocks.pop().expect("longer than what is kept");
                for (outpoint, txo_num) in &block.made {
                    if live.contains(&(*outpoint, *txo_num)) {
                        assert!(coins.remove(outpoint)?);
                        live.retain(|other| other.0 != *outpoint);
                    }
                    batch.history_deleted.push((*txo_num % 50, block.first_tx));
                }
                batch.txid_deleted.push((u64::from(block.first_tx) * 3, block.first_tx));
                for (outpoint, txo_num) in block.spent {
                    coins.restore(&outpoint, coin(txo_num))?;
                    live.push((outpoint, txo_num));
                    batch.spender_deleted.push(txo_num);
                }
            }
            store.truncate_blocks(keep as u32)?;
        } else {
            for _ in 0..10 + random.below(20) {
                let block = forge(&store, &mut random, &mut live);
                for (outpoint, txo_num) in &block.made {
                    coins.create(outpoint, coin(*txo_num), tagger()(coin(*txo_num).script))?;
                    batch.history.push((*txo_num % 50, block.first_tx));
                }
                for (outpoint, txo_num) in &block.spent {
                    assert_eq!(coins.spend(outpoint)?.expect("alive").coin, coin(*txo_num));
                    batch.spender.push((*txo_num, block.first_tx));
                }
                batch.txid.push((u64::from(block.first_tx) * 3, block.first_tx));
                let header = random.bytes::<80>();
                let position = Position { file: 0, offset: block.first_tx, size: 100 };
                store.push_found(&Found { header, position });
                store.push_block(
                    &header,
                    position,
                    &[TxEntry { offset: 81, first_output: 0 }],
                    block.made.len() as u32,
                );
                // Filters begin anew behind a gap: as after a time without them.
                if store.filter_count() + 1 == store.block_count() || random.chance(1, 4) {
                    while store.filter_count() < store.block_count() {
                        let filter = vec![header[0]; usize::from(header[1]) + 40 * usize::from(header[2])];
                        store.push_filter(&filter, sha256d(&filter), [header[3]; 32])?;
                        if random.chance(1, 30) {
                            break;
                        }
                    }
                }
                blocks.push(block);
            }
        }
        let height = blocks.len() as u32 - 1;
        let tip = Some(Tip { height, hash: BlockHash(random.bytes()), chainwork: [0; 32] });
        store.commit(Cut { tip, batch, coins: &mut coins }, &pool)?;
        committed(&store);
        if let Some(job) = store.pick_merge() {
            let merged = job.run();
            store.install_merge(merged)?;
        }
    }
    Ok(())
}

fn forge(store: &Store, random: &mut Random, live: &mut Vec<(OutPoint, u64)>) -> Block {
    let mut block = Block { first_tx: store.tx_count(), txo: store.txo_count(), made: vec![], spent: vec![] };
    for _ in 0..random.below(6).min(live.len() as u64) {
        block.spent.push(live.swap_remove(random.below(live.len() as u64) as usize));
    }
    for vout in 0..1 + random.below(8) as u32 {
        block
            .made
            .push((OutPoint { txid: Txid([block.first_tx as u8; 32]), vout: block.first_tx << 8 | vout }, block.txo));
        block.txo += 1;
    }
    live.extend(&block.made);
    block
}

#[test]
fn a_crash_at_any_operation_leaves_a_commit() {
    let mut tried = 0;
    for seed in 0..4 {
        let control = FakeDisk::default();
        let mut states = Vec::new();
        work(&control, seed, &mut |store| states.push(dump(&store.snapshot()).expect("no fault"))).expect("no fault");
        let operations: Vec<Operation> = control.operations();
        assert!(operations.len() > 100, "{}", operations.len());
        for at in 0..operations.len() as u64 {
            for fault in [Fault::PowerLoss { at }, Fault::Eio { at }, Fault::NoSpace { from: at }] {
                if at % 7 != 0 && !matches!(fault, Fault::PowerLoss { .. }) {
                    continue;
                }
                tried += 1;
                let disk = FakeDisk::default();
                disk.arm(fault);
                let mut acknowledged = 0;
                let ended = work(&disk, seed, &mut |_| acknowledged += 1);
                let after = disk.crash(seed ^ at << 8);
                let store = open(&after).unwrap_or_else(|error| panic!("seed {seed}, {fault:?}: {error} ({ended:?})"));
                let got = dump(&store.snapshot()).expect("whole");
                let before = acknowledged.max(1) - 1;
                let allowed = &states[before..states.len().min(acknowledged + 1)];
                assert!(
                    allowed.contains(&got),
                    "seed {seed}, {fault:?}, {:?}: not commit {before} or the next",
                    operations[at as usize]
                );
            }
        }
    }
    println!("{tried} crashes");
}
