//! What all calls share.
//!
//! In:     the network's constants and the host; later the writer's handle, the mempool, the peers.
//! Out:    [`Env`]: views, and places for what comes later.
//! Fails:  [`Env::view`] with -28 while the node is starting.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use chain::{Handle, View};
use primitives::Params;

use super::error::{RpcError, code};
use super::needs::{Blocks, Host, Mempool, Network};
use super::table;
use crate::filters::Scan;
use crate::metrics::Metrics;
use crate::zmq::Notifier;

/// What all calls share.
pub struct Env {
    /// The network's constants.
    pub params: Params,
    /// The process.
    pub host: Arc<dyn Host>,
    /// The writer, once its store is open.
    pub chain: OnceLock<Handle>,
    /// The mempool, where there is one.
    pub mempool: OnceLock<Arc<dyn Mempool>>,
    /// The peers, where there are any.
    pub network: OnceLock<Arc<dyn Network>>,
    /// The way in for blocks, where there is one.
    pub blocks: OnceLock<Arc<dyn Blocks>>,
    /// What ZeroMQ publishes where.
    pub zmq: OnceLock<Vec<Notifier>>,
    /// The scan of block filters under way.
    pub filter_scan: Scan,
    /// Counters.
    pub metrics: Metrics,
    active: Mutex<Vec<Active>>,
}

/// A call under way.
#[derive(Clone, Copy, Debug)]
pub struct Active {
    /// The method.
    pub method: &'static str,
    /// When it began.
    pub since: Instant,
    number: u64,
}

/// Takes a call off the list when it ends, however it ends.
pub struct Running<'a> {
    env: &'a Env,
    number: u64,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.env.actives().retain(|active| active.number != self.number);
    }
}

impl Env {
    /// The state of a node that is starting.
    pub fn new(params: Params, host: Arc<dyn Host>) -> Env {
        Env {
            params,
            host,
            chain: OnceLock::new(),
            mempool: OnceLock::new(),
            network: OnceLock::new(),
            blocks: OnceLock::new(),
            zmq: OnceLock::new(),
            filter_scan: Scan::default(),
            metrics: Metrics::new(table::all().map(|method| method.name)),
            active: Mutex::default(),
        }
    }

    /// The writer's handle; -28 while the node is starting.
    pub fn handle(&self) -> Result<&Handle, RpcError> {
        self.chain.get().ok_or_else(|| RpcError::new(code::IN_WARMUP, "Opening the store\u{2026}"))
    }

    /// The newest committed state.
    pub fn view(&self) -> Result<Arc<View>, RpcError> {
        Ok(self.handle()?.view())
    }

    fn actives(&self) -> std::sync::MutexGuard<'_, Vec<Active>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a call on the list until the guard is dropped.
    pub fn begin(&self, method: &'static str) -> Running<'_> {
        let mut active = self.actives();
        let number = active.last().map_or(0, |last| last.number + 1);
        active.push(Active { method, since: Instant::now(), number });
        Running { env: self, number }
    }

    /// Calls under way, oldest first.
    pub fn active(&self) -> Vec<Active> {
        self.actives().clone()
    }
}
