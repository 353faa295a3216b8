//! `assay bench relay`: a new block whose transactions are known, from the peer that has it to the one that has not.
//!
//! In:     [`RelayOptions`].
//! Out:    milliseconds from the first byte of a compact block sent to the node until another peer has its announcement
//!         whole, and until JSON-RPC says that it is the tip; how it was announced.
//! Fails:  when a node does not announce the block.
//!
//! Two scripted peers, plain frames: one sends, both have told the node that they want compact blocks at once, and that they
//! have the block before. All transactions were handed in before by JSON-RPC; how many were taken is told. Nodes take
//! turns to be first, block by block, and their clocks stand a minute behind each block's time.

use std::time::Instant;

use net::Message;
use net::wire::{BlockTxs, CompactBlock, TxList};
use primitives::{Block, BlockHash, Network, Params, Transaction};
use serde::Serialize;
use serde_json::{Value, json};

use super::scripted::Scripted;
use crate::arguments::RelayOptions;
use crate::nodes::{Process, Rpc, bitcoind};
use crate::report::{self, Table, count, least, median};
use crate::sample::{Blocks, Scratch};
use crate::unconfirmed::acceptance::{How, start_ours, start_theirs};
use crate::unconfirmed::offered::{Offered, Wish};
use crate::{BenchError, machine};

/// Memory budget of our node, in MiB.
const MEMORY_MIB: u64 = 1_024;
/// Of a hundred transactions, those that spend from another of the same block or one before.
const CHILDREN_PERCENT: u64 = 15;

/// One block relayed by one node.
#[derive(Clone, Debug, Serialize)]
struct Relayed {
    node: &'static str,
    height: u64,
    transactions: u64,
    /// Of them in the node's mempool before.
    known: u64,
    /// Transactions the node asked the sender for.
    asked_for: u64,
    /// The announcement the other peer got.
    announced_by: &'static str,
    milliseconds: f64,
    /// Until JSON-RPC, asked again and again from the announcement on, said that it is the tip.
    tip_milliseconds: f64,
}

struct Node {
    name: &'static str,
    rpc: Rpc,
    from: Scripted,
    to: Scripted,
    /// Killed when it is dropped.
    _process: Process,
}

/// Starts the nodes, relays, prints, writes.
pub fn bench(options: &RelayOptions) -> Result<(), BenchError> {
    let machine = machine::describe();
    let count = (options.transactions * u64::from(options.blocks)) as usize;
    let mut offered = Offered::make(&options.scratch, &Wish { count, children_percent: CHILDREN_PERCENT, seed: 1 })?;
    let scratch = Scratch::new(&options.scratch, "relay")?;
    let brought = offered.block_of(&[]);
    let mut nodes = start(options, &offered.blocks, [&offered.first, &brought], &scratch)?;
    let first = offered.blocks.height()? + 3;
    let mut runs = Vec::new();
    let txs = offered.txs.clone();
    for (height, txs) in (first..).zip(txs.chunks(options.transactions as usize)) {
        let bytes = offered.block_of(txs);
        // Who was first last time is last now: what a node leaves behind in the machine's caches hurts both.
        for turn in 0..nodes.len() {
            let at = (turn + height as usize) % nodes.len();
            let node = &mut nodes[at];
            let run = relay(node, height, txs, &bytes)?;
            eprintln!(
                "block {height}, {}: relayed in {:.1} ms by {}, tip in {:.1} ms",
                node.name, run.milliseconds, run.announced_by, run.tip_milliseconds
            );
            runs.push(run);
        }
    }
    let summary = summary(&runs);
    print!("{}", table(&runs).text());
    let settings = json!({
        "blocks": options.blocks, "transactions": options.transactions, "threads": options.threads,
        "bitcoind": options.bitcoind.as_deref().map(bitcoind::version).transpose()?,
    });
    let report =
        json!({ "bench": "relay", "machine": machine, "settings": settings, "summary": summary, "runs": runs });
    report::write_json(options.json.as_deref(), &report)
}

fn start(
    options: &RelayOptions,
    blocks: &Blocks,
    handed: [&[u8]; 2],
    scratch: &Scratch,
) -> Result<Vec<Node>, BenchError> {
    let how = How { threads: options.threads, memory_mib: MEMORY_MIB, core: None, mempool_mb: None };
    let (ours, rpc, p2p) = start_ours(blocks, scratch.path(), how)?;
    let mut nodes = vec![connect("assay", ours.process, rpc, p2p, handed)?];
    if let Some(program) = &options.bitcoind {
        let theirs = start_theirs(program, blocks, scratch.path(), how)?;
        nodes.push(connect("bitcoind", theirs.process, theirs.rpc, theirs.p2p, handed)?);
    }
    Ok(nodes)
}

