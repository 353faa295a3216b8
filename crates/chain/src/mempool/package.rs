//! Several transactions at once: a child that pays for its parents, and tests of several.
//!
//! In:     transactions, parents first.
//! Out:    a [`PackageResult`]: a verdict for each, and what is wrong with all of them together.
//! Fails:  inside the result.
//! Source: Bitcoin Core 31, `validation.cpp` (`AcceptPackage`, `AcceptMultipleTransactions`, `PackageRBFChecks`).

use primitives::{Transaction, Tx, Txid, Wtxid};

use super::accept::{Accept, Accepted, Draft, Others, Rejected, Terms};
use super::cluster::{Newcomer, Plan};
use super::entry::{Entry, Reason};
use super::pool::{Mempool, Slot};
use crate::policy::{
    Class, FeeRate, InPackage, PackageReject, Reject, check_package, check_truc_package, is_child_with_parents,
};

/// What became of one transaction of a package.
#[derive(Clone)]
pub enum Verdict {
    /// It is in the mempool now, or would be.
    Valid(Accepted),
    /// It was there before.
    InMempool {
        /// Its size.
        size_vb: u32,
        /// What it pays.
        fee_sat: i64,
    },
    /// One with the same txid and other witnesses was there before.
    DifferentWitness {
        /// That one's wtxid.
        wtxid: Wtxid,
    },
    /// It was refused.
    Invalid(Rejected),
}

/// What became of a package.
#[derive(Clone)]
pub struct PackageResult {
    /// What is wrong with it as a whole.
    pub reject: Option<PackageReject>,
    /// A verdict for each transaction that was looked at, in order.
    pub txs: Vec<(Wtxid, Verdict)>,
}

impl PackageResult {
    fn refused(reject: PackageReject) -> PackageResult {
        PackageResult { reject: Some(reject), txs: Vec::new() }
    }

    fn failed(wtxid: Wtxid, rejected: Rejected) -> PackageResult {
        PackageResult { reject: Some(PackageReject::TransactionFailed), txs: vec![(wtxid, Verdict::Invalid(rejected))] }
    }

    fn verdict(&self, wtxid: &Wtxid) -> Option<&Verdict> {
        self.txs.iter().find(|(known, _)| known == wtxid).map(|(_, verdict)| verdict)
    }
}

fn views(txs: &[Transaction]) -> Vec<Tx<'_>> {
    txs.iter().map(Transaction::tx).collect()
}

impl Mempool {
    /// Judges transactions that may spend from each other, without changing anything; replacements are refused where
    /// there are several (testmempoolaccept).
    pub fn test_package(&mut self, txs: &[Transaction], time_s: u64) -> PackageResult {
        if let [tx] = txs {
            let wtxid = tx.tx().wtxid();
            return match self.accept(tx, &Accept::test_at(time_s)) {
                Ok(accepted) => PackageResult { reject: None, txs: vec![(wtxid, Verdict::Valid(accepted))] },
                Err(rejected) => PackageResult::failed(wtxid, rejected),
            };
        }
        let terms =
            Terms { time_s, bypass_limits: false, package_fees: false, replacement: false, sibling_eviction: false };
        self.several(txs, &terms, None, true)
    }

    /// Takes a child with its parents: each alone where it can stand alone, the rest by what they pay together
    /// (submitpackage, and one parent with one child from a peer).
    pub fn accept_package(&mut self, txs: &[Transaction], time_s: u64, max_feerate: Option<FeeRate>) -> PackageResult {
        if let Err(reject) = check_package(&views(txs)) {
            return PackageResult::refused(reject);
        }
        if txs.len() > 1 && !is_child_with_parents(&views(txs)) {
            return PackageResult::refused(PackageReject::NotChildWithParents);
        }
        let how = Accept { max_feerate, ..Accept::at(time_s) };
        let (mut alone, mut together, mut quit) = (Vec::new(), Vec::new(), false);
        for tx in txs {
            let verdict = self.alone(tx, &how);
            if let Verdict::Invalid(rejected) = &verdict {
                let class = rejected.reject.class();
                match txs.len() > 1 && matches!(class, Class::Reconsiderable | Class::MissingInputs) {
                    true => together.push(tx.clone()),
                    false => quit = true,
                }
            }
            alone.push((tx.tx().wtxid(), verdict));
        }
        let mut result = PackageResult { reject: quit.then_some(PackageReject::TransactionFailed), txs: Vec::new() };
        if !quit && together.len() > 1 {
            let terms =
                Terms { time_s, bypass_limits: false, package_fees: true, replacement: true, sibling_eviction: false };
            result = self.several(&together, &terms, max_feerate, false);
        } else if !quit && let [tx] = &together[..] {
            // Its parents came in meanwhile: it is judged again on its own.
            let verdict = self.alone(tx, &how);
            let failed = matches!(verdict, Verdict::Invalid(_));
            result.reject = failed.then_some(PackageReject::TransactionFailed);
            result.txs.push((tx.tx().wtxid(), verdict));
        }
        self.limit(time_s);
        self.merge_results(txs, alone, result)
    }

