//! A bucket of tokens: so many at once, so many a second.
//!
//! In:     the time, and what something costs.
//! Out:    whether there was enough, or how long until there is.
//! Fails:  never.

use std::time::Duration;

use crate::moment::Moment;
use crate::wire::Command;

/// Messages that count more than one, since their answer costs more than their reading: see [`cost`].
const REQUEST_COST: f64 = 20.0;
/// Bytes of a list of names that count as much as a message: fifty names, each of which is looked up in several tables.
const NAMES_BYTES: f64 = 50.0 * 36.0;

/// Tokens that come back with time.
#[derive(Clone, Debug)]
pub struct Bucket {
    tokens: f64,
    rate_per_s: f64,
    size: f64,
    last: Moment,
}

impl Bucket {
    /// A bucket with `tokens` in it, to which `rate_per_s` are added up to `size`.
    pub fn new(tokens: f64, rate_per_s: f64, size: f64, now: Moment) -> Bucket {
        Bucket { tokens, rate_per_s, size, last: now }
    }

    /// Adds what time has brought; what is above the size stays, and no more comes (as for Core's address bucket).
    fn refill(&mut self, now: Moment) {
        if self.tokens < self.size {
            let came = now.since(&self.last).as_secs_f64() * self.rate_per_s;
            self.tokens = (self.tokens + came).min(self.size);
        }
        self.last = now;
    }

    /// Takes `cost` if it is there.
    pub fn take(&mut self, cost: f64, now: Moment) -> bool {
        self.refill(now);
        let is_there = self.tokens >= cost;
        if is_there {
            self.tokens -= cost;
        }
        is_there
    }

    /// Takes `cost`, below zero if need be.
    pub fn charge(&mut self, cost: f64, now: Moment) {
        self.refill(now);
        self.tokens -= cost;
    }

    /// Adds `tokens`, above the size if need be.
    pub fn add(&mut self, tokens: f64) {
        self.tokens += tokens;
    }

    /// Time until the bucket is no longer below zero.
    pub fn wait(&self, now: Moment) -> Duration {
        let tokens = self.tokens + now.since(&self.last).as_secs_f64() * self.rate_per_s;
        match tokens < 0.0 {
            true => Duration::from_secs_f64(-tokens / self.rate_per_s),
            false => Duration::ZERO,
        }
    }
}

/// What a message of so many bytes costs of the budget of messages.
pub fn cost(command: Command, payload_bytes: usize) -> f64 {
    let names = payload_bytes as f64 / NAMES_BYTES;
    match command {
        Command::INV | Command::NOTFOUND => 1.0 + names,
        Command::GETDATA => REQUEST_COST + names,
        Command::GETHEADERS
        | Command::GETBLOCKS
        | Command::GETBLOCKTXN
        | Command::GETCFILTERS
        | Command::GETCFHEADERS
        | Command::GETCFCHECKPT
        | Command::MEMPOOL => REQUEST_COST,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_up_to_the_size_and_never_above() {
        let start = Moment::default();
        let at = |seconds: f64| start.after(Duration::from_secs_f64(seconds));
        let mut bucket = Bucket::new(1.0, 0.1, 10.0, start);
        assert!(bucket.take(1.0, at(0.0)));
        assert!(!bucket.take(1.0, at(9.9)));
        assert!(bucket.take(1.0, at(10.0)));
        assert!(!bucket.take(10.5, at(1_000.0)));
        assert!(bucket.take(10.0, at(1_000.0)));
        bucket.add(1_000.0);
        assert!(bucket.take(1_000.0, at(5_000.0)), "what is above the size stays");
        bucket.charge(3.0, at(5_000.0));
        assert_eq!(bucket.wait(at(5_000.0)), Duration::from_secs(30));
        assert_eq!(bucket.wait(at(5_030.0)), Duration::ZERO);
    }
}
