//! What readers see: the store at one tip.
//!
//! In:     keys and ordinals.
//! Out:    rows, coins and entries as of the commit that made the snapshot.
//! Fails:  [`StoreError::Stale`] once a reorganisation has cut what it reads; [`StoreError::Corrupt`], `Io`.

use primitives::{Coin, OutPoint, TxNum, TxoNum};

use crate::error::StoreError;
use crate::row::{Row, Table};
use crate::store::{BlockEntry, Tip, TxEntry};

/// A coin that owns its script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoinBuf {
    /// Amount.
    pub value_sat: u64,
    /// Height of the block that made it.
    pub height: u32,
    /// Made by a coinbase.
    pub coinbase: bool,
    /// Its ordinal.
    pub txo_num: TxoNum,
    /// Output script.
    pub script: Vec<u8>,
}

impl CoinBuf {
    /// The view.
    pub fn coin(&self) -> Coin<'_> {
        let CoinBuf { value_sat, height, coinbase, txo_num, ref script } = *self;
        Coin { value_sat, height, coinbase, txo_num, script }
    }
}

/// The store at one tip; shared by `Arc`, cheap to keep, and it keeps the files it reads alive.
pub struct Snapshot {}

/// Live rows of one `hi`, in the order of `lo`.
pub struct Rows<'a> {
    _snapshot: &'a Snapshot,
}

impl Iterator for Rows<'_> {
    type Item = Result<Row, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        todo!()
    }
}

impl Snapshot {
    /// The last block, None before the first commit with blocks.
    pub fn tip(&self) -> Option<Tip> {
        todo!()
    }
    /// Blocks in the chain: the tip's height plus one.
    pub fn block_count(&self) -> u32 {
        todo!()
    }
    /// Transactions in the chain.
    pub fn tx_count(&self) -> TxNum {
        todo!()
    }
    /// Outputs in the chain.
    pub fn txo_count(&self) -> TxoNum {
        todo!()
    }
    /// Key of the script tags.
    pub fn tag_key(&self) -> [u8; 16] {
        todo!()
    }
    /// Live rows with this `hi` and `lo >= lo_from`, in the order of `lo`, in bounded memory.
    pub fn rows(&self, table: Table, hi: u64, lo_from: u64) -> Result<Rows<'_>, StoreError> {
        todo!()
    }
    /// An unspent coin.
    pub fn coin(&self, outpoint: &OutPoint) -> Result<Option<CoinBuf>, StoreError> {
        todo!()
    }
    /// The header at a height.
    pub fn header(&self, height: u32) -> Result<Option<[u8; 80]>, StoreError> {
        todo!()
    }
    /// Up to `count` headers from a height on, 80 bytes each.
    pub fn headers(&self, height: u32, count: u32) -> Result<Vec<u8>, StoreError> {
        todo!()
    }
    /// Where the block at a height lies.
    pub fn block_entry(&self, height: u32) -> Result<Option<BlockEntry>, StoreError> {
        todo!()
    }
    /// Where a transaction lies in its block.
    pub fn tx_entry(&self, tx_num: TxNum) -> Result<Option<TxEntry>, StoreError> {
        todo!()
    }
    /// Up to `count` entries from `tx_num` on.
    pub fn tx_entries(&self, tx_num: TxNum, count: u32) -> Result<Vec<TxEntry>, StoreError> {
        todo!()
    }
    /// Height of the block of a transaction.
    pub fn height_of_tx(&self, tx_num: TxNum) -> Option<u32> {
        todo!()
    }
    /// Transaction and position in it of an output.
    pub fn tx_of_txo(&self, txo_num: TxoNum) -> Result<Option<(TxNum, u32)>, StoreError> {
        todo!()
    }
}
