//! What the runs of a sync come to.
//!
//! In:     the runs.
//! Out:    medians and ratios, as JSON and as text.
//! Fails:  never.

use serde_json::{Value, json};

use super::sync::{Contestant, Run};
use crate::report::{Table, bytes, least, median};

/// One figure of every run of a contestant.
fn figures(runs: &[Run], contestant: Contestant, figure: impl Fn(&Run) -> f64) -> Vec<f64> {
    runs.iter().filter(|run| run.contestant == contestant).map(figure).collect()
}

fn walls(runs: &[Run], contestant: Contestant) -> Vec<f64> {
    figures(runs, contestant, |run| run.target.wall_s)
}

/// How many times `above` is of `below`; none where either has no runs.
fn ratio(above: &[f64], below: &[f64]) -> Option<Value> {
    let some = !above.is_empty() && !below.is_empty();
    some.then(|| json!({ "by_median": median(above) / median(below), "by_least": least(above) / least(below) }))
}

/// The time a run had taken if the cores had not done the sources' work too: an estimate, as good as the cores were full.
fn without_others_s(run: &Run, cores: usize) -> f64 {
    let others_s = (run.sources_cpu_s + run.bench_cpu_s) / cores as f64;
    (run.target.wall_s - others_s).max(run.target.cpu_s() / cores as f64)
}

/// Medians and ratios.
pub fn of(runs: &[Run], cores: usize, block_bytes: u64) -> Value {
    let import = walls(runs, Contestant::Import);
    let import_cpu = figures(runs, Contestant::Import, |run| run.target.cpu_s());
    let of_sync = |contestant: Contestant| {
        let sync = walls(runs, contestant);
        (!sync.is_empty()).then(|| {
            let figure = |figure: fn(&Run) -> f64| median(&figures(runs, contestant, figure));
            json!({
                "wall_s": { "median": median(&sync), "least": least(&sync) },
                "speed_against_import": ratio(&import, &sync),
                "speed_without_the_sources_cpu_time":
                    ratio(&import, &figures(runs, contestant, |run| without_others_s(run, cores))),
                "import_cpu_per_target_cpu": ratio(&import_cpu, &figures(runs, contestant, |run| run.target.cpu_s())),
                "sources_cpu_s": figure(|run| run.sources_cpu_s),
                "block_missing_share": figure(|run| run.block_missing_ms as f64 / 1e3 / run.target.wall_s),
                "nothing_ordered_share": figure(|run| run.nothing_ordered_ms as f64 / 1e3 / run.target.wall_s),
                "received_per_block_byte": figure(|run| run.received_bytes as f64) / block_bytes as f64,
                "peak_memory_bytes": runs.iter().filter(|run| run.contestant == contestant)
                    .map(|run| run.target.peak_memory_bytes).max(),
            })
        })
    };
    let slow = walls(runs, Contestant::SevenAndASlowOne);
    json!({
        "import_wall_s": { "median": median(&import), "least": least(&import) },
        "sync": of_sync(Contestant::Sync),
        "sync_plain": of_sync(Contestant::SyncPlain),
        "eight_peers": of_sync(Contestant::EightPeers),
        "seven_and_a_slow_one": of_sync(Contestant::SevenAndASlowOne),
        "seven_peers": of_sync(Contestant::SevenPeers),
        "time_with_a_slow_peer_per_time_of_eight": ratio(&slow, &walls(runs, Contestant::EightPeers)),
        "time_with_a_slow_peer_per_time_of_seven": ratio(&slow, &walls(runs, Contestant::SevenPeers)),
    })
}

const HEADINGS: [&str; 11] = [
    "contestant",
    "runs",
    "median s",
    "least s",
    "CPU s",
    "sources' CPU s",
    "received",
    "unused",
    "peak memory",
    "block missing",
    "idle then",
];

