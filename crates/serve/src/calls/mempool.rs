//! Unconfirmed transactions: what the mempool holds, and what fees it has seen.
//!
//! In:     txids, outpoints, transactions in hexadecimal digits.
//! Out:    objects with Core's members.
//! Fails:  -33 without a mempool, -26 for what breaks a rule, -27 for what is confirmed already, and Core's sentences.
//! Source: Bitcoin Core, `src/rpc/mempool.cpp`, `src/rpc/fees.cpp`, `src/node/transaction.cpp` (`BroadcastTransaction`).

use primitives::{OutPoint, Transaction, Txid};

use crate::json::Json;
use crate::rpc::call::{Call, hash_of};
use crate::rpc::error::{Outcome, RpcError, code};
use crate::rpc::method::{Arg, HIDDEN, Kind, Method};
use crate::rpc::needs::{ImportWish, Mempool, MempoolEntry, MempoolTotals, Orphan, RateRange};
use crate::rpc::value::{Type, member, mismatch};

fn write_entry(entry: &MempoolEntry, json: &mut Json<'_>) {
    json.begin_object();
    json.key("vsize").number(entry.size_vb);
    json.key("weight").number(entry.weight);
    json.key("time").number(entry.time_s);
    json.key("height").number(entry.height);
    json.key("descendantcount").number(entry.descendant_count);
    json.key("descendantsize").number(entry.descendant_vb);
    json.key("ancestorcount").number(entry.ancestor_count);
    json.key("ancestorsize").number(entry.ancestor_vb);
    json.key("wtxid").hash(&entry.wtxid.0);
    json.key("chunkweight").number(entry.chunk_weight);
    json.key("fees").begin_object();
    json.key("base").amount(entry.fee_sat);
    json.key("modified").amount(entry.modified_fee_sat);
    json.key("ancestor").amount(entry.ancestor_fee_sat);
    json.key("descendant").amount(entry.descendant_fee_sat);
    json.key("chunk").amount(entry.chunk_fee_sat);
    json.end_object();
    let mut parents: Vec<String> = entry.parents.iter().map(Txid::to_string).collect();
    parents.sort_unstable();
    json.key("depends").begin_array();
    parents.iter().for_each(|txid| json.text(txid));
    json.end_array();
    write_txids("spentby", &entry.children, json);
    json.key("unbroadcast").bool(entry.unbroadcast);
    json.end_object();
}

pub(super) fn write_txids(name: &str, txids: &[Txid], json: &mut Json<'_>) {
    json.key(name).begin_array();
    txids.iter().for_each(|txid| json.hash(&txid.0));
    json.end_array();
}

/// Writes the whole mempool (Core: `MempoolToJSON`).
pub fn write_all(mempool: &dyn Mempool, verbose: bool, with_sequence: bool, json: &mut Json<'_>) -> Outcome {
    if verbose && with_sequence {
        return Err(RpcError::parameter("Verbose results cannot contain mempool sequence values."));
    }
    if verbose {
        json.begin_object();
        for entry in mempool.entries() {
            json.key_of(&entry.txid.to_string());
            write_entry(&entry, json);
        }
        json.end_object();
    } else if with_sequence {
        json.begin_object();
        write_txids("txids", &mempool.txids(), json);
        json.key("mempool_sequence").number(mempool.sequence());
        json.end_object();
    } else {
        json.begin_array();
        mempool.txids().iter().for_each(|txid| json.hash(&txid.0));
        json.end_array();
    }
    Ok(())
}

/// Writes totals and limits (Core: `MempoolInfoToJSON`).
pub fn write_totals(totals: &MempoolTotals, json: &mut Json<'_>) {
    json.begin_object();
    json.key("loaded").bool(totals.loaded);
    json.key("size").number(totals.count);
    json.key("bytes").number(totals.size_vb);
    json.key("usage").number(totals.memory_bytes);
    json.key("total_fee").amount(totals.fee_sat);
    json.key("maxmempool").number(totals.memory_bytes_max);
    json.key("mempoolminfee").amount(totals.floor_sat_per_kvb.max(totals.relay_floor_sat_per_kvb));
    json.key("minrelaytxfee").amount(totals.relay_floor_sat_per_kvb);
    json.key("incrementalrelayfee").amount(totals.increment_sat_per_kvb);
    json.key("unbroadcastcount").number(totals.unbroadcast_count);
    json.key("permitbaremultisig").bool(totals.bare_multisig);
    json.key("maxdatacarriersize").number(totals.data_carrier_bytes_max);
    json.key("limitclustercount").number(totals.cluster_count_max);
    json.key("limitclustersize").number(totals.cluster_vb_max);
    json.key("optimal").bool(totals.optimal);
    json.end_object();
}

