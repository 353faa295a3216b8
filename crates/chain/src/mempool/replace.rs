//! Taking the place of others: version 3's sibling, and replacement by feerate diagram.
//!
//! In:     a draft that conflicts with transactions of the mempool.
//! Out:    the plan in which they and their descendants are gone.
//! Fails:  [`Reject`], in Core's order.
//! Source: Bitcoin Core 31, `validation.cpp` (`ReplacementChecks`), `policy/rbf.cpp`; signalling (BIP 125) is not asked for.

use std::cmp::Ordering;

use primitives::Txid;

use super::accept::{Draft, Rejected, Terms};
use super::cluster::{Kin, Plan};
use super::pool::{Mempool, Slot};
use crate::policy::{REPLACED_CLUSTERS_MAX, Reject, Relative, check_truc, compare_diagrams};

impl Mempool {
    /// What the rules of version 3 ask of a transaction here.
    pub(super) fn relative(&self, slot: Slot) -> Relative {
        let entry = &self.node(slot).entry;
        let descendants = self.with_descendants(&[slot]);
        let child_ancestors = match descendants[1..] {
            [child] => self.with_ancestors(&[child]).len(),
            _ => 0,
        };
        Relative {
            txid: entry.txid,
            wtxid: entry.wtxid,
            version: entry.tx().version(),
            ancestors: self.with_ancestors(&[slot]).len(),
            descendants: descendants[1..].iter().map(|&slot| self.node(slot).entry.txid).collect(),
            child_ancestors,
        }
    }

    /// The parents of a draft that are here.
    pub(super) fn relatives(&self, draft: &Draft) -> Vec<Relative> {
        let here = draft.parents.iter().filter_map(|kin| if let Kin::Old(slot) = kin { Some(*slot) } else { None });
        here.map(|slot| self.relative(slot)).collect()
    }

    /// Version 3; a sibling that may go is added to the draft's conflicts.
    pub(super) fn check_version_3(&self, draft: &mut Draft, terms: &Terms) -> Result<(), Rejected> {
        let parents = self.relatives(draft);
        if parents.is_empty() && draft.entry.tx().version() != crate::policy::TRUC_VERSION {
            return Ok(());
        }
        let conflicts: Vec<Txid> = draft.conflicts.iter().map(|&slot| self.node(slot).entry.txid).collect();
        let Err(breach) = check_truc(&draft.entry.tx(), draft.size_vb(), &parents, &conflicts) else { return Ok(()) };
        let sibling = breach.sibling.filter(|_| terms.sibling_eviction).and_then(|txid| self.slot(&txid));
        let Some(sibling) = sibling else { return Err(Reject::Truc(breach.text).into()) };
        draft.conflicts.push(sibling);
        draft.sibling = true;
        Ok(())
    }

    /// Everything that goes with `conflicts`, where they are not too many.
    pub(super) fn all_conflicts(&self, conflicts: &[Slot]) -> Result<Vec<Slot>, usize> {
        let mut clusters: Vec<u32> = conflicts.iter().map(|&slot| self.node(slot).cluster).collect();
        clusters.sort_unstable();
        clusters.dedup();
        if clusters.len() > REPLACED_CLUSTERS_MAX {
            return Err(clusters.len());
        }
        Ok(self.with_descendants(conflicts))
    }

    /// What transactions pay together, as their owner sees it.
    pub(super) fn fees_sat(&self, slots: &[Slot]) -> i64 {
        slots.iter().fold(0, |sum: i64, &slot| sum.saturating_add(self.node(slot).modified_fee_sat()))
    }

    /// The plan of a replacement that pays.
    pub(super) fn replacement(&self, draft: &Draft) -> Result<Plan, Reject> {
        let sibling = draft.sibling;
        let removed = self.all_conflicts(&draft.conflicts);
        let removed = removed.map_err(|clusters| Reject::TooManyReplacements { clusters, sibling })?;
        let (txid, fee_sat) = (draft.entry.txid, draft.modified_fee_sat);
        let least_sat = self.fees_sat(&removed).saturating_add(self.policy.incremental.fee_sat(draft.size_vb()));
        if fee_sat < least_sat {
            return Err(Reject::InsufficientFee { txid, fee_sat, least_sat, sibling });
        }
        let plan = self.plan(&removed, &[draft.newcomer()], &[]).map_err(|_| Reject::TooLargeCluster)?;
        if !self.improves(&plan) {
            return Err(Reject::ReplacementFailed);
        }
        self.check_ancestors_stay(draft)?;
        Ok(plan)
    }

    /// True where the mempool earns no less at any size, and more somewhere.
    pub(super) fn improves(&self, plan: &Plan) -> bool {
        compare_diagrams(&plan.diagram_after(), &self.diagram_before(plan)) == Some(Ordering::Greater)
    }

    /// A transaction cannot spend from what it replaces.
    fn check_ancestors_stay(&self, draft: &Draft) -> Result<(), Reject> {
        let parents: Vec<Slot> =
            draft.parents.iter().filter_map(|kin| if let Kin::Old(slot) = kin { Some(*slot) } else { None }).collect();
        let ancestors = self.with_ancestors(&parents);
        match ancestors.iter().find(|slot| draft.conflicts.contains(slot)) {
            Some(&slot) => Err(Reject::SpendsConflict { txid: draft.entry.txid, ancestor: self.node(slot).entry.txid }),
            None => Ok(()),
        }
    }
}
