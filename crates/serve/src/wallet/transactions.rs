//! Transactions: their bytes, their proofs, and new ones.
//!
//! In:     a session's state and checked arguments.
//! Out:    the result appended to a buffer whose answer is already open.
//! Fails:  [`Fault`].
//! Source: Electrum protocol 1.4.3, docs/protocol-methods.rst; where it is silent, ElectrumX.

use primitives::{Header, Transaction};

use super::headers::known_height;
use super::methods::{Reply, require_ready, write};
use crate::decoded;
use crate::electrum::answer;
use crate::electrum::error::{Error, Fault};
use crate::electrum::machine::Machine;
use crate::electrum::params::Arguments;
use crate::source::TxAt;

/// What to say of a transaction that was not found: while syncing it may only not be there yet.
pub(super) fn not_found(machine: &Machine) -> Error {
    require_ready(machine).err().unwrap_or(Error::UnknownTransaction)
}

pub(super) fn transaction_get(
    machine: &mut Machine,
    arguments: &Arguments<'_>,
    out: &mut Vec<u8>,
) -> Result<Reply, Fault> {
    let (txid, verbose) = (arguments.txid(0)?, arguments.truth(1)?);
    let view = machine.env.source.view();
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
    decoded::transaction::write(&transaction.tx(), Some(&block), &machine.env.config.params, out);
    Ok(Reply::Written)
}

pub(super) fn transaction_get_merkle(
    machine: &mut Machine,
    arguments: &Arguments<'_>,
    out: &mut Vec<u8>,
) -> Result<Reply, Fault> {
    let (txid, asked) = (arguments.txid(0)?, arguments.number(1, None)?);
    let view = machine.env.source.view();
    let Some((height, pos)) = view.locate(&txid)? else {
        return Err(not_found(machine).into());
    };
    if u64::from(height) != asked {
        return Err(Error::NotInBlock { height: asked }.into());
    }
    let branch = view.merkle_branch(height, pos)?.ok_or(Fault::Stale)?;
    out.extend_from_slice(format!("{{\"block_height\":{height},\"pos\":{pos},\"merkle\":").as_bytes());
    answer::hashes(&branch, out);
    write(out, "}")
}

pub(super) fn transaction_id_from_pos(
    machine: &mut Machine,
    arguments: &Arguments<'_>,
    out: &mut Vec<u8>,
) -> Result<Reply, Fault> {
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

pub(super) fn transaction_broadcast(
    _: &mut Machine,
    arguments: &Arguments<'_>,
    _: &mut Vec<u8>,
) -> Result<Reply, Fault> {
    if Transaction::parse(arguments.bytes(0)?).is_err() {
        return Err(Error::TransactionDecode.into());
    }
    Err(Error::NoBroadcast.into())
}
