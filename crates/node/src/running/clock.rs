//! The node's clock: the machine's, unless a test has set it.
//!
//! In:     a time, on regtest only.
//! Out:    [`Clock`].
//! Fails:  never.
//! Source: Bitcoin Core's `setmocktime`, `mockscheduler`.
//!
//! Whoever sets the time stops it, as Core's does: nothing comes due before it is set to a later one, and then that much
//! time has passed for everything that waits. Time spans never run backwards: setting an earlier time changes what the
//! calendar says, and nothing else.

use std::sync::Mutex;
use std::time::Duration;

use stdx::clock::{Clock, SystemClock};

/// The clock of every part of a node.
#[derive(Debug, Default)]
pub struct NodeClock {
    system: SystemClock,
    set: Mutex<Set>,
}

/// What a test has set last, and when.
#[derive(Clone, Copy, Debug, Default)]
struct Set {
    /// Seconds since 1970; zero where the machine's clock runs.
    unix_s: u64,
    /// The machine's monotonic time then.
    system: Duration,
    /// Ours then.
    monotonic: Duration,
}

impl NodeClock {
    /// Sets the time; zero lets the machine's clock run again.
    pub fn set(&self, unix_s: u64) {
        let (before_s, before) = (self.unix_s(), self.monotonic());
        let after_s = if unix_s == 0 { self.system.unix_s() } else { unix_s };
        let monotonic = before + Duration::from_secs(after_s.saturating_sub(before_s));
        let mut set = self.set.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *set = Set { unix_s, system: self.system.monotonic(), monotonic };
    }

    /// Lets so much time pass for everything that waits; the calendar stays as it is.
    pub fn pass(&self, time: Duration) {
        let monotonic = self.monotonic() + time;
        let mut set = self.set.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *set = Set { system: self.system.monotonic(), monotonic, ..*set };
    }

    fn get(&self) -> Set {
        *self.set.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Clock for NodeClock {
    fn unix_s(&self) -> u64 {
        match self.get().unix_s {
            0 => self.system.unix_s(),
            set => set,
        }
    }

    fn monotonic(&self) -> Duration {
        let set = self.get();
        match set.unix_s {
            0 => set.monotonic + self.system.monotonic().saturating_sub(set.system),
            _ => set.monotonic,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_time_makes_time_pass_and_an_earlier_one_does_not() {
        let clock = NodeClock::default();
        let (start_s, start) = (clock.unix_s(), clock.monotonic());
        clock.set(start_s + 1_000);
        assert_eq!(clock.unix_s(), start_s + 1_000);
        let later = clock.monotonic();
        assert!(later >= start + Duration::from_secs(999), "{start:?} {later:?}");
        clock.set(start_s);
        assert_eq!((clock.unix_s(), clock.monotonic()), (start_s, later));
        clock.set(0);
        assert!(clock.unix_s() >= start_s && clock.monotonic() >= later);
    }

    #[test]
    fn time_passes_for_those_who_wait_and_the_calendar_stays() {
        let clock = NodeClock::default();
        let (start_s, start) = (clock.unix_s(), clock.monotonic());
        clock.pass(Duration::from_secs(900));
        assert!(clock.monotonic() >= start + Duration::from_secs(900) && clock.unix_s() < start_s + 60);
        clock.set(2_000_000_000);
        let stopped = clock.monotonic();
        clock.pass(Duration::from_secs(60));
        assert_eq!((clock.unix_s(), clock.monotonic()), (2_000_000_000, stopped + Duration::from_secs(60)));
    }

    #[test]
    fn a_time_that_is_set_stands_still() {
        let clock = NodeClock::default();
        clock.set(2_000_000_000);
        let stopped = clock.monotonic();
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!((clock.unix_s(), clock.monotonic()), (2_000_000_000, stopped));
        clock.set(2_000_000_003);
        assert_eq!(clock.monotonic(), stopped + Duration::from_secs(3));
        // The machine's clock runs on from there, and has its own date.
        clock.set(0);
        std::thread::sleep(Duration::from_millis(5));
        assert!(clock.unix_s() != 2_000_000_003 && clock.monotonic() > stopped + Duration::from_secs(3));
    }
}
