//! The mempool's file, read back in and written.
//!
//! In:     a file of this node or of Bitcoin Core; a mempool.
//! Out:    transactions taken in, a batch at a time; or the file, replaced whole or not at all.
//! Fails:  [`SavedError`], with what came before the damage taken in; or the disk's error.
//! Source: Bitcoin Core, `node/mempool_persist.cpp` (`LoadMempool`, `DumpMempool`).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use stdx::disk::{Disk, DiskFile, Open};

use crate::mempool::{Accept, KEY_BYTES, SavedError, SavedReader, SavedTx, SharedMempool};

/// Transactions taken in at once: their signatures go to the engine together, and blocks wait no longer than for them.
const BATCH_TXS: usize = 200;
/// Keys of files one after the other differ by multiples of it: an odd number without pattern (2^64 / golden ratio).
const KEY_STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// Bytes of a batch, so that a file of large transactions does not fill memory.
const BATCH_BYTES: usize = 4_000_000;

/// What of a file counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoreWish {
    /// Transactions are taken to have come now.
    pub current_time: bool,
    /// Additions to fees count.
    pub deltas: bool,
    /// Own transactions are still to be handed to a peer.
    pub unbroadcast: bool,
}

impl RestoreWish {
    /// Everything as it was: the node's own file.
    pub const ALL: RestoreWish = RestoreWish { current_time: false, deltas: true, unbroadcast: true };
}

/// What became of a file's transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Taken.
    pub taken: u64,
    /// Older than transactions stay.
    pub expired: u64,
    /// There already.
    pub known: u64,
    /// Refused.
    pub refused: u64,
    /// Own, still to be handed to a peer.
    pub unbroadcast: u64,
}

/// A file on its way into a mempool.
pub struct Restore<'a> {
    reader: SavedReader<'a>,
    wish: RestoreWish,
    loaded: Loaded,
}

impl<'a> Restore<'a> {
    /// Begins with what a reader gives.
    pub fn new(reader: SavedReader<'a>, wish: RestoreWish) -> Restore<'a> {
        Restore { reader, wish, loaded: Loaded::default() }
    }

    /// Begins to read a file.
    pub fn open(file: Arc<dyn DiskFile>, wish: RestoreWish) -> Result<Restore<'static>, SavedError> {
        let length = file.length().map_err(|_| SavedError::Damaged { position: 0 })?;
        let source = Box::new(move |buffer: &mut [u8], offset: u64| file.read_exact_at(buffer, offset));
        Ok(Restore::new(SavedReader::open(source, length)?, wish))
    }

    /// What became of those read so far.
    pub fn loaded(&self) -> Loaded {
        self.loaded
    }

    /// Takes a batch in; false when all is done.
    pub fn step(&mut self, mempool: &SharedMempool, now_s: u64) -> Result<bool, SavedError> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let mut outcome = Ok(true);
        while batch.len() < BATCH_TXS && bytes < BATCH_BYTES {
            match self.reader.next_tx() {
                Ok(Some(saved)) => {
                    bytes += saved.transaction.tx().raw().len();
                    batch.push(saved);
                }
                Ok(None) => {
                    outcome = Ok(false);
                    break;
                }
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        self.take(&batch, mempool, now_s);
        if outcome == Ok(false) {
            self.take_tail(mempool)?;
        }
        outcome
    }

    fn take(&mut self, batch: &[SavedTx], mempool: &SharedMempool, now_s: u64) {
        if self.wish.deltas && batch.iter().any(|saved| saved.delta_sat != 0) {
            let mut mempool = mempool.write();
            for saved in batch.iter().filter(|saved| saved.delta_sat != 0) {
                mempool.prioritise(&saved.transaction.tx().txid(), saved.delta_sat);
            }
        }
        let oldest_s = now_s.saturating_sub(mempool.read().policy().expiry_s) as i64;
        let mut offered = Vec::with_capacity(batch.len());
        for saved in batch {
            let time_s = if self.wish.current_time { now_s as i64 } else { saved.time_s };
            if time_s <= oldest_s {
                self.loaded.expired += 1;
                continue;
            }
            let time_s = u64::try_from(time_s).unwrap_or(0).min(now_s);
            offered.push((&saved.transaction, Accept { announce: false, ..Accept::at(time_s) }));
        }
        let verdicts = mempool.accept_each(&offered);
        let mempool = mempool.read();
        for ((transaction, _), verdict) in offered.iter().zip(verdicts) {
            match verdict {
                Ok(_) => self.loaded.taken += 1,
                Err(_) if mempool.get(&transaction.tx().txid()).is_some() => self.loaded.known += 1,
                Err(_) => self.loaded.refused += 1,
            }
        }
    }

    fn take_tail(&mut self, mempool: &SharedMempool) -> Result<(), SavedError> {
        let tail = self.reader.tail()?;
        let mut mempool = mempool.write();
        if self.wish.deltas {
            tail.deltas.iter().for_each(|(txid, delta_sat)| mempool.prioritise(txid, *delta_sat));
        }
        if self.wish.unbroadcast {
            tail.unbroadcast.iter().for_each(|txid| mempool.set_unbroadcast(txid));
            self.loaded.unbroadcast = mempool.unbroadcast().count() as u64;
        }
        Ok(())
    }
}

/// The node's own file of its mempool.
pub struct MempoolFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    mempool: SharedMempool,
    /// 8 bytes nobody outside knows, mixed with a count for each file; none writes version 1.
    key: Option<u64>,
    /// Written one at a time; how often.
    written: Mutex<u64>,
    loaded: AtomicBool,
}

impl MempoolFile {
    /// The file at `path`; `key` is random, or none for version 1.
    pub fn new(disk: Arc<dyn Disk>, path: PathBuf, mempool: SharedMempool, key: Option<u64>) -> MempoolFile {
        MempoolFile { disk, path, mempool, key, written: Mutex::new(0), loaded: AtomicBool::new(false) }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True once it was read, or tried: from then on it may be replaced.
    pub fn is_loaded(&self) -> bool {
        self.loaded.load(Ordering::SeqCst)
    }

    /// It was read, or tried.
    pub fn set_loaded(&self) {
        self.loaded.store(true, Ordering::SeqCst);
    }

    /// Begins to read a file; none where there is none.
    pub fn open(&self, path: &Path, wish: RestoreWish) -> Option<Result<Restore<'static>, SavedError>> {
        Some(Restore::open(self.disk.open(path, Open::Read).ok()?, wish))
    }

    /// Writes the mempool as it is now; returns the number of transactions.
    pub fn save(&self) -> io::Result<usize> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        *written += 1;
        let dump = self.mempool.read().dump();
        let of_file = |key: u64| -> [u8; KEY_BYTES] { (key ^ written.wrapping_mul(KEY_STEP)).to_le_bytes() };
        let key = self.key.map(of_file);
        replace(&*self.disk, &self.path, |put| dump.write(key, put).map(drop))?;
        Ok(dump.tx_count())
    }
}

/// Replaces a file whole or not at all: a crash leaves the old one or the new one.
pub fn replace(
    disk: &dyn Disk,
    path: &Path,
    write: impl FnOnce(&mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()>,
) -> io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".new");
    let unfinished = Path::new(&unfinished);
    let file = disk.open(unfinished, Open::Truncate)?;
    let mut offset = 0;
    write(&mut |bytes| {
        file.write_all_at(bytes, offset)?;
        offset += bytes.len() as u64;
        Ok(())
    })?;
    file.sync()?;
    disk.rename(unfinished, path)?;
    path.parent().map_or(Ok(()), |folder| disk.sync_dir(folder))
}
