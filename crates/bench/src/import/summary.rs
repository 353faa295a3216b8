//! What the runs of an import come to.
//!
//! In:     the runs.
//! Out:    medians, rates and ratios, as JSON and as text.
//! Fails:  never.

use serde_json::{Value, json};

use super::Runs;
use super::ours::Run;
use crate::arguments::ImportOptions;
use crate::report::{Table, bytes, count, least, median};

fn walls(runs: &[Run]) -> Vec<f64> {
    runs.iter().map(|run| run.import.wall_s).collect()
}

fn cpus(runs: &[Run]) -> Vec<f64> {
    runs.iter().map(|run| run.all.cpu_s()).collect()
}

fn spread(values: &[f64]) -> Option<Value> {
    (!values.is_empty()).then(|| json!({ "median": median(values), "least": least(values) }))
}

/// How many times `above` is of `below`.
fn ratio(above: &[f64], below: &[f64]) -> Option<Value> {
    let some = !above.is_empty() && !below.is_empty();
    some.then(|| json!({ "by_median": median(above) / median(below), "by_least": least(above) / least(below) }))
}

fn table_bytes(run: &Run, wanted: impl Fn(&str) -> bool) -> u64 {
    run.tables.iter().filter(|size| wanted(&size.table)).map(|size| size.bytes).sum()
}

/// Medians and ratios.
pub fn of(options: &ImportOptions, runs: &Runs) -> Value {
    let ours = walls(&runs.ours);
    let kernel: Vec<f64> = runs.kernel.iter().map(|run| run.import.wall_s).collect();
    let kernel_cpu: Vec<f64> = runs.kernel.iter().map(|run| run.import.cpu_s()).collect();
    let hashing: Vec<f64> = runs.hashing.iter().map(|run| run.hashing_s).collect();
    let first = &runs.ours[0];
    let wall_s = median(&ours);
    let per_s = |number: u64| number as f64 / wall_s;
    let per_block_byte = |number: u64| number as f64 / first.block_bytes as f64;
    let index_share = (!runs.without_index.is_empty()).then(|| {
        json!({
            "wall": 1.0 - median(&walls(&runs.without_index)) / wall_s,
            "cpu_merges_included": 1.0 - median(&cpus(&runs.without_index)) / median(&cpus(&runs.ours)),
        })
    });
    json!({
        "wall_s": spread(&ours),
        "megabytes_per_s": per_s(first.block_bytes) / 1e6,
        "transactions_per_s": per_s(first.transactions),
        "inputs_per_s": per_s(first.inputs),
        "signatures_per_s": (!options.no_signatures).then(|| per_s(first.signatures)),
        "peak_memory_bytes": runs.ours.iter().map(|run| run.all.peak_memory_bytes).max(),
        "written_per_block_byte": per_block_byte(first.written_bytes),
        "stored_per_block_byte": per_block_byte(first.stored_bytes),
        "coins_per_block_byte": per_block_byte(table_bytes(first, |name| name == "coins")),
        "index_per_block_byte": per_block_byte(table_bytes(first, |name| name != "coins")),
        "kernel_wall_s": spread(&kernel),
        "times_as_fast_as_kernel": ratio(&kernel, &ours),
        "kernel_cpu_per_ours": ratio(&kernel_cpu, &cpus(&runs.ours)),
        "hashing_s": spread(&hashing),
        "times_as_fast_with_hints": ratio(&ours, &walls(&runs.with_hints)),
        "times_the_time_of_hashing": ratio(&ours, &hashing),
        "index_share_of_time": index_share,
    })
}

