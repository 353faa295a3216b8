//! `assay bench lookups`: what a wallet's questions cost, by the length of the script's history.
//!
//! In:     [`LookupsOptions`]; a forged chain with scripts of 1, 10, 1,000 and 100,000 history entries, the last three
//!         with 10 unspent outputs each.
//! Out:    p50, p99 and worst microseconds of balance, unspent, the first page of history, status, transaction by id and
//!         merkle branch; and the ratio to the script of 10 entries.
//! Fails:  when an answer has not the length that was forged.
//!
//! Warm: every question was asked once before. Scripts take turns, so that none has the processor's cache for itself.
//! A small `--memory` makes many commits, and with them rows that lie in many files, as after months at the tip.

use std::time::Instant;

use chain::View;
use primitives::{ScriptHash, Txid};
use serde_json::json;
use sim::forge::{Kind, SpecialScript};

use crate::arguments::LookupsOptions;
use crate::import::ours;
use crate::report::{Table, median};
use crate::sample::{Blocks, Scratch};
use crate::{BenchError, machine, report};

/// History lengths of the measured scripts, and their unspent outputs.
const SCRIPTS: [(u32, u32); 4] = [(1, 1), (10, 10), (1_000, 10), (100_000, 10)];
/// The history length that others are compared with.
const COMPARED_ENTRIES: u32 = 10;
/// Entries of the first page of a history.
const PAGE: usize = 100;
/// Scripts with more entries are asked for their status this many times only: every entry is read and hashed.
const STATUS_QUESTIONS_LONG: u32 = 5;

/// A measured script and what was forged for it.
struct Script {
    hash: ScriptHash,
    entries: u32,
    unspent: u32,
    /// The last transactions that touch it, up to ten: identifier, height, position.
    last: Vec<(Txid, u32, u32)>,
}

/// A question, asked for the n-th time; whether the answer is as it was forged.
type Ask = fn(&View, &Script, usize) -> Result<bool, BenchError>;

const QUESTIONS: [(&str, Ask); 5] = [
    // Every forged output holds something.
    ("balance", |view, script, _| Ok(view.balance_sat(&script.hash)? > 0)),
    ("unspent", |view, script, _| Ok(view.unspent(&script.hash, 0, 1_000)?.len() == script.unspent as usize)),
    ("history, first page", |view, script, _| {
        Ok(view.history(&script.hash, 0, PAGE)?.len() == PAGE.min(script.entries as usize))
    }),
    ("transaction", |view, script, turn| {
        let (txid, height, position) = script.last[turn % script.last.len()];
        Ok(view.transaction(&txid)?.is_some_and(|tx| (tx.height, tx.position) == (height, position)))
    }),
    ("merkle branch", |view, script, turn| {
        let (_, height, position) = script.last[turn % script.last.len()];
        Ok(view.merkle_branch(height, position)?.is_some())
    }),
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

    /// The median as a multiple of that of the same question for [`COMPARED_ENTRIES`].
    fn ratio(&self, all: &[Times]) -> f64 {
        let is_compared = |row: &&Times| row.question == self.question && row.entries == COMPARED_ENTRIES;
        median(&self.us) / median(&all.iter().find(is_compared).expect("every question is asked for it").us)
    }
}

/// Forges, imports, asks, prints, writes.
pub fn bench(options: &LookupsOptions) -> Result<(), BenchError> {
    if options.questions == 0 {
        return Err(BenchError::Usage("--questions: at least 1".to_owned()));
    }
    let machine = machine::describe();
    let special = SCRIPTS.map(|(entries, unspent)| SpecialScript::new(Kind::P2wpkh, entries, unspent));
    let (blocks, scripts) = Blocks::forge(&options.scratch, options.forge_inputs, special.to_vec())?;
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
        hints: None,
    };
    let mut chain = ours::open(&settings)?.chain;
    chain.catch_up()?;
    chain.settle()?;
    let view = chain.handle().view();
    let scripts = scripts.iter().zip(SCRIPTS).map(|(script, forged)| Script::find(&view, script, forged));
    let scripts: Vec<Script> = scripts.collect::<Result<_, _>>()?;
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
                "question": row.question, "entries": row.entries, "questions": row.us.len(),
                "p50_us": median(&row.us), "p99_us": row.share(0.99), "worst_us": row.share(1.0),
                "p50_per_10_entries": row.ratio(&times),
            })
        })
        .collect();
    let settings = json!({
        "forge_inputs": options.forge_inputs, "memory_mib": options.crew.memory, "page_cache": "warm",
        "history_page": PAGE, "segments": view.snapshot().segment_count(),
    });
    let report = json!({ "bench": "lookups", "machine": machine, "settings": settings, "lookups": rows });
    report::write_json(options.json.as_deref(), &report)
}

impl Script {
    /// Finds the last transactions of a forged script; `forged` is its history's length, and its unspent outputs.
    fn find(view: &View, script: &[u8], forged: (u32, u32)) -> Result<Script, BenchError> {
        let (hash, (entries, unspent)) = (ScriptHash::of(script), forged);
        let history = view.history(&hash, 0, usize::MAX)?;
        if history.len() != entries as usize {
            return Err(BenchError::Wrong(format!("{} entries in a history, {entries} forged", history.len())));
        }
        let mut last = Vec::new();
        for entry in history.iter().rev().take(10) {
            last.push((entry.txid, entry.height, entry.tx_num - view.first_tx_num(entry.height)?));
        }
        Ok(Script { hash, entries, unspent, last })
    }
}

fn ask_in_turn(
    question: &'static str,
    ask: Ask,
    view: &View,
    scripts: &[Script],
    questions: u32,
) -> Result<Vec<Times>, BenchError> {
    let of = |script: &Script| Times { question, entries: script.entries, us: Vec::new() };
    let mut times: Vec<Times> = scripts.iter().map(of).collect();
    // Ten turns warm every transaction that is asked for, and are not counted.
    for turn in 0..10 + questions as usize {
        for (times, script) in times.iter_mut().zip(scripts) {
            let before = Instant::now();
            let right = ask(view, script, turn)?;
            let took_us = before.elapsed().as_secs_f64() * 1e6;
            if !right {
                return Err(BenchError::Wrong(format!(
                    "{question} of {} entries is not what was forged",
                    times.entries
                )));
            }
            if turn >= 10 {
                times.us.push(took_us);
            }
        }
    }
    times.iter_mut().for_each(|times| times.us.sort_by(f64::total_cmp));
    Ok(times)
}

/// The status reads and hashes the whole history; a long one is asked for a few times only.
fn ask_status(view: &View, scripts: &[Script], questions: u32) -> Result<Vec<Times>, BenchError> {
    let mut all = Vec::new();
    for &Script { hash, entries, .. } in scripts {
        let questions = if entries > 10_000 { questions.min(STATUS_QUESTIONS_LONG) } else { questions };
        let mut us = Vec::new();
        for turn in 0..=questions {
            let before = Instant::now();
            if view.status(&hash)?.is_none() {
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
