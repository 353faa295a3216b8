//! The time, as an argument.
//!
//! In:     what a clock says, the machine's or a simulated one.
//! Out:    [`Moment`].
//! Fails:  never.

use std::time::Duration;

/// Now, for durations and for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Moment {
    /// Time since some fixed moment; never goes back.
    pub monotonic: Duration,
    /// Seconds since 1970.
    pub unix_s: u64,
}

impl Moment {
    /// What `clock` says.
    pub fn of(clock: &dyn stdx::clock::Clock) -> Moment {
        Moment { monotonic: clock.monotonic(), unix_s: clock.unix_s() }
    }

    /// Time since an earlier moment; zero where it is not earlier.
    pub fn since(&self, earlier: &Moment) -> Duration {
        self.monotonic.saturating_sub(earlier.monotonic)
    }

    /// This much later.
    pub fn after(&self, time: Duration) -> Moment {
        Moment { monotonic: self.monotonic + time, unix_s: self.unix_s + time.as_secs() }
    }
}
