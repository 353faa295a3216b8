//! `assay status`: asks the node that runs on the data directory.
//!
//! In:     the data directory and network of the settings.
//! Out:    lines for people, the JSON object as the node made it, or its numbers as Prometheus reads them.
//! Fails:  with exit code 1 when no node answers.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value as Json;

use super::arguments::{Flags, StatusForm};
use crate::config::Config;
use crate::running::progress::{bytes_text, count_text, duration_text};
use crate::running::socket;
use crate::{Failure, say};

/// Asks and shows.
pub fn status(flags: &Flags, form: StatusForm) -> Result<ExitCode, Failure> {
    let (config, _) = Config::load(flags)?;
    let nobody = |error| Failure::Run(format!("no node runs on {}: {error}", config.chain_dir.display()));
    let text = socket::ask(&config.chain_dir, "").map_err(nobody)?;
    let report: Json =
        serde_json::from_str(&text).map_err(|error| Failure::Run(format!("the node's answer is no JSON: {error}")))?;
    say(&match form {
        StatusForm::Lines => lines(&report),
        StatusForm::Json => format!("{report:#}"),
        StatusForm::Metrics => metrics(&report),
    });
    Ok(ExitCode::SUCCESS)
}

fn lines(report: &Json) -> String {
    let number = |path: &str| report.pointer(path).and_then(Json::as_f64).unwrap_or(0.0);
    let count = |path: &str| count_text(number(path) as u64);
    let bytes = |path: &str| bytes_text(number(path) as u64);
    let seconds = |seconds: u64| duration_text(Duration::from_secs(seconds));
    let word = |path: &str| report.pointer(path).and_then(Json::as_str).unwrap_or("-").to_owned();
    let percent = report["percent"].as_f64().map_or("unknown share".to_owned(), |share| format!("{share:.2} %"));
    let rows = [
        ("chain", word("/chain")),
        ("phase", word("/phase")),
        ("height", format!("{} of {} headers ({percent})", count("/height"), count("/headers_height"))),
        ("tip", word("/hash")),
        ("committed", format!("{} (a restart begins here)", count("/committed_height"))),
        (
            "speed",
            format!(
                "{:.1} MB/s, {} transactions/s, {} signatures/s",
                number("/rates/bytes_per_s") / 1e6,
                count("/rates/transactions_per_s"),
                count("/rates/signatures_per_s")
            ),
        ),
        ("time left", report["time_left_s"].as_u64().map_or("unknown".to_owned(), seconds)),
        ("memory", format!("{} of a budget of {}", bytes("/memory/resident_bytes"), bytes("/memory/budget_bytes"))),
        (
            "signatures",
            format!(
                "{} rows by {} ({}), {} decided by libsecp256k1, {} audits",
                count("/signatures/rows"),
                word("/engine"),
                word("/engine_instructions"),
                count("/signatures/scalar"),
                count("/signatures/audits")
            ),
        ),
        (
            "hints",
            format!(
                "{} rows proved with one of an earlier validation, {} kept",
                count("/since_start/hinted_signatures"),
                bytes("/disk/hints_bytes")
            ),
        ),
        (
            "mempool",
            format!(
                "{} transactions, {} of {}, {} sat/kvB at least",
                count("/mempool/transactions"),
                bytes("/mempool/memory_bytes"),
                bytes("/mempool/memory_bytes_max"),
                count("/mempool/floor_sat_per_kvb")
            ),
        ),
        ("index", bytes("/disk/index_bytes")),
        ("disk free", bytes("/disk/free_bytes")),
        ("electrum", electrum(report)),
        ("up", seconds(number("/uptime_s") as u64)),
    ];
    let mut lines: Vec<String> = rows.iter().map(|(name, text)| format!("{name:<10} {text}")).collect();
    if let Some(why) = report.pointer("/refused/why").and_then(Json::as_str) {
        lines.push(format!("{:<10} block {} ({}): {why}", "refused", count("/refused/height"), word("/refused/hash")));
    }
    if let Some(why) = report.pointer("/disk/hints_off").and_then(Json::as_str) {
        lines.push(format!("{:<10} none are kept: {why}", "hints"));
    }
    for note in report["notes"].as_array().into_iter().flatten().filter_map(Json::as_str) {
        lines.push(format!("{:<10} {note}", "note"));
    }
    lines.join("\n")
}