/// The table and the sentences below it.
pub fn text(runs: &[Run], summary: &Value, block_bytes: u64) -> String {
    let mut table = Table::new(&HEADINGS);
    let mut seen: Vec<Contestant> = Vec::new();
    for contestant in runs.iter().map(|run| run.contestant) {
        if seen.contains(&contestant) {
            continue;
        }
        seen.push(contestant);
        let figure = |figure: fn(&Run) -> f64| median(&figures(runs, contestant, figure));
        let walls = walls(runs, contestant);
        let peak = figures(runs, contestant, |run| run.target.peak_memory_bytes as f64).into_iter().fold(0.0, f64::max);
        table.row(vec![
            contestant.name().to_owned(),
            walls.len().to_string(),
            format!("{:.2}", median(&walls)),
            format!("{:.2}", least(&walls)),
            format!("{:.2}", figure(|run| run.target.cpu_s())),
            format!("{:.2}", figure(|run| run.sources_cpu_s)),
            bytes(figure(|run| run.received_bytes as f64) as u64),
            bytes(figure(|run| run.unused_bytes as f64) as u64),
            bytes(peak as u64),
            format!("{:.2} s", figure(|run| run.block_missing_ms as f64 / 1e3)),
            format!("{:.2} s", figure(|run| run.nothing_ordered_ms as f64 / 1e3)),
        ]);
    }
    let mut text = format!("{} of blocks\n\n{}\n", bytes(block_bytes), table.text());
    let rows = [
        ("/sync/speed_against_import", "speed of the sync, encrypted, as a multiple of the import's"),
        ("/sync/speed_without_the_sources_cpu_time", "the same with the sources' CPU time taken off (an estimate)"),
        ("/sync/import_cpu_per_target_cpu", "CPU time of the import as a multiple of the sync's own"),
        ("/sync_plain/speed_against_import", "speed of the sync, plain, as a multiple of the import's"),
        ("/sync_plain/import_cpu_per_target_cpu", "CPU time of the import as a multiple of the plain sync's own"),
        ("/time_with_a_slow_peer_per_time_of_eight", "time with one peer of eight at 1 %, against eight equal ones"),
        ("/time_with_a_slow_peer_per_time_of_seven", "the same against the seven alone"),
    ];
    for (path, words) in rows {
        let value = summary.pointer(path).unwrap_or(&Value::Null);
        if let (Some(median), Some(least)) = (value["by_median"].as_f64(), value["by_least"].as_f64()) {
            text.push_str(&format!("{words}: {median:.3} by median, {least:.3} by least\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Usage;

    fn run(contestant: Contestant, wall_s: f64, cpu_s: f64, sources_cpu_s: f64) -> Run {
        Run {
            contestant,
            target: Usage { wall_s, user_s: cpu_s, peak_memory_bytes: 1_000, ..Usage::default() },
            sources_cpu_s,
            bench_cpu_s: 0.0,
            received_bytes: 110,
            unused_bytes: 10,
            block_missing_ms: 500,
            nothing_ordered_ms: 100,
            peers: vec![60, 50],
        }
    }

    #[test]
    fn ratios_are_speeds_and_costs_are_times() {
        let runs = [
            run(Contestant::Import, 4.0, 6.0, 0.0),
            run(Contestant::Sync, 5.0, 8.0, 2.0),
            run(Contestant::Import, 6.0, 6.0, 0.0),
            run(Contestant::Sync, 5.0, 8.0, 2.0),
            run(Contestant::EightPeers, 10.0, 8.0, 0.0),
            run(Contestant::SevenAndASlowOne, 10.4, 8.0, 0.0),
        ];
        let summary = of(&runs, 2, 100);
        let get = |path: &str| summary.pointer(path).and_then(Value::as_f64).unwrap();
        assert_eq!(get("/sync/speed_against_import/by_median"), 1.0);
        assert_eq!(get("/sync/speed_against_import/by_least"), 0.8);
        assert_eq!(get("/sync/import_cpu_per_target_cpu/by_least"), 0.75);
        // Two seconds of the sources' on two cores are one on the wall: four were left.
        assert_eq!(get("/sync/speed_without_the_sources_cpu_time/by_median"), 1.25);
        assert_eq!(get("/sync/received_per_block_byte"), 1.1);
        assert_eq!(get("/sync/block_missing_share"), 0.1);
        assert_eq!(get("/time_with_a_slow_peer_per_time_of_eight/by_median"), 1.04);
        assert!(summary["sync_plain"].is_null() && summary["time_with_a_slow_peer_per_time_of_seven"].is_null());
        let text = text(&runs, &summary, 100);
        assert!(text.contains("as a multiple of the import's: 1.000 by median, 0.800 by least"), "{text}");
    }

    #[test]
    fn no_time_is_taken_off_that_the_target_needed_itself() {
        assert_eq!(without_others_s(&run(Contestant::Sync, 5.0, 8.0, 100.0), 2), 4.0);
        assert_eq!(without_others_s(&run(Contestant::Sync, 5.0, 8.0, 1.0), 2), 4.5);
    }
}
