//! One transaction: whether the mempool takes it.
//!
//! In:     a transaction, the time, what the caller waives.
//! Out:    [`Accepted`], and the transaction in the mempool unless it was only a test.
//! Fails:  [`Rejected`]: the first rule broken, in Core's order: cheap rules, coins, fees, replacement, clusters, scripts.
//! Source: Bitcoin Core, `validation.cpp` (`MemPoolAccept::PreChecks`, `AcceptSingleTransactionInternal`).
//!
//! Scripts come last and are judged away from the mempool: see [`Judged`].

use std::collections::HashMap;
use std::sync::Arc;

use consensus::script::TxCoins;
use consensus::{Flags, WITNESS_SCALE, connect, locks, sigops, tx};
use primitives::{Coin, OutPoint, SpentCoins, Transaction, Txid, Wtxid};

use super::cluster::{Kin, Newcomer, Plan};
use super::entry::{Entry, Reason, UNCONFIRMED};
use super::pool::{Arrival, Mempool, Slot};
use super::scripts::{Judged, Stop};
use crate::policy::{
    FeeFrac, FeeRate, Policy, Reject, TX_SIGOP_COST_MAX, TX_STRIPPED_BYTES_MIN, check_inputs, check_standard,
    check_witness, dust_outputs, vsize,
};

/// Outputs looked for in the chain to tell "already confirmed" from "inputs missing". Core looks at those in its cache.
const KNOWN_OUTPUTS_MAX: usize = 2;

/// Transactions on their way, by txid: their outputs may be spent although they are nowhere yet.
pub type Others = HashMap<Txid, Transaction>;

/// What the caller wants and waives.
#[derive(Clone, Copy, Debug)]
pub struct Accept {
    /// The time, seconds since 1970.
    pub time_s: u64,
    /// Judge it, change nothing.
    pub test: bool,
    /// No fee is too low and memory is not looked at: for transactions of disconnected blocks.
    pub bypass_limits: bool,
    /// More than this is taken for a mistake of the sender.
    pub max_feerate: Option<FeeRate>,
    /// Peers are to hear of it: what came from one of them or from a user.
    pub announce: bool,
}

impl Accept {
    /// As a peer's transaction is taken.
    pub fn at(time_s: u64) -> Accept {
        Accept { time_s, test: false, bypass_limits: false, max_feerate: None, announce: true }
    }

    /// Judged only.
    pub fn test_at(time_s: u64) -> Accept {
        Accept { test: true, ..Accept::at(time_s) }
    }
}

/// A transaction that was taken, or would be.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// Its txid.
    pub txid: Txid,
    /// Its wtxid.
    pub wtxid: Wtxid,
    /// Its size as fees are measured by.
    pub size_vb: u32,
    /// What it pays.
    pub fee_sat: i64,
    /// The feerate it was judged by.
    pub effective: FeeRate,
    /// The transactions that feerate is of.
    pub effective_with: Vec<Wtxid>,
    /// What it took the place of, or would.
    pub replaced: Vec<Arc<Entry>>,
}

/// A transaction that was not taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejected {
    /// The rule it breaks.
    pub reject: Reject,
    /// Where it pays too little: the feerate it was judged by, and the transactions that is of.
    pub effective: Option<(FeeRate, Vec<Wtxid>)>,
}

impl From<Reject> for Rejected {
    fn from(reject: Reject) -> Rejected {
        Rejected { reject, effective: None }
    }
}

/// What differs between a transaction alone and one of a package.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    pub time_s: u64,
    pub bypass_limits: bool,
    /// Its fee is judged with that of others.
    pub package_fees: bool,
    pub replacement: bool,
    pub sibling_eviction: bool,
}

impl Terms {
    pub fn single(accept: &Accept) -> Terms {
        let (time_s, bypass_limits) = (accept.time_s, accept.bypass_limits);
        Terms { time_s, bypass_limits, package_fees: false, replacement: true, sibling_eviction: true }
    }
}

/// A transaction that broke no cheap rule.
pub(super) struct Draft {
    pub entry: Entry,
    pub modified_fee_sat: i64,
    pub parents: Vec<Kin>,
    /// Transactions that spend what it spends, and a sibling that would go for it.
    pub conflicts: Vec<Slot>,
    pub sibling: bool,
}

