//! `assay bench full-mempool`: what a node at the tip holds of memory when its mempool is full.
//!
//! In:     [`FullMempoolOptions`].
//! Out:    resident memory of the node with its chain read in, and with the mempool full; what the mempool counts for
//!         itself, and how much of what was added it accounts for.
//! Fails:  when a node does, or its mempool never fills.
//!
//! Fair or not: the chain below is small, so that nearly all memory is the mempool's and what goes with it. bitcoind's
//! coins of the chain are in its cache of 450 MiB, which is nearly empty here.

use std::path::Path;
use std::time::{Duration, Instant};

use net::Message;
use primitives::{Network, Params, Transaction};
use serde::Serialize;
use serde_json::{Value, json};

use super::acceptance::{How, Node, start_ours, start_theirs};
use super::offered::{Offered, Wish};
use crate::arguments::FullMempoolOptions;
use crate::network::scripted::Scripted;
use crate::nodes::bitcoind;
use crate::report::{self, Table, bytes, count};
use crate::sample::Scratch;
use crate::{BenchError, machine};

/// Transactions sent between two looks at what was taken: memory for those on their way is the node's, not the mempool's.
const LOT: usize = 2_000;
/// Time between two looks.
const POLL: Duration = Duration::from_millis(20);
/// A node whose mempool has not changed for so long changes it no more for what it was sent.
const QUIET: Duration = Duration::from_millis(500);

/// One node.
#[derive(Clone, Debug, Serialize)]
struct Filled {
    node: &'static str,
    transactions: u64,
    /// What the mempool counts for itself, and its bound.
    counted_bytes: u64,
    bound_bytes: u64,
    /// The node with its chain read in, before the first transaction.
    before_bytes: u64,
    /// When the mempool was full for the first time.
    first_full_bytes: u64,
    /// At the end: others have come, and as many have gone.
    resident_bytes: u64,
    /// The most it ever held.
    peak_bytes: u64,
    /// The least feerate at the end, in BTC for 1,000 virtual bytes: above the relay minimum once something was evicted.
    minimum: f64,
}

/// Fills, prints, writes.
pub fn bench(options: &FullMempoolOptions) -> Result<(), BenchError> {
    let machine = machine::describe();
    let wish = Wish { count: options.transactions as usize, children_percent: options.children, seed: 1 };
    let Offered { blocks, first, txs, .. } = Offered::make(&options.scratch, &wish)?;
    let scratch = Scratch::new(&options.scratch, "full-mempool")?;
    let FullMempoolOptions { threads, memory, mempool_mb, .. } = *options;
    let how = How { threads, memory_mib: memory, core: None, mempool_mb: Some(mempool_mb) };
    let (ours, mut rpc, p2p) = start_ours(&blocks, scratch.path(), how)?;
    rpc.step_onto(&first)?;
    let mut rows = vec![fill("assay", &mut Node { process: ours.process, rpc, p2p }, &txs)?];
    if let Some(program) = &options.bitcoind {
        rows.push(theirs(program, &blocks, scratch.path(), how, &first, &txs)?);
    }
    print!("{}", table(&rows).text());
    let settings = json!({
        "transactions": txs.len(), "children_percent": options.children, "threads": threads, "memory_mib": memory,
        "mempool_mb": mempool_mb, "bitcoind": options.bitcoind.as_deref().map(bitcoind::version).transpose()?,
    });
    let summary: Vec<Value> = rows.iter().map(summary).collect();
    let report =
        json!({ "bench": "full-mempool", "machine": machine, "settings": settings, "summary": summary, "runs": rows });
    report::write_json(options.json.as_deref(), &report)
}

fn theirs(
    program: &Path,
    blocks: &crate::sample::Blocks,
    scratch: &Path,
    how: How,
    first: &[u8],
    txs: &[Transaction],
) -> Result<Filled, BenchError> {
    let mut node = start_theirs(program, blocks, scratch, how)?;
    node.rpc.step_onto(first)?;
    fill("bitcoind", &mut Node { process: node.process, rpc: node.rpc, p2p: node.p2p }, txs)
}

