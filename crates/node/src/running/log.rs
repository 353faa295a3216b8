//! The log: one line an event, `key=value`, UTC, to standard error; and the one line of a terminal that is refreshed.
//!
//! In:     an event's level, area, name and fields.
//! Out:    `2026-11-21T04:31:10Z level=info area=node event=started chain=regtest`; all of it in a file too, where the
//!         settings name one, and there what the crates below say in Bitcoin Core's words: `<time> [net] text`. A place of
//!         the program that says too much is silent in the file for the rest of an hour.
//! Fails:  never while it runs: where standard error or the file cannot be written, lines are lost and the node goes on.
//! Source: Bitcoin Core, `src/logging.cpp` (`LogPrefix`, `GetLogPrefix`) for the file's other lines, `LogRateLimiter` (its
//!         lines about peers can be switched off and are not limited; ours cannot, and are).

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::panic::Location;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use stdx::clock::utc;

use crate::config::LogLevel;

/// Fields of a line.
pub type Fields<'a> = &'a [(&'a str, &'a dyn Display)];

static LEVEL: AtomicU8 = AtomicU8::new(LogLevel::Info as u8);
/// The refreshed line as it stands in the terminal; empty for none.
static LIVE: Mutex<String> = Mutex::new(String::new());

/// The file of the settings.
static FILE: OnceLock<File> = OnceLock::new();
/// What each place of the program may add to the file; none where that is not bounded.
static LIMITER: Mutex<Option<Limiter>> = Mutex::new(None);
/// Bytes of one place in one window; Core's `RATELIMIT_MAX_BYTES` and `RATELIMIT_WINDOW`.
const PLACE_BYTES_MAX: u64 = 1 << 20;
const WINDOW_S: u64 = 3_600;
/// What the crates below call what they speak of, after Core's categories; other crates' lines are not ours to write.
const CATEGORIES: [&str; 10] = [
    "net",
    "validation",
    "mempool",
    "mempoolrej",
    "txpackages",
    "cmpctblock",
    "http",
    "rpc",
    "estimatefee",
    "electrum",
];

