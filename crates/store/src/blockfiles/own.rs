//! The node's own block files: blocks from the network and from callers, appended one after the other.
//!
//! In:     checked blocks, in any order, from any thread.
//! Out:    their positions; [`OwnFiles::sync`] makes all of them durable. Files are as Bitcoin Core writes them: magic,
//!         length, block, under an XOR key, at most [`OWN_FILE_BYTES_MAX`] each.
//! Fails:  [`BlockFilesError`]; after a failed write or sync nothing more is written, and every call says why.
//! Source: Bitcoin Core, `node/blockstorage.cpp` (`WriteBlock`, `MAX_BLOCKFILE_SIZE`, `InitBlocksdirXorKey`).
//!
//! Nothing here is durable before a sync. A commit that names a block comes after the sync of its file; what a crash
//! leaves behind the last whole record is cut at the next start, and a block in between whose bytes were lost is found
//! damaged when it is read, forgotten, and fetched again.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use stdx::disk::{Disk, DiskFile, Open};

use super::RECORD_HEAD_BYTES;
use super::folder::{BlockFilesError, OWN_FILE_FIRST, Position, XorKey, core_number, io_error, own_file_name};
use super::scan::Progress;

/// Bytes of a file at most; Core's `MAX_BLOCKFILE_SIZE`.
pub const OWN_FILE_BYTES_MAX: u64 = 128 << 20;

struct File {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
}

struct Appender {
    /// Number of the file that grows, without [`OWN_FILE_FIRST`].
    number: u32,
    /// That file; none before the first block.
    open: Option<Arc<File>>,
    /// End of its last record.
    length: u64,
    /// Files written to since the last sync.
    unsynced: Vec<Arc<File>>,
    /// A file was made since the last sync.
    made: bool,
    /// The write or sync that failed.
    failed: Option<BlockFilesError>,
}

/// The node's own block files, as their writers see them.
pub struct OwnFiles {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    magic: [u8; 4],
    key: XorKey,
    appender: Mutex<Appender>,
}

