//! What is known of one address.
//!
//! In:     when it was seen and tried, and what became of it.
//! Out:    whether it is worth its place, and how likely it is to be chosen.
//! Fails:  never.
//! Source: Bitcoin Core, `AddrInfo::IsTerrible`, `AddrInfo::GetChance`.

use crate::wire::{Endpoint, Host, PeerAddress, Services};

/// An address nobody has seen for so long is worth nothing; Core's `ADDRMAN_HORIZON`.
const HORIZON_S: u64 = 30 * 24 * 3600;
/// Attempts after which one that never answered is worth nothing; Core's `ADDRMAN_RETRIES`.
const RETRIES: u32 = 3;
/// Failures within [`FAILURE_SPAN_S`] after which one is worth nothing; Core's `ADDRMAN_MAX_FAILURES`.
const FAILURES_MAX: u32 = 10;
/// Core's `ADDRMAN_MIN_FAIL`.
const FAILURE_SPAN_S: u64 = 7 * 24 * 3600;

/// What is known of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub endpoint: Endpoint,
    pub services: Services,
    /// When somebody last saw it.
    pub seen_s: u64,
    /// Who told it first.
    pub source: Host,
    pub last_try_s: u64,
    /// The last attempt that was counted as a failure.
    pub last_counted_s: u64,
    pub last_success_s: u64,
    pub attempts: u32,
    pub is_tried: bool,
    /// Places in the table of those told.
    pub places: u8,
    /// Where it stands in `Book::order`.
    pub order: u32,
}

impl Entry {
    /// An entry of a file.
    pub fn of_file(
        address: PeerAddress,
        source: Host,
        is_tried: bool,
        last_try_s: u64,
        last_success_s: u64,
        attempts: u32,
    ) -> Entry {
        Entry {
            endpoint: address.endpoint,
            services: address.services,
            seen_s: u64::from(address.time_s),
            source,
            last_try_s,
            last_counted_s: 0,
            last_success_s,
            attempts,
            is_tried,
            places: 0,
            order: 0,
        }
    }

    /// True where it is not worth its place (Core: `IsTerrible`).
    pub fn is_worthless(&self, now_s: u64) -> bool {
        let age = |time_s: u64| now_s.saturating_sub(time_s);
        if age(self.last_try_s) <= 60 {
            return false;
        }
        self.seen_s > now_s + 600
            || age(self.seen_s) > HORIZON_S
            || (self.last_success_s == 0 && self.attempts >= RETRIES)
            || (age(self.last_success_s) > FAILURE_SPAN_S && self.attempts >= FAILURES_MAX)
    }

    /// How likely it is taken when its place is met, in `0..=1` (Core: `GetChance`).
    pub fn chance(&self, now_s: u64) -> f64 {
        let recent = if now_s.saturating_sub(self.last_try_s) < 600 { 0.01 } else { 1.0 };
        recent * 0.66f64.powi(self.attempts.min(8) as i32)
    }

    pub fn address(&self) -> PeerAddress {
        PeerAddress { time_s: self.seen_s as u32, services: self.services, endpoint: self.endpoint }
    }
}
