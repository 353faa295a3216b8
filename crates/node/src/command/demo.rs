//! `assay demo`: forges a sample chain (or takes another node's block files), proves and indexes it, and asks the server
//! what a wallet asks.
//!
//! In:     settings, of which data directory, network and port have defaults of their own; which chain to forge.
//! Out:    what was done, with units; the wallet's questions and answers; a server until Ctrl-C.
//! Fails:  with exit code 1 when any part of it does, an answer that is wrong included.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use chain::{Phase, Status};
use primitives::network::{Network, Params};

use super::arguments::{Flags, ForgeWish};
use super::forge::{describe, forge_chain};
use super::run::finish;
use super::wallet::{Answer, Wallet};
use crate::config::{Config, ConfigError, Layers};
use crate::running::lock::DataLock;
use crate::running::node::{End, Node};
use crate::running::progress::{bytes_text, count_text};
use crate::running::stop::StopFlag;
use crate::running::{log, os};
use crate::{Failure, say};

/// What the demo takes where nobody says otherwise.
const DEFAULTS: [(&str, &str); 5] = [
    ("datadir", "demo-data"),
    ("chain", "regtest"),
    ("electrum_listen", "127.0.0.1:0"),
    ("rpc_listen", "127.0.0.1:0"),
    ("disk_free_min_mib", "64"),
];
/// File that says a folder is the demo's own, so that it may be emptied.
const MARK: &str = ".assay-demo";

/// Forges, proves, asks, serves.
pub fn demo(flags: &Flags, exit: bool, wish: &ForgeWish) -> Result<ExitCode, Failure> {
    let (mut config, layers) = Config::load_with(flags, &DEFAULTS)?;
    config.peers = None; // what is shown is the sample, and nobody else's business
    log::set_level(config.log_level);
    let forged = config.blocks_own;
    check_network(&config, &layers, forged)?;
    own_folder(&config.datadir)?;
    let stop = StopFlag::install().map_err(|error| Failure::Run(format!("no signal handlers: {error}")))?;
    if forged {
        config.blocks_from = forge_sample(&config, wish)?;
        config.blocks_own = false;
    }
    let params = Params::of(config.network);
    say(&format!("proving {} from {}", config.network, config.blocks_from.display()));
    let started = Instant::now();
    let mut node = Node::start(config, &layers, stop)?;
    let end = match node.wait_open() {
        Ok(handle) => node.watch(|| handle.status().phase == Phase::Following),
        Err(end) => Some(end),
    };
    if let Some(end) = end {
        return finish(node, end);
    }
    summary(&node, started.elapsed());
    match show_answers(&node, params) {
        Err(why) => finish(node, End::Failed(why)),
        Ok(()) if exit => finish(node, End::Asked),
        Ok(()) => {
            say("serving until Ctrl-C");
            let end = node.watch(|| false).expect("it watches until the end");
            finish(node, end)
        }
    }
}

/// The generator makes regtest chains only.
fn check_network(config: &Config, layers: &Layers, forged: bool) -> Result<(), ConfigError> {
    if !forged || config.network == Network::Regtest {
        return Ok(());
    }
    let why = format!("a forged chain is a regtest chain; for {} say where its block files are", config.network);
    Err(ConfigError::Conflict { setting: "chain", source: layers.get("chain").1, other: "blocks_from", why })
}

/// Makes the folder the demo's, and refuses one that somebody else uses.
fn own_folder(folder: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::Run(format!("{} cannot be used: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(failed)?;
    let is_empty = fs::read_dir(folder).map_err(failed)?.next().is_none();
    if !is_empty && !folder.join(MARK).exists() {
        let why = format!("{} is in use and not by a demo; take another --datadir", folder.display());
        return Err(Failure::Run(why));
    }
    fs::write(folder.join(MARK), "This folder belongs to `assay demo`, which empties it.\n").map_err(failed)
}

/// A fresh chain, and no trace of the last demo's coins and index.
fn forge_sample(config: &Config, wish: &ForgeWish) -> Result<PathBuf, Failure> {
    let lock = DataLock::take(&config.chain_dir).map_err(|error| Failure::Run(error.to_string()))?;
    let folder = config.datadir.join("forged-blocks");
    for old in [&config.store_dir, &folder] {
        if old.exists() {
            fs::remove_dir_all(old).map_err(|error| Failure::Run(format!("{}: {error}", old.display())))?;
        }
    }
    let started = Instant::now();
    let pool = stdx::pool::Pool::new("check", config.threads);
    let report = forge_chain(&folder, wish, &pool)?;
    say(&format!("{} in {:.1} s", describe(&report), started.elapsed().as_secs_f64()));
    drop(lock);
    Ok(folder)
}

fn summary(node: &Node, took: Duration) {
    let status = node.reporter().status().unwrap_or_default();
    let seconds = took.as_secs_f64();
    let mb = status.bytes_done as f64 / 1e6;
    let index_share = 100.0 * status.stored_bytes as f64 / status.bytes_done.max(1) as f64;
    let written = node.reporter().written_bytes();
    let rows = [
        ("tip", format!("height {}, block {}", count_text(status.height.into()), status.hash)),
        ("blocks", count_text(status.blocks)),
        ("transactions", count_text(status.transactions)),
        ("inputs", inputs_text(&status)),
        ("signatures", format!("{} ({:.0} per s)", count_text(status.signatures), status.signatures as f64 / seconds)),
        ("time", format!("{seconds:.2} s, index included")),
        ("speed", format!("{:.1} MB/s of blocks ({mb:.1} MB)", mb / seconds)),
        ("peak memory", format!("{} of a budget of {}", bytes_text(os::resident_bytes().1), node.budget_text())),
        ("written", format!("{} ({:.2} per byte of block)", bytes_text(written), written as f64 / 1e6 / mb.max(1e-6))),
        ("index and coins", format!("{} ({index_share:.1} % of the blocks)", bytes_text(status.stored_bytes))),
    ];
    for (name, text) in rows {
        say(&format!("  {name:<16} {text}"));
    }
}

fn inputs_text(status: &Status) -> String {
    format!(
        "{} ({} proved by templates, {} by Bitcoin Core's interpreter)",
        count_text(status.inputs),
        count_text(status.template_inputs),
        count_text(status.interpreter_inputs)
    )
}

fn show_answers(node: &Node, params: Params) -> Result<(), String> {
    let Some(address) = node.electrum_address() else {
        say("no Electrum server: electrum_listen is off");
        return Ok(());
    };
    say(&format!("the Electrum server listens on {address} (TCP); a wallet asks:"));
    let mut wallet = Wallet::connect(address, params)?;
    wallet.tour(&mut |Answer { question, answer, took }| {
        say(&format!("  {question} [{:.2} ms]\n    {answer}", took.as_secs_f64() * 1e3));
    })
}
