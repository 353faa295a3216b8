//! Rows of the numbered tables: what a segment keeps beside coins.
//!
//! In:     numbers.
//! Out:    [`Row`], [`Table`] and [`Op`], and a [`Batch`] that gathers rows until a cut.
//! Fails:  never.

use primitives::{TxNum, TxoNum};

/// The tables of a segment that map two numbers to a third.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// `hi` = script tag, `lo` = TxNum, no value: every transaction that funds or spends a script.
    History,
    /// `hi` = script tag, `lo` = TxoNum, value = amount in satoshi: outputs of a script not yet spent.
    Unspent,
    /// `hi` = first five bytes of the txid as a big-endian number, `lo` = TxNum, no value.
    Txid,
    /// `hi` = TxoNum, `lo` = 0, value = TxNum of the transaction that spends it.
    Spender,
}

impl Table {
    /// Every table, in the order of their sections.
    pub const ALL: [Table; 4] = [Table::History, Table::Unspent, Table::Txid, Table::Spender];
}

/// What a row says about its key. The numbers are those of the file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    /// The key has this value; no older segment holds the key alive.
    Put = 0,
    /// The key has this value, and an older segment may hold it too.
    Replace = 1,
    /// The key is gone.
    Delete = 2,
    /// Older segments hold nothing valid for this `hi` (table `Unspent` only; `lo` is 0).
    Reset = 3,
}

impl Op {
    /// The operation with this number.
    pub fn from_bits(bits: u64) -> Op {
        match bits & 3 {
            0 => Op::Put,
            1 => Op::Replace,
            2 => Op::Delete,
            _ => Op::Reset,
        }
    }

    /// True for [`Op::Put`] and [`Op::Replace`].
    pub fn is_live(self) -> bool {
        matches!(self, Op::Put | Op::Replace)
    }
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// First part of the key.
    pub hi: u64,
    /// Second part of the key; below 2^40.
    pub lo: u64,
    /// Value; 0 in tables without one and in rows that delete.
    pub value: u64,
    /// What the row says.
    pub op: Op,
}

/// Rows gathered since the last cut, in any order.
///
/// Unspent rows are not here: they are derived from the coins at the cut.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Script tag and transaction; adding one twice is the same as once.
    pub history: Vec<(u64, TxNum)>,
    /// First five bytes of a txid and its transaction.
    pub txid: Vec<(u64, TxNum)>,
    /// Output and the transaction that spends it.
    pub spender: Vec<(TxoNum, TxNum)>,
    /// History rows of disconnected blocks that an earlier cut wrote.
    pub history_deleted: Vec<(u64, TxNum)>,
    /// Txid rows of disconnected blocks that an earlier cut wrote.
    pub txid_deleted: Vec<(u64, TxNum)>,
    /// Spender rows of disconnected blocks that an earlier cut wrote.
    pub spender_deleted: Vec<TxoNum>,
}

impl Batch {
    /// Takes back the rows of transactions from `tx_num` on: their blocks were disconnected before any cut.
    pub fn drop_from(&mut self, tx_num: TxNum) {
        self.history.retain(|row| row.1 < tx_num);
        self.txid.retain(|row| row.1 < tx_num);
        self.spender.retain(|row| row.1 < tx_num);
    }

    /// Bytes the rows take in memory.
    pub fn bytes(&self) -> usize {
        16 * (self.history.capacity()
            + self.txid.capacity()
            + self.spender.capacity()
            + self.history_deleted.capacity()
            + self.txid_deleted.capacity())
            + 8 * self.spender_deleted.capacity()
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.history.len()
            + self.txid.len()
            + self.spender.len()
            + self.history_deleted.len()
            + self.txid_deleted.len()
            + self.spender_deleted.len()
    }
}
