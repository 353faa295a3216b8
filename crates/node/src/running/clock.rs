//! The node's clock: the machine's, unless a test has set it.
//!
//! In:     a time, on regtest only.
//! Out:    [`Clock`].
//! Fails:  never.
//! Source: Bitcoin Core's `setmocktime`.
//!
//! Whoever sets the time to a later one makes that much time pass for everything that waits, too. Time spans never run
//! backwards: setting an earlier time changes what the calendar says, and nothing else.

use std::sync::Mutex;
use std::time::Duration;

use stdx::clock::{Clock, SystemClock};

/// The clock of every part of a node.
#[derive(Debug, Default)]
pub struct NodeClock {
    system: SystemClock,
    set: Mutex<Set>,
}

/// What a test has set.
#[derive(Clone, Copy, Debug, Default)]
struct Set {
    /// Seconds since 1970; zero where the machine's clock runs.
    unix_s: u64,
    /// Time that was skipped.
    skipped: Duration,
}

impl NodeClock {
    /// Sets the time; zero lets the machine's clock run again.
    pub fn set(&self, unix_s: u64) {
        let before_s = self.unix_s();
        let mut set = self.set.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        set.skipped += Duration::from_secs(unix_s.saturating_sub(before_s));
        set.unix_s = unix_s;
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
        self.system.monotonic() + self.get().skipped
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
        assert_eq!(clock.unix_s(), start_s);
        assert!(clock.monotonic() >= later && clock.monotonic() < later + Duration::from_secs(900));
        clock.set(0);
        assert!(clock.unix_s() >= start_s);
    }
}
