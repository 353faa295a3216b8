//! What is kept beside coins and index: hints of proofs, and block filters.
//!
//! In:     blocks that joined the chain.
//! Out:    records for the next proof of the same blocks; filters in the store's commits.
//! Fails:  as each says; the chain goes on without them.

pub mod filters;
pub mod hints;