/// The table and the sentences around it.
pub fn text(options: &ImportOptions, runs: &Runs, summary: &Value) -> String {
    let first = &runs.ours[0];
    let mut text = format!(
        "{} blocks, {}, {} transactions, {} inputs ({} by templates, {} by Core's interpreter), {} signatures \
         ({} by libsecp256k1, {} a call), {} threads\n\n{}\n",
        count(first.blocks),
        bytes(first.block_bytes),
        count(first.transactions),
        count(first.inputs),
        count(first.template_inputs),
        count(first.interpreter_inputs),
        count(first.signatures),
        count(first.scalar_signatures),
        count(first.signatures / first.engine_calls.max(1)),
        options.crew.threads,
        table(options, runs).text(),
    );
    let tables: Vec<String> = first.tables.iter().map(|size| format!("{} {}", size.table, bytes(size.bytes))).collect();
    let percent = |name: &str| 100.0 * summary[name].as_f64().unwrap_or(0.0);
    text.push_str(&format!(
        "kept: {}, {:.1} % of the blocks, of which coins {:.1} and index {:.1} %: {}, in {} segments\n",
        bytes(first.stored_bytes),
        percent("stored_per_block_byte"),
        percent("coins_per_block_byte"),
        percent("index_per_block_byte"),
        tables.join(", "),
        first.segments,
    ));
    text.push_str(&format!(
        "written: {:.2} bytes a block byte, merges included, in {} commits\n",
        percent("written_per_block_byte") / 100.0,
        first.commits,
    ));
    let ratios = [
        ("times_as_fast_as_kernel", "times as fast as libbitcoinkernel, which builds no index"),
        ("times_as_fast_with_hints", "times as fast a second time, with the hints of the first"),
        ("kernel_cpu_per_ours", "its CPU time as a multiple of ours, merges included"),
        ("times_the_time_of_hashing", "times the time of double-SHA256 of the blocks on one thread"),
    ];
    for (name, words) in ratios {
        if let (Some(median), Some(least)) = (summary[name]["by_median"].as_f64(), summary[name]["by_least"].as_f64()) {
            text.push_str(&format!("{words}: {median:.2} by median, {least:.2} by least\n"));
        }
    }
    if let Some(run) = runs.with_hints.first() {
        text.push_str(&format!(
            "hints: {} kept, {} of {} rows proved with one\n",
            bytes(run.hints_bytes),
            count(run.hinted_signatures),
            count(run.signatures),
        ));
    }
    let share = &summary["index_share_of_time"];
    if let (Some(wall), Some(cpu)) = (share["wall"].as_f64(), share["cpu_merges_included"].as_f64()) {
        let (wall, cpu) = (100.0 * wall, 100.0 * cpu);
        text.push_str(&format!("the index's share: {wall:.1} % of the time, {cpu:.1} % of the CPU time with merges\n"));
    }
    text
}

const HEADINGS: [&str; 10] =
    ["contestant", "runs", "median s", "least s", "CPU s", "merges s", "MB/s", "inputs/s", "peak memory", "written"];

fn table(options: &ImportOptions, runs: &Runs) -> Table {
    let mut table = Table::new(&HEADINGS);
    let ours = if options.no_signatures { "assay, no signatures" } else { "assay" };
    let rows = [(ours.to_owned(), &runs.ours), (format!("{ours}, with hints"), &runs.with_hints)];
    for (name, runs) in rows.into_iter().chain([(format!("{ours}, no index"), &runs.without_index)]) {
        let Some(first) = runs.first() else { continue };
        let wall_s = median(&walls(runs));
        let mut row = vec![name, runs.len().to_string(), format!("{wall_s:.2}"), format!("{:.2}", least(&walls(runs)))];
        row.push(format!("{:.2}", median(&cpus(runs))));
        row.push(format!("{:.2}", median(&runs.iter().map(|run| run.settle_s).collect::<Vec<_>>())));
        row.push(format!("{:.1}", first.block_bytes as f64 / wall_s / 1e6));
        row.push(count((first.inputs as f64 / wall_s) as u64));
        row.push(bytes(runs.iter().map(|run| run.all.peak_memory_bytes).max().unwrap_or(0)));
        row.push(bytes(first.written_bytes));
        table.row(row);
    }
    let none = || "-".to_owned();
    if let Some(kernel) = runs.kernel.first() {
        let walls: Vec<f64> = runs.kernel.iter().map(|run| run.import.wall_s).collect();
        let cpus: Vec<f64> = runs.kernel.iter().map(|run| run.import.cpu_s()).collect();
        let wall_s = median(&walls);
        let mut row = vec!["libbitcoinkernel".to_owned(), walls.len().to_string()];
        row.extend([wall_s, least(&walls), median(&cpus)].map(|value| format!("{value:.2}")));
        row.extend([none(), format!("{:.1}", runs.ours[0].block_bytes as f64 / wall_s / 1e6)]);
        row.push(count((runs.ours[0].inputs as f64 / wall_s) as u64));
        row.push(bytes(runs.kernel.iter().map(|run| run.import.peak_memory_bytes).max().unwrap_or(0)));
        row.push(bytes(kernel.import.disk_written_bytes));
        table.row(row);
    }
    if let Some(hashing) = runs.hashing.first() {
        let times: Vec<f64> = runs.hashing.iter().map(|run| run.hashing_s).collect();
        let mut row = vec!["double-SHA256, one thread".to_owned(), times.len().to_string()];
        row.extend([median(&times), least(&times)].map(|value| format!("{value:.2}")));
        row.extend([none(), none(), format!("{:.1}", hashing.block_bytes as f64 / median(&times) / 1e6)]);
        row.extend([none(), none(), none()]);
        table.row(row);
    }
    table
}
