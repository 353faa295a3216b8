//! What a report is made of.
//!
//! In:     what a bench measured and wants to say.
//! Out:    [`Report`], which goes to JSON and back unchanged.
//! Fails:  never; numbers that JSON cannot hold (infinite, or none) do not belong into values.

use std::path::Path;

use serde::{Deserialize, Serialize};
use stdx::clock::{Clock, SystemClock, utc};

use crate::machine::{self, Machine};
use crate::noise::Noise;
use crate::statistics::Better;

/// The number that says how a report is written; another one is not read.
pub const FORMAT: u32 = 1;

/// Everything a bench found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: u32,
    /// The bench's name, which is the name of its files: letters, digits and hyphens.
    pub bench: String,
    /// Its title.
    pub title: String,
    /// When, in UTC (RFC 3339).
    pub made_at: String,
    /// The command that made it; of paths only their last part.
    pub command: Vec<String>,
    /// Where.
    pub machine: Machine,
    /// Who took part. The first is the one that the others are held against.
    pub contestants: Vec<Contestant>,
    /// What is fair and what is not, a sentence or two each.
    pub fairness: Vec<String>,
    /// Whether the machine was quiet.
    pub noise: Noise,
    /// Every value.
    pub measures: Vec<Measure>,
    /// What is shown of it.
    pub sections: Vec<Section>,
}

/// Who took part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Contestant {
    /// The name in measures and charts.
    pub name: String,
    /// What it says its version is.
    pub version: String,
    /// What it was told, by name.
    pub settings: Vec<(String, String)>,
}

/// One figure of one contestant, measured several times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// What two reports are compared by: `balance/1000 entries/warm`. The same for all contestants.
    pub id: String,
    /// In words.
    pub what: String,
    /// The unit of the values.
    pub unit: String,
    /// Which values are good.
    pub better: Better,
    /// Whose.
    pub contestant: String,
    /// The values, in the order they were taken.
    pub values: Vec<f64>,
}

/// A part of the page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// Paragraphs.
    pub text: Vec<String>,
    /// Charts, below the text.
    pub charts: Vec<Chart>,
    /// Tables, below the charts.
    pub tables: Vec<Rows>,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rows {
    /// Heading of each column; units belong here or into every cell.
    pub headings: Vec<String>,
    /// As many cells in each row.
    pub rows: Vec<Vec<String>>,
}

/// How values are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChartKind {
    /// A mark for each point.
    Scatter,
    /// A line through the points, in their order.
    Lines,
    /// Lying bars: the value is `y`; `x` is the number of a group, from 0, named by [`Axis::names`].
    Bars,
}

/// A chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chart {
    /// Its title.
    pub title: String,
    /// To the right; of bars, the groups.
    pub x: Axis,
    /// Upwards; of bars, the values.
    pub y: Axis,
    /// How.
    pub kind: ChartKind,
    /// What. A series named like a contestant has its colour.
    pub series: Vec<Series>,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// What is counted.
    pub label: String,
    /// In which unit; empty for none.
    pub unit: String,
    /// By orders of magnitude; values of zero and less are then left out.
    pub log: bool,
    /// Names of the groups of bars.
    #[serde(default)]
    pub names: Vec<String>,
}

/// Points that belong together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// The points.
    pub points: Vec<(f64, f64)>,
}

impl Axis {
    /// Evenly spaced.
    pub fn linear(label: &str, unit: &str) -> Axis {
        Axis { label: label.to_owned(), unit: unit.to_owned(), ..Axis::default() }
    }

    /// By orders of magnitude.
    pub fn log(label: &str, unit: &str) -> Axis {
        Axis { log: true, ..Axis::linear(label, unit) }
    }

    /// The groups of bars.
    pub fn groups(names: Vec<String>) -> Axis {
        Axis { names, ..Axis::default() }
    }

    /// `label (unit)`.
    pub fn text(&self) -> String {
        if self.unit.is_empty() { self.label.clone() } else { format!("{} ({})", self.label, self.unit) }
    }
}

impl Rows {
    /// With these headings and no rows yet.
    pub fn new(headings: &[&str]) -> Rows {
        Rows { headings: headings.iter().map(|&heading| heading.to_owned()).collect(), rows: Vec::new() }
    }

    /// One more row.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.headings.len(), "as many cells as headings");
        self.rows.push(cells);
    }
}

impl Report {
    /// An empty one of this machine and moment.
    pub fn new(bench: &str, title: &str) -> Report {
        Report {
            format: FORMAT,
            bench: bench.to_owned(),
            title: title.to_owned(),
            made_at: utc(SystemClock::default().unix_s()),
            command: std::env::args().map(|word| without_folders(&word)).collect(),
            machine: machine::describe(),
            contestants: Vec::new(),
            fairness: Vec::new(),
            noise: Noise::default(),
            measures: Vec::new(),
            sections: Vec::new(),
        }
    }

    /// One more value of a figure; the first one names it.
    pub fn add(&mut self, of: &Figure<'_>, contestant: &str, value: f64) {
        assert!(value.is_finite(), "{}: {value} is no value", of.id);
        match self.measures.iter_mut().find(|measure| measure.id == of.id && measure.contestant == contestant) {
            Some(measure) => measure.values.push(value),
            None => self.measures.push(Measure {
                id: of.id.to_owned(),
                what: of.what.to_owned(),
                unit: of.unit.to_owned(),
                better: of.better,
                contestant: contestant.to_owned(),
                values: vec![value],
            }),
        }
    }

    /// All values of a figure of a contestant.
    pub fn values(&self, id: &str, contestant: &str) -> &[f64] {
        let measure = self.measures.iter().find(|measure| measure.id == id && measure.contestant == contestant);
        measure.map_or(&[], |measure| &measure.values)
    }
}

/// What a value is of.
#[derive(Clone, Copy, Debug)]
pub struct Figure<'a> {
    /// See [`Measure::id`].
    pub id: &'a str,
    /// See [`Measure::what`].
    pub what: &'a str,
    /// See [`Measure::unit`].
    pub unit: &'a str,
    /// See [`Measure::better`].
    pub better: Better,
}

/// A word of the command, its paths cut to their last part: where somebody keeps files concerns nobody.
fn without_folders(word: &str) -> String {
    let (name, value) = word.split_once('=').map_or(("", word), |(name, value)| (name, value));
    let last = Path::new(value).file_name().filter(|_| Path::new(value).is_absolute());
    let last = last.map_or(value.to_owned(), |last| last.to_string_lossy().into_owned());
    if name.is_empty() { last } else { format!("{name}={last}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_do_not_tell_where_files_are() {
        for (word, want) in [
            ("/a/b/assay", "assay"),
            ("--node", "--node"),
            ("bitcoind=/opt/core/bitcoind", "bitcoind=bitcoind"),
            ("tcp://127.0.0.1:50001", "tcp://127.0.0.1:50001"),
            ("./x", "./x"),
            ("/", "/"),
        ] {
            assert_eq!(without_folders(word), want);
        }
    }

    #[test]
    fn values_gather_below_their_figure_and_contestant() {
        let mut report = Report::new("x", "X");
        let figure = Figure { id: "a/b", what: "A of B", unit: "ms", better: Better::Lower };
        report.add(&figure, "one", 1.5);
        report.add(&figure, "two", 7.0);
        report.add(&figure, "one", 2.5);
        assert_eq!((report.values("a/b", "one"), report.values("a/b", "two")), (&[1.5, 2.5][..], &[7.0][..]));
        assert!(report.values("a/b", "three").is_empty() && report.values("a", "one").is_empty());
        assert_eq!(report.measures.len(), 2);
    }
}
