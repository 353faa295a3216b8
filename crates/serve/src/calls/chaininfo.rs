//! The chain as a whole: its state, its branches, its transactions over time, and calls that wait for blocks.
//!
//! In:     views, and the writer's status.
//! Out:    objects with Core's members.
//! Fails:  with Core's sentences for windows and heights that the chain does not have.
//! Source: Bitcoin Core, `src/rpc/blockchain.cpp`, `src/rpc/mining.cpp` (`GetNetworkHashPS`), `src/validation.cpp`
//!         (`GuessVerificationProgress`, `IsInitialBlockDownload`).

use std::time::{Duration, Instant};

use chain::View;
use primitives::{BlockHash, Header, Network};

use crate::json::Json;
use crate::prevouts;
use crate::rpc::call::Call;
use crate::rpc::env::Env;
use crate::rpc::error::{Outcome, RpcError};
use crate::rpc::located::{Located, difficulty, target_of, txs_below};
use crate::rpc::method::{Arg, Kind, Method};

/// Blocks over which the rate of transactions is measured for the progress: two weeks.
const RATE_BLOCKS: u32 = 2016;
/// How often a waiting call looks whether the node stops.
const WAIT_STEP: Duration = Duration::from_millis(100);
/// Blocks that `verifychain` checks without being told (Core: `DEFAULT_CHECKBLOCKS`).
const VERIFY_BLOCKS: i32 = 6;

/// The name of a network in Core's answers.
pub fn chain_name(network: Network) -> &'static str {
    match network {
        Network::Testnet3 => "test",
        other => other.name(),
    }
}

/// The part of all transactions that is proved, by the rate of the last two weeks.
fn progress(env: &Env, view: &View, tip: &Located) -> Result<f64, RpcError> {
    let count = f64::from(view.snapshot().tx_count());
    let from = Located::at(view, tip.height.saturating_sub(RATE_BLOCKS))?;
    let span_s = f64::from(tip.header.time_s.saturating_sub(from.header.time_s).max(1));
    let rate = f64::from(txs_below(view, tip.height + 1)? - txs_below(view, from.height + 1)?) / span_s;
    let age_s = env.host.unix_s().saturating_sub(tip.header.time_s.into()) as f64;
    Ok((count / (count + rate * age_s)).min(1.0))
}

/// Writes what a user should see.
pub fn write_warnings(env: &Env, json: &mut Json<'_>) {
    json.key("warnings").begin_array();
    env.host.warnings().iter().for_each(|warning| json.text(warning));
    json.end_array();
}

fn chain_info(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let (env, handle, view) = (call.env, call.env.handle()?, call.view()?);
    let tip = Located::tip(&view)?;
    let headers = handle.status().headers_height.max(tip.height);
    json.begin_object();
    json.key("chain").text(chain_name(env.params.network));
    json.key("blocks").number(tip.height);
    json.key("headers").number(headers);
    json.key("bestblockhash").hash(&tip.hash.0);
    json.key("bits").hex(&tip.header.bits.to_be_bytes());
    json.key("target").hex(&target_of(tip.header.bits));
    json.key("difficulty").float(difficulty(tip.header.bits));
    json.key("time").number(tip.header.time_s);
    json.key("mediantime").number(tip.median_time_s(env)?);
    json.key("verificationprogress").float(progress(env, &view, &tip)?);
    json.key("initialblockdownload").bool(handle.is_initial_download());
    json.key("chainwork").hex(&tip.work(env)?.to_be_bytes());
    json.key("size_on_disk").number(env.host.block_files_bytes());
    json.key("pruned").bool(false);
    if env.params.network == Network::Signet
        && let Some(challenge) = &env.params.signet_challenge
    {
        json.key("signet_challenge").hex(challenge);
    }
    write_warnings(env, json);
    json.end_object();
    Ok(())
}

fn chain_tips(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let view = call.view()?;
    let mut tips = call.env.blocks.get().map(|blocks| blocks.tips()).unwrap_or_default();
    if tips.is_empty() {
        let tip = view.tip();
        let active =
            crate::rpc::needs::BranchTip { height: tip.height, hash: tip.hash, branch_length: 0, status: "active" };
        tips.push(active);
    }
    tips.sort_by_key(|tip| std::cmp::Reverse(tip.height));
    json.begin_array();
    for tip in tips {
        json.begin_object();
        json.key("height").number(tip.height);
        json.key("hash").hash(&tip.hash.0);
        json.key("branchlen").number(tip.branch_length);
        json.key("status").text(tip.status);
        json.end_object();
    }
    json.end_array();
    Ok(())
}

