//! The bytes of block filters: one file, appended to; the column `filters` says where each ends.
//!
//! In:     filters in the order of heights; a length to cut to.
//! Out:    a filter's bytes by its place.
//! Fails:  [`StoreError`]; `Corrupt` where a filter is not what its hash in the column says.
//! Source: docs/formats.md, "filters entry".
//!
//! Bytes may be written long before a commit names them, and mean nothing until then. After a cut nothing is written before
//! a commit that no longer names what was cut: the rule of the columns.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use primitives::hash::sha256d;
use stdx::disk::{Disk, DiskFile, Open};

use crate::entries::FilterEntry;
use crate::error::StoreError;

/// Bytes gathered for one write.
const PENDING_BYTES: usize = 1 << 20;
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
        if self.pending.len() >= PENDING_BYTES { self.write() } else { Ok(()) }
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
        let large = vec![7; PENDING_BYTES - 1];
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
