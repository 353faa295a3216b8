//! `assay bench rpc`: what explorers ask a node for, over connections that are kept; bitcoind beside us where there is one.
//!
//! In:     [`RpcOptions`].
//! Out:    microseconds a request for each kind of question, wall and CPU time, and whether both answered the same.
//! Fails:  when a node does not answer, or with an error.
//!
//! Fair or not: both have the same blocks, both a transaction index, both one connection at a time; slices of some tens of
//! milliseconds are taken in turns, so that a busy moment hurts both. Reading the answer is in the time, parsing it is not.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};
use stdx::random::Random;

use crate::arguments::RpcOptions;
use crate::nodes::bitcoind::{self, Bitcoind, free_address};
use crate::nodes::http::question;
use crate::nodes::{Assay, AssaySettings, P2p, Process, Rpc};
use crate::report::{self, Table, bytes, least, median};
use crate::sample::{Blocks, Scratch};
use crate::{BenchError, machine};

/// Questions of one kind that take turns.
const QUESTIONS: usize = 40;
/// Questions in a batch.
const BATCH: usize = 20;
/// Least length of a slice.
const SLICE: Duration = Duration::from_millis(40);

/// One kind of question.
struct Kind {
    name: &'static str,
    /// Questions of one request.
    each: usize,
    bodies: Vec<String>,
}

/// One node that is asked.
struct Asked {
    name: &'static str,
    process: Process,
    rpc: Rpc,
}

/// What one node took for one kind.
#[derive(Clone, Debug, Default, Serialize)]
struct Figures {
    /// Mean time of a request in each slice, in microseconds.
    slices_us: Vec<f64>,
    /// CPU time of the node in all slices, in seconds, and the requests in them.
    cpu_s: f64,
    requests: u64,
    /// Bytes of an answer, on average.
    answer_bytes: u64,
}

/// Starts the nodes, asks, prints, writes.
pub fn bench(options: &RpcOptions) -> Result<(), BenchError> {
    let machine = machine::describe();
    let blocks = Blocks::of(&options.source)?;
    let scratch = Scratch::new(&options.source.scratch, "rpc")?;
    let (mut nodes, height) = start(options, &blocks, scratch.path())?;
    let kinds = kinds(&mut nodes[0].rpc, height)?;
    let (mut figures, mut answers) = (BTreeMap::new(), BTreeMap::new());
    for kind in &kinds {
        answers.insert(kind.name, compare(&mut nodes, kind)?);
    }
    for slice in 1..=options.slices {
        eprintln!("slice {slice} of {}", options.slices);
        for kind in &kinds {
            for node in &mut nodes {
                let figures: &mut Figures = figures.entry((kind.name, node.name)).or_default();
                measure(node, kind, slice as usize, figures)?;
            }
        }
    }
    let rows: Vec<Value> = kinds.iter().map(|kind| row(kind, &figures, &answers[kind.name])).collect();
    print!("{}", table(&rows).text());
    let settings = json!({
        "blocks_from": options.source.blocks_from,
        "forge_inputs": options.source.blocks_from.is_none().then_some(options.source.forge_inputs),
        "height": height,
        "slices": options.slices,
        "questions": QUESTIONS,
        "threads": options.threads,
        "bitcoind": options.bitcoind.as_deref().map(bitcoind::version).transpose()?,
    });
    let runs: Vec<Value> = figures
        .iter()
        .map(|((kind, node), figures)| json!({ "kind": kind, "node": node, "figures": figures }))
        .collect();
    let report = json!({ "bench": "rpc", "machine": machine, "settings": settings, "summary": rows, "runs": runs });
    report::write_json(options.json.as_deref(), &report)
}

fn start(options: &RpcOptions, blocks: &Blocks, scratch: &Path) -> Result<(Vec<Asked>, u64), BenchError> {
    let address = free_address()?;
    let settings = AssaySettings {
        chain: "regtest".to_owned(),
        blocks_from: Some(blocks.folder().to_owned()),
        datadir: scratch.join("assay"),
        threads: options.threads,
        memory_mib: 1024,
        engine: "auto".to_owned(),
        p2p: P2p::Off,
        rpc: Some(address),
        mempool_mb: None,
        core: None,
    };
    let mut ours = Assay::start("assay", &settings)?;
    let (height, _) = ours.wait_until_following()?;
    let rpc = ours.rpc(address)?;
    let mut nodes = vec![Asked { name: "assay", process: ours.process, rpc }];
    if let Some(program) = &options.bitcoind {
        eprintln!("bitcoind reads the blocks in");
        let theirs = Bitcoind::start(program, &scratch.join("bitcoind"), blocks, options.threads, height)?;
        nodes.push(Asked { name: "bitcoind", process: theirs.process, rpc: theirs.rpc });
    }
    Ok((nodes, height))
}

