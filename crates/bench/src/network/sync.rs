//! `assay bench sync`: a chain from peers on loopback, against the same chain from files.
//!
//! In:     [`SyncOptions`].
//! Out:    time, CPU time, memory and bytes of every contestant; how long the block that was needed next was not there.
//! Fails:  when a contestant ends at another tip, or as it does.
//!
//! Every contestant is `assay run` in a process of its own, measured from its start until the tip is committed. Fair or
//! not: the sources share this machine's cores with the node that downloads, which they would not elsewhere, so their CPU
//! time is told beside the ratio. The import reads its files from a warm page cache and writes no block; the download
//! writes them all.

use std::net::SocketAddr;

use serde::Serialize;
use serde_json::{Value, json};

use super::line::Line;
use super::summary;
use crate::arguments::SyncOptions;
use crate::measure::{self, Usage};
use crate::nodes::{Assay, AssaySettings, P2p};
use crate::sample::{Blocks, Scratch};
use crate::{BenchError, machine, report};

/// Peers of the contest with a slow one.
const PEERS_WITH_SLOW: usize = 8;
/// The slow one has this share of the others' rate.
const SLOWER: u64 = 100;

/// Who gets the chain, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Contestant {
    /// From the files.
    Import,
    /// From all sources, encrypted.
    Sync,
    /// From all sources, in plain frames.
    SyncPlain,
    /// From eight lines of one rate.
    EightPeers,
    /// From eight lines, one of them a hundred times slower.
    SevenAndASlowOne,
    /// From the seven alone.
    SevenPeers,
}

impl Contestant {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Contestant::Import => "import from files",
            Contestant::Sync => "sync, encrypted",
            Contestant::SyncPlain => "sync, plain",
            Contestant::EightPeers => "sync, 8 equal peers",
            Contestant::SevenAndASlowOne => "sync, 7 and one at 1 %",
            Contestant::SevenPeers => "sync, 7 equal peers",
        }
    }

    /// Those that take turns.
    fn all(options: &SyncOptions) -> Vec<Contestant> {
        let mut all = vec![Contestant::Import, Contestant::Sync];
        all.extend(options.plain.then_some(Contestant::SyncPlain));
        if options.slow_peer.is_some() {
            all.extend([Contestant::EightPeers, Contestant::SevenAndASlowOne, Contestant::SevenPeers]);
        }
        all
    }
}

/// What one run took.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Who.
    pub contestant: Contestant,
    /// Of the node that gets the chain, from its start until the tip was committed.
    pub target: Usage,
    /// CPU time of all sources meanwhile, in seconds.
    pub sources_cpu_s: f64,
    /// CPU time of this process meanwhile, which carries the lines of a given rate, in seconds.
    pub bench_cpu_s: f64,
    /// Bytes that came from peers.
    pub received_bytes: u64,
    /// Bytes of blocks that came and were of no use: copies of others, mostly.
    pub unused_bytes: u64,
    /// Time in which the block that validation needs next was not there, in milliseconds.
    pub block_missing_ms: u64,
    /// That of it in which nothing was on order.
    pub nothing_ordered_ms: u64,
    /// Bytes from each peer.
    pub peers: Vec<u64>,
}

/// The nodes that have the chain.
struct Sources {
    nodes: Vec<Assay>,
    addresses: Vec<SocketAddr>,
    height: u64,
    tip: String,
    _scratch: Scratch,
}

impl Sources {
    fn start(options: &SyncOptions, blocks: &Blocks) -> Result<Sources, BenchError> {
        let scratch = Scratch::new(&options.source.scratch, "sources")?;
        let (mut nodes, mut addresses, mut tip) = (Vec::new(), Vec::new(), (0, String::new()));
        for index in 0..options.sources {
            let settings = AssaySettings {
                blocks_from: Some(blocks.folder().to_owned()),
                datadir: scratch.path().join(index.to_string()),
                // It only has to read blocks; its own import is not measured.
                memory_mib: 512,
                p2p: P2p::Serve,
                ..settings(options)
            };
            let mut node = Assay::start("source", &settings)?;
            tip = node.wait_until_following()?;
            addresses.push(node.p2p_address()?);
            nodes.push(node);
        }
        Ok(Sources { nodes, addresses, height: tip.0, tip: tip.1, _scratch: scratch })
    }

    fn cpu_s(&self) -> Result<f64, BenchError> {
        self.nodes.iter().map(|node| Ok(node.process.usage()?.cpu_s())).sum()
    }

