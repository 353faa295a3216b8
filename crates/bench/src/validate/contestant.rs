//! Nodes that validate: how each is started, asked for its tip, and told apart.
//!
//! In:     `KIND` or `KIND=PATH`, as the command line has it.
//! Out:    [`Wanted`], and a [`Running`] node of it.
//! Fails:  with what is known: kinds, and where a program is needed.
//!
//! Every node checks every signature: no assumed-valid block, no checkpoint. bcoin and mako do not know taproot, and take
//! such outputs for anyone's: the report says so. gocoin has no regtest, and so cannot take part on a forged chain.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use serde_json::{Value, json};

use super::{ChainFacts, Given, settings};
use crate::import::kernel;
use crate::measure;
use crate::nodes::{Assay, AssaySettings, P2p, Process, Rpc, bitcoind};
use crate::{BenchError, at};

/// bcoin's full node with its database in memory; the compiled database is not in every installation.
const BCOIN: &str = include_str!("../../../net/tests/sockets/bcoin.js");
/// Name and password of JSON-RPC where a node has no cookie file.
const CREDENTIALS: &str = "bench:bench";

/// Sorts of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// This program, from a peer.
    Assay,
    /// This program, from the files.
    AssayFiles,
    /// libbitcoinkernel, from the files.
    Kernel,
    /// Bitcoin Core, from a peer.
    Bitcoind,
    /// Bitcoin Core, from the files (`-reindex`).
    BitcoindFiles,
    /// btcd, from a peer.
    Btcd,
    /// bcoin, from a peer.
    Bcoin,
    /// mako, from a peer.
    Mako,
}

/// All of them, with the names of the command line.
const KINDS: [(&str, Kind); 8] = [
    ("assay", Kind::Assay),
    ("assay-files", Kind::AssayFiles),
    ("kernel", Kind::Kernel),
    ("bitcoind", Kind::Bitcoind),
    ("bitcoind-files", Kind::BitcoindFiles),
    ("btcd", Kind::Btcd),
    ("bcoin", Kind::Bcoin),
    ("mako", Kind::Mako),
];

/// A node that somebody wants to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// What it is.
    pub kind: Kind,
    /// Its program; empty for what is in this one.
    program: PathBuf,
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Wanted, String> {
        let (name, program) = text.split_once('=').unwrap_or((text, ""));
        let known = KINDS.iter().find(|(known, _)| *known == name);
        let Some(&(_, kind)) = known else {
            let names: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
            return Err(format!("{name:?} is no node; known are {}", names.join(", ")));
        };
        let is_ours = matches!(kind, Kind::Assay | Kind::AssayFiles | Kind::Kernel);
        match (is_ours, program.is_empty()) {
            (true, false) => Err(format!("{name} is in this program and needs no path")),
            (false, true) => Err(format!("{name} needs a path: {name}=PROGRAM")),
            _ => Ok(Wanted { kind, program: program.into() }),
        }
    }
}

/// Where a node stands.
pub struct Tip {
    /// Its height, where it tells.
    pub height: Option<u64>,
    /// Its tip is the chain's.
    pub is_reached: bool,
}

/// A node at work.
pub struct Running {
    /// Its process.
    pub process: Process,
    ask: Ask,
}

/// How it is asked.
enum Ask {
    /// By its status socket.
    Status(PathBuf),
    /// By JSON-RPC, once it answers; a cookie file or credentials.
    Rpc { address: SocketAddr, cookie: Option<PathBuf>, wire: Option<Rpc> },
    /// Not at all: it writes its result here and ends.
    Result(PathBuf),
}

