//! Version 3: at most one parent or one child, and small, so that nobody can pin what it replaces.
//!
//! In:     a transaction, its unconfirmed relatives.
//! Out:    nothing, or a sibling that may be replaced instead.
//! Fails:  [`TrucBreach`] with Core's words.
//! Source: BIP 431; Bitcoin Core, `policy/truc_policy.cpp` (`SingleTRUCChecks`, `PackageTRUCChecks`).

use primitives::{Tx, Txid, Wtxid};

/// The version that asks for these rules.
pub const TRUC_VERSION: u32 = 3;
/// Largest size, in virtual bytes.
const TRUC_VBYTES_MAX: u32 = 10_000;
/// Largest size of one that spends unconfirmed outputs, in virtual bytes.
const TRUC_CHILD_VBYTES_MAX: u32 = 1_000;

/// What the rules ask of a parent in the mempool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relative {
    /// Its txid.
    pub txid: Txid,
    /// Its wtxid.
    pub wtxid: Wtxid,
    /// Its version.
    pub version: u32,
    /// Its ancestors in the mempool, itself included.
    pub ancestors: usize,
    /// Its descendants in the mempool, itself left out.
    pub descendants: Vec<Txid>,
    /// Ancestors of its only descendant, that one included; 0 where it has none or more than one.
    pub child_ancestors: usize,
}

/// The rule that is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrucBreach {
    /// Core's words.
    pub text: String,
    /// The parent's other child, where replacing it would keep the rules.
    pub sibling: Option<Txid>,
}

fn breach<T>(text: String) -> Result<T, TrucBreach> {
    Err(TrucBreach { text, sibling: None })
}

fn named(tx: &Tx<'_>) -> String {
    format!("tx {} (wtxid={})", tx.txid(), tx.wtxid())
}

/// The versions of a transaction and a parent must both be 3, or neither.
fn check_inheritance(tx: &Tx<'_>, version: u32, txid: &Txid, wtxid: &Wtxid) -> Result<(), TrucBreach> {
    match (tx.version() == TRUC_VERSION, version == TRUC_VERSION) {
        (false, true) => {
            breach(format!("non-version=3 {} cannot spend from version=3 tx {txid} (wtxid={wtxid})", named(tx)))
        }
        (true, false) => {
            breach(format!("version=3 {} cannot spend from non-version=3 tx {txid} (wtxid={wtxid})", named(tx)))
        }
        _ => Ok(()),
    }
}

fn check_size(tx: &Tx<'_>, size_vb: u32, most_vb: u32, kind: &str) -> Result<(), TrucBreach> {
    if size_vb <= most_vb {
        return Ok(());
    }
    breach(format!("version=3 {kind}{} is too big: {size_vb} > {most_vb} virtual bytes", named(tx)))
}

/// Judges one transaction by its parents in the mempool; `conflicts` are those it would replace.
pub fn check_truc(tx: &Tx<'_>, size_vb: u32, parents: &[Relative], conflicts: &[Txid]) -> Result<(), TrucBreach> {
    for parent in parents {
        check_inheritance(tx, parent.version, &parent.txid, &parent.wtxid)?;
    }
    if tx.version() != TRUC_VERSION {
        return Ok(());
    }
    check_size(tx, size_vb, TRUC_VBYTES_MAX, "")?;
    let Some(parent) = parents.first() else { return Ok(()) };
    if parents.len() > 1 || parent.ancestors > 1 {
        return breach(format!("{} would have too many ancestors", named(tx)));
    }
    check_size(tx, size_vb, TRUC_CHILD_VBYTES_MAX, "child ")?;
    let replaced = parent.descendants.iter().any(|child| conflicts.contains(child));
    if parent.descendants.is_empty() || replaced {
        return Ok(());
    }
    // After a reorganisation a parent may have more children than the rules allow; then nobody is asked to go.
    let sibling = match parent.descendants[..] {
        [sibling] if parent.child_ancestors == 2 => Some(sibling),
        _ => None,
    };
    let Relative { txid, wtxid, .. } = parent;
    Err(TrucBreach { text: format!("tx {txid} (wtxid={wtxid}) would exceed descendant count limit"), sibling })
}

/// One transaction of a package, as the rules see it.
pub struct InPackage<'a> {
    /// The transaction.
    pub tx: Tx<'a>,
    /// Its txid.
    pub txid: Txid,
    /// Its size.
    pub size_vb: u32,
    /// Its parents in the mempool.
    pub parents: Vec<Relative>,
}

/// Judges the transaction at `index` of a package that is sorted, by its parents in both places and its children.
pub fn check_package(package: &[InPackage<'_>], index: usize) -> Result<(), TrucBreach> {
    let InPackage { tx, txid, size_vb, ref parents } = package[index];
    let spends = |other: &InPackage<'_>, of: &Txid| other.tx.inputs().any(|input| input.outpoint().txid == *of);
    let inside: Vec<&InPackage<'_>> =
        package[..index].iter().filter(|other| spends(&package[index], &other.txid)).collect();
    for parent in parents {
        check_inheritance(&tx, parent.version, &parent.txid, &parent.wtxid)?;
    }
    for parent in &inside {
        check_inheritance(&tx, parent.tx.version(), &parent.txid, &parent.tx.wtxid())?;
    }
    if tx.version() != TRUC_VERSION {
        return Ok(());
    }
    let above = parents.first().map_or(0, |parent| parent.ancestors);
    if parents.len() + inside.len() > 1 || above + inside.len() > 1 {
        return breach(format!("{} would have too many ancestors", named(&tx)));
    }
    check_size(&tx, size_vb, TRUC_VBYTES_MAX, "")?;
    let parent = parents.first().map(|parent| (parent.txid, parent.wtxid, !parent.descendants.is_empty()));
    let parent = parent.or_else(|| inside.first().map(|parent| (parent.txid, parent.tx.wtxid(), false)));
    let Some((parent_txid, parent_wtxid, has_descendant)) = parent else { return Ok(()) };
    check_size(&tx, size_vb, TRUC_CHILD_VBYTES_MAX, "child ")?;
    for other in package.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, other)| other) {
        if spends(other, &parent_txid) {
            return breach(format!("tx {parent_txid} (wtxid={parent_wtxid}) would exceed descendant count limit"));
        }
        if spends(other, &txid) {
            return breach(format!("{} would have too many ancestors", named(&other.tx)));
        }
    }
    if has_descendant {
        return breach(format!("tx {parent_txid} (wtxid={parent_wtxid}) would exceed descendant count limit"));
    }
    Ok(())
}
