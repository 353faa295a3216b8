//! The Electrum server of a node: open from the first second, following the writer as soon as its store is open.
//!
//! In:     the server's configuration; later a [`Handle`] to the writer.
//! Out:    [`Electrum`], a running server; dropping it closes every session.
//! Fails:  when the address cannot be bound.

use std::net::SocketAddr;
use std::sync::Arc;

use chain::Handle;
use serve::confirmed::Confirmed;
use serve::electrum::{Config, ServerHandle, start};

/// A running server.
pub struct Electrum {
    server: ServerHandle,
    source: Arc<Confirmed>,
}

impl Electrum {
    /// Binds and serves what is known before the store is open: the genesis header, and how far the index is.
    pub fn start(config: Config) -> Result<Electrum, String> {
        let failed = |error| format!("the Electrum server does not start (settings electrum_*): {error}");
        let source = Arc::new(Confirmed::new(&config.params));
        let server = start(config, source.clone()).map_err(failed)?;
        Ok(Electrum { server, source })
    }

    /// Answers from the writer's views from now on, and tells sessions of its events.
    pub fn open(&mut self, handle: &Handle) -> Result<(), String> {
        self.server.follow(handle.subscribe()).map_err(|error| format!("no thread for Electrum's events: {error}"))?;
        self.source.open(handle.clone());
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

    /// Counts the sessions open now, for as long as anybody asks.
    pub fn sessions(&self) -> impl Fn() -> u64 + Send + Sync + 'static {
        let env = self.server.env().clone();
        move || env.metrics.sessions_now.get()
    }
}
