//! `assay bench storage`: the table of coins and the segments below it, without scripts and without the index.
//!
//! In:     [`PartsOptions`]: a chain, budgets of memory to compare.
//! Out:    time and bytes of an import by budget, cuts and merges, how long opening takes, and what finding a coin costs, one
//!         that is there and one that is not.
//! Fails:  when an import does, or a coin is not found where it must be.

use std::hint::black_box;
use std::time::Instant;

use primitives::OutPoint;
use stdx::random::Random;

use super::{add, chain_text, contestant, finish, settings};
use crate::arguments::PartsOptions;
use crate::import::ours;
use crate::noise::Watch;
use crate::report::{Axis, Chart, ChartKind, Report, Rows, Section, Series, count, figure, median};
use crate::sample::{Blocks, Scratch};
use crate::{BenchError, child};

/// Coins that are looked up.
const COINS_MAX: usize = 20_000;
/// Lookups timed together: some hundred microseconds.
const SLICE: usize = 200;
/// How often a data directory is opened.
const OPENINGS: usize = 5;

/// Runs every budget in turn, prints, writes.
pub fn bench(options: &PartsOptions) -> Result<(), BenchError> {
    let mut report = Report::new("storage", "The table of coins and its segments");
    let mut watch = Watch::start();
    let blocks = Blocks::of(&options.source)?;
    let names: Vec<(u64, String)> = options.budgets.iter().map(|mib| (*mib, format!("{mib} MiB"))).collect();
    report.contestants = names.iter().map(|(mib, name)| contestant(name, options, *mib, false)).collect();
    let mut last = Vec::new();
    for round in 1..=options.runs {
        for (memory_mib, name) in &names {
            watch.look();
            let scratch = Scratch::new(&options.source.scratch, "storage")?;
            let settings = settings(options, &blocks, &scratch.path().join("data"), *memory_mib, false);
            let run: ours::Run = child::run("ours", &settings)?;
            eprintln!("round {round} of {}: {name}: {:.2} s", options.runs, run.import.wall_s);
            import_figures(&mut report, name, &run);
            state_figures(&mut report, name, &settings)?;
            last.retain(|(other, _)| other != name);
            last.push((name.clone(), run));
        }
    }
    report.noise = watch.finish();
    let names: Vec<&str> = names.iter().map(|(_, name)| &**name).collect();
    fill(&mut report, &names, &last);
    let rows = &report.sections[0].tables[0];
    print!("{}\n{}\n", crate::report::Table::of(rows).text(), report.noise.text());
    finish(&report, options)
}

fn import_figures(report: &mut Report, name: &str, run: &ours::Run) {
    let per_block_byte = run.written_bytes as f64 / run.block_bytes as f64;
    let mut put = |figure, value| add(report, name, figure, value);
    put(("import/time", "import until the tip is committed", "s"), run.import.wall_s);
    put(("import/cpu", "its CPU time, merges included", "s"), run.all.cpu_s());
    put(("merge/time", "merging after that until nothing is worth it", "s"), run.settle_s);
    put(("written", "bytes written for a byte of block, merges included", "bytes"), per_block_byte);
    put(("stored", "bytes kept for a byte of block", "bytes"), run.stored_bytes as f64 / run.block_bytes as f64);
    put(("cuts", "commits", "commits"), run.commits as f64);
    put(("segments", "segment files in the end", "files"), run.segments as f64);
    put(("memory", "most memory held", "MB"), run.all.peak_memory_bytes as f64 / 1e6);
}

