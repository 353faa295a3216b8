//! Counters of what the servers did, readable at any time without a lock.
//!
//! In:     increments from sessions.
//! Out:    numbers; [`Metrics::rows`] lists them with names and labels for whoever prints them.
//! Fails:  never.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

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
    /// Connections refused: too many sessions, a ban, or a share that is used up.
    sessions_refused,
    /// Sessions ended because the client read too slowly.
    dropped_slow_reader,
    /// Sessions ended because of an idle, handshake or line timer.
    dropped_timeout,
    /// Sessions ended because of bytes that are no request: too long, not UTF-8, or nothing but errors.
    dropped_bad_input,
    /// Sessions ended by a fault of ours.
    dropped_fault,
    /// Sessions ended because they, their address or their neighbourhood had more than their share.
    dropped_excess,
    /// Answers that waited because of that.
    slowed,
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
    /// Certificates read anew because their files had changed.
    certificates_read,
    /// Requests for a method that does not exist.
    unknown_methods,
    /// Pings sent to clients that had been silent.
    pings,
    /// Other Electrum servers visited.
    servers_visited,
    /// Those that were not what they say.
    servers_refused,
}

/// Sizes of answers that are told apart, in bytes: one packet, one window, what is streamed.
pub const SIZE_BYTES_MAX: [u64; 4] = [1 << 10, 1 << 14, 1 << 18, u64::MAX];

/// Times to compute an answer that are told apart, in microseconds; the last count is for longer ones.
pub const LATENCY_US_MAX: [u64; 8] = [100, 300, 1_000, 3_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// How long answers of one size took to compute.
#[derive(Debug, Default)]
pub struct Latencies {
    counts: [Counter; LATENCY_US_MAX.len() + 1],
    total_us: Counter,
}

impl Latencies {
    fn add(&self, time_us: u64) {
        self.counts[LATENCY_US_MAX.partition_point(|max| *max < time_us)].add(1);
        self.total_us.add(time_us);
    }

    /// Answers by their time.
    pub fn counts(&self) -> Vec<u64> {
        self.counts.iter().map(Counter::get).collect()
    }

    /// All of them.
    pub fn count(&self) -> u64 {
        self.counts().iter().sum()
    }

    /// Their times together.
    pub fn total_us(&self) -> u64 {
        self.total_us.get()
    }
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
    /// How long answers took to compute, by [`SIZE_BYTES_MAX`].
    pub latencies: [Latencies; SIZE_BYTES_MAX.len()],
}

impl MethodCounters {
    fn new(name: &'static str) -> MethodCounters {
        MethodCounters {
            name,
            requests: Counter::default(),
            spent_ns: Counter::default(),
            latencies: Default::default(),
        }
    }

    /// Counts an answer that was made wholly: its size, and the time it took.
    pub fn answered(&self, bytes: u64, time: Duration) {
        let size = SIZE_BYTES_MAX.partition_point(|max| *max < bytes);
        self.latencies[size].add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_size_and_time() {
        let counters = MethodCounters::new("m");
        for (bytes, time_us, size, slot) in [
            (0, 0, 0, 0),
            (1 << 10, 100, 0, 0),
            (1025, 101, 1, 1),
            (u64::MAX, 10_000_000, 3, 7),
            (1 << 19, 10_000_001, 3, 8),
        ] {
            let before = counters.latencies[size].counts()[slot];
            counters.answered(bytes, Duration::from_micros(time_us));
            assert_eq!(counters.latencies[size].counts()[slot], before + 1, "{bytes} bytes in {time_us} us");
        }
        assert_eq!((counters.latencies[3].count(), counters.latencies[3].total_us()), (2, 20_000_001));
    }
}