fn raw_mempool(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    write_all(call.mempool()?, call.bool(0)?, call.bool(1)?, json)
}

fn mempool_info(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    write_totals(&call.mempool()?.totals(), json);
    Ok(())
}

fn not_in_mempool() -> RpcError {
    RpcError::address_or_key("Transaction not in mempool")
}

fn mempool_entry(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let txid = call.txid(0, "txid")?;
    write_entry(&call.mempool()?.entry(&txid).ok_or_else(not_in_mempool)?, json);
    Ok(())
}

fn write_relatives(mempool: &dyn Mempool, txids: &[Txid], verbose: bool, json: &mut Json<'_>) {
    if !verbose {
        json.begin_array();
        txids.iter().for_each(|txid| json.hash(&txid.0));
        json.end_array();
        return;
    }
    json.begin_object();
    // One that left meanwhile is left out.
    for entry in txids.iter().filter_map(|txid| mempool.entry(txid)) {
        json.key_of(&entry.txid.to_string());
        write_entry(&entry, json);
    }
    json.end_object();
}

fn ancestors(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let (verbose, txid, mempool) = (call.bool(1)?, call.txid(0, "txid")?, call.mempool()?);
    write_relatives(mempool, &mempool.ancestors(&txid).ok_or_else(not_in_mempool)?, verbose, json);
    Ok(())
}

fn descendants(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let (verbose, txid, mempool) = (call.bool(1)?, call.txid(0, "txid")?, call.mempool()?);
    write_relatives(mempool, &mempool.descendants(&txid).ok_or_else(not_in_mempool)?, verbose, json);
    Ok(())
}

fn cluster(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let txid = call.txid(0, "txid")?;
    let chunks = call.mempool()?.cluster(&txid).ok_or_else(not_in_mempool)?;
    json.begin_object();
    json.key("clusterweight").number(chunks.iter().map(|chunk| chunk.weight).sum::<u64>());
    json.key("txcount").count(chunks.iter().map(|chunk| chunk.txids.len()).sum());
    json.key("chunks").begin_array();
    for chunk in &chunks {
        json.begin_object();
        json.key("chunkfee").amount(chunk.fee_sat);
        json.key("chunkweight").number(chunk.weight);
        write_txids("txs", &chunk.txids, json);
        json.end_object();
    }
    json.end_array();
    json.end_object();
    Ok(())
}

fn feerate_diagram(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    json.begin_array();
    for (weight, fee_sat) in call.mempool()?.feerate_diagram() {
        json.begin_object();
        json.key("weight").number(weight);
        json.key("fee").amount(fee_sat);
        json.end_object();
    }
    json.end_array();
    Ok(())
}

const SPENDING_OPTIONS: &[Arg] = &[
    Arg::optional("mempool_only", Kind::Bool, "Look into the mempool only, and not into blocks."),
    Arg::optional("return_spending_tx", Kind::Bool, "Show the spending transaction's bytes too."),
];

