//! `assay clients`, `kick`, `ban`, `bans`, `limits`, `set`: what an operator does to the Electrum server of a running node.
//!
//! In:     the data directory and network of the settings; what to do, as the status socket wants it.
//! Out:    lines for people, or the JSON object as the node made it.
//! Fails:  with exit code 1 when no node answers, or it refuses.

use std::process::ExitCode;

use serde_json::Value as Json;

use super::arguments::Flags;
use crate::config::Config;
use crate::running::progress::{bytes_text, count_text};
use crate::running::socket;
use crate::{Failure, say};

/// Asks and shows.
pub fn admin(flags: &Flags, asked: &Json, as_json: bool) -> Result<ExitCode, Failure> {
    let (config, _) = Config::load(flags)?;
    let nobody = |error| Failure::Run(format!("no node runs on {}: {error}", config.chain_dir.display()));
    let text = socket::ask(&config.chain_dir, &asked.to_string()).map_err(nobody)?;
    let answer: Json =
        serde_json::from_str(&text).map_err(|error| Failure::Run(format!("the node's answer is no JSON: {error}")))?;
    if let Some(error) = answer["error"].as_str() {
        return Err(Failure::Run(error.to_owned()));
    }
    say(&if as_json { format!("{answer:#}") } else { lines(&answer) });
    Ok(ExitCode::SUCCESS)
}

fn lines(answer: &Json) -> String {
    if let Some(clients) = answer["clients"].as_array() {
        return table(clients);
    }
    let Some(object) = answer.as_object() else { return answer.to_string() };
    let word = |value: &Json| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut lines = Vec::new();
    for (name, value) in object {
        match value {
            Json::Object(inner) => lines.extend(inner.iter().map(|(name, value)| format!("{name} = {}", word(value)))),
            Json::Array(bans) if bans.is_empty() => lines.push("nobody is banned".to_owned()),
            Json::Array(bans) => {
                lines.extend(
                    bans.iter().map(|ban| format!("banned {} until {}", word(&ban["who"]), word(&ban["until"]))),
                );
            }
            value => lines.push(format!("{name} {}", word(value))),
        }
    }
    lines.join("\n")
}

/// A line for each session.
fn table(clients: &[Json]) -> String {
    let heading =
        ["session", "from", "door", "open s", "requests", "subscribed", "sent", "work ms", "protocol", "software"];
    let mut rows = vec![heading.map(str::to_owned)];
    for client in clients {
        let number = |name: &str| client[name].as_u64().unwrap_or(0);
        let word = |name: &str| client[name].as_str().unwrap_or("-").to_owned();
        rows.push([
            number("id").to_string(),
            word("origin"),
            word("door") + if client["trusted"] == true { " known" } else { "" },
            number("open_s").to_string(),
            count_text(number("requests")),
            count_text(number("subscriptions")),
            bytes_text(number("bytes_out")),
            count_text(number("work_ms")),
            word("protocol"),
            word("software"),
        ]);
    }
    let widths: Vec<usize> =
        (0..heading.len()).map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0)).collect();
    let line = |row: &[String; 10]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<String>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<String>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_are_lines() {
        let clients = json!({ "clients": [{ "id": 7, "origin": "192.0.2.1", "door": "tls", "open_s": 61, "requests": 1_234,
            "subscriptions": 2, "bytes_out": 2_048, "work_ms": 5, "protocol": "1.4", "software": "a wallet 1" }] });
        let text = lines(&clients);
        let second: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(second[..5], ["7", "192.0.2.1", "tls", "61", "1,234"], "{text}");
        assert!(text.ends_with("1.4       a wallet 1"), "{text}");
        let bans = json!([{ "who": "a", "until": "2026-11-22T10:00:00Z", "seconds_left": 9 }]);
        let limits = json!({ "limits": { "electrum_sessions_max": 5 }, "bans": bans });
        let mut told: Vec<String> = lines(&limits).lines().map(str::to_owned).collect();
        told.sort();
        assert_eq!(told, ["banned a until 2026-11-22T10:00:00Z", "electrum_sessions_max = 5"]);
        assert_eq!(lines(&json!({ "kicked": 2 })), "kicked 2");
    }
}
