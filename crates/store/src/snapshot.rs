//! What readers see: the store at one tip.
//!
//! In:     keys and ordinals.
//! Out:    rows, coins and entries as of the commit that made the snapshot.
//! Fails:  [`StoreError::Stale`] once a reorganisation has cut the columns it reads (rows and coins stay readable);
//!         [`StoreError::Corrupt`], `Io`.

use std::sync::atomic::Ordering;
use std::sync::{Arc, RwLockReadGuard};

use primitives::{Coin, OutPoint, TxNum, TxoNum};

use crate::columns::{ColumnView, FilterReader};
use crate::entries::{BlockEntry, FILTER_ENTRY_BYTES, FilterEntry, TX_ENTRY_BYTES, TxEntry};
use crate::error::StoreError;
use crate::merge::{CoinMerge, RowMerge};
use crate::places::Places;
use crate::row::{Row, Table};
use crate::segment::{CoinCursor, Section, Segment, coin_of_body, key_of, outpoint_of};
use crate::store::{Ordinals, Shared, Tip};

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
pub struct Snapshot {
    pub(crate) shared: Arc<Shared>,
    /// Reorganisations of the columns before this snapshot.
    pub(crate) epoch: u64,
    pub(crate) tip: Option<Tip>,
    pub(crate) txo_count: TxoNum,
    /// Oldest first.
    pub(crate) segments: Vec<Arc<Segment>>,
    pub(crate) headers: ColumnView,
    pub(crate) blocks: ColumnView,
    pub(crate) txs: ColumnView,
    pub(crate) filters: ColumnView,
    pub(crate) filter_bytes: FilterReader,
}

/// Rows and bytes of one section over all segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionSize {
    /// "coins", "history", "unspent", "txid", "spender" or "columns".
    pub name: &'static str,
    /// Rows, deletions included.
    pub rows: u64,
    /// Bytes of files.
    pub bytes: u64,
}

/// Live rows, in the order of their keys; one block of each segment is in memory.
pub struct Rows {
    merge: RowMerge,
    /// Only rows with this `hi`.
    hi: Option<u64>,
    failed: bool,
}