fn chain_tx_stats(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let (env, view) = (call.env, call.view()?);
    let last = if call.arg(1).is_null() { Located::tip(&view)? } else { Located::of_arg(call, &view, 1, "blockhash")? };
    if !last.is_active() {
        return Err(RpcError::parameter("Block is not in main chain"));
    }
    let height = i64::from(last.height);
    let month = 30 * 24 * 60 * 60 / i64::from(env.params.pow_spacing_s);
    let window = match call.optional_integer::<i32>(0)? {
        None => month.min(height - 1).max(0),
        Some(count) if count < 0 || (count > 0 && i64::from(count) >= height) => {
            let told = "Invalid block count: should be between 0 and the block's height - 1";
            return Err(RpcError::parameter(told));
        }
        Some(count) => i64::from(count),
    };
    let past = Located::at(&view, (height - window) as u32)?;
    let (txs, past_txs) = (txs_below(&view, last.height + 1)?, txs_below(&view, past.height + 1)?);
    let took_s = i64::from(last.median_time_s(env)?) - i64::from(past.median_time_s(env)?);
    json.begin_object();
    json.key("time").number(last.header.time_s);
    json.key("txcount").number(txs);
    json.key("window_final_block_hash").hash(&last.hash.0);
    json.key("window_final_block_height").number(last.height);
    json.key("window_block_count").number(window);
    if window > 0 {
        json.key("window_interval").number(took_s);
        json.key("window_tx_count").number(txs - past_txs);
        if took_s > 0 {
            json.key("txrate").float(f64::from(txs - past_txs) / took_s as f64);
        }
    }
    json.end_object();
    Ok(())
}

/// Hashes per second over the blocks before a height.
pub fn hashes_per_second(env: &Env, view: &View, lookup: i32, height: i32) -> Result<f64, RpcError> {
    if lookup < -1 || lookup == 0 {
        return Err(RpcError::parameter("Invalid nblocks. Must be a positive number or -1."));
    }
    let tip = view.tip().height;
    if height < -1 || i64::from(height) > i64::from(tip) {
        return Err(RpcError::parameter("Block does not exist at specified height"));
    }
    let last = u32::try_from(height).unwrap_or(tip);
    if last == 0 {
        return Ok(0.0);
    }
    let since_retarget = last % env.params.pow_interval() + 1;
    let count = u32::try_from(lookup).unwrap_or(since_retarget).min(last);
    let headers = view.headers(last - count, count + 1)?;
    let times = headers.chunks_exact(80).map(|bytes| Header::decode(bytes.try_into().expect("80 bytes")).time_s);
    let (least, most) = times.fold((u32::MAX, 0), |(least, most), time| (least.min(time), most.max(time)));
    if least >= most {
        return Ok(0.0);
    }
    let work = Located::at(view, last)?.work(env)?.saturating_sub(Located::at(view, last - count)?.work(env)?);
    Ok(work.to_f64() / f64::from(most - least))
}

fn network_hashes(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let view = call.view()?;
    json.float(hashes_per_second(call.env, &view, call.integer(0)?, call.integer(1)?)?);
    Ok(())
}

fn verify_chain(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let view = call.view()?;
    let level: i32 = call.integer(0)?;
    let blocks = call.optional_integer::<i32>(1)?.unwrap_or(VERIFY_BLOCKS);
    let tip = view.tip().height;
    let count = if blocks <= 0 { tip } else { tip.min(blocks as u32) };
    for height in (tip - count + 1..=tip).rev() {
        if call.env.host.stopping() || !verify_block(call, &view, height, level)? {
            json.bool(false);
            return Ok(());
        }
    }
    json.bool(true);
    Ok(())
}

/// Whether the files still hold the block, whether it is valid by itself, and whether what it spends adds up.
fn verify_block(call: &Call<'_>, view: &View, height: u32, level: i32) -> Result<bool, RpcError> {
    let found = Located::at(view, height)?;
    let Ok(block) = super::blocks::parsed(&found, view) else { return Ok(false) };
    if block.header().hash() != found.hash {
        return Ok(false);
    }
    if level >= 1 && consensus::block::check(block.clone(), call.chain_params()).is_err() {
        return Ok(false);
    }
    if level >= 2 {
        let Ok(spent) = prevouts::of_block(view, &block, height) else { return Ok(false) };
        let in_sat: i64 = spent.iter().map(|coin| coin.value_sat as i64).sum();
        let paid = block.txs().skip(1).flat_map(|tx| tx.outputs().map(|output| output.value_sat).collect::<Vec<_>>());
        return Ok(in_sat >= paid.sum::<i64>());
    }
    Ok(true)
}

