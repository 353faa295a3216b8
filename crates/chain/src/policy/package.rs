//! Rules about several transactions that are handed over together.
//!
//! In:     the transactions in order.
//! Out:    nothing; shape; a hash that names the package.
//! Fails:  [`PackageReject`], in Core's order.
//! Source: Bitcoin Core, `policy/packages.cpp`.

use std::collections::HashSet;
use std::fmt;

use primitives::hash::sha256;
use primitives::{Tx, Txid, Wtxid};

/// Most transactions of a package; Core's `MAX_PACKAGE_COUNT`.
pub const PACKAGE_TXS_MAX: usize = 25;
/// Largest weight of a package; Core's `MAX_PACKAGE_WEIGHT`.
pub const PACKAGE_WEIGHT_MAX: usize = 404_000;

/// The rule that a package breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PackageReject {
    TooManyTransactions,
    TooLarge,
    ContainsDuplicates,
    NotSorted,
    Conflict,
    NotChildWithParents,
    Truc(String),
    TooLargeCluster,
    UnspentDust,
    /// A replacement by a package that is not one parent and one child, or breaks another rule of replacements.
    Replacement(&'static str),
    /// At least one transaction was refused; its own result says why.
    TransactionFailed,
}

impl PackageReject {
    /// Bitcoin Core's reject word.
    pub fn reject_word(&self) -> &'static str {
        match self {
            PackageReject::TooManyTransactions => "package-too-many-transactions",
            PackageReject::TooLarge => "package-too-large",
            PackageReject::ContainsDuplicates => "package-contains-duplicates",
            PackageReject::NotSorted => "package-not-sorted",
            PackageReject::Conflict => "conflict-in-package",
            PackageReject::NotChildWithParents => "package-not-child-with-parents",
            PackageReject::Truc(_) => "TRUC-violation",
            PackageReject::TooLargeCluster => "too-large-cluster",
            PackageReject::UnspentDust => "unspent-dust",
            PackageReject::Replacement(word) => word,
            PackageReject::TransactionFailed => "transaction failed",
        }
    }
}

impl fmt::Display for PackageReject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reject_word())?;
        if let PackageReject::Truc(text) = self { write!(f, ", {text}") } else { Ok(()) }
    }
}

impl std::error::Error for PackageReject {}

/// Count, weight, order, and no output spent twice.
pub fn check_package(txs: &[Tx<'_>]) -> Result<(), PackageReject> {
    if txs.len() > PACKAGE_TXS_MAX {
        return Err(PackageReject::TooManyTransactions);
    }
    // One transaction alone is better told about its own weight.
    if txs.len() > 1 && txs.iter().map(Tx::weight).sum::<usize>() > PACKAGE_WEIGHT_MAX {
        return Err(PackageReject::TooLarge);
    }
    let txids: Vec<Txid> = txs.iter().map(Tx::txid).collect();
    let mut later: HashSet<Txid> = txids.iter().copied().collect();
    if later.len() != txs.len() {
        return Err(PackageReject::ContainsDuplicates);
    }
    for (tx, txid) in txs.iter().zip(&txids) {
        if tx.inputs().any(|input| later.contains(&input.outpoint().txid)) {
            return Err(PackageReject::NotSorted);
        }
        later.remove(txid);
    }
    let mut spent: HashSet<&[u8; 36]> = HashSet::new();
    for tx in txs {
        // Two inputs of one transaction are for the rules of consensus to compare.
        let own: HashSet<&[u8; 36]> = tx.inputs().map(|input| input.outpoint_bytes()).collect();
        if own.is_empty() || own.iter().any(|outpoint| spent.contains(outpoint)) {
            return Err(PackageReject::Conflict);
        }
        spent.extend(own);
    }
    Ok(())
}

/// True where the last of two or more transactions spends from every other.
pub fn is_child_with_parents(txs: &[Tx<'_>]) -> bool {
    let Some((child, parents)) = txs.split_last() else { return false };
    let spent: HashSet<Txid> = child.inputs().map(|input| input.outpoint().txid).collect();
    !parents.is_empty() && parents.iter().all(|parent| spent.contains(&parent.txid()))
}

/// SHA-256 of the wtxids, sorted as numbers.
pub fn package_hash(wtxids: &[Wtxid]) -> [u8; 32] {
    let mut sorted = wtxids.to_vec();
    sorted.sort_by(|a, b| a.0.iter().rev().cmp(b.0.iter().rev()));
    sha256(&sorted.iter().flat_map(|wtxid| wtxid.0).collect::<Vec<u8>>())
}
