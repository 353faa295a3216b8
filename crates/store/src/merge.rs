//! Merging of adjacent segments, away from the writer.
//!
//! In:     segments of similar size.
//! Out:    one segment with what they say together.
//! Fails:  [`StoreError`]; a merge that fails or is cancelled leaves everything as it was.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::error::StoreError;

/// A merge to be run on any thread.
pub struct MergeJob {}

/// What a merge wrote; give it to `Store::install_merge`.
pub struct MergedSegment {}

impl MergeJob {
    /// Setting it to true ends the merge soon with [`StoreError::Cancelled`].
    pub fn cancel_flag(&self) -> Arc<AtomicBool> {
        todo!()
    }

    /// Bytes it will read.
    pub fn input_bytes(&self) -> u64 {
        todo!()
    }

    /// Reads the inputs and writes one file, in bounded memory.
    pub fn run(self) -> Result<MergedSegment, StoreError> {
        todo!()
    }
}
