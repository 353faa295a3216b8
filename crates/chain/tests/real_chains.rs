//! Real chains, imported whole: coins, index and reorganisations, on a real disk.
//!
//! In:     `../shared/vectors/chains`, where present; skipped with a message otherwise.
//! Out:    the counts that the vectors' README publishes, and answers that agree with the blocks themselves.
//! Source: mainnet 0 to 4521, testnet3 0 to 4000 (with the BIP 16 exception), signet 0 to 120, and an alternative
//!         mainnet of 2016 blocks (Bitcoin Core's test data).

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chain::{Chain, Options, View, World};
use primitives::script::is_unspendable;
use primitives::{Block, Network, OutPoint, Params, ScriptHash, Txid};
use stdx::clock::SystemClock;
use stdx::disk::SystemDisk;
use stdx::pool::Pool;

/// A folder that goes away with its owner.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("assay-chain-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("blocks")).unwrap();
        Folder(path)
    }

    fn blocks(&self) -> PathBuf {
        self.0.join("blocks")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn open(folder: &Folder, network: Network, memory_bytes: u64) -> Chain {
    let world = World {
        disk: Arc::new(SystemDisk::default()),
        clock: Arc::new(SystemClock::default()),
        pool: Arc::new(Pool::new("test", 2)),
        engine: Arc::new(sigs::Jury::new()),
    };
    let mut options = Options::new(Params::of(network), folder.0.join("data"), folder.blocks(), [7; 32]);
    options.memory_bytes = memory_bytes;
    options.block_filters = true;
    Chain::open(world, options).unwrap()
}

/// Every block of a file of records, in the order of the file.
fn blocks_of(path: &Path) -> Vec<Block> {
    let bytes = fs::read(path).unwrap();
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let length = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
        blocks.push(Block::parse(&bytes[at + 8..at + 8 + length]).unwrap());
        at += 8 + length;
    }
    blocks
}

/// A plain book of a chain, made from its blocks in order.
#[derive(Default)]
struct Book {
    coins: BTreeMap<OutPoint, (u64, Vec<u8>, u32)>,
    history: HashMap<Vec<u8>, Vec<(u32, Txid)>>,
    spenders: HashMap<OutPoint, (Txid, u32, u32)>,
}

impl Book {
    fn of(blocks: &[Block]) -> Book {
        let mut book = Book::default();
        for (height, block) in blocks.iter().enumerate().skip(1) {
            for tx in block.txs() {
                book.add(&tx, height as u32);
            }
        }
        book
    }

    fn add(&mut self, tx: &primitives::Tx<'_>, height: u32) {
        let txid = tx.txid();
        let mut touched: Vec<Vec<u8>> = Vec::new();
        for (index, input) in tx.inputs().enumerate().filter(|_| !tx.is_coinbase()) {
            let outpoint = input.outpoint();
            touched.push(self.coins.remove(&outpoint).expect("a valid chain").1);
            self.spenders.insert(outpoint, (txid, index as u32, height));
        }
        for (vout, output) in tx.outputs().enumerate().filter(|(_, output)| !is_unspendable(output.script)) {
            touched.push(output.script.to_vec());
            let outpoint = OutPoint { txid, vout: vout as u32 };
            self.coins.insert(outpoint, (output.value_sat as u64, output.script.to_vec(), height));
        }
        touched.sort();
        touched.dedup();
        for script in touched {
            self.history.entry(script).or_default().push((height, txid));
        }
    }

    /// Compares every answer the view gives about every script, transaction and coin.
    fn compare(&self, view: &View) {
        let mut unspent: HashMap<&[u8], Vec<(OutPoint, u64, u32)>> = HashMap::new();
        for (outpoint, (value_sat, script, height)) in &self.coins {
            unspent.entry(script).or_default().push((*outpoint, *value_sat, *height));
            let coin = view.snapshot().coin(outpoint).unwrap().expect("an unspent coin");
            assert_eq!((coin.value_sat, coin.height, &coin.script), (*value_sat, *height, script));
        }
        for (script, history) in &self.history {
            let hash = ScriptHash::of(script);
            let got: Vec<(u32, Txid)> =
                view.history(&hash, 0, usize::MAX).unwrap().iter().map(|entry| (entry.height, entry.txid)).collect();
            assert_eq!(got, *history, "history of {hash}");
            let mut want = unspent.remove(&script[..]).unwrap_or_default();
            want.sort();
            let entries = view.unspent(&hash, 0, usize::MAX).unwrap();
            assert!(entries.is_sorted_by_key(|entry| entry.txo_num));
            let mut got: Vec<_> = entries.iter().map(|entry| (entry.outpoint, entry.value_sat, entry.height)).collect();
            got.sort();
            assert_eq!(got, want, "unspent of {hash}");
            assert_eq!(view.balance_sat(&hash).unwrap(), want.iter().map(|entry| entry.1).sum::<u64>());
            for (_, txid) in history {
                assert_eq!(view.transaction(txid).unwrap().expect("it is confirmed").txid, *txid);
            }
        }
        for (outpoint, want) in &self.spenders {
            let spender = view.spender(outpoint).unwrap().expect("it is spent");
            assert_eq!((spender.txid, spender.input_index, spender.height), *want);
            assert_eq!(view.snapshot().coin(outpoint).unwrap(), None);
        }
    }
}

