//! One short value for a whole state, so that two states can be compared without keeping both in memory.
//!
//! In:     a snapshot.
//! Out:    [`Digest`]: number of coins and rows, sums, and a checksum of each table in the order of its keys.
//! Fails:  with the store's errors.
//!
//! Digests of tables depend on the data directory's tag key; two stores are comparable when they share it.

use primitives::{Coin, OutPoint};
use stdx::checksum::checksum;
use store::{Snapshot, StoreError, Table};

/// Rows of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableDigest {
    /// Number of live rows.
    pub rows: u64,
    /// Chained checksum over them, in the order of their keys.
    pub checksum: u64,
}

/// A whole state in a few numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// Height of the tip.
    pub height: u32,
    /// Unspent coins, every field of them.
    pub coins: TableDigest,
    /// Sum of their amounts.
    pub coins_sat: u64,
    /// Tables in the order of [`Table::ALL`].
    pub tables: [TableDigest; 4],
    /// Headers, block positions left out.
    pub headers: TableDigest,
    /// Block filters with their headers; nothing where some are missing.
    pub filters: TableDigest,
}

impl Digest {
    /// Walks over everything in `snapshot`; `each_coin` sees every coin on the way.
    pub fn of(snapshot: &Snapshot, mut each_coin: impl FnMut(&OutPoint, &Coin<'_>)) -> Result<Digest, StoreError> {
        let mut digest = Digest { height: snapshot.block_count().saturating_sub(1), ..Digest::default() };
        snapshot.each_coin(&mut |outpoint, coin| {
            each_coin(&outpoint, &coin);
            digest.coins_sat += coin.value_sat;
            digest.coins.add(&coin_bytes(&outpoint, &coin));
            true
        })?;
        for (table, total) in Table::ALL.into_iter().zip(&mut digest.tables) {
            for row in snapshot.all_rows(table)? {
                let row = row?;
                let mut bytes = [0; 24];
                bytes[..8].copy_from_slice(&row.hi.to_le_bytes());
                bytes[8..16].copy_from_slice(&row.lo.to_le_bytes());
                bytes[16..].copy_from_slice(&row.value.to_le_bytes());
                total.add(&bytes);
            }
        }
        for height in 0..snapshot.block_count() {
            let header = snapshot.header(height)?.ok_or(StoreError::Stale)?;
            digest.headers.add(&header);
            if snapshot.filter_count() == snapshot.block_count() {
                let (entry, filter) = snapshot.filter(height)?.ok_or(StoreError::Stale)?;
                digest.filters.add(&[&entry.header, &entry.hash, &filter[..]].concat());
            }
        }
        Ok(digest)
    }

    /// Names of what differs from `other`.
    pub fn differences(&self, other: &Digest) -> Vec<&'static str> {
        let names = ["history", "unspent", "txid", "spender"];
        let tables = names.into_iter().zip(self.tables.iter().zip(&other.tables));
        let mut different: Vec<&str> = tables.filter(|(_, (ours, theirs))| ours != theirs).map(|(n, _)| n).collect();
        if (self.coins, self.coins_sat) != (other.coins, other.coins_sat) {
            different.insert(0, "coins");
        }
        if self.filters != other.filters {
            different.push("filters");
        }
        if (self.height, self.headers) != (other.height, other.headers) {
            different.insert(0, "headers");
        }
        different
    }
}

impl TableDigest {
    fn add(&mut self, bytes: &[u8]) {
        self.rows += 1;
        self.checksum = checksum(self.checksum, bytes);
    }
}

fn coin_bytes(outpoint: &OutPoint, coin: &Coin<'_>) -> Vec<u8> {
    let mut bytes = outpoint.encode().to_vec();
    bytes.extend_from_slice(&coin.value_sat.to_le_bytes());
    bytes.extend_from_slice(&coin.height.to_le_bytes());
    bytes.push(u8::from(coin.coinbase));
    bytes.extend_from_slice(&coin.txo_num.to_le_bytes());
    bytes.extend_from_slice(coin.script);
    bytes
}