impl OwnFiles {
    /// Makes the folder where it is missing, with a key made from `key_seed` (Core writes under a random one, so that
    /// nobody can put bytes of their choice onto the disk). A folder that is another node's is refused.
    pub fn make_folder(disk: &dyn Disk, folder: &Path, key_seed: [u8; 8]) -> Result<(), BlockFilesError> {
        disk.create_dir(folder).map_err(io_error(folder))?;
        let listed = disk.list(folder).map_err(io_error(folder))?;
        // Bitcoin Core keeps undo data beside its blocks; we have none.
        let is_undo = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("rev"));
        if let Some(path) = listed.iter().find(|path| is_undo(path)) {
            return Err(BlockFilesError::NotOurs { path: path.clone() });
        }
        let has_key = listed.iter().any(|path| path.file_name().is_some_and(|name| name == "xor.dat"));
        if has_key || listed.iter().any(|path| core_number(path).is_some()) {
            return Ok(());
        }
        let (new, path) = (folder.join("xor.new"), folder.join("xor.dat"));
        let file = disk.open(&new, Open::Truncate).map_err(io_error(&new))?;
        file.write_all_at(&key_seed, 0).map_err(io_error(&new))?;
        file.sync().map_err(io_error(&new))?;
        disk.rename(&new, &path).map_err(io_error(&path))?;
        disk.sync_dir(folder).map_err(io_error(folder))
    }

    /// Goes on behind the last record that `progress` knows of; what lies behind it is cut.
    pub fn open(
        disk: Arc<dyn Disk>,
        folder: &Path,
        magic: [u8; 4],
        progress: &Progress,
    ) -> Result<OwnFiles, BlockFilesError> {
        let key = XorKey::read(&*disk, folder)?;
        let listed = disk.list(folder).map_err(io_error(folder))?;
        let last = listed.into_iter().filter_map(|path| Some((core_number(&path)?, path))).max();
        let mut appender =
            Appender { number: 0, open: None, length: 0, unsynced: Vec::new(), made: false, failed: None };
        if let Some((number, path)) = last {
            let file = disk.open(&path, Open::ReadWrite).map_err(io_error(&path))?;
            let end = progress.end_of(OWN_FILE_FIRST | number);
            if file.length().map_err(io_error(&path))? > end {
                file.set_length(end).map_err(io_error(&path))?;
            }
            appender.number = number;
            appender.length = end;
            let file = Arc::new(File { path, file });
            // Records that a scan found may never have been synced; the first commit does it.
            appender.unsynced.push(file.clone());
            appender.open = Some(file);
            appender.made = true;
        }
        Ok(OwnFiles { disk, folder: folder.to_path_buf(), magic, key, appender: Mutex::new(appender) })
    }

    /// Appends a block; it is durable after the next [`OwnFiles::sync`].
    pub fn append(&self, block: &[u8]) -> Result<Position, BlockFilesError> {
        let mut appender = self.appender.lock().expect("nobody panics while holding it");
        if let Some(error) = &appender.failed {
            return Err(error.clone());
        }
        let written = self.append_to(&mut appender, block);
        appender.failed = written.as_ref().err().cloned();
        written
    }

    fn append_to(&self, appender: &mut Appender, block: &[u8]) -> Result<Position, BlockFilesError> {
        let record_bytes = RECORD_HEAD_BYTES + block.len() as u64;
        if appender.open.is_some() && appender.length + record_bytes > OWN_FILE_BYTES_MAX {
            appender.open = None;
            appender.number += 1;
            appender.length = 0;
        }
        let target = match &appender.open {
            Some(target) => target.clone(),
            None => {
                let path = self.folder.join(own_file_name(appender.number));
                let file = self.disk.open(&path, Open::Truncate).map_err(io_error(&path))?;
                let target = Arc::new(File { path, file });
                appender.made = true;
                appender.open = Some(target.clone());
                target
            }
        };
        let mut record = Vec::with_capacity(record_bytes as usize);
        record.extend_from_slice(&self.magic);
        record.extend_from_slice(&(block.len() as u32).to_le_bytes());
        record.extend_from_slice(block);
        self.key.apply(&mut record, appender.length);
        target.file.write_all_at(&record, appender.length).map_err(io_error(&target.path))?;
        if !appender.unsynced.iter().any(|other| Arc::ptr_eq(other, &target)) {
            appender.unsynced.push(target);
        }
        let offset = (appender.length + RECORD_HEAD_BYTES) as u32;
        appender.length += record_bytes;
        Ok(Position { file: OWN_FILE_FIRST | appender.number, offset, size: block.len() as u32 })
    }

    /// Returns once every block appended before is on the disk. Blocks may be appended meanwhile.
    pub fn sync(&self) -> Result<(), BlockFilesError> {
        let (files, made) = {
            let mut appender = self.appender.lock().expect("nobody panics while holding it");
            if let Some(error) = &appender.failed {
                return Err(error.clone());
            }
            (std::mem::take(&mut appender.unsynced), std::mem::take(&mut appender.made))
        };
        let synced = files.iter().try_for_each(|file| file.file.sync().map_err(io_error(&file.path)));
        let synced = synced.and_then(|()| match made {
            true => self.disk.sync_dir(&self.folder).map_err(io_error(&self.folder)),
            false => Ok(()),
        });
        if let Err(error) = &synced {
            self.appender.lock().expect("nobody panics while holding it").failed = Some(error.clone());
        }
        synced
    }
}

#[cfg(test)]
mod tests {
    use primitives::{Network, Params};

    use super::*;
    use crate::blockfiles::{BlockFiles, Found};
    use crate::tests::MemoryDisk;

    const FOLDER: &str = "/own";

    fn magic() -> [u8; 4] {
        Params::of(Network::Regtest).magic
    }

    fn scan(disk: &Arc<MemoryDisk>, foreign: Option<&str>) -> (BlockFiles, Vec<Found>, Progress) {
        let (mut found, mut progress) = (Vec::new(), Progress::default());
        let foreign = foreign.map(Path::new);
        let mut files = BlockFiles::open_both(disk.clone(), foreign, Some(Path::new(FOLDER)), magic()).unwrap();
        files.scan(&mut progress, &mut |one| found.push(one)).unwrap();
        (files, found, progress)
    }

