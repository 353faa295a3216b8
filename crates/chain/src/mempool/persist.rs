//! The mempool as a file: Bitcoin Core's `mempool.dat`, versions 1 and 2.
//!
//! In:     the mempool; or a file, of which a few megabytes are held at a time.
//! Out:    bytes, a part at a time; or what a file holds, transaction by transaction ([`SavedReader`]).
//! Fails:  [`SavedError`] where bytes cannot be read, end early, are no transaction, or have a version we do not know.
//! Source: Bitcoin Core, `node/mempool_persist.cpp`. Version 2 hides everything behind its key by XOR, so that programs that
//!         look for signatures of harmful files find none.
//!
//! | part | bytes |
//! |---|---|
//! | version | 8: 1 or 2 |
//! | key, version 2 only | 1 (the number 8) and 8 |
//! | number of transactions | 8 |
//! | each: transaction, time in seconds, addition to its fee | as on the wire, 8, 8 |
//! | additions to fees of others: count, each txid and amount | compact size, 32, 8 |
//! | own, not broadcast: count, each txid | compact size, 32 |
//!
//! Numbers are little endian. The byte at position `p` of a file of version 2 is XORed with byte `p mod 8` of the key.

use std::fmt;
use std::io;
use std::sync::Arc;

use primitives::block::BLOCK_BYTES_MAX;
use primitives::encode::{compact_size, put_compact_size};
use primitives::transaction::length_of_first;
use primitives::{Transaction, Txid};
use stdx::bytes::Reader;

use super::entry::Entry;
use super::pool::Mempool;

/// Without a key.
const VERSION_PLAIN: u64 = 1;
/// With a key.
const VERSION_KEYED: u64 = 2;
/// Bytes of the key.
pub const KEY_BYTES: usize = 8;
/// Bytes of a file held at a time: two of the largest transactions with what stands beside them.
const WINDOW_BYTES: usize = 2 * RECORD_BYTES_MAX;
/// Most bytes of one record: a transaction as large as a block, and two numbers.
const RECORD_BYTES_MAX: usize = BLOCK_BYTES_MAX + 16;
/// Bytes written at a time.
const PART_BYTES: usize = 1 << 20;

/// A transaction of a file.
pub struct SavedTx {
    /// The transaction.
    pub transaction: Transaction,
    /// When it came, seconds since 1970.
    pub time_s: i64,
    /// What its owner has added to its fee.
    pub delta_sat: i64,
}

/// What stands behind the transactions.
#[derive(Default)]
pub struct SavedTail {
    /// Additions to fees of transactions that were not in the mempool.
    pub deltas: Vec<(Txid, i64)>,
    /// Own transactions that no peer had asked for.
    pub unbroadcast: Vec<Txid>,
}

/// Why bytes are no file of a mempool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavedError {
    /// They cannot be read, end early, or a transaction does not parse.
    Damaged {
        /// Position of what could not be read.
        position: u64,
    },
    /// A version that we do not know.
    UnknownVersion {
        /// The version.
        version: u64,
    },
}

impl fmt::Display for SavedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SavedError::Damaged { position } => write!(f, "the mempool's file is damaged at byte {position}"),
            SavedError::UnknownVersion { version } => {
                write!(f, "the mempool's file has version {version}; 1 and 2 are known")
            }
        }
    }
}

impl std::error::Error for SavedError {}

/// Fills a buffer with the bytes of a file from a position on.
pub type Source<'a> = Box<dyn Fn(&mut [u8], u64) -> io::Result<()> + Send + 'a>;

/// Reads a file, a window at a time.
pub struct SavedReader<'a> {
    source: Source<'a>,
    length: u64,
    key: [u8; KEY_BYTES],
    window: Vec<u8>,
    /// Position of the window in the file, and of what comes next in the window.
    start: u64,
    at: usize,
    left: u64,
}

