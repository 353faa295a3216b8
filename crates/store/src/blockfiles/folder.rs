//! The files of blocks folders, and reading blocks from them.
//!
//! In:     a folder of another node with `blkNNNNN.dat` (and `xor.dat`), or any files ending in `.blk`, or one such
//!         file; the node's own folder; or both. The number of a file says which it is in: own ones begin at
//!         [`OWN_FILE_FIRST`].
//! Out:    bytes of blocks, with the folder's XOR key taken off.
//! Fails:  [`BlockFilesError`]; also where a file has shrunk or gone since it was scanned.
//! Source: Bitcoin Core, `node/blockstorage.cpp`: the key is 8 bytes in `xor.dat` and applies by file offset.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use stdx::checksum::checksum;
use stdx::disk::{Disk, DiskFile, Open};

/// Open files kept for reading at most; a Core folder has thousands, a process often may open 1,024.
const HANDLES_MAX: usize = 32;
/// Files of the node's own folder have numbers from here on: `blk00003.dat` is this and 3.
pub const OWN_FILE_FIRST: u32 = 1 << 30;
/// Files that are not named `blkNNNNN.dat` get numbers from here on, made from their names.
const NAMED_FILE_FIRST: u32 = 1 << 31;

/// Where the bytes of a block are: they begin at `offset`, after magic and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Number of the file.
    pub file: u32,
    /// Offset of the block's first byte.
    pub offset: u32,
    /// Bytes of the block.
    pub size: u32,
}

/// Why block files cannot be used.
#[derive(Clone, Debug)]
pub enum BlockFilesError {
    /// The operating system refused.
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What it said.
        source: Arc<io::Error>,
    },
    /// `xor.dat` is not 8 bytes long.
    BadKey {
        /// The file.
        path: PathBuf,
        /// Its length.
        got_bytes: u64,
    },
    /// The folder has no block files.
    NoFiles {
        /// The folder.
        path: PathBuf,
    },
    /// Two files get the same number: `blk1.dat` beside `blk00001.dat`.
    SameNumber {
        /// One of them.
        path: PathBuf,
        /// The other.
        other: PathBuf,
    },
    /// The folder for our own files holds those of another node, which are never written.
    NotOurs {
        /// A file that only the other node makes.
        path: PathBuf,
    },
    /// A position names a file that is not there, or bytes beyond its end: the folder changed.
    Gone {
        /// The position.
        position: Position,
    },
}

impl fmt::Display for BlockFilesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlockFilesError::Io { path, source } => write!(f, "cannot read {}: {source}", path.display()),
            BlockFilesError::BadKey { path, got_bytes } => {
                write!(f, "{} has {got_bytes} bytes; a key has 8", path.display())
            }
            BlockFilesError::NoFiles { path } => {
                write!(f, "{} holds no blkNNNNN.dat or .blk file; check `blocks_from`", path.display())
            }
            BlockFilesError::SameNumber { path, other } => {
                write!(f, "{} and {} have the same number; remove one", path.display(), other.display())
            }
            BlockFilesError::NotOurs { path } => {
                write!(
                    f,
                    "{} is of another node, whose files are never written; move them and name their folder in \
                     `blocks_from`",
                    path.display()
                )
            }
            BlockFilesError::Gone { position: Position { file, offset, size } } => {
                write!(f, "block file {file} no longer has {size} bytes at {offset}; was the blocks folder changed?")
            }
        }
    }
}

impl std::error::Error for BlockFilesError {}

impl BlockFilesError {
    /// True where the disk has no room left (ENOSPC) or a quota is used up.
    pub fn is_disk_full(&self) -> bool {
        let full = |kind| matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        matches!(self, BlockFilesError::Io { source, .. } if full(source.kind()))
    }
}

/// Eight bytes that repeat over a file, by its offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct XorKey(pub(super) [u8; 8]);

