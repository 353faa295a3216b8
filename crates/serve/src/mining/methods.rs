//! Mining: templates, submitted blocks, blocks made on the spot on regtest, and marks on blocks.
//!
//! In:     blocks, headers and transactions in hexadecimal digits; addresses and descriptors for rewards.
//! Out:    templates, hashes, BIP 22's words.
//! Fails:  -25 for what breaks a rule, -9 and -10 for a node that is not ready to mine, and Core's sentences.
//! Source: Bitcoin Core, `src/rpc/mining.cpp`, `src/rpc/blockchain.cpp` (`invalidateblock`); BIP 22, 23, 145.

use std::time::{Duration, Instant};

use chain::View;
use consensus::connect::subsidy_sat;
use consensus::{BLOCK_WEIGHT_MAX, SIGOP_COST_MAX};
use primitives::block::BLOCK_BYTES_MAX;
use primitives::{Block, Network, Params, Transaction, Txid, address};
use stdx::hex;

use super::assemble::{Assembled, Next, commitment, with_coinbase_witness};
use crate::calls::chaininfo::{chain_name, hashes_per_second, write_warnings};
use crate::calls::deployments::{Stage, TESTDUMMY_BIT, next_stage};
use crate::json::Json;
use crate::keys::descriptor::parse;
use crate::rpc::call::{Call, transaction_of};
use crate::rpc::error::{Outcome, RpcError, code};
use crate::rpc::located::{Located, block_not_found, difficulty, target_of};
use crate::rpc::method::{Arg, HIDDEN, Kind, Method};
use crate::rpc::needs::{Chosen, Submitted};
use crate::rpc::value::{Member, Type, Value, member};

/// Nonces tried without being told (Core: `DEFAULT_MAX_TRIES`).
const TRIES: &str = "1000000";
/// A long poll is answered for new transactions after this time (Core, `getblocktemplate`).
const LONG_POLL: Duration = Duration::from_secs(60);
/// Fee rate below which nothing is mined, without a mempool to ask (Core: `DEFAULT_BLOCK_MIN_TX_FEE`).
const FLOOR_SAT_PER_KVB: i64 = 1;

fn chosen(call: &Call<'_>) -> Vec<Chosen> {
    call.env.mempool.get().map(|mempool| mempool.choose()).unwrap_or_default()
}

/// Core's word for what became of a block; none where all is well.
fn word(submitted: &Submitted) -> Option<&str> {
    match submitted {
        Submitted::Accepted => None,
        Submitted::Duplicate => Some("duplicate"),
        Submitted::DuplicateInvalid => Some("duplicate-invalid"),
        Submitted::Inconclusive => Some("inconclusive"),
        Submitted::Invalid { reason, .. } if reason.is_empty() => Some("rejected"),
        Submitted::Invalid { reason, .. } => Some(reason),
    }
}

fn write_word(submitted: &Submitted, json: &mut Json<'_>) {
    match word(submitted) {
        None => json.null(),
        Some(word) => json.text(word),
    }
}

fn block_of(text: &str) -> Result<Block, RpcError> {
    let bytes = hex::decode(text).ok();
    bytes.and_then(|bytes| Block::parse_first(bytes).ok()).ok_or_else(|| RpcError::decode("Block decode failed"))
}

fn submit_block(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let block = block_of(&call.text(0)?)?;
    let bytes = with_coinbase_witness(&block).unwrap_or_else(|| block.bytes().to_vec());
    write_word(&call.blocks()?.submit_block(&bytes), json);
    Ok(())
}

fn submit_header(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    // A whole block is as good: it begins with its header.
    let bytes = hex::decode(&call.text(0)?).ok();
    let header: Option<[u8; 80]> = bytes.and_then(|bytes| bytes.first_chunk().copied());
    let header = header.ok_or_else(|| RpcError::decode("Block header decode failed"))?;
    let previous = primitives::Header::decode(&header).previous;
    let view = call.view()?;
    if Located::find(call.env, &view, &previous)?.is_none() {
        let told = format!("Must submit previous header ({previous}) first");
        return Err(RpcError::new(code::VERIFY_ERROR, told));
    }
    match call.blocks()?.submit_header(&header) {
        Submitted::Invalid { reason, .. } => Err(RpcError::new(code::VERIFY_ERROR, reason)),
        Submitted::DuplicateInvalid => Err(RpcError::new(code::VERIFY_ERROR, "duplicate-invalid")),
        _ => {
            json.null();
            Ok(())
        }
    }
}

