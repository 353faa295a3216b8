//! The chain's writer and the mempool as a source of answers, from the first second on.
//!
//! In:     the network's constants; later the writer's handle and what stands around the mempool, once the store is open.
//! Out:    a [`Source`]: before that the genesis header and "not ready", afterwards the newest committed view, and the mempool
//!         together with the view it stands on.
//! Fails:  views with [`ViewError`].

use std::sync::{Arc, OnceLock};

use chain::mempool::{Mempool, SharedMempool};
use chain::upkeep::Followed;
use chain::{Handle, Phase};
use primitives::hash::sha256d;
use primitives::{Block, BlockHash, OutPoint, Params, ScriptHash, SpentCoins, TxNum, Txid, TxoNum};

use crate::prevouts;
use crate::rpc::needs;
use crate::source::{CoinAt, HeaderProof, HistoryEntry, Progress, Source, TxAt, UnspentEntry, View, ViewError};

/// Answers from the writer's views.
pub struct Confirmed {
    handle: OnceLock<Handle>,
    waiting: OnceLock<Waiting>,
    genesis: [u8; 80],
}

/// The mempool and what stands around it.
pub struct Waiting {
    /// The mempool.
    pub mempool: SharedMempool,
    /// How far it has followed the chain.
    pub followed: Arc<Followed>,
    /// The way in for transactions.
    pub pool: Arc<dyn needs::Mempool>,
}

impl Confirmed {
    /// Answers with the genesis header until [`Confirmed::open`] is called.
    pub fn new(params: &Params) -> Confirmed {
        Confirmed { handle: OnceLock::new(), waiting: OnceLock::new(), genesis: params.genesis.encode() }
    }

    /// Answers from `handle` and the mempool from now on; a second handle is ignored.
    pub fn open(&self, handle: Handle, waiting: Waiting) {
        let _ = self.waiting.set(waiting);
        let _ = self.handle.set(handle);
    }
}

impl Source for Confirmed {
    fn progress(&self) -> Progress {
        let Some(handle) = self.handle.get() else {
            return Progress { index_height: 0, headers_height: 0, ready: false };
        };
        let status = handle.status();
        let index_height = handle.view().tip().height;
        let headers_height = status.headers_height.max(index_height);
        Progress { index_height, headers_height, ready: status.phase == Phase::Following }
    }

    fn view(&self) -> Arc<dyn View> {
        match self.handle.get() {
            Some(handle) => Arc::new(Committed(handle.view())),
            None => Arc::new(GenesisOnly(self.genesis)),
        }
    }

    fn height_of(&self, hash: &BlockHash) -> Option<u32> {
        Some(self.handle.get()?.header(hash)?.height)
    }

    fn still(&self, read: &mut dyn FnMut(Arc<dyn View>, Option<&Mempool>)) -> bool {
        let Some(Waiting { mempool, followed, .. }) = self.waiting.get() else {
            read(self.view(), None);
            return true;
        };
        let still = followed.still(mempool, |view, mempool| read(Arc::new(Committed(view.clone())), Some(mempool)));
        still.is_some()
    }

    fn followed(&self, number: u64) {
        if let Some(waiting) = self.waiting.get() {
            waiting.followed.wait_for(number);
        }
    }

    fn pool(&self) -> Option<Arc<dyn needs::Mempool>> {
        Some(self.waiting.get()?.pool.clone())
    }

    fn catch_up(&self) {
        if let Some(waiting) = self.waiting.get() {
            // Where it gives up the next try fails, and says so.
            waiting.followed.wait_fresh();
        }
    }
}

/// A view of the writer's.
struct Committed(Arc<chain::View>);

fn told<T>(result: Result<T, chain::ViewError>) -> Result<T, ViewError> {
    result.map_err(|error| match error {
        chain::ViewError::Stale => ViewError::Stale,
        error => ViewError::Read(error.to_string()),
    })
}

fn entry(e: chain::HistoryEntry) -> HistoryEntry {
    HistoryEntry { height: e.height, tx_num: e.tx_num, txid: e.txid }
}

impl View for Committed {
    fn tip_height(&self) -> u32 {
        self.0.tip().height
    }

    fn header(&self, height: u32) -> Result<Option<[u8; 80]>, ViewError> {
        told(self.0.header(height))
    }

    fn headers(&self, start: u32, count: u32) -> Result<Vec<u8>, ViewError> {
        told(self.0.headers(start, count))
    }

    fn history(&self, script: &ScriptHash, from: TxNum, limit: usize) -> Result<Vec<HistoryEntry>, ViewError> {
        let entries = told(self.0.history(script, from, limit))?;
        Ok(entries.into_iter().map(entry).collect())
    }

    fn histories(&self, scripts: &[ScriptHash], limit: usize) -> Result<Vec<Vec<HistoryEntry>>, ViewError> {
        let all = told(self.0.histories(scripts, limit))?;
        Ok(all.into_iter().map(|entries| entries.into_iter().map(entry).collect()).collect())
    }

