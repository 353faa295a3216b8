//! Charts as SVG.
//!
//! In:     a [`Chart`], the names of the contestants.
//! Out:    one `svg` element: for a page whose style sheet has the colours, or as a file of its own.
//! Fails:  never; points that have no place on the axes are left out.
//! Source: Okabe and Ito, "Color Universal Design", 2008: eight colours that people with any colour vision can tell
//!         apart. Marks and dashes differ too, for paper and for whoever sees no colour at all.

use std::fmt::Write;

use super::model::{Axis, Chart, ChartKind, Series};
use super::scale::{Scale, tick_text};
use super::text::figure;

/// Colours of both forms and the shapes of text and lines.
pub const STYLE: &str = include_str!("chart.css");

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 18.0;
const BOTTOM: f64 = 50.0;
/// Title and the first line of the legend.
const TOP: f64 = 30.0;
const LEGEND_LINE: f64 = 18.0;
/// About the width of a letter of 13 pixels.
const LETTER: f64 = 7.2;
const BAR: f64 = 16.0;
/// Colours there are.
const COLOURS: usize = 8;
/// Marks are told about by a tooltip each, up to so many of a series.
const TOOLTIPS_MAX: usize = 120;
/// Columns of a line's points; more points than two for each are drawn as the least and the most of their column.
const COLUMNS: usize = 600;

/// Marks, drawn from their middle.
const MARKS: [&str; 7] = [
    "m-3.2,0a3.2,3.2 0 1,0 6.4,0a3.2,3.2 0 1,0 -6.4,0z",
    "m-2.9,-2.9h5.8v5.8h-5.8z",
    "m0,-3.8l3.6,6.4h-7.2z",
    "m0,-4.2l4.2,4.2l-4.2,4.2l-4.2,-4.2z",
    "m-3.2,-3.2l1.2,-1.2l2,2l2,-2l1.2,1.2l-2,2l2,2l-1.2,1.2l-2,-2l-2,2l-1.2,-1.2l2,-2z",
    "m0,3.8l3.6,-6.4h-7.2z",
    "m-0.9,-3.9h1.8v3h3v1.8h-3v3h-1.8v-3h-3v-1.8h3z",
];

/// Text as it may stand in HTML and XML, in attributes too.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // XML has no place for these at all.
            control if control.is_control() && !matches!(control, '\n' | '\t') => out.push('\u{fffd}'),
            letter => out.push(letter),
        }
    }
    out
}

/// For a page.
pub fn element(chart: &Chart, names: &[&str]) -> String {
    draw(chart, names, "", "")
}

/// A file of its own.
pub fn file(chart: &Chart, names: &[&str]) -> String {
    let style = format!("<style>{STYLE}</style><rect class=\"paper\" width=\"100%\" height=\"100%\"/>");
    draw(chart, names, " xmlns=\"http://www.w3.org/2000/svg\"", &style)
}

fn draw(chart: &Chart, names: &[&str], attributes: &str, style: &str) -> String {
    let looks = looks(&chart.series, names);
    let (legend, lines) = legend(chart, &looks);
    let top = TOP + LEGEND_LINE * lines + 8.0;
    let (body, height) = match chart.kind {
        ChartKind::Bars => bars(chart, &looks, top),
        ChartKind::Scatter | ChartKind::Lines => (plane(chart, &looks, top), HEIGHT),
    };
    let title = escape(&chart.title);
    format!(
        "<svg class=\"chart\"{attributes} viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{title}\">\
         {style}<text class=\"title\" x=\"{LEFT}\" y=\"20\">{title}</text>{legend}{body}</svg>\n"
    )
}

/// A number for each series, which decides colour, mark and dash: a contestant's own, or the next that is free.
fn looks(series: &[Series], names: &[&str]) -> Vec<usize> {
    let mut free = names.len()..;
    let place = |series: &Series| names.iter().position(|name| *name == series.name);
    // Where no contestant is drawn, the first colours are as good.
    if series.iter().all(|series| place(series).is_none()) {
        free = 0..;
    }
    series.iter().map(|series| place(series).or_else(|| free.next()).expect("numbers do not end")).collect()
}

