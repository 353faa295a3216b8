//! The node among its peers: sockets, their hub, and the news of writer and mempool brought to it.
//!
//! In:     the network's configuration; a [`Handle`] to the writer; the mempool.
//! Out:    [`Peers`], at work until it is stopped.
//! Fails:  when an address cannot be listened at.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::thread::JoinHandle;
use std::time::Duration;

use chain::mempool::{self, SharedMempool};
use chain::{Event, Handle, IntakeLoad, TipBlock};
use net::Moment;
use net::hub::{Hub, Judgement, NodeChain, UploadBudget, judgement_of};
use net::peer::Local;
use net::relay::{judge_followed, tx_ids};
use net::shell::{OsEntropy, PeerReport, Shell};
use net::sync::{Limits, Waiting};
use net::wire::Services;
use primitives::{Block, BlockHash, Txid, Wtxid};
use stdx::clock::Clock;

use super::log;
use crate::config::Config;
use crate::config::network::NetworkConfig;
use crate::wiring::PeerCalls;

/// Longest time between two looks at the mempool's events and the log; new tips and judgements on blocks are passed on at
/// once.
const NEWS_TIME_MAX: Duration = Duration::from_millis(20);
/// Longest time between two looks whether to stop.
const STOP_TIME_MAX: Duration = Duration::from_millis(50);
/// Time between two looks whether the mempool has followed a reorganisation, and how many there are at most: ten seconds.
const FOLLOW_LOOK: Duration = Duration::from_millis(2);
const FOLLOW_LOOKS_MAX: u32 = 5_000;
/// A share of the memory budget for blocks asked for or waiting on disk for their turn: they mostly are not in memory.
const AHEAD_SHARE: u64 = 4;

/// Peers of a running node.
pub struct Peers {
    shell: Arc<Shell<NodeChain>>,
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Peers {
    /// Listens, connects, and follows the writer.
    pub fn start(
        config: NetworkConfig,
        node: &Config,
        clock: Arc<dyn Clock>,
        handle: &Handle,
        mempool: SharedMempool,
    ) -> Result<Peers, String> {
        let (params, memory_bytes) = (node.params.clone(), node.memory_bytes);
        let mut entropy = OsEntropy;
        let mut local = Local::new(params.magic, &mut entropy);
        local.user_agent = config.user_agent(&local.user_agent);
        local.start_height = handle.active_tip().height as i32;
        local.handshake_timeout_s = config.handshake_s;
        if !config.shell.encrypts {
            local.services = local.services.without(Services::P2P_V2);
        }
        local.relays_txs = !config.blocks_only;
        local.tells_mempool = config.tells_mempool;
        let (mut chain, judgements) = NodeChain::new(handle.clone());
        if config.serves_filters {
            chain.serve_filters();
        }
        let limits = Limits { bytes_ahead_max: (memory_bytes / AHEAD_SHARE).max(16 << 20), ..Limits::default() };
        let budget = UploadBudget::new(config.upload_bytes_max);
        let pool = Box::new(mempool.clone());
        let hub = Hub::new(chain, Arc::new(params.clone()), Arc::new(local), limits, budget, pool, &mut entropy);
        let shell = Shell::start(config.shell, params, clock.clone(), hub, Box::new(entropy));
        let shell = Arc::new(shell.map_err(|error| format!("no peers: {error}"))?);
        for address in shell.listening() {
            log::info("net", "listening", &[("address", address)]);
        }
        let mut peers = Peers { shell, threads: Vec::new(), stop: Arc::new(AtomicBool::new(false)) };
        let news = News {
            blocks: handle.subscribe(),
            changes: mempool.write().subscribe(),
            progress: progress(handle),
            handle: handle.clone(),
            mempool: mempool.clone(),
            clock: clock.clone(),
        };
        peers.spawn("net-news", move |shell, stop| news.pass_on(shell, stop))?;
        let now = clock.clone();
        peers.spawn("net-blocks", move |shell, stop| pass_judgements_on(shell, &judgements, &*now, stop))?;
        peers.spawn("net-txs", move |shell, stop| judge_txs(shell, &mempool, &*clock, stop))?;
        Ok(peers)
    }

    fn spawn(
        &mut self,
        name: &'static str,
        run: impl FnOnce(&Shell<NodeChain>, &AtomicBool) + Send + 'static,
    ) -> Result<(), String> {
        let (shell, stop) = (self.shell.clone(), self.stop.clone());
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || run(&shell, &stop));
        self.threads.push(thread.map_err(|error| format!("no thread {name}: {error}"))?);
        Ok(())
    }

    /// Where others may connect to.
    pub fn listening(&self) -> &[SocketAddr] {
        self.shell.listening()
    }

    /// The peers as JSON-RPC asks for them.
    pub fn calls(&self) -> PeerCalls<NodeChain> {
        PeerCalls::new(self.shell.clone())
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
        for thread in std::mem::take(&mut self.threads) {
            // A panic of one has been logged, and ends the node by itself.
            let _ = thread.join();
        }
        self.shell.stop().map_err(|error| format!("what is known of other nodes was not saved: {error}"))
    }
}

