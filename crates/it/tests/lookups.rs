//! What wallets ask, against the plain answer made from the blocks themselves, over a store of many commits.
//!
//! In:     a forged chain with scripts of exact histories, handed to the writer in pieces.
//! Out:    pages of every size give each entry once and in order; statuses, coins and branches are those of the blocks.
//! Source: Electrum protocol 1.4 for the status; the blocks for everything else.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use chain::{Chain, HistoryEntry, Options, View, World};
use primitives::hash::{merkle_branch, sha256};
use primitives::{Block, Network, OutPoint, Params, ScriptHash, TxNum, Txid};
use sim::forge::{Forge, ForgeOptions, Kind, SpecialScript};
use stdx::clock::SystemClock;
use stdx::disk::SystemDisk;
use stdx::pool::Pool;

/// History length and unspent outputs of the scripts looked at.
const SCRIPTS: [(u32, u32); 4] = [(1, 1), (10, 10), (1_001, 10), (12_000, 10)];
/// Pieces that the chain comes in; each is a commit at least.
const PIECES: usize = 12;

/// A folder that goes away with its owner.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A chain, its blocks, and the scripts looked at.
struct Sample {
    view: Arc<View>,
    blocks: Vec<Block>,
    scripts: Vec<Vec<u8>>,
    _chain: Chain,
    _folder: Folder,
}

fn sample() -> Sample {
    let pool = Arc::new(Pool::new("test", 2));
    let special = SCRIPTS.map(|(entries, unspent)| SpecialScript::new(Kind::P2wpkh, entries, unspent)).to_vec();
    let options = ForgeOptions { blocks: 130, inputs: 2_000, special, ..ForgeOptions::default() };
    let mut forge = Forge::new(&options, &pool).unwrap();
    let forged: Vec<Vec<u8>> = std::iter::from_fn(|| forge.next_block(&pool)).map(|block| block.bytes).collect();
    let params = Params::of(Network::Regtest);
    let folder = Folder(std::env::temp_dir().join(format!("assay-it-lookups-{}", std::process::id())));
    let _ = fs::remove_dir_all(&folder.0);
    let blocks_from = folder.0.join("blocks");
    fs::create_dir_all(&blocks_from).unwrap();
    let mut chain = None;
    for (number, piece) in forged.chunks(forged.len().div_ceil(PIECES)).enumerate() {
        let mut records = Vec::new();
        for block in piece {
            records.extend(params.magic);
            records.extend((block.len() as u32).to_le_bytes());
            records.extend(block);
        }
        fs::write(blocks_from.join(format!("blk{number:05}.dat")), records).unwrap();
        let chain = chain.get_or_insert_with(|| {
            let world = World {
                disk: Arc::new(SystemDisk::default()),
                clock: Arc::new(SystemClock::default()),
                pool: pool.clone(),
                engine: sigs::engine(sigs::EngineName::Scalar).unwrap(),
            };
            let mut options = Options::new(params.clone(), folder.0.join("data"), blocks_from.clone(), [7; 32]);
            options.memory_bytes = 64 << 20;
            // Scripts are judged elsewhere.
            options.skip_scripts = true;
            Chain::open(world, options).unwrap()
        });
        chain.catch_up().unwrap();
    }
    let chain = chain.expect("there are pieces");
    let view = chain.handle().view();
    assert_eq!(view.tip().height as usize, forged.len());
    assert!(view.snapshot().segment_count() > 3);
    let scripts = forge.report().special.iter().map(|history| history.script.clone()).collect::<Vec<_>>();
    let blocks = std::iter::once(params.genesis_block()).chain(forged).map(|bytes| Block::parse(bytes).unwrap());
    Sample { view, blocks: blocks.collect(), scripts, _chain: chain, _folder: folder }
}

/// History and coins of one script, read from the blocks.
fn plain(blocks: &[Block], script: &[u8]) -> (Vec<HistoryEntry>, BTreeMap<OutPoint, (u32, u64)>) {
    let (mut history, mut coins) = (Vec::new(), BTreeMap::new());
    let mut tx_num: TxNum = 0;
    for (height, block) in (0..).zip(blocks) {
        for tx in block.txs() {
            let txid = tx.txid();
            let spent = tx.inputs().filter(|input| coins.remove(&input.outpoint()).is_some()).count();
            let mine = tx.outputs().enumerate().filter(|(_, output)| output.script == script);
            let made: Vec<_> = mine.map(|(vout, output)| (vout as u32, output.value_sat as u64)).collect();
            if spent + made.len() > 0 {
                history.push(HistoryEntry { tx_num, height, txid });
            }
            coins.extend(made.into_iter().map(|(vout, value)| (OutPoint { txid, vout }, (height, value))));
            tx_num += 1;
        }
    }
    (history, coins)
}

