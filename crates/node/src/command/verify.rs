//! `assay verify`: proves the chain a second time from the block files and compares coins and index with the data directory.
//!
//! In:     settings; the data directory's lock, so no node runs meanwhile.
//! Out:    exit code 0 when everything is equal, 3 with the names of what differs; counts and the coins' MuHash.
//! Fails:  with exit code 1 when the comparison could not be made.
//! Source: MuHash as Bitcoin Core's `gettxoutsetinfo muhash`, so the value can be compared with Core's own.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use chain::{Chain, Digest, HintsUse, World};
use primitives::hash::BlockHash;
use sim::muhash::{MuHash, coin_bytes};
use stdx::clock::SystemClock;
use stdx::disk::SystemDisk;
use stdx::pool::Pool;
use store::Snapshot;

use super::arguments::Flags;
use crate::config::Config;
use crate::running::lock::DataLock;
use crate::running::log;
use crate::running::node::{engine, options};
use crate::running::progress::count_text;
use crate::running::stop::StopFlag;
use crate::{Failure, say};

/// Exit code when something differs.
const DIFFERENT: u8 = 3;

/// What a data directory holds, in a few values.
struct Findings {
    digest: Digest,
    muhash: BlockHash,
}

/// Recomputes and compares.
pub fn verify(flags: &Flags) -> Result<ExitCode, Failure> {
    let (config, layers) = Config::load(flags)?;
    log::set_level(config.log_level);
    if !config.store_dir.is_dir() {
        return Err(Failure::Run(format!("nothing to verify: {} does not exist", config.store_dir.display())));
    }
    let _lock = DataLock::take(&config.chain_dir).map_err(|error| Failure::Run(error.to_string()))?;
    let stop = StopFlag::install().map_err(|error| Failure::Run(format!("no signal handlers: {error}")))?;
    let world = World {
        disk: Arc::new(SystemDisk::default()),
        clock: Arc::new(SystemClock::default()),
        pool: Arc::new(Pool::new("check", config.threads)),
        engine: engine(&config, &layers)?,
    };
    let started = Instant::now();
    let kept = Chain::open(world.clone(), options(&config)?).map_err(failed)?.handle().view().snapshot().clone();
    let tip = kept.tip().ok_or_else(|| Failure::Run("the data directory has no block".to_owned()))?;
    say(&format!("recomputing block 0 to {} ({}) from {}", tip.height, tip.hash, config.blocks_from.display()));
    let second = SecondFolder(config.chain_dir.join("verify"));
    second.empty()?;
    let recomputed = recompute(&config, world, &second, &kept, tip.hash, &stop)?;
    let (ours, theirs) = (findings(&kept)?, findings(&recomputed)?);
    drop(recomputed);
    Ok(tell(&ours, &theirs, started))
}

/// Imports the same chain into a second folder, under the same tag key, up to the same block.
fn recompute(
    config: &Config,
    world: World,
    second: &SecondFolder,
    kept: &Snapshot,
    last: BlockHash,
    stop: &StopFlag,
) -> Result<Arc<Snapshot>, Failure> {
    let mut options = options(config)?;
    options.datadir = second.0.clone();
    options.secret[..16].copy_from_slice(&kept.tag_key());
    options.last_block = Some(last);
    // Where some are missing still, none are compared.
    options.block_filters = kept.filter_count() == kept.block_count();
    options.hints = config.hints_dir.clone().map_or(HintsUse::Off, HintsUse::Read);
    let mut chain = Chain::open(world, options).map_err(failed)?;
    let handle = chain.handle();
    let worker = std::thread::Builder::new().name("writer".to_owned()).spawn(move || chain.catch_up().map(|()| chain));
    let worker = worker.map_err(|error| Failure::Run(format!("no thread for the writer: {error}")))?;
    let live = log::is_live();
    while !worker.is_finished() {
        if stop.is_signalled() || stop.is_panicked() {
            handle.stop();
        }
        if live {
            let status = handle.status();
            log::live(&format!(
                "recomputing {} | {} inputs",
                count_text(status.height.into()),
                count_text(status.inputs)
            ));
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    if live {
        log::live("");
    }
    let chain = worker.join().map_err(|_| Failure::Run("the writer panicked; the log says where".to_owned()))?;
    let chain = chain.map_err(failed)?;
    if stop.is_signalled() {
        return Err(Failure::Run("stopped before everything was recomputed".to_owned()));
    }
    if let Some((height, hash, why)) = handle.status().refused {
        return Err(Failure::Run(format!("block {height} ({hash}) was refused: {why}")));
    }
    Ok(chain.handle().view().snapshot().clone())
}

fn findings(snapshot: &Snapshot) -> Result<Findings, Failure> {
    let mut muhash = MuHash::default();
    let digest = Digest::of(snapshot, |outpoint, coin| {
        muhash.insert(&coin_bytes(outpoint, coin.height, coin.coinbase, coin.value_sat, coin.script));
    });
    let digest = digest.map_err(|error| Failure::Run(error.to_string()))?;
    Ok(Findings { digest, muhash: BlockHash(muhash.finalize()) }) // shown reversed, as Core shows it
}

fn tell(ours: &Findings, theirs: &Findings, started: Instant) -> ExitCode {
    let names = ["history", "unspent", "txid", "spender"];
    let row = |name: &str, kept: u64, recomputed: u64| {
        say(&format!("  {name:<8} {:>14} rows kept {:>14} recomputed", count_text(kept), count_text(recomputed)));
    };
    row("coins", ours.digest.coins.rows, theirs.digest.coins.rows);
    for (name, (kept, recomputed)) in names.into_iter().zip(ours.digest.tables.iter().zip(&theirs.digest.tables)) {
        row(name, kept.rows, recomputed.rows);
    }
    row("filters", ours.digest.filters.rows, theirs.digest.filters.rows);
    say(&format!("  muhash   {} kept\n           {} recomputed", ours.muhash, theirs.muhash));
    say(&format!("  sum      {} sat kept, {} sat recomputed", ours.digest.coins_sat, theirs.digest.coins_sat));
    let mut different = ours.digest.differences(&theirs.digest);
    if ours.muhash != theirs.muhash && !different.contains(&"coins") {
        different.push("muhash");
    }
    let seconds = started.elapsed().as_secs_f64();
    if different.is_empty() {
        say(&format!("equal, in {seconds:.1} s"));
        return ExitCode::SUCCESS;
    }
    say(&format!("DIFFERENT: {}; `assay reindex` builds them again ({seconds:.1} s)", different.join(", ")));
    ExitCode::from(DIFFERENT)
}

fn failed(error: chain::ChainError) -> Failure {
    Failure::Run(error.to_string())
}

/// The folder of the second import; it is gone afterwards, whatever happened.
struct SecondFolder(PathBuf);

impl SecondFolder {
    fn empty(&self) -> Result<(), Failure> {
        match fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Failure::Run(format!("{}: {error}", self.0.display())))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for SecondFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
