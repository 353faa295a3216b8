//! Transactions among peers: what to ask for, what to judge, what to tell, each without a peer or a clock in sight.
//!
//! In:     announcements and transactions of peers, verdicts of the mempool, blocks, the time, chance.
//! Out:    getdata, jobs for whoever judges, announcements.
//! Fails:  never; what does not fit into a peer's share is dropped, and that peer's alone.
//! Source: Bitcoin Core, `txrequest.cpp`, `node/txdownloadman_impl.cpp`, `net_processing.cpp`; BIP 133, 152, 339.
//!
//! Read `requests`, then `download`, `queue` and `judge`; `backlog` and `fee_filter` are the other direction. The mempool is
//! seen through [`Pool`] alone.

mod backlog;
mod download;
mod extra;
mod fee_filter;
mod judge;
mod newest;
mod pool;
mod queue;
mod requests;
#[cfg(test)]
mod requests_tests;
mod rolling;

pub use backlog::Backlog;
pub use download::{Announcer, Download, Rejection, Route};
pub use extra::ExtraTxs;
pub use fee_filter::{FeeFilter, FeeSteps};
pub use judge::{judge, judge_followed};
pub use newest::{Newest, tx_ids};
pub use pool::{NoPool, Offer, Pool};
pub use queue::{TxJob, TxQueue, TxVerdict};
pub use requests::{Requests, TxName};
pub use rolling::Rolling;
