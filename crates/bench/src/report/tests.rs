//! Reports as files: nothing lost, nothing from outside, nothing that a name could break.

use super::*;
use crate::statistics::Verdict;

/// A name that would end an attribute, an element and a table cell.
const NASTY: &str = "a<b>&\"c\" 'd' | e`f\u{1}";

fn chart(kind: ChartKind, points: Vec<(f64, f64)>) -> Chart {
    let series = ["first", NASTY].map(|name| Series { name: name.to_owned(), points: points.clone() });
    let (x, y) = (Axis::log("entries", ""), Axis::linear(NASTY, "ms"));
    Chart { title: format!("Title {NASTY}"), x, y, kind, series: series.to_vec() }
}

fn report() -> Report {
    let mut report = Report::new("sample", &format!("A report of {NASTY}"));
    report.contestants = ["first", NASTY]
        .map(|name| Contestant {
            name: name.to_owned(),
            version: NASTY.to_owned(),
            settings: vec![(NASTY.to_owned(), "1".to_owned())],
        })
        .to_vec();
    report.fairness = vec![NASTY.to_owned()];
    let figure = Figure { id: "balance/10 entries/warm", what: NASTY, unit: "ms", better: Better::Lower };
    for (first, second) in [(1.0, 4.0), (2.0, 5.0), (3.0, 6.0)] {
        report.add(&figure, "first", first);
        report.add(&figure, NASTY, second);
    }
    let mut rows = Rows::new(&["who", "s"]);
    rows.row(vec![NASTY.to_owned(), "1.5".to_owned()]);
    let points = vec![(1.0, 2.0), (10.0, 3.0), (0.0, 4.0), (100.0, f64::MAX)];
    let mut charts =
        [ChartKind::Scatter, ChartKind::Lines, ChartKind::Bars].map(|kind| chart(kind, points.clone())).to_vec();
    charts.push(chart(ChartKind::Lines, (1..4_000).map(|x| (x.into(), f64::from(x % 7))).collect()));
    charts.push(chart(ChartKind::Scatter, (1..400).map(|x| (x.into(), f64::from(x % 7))).collect()));
    charts.push(chart(ChartKind::Bars, vec![(0.0, 3.0)]));
    charts.push(chart(ChartKind::Scatter, Vec::new()));
    report.sections =
        vec![Section { title: NASTY.to_owned(), text: vec![NASTY.to_owned()], charts, tables: vec![rows] }];
    report
}

/// Elements open and close in order, attributes are quoted, `&` begins an entity. HTML's elements without an end are few.
fn well_formed(text: &str) -> Result<(), String> {
    const VOID: [&str; 2] = ["meta", "!doctype"];
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        let between = &rest[..start];
        if between.contains('>') && open.last() != Some(&"style") {
            return Err(format!("`>` in {between:?}"));
        }
        for (at, _) in between.match_indices('&') {
            if !["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"].iter().any(|entity| between[at..].starts_with(entity)) {
                return Err(format!("`&` in {between:?}"));
            }
        }
        let end = rest[start..].find('>').ok_or("a tag without an end")? + start;
        let tag = &rest[start + 1..end];
        if tag.matches('"').count() % 2 != 0 || tag.contains('<') {
            return Err(format!("quotes of <{tag}>"));
        }
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap_or_default();
        match (tag.starts_with('/'), tag.ends_with('/') || VOID.contains(&name)) {
            (true, _) if open.pop() != Some(name) => return Err(format!("</{name}> ends {open:?}")),
            (false, false) => open.push(name),
            _ => {}
        }
        rest = &rest[end + 1..];
    }
    if open.is_empty() { Ok(()) } else { Err(format!("{open:?} stay open")) }
}

#[test]
fn the_checker_of_forms_finds_faults() {
    for good in ["<a><b/>x</a>", "<a b=\"c\">&amp;</a>", "<meta a=\"b\"><p></p>"] {
        assert_eq!(well_formed(good), Ok(()), "{good}");
    }
    for bad in ["<a>", "<a></b>", "<a b=\"c></a>", "<a>&b;</a>", "<a>b > c</a>", "<a"] {
        assert!(well_formed(bad).is_err(), "{bad}");
    }
}

