//! A signature engine that is found wrong stops the whole node.
//!
//! In:     a forged chain, half of it committed; an engine whose audit fails in the other half.
//! Out:    exit code 1, the row in the log, and not one block committed after.
//! Fails:  with the node's log.
//! Source: docs/signatures.md, "Safety". The node runs in a process of its own, which is this test started once more.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sigs::{Check, Counters, Engine, EngineName, Hint};
use stdx::clock::SystemClock;
use stdx::disk::SystemDisk;
use stdx::pool::Pool;

use super::arguments::{ForgeWish, Request, parse};
use super::forge::forge_chain;
use super::run::until_end;
use crate::config::{Config, machine};
use crate::running::node::{Node, options};
use crate::running::stop::StopFlag;

/// Where the process that is the node finds its folder.
const FOLDER: &str = "TEST_FAILED_AUDIT_FOLDER";
/// Proofs that go well before the audit that fails.
const HONEST_PROOFS: u64 = 2;

/// Proves what is right, until an audit finds a row it should not have.
struct FoundWrong {
    honest: Arc<dyn Engine>,
    proofs: AtomicU64,
}

impl Engine for FoundWrong {
    fn name(&self) -> &'static str {
        "lanes"
    }

    fn verify(&self, checks: &[Check], verdicts: &mut [bool]) {
        self.honest.verify(checks, verdicts);
    }

    fn prove(&self, checks: &[Check], hints: &mut [Hint], proved: &mut [bool]) {
        self.honest.prove(checks, hints, proved);
        let proofs = self.proofs.fetch_add(1, Ordering::SeqCst);
        assert!(proofs < HONEST_PROOFS, "accepted what libsecp256k1 refuses: {:x?}", checks[0]);
    }

    fn counters(&self) -> Counters {
        self.honest.counters()
    }
}

fn config(folder: &Path) -> Config {
    let (datadir, blocks) = (folder.join("data"), folder.join("blocks"));
    let [datadir, blocks] = [&datadir, &blocks].map(|path| path.to_str().expect("a temporary folder's name"));
    let words = format!("run --chain regtest --memory-mib 256 --disk-free-min-mib 16 --threads 2 --datadir {datadir}");
    let words = format!("{words} --blocks-from {blocks} --electrum-listen 127.0.0.1:0 --rpc-listen off");
    match parse(words.split(' ').map(Into::into)) {
        Ok(Request::Run(flags)) => Config::load(&flags).expect("good settings").0,
        _ => panic!("no such command"),
    }
}

/// Imports what is there; the heights committed before and after.
fn import(config: &Config) -> [u32; 2] {
    let world = chain::World {
        disk: Arc::new(SystemDisk::default()),
        clock: Arc::new(SystemClock::default()),
        pool: Arc::new(Pool::new("check", 2)),
        engine: sigs::engine(EngineName::Auto).expect("there is always one"),
    };
    let mut chain = chain::Chain::open(world, options(config).expect("/dev/urandom")).expect("the store opens");
    let before = chain.handle().status().committed_height;
    chain.catch_up().expect("it imports");
    let after = chain.handle().status().committed_height;
    chain.finish().expect("it ends");
    [before, after]
}

/// What `assay run` does, with the engine that is found wrong.
fn node(folder: &Path) -> ExitCode {
    let honest = sigs::engine(EngineName::Auto).expect("there is always one");
    let engine = Arc::new(FoundWrong { honest, proofs: AtomicU64::new(0) });
    let stop = StopFlag::install().expect("handlers");
    until_end(Node::start_with(config(folder), engine, Vec::new(), stop).expect("it starts")).expect("it runs")
}

#[test]
fn a_failed_audit_stops_the_node_and_nothing_is_committed_after() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        let code = node(Path::new(&folder));
        std::process::exit(if code == ExitCode::FAILURE { 1 } else { 0 });
    }
    let folder = std::env::temp_dir().join(format!("assay-failed-audit-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    let blocks = folder.join("blocks");
    fs::create_dir_all(&blocks).unwrap();
    let config = config(&folder);
    fs::create_dir_all(&config.store_dir).unwrap();
    let wish = ForgeWish {
        blocks: 160,
        inputs: 12_000,
        mix: "history".into(),
        seed: 5,
        xor: false,
        shuffle_blocks: 1,
        signals: false,
        scripts: 0,
        entries_max: 1,
        wallet: 0,
    };
    forge_chain(&blocks, &wish, &Pool::new("check", machine::processors())).unwrap();
    let file: PathBuf = blocks.join(sim::forge::files::file_name(0));
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    let [_, half] = import(&config);
    fs::write(&file, &bytes).unwrap();

    let name = "command::failed_audit::a_failed_audit_stops_the_node_and_nothing_is_committed_after";
    let mut again = Command::new(std::env::current_exe().unwrap());
    let output = again.args(["--exact", name, "--nocapture"]).env(FOLDER, &folder).output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{log}");
    let panic = log.lines().find(|line| line.contains("event=panic")).unwrap_or_else(|| panic!("no panic: {log}"));
    let named = panic.contains("thread=check-1") || panic.contains("thread=writer");
    assert!(named && panic.contains("accepted what libsecp256k1 refuses"), "{panic}");
    assert!(panic.contains("Ecdsa {") || panic.contains("Schnorr {"), "the row is in the log: {panic}");
    assert!(log.contains("event=failed") && !log.contains("event=stopped"), "{log}");

    let [left, whole] = import(&config);
    assert_eq!(left, half, "nothing was committed after: {log}");
    assert!(half > 20 && whole == 160, "{half} of {whole}");
    fs::remove_dir_all(&folder).unwrap();
}
