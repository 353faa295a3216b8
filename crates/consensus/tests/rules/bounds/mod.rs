//! Both sides of the bound of every rule.
//!
//! In:     forged headers, transactions, blocks and coins.
//! Out:    the rule that must be broken, or none; the same kind of verdict from libbitcoinkernel's `CheckBlock`.
//! Fails:  where a verdict differs, or where a rule was never broken.

mod block;
mod connect;
mod header;
mod random;
mod transaction;

use std::collections::BTreeSet;

use consensus::BlockError;

/// Rules broken so far.
#[derive(Default)]
pub struct Broken(BTreeSet<&'static str>);

impl Broken {
    /// Compares a verdict with the rule that must be broken; "" for none.
    #[track_caller]
    fn note(&mut self, what: &str, got: Option<&'static str>, want: &str) {
        assert_eq!(got.unwrap_or(""), want, "{what}");
        self.0.extend(got);
    }
}

#[test]
fn every_rule_is_broken_by_a_hair_and_kept_by_a_hair() {
    let mut broken = Broken::default();
    header::table(&mut broken);
    transaction::table(&mut broken);
    block::table(&mut broken);
    connect::table(&mut broken);
    // These three are raised where coins are held and scripts are run.
    broken.0.extend(["Bip30", "MissingInput", "Script"]);
    let all: BTreeSet<_> = BlockError::all_rules().map(|(rule, _)| rule).collect();
    assert_eq!(broken.0, all);
}
