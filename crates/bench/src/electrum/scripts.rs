//! Which scripts are asked for: from a file, drawn from a chain, or forged.
//!
//! In:     lines of text; or a server that answers about the chain, and spans of heights and of transactions.
//! Out:    [`Probe`]s: script hashes with the length of their history and the number of their unspent outputs.
//! Fails:  with the line that is no script, or with what the server answers.
//!
//! Drawn as the published reports did it: scripts that received between two heights and have between 10 and 999
//! transactions. A block and a transaction in it are drawn by chance, its outputs are the candidates; the server is asked
//! for nothing but what every Electrum server knows, so any chain of any server will do.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use primitives::{Network, Params, ScriptHash, Transaction, address, script};
use serde_json::{Value, json};
use sim::forge::{Kind, ScriptHistory, SpecialScript, wallet};
use stdx::random::Random;

use super::arguments::{ScriptOptions, Span};
use crate::client::{Client, Failure};
use crate::{BenchError, at};

/// Transactions drawn from one block.
const DRAWN_PER_BLOCK: u64 = 16;
/// Blocks that are looked at for each script that is wanted, before drawing is given up.
const BLOCKS_PER_SCRIPT: u64 = 4;
/// Most transactions of a block; more do not fit.
const BLOCK_TXS_MAX: u64 = 1 << 14;
/// Requests of a batch while drawing.
const PAGE: usize = 50;

/// A script that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Probe {
    /// Its hash, as the protocol writes it.
    pub hash: String,
    /// Transactions of its history.
    pub entries: u64,
    /// Its unspent outputs.
    pub unspent: u64,
}

/// A confirmed transaction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Confirmed {
    /// Its identifier.
    pub txid: String,
    /// Its block's height.
    pub height: u64,
}

/// The scripts of a file, without what is empty and what begins with `#`.
pub fn read(path: &Path, network: Network) -> Result<Vec<String>, BenchError> {
    let text = fs::read_to_string(path).map_err(at(path))?;
    let lines = text.lines().map(str::trim).zip(1..).filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    let wrong = |number| BenchError::Usage(format!("--scripts {}: line {number} is no script", path.display()));
    // `assay forge` writes more words behind the script.
    let first = |line: &str| hash_of(line.split(' ').next().unwrap_or_default(), network);
    lines.map(|(line, number)| first(line).ok_or_else(|| wrong(number))).collect()
}

/// 64 digits are a script hash, other digits a script, everything else is an address.
fn hash_of(line: &str, network: Network) -> Option<String> {
    let hash = |script: &[u8]| ScriptHash::of(script).to_string();
    match stdx::hex::decode(line) {
        Ok(bytes) if bytes.len() == 32 => Some(line.to_ascii_lowercase()),
        Ok(script) => Some(hash(&script)),
        Err(_) => address::to_script(line, &Params::of(network)).ok().map(|script| hash(&script)),
    }
}

/// Length of history and unspent outputs of each; those whose answer is refused are left out and counted.
pub fn sizes(client: &mut Client, hashes: &[String]) -> Result<(Vec<Probe>, usize), Failure> {
    let mut probes = Vec::new();
    for page in hashes.chunks(PAGE) {
        let histories = histories(client, page)?;
        let requests: Vec<_> = page.iter().map(|hash| ("blockchain.scripthash.listunspent", json!([hash]))).collect();
        let (unspent, _) = client.call_all(&requests)?;
        for ((hash, history), unspent) in page.iter().zip(histories).zip(unspent) {
            if let (Ok(entries), Ok(Value::Array(unspent))) = (history, unspent) {
                probes.push(Probe { hash: hash.clone(), entries: entries.len() as u64, unspent: unspent.len() as u64 });
            }
        }
    }
    let refused = hashes.len() - probes.len();
    Ok((probes, refused))
}

/// The confirmed transactions of each script of a page.
pub fn histories(client: &mut Client, page: &[String]) -> Result<Vec<Result<Vec<Confirmed>, Failure>>, Failure> {
    let requests: Vec<_> = page.iter().map(|hash| ("blockchain.scripthash.get_history", json!([hash]))).collect();
    let (answers, _) = client.call_all(&requests)?;
    Ok(answers.into_iter().map(|answer| answer.map(|history| confirmed(&history))).collect())
}