impl Iterator for Rows {
    type Item = Result<Row, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.failed {
            match self.merge.next() {
                Ok(Some((row, _))) if self.hi.is_some_and(|hi| hi != row.hi) => return None,
                Ok(Some((row, _))) if row.op.is_live() => return Some(Ok(row)),
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

/// Rows of one `hi` after the other: those that lie near each other cost one search together.
pub struct RowsOfMany {
    merge: RowMerge,
}

impl RowsOfMany {
    /// Live rows of `hi`, at most `limit`, in the order of `lo`; each time another `hi`, greater than those before.
    pub fn of(&mut self, hi: u64, limit: usize) -> Result<Vec<Row>, StoreError> {
        self.merge.forward(hi)?;
        let mut rows = Vec::new();
        while rows.len() < limit && self.merge.next_hi() == Some(hi) {
            rows.extend(self.merge.next()?.map(|(row, _)| row).filter(|row| row.op.is_live()));
        }
        Ok(rows)
    }
}

impl Snapshot {
    /// The last block, None before the first commit with blocks.
    pub fn tip(&self) -> Option<Tip> {
        self.tip
    }

    /// Blocks in the chain: the tip's height plus one.
    pub fn block_count(&self) -> u32 {
        self.headers.entries as u32
    }

    /// Transactions in the chain.
    pub fn tx_count(&self) -> TxNum {
        self.txs.entries as u32
    }

    /// Outputs in the chain.
    pub fn txo_count(&self) -> TxoNum {
        self.txo_count
    }

    /// Key of the script tags.
    pub fn tag_key(&self) -> [u8; 16] {
        self.shared.tag_key
    }

    /// Live rows with this `hi` and `lo >= lo_from`, in the order of `lo`, in bounded memory.
    pub fn rows(&self, table: Table, hi: u64, lo_from: u64) -> Result<Rows, StoreError> {
        let merge = RowMerge::seek_hi(&self.segments, table, hi, lo_from)?;
        Ok(Rows { merge, hi: Some(hi), failed: false })
    }

    /// Live rows of many `hi`, of which `first` is the least.
    pub fn rows_of_many(&self, table: Table, first: u64) -> Result<RowsOfMany, StoreError> {
        Ok(RowsOfMany { merge: RowMerge::seek(&self.segments, table, first, 0)? })
    }

    /// Every live row of a table, in the order of (hi, lo).
    pub fn all_rows(&self, table: Table) -> Result<Rows, StoreError> {
        Ok(Rows { merge: RowMerge::seek(&self.segments, table, 0, 0)?, hi: None, failed: false })
    }

    /// An unspent coin.
    pub fn coin(&self, outpoint: &OutPoint) -> Result<Option<CoinBuf>, StoreError> {
        let key = key_of(outpoint);
        for segment in self.segments.iter().rev().filter(|segment| segment.may_have_coin(&key)) {
            let cursor = CoinCursor::seek(segment, &key)?;
            let Some(row) = cursor.peek().filter(|row| row.key == key) else { continue };
            if !row.op.is_live() {
                return Ok(None);
            }
            return coin_of_body(row.body).map(Some).map_err(|_| segment.corrupt("a coin"));
        }
        Ok(None)
    }

    /// Gives `each` every unspent coin, in the order of txid and output; it ends the walk by returning false.
    pub fn each_coin(&self, each: &mut dyn FnMut(OutPoint, Coin<'_>) -> bool) -> Result<(), StoreError> {
        let mut merge = CoinMerge::new(&self.segments)?;
        let (mut go_on, mut damaged) = (true, false);
        while go_on
            && merge.next(&mut |row, _| {
                if row.op.is_live() {
                    match coin_of_body(row.body) {
                        Ok(coin) => go_on = each(outpoint_of(&row.key), coin.coin()),
                        Err(_) => (damaged, go_on) = (true, false),
                    }
                }
            })?
        {}
        match self.segments.first() {
            Some(segment) if damaged => Err(segment.corrupt("a coin")),
            _ => Ok(()),
        }
    }

    /// Runs a read of a column; whatever it gave is void once a reorganisation has cut the column.
    pub(crate) fn column<T>(&self, read: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        let answer = read();
        if self.shared.epoch.load(Ordering::Acquire) != self.epoch {
            return Err(StoreError::Stale);
        }
        answer
    }

    /// The header at a height.
    pub fn header(&self, height: u32) -> Result<Option<[u8; 80]>, StoreError> {
        let bytes = self.headers(height, 1)?;
        Ok(bytes.try_into().ok())
    }

    /// Up to `count` headers from a height on, 80 bytes each.
    pub fn headers(&self, height: u32, count: u32) -> Result<Vec<u8>, StoreError> {
        self.column(|| self.headers.range(height.into(), count.into()))
    }

    /// Where the block at a height lies.
    pub fn block_entry(&self, height: u32) -> Result<Option<BlockEntry>, StoreError> {
        let bytes = self.column(|| self.blocks.range(height.into(), 1))?;
        Ok(bytes.as_slice().try_into().ok().map(BlockEntry::decode))
    }

    /// Where a transaction lies in its block.
    pub fn tx_entry(&self, tx_num: TxNum) -> Result<Option<TxEntry>, StoreError> {
        Ok(self.tx_entries(tx_num, 1)?.pop())
    }

    /// Up to `count` entries from `tx_num` on.
    pub fn tx_entries(&self, tx_num: TxNum, count: u32) -> Result<Vec<TxEntry>, StoreError> {
        let bytes = self.column(|| self.txs.range(tx_num.into(), count.into()))?;
        let entry = |bytes: &[u8]| TxEntry::decode(bytes.try_into().expect("whole entries"));
        Ok(bytes.chunks_exact(TX_ENTRY_BYTES).map(entry).collect())
    }

    /// Block filters: those of the heights below this.
    pub fn filter_count(&self) -> u32 {
        self.filters.entries as u32
    }

    /// Up to `count` entries of block filters from a height on.
    pub fn filter_entries(&self, height: u32, count: u32) -> Result<Vec<FilterEntry>, StoreError> {
        let bytes = self.column(|| self.filters.range(height.into(), count.into()))?;
        let entry = |bytes: &[u8]| FilterEntry::decode(bytes.try_into().expect("whole entries"));
        Ok(bytes.chunks_exact(FILTER_ENTRY_BYTES).map(entry).collect())
    }

    /// The filter of the block at a height, and its entry; none where there is none.
    pub fn filter(&self, height: u32) -> Result<Option<(FilterEntry, Vec<u8>)>, StoreError> {
        if height >= self.filter_count() {
            return Ok(None);
        }
        let first = height.saturating_sub(1);
        let entries = self.filter_entries(first, height - first + 1)?;
        let Some(entry) = entries.last() else { return Ok(None) };
        let start = if height == 0 { 0 } else { entries[0].end };
        let bytes = self.column(|| self.filter_bytes.read(start, entry))?;
        Ok(Some((*entry, bytes)))
    }

    /// Bytes of the filters and of their column.
    pub fn filters_file_bytes(&self) -> Result<u64, StoreError> {
        let last = self.column(|| self.filters.last_entry())?;
        let end = last.map_or(0, |bytes| FilterEntry::decode(&bytes.try_into().expect("a whole entry")).end);
        Ok(end + self.filters.file_bytes())
    }

    fn ordinals(&self) -> RwLockReadGuard<'_, Ordinals> {
        self.shared.ordinals.read().expect("nobody panics while holding the ordinals")
    }

    /// Height of the block of a transaction.
    pub fn height_of_tx(&self, tx_num: TxNum) -> Result<Option<u32>, StoreError> {
        self.column(|| {
            let ordinals = self.ordinals();
            let blocks = ordinals.first_tx_num.len().min(self.block_count() as usize);
            let known = tx_num < self.tx_count();
            let above = ordinals.first_tx_num[..blocks].partition_point(|first| *first <= tx_num);
            Ok(above.checked_sub(1).filter(|_| known).map(|height| height as u32))
        })
    }

    /// Height of the block of an output.
    pub fn height_of_txo(&self, txo_num: TxoNum) -> Result<Option<u32>, StoreError> {
        self.column(|| {
            let ordinals = self.ordinals();
            let blocks = ordinals.first_txo_num.len().min(self.block_count() as usize);
            let known = txo_num < self.txo_count;
            let above = ordinals.first_txo_num[..blocks].partition_point(|first| *first <= txo_num);
            Ok(above.checked_sub(1).filter(|_| known).map(|height| height as u32))
        })
    }

    /// Ordinals of the transactions of the block at a height.
    pub fn txs_of_block(&self, height: u32) -> Result<Option<std::ops::Range<TxNum>>, StoreError> {
        self.column(|| {
            let ordinals = self.ordinals();
            let first = |height: u32| ordinals.first_tx_num.get(height as usize).copied();
            let Some(start) = first(height).filter(|_| height < self.block_count()) else { return Ok(None) };
            let last = height + 1 == self.block_count();
            Ok(Some(start..if last { self.tx_count() } else { first(height + 1).unwrap_or(start) }))
        })
    }

    /// Height, transaction and position in it of an output.
    pub fn place_of_txo(&self, txo_num: TxoNum) -> Result<Option<(u32, TxNum, u32)>, StoreError> {
        let place = self.places().output(txo_num)?;
        Ok(place.map(|(tx, vout)| (tx.height, tx.tx_num, vout)))
    }

    /// Transaction and position in it of an output.
    pub fn tx_of_txo(&self, txo_num: TxoNum) -> Result<Option<(TxNum, u32)>, StoreError> {
        Ok(self.place_of_txo(txo_num)?.map(|(_, tx_num, vout)| (tx_num, vout)))
    }

    /// For looking up the places of several transactions or outputs, best in rising order.
    pub fn places(&self) -> Places<'_> {
        Places::new(self)
    }

    /// Rows and bytes by section; the columns' as of this snapshot.
    pub fn sizes(&self) -> Vec<SectionSize> {
        let names = ["coins", "history", "unspent", "txid", "spender"];
        let sum = |name, section: Section| {
            let sections = self.segments.iter().map(|segment| segment.section(section));
            let (rows, bytes) =
                sections.fold((0, 0), |(rows, bytes), open| (rows + open.rows, bytes + open.file_bytes()));
            SectionSize { name, rows, bytes }
        };
        let mut sizes: Vec<SectionSize> = names.into_iter().zip(Section::ALL).map(|(name, s)| sum(name, s)).collect();
        let columns = [&self.headers, &self.blocks, &self.txs];
        let rows = columns.iter().map(|column| column.entries).sum();
        sizes.push(SectionSize {
            name: "columns",
            rows,
            bytes: columns.iter().map(|column| column.file_bytes()).sum(),
        });
        sizes
    }

    /// Segment files.
    pub fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// Bytes of fences and filters in memory.
    pub fn memory_bytes(&self) -> usize {
        self.segments.iter().map(|segment| segment.memory_bytes()).sum()
    }
}
