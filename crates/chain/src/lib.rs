//! The single writer: header tree, best chain, pipeline, reorganisation, and the view that others read.
//!
//! In:     block files, a store, a pool, a clock, a signature engine.
//! Out:    committed state at the best valid tip, [`View`]s of it, [`Event`]s.
//! Fails:  [`ChainError`] when the disk fails; invalid blocks are refused and reported, never connected.

mod digest;
mod error;
mod handle;
mod lot;
mod options;
mod pipeline;
mod reorganise;
mod tree;
mod view;
mod writer;

pub use digest::{Digest, TableDigest};
pub use error::ChainError;
pub use handle::{Event, Handle, Phase, Status};
pub use options::{Options, World};
pub use tree::{HeaderTree, Inserted, NodeId, Seen};
pub use view::{HistoryEntry, Spender, Tip, TxAt, UnspentEntry, View, ViewError};
pub use writer::Chain;
