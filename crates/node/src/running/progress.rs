//! How fast it goes and how long it will take: samples of the writer's counters, and the lines made from them.
//!
//! In:     counters that only grow, with the time of each sample.
//! Out:    rates over the last half minute, an estimate of the time to go, text for a terminal and for people.
//! Fails:  never; before there are two samples rates are zero and the estimate is unknown.

pub use bench::count as count_text;
use std::collections::VecDeque;
use std::time::Duration;

/// Time over which rates are averaged. Long enough for a commit's pause, short enough to follow the blocks' changing size.
const WINDOW: Duration = Duration::from_secs(30);
/// Samples kept at most; one a second fills the window twice.
const SAMPLES_MAX: usize = 60;

/// Counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Time since the start.
    pub at: Duration,
    /// Blocks connected.
    pub blocks: u64,
    /// Bytes of those blocks.
    pub bytes: u64,
    /// Transactions in them.
    pub transactions: u64,
    /// Signatures checked.
    pub signatures: u64,
    /// Bytes still to connect.
    pub bytes_left: u64,
}

/// Speed over the window, each a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Blocks.
    pub blocks: f64,
    /// Bytes of blocks.
    pub bytes: f64,
    /// Transactions.
    pub transactions: f64,
    /// Signatures.
    pub signatures: f64,
}

/// The samples of the last half minute.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    samples: VecDeque<Sample>,
}

impl Meter {
    /// Adds a sample and forgets those too old.
    pub fn add(&mut self, sample: Sample) {
        self.samples.push_back(sample);
        let too_old = |first: &Sample| sample.at.saturating_sub(first.at) > WINDOW;
        while self.samples.len() > SAMPLES_MAX || (self.samples.len() > 2 && self.samples.front().is_some_and(too_old))
        {
            self.samples.pop_front();
        }
    }

    /// Speed between the first and the last sample kept.
    pub fn rates(&self) -> Rates {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else { return Rates::default() };
        let seconds = last.at.saturating_sub(first.at).as_secs_f64();
        if seconds <= 0.0 {
            return Rates::default();
        }
        // Blocks of a reorganisation are taken off the counters, so a difference may be negative for a moment.
        let per_second = |from: u64, to: u64| to.saturating_sub(from) as f64 / seconds;
        Rates {
            blocks: per_second(first.blocks, last.blocks),
            bytes: per_second(first.bytes, last.bytes),
            transactions: per_second(first.transactions, last.transactions),
            signatures: per_second(first.signatures, last.signatures),
        }
    }

    /// Time until nothing is left at this speed; unknown while nothing moves.
    pub fn time_left(&self) -> Option<Duration> {
        let left = self.samples.back()?.bytes_left;
        let speed = self.rates().bytes;
        (speed >= 1.0).then(|| Duration::from_secs_f64((left as f64 / speed).min(1e9)))
    }
}

/// Share of the bytes of this start that are done, in percent.
pub fn percent(done: u64, left: u64) -> f64 {
    if done + left == 0 { 100.0 } else { 100.0 * done as f64 / (done + left) as f64 }
}

/// `1536` as `1.5 KiB`.
pub fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// `3725 s` as `1 h 2 min`.
pub fn duration_text(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, s) => format!("{s} s"),
        (0, 0, m, s) => format!("{m} min {s} s"),
        (0, h, m, _) => format!("{h} h {m} min"),
        (d, h, _, _) => format!("{d} d {h} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_s: u64, bytes: u64, bytes_left: u64) -> Sample {
        Sample { at: Duration::from_secs(at_s), bytes, bytes_left, ..Sample::default() }
    }

    #[test]
    fn rates_forget_what_is_older_than_the_window() {
        let mut meter = Meter::default();
        assert_eq!((meter.rates(), meter.time_left()), (Rates::default(), None));
        meter.add(sample(0, 0, 1_000));
        assert_eq!(meter.time_left(), None);
        meter.add(sample(10, 100, 900));
        assert_eq!(meter.rates().bytes, 10.0);
        assert_eq!(meter.time_left(), Some(Duration::from_secs(90)));
        meter.add(sample(45, 1_500, 0)); // the sample at 0 s goes
        assert_eq!(meter.rates().bytes, 40.0);
        assert_eq!(meter.time_left(), Some(Duration::ZERO));
        for second in 46..200 {
            meter.add(sample(second, 1_500, 0));
        }
        assert_eq!(meter.rates().bytes, 0.0);
        assert!(meter.samples.len() <= SAMPLES_MAX);
    }

    #[test]
    fn texts_have_units() {
        for (bytes, want) in [(0, "0 B"), (1_023, "1023 B"), (1_536, "1.5 KiB"), (5 << 30, "5.0 GiB")] {
            assert_eq!(bytes_text(bytes), want);
        }
        for (seconds, want) in [(59, "59 s"), (60, "1 min 0 s"), (3_725, "1 h 2 min"), (90_000, "1 d 1 h")] {
            assert_eq!(duration_text(Duration::from_secs(seconds)), want);
        }
        for (count, want) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count_text(count), want);
        }
        assert_eq!(percent(0, 0), 100.0);
        assert_eq!(percent(1, 3), 25.0);
    }
}
