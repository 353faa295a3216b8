//! One account of work, which forgets with time.
//!
//! In:     charges; the time since the server started.
//! Out:    what has not been forgotten yet.
//! Fails:  never; a clock that goes back forgets nothing.

use std::time::Duration;

/// Work that somebody had done for him.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    spent_us: u64,
    /// When `spent_us` was true.
    at: Duration,
}

impl Account {
    /// What is not forgotten at this time, in microseconds, where so much is forgotten each second.
    pub fn spent_us(&self, now: Duration, forgiven_ms_per_s: u64) -> u64 {
        let passed_us = u64::try_from(now.saturating_sub(self.at).as_micros()).unwrap_or(u64::MAX);
        self.spent_us.saturating_sub((passed_us / 1000).saturating_mul(forgiven_ms_per_s))
    }

    /// Adds work.
    pub fn charge(&mut self, cost_us: u64, now: Duration, forgiven_ms_per_s: u64) {
        // Whole milliseconds are forgotten: what is left of one counts the next time.
        let passed_ms = u64::try_from(now.saturating_sub(self.at).as_millis()).unwrap_or(u64::MAX);
        self.spent_us = self.spent_us(now, forgiven_ms_per_s).saturating_add(cost_us);
        self.at += Duration::from_millis(passed_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_forgets_evenly_and_never_below_nothing() {
        let at = Duration::from_millis;
        let mut account = Account::default();
        account.charge(1_000_000, at(1_000), 200);
        for (now_ms, want_us) in [(0, 1_000_000), (1_000, 1_000_000), (2_000, 800_000), (6_000, 0), (u64::MAX / 4, 0)] {
            assert_eq!(account.spent_us(at(now_ms), 200), want_us, "{now_ms} ms");
        }
        // Many small charges forget as much as one: nothing is lost in rounding.
        let mut often = Account::default();
        often.charge(1_000_000, at(0), 200);
        for us in (0..1_000_000).step_by(300) {
            often.charge(0, Duration::from_micros(us), 200);
        }
        assert_eq!(often.spent_us(at(1_000), 200), 800_000);
        often.charge(u64::MAX, at(1_000), 200);
        assert!(often.spent_us(at(1_000), 200) == u64::MAX);
    }
}
