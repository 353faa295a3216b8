//! What was measured, as parts of a report.
//!
//! In:     results of the workloads, names of the servers in their order.
//! Out:    measures and sections added to a [`Report`].
//! Fails:  never.

use std::collections::BTreeMap;

use super::addresses::{Answers, Question};
use super::arguments::{LoadShape, WalletShape};
use super::load::Slice;
use super::mix::KINDS;
use super::scripts::Probe;
use super::sessions::{Light, Memory, Noticed};
use super::sizes::{self, Which, class_name, winner};
use super::wallet::Run;
use crate::report::{Axis, Better, Chart, ChartKind, Figure, Report, Rows, Section, Series, count, figure, median};
use crate::statistics::percentile;

/// Differing answers that are shown.
const DIFFERING_SHOWN: usize = 20;
/// Points of a line of percentiles.
const PERCENTILES: [f64; 9] = [1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0];

fn lower<'a>(id: &'a str, what: &'a str, unit: &'a str) -> Figure<'a> {
    Figure { id, what, unit, better: Better::Lower }
}

fn cell(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), figure)
}

/// A table of one figure for every server, who is the best of them, and how many times as good the first is as the best
/// of the others.
struct Contest {
    rows: Rows,
    names: Vec<String>,
}

impl Contest {
    fn new(first: &[&str], names: &[String]) -> Contest {
        let mut headings = first.to_vec();
        headings.extend(names.iter().map(String::as_str));
        let times = format!("best other / {}", names[0]);
        headings.extend(["best", &times]);
        Contest { rows: Rows::new(&headings), names: names.to_vec() }
    }

    /// A row of which less is better.
    fn row(&mut self, mut first: Vec<String>, figures: &[Option<f64>]) {
        first.extend(figures.iter().map(|value| cell(*value)));
        let (best, times) = match winner(figures) {
            Some((best, times)) => (self.names[best].clone(), times),
            None => ("-".to_owned(), None),
        };
        first.extend([best, cell(times)]);
        self.rows.row(first);
    }

    /// A row of which more is better.
    fn row_of_more(&mut self, first: Vec<String>, figures: &[Option<f64>]) {
        let inverse: Vec<Option<f64>> = figures.iter().map(|value| value.map(|value| 1.0 / value)).collect();
        self.row(first, &inverse);
        let row = self.rows.rows.last_mut().expect("just made");
        let from = row.len() - 2 - figures.len();
        for (place, value) in figures.iter().enumerate() {
            row[from + place] = cell(*value);
        }
    }
}

/// Everything about scripts of every size.
pub fn addresses(report: &mut Report, names: &[String], probes: &[Probe], answers: &Answers) {
    let mut section = Section { title: "Addresses".to_owned(), ..Section::default() };
    section.text.push(format!(
        "{} scripts, one question at a time, servers in turns. A figure is the microseconds from the first byte sent to the \
         last one received; the kit itself took {} us of CPU time for each exchange.",
        count(probes.len() as u64),
        figure(answers.own_cpu_us)
    ));
    for which in [Which::Warm, Which::Cold] {
        let rows = sizes::rows(answers, probes, names.len(), which);
        for (name, is_worst) in [("middle script", false), ("slowest script", true)] {
            let title = format!("{}, {name}: us", which.name());
            let mut table = Contest::new(&[&title, "transactions", "scripts"], names);
            for row in &rows {
                let first = vec![row.question.name().to_owned(), class_name(row.class), count(row.scripts as u64)];
                table.row(first, &if is_worst { row.worst() } else { row.p50() });
            }
            section.tables.push(table.rows);
        }
        add_measures(report, names, probes, answers, which);
    }
    section.charts = charts(names, probes, answers);
    report.sections.push(section);
    report.sections.extend(refusals(names, probes, answers));
    report.sections.extend(differing(answers));
}

fn add_measures(report: &mut Report, names: &[String], probes: &[Probe], answers: &Answers, which: Which) {
    for row in sizes::rows(answers, probes, names.len(), which) {
        let (question, class) = (row.question.name(), class_name(row.class));
        let id = format!("{question}/{class}/{}", which.name());
        let what = format!("{question} of {class} transactions, {}", which.name());
        for (server, name) in names.iter().enumerate() {
            let values = match which {
                Which::Warm => sizes::medians_of_passes(answers, probes, server, row.question, row.class),
                Which::Cold => row.us[server].clone(),
            };
            values.into_iter().for_each(|value| report.add(&lower(&id, &what, "us"), name, value));
        }
    }
}