    fn history_count(&self, script: &ScriptHash, limit: usize) -> Result<usize, ViewError> {
        told(self.0.history_count(script, limit))
    }

    fn unspent(&self, script: &ScriptHash, from: TxoNum, limit: usize) -> Result<Vec<UnspentEntry>, ViewError> {
        let entries = told(self.0.unspent(script, from, limit))?;
        let entry = |e: chain::UnspentEntry| UnspentEntry {
            height: e.height,
            txid: e.outpoint.txid,
            vout: e.outpoint.vout,
            value_sat: e.value_sat,
            txo_num: e.txo_num,
        };
        Ok(entries.into_iter().map(entry).collect())
    }

    fn balance_sat(&self, script: &ScriptHash) -> Result<u64, ViewError> {
        told(self.0.balance_sat(script))
    }

    fn transaction(&self, txid: &Txid) -> Result<Option<TxAt>, ViewError> {
        let found = told(self.0.transaction(txid))?;
        Ok(found.map(|tx| TxAt { height: tx.height, pos: tx.position, bytes: tx.bytes }))
    }

    fn locate(&self, txid: &Txid) -> Result<Option<(u32, u32)>, ViewError> {
        let found = told(self.0.transaction(txid))?;
        Ok(found.map(|tx| (tx.height, tx.position)))
    }

    fn coin(&self, outpoint: &OutPoint) -> Result<Option<CoinAt>, ViewError> {
        let found = self.0.snapshot().coin(outpoint).map_err(chain::ViewError::from);
        let coin = |coin: primitives::Coin<'_>| CoinAt {
            height: coin.height,
            value_sat: coin.value_sat,
            script: coin.script.to_vec(),
        };
        Ok(told(found)?.map(|found| coin(found.coin())))
    }

    fn spender(&self, outpoint: &OutPoint) -> Result<Option<(Txid, u32)>, ViewError> {
        Ok(told(self.0.spender(outpoint))?.map(|spender| (spender.txid, spender.height)))
    }

    fn block_and_spent(&self, height: u32) -> Result<Option<(Block, SpentCoins)>, ViewError> {
        let Some(bytes) = told(self.0.block_bytes(height))? else { return Ok(None) };
        let unread = |_| ViewError::Read(format!("the bytes of block {height} are no block"));
        let block = Block::parse(bytes).map_err(unread)?;
        let spent = told(prevouts::of_block(&self.0, &block, height))?;
        Ok(Some((block, spent)))
    }

    fn first_tx_num(&self, height: u32) -> Result<TxNum, ViewError> {
        told(self.0.first_tx_num(height))
    }

    fn txid_at(&self, height: u32, pos: u32) -> Result<Option<Txid>, ViewError> {
        told(self.0.txid_at(height, pos))
    }

    fn merkle_branch(&self, height: u32, pos: u32) -> Result<Option<Vec<[u8; 32]>>, ViewError> {
        told(self.0.merkle_branch(height, pos))
    }

    fn header_proof(&self, height: u32, cp_height: u32) -> Result<HeaderProof, ViewError> {
        told(self.0.header_proof(height, cp_height))?.ok_or(ViewError::Stale)
    }
}

/// What is known before the store is open.
struct GenesisOnly([u8; 80]);

impl View for GenesisOnly {
    fn tip_height(&self) -> u32 {
        0
    }

    fn header(&self, height: u32) -> Result<Option<[u8; 80]>, ViewError> {
        Ok((height == 0).then_some(self.0))
    }

    fn headers(&self, start: u32, count: u32) -> Result<Vec<u8>, ViewError> {
        Ok(if start == 0 && count > 0 { self.0.to_vec() } else { Vec::new() })
    }

    fn history(&self, _: &ScriptHash, _: TxNum, _: usize) -> Result<Vec<HistoryEntry>, ViewError> {
        Ok(Vec::new())
    }

    fn unspent(&self, _: &ScriptHash, _: TxoNum, _: usize) -> Result<Vec<UnspentEntry>, ViewError> {
        Ok(Vec::new())
    }

    fn balance_sat(&self, _: &ScriptHash) -> Result<u64, ViewError> {
        Ok(0)
    }

    fn transaction(&self, _: &Txid) -> Result<Option<TxAt>, ViewError> {
        Ok(None)
    }

    fn coin(&self, _: &OutPoint) -> Result<Option<CoinAt>, ViewError> {
        Ok(None)
    }

    fn spender(&self, _: &OutPoint) -> Result<Option<(Txid, u32)>, ViewError> {
        Ok(None)
    }

    fn first_tx_num(&self, _: u32) -> Result<TxNum, ViewError> {
        Ok(0)
    }

    fn txid_at(&self, _: u32, _: u32) -> Result<Option<Txid>, ViewError> {
        Ok(None)
    }

    fn merkle_branch(&self, _: u32, _: u32) -> Result<Option<Vec<[u8; 32]>>, ViewError> {
        Ok(None)
    }

    fn header_proof(&self, _: u32, _: u32) -> Result<HeaderProof, ViewError> {
        Ok((Vec::new(), sha256d(&self.0)))
    }
}