/// Hands all transactions in, though the mempool be full.
fn fill(name: &'static str, node: &mut Node, txs: &[Transaction]) -> Result<Filled, BenchError> {
    let before_bytes = node.process.memory_bytes()?.0;
    let mut peer = Scripted::connect(node.p2p, Params::of(Network::Regtest).magic, 77)?;
    let relay_minimum = node.rpc.call("getmempoolinfo", json!([]))?["minrelaytxfee"].as_f64().unwrap_or(0.0);
    let (mut info, mut first_full_bytes) = (Value::Null, 0);
    for (lot, part) in txs.chunks(LOT).enumerate() {
        let messages: Vec<Message> = part.iter().map(|tx| Message::Tx(tx.clone())).collect();
        let frames = peer.frames(&messages);
        peer.send_frame(&frames)?;
        info = settled(node, ((lot + 1) * LOT) as u64)?;
        if first_full_bytes == 0 && info["mempoolminfee"].as_f64().unwrap_or(0.0) > relay_minimum {
            first_full_bytes = node.process.memory_bytes()?.0;
        }
        if lot % 20 == 19 {
            eprintln!("{name}: {} transactions, {} bytes counted", info["size"], info["usage"]);
        }
    }
    let (resident_bytes, peak_bytes) = node.process.memory_bytes()?;
    let number = |member: &str| info[member].as_u64().unwrap_or(0);
    Ok(Filled {
        node: name,
        transactions: number("size"),
        counted_bytes: number("usage"),
        bound_bytes: number("maxmempool"),
        before_bytes,
        first_full_bytes,
        resident_bytes,
        peak_bytes,
        minimum: info["mempoolminfee"].as_f64().unwrap_or(0.0),
    })
}

/// What the mempool says once it has taken so many, or takes no more.
fn settled(node: &mut Node, wanted: u64) -> Result<Value, BenchError> {
    let (mut last, mut when) = (Value::Null, Instant::now());
    loop {
        let info = node.rpc.call("getmempoolinfo", json!([]))?;
        let size = info["size"].as_u64().unwrap_or(0);
        if info["total_fee"] != last {
            (last, when) = (info["total_fee"].clone(), Instant::now());
        }
        if size >= wanted || when.elapsed() > QUIET {
            return Ok(info);
        }
        std::thread::sleep(POLL);
    }
}

fn summary(filled: &Filled) -> Value {
    let added = filled.resident_bytes.saturating_sub(filled.before_bytes);
    json!({
        "node": filled.node,
        "added_bytes": added,
        "added_by_counted": added as f64 / filled.counted_bytes.max(1) as f64,
        "counted_bytes_a_transaction": filled.counted_bytes / filled.transactions.max(1),
        "is_full": filled.counted_bytes as f64 > 0.95 * filled.bound_bytes as f64,
    })
}

fn table(rows: &[Filled]) -> Table {
    let headings = ["node", "transactions", "counted", "before", "first full", "at the end", "peak", "added / counted"];
    let mut table = Table::new(&headings);
    for row in rows {
        table.row(vec![
            row.node.to_owned(),
            count(row.transactions),
            bytes(row.counted_bytes),
            bytes(row.before_bytes),
            bytes(row.first_full_bytes),
            bytes(row.resident_bytes),
            bytes(row.peak_bytes),
            format!("{:.2}", summary(row)["added_by_counted"].as_f64().unwrap_or(0.0)),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_compared_with_what_was_counted() {
        let filled = |counted_bytes| Filled {
            node: "assay",
            transactions: 100,
            counted_bytes,
            bound_bytes: 1_000,
            before_bytes: 500,
            first_full_bytes: 1_700,
            resident_bytes: 1_750,
            peak_bytes: 2_000,
            minimum: 0.0,
        };
        assert_eq!(summary(&filled(1_000))["added_by_counted"], json!(1.25));
        assert_eq!(
            (summary(&filled(1_000))["is_full"].clone(), summary(&filled(950))["is_full"].clone()),
            (json!(true), json!(false))
        );
    }
}
