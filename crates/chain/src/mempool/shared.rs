//! The mempool among threads: many readers, short writes, signatures judged outside of both.
//!
//! In:     transactions from peers and users, blocks from the writer.
//! Out:    what [`Mempool`] answers; a batch's signatures go to the engine in one call, with no lock held. No script is judged
//!         twice for one question, and none while others wait.
//! Fails:  as [`Mempool::accept`].
//!
//! A reader holds the lock for one question and keeps entries by `Arc`. What it reads is one state: [`Mempool::changes`]
//! and [`Mempool::tip`] say which.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use consensus::script::CountersTotal;
use primitives::Transaction;

use super::accept::{Accept, Accepted, Others, Rejected};
use super::package::{PackageResult, Together};
use super::pool::Mempool;
use super::scripts::{Judged, ScriptMemory, Stop};
use crate::policy::FeeRate;

/// A mempool that threads share; cloning it is cheap.
#[derive(Clone)]
pub struct SharedMempool {
    inner: Arc<Inner>,
}

struct Inner {
    mempool: RwLock<Mempool>,
    scripts: Arc<ScriptMemory>,
}

impl SharedMempool {
    /// Shares a mempool.
    pub fn new(mempool: Mempool) -> SharedMempool {
        let scripts = mempool.scripts().clone();
        SharedMempool { inner: Arc::new(Inner { mempool: RwLock::new(mempool), scripts }) }
    }

    /// To read: for one question, not while waiting for anything.
    pub fn read(&self) -> RwLockReadGuard<'_, Mempool> {
        self.inner.mempool.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// True where a thread panicked while it changed the mempool: its tables may contradict each other.
    pub fn is_poisoned(&self) -> bool {
        self.inner.mempool.is_poisoned()
    }

    /// To change: blocks, and what the owner does by hand.
    pub fn write(&self) -> RwLockWriteGuard<'_, Mempool> {
        self.inner.mempool.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one transaction, its signatures judged before the mempool is locked.
    pub fn accept(&self, transaction: &Transaction, how: &Accept) -> Result<Accepted, Rejected> {
        self.accept_all(std::slice::from_ref(transaction), how).remove(0)
    }

    /// Takes transactions in order; a later one may spend from an earlier one. Signatures of all go to the engine together.
    pub fn accept_all(&self, transactions: &[Transaction], how: &Accept) -> Vec<Result<Accepted, Rejected>> {
        self.accept_each(&transactions.iter().map(|transaction| (transaction, *how)).collect::<Vec<_>>())
    }

    /// The same, each in its own way.
    pub fn accept_each(&self, transactions: &[(&Transaction, Accept)]) -> Vec<Result<Accepted, Rejected>> {
        let mut judged = self.prepared(transactions);
        let mut verdicts = Vec::with_capacity(transactions.len());
        loop {
            judged.judge(&self.inner.scripts);
            let mut mempool = self.write();
            while let Some((transaction, how)) = transactions.get(verdicts.len()) {
                match mempool.accept_judged(transaction, how, &mut judged) {
                    Ok(accepted) => verdicts.push(Ok(accepted)),
                    Err(Stop::Rejected(rejected)) => verdicts.push(Err(rejected)),
                    // It got further than before: a parent or a block has come meanwhile.
                    Err(Stop::Unjudged) => break,
                }
            }
            if verdicts.len() == transactions.len() {
                return verdicts;
            }
        }
    }

    /// The scripts that are to be judged, found before the mempool is locked against others.
    fn prepared(&self, transactions: &[(&Transaction, Accept)]) -> Judged {
        let (mempool, mut judged, mut others) = (self.read(), Judged::default(), Others::new());
        for (index, (transaction, how)) in transactions.iter().enumerate() {
            // What is refused here is refused again later, with its reason as of then.
            let _ = mempool.prepare(transaction, &others, how, &mut judged);
            if index + 1 < transactions.len() {
                others.insert(transaction.tx().txid(), (*transaction).clone());
            }
        }
        judged
    }

    /// As [`Mempool::accept_package`].
    pub fn accept_package(&self, txs: &[Transaction], time_s: u64, max_feerate: Option<FeeRate>) -> PackageResult {
        let mut together = Together::new(txs, time_s, max_feerate);
        loop {
            let result = self.write().accept_together(&mut together);
            match result {
                Some(result) => return result,
                None => together.judged.judge(&self.inner.scripts),
            }
        }
    }

    /// As [`Mempool::test_package`].
    pub fn test_package(&self, txs: &[Transaction], time_s: u64) -> PackageResult {
        let mut judged = Judged::default();
        loop {
            let result = self.read().test_together(txs, time_s, &mut judged);
            match result {
                Some(result) => return result,
                None => judged.judge(&self.inner.scripts),
            }
        }
    }

    /// Inputs and signatures judged so far.
    pub fn counters(&self) -> CountersTotal {
        self.inner.scripts.counters()
    }
}