fn mark(json: &mut Json<'_>, done: Result<bool, RpcError>) -> Outcome {
    if !done? {
        return Err(block_not_found());
    }
    json.null();
    Ok(())
}

fn invalidate(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let hash = call.block_hash(0, "blockhash")?;
    mark(json, call.blocks()?.invalidate(&hash))
}

fn reconsider(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let hash = call.block_hash(0, "blockhash")?;
    mark(json, call.blocks()?.reconsider(&hash))
}

fn prefer(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let hash = call.block_hash(0, "blockhash")?;
    mark(json, call.blocks()?.prefer(&hash))
}

/// Makes blocks one on the other until there are enough or the tries are used up.
fn generate(call: &Call<'_>, count: i32, mut tries: u64, script: &[u8], json: &mut Json<'_>) -> Outcome {
    let (blocks, params) = (call.blocks()?, call.chain_params());
    json.begin_array();
    for _ in 0..count.max(0) {
        let view = call.view()?;
        let next = Next::of(&view, call.env.host.unix_s(), params)?;
        let mut block = Assembled::new(&next, &chosen(call), true, script, params)?;
        if !block.find_nonce(&mut tries, params, &|| call.env.host.stopping()) {
            break;
        }
        match blocks.submit_block(&block.bytes()) {
            Submitted::Accepted => json.hash(&block.hash().0),
            _ => return Err(RpcError::internal("ProcessNewBlock, block not accepted")),
        }
    }
    json.end_array();
    Ok(())
}

fn generate_to_address(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let script = address::to_script(&call.text(1)?, call.chain_params());
    let script = script.map_err(|_| RpcError::address_or_key("Error: Invalid address"))?;
    generate(call, call.integer(0)?, call.integer(2)?, &script, json)
}

/// The script that a descriptor's reward goes to; the inner error is about text that is no descriptor.
fn script_of_descriptor(text: &str, params: &Params) -> Result<Result<Vec<u8>, String>, RpcError> {
    let descriptor = match parse(text, params, false) {
        Ok(descriptor) => descriptor,
        Err(told) => return Ok(Err(told)),
    };
    if descriptor.is_range() {
        let told = "Ranged descriptor not accepted. Maybe pass through deriveaddresses first?";
        return Err(RpcError::parameter(told));
    }
    let missing = || RpcError::address_or_key("Cannot derive script without private keys");
    let mut scripts = descriptor.scripts(0, params).ok_or_else(missing)?;
    // combo: the witness program where the key is short, otherwise the key's hash.
    let at = match scripts.len() {
        1 => 0,
        4 => 2,
        _ => 1,
    };
    Ok(Ok(scripts.swap_remove(at).0))
}

fn generate_to_descriptor(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let (count, tries) = (call.integer(0)?, call.integer(2)?);
    let script = script_of_descriptor(&call.text(1)?, call.chain_params())?.map_err(RpcError::address_or_key)?;
    generate(call, count, tries, &script, json)
}

fn transactions(call: &Call<'_>, value: Value<'_>) -> Result<Vec<Chosen>, RpcError> {
    let mut all = Vec::new();
    for value in value.array()? {
        let text = value.text()?;
        let bytes = match text.parse::<Txid>() {
            Ok(txid) => {
                let told = || RpcError::address_or_key(format!("Transaction {text} not in mempool."));
                call.mempool()?.transaction(&txid).ok_or_else(told)?
            }
            Err(_) => {
                let told = || format!("Transaction decode failed for {text}. Make sure the tx has at least one input.");
                transaction_of(&text).ok_or_else(|| RpcError::decode(told()))?.tx().raw().to_vec()
            }
        };
        all.push(Chosen { bytes, fee_sat: 0, sigop_cost: 0 });
    }
    Ok(all)
}

