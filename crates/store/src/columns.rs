//! Append-only arrays: a file for each column, fixed width, by ordinal.
//!
//! A column file is pages of 4,096 bytes: as many whole entries as fit into 4,088 bytes, zeros, and a checksum of 8
//! bytes seeded with the column and the page's number. Only full pages are ever written; the entries behind the last
//! full page are in the commit record. So a torn write can only be behind what a commit names, and a page is written
//! over only after a commit that no longer names it.
//!
//! Beside them stands one file that is no array: the bytes of block filters, one behind the other, each ending where its entry
//! in the column `filters` says. They may be written long before a commit names them, and mean nothing until then; after a cut
//! the same rule holds.
//!
//! In:     entries and filters in order; a number of entries to cut to.
//! Out:    entries by ordinal, from the file or from memory; a filter by its place.
//! Fails:  [`StoreError`]; `Corrupt` where a page is not what was written.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use primitives::hash::sha256d;
use stdx::checksum::checksum;
use stdx::disk::{Disk, DiskFile, Open};

use crate::entries::FilterEntry;
use crate::error::StoreError;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
/// Bytes of its checksum.
const CHECKSUM_BYTES: usize = 8;
/// Pages written at once.
const PAGES_PER_WRITE: usize = 256;

/// The columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnName {
    /// Headers of connected blocks by height.
    Headers,
    /// Positions and first ordinals of connected blocks by height.
    Blocks,
    /// Transactions of connected blocks by TxNum.
    Txs,
    /// Every block seen in block files, and other facts about headers, in the order learned.
    Found,
    /// Hash, header and end of block filters by height; fewer than blocks where filters are off.
    Filters,
}

impl ColumnName {
    /// Every column, in the order of the commit record.
    pub const ALL: [ColumnName; 5] =
        [ColumnName::Headers, ColumnName::Blocks, ColumnName::Txs, ColumnName::Found, ColumnName::Filters];

    /// Bytes of an entry.
    pub const fn width(self) -> usize {
        match self {
            ColumnName::Headers => 80,
            ColumnName::Blocks => 21,
            ColumnName::Txs => 6,
            ColumnName::Found => 92,
            ColumnName::Filters => 70,
        }
    }

    /// Entries of a page.
    pub const fn entries_per_page(self) -> u64 {
        ((PAGE_BYTES - CHECKSUM_BYTES) / self.width()) as u64
    }

    /// Name of its file.
    pub fn file_name(self) -> &'static str {
        match self {
            ColumnName::Headers => "headers.col",
            ColumnName::Blocks => "blocks.col",
            ColumnName::Txs => "txs.col",
            ColumnName::Found => "found.col",
            ColumnName::Filters => "filters.col",
        }
    }

    fn page_seed(self, page: u64) -> u64 {
        (self as u64 + 1) << 56 | page
    }
}

/// A column as of one commit; any thread may read it.
#[derive(Clone)]
pub struct ColumnView {
    name: ColumnName,
    path: Arc<PathBuf>,
    file: Arc<dyn DiskFile>,
    /// Entries in all.
    pub entries: u64,
    /// Entries behind the last full page.
    tail: Arc<[u8]>,
}

impl ColumnView {
    /// The bytes of up to `count` entries from `first` on.
    pub fn range(&self, first: u64, count: u64) -> Result<Vec<u8>, StoreError> {
        let count = count.min(self.entries.saturating_sub(first));
        let mut out = Vec::with_capacity(count as usize * self.name.width());
        self.read_into(first, count, &self.tail, &mut out)?;
        Ok(out)
    }

    /// The bytes of the last entry; none in an empty column.
    pub fn last_entry(&self) -> Result<Option<Vec<u8>>, StoreError> {
        self.entries.checked_sub(1).map(|last| self.range(last, 1)).transpose()
    }

    /// Puts the entries that lie on one page with `at`, which exists, into `out`; the ordinal of the first of them.
    pub fn page_of(&self, at: u64, out: &mut Vec<u8>) -> Result<u64, StoreError> {
        assert!(at < self.entries, "the caller knows the column's length");
        let per_page = self.name.entries_per_page();
        let first = at / per_page * per_page;
        out.clear();
        if at >= self.entries / per_page * per_page {
            out.extend_from_slice(&self.tail);
            return Ok(first);
        }
        let mut page = [0; PAGE_BYTES];
        self.read_page(at / per_page, &mut page)?;
        out.extend_from_slice(&page[..per_page as usize * self.name.width()]);
        Ok(first)
    }

