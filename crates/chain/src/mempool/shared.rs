//! The mempool among threads: many readers, short writes, signatures judged outside of both.
//!
//! In:     transactions from peers and users, blocks from the writer.
//! Out:    what [`Mempool`] answers; a batch's signatures go to the engine in one call, with no lock held.
//! Fails:  as [`Mempool::accept`].
//!
//! A reader holds the lock for one question and keeps entries by `Arc`. What it reads is one state: [`Mempool::changes`]
//! and [`Mempool::tip`] say which.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use consensus::script::{Counters, CountersTotal, TxJob, verify_txs};
use primitives::Transaction;
use sigs::Engine;

use super::accept::{Accept, Accepted, Others, Rejected, ScriptWork};
use super::pool::Mempool;

/// A mempool that threads share; cloning it is cheap.
#[derive(Clone)]
pub struct SharedMempool {
    inner: Arc<Inner>,
}

struct Inner {
    mempool: RwLock<Mempool>,
    engine: Arc<dyn Engine>,
    counters: Counters,
}

impl SharedMempool {
    /// Shares a mempool.
    pub fn new(mempool: Mempool) -> SharedMempool {
        let engine = mempool.engine.clone();
        SharedMempool {
            inner: Arc::new(Inner { mempool: RwLock::new(mempool), engine, counters: Counters::default() }),
        }
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
        let works: Vec<ScriptWork> = {
            let mempool = self.read();
            // What is refused here is refused again below, with its reason as of then.
            let mut others = Others::new();
            let mut works = Vec::with_capacity(transactions.len());
            for (index, (transaction, how)) in transactions.iter().enumerate() {
                works.extend(mempool.prepare(transaction, &others, how).ok().flatten());
                if index + 1 < transactions.len() {
                    others.insert(transaction.tx().txid(), (*transaction).clone());
                }
            }
            works
        };
        let jobs: Vec<TxJob<'_>> = works.iter().map(ScriptWork::job).collect();
        let verdicts = verify_txs(&jobs, &*self.inner.engine, &self.inner.counters);
        let mut mempool = self.write();
        for (work, verdict) in works.iter().zip(verdicts) {
            if verdict.is_ok() {
                mempool.remember(work);
            }
        }
        transactions.iter().map(|(transaction, how)| mempool.accept(transaction, how)).collect()
    }

    /// Inputs and signatures judged so far.
    pub fn counters(&self) -> CountersTotal {
        self.inner.counters.total()
    }
}
