//! Electrum servers that a bench starts over one chain: ours, electrs, ElectrumX, Fulcrum.
//!
//! In:     programs, a forged chain's block files; for the others a bitcoind that has taken in a copy of them.
//! Out:    [`Contestant`]s that stand at the chain's tip.
//! Fails:  as [`Process`] does; what a program printed lies in a file beside its data.
//!
//! Fair or not: limits that protect a server from strangers are lifted for all of them, caches and threads are what each
//! takes by itself. ElectrumX holds small answers over TCP back by up to a second on purpose, so it is asked by WebSocket.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::arguments::{ElectrumOptions, Server};
use crate::client::Client;
use crate::client::{Address, Scheme};
use crate::nodes::bitcoind::{self, Bitcoind, free_address};
use crate::nodes::{Assay, AssaySettings, P2p, Process, Rpc};
use crate::sample::Blocks;
use crate::{BenchError, at};

/// Time between two looks whether a server stands at the tip.
const POLL: Duration = Duration::from_millis(200);
/// Longest wait for an answer while a server starts.
const FIRST_ANSWER: Duration = Duration::from_secs(10);

/// Who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// We.
    Assay,
    /// romanz/electrs.
    Electrs,
    /// spesmilo/electrumx.
    ElectrumX,
    /// cculianu/Fulcrum.
    Fulcrum,
}

impl Kind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Assay => "assay",
            Kind::Electrs => "electrs",
            Kind::ElectrumX => "ElectrumX",
            Kind::Fulcrum => "Fulcrum",
        }
    }
}

/// A server, as it is asked and as it is written of.
#[derive(Debug)]
pub struct Asked {
    /// Its name and address.
    pub server: Server,
    /// What it calls itself.
    pub version: String,
    /// What it was told, by name.
    pub settings: Vec<(String, String)>,
}

/// A server that the bench started.
pub struct Contestant {
    kind: Kind,
    program: PathBuf,
    folder: PathBuf,
    address: Address,
    settings: Vec<(String, String)>,
    ours: Option<(AssaySettings, Assay)>,
    process: Option<Process>,
}

/// All of them and what they stand on.
pub struct Contest {
    /// The servers, ours first.
    pub contestants: Vec<Contestant>,
    /// The node behind the others.
    pub bitcoind: Option<Bitcoind>,
    /// Height of the tip.
    pub height: u64,
}

/// What the others are told about the node behind them.
struct Backend {
    rpc: std::net::SocketAddr,
    datadir: PathBuf,
}

impl Contest {
    /// Starts every server the options name, one after the other, until all stand at the tip.
    pub fn start(options: &ElectrumOptions, blocks: &Blocks, scratch: &Path) -> Result<Contest, BenchError> {
        let height = blocks.height()?;
        let mut contest = Contest { contestants: vec![ours(options, blocks, scratch)?], bitcoind: None, height };
        contest.contestants[0].start(None, height)?;
        let others = [
            (Kind::Electrs, &options.electrs),
            (Kind::ElectrumX, &options.electrumx),
            (Kind::Fulcrum, &options.fulcrum),
        ];
        let others = others.into_iter().filter_map(|(kind, program)| Some((kind, program.clone()?)));
        let others: Vec<(Kind, PathBuf)> = others.collect();
        let (Some(program), false) = (&options.bitcoind, others.is_empty()) else { return Ok(contest) };
        eprintln!("bitcoind takes in the blocks");
        let datadir = scratch.join("bitcoind");
        contest.bitcoind = Some(start_bitcoind(program, &datadir, blocks, options.threads, height)?);
        for (kind, program) in others {
            let mut other = Contestant::new(kind, program, scratch.join(kind.name()))?;
            eprintln!("{} indexes", kind.name());
            let backend = contest.backend(&datadir);
            other.start(backend.as_ref(), height)?;
            contest.contestants.push(other);
        }
        Ok(contest)
    }

    /// Stops and starts every server again, so that nothing is left in its memory.
    pub fn restart(&mut self, scratch: &Path) -> Result<(), BenchError> {
        let (backend, height) = (self.backend(&scratch.join("bitcoind")), self.height);
        self.contestants.iter_mut().try_for_each(|contestant| contestant.start(backend.as_ref(), height))
    }