impl<'a> SavedReader<'a> {
    /// Begins to read a file of `length` bytes.
    pub fn open(source: Source<'a>, length: u64) -> Result<SavedReader<'a>, SavedError> {
        let key = [0; KEY_BYTES];
        let mut reader = SavedReader { source, length, key, window: Vec::new(), start: 0, at: 0, left: 0 };
        let version = reader.read(8, |bytes| bytes.u64().ok())?;
        match version {
            VERSION_PLAIN => {}
            VERSION_KEYED => {
                let length_and_key = |bytes: &mut Reader<'_>| Some((bytes.u8().ok()?, bytes.array().ok()?));
                let (length, key) = reader.read(9, length_and_key)?;
                if usize::from(length) != KEY_BYTES {
                    return Err(SavedError::Damaged { position: 8 });
                }
                reader.key = key;
                let from = (reader.start + reader.at as u64) as usize;
                apply_key(&mut reader.window[from..], from as u64, key);
            }
            version => return Err(SavedError::UnknownVersion { version }),
        }
        reader.left = reader.read(8, |bytes| bytes.u64().ok())?;
        Ok(reader)
    }

    /// Transactions not read yet, as the file says.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The next transaction; none after the last.
    pub fn next_tx(&mut self) -> Result<Option<SavedTx>, SavedError> {
        if self.left == 0 {
            return Ok(None);
        }
        let saved = self.read(RECORD_BYTES_MAX, |bytes| {
            let mut rest = *bytes;
            let length = length_of_first(rest.take(rest.left()).ok()?).ok()?;
            let transaction = Transaction::parse(bytes.take(length).ok()?).ok()?;
            Some(SavedTx { transaction, time_s: bytes.u64().ok()? as i64, delta_sat: bytes.u64().ok()? as i64 })
        })?;
        self.left -= 1;
        Ok(Some(saved))
    }

    /// What stands behind the transactions; all of them must have been read.
    pub fn tail(&mut self) -> Result<SavedTail, SavedError> {
        assert_eq!(self.left, 0, "transactions come first");
        let mut tail = SavedTail::default();
        for _ in 0..self.read(9, |bytes| compact_size(bytes).ok())? {
            let delta = |bytes: &mut Reader<'_>| Some((Txid(bytes.array().ok()?), bytes.u64().ok()? as i64));
            tail.deltas.push(self.read(40, delta)?);
        }
        for _ in 0..self.read(9, |bytes| compact_size(bytes).ok())? {
            tail.unbroadcast.push(self.read(32, |bytes| Some(Txid(bytes.array().ok()?)))?);
        }
        Ok(tail)
    }

    /// Reads something of `most` bytes at most.
    fn read<T>(&mut self, most: usize, what: impl FnOnce(&mut Reader<'_>) -> Option<T>) -> Result<T, SavedError> {
        let position = self.start + self.at as u64;
        let damaged = SavedError::Damaged { position };
        if self.window.len() - self.at < most && self.start + (self.window.len() as u64) < self.length {
            let bytes = (self.length - position).min(WINDOW_BYTES as u64) as usize;
            let mut window = vec![0; bytes];
            (self.source)(&mut window, position).map_err(|_| damaged)?;
            apply_key(&mut window, position, self.key);
            (self.window, self.start, self.at) = (window, position, 0);
        }
        let mut reader = Reader::new(&self.window[self.at..]);
        let read = what(&mut reader).ok_or(damaged)?;
        self.at += reader.position();
        Ok(read)
    }
}

/// `start`: position of the first byte in the file.
fn apply_key(bytes: &mut [u8], start: u64, key: [u8; KEY_BYTES]) {
    if key == [0; KEY_BYTES] {
        return;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte ^= key[((start + index as u64) % KEY_BYTES as u64) as usize];
    }
}

/// A mempool as it was at one moment, to be written without holding its lock.
pub struct Dump {
    txs: Vec<(Arc<Entry>, i64)>,
    deltas: Vec<(Txid, i64)>,
    unbroadcast: Vec<Txid>,
}

impl Mempool {
    /// What a file is to hold.
    pub fn dump(&self) -> Dump {
        let delta_sat = |entry: &Arc<Entry>| self.deltas.get(&entry.txid).copied().unwrap_or(0);
        Dump {
            txs: self.entries().map(|entry| (entry.clone(), delta_sat(entry))).collect(),
            deltas: self.prioritised().filter(|(.., here)| !here).map(|(txid, delta, _)| (txid, delta)).collect(),
            unbroadcast: self.unbroadcast.iter().copied().collect(),
        }
    }
}

/// Hides what is written, and hands it on a part at a time.
struct Parts<'a> {
    put: &'a mut dyn FnMut(&[u8]) -> io::Result<()>,
    key: [u8; KEY_BYTES],
    part: Vec<u8>,
    start: u64,
}

impl Parts<'_> {
    fn hand_on(&mut self, least: usize) -> io::Result<()> {
        if self.part.len() > least {
            apply_key(&mut self.part, self.start, self.key);
            (self.put)(&self.part)?;
            self.start += self.part.len() as u64;
            self.part.clear();
        }
        Ok(())
    }
}

impl Dump {
    /// Number of transactions.
    pub fn tx_count(&self) -> usize {
        self.txs.len()
    }

    /// Writes the file; `key` is 8 random bytes for version 2, none writes version 1. Returns its length.
    pub fn write(&self, key: Option<[u8; KEY_BYTES]>, put: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<u64> {
        let mut begin = if key.is_some() { VERSION_KEYED } else { VERSION_PLAIN }.to_le_bytes().to_vec();
        if let Some(key) = key {
            begin.push(KEY_BYTES as u8);
            begin.extend(key);
        }
        put(&begin)?;
        let (start, part) = (begin.len() as u64, (self.txs.len() as u64).to_le_bytes().to_vec());
        let mut parts = Parts { put, key: key.unwrap_or_default(), part, start };
        for (entry, delta_sat) in &self.txs {
            parts.part.extend(entry.tx().raw());
            parts.part.extend((entry.time_s as i64).to_le_bytes());
            parts.part.extend(delta_sat.to_le_bytes());
            parts.hand_on(PART_BYTES)?;
        }
        put_compact_size(&mut parts.part, self.deltas.len() as u64);
        for (txid, delta_sat) in &self.deltas {
            parts.part.extend(txid.0);
            parts.part.extend(delta_sat.to_le_bytes());
            parts.hand_on(PART_BYTES)?;
        }
        put_compact_size(&mut parts.part, self.unbroadcast.len() as u64);
        for txid in &self.unbroadcast {
            parts.part.extend(txid.0);
            parts.hand_on(PART_BYTES)?;
        }
        parts.hand_on(0)?;
        Ok(parts.start)
    }
}