/// A place in the source that writes lines.
type Place = (&'static str, u32);

/// What places have added to the file in this window.
#[derive(Debug, Default)]
struct Limiter {
    since_s: u64,
    places: BTreeMap<Place, Added>,
}

#[derive(Debug, Default)]
struct Added {
    written_bytes: u64,
    dropped_bytes: u64,
}

impl Limiter {
    /// True where a line may be written; `tell` gets what is to be said about places that say too much.
    fn admits(&mut self, place: Place, bytes: u64, now_s: u64, tell: &mut dyn FnMut(String)) -> bool {
        // A clock that was set back begins a window too.
        if now_s < self.since_s || now_s - self.since_s >= WINDOW_S {
            for ((file, line), added) in std::mem::take(&mut self.places) {
                if added.dropped_bytes > 0 {
                    let dropped = added.dropped_bytes;
                    tell(format!(
                        "Restarting logging from {file}:{line}: {dropped} bytes were dropped during the last {WINDOW_S}s."
                    ));
                }
            }
            self.since_s = now_s;
        }
        let added = self.places.entry(place).or_default();
        if added.dropped_bytes == 0 && added.written_bytes + bytes <= PLACE_BYTES_MAX {
            added.written_bytes += bytes;
            return true;
        }
        if added.dropped_bytes == 0 {
            let (file, line) = place;
            tell(format!(
                "Excessive logging detected from {file}:{line}: >{PLACE_BYTES_MAX} bytes logged during the last time window \
                 of {WINDOW_S}s. Suppressing logging to disk from this source location until time window resets. Console \
                 logging unaffected."
            ));
        }
        added.dropped_bytes += bytes;
        false
    }
}

/// Writes the lines of the crates below to the file.
struct FileLog;

impl ::log::Log for FileLog {
    fn enabled(&self, metadata: &::log::Metadata) -> bool {
        CATEGORIES.contains(&metadata.target())
    }

    fn log(&self, record: &::log::Record) {
        if self.enabled(record.metadata()) {
            let place = (record.file_static().unwrap_or("?"), record.line().unwrap_or(0));
            let line = core_line(since_1970(), record.level(), record.target(), &record.args().to_string());
            write_to_file(place, &line);
        }
    }

    fn flush(&self) {}
}

/// Adds lines to this file from now on, besides; with `messages`, one for each message of a peer, too; `is_limited`: no place
/// of the program more than a mebibyte an hour.
pub fn set_file(path: &Path, messages: bool, is_limited: bool) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let file = File::options().append(true).create(true).open(path)?;
    *LIMITER.lock().unwrap_or_else(PoisonError::into_inner) = is_limited.then(Limiter::default);
    if FILE.set(file).is_ok() && ::log::set_logger(&FileLog).is_ok() {
        ::log::set_max_level(if messages { ::log::LevelFilter::Trace } else { ::log::LevelFilter::Debug });
    }
    Ok(())
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// One call of the system a line, so that lines of two threads do not mix.
fn write_to_file(place: Place, text: &str) {
    let Some(mut file) = FILE.get() else { return };
    let (now, mut told) = (since_1970(), Vec::new());
    let is_admitted = {
        let mut limiter = LIMITER.lock().unwrap_or_else(PoisonError::into_inner);
        limiter
            .as_mut()
            .is_none_or(|limiter| limiter.admits(place, text.len() as u64, now.as_secs(), &mut |line| told.push(line)))
    };
    for line in told {
        let _ = file.write_all(core_line(now, ::log::Level::Warn, "", &line).as_bytes());
    }
    if is_admitted {
        let _ = file.write_all(text.as_bytes());
    }
}

/// A line as Core's debug.log has it: what is unimportant names its category, what is bad its level.
fn core_line(now: Duration, level: ::log::Level, category: &str, text: &str) -> String {
    let time = utc(now.as_secs());
    let prefix = match level {
        ::log::Level::Error => "[error] ".to_owned(),
        ::log::Level::Warn => "[warning] ".to_owned(),
        ::log::Level::Info => String::new(),
        ::log::Level::Debug | ::log::Level::Trace => format!("[{category}] "),
    };
    // What strangers sent may be in it: a line stays one line.
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("{}.{:06}Z {prefix}{text}\n", time.trim_end_matches('Z'), now.subsec_micros())
}

/// Lines less important than this are not written.
pub fn set_level(level: LogLevel) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

/// True when standard error is a terminal a person may look at.
pub fn is_live() -> bool {
    std::io::stderr().is_terminal()
}

/// Something was lost, or the node stops.
#[track_caller]
pub fn error(area: &str, event: &str, fields: Fields) {
    line(LogLevel::Error, area, event, fields);
}

/// Somebody should look.
#[track_caller]
pub fn warn(area: &str, event: &str, fields: Fields) {
    line(LogLevel::Warn, area, event, fields);
}

/// What happened.
#[track_caller]
pub fn info(area: &str, event: &str, fields: Fields) {
    line(LogLevel::Info, area, event, fields);
}

/// Details for the hunter of a bug.
#[track_caller]
pub fn debug(area: &str, event: &str, fields: Fields) {
    line(LogLevel::Debug, area, event, fields);
}

/// Replaces the terminal's last line by `text`; an empty text takes it away.
pub fn live(text: &str) {
    let mut live = LIVE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
    text.clone_into(&mut live);
}

#[track_caller]
fn line(level: LogLevel, area: &str, event: &str, fields: Fields) {
    let is_shown = level as u8 <= LEVEL.load(Ordering::Relaxed);
    if !is_shown && FILE.get().is_none() {
        return;
    }
    let text = format_line(since_1970().as_secs(), level, area, event, fields);
    let place = Location::caller();
    write_to_file((place.file(), place.line()), &format!("{text}\n"));
    if !is_shown {
        return;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_says_too_much_is_silent_until_its_hour_is_over() {
        let mut limiter = Limiter::default();
        let (loud, quiet): (Place, Place) = (("a.rs", 1), ("a.rs", 2));
        let mut check = |place, bytes, now_s, want: bool, told: &[&str]| {
            let mut lines = Vec::new();
            let got = limiter.admits(place, bytes, now_s, &mut |line| lines.push(line));
            assert_eq!(got, want, "{bytes} bytes at {now_s} s");
            assert_eq!(lines.len(), told.len(), "{lines:?}");
            assert!(lines.iter().zip(told).all(|(line, want)| line.contains(want)), "{lines:?}");
        };
        check(loud, PLACE_BYTES_MAX - 1, 5_000, true, &[]);
        check(loud, 1, 5_001, true, &[]);
        check(loud, 100, 5_002, false, &["Excessive logging detected from a.rs:1: >1048576 bytes"]);
        check(loud, 11, 5_003, false, &[]);
        check(quiet, PLACE_BYTES_MAX, 5_003, true, &[]);
        check(loud, 1, 5_000 + WINDOW_S - 1, false, &[]);
        let restart = "Restarting logging from a.rs:1: 112 bytes were dropped during the last 3600s.";
        check(loud, 7, 5_000 + WINDOW_S, true, &[restart]);
        // A line that alone is too long, and a clock that is set back.
        check(quiet, PLACE_BYTES_MAX + 1, 9_000, false, &["from a.rs:2"]);
        check(quiet, 1, 10, true, &["Restarting logging from a.rs:2"]);
    }

    #[test]
    fn lines_of_the_crates_below_are_those_of_core() {
        #[track_caller]
        fn check(level: ::log::Level, text: &str, want: &str) {
            assert_eq!(core_line(Duration::from_micros(1_000_007), level, "net", text), want);
        }
        check(::log::Level::Debug, "a\nb", "1970-01-01T00:00:01.000007Z [net] a b\n");
        check(::log::Level::Info, "a", "1970-01-01T00:00:01.000007Z a\n");
        check(::log::Level::Warn, "a", "1970-01-01T00:00:01.000007Z [warning] a\n");
        check(::log::Level::Error, "a", "1970-01-01T00:00:01.000007Z [error] a\n");
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
