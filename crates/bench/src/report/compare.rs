//! `assay bench compare`: two reports of the same bench, measure by measure.
//!
//! In:     two reports as JSON.
//! Out:    a row for each measure and contestant that both have: medians, intervals, how many times the second is of the
//!         first, and what follows; then what only one of them has.
//! Fails:  when a file is no report. A difference is no failure.

use super::measures::{interval_text, ratio_text};
use super::model::{Measure, Report};
use super::text::{Table, figure};
use crate::BenchError;
use crate::arguments::CompareOptions;
use crate::statistics::{Better, Verdict, estimate, ratio, verdict};

/// Reads both and prints.
pub fn bench(options: &CompareOptions) -> Result<(), BenchError> {
    let (first, second) = (Report::read(&options.first)?, Report::read(&options.second)?);
    print!("{}", text(&first, &second));
    Ok(())
}

/// The comparison in words.
pub fn text(first: &Report, second: &Report) -> String {
    let mut out = format!("A: {}, {}\nB: {}, {}\n", first.title, first.made_at, second.title, second.made_at);
    for (name, report) in [("A", first), ("B", second)] {
        out.push_str(&format!("{name}: {}\n", report.noise.text()));
    }
    if first.machine.processor != second.machine.processor || first.machine.cores != second.machine.cores {
        out.push_str("the machines differ: their figures say nothing about the programs\n");
    }
    let mut table = Table::new(&["measure", "contestant", "unit", "A", "interval", "B", "interval", "B / A", "B is"]);
    let (mut lone, mut told) = (Vec::new(), [0usize; 4]);
    for measure in &first.measures {
        let Some(other) = second.measures.iter().find(|other| is_same(measure, other)) else {
            lone.push(format!("only in A: {} of {}", measure.id, measure.contestant));
            continue;
        };
        let (Some(a), Some(b)) = (estimate(&measure.values), estimate(&other.values)) else { continue };
        let said = verdict(&other.values, &measure.values, measure.better);
        told[said as usize] += 1;
        table.row(vec![
            measure.id.clone(),
            measure.contestant.clone(),
            match measure.better {
                Better::Lower => measure.unit.clone(),
                Better::Higher => format!("{} (more is better)", measure.unit),
            },
            figure(a.median),
            interval_text(&a),
            figure(b.median),
            interval_text(&b),
            ratio(&other.values, &measure.values).map_or("-".to_owned(), |ratio| ratio_text(&ratio)),
            said.to_string(),
        ]);
    }
    let of_second =
        second.measures.iter().filter(|other| !first.measures.iter().any(|measure| is_same(measure, other)));
    lone.extend(of_second.map(|measure| format!("only in B: {} of {}", measure.id, measure.contestant)));
    out.push_str(&table.text());
    lone.iter().for_each(|line| out.push_str(&format!("{line}\n")));
    let of = |verdict: Verdict| told[verdict as usize];
    let open = of(Verdict::Overlap) + of(Verdict::TooFew);
    out + &format!(
        "B is better in {}, worse in {}; {open} without a conclusion\n",
        of(Verdict::Better),
        of(Verdict::Worse)
    )
}

fn is_same(one: &Measure, other: &Measure) -> bool {
    one.id == other.id && one.contestant == other.contestant && one.unit == other.unit
}