fn confirmed(history: &Value) -> Vec<Confirmed> {
    let entries = history.as_array().map(Vec::as_slice).unwrap_or_default();
    let read = |entry: &Value| {
        let height = entry["height"].as_u64().filter(|height| *height > 0)?;
        Some(Confirmed { txid: entry["tx_hash"].as_str()?.to_owned(), height })
    };
    entries.iter().filter_map(read).collect()
}

/// The scripts the options ask for, by way of this server.
pub fn wanted(client: &mut Client, options: &ScriptOptions, network: Network) -> Result<Vec<Probe>, BenchError> {
    let hashes = match &options.scripts {
        Some(path) => read(path, network)?,
        None => draw(client, options.draw, options.heights, options.transactions, options.seed).map_err(failed)?,
    };
    let (probes, refused) = sizes(client, &hashes).map_err(failed)?;
    if probes.is_empty() {
        return Err(BenchError::Usage(
            "no script to ask for: other --heights or --transactions, or --scripts".to_owned(),
        ));
    }
    if refused > 0 {
        eprintln!("{refused} scripts are left out: the first server refuses their history");
    }
    Ok(probes)
}

/// Names who was asked.
pub fn failed(failure: Failure) -> BenchError {
    BenchError::Wrong(format!("the first server: {failure}"))
}

/// Draws scripts that received between two heights and have so many transactions.
pub fn draw(
    client: &mut Client,
    count: u64,
    heights: Option<Span>,
    transactions: Span,
    seed: u64,
) -> Result<Vec<String>, Failure> {
    let tip = client.call("blockchain.headers.subscribe", json!([]))?["height"].as_u64().unwrap_or(0);
    let heights = heights.unwrap_or(Span { from: 1, to: tip });
    let (mut random, mut drawn, mut seen) = (Random::new(seed), Vec::new(), BTreeSet::new());
    for _ in 0..(count * BLOCKS_PER_SCRIPT).max(200) {
        let height = heights.from + random.below(heights.to.min(tip).saturating_sub(heights.from) + 1);
        let candidates = outputs_of_block(client, height, &mut random)?;
        let fresh: Vec<String> = candidates.into_iter().filter(|hash| seen.insert(hash.clone())).collect();
        for page in fresh.chunks(PAGE) {
            for (hash, history) in page.iter().zip(histories(client, page)?) {
                let fits = history.is_ok_and(|history| transactions.has(history.len() as u64));
                if fits && (drawn.len() as u64) < count {
                    drawn.push(hash.clone());
                }
            }
        }
        if drawn.len() as u64 == count {
            break;
        }
    }
    Ok(drawn)
}

/// Output scripts of some transactions of a block.
fn outputs_of_block(client: &mut Client, height: u64, random: &mut Random) -> Result<BTreeSet<String>, Failure> {
    let txs = transactions_of_block(client, height)?;
    let position = |_| json!([height, random.below(txs), false]);
    let positions: BTreeMap<String, Value> =
        (0..DRAWN_PER_BLOCK.min(txs)).map(position).map(|parameters| (parameters.to_string(), parameters)).collect();
    let requests: Vec<_> =
        positions.into_values().map(|parameters| ("blockchain.transaction.id_from_pos", parameters)).collect();
    let (ids, _) = client.call_all(&requests)?;
    let requests: Vec<_> =
        ids.into_iter().flatten().map(|txid| ("blockchain.transaction.get", json!([txid]))).collect();
    if requests.is_empty() {
        return Ok(BTreeSet::new());
    }
    let (raw, _) = client.call_all(&requests)?;
    let mut hashes = BTreeSet::new();
    for tx in raw.into_iter().flatten() {
        let parsed = tx.as_str().and_then(|text| stdx::hex::decode(text).ok()).map(Transaction::parse);
        let Some(Ok(parsed)) = parsed else {
            return Err(Failure::Strange("transaction.get: no transaction".to_owned()));
        };
        let scripts = parsed.tx().outputs().map(|output| output.script).filter(|text| !script::is_unspendable(text));
        hashes.extend(scripts.map(|script| ScriptHash::of(script).to_string()));
    }
    Ok(hashes)
}

