//! New transactions: sent, sent together, tried.
//!
//! In:     transactions as hexadecimal digits.
//! Out:    the result appended to a buffer whose answer is already open.
//! Fails:  [`Fault`]: code 1 with Bitcoin Core's words for what the node would not take.
//! Source: Electrum protocol 1.4 to 1.7, docs/protocol-methods.rst; where it is silent, ElectrumX.
//!
//! What is sent here goes the way of JSON-RPC's `sendrawtransaction`, `submitpackage` and `testmempoolaccept`, with their
//! default limits.

use std::sync::Arc;

use primitives::{OutPoint, Transaction};

use super::methods::{Reply, require_ready, write};
use crate::calls::submission::{self, BURN_SAT_MAX, PACKAGE_MAX, RATE_SAT_PER_KVB_MAX};
use crate::electrum::answer;
use crate::electrum::error::{Error, Fault};
use crate::electrum::machine::Machine;
use crate::electrum::params::Arguments;
use crate::json::Json;
use crate::rpc::error::RpcError;
use crate::rpc::needs::{Mempool, Tried};
use crate::source::ViewError;

fn pool(machine: &Machine) -> Result<Arc<dyn Mempool>, Error> {
    require_ready(machine)?;
    machine.env.source.pool().ok_or(Error::NoMempool)
}

fn refused(what: &'static str, error: RpcError) -> Error {
    match error.fault {
        true => Error::Internal(error.message),
        false => Error::Rejected { what, why: error.message },
    }
}

pub(super) fn broadcast(machine: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let transaction = Transaction::parse(arguments.bytes(0)?).map_err(|_| Error::TransactionDecode)?;
    let (pool, view) = (pool(machine)?, machine.env.source.view());
    let is_coin = |outpoint: &OutPoint| view.coin(outpoint).map(|coin| coin.is_some());
    let is_coin = |outpoint: &OutPoint| is_coin(outpoint).map_err(|error: ViewError| error.to_string());
    let sent = submission::offer(&transaction, BURN_SAT_MAX, Some(RATE_SAT_PER_KVB_MAX), &*pool, &is_coin);
    answer::hash_string(&sent.map_err(|error| refused("transaction", error))?.0, out);
    Ok(Reply::Written)
}

fn transactions(arguments: &Arguments<'_>) -> Result<Vec<Transaction>, Error> {
    let all = arguments.list_of_bytes(0, PACKAGE_MAX)?;
    all.into_iter().map(|bytes| Transaction::parse(bytes).map_err(|_| Error::TransactionDecode)).collect()
}

pub(super) fn broadcast_package(
    machine: &mut Machine,
    arguments: &Arguments<'_>,
    out: &mut Vec<u8>,
) -> Result<Reply, Fault> {
    let (package, verbose) = (transactions(arguments)?, arguments.truth(1)?);
    let pool = pool(machine)?;
    let sent = submission::offer_package(&package, BURN_SAT_MAX, Some(RATE_SAT_PER_KVB_MAX), &*pool);
    let together = sent.map_err(|error| refused("tx package", error))?;
    if verbose {
        submission::write_package(&package, &together, &mut Json::new(out));
        return Ok(Reply::Written);
    }
    let mut json = Json::new(out);
    json.begin_object();
    json.key("success").bool(together.package_error.is_none());
    let errors = package.iter().enumerate().filter_map(|(index, transaction)| {
        let error = submission::error_of(together.each.get(index))?;
        Some((transaction.tx().txid(), error))
    });
    let errors: Vec<_> = errors.collect();
    if !errors.is_empty() {
        json.key("errors").begin_array();
        for (txid, error) in errors {
            json.begin_object();
            json.key("txid").hash(&txid.0);
            json.key("error").text(error);
            json.end_object();
        }
        json.end_array();
    }
    json.end_object();
    Ok(Reply::Written)
}

pub(super) fn test_accept(machine: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let all = transactions(arguments)?;
    let bytes: Vec<Vec<u8>> = all.iter().map(|transaction| transaction.tx().raw().to_vec()).collect();
    let together = pool(machine)?.test(&bytes);
    let mut json = Json::new(out);
    let mut stopped = false;
    json.begin_array();
    for (index, transaction) in all.iter().enumerate() {
        let tried = together.each.get(index).filter(|_| !stopped);
        let (allowed, reason) = match tried {
            None | Some(Tried::Unjudged) => (None, None),
            Some(Tried::Accepted { size_vb, fee_sat, .. }) => {
                stopped = submission::fee_of(RATE_SAT_PER_KVB_MAX, *size_vb) < *fee_sat;
                (Some(!stopped), stopped.then_some("max-fee-exceeded"))
            }
            Some(Tried::MissingInputs) => (Some(false), Some("missing-inputs")),
            Some(Tried::Rejected { details, .. }) => (Some(false), Some(&**details)),
            Some(Tried::Known { .. } | Tried::OtherWitness { .. }) => (Some(false), Some("txn-already-in-mempool")),
        };
        json.begin_object();
        json.key("txid").hash(&transaction.tx().txid().0);
        json.key("wtxid").hash(&transaction.tx().wtxid().0);
        if let Some(allowed) = allowed {
            json.key("allowed").bool(allowed);
        }
        if let Some(reason) = together.package_error.as_deref().or(reason) {
            json.key("reason").text(reason);
        }
        json.end_object();
    }
    json.end_array();
    write(out, "")
}
