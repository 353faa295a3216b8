//! Waking the writer, and waiting for what it did.
//!
//! In:     signals of work; who waits, and for which block.
//! Out:    answers at the end of the writer's pass.
//! Fails:  never; who waits for a writer that has ended is told so.
//!
//! A pass begins by taking those who wait and ends by answering them: whatever was stored or ordered before somebody
//! began to wait is seen by the pass that answers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use primitives::BlockHash;

use super::blocks::Verdict;

/// A bell for the writer.
#[derive(Default)]
pub(crate) struct Signal {
    rung: Mutex<bool>,
    bell: Condvar,
    /// Somebody waits for the pass: the one under way is to end soon.
    urgent: AtomicBool,
}

impl Signal {
    /// There is something to do.
    pub(crate) fn ring(&self) {
        *self.rung.lock().expect("no panic while held") = true;
        self.bell.notify_all();
    }

    /// There is something to do, and it should not wait for the blocks in between.
    pub(crate) fn ring_urgently(&self) {
        self.urgent.store(true, Ordering::SeqCst);
        self.ring();
    }

    pub(crate) fn is_urgent(&self) -> bool {
        self.urgent.load(Ordering::SeqCst)
    }

    /// A pass begins: what is rung from now on is for the next one.
    pub(crate) fn answer(&self) {
        self.urgent.store(false, Ordering::SeqCst);
        *self.rung.lock().expect("no panic while held") = false;
    }

    /// Waits until somebody rings, or for `longest`; true where somebody did.
    pub(crate) fn wait(&self, longest: Duration) -> bool {
        let rung = self.rung.lock().expect("no panic while held");
        *self.bell.wait_timeout_while(rung, longest, |rung| !*rung).expect("no panic while held").0
    }
}

/// Somebody who waits for a pass.
pub(crate) struct Waiter {
    /// The block whose verdict is wanted; none where the end of the pass is enough.
    pub(crate) block: Option<BlockHash>,
    pub(crate) wish: Wish,
    pub(crate) answer: Answer,
}

/// What the pass is to end with for somebody who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Whatever it ends with.
    Tried,
    /// A commit, where that is little work.
    Shown,
    /// A commit.
    Committed,
}

/// Where an answer goes; it must not wait for anything.
pub(crate) type Answer = Box<dyn FnOnce(Verdict) + Send>;

/// Those who wait; none once the writer has ended.
pub(crate) struct Waiters(Mutex<Option<Vec<Waiter>>>);

impl Default for Waiters {
    fn default() -> Waiters {
        Waiters(Mutex::new(Some(Vec::new())))
    }
}

impl Waiters {
    pub(crate) fn add(&self, waiter: Waiter) {
        match &mut *self.0.lock().expect("no panic while held") {
            Some(waiters) => waiters.push(waiter),
            None => (waiter.answer)(Verdict::Stopped),
        }
    }

    /// Those who wait now; the pass that begins answers them.
    pub(crate) fn take(&self) -> Vec<Waiter> {
        self.0.lock().expect("no panic while held").as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The writer has ended.
    pub(crate) fn close(&self) {
        let waiters = self.0.lock().expect("no panic while held").take();
        for waiter in waiters.unwrap_or_default() {
            (waiter.answer)(Verdict::Stopped);
        }
    }
}

/// An answer that the writer will give at the end of a pass.
pub struct Pending(Receiver<Verdict>);

impl Pending {
    /// The answer, and where to send it.
    pub(crate) fn pair() -> (Answer, Pending) {
        let (sender, receiver) = channel();
        // Where nobody listens any more, nobody misses it.
        (Box::new(move |verdict| drop(sender.send(verdict))), Pending(receiver))
    }

    /// Waits for it.
    pub fn wait(self) -> Verdict {
        self.0.recv().unwrap_or(Verdict::Stopped)
    }

    /// Waits for it no longer than `longest`.
    pub fn wait_for(&self, longest: Duration) -> Option<Verdict> {
        match self.0.recv_timeout(longest) {
            Ok(verdict) => Some(verdict),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => None,
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => Some(Verdict::Stopped),
        }
    }
}