/// How many transactions a block has: positions beyond its end are refused.
fn transactions_of_block(client: &mut Client, height: u64) -> Result<u64, Failure> {
    let mut has =
        |position: u64| match client.call("blockchain.transaction.id_from_pos", json!([height, position, false])) {
            Ok(_) => Ok(true),
            Err(Failure::Refused { .. }) => Ok(false),
            Err(failure) => Err(failure),
        };
    let mut beyond = 1;
    while beyond < BLOCK_TXS_MAX && has(beyond)? {
        beyond *= 2;
    }
    let mut least = beyond / 2;
    while least + 1 < beyond {
        let middle = (least + beyond) / 2;
        if has(middle)? {
            least = middle;
        } else {
            beyond = middle;
        }
    }
    Ok(least + 1)
}

/// What a forged chain gets: histories of every size up to `largest` and such as the reports drew; between their powers of
/// ten those of 2 and 5 times as many, with few unspent outputs and with half as many as transactions; and a wallet.
/// `heights`: those at which the chain spends.
pub fn forged(seed: u64, largest: u32, histories: u32, addresses: u32, heights: (u32, u32)) -> Vec<SpecialScript> {
    let between = (0..6).flat_map(|power| [2, 5].map(|digit| digit * 10u32.pow(power)));
    let of_length = |entries: u32| {
        let few = SpecialScript::new(Kind::P2wpkh, entries, entries.min(5));
        let many = SpecialScript::new(Kind::P2trKey, entries, entries.div_ceil(2));
        if entries < 10 { vec![few] } else { vec![few, many] }
    };
    let between = between.filter(|entries| *entries <= largest).flat_map(of_length);
    let drawn = wallet::histories(seed, histories, largest);
    drawn.into_iter().chain(between).chain(wallet::wallet(seed, 1, addresses, heights)).collect()
}

/// The forged scripts of a wallet, or those of none (0), as probes.
pub fn probes_of(histories: &[ScriptHistory], wallet: u32) -> Vec<Probe> {
    let probe = |history: &ScriptHistory| Probe {
        hash: ScriptHash::of(&history.script).to_string(),
        entries: history.entries.into(),
        unspent: history.unspent.into(),
    };
    histories.iter().filter(|history| history.wallet == wallet).map(probe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_hash_a_script_or_an_address() {
        let script = "0014751e76e8199196d454941c45d1b3a323f1433bd6";
        let hash = ScriptHash::of(&stdx::hex::decode(script).unwrap()).to_string();
        let of = |line: &str| hash_of(line, Network::Main);
        assert_eq!(of(script), Some(hash.clone()));
        assert_eq!(of("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"), Some(hash.clone()));
        assert_eq!(of(&hash.to_uppercase()), Some(hash));
        assert_eq!(of("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5"), None);
    }

    #[test]
    fn lengths_go_from_one_to_the_largest_and_unspent_outputs_do_not_follow_them() {
        let all = forged(1, 1_000, 40, 70, (103, 200));
        let lengths: BTreeSet<u32> = all.iter().map(|script| script.entries).collect();
        for length in [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000] {
            assert!(lengths.contains(&length), "{length}");
        }
        let of = |entries| all.iter().filter(move |script| script.entries == entries && script.wallet == 0);
        assert!(of(500).any(|script| script.unspent == 5) && of(500).any(|script| script.unspent == 250));
        assert_eq!(all.iter().filter(|script| script.wallet == 1).count(), 70);
        assert!(all.iter().filter(|script| script.wallet == 0).all(|script| script.entries <= 1_000));
        assert!(forged(1, 1_000_000, 300, 10_000, (103, 200)).len() <= sim::forge::SPECIAL_MAX);
    }

    #[test]
    fn unconfirmed_transactions_are_not_counted() {
        let history = json!([{ "height": 5, "tx_hash": "aa" }, { "height": 0, "tx_hash": "bb" }, { "height": -1, "tx_hash": "cc" }]);
        assert_eq!(confirmed(&history), [Confirmed { txid: "aa".to_owned(), height: 5 }]);
    }
}
