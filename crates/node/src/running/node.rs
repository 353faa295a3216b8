//! A running node: the order of start, the watch of the main thread, the order of stopping.
//!
//! In:     the checked [`Config`].
//! Out:    [`Node`]: a writer that follows the block files, a server for wallets, a status socket.
//! Fails:  starting, with one line; running, with [`End::Failed`] and a line in the log.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use chain::mempool::SharedMempool;
use chain::{Chain, ChainError, Handle, HintsUse, Phase, World};
use serve::rpc::needs::Host;
use serve::transport::listen::Place;
use sigs::{EngineError, EngineName};
use stdx::disk::SystemDisk;
use stdx::pool::Pool;

use super::clock::NodeClock;
use super::electrum::Electrum;
use super::journal::Journal;
use super::lock::DataLock;
use super::mempool::Unconfirmed;
use super::network::Peers;
use super::progress::bytes_text;
use super::report::Reporter;
use super::rpc::{Rpc, host};
use super::socket::StatusSocket;
use super::stop::StopFlag;
use super::{log, os};
use crate::Failure;
use crate::config::{Config, ConfigError, FILE_NAME, Layers, show};
use crate::wiring::Zmq;

/// How often the main thread looks around.
const TICK: Duration = Duration::from_millis(50);
/// How often free disk is asked for.
const DISK_INTERVAL: Duration = Duration::from_secs(2);
/// Time for a clean stop. Stopping is promised within 5 s; what is not committed by then is done again at the next start.
const STOP_PATIENCE: Duration = Duration::from_millis(4_500);

/// Why a node ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// A signal asked for it.
    Asked,
    /// It cannot go on; the line was logged.
    Failed(String),
}

/// The parts of a running node, in the order in which they are let go.
pub struct Node {
    electrum: Option<Electrum>,
    rpc: Option<Rpc>,
    host: Arc<dyn Host>,
    zmq: Option<Zmq>,
    peers: Option<Peers>,
    mempool: Option<Unconfirmed>,
    writer: Option<JoinHandle<Result<(), ChainError>>>,
    opened: Receiver<Handle>,
    handle: Option<Handle>,
    reporter: Reporter,
    config: Config,
    engine: Arc<dyn sigs::Engine>,
    clock: Arc<NodeClock>,
    stop: StopFlag,
    _socket: StatusSocket,
    _lock: DataLock,
}

impl Node {
    /// Takes the data directory and starts every thread. The store opens on the writer's thread, so that a signal is
    /// heard meanwhile.
    pub fn start(config: Config, layers: &Layers, stop: StopFlag) -> Result<Node, Failure> {
        let engine = engine(&config, layers)?; // the last setting that can be refused: nothing is touched before
        Node::start_with(config, engine, Vec::new(), stop)
    }

