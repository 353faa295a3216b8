//! The node among its peers: sockets, their hub, and the writer's news brought to it.
//!
//! In:     the network's configuration; a [`Handle`] to the writer.
//! Out:    [`Peers`], at work until it is stopped.
//! Fails:  when an address cannot be listened at.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use chain::mempool::SharedMempool;
use chain::{Event, Handle};
use net::Moment;
use net::hub::{Hub, Judgement, KnownTxs, NodeChain, UploadBudget, judgement_of};
use net::peer::Local;
use net::shell::{OsEntropy, PeerReport, Shell};
use net::sync::{Limits, Waiting};
use primitives::BlockHash;
use stdx::clock::Clock;

use super::log;
use crate::config::Config;
use crate::config::network::NetworkConfig;

/// Longest time a judgement on a block waits for being passed on; new tips are passed on at once.
const NEWS_TIME_MAX: Duration = Duration::from_millis(20);
/// A share of the memory budget for blocks asked for or waiting on disk for their turn: they mostly are not in memory.
const AHEAD_SHARE: u64 = 4;

/// Peers of a running node.
pub struct Peers {
    shell: Arc<Shell<NodeChain>>,
    news: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Peers {
    /// Listens, connects, and follows the writer.
    pub fn start(
        config: NetworkConfig,
        node: &Config,
        clock: Arc<dyn Clock>,
        handle: &Handle,
        _mempool: SharedMempool,
    ) -> Result<Peers, String> {
        let (params, memory_bytes) = (node.params.clone(), node.memory_bytes);
        let mut entropy = OsEntropy;
        let mut local = Local::new(params.magic, &mut entropy);
        local.user_agent = config.user_agent(&local.user_agent);
        local.start_height = handle.active_tip().height as i32;
        local.relays_txs = false; // no mempool is connected to the network yet, and peers are told so
        let known: KnownTxs = Arc::new(RwLock::new(Arc::new([])));
        let (chain, judgements) = NodeChain::new(handle.clone(), known);
        let limits = Limits { bytes_ahead_max: (memory_bytes / AHEAD_SHARE).max(16 << 20), ..Limits::default() };
        let budget = UploadBudget::new(config.upload_bytes_max);
        let hub = Hub::new(chain, Arc::new(params.clone()), Arc::new(local), limits, budget, &mut entropy);
        let events = handle.subscribe();
        let shell = Shell::start(config.shell, params, clock.clone(), hub, Box::new(entropy));
        let shell = Arc::new(shell.map_err(|error| format!("no peers: {error}"))?);
        for address in shell.listening() {
            log::info("net", "listening", &[("address", address)]);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (inside, follows, ends) = (shell.clone(), handle.clone(), stop.clone());
        let tell = move || pass_news_on(&inside, &follows, &events, &judgements, &*clock, &ends);
        let news = std::thread::Builder::new().name("net-news".to_owned()).spawn(tell);
        let news = news.map_err(|error| format!("no thread for the writer's news: {error}"))?;
        Ok(Peers { shell, news: Some(news), stop })
    }

    /// Where others may connect to.
    pub fn listening(&self) -> &[SocketAddr] {
        self.shell.listening()
    }

    /// A way to ask for the connections, for as long as anybody does.
    pub fn reports(&self) -> impl Fn() -> Vec<PeerReport> + Send + Sync + 'static {
        let shell = self.shell.clone();
        move || shell.peers()
    }

    /// A way to ask how much of the time validation waited for blocks on their way.
    pub fn waiting(&self) -> impl Fn() -> Waiting + Send + Sync + 'static {
        let shell = self.shell.clone();
        move || shell.waiting()
    }

    /// Ends all connections and saves what is known of other nodes.
    pub fn stop(mut self) -> Result<(), String> {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(news) = self.news.take() {
            // A panic of it has been logged, and ends the node by itself.
            let _ = news.join();
        }
        self.shell.stop().map_err(|error| format!("what is known of other nodes was not saved: {error}"))
    }
}

/// Tells the hub what the writer and its pool found out, until it is stopped.
fn pass_news_on(
    shell: &Shell<NodeChain>,
    handle: &Handle,
    events: &Receiver<Event>,
    judgements: &Receiver<(BlockHash, Judgement)>,
    clock: &dyn Clock,
    stop: &AtomicBool,
) {
    let progress = || (handle.intake_load(), handle.connected_tip().height);
    let mut before = progress();
    while !stop.load(Ordering::SeqCst) {
        let event = match events.recv_timeout(NEWS_TIME_MAX) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            // The writer has ended, and the node ends with it.
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let judged: Vec<(BlockHash, Judgement)> = judgements.try_iter().collect();
        let now = Moment::of(clock);
        let after = progress();
        // While the chain is fetched the writer tells of no block, and what it has taken makes room for others.
        if event.is_some() || !judged.is_empty() || after != before {
            shell.with_hub(|hub| {
                judged.iter().for_each(|(hash, judgement)| hub.judged(hash, *judgement, now));
                match event {
                    Some(Event::BlockJudged { hash, verdict, .. }) => hub.judged(&hash, judgement_of(&verdict), now),
                    _ => hub.chain_changed(now),
                }
            });
            before = after;
        }
        for remark in shell.take_remarks() {
            log::info("net", "remark", &[("what", &remark)]);
        }
        for ended in shell.take_ended() {
            let fields: log::Fields =
                &[("peer", &ended.id.0), ("address", &ended.remote), ("kind", &ended.kind.name()), ("why", &ended.end)];
            log::debug("net", "connection ended", fields);
        }
    }
}
