//! Talking with users: a folder a protocol, all reading the same view of the chain.
//!
//! In:     a [`source::Source`] of confirmed data, events of new tips, bytes from sockets.
//! Out:    answers and notifications; counters in [`metrics::Metrics`].
//! Fails:  starting, where a port cannot be bound; afterwards a session fails alone and never the server.

pub mod source;

pub mod confirmed;
pub mod filters;
pub mod json;
pub mod kept;
pub mod metrics;
pub mod plain;
pub mod pool;
pub mod prevouts;
pub mod priority;

pub mod fuzz;

pub mod decoded;
pub mod discovery;
pub mod electrum;
pub mod shares;
pub mod transport;
pub mod wallet;

pub mod calls;
pub mod door;
pub mod keys;
pub mod mining;
pub mod rest;
pub mod rpc;
pub mod zmq;
