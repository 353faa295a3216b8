//! What changed in the coins since the last cut, ready to be sorted and written.
//!
//! In:     the table's dirty entries.
//! Out:    coin rows in one piece of memory, and the unspent rows that follow from them.
//! Fails:  never.

use super::set::Coins;
use super::table::{DIRTY, LISTED, LIVE, ON_DISK, PENDING};
use crate::row::{Op, Row};
use crate::segment::{COIN_KEY_BYTES, CoinRow, key_of, put_body};

/// Where a coin row lies in the arena: first eight bytes of its key, then offset and length of its bytes.
#[derive(Clone, Copy)]
struct Placed {
    prefix: u64,
    offset: u64,
    length: u32,
    op: Op,
}

/// The changes of one cut.
#[derive(Default)]
pub(crate) struct DirtyCoins {
    /// Key and body of each row, in any order.
    arena: Vec<u8>,
    placed: Vec<Placed>,
    /// Unspent rows, in any order.
    pub(crate) unspent: Vec<Row>,
}

impl DirtyCoins {
    /// Takes the dirty entries of `coins`, which become pending.
    pub(super) fn take(coins: &mut Coins) -> DirtyCoins {
        assert!(coins.pending.is_empty(), "one cut is written at a time");
        let mut out = DirtyCoins::default();
        out.placed.reserve(coins.dirty);
        out.unspent.reserve(coins.dirty + coins.overwritten.len());
        out.arena.reserve(coins.dirty * 72);
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
            out.unspent.push(Row { hi: entry.tag, lo: coin.txo_num, value, op });
            let prefix = u64::from_be_bytes(entry.outpoint.txid.0[..8].try_into().expect("eight bytes"));
            let length = (out.arena.len() - offset) as u32;
            out.placed.push(Placed { prefix, offset: offset as u64, length, op });
            entry.set_flags(after & !DIRTY | PENDING);
            coins.pending.push(id);
        }
        let gone = std::mem::take(&mut coins.overwritten);
        out.unspent.extend(gone.into_iter().map(|(hi, lo)| Row { hi, lo, value: 0, op: Op::Delete }));
        coins.dirty = 0;
        out
    }

    fn key(&self, placed: &Placed) -> &[u8; COIN_KEY_BYTES] {
        let at = placed.offset as usize;
        self.arena[at..at + COIN_KEY_BYTES].try_into().expect("a key is there")
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
            let body_start = placed.offset as usize + COIN_KEY_BYTES;
            let body_end = placed.offset as usize + placed.length as usize;
            CoinRow { key: *self.key(placed), op: placed.op, body: &self.arena[body_start..body_end] }
        })
    }

    /// True without a change.
    pub(crate) fn is_empty(&self) -> bool {
        self.placed.is_empty() && self.unspent.is_empty()
    }
}
