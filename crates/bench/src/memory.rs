//! `assay bench memory`: the same import under a small and a large budget.
//!
//! In:     [`MemoryOptions`].
//! Out:    peak memory and time for each budget; and a proof that the results are equal: the coins' MuHash, and a digest
//!         of every row of the index.
//! Fails:  when results differ, or the peak is above the budget plus 128 MiB.

use std::path::Path;

use primitives::hash::sha256;
use primitives::{Coin, OutPoint, Txid};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sim::muhash::{MuHash, coin_bytes};
use store::Table as Rows;

use crate::arguments::MemoryOptions;
use crate::import::ours;
use crate::report::{self, Table, bytes, count};
use crate::sample::{Blocks, Scratch};
use crate::{BenchError, child, machine};

/// What the peak may be above the budget: the program itself, its threads' stacks, block files' buffers.
const ABOVE_BUDGET_BYTES_MAX: u64 = 128 << 20;

/// What an import came to, in a few bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// Height of the tip.
    pub height: u32,
    /// Coins in the set.
    pub coins: u64,
    /// Their MuHash, as Core shows it.
    pub muhash: String,
    /// Rows of the index.
    pub index_rows: u64,
    /// Sum, modulo 2^64 in each quarter, of the SHA-256 of every row.
    pub index: String,
}

/// Imports under each budget, compares, prints, writes.
pub fn bench(options: &MemoryOptions) -> Result<(), BenchError> {
    if options.budgets.is_empty() {
        return Err(BenchError::Usage("--budgets: at least one".to_owned()));
    }
    let machine = machine::describe();
    let blocks = Blocks::of(&options.source)?;
    let mut runs = Vec::new();
    for &budget in &options.budgets {
        let scratch = Scratch::new(&options.source.scratch, "memory")?;
        let settings = settings(options, &blocks, &scratch.path().join("data"), budget);
        let run: ours::Run = child::run("ours", &settings)?;
        let digest: Digest = child::run("digest", &settings)?;
        runs.push((budget, run, digest));
    }
    let mut table =
        Table::new(&["budget MiB", "peak memory", "within + 128 MiB", "import s", "commits", "coins", "index rows"]);
    for (budget, run, digest) in &runs {
        let peak = run.all.peak_memory_bytes;
        let within = peak <= (budget << 20) + ABOVE_BUDGET_BYTES_MAX;
        table.row(vec![
            budget.to_string(),
            bytes(peak),
            if within { "yes" } else { "NO" }.to_owned(),
            format!("{:.2}", run.import.wall_s),
            count(run.commits),
            count(digest.coins),
            count(digest.index_rows),
        ]);
    }
    print!("{}", table.text());
    let equal = runs.iter().all(|(_, _, digest)| *digest == runs[0].2);
    println!("\nMuHash of the coins {}\nsame coins and index under every budget: {}", runs[0].2.muhash, equal);
    let raw: Vec<_> = runs
        .iter()
        .map(|(budget, run, digest)| json!({ "budget_mib": budget, "run": run, "digest": digest }))
        .collect();
    let settings = json!({ "threads": options.threads, "budgets_mib": options.budgets });
    let report = json!({ "bench": "memory", "machine": machine, "settings": settings, "equal": equal, "budgets": raw });
    report::write_json(options.json.as_deref(), &report)?;
    let above = |run: &ours::Run, budget: u64| run.all.peak_memory_bytes > (budget << 20) + ABOVE_BUDGET_BYTES_MAX;
    match runs.iter().find(|(budget, run, _)| above(run, *budget)) {
        _ if !equal => Err(BenchError::Wrong("results differ between budgets".to_owned())),
        Some((budget, ..)) => {
            Err(BenchError::Wrong(format!("peak memory is above the budget of {budget} MiB plus 128 MiB")))
        }
        None => Ok(()),
    }
}

fn settings(options: &MemoryOptions, blocks: &Blocks, datadir: &Path, memory_mib: u64) -> ours::Settings {
    ours::Settings {
        chain: options.source.chain.to_string(),
        blocks_from: blocks.folder().to_owned(),
        datadir: datadir.to_owned(),
        threads: options.threads,
        memory_mib,
        engine: "auto".to_owned(),
        signatures: true,
        index: true,
        hints: None,
    }
}

/// Reads every row and every coin of the data directory of these settings.
pub fn digest(settings: &ours::Settings) -> Result<Digest, BenchError> {
    let chain = ours::open(settings)?.chain;
    let view = chain.handle().view();
    let snapshot = view.snapshot();
    let mut index = Sum::default();
    for table in Rows::ALL {
        for row in snapshot.all_rows(table).map_err(chain::ViewError::from)? {
            let row = row.map_err(chain::ViewError::from)?;
            let mut element = [0; 25];
            element[0] = table as u8;
            for (at, number) in [row.hi, row.lo, row.value].into_iter().enumerate() {
                element[1 + at * 8..9 + at * 8].copy_from_slice(&number.to_le_bytes());
            }
            index.add(&element);
        }
    }
    let (mut coins, mut coin_count) = (MuHash::default(), 0);
    let mut each = |outpoint: OutPoint, coin: Coin<'_>| {
        coins.insert(&coin_bytes(&outpoint, coin.height, coin.coinbase, coin.value_sat, coin.script));
        coin_count += 1;
        true
    };
    snapshot.each_coin(&mut each).map_err(chain::ViewError::from)?;
    Ok(Digest {
        height: view.tip().height,
        coins: coin_count,
        muhash: Txid(coins.finalize()).to_string(),
        index_rows: index.rows,
        index: index.sum.map(|quarter| format!("{quarter:016x}")).concat(),
    })
}

/// A sum of hashes: it does not depend on the order.
#[derive(Default)]
struct Sum {
    sum: [u64; 4],
    rows: u64,
}

impl Sum {
    fn add(&mut self, element: &[u8]) {
        for (quarter, bytes) in self.sum.iter_mut().zip(sha256(element).chunks_exact(8)) {
            *quarter = quarter.wrapping_add(u64::from_le_bytes(bytes.try_into().expect("eight bytes")));
        }
        self.rows += 1;
    }
}
