//! Blocks and headers: hashes, headers, whole blocks, and statistics of one block.
//!
//! In:     hashes and heights.
//! Out:    hexadecimal digits or objects.
//! Fails:  "Block not found", "Block height out of range".
//! Source: Bitcoin Core, `src/rpc/blockchain.cpp` (`getblock`, `blockToJSON`, `getblockstats`).

use consensus::connect::{is_bip30_repeat, subsidy_sat};
use primitives::encode::compact_size_length;
use primitives::script::is_unspendable;
use primitives::{Block, BlockHash, SpentCoins};

use crate::decoded::transaction::{Shown, write_members};
use crate::json::Json;
use crate::prevouts;
use crate::rpc::call::Call;
use crate::rpc::error::{Outcome, RpcError};
use crate::rpc::located::{Located, difficulty};
use crate::rpc::method::{Arg, Kind, Method};

/// How much is told of a block's transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Their identifiers.
    Txids,
    /// All they say, and their fees.
    Transactions,
    /// The coins they spend too.
    Prevouts,
}

fn block_count(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    json.number(call.view()?.tip().height);
    Ok(())
}

fn best_block_hash(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    json.hash(&call.view()?.tip().hash.0);
    Ok(())
}

fn block_hash(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let (height, view): (i32, _) = (call.integer(0)?, call.view()?);
    let in_range = u32::try_from(height).ok().filter(|height| *height <= view.tip().height);
    let height = in_range.ok_or_else(|| RpcError::parameter("Block height out of range"))?;
    json.hash(&Located::at(&view, height)?.hash.0);
    Ok(())
}

fn block_header(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let (view, verbose) = (call.view()?, call.bool(1)?);
    let block = Located::of_arg(call, &view, 0, "hash")?;
    if !verbose {
        json.hex(&block.header.encode());
        return Ok(());
    }
    json.begin_object();
    block.write_members(call.env, &view, json)?;
    json.end_object();
    Ok(())
}

fn get_difficulty(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let view = call.view()?;
    json.float(difficulty(Located::tip(&view)?.header.bits));
    Ok(())
}

fn block(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let view = call.view()?;
    let hash = call.block_hash(0, "blockhash")?;
    let verbosity = call.verbosity(1)?;
    let found = Located::find(call.env, &view, &hash)?.ok_or_else(crate::rpc::located::block_not_found)?;
    if verbosity <= 0 {
        json.hex(&found.bytes(&view)?);
        return Ok(());
    }
    let detail = match verbosity {
        1 => Detail::Txids,
        2 => Detail::Transactions,
        _ => Detail::Prevouts,
    };
    write_block(call.env, &view, &found, detail, json)
}

/// Parses what a block file holds.
pub fn parsed(block: &Located, view: &chain::View) -> Result<Block, RpcError> {
    Block::parse(block.bytes(view)?).map_err(|_| RpcError::misc("Block not found on disk"))
}

/// The coins a block spent; none off the best chain, where nobody kept them.
pub fn spent_by(block: &Located, parsed: &Block, view: &chain::View) -> Result<Option<SpentCoins>, RpcError> {
    match block.is_active() {
        true => Ok(Some(prevouts::of_block(view, parsed, block.height)?)),
        false => Ok(None),
    }
}

/// Writes a block's object.
pub fn write_block(
    env: &crate::rpc::env::Env,
    view: &chain::View,
    found: &Located,
    detail: Detail,
    json: &mut Json<'_>,
) -> Outcome {
    let block = parsed(found, view)?;
    json.begin_object();
    found.write_members(env, view, json)?;
    json.key("strippedsize").count(block.stripped_length());
    json.key("size").count(block.bytes().len());
    json.key("weight").count(block.weight());
    write_coinbase(&block, json);
    json.key("tx").begin_array();
    if detail == Detail::Txids {
        match found.is_active().then(|| view.txids(found.height)).transpose()?.flatten() {
            Some(txids) => txids.iter().for_each(|txid| json.hash(&txid.0)),
            None => block.txs().for_each(|tx| json.hash(&tx.txid().0)),
        }
    } else {
        let spent = spent_by(found, &block, view)?;
        let mut first = 0;
        for tx in block.txs() {
            let coins = spent.as_ref().map(|coins| move |input: usize| coins.get(first + input));
            let shown = Shown {
                coins: coins.as_ref().map(|coin_of| coin_of as &dyn Fn(usize) -> _),
                prevouts: detail == Detail::Prevouts,
                ..Shown::PLAIN
            };
            json.begin_object();
            write_members(&tx, &shown, &env.params, json);
            json.end_object();
            first += if tx.index() == 0 { 0 } else { tx.input_count() };
        }
    }
    json.end_array();
    json.end_object();
    Ok(())
}

