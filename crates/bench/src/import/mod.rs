//! `assay bench import`: block files to a validated, indexed tip.
//!
//! In:     [`ImportOptions`].
//! Out:    time, rates, memory and bytes of each contestant, and the ratios that are asked of us.
//! Fails:  when contestants end at different tips, and as they do.
//!
//! Fair or not: everyone gets the same files, warm in the page cache, and the same number of threads. We build the
//! address index, the kernel does not. The kernel's cache is fixed at 450 MiB. On networks other than regtest the kernel
//! leaves out signatures below a block built into it, so it is only asked on regtest.

pub mod hashing;
pub mod kernel;
pub mod ours;
mod summary;

use std::path::Path;

use primitives::Network;
use serde_json::json;

use crate::arguments::{ImportOptions, Rival};
use crate::sample::{Blocks, Scratch};
use crate::{BenchError, child, machine, report};

/// Everything that was run.
#[derive(Default)]
pub struct Runs {
    /// Our import as asked for.
    pub ours: Vec<ours::Run>,
    /// The same with the hints that the first run kept.
    pub with_hints: Vec<ours::Run>,
    /// The same without the index.
    pub without_index: Vec<ours::Run>,
    /// libbitcoinkernel.
    pub kernel: Vec<kernel::Run>,
    /// Plain hashing.
    pub hashing: Vec<hashing::Run>,
}

/// Runs the contestants in turn, prints the table, writes the report.
pub fn bench(options: &ImportOptions) -> Result<(), BenchError> {
    if options.against == Some(Rival::Kernel) && options.source.chain != Network::Regtest {
        let text = "--against kernel: only on regtest; elsewhere libbitcoinkernel leaves out old signatures";
        return Err(BenchError::Usage(text.to_owned()));
    }
    let machine = machine::describe();
    let blocks = Blocks::of(&options.source)?;
    let mut runs = Runs::default();
    for round in 1..=options.runs {
        eprintln!("round {round} of {}", options.runs);
        let hints = Scratch::new(&options.source.scratch, "hints")?;
        let hints = options.hints.then_some(hints.path());
        runs.ours.push(run_ours(options, &blocks, !options.no_index, hints)?);
        if hints.is_some() {
            runs.with_hints.push(run_ours(options, &blocks, !options.no_index, hints)?);
        }
        if options.index_share {
            runs.without_index.push(run_ours(options, &blocks, false, None)?);
        }
        if options.against == Some(Rival::Kernel) {
            runs.kernel.push(run_kernel(options, &blocks)?);
        }
        if options.no_signatures {
            let settings =
                hashing::Settings { chain: options.source.chain.to_string(), blocks_from: blocks.folder().to_owned() };
            runs.hashing.push(child::run("hashing", &settings)?);
        }
    }
    same_tip(&runs)?;
    let summary = summary::of(options, &runs);
    print!("{}", summary::text(options, &runs, &summary));
    let settings = json!({
        "chain": options.source.chain.name(),
        "blocks_from": options.source.blocks_from,
        "forge_inputs": options.source.blocks_from.is_none().then_some(options.source.forge_inputs),
        "threads": options.crew.threads,
        "memory_mib": options.crew.memory,
        "engine": options.crew.engine.as_str(),
        "signatures": !options.no_signatures,
        "index": !options.no_index,
        "hints": options.hints,
        "runs": options.runs,
        "page_cache": "warm",
        "kernel_cache_mib": 450,
    });
    let raw = json!({
        "ours": runs.ours, "with_hints": runs.with_hints, "without_index": runs.without_index, "kernel": runs.kernel, "hashing": runs.hashing,
    });
    let report =
        json!({ "bench": "import", "machine": machine, "settings": settings, "summary": summary, "runs": raw });
    report::write_json(options.json.as_deref(), &report)
}

