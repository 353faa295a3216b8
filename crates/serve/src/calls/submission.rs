//! Transactions offered to the mempool: tried, sent, or sent as a package.
//!
//! In:     transactions in hexadecimal digits.
//! Out:    txids, and objects with Core's members.
//! Fails:  -33 without a mempool, -26 for what breaks a rule, -27 for what is confirmed already, and Core's sentences.
//! Source: Bitcoin Core, `src/rpc/mempool.cpp`, `src/node/transaction.cpp` (`BroadcastTransaction`).

use primitives::script::{Operations, is_unspendable};
use primitives::{OutPoint, Transaction, Txid};

use super::mempool::write_txids;
use crate::json::Json;
use crate::rpc::call::{Call, transaction_of};
use crate::rpc::error::{Outcome, RpcError, code};
use crate::rpc::method::{Arg, Kind, Method};
use crate::rpc::needs::{Mempool, Tried, TriedTogether};

/// Transactions that are tried together (Core: `MAX_PACKAGE_COUNT`).
pub(crate) const PACKAGE_MAX: usize = 25;
/// Highest rate of those who name none, in satoshi for 1,000 virtual bytes (Core: `DEFAULT_MAX_RAW_TX_FEE_RATE`).
pub(crate) const RATE_SAT_PER_KVB_MAX: i64 = 10_000_000;
/// Most that an output nobody can spend may hold, for those who name no amount (Core: `DEFAULT_MAX_BURN_AMOUNT`).
pub(crate) const BURN_SAT_MAX: i64 = 0;
/// Rates at or above one bitcoin are mistakes (Core: `ParseFeeRate`).
const COIN_SAT: i64 = 100_000_000;

/// The highest rate wished for; none for any (Core: `ParseFeeRate`).
fn rate_max(call: &Call<'_>, index: usize) -> Result<Option<i64>, RpcError> {
    let rate = call.amount_sat(index)?;
    if rate >= COIN_SAT {
        let told = "Fee rates larger than or equal to 1BTC/kvB are not accepted";
        return Err(RpcError::parameter(told));
    }
    Ok((rate > 0).then_some(rate))
}

/// The fee that a rate makes of a size, rounded up (Core: `CFeeRate::GetFee`).
pub(crate) fn fee_of(rate_sat_per_kvb: i64, size_vb: u64) -> i64 {
    (rate_sat_per_kvb.saturating_mul(size_vb as i64)).div_euclid(1000)
        + i64::from(rate_sat_per_kvb.saturating_mul(size_vb as i64).rem_euclid(1000) > 0)
}

fn check_burn(transaction: &Transaction, burn_sat_max: i64) -> Result<(), RpcError> {
    let burns = |script: &[u8]| {
        let mut operations = Operations::of(script);
        let valid = operations.by_ref().all(|operation| operation.code <= 0xb9 && operation.data.len() <= 520);
        is_unspendable(script) || !valid || !operations.rest().is_empty()
    };
    let burnt = transaction.tx().outputs().any(|output| output.value_sat > burn_sat_max && burns(output.script));
    let told = "Unspendable output exceeds maximum configured by user (maxburnamount)";
    if burnt { Err(RpcError::new(code::VERIFY_ERROR, told)) } else { Ok(()) }
}

/// Takes a transaction into the mempool and announces it. `is_coin` says whether the chain holds an output unspent.
pub(crate) fn offer(
    transaction: &Transaction,
    burn_sat_max: i64,
    rate_sat_per_kvb_max: Option<i64>,
    mempool: &dyn Mempool,
    is_coin: &dyn Fn(&OutPoint) -> Result<bool, String>,
) -> Result<Txid, RpcError> {
    check_burn(transaction, burn_sat_max)?;
    let tx = transaction.tx();
    let txid = tx.txid();
    if mempool.entry(&txid).is_none() {
        for vout in 0..tx.output_count() as u32 {
            if is_coin(&OutPoint { txid, vout }).map_err(RpcError::internal)? {
                let told = "Transaction outputs already in utxo set";
                return Err(RpcError::new(code::VERIFY_ALREADY_IN_UTXO_SET, told));
            }
        }
    }
    let size_vb = tx.weight().div_ceil(4) as u64;
    mempool.submit(tx.raw(), rate_sat_per_kvb_max.map(|rate| fee_of(rate, size_vb)))?;
    Ok(txid)
}

fn send(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let burn_sat_max = call.amount_sat(2)?;
    let transaction = call.transaction(0, "TX decode failed. Make sure the tx has at least one input.")?;
    check_burn(&transaction, burn_sat_max)?;
    let rate = rate_max(call, 1)?;
    let (mempool, view) = (call.mempool()?, call.view()?);
    let is_coin = |outpoint: &OutPoint| match view.snapshot().coin(outpoint) {
        Ok(coin) => Ok(coin.is_some()),
        Err(error) => Err(chain::ViewError::from(error).to_string()),
    };
    json.hash(&offer(&transaction, burn_sat_max, rate, mempool, &is_coin)?.0);
    Ok(())
}

