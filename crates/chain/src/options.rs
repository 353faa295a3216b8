//! What a chain needs of the world, and how it is run.
//!
//! In:     disk, clock, pool and engine; folders, memory, what to check.
//! Out:    [`World`] and [`Options`]; the parts of the memory budget.
//! Fails:  never.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use primitives::{BlockHash, Params};
use sigs::Engine;
use stdx::clock::Clock;
use stdx::disk::Disk;
use stdx::pool::Pool;

use crate::kept::hints::HintsUse;

/// What a chain needs of the world.
#[derive(Clone)]
pub struct World {
    /// Where everything is kept.
    pub disk: Arc<dyn Disk>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Who works.
    pub pool: Arc<Pool>,
    /// Who checks signatures.
    pub engine: Arc<dyn Engine>,
}

/// How a chain is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The network.
    pub params: Params,
    /// Folder of the store.
    pub datadir: PathBuf,
    /// Folder of Core's block files, or one file of records; read only. None: the node needs no other.
    pub blocks_from: Option<PathBuf>,
    /// Folder of the node's own block files, where blocks from outside go; none: it takes no blocks from outside.
    pub own_blocks: Option<PathBuf>,
    /// Headers known from elsewhere, parents first: they are judged, and kept by the store. Those of an earlier store of the
    /// same chain come from [`crate::headers_of_store`].
    pub headers: Vec<[u8; 80]>,
    /// Memory for everything, in bytes.
    pub memory_bytes: u64,
    /// Scripts of this block and its ancestors are not checked.
    pub assume_valid: Option<BlockHash>,
    /// No script is checked at all; for measuring.
    pub skip_scripts: bool,
    /// No index rows are derived; for measuring.
    pub skip_index: bool,
    /// Longest time between commits while importing; what a crash may cost at most.
    pub commit_interval: Duration,
    /// How often the block files are looked at for new blocks once the tip is reached.
    pub poll_interval: Duration,
    /// The chain that ends with this block is followed and no other, while it is valid; for comparing states.
    pub last_block: Option<BlockHash>,
    /// Block filters are built and kept.
    pub block_filters: bool,
    /// Age of a tip that counts as recent, in seconds (Core: `-maxtipage`).
    pub tip_age_max_s: u64,
    /// What proofs of scripts learn, for the next time the same blocks are proved.
    pub hints: HintsUse,
    /// 32 random bytes: key of the script tags of a new store, and of the coin table's hash function.
    pub secret: [u8; 32],
}

impl Options {
    /// Options with everything checked, everything indexed, and no folder for own blocks.
    pub fn new(params: Params, datadir: PathBuf, blocks_from: impl Into<Option<PathBuf>>, secret: [u8; 32]) -> Options {
        Options {
            params,
            datadir,
            blocks_from: blocks_from.into(),
            own_blocks: None,
            headers: Vec::new(),
            memory_bytes: 1 << 30,
            assume_valid: None,
            last_block: None,
            skip_scripts: false,
            skip_index: false,
            block_filters: false,
            tip_age_max_s: 24 * 60 * 60,
            hints: HintsUse::Off,
            commit_interval: Duration::from_secs(300),
            poll_interval: Duration::from_millis(500),
            secret,
        }
    }

    /// What each part may take of [`Options::memory_bytes`].
    pub(crate) fn shares(&self) -> Shares {
        let memory = self.memory_bytes;
        Shares {
            coins_bytes: (memory / 100 * 55) as usize,
            batch_bytes: (memory / 100 * 12) as usize,
            // Blocks on their way: their bytes, offsets, spent coins and rows take about four times this.
            pipeline_bytes: (memory / 100 * 4).clamp(4 << 20, 32 << 20),
            fresh_bytes: (memory / 100 * 2).clamp(8 << 20, 32 << 20),
            queued_bytes: (memory / 100 * 2).clamp(8 << 20, 32 << 20),
            view_bytes: (memory / 100 * 5).clamp(8 << 20, 512 << 20) as usize,
        }
    }
}

/// Parts of the memory budget; the rest is for headers, filters, sorting and the servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    pub(crate) coins_bytes: usize,
    pub(crate) batch_bytes: usize,
    pub(crate) pipeline_bytes: u64,
    /// Blocks from outside that are checked and wait in memory besides on the disk; with offsets and identifiers they
    /// take about twice this.
    pub(crate) fresh_bytes: u64,
    /// Blocks from outside that nobody has looked at.
    pub(crate) queued_bytes: u64,
    /// What readers of the chain asked for lately.
    pub(crate) view_bytes: usize,
}