    fn resume(disk: &Arc<MemoryDisk>) -> OwnFiles {
        OwnFiles::make_folder(&**disk, Path::new(FOLDER), *b"ASSAYKEY").unwrap();
        let (_, _, progress) = scan(disk, None);
        OwnFiles::open(disk.clone(), Path::new(FOLDER), magic(), &progress).unwrap()
    }

    #[test]
    fn what_is_appended_is_found_after_every_restart() {
        let disk = Arc::new(MemoryDisk::default());
        let mut want = Vec::new();
        for round in 0..4u8 {
            let own = resume(&disk);
            for n in 0..3u8 {
                let block = vec![round * 16 + n; 80 + usize::from(n)];
                want.push((own.append(&block).unwrap(), block));
            }
            own.sync().unwrap();
            let (files, found, progress) = scan(&disk, None);
            assert_eq!(found.len(), want.len());
            for (found, (position, block)) in found.iter().zip(&want) {
                assert_eq!((found.position, files.read_block(*position).unwrap()), (*position, block.clone()));
                assert!(files.is_own(position.file));
            }
            // A crash leaves part of a record, which the next start cuts.
            let (path, end) = (Path::new(FOLDER).join("blk00000.dat"), progress.end_of(OWN_FILE_FIRST));
            let file = disk.open(&path, Open::ReadWrite).unwrap();
            file.write_all_at(&[0xee; 50], end).unwrap();
        }
        // Under the key nothing of a block is to be seen.
        assert!(!disk.bytes(&Path::new(FOLDER).join("blk00000.dat")).windows(16).any(|run| run == [0x10; 16]));
    }

    #[test]
    fn own_and_foreign_files_of_one_name_are_told_apart() {
        let disk = Arc::new(MemoryDisk::default());
        let own = resume(&disk);
        let ours = own.append(&[1; 90]).unwrap();
        let foreign = [&magic()[..], &90u32.to_le_bytes(), &[2; 90]].concat();
        disk.put("/blocks/blk00000.dat", &foreign);
        let (files, found, _) = scan(&disk, Some("/blocks"));
        assert_eq!(found.iter().map(|found| found.header[0]).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(files.read_block(ours).unwrap(), [1; 90]);
        assert_eq!(files.read_block(Position { file: 0, ..ours }).unwrap(), [2; 90]);
        assert!(files.is_own(ours.file) && !files.is_own(0));
        // A file made after the folders were listed is read all the same.
        let later = Position { file: OWN_FILE_FIRST | 1, ..ours };
        let record = disk.bytes(&Path::new(FOLDER).join("blk00000.dat"));
        disk.put("/own/blk00001.dat", &record);
        assert_eq!(files.read_block(later).unwrap(), [1; 90]);
        // Without another node's folder its numbers mean ours, as they did in version 0.1.0.
        assert_eq!(scan(&disk, None).0.read_block(Position { file: 0, ..ours }).unwrap(), [1; 90]);
    }

    #[test]
    fn a_folder_of_bitcoin_core_is_never_written() {
        let disk = Arc::new(MemoryDisk::default());
        disk.put("/own/blk00000.dat", &[]);
        let make = || OwnFiles::make_folder(&*disk, Path::new(FOLDER), [1; 8]);
        assert!(make().is_ok());
        disk.put("/own/rev00000.dat", &[]);
        assert!(matches!(make(), Err(BlockFilesError::NotOurs { path }) if path.ends_with("rev00000.dat")));
    }

    #[test]
    fn a_full_file_is_followed_by_the_next() {
        let disk = Arc::new(MemoryDisk::default());
        let own = resume(&disk);
        own.append(&[7; 100]).unwrap();
        own.appender.lock().unwrap().length = OWN_FILE_BYTES_MAX - 108;
        let last = own.append(&[8; 100]).unwrap();
        assert_eq!(u64::from(last.offset), OWN_FILE_BYTES_MAX - 100);
        let next = own.append(&[9; 100]).unwrap();
        assert_eq!((next.file, next.offset), (OWN_FILE_FIRST | 1, 8));
    }
}
