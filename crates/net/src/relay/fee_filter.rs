//! What a peer is told not to bother us with: the fee filter.
//!
//! In:     the least feerate the mempool takes, the time, chance.
//! Out:    a feerate to tell, now and then: rounded, so that it does not tell who we are.
//! Fails:  never.
//! Source: BIP 133; Bitcoin Core, `MaybeSendFeefilter`, `FeeFilterRounder`.

use std::time::Duration;

use stdx::random::Random;

use crate::entropy;
use crate::moment::Moment;

/// Mean time between two looks at what a peer was told; Core's `AVG_FEEFILTER_BROADCAST_INTERVAL`.
const INTERVAL: Duration = Duration::from_secs(10 * 60);
/// After a great change it is told within this time; Core's `MAX_FEEFILTER_CHANGE_DELAY`.
const CHANGE_DELAY_MAX: Duration = Duration::from_secs(5 * 60);
/// The highest step, in satoshi for 1,000 virtual bytes.
const STEP_MAX: f64 = 1e7;
/// Each step is so much above the one before.
const STEP_RATIO: f64 = 1.1;
/// Most satoshi there are: what is told while nothing is wanted.
const MONEY_MAX_SAT: i64 = 2_100_000_000_000_000;

/// The feerates that are told.
#[derive(Clone, Debug)]
pub struct FeeSteps(Vec<f64>);

impl FeeSteps {
    /// Zero, half the incremental feerate, and a tenth more from step to step.
    pub fn new(incremental_sat_per_kvb: i64) -> FeeSteps {
        let first = (incremental_sat_per_kvb / 2).max(1) as f64;
        let steps = std::iter::successors(Some(first), |step| Some(step * STEP_RATIO));
        FeeSteps(std::iter::once(0.0).chain(steps.take_while(|step| *step <= STEP_MAX)).collect())
    }

    /// A step near a feerate: mostly the one below, sometimes the one above.
    pub fn round(&self, sat_per_kvb: i64, random: &mut Random) -> i64 {
        let above = self.0.partition_point(|step| *step < sat_per_kvb as f64);
        let is_last = above == self.0.len();
        let down = is_last || (above > 0 && random.below(3) != 0);
        self.0[above - usize::from(down)] as i64
    }

    /// What is told while nothing is wanted.
    fn most(&self) -> i64 {
        self.0[self.0.len() - 1] as i64
    }
}

/// What one peer was told.
#[derive(Clone, Debug, Default)]
pub struct FeeFilter {
    told: i64,
    next: Moment,
}

impl FeeFilter {
    /// What to tell the peer now, if anything: `minimum` is what the mempool takes, none while it takes nothing;
    /// `relayed` the least it ever relays.
    pub fn due(
        &mut self,
        minimum: Option<i64>,
        relayed: i64,
        steps: &FeeSteps,
        now: Moment,
        random: &mut Random,
    ) -> Option<i64> {
        let current = minimum.unwrap_or(MONEY_MAX_SAT);
        if minimum.is_some() && self.told == steps.most() {
            // The download is over: what was told keeps everybody silent.
            self.next = Moment::default();
        }
        if now.monotonic > self.next.monotonic {
            // What is never relayed is refused anyway, and a step above it would keep good transactions away.
            let rounded = if current <= relayed { relayed } else { steps.round(current, random).max(relayed) };
            self.next = now.after(entropy::exponential(random, INTERVAL));
            let is_new = rounded != self.told;
            self.told = rounded;
            return is_new.then_some(rounded);
        }
        let is_far = current < 3 * self.told / 4 || current > 4 * self.told / 3;
        if now.after(CHANGE_DELAY_MAX).monotonic < self.next.monotonic && is_far {
            self.next = now.after(Duration::from_millis(random.below(CHANGE_DELAY_MAX.as_millis() as u64)));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feerates_are_rounded_to_steps_down_twice_as_often_as_up() {
        let (steps, mut random) = (FeeSteps::new(100), Random::new(133));
        assert_eq!(steps.0[..3], [0.0, 50.0, 55.00000000000001]);
        let mut check = |feerate: i64, below: i64, above: i64| {
            let counts = (0..3_000).fold([0, 0], |mut counts, _| {
                let got = steps.round(feerate, &mut random);
                assert!(got == below || got == above, "{feerate}: {got}");
                counts[usize::from(got == above)] += 1;
                counts
            });
            assert!(below == above || (800..1_200).contains(&counts[1]), "{feerate}: {counts:?}");
        };
        check(0, 0, 0);
        check(1, 0, 50);
        check(50, 0, 50);
        check(51, 50, 55);
        check(10_000_001, steps.most(), steps.most());
        check(MONEY_MAX_SAT, steps.most(), steps.most());
        assert!((9_000_000..=10_000_000).contains(&steps.most()));
        assert_eq!(FeeSteps::new(0).0[1], 1.0);
    }

    #[test]
    fn a_peer_is_told_at_once_then_seldom_and_soon_after_a_great_change() {
        let (steps, mut random) = (FeeSteps::new(100), Random::new(5));
        let start = Moment { monotonic: Duration::from_secs(1), unix_s: 1 };
        let mut filter = FeeFilter::default();
        assert_eq!(filter.due(None, 100, &steps, start, &mut random), Some(steps.most()), "nothing is wanted yet");
        // The download ends: everything is wanted at once.
        let first = filter.due(Some(100), 100, &steps, start.after(Duration::from_secs(1)), &mut random);
        assert_eq!(first, Some(100), "never below what is relayed");
        let mut told = Vec::new();
        for second in 2..100_000 {
            let minimum = if second < 50_000 { 100 } else { 5_000 };
            let now = start.after(Duration::from_secs(second));
            told.extend(filter.due(Some(minimum), 100, &steps, now, &mut random).map(|feerate| (second, feerate)));
        }
        let (before, after): (Vec<_>, Vec<_>) = told.into_iter().partition(|(second, _)| *second < 50_000);
        assert!(before.iter().all(|(_, feerate)| (100..=107).contains(feerate)), "{before:?}");
        assert!(after[0].0 < 50_000 + 301 && (4_000..6_000).contains(&after[0].1), "{after:?}");
        assert!(after.len() < 120, "told {} times in 50,000 seconds", after.len());
    }
}