/// Connects both peers, once the node follows the chain by the first of `handed`. The one that will send blocks brings the
/// second, and is asked for compact blocks at once: of others nobody takes them unasked (Core: `m_bip152_highbandwidth_to`).
fn connect(
    name: &'static str,
    process: Process,
    mut rpc: Rpc,
    p2p: std::net::SocketAddr,
    handed: [&[u8]; 2],
) -> Result<Node, BenchError> {
    let magic = Params::of(Network::Regtest).magic;
    let [first, brought] = handed;
    rpc.step_onto(first)?;
    rpc.set_time_of(brought)?;
    let (mut from, to) = (Scripted::connect(p2p, magic, 1)?, Scripted::connect(p2p, magic, 2)?);
    let wrong = |error: &dyn std::fmt::Display| BenchError::Wrong(format!("a forged block: {error}"));
    let block = net::wire::BlockBytes::new(brought.to_vec()).map_err(|error| wrong(&error))?;
    let hash = block.hash();
    from.send(&Message::Headers(vec![block.header()]))?;
    let asks =
        |message: &Message| matches!(message, Message::GetData(list) if list.iter().any(|entry| entry.hash == hash.0));
    from.wait_for("getdata", asks)?;
    from.send(&Message::Block(block))?;
    from.wait_for(
        "question for compact blocks",
        |message| matches!(message, Message::SendCompact(how) if how.announce),
    )?;
    let tip = Value::from(hash.to_string());
    while rpc.call("getbestblockhash", json!([]))? != tip {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    from.settle()?;
    Ok(Node { name, rpc, from, to, _process: process })
}

/// Hands the block's transactions in, then the block, and waits until the other peer hears of it.
fn relay(node: &mut Node, height: u64, offered: &[Transaction], bytes: &[u8]) -> Result<Relayed, BenchError> {
    let block = Block::parse(bytes.to_vec()).map_err(|error| BenchError::Wrong(format!("a forged block: {error}")))?;
    let hash = block.header().hash();
    // What the node asked meanwhile is answered before its clock jumps, or it would find its peers too slow.
    node.from.settle()?;
    node.to.settle()?;
    node.rpc.set_time_of(bytes)?;
    for tx in offered {
        node.rpc.answer("sendrawtransaction", json!([stdx::hex::encode(tx.tx().raw()), 0]))?;
    }
    let known = node.rpc.call("getmempoolinfo", json!([]))?["size"].as_u64().unwrap_or(0);
    tell_of_parent(node, &block)?;
    let compact = Message::CompactBlock(CompactBlock::of(&block, height));
    let frame = node.from.frames([&compact]);
    let before = Instant::now();
    node.from.send_frame(&frame)?;
    let asked_for = if known < offered.len() as u64 { answer_for_missing(node, &block)? } else { 0 };
    let (when, message) =
        node.to.wait_for("announcement of the block", |message| announces(message, &hash).is_some())?;
    let announced_by = announces(&message, &hash).expect("it was waited for");
    // The next block builds on this one being there.
    while node.rpc.call("getblockcount", json!([]))? != height {
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
    let tip_milliseconds = before.elapsed().as_secs_f64() * 1e3;
    let milliseconds = when.duration_since(before).as_secs_f64() * 1e3;
    let transactions = offered.len() as u64;
    Ok(Relayed {
        node: node.name,
        height,
        transactions,
        known,
        asked_for,
        announced_by,
        milliseconds,
        tip_milliseconds,
    })
}

/// Both peers show that they have the block before: only to such a node announces at once.
fn tell_of_parent(node: &mut Node, block: &Block) -> Result<(), BenchError> {
    let previous = block.header().previous.to_string();
    let header = node.rpc.call("getblockheader", json!([previous, false]))?;
    let bytes = stdx::hex::decode(header.as_str().unwrap_or_default()).unwrap_or_default();
    let bytes: [u8; 80] = bytes.try_into().map_err(|_| BenchError::Wrong("a header without 80 bytes".to_owned()))?;
    let headers = Message::Headers(vec![primitives::Header::decode(&bytes)]);
    for peer in [&mut node.from, &mut node.to] {
        peer.send(&headers)?;
        peer.settle()?;
    }
    Ok(())
}

/// Sends what the node lacks; how many it asked for.
fn answer_for_missing(node: &mut Node, block: &Block) -> Result<u64, BenchError> {
    let hash = block.header().hash();
    let (_, message) = node.from.wait_for("getblocktxn", |message| matches!(message, Message::GetBlockTxs(_)))?;
    let Message::GetBlockTxs(request) = message else { unreachable!("it was waited for") };
    let txs = TxList::of(request.indexes.iter().map(|index| block.tx(usize::from(*index)).raw()));
    node.from.send(&Message::BlockTxs(BlockTxs { block: hash, txs }))?;
    Ok(request.indexes.len() as u64)
}

/// How a message announces the block, if it does.
fn announces(message: &Message, hash: &BlockHash) -> Option<&'static str> {
    match message {
        Message::CompactBlock(compact) if compact.header.hash() == *hash => Some("cmpctblock"),
        Message::Headers(headers) if headers.iter().any(|header| header.hash() == *hash) => Some("headers"),
        Message::Inv(inventory) if inventory.iter().any(|entry| entry.hash == hash.0) => Some("inv"),
        _ => None,
    }
}

fn of<'a>(runs: &'a [Relayed], node: &str) -> Vec<&'a Relayed> {
    runs.iter().filter(|run| run.node == node).collect()
}