fn write_coinbase(block: &Block, json: &mut Json<'_>) {
    let coinbase = block.tx(0);
    let input = coinbase.input(0);
    json.key("coinbase_tx").begin_object();
    json.key("version").number(coinbase.version());
    json.key("locktime").number(coinbase.lock_time());
    json.key("sequence").number(input.sequence());
    json.key("coinbase").hex(input.script_sig());
    if let Some(item) = input.witness().next() {
        json.key("witness").hex(item);
    }
    json.end_object();
}

/// Bytes of a coin's outpoint and of height and coinbase bit, as Core counts them (`PER_UTXO_OVERHEAD`).
const COIN_OVERHEAD_BYTES: i64 = 40;

/// The numbers of a block, by the names of the answer.
#[derive(Default)]
struct Sums {
    fees: Vec<i64>,
    /// Fee rate and weight of each transaction.
    rates: Vec<(i64, i64)>,
    sizes: Vec<i64>,
    inputs: i64,
    outputs: i64,
    paid_sat: i64,
    segwit_size: i64,
    segwit_weight: i64,
    segwit_count: i64,
    weight: i64,
    coins_made: i64,
    coin_bytes: i64,
    real_coin_bytes: i64,
}

impl Sums {
    fn of(block: &Block, spent: &SpentCoins, makes_coins: bool, coinbase_makes_coins: bool) -> Sums {
        let mut sums = Sums::default();
        let mut first = 0;
        let coin_bytes =
            |script: &[u8]| (8 + compact_size_length(script.len() as u64) + script.len()) as i64 + COIN_OVERHEAD_BYTES;
        for tx in block.txs() {
            let mut out_sat = 0;
            for output in tx.outputs() {
                out_sat += output.value_sat;
                let bytes = coin_bytes(output.script);
                sums.outputs += 1;
                sums.coin_bytes += bytes;
                let counts = makes_coins && (tx.index() > 0 || coinbase_makes_coins);
                if counts && !is_unspendable(output.script) {
                    sums.coins_made += 1;
                    sums.real_coin_bytes += bytes;
                }
            }
            if tx.index() == 0 {
                continue;
            }
            let (size, weight) = (tx.raw().len() as i64, tx.weight() as i64);
            let mut in_sat = 0;
            for input in 0..tx.input_count() {
                let coin = spent.get(first + input);
                in_sat += coin.value_sat as i64;
                sums.coin_bytes -= coin_bytes(coin.script);
                sums.real_coin_bytes -= coin_bytes(coin.script);
            }
            first += tx.input_count();
            sums.inputs += tx.input_count() as i64;
            sums.paid_sat += out_sat;
            sums.weight += weight;
            sums.sizes.push(size);
            if tx.has_witness() {
                sums.segwit_count += 1;
                sums.segwit_size += size;
                sums.segwit_weight += weight;
            }
            let fee = in_sat - out_sat;
            sums.fees.push(fee);
            sums.rates.push((if weight > 0 { fee * 4 / weight } else { 0 }, weight));
        }
        sums
    }
}

/// Core's `CalculateTruncatedMedian`.
fn median_of(values: &[i64]) -> i64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => 0,
        even if even % 2 == 0 => (sorted[half - 1] + sorted[half]) / 2,
        _ => sorted[half],
    }
}

