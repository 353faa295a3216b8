//! Unspent outputs: one of them, those of some scripts, and the whole set in numbers.
//!
//! In:     outpoints, descriptors, the name of a hash.
//! Out:    objects with Core's members.
//! Fails:  with Core's sentences for hashes and blocks that cannot be had.
//! Source: Bitcoin Core, `src/rpc/blockchain.cpp` (`gettxout`, `gettxoutsetinfo`, `scantxoutset`),
//!         `src/kernel/coinstats.cpp`.
//!
//! `scantxoutset` asks the index and scans nothing: it takes the time that its answer takes.

use bitcoin_hashes::{HashEngine as _, sha256};
use primitives::muhash::{MuHash, push_coin};
use primitives::{Coin, OutPoint, ScriptHash, Transaction, Txid};

use crate::decoded::descriptor;
use crate::decoded::transaction::write_script;
use crate::json::Json;
use crate::keys::ranges::scripts_of_object;
use crate::rpc::call::Call;
use crate::rpc::error::{Outcome, RpcError};
use crate::rpc::located::Located;
use crate::rpc::method::{Arg, Kind, Method};

/// Unspent outputs that one page of the index gives.
const PAGE: usize = 10_000;
/// Bytes that Core counts for a coin beside its script (`GetBogoSize`).
const BOGO_BYTES: u64 = 32 + 4 + 4 + 8 + 2;

/// A coin that a call found.
pub struct FoundCoin {
    /// Its amount.
    pub value_sat: u64,
    /// Height of its block; none in the mempool.
    pub height: Option<u32>,
    /// Made by a coinbase.
    pub coinbase: bool,
    /// Its script.
    pub script: Vec<u8>,
}

/// An unspent output, that of the mempool included where it is asked for.
pub fn find(
    call: &Call<'_>,
    view: &chain::View,
    outpoint: &OutPoint,
    mempool: bool,
) -> Result<Option<FoundCoin>, RpcError> {
    if mempool && let Some(mempool) = call.env.mempool.get() {
        if mempool.spender(outpoint).is_some() {
            return Ok(None);
        }
        if let Some(bytes) = mempool.transaction(&outpoint.txid) {
            let parsed =
                Transaction::parse(bytes).map_err(|_| RpcError::internal("The mempool holds no transaction"))?;
            let output = parsed.tx().outputs().nth(outpoint.vout as usize).map(|output| FoundCoin {
                value_sat: output.value_sat as u64,
                height: None,
                coinbase: false,
                script: output.script.to_vec(),
            });
            return Ok(output);
        }
    }
    let coin = view.snapshot().coin(outpoint).map_err(chain::ViewError::from)?;
    Ok(coin.map(|coin| FoundCoin {
        value_sat: coin.value_sat,
        height: Some(coin.height),
        coinbase: coin.coinbase,
        script: coin.script,
    }))
}

fn tx_out(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let view = call.view()?;
    let outpoint = OutPoint { txid: call.txid(0, "txid")?, vout: call.integer(1)? };
    let Some(coin) = find(call, &view, &outpoint, call.bool(2)?)? else {
        json.null();
        return Ok(());
    };
    let tip = view.tip();
    json.begin_object();
    json.key("bestblock").hash(&tip.hash.0);
    json.key("confirmations").number(coin.height.map_or(0, |height| tip.height - height + 1));
    json.key("value").amount(coin.value_sat as i64);
    json.key("scriptPubKey");
    write_script(&coin.script, true, call.chain_params(), json);
    json.key("coinbase").bool(coin.coinbase);
    json.end_object();
    Ok(())
}

/// Rows of coins that are walked through for their number alone: some milliseconds.
const COUNTED_COINS_MAX: u64 = 100_000;

/// The hash of the set that was asked for.
enum SetHash {
    None,
    MuHash(Box<MuHash>),
    /// SHA-256 over all coins in the order of txid and output, their bytes as those of MuHash.
    Serialized(Box<sha256::HashEngine>),
}

#[derive(Default)]
struct Totals {
    coins: u64,
    transactions: u64,
    bogo_bytes: u64,
    amount_sat: u64,
    last: Option<Txid>,
}