fn generate_block(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let (output, params) = (call.text(0)?, call.chain_params());
    let script = match script_of_descriptor(&output, params)? {
        Ok(script) => script,
        Err(_) => address::to_script(&output, params)
            .map_err(|_| RpcError::address_or_key("Error: Invalid address or descriptor"))?,
    };
    let (chosen, submit) = (transactions(call, call.arg(1))?, call.bool(2)?);
    let view = call.view()?;
    let next = Next::of(&view, call.env.host.unix_s(), params)?;
    let mut block = Assembled::new(&next, &chosen, false, &script, params)?;
    let blocks = call.blocks()?;
    if let Submitted::Invalid { details, .. } = blocks.test_block(&block.bytes(), false) {
        return Err(RpcError::new(code::VERIFY_ERROR, format!("TestBlockValidity failed: {details}")));
    }
    let mut tries = 1_000_000;
    if !block.find_nonce(&mut tries, params, &|| call.env.host.stopping()) {
        return Err(RpcError::misc("Failed to make block."));
    }
    if submit && blocks.submit_block(&block.bytes()) != Submitted::Accepted {
        return Err(RpcError::internal("ProcessNewBlock, block not accepted"));
    }
    json.begin_object();
    json.key("hash").hash(&block.hash().0);
    if !submit {
        json.key("hex").hex(&block.bytes());
    }
    json.end_object();
    Ok(())
}

fn mining_info(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let (env, view, params) = (call.env, call.view()?, call.chain_params());
    let tip = Located::tip(&view)?;
    let next = Next::of(&view, env.host.unix_s(), params)?;
    let mempool = env.mempool.get();
    json.begin_object();
    json.key("blocks").number(tip.height);
    json.key("bits").hex(&tip.header.bits.to_be_bytes());
    json.key("difficulty").float(difficulty(tip.header.bits));
    json.key("target").hex(&target_of(tip.header.bits));
    json.key("networkhashps").float(hashes_per_second(env, &view, 120, -1)?);
    json.key("pooledtx").number(mempool.map_or(0, |mempool| mempool.totals().count));
    json.key("blockmintxfee").amount(mempool.map_or(FLOOR_SAT_PER_KVB, |mempool| mempool.mining_floor_sat_per_kvb()));
    json.key("chain").text(chain_name(params.network));
    json.key("next").begin_object();
    json.key("height").number(next.height);
    json.key("bits").hex(&next.bits.to_be_bytes());
    json.key("difficulty").float(difficulty(next.bits));
    json.key("target").hex(&target_of(next.bits));
    json.end_object();
    if params.network == Network::Signet
        && let Some(challenge) = &params.signet_challenge
    {
        json.key("signet_challenge").hex(challenge);
    }
    write_warnings(env, json);
    json.end_object();
    Ok(())
}

/// A block that is only to be judged (BIP 23).
fn propose(call: &Call<'_>, data: Value<'_>, json: &mut Json<'_>) -> Outcome {
    if data.kind() != Type::Text {
        return Err(RpcError::type_error("Missing data String key for proposal"));
    }
    let block = block_of(&data.text()?)?;
    let view = call.view()?;
    if let Some(known) = Located::find(call.env, &view, &block.header().hash())? {
        let tips = call.blocks()?.tips();
        let invalid = tips.iter().any(|tip| tip.hash == known.hash && tip.status == "invalid");
        json.text(match (known.is_active(), invalid) {
            (true, _) => "duplicate",
            (false, true) => "duplicate-invalid",
            (false, false) => "duplicate-inconclusive",
        });
        return Ok(());
    }
    write_word(&call.blocks()?.test_block(block.bytes(), true), json);
    Ok(())
}

/// Waits until a template would differ from the one that a long poll names.
fn long_poll(call: &Call<'_>, id: &str) -> Outcome {
    let watched = crate::rpc::call::hash_text(id.get(..64).unwrap_or(id), "longpollid")?;
    let sequence: u64 = id.get(64..).and_then(|digits| digits.parse().ok()).unwrap_or(0);
    let (started, events) = (Instant::now(), call.env.handle()?.subscribe());
    while !call.env.host.stopping() && call.view()?.tip().hash.0 == watched {
        if started.elapsed() > LONG_POLL && call.mempool()?.sequence() != sequence {
            break;
        }
        // An event and the end of a step lead to the same question.
        let _ = events.recv_timeout(Duration::from_millis(100));
    }
    match call.env.host.stopping() {
        true => Err(RpcError::new(code::CLIENT_NOT_CONNECTED, "Shutting down")),
        false => Ok(()),
    }
}