/// Rates at the 10th, 25th, 50th, 75th and 90th percentile of weight (Core: `CalculatePercentilesByWeight`).
fn percentiles(rates: &[(i64, i64)], weight: i64) -> [i64; 5] {
    let mut sorted = rates.to_vec();
    sorted.sort_unstable();
    let weight = weight as f64;
    let bounds = [weight / 10.0, weight / 4.0, weight / 2.0, weight * 3.0 / 4.0, weight * 9.0 / 10.0];
    let mut result = [sorted.last().map_or(0, |last| last.0); 5];
    let (mut next, mut sum) = (0, 0);
    for (rate, weight) in sorted {
        sum += weight;
        while next < bounds.len() && sum as f64 >= bounds[next] {
            result[next] = rate;
            next += 1;
        }
    }
    result
}

fn block_stats(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let view = call.view()?;
    let found = Located::of_hash_or_height(call.env, &view, call.arg(0))?;
    let chosen = call.arg(1);
    let chosen: Option<Vec<String>> = match chosen.is_null() {
        true => None,
        false => Some(
            chosen.array()?.into_iter().map(|name| Ok(name.text()?.into_owned())).collect::<Result<_, RpcError>>()?,
        ),
    };
    let chosen = chosen.filter(|names| !names.is_empty());
    let block = parsed(&found, &view)?;
    let spent = spent_by(&found, &block, &view)?.ok_or_else(|| RpcError::misc("Undo data not available"))?;
    let subject = StatsOf {
        height: found.height,
        hash: found.hash,
        time_s: found.header.time_s,
        median_time_s: found.median_time_s(call.env)?,
        subsidy_sat: subsidy_sat(found.height, call.chain_params()),
    };
    let rows = all_stats(&subject, &block, &spent);
    json.begin_object();
    match chosen {
        None => rows.iter().for_each(|(name, value)| json.key(name).raw(value.as_bytes())),
        Some(mut names) => {
            names.sort_unstable();
            names.dedup();
            for name in names {
                let row = rows.iter().find(|(known, _)| *known == name);
                let (known, value) =
                    row.ok_or_else(|| RpcError::parameter(format!("Invalid selected statistic '{name}'")))?;
                json.key(known).raw(value.as_bytes());
            }
        }
    }
    json.end_object();
    Ok(())
}

/// What a block's statistics say besides its transactions.
pub struct StatsOf {
    /// Its height.
    pub height: u32,
    /// Its hash.
    pub hash: BlockHash,
    /// Its own time.
    pub time_s: u32,
    /// The median of its own and the ten times before.
    pub median_time_s: u32,
    /// What its miner could take besides fees.
    pub subsidy_sat: u64,
}