impl Draft {
    pub fn size_vb(&self) -> u32 {
        self.entry.size_vb()
    }

    pub fn newcomer(&self) -> Newcomer {
        let fee = FeeFrac::new(self.modified_fee_sat, self.entry.adjusted_weight);
        Newcomer { fee, parents: self.parents.clone() }
    }

    pub fn feerate(&self) -> FeeRate {
        FeeRate::of(self.modified_fee_sat, self.size_vb())
    }

    pub fn arrival(self, estimable: bool, announce: bool) -> Arrival {
        let estimable = estimable && self.parents.is_empty();
        Arrival { entry: self.entry, parents: self.parents, estimable, announce, quiet: false }
    }

    pub fn accepted(&self, replaced: Vec<Arc<Entry>>) -> Accepted {
        let Entry { txid, wtxid, fee_sat, .. } = self.entry;
        let (size_vb, effective) = (self.size_vb(), self.feerate());
        Accepted { txid, wtxid, size_vb, fee_sat, effective, effective_with: vec![wtxid], replaced }
    }

    /// A refusal, with the feerate where more of it would have helped.
    fn rejected(&self, reject: Reject) -> Rejected {
        let by_fee = reject.class() == crate::policy::Class::Reconsiderable;
        let effective = by_fee.then(|| (self.feerate(), vec![self.entry.wtxid]));
        Rejected { reject, effective }
    }
}

impl Mempool {
    /// Takes a transaction, or only judges it. Whoever shares the mempool takes it by [`super::SharedMempool::accept`],
    /// which judges scripts with no lock held.
    pub fn accept(&mut self, transaction: &Transaction, how: &Accept) -> Result<Accepted, Rejected> {
        let (scripts, mut judged) = (self.scripts.clone(), Judged::default());
        loop {
            match self.accept_judged(transaction, how, &mut judged) {
                Ok(accepted) => return Ok(accepted),
                Err(Stop::Rejected(rejected)) => return Err(rejected),
                Err(Stop::Unjudged) => judged.judge(&scripts),
            }
        }
    }

    /// The same, by what is known of scripts; nothing is changed where that is not enough.
    pub(super) fn accept_judged(
        &mut self,
        transaction: &Transaction,
        how: &Accept,
        judged: &mut Judged,
    ) -> Result<Accepted, Stop> {
        if how.test {
            return self.test_judged(transaction, how, judged);
        }
        let (draft, plan) = self.evaluate_judged(transaction, how, judged)?;
        let mut accepted = draft.accepted(Vec::new());
        accepted.replaced =
            self.apply(plan, vec![draft.arrival(!how.bypass_limits, how.announce)], Some(Reason::Replaced));
        if !how.bypass_limits {
            self.limit(how.time_s);
            if self.slot(&accepted.txid).is_none() {
                let effective = Some((accepted.effective, accepted.effective_with));
                return Err(Rejected { reject: Reject::MempoolFull, effective }.into());
            }
        }
        Ok(accepted)
    }

    /// What would become of a transaction.
    pub(super) fn test_judged(
        &self,
        transaction: &Transaction,
        how: &Accept,
        judged: &mut Judged,
    ) -> Result<Accepted, Stop> {
        let (draft, plan) = self.evaluate_judged(transaction, how, judged)?;
        let replaced = plan.removed.iter().map(|&slot| self.node(slot).entry.clone()).collect();
        Ok(draft.accepted(replaced))
    }

    /// Every rule for one transaction.
    pub(super) fn evaluate_judged(
        &self,
        transaction: &Transaction,
        how: &Accept,
        judged: &mut Judged,
    ) -> Result<(Draft, Plan), Stop> {
        let (draft, plan) = self.evaluate(transaction, &Terms::single(how), how.max_feerate)?;
        self.check_scripts(&draft.entry, judged)?;
        Ok((draft, plan))
    }

