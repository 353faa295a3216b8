//! `assay status`: asks the node that runs on the data directory.
//!
//! In:     the data directory and network of the settings.
//! Out:    lines for people, or the JSON object as the node made it.
//! Fails:  with exit code 1 when no node answers.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value as Json;

use super::arguments::Flags;
use crate::config::Config;
use crate::running::progress::{bytes_text, count_text, duration_text};
use crate::running::socket;
use crate::{Failure, say};

/// Asks and shows.
pub fn status(flags: &Flags, as_json: bool) -> Result<ExitCode, Failure> {
    let (config, _) = Config::load(flags)?;
    let nobody = |error| Failure::Run(format!("no node runs on {}: {error}", config.chain_dir.display()));
    let text = socket::ask(&config.chain_dir).map_err(nobody)?;
    let report: Json =
        serde_json::from_str(&text).map_err(|error| Failure::Run(format!("the node's answer is no JSON: {error}")))?;
    say(&if as_json { format!("{report:#}") } else { lines(&report) });
    Ok(ExitCode::SUCCESS)
}

fn lines(report: &Json) -> String {
    let number = |path: &str| report.pointer(path).and_then(Json::as_f64).unwrap_or(0.0);
    let count = |path: &str| count_text(number(path) as u64);
    let bytes = |path: &str| bytes_text(number(path) as u64);
    let word = |path: &str| report.pointer(path).and_then(Json::as_str).unwrap_or("-").to_owned();
    let time_left = report.pointer("/time_left_s").and_then(Json::as_u64);
    let percent = report.pointer("/percent").and_then(Json::as_f64);
    let percent = percent.map_or("unknown share".to_owned(), |percent| format!("{percent:.2} %"));
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
        ("time left", time_left.map_or("unknown".to_owned(), |s| duration_text(Duration::from_secs(s)))),
        ("memory", format!("{} of a budget of {}", bytes("/memory/resident_bytes"), bytes("/memory/budget_bytes"))),
        ("index", bytes("/disk/index_bytes")),
        ("disk free", bytes("/disk/free_bytes")),
        ("electrum", format!("{}, {} sessions", word("/electrum/listen"), count("/electrum/sessions"))),
        ("up", duration_text(Duration::from_secs(number("/uptime_s") as u64))),
    ];
    let mut lines: Vec<String> = rows.iter().map(|(name, text)| format!("{name:<10} {text}")).collect();
    if let Some(why) = report.pointer("/refused/why").and_then(Json::as_str) {
        lines.push(format!("{:<10} block {} ({}): {why}", "refused", count("/refused/height"), word("/refused/hash")));
    }
    for note in report["notes"].as_array().into_iter().flatten().filter_map(Json::as_str) {
        lines.push(format!("{:<10} {note}", "note"));
    }
    lines.join("\n")
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
}
