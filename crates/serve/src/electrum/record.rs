//! Why a session ends, and a line of the log for each that does, as few as a flood of sessions must not fill a disk with.
//!
//! In:     what is known of the session, why it ended, the time since the start.
//! Out:    `session ended id=... from=... key=value`, with the category `electrum`.
//! Fails:  never; above [`LINES_OF_MINUTE_MAX`] lines are left out, and the next line says how many.
//! Source: CVE-2025-54604 and -54605: logs that strangers could make a disk full with.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::shares::client::Client;
use crate::transport::frames::code;
use crate::transport::listen::Origin;

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The client closed, or the connection broke.
    Closed,
    /// The client read too slowly.
    SlowReader,
    /// A timer ran out.
    Timeout,
    /// What came was no request.
    BadInput,
    /// No version in common, or no greeting.
    Protocol,
    /// A fault of ours.
    Fault,
    /// It had more than its share.
    Excess,
    /// The operator ended it.
    Kicked,
    /// The server stops.
    Stopped,
}

impl Ended {
    /// With which code and words a WebSocket closes.
    pub(super) fn in_a_websocket(self) -> (u16, &'static str) {
        match self {
            Ended::Closed => (code::NORMAL, ""),
            Ended::SlowReader => (code::POLICY, "too slow"),
            Ended::Timeout => (code::POLICY, "nothing was asked for too long"),
            Ended::BadInput => (code::POLICY, "what came was no request"),
            Ended::Protocol => (code::POLICY, "no version in common"),
            Ended::Excess => (code::POLICY, "excessive resource usage"),
            Ended::Kicked => (code::POLICY, "closed by the operator"),
            Ended::Fault => (code::FAULT, "a fault of the server"),
            Ended::Stopped => (code::GOING_AWAY, "the server stops"),
        }
    }
}

/// Lines of one minute: about 150 KB, 80 GB in a year of nothing but floods.
pub const LINES_OF_MINUTE_MAX: u64 = 600;

/// Writes the lines.
#[derive(Default)]
pub struct Record {
    /// Hashes addresses with keys of this start's own; none where they are plain.
    salt: Option<RandomState>,
    minute: Mutex<Minute>,
}

/// Lines of the minute.
#[derive(Debug, Default)]
struct Minute {
    number: u64,
    lines: u64,
    left_out: u64,
}

impl Record {
    /// Names clients by their addresses or by hashes of them.
    pub fn new(hashes_addresses: bool) -> Record {
        Record { salt: hashes_addresses.then(RandomState::new), minute: Mutex::default() }
    }

    /// How a line names where a client comes from.
    fn name(&self, origin: Origin) -> String {
        match (origin, &self.salt) {
            (Origin::Address(address), Some(salt)) => format!("{:016x}", salt.hash_one(address)),
            (origin, _) => origin.to_string(),
        }
    }

    /// Writes the line of a session.
    pub fn ended(&self, client: &Client, why: Ended, now: Duration) {
        if !log::log_enabled!(target: "electrum", log::Level::Debug) {
            return;
        }
        let Some(left_out) = self.minute.lock().unwrap_or_else(PoisonError::into_inner).line(now) else { return };
        let told = client.report(now, 0);
        let from = self.name(client.origin());
        let before = if left_out > 0 { format!(" left_out={left_out}") } else { String::new() };
        log::debug!(
            target: "electrum",
            "session ended id={} from={from} door={} why={why:?} open_s={} requests={} bytes_in={} bytes_out={} \
             work_ms={}{before}",
            told.id, told.door, told.open_s, told.requests, told.bytes_in, told.bytes_out, told.work_ms
        );
    }
}

impl Minute {
    /// Whether a line may be written, and how many were left out before it.
    fn line(&mut self, now: Duration) -> Option<u64> {
        let number = now.as_secs() / 60;
        if number != self.number {
            (self.number, self.lines) = (number, 0);
        }
        if self.lines >= LINES_OF_MINUTE_MAX {
            self.left_out += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_sessions_fills_no_disk() {
        let mut minute = Minute::default();
        let at = Duration::from_secs;
        for _ in 0..LINES_OF_MINUTE_MAX {
            assert_eq!(minute.line(at(59)), Some(0));
        }
        assert_eq!(
            [minute.line(at(0)), minute.line(at(59)), minute.line(at(60)), minute.line(at(60))],
            [None, None, Some(2), Some(0)]
        );
    }

    #[test]
    fn hashes_are_the_same_for_an_address_and_differ_between_starts() {
        let address = Origin::Address("192.0.2.1".parse().unwrap());
        assert_eq!(Record::new(false).name(address), "192.0.2.1");
        let (one, two) = (Record::new(true), Record::new(true));
        assert_eq!(one.name(address), one.name(address));
        assert_ne!(one.name(address), two.name(address));
        assert_ne!(one.name(address), one.name(Origin::Address("192.0.2.2".parse().unwrap())));
        assert_eq!((one.name(address).len(), one.name(Origin::Unix)), (16, "unix".to_owned()));
    }
}