    /// Appends `count` entries from `first` on, all of which exist; those behind the last full page are in `tail`.
    fn read_into(&self, first: u64, count: u64, tail: &[u8], out: &mut Vec<u8>) -> Result<(), StoreError> {
        let (width, per_page) = (self.name.width() as u64, self.name.entries_per_page());
        let (mut at, end) = (first, first + count);
        let on_pages = self.entries / per_page * per_page;
        let mut page = [0; PAGE_BYTES];
        while at < end.min(on_pages) {
            self.read_page(at / per_page, &mut page)?;
            let (from, to) = (at % per_page, (end - at / per_page * per_page).min(per_page));
            out.extend_from_slice(&page[(from * width) as usize..(to * width) as usize]);
            at += to - from;
        }
        if at < end {
            out.extend_from_slice(&tail[((at - on_pages) * width) as usize..((end - on_pages) * width) as usize]);
        }
        Ok(())
    }

    fn read_page(&self, number: u64, page: &mut [u8; PAGE_BYTES]) -> Result<(), StoreError> {
        let read = self.file.read_exact_at(page, number * PAGE_BYTES as u64);
        read.map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => StoreError::corrupt(&self.path, "the file is too short"),
            _ => StoreError::io("read", &self.path)(error),
        })?;
        let (bytes, sum) = page.split_at(PAGE_BYTES - CHECKSUM_BYTES);
        if checksum(self.name.page_seed(number), bytes).to_le_bytes() != sum {
            return Err(StoreError::corrupt(&self.path, "a page's checksum"));
        }
        Ok(())
    }

    /// Bytes of its full pages, and of the entries behind them.
    pub fn file_bytes(&self) -> u64 {
        self.entries / self.name.entries_per_page() * PAGE_BYTES as u64 + self.tail.len() as u64
    }

    /// Entries behind the last full page, for the commit record.
    pub fn tail(&self) -> &[u8] {
        &self.tail
    }
}

/// A column as the writer sees it.
pub struct Column {
    /// The file, with `entries` those on full pages of it.
    pages: ColumnView,
    /// Entries not on full pages of the file.
    rest: Vec<u8>,
    /// Full pages that the last commit names: nothing below is written over before a commit that names fewer.
    durable_pages: u64,
}

impl Column {
    /// Opens the column that a commit record describes, or makes an empty one. Bytes it does not name are cut off.
    pub fn open(
        disk: &dyn Disk,
        dir: &Path,
        name: ColumnName,
        entries: u64,
        tail: Vec<u8>,
    ) -> Result<Column, StoreError> {
        let path = dir.join("columns").join(name.file_name());
        let per_page = name.entries_per_page();
        let pages = entries / per_page;
        if tail.len() as u64 != entries % per_page * name.width() as u64 {
            return Err(StoreError::corrupt(&path, "the commit record's end of the column"));
        }
        let how = if pages == 0 { Open::Create } else { Open::ReadWrite };
        let file = disk.open(&path, how).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => StoreError::corrupt(&path, "the file is missing"),
            _ => StoreError::io("open", &path)(error),
        })?;
        let length = file.length().map_err(StoreError::io("measure", &path))?;
        let want = pages * PAGE_BYTES as u64;
        if length < want {
            return Err(StoreError::corrupt(&path, "the file is too short"));
        }
        if length > want {
            file.set_length(want).map_err(StoreError::io("cut", &path))?;
        }
        let pages_view = ColumnView { name, path: Arc::new(path), file, entries: pages * per_page, tail: Arc::new([]) };
        Ok(Column { pages: pages_view, rest: tail, durable_pages: pages })
    }

    /// Entries in all.
    pub fn entries(&self) -> u64 {
        self.pages.entries + (self.rest.len() / self.pages.name.width()) as u64
    }

    /// Appends an entry.
    pub fn push(&mut self, entry: &[u8]) {
        assert_eq!(entry.len(), self.pages.name.width());
        assert!(!self.is_cut(), "commit the cut first");
        self.rest.extend_from_slice(entry);
    }

    /// The bytes of up to `count` entries from `first` on.
    pub fn range(&self, first: u64, count: u64) -> Result<Vec<u8>, StoreError> {
        let count = count.min(self.entries().saturating_sub(first));
        let mut out = Vec::with_capacity(count as usize * self.pages.name.width());
        self.pages.read_into(first, count, &self.rest, &mut out)?;
        Ok(out)
    }

    /// Cuts to `entries` entries. Where that drops full pages of the file, a commit comes before anything is pushed.
    pub fn truncate(&mut self, entries: u64) -> Result<(), StoreError> {
        assert!(entries <= self.entries());
        let per_page = self.pages.name.entries_per_page();
        if entries < self.pages.entries {
            self.rest = self.range(entries / per_page * per_page, entries % per_page)?;
            self.pages.entries = entries / per_page * per_page;
        } else {
            self.rest.truncate((entries - self.pages.entries) as usize * self.pages.name.width());
        }
        Ok(())
    }

    /// Writes the full pages below `entries` and returns once they are on the disk; the view holds `entries` entries.
    pub fn flush(&mut self, entries: u64) -> Result<ColumnView, StoreError> {
        let name = self.pages.name;
        let (per_page, width) = (name.entries_per_page(), name.width());
        let mut bytes = Vec::new();
        let mut taken = 0;
        let first = self.pages.entries / per_page;
        let mut next_write = first;
        for page in first..entries / per_page {
            let data = &self.rest[taken..taken + per_page as usize * width];
            taken += data.len();
            let start = bytes.len();
            bytes.extend_from_slice(data);
            bytes.resize(start + PAGE_BYTES - CHECKSUM_BYTES, 0);
            let sum = checksum(name.page_seed(page), &bytes[start..]);
            bytes.extend_from_slice(&sum.to_le_bytes());
            if bytes.len() == PAGES_PER_WRITE * PAGE_BYTES || page + 1 == entries / per_page {
                let at = next_write * PAGE_BYTES as u64;
                let path = &self.pages.path;
                self.pages.file.write_all_at(&bytes, at).map_err(StoreError::io("write", path))?;
                next_write = page + 1;
                bytes.clear();
            }
        }
        if taken > 0 {
            self.pages.file.sync().map_err(StoreError::io("sync", &self.pages.path))?;
            self.rest.drain(..taken);
            self.pages.entries = next_write * per_page;
        }
        let tail_bytes = (entries - self.pages.entries) as usize * width;
        Ok(ColumnView { entries, tail: self.rest[..tail_bytes].into(), ..self.pages.clone() })
    }

    /// The view of a column that has just been opened.
    pub fn committed_view(&self) -> ColumnView {
        ColumnView { entries: self.entries(), tail: self.rest.as_slice().into(), ..self.pages.clone() }
    }

    /// Full pages that the last commit names were dropped.
    pub fn is_cut(&self) -> bool {
        self.pages.entries / self.pages.name.entries_per_page() < self.durable_pages
    }

    /// A commit record that names what [`Column::flush`] wrote is on the disk.
    pub fn set_durable(&mut self) {
        self.durable_pages = self.pages.entries / self.pages.name.entries_per_page();
    }

    /// Bytes that wait in memory.
    pub fn waiting_bytes(&self) -> usize {
        self.rest.capacity()
    }
}

