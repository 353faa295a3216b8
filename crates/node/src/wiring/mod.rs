//! What `serve` asks for, answered by what `net` and `chain` have: only this crate sees all of them.
//!
//! In:     the shell of the peers; the writer's handle and the mempool.
//! Out:    [`Admin`], what an operator does while the node runs; [`by_proxy`], ways to other Electrum servers; [`Onion`], the Electrum server's onion service;
//!         [`PeerCalls`], the peers as JSON-RPC asks for them; [`Zmq`], notifications for whoever subscribes.
//! Fails:  with Core's codes and words; where an address cannot be bound.

mod admin;
mod by_proxy;
mod onion;
mod peer_calls;
mod peer_rows;
mod zmq;

pub use admin::Admin;
pub use by_proxy::by_proxy;
pub use onion::{Onion, OnionWish};
pub use peer_calls::PeerCalls;
pub use zmq::Zmq;
