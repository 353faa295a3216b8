//! libbitcoinkernel's own import of the same block files, in a process of its own: Bitcoin Core's chainstate, no index.
//!
//! In:     [`Settings`]: a copy of the block files, an empty data directory, threads.
//! Out:    [`Run`]: time from making the chainstate manager until it is closed, its coins on the disk.
//! Fails:  with the kernel's error.
//! Source: `import_blocks` is Core's reindex (`ImportBlocks`, node/blockstorage.cpp). Its coin cache is fixed at 450 MiB
//!         (`DEFAULT_KERNEL_CACHE`); `worker_threads` come on top of the thread that imports, as Core's `-par` counts.

use std::path::{Path, PathBuf};

use bitcoinkernel::{ChainType, ChainstateManager, Context, KernelError};
use serde::{Deserialize, Serialize};

use crate::BenchError;
use crate::measure::{Start, Usage};

/// What one import is given.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Folder for its databases.
    pub datadir: PathBuf,
    /// Folder of block files that is its own: it writes undo files there.
    pub blocks: PathBuf,
    /// Threads that check scripts at once, the importing one included.
    pub threads: usize,
}

/// What one import took and did.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// From making the manager until it was closed.
    pub import: Usage,
    /// Height of the tip.
    pub height: u32,
    /// Hash of the tip.
    pub tip: String,
}

/// Imports everything.
pub fn import(settings: &Settings) -> Result<Run, BenchError> {
    bitcoinkernel::disable_logging();
    let start = Start::now()?;
    let (height, tip) = run(settings).map_err(|error| BenchError::Kernel(error.to_string()))?;
    Ok(Run { import: start.usage()?, height, tip })
}

fn run(settings: &Settings) -> Result<(u32, String), KernelError> {
    let context = Context::builder().chain_type(ChainType::Regtest).build()?;
    let folder = |path: &Path| path.to_string_lossy().into_owned();
    let manager = ChainstateManager::builder(&context, &folder(&settings.datadir), &folder(&settings.blocks))?
        .worker_threads(settings.threads as i32 - 1)
        .wipe_db(true, true)?
        .build()?;
    manager.import_blocks()?;
    let tip = manager.active_chain().tip();
    Ok((tip.height() as u32, tip.block_hash().to_string()))
}
