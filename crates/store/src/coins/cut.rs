//! What changed in the coins since the last cut, ready to be sorted and written.
//!
//! In:     the table's dirty entries.
//! Out:    coin rows in one piece of memory, and the unspent rows that follow from them.
//! Fails:  never.

use super::set::Coins;
use super::table::{DIRTY, LISTED, LIVE, ON_DISK, PENDING};
use crate::row::{Op, Row};
use crate::segment::{COIN_KEY_BYTES, CoinRow, key_of, put_body};

/// Where a coin row lies in the arena: first eight bytes of its key, then offset, length and operation in one word.
#[derive(Clone, Copy)]
struct Placed {
    prefix: u64,
    place: u64,
}

/// Bytes of key and body of a usual coin; what is reserved for each.
const ROW_BYTES: usize = 68;
/// Bits of a row's length.
const LENGTH_BITS: u32 = 22;
/// Bits of an operation.
const OP_BITS: u32 = 2;
/// Longest row: a key, and a script as long as a block.
const _: () = assert!(primitives::block::BLOCK_BYTES_MAX + 100 < 1 << LENGTH_BITS);

impl Placed {
    fn new(prefix: u64, offset: usize, end: usize, op: Op) -> Placed {
        let (offset, length) = (offset as u64, (end - offset) as u64);
        assert!(length < 1 << LENGTH_BITS && offset < 1 << (64 - LENGTH_BITS - OP_BITS));
        Placed { prefix, place: (offset << LENGTH_BITS | length) << OP_BITS | op as u64 }
    }

    fn op(&self) -> Op {
        Op::from_bits(self.place)
    }

    fn range(&self) -> std::ops::Range<usize> {
        let offset = (self.place >> (LENGTH_BITS + OP_BITS)) as usize;
        offset..offset + (self.place >> OP_BITS) as usize % (1 << LENGTH_BITS)
    }
}

/// An unspent row in 24 bytes; [`Row`] takes 32.
#[derive(Clone, Copy)]
pub(crate) struct UnspentChange {
    tag: u64,
    txo_and_op: u64,
    value_sat: u64,
}

impl UnspentChange {
    fn new(tag: u64, txo_num: u64, value_sat: u64, op: Op) -> UnspentChange {
        UnspentChange { tag, txo_and_op: txo_num << OP_BITS | op as u64, value_sat }
    }

    /// Its order: script, then output.
    pub(crate) fn key(&self) -> (u64, u64) {
        (self.tag, self.txo_and_op)
    }

    /// The row it stands for.
    pub(crate) fn row(&self) -> Row {
        let (lo, op) = (self.txo_and_op >> OP_BITS, Op::from_bits(self.txo_and_op));
        Row { hi: self.tag, lo, value: self.value_sat, op }
    }
}

/// The changes of one cut.
#[derive(Default)]
pub(crate) struct DirtyCoins {
    /// Key and body of each row, in any order.
    arena: Vec<u8>,
    placed: Vec<Placed>,
    /// Unspent rows, in any order.
    pub(crate) unspent: Vec<UnspentChange>,
}

impl DirtyCoins {
    /// Takes the dirty entries of `coins`, which become pending.
    pub(super) fn take(coins: &mut Coins) -> DirtyCoins {
        assert!(coins.pending.is_empty(), "one cut is written at a time");
        let mut out = DirtyCoins::default();
        out.placed.reserve(coins.dirty);
        out.unspent.reserve(coins.dirty + coins.overwritten.len());
        out.arena.reserve(coins.dirty * ROW_BYTES);
        for id in std::mem::take(&mut coins.listed) {
            let entry = coins.table.entry_mut(id);
            let flags = entry.flags() & !LISTED;
            entry.set_flags(flags);
            if flags & DIRTY == 0 {
                continue;
            }
            let offset = out.arena.len();
            out.arena.extend_from_slice(&key_of(&entry.outpoint));
            let coin = entry.coin();
            let (op, after) = match (flags & LIVE != 0, flags & ON_DISK != 0) {
                (true, false) => (Op::Put, flags | ON_DISK),
                (true, true) => (Op::Replace, flags),
                (false, _) => (Op::Delete, flags & !ON_DISK),
            };
            if op.is_live() {
                put_body(&coin, &mut out.arena);
            }
            let value = if op.is_live() { coin.value_sat } else { 0 };
            out.unspent.push(UnspentChange::new(entry.tag, coin.txo_num, value, op));
            let prefix = u64::from_be_bytes(entry.outpoint.txid.0[..8].try_into().expect("eight bytes"));
            out.placed.push(Placed::new(prefix, offset, out.arena.len(), op));
            entry.set_flags(after & !DIRTY | PENDING);
            coins.pending.push(id);
        }
        let gone = std::mem::take(&mut coins.overwritten);
        out.unspent.extend(gone.into_iter().map(|(tag, txo_num)| UnspentChange::new(tag, txo_num, 0, Op::Delete)));
        coins.dirty = 0;
        out
    }

    fn key(&self, placed: &Placed) -> &[u8; COIN_KEY_BYTES] {
        self.arena[placed.range()].first_chunk().expect("a key is there")
    }

    /// Brings the coin rows into the order of their keys.
    pub(crate) fn sort(&mut self) {
        let mut placed = std::mem::take(&mut self.placed);
        placed.sort_unstable_by(|a, b| a.prefix.cmp(&b.prefix).then_with(|| self.key(a).cmp(self.key(b))));
        self.placed = placed;
    }

    /// Coin rows in order, once sorted.
    pub(crate) fn rows(&self) -> impl ExactSizeIterator<Item = CoinRow<'_>> {
        self.placed.iter().map(|placed| {
            let (key, body) = self.arena[placed.range()].split_first_chunk().expect("a key is there");
            CoinRow { key: *key, op: placed.op(), body }
        })
    }

    /// True without a change.
    pub(crate) fn is_empty(&self) -> bool {
        self.placed.is_empty() && self.unspent.is_empty()
    }
}