    /// Everything but scripts, judged without changing anything; scripts that are to be judged are in `judged` afterwards.
    /// `others` may be parents that are still on their way.
    pub(super) fn prepare(
        &self,
        transaction: &Transaction,
        others: &Others,
        how: &Accept,
        judged: &mut Judged,
    ) -> Result<(), Stop> {
        let terms = Terms::single(how);
        let entry = match others.is_empty() {
            true => self.evaluate(transaction, &terms, how.max_feerate)?.0.entry,
            false => self.draft(transaction, &terms, &[], others)?.entry,
        };
        self.check_scripts(&entry, judged)
    }

    /// Everything but scripts: what would come, and what the clusters would be.
    pub(super) fn evaluate(
        &self,
        transaction: &Transaction,
        terms: &Terms,
        max_feerate: Option<FeeRate>,
    ) -> Result<(Draft, Plan), Rejected> {
        let draft = self.draft(transaction, terms, &[], &Others::new())?;
        let plan = match draft.conflicts[..] {
            [] => {
                let plan = self.plan(&[], &[draft.newcomer()], &[]);
                plan.map_err(|_| Rejected::from(Reject::TooLargeCluster))?
            }
            _ => self.replacement(&draft).map_err(|reject| draft.rejected(reject))?,
        };
        if max_feerate.is_some_and(|most| draft.feerate() > most) {
            return Err(Reject::MaxFeeRate.into());
        }
        if !terms.bypass_limits && self.policy.require_standard {
            self.check_dust_is_spent(&draft.entry, &[])?;
        }
        Ok((draft, plan))
    }

    /// The cheap rules. `package`: those before it in its package; `others`: transactions whose outputs may be spent
    /// although they are nowhere yet.
    pub(super) fn draft(
        &self,
        transaction: &Transaction,
        terms: &Terms,
        package: &[Draft],
        others: &Others,
    ) -> Result<Draft, Rejected> {
        let (tx, txid, wtxid) = (transaction.tx(), transaction.tx().txid(), transaction.tx().wtxid());
        let facts = tx::check(&tx, &txid, &mut tx::Scratch::default()).map_err(Reject::Tx)?;
        self.check_form(transaction, &txid, &wtxid)?;
        let mut conflicts: Vec<Slot> = Vec::new();
        for input in tx.inputs() {
            conflicts.extend(self.spender_slot(&input.outpoint()));
        }
        conflicts.sort_unstable();
        conflicts.dedup();
        if !terms.replacement && !conflicts.is_empty() {
            return Err(Reject::ReplacementDisallowed.into());
        }
        let (coins, parents) = self.coins_of(transaction, &txid, package, others)?;
        let tx_coins = TxCoins::new(&coins, 0, coins.len());
        let tip = self.base.tip();
        if facts.relative_locks && !self.relative_locks_reached(transaction, &coins)? {
            return Err(Reject::RelativeLock.into());
        }
        // An unconfirmed coin is as deep as the block that is asked about.
        let at_next = tx_coins.iter().map(|coin| Coin { height: coin.height.min(tip.height + 1), ..coin });
        let fee_sat =
            connect::check_amounts(&tx, at_next, facts.out_sat, tip.height + 1).map_err(Reject::Spend)? as i64;
        if self.policy.require_standard {
            check_inputs(&tx, tx_coins)?;
            if tx.has_witness() {
                check_witness(&tx, tx_coins)?;
            }
        }
        let mut sigop_cost = u64::from(facts.legacy_sigops) * WITNESS_SCALE as u64;
        for (index, coin) in tx_coins.iter().enumerate() {
            sigop_cost += sigops::input_cost(coin.script, || tx.input(index), Flags::ALL);
        }
        let spends_coinbase = tx_coins.iter().any(|coin| coin.coinbase);
        let weight = tx.weight();
        let entry = Entry {
            transaction: transaction.clone(),
            txid,
            wtxid,
            coins,
            fee_sat,
            weight: weight as u32,
            adjusted_weight: self.policy.adjusted_weight(weight, sigop_cost),
            sigop_cost,
            time_s: terms.time_s,
            height: tip.height,
            sequence: if terms.bypass_limits { 0 } else { self.sequence() },
            spends_coinbase,
            relative_locks: facts.relative_locks,
        };
        let delta_sat = self.deltas.get(&txid).copied().unwrap_or(0);
        let modified_fee_sat = fee_sat.saturating_add(delta_sat);
        let mut draft = Draft { entry, modified_fee_sat, parents, conflicts, sibling: false };
        self.check_fee(&draft, terms)?;
        if !terms.bypass_limits {
            self.check_version_3(&mut draft, terms)?;
        }
        Ok(draft)
    }