/// Where the Electrum server listens, who is there, and how many others are verified where part is taken in discovery.
fn electrum(report: &Json) -> String {
    let electrum = &report["electrum"];
    let listen = electrum["listen"].as_str().unwrap_or("-");
    let servers = electrum["servers_good_now"].as_u64();
    let servers = servers.map_or(String::new(), |good| format!(", {good} other servers verified"));
    format!("{listen}, {} sessions{servers}", count_text(electrum["sessions"].as_u64().unwrap_or(0)))
}

/// Objects of the report whose numbers only grow.
const COUNTERS: [&str; 2] = ["since_start", "signatures"];

/// Every number of the report, named by its path, in the text format of Prometheus 0.0.4.
fn metrics(report: &Json) -> String {
    let word = |path: &str| report.pointer(path).and_then(Json::as_str).unwrap_or("").replace(['"', '\\', '\n'], " ");
    let labels = ["version", "chain", "phase", "engine", "engine_instructions"];
    let labels = labels.map(|name| format!("{name}=\"{}\"", word(&format!("/{name}"))));
    let mut lines = vec!["# TYPE assay_info gauge".to_owned(), format!("assay_info{{{}}} 1", labels.join(","))];
    let Some(object) = report.as_object() else { return lines.join("\n") };
    for (name, value) in object {
        let kind = if COUNTERS.contains(&name.as_str()) { "counter" } else { "gauge" };
        put_numbers(&format!("assay_{name}"), value, kind, &mut lines);
    }
    put_answers(report, &mut lines);
    put_aliases(report, &mut lines);
    lines.join("\n")
}

/// The Electrum server's answers: a histogram of the time they took, for each method and size of answer.
fn put_answers(report: &Json, lines: &mut Vec<String>) {
    let rows = |value: &Json| value.as_array().cloned().unwrap_or_default();
    let methods = rows(&report["electrum"]["methods"]);
    if !methods.is_empty() {
        lines.push("# TYPE assay_electrum_answer_seconds histogram".to_owned());
    }
    for method in &methods {
        for sizes in rows(&method["sizes"]) {
            let name = method["name"].as_str().unwrap_or_default();
            let bytes_max = sizes["bytes_max"].as_u64().filter(|max| *max != u64::MAX);
            let bytes_max = bytes_max.map_or("+Inf".to_owned(), |max| max.to_string());
            let labels = format!("method=\"{name}\",bytes_max=\"{bytes_max}\"");
            let mut total = 0;
            let ends = rows(&sizes["microseconds_max"]).into_iter().map(Some).chain([None]);
            for (end, count) in ends.zip(rows(&sizes["counts"])) {
                total += count.as_u64().unwrap_or(0);
                let end = end.and_then(|us| us.as_f64()).map_or("+Inf".to_owned(), |us| (us / 1e6).to_string());
                lines.push(format!("assay_electrum_answer_seconds_bucket{{{labels},le=\"{end}\"}} {total}"));
            }
            let seconds = sizes["total_us"].as_f64().unwrap_or(0.0) / 1e6;
            lines.push(format!("assay_electrum_answer_seconds_sum{{{labels}}} {seconds}"));
            lines.push(format!("assay_electrum_answer_seconds_count{{{labels}}} {total}"));
        }
    }
}

/// Names of a widespread exporter for bitcoind, so that its dashboards show this node too: the name, the place in the
/// report, and what to divide by (rates there are bitcoin for 1,000 virtual bytes).
const ALIASES: [(&str, &str, f64); 5] = [
    ("bitcoin_mempool_size", "/mempool/transactions", 1.0),
    ("bitcoin_mempool_bytes", "/mempool/virtual_bytes", 1.0),
    ("bitcoin_mempool_usage", "/mempool/memory_bytes", 1.0),
    ("bitcoin_mempool_unbroadcast", "/mempool/unbroadcast", 1.0),
    ("bitcoin_mempool_minfee", "/mempool/floor_sat_per_kvb", 1e8),
];

fn put_aliases(report: &Json, lines: &mut Vec<String>) {
    for (name, path, divisor) in ALIASES {
        if let Some(number) = report.pointer(path).and_then(Json::as_f64) {
            lines.extend([format!("# TYPE {name} gauge"), format!("{name} {}", number / divisor)]);
        }
    }
}