/// Every statistic of a block on the best chain.
pub fn all_stats(subject: &StatsOf, block: &Block, spent: &SpentCoins) -> Vec<(&'static str, String)> {
    let sums = Sums::of(block, spent, subject.height > 0, !is_bip30_repeat(subject.height, &subject.hash));
    let spending = sums.fees.len() as i64;
    let fee: i64 = sums.fees.iter().sum();
    let size: i64 = sums.sizes.iter().sum();
    let per_tx = |sum: i64| if spending > 0 { sum / spending } else { 0 };
    let most = |values: &mut dyn Iterator<Item = i64>| values.max().unwrap_or(0);
    let least = |values: &mut dyn Iterator<Item = i64>| values.min().unwrap_or(0);
    let rates = || sums.rates.iter().map(|(rate, _)| *rate);
    let percentiles = percentiles(&sums.rates, sums.weight).map(|rate| rate.to_string()).join(",");
    let text = |value: i64| value.to_string();
    vec![
        ("avgfee", text(per_tx(fee))),
        ("avgfeerate", text(if sums.weight > 0 { fee * 4 / sums.weight } else { 0 })),
        ("avgtxsize", text(per_tx(size))),
        ("blockhash", format!("\"{}\"", subject.hash)),
        ("feerate_percentiles", format!("[{percentiles}]")),
        ("height", text(subject.height.into())),
        ("ins", text(sums.inputs)),
        ("maxfee", text(most(&mut sums.fees.iter().copied()))),
        ("maxfeerate", text(most(&mut rates()))),
        ("maxtxsize", text(most(&mut sums.sizes.iter().copied()))),
        ("medianfee", text(median_of(&sums.fees))),
        ("mediantime", text(subject.median_time_s.into())),
        ("mediantxsize", text(median_of(&sums.sizes))),
        ("minfee", text(least(&mut sums.fees.iter().copied()))),
        ("minfeerate", text(least(&mut rates()))),
        ("mintxsize", text(least(&mut sums.sizes.iter().copied()))),
        ("outs", text(sums.outputs)),
        ("subsidy", subject.subsidy_sat.to_string()),
        ("swtotal_size", text(sums.segwit_size)),
        ("swtotal_weight", text(sums.segwit_weight)),
        ("swtxs", text(sums.segwit_count)),
        ("time", text(subject.time_s.into())),
        ("total_out", text(sums.paid_sat)),
        ("total_size", text(size)),
        ("total_weight", text(sums.weight)),
        ("totalfee", text(fee)),
        ("txs", text(block.tx_count() as i64)),
        ("utxo_increase", text(sums.outputs - sums.inputs)),
        ("utxo_size_inc", text(sums.coin_bytes)),
        ("utxo_increase_actual", text(sums.coins_made - sums.inputs)),
        ("utxo_size_inc_actual", text(sums.real_coin_bytes)),
    ]
}

const HASH: Arg = Arg::required("blockhash", Kind::Hex, "The block's hash.");

/// The methods of this file.
pub const METHODS: &[Method] = &[
    Method {
        name: "getblockcount",
        category: "blockchain",
        args: &[],
        about: "Height of the tip: the last block of the valid chain with the most work. The genesis block has height 0.",
        result: "number",
        run: block_count,
    },
    Method {
        name: "getbestblockhash",
        category: "blockchain",
        args: &[],
        about: "Hash of the tip.",
        result: "string: 64 hexadecimal digits",
        run: best_block_hash,
    },
    Method {
        name: "getblockhash",
        category: "blockchain",
        args: &[Arg::required("height", Kind::Number, "A height of the best chain.")],
        about: "Hash of the block at a height of the best chain.",
        result: "string: 64 hexadecimal digits",
        run: block_hash,
    },
    Method {
        name: "getblockheader",
        category: "blockchain",
        args: &[HASH, Arg::default("verbose", Kind::Bool, "true", "true for an object, false for the 80 bytes.")],
        about: "A block's header.",
        result: "object: hash, confirmations (-1 off the best chain), height, version, versionHex, merkleroot, time, \
                 mediantime, nonce, bits, target, difficulty, chainwork, nTx, previousblockhash, nextblockhash; or a string",
        run: block_header,
    },
    Method {
        name: "getblock",
        category: "blockchain",
        args: &[
            HASH,
            Arg::default(
                "verbosity|verbose",
                Kind::NumberOrBool,
                "1",
                "0 for the bytes, 1 with identifiers of transactions, 2 with transactions and their fees, 3 with the \
                 coins they spend too.",
            ),
        ],
        about: "A block.",
        result: "string for 0; otherwise the object of getblockheader with strippedsize, size, weight, coinbase_tx, tx",
        run: block,
    },
    Method {
        name: "getblockstats",
        category: "blockchain",
        args: &[
            Arg::required("hash_or_height", Kind::TextOrNumber, "Hash of a block, or a height of the best chain."),
            Arg::hint("stats", Kind::Array, "all values", "Names of the values wanted."),
        ],
        about: "Numbers of one block: fees, rates, sizes, coins. Amounts are in satoshi.",
        result: "object, a member for each value",
        run: block_stats,
    },
    Method {
        name: "getdifficulty",
        category: "blockchain",
        args: &[],
        about: "Difficulty of the tip, as a multiple of the least of mainnet.",
        result: "number",
        run: get_difficulty,
    },
];
