//! Double-SHA256 of every block's bytes on one thread: the least that anyone does who checks a chain.
//!
//! In:     [`Settings`]: network and block files.
//! Out:    [`Run`]: time spent hashing alone; finding and reading the blocks is left out.
//! Fails:  when the block files cannot be read.

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use primitives::hash::sha256d;
use primitives::{Network, Params};
use serde::{Deserialize, Serialize};
use stdx::disk::SystemDisk;
use store::blockfiles::{BlockFiles, BlockFilesError, Progress};

use crate::BenchError;

/// What is hashed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// The network's name.
    pub chain: String,
    /// Folder of block files.
    pub blocks_from: PathBuf,
}

/// What it took.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// Time spent hashing, in seconds.
    pub hashing_s: f64,
    /// Bytes hashed.
    pub block_bytes: u64,
}

/// Hashes everything.
pub fn hash(settings: &Settings) -> Result<Run, BenchError> {
    let network: Network = settings.chain.parse().map_err(BenchError::Usage)?;
    read_and_hash(settings, Params::of(network).magic).map_err(|error| BenchError::Chain(error.into()))
}

fn read_and_hash(settings: &Settings, magic: [u8; 4]) -> Result<Run, BlockFilesError> {
    let mut files = BlockFiles::open(Arc::new(SystemDisk::default()), &settings.blocks_from, magic)?;
    let mut positions = Vec::new();
    files.scan(&mut Progress::default(), &mut |found| positions.push(found.position))?;
    let mut run = Run::default();
    for position in positions {
        let block = files.read_block(position)?;
        let before = Instant::now();
        black_box(sha256d(&block));
        run.hashing_s += before.elapsed().as_secs_f64();
        run.block_bytes += block.len() as u64;
    }
    Ok(run)
}
