//! The arithmetic of the tables, by results made by hand.
//!
//! In:     results with figures that are easily worked out.
//! Out:    one test a workload.
//! Fails:  where a cell is another than worked out.

use super::super::addresses::{Differing, Times};
use super::super::load::{Done, OfClient};
use super::*;

fn names() -> Vec<String> {
    ["assay", "other"].map(str::to_owned).to_vec()
}

fn row<'a>(rows: &'a Rows, start: &[&str]) -> &'a [String] {
    let found = rows.rows.iter().find(|row| row.iter().zip(start).all(|(cell, want)| cell == want));
    &found.unwrap_or_else(|| panic!("no row {start:?} in {rows:?}"))[start.len()..]
}

#[test]
fn a_row_says_who_is_best_and_by_how_much() {
    let mut contest = Contest::new(&["what"], &names());
    contest.row(vec!["less is better".to_owned()], &[Some(2.0), Some(5.0)]);
    contest.row_of_more(vec!["more is better".to_owned()], &[Some(100.0), Some(250.0)]);
    contest.row(vec!["alone".to_owned()], &[Some(2.0), None]);
    assert_eq!(contest.rows.headings, ["what", "assay", "other", "best", "best other / assay"]);
    assert_eq!(row(&contest.rows, &["less is better"]), ["2", "5", "assay", "2.5"]);
    assert_eq!(row(&contest.rows, &["more is better"]), ["100", "250", "other", "0.4"]);
    assert_eq!(row(&contest.rows, &["alone"]), ["2", "-", "assay", "-"]);
}

#[test]
fn addresses_become_tables_measures_and_charts() {
    let probes = [5, 7].map(|entries| Probe { hash: entries.to_string(), entries, unspent: 2 });
    let mut answers = Answers::default();
    for (server, factor) in [(0, 1.0), (1, 3.0)] {
        for probe in 0..2 {
            let us = factor * (probe + 1) as f64 * 10.0;
            let times = Times { cold_us: us * 4.0, warm_us: vec![us, us + 2.0, us + 1.0], bytes: 9, refused: None };
            answers.times.insert((server, Question::Balance, probe), times);
        }
    }
    let refused = Times { refused: Some("error 1: too long".to_owned()), ..Times::default() };
    answers.times.insert((1, Question::History, 0), refused);
    answers.differing.push(Differing {
        question: Question::Balance,
        hash: "5".to_owned(),
        said: vec![(vec!["assay".to_owned()], "1".to_owned()), (vec!["other".to_owned()], "2".to_owned())],
    });
    let mut report = Report::new("x", "X");
    addresses(&mut report, &names(), &probes, &answers);
    let [section, refusals, differing] = &report.sections[..] else { panic!("{} sections", report.sections.len()) };
    let [p50, worst, cold, _] = &section.tables[..] else { panic!("tables") };
    assert_eq!(row(p50, &["balance", "2 to 9", "2"]), ["16", "46", "assay", "2.88"]);
    assert_eq!(row(worst, &["balance", "2 to 9", "2"]), ["21", "61", "assay", "2.9"]);
    assert_eq!(row(cold, &["balance", "2 to 9", "2"]), ["60", "180", "assay", "3"]);
    assert_eq!(row(&refusals.tables[0], &["other", "history", "5"]), ["2", "error 1: too long"]);
    assert_eq!(row(&differing.tables[0], &["5", "balance"]), ["assay: 1; other: 2"]);
    assert_eq!(report.values("balance/2 to 9/warm", "assay"), [15.0, 17.0, 16.0]);
    assert_eq!(report.values("balance/2 to 9/cold", "other"), [120.0, 240.0]);
    let scatter = &section.charts[0];
    assert_eq!(scatter.series[0].points, [(5.0, 11.0), (7.0, 21.0)]);
    assert_eq!(section.charts[1].series[1].points, [(2.0, 31.0), (2.0, 61.0)]);
    assert_eq!(section.charts[2].series[0].points.iter().find(|point| point.0 == 50.0), Some(&(50.0, 16.0)));
}