impl XorKey {
    /// The key of a folder, or of none.
    pub(super) fn read(disk: &dyn Disk, folder: &Path) -> Result<XorKey, BlockFilesError> {
        let path = folder.join("xor.dat");
        let file = match disk.open(&path, Open::Read) {
            Ok(file) => file,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(XorKey([0; 8]));
            }
            Err(error) => return Err(io_error(&path)(error)),
        };
        let got_bytes = file.length().map_err(io_error(&path))?;
        if got_bytes != 8 {
            return Err(BlockFilesError::BadKey { path, got_bytes });
        }
        let mut key = [0; 8];
        file.read_exact_at(&mut key, 0).map_err(io_error(&path))?;
        Ok(XorKey(key))
    }

    /// Takes the key off `bytes` that begin at `offset` of the file.
    pub(super) fn apply(self, bytes: &mut [u8], offset: u64) {
        if self.0 == [0; 8] {
            return;
        }
        let mut key = self.0;
        key.rotate_left((offset % 8) as usize);
        let word = u64::from_le_bytes(key);
        let mut chunks = bytes.chunks_exact_mut(8);
        for chunk in &mut chunks {
            let plain = u64::from_le_bytes((&*chunk).try_into().expect("eight bytes")) ^ word;
            chunk.copy_from_slice(&plain.to_le_bytes());
        }
        for (byte, key) in chunks.into_remainder().iter_mut().zip(key) {
            *byte ^= key;
        }
    }
}

/// A folder of block files, or the only file.
#[derive(Clone)]
struct Folder {
    path: PathBuf,
    key: XorKey,
}

/// The block files of another node's folder, of the node's own, or of both.
pub struct BlockFiles {
    disk: Arc<dyn Disk>,
    foreign: Option<Folder>,
    own: Option<Folder>,
    pub(super) magic: [u8; 4],
    pub(super) files: BTreeMap<u32, PathBuf>,
    /// Most recently used last.
    handles: Mutex<Vec<(u32, Arc<dyn DiskFile>)>>,
}

impl BlockFiles {
    /// Opens a folder of another node, or a single file of records.
    pub fn open(disk: Arc<dyn Disk>, path: &Path, magic: [u8; 4]) -> Result<BlockFiles, BlockFilesError> {
        BlockFiles::open_both(disk, Some(path), None, magic)
    }

    /// Opens another node's folder, the node's own, or both. The other node's must hold files, the own one must exist.
    pub fn open_both(
        disk: Arc<dyn Disk>,
        foreign: Option<&Path>,
        own: Option<&Path>,
        magic: [u8; 4],
    ) -> Result<BlockFiles, BlockFilesError> {
        let folder = |path: &Path| Folder { path: path.to_path_buf(), key: XorKey([0; 8]) };
        let (foreign, own) = (foreign.map(folder), own.map(folder));
        let mut files =
            BlockFiles { disk, foreign, own, magic, files: BTreeMap::new(), handles: Mutex::new(Vec::new()) };
        files.refresh()?;
        for folder in [&mut files.foreign, &mut files.own].into_iter().flatten() {
            folder.key = XorKey::read(&*files.disk, &folder.path)?;
        }
        Ok(files)
    }

    /// Looks for files that have come since.
    pub fn refresh(&mut self) -> Result<(), BlockFilesError> {
        let mut files = BTreeMap::new();
        if let Some(Folder { path: folder, .. }) = &self.foreign {
            let paths = match self.disk.list(folder) {
                Ok(paths) => paths.into_iter().filter(|path| is_block_file(path)).collect(),
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => vec![folder.clone()],
                Err(error) => return Err(io_error(folder)(error)),
            };
            for path in paths {
                if let Some(other) = files.insert(file_number(&path), path.clone()) {
                    return Err(BlockFilesError::SameNumber { path, other });
                }
            }
            if files.is_empty() {
                return Err(BlockFilesError::NoFiles { path: folder.clone() });
            }
        }
        if let Some(Folder { path: folder, .. }) = &self.own {
            let paths = self.disk.list(folder).map_err(io_error(folder))?;
            for (number, path) in paths.into_iter().filter_map(|path| Some((core_number(&path)?, path))) {
                if let Some(other) = files.insert(OWN_FILE_FIRST | number, path.clone()) {
                    return Err(BlockFilesError::SameNumber { path, other });
                }
            }
        }
        self.files = files;
        Ok(())
    }

    /// The bytes of a block.
    pub fn read_block(&self, position: Position) -> Result<Vec<u8>, BlockFilesError> {
        self.read_at(position, 0, position.size)
    }

