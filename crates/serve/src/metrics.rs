//! Counters of what the servers did, readable at any time without a lock.
//!
//! In:     increments from sessions.
//! Out:    numbers; [`Metrics::rows`] lists them with names and labels for whoever prints them.
//! Fails:  never.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// One number that only grows, or a gauge where its name says so.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    /// Takes `count` off a gauge.
    pub fn sub(&self, count: u64) {
        self.0.fetch_sub(count, Relaxed);
    }

    /// Its value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What the Electrum server did since it started.
        #[derive(Debug)]
        pub struct Metrics {
            $($(#[$doc])* pub $name: Counter,)*
            /// Requests and nanoseconds spent on them, by method, in the order of `methods`.
            pub methods: Vec<MethodCounters>,
            last_fault: Mutex<Option<String>>,
        }

        impl Metrics {
            /// All at zero, with a row for each of `methods`.
            pub fn new(methods: impl IntoIterator<Item = &'static str>) -> Metrics {
                let methods = methods.into_iter().map(MethodCounters::new).collect();
                Metrics { $($name: Counter::default(),)* methods, last_fault: Mutex::default() }
            }

            /// Counts a fault of ours and keeps its text for the operator.
            pub fn note_fault(&self, why: &str) {
                self.faults.add(1);
                *self.last_fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.to_owned());
            }

            /// Takes the text of the newest fault since it was taken last.
            pub fn take_fault(&self) -> Option<String> {
                self.last_fault.lock().unwrap_or_else(PoisonError::into_inner).take()
            }

            /// Every number as `(name, method or "", value)`.
            pub fn rows(&self) -> Vec<(&'static str, &'static str, u64)> {
                let mut rows = vec![$((stringify!($name), "", self.$name.get()),)*];
                for method in &self.methods {
                    rows.push(("requests", method.name, method.requests.get()));
                    rows.push(("request_ns", method.name, method.spent_ns.get()));
                }
                rows
            }
        }
    };
}

counters! {
    /// Gauge: sessions open now.
    sessions_now,
    /// Sessions accepted.
    sessions_opened,
    /// Connections refused because of the session limit.
    sessions_refused,
    /// Sessions ended because the client read too slowly.
    dropped_slow_reader,
    /// Sessions ended because of an idle, handshake or line timer.
    dropped_timeout,
    /// Sessions ended because of bytes that are no request: too long, not UTF-8, or nothing but errors.
    dropped_bad_input,
    /// Sessions ended by a fault of ours.
    dropped_fault,
    /// Bytes read from clients.
    bytes_in,
    /// Bytes handed to the sockets of clients.
    bytes_out,
    /// Gauge: bytes waiting to be written, over all sessions.
    bytes_waiting_now,
    /// Gauge: bytes of unfinished lines, over all sessions.
    line_bytes_now,
    /// Answers that were errors.
    errors,
    /// Answers that failed through a fault of ours, such as a disk that does not read.
    faults,
    /// Notifications sent.
    notifications,
    /// Gauge: subscriptions to scripts, transactions and outpoints, over all sessions.
    subscriptions_now,
    /// Requests for a method that does not exist.
    unknown_methods,
}

/// Counters of one method.
#[derive(Debug)]
pub struct MethodCounters {
    /// The method.
    pub name: &'static str,
    /// Requests answered, errors included.
    pub requests: Counter,
    /// Time spent computing answers, in nanoseconds.
    pub spent_ns: Counter,
}

impl MethodCounters {
    fn new(name: &'static str) -> MethodCounters {
        MethodCounters { name, requests: Counter::default(), spent_ns: Counter::default() }
    }
}
