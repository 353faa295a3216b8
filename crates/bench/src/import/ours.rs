//! Our own import, in a process of its own.
//!
//! In:     [`Settings`]: block files, an empty data directory, threads, memory, what is left out.
//! Out:    [`Run`]: what it took until the tip was committed, what merging took after that, and what was done.
//! Fails:  when a block is refused or the tip is not the best header: a faster import that ends elsewhere is none.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use chain::{Chain, HintsUse, Options, World};
use primitives::{Network, Params};
use serde::{Deserialize, Serialize};
use sigs::{Engine, EngineName};
use stdx::clock::SystemClock;
use stdx::disk::SystemDisk;
use stdx::pool::Pool;

use crate::measure::{self, Start, Usage};
use crate::{BenchError, at};

/// What one import is given.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// The network's name.
    pub chain: String,
    /// Folder of block files.
    pub blocks_from: PathBuf,
    /// Folder that is made or, if it holds a data directory, gone on with.
    pub datadir: PathBuf,
    /// Threads that work at once.
    pub threads: usize,
    /// Memory budget, in MiB.
    pub memory_mib: u64,
    /// The signature engine's name.
    pub engine: String,
    /// Scripts are checked.
    pub signatures: bool,
    /// Index rows are derived.
    pub index: bool,
    /// Folder of hints of earlier imports.
    pub hints: Option<PathBuf>,
}

/// What one table takes on the disk.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TableSize {
    /// Its name.
    pub table: String,
    /// Its rows, deletions that are still kept included.
    pub rows: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// What one import took and did.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// From opening the data directory until the tip was committed and visible.
    pub import: Usage,
    /// Time until no merge was worth doing any more, in seconds.
    pub settle_s: f64,
    /// From opening until merges were done.
    pub all: Usage,
    /// Bytes handed to the disk's door, merges included.
    pub written_bytes: u64,
    /// Bytes of the data directory in the end.
    pub stored_bytes: u64,
    /// Rows and bytes of each table, over all segments.
    pub tables: Vec<TableSize>,
    /// Segment files.
    pub segments: u64,
    /// Height of the tip.
    pub height: u32,
    /// Hash of the tip.
    pub tip: String,
    /// Blocks connected.
    pub blocks: u64,
    /// Their bytes.
    pub block_bytes: u64,
    /// Transactions connected.
    pub transactions: u64,
    /// Inputs, the coinbases' left out.
    pub inputs: u64,
    /// Outputs.
    pub outputs: u64,
    /// Signatures checked by the engine.
    pub signatures: u64,
    /// Signatures proved with the hint of an earlier import.
    pub hinted_signatures: u64,
    /// Bytes of hints kept.
    pub hints_bytes: u64,
    /// Calls of the engine.
    pub engine_calls: u64,
    /// Signatures that libsecp256k1 decided after or instead of the engine's lanes.
    pub scalar_signatures: u64,
    /// Inputs proved by a template.
    pub template_inputs: u64,
    /// Inputs decided by Bitcoin Core's interpreter.
    pub interpreter_inputs: u64,
    /// Commits written.
    pub commits: u64,
}

/// A chain, and what counts its work.
pub struct Opened {
    /// The chain.
    pub chain: Chain,
    /// Its disk.
    pub disk: Arc<SystemDisk>,
    /// Who checks its signatures.
    pub engine: Arc<dyn Engine>,
}

/// The chain of these settings.
pub fn open(settings: &Settings) -> Result<Opened, BenchError> {
    let network: Network = settings.chain.parse().map_err(BenchError::Usage)?;
    let engine: EngineName = settings.engine.parse().map_err(|error: sigs::EngineError| usage(&error))?;
    let disk = Arc::new(SystemDisk::default());
    let engine = sigs::engine(engine).map_err(|error| usage(&error))?;
    let world = World {
        disk: disk.clone(),
        clock: Arc::new(SystemClock::default()),
        pool: Arc::new(Pool::new("bench", settings.threads)),
        engine: engine.clone(),
    };
    // A fixed secret: two imports of the same chain store the same rows.
    let secret = [0x5a; 32];
    let mut options = Options::new(Params::of(network), settings.datadir.clone(), settings.blocks_from.clone(), secret);
    options.memory_bytes = settings.memory_mib << 20;
    options.skip_scripts = !settings.signatures;
    options.skip_index = !settings.index;
    options.hints = settings.hints.clone().map_or(HintsUse::Off, HintsUse::Keep);
    Ok(Opened { chain: Chain::open(world, options)?, disk, engine })
}

fn usage(error: &dyn std::fmt::Display) -> BenchError {
    BenchError::Usage(error.to_string())
}

/// Imports everything.
pub fn import(settings: &Settings) -> Result<Run, BenchError> {
    fs::create_dir_all(&settings.datadir).map_err(at(&settings.datadir))?;
    let start = Start::now()?;
    let Opened { mut chain, disk, engine } = open(settings)?;
    chain.catch_up()?;
    let import = start.usage()?;
    let status = chain.handle().status();
    if let Some((height, hash, why)) = &status.refused {
        return Err(BenchError::Wrong(format!("block {height} ({hash}) was refused: {why}")));
    }
    if status.height != status.headers_height {
        let (height, headers) = (status.height, status.headers_height);
        return Err(BenchError::Wrong(format!("ended at block {height} of {headers}")));
    }
    let before = Instant::now();
    chain.settle()?;
    let settle_s = before.elapsed().as_secs_f64();
    let all = start.usage()?;
    let counters = engine.counters();
    let commits = chain.handle().status().commits;
    let snapshot = chain.handle().view().snapshot().clone();
    let size =
        |size: &store::SectionSize| TableSize { table: size.name.to_owned(), rows: size.rows, bytes: size.bytes };
    let tables = snapshot.sizes().iter().map(size).collect();
    let segments = snapshot.segment_count() as u64;
    drop(chain);
    Ok(Run {
        import,
        settle_s,
        all,
        written_bytes: disk.written_bytes(),
        stored_bytes: measure::folder_bytes(&settings.datadir)?,
        tables,
        segments,
        height: status.height,
        tip: status.hash.to_string(),
        blocks: status.blocks,
        block_bytes: status.bytes_done,
        transactions: status.transactions,
        inputs: status.inputs,
        outputs: status.outputs,
        signatures: status.signatures,
        hinted_signatures: status.hinted_signatures,
        hints_bytes: status.hints_bytes,
        engine_calls: counters.calls,
        scalar_signatures: counters.scalar,
        template_inputs: status.template_inputs,
        interpreter_inputs: status.interpreter_inputs,
        commits,
    })
}
