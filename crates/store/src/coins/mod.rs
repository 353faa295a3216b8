//! The coins in memory, over the coins of the segments.
//!
//! A coin in the table is alive or spent, dirty or clean (as of the last cut), on disk or not (as of the last cut), and
//! pending while a cut is being written. A coin that is created and spent between two cuts leaves no trace; a spent
//! coin that is on disk stays as a tombstone until the cut that deletes it is installed.
//!
//! In:     creations and spends in chain order.
//! Out:    the coins that are spent, and at a cut what changed, as rows of `coins` and `unspent`.
//! Fails:  [`crate::StoreError`] where a segment cannot be read.

mod cut;
mod index;
mod set;
mod table;

pub(crate) use cut::{DirtyCoins, UnspentChange};
pub use set::{Coins, CoinsOptions, Fetch, SpentCoin, Tagger};