/// Bytes gathered for one write.
const FILTERS_PENDING_BYTES: usize = 1 << 20;
/// Longest filter, in bytes: more elements than a block can have, 4,000,000 / 9, at 4 bytes each.
const FILTER_BYTES_MAX: u64 = 2_000_000;

/// The file for readers.
#[derive(Clone)]
pub(crate) struct FilterReader {
    file: Arc<dyn DiskFile>,
    path: Arc<PathBuf>,
}

impl FilterReader {
    /// The filter that begins at `start` and that `entry` describes.
    pub fn read(&self, start: u64, entry: &FilterEntry) -> Result<Vec<u8>, StoreError> {
        let damaged = || StoreError::corrupt(&self.path, "a block filter");
        let length = entry.end.checked_sub(start).filter(|length| *length <= FILTER_BYTES_MAX).ok_or_else(damaged)?;
        let mut bytes = vec![0; length as usize];
        self.file.read_exact_at(&mut bytes, start).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => damaged(),
            _ => StoreError::io("read", &self.path)(error),
        })?;
        if sha256d(&bytes) == entry.hash { Ok(bytes) } else { Err(damaged()) }
    }
}

/// The file as the writer sees it.
pub(crate) struct FilterFile {
    reader: FilterReader,
    /// Bytes in the file that count.
    written: u64,
    /// Bytes behind them.
    pending: Vec<u8>,
    /// Something was written since the last sync.
    unsynced: bool,
    /// Bytes that the last commit names: nothing below is written over before a commit that names fewer.
    durable: u64,
}

