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

    /// How long an answer is waited for, where it is overdue.
    pub fn overdue(&self, now: Moment) -> Option<Duration> {
        let waited = now.since(&self.waiting_for.and(self.started)?);
        (waited > TIMEOUT).then_some(waited)
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

    /// Takes a pong; a wrong nonce is ignored, an absent one or 0 ends the waiting without a measurement. What is odd about it
    /// is said in Core's words.
    pub fn answered(&mut self, nonce: Option<u64>, now: Moment) -> Result<(), &'static str> {
        let Some(nonce) = nonce else {
            self.waiting_for = None;
            return Err("Short payload");
        };
        let (Some(want), Some(started)) = (self.waiting_for, self.started) else {
            return Err("Unsolicited pong without ping");
        };
        if nonce == want {
            let took = now.since(&started);
            self.latency.last = Some(took);
            self.latency.least = Some(self.latency.least.map_or(took, |least| least.min(took)));
            self.waiting_for = None;
            return Ok(());
        }
        if nonce == 0 {
            self.waiting_for = None;
            return Err("Nonce zero");
        }
        Err("Nonce mismatch")
    }

    /// The nonce that is waited for; 0 where none is.
    pub fn wanted(&self) -> u64 {
        self.waiting_for.unwrap_or(0)
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
        assert_eq!(pings.answered(Some(nonce ^ 1), at(1)), Err("Nonce mismatch"));
        assert_eq!((pings.overdue(at(1_200)), pings.overdue(at(1_201))), (None, Some(Duration::from_secs(1_201))));
        assert_eq!(pings.answered(Some(nonce), at(3)), Ok(()));
        assert_eq!(pings.answered(Some(nonce), at(4)), Err("Unsolicited pong without ping"));
        assert_eq!(pings.latency().last, Some(Duration::from_secs(3)));
        assert_eq!(pings.overdue(at(10_000)), None);
        assert_eq!(pings.due(70_016, at(120), &mut random), None);
        let nonce = pings.due(70_016, at(121), &mut random).unwrap().unwrap();
        assert_eq!(pings.answered(Some(nonce), at(126)), Ok(()));
        assert_eq!(pings.latency().least, Some(Duration::from_secs(3)));
        pings.request();
        assert!(pings.due(70_016, at(127), &mut random).is_some());
        assert_eq!(pings.answered(None, at(128)), Err("Short payload"));
        pings.request();
        assert!(pings.due(70_016, at(129), &mut random).is_some());
        assert_eq!(pings.answered(Some(0), at(130)), Err("Nonce zero"));
        assert_eq!((pings.latency().waiting_since, pings.latency().last), (None, Some(Duration::from_secs(5))));
        // Before BIP 31 nothing comes back, so nothing is waited for.
        let mut old = Pings::default();
        assert_eq!(old.due(60_000, at(0), &mut random), Some(None));
        assert_eq!(old.overdue(at(10_000)), None);
        assert_eq!(old.due(60_000, at(120), &mut random), None);
    }
}