    /// `length` bytes of a block, from `offset` in it on.
    pub fn read_at(&self, position: Position, offset: u32, length: u32) -> Result<Vec<u8>, BlockFilesError> {
        if u64::from(offset) + u64::from(length) > u64::from(position.size) {
            return Err(BlockFilesError::Gone { position });
        }
        let file = self.file(position.file).map_err(|error| gone(error, position))?;
        let mut bytes = vec![0; length as usize];
        let at = u64::from(position.offset) + u64::from(offset);
        file.read_exact_at(&mut bytes, at)
            .map_err(|error| gone(io_error(&self.path_of(position.file).unwrap_or_default())(error), position))?;
        self.key_of(position.file).apply(&mut bytes, at);
        Ok(bytes)
    }

    /// True where the number names a file of the node's own folder, whether or not the file is there.
    pub fn is_own(&self, file: u32) -> bool {
        // Version 0.1.0 numbered the files of the folder it called its own like those of another node.
        self.own.is_some() && file < NAMED_FILE_FIRST && (file >= OWN_FILE_FIRST || self.foreign.is_none())
    }

    pub(super) fn key_of(&self, file: u32) -> XorKey {
        let folder = if self.is_own(file) { &self.own } else { &self.foreign };
        folder.as_ref().map_or(XorKey([0; 8]), |folder| folder.key)
    }

    /// The path of a file. One of ours may have been made after the folder was listed.
    fn path_of(&self, file: u32) -> Option<PathBuf> {
        match &self.own {
            Some(folder) if self.is_own(file) => {
                let number = file & !OWN_FILE_FIRST;
                let listed = self.files.get(&(OWN_FILE_FIRST | number)).cloned();
                Some(listed.unwrap_or_else(|| folder.path.join(own_file_name(number))))
            }
            _ => self.files.get(&file).cloned(),
        }
    }

    /// The files by number.
    pub fn paths(&self) -> &BTreeMap<u32, PathBuf> {
        &self.files
    }

    /// An open handle; at most [`HANDLES_MAX`] are kept.
    pub(super) fn file(&self, number: u32) -> Result<Arc<dyn DiskFile>, BlockFilesError> {
        let mut handles = self.handles.lock().expect("nobody panics while holding the handles");
        if let Some(index) = handles.iter().position(|(file, _)| *file == number) {
            handles[index..].rotate_left(1);
        } else {
            let missing = || BlockFilesError::Gone { position: Position { file: number, offset: 0, size: 0 } };
            let path = self.path_of(number).ok_or_else(missing)?;
            let file = self.disk.open(&path, Open::Read).map_err(io_error(&path))?;
            if handles.len() == HANDLES_MAX {
                handles.remove(0);
            }
            handles.push((number, file));
        }
        Ok(handles.last().expect("one was just put there").1.clone())
    }
}

pub(super) fn io_error(path: &Path) -> impl FnOnce(io::Error) -> BlockFilesError {
    let path = path.to_path_buf();
    move |source| BlockFilesError::Io { path, source: Arc::new(source) }
}

/// A file that is shorter than a scan has seen it, or missing, is [`BlockFilesError::Gone`].
fn gone(error: BlockFilesError, position: Position) -> BlockFilesError {
    match error {
        BlockFilesError::Io { source, .. }
            if matches!(source.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::NotFound) =>
        {
            BlockFilesError::Gone { position }
        }
        BlockFilesError::Gone { .. } => BlockFilesError::Gone { position },
        other => other,
    }
}

/// The name of a file in the node's own folder.
pub(super) fn own_file_name(number: u32) -> String {
    format!("blk{number:05}.dat")
}

/// The number in `blkNNNNN.dat`.
pub(super) fn core_number(path: &Path) -> Option<u32> {
    let digits = path.file_name()?.to_str()?.strip_prefix("blk")?.strip_suffix(".dat")?;
    let known = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|number| known && *number < OWN_FILE_FIRST)
}

fn is_block_file(path: &Path) -> bool {
    core_number(path).is_some() || path.extension().is_some_and(|extension| extension == "blk")
}

/// A number that stays the same when other files come and go.
fn file_number(path: &Path) -> u32 {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    core_number(path).unwrap_or_else(|| NAMED_FILE_FIRST | checksum(0, name) as u32)
}
