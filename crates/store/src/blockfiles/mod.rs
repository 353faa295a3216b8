//! Bitcoin Core's block files, read in place and never written.
//!
//! In:     a `blocks` folder (with its XOR key), or one file of records; the network's magic.
//! Out:    where each block lies, with its header, and the bytes of any of them.
//! Fails:  [`BlockFilesError`]; bytes that are no record are skipped and reported as [`Note`]s.
//! Source: Bitcoin Core, `validation.cpp` (`LoadExternalBlockFile`), `node/blockstorage.cpp` (`InitBlocksdirXorKey`).

mod folder;
mod scan;
#[cfg(test)]
mod tests;

pub use folder::{BlockFiles, BlockFilesError, Position};
pub use scan::{Found, Note, Progress};

/// Bytes in front of a record's block: network magic and length.
pub const RECORD_HEAD_BYTES: u64 = 8;
