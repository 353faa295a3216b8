//! What is asked of the mempool.
//!
//! In:     identifiers.
//! Out:    answers that cost no more than a look into memory.
//! Fails:  never.
//!
//! Narrow on purpose, as `hub::Chain` is: the program answers by [`chain::mempool::SharedMempool`], a test by what it likes.

use primitives::{Transaction, Txid, Wtxid};

use super::requests::TxName;
use crate::wire::Ids;

/// A transaction, as far as an announcement needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Its txid.
    pub txid: Txid,
    /// Its wtxid.
    pub wtxid: Wtxid,
    /// What it pays.
    pub fee_sat: i64,
    /// Its size as fees are measured by.
    pub size_vb: u32,
    /// Its bytes, witnesses included.
    pub bytes: usize,
}

/// A mempool, as the hub sees it.
pub trait Pool: Send {
    /// True where the transaction is here; by its wtxid only with the same witnesses.
    fn has(&self, name: &TxName) -> bool;
    /// The transaction, if it came before `sequence`, or back out of a block.
    fn get(&self, name: &TxName, sequence: u64) -> Option<Transaction>;
    /// Number of the next change.
    fn sequence(&self) -> u64;
    /// The least feerate that is taken alone, in satoshi for 1,000 virtual bytes.
    fn minimum_sat_per_kvb(&self, now_s: u64) -> i64;
    /// The feerate below which nothing is relayed, and the step of the rolling minimum.
    fn policy_sat_per_kvb(&self) -> (i64, i64);
    /// Those of the transactions that are here, once each, in the order in which a miner would take them.
    fn sorted(&self, wtxids: &[Wtxid]) -> Vec<Offer>;
    /// All transactions in that order.
    fn all(&self) -> Vec<Offer>;
    /// Transactions of our own that no peer has asked for yet.
    fn unbroadcast(&self) -> Vec<Wtxid>;
    /// A peer has asked for it.
    fn asked_for(&mut self, txid: &Txid);
    /// Transactions that `wanted` says yes to, after it was asked about all.
    fn find(&self, wanted: &mut dyn FnMut(&Wtxid) -> bool) -> Vec<(Ids, Transaction)>;
}

/// No mempool: for nodes that relay nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPool;

impl Pool for NoPool {
    fn has(&self, _: &TxName) -> bool {
        false
    }

    fn get(&self, _: &TxName, _: u64) -> Option<Transaction> {
        None
    }

    fn sequence(&self) -> u64 {
        1
    }

    fn minimum_sat_per_kvb(&self, _: u64) -> i64 {
        0
    }

    fn policy_sat_per_kvb(&self) -> (i64, i64) {
        (0, 0)
    }

    fn sorted(&self, _: &[Wtxid]) -> Vec<Offer> {
        Vec::new()
    }

    fn all(&self) -> Vec<Offer> {
        Vec::new()
    }

    fn unbroadcast(&self) -> Vec<Wtxid> {
        Vec::new()
    }

    fn asked_for(&mut self, _: &Txid) {}

    fn find(&self, _: &mut dyn FnMut(&Wtxid) -> bool) -> Vec<(Ids, Transaction)> {
        Vec::new()
    }
}
