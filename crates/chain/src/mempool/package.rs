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
use super::scripts::{Judged, Stop};
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

/// A feerate, and the transactions it is of.
type Effective = (FeeRate, Vec<Wtxid>);
/// Transactions that may come together, what the clusters would be, and what they pay.
type Several = (Vec<Draft>, Plan, Effective);

/// A package on its way into the mempool.
pub(super) struct Together<'a> {
    txs: &'a [Transaction],
    how: Accept,
    /// What became of the first ones alone.
    alone: Vec<(Wtxid, Verdict)>,
    pub judged: Judged,
}

impl<'a> Together<'a> {
    pub fn new(txs: &'a [Transaction], time_s: u64, max_feerate: Option<FeeRate>) -> Together<'a> {
        let how = Accept { max_feerate, ..Accept::at(time_s) };
        Together { txs, how, alone: Vec::new(), judged: Judged::default() }
    }
}

/// The verdict on one that passed everything and stays outside.
fn valid(draft: &Draft) -> (Wtxid, Verdict) {
    (draft.entry.wtxid, Verdict::Valid(draft.accepted(Vec::new())))
}

fn views(txs: &[Transaction]) -> Vec<Tx<'_>> {
    txs.iter().map(Transaction::tx).collect()
}

impl Mempool {
    /// Judges transactions that may spend from each other, without changing anything; replacements are refused where
    /// there are several (testmempoolaccept).
    pub fn test_package(&self, txs: &[Transaction], time_s: u64) -> PackageResult {
        let mut judged = Judged::default();
        loop {
            match self.test_together(txs, time_s, &mut judged) {
                Some(result) => return result,
                None => judged.judge(&self.scripts),
            }
        }
    }

    /// The same, by what is known of scripts; none where that is not enough.
    pub(super) fn test_together(&self, txs: &[Transaction], time_s: u64, judged: &mut Judged) -> Option<PackageResult> {
        if let [tx] = txs {
            let wtxid = tx.tx().wtxid();
            return match self.test_judged(tx, &Accept::test_at(time_s), judged) {
                Ok(accepted) => Some(PackageResult { reject: None, txs: vec![(wtxid, Verdict::Valid(accepted))] }),
                Err(Stop::Rejected(rejected)) => Some(PackageResult::failed(wtxid, rejected)),
                Err(Stop::Unjudged) => None,
            };
        }
        let terms =
            Terms { time_s, bypass_limits: false, package_fees: false, replacement: false, sibling_eviction: false };
        let drafts = match self.several(txs, &terms, None, judged)? {
            Ok((drafts, _, _)) => drafts,
            Err(result) => return Some(result),
        };
        Some(PackageResult { reject: None, txs: drafts.iter().map(valid).collect() })
    }

    /// Takes a child with its parents: each alone where it can stand alone, the rest by what they pay together
    /// (submitpackage, and one parent with one child from a peer). Whoever shares the mempool has
    /// [`super::SharedMempool::accept_package`].
    pub fn accept_package(&mut self, txs: &[Transaction], time_s: u64, max_feerate: Option<FeeRate>) -> PackageResult {
        let mut together = Together::new(txs, time_s, max_feerate);
        loop {
            match self.accept_together(&mut together) {
                Some(result) => return result,
                None => together.judged.judge(&self.scripts),
            }
        }
    }

    /// Goes on with a package as far as what is known of scripts allows; none where that is not to the end.
    pub(super) fn accept_together(&mut self, work: &mut Together<'_>) -> Option<PackageResult> {
        let (txs, how) = (work.txs, work.how);
        if let Err(reject) = check_package(&views(txs)) {
            return Some(PackageResult::refused(reject));
        }
        if txs.len() > 1 && !is_child_with_parents(&views(txs)) {
            return Some(PackageResult::refused(PackageReject::NotChildWithParents));
        }
        while let Some(tx) = txs.get(work.alone.len()) {
            let verdict = self.alone(tx, &how, &mut work.judged)?;
            work.alone.push((tx.tx().wtxid(), verdict));
        }
        let (mut together, mut quit) = (Vec::new(), false);
        for (tx, (_, verdict)) in txs.iter().zip(&work.alone) {
            let Verdict::Invalid(rejected) = verdict else { continue };
            match txs.len() > 1 && matches!(rejected.reject.class(), Class::Reconsiderable | Class::MissingInputs) {
                true => together.push(tx.clone()),
                false => quit = true,
            }
        }
        let mut result = PackageResult { reject: quit.then_some(PackageReject::TransactionFailed), txs: Vec::new() };
        if !quit && together.len() > 1 {
            result = self.accept_several(&together, &how, &mut work.judged)?;
        } else if !quit && let [tx] = &together[..] {
            // Its parents came in meanwhile: it is judged again on its own.
            let verdict = self.alone(tx, &how, &mut work.judged)?;
            let failed = matches!(verdict, Verdict::Invalid(_));
            result.reject = failed.then_some(PackageReject::TransactionFailed);
            result.txs.push((tx.tx().wtxid(), verdict));
        }
        self.limit(how.time_s);
        Some(self.merge_results(txs, std::mem::take(&mut work.alone), result))
    }

