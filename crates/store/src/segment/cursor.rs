//! Reading a section in order, from any key on.
//!
//! In:     an open segment, a table, a key.
//! Out:    rows at and behind the key; one block is in memory at a time.
//! Fails:  [`StoreError`]; a cursor that failed is not used again.

use std::sync::Arc;

use stdx::bytes::Short;

use super::coin::{COIN_KEY_BYTES, CoinRow, CoinRows};
use super::file::Segment;
use super::rows::RowDecoder;
use super::section::CHECKSUM_BYTES;
use super::{Section, row_key};
use crate::error::StoreError;
use crate::row::{Row, Table};

/// Walks the data blocks of a section.
struct Blocks {
    segment: Arc<Segment>,
    section: Section,
    /// Next fence of the top.
    top_at: usize,
    /// The index block in use, checksum cut off, and its next fence.
    index: Arc<Vec<u8>>,
    index_at: usize,
}

/// The last of `fences` whose key is not above `key`, or the first.
fn last_at_or_before(fences: &[u8], key: &[u8], fence_bytes: usize) -> usize {
    let (mut low, mut high) = (0, fences.len() / fence_bytes);
    while low < high {
        let middle = (low + high) / 2;
        let at = middle * fence_bytes;
        if fences[at..at + key.len()] <= *key { low = middle + 1 } else { high = middle }
    }
    low.saturating_sub(1)
}

/// Offset and length in the fence at `at`.
fn fence_target(fences: &[u8], at: usize, section: Section) -> Option<(u64, usize)> {
    let start = at * section.fence_bytes() + section.key_bytes();
    let nine = fences.get(start..start + 9)?;
    let mut number = [0; 8];
    number[..6].copy_from_slice(&nine[..6]);
    let offset = u64::from_le_bytes(number);
    let length = u32::from_le_bytes([nine[6], nine[7], nine[8], 0]);
    Some((offset, length as usize))
}

impl Blocks {
    /// Stands in front of the block that holds `key`, or would.
    fn seek(segment: Arc<Segment>, section: Section, key: &[u8]) -> Result<Blocks, StoreError> {
        let top = &segment.section(section).top;
        let top_at = last_at_or_before(top, key, section.fence_bytes());
        let mut blocks = Blocks { segment, section, top_at, index: Arc::default(), index_at: 0 };
        if blocks.read_index()? {
            blocks.index_at = last_at_or_before(&blocks.index, key, section.fence_bytes());
        }
        Ok(blocks)
    }

    /// Reads the next index block; false at the end.
    fn read_index(&mut self) -> Result<bool, StoreError> {
        let top = &self.segment.section(self.section).top;
        let Some((offset, length)) = fence_target(top, self.top_at, self.section) else { return Ok(false) };
        self.index = self.segment.read_index_block(self.section, self.top_at, offset, length)?;
        (self.top_at, self.index_at) = (self.top_at + 1, 0);
        Ok(true)
    }

    /// The first key of the next data block, as far as the index block in use knows it.
    fn next_key(&self) -> Option<&[u8]> {
        let start = self.index_at * self.section.fence_bytes();
        self.index.get(start..start + self.section.key_bytes())
    }

    /// Reads the next data block, checksum included; false at the end.
    fn read_next(&mut self, block: &mut Vec<u8>) -> Result<bool, StoreError> {
        if self.index_at * self.section.fence_bytes() >= self.index.len() && !self.read_index()? {
            return Ok(false);
        }
        let target = fence_target(&self.index, self.index_at, self.section);
        let (offset, length) = target.ok_or_else(|| self.segment.corrupt("an index block"))?;
        self.segment.read_block(self.section, offset, length, block)?;
        self.index_at += 1;
        Ok(true)
    }
}

/// Rows of a numbered table of one segment.
pub(crate) struct RowCursor {
    blocks: Blocks,
    table: Table,
    block: Vec<u8>,
    decoder: Option<RowDecoder>,
    current: Option<Row>,
}

impl RowCursor {
    /// Stands at the first row with a key of at least (hi, lo).
    pub(crate) fn seek(segment: &Arc<Segment>, table: Table, hi: u64, lo: u64) -> Result<RowCursor, StoreError> {
        let blocks = Blocks::seek(segment.clone(), Section::Rows(table), &row_key(hi, lo))?;
        let mut cursor = RowCursor { blocks, table, block: Vec::new(), decoder: None, current: None };
        cursor.next_from((hi, lo))?;
        Ok(cursor)
    }