/// Opening, and finding coins, on the data directory that an import left.
fn state_figures(report: &mut Report, name: &str, settings: &ours::Settings) -> Result<(), BenchError> {
    for _ in 0..OPENINGS {
        let before = Instant::now();
        let opened = ours::open(settings)?;
        let time_ms = before.elapsed().as_secs_f64() * 1e3;
        drop(opened);
        add(report, name, ("open", "opening what the import left, recovery included", "ms"), time_ms);
    }
    let chain = ours::open(settings)?.chain;
    let view = chain.handle().view();
    let snapshot = view.snapshot();
    let (mut sample, mut seen, mut random) = (Vec::new(), 0u64, Random::new(1));
    let before = Instant::now();
    let mut keep = |outpoint: OutPoint, _: primitives::Coin<'_>| {
        seen += 1;
        // Each coin has the same chance to be in the sample.
        match sample.len() < COINS_MAX {
            true => sample.push(outpoint),
            false => {
                let place = random.below(seen) as usize;
                sample.get_mut(place).into_iter().for_each(|kept| *kept = outpoint);
            }
        }
        true
    };
    snapshot.each_coin(&mut keep).map_err(chain::ViewError::from)?;
    let scan_ns = before.elapsed().as_secs_f64() * 1e9 / seen.max(1) as f64;
    add(report, name, ("scan", "reading all coins in order, a coin", "ns"), scan_ns);
    random.shuffle(&mut sample);
    let absent: Vec<OutPoint> =
        sample.iter().map(|outpoint| OutPoint { vout: outpoint.vout + 1_000_000, ..*outpoint }).collect();
    let kinds = [
        (&sample, true, ("lookup/present", "finding a coin that is there, nothing in memory but pages", "us")),
        (&absent, false, ("lookup/absent", "finding out that a coin is not there", "us")),
    ];
    for (outpoints, is_there, figure) in kinds {
        for slice in outpoints.chunks(SLICE) {
            let before = Instant::now();
            let mut found = 0;
            for outpoint in slice {
                found += usize::from(black_box(snapshot.coin(outpoint).map_err(chain::ViewError::from)?).is_some());
            }
            let time_us = before.elapsed().as_secs_f64() * 1e6 / slice.len() as f64;
            if found != if is_there { slice.len() } else { 0 } {
                return Err(BenchError::Wrong(format!("{found} of {} coins found", slice.len())));
            }
            add(report, name, figure, time_us);
        }
    }
    Ok(())
}

fn fill(report: &mut Report, names: &[&str], last: &[(String, ours::Run)]) {
    let mut headings = vec!["what", "unit"];
    headings.extend(names);
    let mut rows = Rows::new(&headings);
    let mut ids: Vec<(String, String, String)> = Vec::new();
    for measure in &report.measures {
        if !ids.iter().any(|(id, ..)| *id == measure.id) {
            ids.push((measure.id.clone(), measure.what.clone(), measure.unit.clone()));
        }
    }
    for (id, what, unit) in &ids {
        let values = names.iter().map(|name| figure(median(report.values(id, name))));
        rows.row([what.clone(), unit.clone()].into_iter().chain(values).collect());
    }
    let bars = |title: &str, id: &str, label: &str, unit: &str| {
        let one =
            |name: &&str| Series { name: (*name).to_owned(), points: vec![(0.0, median(report.values(id, name)))] };
        let (x, y) = (Axis::default(), Axis::linear(label, unit));
        Chart { title: title.to_owned(), x, y, kind: ChartKind::Bars, series: names.iter().map(one).collect() }
    };
    let groups = vec!["there".to_owned(), "not there".to_owned()];
    let lookup = |name: &&str| Series {
        name: (*name).to_owned(),
        points: ["lookup/present", "lookup/absent"]
            .iter()
            .zip([0.0, 1.0])
            .map(|(id, group)| (group, median(report.values(id, name))))
            .collect(),
    };
    let lookups = Chart {
        title: "Finding a coin".to_owned(),
        x: Axis::groups(groups),
        y: Axis::linear("median", "us"),
        kind: ChartKind::Bars,
        series: names.iter().map(lookup).collect(),
    };
    let coins = last.iter().filter_map(|(name, run)| {
        let coins = run.tables.iter().find(|table| table.table == "coins")?;
        Some(format!("{name}: {} rows of coins in {} segments", count(coins.rows), count(run.segments)))
    });
    let mut text: Vec<String> = last.first().map(|(_, run)| chain_text(run)).into_iter().collect();
    text.push(format!("{}.", coins.collect::<Vec<_>>().join("; ")));
    let charts = vec![
        bars("Written for a byte of block", "written", "median", "bytes"),
        bars("Import", "import/time", "median", "s"),
        lookups,
    ];
    report.sections.push(Section { title: "By memory budget".to_owned(), text, charts, tables: vec![rows] });
    report.fairness = vec![
        "Files lie in a warm page cache. Lookups go to the segments through a snapshot, without the cache of coins that an \
         import has: each is what a miss of that cache costs."
            .to_owned(),
        "The blocks are read in place and not written.".to_owned(),
    ];
}
