//! A hash table from outpoint to coin: compact entries in chunks, found through sharded tables of numbers.
//!
//! In:     outpoints and entries.
//! Out:    the number of an entry, which stays the same until it is freed.
//! Fails:  never; more than 2^32 entries panic.
//!
//! Entries never move, so growing costs no copy; an index shard grows by itself (1/64 of all), without touching
//! entries, because it keeps 32 bits of each hash. The hash is keyed, so nobody can aim at one bucket.

use primitives::{Coin, OutPoint};

use super::index::Index;

/// Entries of a chunk.
const CHUNK_ENTRIES: usize = 4096;
/// Outpoints looked up at once: about as many misses as a core keeps in flight.
const WARM_TOGETHER: usize = 16;
/// Bits of a hash that choose the index shard.
const SHARD_BITS: u32 = 6;
/// Longest script kept inside its entry: every standard one fits (P2PK has 35 bytes, P2TR 34).
const INLINE_BYTES_MAX: usize = 38;

/// The coin is unspent.
pub(super) const LIVE: u8 = 1;
/// It differs from what the last cut took.
pub(super) const DIRTY: u8 = 2;
/// It was unspent on disk at the last cut.
pub(super) const ON_DISK: u8 = 4;
/// The last cut took it and is not installed yet.
pub(super) const PENDING: u8 = 8;
/// Its number is in the list of dirty entries; stays with the slot when the entry is freed.
pub(super) const LISTED: u8 = 16;
/// The slot holds an entry.
pub(super) const USED: u8 = 32;

#[derive(Debug)]
enum Script {
    Inline(u8, [u8; INLINE_BYTES_MAX]),
    Boxed(Box<[u8]>),
}

impl Script {
    fn of(script: &[u8]) -> Script {
        if script.len() > INLINE_BYTES_MAX {
            return Script::Boxed(script.into());
        }
        let mut bytes = [0; INLINE_BYTES_MAX];
        bytes[..script.len()].copy_from_slice(script);
        Script::Inline(script.len() as u8, bytes)
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Script::Inline(length, bytes) => &bytes[..usize::from(*length)],
            Script::Boxed(bytes) => bytes,
        }
    }

    fn boxed_bytes(&self) -> usize {
        match self {
            Script::Inline(..) => 0,
            // An allocation costs a header beside its bytes.
            Script::Boxed(bytes) => bytes.len() + 16,
        }
    }
}

/// One coin. Fields are in the order of `repr(C)`, so that [`Table::warm`] knows where an entry ends.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Entry {
    pub(super) outpoint: OutPoint,
    height_and_coinbase: u32,
    value_sat: u64,
    txo_and_flags: u64,
    pub(super) tag: u64,
    script: Script,
}

const _: () = assert!(size_of::<Entry>() == 104);

impl Entry {
    pub(super) fn new(outpoint: &OutPoint, coin: &Coin<'_>, tag: u64, flags: u8) -> Entry {
        assert!(coin.txo_num < 1 << 40 && coin.height < 1 << 31);
        Entry {
            outpoint: *outpoint,
            height_and_coinbase: coin.height << 1 | u32::from(coin.coinbase),
            value_sat: coin.value_sat,
            txo_and_flags: coin.txo_num << 8 | u64::from(flags),
            tag,
            script: Script::of(coin.script),
        }
    }

    #[inline]
    pub(super) fn flags(&self) -> u8 {
        self.txo_and_flags as u8
    }

    #[inline]
    pub(super) fn set_flags(&mut self, flags: u8) {
        self.txo_and_flags = self.txo_and_flags & !0xff | u64::from(flags);
    }

    #[inline]
    pub(super) fn txo_num(&self) -> u64 {
        self.txo_and_flags >> 8
    }

    #[inline]
    pub(super) fn coin(&self) -> Coin<'_> {
        Coin {
            value_sat: self.value_sat,
            height: self.height_and_coinbase >> 1,
            coinbase: self.height_and_coinbase & 1 == 1,
            txo_num: self.txo_num(),
            script: self.script.bytes(),
        }
    }
}

/// The table.
pub(super) struct Table {
    chunks: Vec<Vec<Entry>>,
    free: Vec<u32>,
    shards: Vec<Index>,
    key: [u64; 2],
    boxed_bytes: usize,
    used: usize,
}

impl Table {
    pub(super) fn new(key: [u64; 2]) -> Table {
        let shards = (0..1 << SHARD_BITS).map(|_| Index::default()).collect();
        Table { chunks: Vec::new(), free: Vec::new(), shards, key, boxed_bytes: 0, used: 0 }
    }

    /// Index shard and 32 bits of the hash.
    #[inline]
    fn place(&self, outpoint: &OutPoint) -> (usize, u32) {
        let word = |at: usize| u64::from_le_bytes(outpoint.txid.0[at..at + 8].try_into().expect("eight bytes"));
        let vout = u64::from(outpoint.vout).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let product = u128::from(word(0) ^ self.key[0]) * u128::from(word(8).wrapping_add(vout) ^ self.key[1]);
        let hash = product as u64 ^ (product >> 64) as u64;
        ((hash >> (64 - SHARD_BITS)) as usize, (hash >> 16) as u32)
    }

