//! bitcoind beside us, where a bench is given one.
//!
//! In:     its program, block files it gets a copy of.
//! Out:    [`Bitcoind`]: its process, its ports, its JSON-RPC.
//! Fails:  as [`Process`] does, and with what it answers.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use super::process::bound;
use super::{Process, Rpc};
use crate::sample::Blocks;
use crate::{BenchError, at};

const POLL: Duration = Duration::from_millis(50);

/// A running bitcoind on regtest.
pub struct Bitcoind {
    /// Its process.
    pub process: Process,
    /// Its JSON-RPC.
    pub rpc: Rpc,
    /// Where peers may connect to.
    pub p2p: SocketAddr,
}

/// A port that was free a moment ago.
pub fn free_address() -> Result<SocketAddr, BenchError> {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).map_err(at("127.0.0.1"))
}

/// What `bitcoind --version` says first.
pub fn version(program: &Path) -> Result<String, BenchError> {
    let output = Command::new(program).arg("--version").output().map_err(at(program))?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
}

/// The command of one on regtest that checks every signature, answers JSON-RPC and talks to nobody it is not told of.
pub fn command(program: &Path, datadir: &Path, core: Option<u32>, rpc: SocketAddr, threads: usize) -> Command {
    let mut command = bound(program, core);
    command.arg(format!("-datadir={}", datadir.display()));
    command.args(["-regtest", "-server=1", "-assumevalid=0", "-persistmempool=0", "-rpcbind=127.0.0.1"]);
    command.args(["-rpcallowip=127.0.0.1", "-listenonion=0", "-dnsseed=0", "-fixedseeds=0"]);
    command.args(["-discover=0", "-natpmp=0", "-disablewallet", "-printtoconsole=0"]);
    // On regtest it looks through its whole mempool and block index again and again unless told not to.
    command.args(["-checkmempool=0", "-checkblockindex=0", "-checkaddrman=0"]);
    // The forged chain ends in the past: it is to count as recent for both.
    command.args(["-maxtipage=2000000000", &format!("-par={threads}"), &format!("-rpcport={}", rpc.port())]);
    command
}

impl Bitcoind {
    /// Starts it on `datadir`; a first start takes in a copy of `blocks`. Waits until it stands at `height`, its
    /// transaction index too.
    pub fn start(
        program: &Path,
        datadir: &Path,
        blocks: &Blocks,
        threads: usize,
        height: u64,
    ) -> Result<Bitcoind, BenchError> {
        Bitcoind::start_with(program, datadir, blocks, threads, height, None, &[])
    }

    /// The same, bound to a core, with more arguments.
    pub fn start_with(
        program: &Path,
        datadir: &Path,
        blocks: &Blocks,
        threads: usize,
        height: u64,
        core: Option<u32>,
        more: &[String],
    ) -> Result<Bitcoind, BenchError> {
        let folder: PathBuf = datadir.join("regtest").join("blocks");
        let is_first = !folder.exists();
        if is_first {
            blocks.copy_to(&folder)?;
        }
        let (rpc, p2p) = (free_address()?, free_address()?);
        let cookie = datadir.join("regtest").join(".cookie");
        let _ = fs::remove_file(&cookie); // of an earlier start that was killed
        let mut command = command(program, datadir, core, rpc, threads);
        command.args(more);
        command.args(["-txindex=1", "-dbcache=450", "-connect=0", "-listen=1", &format!("-bind={p2p}")]);
        if is_first {
            command.arg("-reindex");
        }
        let mut process = Process::start("bitcoind", &mut command)?;
        let client = process.wait_for("its cookie", POLL, || Rpc::new(rpc, &cookie).ok())?;
        let mut node = Bitcoind { process, rpc: client, p2p };
        let Bitcoind { process, rpc, .. } = &mut node;
        process.wait_for("the tip", POLL, || {
            let info = rpc.call("getblockchaininfo", json!([])).ok()?;
            let index = rpc.call("getindexinfo", json!([])).ok()?;
            // A later start stands where the one before was left.
            let reached = |value: &serde_json::Value| value.as_u64().is_some_and(|at| at >= height);
            let is_there = reached(&info["blocks"]) && reached(&index["txindex"]["best_block_height"]);
            is_there.then_some(())
        })?;
        Ok(node)
    }
}