/// The legend, where there is more than one series, and its number of lines.
fn legend(chart: &Chart, looks: &[usize]) -> (String, f64) {
    if chart.series.len() < 2 || (chart.kind == ChartKind::Bars && is_one_group(chart)) {
        return (String::new(), 0.0);
    }
    let (mut out, mut x, mut line) = (String::new(), LEFT, 1.0);
    for (series, look) in chart.series.iter().zip(looks) {
        let width = 42.0 + LETTER * series.name.chars().count() as f64;
        if x + width > WIDTH - RIGHT && x > LEFT {
            (x, line) = (LEFT, line + 1.0);
        }
        let y = TOP + LEGEND_LINE * line - 6.0;
        let _ = write!(out, "<g class=\"s{}\">", look % COLOURS);
        if chart.kind == ChartKind::Lines {
            let _ = write!(out, "<path class=\"line d{}\" d=\"M{x:.1},{y:.1}h22\"/>", look % 5);
        }
        let _ = write!(out, "<path class=\"mark\" d=\"M{:.1},{y:.1}{}\"/></g>", x + 11.0, MARKS[look % MARKS.len()]);
        let _ = write!(out, "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>", x + 27.0, y + 4.0, escape(&series.name));
        x += width;
    }
    (out, line)
}

/// Points over two axes.
fn plane(chart: &Chart, looks: &[usize], top: f64) -> String {
    let values = |pick: fn(&(f64, f64)) -> f64| chart.series.iter().flat_map(|series| &series.points).map(pick);
    let (x, y) = (
        Scale::of(values(|point| point.0), chart.x.log, false),
        Scale::of(values(|point| point.1), chart.y.log, false),
    );
    let (wide, high) = (WIDTH - LEFT - RIGHT, HEIGHT - BOTTOM - top);
    let at_x = |value: f64| x.place(value).map(|place| LEFT + place * wide);
    let at_y = |value: f64| y.place(value).map(|place| top + (1.0 - place) * high);
    let mut out = String::from("<g class=\"grid\">");
    for tick in y.ticks.iter().filter_map(|tick| at_y(*tick)) {
        let _ = write!(out, "<path d=\"M{LEFT},{tick:.1}h{wide:.1}\"/>");
    }
    for tick in x.ticks.iter().filter_map(|tick| at_x(*tick)) {
        let _ = write!(out, "<path d=\"M{tick:.1},{top:.1}v{high:.1}\"/>");
    }
    out.push_str("</g>");
    for tick in &y.ticks {
        let at = at_y(*tick).unwrap_or(top) + 4.0;
        let _ = write!(out, "<text class=\"end\" x=\"{:.1}\" y=\"{at:.1}\">{}</text>", LEFT - 8.0, tick_text(*tick));
    }
    for tick in &x.ticks {
        let at = at_x(*tick).unwrap_or(LEFT);
        let _ = write!(
            out,
            "<text class=\"middle\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
            HEIGHT - BOTTOM + 18.0,
            tick_text(*tick)
        );
    }
    out.push_str(&labels(&chart.x, &chart.y, top, high));
    for (series, look) in chart.series.iter().zip(looks) {
        let placed =
            series.points.iter().filter_map(|&(x, y)| Some(Placed { x: at_x(x)?, y: at_y(y)?, value: (x, y) }));
        let placed: Vec<Placed> = placed.collect();
        let _ = write!(out, "<g class=\"s{}\">", look % COLOURS);
        match chart.kind {
            ChartKind::Lines => out.push_str(&line(&placed, *look, &series.name)),
            _ => out.push_str(&marks(&placed, *look, &series.name)),
        }
        out.push_str("</g>");
    }
    out
}

/// A point, and where it lies.
struct Placed {
    x: f64,
    y: f64,
    value: (f64, f64),
}

fn labels(x: &Axis, y: &Axis, top: f64, high: f64) -> String {
    let (middle_x, middle_y) = (LEFT + (WIDTH - LEFT - RIGHT) / 2.0, top + high / 2.0);
    format!(
        "<text class=\"middle label\" x=\"{middle_x:.1}\" y=\"{:.1}\">{}</text>\
         <text class=\"middle label\" transform=\"translate(14,{middle_y:.1}) rotate(-90)\">{}</text>",
        HEIGHT - 10.0,
        escape(&x.text()),
        escape(&y.text())
    )
}

fn marks(points: &[Placed], look: usize, name: &str) -> String {
    let shape = MARKS[look % MARKS.len()];
    if points.len() > TOOLTIPS_MAX {
        let mut out = String::from("<path class=\"mark many\" d=\"");
        points.iter().for_each(|point| out.push_str(&format!("M{:.1},{:.1}{shape}", point.x, point.y)));
        return out + "\"/>";
    }
    let mark = |point: &Placed| {
        let told = format!("{}: {}, {}", name, figure(point.value.0), figure(point.value.1));
        let (x, y) = (point.x, point.y);
        format!("<path class=\"mark\" d=\"M{x:.1},{y:.1}{shape}\"><title>{}</title></path>", escape(&told))
    };
    points.iter().map(mark).collect()
}