    /// One transaction of a package on its own; memory is looked at when all are done. None: its scripts are unjudged.
    fn alone(&mut self, transaction: &Transaction, how: &Accept, judged: &mut Judged) -> Option<Verdict> {
        let tx = transaction.tx();
        if let Some(entry) = self.get_by_wtxid(&tx.wtxid()) {
            return Some(Verdict::InMempool { size_vb: entry.size_vb(), fee_sat: entry.fee_sat });
        }
        if let Some(entry) = self.get(&tx.txid()) {
            return Some(Verdict::DifferentWitness { wtxid: entry.wtxid });
        }
        match self.evaluate_judged(transaction, how, judged) {
            Ok((draft, plan)) => {
                let effective = (draft.feerate(), vec![draft.entry.wtxid]);
                Some(Verdict::Valid(self.submit(vec![draft], plan, effective).remove(0).1))
            }
            Err(Stop::Rejected(rejected)) => Some(Verdict::Invalid(rejected)),
            Err(Stop::Unjudged) => None,
        }
    }

    /// Those that do not stand alone, by what they pay together.
    fn accept_several(&mut self, txs: &[Transaction], how: &Accept, judged: &mut Judged) -> Option<PackageResult> {
        let time_s = how.time_s;
        let terms =
            Terms { time_s, bypass_limits: false, package_fees: true, replacement: true, sibling_eviction: false };
        let (drafts, plan, effective) = match self.several(txs, &terms, how.max_feerate, judged)? {
            Ok(several) => several,
            Err(result) => return Some(result),
        };
        let submitted = self.submit(drafts, plan, effective);
        let txs = submitted.into_iter().map(|(wtxid, accepted)| (wtxid, Verdict::Valid(accepted))).collect();
        Some(PackageResult { reject: None, txs })
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

    /// Several at once, none of which is here. None: scripts are unjudged.
    fn several(
        &self,
        txs: &[Transaction],
        terms: &Terms,
        max_feerate: Option<FeeRate>,
        judged: &mut Judged,
    ) -> Option<Result<Several, PackageResult>> {
        if let Err(reject) = check_package(&views(txs)) {
            return Some(Err(PackageResult::refused(reject)));
        }
        let mut drafts: Vec<Draft> = Vec::with_capacity(txs.len());
        for tx in txs {
            let draft = self.draft(tx, terms, &drafts, &Others::new()).and_then(|draft| {
                let too_high = max_feerate.is_some_and(|most| draft.feerate() > most);
                if too_high { Err(Reject::MaxFeeRate.into()) } else { Ok(draft) }
            });
            match draft {
                Ok(draft) => drafts.push(draft),
                Err(rejected) => return Some(Err(PackageResult::failed(tx.tx().wtxid(), rejected))),
            }
        }
        let (plan, effective) = match self.judge_together(&drafts, terms) {
            Ok(together) => together,
            Err(result) => return Some(Err(result)),
        };
        let mut is_unjudged = false;
        for (index, draft) in drafts.iter().enumerate() {
            match self.check_scripts(&draft.entry, judged) {
                Ok(()) => {}
                Err(Stop::Unjudged) => is_unjudged = true,
                Err(Stop::Rejected(rejected)) if !is_unjudged => {
                    let mut result = PackageResult::failed(draft.entry.wtxid, rejected);
                    // Where packages are only tested, those before it have passed everything, and are told so.
                    let passed = if terms.package_fees { 0 } else { index };
                    result.txs.splice(..0, drafts[..passed].iter().map(valid));
                    return Some(Err(result));
                }
                // One before it may fail too, and would be told of instead.
                Err(Stop::Rejected(_)) => {}
            }
        }
        (!is_unjudged).then_some(Ok((drafts, plan, effective)))
    }

    /// Rules about all of them: version 3, fees together, replacement, clusters, dust.
    fn judge_together(&self, drafts: &[Draft], terms: &Terms) -> Result<(Plan, Effective), PackageResult> {
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
        (effective, effective_with): Effective,
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
