//! Tables on a terminal, figures as people read them, JSON for programs.
//!
//! In:     rows of texts; numbers; a JSON value.
//! Out:    aligned columns; texts with units; a file.
//! Fails:  with the file's path.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::model::Rows;
use crate::{BenchError, at};

/// A table whose first column is left and the others right aligned.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// With these headings; units belong into them or into every cell.
    pub fn new(headings: &[&str]) -> Table {
        Table { rows: vec![headings.iter().map(|&text| text.to_owned()).collect()] }
    }

    /// The same as in a report.
    pub fn of(rows: &Rows) -> Table {
        Table { rows: std::iter::once(&rows.headings).chain(&rows.rows).cloned().collect() }
    }

    /// One more row.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.rows[0].len(), "as many cells as headings");
        self.rows.push(cells);
    }

    /// The whole table.
    pub fn text(&self) -> String {
        let width = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.rows[0].len()).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = format!("{:<1$}", row[0], widths[0]);
            for (cell, width) in row.iter().zip(&widths).skip(1) {
                line.push_str(&format!("  {cell:>width$}"));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Bytes with three digits and a decimal unit.
pub fn bytes(count: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = if unit == 0 || value >= 99.95 { 0 } else { 1 };
    format!("{value:.digits$} {}", units[unit])
}

/// A count with separators of thousands.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with the three digits that count, thousands apart.
pub fn figure(value: f64) -> String {
    let size = value.abs();
    match size {
        0.0 => "0".to_owned(),
        large if large >= 99.95 => {
            let sign = if value < 0.0 { "-" } else { "" };
            format!("{sign}{}", count(size.round() as u64))
        }
        small if small < 0.000_999_5 => format!("{value:.1e}"),
        _ => {
            let digits = (2 - size.log10().floor() as i32).clamp(1, 5) as usize;
            let text = format!("{value:.digits$}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    }
}

/// Writes the report where one was asked for.
pub fn write_json(path: Option<&Path>, report: &Value) -> Result<(), BenchError> {
    let Some(path) = path else { return Ok(()) };
    let text = serde_json::to_string_pretty(report).expect("a value made of texts and numbers") + "\n";
    fs::write(path, text).map_err(at(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_shown_as_people_read_them() {
        for (value, want) in [
            (0.0, "0"),
            (1.0, "1"),
            (-1.256, "-1.26"),
            (12.34, "12.3"),
            (99.94, "99.9"),
            (99.96, "100"),
            (1_234.5, "1,235"),
            (-1_000_000.0, "-1,000,000"),
            (0.012_345, "0.0123"),
            (0.001, "0.001"),
            (0.000_12, "1.2e-4"),
        ] {
            assert_eq!(figure(value), want);
        }
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_000), "1.0 kB");
        assert_eq!(bytes(999_949), "1.0 MB");
        assert_eq!(bytes(134_217_728), "134 MB");
        assert_eq!(count(0), "0");
        assert_eq!(count(1_234_567), "1,234,567");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["who", "s"]);
        table.row(vec!["a".to_owned(), "10.5".to_owned()]);
        table.row(vec!["longer".to_owned(), "2".to_owned()]);
        assert_eq!(table.text(), "who        s\na       10.5\nlonger     2\n");
    }
}
