//! The node's clock: the machine's, unless a test has set it.
//!
//! In:     a time, on regtest only.
//! Out:    [`Clock`].
//! Fails:  never.
//! Source: Bitcoin Core's `setmocktime`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use stdx::clock::{Clock, SystemClock};

/// The clock of every part of a node.
#[derive(Debug, Default)]
pub struct NodeClock {
    system: SystemClock,
    /// Seconds since 1970; zero where the machine's clock runs.
    set_unix_s: AtomicU64,
}

impl NodeClock {
    /// Sets the time; zero lets the machine's clock run again.
    pub fn set(&self, unix_s: u64) {
        self.set_unix_s.store(unix_s, Ordering::SeqCst);
    }
}

impl Clock for NodeClock {
    fn unix_s(&self) -> u64 {
        match self.set_unix_s.load(Ordering::SeqCst) {
            0 => self.system.unix_s(),
            set => set,
        }
    }

    fn monotonic(&self) -> Duration {
        self.system.monotonic()
    }
}
