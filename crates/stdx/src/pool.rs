//! A fixed crew of worker threads with one queue.
//!
//! In:     closures that own what they need.
//! Out:    a [`Ticket`] each; waiting for one runs other queued work meanwhile, so a pool without workers still
//!         finishes, and the thread that waits counts as one of the crew.
//! Fails:  a panic in a closure is raised again where its ticket is waited for.
//!
//! The pool is made by `node` (or a test) and handed in; nothing left of `chain` makes one.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

type Work = Box<dyn FnOnce() + Send>;

struct Queue {
    work: VecDeque<Work>,
    closed: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    /// Signalled when work arrives, when a ticket is done, and when the pool closes.
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("work runs outside the lock, so nobody panics inside it")
    }
}

/// The crew; dropping it finishes what is queued and joins the threads.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

enum Outcome<T> {
    Pending,
    Done(Result<T, Box<dyn Any + Send>>),
    Taken,
}

/// A result that will come.
pub struct Ticket<T> {
    outcome: Arc<Mutex<Outcome<T>>>,
    shared: Arc<Shared>,
}

impl Pool {
    /// A crew of `threads` in all: the one that waits for tickets, and `threads - 1` workers named `name`.
    pub fn new(name: &str, threads: usize) -> Pool {
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue { work: VecDeque::new(), closed: false }),
            changed: Condvar::new(),
        });
        let worker = |index: usize| {
            let shared = shared.clone();
            std::thread::Builder::new()
                .name(format!("{name}-{index}"))
                .spawn(move || run_worker(&shared))
                .expect("the operating system gives a thread at start")
        };
        let workers = (1..threads.max(1)).map(worker).collect();
        Pool { shared, workers }
    }

    /// Threads that work at once when one waits.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Queues `work`.
    pub fn submit<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Ticket<T> {
        let outcome = Arc::new(Mutex::new(Outcome::Pending));
        let (result_slot, shared) = (outcome.clone(), self.shared.clone());
        let job: Work = Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(work));
            *result_slot.lock().expect("no panic while held") = Outcome::Done(result);
            let _queue = shared.lock();
            shared.changed.notify_all();
        });
        self.shared.lock().work.push_back(job);
        self.shared.changed.notify_all();
        Ticket { outcome, shared: self.shared.clone() }
    }

    /// Runs queued work on the calling thread until none is left. A pool without workers only works this way and while
    /// somebody waits for a ticket.
    pub fn run_queued(&self) {
        loop {
            let Some(work) = self.shared.lock().work.pop_front() else { return };
            work();
        }
    }

    /// Runs `work` on every item, in any order; answers in the items' order.
    pub fn map<I, T, F>(&self, items: impl IntoIterator<Item = I>, work: F) -> Vec<T>
    where
        I: Send + 'static,
        T: Send + 'static,
        F: Fn(I) -> T + Send + Sync + 'static,
    {
        let work = Arc::new(work);
        let tickets: Vec<Ticket<T>> = items
            .into_iter()
            .map(|item| {
                let work = work.clone();
                self.submit(move || work(item))
            })
            .collect();
        tickets.into_iter().map(Ticket::wait).collect()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
        for worker in self.workers.drain(..) {
            // A worker only ends early by a bug in this file; its panic has been printed already.
            let _ = worker.join();
        }
    }
}

impl<T> Ticket<T> {
    /// True once [`Ticket::wait`] would return at once.
    pub fn is_done(&self) -> bool {
        !matches!(*self.outcome.lock().expect("no panic while held"), Outcome::Pending)
    }

    /// Waits for the result, running other queued work meanwhile.
    pub fn wait(self) -> T {
        let mut queue = self.shared.lock();
        loop {
            if self.is_done() {
                break;
            }
            match queue.work.pop_front() {
                Some(work) => {
                    drop(queue);
                    work();
                    queue = self.shared.lock();
                }
                None => queue = self.shared.changed.wait(queue).expect("nobody panics inside the lock"),
            }
        }
        drop(queue);
        let outcome = std::mem::replace(&mut *self.outcome.lock().expect("no panic while held"), Outcome::Taken);
        match outcome {
            Outcome::Done(Ok(value)) => value,
            Outcome::Done(Err(panic)) => resume_unwind(panic),
            Outcome::Pending | Outcome::Taken => unreachable!("is_done said so, and wait consumes the ticket"),
        }
    }
}

fn run_worker(shared: &Shared) {
    let mut queue = shared.lock();
    loop {
        match queue.work.pop_front() {
            Some(work) => {
                drop(queue);
                work();
                queue = shared.lock();
            }
            None if queue.closed => return,
            None => queue = shared.changed.wait(queue).expect("nobody panics inside the lock"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_of_crew_gives_the_same_answers() {
        for threads in [1, 2, 5] {
            let pool = Pool::new("test", threads);
            assert_eq!(pool.map(0..100u64, |n| n * n), (0..100u64).map(|n| n * n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_panic_surfaces_at_the_ticket_and_the_crew_goes_on() {
        let pool = Pool::new("test", 2);
        let bad = pool.submit(|| panic!("expected by the test"));
        assert!(catch_unwind(AssertUnwindSafe(|| bad.wait())).is_err());
        assert_eq!(pool.submit(|| 7).wait(), 7);
    }
}
