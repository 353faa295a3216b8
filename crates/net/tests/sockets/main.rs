//! Real sockets: shells of ours with each other, through a proxy, and with btcd where it is installed.
//!
//! In:     a `btcd` on PATH or in the folder `ASSAY_PEERS`; without it its tests say "skipped".
//! Out:    one test a conversation.
//! Fails:  where a conversation does not come to its end in time.

mod abuse;
mod btcd;
mod i2p;
mod line;
mod shells;
