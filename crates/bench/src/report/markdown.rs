//! A report as Markdown, with its charts as files beside it.
//!
//! In:     a [`Report`].
//! Out:    the page; also the tables of contestants and of the machine, which the HTML page shows too.
//! Fails:  never; signs that Markdown would take for its own are escaped.

use std::fmt::Write;

use super::measures;
use super::model::{Report, Rows};
use super::text::{bytes, count};

/// What the table of all measures says.
pub const MEASURES_NOTE: &str = "Intervals hold the true median in 95 of 100 cases (bootstrap), or as often as they say \
     where fewer than six values were taken. Where two intervals overlap, nothing follows from the difference.";

/// The name of a chart's file.
pub fn chart_file(bench: &str, number: usize) -> String {
    format!("{bench}-{}.svg", number + 1)
}

/// The whole page.
pub fn page(report: &Report) -> String {
    let mut out = format!("# {}\n\n", plain(&report.title));
    let _ = write!(
        out,
        "Made {} by {}. Every value: [{}.json]({}.json); with tooltips: [{}.html]({}.html).\n\n    {}\n\n{}.\n",
        report.made_at,
        plain(&report.machine.program),
        report.bench,
        report.bench,
        report.bench,
        report.bench,
        report.command.join(" ").replace('\n', " "),
        plain(&report.noise.text())
    );
    let mut number = 0;
    for section in &report.sections {
        let _ = write!(out, "\n## {}\n", plain(&section.title));
        section.text.iter().for_each(|text| out.push_str(&format!("\n{}\n", plain(text))));
        for chart in &section.charts {
            let _ = write!(out, "\n![{}]({})\n", plain(&chart.title), chart_file(&report.bench, number));
            number += 1;
        }
        section.tables.iter().for_each(|rows| out.push_str(&format!("\n{}", table(rows))));
    }
    if !report.fairness.is_empty() {
        out.push_str("\n## What is fair and what is not\n\n");
        report.fairness.iter().for_each(|note| out.push_str(&format!("- {}\n", plain(note))));
    }
    let _ = write!(out, "\n## Who took part\n\n{}", table(&contestants(report)));
    let _ = write!(out, "\n## Where\n\n{}", table(&machine(report)));
    if !report.measures.is_empty() {
        let _ = write!(out, "\n## Every measure\n\n{MEASURES_NOTE}\n\n{}", table(&measures::table(report)));
    }
    out
}

/// Name, version and settings of everyone.
pub fn contestants(report: &Report) -> Rows {
    let mut rows = Rows::new(&["contestant", "version", "settings"]);
    for contestant in &report.contestants {
        let settings: Vec<String> = contestant.settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
        rows.row(vec![contestant.name.clone(), contestant.version.clone(), settings.join(", ")]);
    }
    rows
}

/// The machine.
pub fn machine(report: &Report) -> Rows {
    let machine = &report.machine;
    let mut rows = Rows::new(&["machine", ""]);
    let mut fact = |name: &str, value: Option<String>| {
        rows.row(vec![name.to_owned(), value.unwrap_or_else(|| "unknown".to_owned())]);
    };
    fact("processor", machine.processor.clone());
    fact("cores", machine.cores.map(|cores| count(cores as u64)));
    fact("instructions", Some(machine.instructions.join(", ")));
    fact("memory", machine.memory_bytes.map(bytes));
    fact("disk", machine.disk.clone());
    fact("kernel", machine.system.clone());
    rows
}

/// A table; its first column is left aligned, the others right.
pub fn table(rows: &Rows) -> String {
    let line =
        |cells: &[String]| format!("| {} |\n", cells.iter().map(|cell| plain(cell)).collect::<Vec<_>>().join(" | "));
    let aligned = (0..rows.headings.len()).map(|column| if column == 0 { "---" } else { "---:" });
    let aligned = format!("| {} |\n", aligned.collect::<Vec<_>>().join(" | "));
    line(&rows.headings) + &aligned + &rows.rows.iter().map(|row| line(row)).collect::<String>()
}

/// Text that Markdown shows as it is.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\r' => out.push(' '),
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' => {
                out.push('\\');
                out.push(letter);
            }
            letter => out.push(letter),
        }
    }
    out
}
