//! Writing one section: rows in, blocks and fences out.
//!
//! In:     rows in the order of their keys, no key twice.
//! Out:    bytes to append to the file, handed over whenever the caller asks, so that memory stays bounded.
//! Fails:  never; rows out of order are our own bug and panic.

use stdx::checksum::checksum;

use super::bloom::Bloom;
use super::coin::{self, COIN_KEY_BYTES, CoinRow};
use super::rows::{self, ROWS_PER_BLOCK_MAX};
use super::{Section, block_seed, row_key};
use crate::row::{Row, Table};

/// Bytes a block is meant to have: a page, so that a cold lookup reads one.
const BLOCK_BYTES: usize = 4096;
/// Rows of one block at most, though it then stays below its size: a lookup goes through half of them. The history of a
/// busy script takes half a byte a row.
const ROWS_DENSE_MAX: usize = 1024;
const _: () = assert!(ROWS_DENSE_MAX <= ROWS_PER_BLOCK_MAX);
/// Rows of the first block of a section, before there is a size to go by.
const ROWS_FIRST: usize = 448;
/// Bytes of a block's checksum.
pub(super) const CHECKSUM_BYTES: usize = 8;

/// What the footer says about a section beside its start.
pub(super) struct SectionEnd {
    pub(super) data_bytes: u64,
    pub(super) rows: u64,
    pub(super) top: Vec<u8>,
    pub(super) bloom: Option<Bloom>,
}

/// Builds one section.
pub(crate) struct SectionWriter {
    segment: u64,
    section: Section,
    /// Bytes not yet handed over; the first is at `out_start` of the section.
    out: Vec<u8>,
    out_start: u64,
    pending: Vec<Row>,
    rows_target: usize,
    /// The unfinished coin block, and the keys of its first and last row.
    coins: Vec<u8>,
    coin_first: [u8; COIN_KEY_BYTES],
    coin_last: [u8; COIN_KEY_BYTES],
    index: Vec<u8>,
    top: Vec<u8>,
    bloom: Option<Bloom>,
    rows: u64,
}

impl SectionWriter {
    /// Begins a section; `keys_max` sizes the filter of the coins.
    pub(crate) fn new(segment: u64, section: Section, keys_max: u64) -> SectionWriter {
        SectionWriter {
            segment,
            section,
            out: Vec::new(),
            out_start: 0,
            pending: Vec::new(),
            rows_target: ROWS_FIRST,
            coins: Vec::new(),
            coin_first: [0; COIN_KEY_BYTES],
            coin_last: [0; COIN_KEY_BYTES],
            index: Vec::new(),
            top: Vec::new(),
            bloom: (section == Section::Coins && keys_max > 0).then(|| Bloom::new(keys_max)),
            rows: 0,
        }
    }

    fn table(&self) -> Table {
        match self.section {
            Section::Rows(table) => table,
            Section::Coins => panic!("rows of numbers are not coins"),
        }
    }

    /// Appends a row of a numbered table.
    #[inline]
    pub(crate) fn push_row(&mut self, row: Row) {
        self.rows += 1;
        self.pending.push(row);
        if self.pending.len() >= self.rows_target {
            self.finish_rows();
        }
    }

    fn finish_rows(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let ordered = |pair: &[Row]| (pair[0].hi, pair[0].lo) < (pair[1].hi, pair[1].lo);
        assert!(self.pending.windows(2).all(ordered), "rows come in order");
        let start = self.out.len();
        rows::encode(self.table(), &self.pending, &mut self.out);
        let first = row_key(self.pending[0].hi, self.pending[0].lo);
        let bytes = self.out.len() - start;
        // The next block aims at its size by the rows this one took.
        self.rows_target = (self.pending.len() * BLOCK_BYTES / bytes.max(1)).clamp(64, ROWS_DENSE_MAX);
        self.pending.clear();
        self.end_block(start, &first);
    }

    /// Appends a row of coins.
    pub(crate) fn push_coin(&mut self, row: &CoinRow<'_>) {
        assert!(self.rows == 0 || row.key > self.coin_last, "coins come in order");
        self.rows += 1;
        self.bloom.as_mut().expect("a coins section with rows was given their number").insert(&row.key);
        if self.coins.is_empty() {
            self.coin_first = row.key;
            coin::put_row(row, None, &mut self.coins);
        } else {
            coin::put_row(row, Some(&self.coin_last), &mut self.coins);
        }
        self.coin_last = row.key;
        if self.coins.len() + CHECKSUM_BYTES >= BLOCK_BYTES {
            self.finish_coins();
        }
    }

    fn finish_coins(&mut self) {
        if self.coins.is_empty() {
            return;
        }
        let start = self.out.len();
        self.out.append(&mut self.coins);
        let first = self.coin_first;
        self.end_block(start, &first);
    }

    /// Closes the data block that begins at `start` of `out`, and the index block once it is full.
    fn end_block(&mut self, start: usize, first: &[u8]) {
        let fence = seal(&mut self.out, start, self.out_start, self.segment, self.section);
        put_fence(&mut self.index, first, fence);
        if self.index.len() + self.section.fence_bytes() + CHECKSUM_BYTES > BLOCK_BYTES {
            self.finish_index();
        }
    }

    fn finish_index(&mut self) {
        if self.index.is_empty() {
            return;
        }
        let start = self.out.len();
        let first: Vec<u8> = self.index[..self.section.key_bytes()].to_vec();
        self.out.append(&mut self.index);
        let fence = seal(&mut self.out, start, self.out_start, self.segment, self.section);
        put_fence(&mut self.top, &first, fence);
    }

    /// Bytes ready to be appended to the file.
    pub(crate) fn ready_bytes(&self) -> usize {
        self.out.len()
    }

    /// Takes what is ready.
    pub(crate) fn take_ready(&mut self) -> Vec<u8> {
        self.out_start += self.out.len() as u64;
        std::mem::take(&mut self.out)
    }

    /// Closes the last blocks; afterwards only [`SectionWriter::take_ready`] and `end` are left.
    pub(crate) fn finish(&mut self) {
        match self.section {
            Section::Coins => self.finish_coins(),
            Section::Rows(_) => self.finish_rows(),
        }
        self.finish_index();
    }

    /// What the footer needs; everything ready has been taken.
    pub(super) fn end(self) -> SectionEnd {
        assert!(self.out.is_empty() && self.index.is_empty() && self.pending.is_empty() && self.coins.is_empty());
        SectionEnd { data_bytes: self.out_start, rows: self.rows, top: self.top, bloom: self.bloom }
    }
}

/// Appends the checksum of the block that begins at `start`; returns its offset in the section and its length.
fn seal(out: &mut Vec<u8>, start: usize, out_start: u64, segment: u64, section: Section) -> (u64, usize) {
    let offset = out_start + start as u64;
    let sum = checksum(block_seed(segment, section, offset), &out[start..]);
    out.extend_from_slice(&sum.to_le_bytes());
    (offset, out.len() - start)
}

fn put_fence(out: &mut Vec<u8>, first: &[u8], (offset, length): (u64, usize)) {
    assert!(offset < 1 << 48 && length < 1 << 24);
    out.extend_from_slice(first);
    out.extend_from_slice(&offset.to_le_bytes()[..6]);
    out.extend_from_slice(&length.to_le_bytes()[..3]);
}
