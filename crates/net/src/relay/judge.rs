//! The program's mempool as the hub asks it, and its verdicts.
//!
//! In:     a [`SharedMempool`]; jobs of the hub.
//! Out:    answers; verdicts, for [`crate::hub::Hub::txs_judged`].
//! Fails:  never.

use std::sync::Arc;

use chain::mempool::{Accept, Entry, SharedMempool};
use chain::policy::FeeRate;
use primitives::{Transaction, Txid, Wtxid};

use super::pool::{Offer, Pool};
use super::queue::{TxJob, TxVerdict};
use super::requests::TxName;
use crate::wire::Ids;

/// Judges jobs, in order but for packages, which come last; to be called where nobody waits for it.
pub fn judge(mempool: &SharedMempool, jobs: Vec<TxJob>, time_s: u64) -> Vec<(TxJob, TxVerdict)> {
    let (alone, packages): (Vec<TxJob>, Vec<TxJob>) =
        jobs.into_iter().partition(|job| matches!(job, TxJob::One { .. }));
    let of = |job: &TxJob| match job {
        TxJob::One { tx, .. } => tx.clone(),
        TxJob::Package { child, .. } => child.clone(),
    };
    let txs: Vec<Transaction> = alone.iter().map(of).collect();
    let verdicts = match txs.is_empty() {
        true => Vec::new(),
        false => mempool.accept_all(&txs, &Accept::at(time_s)),
    };
    let alone = alone.into_iter().zip(verdicts.into_iter().map(TxVerdict::One));
    let together = |job: TxJob| {
        let TxJob::Package { parent, child, .. } = &job else { unreachable!("the others were taken out above") };
        let result = mempool.accept_package(&[parent.clone(), child.clone()], time_s, None::<FeeRate>);
        (job, TxVerdict::Package(result))
    };
    alone.chain(packages.into_iter().map(together)).collect()
}

fn offer(entry: &Arc<Entry>) -> Offer {
    let (size_vb, bytes) = (entry.size_vb(), entry.tx().raw().len());
    Offer { txid: entry.txid, wtxid: entry.wtxid, fee_sat: entry.fee_sat, size_vb, bytes }
}

impl Pool for SharedMempool {
    fn has(&self, name: &TxName) -> bool {
        match name {
            TxName::Txid(txid) => self.read().get(txid).is_some(),
            TxName::Wtxid(wtxid) => self.read().get_by_wtxid(wtxid).is_some(),
        }
    }

    fn get(&self, name: &TxName, sequence: u64) -> Option<Transaction> {
        let mempool = self.read();
        let entry = match name {
            TxName::Txid(txid) => mempool.get(txid),
            TxName::Wtxid(wtxid) => mempool.get_by_wtxid(wtxid),
        };
        Some(entry.filter(|entry| entry.sequence < sequence)?.transaction.clone())
    }

    fn sequence(&self) -> u64 {
        self.read().sequence()
    }

    fn minimum_sat_per_kvb(&self, now_s: u64) -> i64 {
        self.read().minimum(now_s).sat_per_kvb()
    }

    fn policy_sat_per_kvb(&self) -> (i64, i64) {
        let mempool = self.read();
        (mempool.policy().min_relay.sat_per_kvb(), mempool.policy().incremental.sat_per_kvb())
    }

    fn sorted(&self, wtxids: &[Wtxid]) -> Vec<Offer> {
        let mempool = self.read();
        let here = wtxids.iter().filter_map(|wtxid| mempool.get_by_wtxid(wtxid));
        let mut txids: Vec<Txid> = here.map(|entry| entry.txid).collect();
        txids.sort_unstable();
        txids.dedup();
        mempool.sort_for_relay(&mut txids);
        txids.iter().filter_map(|txid| mempool.get(txid)).map(offer).collect()
    }

    fn all(&self) -> Vec<Offer> {
        self.read().entries().map(offer).collect()
    }

    fn unbroadcast(&self) -> Vec<Wtxid> {
        let mempool = self.read();
        mempool.unbroadcast().filter_map(|txid| mempool.get(txid)).map(|entry| entry.wtxid).collect()
    }

    fn asked_for(&mut self, txid: &Txid) {
        // Most are not of our own: the lock that others wait for is taken for those only.
        let is_own = self.read().unbroadcast().any(|own| own == txid);
        if is_own {
            self.write().broadcast(txid);
        }
    }

    fn find(&self, wanted: &mut dyn FnMut(&Wtxid) -> bool) -> Vec<(Ids, Transaction)> {
        let mempool = self.read();
        let found: Vec<Wtxid> = mempool.wtxids().filter(|wtxid| wanted(wtxid)).copied().collect();
        let transaction = |wtxid: Wtxid| {
            let entry = mempool.get_by_wtxid(&wtxid)?;
            Some((Ids { txid: entry.txid, wtxid }, entry.transaction.clone()))
        };
        found.into_iter().filter_map(transaction).collect()
    }
}