fn vector(file: &str) -> Option<PathBuf> {
    let path = stdx::vectors::shared(&format!("chains/{file}"));
    if path.is_none() {
        println!("skipped: ../shared/vectors/chains/{file} is not here");
    }
    path
}

/// Filter headers of the chain against those published.
fn check_filter_headers(view: &View) {
    let Some(path) = stdx::vectors::shared("filters/filter_headers_mainnet_0_4521.bin") else {
        return println!("skipped: ../shared/vectors/filters is absent");
    };
    let want = fs::read(path).unwrap();
    assert!(view.has_all_filters());
    let entries = view.filter_entries(0, u32::MAX).unwrap();
    assert_eq!(entries.len() * 32, want.len());
    for (height, (entry, want)) in entries.iter().zip(want.chunks_exact(32)).enumerate() {
        assert_eq!(entry.header, want, "{height}");
    }
}

fn import_and_compare(network: Network, file: &str) -> Option<(Book, Vec<Block>)> {
    let path = vector(file)?;
    let blocks = blocks_of(&path);
    let book = Book::of(&blocks);
    let folder = Folder::new(file);
    fs::copy(&path, folder.blocks().join(file)).unwrap();
    let mut chain = open(&folder, network, 256 << 20);
    chain.catch_up().unwrap();
    let status = chain.handle().status();
    assert_eq!(status.refused, None);
    assert_eq!(status.height as usize + 1, blocks.len());
    let view = chain.handle().view();
    book.compare(&view);
    drop(chain);
    // What was committed is there after a restart, without reading blocks again.
    let chain = open(&folder, network, 256 << 20);
    let view = chain.handle().view();
    assert_eq!(view.tip().hash, blocks.last().unwrap().header().hash());
    book.compare(&view);
    if network == Network::Main {
        check_filter_headers(&view);
    }
    Some((book, blocks))
}

#[test]
fn mainnet_to_4521() {
    let Some((book, blocks)) = import_and_compare(Network::Main, "mainnet_0_4521.blk") else { return };
    assert_eq!(blocks.iter().map(Block::tx_count).sum::<usize>(), 4583);
    assert_eq!(book.spenders.len(), 260);
    // The published 4,349 count the genesis output too, which is no coin (Core never adds it).
    assert_eq!(book.coins.len(), 4348);
}

#[test]
fn testnet3_to_4000_with_the_bip_16_exception() {
    import_and_compare(Network::Testnet3, "testnet3_0_4000.blk");
}

#[test]
fn signet_to_120() {
    import_and_compare(Network::Signet, "signet_0_120.blk");
}

/// 2016 blocks are connected and committed, then left for a chain with more work.
#[test]
fn a_deep_reorganisation_ends_where_a_fresh_import_does() {
    let (Some(alternative), Some(main)) = (vector("mainnet_alt_2016.blk"), vector("mainnet_0_4521.blk")) else {
        return;
    };
    let folder = Folder::new("reorg");
    fs::copy(alternative, folder.blocks().join("a.blk")).unwrap();
    let mut chain = open(&folder, Network::Main, 64 << 20);
    chain.catch_up().unwrap();
    assert_eq!((chain.handle().status().height, chain.handle().status().refused), (2016, None));
    let old = chain.handle().view();
    let old_tip_script = Block::parse(old.block_bytes(2016).unwrap().unwrap()).unwrap();
    let script_hash = ScriptHash::of(old_tip_script.tx(0).output(0).script);
    assert!(!old.history(&script_hash, 0, 10).unwrap().is_empty());

    fs::copy(&main, folder.blocks().join("b.blk")).unwrap();
    chain.catch_up().unwrap();
    let status = chain.handle().status();
    assert_eq!((status.height, status.disconnected), (4521, 2016));
    let view = chain.handle().view();
    Book::of(&blocks_of(&main)).compare(&view);
    check_filter_headers(&view);
    assert!(view.history(&script_hash, 0, 10).unwrap().is_empty());
}
