//! What the protocols read: confirmed data at one height with the mempool that belongs to it, how far the index is, and what
//! a new tip touched.
//!
//! In:     nothing; `chain` implements these traits, tests bring a chain in memory.
//! Out:    [`Source`] hands out [`View`]s, alone or together with the mempool; [`Event`]s of `chain` tell of new tips.
//! Fails:  [`ViewError`], one variant a reason.

use std::fmt;
use std::sync::Arc;

pub use chain::Event;
use chain::mempool::Mempool;
use primitives::{Block, BlockHash, OutPoint, ScriptHash, SpentCoins, TxNum, Txid, TxoNum};

use crate::rpc::needs;

/// How far the index is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Height up to which addresses are indexed.
    pub index_height: u32,
    /// Height of the best header known.
    pub headers_height: u32,
    /// True when the index has everything that is known: questions about addresses may be answered.
    pub ready: bool,
}

/// Where answers come from.
pub trait Source: Send + Sync {
    /// How far the index is.
    fn progress(&self) -> Progress;
    /// The newest committed state.
    fn view(&self) -> Arc<dyn View>;
    /// Height of a block by its hash, on the best chain or off it.
    fn height_of(&self, hash: &BlockHash) -> Option<u32>;
    /// Reads the mempool, where there is one, and the chain it stands on, both held still: short questions only. False where
    /// the mempool did not catch up with the chain in time.
    fn still(&self, read: &mut dyn FnMut(Arc<dyn View>, Option<&Mempool>)) -> bool {
        read(self.view(), None);
        true
    }
    /// Returns once the mempool has followed the tip that was told of with this number.
    fn followed(&self, number: u64) {
        let _ = number;
    }
    /// The way in for transactions, and estimates of fees; none before there is a mempool.
    fn pool(&self) -> Option<Arc<dyn needs::Mempool>> {
        None
    }
    /// A reorganisation passed under a view: returns when there should be a newer one.
    fn catch_up(&self) {}
}

/// Why a view did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewError {
    /// A reorganisation passed under the view: take a new one.
    Stale,
    /// Reading failed; the text is for the log and not for users.
    Read(String),
}

impl fmt::Display for ViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ViewError::Stale => f.write_str("a reorganisation passed while this was read"),
            ViewError::Read(why) => write!(f, "reading failed: {why}"),
        }
    }
}

impl std::error::Error for ViewError {}

/// A transaction of a script's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// Height of its block.
    pub height: u32,
    /// Its ordinal; the next page begins one after it.
    pub tx_num: TxNum,
    /// Its identifier.
    pub txid: Txid,
}

/// An unspent output of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnspentEntry {
    /// Height of its block.
    pub height: u32,
    /// The transaction that made it.
    pub txid: Txid,
    /// Its position in that transaction.
    pub vout: u32,
    /// Its amount.
    pub value_sat: u64,
    /// Its ordinal; the next page begins one after it.
    pub txo_num: TxoNum,
}

/// A confirmed transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxAt {
    /// Height of its block.
    pub height: u32,
    /// Its position in the block.
    pub pos: u32,
    /// Its bytes, witnesses included.
    pub bytes: Vec<u8>,
}

/// An unspent output of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoinAt {
    /// Height of its block.
    pub height: u32,
    /// Its amount.
    pub value_sat: u64,
    /// Its script.
    pub script: Vec<u8>,
}

/// Siblings from a header's hash up, and the root they lead to.
pub type HeaderProof = (Vec<[u8; 32]>, [u8; 32]);

/// Confirmed data as of one tip.
pub trait View: Send + Sync {
    /// Height of the tip.
    fn tip_height(&self) -> u32;
    /// The 80 bytes of the header at `height`; none above the tip.
    fn header(&self, height: u32) -> Result<Option<[u8; 80]>, ViewError>;
    /// Headers `start..start + count` in a row, 80 bytes each; fewer where the chain ends.
    fn headers(&self, start: u32, count: u32) -> Result<Vec<u8>, ViewError>;
    /// Up to `limit` transactions of the script's history from ordinal `from` on, oldest first.
    fn history(&self, script: &ScriptHash, from: TxNum, limit: usize) -> Result<Vec<HistoryEntry>, ViewError>;
    /// Up to `limit` of the oldest transactions of each script's history, in the order of the scripts.
    fn histories(&self, scripts: &[ScriptHash], limit: usize) -> Result<Vec<Vec<HistoryEntry>>, ViewError> {
        scripts.iter().map(|script| self.history(script, 0, limit)).collect()
    }
    /// The number of entries of the script's history, counted no further than `limit`.
    fn history_count(&self, script: &ScriptHash, limit: usize) -> Result<usize, ViewError> {
        Ok(self.history(script, 0, limit)?.len())
    }
    /// Up to `limit` unspent outputs of the script from ordinal `from` on, oldest first.
    fn unspent(&self, script: &ScriptHash, from: TxoNum, limit: usize) -> Result<Vec<UnspentEntry>, ViewError>;
    /// The sum of the script's unspent outputs.
    fn balance_sat(&self, script: &ScriptHash) -> Result<u64, ViewError>;
    /// A confirmed transaction by its identifier.
    fn transaction(&self, txid: &Txid) -> Result<Option<TxAt>, ViewError>;
    /// An unspent output.
    fn coin(&self, outpoint: &OutPoint) -> Result<Option<CoinAt>, ViewError>;
    /// The confirmed transaction that spends an output, and its height.
    fn spender(&self, outpoint: &OutPoint) -> Result<Option<(Txid, u32)>, ViewError>;
    /// The block at a height that is not above the tip, and the coins it spent; none where blocks are not at hand.
    fn block_and_spent(&self, height: u32) -> Result<Option<(Block, SpentCoins)>, ViewError> {
        let _ = height;
        Ok(None)
    }
    /// Ordinal of the first transaction of the block at a height that is not above the tip.
    fn first_tx_num(&self, height: u32) -> Result<TxNum, ViewError>;
    /// Height and position of a confirmed transaction.
    fn locate(&self, txid: &Txid) -> Result<Option<(u32, u32)>, ViewError> {
        Ok(self.transaction(txid)?.map(|found| (found.height, found.pos)))
    }
    /// The transaction at a position of a block.
    fn txid_at(&self, height: u32, pos: u32) -> Result<Option<Txid>, ViewError>;
    /// Siblings from that transaction up to the block's merkle root; none where there is no such transaction.
    fn merkle_branch(&self, height: u32, pos: u32) -> Result<Option<Vec<[u8; 32]>>, ViewError>;
    /// Proof that the header at `height` is among headers `0..=cp_height`; the caller checked both heights.
    fn header_proof(&self, height: u32, cp_height: u32) -> Result<HeaderProof, ViewError>;
}
