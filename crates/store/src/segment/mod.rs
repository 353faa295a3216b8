//! Segments: immutable, checksummed files with the sorted rows of all tables for one batch of blocks.
//!
//! | bytes    | field      | meaning                                              |
//! |----------|------------|------------------------------------------------------|
//! | 0..8     | `magic`    | "ASSAYSEG"                                           |
//! | 8..12    | `version`  | 1                                                    |
//! | 12..20   | `id`       | number of the segment, also in its name              |
//! | 20..     | `sections` | coins, history, unspent, txid, spender               |
//! | last 368 | `footer`   | 5 sections of 72 bytes, and a checksum of 8 bytes    |
//!
//! A section is its data and index blocks, then its top fences, then (coins only) its filter. Data blocks and index
//! blocks end with a checksum of 8 bytes over the bytes before, seeded with the segment's id, the table and the
//! block's offset, so that a block in the wrong place is noticed too. An index block follows the data blocks it names;
//! the top fences name the index blocks and stay in memory. One fence is:
//!
//! | bytes      | field    | meaning                                                              |
//! |------------|----------|----------------------------------------------------------------------|
//! | 0..k       | `key`    | of the first row; k = 36 (coins) or 13 (`hi`, 8 and `lo`, 5, big endian) |
//! | k..k+6     | `offset` | of the block, from the start of the section                          |
//! | k+6..k+9   | `length` | of the block, checksum included                                      |
//!
//! In:     rows in the order of their keys.
//! Out:    a file; or its rows again, from any key on.
//! Fails:  [`crate::StoreError`]; any changed byte is noticed when it is read.

mod bits;
mod bloom;
mod coin;
mod cursor;
mod file;
mod rows;
mod section;

pub(crate) use coin::{COIN_KEY_BYTES, CoinRow, coin_of_body, key_of, outpoint_of, put_body};
pub(crate) use cursor::{CoinCursor, RowCursor};
pub(crate) use file::{Segment, SegmentWriter, segment_path};
pub(crate) use section::SectionWriter;

#[cfg(test)]
pub(crate) use file::SEGMENT_VERSION;

use crate::row::Table;

/// The sections of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    /// Coins by outpoint.
    Coins,
    /// A numbered table.
    Rows(Table),
}

impl Section {
    /// Every section, in the order of the file.
    pub(crate) const ALL: [Section; 5] = [
        Section::Coins,
        Section::Rows(Table::History),
        Section::Rows(Table::Unspent),
        Section::Rows(Table::Txid),
        Section::Rows(Table::Spender),
    ];

    /// Its position in the file.
    pub(crate) fn index(self) -> usize {
        Section::ALL.iter().position(|section| *section == self).expect("ALL has every section")
    }

    /// Bytes of its keys in fences.
    pub(crate) fn key_bytes(self) -> usize {
        match self {
            Section::Coins => COIN_KEY_BYTES,
            Section::Rows(_) => 13,
        }
    }

    /// Bytes of a fence.
    pub(crate) fn fence_bytes(self) -> usize {
        self.key_bytes() + 9
    }
}

/// Order-preserving key of a row.
pub(crate) fn row_key(hi: u64, lo: u64) -> [u8; 13] {
    let mut key = [0; 13];
    key[..8].copy_from_slice(&hi.to_be_bytes());
    key[8..].copy_from_slice(&lo.to_be_bytes()[3..]);
    key
}

/// Seed of the checksum of a block.
pub(crate) fn block_seed(segment: u64, section: Section, offset: u64) -> u64 {
    segment << 48 ^ (section.index() as u64) << 44 ^ offset
}
