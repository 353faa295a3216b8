//! The program's mempool as the hub asks it, and its verdicts.
//!
//! In:     a [`SharedMempool`]; jobs of the hub.
//! Out:    answers; verdicts, for [`crate::hub::Hub::txs_judged`].
//! Fails:  never.
//!
//! Between a reorganisation and the mempool's turn its coins cannot be read.

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

/// The same, and again where the chain was reorganised under the mempool, until the mempool has followed or `pause` says that
/// it is not to be waited for any longer: no verdict, and nothing to remember against a transaction.
pub fn judge_followed(
    mempool: &SharedMempool,
    mut jobs: Vec<TxJob>,
    time_s: u64,
    mut pause: impl FnMut() -> bool,
) -> Vec<(TxJob, TxVerdict)> {
    let mut judged = Vec::new();
    loop {
        let (stale, done): (Vec<_>, Vec<_>) = judge(mempool, jobs, time_s).into_iter().partition(|(_, v)| v.is_stale());
        judged.extend(done);
        if stale.is_empty() || !pause() {
            judged.extend(stale);
            return judged;
        }
        jobs = stale.into_iter().map(|(job, _)| job).collect();
    }
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

#[cfg(test)]
mod tests {
    use chain::mempool::Base;
    use chain::policy::Reject;
    use chain::{Tip, ViewError};
    use primitives::{OutPoint, Params};
    use store::CoinBuf;

    use super::*;
    use crate::hub::stranger_tests::simple;
    use crate::peer::PeerId;
    use crate::trials::network_tests::{Ledger, pool};

    /// A chain that was reorganised: its coins cannot be read.
    struct Gone(Ledger);

    impl Base for Gone {
        fn tip(&self) -> Tip {
            self.0.tip()
        }
        fn params(&self) -> &Params {
            self.0.params()
        }
        fn coin(&self, _: &OutPoint) -> Result<Option<CoinBuf>, ViewError> {
            Err(ViewError::Stale)
        }
        fn median_time_past_s(&self, height: u32) -> Result<u32, ViewError> {
            self.0.median_time_past_s(height)
        }
    }

    #[test]
    fn what_nobody_can_judge_is_judged_again_when_the_mempool_has_followed() {
        let mempool = pool(10);
        let leave = || mempool.chain_moved(Arc::new(Gone(Ledger::new(10))), 1, &mut || None);
        let job = |number| TxJob::One { tx: simple(number), from: PeerId(1), is_orphan: false };
        leave();
        let mut pauses = 0;
        let verdicts = judge_followed(&mempool, vec![job(1), job(2)], 1, || {
            pauses += 1;
            if pauses == 3 {
                mempool.chain_moved(Arc::new(Ledger::new(10)), 1, &mut || None);
            }
            true
        });
        assert_eq!((verdicts.len(), pauses, mempool.read().len()), (2, 3, 2));
        assert!(verdicts.iter().all(|(_, verdict)| matches!(verdict, TxVerdict::One(Ok(_)))));
        // Whoever stops waiting says so, and not that the transaction is bad.
        leave();
        let verdicts = judge_followed(&mempool, vec![job(3)], 1, || false);
        let TxVerdict::One(Err(rejected)) = &verdicts[0].1 else { panic!("the chain cannot be read") };
        assert_eq!(rejected.reject, Reject::Stale);
    }
}
