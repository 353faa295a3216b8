//! The consensus rules as pure functions: facts in, verdict out.
//!
//! In:     headers, blocks, the coins they spend, and what a rule must know of the chain, all as arguments.
//! Out:    receipts ([`block::CheckedBlock`], [`connect::Totals`]) or the first rule that is broken.
//! Fails:  [`HeaderError`], [`TxError`], [`BlockError`]: one variant a rule, each with Bitcoin Core's reject word.
//! Source: Bitcoin Core 30 (`validation.cpp`, `consensus/`, `pow.cpp`, `signet.cpp`) and the BIPs named at each rule.
//!
//! Rules are tried in Core's order, so that the first one broken is the one Core names.

pub mod block;
pub mod connect;
pub mod errors;
pub mod flags;
pub mod header;
pub mod locks;
pub mod script;
pub mod signet;
pub mod sigops;
pub mod tx;
pub mod work;

pub use block::CheckedBlock;
pub use errors::{BlockError, HeaderError, TxError};
pub use flags::Flags;
pub use work::Work;

/// Most satoshi there can ever be; Core's `MAX_MONEY`.
pub const MONEY_SAT_MAX: u64 = 21_000_000 * 100_000_000;
/// Largest weight of a block (BIP 141).
pub const BLOCK_WEIGHT_MAX: usize = 4_000_000;
/// Largest signature operation cost of a block (BIP 141).
pub const SIGOP_COST_MAX: u64 = 80_000;
/// What a byte or signature operation outside the witness weighs (BIP 141).
pub const WITNESS_SCALE: usize = 4;