/// Tells the hub at once what the pool found out about blocks: a new block is told of as soon as it was looked at.
fn pass_judgements_on(
    shell: &Shell<NodeChain>,
    judgements: &Receiver<(BlockHash, Judgement)>,
    clock: &dyn Clock,
    stop: &AtomicBool,
) {
    while !stop.load(Ordering::SeqCst) {
        let first = match judgements.recv_timeout(STOP_TIME_MAX) {
            Ok(judged) => judged,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let judged: Vec<(BlockHash, Judgement)> = std::iter::once(first).chain(judgements.try_iter()).collect();
        let now = Moment::of(clock);
        shell.with_hub(|hub| judged.iter().for_each(|(hash, judgement)| hub.judged(hash, *judgement, now)));
    }
}

/// Judges the transactions that peers send, a lot at a time, while the hub goes on.
fn judge_txs(shell: &Shell<NodeChain>, mempool: &SharedMempool, clock: &dyn Clock, stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) {
        let jobs = shell.take_tx_jobs(STOP_TIME_MAX);
        if !jobs.is_empty() {
            let mut pauses = 0;
            let verdicts = judge_followed(mempool, jobs, clock.unix_s(), || {
                std::thread::sleep(FOLLOW_LOOK);
                pauses += 1;
                pauses < FOLLOW_LOOKS_MAX && !stop.load(Ordering::SeqCst)
            });
            let now = Moment::of(clock);
            shell.with_hub(|hub| hub.txs_judged(verdicts, now));
        }
    }
}

/// What happened elsewhere in the node, for the hub.
struct News {
    blocks: Receiver<Event>,
    changes: Receiver<mempool::Event>,
    handle: Handle,
    mempool: SharedMempool,
    clock: Arc<dyn Clock>,
    /// How far the writer and the door were when the hub was told last.
    progress: (IntakeLoad, u32),
}

fn progress(handle: &Handle) -> (IntakeLoad, u32) {
    (handle.intake_load(), handle.connected_tip().height)
}

impl News {
    /// Passes on what the writer and the mempool tell, until it is stopped.
    fn pass_on(mut self, shell: &Shell<NodeChain>, stop: &AtomicBool) {
        while !stop.load(Ordering::SeqCst) {
            match self.blocks.recv_timeout(NEWS_TIME_MAX) {
                Ok(event) => self.pass_block_on(shell, &event),
                Err(RecvTimeoutError::Timeout) => self.pass_progress_on(shell),
                // The writer has ended, and the node ends with it.
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.pass_changes_on(shell);
            write_log(shell);
        }
    }

    /// While the chain is fetched the writer tells of no block, and what it has taken makes room for others.
    fn pass_progress_on(&mut self, shell: &Shell<NodeChain>) {
        let now = progress(&self.handle);
        if std::mem::replace(&mut self.progress, now) != now {
            shell.with_hub(|hub| hub.chain_changed(Moment::of(&*self.clock)));
        }
    }

    fn pass_block_on(&self, shell: &Shell<NodeChain>, event: &Event) {
        let now = || Moment::of(&*self.clock);
        match event {
            Event::BlockJudged { hash, verdict, .. } => {
                shell.with_hub(|hub| hub.judged(hash, judgement_of(verdict), now()));
            }
            Event::NewTip { disconnected, connected, .. } => {
                // Peers wait for the tip; what it means for transactions comes after.
                shell.with_hub(|hub| hub.chain_changed(now()));
                if !disconnected.is_empty() {
                    shell.with_hub(|hub| hub.block_disconnected(now()));
                }
                if !self.handle.is_initial_download() {
                    for (block, ids) in connected.iter().filter_map(|block| self.with_ids(block)) {
                        shell.with_hub(|hub| hub.block_connected(&block, &ids, now()));
                    }
                }
            }
            Event::NewHeader { .. } => shell.with_hub(|hub| hub.chain_changed(now())),
        }
    }

    /// The block and the identifiers of its transactions, found while nobody waits.
    fn with_ids(&self, joined: &TipBlock) -> Option<(Block, Vec<(Txid, Wtxid)>)> {
        let block = match &joined.block {
            Some(checked) => checked.block().clone(),
            None => Block::parse(self.handle.block_bytes(&joined.hash)?).ok()?,
        };
        let ids = tx_ids(&block);
        Some((block, ids))
    }

    fn pass_changes_on(&mut self, shell: &Shell<NodeChain>) {
        let mut changes = Vec::new();
        loop {
            match self.changes.try_recv() {
                Ok(change @ (mempool::Event::Added { .. } | mempool::Event::Offered { .. })) => changes.push(change),
                Ok(_) => {}
                Err(TryRecvError::Empty) => break,
                // Too far behind: what was missed is told of when its owner asks again, or by others.
                Err(TryRecvError::Disconnected) => {
                    self.changes = self.mempool.write().subscribe();
                    break;
                }
            }
        }
        if !changes.is_empty() {
            let now = Moment::of(&*self.clock);
            shell.with_hub(|hub| {
                changes.iter().for_each(|change| hub.pool_changed(change, now));
                hub.pool_settled(now);
            });
        }
    }
}

fn write_log(shell: &Shell<NodeChain>) {
    for remark in shell.take_remarks() {
        log::info("net", "remark", &[("what", &remark)]);
    }
    for ended in shell.take_ended() {
        let fields: log::Fields =
            &[("peer", &ended.id.0), ("address", &ended.remote), ("kind", &ended.kind.name()), ("why", &ended.end)];
        log::debug("net", "connection ended", fields);
    }
}
