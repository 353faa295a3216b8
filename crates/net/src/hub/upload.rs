//! How much may be sent in a day.
//!
//! In:     bytes that went out, the time.
//! Out:    whether old blocks are still served.
//! Fails:  never.
//! Source: Bitcoin Core, `CConnman::OutboundTargetReached`, `RecordBytesSent`, `GetMaxOutboundTimeLeftInCycle`.

use std::time::Duration;

use crate::moment::Moment;

/// The time a budget is for; Core's `MAX_UPLOAD_TIMEFRAME`.
const PERIOD: Duration = Duration::from_secs(24 * 60 * 60);
/// What is kept back for new blocks: one in ten minutes, each of the largest size.
const NEW_BLOCK_BYTES: u64 = 4_000_000;

/// How many bytes may be sent in a day.
#[derive(Clone, Debug)]
pub struct UploadBudget {
    bytes_max: Option<u64>,
    spent: u64,
    since: Option<Moment>,
}

impl UploadBudget {
    /// A budget in bytes a day; none for as much as is asked for.
    pub fn new(bytes_max: Option<u64>) -> UploadBudget {
        UploadBudget { bytes_max, spent: 0, since: None }
    }

    /// The budget; none for as much as is asked for.
    pub fn bytes_max(&self) -> Option<u64> {
        self.bytes_max
    }

    /// Bytes that are left of the day's.
    pub fn bytes_left(&self, now: Moment) -> u64 {
        self.bytes_max.map_or(0, |bytes_max| bytes_max.saturating_sub(self.spent_at(now)))
    }

    /// Time that a day has: all of it before the first byte.
    pub fn period() -> Duration {
        PERIOD
    }

    /// Time that is left of the day.
    pub fn time_left(&self, now: Moment) -> Duration {
        match (self.bytes_max, self.since) {
            (None, _) => Duration::ZERO,
            (_, None) => PERIOD,
            (_, Some(since)) => PERIOD.saturating_sub(now.since(&since)),
        }
    }

    pub(super) fn spend(&mut self, bytes: u64, now: Moment) {
        if self.since.is_none_or(|since| now.since(&since) >= PERIOD) {
            (self.spent, self.since) = (0, Some(now));
        }
        self.spent += bytes;
    }

    fn spent_at(&self, now: Moment) -> u64 {
        if self.since.is_some_and(|since| now.since(&since) < PERIOD) { self.spent } else { 0 }
    }

    /// True where nothing is left.
    pub fn is_spent(&self, now: Moment) -> bool {
        self.bytes_max.is_some_and(|bytes_max| self.spent_at(now) >= bytes_max)
    }

    /// True where old blocks are not served any more, so that new ones can be until the day ends.
    pub fn is_spent_for_history(&self, now: Moment) -> bool {
        let Some(bytes_max) = self.bytes_max else { return false };
        let kept_back = self.time_left(now).as_secs() / 600 * NEW_BLOCK_BYTES;
        self.spent_at(now) + kept_back >= bytes_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_s_bytes_are_spent_once_and_come_back_the_next_day() {
        let at = |seconds: u64| Moment::default().after(Duration::from_secs(seconds));
        // 800 MB, as Core's own test has it: 576 MB are kept back for 144 blocks.
        let mut budget = UploadBudget::new(Some(800_000_000));
        assert_eq!((budget.time_left(at(5)), budget.bytes_left(at(5))), (PERIOD, 800_000_000));
        budget.spend(223_999_999, at(10));
        assert!(!budget.is_spent_for_history(at(10)));
        budget.spend(1, at(10));
        assert!(budget.is_spent_for_history(at(10)) && !budget.is_spent(at(10)));
        // Less is kept back later in the day.
        assert!(!budget.is_spent_for_history(at(10 + 601)));
        budget.spend(575_999_999, at(20));
        assert!(!budget.is_spent(at(20)));
        budget.spend(1, at(20));
        assert!(budget.is_spent(at(20)) && budget.bytes_left(at(20)) == 0);
        let next = at(10 + 86_400);
        assert!(!budget.is_spent(next) && !budget.is_spent_for_history(next));
        assert_eq!((budget.time_left(at(10 + 86_399)).as_secs(), budget.bytes_left(next)), (1, 800_000_000));
        // A budget smaller than what is kept back serves no old block from the beginning.
        assert!(UploadBudget::new(Some(576_000_000)).is_spent_for_history(at(0)));
        let free = UploadBudget::new(None);
        assert!(!free.is_spent(at(0)) && !free.is_spent_for_history(at(0)) && free.time_left(at(0)) == Duration::ZERO);
    }
}