    /// Standard form, locks, and whether it is here already.
    fn check_form(&self, transaction: &Transaction, txid: &Txid, wtxid: &Wtxid) -> Result<(), Rejected> {
        let tx = transaction.tx();
        if tx.is_coinbase() {
            return Err(Reject::Coinbase.into());
        }
        if self.policy.require_standard {
            check_standard(&tx, &self.policy)?;
        }
        if tx.stripped_length() < TX_STRIPPED_BYTES_MIN {
            return Err(Reject::StrippedSize.into());
        }
        if !self.is_final(transaction)? {
            return Err(Reject::NotFinal.into());
        }
        if self.slot_of_wtxid(wtxid).is_some() {
            return Err(Reject::AlreadyInMempool.into());
        }
        if self.slot(txid).is_some() {
            return Err(Reject::SameTxidInMempool.into());
        }
        Ok(())
    }

    /// True where the next block could hold it as far as its lock time goes (BIP 113).
    pub(super) fn is_final(&self, transaction: &Transaction) -> Result<bool, Reject> {
        let tip = self.base.tip();
        let tx = transaction.tx();
        if tx.lock_time() == 0 {
            return Ok(true);
        }
        let median_s = self.base.median_time_past_s(tip.height).map_err(Reject::from)?;
        Ok(locks::is_final(&tx, tip.height + 1, median_s))
    }

    /// True where the next block could hold it as far as relative locks go; its unconfirmed parents would be beside it.
    pub(super) fn relative_locks_reached(&self, transaction: &Transaction, coins: &SpentCoins) -> Result<bool, Reject> {
        let tip = self.base.tip();
        let failed = std::cell::RefCell::new(None);
        let mtp_of = |height: u32| {
            self.base.median_time_past_s(height.min(tip.height)).unwrap_or_else(|error| {
                failed.replace(Some(error));
                u32::MAX
            })
        };
        let next = tip.height + 1;
        let heights = coins.iter().map(|coin| coin.height.min(next));
        let reached = locks::sequence_locks_reached(&transaction.tx(), heights, next, mtp_of(tip.height), &mtp_of);
        failed.into_inner().map_or(Ok(reached), |error| Err(error.into()))
    }

    /// The coins it spends, and its unconfirmed parents.
    fn coins_of(
        &self,
        transaction: &Transaction,
        txid: &Txid,
        package: &[Draft],
        others: &Others,
    ) -> Result<(SpentCoins, Vec<Kin>), Reject> {
        let tx = transaction.tx();
        let mut coins = SpentCoins::with_capacity(tx.input_count());
        let mut parents: Vec<Kin> = Vec::new();
        for input in tx.inputs() {
            let outpoint = input.outpoint();
            let inside = package.iter().position(|draft| draft.entry.txid == outpoint.txid).map(Kin::New);
            let parent = inside.or_else(|| self.slot(&outpoint.txid).map(Kin::Old));
            let source = match parent {
                Some(Kin::New(index)) => Some(&package[index].entry.transaction),
                Some(Kin::Old(slot)) => Some(&self.node(slot).entry.transaction),
                None => others.get(&outpoint.txid),
            };
            if let Some(kin) = parent
                && !parents.contains(&kin)
            {
                parents.push(kin);
            }
            let known = match source {
                Some(source) => push_output(&mut coins, source, outpoint.vout),
                None => match self.confirmed(&outpoint)? {
                    Some(coin) => {
                        coins.push(coin.coin());
                        true
                    }
                    None => false,
                },
            };
            if !known {
                return Err(self.missing(transaction, txid));
            }
        }
        Ok((coins, parents))
    }

    fn confirmed(&self, outpoint: &OutPoint) -> Result<Option<Arc<store::CoinBuf>>, Reject> {
        Ok(self.coins.coin(&*self.base, outpoint)?)
    }

