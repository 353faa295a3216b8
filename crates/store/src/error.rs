//! What can go wrong below the store, one variant a rule.
//!
//! In:     failures of the disk, and bytes that are not what was written.
//! Out:    [`StoreError`], with the file and what to do in its text.
//! Fails:  never.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why the store cannot answer or go on.
#[derive(Clone, Debug)]
pub enum StoreError {
    /// The operating system refused; the store writes nothing more when this came from a write or a sync.
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file.
        path: PathBuf,
        /// What it said.
        source: Arc<io::Error>,
    },
    /// Bytes differ from what was written: a checksum, a length or a count does not fit.
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        what: &'static str,
    },
    /// A file was written by a later version of the program.
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its format version.
        got: u32,
        /// The newest one this program reads.
        known: u32,
    },
    /// The folder belongs to another network.
    OtherNetwork {
        /// The file that says so.
        path: PathBuf,
        /// Magic of the network it was made for.
        got: [u8; 4],
        /// Magic of the network that was asked for.
        want: [u8; 4],
    },
    /// An earlier write or sync failed, so what is on disk is unknown until the next start.
    Poisoned,
    /// A reorganisation changed what this snapshot reads; take a new one.
    Stale,
    /// The work was cancelled by its owner.
    Cancelled,
}

impl StoreError {
    /// A [`StoreError::Io`], for `map_err`.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
        let path = path.to_path_buf();
        move |source| StoreError::Io { doing, path, source: Arc::new(source) }
    }

    /// A [`StoreError::Corrupt`].
    pub(crate) fn corrupt(path: &Path, what: &'static str) -> StoreError {
        StoreError::Corrupt { path: path.to_path_buf(), what }
    }

    /// True where the disk has no room left (ENOSPC) or a quota is used up.
    pub fn is_disk_full(&self) -> bool {
        let full = |kind| matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        matches!(self, StoreError::Io { source, .. } if full(source.kind()))
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Io { doing, path, source } => write!(f, "cannot {doing} {}: {source}", path.display()),
            StoreError::Corrupt { path, what } => {
                write!(f, "{} is damaged ({what}); run `assay reindex` to rebuild it from block files", path.display())
            }
            StoreError::NewerFormat { path, got, known } => {
                let path = path.display();
                write!(
                    f,
                    "{path} has format {got}, this program reads up to {known}; run the newer program, or reindex"
                )
            }
            StoreError::OtherNetwork { path, got, want } => {
                let (got, want) = (stdx::hex::encode(got), stdx::hex::encode(want));
                write!(f, "{} belongs to the network with magic {got}, not {want}; check `chain`", path.display())
            }
            StoreError::Poisoned => f.write_str("an earlier write failed, so nothing more is written; restart"),
            StoreError::Stale => f.write_str("a reorganisation passed under this view; take a new one"),
            StoreError::Cancelled => f.write_str("cancelled"),
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StoreError::Io { source, .. } => Some(source.as_ref()),
            _ => None,
        }
    }
}
