//! One transaction of the mempool, and what is told about it to others.
//!
//! In:     a transaction that passed every rule, the coins it spends.
//! Out:    [`Entry`], immutable and shared; [`Event`]s.
//! Fails:  never.

use std::fmt;
use std::sync::Arc;

use primitives::{BlockHash, ScriptHash, SpentCoins, Transaction, Tx, Txid, Wtxid};

use crate::policy::vsize;

/// Height of a coin whose transaction is unconfirmed.
pub const UNCONFIRMED: u32 = u32::MAX;

/// A transaction of the mempool.
pub struct Entry {
    /// The transaction.
    pub transaction: Transaction,
    /// Its txid.
    pub txid: Txid,
    /// Its wtxid.
    pub wtxid: Wtxid,
    /// What its inputs spend; coins of unconfirmed transactions are at height [`UNCONFIRMED`], as of when it came.
    pub coins: SpentCoins,
    /// What it pays, without what its owner has added by hand.
    pub fee_sat: i64,
    /// BIP 141 weight.
    pub weight: u32,
    /// Weight, or what its signature operations weigh where that is more.
    pub adjusted_weight: u32,
    /// Its signature operation cost.
    pub sigop_cost: u64,
    /// When it came, seconds since 1970.
    pub time_s: u64,
    /// Height of the tip when it came.
    pub height: u32,
    /// The mempool's sequence when it came; 0 for one that came back out of a block.
    pub sequence: u64,
    /// Spends a coinbase, so that a reorganisation may make it immature.
    pub spends_coinbase: bool,
    /// Has a relative lock, so that a reorganisation may lock it.
    pub relative_locks: bool,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} sat for {} vB)", self.txid, self.fee_sat, self.size_vb())
    }
}

impl Entry {
    /// The view of its bytes.
    pub fn tx(&self) -> Tx<'_> {
        self.transaction.tx()
    }

    /// Its size as fees are measured by: signature operations count (Core: `GetTxSize`).
    pub fn size_vb(&self) -> u32 {
        vsize(self.adjusted_weight)
    }

    /// Hashes of the scripts it spends from, then of those it pays to; may repeat.
    pub fn script_hashes(&self) -> impl Iterator<Item = ScriptHash> + '_ {
        let spent = self.coins.iter().map(|coin| ScriptHash::of(coin.script));
        spent.chain(self.tx().outputs().map(|output| ScriptHash::of(output.script)))
    }

    /// Bytes of memory it holds, itself included, as allocators round them.
    pub(super) fn bytes(&self) -> u64 {
        let tx = self.tx();
        let scripts: usize = self.coins.iter().map(|coin| coin.script.len()).sum();
        // The parsed transaction: its bytes, and offsets of 28, 16 and 12 bytes for itself, inputs and outputs.
        let parts = [
            16 + size_of::<Entry>(),
            16 + size_of::<Vec<u8>>(),
            tx.raw().len(),
            16 + 3 * size_of::<Vec<u8>>(),
            28 * 4,
            16 * tx.input_count().max(4),
            12 * tx.output_count().max(4),
            32 * tx.input_count(),
            scripts.max(28 * tx.input_count()),
        ];
        parts.into_iter().map(allocated).sum()
    }
}

/// What an allocation of so many bytes takes (Core: `MallocUsage`).
pub(super) fn allocated(bytes: usize) -> u64 {
    if bytes == 0 { 0 } else { (bytes as u64 + 31) / 16 * 16 }
}

/// Why a transaction left the mempool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It stayed longer than it may.
    Expiry,
    /// Others pay more, and memory is full.
    SizeLimit,
    /// The chain was reorganised and it is no longer valid.
    Reorg,
    /// It is in a block.
    Block,
    /// A block spends what it spends.
    Conflict,
    /// Another transaction took its place.
    Replaced,
}

impl Reason {
    /// Bitcoin Core's word (`RemovalReasonToString`).
    pub fn name(self) -> &'static str {
        match self {
            Reason::Expiry => "expiry",
            Reason::SizeLimit => "sizelimit",
            Reason::Reorg => "reorg",
            Reason::Block => "block",
            Reason::Conflict => "conflict",
            Reason::Replaced => "replaced",
        }
    }
}

/// Something changed.
#[derive(Clone)]
pub enum Event {
    /// A transaction came.
    Added {
        /// It.
        entry: Arc<Entry>,
        /// The mempool's sequence number of the change.
        sequence: u64,
        /// Whether fees may be learnt from it: it came alone, with no unconfirmed parent, while nothing was bypassed.
        estimable: bool,
        /// Whether peers are to hear of it: not what came out of a file or a disconnected block.
        announce: bool,
    },
    /// One that is here already was offered again by a user: peers that do not know it are to hear of it.
    Offered {
        /// It.
        entry: Arc<Entry>,
    },
    /// A transaction left.
    Removed {
        /// It.
        entry: Arc<Entry>,
        /// Why.
        reason: Reason,
        /// The mempool's sequence number of the change.
        sequence: u64,
    },
    /// One that stays has lost its last unconfirmed parent to a block, or has one again after a reorganisation: the Electrum
    /// protocol shows it at another height.
    Shifted {
        /// It.
        entry: Arc<Entry>,
    },
    /// Every change that a block makes has been told.
    Block {
        /// Its height; for a reorganisation that of the new tip.
        height: u32,
        /// Its hash.
        hash: BlockHash,
    },
}