    /// Lines to `count` peers, which are the sources in turn; the last one slow if asked for.
    fn lines(&self, count: usize, kb_per_s: u64, has_slow: bool) -> Result<Vec<Line>, BenchError> {
        let rate = |index: usize| match has_slow && index + 1 == count {
            true => kb_per_s * 1_000 / SLOWER,
            false => kb_per_s * 1_000,
        };
        let to = self.addresses.iter().cycle().take(count).enumerate();
        to.map(|(index, address)| Line::start(*address, rate(index))).collect()
    }
}

fn settings(options: &SyncOptions) -> AssaySettings {
    AssaySettings {
        chain: options.source.chain.name().to_owned(),
        blocks_from: None,
        datadir: options.source.scratch.clone(),
        threads: options.crew.threads,
        memory_mib: options.crew.memory,
        engine: options.crew.engine.to_string(),
        p2p: P2p::Off,
        rpc: None,
        mempool_mb: None,
        core: None,
    }
}

/// Runs the contestants in turn, prints the table, writes the report.
pub fn bench(options: &SyncOptions) -> Result<(), BenchError> {
    let machine = machine::describe();
    let blocks = Blocks::of(&options.source)?;
    let block_bytes = blocks.bytes()?;
    eprintln!("{} sources import the chain first", options.sources);
    let sources = Sources::start(options, &blocks)?;
    let mut runs = Vec::new();
    for round in 1..=options.runs {
        for contestant in Contestant::all(options) {
            let run = run(options, &blocks, &sources, contestant)?;
            eprintln!("round {round} of {}: {}: {:.2} s", options.runs, contestant.name(), run.target.wall_s);
            runs.push(run);
        }
    }
    let summary = summary::of(&runs, options.crew.threads, block_bytes);
    print!("{}", summary::text(&runs, &summary, block_bytes));
    let settings = json!({
        "chain": options.source.chain.name(),
        "blocks_from": options.source.blocks_from,
        "forge_inputs": options.source.blocks_from.is_none().then_some(options.source.forge_inputs),
        "block_bytes": block_bytes,
        "height": sources.height,
        "threads": options.crew.threads,
        "memory_mib": options.crew.memory,
        "engine": options.crew.engine.as_str(),
        "sources": options.sources,
        "slow_peer_others_kb_per_s": options.slow_peer,
        "runs": options.runs,
        "page_cache": "warm",
    });
    let report = json!({ "bench": "sync", "machine": machine, "settings": settings, "summary": summary, "runs": runs });
    report::write_json(options.json.as_deref(), &report)
}

fn run(options: &SyncOptions, blocks: &Blocks, sources: &Sources, contestant: Contestant) -> Result<Run, BenchError> {
    let scratch = Scratch::new(&options.source.scratch, "target")?;
    let rate = options.slow_peer.unwrap_or(0);
    let lines = match contestant {
        Contestant::EightPeers => sources.lines(PEERS_WITH_SLOW, rate, false)?,
        Contestant::SevenAndASlowOne => sources.lines(PEERS_WITH_SLOW, rate, true)?,
        Contestant::SevenPeers => sources.lines(PEERS_WITH_SLOW - 1, rate, false)?,
        _ => Vec::new(),
    };
    let p2p = match contestant {
        Contestant::Import => P2p::Off,
        Contestant::Sync | Contestant::SyncPlain => {
            P2p::Connect(sources.addresses.clone(), contestant == Contestant::Sync)
        }
        _ => P2p::Connect(lines.iter().map(Line::address).collect(), true),
    };
    let settings = AssaySettings {
        blocks_from: (contestant == Contestant::Import).then(|| blocks.folder().to_owned()),
        datadir: scratch.path().join("data"),
        p2p,
        ..settings(options)
    };
    let (sources_before_s, bench) = (sources.cpu_s()?, measure::Start::now()?);
    let mut node = Assay::start(contestant.name(), &settings)?;
    let (report, target) = node.wait_for_tip(sources.height, &sources.tip)?;
    let peers = &report["peers"];
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let of_peers: Vec<u64> = peers["connections"]
        .as_array()
        .map(|list| list.iter().map(|peer| number(&peer["received_bytes"])).collect())
        .unwrap_or_default();
    Ok(Run {
        contestant,
        target,
        sources_cpu_s: sources.cpu_s()? - sources_before_s,
        bench_cpu_s: bench.usage()?.cpu_s(),
        received_bytes: of_peers.iter().sum(),
        unused_bytes: number(&peers["unused_block_bytes"]),
        block_missing_ms: number(&peers["block_missing_ms"]),
        nothing_ordered_ms: number(&peers["block_missing_and_nothing_ordered_ms"]),
        peers: of_peers,
    })
}
