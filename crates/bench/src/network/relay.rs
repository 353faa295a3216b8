//! `assay bench relay`: a new block whose transactions are known, from the peer that has it to the one that has not.
//!
//! In:     [`RelayOptions`].
//! Out:    milliseconds from the first byte of a compact block sent to the node until another peer has its announcement
//!         whole; how it was announced.
//! Fails:  when a node does not announce the block.
//!
//! Two scripted peers, plain frames: one sends, both have told the node that they want compact blocks at once, and that they
//! have the block before. All transactions were handed in before by JSON-RPC; how many were taken is told. Nodes take
//! turns, block by block, and their clocks stand a minute behind each block's time.

use std::time::Instant;

use net::Message;
use net::wire::{BlockTxs, CompactBlock, TxList};
use primitives::{Block, BlockHash, Network, Params};
use serde::Serialize;
use serde_json::{Value, json};

use super::scripted::Scripted;
use crate::arguments::RelayOptions;
use crate::mempool::{start_ours, transactions};
use crate::nodes::bitcoind::{self, Bitcoind};
use crate::nodes::{Process, Rpc};
use crate::report::{self, Table, count, least, median};
use crate::sample::{Ahead, Blocks, Scratch};
use crate::{BenchError, machine};

/// Memory budget of our node, in MiB.
const MEMORY_MIB: u64 = 1_024;

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
    let wish = Ahead { blocks: options.blocks + 1, inputs_per_block: options.inputs };
    let (blocks, ahead) = Blocks::forge_with_ahead(&options.scratch, &wish)?;
    let scratch = Scratch::new(&options.scratch, "relay")?;
    // The first one is handed to the nodes, so that their tip is new.
    let (handed, ahead) = ahead.split_first().expect("one more than asked for");
    let mut nodes = start(options, &blocks, handed, &scratch)?;
    let first = blocks.height()? + 2;
    let mut runs = Vec::new();
    for (height, bytes) in (first..).zip(ahead) {
        for node in &mut nodes {
            let run = relay(node, height, bytes)?;
            eprintln!("block {height}, {}: {:.1} ms by {}", node.name, run.milliseconds, run.announced_by);
            runs.push(run);
        }
    }
    let summary = summary(&runs);
    print!("{}", table(&runs).text());
    let settings = json!({
        "blocks": options.blocks, "inputs_per_block": options.inputs, "threads": options.threads,
        "bitcoind": options.bitcoind.as_deref().map(bitcoind::version).transpose()?,
    });
    let report =
        json!({ "bench": "relay", "machine": machine, "settings": settings, "summary": summary, "runs": runs });
    report::write_json(options.json.as_deref(), &report)
}

fn start(options: &RelayOptions, blocks: &Blocks, handed: &[u8], scratch: &Scratch) -> Result<Vec<Node>, BenchError> {
    let (ours, rpc, p2p) = start_ours(blocks, scratch.path(), options.threads, MEMORY_MIB)?;
    let mut nodes = vec![connect("assay", ours.process, rpc, p2p, handed)?];
    if let Some(program) = &options.bitcoind {
        let folder = scratch.path().join("bitcoind");
        let theirs = Bitcoind::start(program, &folder, blocks, options.threads, blocks.height()?)?;
        nodes.push(connect("bitcoind", theirs.process, theirs.rpc, theirs.p2p, handed)?);
    }
    Ok(nodes)
}

/// Connects both peers. The one that will send blocks brings `handed` first, as who brings a good block is one whose
/// compact blocks are taken unasked (Core: `m_bip152_highbandwidth_to`).
fn connect(
    name: &'static str,
    process: Process,
    mut rpc: Rpc,
    p2p: std::net::SocketAddr,
    handed: &[u8],
) -> Result<Node, BenchError> {
    let magic = Params::of(Network::Regtest).magic;
    rpc.set_time_of(handed)?;
    let (mut from, to) = (Scripted::connect(p2p, magic, 1)?, Scripted::connect(p2p, magic, 2)?);
    let wrong = |error: &dyn std::fmt::Display| BenchError::Wrong(format!("a forged block: {error}"));
    let block = net::wire::BlockBytes::new(handed.to_vec()).map_err(|error| wrong(&error))?;
    let hash = block.hash();
    from.send(&Message::Headers(vec![block.header()]))?;
    let asks =
        |message: &Message| matches!(message, Message::GetData(list) if list.iter().any(|entry| entry.hash == hash.0));
    from.wait_for("getdata", asks)?;
    from.send(&Message::Block(block))?;
    let tip = Value::from(hash.to_string());
    while rpc.call("getbestblockhash", json!([]))? != tip {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    from.settle()?;
    Ok(Node { name, rpc, from, to, _process: process })
}

/// Hands the block's transactions in, then the block, and waits until the other peer hears of it.
fn relay(node: &mut Node, height: u64, bytes: &[u8]) -> Result<Relayed, BenchError> {
    let block = Block::parse(bytes.to_vec()).map_err(|error| BenchError::Wrong(format!("a forged block: {error}")))?;
    let hash = block.header().hash();
    let offered = transactions(&[bytes.to_vec()])?;
    // What the node asked meanwhile is answered before its clock jumps, or it would find its peers too slow.
    node.from.settle()?;
    node.to.settle()?;
    node.rpc.set_time_of(bytes)?;
    for tx in &offered {
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
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let milliseconds = when.duration_since(before).as_secs_f64() * 1e3;
    let transactions = offered.len() as u64;
    Ok(Relayed { node: node.name, height, transactions, known, asked_for, announced_by, milliseconds })
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

fn times(runs: &[Relayed], node: &str) -> Vec<f64> {
    of(runs, node).iter().map(|run| run.milliseconds).collect()
}

fn summary(runs: &[Relayed]) -> Value {
    let (ours, theirs) = (times(runs, "assay"), times(runs, "bitcoind"));
    let figures =
        |times: &[f64]| (!times.is_empty()).then(|| json!({ "median_ms": median(times), "least_ms": least(times) }));
    let ratio = (!theirs.is_empty())
        .then(|| json!({ "by_median": median(&theirs) / median(&ours), "by_least": least(&theirs) / least(&ours) }));
    json!({ "assay": figures(&ours), "bitcoind": figures(&theirs), "times_as_fast": ratio })
}

fn table(runs: &[Relayed]) -> Table {
    let headings = ["node", "blocks", "transactions", "known", "asked for", "announced by", "median ms", "least ms"];
    let mut table = Table::new(&headings);
    for node in ["assay", "bitcoind"] {
        let all = of(runs, node);
        let Some(last) = all.last() else { continue };
        let mean = |figure: fn(&Relayed) -> u64| all.iter().map(|run| figure(run)).sum::<u64>() / all.len() as u64;
        let times = times(runs, node);
        table.row(vec![
            node.to_owned(),
            all.len().to_string(),
            count(mean(|run| run.transactions)),
            count(mean(|run| run.known)),
            count(mean(|run| run.asked_for)),
            last.announced_by.to_owned(),
            format!("{:.1}", median(&times)),
            format!("{:.1}", least(&times)),
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
        };
        let ours = [run("assay", 10.0), run("assay", 30.0), run("assay", 20.0)];
        assert!(summary(&ours)["times_as_fast"].is_null());
        let both = [&ours[..], &[run("bitcoind", 60.0), run("bitcoind", 40.0)]].concat();
        assert_eq!(summary(&both)["times_as_fast"], json!({ "by_median": 2.5, "by_least": 4.0 }));
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
