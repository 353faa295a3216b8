//! The store as its one writer sees it.
//!
//! In:     blocks in chain order, batches of rows, coins.
//! Out:    durable commits, and a snapshot of each.
//! Fails:  [`StoreError`]; after a failed write or sync every further one is refused.

use std::path::Path;
use std::sync::Arc;

use primitives::{BlockHash, Params, TxNum, TxoNum};
use stdx::disk::Disk;
use stdx::pool::Pool;

use crate::blockfiles::{Found, Position};
use crate::coins::Coins;
use crate::error::StoreError;
use crate::merge::{MergeJob, MergedSegment};
use crate::row::Batch;
use crate::snapshot::Snapshot;

/// What an open needs beside the folder.
#[derive(Clone, Debug)]
pub struct Options {
    /// Key of the script tags for a store that is made now; random. An existing store keeps its own.
    pub tag_key_seed: [u8; 16],
}

/// The last block of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tip {
    /// Its height.
    pub height: u32,
    /// Its hash.
    pub hash: BlockHash,
    /// Work of the chain up to it, 32 bytes big endian.
    pub chainwork: [u8; 32],
}

/// Where the block at a height lies, and its first ordinals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockEntry {
    /// Where its bytes are.
    pub position: Position,
    /// Ordinal of its coinbase transaction.
    pub first_tx_num: TxNum,
    /// Ordinal of its first output.
    pub first_txo_num: TxoNum,
}

/// Where a transaction lies in its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxEntry {
    /// Offset of its first byte in the block; below 2^24.
    pub offset: u32,
    /// Outputs of the block's transactions before it; below 2^24.
    pub first_output: u32,
}

/// A block seen in the block files, on whatever branch.
pub type FoundEntry = Found;

/// What one commit makes durable.
pub struct Cut<'a> {
    /// Tip after the blocks pushed so far; None while there is no block.
    pub tip: Option<Tip>,
    /// Rows of the blocks since the last cut.
    pub batch: Batch,
    /// The coins; what changed in them is taken out.
    pub coins: &'a mut Coins,
}

/// A cut to be sorted and written on any thread.
pub struct CutJob {}

/// What a [`CutJob`] wrote.
pub struct WrittenCut {}

/// The store.
pub struct Store {}

impl Store {
    /// Opens or makes a store: the newest valid commit is taken, what it does not name is cut or removed.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, params: &Params, options: &Options) -> Result<Store, StoreError> {
        todo!()
    }
    /// The committed state.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        todo!()
    }
    /// Blocks connected, committed or not.
    pub fn block_count(&self) -> u32 {
        todo!()
    }
    /// Transactions of connected blocks.
    pub fn tx_count(&self) -> TxNum {
        todo!()
    }
    /// Outputs of connected blocks.
    pub fn txo_count(&self) -> TxoNum {
        todo!()
    }
    /// Blocks seen in block files.
    pub fn found_count(&self) -> u32 {
        todo!()
    }
    /// Appends a block seen in block files.
    pub fn push_found(&mut self, found: &Found) {
        todo!()
    }
    /// Up to `count` of the blocks seen, from `first` on.
    pub fn found(&self, first: u32, count: u32) -> Result<Vec<FoundEntry>, StoreError> {
        todo!()
    }
    /// Forgets every block seen (another blocks folder is used).
    pub fn clear_found(&mut self) {
        todo!()
    }
    /// Appends a connected block: header, position, its transactions, and the number of its outputs.
    pub fn push_block(&mut self, header: &[u8; 80], position: Position, txs: &[TxEntry], outputs: u32) {
        todo!()
    }
    /// Cuts the chain to `block_count` blocks. Where that drops committed blocks, the next thing must be a commit:
    /// pushing a block before it panics.
    pub fn truncate_blocks(&mut self, block_count: u32) -> Result<(), StoreError> {
        todo!()
    }
    /// Header of a connected block.
    pub fn header(&self, height: u32) -> Result<Option<[u8; 80]>, StoreError> {
        todo!()
    }
    /// Entry of a connected block.
    pub fn block_entry(&self, height: u32) -> Result<Option<BlockEntry>, StoreError> {
        todo!()
    }
    /// Entry of a transaction.
    pub fn tx_entry(&self, tx_num: TxNum) -> Result<Option<TxEntry>, StoreError> {
        todo!()
    }
    /// Takes what changed since the last cut out of `cut.coins` and the columns; nothing is written yet. Until
    /// [`Store::install`], coins go on being spent and created, and blocks pushed, but none truncated.
    pub fn cut(&mut self, cut: Cut<'_>) -> Result<CutJob, StoreError> {
        todo!()
    }
    /// Makes a written cut the durable state and publishes its snapshot.
    pub fn install(&mut self, written: WrittenCut, coins: &mut Coins) -> Result<(), StoreError> {
        todo!()
    }
    /// [`Store::cut`], [`CutJob::run`] and [`Store::install`] in a row.
    pub fn commit(&mut self, cut: Cut<'_>, pool: &Pool) -> Result<(), StoreError> {
        todo!()
    }
    /// A merge worth doing now, if there is one and none is running.
    pub fn pick_merge(&mut self) -> Option<MergeJob> {
        todo!()
    }
    /// Puts a merged segment in place of its inputs from the next commit on.
    pub fn install_merge(&mut self, merged: Result<MergedSegment, StoreError>) -> Result<(), StoreError> {
        todo!()
    }
}

impl CutJob {
    /// Sorts and writes one segment; returns once it is on the disk.
    pub fn run(self, pool: &Pool) -> Result<WrittenCut, StoreError> {
        todo!()
    }
}
