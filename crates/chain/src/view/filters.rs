//! What is asked about block filters.
//!
//! In:     heights.
//! Out:    filters, their hashes and headers; none where they are not built that far.
//! Fails:  [`ViewError`].

use store::FilterEntry;

use super::{View, ViewError};

impl View {
    /// Block filters: those of the heights below this.
    pub fn filter_count(&self) -> u32 {
        self.snapshot.filter_count()
    }

    /// True where every block has its filter.
    pub fn has_all_filters(&self) -> bool {
        self.snapshot.filter_count() == self.snapshot.block_count()
    }

    /// Up to `count` entries of filters from `height` on, as many as there are.
    pub fn filter_entries(&self, height: u32, count: u32) -> Result<Vec<FilterEntry>, ViewError> {
        Ok(self.snapshot.filter_entries(height, count)?)
    }

    /// The entry of the filter at `height`.
    pub fn filter_entry(&self, height: u32) -> Result<Option<FilterEntry>, ViewError> {
        Ok(self.filter_entries(height, 1)?.pop())
    }

    /// The filter of the block at `height`, and its entry.
    pub fn filter(&self, height: u32) -> Result<Option<(FilterEntry, Vec<u8>)>, ViewError> {
        Ok(self.snapshot.filter(height)?)
    }
}
