//! One connection to one peer, without its socket.
//!
//! In:     bytes that came, the time, chance, and messages to send.
//! Out:    bytes to send, and [`Event`]s: the handshake is done, a message came, the connection is over and why.
//! Fails:  [`End`]: what ended the connection; [`End::is_misbehaviour`] says whether the peer should be avoided.
//! Source: Bitcoin Core, `src/net.cpp` and `src/net_processing.cpp`, the function named beside each rule.
//!
//! What a peer does here by itself: transport, handshake and features, ping, timeouts, limits of queue and rate, counting.
//! Everything about blocks, transactions and addresses it hands on.

mod bucket;
mod connection;
mod end;
mod handshake;
mod kind;
mod local;
mod ping;
mod queue;
mod statistics;
#[cfg(test)]
mod tests;
mod whitelist;

pub use bucket::Bucket;
pub use connection::{Event, Peer, Setup};
pub use end::End;
pub use handshake::{COMPACT_VERSION, Features};
pub use kind::{ConnectionKind, PeerId, Permissions};
pub use local::{Local, PROTOCOL};
pub use ping::Latency;
pub use queue::{SEND_BYTES_MAX, SEND_PAUSE_BYTES};
pub use statistics::{Statistics, Traffic};
pub use whitelist::{Whitebound, WhitelistError, Whitelisted};
