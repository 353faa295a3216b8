//! The parts of a validation, each alone: the coins' storage, and the index. Signatures, calls and lookups have benches of
//! their own.
//!
//! In:     options.
//! Out:    reports.
//! Fails:  as imports do.

pub mod index;
pub mod storage;

use std::path::Path;

use crate::arguments::PartsOptions;
use crate::import::ours;
use crate::report::{Better, Contestant, Figure, Report};
use crate::sample::Blocks;

/// An import of these blocks that checks no script, in a process of its own.
fn settings(options: &PartsOptions, blocks: &Blocks, datadir: &Path, memory_mib: u64, index: bool) -> ours::Settings {
    ours::Settings {
        chain: options.source.chain.to_string(),
        blocks_from: blocks.folder().to_owned(),
        datadir: datadir.to_owned(),
        threads: options.threads,
        memory_mib,
        engine: "scalar".to_owned(),
        signatures: false,
        index,
        hints: None,
    }
}

/// This program with a memory budget.
fn contestant(name: &str, options: &PartsOptions, memory_mib: u64, index: bool) -> Contestant {
    let settings = [
        ("threads", options.threads.to_string()),
        ("memory_mib", memory_mib.to_string()),
        ("scripts", "not checked".to_owned()),
        ("index", if index { "on" } else { "off" }.to_owned()),
    ];
    Contestant {
        name: name.to_owned(),
        version: crate::machine::describe().program,
        settings: settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
    }
}

/// Adds one value of which less is better.
fn add(report: &mut Report, contestant: &str, (id, what, unit): (&str, &str, &str), value: f64) {
    report.add(&Figure { id, what, unit, better: Better::Lower }, contestant, value);
}

/// What every report of a part says of its chain.
fn chain_text(run: &ours::Run) -> String {
    use crate::report::{bytes, count};
    format!(
        "{} blocks up to {}: {}, {} transactions, {} inputs, {} outputs. No script is checked, so that nothing hides what is \
         measured.",
        count(run.blocks),
        run.tip,
        bytes(run.block_bytes),
        count(run.transactions),
        count(run.inputs),
        count(run.outputs)
    )
}

/// Writes the report where a folder was named.
fn finish(report: &Report, options: &PartsOptions) -> Result<(), crate::BenchError> {
    match &options.report {
        Some(folder) => report.write(folder),
        None => Ok(()),
    }
}
