//! The time, as an argument.
//!
//! In:     nothing.
//! Out:    seconds since 1970 for rules and logs, and a monotonic count for durations.
//! Fails:  never.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where time comes from; tests bring their own.
pub trait Clock: Send + Sync {
    /// Seconds since 1970-01-01 UTC.
    fn unix_s(&self) -> u64;
    /// Time since some fixed moment; never goes back.
    fn monotonic(&self) -> Duration;
}

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock(Instant::now())
    }
}

impl Clock for SystemClock {
    fn unix_s(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}
