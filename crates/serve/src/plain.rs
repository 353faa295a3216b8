//! A chain in memory, plain and slow, that answers as the real one must.
//!
//! In:     parsed blocks, one on the other.
//! Out:    a [`Source`] for tests and fuzzing; a book to compare real answers with.
//! Fails:  panics where a block does not follow the tip: only tests use it. No rule is checked.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use primitives::hash::{merkle_branch, merkle_root, sha256d};
use primitives::script::is_unspendable;
use primitives::{Block, BlockHash, OutPoint, ScriptHash, TxNum, Txid, TxoNum};

use crate::source::{CoinAt, Event, HeaderProof, HistoryEntry, Progress, Source, TxAt, UnspentEntry, View, ViewError};

/// A chain that can grow and be cut.
#[derive(Default)]
pub struct PlainChain {
    state: RwLock<Arc<PlainView>>,
    blocks: Mutex<Vec<Block>>,
    syncing_to: RwLock<Option<u32>>,
    stale: AtomicBool,
}

/// The chain at one height.
#[derive(Clone, Default)]
pub struct PlainView {
    headers: Vec<[u8; 80]>,
    txids: Vec<Vec<Txid>>,
    transactions: HashMap<Txid, TxAt>,
    history: HashMap<ScriptHash, BTreeMap<TxNum, (u32, Txid)>>,
    coins: HashMap<OutPoint, (TxoNum, CoinAt)>,
    spenders: HashMap<OutPoint, (Txid, u32)>,
    first_tx_nums: Vec<TxNum>,
    unspent: HashMap<ScriptHash, BTreeMap<TxoNum, UnspentEntry>>,
    next_tx: TxNum,
    next_txo: TxoNum,
    /// Entries added to one script's history for tests of size: the script, and how many.
    padding: Option<(ScriptHash, usize)>,
    stale: bool,
}

impl PlainView {
    fn connect(&mut self, block: &Block) -> HashSet<ScriptHash> {
        let height = self.headers.len() as u32;
        let mut touched = HashSet::new();
        let mut txids = Vec::new();
        self.first_tx_nums.push(self.next_tx);
        for tx in block.txs() {
            let txid = tx.txid();
            let tx_num = self.next_tx;
            let mut scripts = HashSet::new();
            for input in tx.inputs() {
                if let Some((txo_num, coin)) = self.coins.remove(&input.outpoint()) {
                    self.spenders.insert(input.outpoint(), (txid, height));
                    let script = ScriptHash::of(&coin.script);
                    self.unspent.get_mut(&script).expect("a coin is in its script's list").remove(&txo_num);
                    scripts.insert(script);
                }
            }
            for (vout, output) in tx.outputs().enumerate() {
                let txo_num = self.next_txo;
                self.next_txo += 1;
                // The genesis output is no coin, and neither is one that cannot be spent.
                if height == 0 || is_unspendable(output.script) {
                    continue;
                }
                let script = ScriptHash::of(output.script);
                let vout = vout as u32;
                let entry = UnspentEntry { height, txid, vout, value_sat: output.value_sat as u64, txo_num };
                let coin = CoinAt { height, value_sat: output.value_sat as u64, script: output.script.to_vec() };
                self.coins.insert(OutPoint { txid, vout }, (txo_num, coin));
                self.unspent.entry(script).or_default().insert(txo_num, entry);
                scripts.insert(script);
            }
            for script in &scripts {
                self.history.entry(*script).or_default().insert(tx_num, (height, txid));
            }
            touched.extend(scripts);
            let pos = txids.len() as u32;
            self.transactions.insert(txid, TxAt { height, pos, bytes: tx.raw().to_vec() });
            txids.push(txid);
            self.next_tx += 1;
        }
        self.headers.push(block.header().encode());
        self.txids.push(txids);
        touched
    }

    fn check(&self) -> Result<(), ViewError> {
        if self.stale { Err(ViewError::Stale) } else { Ok(()) }
    }