fn run_ours(
    options: &ImportOptions,
    blocks: &Blocks,
    index: bool,
    hints: Option<&Path>,
) -> Result<ours::Run, BenchError> {
    let scratch = Scratch::new(&options.source.scratch, "ours")?;
    let settings = ours::Settings {
        chain: options.source.chain.to_string(),
        blocks_from: blocks.folder().to_owned(),
        datadir: scratch.path().join("data"),
        threads: options.crew.threads,
        memory_mib: options.crew.memory,
        engine: options.crew.engine.to_string(),
        signatures: !options.no_signatures,
        index,
        hints: hints.map(Path::to_owned),
    };
    child::run("ours", &settings)
}

fn run_kernel(options: &ImportOptions, blocks: &Blocks) -> Result<kernel::Run, BenchError> {
    let scratch = Scratch::new(&options.source.scratch, "kernel")?;
    let settings = kernel::Settings {
        datadir: scratch.path().join("data"),
        blocks: scratch.path().join("blocks"),
        threads: options.crew.threads,
    };
    blocks.copy_to(&settings.blocks)?;
    child::run("kernel", &settings)
}

fn same_tip(runs: &Runs) -> Result<(), BenchError> {
    let ours = runs.ours.iter().chain(&runs.with_hints).chain(&runs.without_index).map(|run| (run.height, &run.tip));
    let mut tips = ours.chain(runs.kernel.iter().map(|run| (run.height, &run.tip)));
    let first = tips.next().expect("we run at least once");
    match tips.find(|tip| *tip != first) {
        Some(other) => Err(BenchError::Wrong(format!("contestants end at different tips: {first:?} and {other:?}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory;

    #[test]
    fn contestants_do_the_same_work_and_end_at_the_same_tip() {
        let parent = std::env::temp_dir();
        let (blocks, _) = Blocks::forge(&parent, 400, Vec::new()).unwrap();
        let scratch = Scratch::new(&parent, "import-test").unwrap();
        let settings = |name: &str, memory_mib, signatures, index| ours::Settings {
            chain: "regtest".to_owned(),
            blocks_from: blocks.folder().to_owned(),
            datadir: scratch.path().join(name),
            threads: 2,
            memory_mib,
            engine: "scalar".to_owned(),
            signatures,
            index,
            hints: None,
        };
        let large = settings("large", 1024, true, true);
        let ours = ours::import(&large).unwrap();
        assert!(ours.inputs >= 400 && ours.signatures >= 300, "{ours:?}");
        assert_eq!(ours.template_inputs + ours.interpreter_inputs, ours.inputs);
        assert_eq!(u64::from(ours.height), ours.blocks);
        assert!(ours.tables.iter().all(|size| size.bytes > 0), "{:?}", ours.tables);

        let small = settings("small", 256, false, true);
        let unsigned = ours::import(&small).unwrap();
        assert_eq!((unsigned.signatures, &unsigned.tip), (0, &ours.tip));
        let digest = memory::digest(&large).unwrap();
        assert_eq!(memory::digest(&small).unwrap(), digest);
        assert!(digest.coins > 100 && digest.index_rows > ours.transactions, "{digest:?}");

        let bare = settings("bare", 256, false, false);
        ours::import(&bare).unwrap();
        assert!(memory::digest(&bare).unwrap().index_rows < digest.index_rows, "no index, fewer rows");
        assert_eq!(memory::digest(&bare).unwrap().muhash, digest.muhash);

        let kernel_blocks = scratch.path().join("kernel-blocks");
        blocks.copy_to(&kernel_blocks).unwrap();
        let settings = kernel::Settings { datadir: scratch.path().join("kernel"), blocks: kernel_blocks, threads: 2 };
        let kernel = kernel::import(&settings).unwrap();
        assert_eq!((kernel.height, kernel.tip), (ours.height, ours.tip.clone()));

        let settings = hashing::Settings { chain: "regtest".to_owned(), blocks_from: blocks.folder().to_owned() };
        let hashing = hashing::hash(&settings).unwrap();
        // The genesis block is in the files too, and is not connected.
        let genesis = primitives::Params::of(Network::Regtest).genesis_block().len() as u64;
        assert_eq!(hashing.block_bytes, ours.block_bytes + genesis);
    }
}
