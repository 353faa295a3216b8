//! Chain and mempool as of one moment, and what is unconfirmed of one script.
//!
//! In:     the source, a script hash.
//! Out:    the view, and what the mempool has on top of it: no transaction is in both, none in neither.
//! Fails:  [`Fault`] where the mempool does not catch up with the chain.
//! Source: Electrum protocol 1.6: unconfirmed entries by falling height, then by the digits of their txid.

use std::collections::HashSet;
use std::sync::Arc;

use chain::mempool::Mempool;
use primitives::{OutPoint, ScriptHash, Txid};

use crate::electrum::error::{Error, Fault};
use crate::source::{Source, View};

/// Reads chain and mempool while both stand still: short questions only.
pub fn still<T>(
    source: &dyn Source,
    read: impl FnOnce(&Arc<dyn View>, Option<&Mempool>) -> T,
) -> Result<(Arc<dyn View>, T), Fault> {
    let (mut read, mut found) = (Some(read), None);
    source.still(&mut |view, mempool| {
        if let Some(read) = read.take() {
            let got = read(&view, mempool);
            found = Some((view, got));
        }
    });
    found.ok_or_else(|| Error::Internal("the mempool did not catch up with the chain".into()).into())
}

/// An unconfirmed transaction of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The transaction.
    pub txid: Txid,
    /// 0, or -1 where it spends from another unconfirmed one.
    pub height: i64,
    /// What it pays.
    pub fee_sat: i64,
}

/// The height that an unconfirmed transaction is shown at.
pub fn shown_height(on_unconfirmed: bool) -> i64 {
    if on_unconfirmed { -1 } else { 0 }
}

/// The unconfirmed part of a script's history, in the protocol's order.
pub fn history(mempool: Option<&Mempool>, script: &ScriptHash) -> Vec<Shown> {
    let Some(mempool) = mempool else { return Vec::new() };
    let shown = mempool.history(script).into_iter().map(|found| Shown {
        txid: found.entry.txid,
        height: shown_height(found.on_unconfirmed),
        fee_sat: found.entry.fee_sat,
    });
    let mut all: Vec<Shown> = shown.collect();
    // Digits are shown with the last byte first.
    all.sort_unstable_by(|a, b| b.height.cmp(&a.height).then_with(|| a.txid.0.iter().rev().cmp(b.txid.0.iter().rev())));
    all
}

/// A script's outputs as the mempool changes them.
#[derive(Debug, Default)]
pub struct Outputs {
    /// Those it adds, with their amounts.
    pub added: Vec<(OutPoint, u64)>,
    /// Those it spends.
    pub spent: HashSet<OutPoint>,
}

/// What the mempool adds to a script's unspent outputs and what it takes away.
pub fn outputs(mempool: Option<&Mempool>, script: &ScriptHash) -> Outputs {
    let Some(mempool) = mempool else { return Outputs::default() };
    let mut spent = HashSet::new();
    for found in mempool.history(script) {
        let inputs = found.entry.tx().inputs().zip(found.entry.coins.iter());
        let of_script = inputs.filter(|(_, coin)| ScriptHash::of(coin.script) == *script);
        spent.extend(of_script.map(|(input, _)| input.outpoint()));
    }
    let added = mempool.unspent(script).into_iter().map(|(outpoint, value_sat, _)| (outpoint, value_sat));
    Outputs { added: added.collect(), spent }
}
