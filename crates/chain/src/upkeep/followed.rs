//! How far the mempool has followed the writer.
//!
//! In:     numbers of tips dealt with.
//! Out:    [`Followed::wait`], which returns once the mempool knows every tip that was told of before.
//! Fails:  never; it gives up when the node ends, or after a time.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::handle::Handle;

/// Longest wait in all. Thousands of blocks that return take seconds; who waits longer gets what there is.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Time between two looks whether the node ends.
const LOOK: Duration = Duration::from_millis(100);

/// How far the mempool has followed.
pub struct Followed {
    handle: Handle,
    number: Mutex<u64>,
    moved: Condvar,
}

impl Followed {
    pub(super) fn new(handle: Handle, number: u64) -> Followed {
        Followed { handle, number: Mutex::new(number), moved: Condvar::new() }
    }

    /// The number of the last tip dealt with.
    pub fn number(&self) -> u64 {
        *self.number.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn reach(&self, number: u64) {
        *self.number.lock().unwrap_or_else(PoisonError::into_inner) = number;
        self.moved.notify_all();
    }

    /// Waits until every tip that was told of before this is dealt with. False where it gave up.
    pub fn wait(&self) -> bool {
        let wanted = self.handle.tips_told();
        let mut number = self.number.lock().unwrap_or_else(PoisonError::into_inner);
        let mut waited = Duration::ZERO;
        while *number < wanted {
            if self.handle.stopping() || waited >= WAIT_MAX {
                return false;
            }
            number = self.moved.wait_timeout(number, LOOK).unwrap_or_else(PoisonError::into_inner).0;
            waited += LOOK;
        }
        true
    }
}