fn put_numbers(name: &str, value: &Json, kind: &str, lines: &mut Vec<String>) {
    match value {
        Json::Number(number) => lines.extend([format!("# TYPE {name} {kind}"), format!("{name} {number}")]),
        Json::Object(object) => object.iter().for_each(|(part, value)| {
            // Of the Electrum server's numbers only those of now do not only grow.
            let is_of_now = part.ends_with("_now") || part == "sessions";
            let kind = if name == "assay_electrum" && !is_of_now { "counter" } else { kind };
            put_numbers(&format!("{name}_{part}"), value, kind, lines);
        }),
        Json::Null | Json::Bool(_) | Json::String(_) | Json::Array(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_report_is_shown_with_units_whatever_is_missing() {
        let text = lines(&json!({
            "phase": "importing", "height": 1_234, "headers_height": 5_000, "percent": 12.5, "time_left_s": 61,
            "memory": { "resident_bytes": 1 << 20, "budget_bytes": 1 << 30 },
            "refused": { "height": 7, "hash": "ab", "why": "bad-cb-amount" }
        }));
        assert!(text.contains("phase      importing\nheight     1,234 of 5,000 headers (12.50 %)"), "{text}");
        assert!(text.contains("time left  1 min 1 s\nmemory     1.0 MiB of a budget of 1.0 GiB"), "{text}");
        assert!(text.ends_with("refused    block 7 (ab): bad-cb-amount"), "{text}");
    }

    #[test]
    fn prometheus_has_each_methods_latencies_by_size() {
        let text = metrics(&json!({ "electrum": { "methods": [{ "name": "a.b", "requests": 3, "sizes": [{
            "bytes_max": 1024, "microseconds_max": [100, 3_000], "counts": [1, 0, 2], "total_us": 2_500_000,
        }] }] } }));
        let want = "# TYPE assay_electrum_answer_seconds histogram\n\
            assay_electrum_answer_seconds_bucket{method=\"a.b\",bytes_max=\"1024\",le=\"0.0001\"} 1\n\
            assay_electrum_answer_seconds_bucket{method=\"a.b\",bytes_max=\"1024\",le=\"0.003\"} 1\n\
            assay_electrum_answer_seconds_bucket{method=\"a.b\",bytes_max=\"1024\",le=\"+Inf\"} 3\n\
            assay_electrum_answer_seconds_sum{method=\"a.b\",bytes_max=\"1024\"} 2.5\n\
            assay_electrum_answer_seconds_count{method=\"a.b\",bytes_max=\"1024\"} 3";
        assert!(text.contains(want), "{text}");
    }

    #[test]
    fn prometheus_reads_every_number() {
        let text = metrics(&json!({
            "version": "0.3.0", "chain": "main", "phase": "say \"x\"", "engine": "lanes", "height": 7, "percent": null,
            "signatures": { "lanes": 5, "audits": 1 }, "rates": { "blocks_per_s": 2.5 }, "notes": ["a note"],
            "mempool": { "transactions": 3, "floor_sat_per_kvb": 100 },
        }));
        let want = "# TYPE assay_info gauge\n\
            assay_info{version=\"0.3.0\",chain=\"main\",phase=\"say  x \",engine=\"lanes\",engine_instructions=\"\"} 1\n\
            # TYPE assay_height gauge\nassay_height 7\n\
            # TYPE bitcoin_mempool_size gauge\nbitcoin_mempool_size 3\n\
            # TYPE bitcoin_mempool_minfee gauge\nbitcoin_mempool_minfee 0.000001\n\
            # TYPE assay_mempool_transactions gauge\nassay_mempool_transactions 3\n\
            # TYPE assay_mempool_floor_sat_per_kvb gauge\nassay_mempool_floor_sat_per_kvb 100\n\
            # TYPE assay_rates_blocks_per_s gauge\nassay_rates_blocks_per_s 2.5\n\
            # TYPE assay_signatures_audits counter\nassay_signatures_audits 1\n\
            # TYPE assay_signatures_lanes counter\nassay_signatures_lanes 5";
        // Whether an object keeps its order is up to a feature of serde_json that others may ask for.
        let sorted = |text: &str| {
            let mut metrics: Vec<String> = text.split("# TYPE ").map(|metric| metric.trim().to_owned()).collect();
            metrics.sort_unstable();
            metrics
        };
        assert_eq!(sorted(&text), sorted(want));
    }
}