    /// Inputs are missing because it is confirmed already, or for a reason we do not know.
    fn missing(&self, transaction: &Transaction, txid: &Txid) -> Reject {
        let outputs = transaction.tx().output_count().min(KNOWN_OUTPUTS_MAX) as u32;
        for vout in 0..outputs {
            match self.confirmed(&OutPoint { txid: *txid, vout }) {
                Ok(Some(_)) => return Reject::AlreadyConfirmed,
                Ok(None) => {}
                Err(error) => return error,
            }
        }
        Reject::MissingInputs
    }

    /// Dust, signature operations and the least feerate.
    fn check_fee(&self, draft: &Draft, terms: &Terms) -> Result<(), Rejected> {
        let Policy { require_standard, dust_relay, .. } = self.policy;
        let pays = draft.entry.fee_sat != 0 || draft.modified_fee_sat != 0;
        if require_standard && pays && dust_outputs(&draft.entry.tx(), dust_relay).next().is_some() {
            return Err(Reject::DustWithFee.into());
        }
        if draft.entry.sigop_cost > TX_SIGOP_COST_MAX {
            return Err(Reject::SigOpCost(draft.entry.sigop_cost).into());
        }
        if terms.bypass_limits || terms.package_fees {
            return Ok(());
        }
        let checked = self.check_feerate(draft.modified_fee_sat, draft.size_vb(), terms.time_s);
        checked.map_err(|reject| draft.rejected(reject))
    }

    /// The rolling minimum, then the relay minimum (Core: `CheckFeeRate`).
    pub(super) fn check_feerate(&self, fee_sat: i64, size_vb: u32, time_s: u64) -> Result<(), Reject> {
        let least_sat = self.rolling_minimum(time_s).fee_sat(size_vb);
        if least_sat > 0 && fee_sat < least_sat {
            return Err(Reject::MempoolMinFee { fee_sat, least_sat });
        }
        let least_sat = self.policy.min_relay.fee_sat(size_vb);
        if fee_sat < least_sat {
            return Err(Reject::MinRelayFee { fee_sat, least_sat });
        }
        Ok(())
    }

    /// Scripts, by what is known of them.
    pub(super) fn check_scripts(&self, entry: &Entry, judged: &mut Judged) -> Result<(), Stop> {
        match judged.verdict(&entry.wtxid) {
            Some(verdict) => verdict.clone().map_err(Stop::from),
            None if self.scripts.is_valid(&entry.wtxid, Flags::STANDARD) => Ok(()),
            None => {
                judged.ask(entry);
                Err(Stop::Unjudged)
            }
        }
    }

    /// A parent's dust must be spent by every child (Core: `CheckEphemeralSpends`).
    pub(super) fn check_dust_is_spent(&self, entry: &Entry, package: &[&Entry]) -> Result<(), Reject> {
        let tx = entry.tx();
        let mut parents: Vec<Txid> = tx.inputs().map(|input| input.outpoint().txid).collect();
        parents.sort_unstable();
        parents.dedup();
        for txid in parents {
            let inside = package.iter().find(|other| other.txid == txid).map(|other| other.tx());
            let parent = inside.or_else(|| self.slot(&txid).map(|slot| self.node(slot).entry.tx()));
            let Some(parent) = parent else { continue };
            for vout in dust_outputs(&parent, self.policy.dust_relay) {
                if !tx.inputs().any(|input| input.outpoint() == OutPoint { txid, vout }) {
                    return Err(Reject::MissingEphemeralSpends { txid: entry.txid, wtxid: entry.wtxid });
                }
            }
        }
        Ok(())
    }

    /// What a transaction of this weight and cost is measured as.
    pub fn size_vb_of(&self, weight: usize, sigop_cost: u64) -> u32 {
        vsize(self.policy.adjusted_weight(weight, sigop_cost))
    }
}

/// Appends an output of an unconfirmed transaction; false where it has no such output.
fn push_output(coins: &mut SpentCoins, source: &Transaction, vout: u32) -> bool {
    let tx = source.tx();
    if vout as usize >= tx.output_count() {
        return false;
    }
    let output = tx.output(vout as usize);
    let value_sat = output.value_sat as u64;
    coins.push(Coin { value_sat, height: UNCONFIRMED, coinbase: false, txo_num: 0, script: output.script });
    true
}