impl FilterFile {
    /// Opens the file, of which a commit names `bytes`; the rest is cut off.
    pub fn open(disk: &dyn Disk, dir: &Path, bytes: u64) -> Result<FilterFile, StoreError> {
        let path = dir.join("columns").join("filters.dat");
        let how = if bytes == 0 { Open::Create } else { Open::ReadWrite };
        let file = disk.open(&path, how).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => StoreError::corrupt(&path, "the file is missing"),
            _ => StoreError::io("open", &path)(error),
        })?;
        let length = file.length().map_err(StoreError::io("measure", &path))?;
        if length < bytes {
            return Err(StoreError::corrupt(&path, "the file is too short"));
        }
        if length > bytes {
            file.set_length(bytes).map_err(StoreError::io("cut", &path))?;
        }
        let reader = FilterReader { file, path: Arc::new(path) };
        Ok(FilterFile { reader, written: bytes, pending: Vec::new(), unsynced: false, durable: bytes })
    }

    /// For snapshots.
    pub fn reader(&self) -> FilterReader {
        self.reader.clone()
    }

    /// Bytes of all filters.
    pub fn end(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    /// Appends a filter.
    pub fn push(&mut self, filter: &[u8]) -> Result<(), StoreError> {
        assert!(!self.is_cut(), "commit the cut first");
        assert!(filter.len() as u64 <= FILTER_BYTES_MAX, "a block has no more scripts than that");
        self.pending.extend_from_slice(filter);
        if self.pending.len() >= FILTERS_PENDING_BYTES { self.write() } else { Ok(()) }
    }

    /// Cuts to `end` bytes. Where that drops committed bytes, a commit comes before anything is pushed.
    pub fn truncate(&mut self, end: u64) {
        assert!(end <= self.end());
        self.pending.truncate(end.saturating_sub(self.written) as usize);
        self.written = self.written.min(end);
    }

    /// Returns once everything pushed is on the disk.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        self.write()?;
        if std::mem::take(&mut self.unsynced) {
            self.reader.file.sync().map_err(StoreError::io("sync", &self.reader.path))?;
        }
        Ok(())
    }

    /// Committed bytes were dropped.
    pub fn is_cut(&self) -> bool {
        self.written < self.durable
    }

    /// A commit record that names `bytes` bytes is on the disk.
    pub fn set_durable(&mut self, bytes: u64) {
        self.durable = bytes;
    }

    /// Bytes that wait in memory.
    pub fn waiting_bytes(&self) -> usize {
        self.pending.capacity()
    }

    fn write(&mut self) -> Result<(), StoreError> {
        if !self.pending.is_empty() {
            let FilterReader { file, path } = &self.reader;
            file.write_all_at(&self.pending, self.written).map_err(StoreError::io("write", path))?;
            self.written += self.pending.len() as u64;
            self.pending.clear();
            self.unsynced = true;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::MemoryDisk;

    fn entry(filter: &[u8], end: u64) -> FilterEntry {
        FilterEntry { hash: sha256d(filter), header: [0; 32], end }
    }

    #[test]
    fn filters_are_read_back_and_damage_is_seen() {
        let disk = MemoryDisk::default();
        let mut file = FilterFile::open(&disk, Path::new("/d"), 0).unwrap();
        let large = vec![7; FILTERS_PENDING_BYTES - 1];
        file.push(b"abc").unwrap();
        assert_eq!(disk.bytes("/d/columns/filters.dat".as_ref()).len(), 0);
        file.push(&large).unwrap();
        file.push(b"de").unwrap();
        let end = 3 + large.len() as u64;
        assert_eq!(disk.bytes("/d/columns/filters.dat".as_ref()).len() as u64, end, "written once it is a megabyte");
        assert_eq!(file.end(), end + 2);
        file.flush().unwrap();
        file.set_durable(end + 2);
        let reader = file.reader();
        assert_eq!(reader.read(0, &entry(b"abc", 3)).unwrap(), b"abc");
        assert_eq!(reader.read(end, &entry(b"de", end + 2)).unwrap(), b"de");
        for (start, wrong) in
            [(0, entry(b"abd", 3)), (0, entry(b"abc", 4)), (4, entry(b"", 3)), (0, entry(b"", 1 << 40))]
        {
            assert!(matches!(reader.read(start, &wrong), Err(StoreError::Corrupt { .. })), "{wrong:?}");
        }
    }

    #[test]
    fn a_cut_of_committed_bytes_waits_for_its_commit() {
        let disk = MemoryDisk::default();
        let mut file = FilterFile::open(&disk, Path::new("/d"), 0).unwrap();
        file.push(b"abcdef").unwrap();
        file.truncate(4);
        assert!(!file.is_cut(), "nothing was committed");
        file.flush().unwrap();
        file.set_durable(4);
        file.push(b"xyz").unwrap();
        file.truncate(5);
        file.truncate(4);
        assert!(!file.is_cut());
        file.truncate(3);
        assert!(file.is_cut());
        file.set_durable(3);
        file.push(b"!").unwrap();
        file.flush().unwrap();
        assert_eq!(disk.bytes("/d/columns/filters.dat".as_ref()), b"abc!");
        drop(file);
        assert!(matches!(FilterFile::open(&disk, Path::new("/d"), 5), Err(StoreError::Corrupt { .. })));
        FilterFile::open(&disk, Path::new("/d"), 3).unwrap();
        assert_eq!(disk.bytes("/d/columns/filters.dat".as_ref()), b"abc", "what no commit names is cut off");
    }
}