impl Totals {
    fn add(&mut self, outpoint: &OutPoint, coin: &Coin<'_>) {
        self.coins += 1;
        self.transactions += u64::from(self.last != Some(outpoint.txid));
        self.last = Some(outpoint.txid);
        self.bogo_bytes += BOGO_BYTES + coin.script.len() as u64;
        self.amount_sat += coin.value_sat;
    }
}

fn set_info(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let kind = call.text(0)?;
    let mut hash = match &*kind {
        "none" => SetHash::None,
        "muhash" => SetHash::MuHash(Box::default()),
        "hash_serialized_3" => SetHash::Serialized(Box::default()),
        other => return Err(RpcError::parameter(format!("'{other}' is not a valid hash_type"))),
    };
    call.optional_bool(2)?;
    if !call.arg(1).is_null() {
        return Err(RpcError::parameter("Querying specific block heights requires coinstatsindex"));
    }
    let view = call.view()?;
    let (mut totals, mut bytes, mut stopped) = (Totals::default(), Vec::new(), false);
    let walk = view.snapshot().each_coin(&mut |outpoint, coin| {
        totals.add(&outpoint, &coin);
        if !matches!(hash, SetHash::None) {
            bytes.clear();
            push_coin(&mut bytes, &outpoint, coin.height, coin.coinbase, coin.value_sat, coin.script);
        }
        match &mut hash {
            SetHash::None => {}
            SetHash::MuHash(hash) => hash.insert(&bytes),
            SetHash::Serialized(engine) => engine.input(&bytes),
        }
        stopped = call.env.host.stopping();
        !stopped
    });
    walk.map_err(chain::ViewError::from)?;
    if stopped {
        return Err(RpcError::new(crate::rpc::error::code::CLIENT_NOT_CONNECTED, "Shutting down"));
    }
    let disk = view.snapshot().sizes().iter().find(|size| size.name == "coins").map_or(0, |size| size.bytes);
    json.begin_object();
    json.key("height").number(view.tip().height);
    json.key("bestblock").hash(&view.tip().hash.0);
    json.key("txouts").number(totals.coins);
    json.key("bogosize").number(totals.bogo_bytes);
    match hash {
        SetHash::None => {}
        SetHash::MuHash(hash) => json.key("muhash").hash(&hash.finalize()),
        SetHash::Serialized(engine) => {
            json.key("hash_serialized_3").hash(&engine.finalize().hash_again().to_byte_array());
        }
    }
    json.key("total_amount").amount(totals.amount_sat as i64);
    json.key("transactions").number(totals.transactions);
    json.key("disk_size").number(disk);
    json.end_object();
    Ok(())
}

fn scan(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    match &*call.text(0)? {
        // No scan is ever under way: the index has answered before anybody could ask.
        "status" => json.null(),
        "abort" => json.bool(false),
        "start" if call.arg(1).is_null() => {
            return Err(RpcError::misc("scanobjects argument is required for the start action"));
        }
        "start" => return scan_start(call, json),
        other => return Err(RpcError::parameter(format!("Invalid action '{other}'"))),
    }
    Ok(())
}