    fn backend(&self, datadir: &Path) -> Option<Backend> {
        self.bitcoind.as_ref().map(|node| Backend { rpc: node.rpc.address(), datadir: datadir.to_owned() })
    }

    /// How they are asked and written of.
    pub fn asked(&self) -> Result<Vec<Asked>, BenchError> {
        self.contestants
            .iter()
            .map(|contestant| ask_version(&contestant.server(), contestant.settings.clone()))
            .collect()
    }

    /// The folders that hold what they have written.
    pub fn folders(&self, scratch: &Path) -> Vec<PathBuf> {
        let of_all = self.contestants.iter().map(|contestant| contestant.folder.clone());
        of_all.chain(self.bitcoind.as_ref().map(|_| scratch.join("bitcoind"))).collect()
    }
}

/// What a server calls itself.
pub fn ask_version(server: &Server, settings: Vec<(String, String)>) -> Result<Asked, BenchError> {
    let client = Client::open(&server.address, FIRST_ANSWER)
        .map_err(|failure| BenchError::Wrong(format!("{}: {failure}", server.name)))?;
    let version = format!("{}, protocol {}", client.software, client.protocol);
    Ok(Asked { server: server.clone(), version, settings })
}

fn start_bitcoind(
    program: &Path,
    datadir: &Path,
    blocks: &Blocks,
    threads: usize,
    height: u64,
) -> Result<Bitcoind, BenchError> {
    let zmq = free_address()?;
    // electrs reads by REST, ElectrumX wants an index of spenders, Fulcrum is told of blocks by ZeroMQ.
    let more = [
        "-rest=1",
        "-txospenderindex=1",
        "-rpcworkqueue=2048",
        "-rpcthreads=16",
        &format!("-zmqpubhashblock=tcp://{zmq}"),
    ];
    let more = more.map(str::to_owned);
    let mut node = Bitcoind::start_with(program, datadir, blocks, threads, height, None, &more)?;
    let Bitcoind { process, rpc, .. } = &mut node;
    process.wait_for("its index of spenders", POLL, || {
        let info = rpc.call("getindexinfo", json!([])).ok()?;
        let synced = info.as_object()?.values().all(|index| index["synced"] == true);
        synced.then_some(())
    })?;
    Ok(node)
}

fn ours(options: &ElectrumOptions, blocks: &Blocks, scratch: &Path) -> Result<Contestant, BenchError> {
    let mut contestant = Contestant::new(Kind::Assay, PathBuf::new(), scratch.join("assay"))?;
    let settings = AssaySettings {
        chain: "regtest".to_owned(),
        blocks_from: Some(blocks.folder().to_owned()),
        datadir: contestant.folder.clone(),
        threads: options.threads,
        memory_mib: options.memory,
        engine: "auto".to_owned(),
        p2p: P2p::Off,
        rpc: Some(free_address()?),
        mempool_mb: None,
        core: None,
    };
    contestant.settings = vec![
        ("threads".to_owned(), options.threads.to_string()),
        ("memory-mib".to_owned(), options.memory.to_string()),
        ("electrum-sessions-max".to_owned(), "20000".to_owned()),
        ("electrum-sessions-address-max".to_owned(), "20000".to_owned()),
        ("electrum-subscriptions-max".to_owned(), "2000000".to_owned()),
    ];
    let node = Assay::start_with("assay", &settings, &contestant.own_arguments())?;
    contestant.ours = Some((settings, node));
    Ok(contestant)
}

impl Contestant {
    fn new(kind: Kind, program: PathBuf, folder: PathBuf) -> Result<Contestant, BenchError> {
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        let scheme = if kind == Kind::ElectrumX { Scheme::Ws } else { Scheme::Tcp };
        let address = Address { scheme, host: "127.0.0.1".to_owned(), port: free_address()?.port() };
        Ok(Contestant { kind, program, folder, address, settings: Vec::new(), ours: None, process: None })
    }

    /// Who it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its name and address.
    pub fn server(&self) -> Server {
        Server { name: self.kind.name().to_owned(), address: self.address.clone() }
    }

    /// Its process.
    pub fn process(&self) -> Option<&Process> {
        self.ours.as_ref().map(|(_, node)| &node.process).or(self.process.as_ref())
    }

    /// Our own node's JSON-RPC.
    pub fn own_rpc(&mut self) -> Result<Option<Rpc>, BenchError> {
        let Some((settings, node)) = &mut self.ours else { return Ok(None) };
        settings.rpc.map(|address| node.rpc(address)).transpose()
    }