    /// As [`Node::start`], with this engine whatever the settings name, and headers that another store knew.
    pub fn start_with(
        config: Config,
        engine: Arc<dyn sigs::Engine>,
        headers: Vec<[u8; 80]>,
        stop: StopFlag,
    ) -> Result<Node, Failure> {
        let lock = DataLock::take(&config.chain_dir).map_err(|error| Failure::Run(error.to_string()))?;
        write_settings_file(&config)?;
        let files_max = os::raise_open_files();
        let disk = Arc::new(SystemDisk::default());
        let reporter = Reporter::new(&config, disk.clone(), engine.clone());
        let answer = reporter.clone();
        let socket = StatusSocket::start(&config.chain_dir, move |asked| answer.answer(asked).to_string())
            .map_err(|error| Failure::Run(format!("the status socket cannot be made: {error}")))?;
        log::info(
            "node",
            "starting",
            &[
                ("version", &env!("CARGO_PKG_VERSION")),
                ("chain", &config.network),
                ("datadir", &config.chain_dir.display()),
                ("blocks_from", &config.blocks_from.display()),
                ("threads", &config.threads),
                ("memory_mib", &(config.memory_bytes >> 20)),
                ("engine", &engine.name()),
                ("engine_instructions", &engine.instructions()),
                ("assume_valid", &config.assume_valid.map_or("none".to_owned(), |hash| hash.to_string())),
                ("open_files_max", &files_max.unwrap_or(0)),
            ],
        );
        let electrum = config.electrum.clone().map(|electrum| serve(electrum, &config, &reporter)).transpose()?;
        let clock = Arc::new(NodeClock::default());
        let host = host(&config, &reporter, &stop, &clock);
        let rpc = Rpc::start(&config, &host).map_err(Failure::Run)?;
        let zmq = Zmq::start(&config.zmq).map_err(Failure::Run)?;
        if let (Some(rpc), Some(zmq)) = (&rpc, &zmq) {
            rpc.publishes(zmq.notifiers());
        }
        let pool = Arc::new(Pool::new("check", config.threads));
        let world = World { disk, clock: clock.clone(), pool, engine: engine.clone() };
        let (sender, opened) = channel();
        let options = chain::Options { headers, ..options(&config)? };
        let writer = std::thread::Builder::new().name("writer".to_owned()).spawn(move || {
            let chain = Chain::open(world, options)?;
            let _ = sender.send(chain.handle()); // nobody listens any more when a signal came first
            chain.run()
        });
        let writer = writer.map_err(|error| Failure::Run(format!("no thread for the writer: {error}")))?;
        Ok(Node {
            electrum,
            rpc,
            host,
            zmq,
            peers: None,
            mempool: None,
            writer: Some(writer),
            opened,
            handle: None,
            reporter,
            config,
            engine,
            clock,
            stop,
            _socket: socket,
            _lock: lock,
        })
    }

    /// What the node says about itself.
    pub fn reporter(&self) -> &Reporter {
        &self.reporter
    }

    /// Where the Electrum server listens.
    pub fn electrum_address(&self) -> Option<SocketAddr> {
        self.electrum.as_ref().map(Electrum::address)
    }

    /// The memory budget in words.
    pub fn budget_text(&self) -> String {
        bytes_text(self.config.memory_bytes)
    }

    /// Waits until the store is open, or the node has to end.
    pub fn wait_open(&mut self) -> Result<Handle, End> {
        loop {
            match self.opened.recv_timeout(TICK) {
                Ok(handle) => {
                    self.reporter.opened(handle.clone());
                    self.handle = Some(handle.clone());
                    return self.open(&handle).map(|()| handle).map_err(End::Failed);
                }
                Err(RecvTimeoutError::Timeout) if self.must_end().is_none() => {}
                Err(_) => return Err(self.must_end().unwrap_or_else(|| self.writer_end())),
            }
        }
    }

    /// Everything that stands on the open store: the mempool, then those who serve from it.
    fn open(&mut self, handle: &Handle) -> Result<(), String> {
        let (settings, folder) = (&self.config.mempool, &self.config.chain_dir);
        let mempool = Unconfirmed::start(settings, folder, handle, self.engine.clone(), self.clock.clone())?;
        self.reporter.holding(mempool.mempool().clone(), self.clock.clone());
        let pool = mempool.pool(settings.mining, self.host.clone());
        if let Some(rpc) = &self.rpc {
            rpc.open(handle, &pool);
        }
        if let Some(electrum) = &mut self.electrum {
            electrum.open(handle, &pool)?;
        }
        let shared = mempool.mempool().clone();
        if let Some(zmq) = &mut self.zmq {
            zmq.open(handle, shared.clone())?;
        }
        self.mempool = Some(mempool);
        self.join_network(handle, shared)
    }

    /// Connects to peers, if the settings want any.
    fn join_network(&mut self, handle: &Handle, mempool: SharedMempool) -> Result<(), String> {
        let Some(config) = self.config.peers.clone() else { return Ok(()) };
        let peers = Peers::start(config, &self.config, self.clock.clone(), handle, mempool)?;
        if let Some(rpc) = &self.rpc {
            rpc.join(Arc::new(peers.calls()));
        }
        self.reporter.connected(peers.listening().first().copied(), peers.reports(), peers.waiting());
        self.peers = Some(peers);
        Ok(())
    }