impl Wanted {
    /// In the report.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Assay => "Assay",
            Kind::AssayFiles => "Assay, files",
            Kind::Kernel => "libbitcoinkernel, files",
            Kind::Bitcoind => "bitcoind",
            Kind::BitcoindFiles => "bitcoind, files",
            Kind::Btcd => "btcd",
            Kind::Bcoin => "bcoin",
            Kind::Mako => "mako",
        }
    }

    /// True where blocks come from the files.
    pub fn is_from_files(&self) -> bool {
        matches!(self.kind, Kind::AssayFiles | Kind::Kernel | Kind::BitcoindFiles)
    }

    /// True where the node knows no taproot.
    pub fn lacks_taproot(&self) -> bool {
        matches!(self.kind, Kind::Bcoin | Kind::Mako)
    }

    /// What it says its version is.
    pub fn version(&self) -> Result<String, BenchError> {
        let machine = || crate::machine::describe();
        let of_program = |flag: &str| {
            let output = Command::new(&self.program).arg(flag).output().map_err(at(&self.program))?;
            let text = [output.stdout, output.stderr].concat();
            Ok(String::from_utf8_lossy(&text).lines().next().unwrap_or_default().trim().to_owned())
        };
        match self.kind {
            Kind::Assay | Kind::AssayFiles => Ok(machine().program),
            Kind::Kernel => Ok(machine().libbitcoinkernel),
            Kind::Bitcoind | Kind::BitcoindFiles => bitcoind::version(&self.program),
            Kind::Btcd => of_program("--version"),
            Kind::Mako => of_program("-version"),
            Kind::Bcoin => {
                let package = self.modules()?.join("bcoin/package.json");
                let text = fs::read_to_string(&package).map_err(at(&package))?;
                let value: Value = serde_json::from_str(&text).unwrap_or_default();
                Ok(format!("bcoin {}", value["version"].as_str().unwrap_or("of unknown version")))
            }
        }
    }

    /// What it is told, for the report.
    pub fn settings(&self, threads: usize, memory_mib: u64) -> Vec<(String, String)> {
        let (threads, memory) = (threads.to_string(), memory_mib.to_string());
        let pairs: Vec<(&str, &str)> = match self.kind {
            Kind::Assay => vec![("threads", &threads), ("memory_mib", &memory), ("index", "on"), ("from", "peer")],
            Kind::AssayFiles => {
                vec![("threads", &threads), ("memory_mib", &memory), ("index", "on"), ("from", "files")]
            }
            Kind::Kernel => vec![("threads", &threads), ("cache", "450 MiB, fixed"), ("from", "files")],
            Kind::Bitcoind => vec![("par", &threads), ("dbcache", &memory), ("assumevalid", "0"), ("from", "peer")],
            Kind::BitcoindFiles => vec![("par", &threads), ("dbcache", &memory), ("reindex", "1"), ("from", "files")],
            Kind::Btcd => vec![("GOMAXPROCS", &threads), ("utxocachemaxsize", &memory), ("from", "peer")],
            Kind::Bcoin => vec![("memory", "true"), ("workers", "true"), ("backend", "js"), ("from", "peer")],
            Kind::Mako => vec![("par", &threads), ("dbcache", &memory), ("from", "peer")],
        };
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// The folder `node_modules` above the program.
    fn modules(&self) -> Result<PathBuf, BenchError> {
        let found = self.program.ancestors().find(|folder| folder.ends_with("node_modules"));
        found
            .map(Path::to_owned)
            .ok_or_else(|| BenchError::Usage(format!("bcoin={}: not in a folder node_modules", self.program.display())))
    }

    /// Starts it.
    pub fn start(&self, given: &Given<'_>) -> Result<Running, BenchError> {
        let data = given.folder.join("data");
        fs::create_dir_all(&data).map_err(at(&data))?;
        match self.kind {
            Kind::Assay | Kind::AssayFiles => self.start_assay(given, &data),
            Kind::Kernel => self.start_kernel(given, data),
            Kind::Bitcoind | Kind::BitcoindFiles => self.start_bitcoind(given, &data),
            Kind::Btcd => self.start_btcd(given, &data),
            Kind::Bcoin => self.start_bcoin(given, &data),
            Kind::Mako => self.start_mako(given, &data),
        }
    }

    fn start_assay(&self, given: &Given<'_>, data: &Path) -> Result<Running, BenchError> {
        let from_files = self.is_from_files();
        let settings = AssaySettings {
            blocks_from: from_files.then(|| given.blocks.folder().to_owned()),
            p2p: if from_files { P2p::Off } else { P2p::Connect(vec![given.peer], true) },
            ..settings(given.options, data)
        };
        let (process, folder) = Assay::start(self.name(), &settings)?.into_parts();
        Ok(Running { process, ask: Ask::Status(folder) })
    }

    fn start_kernel(&self, given: &Given<'_>, datadir: PathBuf) -> Result<Running, BenchError> {
        let blocks = given.folder.join("blocks");
        given.blocks.copy_to(&blocks)?;
        let settings = kernel::Settings { datadir, blocks, threads: given.options.crew.threads };
        let settings = serde_json::to_string(&settings).expect("settings are texts and numbers");
        let result = given.folder.join("result");
        let program = std::env::current_exe().map_err(at("own program"))?;
        let mut command = Command::new(program);
        command.args(["bench", "child", "kernel", &settings]);
        let output = File::create(&result).map_err(at(&result))?;
        let process = Process::start_into(self.name(), &mut command, output.into())?;
        Ok(Running { process, ask: Ask::Result(result) })
    }

    fn start_bitcoind(&self, given: &Given<'_>, data: &Path) -> Result<Running, BenchError> {
        let crew = &given.options.crew;
        let rpc = bitcoind::free_address()?;
        let mut command = bitcoind::command(&self.program, data, None, rpc, crew.threads);
        command.args([&format!("-dbcache={}", crew.memory), "-listen=0"]);
        if self.is_from_files() {
            given.blocks.copy_to(&data.join("regtest/blocks"))?;
            command.args(["-reindex", "-connect=0"]);
        } else {
            command.arg(format!("-connect={}", given.peer));
        }
        let process = Process::start(self.name(), &mut command)?;
        let cookie = Some(data.join("regtest/.cookie"));
        Ok(Running { process, ask: Ask::Rpc { address: rpc, cookie, wire: None } })
    }

    fn start_btcd(&self, given: &Given<'_>, data: &Path) -> Result<Running, BenchError> {
        let (crew, rpc) = (&given.options.crew, bitcoind::free_address()?);
        let (name, password) = CREDENTIALS.split_once(':').expect("a name and a password");
        let mut command = Command::new(&self.program);
        command.env("GOMAXPROCS", crew.threads.to_string()).args(["--regtest", "--notls", "--nolisten", "--nodnsseed"]);
        command.arg(format!("--datadir={}", data.display())).arg(format!("--logdir={}", data.display()));
        // It complains where there is none.
        let empty = data.join("empty.conf");
        fs::write(&empty, "").map_err(at(&empty))?;
        command.arg(format!("--configfile={}", empty.display()));
        command.args([format!("--utxocachemaxsize={}", crew.memory), format!("--connect={}", given.peer)]);
        command.args([format!("--rpclisten={rpc}"), format!("--rpcuser={name}"), format!("--rpcpass={password}")]);
        let process = Process::start(self.name(), &mut command)?;
        Ok(Running { process, ask: Ask::Rpc { address: rpc, cookie: None, wire: None } })
    }

    fn start_bcoin(&self, given: &Given<'_>, data: &Path) -> Result<Running, BenchError> {
        let (rpc, p2p) = (bitcoind::free_address()?, bitcoind::free_address()?);
        let script = data.join("bcoin.js");
        fs::write(&script, BCOIN).map_err(at(&script))?;
        let mut command = Command::new("node");
        command.arg(&script).args([p2p.port().to_string(), rpc.port().to_string(), given.peer.to_string()]);
        command.env("NODE_PATH", self.modules()?).env("NODE_BACKEND", "js").env("BCOIN_WORKERS", "1");
        let process = Process::start(self.name(), &mut command)?;
        Ok(Running { process, ask: Ask::Rpc { address: rpc, cookie: None, wire: None } })
    }

    fn start_mako(&self, given: &Given<'_>, data: &Path) -> Result<Running, BenchError> {
        let (crew, rpc) = (&given.options.crew, bitcoind::free_address()?);
        let (name, password) = CREDENTIALS.split_once(':').expect("a name and a password");
        let mut command = Command::new(&self.program);
        command.args(["-chain=regtest", "-listen=0", "-discover=0", "-loglevel=error"]);
        command.arg(format!("-datadir={}", data.display())).arg(format!("-connect={}", given.peer));
        command.args([format!("-par={}", crew.threads), format!("-dbcache={}", crew.memory)]);
        command.args([format!("-rpcport={}", rpc.port()), format!("-rpcuser={name}")]);
        command.arg(format!("-rpcpassword={password}"));
        let process = Process::start(self.name(), &mut command)?;
        Ok(Running { process, ask: Ask::Rpc { address: rpc, cookie: None, wire: None } })
    }
}

