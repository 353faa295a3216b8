//! Bytes that survive a power cut: block files, columns, segments, coins, and the commit record that names them.
//!
//! In:     connected blocks as rows, coins and entries; one writer.
//! Out:    [`Snapshot`]s that any thread reads, each fixed at one tip.
//! Fails:  [`StoreError`]; after a failed write or sync nothing more is written.
//! Source: formats in docs/formats.md.

pub mod blockfiles;
mod coins;
mod columns;
mod commit;
mod cut;
mod entries;
mod error;
mod hints;
mod merge;
mod places;
mod reset;
mod row;
mod segment;
mod snapshot;
mod store;

pub use coins::{Coins, CoinsOptions, Fetch, SpentCoin, Tagger};
pub use cut::{CutJob, WrittenCut};
pub use entries::{BlockEntry, Fact, FilterEntry, TxEntry};
pub use error::StoreError;
pub use hints::{HINT_BYTES_MAX, Hints, HintsWriter};
pub use merge::{MergeJob, MergedSegment};
pub use places::{Places, TxPlace};
pub use row::{Batch, Op, Row, Table};
pub use snapshot::{CoinBuf, Rows, RowsOfMany, SectionSize, Snapshot};
pub use store::{Cut, Options, Store, Tip};

#[cfg(test)]
mod formats_test;
#[cfg(test)]
mod tests;