fn package(call: &Call<'_>, burn_sat_max: Option<i64>) -> Result<Vec<Transaction>, RpcError> {
    let given = call.arg(0).array()?;
    if given.is_empty() || given.len() > PACKAGE_MAX {
        return Err(RpcError::parameter(format!("Array must contain between 1 and {PACKAGE_MAX} transactions.")));
    }
    let mut transactions = Vec::new();
    for value in given {
        let text = value.text()?;
        let told = || format!("TX decode failed: {text} Make sure the tx has at least one input.");
        let transaction = transaction_of(&text).ok_or_else(|| RpcError::decode(told()))?;
        if let Some(burn_sat_max) = burn_sat_max {
            check_burn(&transaction, burn_sat_max)?;
        }
        transactions.push(transaction);
    }
    Ok(transactions)
}

/// The size for fees under its two names, and that of BIP 141.
fn write_sizes(size_vb: u64, weight: usize, json: &mut Json<'_>) {
    json.key("vsize_adjusted").number(size_vb);
    json.key("vsize").number(size_vb);
    json.key("vsize_bip141").count(weight.div_ceil(4));
}

fn write_fees(fee_sat: i64, effective: Option<(i64, &[primitives::Wtxid])>, json: &mut Json<'_>) {
    json.key("fees").begin_object();
    json.key("base").amount(fee_sat);
    if let Some((rate, with)) = effective {
        json.key("effective-feerate").amount(rate);
        json.key("effective-includes").begin_array();
        with.iter().for_each(|wtxid| json.hash(&wtxid.0));
        json.end_array();
    }
    json.end_object();
}

fn test_accept(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let transactions = package(call, None)?;
    let rate = rate_max(call, 1)?;
    let bytes: Vec<Vec<u8>> = transactions.iter().map(|transaction| transaction.tx().raw().to_vec()).collect();
    let TriedTogether { package_error, each } = call.mempool()?.test(&bytes);
    let mut stopped = false;
    json.begin_array();
    for (index, transaction) in transactions.iter().enumerate() {
        let tx = transaction.tx();
        json.begin_object();
        json.key("txid").hash(&tx.txid().0);
        json.key("wtxid").hash(&tx.wtxid().0);
        if let Some(error) = &package_error {
            json.key("package-error").text(error);
        }
        match each.get(index).filter(|_| !stopped) {
            None | Some(Tried::Unjudged) => {}
            Some(Tried::Accepted { size_vb, fee_sat, .. })
                if rate.is_some_and(|rate| *fee_sat > fee_of(rate, *size_vb)) =>
            {
                json.key("allowed").bool(false);
                json.key("reject-reason").text("max-fee-exceeded");
                stopped = true;
            }
            Some(Tried::Accepted { size_vb, fee_sat, effective_sat_per_kvb, effective_with, .. }) => {
                json.key("allowed").bool(true);
                write_sizes(*size_vb, tx.weight(), json);
                write_fees(*fee_sat, Some((*effective_sat_per_kvb, effective_with)), json);
            }
            Some(Tried::MissingInputs) => {
                json.key("allowed").bool(false);
                json.key("reject-reason").text("missing-inputs");
            }
            Some(Tried::Rejected { reason, details }) => {
                json.key("allowed").bool(false);
                json.key("reject-reason").text(reason);
                json.key("reject-details").text(details);
            }
            Some(Tried::Known { .. } | Tried::OtherWitness { .. }) => {
                json.key("allowed").bool(false);
                json.key("reject-reason").text("txn-already-in-mempool");
                json.key("reject-details").text("txn-already-in-mempool");
            }
        }
        json.end_object();
    }
    json.end_array();
    Ok(())
}

/// A child with all others as its parents, none of which spends another (Core: `IsChildWithParentsTree`).
fn is_child_with_parents(transactions: &[Transaction]) -> bool {
    let Some((child, parents)) = transactions.split_last() else { return false };
    let txids: Vec<Txid> = parents.iter().map(|parent| parent.tx().txid()).collect();
    let spends =
        |transaction: &Transaction, txid: &Txid| transaction.tx().inputs().any(|input| input.outpoint().txid == *txid);
    let all_spent = txids.iter().all(|txid| spends(child, txid));
    let apart = parents.iter().all(|parent| !txids.iter().any(|txid| spends(parent, txid)));
    all_spent && apart
}

