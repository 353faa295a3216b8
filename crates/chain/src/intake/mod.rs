//! The door for headers and blocks from outside: peers and callers hand them in, the writer connects them.
//!
//! In:     headers and blocks in any order, from any thread; orders of the operator.
//! Out:    typed answers; headers in the tree; blocks in the node's own files, for the writer to connect.
//! Fails:  each header and block with its own answer; a disk that fails ends the writer.
//! Source: Bitcoin Core, `validation.cpp`: `ProcessNewBlockHeaders`, `ProcessNewBlock`, `AcceptBlock`.
//!
//! Nobody waits for the writer here: the tree is behind a lock that nobody holds for longer than a few hundred headers
//! take, checks without state run on the pool, and blocks ahead of the tip wait on the disk. The last few megabytes of
//! them stay in memory as well, so that the pipeline need not read and check them a second time.

mod blocks;
mod control;
mod fresh;
mod headers;
mod pass;

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use primitives::Params;
use stdx::clock::Clock;
use stdx::pool::Pool;
use store::Fact;
use store::blockfiles::{BlockFilesError, OwnFiles};

use crate::options::{Options, World};
use crate::tree::HeaderTree;

pub(crate) use blocks::condemns_header;
pub use blocks::{Acceptance, IntakeLoad, QueueFull, Verdict};
pub use control::{ChainTip, ControlError};
pub(crate) use fresh::Fresh;
pub use headers::{HeaderInfo, HeadersAnswer, HeadersStop, Missing, Wanted, WorkProof};
pub use pass::Pending;
pub(crate) use pass::{Signal, Waiter, Waiters, Wish};

/// What the door and the writer share.
pub(crate) struct Intake {
    tree: RwLock<HeaderTree>,
    /// Learned since the writer last looked; taken under the tree's lock, so that their order is that of the tree.
    facts: Mutex<Vec<Fact>>,
    /// The node's own block files; none where it only follows those of another node.
    pub(crate) own: Option<OwnFiles>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) params: Arc<Params>,
    /// Blocks that are checked, written and not connected yet.
    pub(crate) fresh: Mutex<Fresh>,
    /// Bytes of blocks handed in and not answered.
    pub(crate) queued_bytes: AtomicU64,
    pub(crate) queued_bytes_max: u64,
    /// Why the own files cannot be written any more.
    pub(crate) failure: Mutex<Option<BlockFilesError>>,
    /// Wakes the writer.
    pub(crate) signal: Signal,
    /// Who waits for the end of a pass of the writer.
    pub(crate) waiters: Waiters,
    /// True once the tip was recent and had the least work: see [`crate::Handle::is_initial_download`].
    pub(crate) synced: AtomicBool,
    /// Age of a tip that counts as recent, in seconds.
    pub(crate) tip_age_max_s: u64,
}

impl Intake {
    pub(crate) fn new(
        tree: HeaderTree,
        own: Option<OwnFiles>,
        world: &World,
        params: Arc<Params>,
        options: &Options,
    ) -> Intake {
        let shares = options.shares();
        Intake {
            tree: RwLock::new(tree),
            facts: Mutex::default(),
            own,
            pool: world.pool.clone(),
            clock: world.clock.clone(),
            params,
            fresh: Mutex::new(Fresh::new(shares.fresh_bytes)),
            queued_bytes: AtomicU64::new(0),
            queued_bytes_max: shares.queued_bytes,
            failure: Mutex::default(),
            signal: Signal::default(),
            waiters: Waiters::default(),
            synced: false.into(),
            tip_age_max_s: options.tip_age_max_s,
        }
    }

    pub(crate) fn tree(&self) -> RwLockReadGuard<'_, HeaderTree> {
        self.tree.read().expect("nobody panics while holding the tree")
    }

    pub(crate) fn tree_mut(&self) -> RwLockWriteGuard<'_, HeaderTree> {
        self.tree.write().expect("nobody panics while holding the tree")
    }

    /// Facts to be kept; ask for it while holding the tree.
    pub(crate) fn facts(&self) -> MutexGuard<'_, Vec<Fact>> {
        self.facts.lock().expect("nobody panics while holding the facts")
    }
}
