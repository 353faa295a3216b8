//! What a running node needs from its machine: a lock, signals, a log, a place to be asked.
//!
//! In:     the checked [`Config`](crate::config::Config).
//! Out:    guards that let go when dropped.
//! Fails:  each file says how.

pub mod clock;
pub mod electrum;
pub mod journal;
pub mod lock;
pub mod log;
pub mod mempool;
pub mod network;
pub mod node;
pub mod os;
pub mod progress;
pub mod report;
pub mod rpc;
pub mod socket;
pub mod stop;