fn paged(view: &View, script: &ScriptHash, page: usize) -> Vec<HistoryEntry> {
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        let entries = view.history(script, from, page).unwrap();
        assert!(entries.len() <= page);
        let Some(last) = entries.last() else { return all };
        from = last.tx_num + 1;
        all.extend(entries);
    }
}

fn check_script(sample: &Sample, script: &[u8], (entries, unspent): (u32, u32)) {
    let (view, hash) = (&sample.view, ScriptHash::of(script));
    let (history, coins) = plain(&sample.blocks, script);
    assert_eq!((history.len(), coins.len()), (entries as usize, unspent as usize));
    // A few first, which are remembered when all are read: most from the files, some from memory, then all from there.
    let middle = history[history.len() / 2].tx_num;
    assert_eq!(view.history(&hash, middle, 3).unwrap()[0], history[history.len() / 2]);
    for page in [usize::MAX, 1, 7, 1_000] {
        assert_eq!(paged(view, &hash, page), history, "{entries} entries, pages of {page}");
    }
    for limit in [0, 1, history.len() - 1, history.len(), history.len() + 1] {
        assert_eq!(view.history_count(&hash, limit).unwrap(), limit.min(history.len()));
    }
    let text: String = history.iter().map(|entry| format!("{}:{}:", entry.txid, entry.height)).collect();
    assert_eq!(view.status(&hash).unwrap(), Some(sha256(text.as_bytes())));
    for entry in &history {
        // Each by itself, read and parsed in full.
        let tx = view.transaction(&entry.txid).unwrap().expect("it is confirmed");
        assert_eq!((tx.tx_num, tx.height), (entry.tx_num, entry.height));
        assert_eq!(primitives::Transaction::parse(tx.bytes).unwrap().tx().txid(), entry.txid);
    }
    let _some_are_remembered = view.unspent(&hash, 0, 2).unwrap();
    for page in [1_000, 1, 7] {
        let (mut got, mut from) = (Vec::new(), 0);
        while let Some(last) = {
            let page = view.unspent(&hash, from, page).unwrap();
            let last = page.last().map(|entry| entry.txo_num);
            got.extend(page.into_iter().map(|entry| (entry.outpoint, (entry.height, entry.value_sat))));
            last
        } {
            from = last + 1;
        }
        let heights: Vec<u32> = got.iter().map(|(_, (height, _))| *height).collect();
        assert!(heights.is_sorted() && got.len() == coins.len());
        assert_eq!(got.into_iter().collect::<BTreeMap<_, _>>(), coins);
    }
    assert_eq!(view.balance_sat(&hash).unwrap(), coins.values().map(|(_, value_sat)| value_sat).sum::<u64>());
}

fn check_block(view: &View, height: u32, block: &Block) {
    let txids: Vec<Txid> = block.txs().map(|tx| tx.txid()).collect();
    let leaves: Vec<[u8; 32]> = txids.iter().map(|txid| txid.0).collect();
    assert_eq!(view.txids(height).unwrap(), Some(txids.clone()));
    for (position, txid) in (0..).zip(&txids).step_by(txids.len().div_ceil(9)) {
        assert_eq!(view.txid_at(height, position).unwrap(), Some(*txid));
        assert_eq!(view.merkle_branch(height, position).unwrap(), Some(merkle_branch(&leaves, position as usize)));
    }
    assert_eq!(view.txid_at(height, txids.len() as u32).unwrap(), None);
    assert_eq!(view.merkle_branch(height, txids.len() as u32).unwrap(), None);
}

#[test]
fn every_size_of_history_and_page_answers_as_the_blocks_do() {
    let sample = sample();
    for (script, forged) in sample.scripts.iter().zip(SCRIPTS) {
        check_script(&sample, script, forged);
    }
    // Twice: computed, then remembered.
    for _ in 0..2 {
        for (height, block) in (0..).zip(&sample.blocks) {
            check_block(&sample.view, height, block);
        }
    }
    // Many together, some of them twice and one that nobody uses, answer as each alone does.
    let scripts = sample.scripts.iter().map(|script| ScriptHash::of(script));
    let all: Vec<ScriptHash> = scripts.clone().chain([ScriptHash::of(b"nobody's")]).chain(scripts.rev()).collect();
    for limit in [0, 1, 9, 2_000] {
        let each: Vec<Vec<HistoryEntry>> =
            all.iter().map(|hash| sample.view.history(hash, 0, limit).unwrap()).collect();
        assert_eq!(sample.view.histories(&all, limit).unwrap(), each, "at most {limit} of each");
    }
    assert!(sample.view.histories(&[], 9).unwrap().is_empty());
    let above = sample.blocks.len() as u32;
    assert_eq!(sample.view.merkle_branch(above, 0).unwrap(), None);
    assert_eq!(sample.view.txid_at(above, 0).unwrap(), None);
    let nobody = ScriptHash::of(b"nobody's");
    assert_eq!((sample.view.history(&nobody, 0, 1).unwrap(), sample.view.status(&nobody).unwrap()), (vec![], None));
}