    /// Watches over the node until it must end, or `done` says that it has seen enough.
    pub fn watch(&mut self, mut done: impl FnMut() -> bool) -> Option<End> {
        let live = log::is_live();
        let every = if live { Duration::from_secs(1) } else { self.config.progress_interval };
        let (mut next_sample, mut next_line) = (Instant::now(), Instant::now());
        let mut next_disk = Instant::now();
        let mut journal = Journal::default();
        let end = loop {
            let now = Instant::now();
            if let Some(status) = self.reporter.status() {
                journal.look(&status);
            }
            if now >= next_sample {
                self.reporter.sample();
                if let Some(why) = self.rpc.as_ref().and_then(Rpc::take_fault) {
                    log::warn("rpc", "a call failed", &[("why", &why)]);
                }
                if let Some(why) = self.electrum.as_ref().and_then(Electrum::take_fault) {
                    log::warn("electrum", "an answer failed", &[("why", &why)]);
                }
                next_sample = now + Duration::from_secs(1);
            }
            if now >= next_line {
                self.show_progress(live);
                next_line = now + every;
            }
            if now >= next_disk {
                if let Some(end) = self.disk_is_low() {
                    break Some(end);
                }
                next_disk = now + DISK_INTERVAL;
            }
            if let Some(end) = self.must_end() {
                break Some(end);
            }
            if self.writer.as_ref().is_none_or(JoinHandle::is_finished) {
                break Some(self.writer_end());
            }
            if done() {
                break None;
            }
            std::thread::sleep(TICK);
        };
        if live {
            log::live("");
        }
        end
    }

