//! Whether somebody else was at work on this machine while it was measured.
//!
//! In:     a fixed piece of work for one core, timed again and again; the load average; `/proc/stat`.
//! Out:    [`Noise`]: how far its times spread, the processor time that others took, and what is too much of it.
//! Fails:  never; what cannot be read counts as none and is null in the report.
//! Source: proc(5): fields of `cpu` in `/proc/stat` are user, nice, system, idle, iowait, irq, softirq, steal.

use std::fs;
use std::hint::black_box;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::{machine, statistics};

/// Steps of the fixed work: 10 to 15 ms.
const STEPS: u64 = 8_000_000;
/// How often it is timed at every look.
const SLICES: usize = 7;
/// Slices that are slower than the fastest by more than this share speak of a neighbour.
const SPREAD_MAX: f64 = 0.15;
/// Share of the processors' time that the machine below may have taken for others.
const STEAL_MAX: f64 = 0.02;
/// Load for each core, before anything was started.
const LOAD_MAX: f64 = 0.5;

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Times of the fixed work, look by look, in milliseconds.
    pub slices_ms: Vec<f64>,
    /// How much slower than the fastest nine in ten of the slices are at most, as a share of it.
    pub spread: f64,
    /// Load average of the last minute before the bench began.
    pub load_before: Option<f64>,
    /// Share of all processors' time between first and last look that the machine below took for others.
    pub steal_share: Option<f64>,
    /// Reasons to measure again on a quieter machine; none: nothing spoke against it.
    pub reasons: Vec<String>,
}

impl Noise {
    /// Whether any reason was found.
    pub fn is_noisy(&self) -> bool {
        !self.reasons.is_empty()
    }

    /// In one line.
    pub fn text(&self) -> String {
        let share = |share: f64| format!("{:.1} %", share * 100.0);
        let load = self.load_before.map_or("unknown".to_owned(), |load| format!("{load:.2}"));
        let steal = self.steal_share.map_or("unknown".to_owned(), share);
        let looks = self.slices_ms.len();
        let facts = format!(
            "fixed work timed {looks} times, slowest tenth left out within {} of the fastest; stolen time {steal}; load before {load}",
            share(self.spread)
        );
        match self.is_noisy() {
            true => format!("noisy machine ({}): {facts}", self.reasons.join("; ")),
            false => format!("quiet machine: {facts}"),
        }
    }
}

/// Looks at the machine before, between and after the runs of a bench.
pub struct Watch {
    slices_ms: Vec<f64>,
    load_before: Option<f64>,
    jiffies: Option<Jiffies>,
}

/// Sums of `/proc/stat`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Jiffies {
    all: u64,
    steal: u64,
}

impl Watch {
    /// The first look; nothing of the bench may run yet.
    pub fn start() -> Watch {
        let load = fs::read_to_string("/proc/loadavg").ok();
        let load_before = load.and_then(|text| text.split(' ').next()?.parse().ok());
        let mut watch = Watch { slices_ms: Vec::new(), load_before, jiffies: jiffies() };
        watch.look();
        watch
    }

    /// One more look, 0.1 s, at a moment when no contestant works.
    pub fn look(&mut self) {
        for _ in 0..SLICES {
            let before = Instant::now();
            black_box(fixed_work(black_box(STEPS)));
            self.slices_ms.push(before.elapsed().as_secs_f64() * 1e3);
        }
    }

    /// The last look, and what all of them say.
    pub fn finish(mut self) -> Noise {
        self.look();
        let steal_share = self.jiffies.zip(jiffies()).and_then(|(before, after)| {
            let all = after.all.checked_sub(before.all).filter(|all| *all > 0)?;
            Some(after.steal.saturating_sub(before.steal) as f64 / all as f64)
        });
        judge(self.slices_ms, self.load_before, steal_share, machine::cores())
    }
}

/// What the figures say.
fn judge(slices_ms: Vec<f64>, load_before: Option<f64>, steal_share: Option<f64>, cores: usize) -> Noise {
    let fastest = statistics::least(&slices_ms);
    let spread = statistics::percentile(&slices_ms, 90.0) / fastest - 1.0;
    let mut reasons = Vec::new();
    if spread > SPREAD_MAX {
        reasons.push(format!("the same work took up to {:.0} % longer", spread * 100.0));
    }
    if let Some(share) = steal_share.filter(|share| *share > STEAL_MAX) {
        reasons.push(format!("{:.1} % of the processors' time went to other machines", share * 100.0));
    }
    if let Some(load) = load_before.filter(|load| *load > LOAD_MAX * cores as f64) {
        reasons.push(format!("load average {load:.2} on {cores} cores before it began"));
    }
    Noise { slices_ms, spread, load_before, steal_share, reasons }
}

/// Multiplications that wait for each other: no memory, no vector, the same on every run.
fn fixed_work(steps: u64) -> u64 {
    (0..steps).fold(0x9e37_79b9_7f4a_7c15, |state: u64, step| (state ^ step).wrapping_mul(0xd6e8_feb8_6659_fd93))
}

fn jiffies() -> Option<Jiffies> {
    parse_jiffies(&fs::read_to_string("/proc/stat").ok()?)
}

fn parse_jiffies(stat: &str) -> Option<Jiffies> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    Some(Jiffies { all: fields.iter().take(8).sum(), steal: *fields.get(7)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_found_at_their_limits() {
        #[track_caller]
        fn check(slices_ms: &[f64], load: f64, steal: f64, want: &[&str]) {
            let noise = judge(slices_ms.to_vec(), Some(load), Some(steal), 4);
            assert_eq!(noise.reasons.len(), want.len(), "{noise:?}");
            assert!(noise.reasons.iter().zip(want).all(|(reason, want)| reason.contains(want)), "{noise:?}");
            assert_eq!(noise.text().starts_with("noisy"), !want.is_empty());
        }
        // Eleven slices: the tenth step of ten is the ninetieth percentile, so one slow slice in eleven is let pass.
        let mut slices = vec![10.0; 11];
        check(&slices, 2.0, 0.02, &[]);
        slices[4] = 30.0;
        check(&slices, 2.0, 0.02, &[]);
        slices[7] = 11.4;
        check(&slices, 2.0, 0.02, &[]);
        slices[7] = 11.6;
        check(&slices, 2.0, 0.02, &["16 % longer"]);
        check(&[10.0; 3], 2.01, 0.02, &["load average 2.01 on 4 cores"]);
        check(&[10.0; 3], 0.0, 0.021, &["2.1 % of the processors' time"]);
    }

    #[test]
    fn stolen_time_is_the_eighth_field() {
        let stat = "cpu  10 20 30 40 50 60 70 80 5 5\ncpu0 1 2 3 4 5 6 7 8 0 0\n";
        assert_eq!(parse_jiffies(stat), Some(Jiffies { all: 360, steal: 80 }));
        assert_eq!(parse_jiffies("cpu 1 2 3\n"), None);
        assert_eq!(parse_jiffies("intr 5\n"), None);
    }

    #[test]
    fn a_watch_sees_this_machine() {
        let noise = Watch::start().finish();
        assert_eq!(noise.slices_ms.len(), 2 * SLICES);
        assert!(noise.slices_ms.iter().all(|slice| *slice > 0.1), "{noise:?}");
        assert!(noise.spread >= 0.0 && noise.load_before.is_some() && noise.steal_share.is_some(), "{noise:?}");
    }
}
