//! Unconfirmed transactions: which are taken, in which order they would be mined, which go first.
//!
//! In:     transactions, blocks, the time, secrets for hashing; the chain below as a [`Base`].
//! Out:    verdicts, [`Event`]s, what readers ask.
//! Fails:  [`Rejected`]: one variant a rule, with Bitcoin Core's reject word.
//! Source: Bitcoin Core 31. Where ours differs is listed in docs/mempool.md.
//!
//! The tables are in [`pool`] and change in one place; [`accept`], [`replace`] and [`package`] decide what a change would
//! be, [`cluster`] what it would make of the order.

mod accept;
mod base;
mod blocks;
mod cluster;
mod entry;
mod limits;
mod mining;
mod package;
mod persist;
mod pool;
mod read;
mod replace;
mod scripts;
mod shared;

pub use accept::{Accept, Accepted, Others, Rejected};
pub use base::Base;
pub use blocks::Joined;
pub use entry::{Entry, Event, Reason, UNCONFIRMED};
pub use mining::Room;
pub use package::{PackageResult, Verdict};
pub use persist::{Dump, KEY_BYTES, SavedError, SavedReader, SavedTail, SavedTx, Source};
pub use pool::Mempool;
pub use read::{Details, Unconfirmed};
pub use scripts::ScriptMemory;
pub use shared::SharedMempool;