    fn own_arguments(&self) -> Vec<String> {
        let more = self.settings.iter().filter(|(name, _)| name.starts_with("electrum-"));
        let listen = ["--electrum-listen".to_owned(), format!("127.0.0.1:{}", self.address.port)];
        listen.into_iter().chain(more.flat_map(|(name, value)| [format!("--{name}"), value.clone()])).collect()
    }

    /// Starts it, after stopping it where it runs, and waits until it stands at the tip.
    fn start(&mut self, backend: Option<&Backend>, height: u64) -> Result<(), BenchError> {
        if let Some((settings, node)) = self.ours.take() {
            node.process.stop();
            let mut node = Assay::start_with("assay", &settings, &self.own_arguments())?;
            node.wait_until_following()?;
            self.ours = Some((settings, node));
        } else {
            let backend = backend.ok_or_else(|| BenchError::Usage("--bitcoind: needed by the others".to_owned()))?;
            if let Some(running) = self.process.take() {
                running.stop();
            }
            let (mut command, settings) = self.command(backend)?;
            self.settings = settings;
            if self.kind == Kind::Electrs {
                self.index_first(backend)?;
            }
            command.stderr(self.log()?);
            self.process = Some(Process::start(self.kind.name(), &mut command)?);
        }
        self.wait_for_tip(height)
    }

    /// electrs ends when it is asked for the tip before it has one, so it is left alone until it has indexed everything.
    fn index_first(&self, backend: &Backend) -> Result<(), BenchError> {
        let (mut command, _) = self.electrs(backend);
        command.arg("--sync-once").stdin(Stdio::null()).stdout(Stdio::null()).stderr(self.log()?);
        let status = command.status().map_err(at(&self.program))?;
        let text = || format!("--sync-once: {status}; it printed:\n{}", printed(&self.folder));
        if status.success() {
            Ok(())
        } else {
            Err(BenchError::Child { name: self.kind.name().to_owned(), text: text() })
        }
    }

    /// Where it prints what goes wrong.
    fn log(&self) -> Result<Stdio, BenchError> {
        let log = self.folder.join("printed.log");
        File::options().create(true).append(true).open(&log).map(Stdio::from).map_err(at(&log))
    }

    fn wait_for_tip(&mut self, height: u64) -> Result<(), BenchError> {
        let address = self.address.clone();
        let stands = || {
            let mut client = Client::open(&address, FIRST_ANSWER).ok()?;
            let tip = client.call("blockchain.headers.subscribe", json!([])).ok()?;
            (tip["height"].as_u64()? >= height).then_some(())
        };
        let process = match (&mut self.ours, &mut self.process) {
            (Some((_, node)), _) => &mut node.process,
            (None, Some(process)) => process,
            (None, None) => return Err(BenchError::Wrong("a server that was not started".to_owned())),
        };
        process.wait_for("the tip", POLL, stands).map_err(|error| match printed(&self.folder) {
            text if text.is_empty() => error,
            text => BenchError::Wrong(format!("{error}; it printed:\n{text}")),
        })
    }

    /// How another server is started, and which of it the report tells.
    fn command(&self, backend: &Backend) -> Result<(Command, Vec<(String, String)>), BenchError> {
        match self.kind {
            Kind::Electrs => Ok(self.electrs(backend)),
            Kind::ElectrumX => self.electrumx(backend),
            _ => self.fulcrum(backend),
        }
    }

    fn electrs(&self, backend: &Backend) -> (Command, Vec<(String, String)>) {
        let mut command = Command::new(&self.program);
        command.args(["--skip-default-conf-files", "--network", "regtest", "--log-filters", "WARN"]);
        command.arg("--db-dir").arg(self.folder.join("db")).arg("--daemon-dir").arg(&backend.datadir);
        command.arg("--daemon-rpc-addr").arg(backend.rpc.to_string());
        command.arg("--electrum-rpc-addr").arg(format!("127.0.0.1:{}", self.address.port));
        let monitoring = free_address().map_or("127.0.0.1:0".to_owned(), |address| address.to_string());
        command.arg("--monitoring-addr").arg(monitoring);
        (command, Vec::new())
    }