    /// The entry with this number.
    #[inline]
    pub(super) fn entry(&self, id: u32) -> &Entry {
        &self.chunks[id as usize / CHUNK_ENTRIES][id as usize % CHUNK_ENTRIES]
    }

    #[inline]
    pub(super) fn entry_mut(&mut self, id: u32) -> &mut Entry {
        &mut self.chunks[id as usize / CHUNK_ENTRIES][id as usize % CHUNK_ENTRIES]
    }

    /// Number of the entry of an outpoint.
    #[inline]
    pub(super) fn find(&self, outpoint: &OutPoint) -> Option<u32> {
        let (shard, hash) = self.place(outpoint);
        self.shards[shard].find(hash, |id| self.entry(id).outpoint == *outpoint)
    }

    /// Brings the entries of `outpoints`, or the places where they would be, into the cache. Index slots first and
    /// entries second, so that the misses of each kind overlap.
    pub(super) fn warm(&self, outpoints: &[OutPoint]) {
        for group in outpoints.chunks(WARM_TOGETHER) {
            let mut ids = [None; WARM_TOGETHER];
            for (id, outpoint) in ids.iter_mut().zip(group) {
                let (shard, hash) = self.place(outpoint);
                *id = self.shards[shard].find(hash, |_| true);
            }
            let touch = |id: &u32| {
                let entry = self.entry(*id);
                u64::from(entry.outpoint.txid.0[0]) + entry.tag + entry.script.bytes().last().map_or(0, |b| (*b).into())
            };
            std::hint::black_box(ids.iter().flatten().map(touch).sum::<u64>());
        }
    }

    /// Whether each outpoint has an entry.
    pub(super) fn find_many(&self, outpoints: &[OutPoint]) -> Vec<bool> {
        let mut found = Vec::with_capacity(outpoints.len());
        for group in outpoints.chunks(WARM_TOGETHER) {
            self.warm(group);
            found.extend(group.iter().map(|outpoint| self.find(outpoint).is_some()));
        }
        found
    }

    /// True if one more entry needs more memory.
    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty() && self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK_ENTRIES)
    }

    /// Adds an entry whose outpoint has none.
    pub(super) fn insert(&mut self, mut entry: Entry) -> u32 {
        let (shard, hash) = self.place(&entry.outpoint);
        self.boxed_bytes += entry.script.boxed_bytes();
        self.used += 1;
        let flags = entry.flags() | USED;
        let id = match self.free.pop() {
            Some(id) => {
                let slot = self.entry_mut(id);
                entry.set_flags(flags | slot.flags() & LISTED);
                *slot = entry;
                id
            }
            None => {
                if self.is_full() {
                    self.chunks.push(Vec::with_capacity(CHUNK_ENTRIES));
                }
                entry.set_flags(flags);
                let chunk_index = self.chunks.len() - 1;
                let chunk = &mut self.chunks[chunk_index];
                chunk.push(entry);
                u32::try_from(chunk_index * CHUNK_ENTRIES + chunk.len() - 1).expect("fewer than 2^32 coins in memory")
            }
        };
        self.shards[shard].insert(hash, id);
        id
    }

    /// Puts another coin into an entry.
    pub(super) fn replace(&mut self, id: u32, coin: &Coin<'_>, tag: u64, flags: u8) {
        let entry = self.entry_mut(id);
        let outpoint = entry.outpoint;
        let old = std::mem::replace(entry, Entry::new(&outpoint, coin, tag, flags | USED));
        self.boxed_bytes = self.boxed_bytes + self.entry(id).script.boxed_bytes() - old.script.boxed_bytes();
    }

    /// Frees an entry. Its coin can still be read until the next insertion, but a long script goes to `parting`.
    #[inline]
    pub(super) fn free(&mut self, id: u32, parting: &mut Box<[u8]>) {
        let (shard, hash) = self.place(&self.entry(id).outpoint);
        self.shards[shard].remove(hash, id);
        let entry = self.entry_mut(id);
        entry.set_flags(entry.flags() & LISTED);
        let boxed_bytes = entry.script.boxed_bytes();
        if let Script::Boxed(script) = &mut entry.script {
            *parting = std::mem::take(script);
        }
        self.boxed_bytes -= boxed_bytes;
        self.used -= 1;
        self.free.push(id);
    }

    /// Entries in use.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Numbers of all slots; those without [`USED`] are free.
    pub(super) fn slots(&self) -> u32 {
        (self.chunks.len().saturating_sub(1) * CHUNK_ENTRIES + self.chunks.last().map_or(0, Vec::len)) as u32
    }

    /// Bytes of memory it takes.
    pub(super) fn bytes(&self) -> usize {
        let index: usize = self.shards.iter().map(Index::bytes).sum();
        self.chunks.len() * CHUNK_ENTRIES * size_of::<Entry>() + index + self.boxed_bytes + self.free.capacity() * 4
    }

    /// Bytes one more entry takes on average.
    pub(super) const ENTRY_BYTES: usize = size_of::<Entry>() + 14;
}