    /// Goes on to the first row with a key of at least (hi, lo), which is not in front of where it stands.
    pub(crate) fn forward(&mut self, hi: u64, lo: u64) -> Result<(), StoreError> {
        let Some(row) = self.current else { return Ok(()) };
        if (row.hi, row.lo) >= (hi, lo) {
            return Ok(());
        }
        let key = row_key(hi, lo);
        if self.blocks.next_key().is_some_and(|next| key[..] < *next) {
            return self.next_from((hi, lo));
        }
        // In another block: the fences know which.
        self.blocks = Blocks::seek(self.blocks.segment.clone(), self.blocks.section, &key)?;
        self.decoder = None;
        self.next_from((hi, lo))
    }

    /// The row it stands at.
    #[inline]
    pub(crate) fn peek(&self) -> Option<&Row> {
        self.current.as_ref()
    }

    /// Moves on by one row.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<(), StoreError> {
        self.step(|decoder, table, block| decoder.next_row(table, block))
    }

    /// Moves on by one row at least, to one with a key of at least `key`.
    fn next_from(&mut self, key: (u64, u64)) -> Result<(), StoreError> {
        self.step(|decoder, table, block| decoder.next_from(table, block, key))
    }

    #[inline]
    fn step(
        &mut self,
        next: impl Fn(&mut RowDecoder, Table, &[u8]) -> Result<Option<Row>, Short>,
    ) -> Result<(), StoreError> {
        loop {
            if let Some(decoder) = &mut self.decoder {
                let row = next(decoder, self.table, &self.block).map_err(|_| self.corrupt())?;
                if row.is_some() {
                    self.current = row;
                    return Ok(());
                }
            }
            if !self.blocks.read_next(&mut self.block)? {
                (self.current, self.decoder) = (None, None);
                return Ok(());
            }
            self.decoder = Some(RowDecoder::new(&self.block).map_err(|_| self.corrupt())?);
        }
    }

    fn corrupt(&self) -> StoreError {
        self.blocks.segment.corrupt("a block of rows")
    }
}

/// Coins of one segment.
pub(crate) struct CoinCursor {
    blocks: Blocks,
    block: Vec<u8>,
    /// Where the next row begins.
    position: usize,
    key: [u8; COIN_KEY_BYTES],
    /// The row it stands at: operation, and where its body is in `block`.
    current: Option<(crate::row::Op, std::ops::Range<usize>)>,
}

impl CoinCursor {
    /// Stands at the first coin with a key of at least `key`.
    pub(crate) fn seek(segment: &Arc<Segment>, key: &[u8; COIN_KEY_BYTES]) -> Result<CoinCursor, StoreError> {
        let blocks = Blocks::seek(segment.clone(), Section::Coins, key)?;
        let (block, first) = (Vec::new(), [0; COIN_KEY_BYTES]);
        let mut cursor = CoinCursor { blocks, block, position: 0, key: first, current: None };
        cursor.advance()?;
        while cursor.current.is_some() && cursor.key < *key {
            cursor.advance()?;
        }
        Ok(cursor)
    }

    /// The row it stands at.
    pub(crate) fn peek(&self) -> Option<CoinRow<'_>> {
        let (op, body) = self.current.as_ref()?;
        Some(CoinRow { key: self.key, op: *op, body: &self.block[body.clone()] })
    }

    /// Moves on by one row.
    pub(crate) fn advance(&mut self) -> Result<(), StoreError> {
        let mut end = self.block.len().saturating_sub(CHECKSUM_BYTES);
        if self.position >= end {
            if !self.blocks.read_next(&mut self.block)? {
                self.current = None;
                return Ok(());
            }
            (self.position, end) = (0, self.block.len() - CHECKSUM_BYTES);
        }
        let corrupt = || self.blocks.segment.corrupt("a block of coins");
        let mut rows = CoinRows::resume(&self.block[..end], self.position, self.key).map_err(|_| corrupt())?;
        let row = rows.next_row().map_err(|_| corrupt())?.ok_or_else(corrupt)?;
        let (op, body_bytes) = (row.op, row.body.len());
        self.key = row.key;
        self.position = rows.position();
        self.current = Some((op, self.position - body_bytes..self.position));
        Ok(())
    }
}