fn charts(names: &[String], probes: &[Probe], answers: &Answers) -> Vec<Chart> {
    let mut charts = Vec::new();
    let warm = |server: usize, question: Question| {
        let all = probes.iter().enumerate().filter_map(move |(index, probe)| {
            let times = answers.times.get(&(server, question, index))?;
            let known = times.refused.is_none() && !times.warm_us.is_empty();
            known.then(|| (probe, median(&times.warm_us)))
        });
        all.collect::<Vec<(&Probe, f64)>>()
    };
    let chart = |title: String, x: Axis, kind, points: &dyn Fn(usize) -> Vec<(f64, f64)>| Chart {
        title,
        x,
        y: Axis::log("time", "us"),
        kind,
        series: names
            .iter()
            .enumerate()
            .map(|(index, name)| Series { name: name.clone(), points: points(index) })
            .collect(),
    };
    for question in Question::ALL {
        let name = question.name();
        charts.push(chart(
            format!("{name}, by transactions"),
            Axis::log("transactions", ""),
            ChartKind::Scatter,
            &|server| warm(server, question).iter().map(|(probe, us)| (probe.entries as f64, *us)).collect(),
        ));
        charts.push(chart(
            format!("{name}, by unspent outputs"),
            Axis::log("unspent outputs", ""),
            ChartKind::Scatter,
            &|server| warm(server, question).iter().map(|(probe, us)| (probe.unspent as f64, *us)).collect(),
        ));
        charts.push(chart(
            format!("{name}, scripts answered within"),
            Axis::linear("scripts", "%"),
            ChartKind::Lines,
            &|server| {
                let us: Vec<f64> = warm(server, question).iter().map(|(_, us)| *us).collect();
                let of = PERCENTILES.map(|percent| (percent, percentile(&us, percent)));
                of.into_iter().filter(|(_, us)| us.is_finite()).collect()
            },
        ));
    }
    charts
}

/// Answers that a server did not give.
fn refusals(names: &[String], probes: &[Probe], answers: &Answers) -> Option<Section> {
    let mut table = Rows::new(&["server", "question", "transactions", "unspent outputs", "what it said"]);
    for ((server, question, probe), times) in &answers.times {
        if let Some(said) = &times.refused {
            let (name, probe) = (names[*server].clone(), &probes[*probe]);
            table.row(vec![name, question.name().to_owned(), count(probe.entries), count(probe.unspent), said.clone()]);
        }
    }
    let text = vec!["An answer that was refused or did not come is no time and wins nothing.".to_owned()];
    let section = Section { title: "Refused answers".to_owned(), text, charts: Vec::new(), tables: vec![table] };
    (!section.tables[0].rows.is_empty()).then_some(section)
}

fn differing(answers: &Answers) -> Option<Section> {
    let mut table = Rows::new(&["script hash", "question", "servers and what they say"]);
    for one in answers.differing.iter().take(DIFFERING_SHOWN) {
        let said = one.said.iter().map(|(names, said)| format!("{}: {said}", names.join(", ")));
        table.row(vec![one.hash.clone(), one.question.name().to_owned(), said.collect::<Vec<_>>().join("; ")]);
    }
    let text =
        vec![format!("{} answers differ between servers; at least one of them is wrong.", answers.differing.len())];
    let section = Section { title: "Answers that differ".to_owned(), text, charts: Vec::new(), tables: vec![table] };
    (!answers.differing.is_empty()).then_some(section)
}

/// The wallet's runs: for each server the first one, then the others.
pub fn wallet(report: &mut Report, names: &[String], runs: &[Vec<Run>], shape: &WalletShape) {
    let mut section = Section { title: "A large wallet".to_owned(), ..Section::default() };
    section.text.push(format!(
        "{} used addresses in pages of {} over {} connection(s); {} transactions and {} headers. The first run is apart, the \
         others are medians of {}. Load is everything; refresh is to subscribe and fetch the histories once more.",
        count(shape.addresses),
        shape.page,
        shape.sockets,
        count(runs[0].first().map_or(0, |run| run.transactions) as u64),
        count(runs[0].first().map_or(0, |run| run.headers) as u64),
        shape.runs
    ));
    let stages: [(&str, fn(&Run) -> f64); 7] = [
        ("subscribe", |run| run.subscribe_s),
        ("histories", |run| run.histories_s),
        ("transactions", |run| run.transactions_s),
        ("headers", |run| run.headers_s),
        ("load", Run::load_s),
        ("refresh", |run| run.refresh_s),
        ("ping, ms", |run| run.ping_ms),
    ];
    let mut table = Contest::new(&["stage, s", "run"], names);
    for (stage, of) in stages {
        let unit = if stage.starts_with("ping") { "ms" } else { "s" };
        for which in ["first", "later"] {
            let of_run = |run: &Vec<Run>| -> Vec<f64> {
                let (first, later) = run.split_at(run.len().min(1));
                if which == "first" { first.iter().map(of).collect() } else { later.iter().map(of).collect() }
            };
            let values: Vec<Vec<f64>> = runs.iter().map(of_run).collect();
            let figures: Vec<Option<f64>> = values.iter().map(|all| (!all.is_empty()).then(|| median(all))).collect();
            table.row(vec![stage.to_owned(), which.to_owned()], &figures);
            let (id, what) = (
                format!("wallet/{stage}/{which}"),
                format!("wallet of {} addresses, {stage}, {which}", shape.addresses),
            );
            for (name, all) in names.iter().zip(values) {
                all.into_iter().for_each(|value| report.add(&lower(&id, &what, unit), name, value));
            }
        }
    }
    section.tables.push(table.rows);
    section.tables.extend(errors(names, runs.iter().map(|runs| runs.iter().map(|run| &run.errors).collect())));
    report.sections.push(section);
}

