//! The Electrum server over the chain: the writer's views and events, as the protocols ask for them.
//!
//! In:     a [`Handle`] to the writer, the server's configuration.
//! Out:    [`Electrum`], a running server; dropping it closes every session.
//! Fails:  when the address cannot be bound.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use chain::{Handle, Phase};
use primitives::{ScriptHash, TxNum, Txid, TxoNum};
use serve::electrum::{Config, ServerHandle, start};
use serve::source::{Event, HeaderProof, HistoryEntry, Progress, Source, TxAt, UnspentEntry, View, ViewError};

/// How often the thread of events looks whether the server stops.
const EVENT_WAIT: Duration = Duration::from_millis(100);

/// A running server.
pub struct Electrum {
    server: Option<ServerHandle>,
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    feed: Option<JoinHandle<()>>,
}

impl Electrum {
    /// Binds and serves.
    pub fn start(config: Config, handle: &Handle) -> Result<Electrum, String> {
        let listen = config.listen;
        let failed =
            |error| format!("the Electrum server cannot listen on {listen} (setting electrum_listen): {error}");
        let (sender, events) = channel();
        let tips = handle.subscribe();
        let server = start(config, Arc::new(Chain(handle.clone())), events).map_err(failed)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let feed = move || {
            while !stopped.load(Ordering::SeqCst) {
                let told = match tips.recv_timeout(EVENT_WAIT) {
                    Ok(event) => sender.send(translate(event)).is_ok(),
                    Err(RecvTimeoutError::Timeout) => true,
                    Err(RecvTimeoutError::Disconnected) => false,
                };
                if !told {
                    return;
                }
            }
        };
        let feed = std::thread::Builder::new().name("electrum-feed".to_owned()).spawn(feed).map_err(failed)?;
        Ok(Electrum { address: server.local_address(), server: Some(server), stop, feed: Some(feed) })
    }

    /// Where it listens; the port is the one the system gave for port 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Counts the sessions open now, for as long as anybody asks.
    pub fn sessions(&self) -> impl Fn() -> u64 + Send + Sync + 'static {
        let env = self.server.as_ref().map(|server| server.env().clone());
        move || env.as_ref().map_or(0, |env| env.metrics.sessions_now.get())
    }
}

impl Drop for Electrum {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(server) = self.server.take() {
            server.stop();
        }
        if let Some(feed) = self.feed.take() {
            let _ = feed.join();
        }
    }
}

fn translate(event: chain::Event) -> Event {
    let chain::Event::NewTip { height, touched, reorganised_from, .. } = event;
    Event::NewTip { height, touched, reorganised_from }
}

/// The writer, as protocols see it.
struct Chain(Handle);

impl Source for Chain {
    fn progress(&self) -> Progress {
        let status = self.0.status();
        Progress {
            index_height: status.committed_height,
            headers_height: status.headers_height,
            ready: status.phase == Phase::Following,
        }
    }

    fn view(&self) -> Arc<dyn View> {
        Arc::new(Confirmed(self.0.view()))
    }
}

/// One view, as protocols see it.
struct Confirmed(Arc<chain::View>);

fn told<T>(result: Result<T, chain::ViewError>) -> Result<T, ViewError> {
    result.map_err(|error| match error {
        chain::ViewError::Stale => ViewError::Stale,
        other => ViewError::Read(other.to_string()),
    })
}

impl View for Confirmed {
    fn tip_height(&self) -> u32 {
        self.0.tip().height
    }

    fn header(&self, height: u32) -> Result<Option<[u8; 80]>, ViewError> {
        told(self.0.header(height))
    }

    fn headers(&self, start: u32, count: u32) -> Result<Vec<u8>, ViewError> {
        told(self.0.headers(start, count))
    }

    fn history(&self, script: &ScriptHash, from: TxNum, limit: usize) -> Result<Vec<HistoryEntry>, ViewError> {
        let entries = told(self.0.history(script, from, limit))?.into_iter();
        Ok(entries.map(|e| HistoryEntry { height: e.height, tx_num: e.tx_num, txid: e.txid }).collect())
    }

    fn unspent(&self, script: &ScriptHash, from: TxoNum, limit: usize) -> Result<Vec<UnspentEntry>, ViewError> {
        let entries = told(self.0.unspent(script, from, limit))?.into_iter();
        let entry = |e: chain::UnspentEntry| UnspentEntry {
            height: e.height,
            txid: e.outpoint.txid,
            vout: e.outpoint.vout,
            value_sat: e.value_sat,
            txo_num: e.txo_num,
        };
        Ok(entries.map(entry).collect())
    }

    fn balance_sat(&self, script: &ScriptHash) -> Result<u64, ViewError> {
        told(self.0.balance_sat(script))
    }

    fn transaction(&self, txid: &Txid) -> Result<Option<TxAt>, ViewError> {
        let found = told(self.0.transaction(txid))?;
        Ok(found.map(|tx| TxAt { height: tx.height, pos: tx.position, bytes: tx.bytes }))
    }

    fn txid_at(&self, height: u32, pos: u32) -> Result<Option<Txid>, ViewError> {
        told(self.0.txid_at(height, pos))
    }

    fn merkle_branch(&self, height: u32, pos: u32) -> Result<Option<Vec<[u8; 32]>>, ViewError> {
        told(self.0.merkle_branch(height, pos))
    }

    fn header_proof(&self, height: u32, cp_height: u32) -> Result<HeaderProof, ViewError> {
        let proof = told(self.0.header_proof(height, cp_height))?;
        proof.ok_or_else(|| ViewError::Read(format!("no proof of header {height} under {cp_height}")))
    }
}
