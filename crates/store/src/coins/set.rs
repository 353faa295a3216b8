//! Spending and creating, over the table in memory and the segments below.
//!
//! In:     outpoints and coins, in chain order.
//! Out:    coins; `None` where there is none, in memory or on disk.
//! Fails:  [`StoreError`] from reading a segment.

use std::sync::Arc;

use primitives::{Coin, OutPoint};
use stdx::pool::{Pool, Ticket};

use super::cut::DirtyCoins;
use super::table::{DIRTY, Entry, LISTED, LIVE, ON_DISK, PENDING, Table, USED};
use crate::error::StoreError;
use crate::snapshot::{CoinBuf, Snapshot};

/// Computes the script tag of an output script; called on worker threads for coins read from disk.
pub type Tagger = Arc<dyn Fn(&[u8]) -> u64 + Send + Sync>;

/// Outpoints one task of a fetch reads: enough to outweigh the queue, few enough to spread.
const OUTPOINTS_PER_TASK: usize = 32;
/// Entries looked at to learn how old the oldest are.
const AGE_SAMPLES: usize = 4096;

/// Limits of the table.
#[derive(Clone, Copy, Debug)]
pub struct CoinsOptions {
    /// Most bytes the table takes, unless what is dirty needs more: see [`Coins::wants_cut`].
    pub bytes_max: usize,
    /// Key of the table's hash function, random for each start.
    pub hash_key: [u64; 2],
}

/// A coin taken out, with its script's tag.
#[derive(Clone, Copy, Debug)]
pub struct SpentCoin<'a> {
    /// The coin.
    pub coin: Coin<'a>,
    /// Its script's tag.
    pub tag: u64,
}

struct LoadedCoin {
    outpoint: OutPoint,
    coin: CoinBuf,
    tag: u64,
}

/// Coins on their way from the disk; give it to [`Coins::load`].
pub struct Fetch {
    generation: u64,
    tickets: Vec<Ticket<Result<Vec<LoadedCoin>, StoreError>>>,
}

/// The table.
pub struct Coins {
    pub(super) table: Table,
    pub(super) snapshot: Arc<Snapshot>,
    tagger: Tagger,
    bytes_max: usize,
    /// Numbers of entries that are or were dirty since the last cut.
    pub(super) listed: Vec<u32>,
    /// Entries of the cut that is being written.
    pub(super) pending: Vec<u32>,
    /// Unspent rows of coins on disk that were written over (BIP 30): tag and TxoNum.
    pub(super) overwritten: Vec<(u64, u64)>,
    pub(super) dirty: usize,
    /// Cuts installed; what a fetch read under an older snapshot is not kept.
    pub(super) generation: u64,
    /// The long script of the coin spent last.
    parting: Box<[u8]>,
}

impl Coins {
    /// An empty table over the coins of `snapshot`, which is the store's newest.
    pub fn new(snapshot: Arc<Snapshot>, tagger: Tagger, options: &CoinsOptions) -> Coins {
        Coins {
            table: Table::new(options.hash_key),
            snapshot,
            tagger,
            bytes_max: options.bytes_max,
            listed: Vec::new(),
            pending: Vec::new(),
            overwritten: Vec::new(),
            dirty: 0,
            generation: 0,
            parting: Box::default(),
        }
    }

    /// Starts reading those of `outpoints` that are not in memory, on the pool.
    pub fn fetch(&self, pool: &Pool, outpoints: &[OutPoint]) -> Fetch {
        let found = self.table.find_many(outpoints);
        let missing: Vec<OutPoint> =
            outpoints.iter().zip(found).filter(|(_, found)| !found).map(|(outpoint, _)| *outpoint).collect();
        let read = |outpoints: &[OutPoint]| {
            let (snapshot, tagger, outpoints) = (self.snapshot.clone(), self.tagger.clone(), outpoints.to_vec());
            pool.submit(move || {
                let mut loaded = Vec::new();
                for outpoint in outpoints {
                    if let Some(coin) = snapshot.coin(&outpoint)? {
                        let tag = tagger(&coin.script);
                        loaded.push(LoadedCoin { outpoint, coin, tag });
                    }
                }
                Ok(loaded)
            })
        };
        Fetch { generation: self.generation, tickets: missing.chunks(OUTPOINTS_PER_TASK).map(read).collect() }
    }

