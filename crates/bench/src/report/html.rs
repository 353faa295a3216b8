//! A report as one HTML file: no script, no font, no picture from anywhere else.
//!
//! In:     a [`Report`].
//! Out:    the page: sections with charts and tables, then every measure, who took part, where, and what is fair.
//! Fails:  never; all texts are escaped.

use std::fmt::Write;

use super::model::{Report, Rows, Section};
use super::svg::{self, escape};
use super::{markdown, measures};

const STYLE: &str = include_str!("page.css");

/// The whole page.
pub fn page(report: &Report) -> String {
    let title = escape(&report.title);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{STYLE}{}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n",
        svg::STYLE
    );
    let bench = escape(&report.bench);
    let _ = write!(
        out,
        "<p class=\"soft\">Made {} by <code>{}</code>. Every value: <a href=\"{bench}.json\">{bench}.json</a>; \
         as text: <a href=\"{bench}.md\">{bench}.md</a>.</p>\n<code class=\"command\">{}</code>\n",
        escape(&report.made_at),
        escape(&report.machine.program),
        escape(&report.command.join(" "))
    );
    let class = if report.noise.is_noisy() { "noisy" } else { "soft" };
    let _ = writeln!(out, "<p class=\"{class}\">{}.</p>", escape(&report.noise.text()));
    let names = report.names();
    report.sections.iter().for_each(|section| out.push_str(&part(section, &names)));
    if !report.fairness.is_empty() {
        out.push_str("<h2>What is fair and what is not</h2>\n<ul>\n");
        report.fairness.iter().for_each(|note| out.push_str(&format!("<li>{}</li>\n", escape(note))));
        out.push_str("</ul>\n");
    }
    let _ = write!(out, "<h2>Who took part</h2>\n{}", table(&markdown::contestants(report), "facts"));
    let _ = write!(out, "<h2>Where</h2>\n{}", table(&markdown::machine(report), "facts"));
    if !report.measures.is_empty() {
        let _ = write!(
            out,
            "<details>\n<summary>Every measure</summary>\n<p class=\"soft\">{}</p>\n{}</details>\n",
            escape(markdown::MEASURES_NOTE),
            table(&measures::table(report), "")
        );
    }
    out + "</main>\n</body>\n</html>\n"
}

fn part(section: &Section, names: &[&str]) -> String {
    let mut out = format!("<section>\n<h2>{}</h2>\n", escape(&section.title));
    section.text.iter().for_each(|text| out.push_str(&format!("<p>{}</p>\n", escape(text))));
    if !section.charts.is_empty() {
        out.push_str("<div class=\"charts\">\n");
        section
            .charts
            .iter()
            .for_each(|chart| out.push_str(&format!("<figure>{}</figure>\n", svg::element(chart, names))));
        out.push_str("</div>\n");
    }
    section.tables.iter().for_each(|rows| out.push_str(&table(rows, "")));
    out + "</section>\n"
}

fn table(rows: &Rows, class: &str) -> String {
    let mut out = format!("<div class=\"table\"><table class=\"{class}\">\n<thead><tr>");
    rows.headings.iter().for_each(|heading| out.push_str(&format!("<th>{}</th>", escape(heading))));
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &rows.rows {
        out.push_str("<tr>");
        row.iter().for_each(|cell| out.push_str(&format!("<td>{}</td>", escape(cell))));
        out.push_str("</tr>\n");
    }
    out + "</tbody></table></div>\n"
}
