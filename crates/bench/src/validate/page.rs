//! What the runs come to, as a report.
//!
//! In:     entrants with their outcomes, facts of the chain.
//! Out:    measures, a table as the yearly sync tests have it, charts over time; the same table as text.
//! Fails:  never; whoever failed is named without a number.

use super::watch::{Outcome, Sample};
use super::{ChainFacts, Entrant};
use crate::arguments::ValidateOptions;
use crate::machine;
use crate::report::{
    Axis, Better, Chart, ChartKind, Contestant, Figure, Report, Rows, Section, Series, Table, bytes, count, figure,
    median,
};

/// Points of a series over time, at most.
const POINTS_MAX: usize = 240;

/// What is earlier is not drawn: nothing has begun yet, and an axis by orders of magnitude would show little else.
const DRAWN_FROM_S: f64 = 0.05;

/// A figure of a run.
type Of = fn(&Outcome) -> f64;

/// Figures of a run that are measures, with their names; lower is better for all.
const FIGURES: [(&str, &str, &str, Of); 7] = [
    ("time/tip", "time until it stands at the tip", "s", |run| run.tip_s),
    ("time/ended", "time until it has ended, all on the disk", "s", |run| run.ended_s),
    ("cpu/tip", "CPU time until the tip", "s", |run| run.last().cpu_s),
    ("memory/peak", "most memory held", "MB", |run| run.peak_memory_bytes() as f64 / 1e6),
    ("disk/read", "bytes read from the disk", "MB", |run| run.last().read_bytes as f64 / 1e6),
    ("disk/written", "bytes written to the disk", "MB", |run| run.written_bytes as f64 / 1e6),
    ("network/received", "bytes received", "MB", |run| run.last().received_bytes as f64 / 1e6),
];

