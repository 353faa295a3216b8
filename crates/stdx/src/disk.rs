//! The door to the disk: every file the node keeps is opened, written, synced, renamed and removed through here.
//!
//! In:     paths below the data directory or a blocks folder.
//! Out:    positioned reads and writes; nothing is buffered on our side.
//! Fails:  with the operating system's error. After a failed `sync` the bytes on disk are unknown: the caller stops.
//!
//! `sim` has a second implementation that loses what was not synced, and fails where a seed tells it to.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// It must exist; writing is refused by the operating system.
    Read,
    /// It must exist.
    ReadWrite,
    /// Made if missing, kept as it is otherwise.
    Create,
    /// Made if missing, emptied otherwise.
    Truncate,
}

/// A disk, real or imagined.
pub trait Disk: Send + Sync {
    /// Opens a file.
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>>;
    /// Replaces `to` by `from` in one step; durable after [`Disk::sync_dir`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes a folder and its parents.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a folder durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// The files of a folder, sorted by name; folders in it are left out.
    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>>;
}

/// An open file. Reads and writes carry their own position, so one handle serves many threads.
pub trait DiskFile: Send + Sync {
    /// Fills `buffer` from `offset`; an end of file before that is [`io::ErrorKind::UnexpectedEof`].
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of `bytes` at `offset`.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Length in bytes.
    fn length(&self) -> io::Result<u64>;
    /// Cuts or extends with zeros.
    fn set_length(&self, length: u64) -> io::Result<()>;
    /// Returns once everything written before is on the disk.
    fn sync(&self) -> io::Result<()>;
}

/// The operating system's files. Counts the bytes it is asked to write.
#[derive(Debug, Default)]
pub struct SystemDisk {
    written_bytes: Arc<AtomicU64>,
}

impl SystemDisk {
    /// Bytes written through this door since it was made.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }
}

struct SystemFile {
    file: File,
    written_bytes: Arc<AtomicU64>,
}

impl Disk for SystemDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true);
        match how {
            Open::Read => {}
            Open::ReadWrite => drop(options.write(true)),
            Open::Create => drop(options.write(true).create(true)),
            Open::Truncate => drop(options.write(true).create(true).truncate(true)),
        }
        let file = options.open(path)?;
        Ok(Arc::new(SystemFile { file, written_bytes: self.written_bytes.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                paths.push(entry.path());
            }
        }
        paths.sort();
        Ok(paths)
    }
}

impl DiskFile for SystemFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.written_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.file.write_all_at(bytes, offset)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}
