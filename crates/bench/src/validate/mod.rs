//! `assay bench validate`: nodes, ours and others', that validate a whole chain with every signature.
//!
//! In:     [`ValidateOptions`]: which nodes, and a chain, given or forged.
//! Out:    time, CPU time, memory, bytes read, written and received of each, over time too; the time that signatures alone
//!         would take on this machine, and how many times of it each node took.
//! Fails:  when the chain cannot be made or our own import of it fails. A node that fails, or does not reach the tip, is
//!         named in the report without any number, and the others go on.

mod contestant;
mod page;
mod watch;

use std::net::SocketAddr;
use std::path::Path;

use crate::arguments::ValidateOptions;
use crate::import::ours;
use crate::nodes::{Assay, AssaySettings, P2p};
use crate::noise::Watch;
use crate::report::Report;
use crate::sample::{Blocks, Scratch};
use crate::statistics::median;
use crate::{BenchError, child, signatures};

pub use contestant::Wanted;
use watch::Outcome;

/// The chain, as our own import found it.
pub struct ChainFacts {
    height: u64,
    tip: String,
    block_bytes: u64,
    transactions: u64,
    inputs: u64,
    signatures: u64,
    /// One check by libsecp256k1 on one thread, in nanoseconds.
    check_ns: f64,
}

impl ChainFacts {
    /// Time that all signature checks would take on `cores` cores without anything else, in seconds.
    fn limit_s(&self, cores: usize) -> f64 {
        self.signatures as f64 * self.check_ns / 1e9 / cores as f64
    }
}

/// One node and what became of its runs.
pub struct Entrant<'a> {
    wanted: &'a Wanted,
    version: String,
    outcomes: Vec<Outcome>,
    /// Why it has no number.
    failed: Option<String>,
}

/// What a node is started with.
pub struct Given<'a> {
    options: &'a ValidateOptions,
    blocks: &'a Blocks,
    peer: SocketAddr,
    folder: &'a Path,
}

/// Runs everyone in turn, prints the table, writes the report.
pub fn bench(options: &ValidateOptions) -> Result<(), BenchError> {
    let mut report = Report::new(&options.name, "A whole chain validated, every signature checked");
    report.machine.disk = crate::machine::disk(&options.source.scratch);
    let mut watch = Watch::start();
    let blocks = Blocks::signalling(&options.source)?;
    let facts = look_at(options, &blocks)?;
    let scratch = Scratch::new(&options.source.scratch, "peer")?;
    let mut peer = serve(options, &blocks, scratch.path())?;
    let address = peer.p2p_address()?;
    let mut entrants = Vec::new();
    for wanted in &options.nodes {
        let version = wanted.version().map_err(|error| error.to_string());
        let failed = version.as_ref().err().cloned();
        entrants.push(Entrant { wanted, version: version.unwrap_or_default(), outcomes: Vec::new(), failed });
    }
    for round in 1..=options.runs {
        for entrant in entrants.iter_mut().filter(|entrant| entrant.failed.is_none()) {
            watch.look();
            let scratch = Scratch::new(&options.source.scratch, "node")?;
            let given = Given { options, blocks: &blocks, peer: address, folder: scratch.path() };
            match run(entrant.wanted, &given, &facts, &peer) {
                Ok(outcome) => {
                    let (name, tip_s) = (entrant.wanted.name(), outcome.tip_s);
                    eprintln!("round {round} of {}: {name}: {tip_s:.2} s", options.runs);
                    entrant.outcomes.push(outcome);
                }
                Err(error) => {
                    eprintln!("round {round} of {}: {error}", options.runs);
                    entrant.failed = Some(error.to_string());
                    // Never a number for a node that did not reach the tip.
                    entrant.outcomes.clear();
                }
            }
        }
    }
    report.noise = watch.finish();
    page::fill(&mut report, options, &facts, &entrants);
    print!("{}", page::text(&report, &facts, options.crew.threads, &entrants));
    if let Some(folder) = &options.report {
        report.write(folder)?;
    }
    Ok(())
}

/// Our own import of the files: what the chain holds, and that it is valid.
fn look_at(options: &ValidateOptions, blocks: &Blocks) -> Result<ChainFacts, BenchError> {
    let scratch = Scratch::new(&options.source.scratch, "facts")?;
    let settings = ours::Settings {
        chain: options.source.chain.to_string(),
        blocks_from: blocks.folder().to_owned(),
        datadir: scratch.path().join("data"),
        threads: options.crew.threads,
        memory_mib: options.crew.memory,
        engine: options.crew.engine.to_string(),
        signatures: true,
        index: false,
        hints: None,
    };
    let run: ours::Run = child::run("ours", &settings)?;
    Ok(ChainFacts {
        height: run.height.into(),
        tip: run.tip,
        block_bytes: run.block_bytes,
        transactions: run.transactions,
        inputs: run.inputs,
        signatures: run.signatures,
        check_ns: median(&signatures::library_ns()?),
    })
}

fn settings(options: &ValidateOptions, folder: &Path) -> AssaySettings {
    AssaySettings {
        chain: options.source.chain.name().to_owned(),
        blocks_from: None,
        datadir: folder.to_owned(),
        threads: options.crew.threads,
        memory_mib: options.crew.memory,
        engine: options.crew.engine.to_string(),
        p2p: P2p::Off,
        rpc: None,
        mempool_mb: None,
        core: None,
    }
}

/// The peer that everyone downloads from: our own node, which stands at the tip.
fn serve(options: &ValidateOptions, blocks: &Blocks, folder: &Path) -> Result<Assay, BenchError> {
    let settings =
        AssaySettings { blocks_from: Some(blocks.folder().to_owned()), p2p: P2p::Serve, ..settings(options, folder) };
    let mut peer = Assay::start("peer", &settings)?;
    peer.wait_until_following()?;
    Ok(peer)
}

fn run(wanted: &Wanted, given: &Given<'_>, facts: &ChainFacts, peer: &Assay) -> Result<Outcome, BenchError> {
    // The node before this one may not have left yet.
    let others = watch::connected(peer);
    let mut running = wanted.start(given)?;
    watch::until_tip(&mut running, facts, peer, &others, given.options.patience)
}
