//! The Electrum protocol, versions 1.4 to 1.7, over whatever [`transport`](crate::transport) there is.
//!
//! In:     a [`Source`], events of new tips, connections.
//! Out:    answers and notifications to wallets.
//! Fails:  [`start`] where the address cannot be bound; later each session alone.
//! Source: Electrum protocol 1.4 to 1.7 (docs/protocol-methods.rst), ElectrumX where the document is silent.
//!
//! A message of requests goes from its channel to [`request`] and [`params`], is answered by [`wallet`](crate::wallet),
//! driven by a session's [`machine`], which knows no socket. [`session`] moves bytes and keeps the timers, [`outbox`]
//! holds what waits for a client, [`subscriptions`] knows who wants to hear of what, [`events`] fills the mailboxes and
//! [`notices`] tells what is in them.

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

pub mod outbox;
pub mod record;
pub mod server;
pub mod session;

use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use primitives::Params;

use crate::discovery::Wish;
use crate::discovery::directory::Directory;
use crate::discovery::server::Server;
use crate::metrics::Metrics;
use crate::rpc::auth::Subnet;
use crate::shares::ShareLimits;
use crate::shares::ledger::Ledger;
use crate::shares::login::Tokens;
use crate::source::Source;
use crate::transport::certificate::Files;
use crate::transport::listen::Door;
use crate::wallet::stream::StatusMemory;
use crate::wallet::{Histogram, methods};
use limits::Limits;
use record::Record;
use subscriptions::Subscriptions;

pub use server::{ServerHandle, start};

/// What the server says of itself and how it listens.
#[derive(Clone, Debug)]
pub struct Config {
    /// The ways in; at least one.
    pub doors: Vec<Door>,
    /// Certificate and key, for doors with TLS.
    pub certificate: Option<Files>,
    /// How often the files of the certificate are looked at.
    pub certificate_look_time: Duration,
    /// Balancers, whose connections begin with a header that says for whom they speak (PROXY protocol, version 2).
    pub balancers: Vec<Subnet>,
    /// The network, for addresses and the genesis hash.
    pub params: Params,
    /// The name in `server.version`; wallets decide by it whether they batch.
    pub server_name: String,
    /// Text for people.
    pub banner: String,
    /// Where to send thanks; empty for none.
    pub donation_address: String,
    /// Hosts and ports under which the public reaches this server.
    pub public_hosts: Vec<Server>,
    /// Words by which clients are known, and exempt.
    pub tokens: Tokens,
    /// The part taken in the discovery of servers; none by default.
    pub discovery: Option<Wish>,
    /// Ports of the network's servers for lines, without TLS and with it, where somebody names none.
    pub usual_ports: [u16; 2],
    /// Threads that move bytes and give short answers; all but one of them may compute at the same time.
    pub network_threads: usize,
    /// Short work done at the same time on other threads, where those are all at it.
    pub work_threads: usize,
    /// Threads for long answers, which give way to all others.
    pub long_threads: usize,
    /// Limits of sessions.
    pub limits: Limits,
    /// The log names clients by a hash of their addresses.
    pub hashes_addresses: bool,
    /// What each may cost us; its `sessions_max` is that of `limits`.
    pub shares: ShareLimits,
}

/// The default name: Sparrow and Nunchuk batch only for names they know, ElectrumX's among them.
pub fn default_server_name() -> String {
    format!("ElectrumX-compatible/Assay {}", env!("CARGO_PKG_VERSION"))
}

impl Config {
    /// Everything at its default, behind one door of plain TCP.
    pub fn new(listen: std::net::SocketAddr, params: Params) -> Config {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Config {
            doors: vec![Door::plain(listen)],
            certificate: None,
            certificate_look_time: Duration::from_secs(10),
            balancers: Vec::new(),
            params,
            server_name: default_server_name(),
            banner: format!("Assay {}", env!("CARGO_PKG_VERSION")),
            donation_address: String::new(),
            public_hosts: Vec::new(),
            tokens: Tokens::default(),
            discovery: None,
            usual_ports: [50_001, 50_002],
            // One moves about 1 GB/s; more, because all but one may wait for the disk.
            network_threads: (2 * cores).clamp(4, 16),
            // Reads wait for the disk, so more of them than cores.
            work_threads: (2 * cores).clamp(4, 64),
            long_threads: cores,
            limits: Limits::default(),
            hashes_addresses: false,
            shares: ShareLimits::default(),
        }
    }
}

/// A number that nobody can guess, for choices among servers.
fn seed() -> u64 {
    std::collections::hash_map::RandomState::new().hash_one("servers")
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
    pub metrics: Arc<Metrics>,
    /// Who is there, and what each has cost us.
    pub shares: Arc<Ledger>,
    started: Instant,
    /// Other servers.
    pub directory: Directory,
    /// Lines of the log about sessions.
    pub record: Record,
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
        let sessions_max = config.limits.sessions_max;
        Env {
            source,
            shares: Arc::new(Ledger::new(ShareLimits { sessions_max, ..config.shares.clone() })),
            started: Instant::now(),
            directory: Directory::new(config.discovery.clone(), config.public_hosts.clone(), seed()),
            record: Record::new(config.hashes_addresses),
            limits: config.limits.clone(),
            config,
            metrics: Arc::new(Metrics::new(methods::METHODS.iter().map(|method| method.name))),
            subscriptions: Subscriptions::default(),
            statuses: StatusMemory::default(),
            histogram: Histogram::default(),
        }
    }
    /// Time since it began.
    pub fn now(&self) -> Duration {
        self.started.elapsed()
    }
}