    /// One transaction of a package on its own; memory is looked at when all are done.
    fn alone(&mut self, transaction: &Transaction, how: &Accept) -> Verdict {
        let tx = transaction.tx();
        if let Some(entry) = self.get_by_wtxid(&tx.wtxid()) {
            return Verdict::InMempool { size_vb: entry.size_vb(), fee_sat: entry.fee_sat };
        }
        if let Some(entry) = self.get(&tx.txid()) {
            return Verdict::DifferentWitness { wtxid: entry.wtxid };
        }
        let evaluated = self.evaluate(transaction, &Terms::single(how), how.max_feerate);
        let checked = evaluated.and_then(|(draft, plan)| {
            self.check_scripts(&draft.entry)?;
            Ok((draft, plan))
        });
        match checked {
            Ok((draft, plan)) => {
                let effective = (draft.feerate(), vec![draft.entry.wtxid]);
                Verdict::Valid(self.submit(vec![draft], plan, effective).remove(0).1)
            }
            Err(rejected) => Verdict::Invalid(rejected),
        }
    }

    /// What each transaction is told in the end: evicted ones are told so.
    fn merge_results(
        &self,
        txs: &[Transaction],
        alone: Vec<(Wtxid, Verdict)>,
        mut result: PackageResult,
    ) -> PackageResult {
        let mut merged = Vec::with_capacity(txs.len());
        for (tx, (wtxid, first)) in txs.iter().zip(alone) {
            let verdict = result.verdict(&wtxid).cloned().unwrap_or(first);
            let gone = !matches!(verdict, Verdict::Invalid(_)) && self.get(&tx.tx().txid()).is_none();
            let verdict = if gone { Verdict::Invalid(Reject::MempoolFull.into()) } else { verdict };
            if gone {
                result.reject = Some(PackageReject::TransactionFailed);
            }
            merged.push((wtxid, verdict));
        }
        PackageResult { reject: result.reject, txs: merged }
    }

    /// Several at once, none of which is here.
    fn several(
        &mut self,
        txs: &[Transaction],
        terms: &Terms,
        max_feerate: Option<FeeRate>,
        test: bool,
    ) -> PackageResult {
        if let Err(reject) = check_package(&views(txs)) {
            return PackageResult::refused(reject);
        }
        let mut drafts: Vec<Draft> = Vec::with_capacity(txs.len());
        for tx in txs {
            let draft = self.draft(tx, terms, &drafts, &Others::new()).and_then(|draft| {
                let too_high = max_feerate.is_some_and(|most| draft.feerate() > most);
                if too_high { Err(Reject::MaxFeeRate.into()) } else { Ok(draft) }
            });
            match draft {
                Ok(draft) => drafts.push(draft),
                Err(rejected) => return PackageResult::failed(tx.tx().wtxid(), rejected),
            }
        }
        let together = match self.judge_together(&drafts, terms) {
            Ok(together) => together,
            Err(result) => return result,
        };
        for draft in &drafts {
            if let Err(reject) = self.check_scripts(&draft.entry) {
                return PackageResult::failed(draft.entry.wtxid, reject.into());
            }
        }
        let (plan, effective) = together;
        let txs = if test {
            let alone = |draft: &Draft| {
                let Entry { txid, wtxid, fee_sat, .. } = draft.entry;
                let (size_vb, effective) = (draft.size_vb(), draft.feerate());
                let effective_with = vec![wtxid];
                let replaced = Vec::new();
                let accepted = Accepted { txid, wtxid, size_vb, fee_sat, effective, effective_with, replaced };
                (wtxid, Verdict::Valid(accepted))
            };
            drafts.iter().map(alone).collect()
        } else {
            let submitted = self.submit(drafts, plan, effective);
            submitted.into_iter().map(|(wtxid, accepted)| (wtxid, Verdict::Valid(accepted))).collect()
        };
        PackageResult { reject: None, txs }
    }