    /// A number that differs from block to block, for coinbases that must not be equal.
    pub fn next_tag(&self) -> u8 {
        self.headers.len() as u8
    }

    /// Every script that has a history.
    pub fn scripts(&self) -> impl Iterator<Item = &ScriptHash> {
        self.history.keys()
    }
}

impl View for PlainView {
    fn tip_height(&self) -> u32 {
        self.headers.len() as u32 - 1
    }

    fn header(&self, height: u32) -> Result<Option<[u8; 80]>, ViewError> {
        Ok(self.headers.get(height as usize).copied())
    }

    fn headers(&self, start: u32, count: u32) -> Result<Vec<u8>, ViewError> {
        let end = (start as usize + count as usize).min(self.headers.len());
        Ok(self.headers.get(start as usize..end).unwrap_or_default().concat())
    }

    fn history(&self, script: &ScriptHash, from: TxNum, limit: usize) -> Result<Vec<HistoryEntry>, ViewError> {
        self.check()?;
        if let Some((padded, entries)) = self.padding
            && padded == *script
        {
            let made = |tx_num: usize| HistoryEntry {
                height: 1 + tx_num as u32 / 2000,
                tx_num: tx_num as TxNum,
                txid: Txid(sha256d(&tx_num.to_le_bytes())),
            };
            return Ok((from as usize..entries).take(limit).map(made).collect());
        }
        let Some(history) = self.history.get(script) else { return Ok(Vec::new()) };
        let entry = |(&tx_num, &(height, txid)): (&TxNum, &(u32, Txid))| HistoryEntry { height, tx_num, txid };
        Ok(history.range(from..).take(limit).map(entry).collect())
    }

    fn unspent(&self, script: &ScriptHash, from: TxoNum, limit: usize) -> Result<Vec<UnspentEntry>, ViewError> {
        self.check()?;
        let Some(unspent) = self.unspent.get(script) else { return Ok(Vec::new()) };
        Ok(unspent.range(from..).take(limit).map(|(_, entry)| *entry).collect())
    }

    fn balance_sat(&self, script: &ScriptHash) -> Result<u64, ViewError> {
        Ok(self.unspent(script, 0, usize::MAX)?.iter().map(|entry| entry.value_sat).sum())
    }

    fn transaction(&self, txid: &Txid) -> Result<Option<TxAt>, ViewError> {
        self.check()?;
        Ok(self.transactions.get(txid).cloned())
    }

    fn coin(&self, outpoint: &OutPoint) -> Result<Option<CoinAt>, ViewError> {
        self.check()?;
        Ok(self.coins.get(outpoint).map(|(_, coin)| coin.clone()))
    }

    fn spender(&self, outpoint: &OutPoint) -> Result<Option<(Txid, u32)>, ViewError> {
        self.check()?;
        Ok(self.spenders.get(outpoint).copied())
    }

    fn first_tx_num(&self, height: u32) -> Result<TxNum, ViewError> {
        Ok(self.first_tx_nums[height as usize])
    }

    fn txid_at(&self, height: u32, pos: u32) -> Result<Option<Txid>, ViewError> {
        Ok(self.txids.get(height as usize).and_then(|txids| txids.get(pos as usize)).copied())
    }

    fn merkle_branch(&self, height: u32, pos: u32) -> Result<Option<Vec<[u8; 32]>>, ViewError> {
        let leaves: Vec<[u8; 32]> = self.txids.get(height as usize).into_iter().flatten().map(|txid| txid.0).collect();
        Ok(((pos as usize) < leaves.len()).then(|| merkle_branch(&leaves, pos as usize)))
    }

    fn header_proof(&self, height: u32, cp_height: u32) -> Result<HeaderProof, ViewError> {
        let leaves: Vec<[u8; 32]> = self.headers[..=cp_height as usize].iter().map(|bytes| sha256d(bytes)).collect();
        Ok((merkle_branch(&leaves, height as usize), merkle_root(&leaves).0))
    }
}

