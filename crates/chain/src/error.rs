//! Why the writer ended.
//!
//! In:     errors of the store, the block files and the view.
//! Out:    [`ChainError`], a sentence that says what to do.
//! Fails:  never.

use std::fmt;

use primitives::BlockHash;
use store::StoreError;
use store::blockfiles::BlockFilesError;

use crate::view::ViewError;

/// Why the writer ended.
#[derive(Debug)]
pub enum ChainError {
    /// The store failed.
    Store(StoreError),
    /// The block files cannot be read.
    BlockFiles(BlockFilesError),
    /// A lookup that a reorganisation needs failed.
    View(ViewError),
    /// The store's tip is not among the headers of the block files.
    TipUnknown {
        /// Height of the tip.
        height: u32,
        /// Hash of the tip.
        hash: BlockHash,
    },
    /// The block files do not hold the tip's block where it was when it was connected.
    BlocksMoved {
        /// Height of the tip.
        height: u32,
    },
    /// A coin that a disconnected block spent cannot be found again.
    SpentCoinLost {
        /// Height of the block.
        height: u32,
    },
}

impl fmt::Display for ChainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChainError::Store(error) => write!(f, "{error}"),
            ChainError::BlockFiles(error) => write!(f, "{error}"),
            ChainError::View(error) => write!(f, "{error}"),
            ChainError::TipUnknown { height, hash } => write!(
                f,
                "the data directory stands at block {height} ({hash}), which the block files do not hold; check `blocks_from`"
            ),
            ChainError::BlocksMoved { height } => write!(
                f,
                "block {height} is no longer where it was in the block files; point `blocks_from` to the folder the \
                 index was built from, or run `assay reindex`"
            ),
            ChainError::SpentCoinLost { height } => write!(
                f,
                "block {height} cannot be disconnected: a coin it spends is not found again; run `assay reindex`"
            ),
        }
    }
}

impl std::error::Error for ChainError {}

impl ChainError {
    /// True where the disk has no room left.
    pub fn is_disk_full(&self) -> bool {
        match self {
            ChainError::Store(error) => error.is_disk_full(),
            ChainError::BlockFiles(error) => error.is_disk_full(),
            _ => false,
        }
    }
}

impl From<StoreError> for ChainError {
    fn from(error: StoreError) -> Self {
        ChainError::Store(error)
    }
}

impl From<BlockFilesError> for ChainError {
    fn from(error: BlockFilesError) -> Self {
        ChainError::BlockFiles(error)
    }
}

impl From<ViewError> for ChainError {
    fn from(error: ViewError) -> Self {
        ChainError::View(error)
    }
}
