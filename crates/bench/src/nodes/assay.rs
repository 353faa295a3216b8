//! Our own program, `assay run`, as a user runs it.
//!
//! In:     [`AssaySettings`].
//! Out:    [`Assay`]: its process, and what its status socket says.
//! Fails:  as [`Process`] does.

use std::env;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::process::bound;
use super::{Process, Rpc};
use crate::measure::Usage;
use crate::{BenchError, at};

/// Time between two looks at the status; a report costs the node some ten microseconds.
const POLL: Duration = Duration::from_millis(10);
/// Longest report that is read, in bytes.
const REPORT_BYTES_MAX: u64 = 1 << 20;

/// The node's part in the network.
#[derive(Clone, Debug)]
pub enum P2p {
    /// None.
    Off,
    /// It listens, and connects to nobody.
    Serve,
    /// It connects to these and listens to nobody, encrypted or not.
    Connect(Vec<SocketAddr>, bool),
}

/// What a node is given.
#[derive(Clone, Debug)]
pub struct AssaySettings {
    /// The network's name.
    pub chain: String,
    /// Block files to read in place; none: it keeps its own.
    pub blocks_from: Option<PathBuf>,
    /// Its data directory, made where there is none.
    pub datadir: PathBuf,
    /// Threads that work at once.
    pub threads: usize,
    /// Memory budget, in MiB.
    pub memory_mib: u64,
    /// The signature engine's name.
    pub engine: String,
    /// Its part in the network.
    pub p2p: P2p,
    /// It answers JSON-RPC, on a port that was free a moment ago.
    pub rpc: Option<SocketAddr>,
    /// Its mempool's bound, in MB; none: as many as by itself.
    pub mempool_mb: Option<u64>,
    /// The core it is bound to.
    pub core: Option<u32>,
}

/// A running node.
pub struct Assay {
    /// Its process.
    pub process: Process,
    folder: PathBuf,
}

impl Assay {
    /// Starts it without its Electrum server.
    pub fn start(name: &str, settings: &AssaySettings) -> Result<Assay, BenchError> {
        Assay::start_with(name, settings, &["--electrum-listen".to_owned(), "off".to_owned()])
    }

    /// The same with more arguments, among them where its Electrum server listens.
    pub fn start_with(name: &str, settings: &AssaySettings, more: &[String]) -> Result<Assay, BenchError> {
        fs::create_dir_all(&settings.datadir).map_err(at(&settings.datadir))?;
        let program = env::current_exe().map_err(at("own program"))?;
        let mut command = bound(&program, settings.core);
        command.args(["run", "--chain", &settings.chain, "--log-level", "warn"]);
        command.args(more);
        command.args(["--threads", &settings.threads.to_string(), "--memory-mib", &settings.memory_mib.to_string()]);
        command.args(["--sig-engine", &settings.engine, "--p2p-seeds", "off"]);
        command.arg("--datadir").arg(&settings.datadir);
        let rpc = settings.rpc.map_or("off".to_owned(), |address| address.to_string());
        command.args(["--rpc-listen", &rpc]);
        if let Some(mempool_mb) = settings.mempool_mb {
            command.args(["--mempool-mb", &mempool_mb.to_string()]);
        }
        if let Some(folder) = &settings.blocks_from {
            command.arg("--blocks-from").arg(folder);
        }
        match &settings.p2p {
            P2p::Off => command.args(["--p2p", "off"]),
            P2p::Serve => command.args(["--p2p", "on", "--p2p-listen", "127.0.0.1:0", "--p2p-outbound", "0"]),
            P2p::Connect(addresses, encrypted) => {
                let to: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
                let encrypt = if *encrypted { "on" } else { "off" };
                command.args(["--p2p", "on", "--p2p-listen", "off", "--p2p-encrypt", encrypt]);
                command.args(["--p2p-connect", &to.join(",")])
            }
        };
        let process = Process::start(name, &mut command)?;
        Ok(Assay { process, folder: settings.datadir.join(&settings.chain) })
    }

    /// Its report, where it answers.
    pub fn report(&self) -> Option<Value> {
        ask(&self.folder)
    }

    /// Its process, and the folder to [`ask`].
    pub fn into_parts(self) -> (Process, PathBuf) {
        (self.process, self.folder)
    }

    /// Waits until its report satisfies, and says what it took until then.
    pub fn wait_for(&mut self, what: &str, done: impl Fn(&Value) -> bool) -> Result<(Value, Usage), BenchError> {
        let folder = &self.folder;
        let report = self.process.wait_for(what, POLL, || ask(folder).filter(|report| done(report)))?;
        if let Some(refused) = report["refused"].as_object() {
            return Err(self.process.failed(format!("refused a block: {refused:?}")));
        }
        Ok((report, self.process.usage()?))
    }

    /// Waits until the block of this hash is committed.
    pub fn wait_for_tip(&mut self, height: u64, hash: &str) -> Result<(Value, Usage), BenchError> {
        let at_tip = |report: &Value| report["committed_height"] == height && report["hash"] == hash;
        let refused = |report: &Value| !report["refused"].is_null();
        self.wait_for("the tip", |report| at_tip(report) || refused(report))
    }

    /// Waits until all it has found is committed; height and hash of the tip.
    pub fn wait_until_following(&mut self) -> Result<(u64, String), BenchError> {
        let following = |report: &Value| report["phase"] == "following" && report["height"] == report["headers_height"];
        let refused = |report: &Value| !report["refused"].is_null();
        let (report, _) = self.wait_for("the tip", |report| following(report) || refused(report))?;
        let hash = report["hash"].as_str().unwrap_or_default().to_owned();
        Ok((report["height"].as_u64().unwrap_or(0), hash))
    }

    /// Its JSON-RPC, once it answers.
    pub fn rpc(&mut self, address: SocketAddr) -> Result<Rpc, BenchError> {
        let cookie = self.folder.join(".cookie");
        let ready = || {
            let mut rpc = Rpc::new(address, &cookie).ok()?;
            rpc.call("getblockcount", json!([])).ok().map(|_| rpc)
        };
        self.process.wait_for("JSON-RPC", POLL, ready)
    }

    /// Where other nodes may connect to.
    pub fn p2p_address(&mut self) -> Result<SocketAddr, BenchError> {
        let (report, _) = self.wait_for("a port for peers", |report| report["peers"]["listen"].is_string())?;
        let text = report["peers"]["listen"].as_str().unwrap_or_default();
        text.parse().map_err(|_| self.process.failed(format!("listens at {text:?}")))
    }
}

/// Reads the report of the node that runs on this folder.
pub fn ask(folder: &Path) -> Option<Value> {
    // A socket's address holds 107 bytes, and the folder's name may be longer.
    let open = File::open(folder).ok()?;
    let mut stream = UnixStream::connect(format!("/proc/self/fd/{}/status.sock", open.as_raw_fd())).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    // An empty question is how it is; who asks nothing is waited for, two seconds.
    stream.write_all(b"\n").ok()?;
    let mut text = String::new();
    stream.take(REPORT_BYTES_MAX).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}
