//! The Electrum protocol, versions 1.4 to 1.7, over TCP.
//!
//! In:     a [`Source`], events of new tips, connections.
//! Out:    answers and notifications to wallets.
//! Fails:  [`start`] where the address cannot be bound; later each session alone.
//! Source: Electrum protocol 1.4 to 1.7 (docs/protocol-methods.rst), ElectrumX where the document is silent.
//!
//! A line of requests goes from [`line`] to [`request`] and [`params`], is answered by [`wallet`](crate::wallet), driven by a session's [`machine`], which knows no socket. [`session`] moves bytes and keeps the
//! timers, [`outbox`] holds what waits for a client, [`subscriptions`] knows who wants to hear of what,
//! [`events`] fills the mailboxes and [`notices`] tells what is in them.

pub mod limits;

pub mod error;
pub mod version;

pub mod params;
pub mod request;

pub mod answer;
pub mod machine;
pub mod subscriptions;

mod events;
mod notices;

pub mod line;
pub mod outbox;
pub mod server;
pub mod session;

use std::sync::Arc;

use primitives::Params;

use crate::metrics::Metrics;
use crate::source::Source;
use crate::wallet::stream::StatusMemory;
use crate::wallet::{Histogram, methods};
use limits::Limits;
use subscriptions::Subscriptions;

pub use server::{ServerHandle, start};

/// What the server says of itself and how it listens.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address and port to listen on; port 0 takes a free one.
    pub listen: std::net::SocketAddr,
    /// The network, for addresses and the genesis hash.
    pub params: Params,
    /// The name in `server.version`; wallets decide by it whether they batch.
    pub server_name: String,
    /// Text for people.
    pub banner: String,
    /// Where to send thanks; empty for none.
    pub donation_address: String,
    /// Host names and ports under which the public reaches this server.
    pub public_hosts: Vec<(String, u16)>,
    /// Threads that move bytes.
    pub network_threads: usize,
    /// Slices of work done at the same time, each on a thread of its own.
    pub work_threads: usize,
    /// Limits of sessions.
    pub limits: Limits,
}

/// The default name: Sparrow and Nunchuk batch only for names they know, ElectrumX's among them.
pub fn default_server_name() -> String {
    format!("ElectrumX-compatible/Assay {}", env!("CARGO_PKG_VERSION"))
}

impl Config {
    /// Everything at its default.
    pub fn new(listen: std::net::SocketAddr, params: Params) -> Config {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Config {
            listen,
            params,
            server_name: default_server_name(),
            banner: format!("Assay {}", env!("CARGO_PKG_VERSION")),
            donation_address: String::new(),
            public_hosts: Vec::new(),
            // One moves about 1 GB/s; the second keeps serving while the first is busy.
            network_threads: cores.clamp(1, 2),
            // Reads wait for the disk, so more of them than cores.
            work_threads: (2 * cores).clamp(4, 64),
            limits: Limits::default(),
        }
    }
}

/// What all sessions share.
pub struct Env {
    /// Where answers come from.
    pub source: Arc<dyn Source>,
    /// What the server says of itself.
    pub config: Config,
    /// Limits of sessions.
    pub limits: Limits,
    /// Counters.
    pub metrics: Metrics,
    /// Who wants to hear of what.
    pub subscriptions: Subscriptions,
    /// Hashes over long histories.
    pub statuses: StatusMemory,
    /// The histogram of fees.
    pub histogram: Histogram,
}

impl Env {
    /// The state of a server that nobody has connected to.
    pub fn new(config: Config, source: Arc<dyn Source>) -> Env {
        Env {
            source,
            limits: config.limits.clone(),
            config,
            metrics: Metrics::new(methods::METHODS.iter().map(|method| method.name)),
            subscriptions: Subscriptions::default(),
            statuses: StatusMemory::default(),
            histogram: Histogram::default(),
        }
    }
}
