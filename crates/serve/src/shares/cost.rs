//! What work costs: the time a thread spent on it, and what does not show in that time.
//!
//! In:     what was done.
//! Out:    microseconds of work.
//! Fails:  never.

use std::time::Duration;

/// Microseconds for a row that was read, whoever's memory it came from: a thousandth of what a cold disk takes.
const ROW_US: u64 = 1;

/// Bytes that count for a microsecond: a client that takes 16 MB/s of answers for ever uses a whole share.
const BYTES_OF_US: u64 = 16;

/// A connection, with the handshake that TLS may need (measured: 0.5 ms with a P-256 key, most of it exponentiation).
pub const CONNECTION: Work = Work { time: Duration::from_millis(5), rows: 0, bytes: 0 };

/// Work that was done for a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Time of a thread.
    pub time: Duration,
    /// Rows of histories and of unspent outputs that were read.
    pub rows: u64,
    /// Bytes of answers.
    pub bytes: u64,
}

impl Work {
    /// Its cost.
    pub fn cost_us(&self) -> u64 {
        let time_us = u64::try_from(self.time.as_micros()).unwrap_or(u64::MAX);
        time_us.saturating_add(self.rows.saturating_mul(ROW_US)).saturating_add(self.bytes / BYTES_OF_US)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_costs_what() {
        #[track_caller]
        fn check(time_us: u64, rows: u64, bytes: u64, want_us: u64) {
            assert_eq!(Work { time: Duration::from_micros(time_us), rows, bytes }.cost_us(), want_us);
        }
        check(0, 0, 15, 0);
        check(0, 0, 16, 1);
        check(70, 3, 160, 83);
        check(0, u64::MAX, u64::MAX, u64::MAX);
        assert_eq!(CONNECTION.cost_us(), 5_000);
    }
}
