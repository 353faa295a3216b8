//! Which of the two is the bound of a download: the line, or validation.
//!
//! In:     at every plan of the window, whether the block validation needs next is missing, and whether anything is on
//!         order; the time.
//! Out:    how long it was missing, in all and of late.
//! Fails:  never.

/// The time over which it is judged which of the two is the bound.
const RECENT_MS: f64 = 10_000.0;
/// The line is the bound where the next block was missing for more than this part of that time.
const LACKING_SHARE_MAX: f64 = 0.125;

/// How much of the time the line, and not validation, was the bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Milliseconds in which the block that validation needs next was not here.
    pub lacking_ms: u64,
    /// Those of them in which nothing at all was on order.
    pub idle_ms: u64,
    /// Blocks that came and were of no use, in bytes: copies of some that were here, and some nobody asked for.
    pub unused_bytes: u64,
}

/// What the last plan left behind.
#[derive(Clone, Copy)]
struct Planned {
    at_ms: u64,
    is_lacking: bool,
    is_idle: bool,
}

/// The judge.
pub(super) struct Bound {
    waiting: Waiting,
    planned: Option<Planned>,
    /// Milliseconds behind us, old ones fading, and those of them in which the next block was not here.
    recent_ms: f64,
    recent_lacking_ms: f64,
}

impl Default for Bound {
    fn default() -> Bound {
        // As if validation had been the bound so far: the first blocks always have to be waited for.
        Bound { waiting: Waiting::default(), planned: None, recent_ms: RECENT_MS, recent_lacking_ms: 0.0 }
    }
}

impl Bound {
    /// The sums.
    pub fn waiting(&self) -> Waiting {
        self.waiting
    }

    /// A block came that is of no use.
    pub fn note_unused(&mut self, bytes: u64) {
        self.waiting.unused_bytes += bytes;
    }

    /// What is the case from now on.
    pub fn note(&mut self, now_ms: u64, is_lacking: bool, is_idle: bool) {
        self.planned = Some(Planned { at_ms: now_ms, is_lacking, is_idle });
    }

    /// Counts the time since it was noted last by what was the case then.
    pub fn count_until(&mut self, now_ms: u64) {
        let Some(planned) = self.planned else { return };
        let since_ms = now_ms.saturating_sub(planned.at_ms);
        let lacking_ms = if planned.is_lacking { since_ms } else { 0 };
        self.waiting.lacking_ms += lacking_ms;
        self.waiting.idle_ms += if planned.is_idle { lacking_ms } else { 0 };
        let kept = (-(since_ms as f64) / RECENT_MS).exp();
        self.recent_ms = self.recent_ms * kept + since_ms as f64;
        self.recent_lacking_ms = self.recent_lacking_ms * kept + lacking_ms as f64;
    }

    /// True where validation has waited for blocks of late: what comes while it is busy otherwise is worth keeping on the
    /// disk.
    pub fn is_the_line(&self) -> bool {
        self.recent_lacking_ms > self.recent_ms * LACKING_SHARE_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bound that saw `seconds` pass in tenths, of which each tenth is lacking where `lacking` says so.
    fn after(seconds: u64, lacking: impl Fn(u64) -> bool) -> Bound {
        let mut bound = Bound::default();
        for tenth in 0..=seconds * 10 {
            bound.count_until(tenth * 100);
            bound.note(tenth * 100, lacking(tenth), tenth % 4 == 0);
        }
        bound
    }

    #[test]
    fn time_is_counted_by_what_was_the_case() {
        let bound = after(10, |tenth| tenth < 20);
        assert_eq!(bound.waiting(), Waiting { lacking_ms: 2_000, idle_ms: 500, unused_bytes: 0 });
        assert_eq!(after(10, |_| false).waiting(), Waiting::default());
    }

    #[test]
    fn the_line_is_the_bound_where_blocks_are_missed_and_no_longer_when_they_come() {
        assert!(!after(1, |_| true).is_the_line(), "the first second of any download is waiting");
        assert!(after(2, |_| true).is_the_line());
        assert!(after(60, |tenth| tenth % 5 == 0).is_the_line(), "a fifth of the time");
        assert!(!after(60, |tenth| tenth % 10 == 0).is_the_line(), "a tenth of the time");
        assert!(after(80, |tenth| tenth < 600).is_the_line(), "a pause of validation is not yet another bound");
        assert!(!after(90, |tenth| tenth < 600).is_the_line());
    }
}
