//! Benches of unconfirmed transactions: how fast they are taken in, and what a full mempool holds of memory.
//!
//! In:     options.
//! Out:    tables and reports.
//! Fails:  when a contestant does.

pub mod acceptance;
pub mod fill;
pub mod offered;