#[test]
fn pages_and_charts_are_well_formed_whatever_the_names_are() {
    let report = report();
    let page = html::page(&report);
    assert_eq!(well_formed(&page), Ok(()));
    for chart in report.charts() {
        let file = svg::file(chart, &report.names());
        assert_eq!(well_formed(&file), Ok(()), "{:?}", chart.kind);
        assert!(!file.contains("NaN") && !file.contains("inf"), "{file}");
    }
    assert!(!page.contains(NASTY) && page.contains("a&lt;b&gt;&amp;&quot;c&quot; &#39;d&#39; | e`f\u{fffd}"));
}

#[test]
fn a_page_needs_nothing_from_outside() {
    let page = html::page(&report());
    for word in ["http:", "https:", "src=", "url(", "@import", "<script", "<link", "//"] {
        assert!(!page.contains(word), "{word}");
    }
    let links: Vec<&str> =
        page.match_indices("href=\"").filter_map(|(at, _)| page[at + 6..].split('"').next()).collect();
    assert_eq!(links, ["sample.json", "sample.md"], "all else is in the page");
    assert!(page.contains("prefers-color-scheme:dark"));
}

#[test]
fn markdown_keeps_its_tables_whatever_the_names_are() {
    let page = markdown::page(&report());
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with('|')).collect();
    let cells = |row: &str| row.replace("\\|", "").matches('|').count();
    assert!(rows.len() > 10 && rows.iter().all(|row| cells(row) >= 3), "{page}");
    assert!(page.contains("![Title a\\<b\\>&\"c\" 'd' \\| e\\`f") && page.contains("](sample-7.svg)"), "{page}");
    let values = rows.iter().find(|row| row.contains("4 to 6")).expect("the second contestant's row");
    assert!(values.contains("| ms | 5 | 4 to 6 (75 %) | 3 | 2.5 (1.33 to 6) | worse |"), "{values}");
}

#[test]
fn a_report_is_the_same_after_its_journey_through_json() {
    let mut report = report();
    report.sections[0].charts[0].series[0].points.retain(|point| point.1 < 1e9);
    let folder = crate::sample::Scratch::new(&std::env::temp_dir(), "report-test").unwrap();
    report.write(folder.path()).unwrap();
    let again = Report::read(&folder.path().join("sample.json")).unwrap();
    assert_eq!(again, report);
    assert_eq!(std::fs::read_to_string(folder.path().join("sample.html")).unwrap(), html::page(&again));
    assert!(folder.path().join("sample-1.svg").exists() && folder.path().join("sample-7.svg").exists());
    let text =
        std::fs::read_to_string(folder.path().join("sample.json")).unwrap().replace("\"format\":1", "\"format\":2");
    let other = folder.path().join("other.json");
    std::fs::write(&other, text).unwrap();
    assert!(Report::read(&other).unwrap_err().to_string().contains("format 2, this program reads 1"));
    std::fs::write(&other, "{}").unwrap();
    assert!(Report::read(&other).unwrap_err().to_string().contains("no report"));
}

#[test]
fn two_reports_are_compared_measure_by_measure() {
    let first = report();
    let mut second = first.clone();
    second.measures[0].values = vec![4.0, 6.0, 5.0];
    second.measures[1].id = "other".to_owned();
    let text = compare::text(&first, &second);
    assert!(text.contains("balance/10 entries/warm  "), "{text}");
    let row = text.lines().find(|line| line.starts_with("balance")).unwrap();
    // By hand: medians 2 and 5; intervals are the ranges; the ratio's ends are 4 / 3 and 6 / 1.
    assert!(row.contains("1 to 3 (75 %)") && row.contains("4 to 6 (75 %)") && row.contains("2.5 (1.33 to 6)"), "{row}");
    assert!(row.ends_with(&Verdict::Worse.to_string()), "{row}");
    assert!(text.contains("only in A: balance/10 entries/warm of") && text.contains("only in B: other of"), "{text}");
    assert!(text.ends_with("B is better in 0, worse in 1; 0 without a conclusion\n"), "{text}");
    assert!(!text.contains("machines differ"));
    second.machine.cores = Some(1_000);
    assert!(compare::text(&first, &second).contains("the machines differ"));
}
