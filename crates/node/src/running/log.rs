//! The log: one line an event, `key=value`, UTC, to standard error; and the one line of a terminal that is refreshed.
//!
//! In:     an event's level, area, name and fields.
//! Out:    `2026-11-21T04:31:10Z level=info area=node event=started chain=regtest`.
//! Fails:  never: when standard error is closed, lines are lost and the node goes on.

use std::fmt::{Display, Write as _};
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::config::LogLevel;

/// Fields of a line.
pub type Fields<'a> = &'a [(&'a str, &'a dyn Display)];

static LEVEL: AtomicU8 = AtomicU8::new(LogLevel::Info as u8);
/// The refreshed line as it stands in the terminal; empty for none.
static LIVE: Mutex<String> = Mutex::new(String::new());

/// Lines less important than this are not written.
pub fn set_level(level: LogLevel) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

/// True when standard error is a terminal a person may look at.
pub fn is_live() -> bool {
    std::io::stderr().is_terminal()
}

/// Something was lost, or the node stops.
pub fn error(area: &str, event: &str, fields: Fields) {
    line(LogLevel::Error, area, event, fields);
}

/// Somebody should look.
pub fn warn(area: &str, event: &str, fields: Fields) {
    line(LogLevel::Warn, area, event, fields);
}

/// What happened.
pub fn info(area: &str, event: &str, fields: Fields) {
    line(LogLevel::Info, area, event, fields);
}

/// Details for the hunter of a bug.
pub fn debug(area: &str, event: &str, fields: Fields) {
    line(LogLevel::Debug, area, event, fields);
}

/// Replaces the terminal's last line by `text`; an empty text takes it away.
pub fn live(text: &str) {
    let mut live = LIVE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
    text.clone_into(&mut live);
}

fn line(level: LogLevel, area: &str, event: &str, fields: Fields) {
    if level as u8 > LEVEL.load(Ordering::Relaxed) {
        return;
    }
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |past| past.as_secs());
    let text = format_line(now_s, level, area, event, fields);
    let live = LIVE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut stderr = std::io::stderr().lock();
    let _ = if live.is_empty() { writeln!(stderr, "{text}") } else { write!(stderr, "\r\x1b[K{text}\n{live}") };
}

fn format_line(now_s: u64, level: LogLevel, area: &str, event: &str, fields: Fields) -> String {
    let level = match level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
    };
    let mut text = format!("{} level={level} area={area} event={}", utc(now_s), quoted(event));
    for (key, value) in fields {
        let _ = write!(text, " {key}={}", quoted(&value.to_string()));
    }
    text
}

/// Values with spaces or signs are quoted, so that a line stays one line whatever is in it.
fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '=' | '\\');
    if !value.is_empty() && value.chars().all(plain) { value.to_owned() } else { format!("{value:?}") }
}

/// Seconds since 1970 as `2026-11-21T04:31:10Z`.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
pub fn utc(unix_s: u64) -> String {
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3_600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_utc() {
        for (unix_s, want) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_827_696, "2000-02-29T12:34:56Z"),
            (1_231_006_505, "2009-01-03T18:15:05Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(unix_s), want);
        }
    }

    #[test]
    fn a_line_stays_one_line() {
        let line = format_line(0, LogLevel::Warn, "node", "two words", &[("why", &"a\n\"b\""), ("n", &7), ("e", &"")]);
        assert_eq!(
            line,
            "1970-01-01T00:00:00Z level=warn area=node event=\"two words\" why=\"a\\n\\\"b\\\"\" n=7 e=\"\""
        );
    }
}