/// What the writer would tell; the blocks themselves are left out.
fn new_tip(height: u32, header: [u8; 80], touched: HashSet<ScriptHash>, reorganised_from: Option<u32>) -> Event {
    let none = || Arc::from(Vec::new());
    let touched = Some(Arc::new(touched));
    Event::NewTip { number: 0, height, header, touched, reorganised_from, disconnected: none(), connected: none() }
}

impl PlainChain {
    /// A chain of `blocks`, the first of them at height 0.
    pub fn of(blocks: impl IntoIterator<Item = Block>) -> PlainChain {
        let chain = PlainChain::default();
        for block in blocks {
            chain.connect(block);
        }
        chain
    }

    /// Appends a block; what the writer would tell of it.
    pub fn connect(&self, block: Block) -> Event {
        let mut blocks = self.blocks.lock().expect("tests do not poison it");
        if let Some(tip) = blocks.last() {
            assert_eq!(block.header().previous, tip.header().hash(), "a block follows the tip");
        }
        let mut view = (**self.state.read().expect("tests do not poison it")).clone();
        let touched = view.connect(&block);
        let height = view.tip_height();
        let block_header = block.header().encode();
        blocks.push(block);
        *self.state.write().expect("tests do not poison it") = Arc::new(view);
        new_tip(height, block_header, touched, None)
    }

    /// Cuts back to `height` and appends `blocks`; what the writer would tell of it.
    pub fn reorganise(&self, height: u32, blocks: impl IntoIterator<Item = Block>) -> Event {
        let mut all = self.blocks.lock().expect("tests do not poison it");
        let mut touched = HashSet::new();
        let mut view = PlainView::default();
        for (at, block) in std::mem::take(&mut *all).into_iter().enumerate() {
            let of_block = view.connect(&block);
            match at as u32 > height {
                true => touched.extend(of_block),
                false => all.push(block),
            }
        }
        let mut view = PlainView::default();
        for block in all.iter() {
            view.connect(block);
        }
        for block in blocks {
            touched.extend(view.connect(&block));
            all.push(block);
        }
        let tip = view.tip_height();
        let header = *view.headers.last().expect("the genesis block stays");
        *self.state.write().expect("tests do not poison it") = Arc::new(view);
        new_tip(tip, header, touched, Some(height))
    }

    /// Lets it claim that it knows headers up to `height` and has not indexed them; none ends that.
    pub fn set_syncing(&self, height: Option<u32>) {
        *self.syncing_to.write().expect("tests do not poison it") = height;
    }

    /// Makes the next view handed out, and only that one, answer as if a reorganisation had passed under it.
    pub fn make_next_stale(&self) {
        self.stale.store(true, Ordering::SeqCst);
    }

    /// Gives one script a history of `entries` made-up transactions.
    pub fn pad(&self, script: ScriptHash, entries: usize) {
        let mut view = (**self.state.read().expect("tests do not poison it")).clone();
        view.padding = Some((script, entries));
        *self.state.write().expect("tests do not poison it") = Arc::new(view);
    }

    /// The block at `height`.
    pub fn block(&self, height: u32) -> Block {
        self.blocks.lock().expect("tests do not poison it")[height as usize].clone()
    }

    /// The chain as it is now.
    pub fn plain_view(&self) -> Arc<PlainView> {
        self.state.read().expect("tests do not poison it").clone()
    }
}

impl Source for PlainChain {
    fn progress(&self) -> Progress {
        let index_height = self.plain_view().tip_height();
        let syncing_to = *self.syncing_to.read().expect("tests do not poison it");
        Progress { index_height, headers_height: syncing_to.unwrap_or(index_height), ready: syncing_to.is_none() }
    }

    fn height_of(&self, hash: &BlockHash) -> Option<u32> {
        let view = self.plain_view();
        view.headers.iter().position(|header| sha256d(header) == hash.0).map(|height| height as u32)
    }

    fn view(&self) -> Arc<dyn View> {
        if self.stale.swap(false, Ordering::SeqCst) {
            return Arc::new(PlainView { stale: true, ..(*self.plain_view()).clone() });
        }
        self.plain_view()
    }
}
