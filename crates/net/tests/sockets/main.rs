//! Real sockets: shells of ours with each other, through a proxy, and with btcd and bcoin where they are installed.
//!
//! In:     a `btcd` on PATH or in the folder `ASSAY_PEERS`, a `node_modules` with bcoin in that folder; without them their tests
//!         say "skipped".
//! Out:    one test a conversation.
//! Fails:  where a conversation does not come to its end in time.

mod abuse;
mod bcoin;
mod btcd;
mod i2p;
mod line;
mod shells;
