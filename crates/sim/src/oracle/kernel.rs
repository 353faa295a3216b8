//! Bitcoin Core's chainstate as a judge, through libbitcoinkernel.
//!
//! In:     blocks that extend its tip.
//! Out:    [`Verdict`]s: whether the block became the tip, and Core's reject word.
//! Fails:  panics where the library cannot start: it is a test's instrument.
//!
//! The library names the rule only in its log, so the log is read. It is one for the whole process: judges take turns.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, Once};

use bitcoinkernel::{Block, ChainType, ChainstateManager, Context, ContextBuilder, Log, Logger};
use primitives::BlockHash;

use super::Verdict;

static LOG: Mutex<String> = Mutex::new(String::new());
static TURN: Mutex<()> = Mutex::new(());
static START: Once = Once::new();
static FOLDERS: AtomicU64 = AtomicU64::new(0);

struct KeepRefusals;

impl Log for KeepRefusals {
    fn log(&self, message: &str) {
        if let Some(word) = word_of(message) {
            LOG.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).replace_range(.., word);
        }
    }
}

/// The reject word in a line of Core's log: `ProcessNewBlock`'s and `InvalidBlockFound`'s sentences.
fn word_of(line: &str) -> Option<&str> {
    let after = ["AcceptBlock FAILED (", "Block validation error: "];
    let text = after.into_iter().find_map(|start| line.split_once(start)).map(|(_, text)| text)?;
    Some(text.split([',', '(', ')', ' ', '\n']).next().expect("split gives at least one piece"))
}

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let name = format!("assay-kernel-{}-{}", std::process::id(), FOLDERS.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(path.join("blocks")).expect("the temporary folder takes folders");
        Folder(path)
    }

    fn text(&self, below: &str) -> String {
        self.0.join(below).to_str().expect("a temporary folder's name is text").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder left behind in the temporary folder harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Core's chainstate on regtest.
pub struct Kernel {
    manager: ChainstateManager,
    _context: Context,
    _folder: Folder,
}

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Kernel {
    /// Stands at the genesis block; `threads` verify scripts beside the caller's.
    pub fn new(threads: i32) -> Kernel {
        START.call_once(|| {
            let logger = Logger::new(KeepRefusals).expect("the log takes a listener");
            // The listener lives as long as the process.
            std::mem::forget(logger);
        });
        let _turn = turn();
        let folder = Folder::new();
        let context = ContextBuilder::new().chain_type(ChainType::Regtest).build().expect("a context");
        let manager = ChainstateManager::builder(&context, &folder.text(""), &folder.text("blocks"))
            .expect("a builder")
            .worker_threads(threads)
            .block_tree_db_in_memory(true)
            .chainstate_db_in_memory(true)
            .build()
            .expect("a chainstate");
        manager.import_blocks().expect("the genesis block connects");
        Kernel { manager, _context: context, _folder: folder }
    }

    /// Hash of the tip.
    pub fn tip(&self) -> BlockHash {
        BlockHash(self.manager.active_chain().tip().block_hash().to_owned().into())
    }

    /// Judges a block that extends the tip, and takes it where it is valid.
    pub fn feed(&self, bytes: &[u8]) -> Verdict {
        let Ok(block) = Block::new(bytes) else { return Verdict::Refused("parse".to_owned()) };
        let _turn = turn();
        LOG.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clear();
        let result = self.manager.process_block(&block);
        let hash: [u8; 32] = block.hash().into();
        if !result.is_rejected() && self.tip() == BlockHash(hash) {
            return Verdict::Accepted;
        }
        Verdict::Refused(LOG.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone())
    }
}