fn strict(members: &[crate::rpc::value::Member<'_>], known: &[(&str, Type)], optional: bool) -> Result<(), RpcError> {
    for (name, want) in known {
        let value = member(members, name);
        if value.is_null() && !optional {
            return Err(RpcError::type_error(format!("Missing {name}")));
        }
        if !value.is_null() && value.kind() != *want {
            let told = mismatch(value.kind(), *want).replacen(" is not", &format!(" for field {name} is not"), 1);
            return Err(RpcError::type_error(told));
        }
    }
    match members.iter().find(|(key, _)| !known.iter().any(|(name, _)| name == key)) {
        Some((unknown, _)) => Err(RpcError::type_error(format!("Unexpected key {unknown}"))),
        None => Ok(()),
    }
}

fn spending_prevout(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let outputs = call.arg(0).array()?;
    if outputs.is_empty() {
        return Err(RpcError::parameter("Invalid parameter, outputs are missing"));
    }
    let options = if call.arg(1).is_null() { Vec::new() } else { call.arg(1).object()? };
    strict(&options, &[("mempool_only", Type::Bool), ("return_spending_tx", Type::Bool)], true)?;
    let flag = |name: &str| member(&options, name).bool().unwrap_or(false);
    let (mempool_only, with_tx) = (flag("mempool_only"), flag("return_spending_tx"));
    let mempool = if mempool_only { Some(call.mempool()?) } else { call.env.mempool.get().map(|mempool| &**mempool) };
    let view = call.view()?;
    json.begin_array();
    for output in outputs {
        let members = output.object()?;
        strict(&members, &[("txid", Type::Text), ("vout", Type::Number)], false)?;
        let txid = Txid(hash_of(member(&members, "txid"), "txid")?);
        let vout: i32 = member(&members, "vout").integer()?;
        let negative = |_| RpcError::parameter("Invalid parameter, vout cannot be negative");
        let outpoint = OutPoint { txid, vout: u32::try_from(vout).map_err(negative)? };
        json.begin_object();
        json.key("txid").hash(&txid.0);
        json.key("vout").number(vout);
        let unconfirmed = mempool.and_then(|mempool| Some((mempool, mempool.spender(&outpoint)?)));
        if let Some((mempool, spender)) = unconfirmed {
            json.key("spendingtxid").hash(&spender.0);
            if let Some(bytes) = mempool.transaction(&spender).filter(|_| with_tx) {
                json.key("spendingtx").hex(&bytes);
            }
        } else if !mempool_only && let Some(spender) = view.spender(&outpoint)? {
            json.key("spendingtxid").hash(&spender.txid.0);
            if with_tx && let Some(found) = view.transaction(&spender.txid)? {
                json.key("spendingtx").hex(&found.bytes);
            }
            json.key("blockhash").hash(&crate::rpc::located::Located::at(&view, spender.height)?.hash.0);
        }
        json.end_object();
    }
    json.end_array();
    Ok(())
}

fn save(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let mempool = call.mempool()?;
    if !mempool.totals().loaded {
        return Err(RpcError::misc("The mempool was not loaded yet"));
    }
    let filename = mempool.save()?;
    json.begin_object();
    json.key("filename").text(&filename);
    json.end_object();
    Ok(())
}

/// Core: `ParseConfirmTarget`.
fn target(call: &Call<'_>, mempool: &dyn Mempool) -> Result<u32, RpcError> {
    let (target, most): (i32, u32) = (call.integer(0)?, mempool.estimate_blocks_max());
    let target = u32::try_from(target).ok().filter(|target| (1..=most).contains(target));
    target.ok_or_else(|| RpcError::parameter(format!("Invalid conf_target, must be between 1 and {most}")))
}

fn estimate(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let mempool = call.mempool()?;
    let target = target(call, mempool)?;
    let conservative = match &*call.text(1)?.to_lowercase() {
        "conservative" => true,
        "economical" | "unset" => false,
        _ => {
            let told = "Invalid estimate_mode parameter, must be one of: \"unset\", \"economical\", \"conservative\"";
            return Err(RpcError::parameter(told));
        }
    };
    let estimate = mempool.estimate(target, conservative);
    let totals = mempool.totals();
    json.begin_object();
    match estimate.sat_per_kvb {
        Some(rate) => {
            json.key("feerate").amount(rate.max(totals.floor_sat_per_kvb).max(totals.relay_floor_sat_per_kvb));
        }
        None => write_errors("Insufficient data or no feerate found", json),
    }
    json.key("blocks").number(estimate.blocks);
    json.end_object();
    Ok(())
}

fn raw_estimate(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let mempool = call.mempool()?;
    let target = target(call, mempool)?;
    let threshold = call.float(1)?;
    if !(0.0..=1.0).contains(&threshold) {
        return Err(RpcError::parameter("Invalid threshold"));
    }
    json.begin_object();
    for estimate in mempool.raw_estimates(target, threshold) {
        json.key(estimate.horizon).begin_object();
        if let Some(rate) = estimate.sat_per_kvb {
            json.key("feerate").amount(rate);
        }
        json.key("decay").float(estimate.decay);
        json.key("scale").number(estimate.scale);
        if let Some(pass) = estimate.pass.filter(|_| estimate.sat_per_kvb.is_some()) {
            write_range("pass", &pass, json);
        }
        if let Some(fail) = estimate.fail {
            write_range("fail", &fail, json);
        }
        if estimate.sat_per_kvb.is_none() {
            write_errors("Insufficient data or no feerate found which meets threshold", json);
        }
        json.end_object();
    }
    json.end_object();
    Ok(())
}

fn write_range(name: &str, range: &RateRange, json: &mut Json<'_>) {
    let cents = |value: f64| (value * 100.0).round() / 100.0;
    json.key(name).begin_object();
    json.key("startrange").float(range.start.round());
    json.key("endrange").float(range.end.round());
    json.key("withintarget").float(cents(range.within_target));
    json.key("totalconfirmed").float(cents(range.confirmed));
    json.key("inmempool").float(cents(range.in_mempool));
    json.key("leftmempool").float(cents(range.left));
    json.end_object();
}

fn write_errors(error: &str, json: &mut Json<'_>) {
    json.key("errors").begin_array();
    json.text(error);
    json.end_array();
}

fn import(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let mempool = call.mempool()?;
    if call.env.handle()?.is_initial_download() {
        let told = "Can only import the mempool after the block download and sync is done.";
        return Err(RpcError::new(code::CLIENT_IN_INITIAL_DOWNLOAD, told));
    }
    let path = call.text(0)?;
    let options = if call.arg(1).is_null() { Vec::new() } else { call.arg(1).object()? };
    let flag = |name: &str, otherwise: bool| match member(&options, name) {
        value if value.is_null() => Ok(otherwise),
        value => value.bool(),
    };
    let wish = ImportWish {
        current_time: flag("use_current_time", true)?,
        deltas: flag("apply_fee_delta_priority", false)?,
        unbroadcast: flag("apply_unbroadcast_set", false)?,
    };
    mempool.import(&path, wish)?;
    json.begin_object();
    json.end_object();
    Ok(())
}

fn prioritise(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let txid = call.txid(0, "txid")?;
    let dummy = call.arg(1);
    let delta_sat: i64 = call.integer(2)?;
    if !dummy.is_null() && dummy.float()? != 0.0 {
        let told = "Priority is no longer supported, dummy argument to prioritisetransaction must be 0.";
        return Err(RpcError::parameter(told));
    }
    call.mempool()?.prioritise(&txid, delta_sat)?;
    json.bool(true);
    Ok(())
}

fn prioritised(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    json.begin_object();
    for row in call.mempool()?.prioritised() {
        json.key_of(&row.txid.to_string()).begin_object();
        json.key("fee_delta").number(row.delta_sat);
        json.key("in_mempool").bool(row.modified_fee_sat.is_some());
        if let Some(fee_sat) = row.modified_fee_sat {
            json.key("modified_fee").number(fee_sat);
        }
        json.end_object();
    }
    json.end_object();
    Ok(())
}

fn write_orphan(orphan: &Orphan, with_hex: bool, json: &mut Json<'_>) -> Outcome {
    let parsed = Transaction::parse(&orphan.bytes[..]).map_err(|_| RpcError::internal("An orphan does not parse"))?;
    let tx = parsed.tx();
    json.begin_object();
    json.key("txid").hash(&tx.txid().0);
    json.key("wtxid").hash(&tx.wtxid().0);
    json.key("bytes").count(tx.raw().len());
    json.key("vsize").count(tx.weight().div_ceil(4));
    json.key("weight").count(tx.weight());
    json.key("from").begin_array();
    orphan.peers.iter().for_each(|id| json.number(*id));
    json.end_array();
    if with_hex {
        json.key("hex").hex(&orphan.bytes);
    }
    json.end_object();
    Ok(())
}

fn orphans(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let orphans = call.network()?.orphans();
    if call.arg(0).kind() == Type::Bool {
        return Err(RpcError::type_error("Verbosity was boolean but only integer allowed"));
    }
    let verbosity: i32 = call.integer(0)?;
    if !(0..=2).contains(&verbosity) {
        return Err(RpcError::parameter(format!("Invalid verbosity value {verbosity}")));
    }
    json.begin_array();
    for orphan in &orphans {
        match verbosity {
            0 => {
                let parsed = Transaction::parse(&orphan.bytes[..]);
                json.hash(&parsed.map_err(|_| RpcError::internal("An orphan does not parse"))?.tx().txid().0);
            }
            _ => write_orphan(orphan, verbosity == 2, json)?,
        }
    }
    json.end_array();
    Ok(())
}

const IMPORT_OPTIONS: &[Arg] = &[
    Arg::default("use_current_time", Kind::Bool, "true", "Whether its transactions are taken to have come now."),
    Arg::default("apply_fee_delta_priority", Kind::Bool, "false", "Whether its additions to fees count."),
    Arg::default(
        "apply_unbroadcast_set",
        Kind::Bool,
        "false",
        "Whether those that no peer has asked for are announced.",
    ),
];
const TXID: Arg = Arg::required("txid", Kind::Hex, "A transaction of the mempool.");
const VERBOSE: Arg = Arg::default("verbose", Kind::Bool, "false", "true for an object of entries, false for txids.");
const ENTRY: &str = "object: vsize, weight, time, height, descendantcount, descendantsize, ancestorcount, ancestorsize, wtxid, \
                     chunkweight, fees, depends, spentby, unbroadcast";
macro_rules! method {
    ($name:literal, $category:expr, $args:expr, $about:literal, $result:expr, $run:ident) => {
        Method { name: $name, category: $category, args: $args, about: $about, result: $result, run: $run }
    };
}

/// The methods of this file.
#[rustfmt::skip]
pub const METHODS: &[Method] = &[
    method!("getrawmempool", "blockchain", &[VERBOSE, Arg::default("mempool_sequence", Kind::Bool, "false", "With the sequence number, where not verbose.")],
        "The transactions of the mempool.", "array of txids, object of entries, or object: txids, mempool_sequence", raw_mempool),
    method!("getmempoolinfo", "blockchain", &[], "Totals and limits of the mempool.",
        "object: loaded, size, bytes, usage, total_fee, maxmempool, mempoolminfee, minrelaytxfee, incrementalrelayfee, \
         unbroadcastcount, permitbaremultisig, maxdatacarriersize, limitclustercount, limitclustersize, optimal", mempool_info),
    method!("getmempoolentry", "blockchain", &[TXID], "One transaction of the mempool.", ENTRY, mempool_entry),
    method!("getmempoolancestors", "blockchain", &[TXID, VERBOSE], "Unconfirmed transactions that one descends from.",
        "array of txids, or object of entries", ancestors),
    method!("getmempooldescendants", "blockchain", &[TXID, VERBOSE], "Unconfirmed transactions that descend from one.",
        "array of txids, or object of entries", descendants),
    method!("getmempoolcluster", "blockchain", &[TXID], "The transactions connected with one, in the order of mining.",
        "object: clusterweight, txcount, chunks (objects: chunkfee, chunkweight, txs)", cluster),
    method!("getmempoolfeeratediagram", HIDDEN, &[], "Weight and fee of the mempool, summed up chunk by chunk.",
        "array of objects: weight, fee", feerate_diagram),
    method!("gettxspendingprevout", "blockchain", &[
            Arg::required("outputs", Kind::Array, "Objects with the members txid and vout."),
            Arg::optional("options", Kind::Options(SPENDING_OPTIONS), "What to look at and to show."),
        ], "Who spends outputs, in the mempool or in blocks.",
        "array of objects: txid, vout, spendingtxid, spendingtx, blockhash", spending_prevout),
    method!("savemempool", "blockchain", &[], "Writes the mempool to its file.", "object: filename", save),
    method!("estimatesmartfee", "util", &[
            Arg::required("conf_target", Kind::Number, "Blocks within which to confirm."),
            Arg::default("estimate_mode", Kind::Text, "\"economical\"", "economical or conservative."),
        ], "The fee rate at which transactions confirmed in time.", "object: feerate or errors, blocks", estimate),
    method!("estimaterawfee", HIDDEN, &[
            Arg::required("conf_target", Kind::Number, "Blocks within which to confirm."),
            Arg::default("threshold", Kind::Number, "0.95", "Share of transactions that must have been confirmed in time."),
        ], "What each horizon of the estimates has seen.",
        "object: short, medium, long (objects: feerate, decay, scale, pass, fail, errors)", raw_estimate),
    method!("importmempool", "blockchain", &[
            Arg::required("filepath", Kind::Text, "A mempool.dat of this node or of Bitcoin Core."),
            Arg::optional("options", Kind::Options(IMPORT_OPTIONS), "What of the file counts."),
        ], "Takes in the transactions of a file, as if they came from a peer.", "object", import),
    method!("prioritisetransaction", "mining", &[
            Arg::required("txid", Kind::Hex, "The transaction."),
            Arg::optional("dummy", Kind::Number, "0 or null."),
            Arg::required("fee_delta", Kind::Number, "Satoshi to add, or to take off where negative."),
        ], "Changes the fee that a transaction counts for in mining.", "true", prioritise),
    method!("getprioritisedtransactions", "mining", &[], "What was added to fees.",
        "object of objects: fee_delta, in_mempool, modified_fee", prioritised),
    method!("getorphantxs", HIDDEN, &[Arg::default("verbosity", Kind::NumberOrBool, "0", "0 for txids, 1 for objects, 2 with bytes.")],
        "Transactions whose parents are unknown.", "array", orphans),
];