/// Waits until `done` says so of the tip, the time is over, or the node stops; writes the tip.
fn wait_until(
    call: &Call<'_>,
    timeout_ms: i32,
    json: &mut Json<'_>,
    mut done: impl FnMut(u32, BlockHash) -> bool,
) -> Outcome {
    if timeout_ms < 0 {
        return Err(RpcError::misc("Negative timeout"));
    }
    let deadline = (timeout_ms > 0).then(|| Instant::now() + Duration::from_millis(timeout_ms as u64));
    let events = call.env.handle()?.subscribe();
    let tip = loop {
        let tip = call.view()?.tip();
        let late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if done(tip.height, tip.hash) || late || call.env.host.stopping() {
            break tip;
        }
        let left = deadline.map_or(WAIT_STEP, |deadline| deadline.saturating_duration_since(Instant::now()));
        // An event, a step of time and a writer that ended all lead to the same question again.
        let _ = events.recv_timeout(left.min(WAIT_STEP));
    };
    json.begin_object();
    json.key("hash").hash(&tip.hash.0);
    json.key("height").number(tip.height);
    json.end_object();
    Ok(())
}

fn wait_for_new_block(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let timeout_ms = call.integer(0)?;
    let known = match call.arg(1).is_null() {
        true => call.view()?.tip().hash,
        false => call.block_hash(1, "current_tip")?,
    };
    wait_until(call, timeout_ms, json, |_, hash| hash != known)
}

fn wait_for_block(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let wanted = call.block_hash(0, "blockhash")?;
    wait_until(call, call.integer(1)?, json, |_, hash| hash == wanted)
}

fn wait_for_height(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let wanted: i32 = call.integer(0)?;
    wait_until(call, call.integer(1)?, json, |height, _| i64::from(height) >= i64::from(wanted))
}

const TIMEOUT: Arg =
    Arg::default("timeout", Kind::Number, "0", "Milliseconds to wait at most; 0 for as long as it takes.");
const WAITED: &str = "object: hash, height of the tip when the call ended";

/// The methods of this file.
pub const METHODS: &[Method] = &[
    Method {
        name: "getblockchaininfo",
        category: "blockchain",
        args: &[],
        about: "The state of the chain.",
        result: "object: chain, blocks, headers, bestblockhash, bits, target, difficulty, time, mediantime, \
                 verificationprogress, initialblockdownload, chainwork, size_on_disk, pruned, signet_challenge, warnings",
        run: chain_info,
    },
    Method {
        name: "getchaintips",
        category: "blockchain",
        args: &[],
        about: "The ends of all known branches, the best chain's among them.",
        result: "array of objects: height, hash, branchlen, status",
        run: chain_tips,
    },
    Method {
        name: "getchaintxstats",
        category: "blockchain",
        args: &[
            Arg::hint("nblocks", Kind::Number, "one month", "Blocks of the window."),
            Arg::hint("blockhash", Kind::Hex, "the tip", "Hash of the window's last block."),
        ],
        about: "Number and rate of transactions up to a block.",
        result: "object: time, txcount, window_final_block_hash, window_final_block_height, window_block_count, \
                 window_interval, window_tx_count, txrate",
        run: chain_tx_stats,
    },
    Method {
        name: "verifychain",
        category: "blockchain",
        args: &[
            Arg::default(
                "checklevel",
                Kind::Number,
                "3",
                "0 reads the blocks, 1 judges each by itself, 2 and more add up what they spend.",
            ),
            Arg::hint("nblocks", Kind::Number, "6, 0 for all", "Blocks to check, from the tip down."),
        ],
        about: "Checks that the last blocks are still what they were when they were connected.",
        result: "boolean",
        run: verify_chain,
    },
    Method {
        name: "getnetworkhashps",
        category: "mining",
        args: &[
            Arg::default("nblocks", Kind::Number, "120", "Blocks to look back; -1 for those since the last retarget."),
            Arg::default("height", Kind::Number, "-1", "The last block looked at; -1 for the tip."),
        ],
        about: "Hashes per second of the whole network, estimated from blocks.",
        result: "number",
        run: network_hashes,
    },
    Method {
        name: "waitfornewblock",
        category: "blockchain",
        args: &[TIMEOUT, Arg::optional("current_tip", Kind::Hex, "Wait for another tip than this.")],
        about: "Waits until the tip changes.",
        result: WAITED,
        run: wait_for_new_block,
    },
    Method {
        name: "waitforblock",
        category: "blockchain",
        args: &[Arg::required("blockhash", Kind::Hex, "The block to wait for."), TIMEOUT],
        about: "Waits until a block is the tip.",
        result: WAITED,
        run: wait_for_block,
    },
    Method {
        name: "waitforblockheight",
        category: "blockchain",
        args: &[Arg::required("height", Kind::Number, "The height to wait for."), TIMEOUT],
        about: "Waits until the tip has a height.",
        result: WAITED,
        run: wait_for_height,
    },
];