    /// Waits for a fetch and keeps what it read, except what has changed since.
    pub fn load(&mut self, fetch: Fetch) -> Result<(), StoreError> {
        let is_current = fetch.generation == self.generation;
        for ticket in fetch.tickets {
            for LoadedCoin { outpoint, coin, tag } in ticket.wait()? {
                if is_current && self.table.find(&outpoint).is_none() {
                    self.make_room();
                    self.table.insert(Entry::new(&outpoint, &coin.coin(), tag, LIVE | ON_DISK));
                }
            }
        }
        Ok(())
    }

    /// Brings what is in memory of `outpoints` into the processor's cache; call it with some 16 to 64 right before they
    /// are spent or created one by one. A lone miss takes as long as the rest of a spend.
    pub fn warm(&self, outpoints: &[OutPoint]) {
        self.table.warm(outpoints);
    }

    /// Takes out a coin; reads the disk if it has to. None: there is no such coin.
    pub fn spend(&mut self, outpoint: &OutPoint) -> Result<Option<SpentCoin<'_>>, StoreError> {
        let id = match self.table.find(outpoint) {
            Some(id) if self.table.entry(id).flags() & LIVE == 0 => return Ok(None),
            Some(id) => id,
            None => {
                let Some(coin) = self.snapshot.coin(outpoint)? else { return Ok(None) };
                let tag = (self.tagger)(&coin.script);
                self.make_room();
                self.table.insert(Entry::new(outpoint, &coin.coin(), tag, LIVE | ON_DISK))
            }
        };
        let flags = self.table.entry(id).flags();
        if flags & (ON_DISK | PENDING) == 0 {
            self.dirty -= usize::from(flags & DIRTY != 0);
            self.parting = Box::default();
            self.table.free(id, &mut self.parting);
            let entry = self.table.entry(id);
            let mut coin = entry.coin();
            if !self.parting.is_empty() {
                coin.script = &self.parting;
            }
            return Ok(Some(SpentCoin { coin, tag: entry.tag }));
        }
        // A pending entry that is not on disk is a deletion being written: spending what came after it changes nothing.
        self.set_flags(id, flags & !(LIVE | DIRTY) | if flags & ON_DISK != 0 { DIRTY } else { 0 });
        let entry = self.table.entry(id);
        Ok(Some(SpentCoin { coin: entry.coin(), tag: entry.tag }))
    }

    /// Adds a coin. Unless its transaction is a coinbase, the caller knows that the outpoint is not alive (BIP 30).
    pub fn create(&mut self, outpoint: &OutPoint, coin: Coin<'_>, tag: u64) -> Result<(), StoreError> {
        if let Some(id) = self.table.find(outpoint) {
            self.write_over(id, coin, tag);
            return Ok(());
        }
        // Only coinbases can be alive already: two of the main chain were, before BIP 34.
        let mut flags = LIVE | DIRTY;
        if coin.coinbase
            && let Some(old) = self.snapshot.coin(outpoint)?
        {
            flags |= ON_DISK;
            self.overwritten.push(((self.tagger)(&old.script), old.txo_num));
        }
        self.insert_dirty(Entry::new(outpoint, &coin, tag, flags));
        Ok(())
    }

    /// Puts back a coin whose spending is undone; its tag is computed.
    pub fn restore(&mut self, outpoint: &OutPoint, coin: Coin<'_>) -> Result<(), StoreError> {
        let tag = (self.tagger)(coin.script);
        match self.table.find(outpoint) {
            Some(id) => self.write_over(id, coin, tag),
            None => self.insert_dirty(Entry::new(outpoint, &coin, tag, LIVE | DIRTY)),
        }
        Ok(())
    }

    /// Takes back a creation (a block is disconnected). False: the coin was not there.
    pub fn remove(&mut self, outpoint: &OutPoint) -> Result<bool, StoreError> {
        Ok(self.spend(outpoint)?.is_some())
    }

    /// True if the coin is unspent; reads the disk if it has to.
    pub fn exists(&self, outpoint: &OutPoint) -> Result<bool, StoreError> {
        match self.table.find(outpoint) {
            Some(id) => Ok(self.table.entry(id).flags() & LIVE != 0),
            None => Ok(self.snapshot.coin(outpoint)?.is_some()),
        }
    }

    /// A copy of an unspent coin; reads the disk if it has to.
    pub fn get(&self, outpoint: &OutPoint) -> Result<Option<CoinBuf>, StoreError> {
        let Some(id) = self.table.find(outpoint) else { return self.snapshot.coin(outpoint) };
        let entry = self.table.entry(id);
        let Coin { value_sat, height, coinbase, txo_num, script } = entry.coin();
        let coin = CoinBuf { value_sat, height, coinbase, txo_num, script: script.to_vec() };
        Ok((entry.flags() & LIVE != 0).then_some(coin))
    }

    fn insert_dirty(&mut self, entry: Entry) {
        self.make_room();
        let id = self.table.insert(entry);
        self.dirty += 1;
        self.list(id);
    }

    fn list(&mut self, id: u32) {
        let entry = self.table.entry_mut(id);
        let flags = entry.flags();
        if flags & LISTED == 0 {
            entry.set_flags(flags | LISTED);
            self.listed.push(id);
        }
    }

    /// Changes an entry's flags, keeping count of the dirty ones.
    fn set_flags(&mut self, id: u32, flags: u8) {
        let was = self.table.entry(id).flags();
        self.table.entry_mut(id).set_flags(flags);
        self.dirty = self.dirty + usize::from(flags & DIRTY != 0) - usize::from(was & DIRTY != 0);
        if flags & DIRTY != 0 {
            self.list(id);
        }
    }

    /// Puts a coin where a spent one, or one that it writes over, is.
    fn write_over(&mut self, id: u32, coin: Coin<'_>, tag: u64) {
        let entry = self.table.entry(id);
        let (flags, old) = (entry.flags(), (entry.tag, entry.txo_num()));
        if flags & ON_DISK != 0 && old != (tag, coin.txo_num) {
            self.overwritten.push(old);
        }
        self.overwritten.retain(|row| *row != (tag, coin.txo_num));
        self.table.replace(id, &coin, tag, flags & !DIRTY | LIVE);
        self.dirty -= usize::from(flags & DIRTY != 0);
        self.set_flags(id, flags | LIVE | DIRTY);
    }

    /// Frees clean entries, the oldest first, if one more would take the table above its budget.
    fn make_room(&mut self) {
        let clean = self.table.used().saturating_sub(self.dirty + self.pending.len());
        if self.table.is_full() && self.table.bytes() >= self.bytes_max && clean * 4 >= self.table.used() {
            self.evict_older_half();
        }
    }

    fn evict_older_half(&mut self) {
        let evictable = |flags: u8| flags & (USED | DIRTY | PENDING) == USED;
        let slots = self.table.slots();
        let step = (slots as usize / AGE_SAMPLES).max(1);
        let sampled = (0..slots).step_by(step).map(|id| self.table.entry(id));
        let mut ages: Vec<u64> = sampled.filter(|entry| evictable(entry.flags())).map(Entry::txo_num).collect();
        ages.sort_unstable();
        let Some(&middle) = ages.get(ages.len() / 2) else { return };
        let mut unused = Box::default();
        for id in 0..slots {
            let entry = self.table.entry(id);
            if evictable(entry.flags()) && entry.txo_num() <= middle {
                self.table.free(id, &mut unused);
            }
        }
    }

    /// Bytes the table takes.
    pub fn bytes(&self) -> usize {
        self.table.bytes() + 4 * (self.listed.capacity() + self.pending.capacity())
    }

    /// Bytes of coins that only a cut can make clean; a cut takes about as many again while it is written.
    pub fn dirty_bytes(&self) -> usize {
        self.dirty * Table::ENTRY_BYTES
    }

    /// True once what is dirty takes half of the budget: time for a cut.
    pub fn wants_cut(&self) -> bool {
        self.dirty_bytes() >= self.bytes_max / 2
    }

    /// Coins in memory, tombstones included.
    pub fn coins_in_memory(&self) -> usize {
        self.table.used()
    }

    /// Takes what changed since the last cut; the entries stay, pending.
    pub(crate) fn take_dirty(&mut self) -> DirtyCoins {
        DirtyCoins::take(self)
    }

    /// The cut is durable and `snapshot` holds it.
    pub(crate) fn installed(&mut self, snapshot: Arc<Snapshot>) {
        self.snapshot = snapshot;
        self.generation += 1;
        let mut unused = Box::default();
        for id in std::mem::take(&mut self.pending) {
            let flags = self.table.entry(id).flags() & !PENDING;
            self.table.entry_mut(id).set_flags(flags);
            if flags & (LIVE | DIRTY) == 0 {
                self.table.free(id, &mut unused);
            }
        }
    }
}