impl Drop for Running {
    /// A node that is given up has its workers ended with it.
    fn drop(&mut self) {
        if !self.process.is_running().unwrap_or(false) {
            return;
        }
        let below: Vec<String> = measure::processes_below(self.process.id()).iter().map(u32::to_string).collect();
        if !below.is_empty() {
            // One that has ended meanwhile needs it no more.
            let _ = Command::new("kill").arg("-KILL").args(below).status();
        }
    }
}

impl Running {
    /// Where it stands; fails where it has ended without a result, or stands on another chain.
    pub fn tip(&mut self, facts: &ChainFacts) -> Result<Tip, BenchError> {
        match &mut self.ask {
            Ask::Status(folder) => {
                self.process.check()?;
                let report = crate::nodes::assay::ask(folder).unwrap_or_default();
                if !report["refused"].is_null() {
                    return Err(self.process.failed(format!("refused a block: {}", report["refused"])));
                }
                let committed = report["committed_height"] == facts.height && report["hash"] == facts.tip.as_str();
                Ok(Tip { height: report["height"].as_u64(), is_reached: committed })
            }
            Ask::Rpc { address, cookie, wire } => {
                self.process.check()?;
                if wire.is_none() {
                    *wire = match cookie {
                        Some(cookie) => Rpc::new(*address, cookie).ok(),
                        None => Some(Rpc::with(*address, CREDENTIALS)),
                    };
                }
                let Some(rpc) = wire else { return Ok(Tip { height: None, is_reached: false }) };
                let height = rpc.call("getblockcount", json!([])).ok().and_then(|height| height.as_u64());
                if height.is_none_or(|height| height < facts.height) {
                    return Ok(Tip { height, is_reached: false });
                }
                let hash = rpc.call("getbestblockhash", json!([]))?;
                match hash == facts.tip.as_str() {
                    true => Ok(Tip { height, is_reached: true }),
                    false => Err(self.process.failed(format!("stands at {hash}, not at {}", facts.tip))),
                }
            }
            Ask::Result(path) => {
                if self.process.is_running()? {
                    return Ok(Tip { height: None, is_reached: false });
                }
                let text = fs::read_to_string(&*path).map_err(at(&*path))?;
                let run: Result<kernel::Run, _> = serde_json::from_str(text.lines().last().unwrap_or_default());
                match run {
                    Ok(run) if run.tip == facts.tip => Ok(Tip { height: Some(run.height.into()), is_reached: true }),
                    Ok(run) => Err(self.process.failed(format!("stands at {}, not at {}", run.tip, facts.tip))),
                    Err(_) => Err(self.process.failed("ended without a result")),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_named_with_or_without_a_program() {
        let read = |text: &str| text.parse::<Wanted>();
        assert_eq!(read("assay"), Ok(Wanted { kind: Kind::Assay, program: PathBuf::new() }));
        assert_eq!(read("btcd=/a/btcd"), Ok(Wanted { kind: Kind::Btcd, program: "/a/btcd".into() }));
        for (bad, want) in [
            ("gocoin=/a", "known are assay, assay-files, kernel"),
            ("kernel=/a", "needs no path"),
            ("bitcoind", "bitcoind needs a path: bitcoind=PROGRAM"),
            ("mako=", "mako needs a path"),
            ("", "is no node"),
        ] {
            let error = read(bad).unwrap_err();
            assert!(error.contains(want), "{bad}: {error}");
        }
        let modules = |path: &str| read(&format!("bcoin={path}")).unwrap().modules().ok();
        assert_eq!(modules("/a/node_modules/.bin/bcoin"), Some("/a/node_modules".into()));
        assert_eq!(modules("/a/bcoin"), None);
        let settings = read("mako=/m").unwrap().settings(3, 64);
        assert_eq!(settings[0], ("par".to_owned(), "3".to_owned()));
    }
}
