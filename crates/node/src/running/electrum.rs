//! The Electrum server of a node: open from the first second, following the writer as soon as its store is open.
//!
//! In:     the server's configuration; later a [`Handle`] to the writer, and the mempool.
//! Out:    [`Electrum`], a running server; dropping it closes every session.
//! Fails:  when the address cannot be bound.

use std::net::SocketAddr;
use std::sync::Arc;

use chain::Handle;
use serve::confirmed::{Confirmed, Waiting};
use serve::discovery::server::{Host, Server};
use serve::electrum::{Config, Env, ServerHandle, start};
use serve::pool::Pool;
use serve::transport::listen::{Door, Place};

use crate::wiring::{Onion, OnionWish};

/// A running server.
pub struct Electrum {
    /// Ends before the server, so that nobody comes to a closed door.
    _onion: Option<Onion>,
    server: ServerHandle,
    source: Arc<Confirmed>,
}

impl Electrum {
    /// Binds and serves what is known before the store is open: the genesis header, and how far the index is.
    pub fn start(config: Config, onion: Option<OnionWish>) -> Result<Electrum, String> {
        let failed = |error| format!("the Electrum server does not start (settings electrum_*): {error}");
        let source = Arc::new(Confirmed::new(&config.params));
        let server = start(config, source.clone()).map_err(failed)?;
        let target = server.doors().iter().find_map(|door| match door.place {
            Place::Tcp(address) if door.is_onion => Some(address),
            _ => None,
        });
        let env = server.env().clone();
        let keep = |(wish, target): (OnionWish, SocketAddr)| {
            let port = wish.port;
            let told = move |name: &str| {
                if let Some(host) = Host::parse(name) {
                    env.directory.also_ours(Server { host, ports: [Some(port), None, None, None] });
                }
            };
            Onion::keep(wish, target, told)
        };
        let onion = onion.zip(target).map(keep).transpose();
        let onion = onion.map_err(|error| format!("no thread for the onion service: {error}"))?;
        Ok(Electrum { _onion: onion, server, source })
    }

    /// Answers from the writer's views and the mempool from now on, and tells sessions of what happens to both.
    pub fn open(&mut self, handle: &Handle, pool: &Arc<Pool>) -> Result<(), String> {
        let (mempool, followed) = (pool.mempool.clone(), pool.followed.clone());
        // The mempool follows the writer already, so its events come after the writer's.
        let follows = self.server.follow(handle.subscribe_tips(), Some(mempool.clone()));
        follows.map_err(|error| format!("no thread for Electrum's events: {error}"))?;
        self.source.open(handle.clone(), Waiting { mempool, followed, pool: pool.clone() });
        // Whoever asked before was told of the genesis block.
        self.server.env().subscriptions.tell_everything();
        Ok(())
    }

    /// Where it listens; the port is the one the system gave for port 0.
    pub fn address(&self) -> SocketAddr {
        self.server.local_address()
    }

    /// What went wrong on our side since it was asked last, the newest only.
    pub fn take_fault(&self) -> Option<String> {
        self.server.metrics().take_fault()
    }

    /// The ways in.
    pub fn doors(&self) -> &[Door] {
        self.server.doors()
    }

    /// The first way in, as people read it.
    pub fn listening(&self) -> String {
        self.doors().first().map_or(String::new(), |door| door.place.to_string())
    }

    /// What its sessions share, for as long as anybody asks.
    pub fn env(&self) -> &Arc<Env> {
        self.server.env()
    }
}