/// The questions, drawn from the upper half of the chain, where blocks are full.
fn kinds(rpc: &mut Rpc, height: u64) -> Result<Vec<Kind>, BenchError> {
    let mut random = Random::new(1);
    let (mut blocks, mut txs) = (Vec::new(), Vec::new());
    for _ in 0..QUESTIONS {
        let hash = rpc.call("getblockhash", json!([height / 2 + random.below(height - height / 2) + 1]))?;
        let block = rpc.call("getblock", json!([hash, 1]))?;
        let ids = block["tx"].as_array().cloned().unwrap_or_default();
        let drawn = (0..BATCH).map(|_| ids[random.below(ids.len() as u64) as usize].clone());
        txs.push(drawn.collect::<Vec<Value>>());
        blocks.push(hash);
    }
    let single = |name, method: &str, all: Vec<Value>| {
        let bodies = all.iter().map(|parameters| question(method, parameters)).collect();
        Kind { name, each: 1, bodies }
    };
    let batch = |name, all: Vec<Vec<(&str, Value)>>| {
        let body = |batch: &Vec<(&str, Value)>| {
            format!("[{}]", batch.iter().map(|(method, all)| question(method, all)).collect::<Vec<_>>().join(","))
        };
        Kind { name, each: BATCH, bodies: all.iter().map(body).collect() }
    };
    let of_blocks = |more: fn(&Value) -> Value| blocks.iter().map(more).collect::<Vec<Value>>();
    let of_txs = |batch: &Vec<Value>| batch.iter().map(|txid| ("getrawtransaction", json!([txid, 1]))).collect();
    Ok(vec![
        single("getblock 2", "getblock", of_blocks(|hash| json!([hash, 2]))),
        single("getblock 1", "getblock", of_blocks(|hash| json!([hash, 1]))),
        single("getblock 0", "getblock", of_blocks(|hash| json!([hash, 0]))),
        single("getblockheader", "getblockheader", of_blocks(|hash| json!([hash, true]))),
        single("getrawtransaction 1", "getrawtransaction", txs.iter().map(|batch| json!([batch[0], 1])).collect()),
        single("getrawtransaction 2", "getrawtransaction", txs.iter().map(|batch| json!([batch[1], 2])).collect()),
        batch("20 getrawtransaction 1", txs.iter().map(of_txs).collect()),
        batch(
            "20 getblockheader",
            (0..QUESTIONS)
                .map(|at| (0..BATCH).map(|n| ("getblockheader", json!([blocks[(at + n) % QUESTIONS]]))).collect())
                .collect(),
        ),
    ])
}

fn measure(node: &mut Asked, kind: &Kind, slice: usize, figures: &mut Figures) -> Result<(), BenchError> {
    let (before_s, before) = (node.process.usage()?.cpu_s(), Instant::now());
    let (mut requests, mut answer_bytes) = (0u64, 0u64);
    while requests == 0 || before.elapsed() < SLICE {
        let body = &kind.bodies[(slice * 7 + requests as usize) % kind.bodies.len()];
        answer_bytes += node.rpc.ask(body)?.len() as u64;
        requests += 1;
    }
    figures.slices_us.push(before.elapsed().as_secs_f64() * 1e6 / requests as f64);
    figures.cpu_s += node.process.usage()?.cpu_s() - before_s;
    figures.requests += requests;
    figures.answer_bytes = answer_bytes / requests;
    Ok(())
}

/// Asks every question of both and compares the answers as JSON; names of members that differ.
fn compare(nodes: &mut [Asked], kind: &Kind) -> Result<Value, BenchError> {
    let (mut equal, mut differing) = (0, BTreeMap::new());
    for body in &kind.bodies {
        let mut answers = Vec::new();
        for node in nodes.iter_mut() {
            let bytes = node.rpc.ask(body)?;
            let answer: Value = serde_json::from_slice(&bytes)
                .map_err(|error| BenchError::Wrong(format!("{}: {}: {error}", node.name, kind.name)))?;
            let list = answer.as_array().cloned().unwrap_or_else(|| vec![answer]);
            if let Some(failed) = list.iter().find(|one| !one["error"].is_null()) {
                return Err(BenchError::Wrong(format!("{}: {}: {}", node.name, kind.name, failed["error"])));
            }
            answers.push(list.into_iter().map(|mut one| one["result"].take()).collect::<Vec<Value>>());
        }
        let Some((first, others)) = answers.split_first() else { continue };
        match others.iter().find(|other| *other != first) {
            None => equal += 1,
            Some(other) => first.iter().zip(other).for_each(|(a, b)| differ(a, b, "", &mut differing)),
        }
    }
    Ok(json!({ "equal": equal, "asked": kind.bodies.len(), "differing_members": differing }))
}

