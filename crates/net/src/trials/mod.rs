//! Simulated networks: many hubs in one process, driven by a seed, honest and not.
//!
//! In:     a seed, vices, delays.
//! Out:    tests only: what must hold of blocks and transactions in a network that lies, stalls and parts.
//! Fails:  with the node that ended elsewhere than it should; the same seed gives the same run.

mod block_tests;
pub(crate) mod network_tests;
mod transaction_tests;
