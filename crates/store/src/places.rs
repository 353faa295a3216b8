//! Where transactions and outputs lie, for many of them in rising order.
//!
//! In:     ordinals, and the snapshot they are of.
//! Out:    block, height, position and offsets; each page of the columns is read once while neighbours are asked for.
//! Fails:  [`StoreError`]; `Stale` as the snapshot's own columns.

use std::ops::Range;

use primitives::{TxNum, TxoNum};

use crate::columns::ColumnView;
use crate::entries::{BLOCK_ENTRY_BYTES, BlockEntry, TX_ENTRY_BYTES, TxEntry};
use crate::error::StoreError;
use crate::snapshot::Snapshot;

/// Where a transaction lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxPlace {
    /// Its ordinal.
    pub tx_num: TxNum,
    /// Its block.
    pub height: u32,
    /// Where its block lies, and the block's first ordinals.
    pub block: BlockEntry,
    /// Of its first byte in the block.
    pub offset: u32,
    /// Of the next transaction's first byte; none for the block's last.
    pub end: Option<u32>,
    /// Outputs of the block's transactions before it.
    pub first_output: u32,
}

impl TxPlace {
    /// Its position in the block, from zero.
    pub fn position(&self) -> u32 {
        self.tx_num - self.block.first_tx_num
    }
}

/// The page of a column that was read last.
#[derive(Default)]
struct Page {
    first: u64,
    bytes: Vec<u8>,
}

impl Page {
    fn entry<const WIDTH: usize>(
        &mut self,
        snapshot: &Snapshot,
        column: &ColumnView,
        at: u64,
    ) -> Result<[u8; WIDTH], StoreError> {
        if at < self.first || at >= self.first + (self.bytes.len() / WIDTH) as u64 {
            // Nothing is held meanwhile: a read that fails must not leave another page under this number.
            let mut bytes = std::mem::take(&mut self.bytes);
            self.first = snapshot.column(|| column.page_of(at, &mut bytes))?;
            self.bytes = bytes;
        }
        let from = (at - self.first) as usize * WIDTH;
        Ok(self.bytes[from..from + WIDTH].try_into().expect("a whole entry"))
    }
}

/// The block that was asked for last.
struct KnownBlock {
    height: u32,
    entry: BlockEntry,
    txs: Range<TxNum>,
}

/// A reader of the columns that remembers what it read last.
pub struct Places<'a> {
    snapshot: &'a Snapshot,
    block: Option<KnownBlock>,
    blocks: Page,
    txs: Page,
}

impl<'a> Places<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot) -> Places<'a> {
        Places { snapshot, block: None, blocks: Page::default(), txs: Page::default() }
    }

    fn tx_entry(&mut self, tx_num: TxNum) -> Result<TxEntry, StoreError> {
        let bytes = self.txs.entry::<TX_ENTRY_BYTES>(self.snapshot, &self.snapshot.txs, tx_num.into())?;
        Ok(TxEntry::decode(&bytes))
    }

    /// Makes the block at `height`, which exists, the known one.
    fn enter(&mut self, height: u32) -> Result<&KnownBlock, StoreError> {
        if self.block.as_ref().is_none_or(|block| block.height != height) {
            self.block = None;
            let bytes = self.blocks.entry::<BLOCK_ENTRY_BYTES>(self.snapshot, &self.snapshot.blocks, height.into())?;
            let txs = self.snapshot.txs_of_block(height)?.ok_or(StoreError::Stale)?;
            self.block = Some(KnownBlock { height, entry: BlockEntry::decode(&bytes), txs });
        }
        Ok(self.block.as_ref().expect("it was just put there"))
    }

    /// Where a transaction lies; none at and above the snapshot's count.
    pub fn tx(&mut self, tx_num: TxNum) -> Result<Option<TxPlace>, StoreError> {
        let height = match &self.block {
            Some(block) if block.txs.contains(&tx_num) => block.height,
            _ => match self.snapshot.height_of_tx(tx_num)? {
                Some(height) => height,
                None => return Ok(None),
            },
        };
        let KnownBlock { entry: block, txs, .. } = self.enter(height)?;
        let (block, end_tx) = (*block, txs.end);
        let TxEntry { offset, first_output } = self.tx_entry(tx_num)?;
        let end = if tx_num + 1 < end_tx { Some(self.tx_entry(tx_num + 1)?.offset) } else { None };
        Ok(Some(TxPlace { tx_num, height, block, offset, end, first_output }))
    }

    /// Where the transaction of an output lies, and the output's position in it; none at and above the count.
    pub fn output(&mut self, txo_num: TxoNum) -> Result<Option<(TxPlace, u32)>, StoreError> {
        let Some(height) = self.snapshot.height_of_txo(txo_num)? else { return Ok(None) };
        let block = self.enter(height)?;
        let output = txo_num.checked_sub(block.entry.first_txo_num).ok_or(StoreError::Stale)?;
        // The last transaction that begins at or before the output.
        let (mut low, mut high) = (block.txs.start, block.txs.end);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if u64::from(self.tx_entry(middle)?.first_output) <= output { low = middle } else { high = middle }
        }
        let place = self.tx(low)?.ok_or(StoreError::Stale)?;
        let vout = output.checked_sub(place.first_output.into()).ok_or(StoreError::Stale)?;
        Ok(Some((place, vout as u32)))
    }
}
