//! Transactions: their bytes, their places, their proofs.
//!
//! In:     a session's state and checked arguments.
//! Out:    the result appended to a buffer whose answer is already open.
//! Fails:  [`Fault`].
//! Source: Electrum protocol 1.4 to 1.7, docs/protocol-methods.rst; where it is silent, ElectrumX; Fulcrum for heights,
//!         hashes of blocks and subscriptions.

use std::io::Write as _;
use std::sync::Arc;

use chain::mempool::Entry;
use primitives::{Header, Transaction, Txid};

use super::headers::known_height;
use super::methods::{Reply, require_ready, write};
use super::moment::still;
use crate::decoded;
use crate::electrum::Env;
use crate::electrum::answer;
use crate::electrum::error::{Error, Fault};
use crate::electrum::machine::Machine;
use crate::electrum::params::Arguments;
use crate::electrum::subscriptions::Topic;
use crate::source::{TxAt, View};

/// What to say of a transaction that was not found: while syncing it may only not be there yet.
fn not_found(machine: &Machine) -> Error {
    require_ready(machine).err().unwrap_or(Error::UnknownTransaction)
}

/// The chain, and the transaction where it is unconfirmed.
fn unconfirmed(env: &Env, txid: &Txid) -> Result<(Arc<dyn View>, Option<Arc<Entry>>), Fault> {
    still(&*env.source, |_, mempool| mempool.and_then(|mempool| mempool.get(txid)).cloned())
}

pub(super) fn get(machine: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let (txid, verbose) = (arguments.txid(0)?, arguments.truth(1)?);
    let params = &machine.env.config.params;
    let (view, waiting) = unconfirmed(&machine.env, &txid)?;
    if let Some(entry) = waiting {
        match verbose {
            false => answer::hex_string(entry.tx().raw(), out),
            true => decoded::transaction::write(&entry.tx(), None, params, out),
        }
        return Ok(Reply::Written);
    }
    let Some(found) = view.transaction(&txid)? else {
        return Err(not_found(machine).into());
    };
    if !verbose {
        answer::hex_string(&found.bytes, out);
        return Ok(Reply::Written);
    }
    let TxAt { height, bytes, .. } = found;
    let header = view.header(height)?.ok_or(Fault::Stale)?;
    let Ok(transaction) = Transaction::parse(bytes) else {
        return Err(Error::Internal(format!("the bytes of {txid} are no transaction")).into());
    };
    let block =
        decoded::transaction::Block { header: Header::decode(&header), confirmations: view.tip_height() - height + 1 };
    decoded::transaction::write(&transaction.tx(), Some(&block), params, out);
    Ok(Reply::Written)
}

/// The proof of a transaction's place; the height may be left out, as Fulcrum lets it.
pub(super) fn get_merkle(machine: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let txid = arguments.txid(0)?;
    let asked = arguments.text(1).map(|_| arguments.number(1, None)).transpose()?;
    let view = machine.env.source.view();
    let Some((height, pos)) = view.locate(&txid)? else {
        return Err(require_ready(machine).err().unwrap_or(Error::NotConfirmed).into());
    };
    if let Some(asked) = asked.filter(|asked| u64::from(height) != *asked) {
        return Err(Error::NotInBlock { height: asked }.into());
    }
    let branch = view.merkle_branch(height, pos)?.ok_or(Fault::Stale)?;
    out.extend_from_slice(format!("{{\"block_height\":{height},\"pos\":{pos},\"merkle\":").as_bytes());
    answer::hashes(&branch, out);
    write(out, "}")
}

pub(super) fn id_from_pos(machine: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let (height, pos) = (arguments.number(0, None)?, arguments.number(1, None)?);
    let merkle = arguments.truth(2)?;
    let view = machine.env.source.view();
    let height = known_height(height, &*view)?;
    let none = Error::NoSuchPosition { height, pos };
    let Ok(pos) = u32::try_from(pos) else {
        return Err(none.into());
    };
    let Some(txid) = view.txid_at(height, pos)? else {
        return Err(none.into());
    };
    if !merkle {
        answer::hash_string(&txid.0, out);
        return Ok(Reply::Written);
    }
    let branch = view.merkle_branch(height, pos)?.ok_or(Fault::Stale)?;
    out.extend_from_slice(b"{\"tx_hash\":");
    answer::hash_string(&txid.0, out);
    out.extend_from_slice(b",\"merkle\":");
    answer::hashes(&branch, out);
    write(out, "}")
}

/// Height of a transaction's block, 0 in the mempool, none where it is unknown.
pub fn height_of(env: &Env, txid: &Txid) -> Result<Option<i64>, Fault> {
    let (view, waiting) = unconfirmed(env, txid)?;
    if waiting.is_some() {
        return Ok(Some(0));
    }
    Ok(view.locate(txid)?.map(|(height, _)| i64::from(height)))
}

/// Writes such a height.
pub fn write_height(height: Option<i64>, out: &mut Vec<u8>) {
    match height {
        Some(height) => write!(out, "{height}").expect("writing to memory"),
        None => out.extend_from_slice(b"null"),
    }
}

pub(super) fn get_height(machine: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let txid = arguments.txid(0)?;
    require_ready(machine)?;
    write_height(height_of(&machine.env, &txid)?, out);
    Ok(Reply::Written)
}

pub(super) fn get_confirmed_blockhash(
    machine: &mut Machine,
    arguments: &Arguments<'_>,
    out: &mut Vec<u8>,
) -> Result<Reply, Fault> {
    let (txid, with_header) = (arguments.txid(0)?, arguments.truth(1)?);
    require_ready(machine)?;
    let view = machine.env.source.view();
    let (height, _) = view.locate(&txid)?.ok_or(Error::NotConfirmed)?;
    let header = view.header(height)?.ok_or(Fault::Stale)?;
    out.extend_from_slice(b"{\"block_hash\":");
    answer::hash_string(&Header::decode(&header).hash().0, out);
    out.extend_from_slice(format!(",\"block_height\":{height}").as_bytes());
    if with_header {
        out.extend_from_slice(b",\"block_header\":");
        answer::hex_string(&header, out);
    }
    write(out, "}")
}

pub(super) fn subscribe(machine: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let txid = arguments.txid(0)?;
    require_ready(machine)?;
    let height = machine.wish_and_read(&Topic::Tx(txid), |env| height_of(env, &txid))?;
    machine.wishes.txs.insert(txid, Some(height));
    write_height(height, out);
    Ok(Reply::Written)
}

pub(super) fn unsubscribe(machine: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let known = machine.forget(&Topic::Tx(arguments.txid(0)?));
    write(out, if known { "true" } else { "false" })
}
