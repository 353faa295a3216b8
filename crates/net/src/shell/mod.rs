//! Sockets: the only part of this crate that knows the world.
//!
//! In:     settings, a hub, files of a folder.
//! Out:    connections, accepted and made, and their bytes carried to the hub and back.
//! Fails:  [`std::io::Error`] where an address cannot be listened at; what happens to single connections is told by the hub.
//!
//! One thread, `net`, carries all bytes and wakes a few times a second. The hub, the book and the bans are under one lock, which
//! is never held while waiting; other threads reach them by [`Shell`].

mod config;
mod connection;
mod control;
mod dial;
mod files;
mod i2p;
mod listen;
mod names;
mod onion;
mod report;
mod shared;
mod start;

pub use config::{Config, Password, Proxy, SamBridge, TorService};
pub use control::{AddRefusal, Place, Raw};
pub use dial::connect_by_proxy;
pub use report::{NodeReport, Own, PeerReport, Totals};
pub use shared::Ended;
pub use start::{OsEntropy, Shell};