/// Everything but the noise.
pub fn fill(report: &mut Report, options: &ValidateOptions, facts: &ChainFacts, entrants: &[Entrant<'_>]) {
    let crew = &options.crew;
    for entrant in entrants.iter().filter(|entrant| !entrant.outcomes.is_empty()) {
        let name = entrant.wanted.name();
        report.contestants.push(Contestant {
            name: name.to_owned(),
            version: entrant.version.clone(),
            settings: entrant.wanted.settings(crew.threads, crew.memory),
        });
        for (id, what, unit, of) in FIGURES {
            let figure = Figure { id, what, unit, better: Better::Lower };
            entrant.outcomes.iter().for_each(|run| report.add(&figure, name, of(run)));
        }
        let limit_s = facts.limit_s(crew.threads);
        let figure = Figure {
            id: "time/limit",
            what: "time to the tip as a multiple of the signatures' alone",
            unit: "times",
            better: Better::Lower,
        };
        entrant.outcomes.iter().for_each(|run| report.add(&figure, name, run.tip_s / limit_s));
    }
    report.fairness = fairness(options, entrants);
    report.sections = vec![chain(options, facts), results(report, facts, crew.threads, entrants), over_time(entrants)];
    let failed: Vec<String> = entrants.iter().filter_map(failure).collect();
    if !failed.is_empty() {
        report.sections.push(Section { title: "Without a number".to_owned(), text: failed, ..Section::default() });
    }
}

/// For a terminal.
pub fn text(report: &Report, facts: &ChainFacts, threads: usize, entrants: &[Entrant<'_>]) -> String {
    let table = Table::of(&table(report, facts, entrants));
    let failed: String = entrants.iter().filter_map(failure).map(|line| line + "\n").collect();
    format!("{}\n\n{}\n{failed}{}\n", limit_text(facts, threads), table.text(), report.noise.text())
}

fn failure(entrant: &Entrant<'_>) -> Option<String> {
    let reason = entrant.failed.as_ref()?;
    Some(format!("{}: no number, for it did not reach the tip: {reason}", entrant.wanted.name()))
}

fn limit_text(facts: &ChainFacts, threads: usize) -> String {
    format!(
        "Signatures alone would take {} s here: {} checks of {} us (libsecp256k1 on one thread, parsing included, median) \
         on {threads} cores.",
        figure(facts.limit_s(threads)),
        count(facts.signatures),
        figure(facts.check_ns / 1e3)
    )
}

fn chain(options: &ValidateOptions, facts: &ChainFacts) -> Section {
    let origin = match &options.source.blocks_from {
        Some(_) => "given block files".to_owned(),
        None => format!("forged, seed 1, mix history, {} inputs asked for", count(options.source.forge_inputs)),
    };
    let about = format!(
        "{} blocks up to {} ({origin}): {}, {} transactions, {} inputs, {} signature checks.",
        count(facts.height),
        facts.tip,
        bytes(facts.block_bytes),
        count(facts.transactions),
        count(facts.inputs),
        count(facts.signatures)
    );
    let text = vec![about, limit_text(facts, options.crew.threads)];
    Section { title: "The chain".to_owned(), text, ..Section::default() }
}

fn results(report: &Report, facts: &ChainFacts, threads: usize, entrants: &[Entrant<'_>]) -> Section {
    let bars = |title: &str, id: &str, unit: &str| {
        let series = report.contestants.iter().map(|contestant| Series {
            name: contestant.name.clone(),
            points: vec![(0.0, median(report.values(id, &contestant.name)))],
        });
        Chart {
            title: title.to_owned(),
            x: Axis::default(),
            y: Axis::linear("median", unit),
            kind: ChartKind::Bars,
            series: series.collect(),
        }
    };
    Section {
        title: "Who stands at the tip when".to_owned(),
        text: vec![format!(
            "Medians of the runs; every node ran with {threads} threads at most, one after the other, and stands at the \
             same tip. \"x the limit\" is the time as a multiple of what the signatures alone would take one at a time."
        )],
        charts: vec![
            bars("Time to the tip", "time/tip", "s"),
            bars("Time as a multiple of the signatures' alone", "time/limit", ""),
            bars("Most memory held", "memory/peak", "MB"),
            bars("Written to the disk", "disk/written", "MB"),
        ],
        tables: vec![table(report, facts, entrants)],
    }
}

fn table(report: &Report, facts: &ChainFacts, entrants: &[Entrant<'_>]) -> Rows {
    let mut rows = Rows::new(&[
        "node",
        "from",
        "runs",
        "time s",
        "x the limit",
        "until ended s",
        "blocks/s",
        "inputs/s",
        "CPU s",
        "peak memory MB",
        "read MB",
        "written MB",
        "received MB",
        "peer's CPU s",
    ]);
    for entrant in entrants.iter().filter(|entrant| !entrant.outcomes.is_empty()) {
        let name = entrant.wanted.name();
        let of = |id: &str| median(report.values(id, name));
        let peer: Vec<f64> = entrant.outcomes.iter().map(|run| run.peer_cpu_s).collect();
        let tip_s = of("time/tip");
        rows.row(vec![
            name.to_owned(),
            if entrant.wanted.is_from_files() { "files" } else { "peer" }.to_owned(),
            entrant.outcomes.len().to_string(),
            figure(tip_s),
            figure(of("time/limit")),
            figure(of("time/ended")),
            figure(facts.height as f64 / tip_s),
            figure(facts.inputs as f64 / tip_s),
            figure(of("cpu/tip")),
            figure(of("memory/peak")),
            figure(of("disk/read")),
            figure(of("disk/written")),
            figure(of("network/received")),
            figure(median(&peer)),
        ]);
    }
    rows
}

fn over_time(entrants: &[Entrant<'_>]) -> Section {
    let chart = |title: &str, y: Axis, of: fn(&[Sample]) -> Vec<(f64, f64)>| {
        let drawn = entrants.iter().filter_map(|entrant| Some((entrant, entrant.outcomes.first()?)));
        let series = drawn
            .map(|(entrant, run)| Series { name: entrant.wanted.name().to_owned(), points: thinned(of(&run.samples)) });
        let series = series.filter(|series| !series.points.is_empty()).collect();
        Chart { title: title.to_owned(), x: Axis::log("time", "s"), y, kind: ChartKind::Lines, series }
    };
    let charts = vec![
        chart("Height", Axis::linear("height", "blocks"), |samples| {
            samples.iter().filter_map(|sample| Some((sample.at_s, sample.height? as f64))).collect()
        }),
        chart("Processors at work", Axis::linear("CPU time per time", "cores"), busy_cores),
        chart("Memory", Axis::linear("held", "MB"), |samples| of_bytes(samples, |sample| sample.memory_bytes)),
        chart("Written", Axis::linear("to the disk", "MB"), |samples| of_bytes(samples, |sample| sample.written_bytes)),
        chart("Received", Axis::linear("from the peer", "MB"), |samples| {
            let received = of_bytes(samples, |sample| sample.received_bytes);
            if received.last().is_some_and(|last| last.1 > 0.0) { received } else { Vec::new() }
        }),
    ];
    let text = "The first run of each node; time by orders of magnitude. libbitcoinkernel is not asked for its height.";
    Section { title: "Over time".to_owned(), text: vec![text.to_owned()], charts, tables: Vec::new() }
}

fn of_bytes(samples: &[Sample], of: fn(&Sample) -> u64) -> Vec<(f64, f64)> {
    samples.iter().map(|sample| (sample.at_s, of(sample) as f64 / 1e6)).collect()
}

/// CPU time between samples at least half a second apart, by the time between them: ticks are of 10 ms.
fn busy_cores(samples: &[Sample]) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    let Some(mut before) = samples.first() else { return points };
    for sample in samples {
        let time_s = sample.at_s - before.at_s;
        if time_s >= 0.5 {
            points.push((sample.at_s, (sample.cpu_s - before.cpu_s) / time_s));
            before = sample;
        }
    }
    points
}

fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let points: Vec<(f64, f64)> = points.into_iter().filter(|point| point.0 >= DRAWN_FROM_S).collect();
    let step = points.len().div_ceil(POINTS_MAX).max(1);
    let last = points.len().saturating_sub(1);
    points.into_iter().enumerate().filter(|(at, _)| at % step == 0 || *at == last).map(|(_, point)| point).collect()
}

fn fairness(options: &ValidateOptions, entrants: &[Entrant<'_>]) -> Vec<String> {
    let mut notes = vec![
        "Every node checks every signature: no assumed-valid block, no checkpoint, and libbitcoinkernel only on regtest, where \
         it leaves nothing out."
            .to_owned(),
        "Assay counts as being at the tip when the tip is committed to the disk with its address index; the others when they \
         say so, their caches still in memory. \"Until ended\" is the time until the program, asked to stop, has ended: then all \
         are on the disk. No other node here builds an address index."
            .to_owned(),
        "The peer is this program; it shares the processors with the node that downloads, and its CPU time is in the table. \
         Files are read from a warm page cache."
            .to_owned(),
        "The limit is what libsecp256k1 would take for the signatures one at a time; whoever proves them in batches or lanes \
         can be below it."
            .to_owned(),
        "Memory is the sum over all processes of a node; what they share counts for each.".to_owned(),
    ];
    if options.source.blocks_from.is_none() {
        notes.push(
            "The chain is forged: its unspent outputs fit into everyone's memory, which those of the real chain do not. What \
             grows with them (reads from the disk above all) is not seen here."
                .to_owned(),
        );
    }
    let lacking = entrants.iter().filter(|entrant| entrant.wanted.lacks_taproot() && !entrant.outcomes.is_empty());
    let lacking: Vec<&str> = lacking.map(|entrant| entrant.wanted.name()).collect();
    if !lacking.is_empty() {
        let who = lacking.join(" and ");
        notes.push(format!("{who}: no taproot; its outputs are anyone's there, so fewer signatures are checked."));
    }
    if lacking.contains(&"bcoin") {
        notes.push(
            "bcoin: database in memory, signatures in JavaScript: its native modules are not asked for.".to_owned(),
        );
    }
    if options.crew.threads != machine::cores() {
        notes.push(format!("{} of {} cores' worth of threads.", options.crew.threads, machine::cores()));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_s: f64, cpu_s: f64) -> Sample {
        Sample { at_s, cpu_s, ..Sample::default() }
    }

    #[test]
    fn the_limit_is_checks_times_cost_by_cores() {
        let facts = ChainFacts {
            height: 10,
            tip: "t".to_owned(),
            block_bytes: 1_000,
            transactions: 20,
            inputs: 30,
            signatures: 100_000,
            check_ns: 30_000.0,
        };
        assert_eq!((facts.limit_s(1), facts.limit_s(4)), (3.0, 0.75));
        assert!(limit_text(&facts, 4).contains("0.75 s here: 100,000 checks of 30 us"), "{}", limit_text(&facts, 4));
    }

    #[test]
    fn busy_cores_are_cpu_time_by_time() {
        let samples = [sample(0.0, 0.0), sample(0.1, 9.0), sample(0.5, 1.0), sample(0.9, 1.1), sample(1.5, 1.5)];
        assert_eq!(busy_cores(&samples), [(0.5, 2.0), (1.5, 0.5)]);
        assert!(busy_cores(&[]).is_empty());
    }

    #[test]
    fn thinned_points_keep_both_ends() {
        let points: Vec<(f64, f64)> = (0..1_000).map(|at| (at.into(), 0.0)).collect();
        let thin = thinned(points);
        assert!(thin.len() <= POINTS_MAX + 1 && thin[0].0 == 1.0 && thin[thin.len() - 1].0 == 999.0, "{}", thin.len());
        assert_eq!(thinned(vec![(1.0, 2.0)]), [(1.0, 2.0)]);
    }
}