fn template(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let members = call.arg(0).object()?;
    let mode = member(&members, "mode");
    let mode = match mode.kind() {
        Type::Null => "template".into(),
        Type::Text => mode.text()?,
        _ => return Err(RpcError::parameter("Invalid mode")),
    };
    match &*mode {
        "template" => {}
        "proposal" => return propose(call, member(&members, "data"), json),
        _ => return Err(RpcError::parameter("Invalid mode")),
    }
    let params = call.chain_params();
    if matches!(params.network, Network::Main) {
        let state = call.network()?.state();
        if state.inbound + state.outbound == 0 {
            return Err(RpcError::new(code::CLIENT_NOT_CONNECTED, "Assay is not connected!"));
        }
        if call.env.handle()?.is_initial_download() {
            let told = "Assay is in initial sync and waiting for blocks...";
            return Err(RpcError::new(code::CLIENT_IN_INITIAL_DOWNLOAD, told));
        }
    }
    call.mempool()?;
    let id = member(&members, "longpollid");
    if id.kind() == Type::Text {
        long_poll(call, &id.text()?)?;
    }
    check_rules(&members, params)?;
    let view = call.view()?;
    write_template(call, &view, json)
}

fn check_rules(members: &[Member<'_>], params: &Params) -> Result<(), RpcError> {
    let rules = member(members, "rules");
    let mut named = Vec::new();
    if rules.kind() == Type::Array {
        for rule in rules.array()? {
            named.push(rule.text()?.into_owned());
        }
    }
    let has = |rule: &str| named.iter().any(|named| named == rule);
    if params.signet_challenge.is_some() && !has("signet") {
        let told = "getblocktemplate must be called with the signet rule set (call with {\"rules\": [\"segwit\", \"signet\"]})";
        return Err(RpcError::parameter(told));
    }
    if !has("segwit") {
        let told = "getblocktemplate must be called with the segwit rule set (call with {\"rules\": [\"segwit\"]})";
        return Err(RpcError::parameter(told));
    }
    Ok(())
}

fn write_list(name: &str, list: &[&str], json: &mut Json<'_>) {
    json.key(name).begin_array();
    list.iter().for_each(|item| json.text(item));
    json.end_array();
}

fn write_chosen(chosen: &[Chosen], segwit: bool, json: &mut Json<'_>) -> Result<Vec<[u8; 32]>, RpcError> {
    let (mut txids, mut wtxids): (Vec<Txid>, Vec<[u8; 32]>) = Default::default();
    json.key("transactions").begin_array();
    for one in chosen {
        let told = |_| RpcError::internal("A transaction of the mempool does not parse");
        let parsed = Transaction::parse(&one.bytes[..]).map_err(told)?;
        let tx = parsed.tx();
        let (txid, wtxid) = (tx.txid(), tx.wtxid());
        json.begin_object();
        json.key("data").hex(tx.raw());
        json.key("txid").hash(&txid.0);
        json.key("hash").hash(&wtxid.0);
        json.key("depends").begin_array();
        for input in tx.inputs() {
            let outpoint = input.outpoint();
            if let Some(at) = txids.iter().position(|known| *known == outpoint.txid) {
                json.count(at + 1);
            }
        }
        json.end_array();
        json.key("fee").number(one.fee_sat);
        json.key("sigops").number(if segwit { one.sigop_cost } else { one.sigop_cost / 4 });
        json.key("weight").count(tx.weight());
        json.end_object();
        txids.push(txid);
        wtxids.push(wtxid.0);
    }
    json.end_array();
    Ok(wtxids)
}

fn write_template(call: &Call<'_>, view: &View, json: &mut Json<'_>) -> Outcome {
    let (params, mempool) = (call.chain_params(), call.mempool()?);
    let sequence = mempool.sequence();
    let next = Next::of(view, call.env.host.unix_s(), params)?;
    let chosen = chosen(call);
    let segwit = next.has_segwit(params);
    let stage = next_stage(view, params.network)?;
    let mut rules = vec!["csv"];
    if segwit {
        rules.extend(["!segwit", "taproot"]);
    }
    if params.signet_challenge.is_some() {
        rules.push("!signet");
    }
    if stage == Some(Stage::Active) {
        rules.push("testdummy");
    }
    json.begin_object();
    write_list("capabilities", &["proposal"], json);
    json.key("version").number(next.version);
    write_list("rules", &rules, json);
    json.key("vbavailable").begin_object();
    if matches!(stage, Some(Stage::Started | Stage::LockedIn)) {
        json.key("testdummy").number(TESTDUMMY_BIT);
    }
    json.end_object();
    json.key("vbrequired").number(0);
    json.key("previousblockhash").hash(&next.previous.0);
    let wtxids = write_chosen(&chosen, segwit, json)?;
    json.key("coinbaseaux").begin_object();
    json.end_object();
    let fees_sat: i64 = chosen.iter().map(|chosen| chosen.fee_sat).sum();
    json.key("coinbasevalue").number(subsidy_sat(next.height, params) as i64 + fees_sat);
    json.key("longpollid").text(&format!("{}{sequence}", next.previous));
    json.key("target").hex(&target_of(next.bits));
    json.key("mintime").number(next.time_least_s);
    write_list("mutable", &["time", "transactions", "prevblock"], json);
    json.key("noncerange").text("00000000ffffffff");
    let scale = if segwit { 1 } else { 4 };
    json.key("sigoplimit").number(SIGOP_COST_MAX / scale);
    json.key("sizelimit").number(BLOCK_BYTES_MAX as u64 / scale);
    if segwit {
        json.key("weightlimit").count(BLOCK_WEIGHT_MAX);
    }
    json.key("curtime").number(next.time_s);
    json.key("bits").hex(&next.bits.to_be_bytes());
    json.key("height").number(next.height);
    if let Some(challenge) = &params.signet_challenge {
        json.key("signet_challenge").hex(challenge);
    }
    if segwit {
        json.key("default_witness_commitment").hex(&commitment(&wtxids));
    }
    json.end_object();
    Ok(())
}

const HASH: Arg = Arg::required("blockhash", Kind::Hex, "The block's hash.");
const MAX_TRIES: Arg = Arg::default("maxtries", Kind::Number, TRIES, "Nonces to try at most.");

macro_rules! method {
    ($name:literal, $category:expr, $args:expr, $about:literal, $result:literal, $run:ident) => {
        Method { name: $name, category: $category, args: $args, about: $about, result: $result, run: $run }
    };
}

/// The methods of this file.
#[rustfmt::skip]
pub const METHODS: &[Method] = &[
    method!("getblocktemplate", "mining", &[Arg::required("template_request", Kind::Object,
            "mode (template or proposal), rules (segwit among them), longpollid, data (the block of a proposal).")],
        "What the next block may be made of (BIP 22, 23, 145).", "object for a template; null or a word for a proposal", template),
    method!("getmininginfo", "mining", &[], "What a miner wants to know.",
        "object: blocks, bits, difficulty, target, networkhashps, pooledtx, blockmintxfee, chain, next, signet_challenge, warnings", mining_info),
    method!("submitblock", "mining", &[
            Arg::required("hexdata", Kind::Hex, "The block's bytes."),
            Arg::optional("dummy", Kind::Text, "Without effect (BIP 22)."),
        ], "Takes a block.", "null where it was accepted; otherwise a word of BIP 22 or of the rule that it breaks", submit_block),
    method!("submitheader", "mining", &[Arg::required("hexdata", Kind::Hex, "The header's 80 bytes.")], "Takes a header.", "null", submit_header),
    method!("generatetoaddress", HIDDEN, &[
            Arg::required("nblocks", Kind::Number, "Blocks to make."),
            Arg::required("address", Kind::Text, "Where the rewards go."),
            MAX_TRIES,
        ], "Makes blocks on the spot.", "array of hashes", generate_to_address),
    method!("generatetodescriptor", HIDDEN, &[
            Arg::required("num_blocks", Kind::Number, "Blocks to make."),
            Arg::required("descriptor", Kind::Text, "Where the rewards go."),
            MAX_TRIES,
        ], "Makes blocks on the spot.", "array of hashes", generate_to_descriptor),
    method!("generateblock", HIDDEN, &[
            Arg::required("output", Kind::Text, "An address or a descriptor for the reward."),
            Arg::required("transactions", Kind::Array, "Transactions in order: their bytes, or txids of the mempool."),
            Arg::default("submit", Kind::Bool, "true", "false returns the block instead of taking it."),
        ], "Makes one block of these transactions; their fees are not collected.", "object: hash, hex", generate_block),
    method!("invalidateblock", HIDDEN, &[HASH], "Treats a block as if it broke a rule.", "null", invalidate),
    method!("reconsiderblock", HIDDEN, &[HASH], "Takes that back, for the block, its ancestors and descendants.", "null", reconsider),
    method!("preciousblock", "blockchain", &[HASH], "Prefers a block to others with as much work.", "null", prefer),
];