#[test]
fn the_first_run_of_a_wallet_is_kept_apart() {
    let run = |subscribe_s, refresh_s| Run { subscribe_s, refresh_s, transactions: 5, headers: 4, ..Run::default() };
    let runs = [vec![run(9.0, 1.0), run(1.0, 1.0), run(3.0, 1.0), run(2.0, 1.0)], vec![run(10.0, 2.0), run(4.0, 3.0)]];
    let shape = WalletShape { addresses: 10, page: 50, sockets: 1, runs: 3 };
    let mut report = Report::new("x", "X");
    wallet(&mut report, &names(), &runs, &shape);
    let table = &report.sections[0].tables[0];
    assert_eq!(row(table, &["subscribe", "first"]), ["9", "10", "assay", "1.11"]);
    assert_eq!(row(table, &["subscribe", "later"]), ["2", "4", "assay", "2"]);
    assert_eq!(row(table, &["load", "later"])[..2], ["2", "4"]);
    assert_eq!(row(table, &["refresh", "later"])[..2], ["1", "3"]);
    assert_eq!(report.values("wallet/subscribe/later", "assay"), [1.0, 3.0, 2.0]);
}

#[test]
fn rates_latencies_and_errors_of_many_clients_are_told() {
    let slice = |server, ms: f64, requests| {
        let done = vec![Done { kind: "small", at_s: 0.5, us: ms * 1e3, requests }];
        let errors = BTreeMap::from([("timeout".to_owned(), 2)]);
        Slice { server, seconds: 2.0, own_cpu_s: 0.1, clients: vec![OfClient { wallet: 0, done, errors }] }
    };
    let slices = [slice(0, 1.0, 100), slice(1, 4.0, 20), slice(0, 3.0, 300)];
    let shape = LoadShape { clients: 1, slice_s: 2, slices: 2 };
    let mut report = Report::new("x", "X");
    load(&mut report, &names(), &slices, &shape);
    let section = &report.sections[0];
    assert_eq!(row(&section.tables[0], &["requests a second"]), ["100", "10", "assay", "10"]);
    assert_eq!(row(&section.tables[1], &["small", "p50"])[..2], ["2", "4"]);
    assert_eq!(row(&section.tables[2], &["assay", "timeout"]), ["4"]);
    assert_eq!(section.charts[0].series[0].points, [(0.0, 100.0), (1.0, 0.0), (2.0, 300.0), (3.0, 0.0)]);
    assert_eq!(report.values("load/requests", "assay"), [50.0, 150.0]);
}

#[test]
fn a_light_client_is_held_against_itself_alone() {
    let light = Light { alone_us: vec![10.0; 50], beside_us: vec![15.0; 50], heavy_answers: 3 };
    assert_eq!(light.times(), 1.5);
    let noticed =
        vec![vec![Noticed { server: "assay".to_owned(), scripts: 4, tip_ms: Some(1.0), last_ms: None, notices: 3 }]];
    let memory =
        [Memory { server: "other".to_owned(), before_bytes: 1, session_bytes: 2048.0, subscription_bytes: 99.0 }];
    let mut report = Report::new("x", "X");
    sessions(&mut report, &names(), &memory, &noticed, &BTreeMap::from([("assay".to_owned(), light)]));
    let section = &report.sections[0];
    assert_eq!(row(&section.tables[0], &["memory of an idle session", "KiB"])[..2], ["-", "2"]);
    assert_eq!(row(&section.tables[0], &["the second as a multiple of the first", ""])[..2], ["1.5", "-"]);
    assert_eq!(row(&section.tables[0], &["block connected to last notice of a script", "ms"])[..2], ["-", "-"]);
    assert!(section.text[0].starts_with("assay: 3 of 4 notices"), "{:?}", section.text);
}