fn times(runs: &[Relayed], node: &str, time: fn(&Relayed) -> f64) -> Vec<f64> {
    of(runs, node).iter().map(|run| time(run)).collect()
}

fn summary(runs: &[Relayed]) -> Value {
    let compare = |time: fn(&Relayed) -> f64| {
        let (ours, theirs) = (times(runs, "assay", time), times(runs, "bitcoind", time));
        let most = |times: &[f64]| times.iter().copied().fold(0.0, f64::max);
        let figures = |times: &[f64]| {
            (!times.is_empty())
                .then(|| json!({ "median_ms": median(times), "least_ms": least(times), "most_ms": most(times) }))
        };
        let ratio = (!theirs.is_empty()).then(
            || json!({ "by_median": median(&theirs) / median(&ours), "by_least": least(&theirs) / least(&ours) }),
        );
        json!({ "assay": figures(&ours), "bitcoind": figures(&theirs), "times_as_fast": ratio })
    };
    json!({ "relayed": compare(|run| run.milliseconds), "tip": compare(|run| run.tip_milliseconds) })
}

fn table(runs: &[Relayed]) -> Table {
    let headings = [
        "node",
        "blocks",
        "transactions",
        "known",
        "asked for",
        "announced by",
        "median ms",
        "least ms",
        "tip median ms",
        "tip least ms",
    ];
    let mut table = Table::new(&headings);
    for node in ["assay", "bitcoind"] {
        let all = of(runs, node);
        let Some(last) = all.last() else { continue };
        let mean = |figure: fn(&Relayed) -> u64| all.iter().map(|run| figure(run)).sum::<u64>() / all.len() as u64;
        let (relayed, tip) = (times(runs, node, |run| run.milliseconds), times(runs, node, |run| run.tip_milliseconds));
        table.row(vec![
            node.to_owned(),
            all.len().to_string(),
            count(mean(|run| run.transactions)),
            count(mean(|run| run.known)),
            count(mean(|run| run.asked_for)),
            last.announced_by.to_owned(),
            format!("{:.1}", median(&relayed)),
            format!("{:.1}", least(&relayed)),
            format!("{:.1}", median(&tip)),
            format!("{:.1}", least(&tip)),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_compared_by_their_times() {
        let run = |node, milliseconds| Relayed {
            node,
            height: 1,
            transactions: 3,
            known: 3,
            asked_for: 0,
            announced_by: "cmpctblock",
            milliseconds,
            tip_milliseconds: 2.0 * milliseconds,
        };
        let ours = [run("assay", 10.0), run("assay", 30.0), run("assay", 20.0)];
        assert!(summary(&ours)["relayed"]["times_as_fast"].is_null());
        let both = [&ours[..], &[run("bitcoind", 60.0), run("bitcoind", 40.0)]].concat();
        for time in ["relayed", "tip"] {
            assert_eq!(summary(&both)[time]["times_as_fast"], json!({ "by_median": 2.5, "by_least": 4.0 }));
        }
        assert_eq!(summary(&both)["tip"]["assay"]["most_ms"], json!(60.0));
    }

    #[test]
    fn an_announcement_is_one_of_this_block() {
        let genesis = Params::of(Network::Regtest).genesis;
        let headers = Message::Headers(vec![genesis]);
        assert_eq!(announces(&headers, &genesis.hash()), Some("headers"));
        assert_eq!(announces(&headers, &BlockHash([1; 32])), None);
        assert_eq!(announces(&Message::Verack, &genesis.hash()), None);
    }
}
