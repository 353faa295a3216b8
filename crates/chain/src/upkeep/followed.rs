//! How far the mempool has followed the writer, and both of them as of one moment.
//!
//! In:     numbers of tips dealt with, views that the mempool stands on.
//! Out:    [`Followed::wait`], which returns once the mempool knows every tip that was told of before; [`Followed::still`],
//!         a view and the mempool that belongs to it.
//! Fails:  never; it gives up when the node ends, or after a time.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::handle::Handle;
use crate::mempool::{Mempool, SharedMempool};
use crate::view::View;

/// Longest wait in all. Thousands of blocks that return take seconds; who waits longer gets what there is.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Time between two looks whether the node ends.
const LOOK: Duration = Duration::from_millis(100);
/// Time between two looks whether a reorganisation is over; a commit takes some milliseconds.
pub(super) const FRESH_LOOK: Duration = Duration::from_millis(2);

struct State {
    /// Of the last tip dealt with.
    number: u64,
    /// The view whose blocks the mempool has been told of, all of them and no others; none while it is being told.
    settled: Option<Arc<View>>,
}

/// How far the mempool has followed.
pub struct Followed {
    handle: Handle,
    state: Mutex<State>,
    moved: Condvar,
}

impl Followed {
    pub(super) fn new(handle: Handle, number: u64, view: Arc<View>) -> Followed {
        Followed { handle, state: Mutex::new(State { number, settled: Some(view) }), moved: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the last tip dealt with.
    pub fn number(&self) -> u64 {
        self.state().number
    }

    pub(super) fn reach(&self, number: u64) {
        self.state().number = number;
        self.moved.notify_all();
    }

    /// The mempool begins to change with the chain.
    pub(super) fn unsettle(&self) {
        self.state().settled = None;
    }

    /// The mempool has been told of all that `view` shows.
    pub(super) fn settle(&self, view: Arc<View>) {
        self.state().settled = Some(view);
        self.moved.notify_all();
    }

    pub(super) fn is_settled(&self) -> bool {
        self.state().settled.is_some()
    }

    /// Waits until every tip that was told of before this is dealt with. False where it gave up.
    pub fn wait(&self) -> bool {
        self.wait_for(self.handle.tips_told())
    }

    /// Waits until the tip that was told of with this number is dealt with. False where it gave up.
    pub fn wait_for(&self, number: u64) -> bool {
        self.wait_until(|state| state.number >= number)
    }

    fn wait_until(&self, reached: impl Fn(&State) -> bool) -> bool {
        let mut state = self.state();
        let mut waited = Duration::ZERO;
        while !reached(&state) {
            if self.handle.stopping() || waited >= WAIT_MAX {
                return false;
            }
            state = self.moved.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
            waited += LOOK;
        }
        true
    }

    /// Waits until the newest view and the one that the mempool stands on can be read: while blocks are disconnected, neither
    /// can. False where it gave up.
    pub fn wait_fresh(&self) -> bool {
        let fresh = |state: &State| state.settled.as_ref().is_some_and(|view| view.is_fresh());
        let mut waited = Duration::ZERO;
        while !(self.handle.view().is_fresh() && fresh(&self.state())) {
            if self.handle.stopping() || waited >= WAIT_MAX {
                return false;
            }
            std::thread::sleep(FRESH_LOOK);
            waited += FRESH_LOOK;
        }
        true
    }

    /// Reads the mempool and the chain it stands on, both held still: no block is in one and not in the other. None where it
    /// gave up.
    pub fn still<T>(&self, mempool: &SharedMempool, read: impl FnOnce(&Arc<View>, &Mempool) -> T) -> Option<T> {
        loop {
            {
                let mempool = mempool.read();
                // Whoever tells the mempool of blocks says so before, and that it is done after: while the mempool cannot
                // change, what stands here is true.
                let settled = self.state().settled.clone();
                if let Some(view) = settled {
                    return Some(read(&view, &mempool));
                }
            }
            if !self.wait_until(|state| state.settled.is_some()) {
                return None;
            }
        }
    }
}
