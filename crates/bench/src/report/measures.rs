//! Measures as rows: what each contestant's values say, beside the first's.
//!
//! In:     measures of one report, or of two.
//! Out:    one row for each measure and contestant, in the order they were taken.
//! Fails:  never.

use super::model::{Measure, Report, Rows};
use super::text::figure;
use crate::statistics::{Estimate, Ratio, estimate, ratio, verdict};

/// `12.3 to 14.5`, and how sure that is where it is not the usual 95 %.
pub fn interval_text(estimate: &Estimate) -> String {
    let range = format!("{} to {}", figure(estimate.low), figure(estimate.high));
    match estimate.confidence {
        usual if usual >= crate::statistics::CONFIDENCE => range,
        less => format!("{range} ({:.0} %)", less * 100.0),
    }
}

/// `1.32 (1.28 to 1.37)`.
pub fn ratio_text(ratio: &Ratio) -> String {
    format!("{} ({} to {})", figure(ratio.value), figure(ratio.low), figure(ratio.high))
}

/// All measures of a report.
pub fn table(report: &Report) -> Rows {
    let mut rows = Rows::new(&[
        "what",
        "contestant",
        "unit",
        "median",
        "95 % interval",
        "values",
        "times the first's",
        "beside the first",
    ]);
    for measure in &report.measures {
        let Some(own) = estimate(&measure.values) else { continue };
        let reference = reference_of(report, measure);
        let (times, said) = match reference {
            Some(first) => (
                ratio(&measure.values, &first.values).map_or("-".to_owned(), |ratio| ratio_text(&ratio)),
                verdict(&measure.values, &first.values, measure.better).to_string(),
            ),
            None => ("1".to_owned(), "-".to_owned()),
        };
        rows.row(vec![
            measure.what.clone(),
            measure.contestant.clone(),
            measure.unit.clone(),
            figure(own.median),
            interval_text(&own),
            own.count.to_string(),
            times,
            said,
        ]);
    }
    rows
}

/// The same figure of the first contestant that has it; none where that is this one.
fn reference_of<'a>(report: &'a Report, measure: &Measure) -> Option<&'a Measure> {
    let place = |measure: &Measure| {
        report.contestants.iter().position(|contestant| contestant.name == measure.contestant).unwrap_or(usize::MAX)
    };
    let same = report.measures.iter().filter(|other| other.id == measure.id);
    let first = same.min_by_key(|other| place(other))?;
    (first.contestant != measure.contestant).then_some(first)
}
