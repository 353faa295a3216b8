//! Whether the peer is there, and how far away.
//!
//! In:     the time, chance, pongs.
//! Out:    pings to send; the time they took.
//! Fails:  with `false` when an answer is overdue.
//! Source: Bitcoin Core, `MaybeSendPing` and `NetMsgType::PONG`.

use std::time::Duration;

use crate::entropy::{self, Entropy};
use crate::moment::Moment;

/// Time between pings; Core's `PING_INTERVAL`.
const INTERVAL: Duration = Duration::from_secs(2 * 60);
/// Time a pong may take; Core's `TIMEOUT_INTERVAL`.
pub const TIMEOUT: Duration = Duration::from_secs(20 * 60);
/// The last version that has no nonce in its pings; Core's `BIP0031_VERSION`.
const PROTOCOL_WITHOUT_NONCE: i32 = 60_000;

/// How far a peer is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Latency {
    /// Of the last ping.
    pub last: Option<Duration>,
    /// The shortest ever.
    pub least: Option<Duration>,
    /// Since when an answer is waited for.
    pub waiting_since: Option<Moment>,
}

/// Pings of one peer.
#[derive(Debug, Default)]
pub struct Pings {
    started: Option<Moment>,
    /// The nonce that was sent; never 0.
    waiting_for: Option<u64>,
    is_requested: bool,
    latency: Latency,
}

impl Pings {
    /// Pings as soon as possible.
    pub fn request(&mut self) {
        self.is_requested = true;
    }

    /// What is known.
    pub fn latency(&self) -> Latency {
        let waiting_since = self.waiting_for.and(self.started);
        Latency { waiting_since, ..self.latency }
    }

    /// True where an answer is overdue.
    pub fn is_overdue(&self, now: Moment) -> bool {
        self.waiting_for.is_some() && self.started.is_some_and(|started| now.since(&started) > TIMEOUT)
    }

    /// The nonce of a ping that is due: `Some(None)` for a ping without one.
    pub fn due(&mut self, protocol: i32, now: Moment, entropy: &mut dyn Entropy) -> Option<Option<u64>> {
        let is_time = self.started.is_none_or(|started| now.since(&started) > INTERVAL);
        if !self.is_requested && !(is_time && self.waiting_for.is_none()) {
            return None;
        }
        self.is_requested = false;
        self.started = Some(now);
        self.waiting_for = (protocol > PROTOCOL_WITHOUT_NONCE).then(|| entropy::number(entropy).max(1));
        Some(self.waiting_for)
    }

    /// Takes a pong; a wrong nonce is ignored, an absent one or 0 ends the waiting without a measurement.
    pub fn answered(&mut self, nonce: Option<u64>, now: Moment) {
        let (Some(want), Some(started)) = (self.waiting_for, self.started) else { return };
        match nonce {
            Some(nonce) if nonce == want => {
                let took = now.since(&started);
                self.latency.last = Some(took);
                self.latency.least = Some(self.latency.least.map_or(took, |least| least.min(took)));
                self.waiting_for = None;
            }
            Some(0) | None => self.waiting_for = None,
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::random::Random;

    #[test]
    fn pings_come_every_two_minutes_and_are_waited_for_twenty() {
        let mut random = Random::new(31);
        let at = |seconds: u64| Moment::default().after(Duration::from_secs(seconds));
        let mut pings = Pings::default();
        let nonce = pings.due(70_016, at(0), &mut random).unwrap().unwrap();
        assert_eq!(pings.due(70_016, at(500), &mut random), None, "one is under way");
        pings.answered(Some(nonce ^ 1), at(1));
        assert!(!pings.is_overdue(at(1_200)) && pings.is_overdue(at(1_201)));
        pings.answered(Some(nonce), at(3));
        assert_eq!(pings.latency().last, Some(Duration::from_secs(3)));
        assert!(!pings.is_overdue(at(10_000)));
        assert_eq!(pings.due(70_016, at(120), &mut random), None);
        let nonce = pings.due(70_016, at(121), &mut random).unwrap().unwrap();
        pings.answered(Some(nonce), at(126));
        assert_eq!(pings.latency().least, Some(Duration::from_secs(3)));
        pings.request();
        assert!(pings.due(70_016, at(127), &mut random).is_some());
        pings.answered(None, at(128));
        assert_eq!((pings.latency().waiting_since, pings.latency().last), (None, Some(Duration::from_secs(5))));
        // Before BIP 31 nothing comes back, so nothing is waited for.
        let mut old = Pings::default();
        assert_eq!(old.due(60_000, at(0), &mut random), Some(None));
        assert!(!old.is_overdue(at(10_000)));
        assert_eq!(old.due(60_000, at(120), &mut random), None);
    }
}