/// Takes a child together with its parents.
pub(crate) fn offer_package(
    transactions: &[Transaction],
    burn_sat_max: i64,
    rate_sat_per_kvb_max: Option<i64>,
    mempool: &dyn Mempool,
) -> Result<TriedTogether, RpcError> {
    transactions.iter().try_for_each(|transaction| check_burn(transaction, burn_sat_max))?;
    if transactions.len() > 1 && !is_child_with_parents(transactions) {
        let told = "package topology disallowed. not child-with-parents or parents depend on each other.";
        return Err(RpcError::new(code::VERIFY_ERROR, told));
    }
    let bytes: Vec<Vec<u8>> = transactions.iter().map(|transaction| transaction.tx().raw().to_vec()).collect();
    Ok(mempool.submit_package(&bytes, rate_sat_per_kvb_max))
}

/// Why one transaction of a package was not taken.
pub(crate) fn error_of(tried: Option<&Tried>) -> Option<&str> {
    match tried {
        None | Some(Tried::Unjudged) => Some("package-not-validated"),
        Some(Tried::MissingInputs) => Some("bad-txns-inputs-missingorspent"),
        Some(Tried::Rejected { details, .. }) => Some(details),
        Some(Tried::OtherWitness { .. } | Tried::Known { .. } | Tried::Accepted { .. }) => None,
    }
}

fn submit_package(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let (rate, burn_sat_max) = (rate_max(call, 1)?, call.amount_sat(2)?);
    let transactions = package(call, Some(burn_sat_max))?;
    let together = offer_package(&transactions, burn_sat_max, rate, call.mempool()?)?;
    write_package(&transactions, &together, json);
    Ok(())
}

/// Writes what became of a package.
pub(crate) fn write_package(transactions: &[Transaction], together: &TriedTogether, json: &mut Json<'_>) {
    let TriedTogether { package_error, each } = together;
    let mut replaced: Vec<Txid> = Vec::new();
    json.begin_object();
    json.key("package_msg").text(package_error.as_deref().unwrap_or("success"));
    json.key("tx-results").begin_object();
    for (index, transaction) in transactions.iter().enumerate() {
        let tx = transaction.tx();
        json.key_of(&tx.wtxid().to_string()).begin_object();
        json.key("txid").hash(&tx.txid().0);
        if let Some(error) = error_of(each.get(index)) {
            json.key("error").text(error);
        }
        match each.get(index) {
            None | Some(Tried::Unjudged | Tried::MissingInputs | Tried::Rejected { .. }) => {}
            Some(Tried::OtherWitness { wtxid }) => json.key("other-wtxid").hash(&wtxid.0),
            Some(Tried::Known { size_vb, fee_sat }) => {
                write_sizes(*size_vb, tx.weight(), json);
                write_fees(*fee_sat, None, json);
            }
            Some(Tried::Accepted { size_vb, fee_sat, effective_sat_per_kvb, effective_with, replaced: out }) => {
                write_sizes(*size_vb, tx.weight(), json);
                write_fees(*fee_sat, Some((*effective_sat_per_kvb, effective_with)), json);
                replaced.extend(out);
            }
        }
        json.end_object();
    }
    json.end_object();
    replaced.sort_unstable_by_key(|txid| txid.0);
    replaced.dedup();
    write_txids("replaced-transactions", &replaced, json);
    json.end_object();
}

const MAX_RATE: Arg = Arg::default(
    "maxfeerate",
    Kind::Amount,
    "0.10000000",
    "Highest fee rate in bitcoin per 1,000 virtual bytes; 0 for any.",
);
const MAX_BURN: Arg =
    Arg::default("maxburnamount", Kind::Amount, "0.00000000", "Most that an output nobody can spend may hold.");

macro_rules! method {
    ($name:literal, $category:expr, $args:expr, $about:literal, $result:expr, $run:ident) => {
        Method { name: $name, category: $category, args: $args, about: $about, result: $result, run: $run }
    };
}

/// The methods of this file.
#[rustfmt::skip]
pub const METHODS: &[Method] = &[
    method!("sendrawtransaction", "rawtransactions", &[Arg::required("hexstring", Kind::Hex, "The transaction's bytes."), MAX_RATE, MAX_BURN],
        "Takes a transaction into the mempool and sends it to all peers.", "string: the txid", send),
    method!("testmempoolaccept", "rawtransactions", &[Arg::required("rawtxs", Kind::Array, "Transactions, parents first, 25 at most."), MAX_RATE],
        "Whether the mempool would take transactions; nothing is kept.",
        "array of objects: txid, wtxid, package-error, allowed, vsize, fees, reject-reason, reject-details", test_accept),
    method!("submitpackage", "rawtransactions", &[Arg::required("package", Kind::Array, "A child and its parents, the child last."), MAX_RATE, MAX_BURN],
        "Takes a child together with its parents.", "object: package_msg, tx-results, replaced-transactions", submit_package),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fees_of_rates_are_rounded_up() {
        assert_eq!(fee_of(1000, 250), 250);
        assert_eq!(fee_of(1001, 250), 251);
        assert_eq!(fee_of(0, 250), 0);
        assert_eq!(fee_of(10_000_000, 110), 1_100_000);
    }
}