/// Counts the members in which two answers differ, by their path.
fn differ(a: &Value, b: &Value, path: &str, out: &mut BTreeMap<String, u64>) {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names {
                let null = Value::Null;
                let (one, other) = (a.get(name).unwrap_or(&null), b.get(name).unwrap_or(&null));
                differ(one, other, &format!("{path}.{name}"), out);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).for_each(|(a, b)| differ(a, b, path, out));
        }
        _ if a == b => {}
        _ => *out.entry(path.trim_start_matches('.').to_owned()).or_default() += 1,
    }
}

fn row(kind: &Kind, figures: &BTreeMap<(&'static str, &'static str), Figures>, same: &Value) -> Value {
    let of = |node: &'static str| figures.get(&(kind.name, node));
    let ours = of("assay").expect("we are always asked");
    let figure = |figures: &Figures| {
        json!({
            "median_us": median(&figures.slices_us),
            "least_us": least(&figures.slices_us),
            "cpu_us": figures.cpu_s * 1e6 / figures.requests as f64,
            "answer_bytes": figures.answer_bytes,
        })
    };
    let times = of("bitcoind").map(|theirs| {
        json!({
            "by_median": median(&theirs.slices_us) / median(&ours.slices_us),
            "by_least": least(&theirs.slices_us) / least(&ours.slices_us),
            "by_cpu": (theirs.cpu_s / theirs.requests as f64) / (ours.cpu_s / ours.requests as f64),
        })
    });
    json!({
        "kind": kind.name, "questions_a_request": kind.each, "assay": figure(ours), "bitcoind": of("bitcoind").map(figure),
        "times_as_fast": times, "answers": same,
    })
}

fn table(rows: &[Value]) -> Table {
    let headings =
        ["question", "answer", "assay us", "least", "bitcoind us", "least", "times", "by least", "by CPU", "same"];
    let mut table = Table::new(&headings);
    for row in rows {
        let number = |path: &str, digits: usize| {
            row.pointer(path).and_then(Value::as_f64).map_or("-".to_owned(), |value| format!("{value:.digits$}"))
        };
        table.row(vec![
            row["kind"].as_str().unwrap_or_default().to_owned(),
            bytes(row["assay"]["answer_bytes"].as_u64().unwrap_or(0)),
            number("/assay/median_us", 0),
            number("/assay/least_us", 0),
            number("/bitcoind/median_us", 0),
            number("/bitcoind/least_us", 0),
            number("/times_as_fast/by_median", 2),
            number("/times_as_fast/by_least", 2),
            number("/times_as_fast/by_cpu", 2),
            format!("{} of {}", row["answers"]["equal"], row["answers"]["asked"]),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_differ_are_named_and_counted() {
        let a = json!({ "same": 1, "tx": [{ "fee": 1, "vin": [1] }, { "fee": 2, "vin": [1] }], "only": true });
        let b = json!({ "same": 1, "tx": [{ "fee": 3, "vin": [1] }, { "fee": 4, "vin": [1, 2] }] });
        let mut out = BTreeMap::new();
        differ(&a, &b, "", &mut out);
        let want = [("only".to_owned(), 1), ("tx.fee".to_owned(), 2), ("tx.vin".to_owned(), 1)];
        assert_eq!(out.into_iter().collect::<Vec<_>>(), want);
    }

    #[test]
    fn ratios_say_how_many_times_as_fast_we_are() {
        let figures =
            |slices: &[f64], cpu_s| Figures { slices_us: slices.to_vec(), cpu_s, requests: 10, answer_bytes: 5 };
        let kind = Kind { name: "k", each: 1, bodies: Vec::new() };
        let mut all = BTreeMap::from([(("k", "assay"), figures(&[10.0, 20.0, 30.0], 0.1))]);
        assert!(row(&kind, &all, &Value::Null)["times_as_fast"].is_null());
        all.insert(("k", "bitcoind"), figures(&[60.0, 40.0, 30.0], 0.4));
        let times = &row(&kind, &all, &Value::Null)["times_as_fast"];
        assert_eq!(
            (&times["by_median"], &times["by_least"], &times["by_cpu"]),
            (&json!(2.0), &json!(3.0), &json!(4.0))
        );
    }
}