fn scan_start(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let (view, params) = (call.view()?, call.chain_params());
    let mut scripts: Vec<(Vec<u8>, String)> = Vec::new();
    for object in call.arg(1).array()? {
        for (script, shown) in scripts_of_object(object, params)? {
            if !scripts.iter().any(|(known, _)| *known == script) {
                scripts.push((script, shown));
            }
        }
    }
    let mut found: Vec<(chain::UnspentEntry, usize)> = Vec::new();
    for (number, (script, _)) in scripts.iter().enumerate() {
        let mut from = 0;
        loop {
            let page = view.unspent(&ScriptHash::of(script), from, PAGE)?;
            from = page.last().map_or(from, |last| last.txo_num + 1);
            let full = page.len() == PAGE;
            found.extend(page.into_iter().map(|entry| (entry, number)));
            if !full || call.env.host.stopping() {
                break;
            }
        }
    }
    // Core shows coins in the order of txids as bytes.
    found.sort_by_key(|(entry, _)| (entry.outpoint.txid.0, entry.outpoint.vout));
    let tip = view.tip();
    json.begin_object();
    json.key("success").bool(true);
    json.key("txouts").number(coin_count(&view)?);
    json.key("height").number(tip.height);
    json.key("bestblock").hash(&tip.hash.0);
    json.key("unspents").begin_array();
    let mut sum_sat = 0;
    for (entry, number) in &found {
        let (script, shown) = &scripts[*number];
        let coin = view.snapshot().coin(&entry.outpoint).map_err(chain::ViewError::from)?;
        sum_sat += entry.value_sat;
        json.begin_object();
        json.key("txid").hash(&entry.outpoint.txid.0);
        json.key("vout").number(entry.outpoint.vout);
        json.key("scriptPubKey").hex(script);
        json.key("desc").text(shown);
        json.key("amount").amount(entry.value_sat as i64);
        json.key("coinbase").bool(coin.is_some_and(|coin| coin.coinbase));
        json.key("height").number(entry.height);
        json.key("blockhash").hash(&Located::at(&view, entry.height)?.hash.0);
        json.key("confirmations").number(tip.height - entry.height + 1);
        json.end_object();
    }
    json.end_array();
    json.key("total_amount").amount(sum_sat as i64);
    json.end_object();
    Ok(())
}

/// Coins there are: counted where they are few, and elsewhere the rows of their table, in which spent ones stay until
/// they are merged away.
fn coin_count(view: &chain::View) -> Result<u64, RpcError> {
    let rows = view.snapshot().sizes().iter().find(|size| size.name == "coins").map_or(0, |size| size.rows);
    let mut coins = 0;
    if rows > COUNTED_COINS_MAX {
        return Ok(rows);
    }
    let walk = view.snapshot().each_coin(&mut |_, _| {
        coins += 1;
        true
    });
    walk.map(|_| coins).map_err(|error| chain::ViewError::from(error).into())
}

/// The descriptor of a script about which nothing else is known, as text.
pub fn inferred(script: &[u8], params: &primitives::Params) -> String {
    let mut out = Vec::new();
    descriptor::push_of_script(script, primitives::script::ScriptType::of(script), params, &mut out);
    String::from_utf8(out).expect("descriptors are ASCII")
}

/// The methods of this file.
pub const METHODS: &[Method] = &[
    Method {
        name: "gettxout",
        category: "blockchain",
        args: &[
            Arg::required("txid", Kind::Text, "The transaction that made the output."),
            Arg::required("n", Kind::Number, "The output's position in it."),
            Arg::default(
                "include_mempool",
                Kind::Bool,
                "true",
                "Whether the mempool counts, for making and for spending.",
            ),
        ],
        about: "An unspent output.",
        result: "null where it is spent or unknown; otherwise an object: bestblock, confirmations, value, scriptPubKey, coinbase",
        run: tx_out,
    },
    Method {
        name: "gettxoutsetinfo",
        category: "blockchain",
        args: &[
            Arg::default("hash_type", Kind::Text, "\"hash_serialized_3\"", "hash_serialized_3, muhash or none."),
            Arg::hint("hash_or_height", Kind::TextOrNumber, "the tip", "Not available: numbers are those of the tip."),
            Arg::default("use_index", Kind::Bool, "true", "Without effect."),
        ],
        about: "All unspent outputs in numbers, with a hash over them. The whole set is read: minutes on mainnet.",
        result: "object: height, bestblock, txouts, bogosize, hash_serialized_3 or muhash, total_amount, transactions, disk_size",
        run: set_info,
    },
    Method {
        name: "scantxoutset",
        category: "blockchain",
        args: &[
            Arg::required("action", Kind::Text, "start, status or abort."),
            Arg::optional(
                "scanobjects",
                Kind::Array,
                "Descriptors, or objects with the members desc and range (a last index, or a first and a last one).",
            ),
        ],
        about: "Unspent outputs of the scripts that descriptors stand for, out of the index.",
        result: "object: success, txouts, height, bestblock, unspents, total_amount",
        run: scan,
    },
];
