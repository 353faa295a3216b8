//! What can be derived from a connected block and rebuilt at will.
//!
//! In:     a block that passed every rule, and the coins it spends; later a snapshot of the store.
//! Out:    rows of the tables `history`, `txid` and `spender`; answers to what wallets ask about scripts.
//! Fails:  rows never; answers with the store's errors.
//! Source: our own formats, docs/formats.md.

pub mod filter;
pub mod proof;
pub mod rows;
pub mod status;
pub mod tag;

pub use rows::BlockRows;
pub use tag::TagKey;
