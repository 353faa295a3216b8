//! `assay bench index`: what the address index adds to an import.
//!
//! In:     [`PartsOptions`]: a chain, one memory budget or several.
//! Out:    rows and bytes of every table, by block and as a share of the blocks; import time with and without the index.
//! Fails:  when an import does. What answers from the index cost: `assay bench lookups`.

use super::{add, chain_text, contestant, finish, settings};
use crate::arguments::PartsOptions;
use crate::import::ours::{Run, TableSize};
use crate::noise::Watch;
use crate::report::{Axis, Chart, ChartKind, Report, Rows, Section, Series, Table, bytes, count, figure};
use crate::sample::{Blocks, Scratch};
use crate::statistics::ratio;
use crate::{BenchError, child};

const WITH: &str = "with index";
const WITHOUT: &str = "without index";

/// Imports with and without in turn, prints, writes.
pub fn bench(options: &PartsOptions) -> Result<(), BenchError> {
    let mut report = Report::new("index", "What the address index costs");
    let mut watch = Watch::start();
    let blocks = Blocks::of(&options.source)?;
    let memory_mib = *options.budgets.last().unwrap_or(&1_024);
    let sides = [(WITH, true), (WITHOUT, false)];
    report.contestants = sides.map(|(name, index)| contestant(name, options, memory_mib, index)).to_vec();
    let mut with_index = None;
    for round in 1..=options.runs {
        for (name, index) in sides {
            watch.look();
            let scratch = Scratch::new(&options.source.scratch, "index")?;
            let settings = settings(options, &blocks, &scratch.path().join("data"), memory_mib, index);
            let run: Run = child::run("ours", &settings)?;
            eprintln!("round {round} of {}: {name}: {:.2} s", options.runs, run.import.wall_s);
            let per_block_byte = |bytes: u64| bytes as f64 / run.block_bytes as f64;
            let mut put = |figure, value| add(&mut report, name, figure, value);
            put(("import/time", "import until the tip is committed, scripts not checked", "s"), run.import.wall_s);
            put(("import/cpu", "its CPU time, merges included", "s"), run.all.cpu_s());
            put(("stored", "bytes kept for a byte of block", "bytes"), per_block_byte(run.stored_bytes));
            put(("written", "bytes written for a byte of block", "bytes"), per_block_byte(run.written_bytes));
            if index {
                with_index = Some(run);
            }
        }
    }
    report.noise = watch.finish();
    let run = with_index.expect("there is a run at least");
    let rows = table(&run);
    print!("{}", Table::of(&rows).text());
    let share = share_text(&report);
    print!("{share}\n{}\n", report.noise.text());
    report.sections.push(section(&run, rows, share));
    report.fairness = vec![
        "Scripts are not checked: the share of an import that checks them is smaller by as much as that takes \
         (`assay bench import --index-share`)."
            .to_owned(),
    ];
    finish(&report, options)
}

/// Time with and without, in words.
fn share_text(report: &Report) -> String {
    let of = |id: &str| ratio(report.values(id, WITH), report.values(id, WITHOUT));
    let text = |id: &str| {
        of(id).map_or("-".to_owned(), |ratio| {
            format!("{} times ({} to {})", figure(ratio.value), figure(ratio.low), figure(ratio.high))
        })
    };
    format!("With the index an import takes {} as long, and {} the CPU time.", text("import/time"), text("import/cpu"))
}

fn is_index(table: &TableSize) -> bool {
    table.table != "coins"
}

fn table(run: &Run) -> Rows {
    let mut rows = Rows::new(&["table", "rows", "rows a block", "bytes", "bytes a row", "share of the blocks %"]);
    let share = |bytes: u64| figure(bytes as f64 * 100.0 / run.block_bytes as f64);
    for size in &run.tables {
        rows.row(vec![
            size.table.clone(),
            count(size.rows),
            figure(size.rows as f64 / run.blocks.max(1) as f64),
            bytes(size.bytes),
            figure(size.bytes as f64 / size.rows.max(1) as f64),
            share(size.bytes),
        ]);
    }
    let total: u64 = run.tables.iter().filter(|size| is_index(size)).map(|size| size.bytes).sum();
    let rows_total: u64 = run.tables.iter().filter(|size| is_index(size)).map(|size| size.rows).sum();
    let columns = run.stored_bytes.saturating_sub(run.tables.iter().map(|size| size.bytes).sum());
    rows.row(vec![
        "not in tables".to_owned(),
        "-".to_owned(),
        "-".to_owned(),
        bytes(columns),
        "-".to_owned(),
        share(columns),
    ]);
    rows.row(vec![
        "index in all, coins left out".to_owned(),
        count(rows_total),
        figure(rows_total as f64 / run.blocks.max(1) as f64),
        bytes(total + columns),
        "-".to_owned(),
        share(total + columns),
    ]);
    rows
}

fn section(run: &Run, rows: Rows, share: String) -> Section {
    let series = run.tables.iter().map(|size| Series {
        name: size.table.clone(),
        points: vec![(0.0, size.bytes as f64 * 100.0 / run.block_bytes as f64)],
    });
    let chart = Chart {
        title: "Bytes of each table".to_owned(),
        x: Axis::default(),
        y: Axis::linear("share of the blocks", "%"),
        kind: ChartKind::Bars,
        series: series.collect(),
    };
    Section {
        title: "Rows and bytes".to_owned(),
        text: vec![chain_text(run), share],
        charts: vec![chart],
        tables: vec![rows],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_blocks_and_leave_the_coins_out() {
        let size = |table: &str, rows, bytes| TableSize { table: table.to_owned(), rows, bytes };
        let tables = vec![size("coins", 10, 500), size("history", 40, 200), size("txid", 20, 100)];
        let run = Run { blocks: 4, block_bytes: 10_000, stored_bytes: 900, tables, ..Run::default() };
        let rows = table(&run).rows;
        assert_eq!(rows[1], ["history", "40", "10", "200 B", "5", "2"]);
        assert_eq!(rows[3], ["not in tables", "-", "-", "100 B", "-", "1"]);
        assert_eq!(rows[4], ["index in all, coins left out", "60", "15", "400 B", "-", "4"]);
    }

    #[test]
    fn the_share_is_a_ratio_of_medians() {
        let mut report = Report::new("index", "x");
        for (name, values) in [(WITH, [3.0, 4.0, 5.0]), (WITHOUT, [2.0, 2.0, 2.0])] {
            for id in ["import/time", "import/cpu"] {
                values.iter().for_each(|value| add(&mut report, name, (id, "x", "s"), *value));
            }
        }
        assert_eq!(crate::report::median(report.values("import/time", WITH)), 4.0);
        let want =
            "With the index an import takes 2 times (1.5 to 2.5) as long, and 2 times (1.5 to 2.5) the CPU time.";
        assert_eq!(share_text(&report), want);
    }
}
