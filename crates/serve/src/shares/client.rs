//! What is known of one session, for the ledger and for the operator.
//!
//! In:     what the session does.
//! Out:    [`ClientReport`].
//! Fails:  never.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Notify;

use super::budget::Account;
use crate::transport::listen::Origin;

/// Letters of a client's name that are kept.
const NAME_LETTERS_MAX: usize = 40;

/// One session.
pub struct Client {
    /// Names the session for as long as the server runs.
    pub id: u64,
    /// The way it came in.
    pub door: &'static str,
    /// When, after the start of the server.
    pub opened: Duration,
    pub(super) known: Mutex<Known>,
    /// Requests answered.
    pub requests: AtomicU64,
    /// Bytes read from it.
    pub bytes_in: AtomicU64,
    /// Bytes of answers made for it.
    pub bytes_out: AtomicU64,
    /// Scripts and the like it is subscribed to.
    pub subscriptions: AtomicU64,
    trusted: AtomicBool,
    kicked: AtomicBool,
    kick: Notify,
}

/// What changes rarely.
pub(super) struct Known {
    pub(super) origin: Origin,
    pub(super) account: Account,
    /// All work so far, in microseconds.
    pub(super) work_us: u64,
    /// Its name and version, in its own words.
    software: String,
    protocol: String,
}

/// A session as the operator sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClientReport {
    /// Names it, for `kick`.
    pub id: u64,
    /// Address, `onion` or `unix`.
    pub origin: String,
    /// The way it came in.
    pub door: &'static str,
    /// Seconds since it came.
    pub open_s: u64,
    /// Its name and version, in its own words.
    pub software: String,
    /// The protocol agreed on; empty before the greeting.
    pub protocol: String,
    /// It has logged in.
    pub trusted: bool,
    /// Requests answered.
    pub requests: u64,
    /// Bytes read from it.
    pub bytes_in: u64,
    /// Bytes of answers made for it.
    pub bytes_out: u64,
    /// Scripts and the like it is subscribed to.
    pub subscriptions: u64,
    /// All work so far, in milliseconds.
    pub work_ms: u64,
    /// What of it is not forgotten yet.
    pub counted_ms: u64,
}

impl Client {
    pub(super) fn new(id: u64, door: &'static str, origin: Origin, opened: Duration) -> Client {
        let (software, protocol) = (String::new(), String::new());
        Client {
            id,
            door,
            opened,
            known: Mutex::new(Known { origin, account: Account::default(), work_us: 0, software, protocol }),
            requests: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            subscriptions: AtomicU64::new(0),
            trusted: AtomicBool::new(false),
            kicked: AtomicBool::new(false),
            kick: Notify::new(),
        }
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where it comes from.
    pub fn origin(&self) -> Origin {
        self.known().origin
    }

    /// It has said who it is; only letters that print are kept.
    pub fn greeted(&self, software: &str, protocol: String) {
        let mut known = self.known();
        known.software =
            software.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').take(NAME_LETTERS_MAX).collect();
        known.protocol = protocol;
    }

    /// It has logged in: from now on it is never slowed down or closed for its work.
    pub fn trust(&self) {
        self.trusted.store(true, Relaxed);
    }

    /// True for one that has logged in.
    pub fn is_trusted(&self) -> bool {
        self.trusted.load(Relaxed)
    }

    /// Ends the session soon.
    pub fn kick(&self) {
        self.kicked.store(true, Relaxed);
        self.kick.notify_one();
    }

    /// Completes when it is to end.
    pub async fn was_kicked(&self) {
        while !self.kicked.load(Relaxed) {
            self.kick.notified().await;
        }
    }

    /// As the operator sees it.
    pub fn report(&self, now: Duration, forgiven_ms_per_s: u64) -> ClientReport {
        let known = self.known();
        ClientReport {
            id: self.id,
            origin: known.origin.to_string(),
            door: self.door,
            open_s: now.saturating_sub(self.opened).as_secs(),
            software: known.software.clone(),
            protocol: known.protocol.clone(),
            trusted: self.is_trusted(),
            requests: self.requests.load(Relaxed),
            bytes_in: self.bytes_in.load(Relaxed),
            bytes_out: self.bytes_out.load(Relaxed),
            subscriptions: self.subscriptions.load(Relaxed),
            work_ms: known.work_us / 1000,
            counted_ms: known.account.spent_us(now, forgiven_ms_per_s) / 1000,
        }
    }
}