/// What went wrong, by server and kind.
fn errors<'a>(names: &[String], all: impl Iterator<Item = Vec<&'a BTreeMap<String, u64>>>) -> Option<Rows> {
    let mut table = Rows::new(&["server", "what went wrong", "times"]);
    for (name, errors) in names.iter().zip(all) {
        let mut sums: BTreeMap<&String, u64> = BTreeMap::new();
        errors.into_iter().flatten().for_each(|(kind, times)| *sums.entry(kind).or_default() += times);
        for (kind, times) in sums {
            table.row(vec![name.clone(), kind.clone(), count(times)]);
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Many clients at once.
pub fn load(report: &mut Report, names: &[String], slices: &[Slice], shape: &LoadShape) {
    let mut section = Section { title: "Many clients".to_owned(), ..Section::default() };
    let of = |server: usize| slices.iter().filter(move |slice| slice.server == server);
    let own: f64 = slices.iter().map(|slice| slice.own_cpu_s).sum();
    let cores = crate::machine::cores() as f64;
    let length: f64 = slices.iter().map(|slice| slice.seconds).sum();
    section.text.push(format!(
        "{} clients at once, a third each with the habits of Sparrow, Electrum and BlueWallet, without pauses, in slices of \
         {} s. The clients themselves took {} % of this machine's processors.",
        shape.clients,
        shape.slice_s,
        figure(100.0 * own / (length * cores).max(f64::MIN_POSITIVE))
    ));
    let mut table = Contest::new(&["figure"], names);
    let rate = Figure { id: "load/requests", what: "requests answered, mixed", unit: "1/s", better: Better::Higher };
    let fair = Figure { id: "load/fairness", what: "fairness among alike clients", unit: "", better: Better::Higher };
    let of_all = |figure: &Figure<'_>, value: fn(&Slice) -> f64, report: &mut Report| -> Vec<Option<f64>> {
        let values: Vec<Vec<f64>> = (0..names.len()).map(|server| of(server).map(value).collect()).collect();
        for (name, values) in names.iter().zip(&values) {
            values.iter().for_each(|value| report.add(figure, name, *value));
        }
        values.iter().map(|values| (!values.is_empty()).then(|| median(values))).collect()
    };
    let rates = of_all(&rate, Slice::rate, report);
    table.row_of_more(vec!["requests a second".to_owned()], &rates);
    let fairness = of_all(&fair, Slice::fairness, report);
    table.row_of_more(vec!["fairness (Jain's index, least of the wallets)".to_owned()], &fairness);
    section.tables.push(table.rows);
    let mut latencies = Contest::new(&["exchange, ms", "percentile"], names);
    for kind in KINDS {
        let ms = |server: usize| -> Vec<f64> {
            of(server).flat_map(Slice::done).filter(|done| done.kind == kind).map(|done| done.us / 1e3).collect()
        };
        let all: Vec<Vec<f64>> = (0..names.len()).map(ms).collect();
        for percent in [50.0, 99.0] {
            let figures: Vec<Option<f64>> =
                all.iter().map(|ms| (!ms.is_empty()).then(|| percentile(ms, percent))).collect();
            latencies.row(vec![kind.to_owned(), format!("p{percent:.0}")], &figures);
            let (id, what) = (format!("load/{kind}/p{percent:.0}"), format!("{kind} under load, p{percent:.0}"));
            for (name, value) in names.iter().zip(&figures) {
                value.iter().for_each(|value| report.add(&lower(&id, &what, "ms"), name, *value));
            }
        }
    }
    section.tables.push(latencies.rows);
    section.charts.push(rate_over_time(names, slices, shape));
    let wrong =
        |server: usize| of(server).flat_map(|slice| slice.clients.iter().map(|client| &client.errors)).collect();
    section.tables.extend(errors(names, (0..names.len()).map(wrong)));
    report.sections.push(section);
}

/// Requests answered in each second, slices of a server one after the other.
fn rate_over_time(names: &[String], slices: &[Slice], shape: &LoadShape) -> Chart {
    let points = |server: usize| {
        let of = slices.iter().filter(|slice| slice.server == server).enumerate();
        of.flat_map(|(turn, slice)| {
            (0..shape.slice_s).map(move |second| {
                let here = slice.done().filter(|done| done.at_s as u64 == second);
                let requests: usize = here.map(|done| done.requests).sum();
                ((turn as u64 * shape.slice_s + second) as f64, requests as f64)
            })
        })
        .collect()
    };
    Chart {
        title: "requests answered".to_owned(),
        x: Axis::linear("time", "s"),
        y: Axis::linear("requests", "1/s"),
        kind: ChartKind::Lines,
        series: names
            .iter()
            .enumerate()
            .map(|(server, name)| Series { name: name.clone(), points: points(server) })
            .collect(),
    }
}

/// Sessions, subscriptions, notices, and a light client beside a heavy one.
pub fn sessions(
    report: &mut Report,
    names: &[String],
    memory: &[Memory],
    noticed: &[Vec<Noticed>],
    light: &BTreeMap<String, Light>,
) {
    let mut section = Section { title: "Sessions and notices".to_owned(), ..Section::default() };
    let mut table = Contest::new(&["figure", "unit"], names);
    let of_memory = |figure: fn(&Memory) -> f64| -> Vec<Vec<f64>> {
        names.iter().map(|name| memory.iter().filter(|one| one.server == *name).map(figure).collect()).collect()
    };
    let of_notices = |figure: fn(&Noticed) -> Option<f64>| -> Vec<Vec<f64>> {
        let all =
            |name: &String| noticed.iter().flatten().filter(|one| one.server == *name).filter_map(figure).collect();
        names.iter().map(all).collect()
    };
    let of_light = |figure: fn(&Light) -> f64| -> Vec<Vec<f64>> {
        let values = |name: &String| light.get(name).map(figure).filter(|value| value.is_finite());
        names.iter().map(|name| values(name).into_iter().collect()).collect()
    };
    let figures: [(&str, &str, &str, Vec<Vec<f64>>); 7] = [
        ("sessions/idle", "memory of an idle session", "KiB", of_memory(|one| one.session_bytes / 1024.0)),
        ("sessions/subscription", "memory of a subscription", "B", of_memory(|one| one.subscription_bytes)),
        ("notices/tip", "block connected to notice of the tip", "ms", of_notices(|one| one.tip_ms)),
        ("notices/last", "block connected to last notice of a script", "ms", of_notices(|one| one.last_ms)),
        ("light/alone", "light client alone, p99", "us", of_light(|one| percentile(&one.alone_us, 99.0))),
        (
            "light/beside",
            "beside one who reads the longest history, p99",
            "us",
            of_light(|one| percentile(&one.beside_us, 99.0)),
        ),
        ("light/times", "the second as a multiple of the first", "", of_light(Light::times)),
    ];
    for (id, what, unit, values) in figures {
        let medians: Vec<Option<f64>> = values.iter().map(|all| (!all.is_empty()).then(|| median(all))).collect();
        table.row(vec![what.to_owned(), unit.to_owned()], &medians);
        for (name, all) in names.iter().zip(values) {
            all.into_iter().for_each(|value| report.add(&lower(id, what, unit), name, value));
        }
    }
    let missing = noticed.iter().flatten().filter(|one| one.notices < one.scripts);
    for one in missing {
        section.text.push(format!("{}: {} of {} notices came within the time.", one.server, one.notices, one.scripts));
    }
    if let Some(scripts) = noticed.iter().flatten().map(|one| one.scripts).max() {
        section.text.push(format!("Each block touched {} subscribed scripts.", count(scripts as u64)));
    }
    section.tables.push(table.rows);
    report.sections.push(section);
}

impl Light {
    /// The p99 beside another as a multiple of that alone.
    pub fn times(&self) -> f64 {
        percentile(&self.beside_us, 99.0) / percentile(&self.alone_us, 99.0)
    }
}

#[cfg(test)]
#[path = "told_tests.rs"]
mod tests;
