//! Reports: what a bench found, for people and for programs.
//!
//! In:     a [`Report`]; or rows of texts for a terminal.
//! Out:    `<bench>.html` (one file that needs no other), `<bench>.md` with its charts as `<bench>-<n>.svg`, and
//!         `<bench>.json`, from which the other two can be made again; [`compare`]: two of the latter side by side.
//! Fails:  with the path that cannot be written.

pub mod compare;
mod html;
mod markdown;
mod measures;
mod model;
mod scale;
mod svg;
mod text;

pub use crate::statistics::{Better, least, median};
pub use model::{Axis, Chart, ChartKind, Contestant, Figure, Report, Rows, Section, Series};
pub use text::{Table, bytes, count, figure, write_json};

use std::fs;
use std::path::Path;

use crate::{BenchError, at};

impl Report {
    /// Writes all its forms into `folder`, which is made where there is none.
    pub fn write(&self, folder: &Path) -> Result<(), BenchError> {
        fs::create_dir_all(folder).map_err(at(folder))?;
        let put = |name: String, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).map_err(at(&path))
        };
        let json = serde_json::to_string(self).expect("texts and numbers") + "\n";
        put(format!("{}.json", self.bench), &json)?;
        put(format!("{}.html", self.bench), &html::page(self))?;
        put(format!("{}.md", self.bench), &markdown::page(self))?;
        for (number, chart) in self.charts().enumerate() {
            put(markdown::chart_file(&self.bench, number), &svg::file(chart, &self.names()))?;
        }
        Ok(())
    }

    /// Reads a report that was written as JSON.
    pub fn read(path: &Path) -> Result<Report, BenchError> {
        let text = fs::read_to_string(path).map_err(at(path))?;
        let report: Report = serde_json::from_str(&text)
            .map_err(|error| BenchError::Usage(format!("{}: no report: {error}", path.display())))?;
        match report.format {
            model::FORMAT => Ok(report),
            other => {
                let text = format!("{}: format {other}, this program reads {}", path.display(), model::FORMAT);
                Err(BenchError::Usage(text))
            }
        }
    }

    fn charts(&self) -> impl Iterator<Item = &Chart> {
        self.sections.iter().flat_map(|section| &section.charts)
    }

    /// Names of the contestants, whose places decide their colours.
    fn names(&self) -> Vec<&str> {
        self.contestants.iter().map(|contestant| &*contestant.name).collect()
    }
}

#[cfg(test)]
mod tests;
