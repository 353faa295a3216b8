//! The single writer: header tree, best chain, pipeline, reorganisation, and the view that others read.
//!
//! In:     block files, headers and blocks from outside, a store, a pool, a clock, a signature engine.
//! Out:    committed state at the best valid tip, [`View`]s of it, [`Event`]s.
//! Fails:  [`ChainError`] when the disk fails; invalid blocks are refused and reported, never connected.

mod assumed;
mod digest;
mod error;
pub mod estimates;
mod handle;
mod intake;
mod kept;
mod lot;
pub mod mempool;
mod news;
mod options;
pub mod orphans;
mod pipeline;
pub mod policy;
mod reorganise;
mod spend;
mod start;
mod tree;
pub mod upkeep;
mod view;
mod writer;

pub use digest::{Digest, TableDigest};
pub use error::ChainError;
pub use handle::{Event, Handle, Phase, Status, TipBlock};
pub use intake::{
    Acceptance, ChainTip, ControlError, HeaderInfo, HeadersAnswer, HeadersStop, IntakeLoad, Missing, Pending,
    QueueFull, Verdict, Wanted, WorkProof,
};
pub use kept::filters::{BlockFilter, FilterHead, FilterStatus};
pub use kept::hints::HintsUse;
pub use options::{Options, World};
pub use start::headers_of_store;
pub use tree::TipKind;
pub use view::{HistoryEntry, Spender, Tip, TxAt, UnspentEntry, View, ViewError};
pub use writer::Chain;
