//! The Electrum server from outside: recorded answers, real sockets, hostile clients.
//!
//! In:     a chain in memory whose first nine blocks are mainnet's.
//! Out:    one module a subject.
//! Fails:  where an answer differs from the recorded one or a promise about limits is not kept.

mod abuse;
mod chain;
mod client;
mod discovery;
mod documents;
mod golden;
mod inputs;
mod load;
mod notify;
mod published;
mod queries;
mod shares;
mod transports;
mod wallets;
mod wire;
