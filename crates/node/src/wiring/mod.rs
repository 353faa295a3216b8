//! What `serve` asks for, answered by what `net` has: only this crate sees both.
//!
//! In:     the shell of the peers.
//! Out:    [`PeerCalls`], the peers as JSON-RPC asks for them.
//! Fails:  with Core's codes and words.

mod peer_calls;
mod peer_rows;

pub use peer_calls::PeerCalls;
