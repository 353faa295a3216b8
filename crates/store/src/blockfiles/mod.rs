//! Block files: those of another node, read in place and never written, and those of our own, appended to.
//!
//! In:     a `blocks` folder (with its XOR key), or one file of records; the network's magic; blocks to keep.
//! Out:    where each block lies, with its header, and the bytes of any of them.
//! Fails:  [`BlockFilesError`]; bytes that are no record are skipped and reported as [`Note`]s.
//! Source: Bitcoin Core, `validation.cpp` (`LoadExternalBlockFile`), `node/blockstorage.cpp` (`InitBlocksdirXorKey`).

mod folder;
mod own;
mod scan;
#[cfg(test)]
mod tests;

pub use folder::{BlockFiles, BlockFilesError, OWN_FILE_FIRST, Position};
pub use own::{OWN_FILE_BYTES_MAX, OwnFiles};
pub use scan::{Found, Note, Progress};

/// Bytes in front of a record's block: network magic and length.
pub const RECORD_HEAD_BYTES: u64 = 8;