    /// Rules about all of them: version 3, fees together, replacement, clusters, dust.
    #[allow(clippy::type_complexity, reason = "a plan, a feerate and whose it is")]
    fn judge_together(&self, drafts: &[Draft], terms: &Terms) -> Result<(Plan, (FeeRate, Vec<Wtxid>)), PackageResult> {
        let inside: Vec<InPackage<'_>> = drafts
            .iter()
            .map(|draft| InPackage {
                tx: draft.entry.tx(),
                txid: draft.entry.txid,
                size_vb: draft.size_vb(),
                parents: self.relatives(draft),
            })
            .collect();
        for index in 0..inside.len() {
            let checked = check_truc_package(&inside, index);
            checked.map_err(|breach| PackageResult::refused(PackageReject::Truc(breach.text)))?;
        }
        let size_vb = drafts.iter().map(Draft::size_vb).sum();
        let fee_sat = drafts.iter().fold(0, |sum: i64, draft| sum.saturating_add(draft.modified_fee_sat));
        let wtxids: Vec<Wtxid> = drafts.iter().map(|draft| draft.entry.wtxid).collect();
        let effective = (FeeRate::of(fee_sat, size_vb), wtxids);
        if terms.package_fees
            && let Err(reject) = self.check_feerate(fee_sat, size_vb, terms.time_s)
        {
            let last = *effective.1.last().expect("a package is not empty");
            return Err(PackageResult::failed(last, Rejected { reject, effective: Some(effective) }));
        }
        let newcomers: Vec<Newcomer> = drafts.iter().map(Draft::newcomer).collect();
        let mut conflicts: Vec<Slot> = drafts.iter().flat_map(|draft| draft.conflicts.iter().copied()).collect();
        let plan = if conflicts.is_empty() {
            self.plan(&[], &newcomers, &[]).map_err(|_| PackageReject::TooLargeCluster)
        } else {
            conflicts.sort_unstable();
            conflicts.dedup();
            self.package_replacement(drafts, &newcomers, &conflicts, fee_sat, size_vb)
        };
        let plan = plan.map_err(PackageResult::refused)?;
        if self.policy.require_standard {
            let entries: Vec<&Entry> = drafts.iter().map(|draft| &draft.entry).collect();
            for entry in &entries {
                self.check_dust_is_spent(entry, &entries).map_err(|reject| PackageResult {
                    reject: Some(PackageReject::UnspentDust),
                    txs: vec![(entry.wtxid, Verdict::Invalid(reject.into()))],
                })?;
            }
        }
        Ok((plan, effective))
    }

    /// One parent and one child take the place of others (Core: `PackageRBFChecks`).
    fn package_replacement(
        &self,
        drafts: &[Draft],
        newcomers: &[Newcomer],
        conflicts: &[Slot],
        fee_sat: i64,
        size_vb: u32,
    ) -> Result<Plan, PackageReject> {
        use PackageReject::Replacement;
        let [parent, _] = drafts else {
            return Err(Replacement("package RBF failed: package must be 1-parent-1-child"));
        };
        if drafts.iter().any(|draft| draft.parents.iter().any(|kin| matches!(kin, super::cluster::Kin::Old(_)))) {
            return Err(Replacement("package RBF failed: new transaction cannot have mempool ancestors"));
        }
        let removed = self.all_conflicts(conflicts);
        let removed = removed.map_err(|_| Replacement("package RBF failed: too many potential replacements"))?;
        if fee_sat < self.fees_sat(&removed).saturating_add(self.policy.incremental.fee_sat(size_vb)) {
            return Err(Replacement("package RBF failed: insufficient anti-DoS fees"));
        }
        if FeeRate::of(fee_sat, size_vb) <= parent.feerate() {
            return Err(Replacement("package RBF failed: package feerate is less than or equal to parent feerate"));
        }
        let plan = self.plan(&removed, newcomers, &[]).map_err(|_| PackageReject::TooLargeCluster)?;
        if !self.improves(&plan) {
            return Err(Replacement("package RBF failed: insufficient feerate: does not improve feerate diagram"));
        }
        Ok(plan)
    }

    /// Puts drafts into the mempool; the first one is told what they replaced.
    fn submit(
        &mut self,
        drafts: Vec<Draft>,
        plan: Plan,
        (effective, effective_with): (FeeRate, Vec<Wtxid>),
    ) -> Vec<(Wtxid, Accepted)> {
        let told: Vec<(Txid, Wtxid, u32, i64)> =
            drafts.iter().map(|d| (d.entry.txid, d.entry.wtxid, d.size_vb(), d.entry.fee_sat)).collect();
        let arrivals = drafts.into_iter().map(|draft| draft.arrival(false, true)).collect();
        let mut replaced = self.apply(plan, arrivals, Some(Reason::Replaced));
        let accepted = |(txid, wtxid, size_vb, fee_sat)| {
            let (effective_with, replaced) = (effective_with.clone(), std::mem::take(&mut replaced));
            (wtxid, Accepted { txid, wtxid, size_vb, fee_sat, effective, effective_with, replaced })
        };
        told.into_iter().map(accepted).collect()
    }
}