    /// Ends the writer with its last commit, within the time promised.
    pub fn stop(mut self, end: End) -> End {
        if let Some(handle) = &self.handle {
            handle.stop();
        }
        let deadline = Instant::now() + STOP_PATIENCE;
        if let Some(Err(why)) = self.peers.take().map(Peers::stop) {
            log::warn("net", "stopped", &[("why", &why)]);
        }
        self.electrum = None; // sessions are closed while the writer commits
        self.rpc = None;
        self.zmq = None;
        if let Some(mempool) = self.mempool.take() {
            mempool.stop(deadline);
        }
        while self.writer.as_ref().is_some_and(|writer| !writer.is_finished()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let status = self.reporter.status().unwrap_or_default();
        let heights: log::Fields = &[("height", &status.height), ("committed_height", &status.committed_height)];
        if self.writer.as_ref().is_some_and(|writer| !writer.is_finished()) {
            // The last commit is still being written; a process that ends now loses what a kill would: nothing durable.
            log::warn("node", "stopped before the last commit was done; its blocks are done again", heights);
            std::mem::forget(self); // the lock is held until the process, and with it the writer, is gone
            return end;
        }
        if self.writer.is_some()
            && let End::Failed(why) = self.writer_end()
        {
            return End::Failed(why);
        }
        log::info("node", "stopped", heights);
        end
    }

    fn must_end(&self) -> Option<End> {
        if self.stop.is_panicked() {
            return Some(End::Failed("a thread panicked; the log says where".to_owned()));
        }
        self.stop.is_signalled().then_some(End::Asked)
    }

    /// Why the writer's thread ended.
    fn writer_end(&mut self) -> End {
        match self.writer.take().map(JoinHandle::join) {
            None | Some(Ok(Ok(()))) => End::Asked,
            Some(Ok(Err(error))) if error.is_disk_full() => End::Failed(format!("the disk is full: {error}")),
            Some(Ok(Err(error))) => End::Failed(error.to_string()),
            Some(Err(_)) => End::Failed("the writer panicked; the log says where".to_owned()),
        }
    }

    fn disk_is_low(&self) -> Option<End> {
        let free = os::disk_free_bytes(&self.config.chain_dir)?;
        (free < self.config.disk_free_min_bytes).then(|| {
            End::Failed(format!(
                "disk space is low: {} MiB free on the disk of {}, the setting disk_free_min_mib asks for {}",
                free >> 20,
                self.config.chain_dir.display(),
                self.config.disk_free_min_bytes >> 20
            ))
        })
    }

    fn show_progress(&self, live: bool) {
        let following = self.reporter.status().is_some_and(|status| status.phase == Phase::Following);
        match (live, following) {
            (true, false) => log::live(&self.reporter.live_line()),
            (true, true) => log::live(""),
            (false, false) => self.reporter.log_progress(),
            (false, true) => {}
        }
    }
}

fn serve(electrum: serve::electrum::Config, config: &Config, reporter: &Reporter) -> Result<Electrum, Failure> {
    let electrum = Electrum::start(electrum, config.electrum_onion.clone()).map_err(Failure::Run)?;
    for door in electrum.doors() {
        log::info("electrum", "listening", &[("address", &door.place), ("transport", &door.name())]);
        if let Place::Tcp(address) = door.place
            && !address.ip().is_loopback()
            && !door.has_tls
        {
            log::warn(
                "electrum",
                "not loopback and without TLS",
                &[("address", &address), ("transport", &door.name())],
            );
        }
    }
    reporter.serving(electrum.env().clone(), electrum.listening(), config.datadir.join(FILE_NAME));
    Ok(electrum)
}

/// The engine the settings name; one this program or processor lacks is a wrong setting.
pub fn engine(config: &Config, layers: &Layers) -> Result<Arc<dyn sigs::Engine>, ConfigError> {
    let name: EngineName = config.sig_engine.parse().expect("the table's choices are the engines");
    if name == EngineName::Auto {
        for passed_over in [EngineName::Batch, EngineName::Lanes] {
            match sigs::engine(passed_over) {
                Err(error @ (EngineError::SelfTest { .. } | EngineError::NoRandom(_))) => {
                    log::warn("node", "signature engine", &[("why", &error)]);
                }
                _ => break,
            }
        }
    }
    sigs::engine(name).map_err(|error| {
        let works = |name: &EngineName| sigs::engine(*name).is_ok();
        let accepted: Vec<&str> = EngineName::ALL.into_iter().filter(works).map(EngineName::as_str).collect();
        ConfigError::BadValue {
            setting: "sig_engine",
            source: layers.get("sig_engine").1,
            why: error.to_string(),
            accepted: accepted.join(", "),
        }
    })
}

/// The chain's options as the settings have them.
pub fn options(config: &Config) -> Result<chain::Options, Failure> {
    let secret = secret().map_err(|error| Failure::Run(format!("no random numbers from /dev/urandom: {error}")))?;
    let foreign = (!config.blocks_own).then(|| config.blocks_from.clone());
    let own = config.chain_dir.join("blocks");
    let real = |path: &std::path::Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    // Whoever names our folder as another node's has put that one's files there: they are not written.
    let is_foreign = foreign.as_deref().is_some_and(|foreign| real(foreign) == real(&own));
    Ok(chain::Options {
        memory_bytes: config.memory_bytes - config.mempool.reserve_bytes(),
        assume_valid: config.assume_valid,
        own_blocks: (!is_foreign).then_some(own),
        block_filters: config.block_filters,
        hints: config.hints_dir.clone().map_or(HintsUse::Off, HintsUse::Keep),
        tip_age_max_s: config.tip_age_max_s,
        ..chain::Options::new(config.params.clone(), config.store_dir.clone(), foreign, secret)
    })
}

fn secret() -> std::io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The commented file of a first start; one that is there is left alone.
fn write_settings_file(config: &Config) -> Result<(), Failure> {
    let path = config.datadir.join(FILE_NAME);
    match fs::File::create_new(&path) {
        Ok(mut file) => file
            .write_all(show::file_text().as_bytes())
            .map_err(|error| Failure::Run(format!("{} cannot be written: {error}", path.display()))),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(Failure::Run(format!("{} cannot be made: {error}", path.display()))),
    }
}
