//! The mempool as a file: Bitcoin Core's `mempool.dat`, versions 1 and 2.
//!
//! In:     the mempool; or bytes of a file.
//! Out:    bytes; or [`Saved`], and counts of what was taken back.
//! Fails:  [`SavedError`] where bytes end early, are no transaction, or have a version we do not know.
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

use primitives::encode::{compact_size, put_compact_size};
use primitives::transaction::length_of_first;
use primitives::{Transaction, Txid};
use stdx::bytes::Reader;

use super::accept::Accept;
use super::pool::Mempool;

/// Without a key.
const VERSION_PLAIN: u64 = 1;
/// With a key.
const VERSION_KEYED: u64 = 2;
/// Bytes of the key.
const KEY_BYTES: usize = 8;

/// A transaction of a file.
pub struct SavedTx {
    /// The transaction.
    pub transaction: Transaction,
    /// When it came, seconds since 1970.
    pub time_s: i64,
    /// What its owner has added to its fee.
    pub delta_sat: i64,
}

/// What a file holds.
#[derive(Default)]
pub struct Saved {
    /// Transactions, parents first.
    pub txs: Vec<SavedTx>,
    /// Additions to fees of transactions that were not in the mempool.
    pub deltas: Vec<(Txid, i64)>,
    /// Own transactions that no peer had asked for.
    pub unbroadcast: Vec<Txid>,
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
}

/// Why bytes are no file of a mempool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavedError {
    /// They end early, or a transaction does not parse.
    Damaged {
        /// Position of what could not be read.
        position: usize,
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

impl Saved {
    /// Reads a file.
    pub fn decode(mut bytes: Vec<u8>) -> Result<Saved, SavedError> {
        let damaged = |reader: &Reader<'_>| SavedError::Damaged { position: reader.position() };
        let mut reader = Reader::new(&bytes);
        let version = reader.u64().map_err(|_| damaged(&reader))?;
        let start = match version {
            VERSION_PLAIN => 8,
            VERSION_KEYED => {
                let length = compact_size(&mut reader).map_err(|_| damaged(&reader))?;
                let key: [u8; KEY_BYTES] = reader.array().map_err(|_| damaged(&reader))?;
                if length != KEY_BYTES as u64 {
                    return Err(SavedError::Damaged { position: 8 });
                }
                let start = reader.position();
                apply_key(&mut bytes, start, key);
                start
            }
            version => return Err(SavedError::UnknownVersion { version }),
        };
        let mut reader = Reader::new(&bytes[start..]);
        let read = read_body(&bytes[start..], &mut reader);
        read.ok_or(SavedError::Damaged { position: start + reader.position() })
    }
}

fn apply_key(bytes: &mut [u8], start: usize, key: [u8; KEY_BYTES]) {
    for (position, byte) in bytes.iter_mut().enumerate().skip(start) {
        *byte ^= key[position % KEY_BYTES];
    }
}

fn read_body(bytes: &[u8], reader: &mut Reader<'_>) -> Option<Saved> {
    let mut saved = Saved::default();
    let count = reader.u64().ok()?;
    for _ in 0..count {
        let length = length_of_first(&bytes[reader.position()..]).ok()?;
        let transaction = Transaction::parse(reader.take(length).ok()?).ok()?;
        let (time_s, delta_sat) = (reader.u64().ok()? as i64, reader.u64().ok()? as i64);
        saved.txs.push(SavedTx { transaction, time_s, delta_sat });
    }
    for _ in 0..compact_size(reader).ok()? {
        saved.deltas.push((Txid(reader.array().ok()?), reader.u64().ok()? as i64));
    }
    for _ in 0..compact_size(reader).ok()? {
        saved.unbroadcast.push(Txid(reader.array().ok()?));
    }
    Some(saved)
}

impl Mempool {
    /// The mempool as a file; `key` is 8 random bytes for version 2, none writes version 1.
    pub fn encode(&self, key: Option<[u8; KEY_BYTES]>) -> Vec<u8> {
        let mut out = if key.is_some() { VERSION_KEYED } else { VERSION_PLAIN }.to_le_bytes().to_vec();
        if let Some(key) = key {
            out.push(KEY_BYTES as u8);
            out.extend(key);
        }
        let start = out.len();
        out.extend((self.len() as u64).to_le_bytes());
        for entry in self.entries() {
            let delta_sat = self.deltas.get(&entry.txid).copied().unwrap_or(0);
            out.extend(entry.tx().raw());
            out.extend((entry.time_s as i64).to_le_bytes());
            out.extend(delta_sat.to_le_bytes());
        }
        let others: Vec<_> = self.deltas.iter().filter(|(txid, _)| self.get(txid).is_none()).collect();
        put_compact_size(&mut out, others.len() as u64);
        for (txid, delta_sat) in others {
            out.extend(txid.0);
            out.extend(delta_sat.to_le_bytes());
        }
        put_compact_size(&mut out, self.unbroadcast.len() as u64);
        self.unbroadcast.iter().for_each(|txid| out.extend(txid.0));
        if let Some(key) = key {
            apply_key(&mut out, start, key);
        }
        out
    }

    /// Takes a file's transactions in, as if they came from a peer at the time they came.
    pub fn load(&mut self, saved: &Saved, now_s: u64) -> Loaded {
        let mut loaded = Loaded::default();
        for SavedTx { transaction, time_s, delta_sat } in &saved.txs {
            let txid = transaction.tx().txid();
            if *delta_sat != 0 {
                self.prioritise(&txid, *delta_sat);
            }
            let oldest_s = now_s.saturating_sub(self.policy.expiry_s) as i64;
            if *time_s <= oldest_s {
                loaded.expired += 1;
                continue;
            }
            match self.accept(transaction, &Accept::at((*time_s as u64).min(now_s))) {
                Ok(_) => loaded.taken += 1,
                Err(_) if self.get(&txid).is_some() => loaded.known += 1,
                Err(_) => loaded.refused += 1,
            }
        }
        saved.deltas.iter().for_each(|(txid, delta_sat)| self.prioritise(txid, *delta_sat));
        saved.unbroadcast.iter().for_each(|txid| self.set_unbroadcast(txid));
        self.limit(now_s);
        loaded
    }
}
