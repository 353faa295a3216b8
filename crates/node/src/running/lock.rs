//! One process a data directory: the lock, and making the folders.
//!
//! In:     the folder of one network.
//! Out:    [`DataLock`], held as long as it lives; the operating system lets go of it when the process dies.
//! Fails:  when another process holds it, or the folder cannot be made or written.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Name of the lock file.
const LOCK_NAME: &str = ".lock";

/// Proof that no other process works on the folder.
#[derive(Debug)]
pub struct DataLock {
    _file: File,
}

/// Why the folder is not ours.
#[derive(Debug)]
pub enum LockError {
    /// Another process holds it; its process number where it wrote one.
    Held { folder: PathBuf, process: String },
    /// The folder cannot be used.
    Unusable { folder: PathBuf, error: io::Error },
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockError::Held { folder, process } => {
                write!(f, "another assay (process {process}) works on {}; stop it first", folder.display())
            }
            LockError::Unusable { folder, error } => {
                write!(f, "the data directory {} cannot be used: {error}", folder.display())
            }
        }
    }
}

impl DataLock {
    /// Makes the folder and takes its lock.
    pub fn take(folder: &Path) -> Result<DataLock, LockError> {
        let unusable = |error| LockError::Unusable { folder: folder.to_owned(), error };
        fs::create_dir_all(folder).map_err(unusable)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(folder.join(LOCK_NAME)).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut process = String::new();
                let _ = file.take(20).read_to_string(&mut process);
                let process = if process.is_empty() { "unknown".to_owned() } else { process };
                return Err(LockError::Held { folder: folder.to_owned(), process });
            }
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        let write = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            write!(file, "{}", std::process::id())
        };
        write(&mut file).map_err(unusable)?;
        Ok(DataLock { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_owner_at_a_time() {
        let folder = std::env::temp_dir().join(format!("assay-lock-{}", std::process::id()));
        let first = DataLock::take(&folder).unwrap();
        let refused = DataLock::take(&folder).unwrap_err().to_string();
        assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
        drop(first);
        assert!(DataLock::take(&folder).is_ok());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let refused = DataLock::take(Path::new("/proc/nowhere/assay")).unwrap_err().to_string();
        assert!(refused.starts_with("the data directory /proc/nowhere/assay cannot be used: "), "{refused}");
    }
}
