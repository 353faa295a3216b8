//! What the shell is told to do.
//!
//! In:     settings that were checked before.
//! Out:    [`Config`].
//! Fails:  never.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::addresses::{Reachable, Subnet, Targets};
use crate::peer::Permissions;
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

/// Settings of the shell.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where others may connect to.
    pub listen: Vec<SocketAddr>,
    /// What we tell others we can be reached at.
    pub external: Vec<Endpoint>,
    /// How many connections we make.
    pub targets: Targets,
    /// Endpoints or names to stay connected to ("addnode", or "connect" with [`Targets::NONE`]).
    pub added: Vec<String>,
    /// Kinds of hosts we connect to.
    pub reachable: Reachable,
    /// For all connections we make.
    pub proxy: Option<Proxy>,
    /// For onion services, where it is another one.
    pub onion_proxy: Option<Proxy>,
    /// An onion service is asked for here.
    pub tor: Option<TorService>,
    /// Most connections others may make.
    pub inbound_max: usize,
    /// Most of them from one network group.
    pub inbound_per_group_max: usize,
    /// Connections are encrypted where the other side can (BIP 324).
    pub encrypts: bool,
    /// Names are asked for addresses when there are too few.
    pub dns_seeds: bool,
    /// Built-in addresses are taken when there are none.
    pub fixed_seeds: bool,
    /// Who may do more than others.
    pub whitelist: Vec<(Subnet, Permissions)>,
    /// Where addresses, anchors and bans are kept; nowhere without.
    pub directory: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            listen: Vec::new(),
            external: Vec::new(),
            targets: Targets::USUAL,
            added: Vec::new(),
            reachable: Reachable::ALL,
            proxy: None,
            onion_proxy: None,
            tor: None,
            // Core's 125 connections less those it makes itself.
            inbound_max: 114,
            inbound_per_group_max: 16,
            encrypts: true,
            dns_seeds: true,
            fixed_seeds: true,
            whitelist: Vec::new(),
            directory: None,
        }
    }
}
