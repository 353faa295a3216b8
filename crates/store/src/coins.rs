//! The coins in memory, over the coins of the segments.
//!
//! In:     creations and spends in chain order.
//! Out:    the coins that are spent, and at a cut what changed.
//! Fails:  [`StoreError`] where a segment cannot be read.

use std::sync::Arc;

use primitives::{Coin, OutPoint};
use stdx::pool::Pool;

use crate::error::StoreError;
use crate::snapshot::Snapshot;

/// Computes the script tag of an output script; called on worker threads for coins read from disk.
pub type Tagger = Arc<dyn Fn(&[u8]) -> u64 + Send + Sync>;

/// Limits of the table.
#[derive(Clone, Copy, Debug)]
pub struct CoinsOptions {
    /// Most bytes the table may take once a cut has been installed; between cuts it grows by what is dirty.
    pub bytes_max: usize,
    /// Key of the table's hash function, random for each start.
    pub hash_key: [u64; 2],
}

/// A coin taken out, with its script's tag.
#[derive(Clone, Copy, Debug)]
pub struct SpentCoin<'a> {
    /// The coin.
    pub coin: Coin<'a>,
    /// Its script's tag.
    pub tag: u64,
}

/// Coins on their way from the disk; give it to [`Coins::load`].
pub struct Fetch {}

/// The table.
pub struct Coins {}

impl Coins {
    /// An empty table over the coins of `snapshot`.
    pub fn new(snapshot: Arc<Snapshot>, tagger: Tagger, options: &CoinsOptions) -> Coins {
        todo!()
    }

    /// Starts reading those of `outpoints` that are not in memory, on the pool.
    pub fn fetch(&self, pool: &Pool, outpoints: &[OutPoint]) -> Fetch {
        todo!()
    }

    /// Waits for a fetch and keeps what it read, except what has changed since.
    pub fn load(&mut self, fetch: Fetch) -> Result<(), StoreError> {
        todo!()
    }

    /// Takes out a coin; reads the disk if it has to. None: there is no such coin.
    pub fn spend(&mut self, outpoint: &OutPoint) -> Result<Option<SpentCoin<'_>>, StoreError> {
        todo!()
    }

    /// Adds a coin. Unless its transaction is a coinbase, the caller knows that the outpoint is not alive (BIP 30).
    pub fn create(&mut self, outpoint: &OutPoint, coin: Coin<'_>, tag: u64) -> Result<(), StoreError> {
        todo!()
    }

    /// True if the coin is unspent; reads the disk if it has to.
    pub fn exists(&self, outpoint: &OutPoint) -> Result<bool, StoreError> {
        todo!()
    }

    /// Puts back a coin whose spending is undone; its tag is computed.
    pub fn restore(&mut self, outpoint: &OutPoint, coin: Coin<'_>) -> Result<(), StoreError> {
        todo!()
    }

    /// Takes back a creation (a block is disconnected). False: the coin was not there.
    pub fn remove(&mut self, outpoint: &OutPoint) -> Result<bool, StoreError> {
        todo!()
    }

    /// Bytes the table takes.
    pub fn bytes(&self) -> usize {
        todo!()
    }

    /// Bytes that only a cut can free.
    pub fn dirty_bytes(&self) -> usize {
        todo!()
    }
}