    fn electrumx(&self, backend: &Backend) -> Result<(Command, Vec<(String, String)>), BenchError> {
        let cookie = fs::read_to_string(backend.cookie()).map_err(at(backend.cookie()))?;
        let told = [
            ("DB_ENGINE", "leveldb"),
            ("EVENT_LOOP_POLICY", "uvloop"),
            ("COST_SOFT_LIMIT", "0"),
            ("COST_HARD_LIMIT", "0"),
            ("MAX_SEND", "200000000"),
            ("MAX_SESSIONS", "20000"),
            ("INITIAL_CONCURRENT", "1000"),
            ("PEER_DISCOVERY", "off"),
            ("LOG_LEVEL", "warning"),
        ];
        let mut command = Command::new(&self.program);
        command.envs(told).env("COIN", "Bitcoin").env("NET", "regtest").env("ALLOW_ROOT", "1");
        command.env("PEER_ANNOUNCE", "").env("DB_DIRECTORY", &self.folder);
        command.env("DAEMON_URL", format!("http://{}@{}/", cookie.trim(), backend.rpc));
        let rpc = free_address()?;
        command.env("SERVICES", format!("ws://127.0.0.1:{},rpc://127.0.0.1:{}", self.address.port, rpc.port()));
        Ok((command, told.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()))
    }

    fn fulcrum(&self, backend: &Backend) -> Result<(Command, Vec<(String, String)>), BenchError> {
        let told = [
            // This bitcoind may answer requests that were sent together 50 ms apart: Fulcrum gets a connection for each.
            ("bitcoind_clients", "50"),
            ("bitcoind_throttle", "10000 5000 1000"),
            ("max_buffer", "64000000"),
            ("max_batch", "1000"),
            ("max_history", "2000000"),
            ("peering", "false"),
        ];
        let mut text: String = told.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
        text += &format!("bitcoind = {}\nrpccookie = {}\n", backend.rpc, backend.cookie().display());
        text += &format!("datadir = {}\n", self.folder.join("data").display());
        text += &format!("tcp = 127.0.0.1:{}\nannounce = false\nquiet = true\n", self.address.port);
        let settings = self.folder.join("fulcrum.conf");
        fs::write(&settings, text).map_err(at(&settings))?;
        let mut command = Command::new(&self.program);
        command.arg(&settings);
        Ok((command, told.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()))
    }
}

impl Backend {
    fn cookie(&self) -> PathBuf {
        self.datadir.join("regtest").join(".cookie")
    }
}

/// Versions of all, for people.
pub fn describe(asked: &[Asked], bitcoind: Option<&Path>) -> Result<Value, BenchError> {
    let all = asked.iter().map(|one| {
        let settings: serde_json::Map<String, Value> =
            one.settings.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        json!({ "name": one.server.name, "version": one.version, "address": one.server.address.to_string(), "settings": settings })
    });
    Ok(json!({ "servers": all.collect::<Vec<_>>(), "bitcoind": bitcoind.map(bitcoind::version).transpose()? }))
}

/// Reads every file in the folders away from the page cache, as far as the system lets us; whether all of it.
pub fn forget_files(folders: &[PathBuf]) -> bool {
    // Root may empty the whole cache, once what is dirty is written.
    let synced = Command::new("sync").status().is_ok_and(|status| status.success());
    let dropped = synced && fs::write("/proc/sys/vm/drop_caches", "1").is_ok();
    dropped || folders.iter().all(|folder| forget_folder(folder))
}

fn forget_folder(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries.flatten().all(|entry| {
        let path = entry.path();
        if path.is_dir() { forget_folder(&path) } else { path.is_symlink() || forget_file(&path) }
    })
}

/// `dd` with `nocache` asks the system to drop one file, without unsafe code of ours.
fn forget_file(path: &Path) -> bool {
    let is_empty = fs::metadata(path).map_or(true, |metadata| metadata.len() == 0);
    let mut of = std::ffi::OsString::from("if=");
    of.push(path);
    let dd = || Command::new("dd").arg(of).args(["iflag=nocache", "count=0", "status=none"]).status();
    is_empty || dd().is_ok_and(|status| status.success())
}

/// The last lines a program printed, for whoever asks why it failed.
fn printed(folder: &Path) -> String {
    let mut text = String::new();
    if let Ok(mut file) = File::open(folder.join("printed.log")) {
        // What cannot be read is not shown.
        let _ = file.read_to_string(&mut text);
    }
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}
