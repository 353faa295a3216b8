//! Fair shares: what clients cost us, counted by session, address and neighbourhood, and what follows from it.
//!
//! In:     work that was done for a session; the time as an argument.
//! Out:    a [`ledger::Standing`]: go on, wait a little, or goodbye.
//! Fails:  never.
//! Source: ElectrumX's `COST_SOFT_LIMIT` and `COST_HARD_LIMIT` in spirit; here a cost is time of a thread, measured.
//!
//! [`cost`] says what work costs, [`budget`] is one account that forgets with time, [`ledger`] holds them all and the
//! bans, [`client`] is what is known of one session, [`bans`] is how bans are
//! kept, [`login`] knows who is exempt by a secret.

pub mod bans;
pub mod budget;
pub mod client;
pub mod cost;
pub mod ledger;
pub mod login;

use std::time::Duration;

use crate::rpc::auth::Subnet;

/// Limits that may change while the server runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareLimits {
    /// Open sessions; ElectrumX's default is 1,000.
    pub sessions_max: usize,
    /// Sessions of one address; Fulcrum allows 12, and behind one address may be a whole company.
    pub sessions_address_max: usize,
    /// Work above which the answers of a session wait, a little more with each.
    pub soft: Duration,
    /// Work above which a session is closed.
    pub hard: Duration,
    /// How much is forgotten each second, in milliseconds of work: what one session may use for ever.
    pub forgiven_ms_per_s: u64,
    /// Who is never slowed down or refused.
    pub exempt: Vec<Subnet>,
}

impl Default for ShareLimits {
    fn default() -> Self {
        let loopback = ["127.0.0.0/8", "::1"];
        ShareLimits {
            sessions_max: 1000,
            sessions_address_max: 100,
            // A wallet of 100,000 addresses takes about 7 s of work the first time, and so does a history of a million entries.
            soft: Duration::from_secs(30),
            hard: Duration::from_secs(300),
            forgiven_ms_per_s: 200,
            exempt: loopback.map(|subnet| subnet.parse().expect("a constant")).into(),
        }
    }
}

/// An address has twice a session's budget, so that it may have more than one.
pub const ADDRESS_SHARE: u32 = 2;
/// A neighbourhood (/24 of IPv4, /48 of IPv6) and all clients of the onion service together have eight times as much.
pub const GROUP_SHARE: u32 = 8;
/// Longest wait of an answer above the soft limit; ElectrumX's is the same.
pub const WAIT_MAX: Duration = Duration::from_millis(2500);
