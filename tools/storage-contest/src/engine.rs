//! What a storage engine must do to hold the address index.
//!
//! In:     sorted batches, one commit each: history, unspent and the tip change together or not at all.
//! Out:    rows of one script, in order.
//! Fails:  with the engine's own error as text.

use crate::workload::Batch;
use std::path::Path;

pub type Outcome<T> = Result<T, String>;

pub trait Engine {
    /// Opens or makes the database in `dir`, with `cache_bytes` of block cache where the engine has one.
    fn open(dir: &Path, cache_bytes: u64) -> Outcome<Self>
    where
        Self: Sized;
    /// Makes the batch durable; after a crash either all of it is there or none.
    fn commit(&mut self, batch: &Batch) -> Outcome<()>;
    /// Number of the newest batch that is there.
    fn tip(&self) -> Outcome<Option<u32>>;
    /// Appends the transaction numbers of one script, ascending.
    fn history(&self, tag: u64, out: &mut Vec<u32>) -> Outcome<()>;
    /// Appends the live outputs of one script with their amounts, ascending.
    fn unspent(&self, tag: u64, out: &mut Vec<(u64, u64)>) -> Outcome<()>;
    /// Returns once background work is done.
    fn settle(&mut self) -> Outcome<()>;
}

/// Keys for engines of byte strings. One key space with a table byte in front, so that one ingested file carries all
/// tables and the tip, which is the only way to change them in one step by ingestion.
///
/// | bytes | history           | unspent           |
/// |-------|-------------------|-------------------|
/// | 0     | 1                 | 2                 |
/// | 1..9  | tag, big endian   | tag, big endian   |
/// | 9..   | tx_num, 4 bytes   | txo_num, 5 bytes  |
pub mod keys {
    pub const TIP: &[u8] = b"\xfftip-----";
    pub const PREFIX_BYTES: usize = 9;

    pub fn prefix(table: u8, tag: u64) -> [u8; PREFIX_BYTES] {
        let mut key = [table; PREFIX_BYTES];
        key[1..].copy_from_slice(&tag.to_be_bytes());
        key
    }

    pub fn history(tag: u64, tx_num: u32) -> [u8; 13] {
        let mut key = [1; 13];
        key[1..9].copy_from_slice(&tag.to_be_bytes());
        key[9..].copy_from_slice(&tx_num.to_be_bytes());
        key
    }

    pub fn unspent(tag: u64, txo_num: u64) -> [u8; 14] {
        let mut key = [2; 14];
        key[1..9].copy_from_slice(&tag.to_be_bytes());
        key[9..].copy_from_slice(&txo_num.to_be_bytes()[3..]);
        key
    }

    pub fn tx_num(key: &[u8]) -> u32 {
        u32::from_be_bytes(key[9..13].try_into().expect("history key"))
    }

    pub fn txo_num(key: &[u8]) -> u64 {
        key[9..14].iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }

    /// An amount as little-endian bytes without the zeros at its end.
    pub fn amount(amount_sat: u64) -> ([u8; 8], usize) {
        (amount_sat.to_le_bytes(), 8 - amount_sat.leading_zeros() as usize / 8)
    }

    pub fn amount_sat(value: &[u8]) -> u64 {
        value.iter().rev().fold(0, |amount, &byte| amount << 8 | u64::from(byte))
    }
}
