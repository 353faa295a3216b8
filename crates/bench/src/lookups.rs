//! `assay bench lookups`: what a wallet's questions cost, by the length of the script's history.
//!
//! In:     [`LookupsOptions`]; a forged chain with scripts of 10, 1,000 and 100,000 history entries, each with 10
//!         unspent outputs.
//! Out:    p50, p99 and worst microseconds of balance, unspent, the first page of history and status; and the ratio to
//!         the script of 10 entries.
//! Fails:  when an answer has not the length that was forged.
//!
//! Warm: every question was asked once before. Scripts take turns, so that none has the processor's cache for itself.

use std::time::Instant;

use chain::View;
use primitives::ScriptHash;
use serde_json::json;
use sim::forge::{Kind, SpecialScript};

use crate::arguments::LookupsOptions;
use crate::import::ours;
use crate::report::{Table, median};
use crate::sample::{Blocks, Scratch};
use crate::{BenchError, machine, report};

/// History lengths of the measured scripts.
const ENTRIES: [u32; 3] = [10, 1_000, 100_000];
/// Unspent outputs of each.
const UNSPENT: u32 = 10;
/// Entries of the first page of a history.
const PAGE: usize = 100;
/// Scripts with more entries are asked for their status this many times only: every entry is read and hashed.
const STATUS_QUESTIONS_LONG: u32 = 5;

/// A question, and how many entries its answer has.
type Ask = fn(&View, &ScriptHash) -> Result<u64, BenchError>;

const QUESTIONS: [(&str, Ask); 3] = [
    // A balance has no length; every forged output holds something.
    ("balance", |view, script| Ok(if view.balance_sat(script)? > 0 { UNSPENT.into() } else { 0 })),
    ("unspent", |view, script| Ok(view.unspent(script, 0, 1_000)?.len() as u64)),
    ("history, first page", |view, script| Ok(view.history(script, 0, PAGE)?.len() as u64)),
];

/// Times of one question for one script, in microseconds, sorted.
struct Times {
    question: &'static str,
    entries: u32,
    us: Vec<f64>,
}

impl Times {
    fn share(&self, share: f64) -> f64 {
        self.us[((self.us.len() - 1) as f64 * share) as usize]
    }

    /// The median as a multiple of that of the same question for the shortest history.
    fn ratio(&self, all: &[Times]) -> f64 {
        let shortest = all.iter().find(|row| row.question == self.question).expect("this row is among them");
        median(&self.us) / median(&shortest.us)
    }
}

/// Forges, imports, asks, prints, writes.
pub fn bench(options: &LookupsOptions) -> Result<(), BenchError> {
    if options.questions == 0 {
        return Err(BenchError::Usage("--questions: at least 1".to_owned()));
    }
    let machine = machine::describe();
    let special = ENTRIES.map(|entries| SpecialScript { kind: Kind::P2wpkh, entries, unspent: UNSPENT });
    let (blocks, scripts) = Blocks::forge(&options.scratch, options.forge_inputs, special.to_vec())?;
    let scripts: Vec<ScriptHash> = scripts.iter().map(|script| ScriptHash::of(script)).collect();
    let scratch = Scratch::new(&options.scratch, "lookups")?;
    let settings = ours::Settings {
        chain: "regtest".to_owned(),
        blocks_from: blocks.folder().to_owned(),
        datadir: scratch.path().join("data"),
        threads: options.crew.threads,
        memory_mib: options.crew.memory,
        engine: options.crew.engine.to_string(),
        signatures: false,
        index: true,
    };
    let (mut chain, _disk) = ours::open(&settings)?;
    chain.catch_up()?;
    chain.settle()?;
    let view = chain.handle().view();
    let mut times = Vec::new();
    for (question, ask) in QUESTIONS {
        times.extend(ask_in_turn(question, ask, &view, &scripts, options.questions)?);
    }
    times.extend(ask_status(&view, &scripts, options.questions)?);
    print!("{}", table(&times).text());
    let rows: Vec<_> = times
        .iter()
        .map(|row| {
            json!({
                "question": row.question, "entries": row.entries, "unspent": UNSPENT, "questions": row.us.len(),
                "p50_us": median(&row.us), "p99_us": row.share(0.99), "worst_us": row.share(1.0),
                "p50_per_10_entries": row.ratio(&times),
            })
        })
        .collect();
    let settings = json!({
        "forge_inputs": options.forge_inputs, "memory_mib": options.crew.memory, "page_cache": "warm",
        "history_page": PAGE,
    });
    let report = json!({ "bench": "lookups", "machine": machine, "settings": settings, "lookups": rows });
    report::write_json(options.json.as_deref(), &report)
}

fn ask_in_turn(
    question: &'static str,
    ask: Ask,
    view: &View,
    scripts: &[ScriptHash],
    questions: u32,
) -> Result<Vec<Times>, BenchError> {
    let mut times: Vec<Times> = ENTRIES.map(|entries| Times { question, entries, us: Vec::new() }).into();
    // The first turn warms and is not counted.
    for turn in 0..=questions {
        for (times, script) in times.iter_mut().zip(scripts) {
            let before = Instant::now();
            let got = ask(view, script)?;
            let took_us = before.elapsed().as_secs_f64() * 1e6;
            let want =
                if question.starts_with("history") { PAGE.min(times.entries as usize) as u64 } else { UNSPENT.into() };
            if got != want {
                let text = format!("{question} of {} entries: {got} in the answer, {want} forged", times.entries);
                return Err(BenchError::Wrong(text));
            }
            if turn > 0 {
                times.us.push(took_us);
            }
        }
    }
    times.iter_mut().for_each(|times| times.us.sort_by(f64::total_cmp));
    Ok(times)
}

/// The status reads and hashes the whole history; a long one is asked for a few times only.
fn ask_status(view: &View, scripts: &[ScriptHash], questions: u32) -> Result<Vec<Times>, BenchError> {
    let mut all = Vec::new();
    for (entries, script) in ENTRIES.into_iter().zip(scripts) {
        let questions = if entries > 10_000 { questions.min(STATUS_QUESTIONS_LONG) } else { questions };
        let mut us = Vec::new();
        for turn in 0..=questions {
            let before = Instant::now();
            if view.status(script)?.is_none() {
                return Err(BenchError::Wrong(format!("the script of {entries} entries has no status")));
            }
            if turn > 0 {
                us.push(before.elapsed().as_secs_f64() * 1e6);
            }
        }
        us.sort_by(f64::total_cmp);
        all.push(Times { question: "status", entries, us });
    }
    Ok(all)
}

fn table(times: &[Times]) -> Table {
    let mut table = Table::new(&["question", "entries", "p50 us", "p99 us", "worst us", "p50 to 10 entries"]);
    for row in times {
        table.row(vec![
            row.question.to_owned(),
            report::count(row.entries.into()),
            format!("{:.1}", median(&row.us)),
            format!("{:.1}", row.share(0.99)),
            format!("{:.1}", row.share(1.0)),
            format!("{:.2}", row.ratio(times)),
        ]);
    }
    table
}
