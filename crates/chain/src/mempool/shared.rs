//! The mempool among threads: many readers, short writes, signatures judged outside of both.
//!
//! In:     transactions from peers and users, blocks from the writer.
//! Out:    what [`Mempool`] answers; a batch's signatures go to the engine in one call, with no lock held. No script is judged
//!         twice for one question, and none while others wait.
//! Fails:  as [`Mempool::accept`].
//!
//! A reader holds the lock for one question and keeps entries by `Arc`. What it reads is one state: [`Mempool::changes`]
//! and [`Mempool::tip`] say which.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use consensus::script::CountersTotal;
use primitives::{Block, Transaction, Txid};

use super::accept::{Accept, Accepted, Others, Rejected};
use super::base::Base;
use super::blocks::Returning;
use super::entry::{Entry, Reason};
use super::package::{PackageResult, Together};
use super::pool::Mempool;
use super::scripts::{Judged, ScriptMemory, Stop};
use crate::policy::{FeeRate, Reject};

/// Transactions that are judged with the mempool locked, when blocks leave the chain: a millisecond or two.
const SLICE_TXS: usize = 32;
/// Those that are only looked at.
const SLICE_LOOKS: usize = 1_000;

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

    /// As [`Mempool::blocks_disconnected`], but for a few transactions at a time, so that nobody waits long, and with scripts
    /// judged while the mempool is unlocked. What could not be judged because the chain became another one meanwhile waits
    /// for `renewed`, the newest chain; none where the node ends.
    pub fn blocks_disconnected(
        &self,
        blocks: &[Block],
        base: Arc<dyn Base>,
        time_s: u64,
        renewed: &mut dyn FnMut() -> Option<Arc<dyn Base>>,
    ) {
        let returning = Returning::of(blocks, time_s);
        let aside = self.write().begin_return(&returning, base);
        let is_stale = |verdict: &Result<Accepted, Rejected>| {
            verdict.as_ref().is_err_and(|rejected| rejected.reject == Reject::Stale)
        };
        self.in_slices(returning.transactions, renewed, |slice| {
            // Whatever is refused now was valid in a chain that is gone: nobody is told.
            let verdicts = self.accept_all(slice, &returning.how);
            slice.iter().zip(verdicts).filter(|(_, verdict)| is_stale(verdict)).map(|(tx, _)| tx.clone()).collect()
        });
        self.put_back(aside.waiting, renewed);
        let all: Vec<Txid> = self.read().txids().collect();
        let mut invalid = Vec::new();
        for slice in all.chunks(SLICE_LOOKS) {
            invalid.extend(self.read().invalid_among(slice));
        }
        self.write().end_return(&invalid, &aside.standing, time_s);
    }

    /// The chain is another one, and nobody knows by which blocks: everything is judged again by `base`, but for fees and
    /// scripts. A few at a time; `renewed` as in [`SharedMempool::blocks_disconnected`].
    pub fn chain_moved(&self, base: Arc<dyn Base>, time_s: u64, renewed: &mut dyn FnMut() -> Option<Arc<dyn Base>>) {
        self.write().stand_on(base);
        let all: Vec<Txid> = self.read().txids().collect();
        let mut unjudged = Vec::new();
        for slice in all.chunks(SLICE_TXS) {
            unjudged.extend(self.write().judge_again(slice));
        }
        self.put_back(parents_first(unjudged), renewed);
        self.write().end_move(time_s);
    }

    fn put_back(&self, waiting: Vec<Arc<Entry>>, renewed: &mut dyn FnMut() -> Option<Arc<dyn Base>>) {
        let left = self.in_slices(waiting, renewed, |slice| {
            let mut mempool = self.write();
            slice.iter().filter_map(|entry| mempool.put_back(entry.clone())).collect()
        });
        left.into_iter().for_each(|entry| self.write().lose(entry, Reason::Reorg));
    }

    /// Deals with items a few at a time. `deal` returns those to be dealt with once more on a newer chain; what is left of
    /// them when there is none is returned.
    fn in_slices<T>(
        &self,
        mut items: Vec<T>,
        renewed: &mut dyn FnMut() -> Option<Arc<dyn Base>>,
        deal: impl Fn(&[T]) -> Vec<T>,
    ) -> Vec<T> {
        loop {
            items = items.chunks(SLICE_TXS).flat_map(&deal).collect();
            if items.is_empty() {
                return items;
            }
            match renewed() {
                Some(base) => self.write().stand_on(base),
                None => return items,
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

/// The same entries, each after those it spends from.
fn parents_first(mut entries: Vec<Arc<Entry>>) -> Vec<Arc<Entry>> {
    let mut left: HashSet<Txid> = entries.iter().map(|entry| entry.txid).collect();
    let mut ordered = Vec::with_capacity(entries.len());
    while !entries.is_empty() {
        let waits = |entry: &Arc<Entry>| entry.tx().inputs().any(|input| left.contains(&input.outpoint().txid));
        let (waiting, ready): (Vec<_>, Vec<_>) = entries.into_iter().partition(waits);
        ready.iter().for_each(|entry| {
            left.remove(&entry.txid);
        });
        ordered.extend(ready);
        entries = waiting;
    }
    ordered
}