fn line(points: &[Placed], look: usize, name: &str) -> String {
    let mut out = format!("<path class=\"line d{}\" d=\"", look % 5);
    let thin: Vec<(f64, f64)> =
        if points.len() > 2 * COLUMNS { thinned(points) } else { points.iter().map(|p| (p.x, p.y)).collect() };
    for (index, (x, y)) in thin.iter().enumerate() {
        let _ = write!(out, "{}{x:.1},{y:.1}", if index == 0 { 'M' } else { 'L' });
    }
    out.push_str("\"/>");
    // A dozen marks tell lines apart; the first stands at another place on every line.
    let step = (points.len() / 12).max(1);
    let chosen =
        points.iter().enumerate().filter(|(index, _)| (index + look * step / 5) % step == 0).map(|(_, point)| point);
    let chosen: Vec<Placed> = chosen.map(|point| Placed { x: point.x, y: point.y, value: point.value }).collect();
    out + &marks(&chosen, look, name)
}

/// The least and the most of each column of the picture, in the order of the points.
fn thinned(points: &[Placed]) -> Vec<(f64, f64)> {
    let column = |point: &Placed| ((point.x - LEFT) / (WIDTH - LEFT - RIGHT) * COLUMNS as f64) as i64;
    let mut out = Vec::new();
    for group in points.chunk_by(|one, next| column(one) == column(next)) {
        let by_height = |one: &&Placed, other: &&Placed| one.y.total_cmp(&other.y);
        let (least, most) = (group.iter().min_by(by_height), group.iter().max_by(by_height));
        out.extend(least.into_iter().chain(most).map(|point| (point.x, point.y)));
    }
    out
}

fn is_one_group(chart: &Chart) -> bool {
    chart.series.iter().flat_map(|series| &series.points).all(|point| point.0 == 0.0)
}

/// Lying bars, group by group; returns the height of the picture too.
fn bars(chart: &Chart, looks: &[usize], top: f64) -> (String, f64) {
    let group_of = |point: &(f64, f64)| point.0.max(0.0) as usize;
    let all = || chart.series.iter().flat_map(|series| &series.points);
    let groups = all().map(group_of).max().map_or(0, |last| last.min(999) + 1);
    let scale = Scale::of(all().map(|point| point.1), chart.y.log, true);
    let alone = is_one_group(chart);
    let name_of = |group: usize| chart.x.names.get(group).cloned().unwrap_or_default();
    let names = (0..groups).map(name_of).chain(chart.series.iter().filter(|_| alone).map(|series| series.name.clone()));
    let longest = names.map(|name| name.chars().count()).max().unwrap_or(0) as f64;
    let left = (16.0 + LETTER * longest).clamp(LEFT, WIDTH / 2.5);
    // Behind the longest bar there is room for its number.
    let wide = WIDTH - RIGHT - left - 76.0;
    let (mut out, mut y) = (String::new(), top);
    for group in 0..groups {
        let start = y;
        for (series, look) in chart.series.iter().zip(looks) {
            for point in series.points.iter().filter(|point| group_of(point) == group) {
                let length = scale.place(point.1).map_or(0.0, |place| place.clamp(0.0, 1.0) * wide);
                let name = if alone { escape(&series.name) } else { String::new() };
                let told = format!("{} {}", figure(point.1), chart.y.unit);
                let _ = write!(
                    out,
                    "<text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{name}</text><g class=\"s{}\"><rect class=\"bar\" x=\"{left:.1}\" \
                     y=\"{y:.1}\" width=\"{length:.1}\" height=\"{BAR}\"/></g><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                    left - 8.0,
                    y + 12.5,
                    look % COLOURS,
                    left + length + 6.0,
                    y + 12.5,
                    escape(told.trim_end())
                );
                y += BAR + if alone { 8.0 } else { 2.0 };
            }
        }
        if !alone {
            let middle = (start + y) / 2.0 + 3.0;
            let _ = write!(
                out,
                "<text class=\"end\" x=\"{:.1}\" y=\"{middle:.1}\">{}</text>",
                left - 8.0,
                escape(&name_of(group))
            );
            y += 10.0;
        }
    }
    let label =
        format!("<text class=\"label\" x=\"{left:.1}\" y=\"{:.1}\">{}</text>", y + 14.0, escape(&chart.y.text()));
    let axis = format!("<g class=\"grid\"><path d=\"M{left:.1},{top:.1}V{y:.1}\"/></g>");
    (out + &axis + &label, y + 26.0)
}
