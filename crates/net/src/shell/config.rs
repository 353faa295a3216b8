//! What the shell is told to do.
//!
//! In:     settings that were checked before.
//! Out:    [`Config`].
//! Fails:  never.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::addresses::{Reachable, Targets};
use crate::hosts::Groups;
use crate::peer::{Permissions, Whitebound, Whitelisted};
use crate::wire::Endpoint;

/// A SOCKS5 proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Where it listens.
    pub address: SocketAddr,
    /// Every connection has a name and password of its own, so that Tor gives it a circuit of its own.
    pub isolates: bool,
}

/// A password, which no log may show.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(pub String);

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(hidden)")
    }
}

/// Where Tor can be asked for an onion service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TorService {
    /// Its control port.
    pub control: SocketAddr,
    /// Its password, where the cookie's file cannot be read.
    pub password: Option<Password>,
}

/// Where an I2P router can be asked for connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamBridge {
    /// Its SAM port.
    pub address: SocketAddr,
    /// Others may connect to us, under an address that stays.
    pub accepts: bool,
}

/// Settings of the shell.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where others may connect to.
    pub listen: Vec<SocketAddr>,
    /// Where others may connect to who then may do more.
    pub whitebind: Vec<Whitebound>,
    /// What we tell others we can be reached at.
    pub external: Vec<Endpoint>,
    /// What the machine itself knows of its addresses is told too.
    pub discovers: bool,
    /// How many connections we make.
    pub targets: Targets,
    /// Endpoints or names to stay connected to ("addnode", or "connect" with [`Targets::NONE`]).
    pub added: Vec<String>,
    /// Asked for addresses when there are too few.
    pub seed_nodes: Vec<String>,
    /// Kinds of hosts we connect to.
    pub reachable: Reachable,
    /// For all connections we make.
    pub proxy: Option<Proxy>,
    /// For onion services, where it is another one.
    pub onion_proxy: Option<Proxy>,
    /// An onion service is asked for here.
    pub tor: Option<TorService>,
    /// I2P connections are made and taken here.
    pub sam: Option<SamBridge>,
    /// What a direct connection may take to stand.
    pub connect_timeout: Duration,
    /// Most connections others may make.
    pub inbound_max: usize,
    /// Most of them that want transactions.
    pub inbound_relay_max: usize,
    /// Most of them from one network group.
    pub inbound_per_group_max: usize,
    /// Connections are encrypted where the other side can (BIP 324).
    pub encrypts: bool,
    /// Names are asked for addresses when there are too few.
    pub dns_seeds: bool,
    /// Built-in addresses are taken when there are none.
    pub fixed_seeds: bool,
    /// Who may do more than others.
    pub whitelist: Vec<Whitelisted>,
    /// What those of them may do for whom nothing is named.
    pub implicit: Permissions,
    /// How long a ban holds that says nothing else, in seconds.
    pub ban_s: u64,
    /// Which hosts belong together.
    pub groups: Groups,
    /// Where addresses, anchors and bans are kept; nowhere without.
    pub directory: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            listen: Vec::new(),
            whitebind: Vec::new(),
            external: Vec::new(),
            discovers: false,
            targets: Targets::USUAL,
            added: Vec::new(),
            seed_nodes: Vec::new(),
            reachable: Reachable::ALL,
            proxy: None,
            onion_proxy: None,
            tor: None,
            sam: None,
            // Core's `DEFAULT_CONNECT_TIMEOUT`.
            connect_timeout: Duration::from_secs(5),
            // Core's 125 connections less those it makes itself.
            inbound_max: 114,
            // Core's `DEFAULT_FULL_RELAY_INBOUND_PCT` is 50.
            inbound_relay_max: 57,
            inbound_per_group_max: 16,
            encrypts: true,
            dns_seeds: true,
            fixed_seeds: true,
            whitelist: Vec::new(),
            implicit: Permissions::implicit(true, false),
            // Core's `DEFAULT_MISBEHAVING_BANTIME`.
            ban_s: 24 * 60 * 60,
            groups: Groups::default(),
            directory: None,
        }
    }
}
