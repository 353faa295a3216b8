//! Discovery: which other Electrum servers there are, which of them are what they say, and whom to tell of.
//!
//! In:     seeds of the settings, servers that announce themselves or that others tell of.
//! Out:    a list for `server.peers.subscribe`, verified; our own announcement to those on it.
//! Fails:  never; a server that cannot be verified is not told of, and forgotten after some tries.
//! Source: Electrum protocol, docs/protocol-peers.rst; ElectrumX, `server/peers.py`, for limits and times.
//!
//! [`server`] is how servers are written, [`book`] knows them and says whom to visit when, [`visit`] is the conversation
//! of one visit: none of the three has a socket or a clock. [`shell`] has sockets, [`directory`] is what sessions see.

pub mod server;

pub mod book;
pub mod visit;

pub mod directory;
pub mod shell;

use std::path::PathBuf;

use server::Server;
use shell::ByProxy;

/// What part is taken in discovery.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// Servers to begin with.
    pub seeds: Vec<Server>,
    /// Tell those who are verified of ourselves.
    pub announces: bool,
    /// Hosts that nobody outside of this machine or network can reach are servers too: for tests, and on regtest.
    pub accepts_local: bool,
    /// Where verified servers are kept across restarts; nowhere where there is none.
    pub file: Option<PathBuf>,
    /// The way to onion services; without one they are not visited.
    pub onion_proxy: Option<ByProxy>,
    /// The way to everybody else, where it is not the direct one.
    pub proxy: Option<ByProxy>,
}
