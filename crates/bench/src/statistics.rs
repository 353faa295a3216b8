//! What a handful of measured values says, and what it does not.
//!
//! In:     values of one measure, unsorted.
//! Out:    medians, percentiles, intervals of confidence, ratios, and a [`Verdict`] that draws no conclusion from
//!         intervals that overlap.
//! Fails:  never; where there are no values there is no estimate.
//! Source: percentile bootstrap (Efron, Tibshirani, "An Introduction to the Bootstrap", chapter 13); the range of `n`
//!         values holds the median of what they are drawn from in `1 - 2^(1 - n)` of all cases (order statistics).

use std::fmt;

use serde::{Deserialize, Serialize};
use stdx::random::Random;

/// Confidence of an interval from as many values as [`BOOTSTRAP_VALUES_MIN`].
pub const CONFIDENCE: f64 = 0.95;
/// Fewer values than this have their range for an interval: six are the least whose range holds the median in 95 of 100
/// cases, and below it the bootstrap would claim more than it knows.
pub const BOOTSTRAP_VALUES_MIN: usize = 6;
/// Fewer values than this say nothing about their spread.
pub const VALUES_MIN: usize = 3;
/// Samples drawn again, where the values are few.
const RESAMPLES_MAX: usize = 2_000;
/// Samples drawn again at least; an interval's ends are its fifth and fifth last.
const RESAMPLES_MIN: usize = 200;
/// Draws in all, about: 20 ms.
const DRAWS_MAX: usize = 4_000_000;
/// The chance of every bootstrap: same values, same interval.
const SEED: u64 = 0x6d65_6469_616e;

/// Which values are the good ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Times, bytes.
    Lower,
    /// Rates.
    Higher,
}

/// Where a median lies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Values it comes from.
    pub count: usize,
    /// Their median.
    pub median: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Share of cases in which such an interval holds the true median.
    pub confidence: f64,
}

/// How many times one median is of another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Of the medians.
    pub value: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// What two sets of values say about each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The first is better: the intervals of the medians lie apart.
    Better,
    /// The first is worse, likewise.
    Worse,
    /// The intervals overlap: nothing follows.
    Overlap,
    /// Fewer than [`VALUES_MIN`] values on one side.
    TooFew,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Overlap => "no conclusion: intervals overlap",
            Verdict::TooFew => "no conclusion: too few values",
        })
    }
}

/// Middle value; of an even count the mean of the two in the middle; of none, not a number.
pub fn median(values: &[f64]) -> f64 {
    percentile(values, 50.0)
}

/// Least value.
pub fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Greatest value.
pub fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// The value below which `percent` of 100 values lie, between two of them in proportion (Hyndman and Fan's type 7, which
/// R and NumPy take by default); of none, not a number.
pub fn percentile(values: &[f64], percent: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    percentile_of_sorted(&sorted, percent)
}

fn percentile_of_sorted(sorted: &[f64], percent: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = (percent.clamp(0.0, 100.0) / 100.0) * last as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

/// Median and interval; none without values.
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    let count = values.len();
    if count == 0 {
        return None;
    }
    let middle = median(values);
    if count < BOOTSTRAP_VALUES_MIN {
        let confidence = 1.0 - 0.5f64.powi(count as i32 - 1);
        return Some(Estimate { count, median: middle, low: least(values), high: most(values), confidence });
    }
    let mut medians = resampled_medians(values, &mut Random::new(SEED), resamples(count));
    let (low, high) = ends(&mut medians);
    Some(Estimate { count, median: middle, low, high, confidence: CONFIDENCE })
}

/// How many times the median of `above` is of that of `below`; none without values or with a median of zero below.
pub fn ratio(above: &[f64], below: &[f64]) -> Option<Ratio> {
    let (first, second) = (estimate(above)?, estimate(below)?);
    if second.median == 0.0 {
        return None;
    }
    let value = first.median / second.median;
    if first.count.min(second.count) < BOOTSTRAP_VALUES_MIN {
        return Some(Ratio { value, low: first.low / second.high, high: first.high / second.low });
    }
    let mut random = Random::new(SEED);
    let count = resamples(first.count.max(second.count));
    let (above, below) = (resampled_medians(above, &mut random, count), resampled_medians(below, &mut random, count));
    let mut ratios: Vec<f64> = above.iter().zip(&below).map(|(above, below)| above / below).collect();
    let (low, high) = ends(&mut ratios);
    Some(Ratio { value, low, high })
}

/// What `first` says beside `second`.
pub fn verdict(first: &[f64], second: &[f64], better: Better) -> Verdict {
    let (Some(one), Some(other)) = (estimate(first), estimate(second)) else { return Verdict::TooFew };
    if one.count.min(other.count) < VALUES_MIN {
        return Verdict::TooFew;
    }
    if one.low <= other.high && other.low <= one.high {
        return Verdict::Overlap;
    }
    if (one.high < other.low) == (better == Better::Lower) { Verdict::Better } else { Verdict::Worse }
}

fn resamples(count: usize) -> usize {
    (DRAWS_MAX / count).clamp(RESAMPLES_MIN, RESAMPLES_MAX)
}

/// Medians of samples drawn again, with repetition, from `values`.
fn resampled_medians(values: &[f64], random: &mut Random, samples: usize) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    let mut places = vec![0u32; count];
    let draw = |_| {
        places.iter_mut().for_each(|place| *place = random.below(count as u64) as u32);
        let (below, middle, _) = places.select_nth_unstable(count / 2);
        let upper = sorted[*middle as usize];
        match count % 2 {
            1 => upper,
            _ => (sorted[*below.iter().max().expect("half of at least two") as usize] + upper) / 2.0,
        }
    };
    (0..samples).map(draw).collect()
}

/// The ends between which [`CONFIDENCE`] of the values lie.
fn ends(values: &mut [f64]) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let outside = (1.0 - CONFIDENCE) / 2.0 * 100.0;
    (percentile_of_sorted(values, outside), percentile_of_sorted(values, 100.0 - outside))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_lie_between_their_neighbours() {
        #[track_caller]
        fn check(values: &[f64], percent: f64, want: f64) {
            assert_eq!(percentile(values, percent), want, "{percent} of {values:?}");
        }
        // By hand: four values, three steps; a quarter of three steps is 0.75.
        let values = [40.0, 10.0, 30.0, 20.0];
        check(&values, 0.0, 10.0);
        check(&values, 25.0, 17.5);
        check(&values, 50.0, 25.0);
        check(&values, 75.0, 32.5);
        check(&values, 100.0, 40.0);
        check(&values, -1.0, 10.0);
        check(&values, 101.0, 40.0);
        check(&[7.0], 99.0, 7.0);
        check(&[1.0, 3.0], 90.0, 2.8);
        assert!(percentile(&[], 50.0).is_nan());
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0])), (2.0, 2.5));
        assert_eq!((least(&[3.0, 1.5, 2.0]), most(&[3.0, 1.5, 2.0])), (1.5, 3.0));
    }

    #[test]
    fn few_values_have_their_range_and_say_how_little_that_is() {
        #[track_caller]
        fn check(values: &[f64], want: (f64, f64, f64, f64)) {
            let got = estimate(values).unwrap();
            assert_eq!((got.median, got.low, got.high, got.confidence), want);
            assert_eq!(got.count, values.len());
        }
        // One value is its own range and holds the median never; three hold it unless all lie on one side: 2 / 2^3.
        check(&[5.0], (5.0, 5.0, 5.0, 0.0));
        check(&[5.0, 7.0], (6.0, 5.0, 7.0, 0.5));
        check(&[5.0, 7.0, 1.0], (5.0, 1.0, 7.0, 0.75));
        check(&[5.0, 7.0, 1.0, 9.0, 2.0], (5.0, 1.0, 9.0, 0.9375));
        assert!(estimate(&[]).is_none());
    }

    #[test]
    fn the_bootstrap_is_the_same_every_time_and_holds_what_it_must() {
        let values: Vec<f64> = (0..101).map(f64::from).collect();
        let got = estimate(&values).unwrap();
        assert_eq!(got, estimate(&values).unwrap());
        // By order statistics the interval of 101 values is from rank 41 to rank 61: 51 -+ 1.96 * sqrt(101) / 2.
        assert_eq!((got.median, got.confidence), (50.0, 0.95));
        assert!((39.0..=43.0).contains(&got.low) && (57.0..=61.0).contains(&got.high), "{got:?}");
        let shuffled: Vec<f64> = values.iter().rev().copied().collect();
        assert_eq!(estimate(&shuffled).unwrap(), got, "the order of values does not matter");
        let same = estimate(&[4.0; 20]).unwrap();
        assert_eq!((same.low, same.median, same.high), (4.0, 4.0, 4.0));
    }

    #[test]
    fn intervals_hold_the_true_median_as_often_as_they_say() {
        // 400 samples of 15 even numbers of [0, 1), whose median is a half.
        let mut random = Random::new(7);
        let mut held = 0;
        for _ in 0..400 {
            let values: Vec<f64> = (0..15).map(|_| random.unit()).collect();
            let got = estimate(&values).unwrap();
            held += u32::from(got.low <= 0.5 && 0.5 <= got.high);
        }
        assert!((360..=398).contains(&held), "{held} of 400");
    }

    #[test]
    fn ratios_are_of_medians() {
        let few = ratio(&[10.0, 12.0, 14.0], &[4.0, 6.0, 5.0]).unwrap();
        assert_eq!((few.value, few.low, few.high), (2.4, 10.0 / 6.0, 14.0 / 4.0));
        let (tens, twos): (Vec<f64>, Vec<f64>) = (vec![10.0; 8], vec![2.0; 9]);
        assert_eq!(ratio(&tens, &twos), Some(Ratio { value: 5.0, low: 5.0, high: 5.0 }));
        let wide: Vec<f64> = (90..=110).map(f64::from).collect();
        let got = ratio(&wide, &twos).unwrap();
        assert!(got.value == 50.0 && got.low > 46.0 && got.low < 50.0 && got.high > 50.0 && got.high < 54.0, "{got:?}");
        assert!(ratio(&[], &twos).is_none() && ratio(&twos, &[]).is_none() && ratio(&twos, &[0.0]).is_none());
    }

    #[test]
    fn nothing_follows_from_intervals_that_overlap() {
        #[track_caller]
        fn check(first: &[f64], second: &[f64], want: (Verdict, Verdict)) {
            assert_eq!((verdict(first, second, Better::Lower), verdict(first, second, Better::Higher)), want);
        }
        check(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0], (Verdict::Better, Verdict::Worse));
        check(&[4.0, 5.0, 6.0], &[1.0, 2.0, 3.0], (Verdict::Worse, Verdict::Better));
        check(&[1.0, 2.0, 4.0], &[4.0, 5.0, 6.0], (Verdict::Overlap, Verdict::Overlap));
        check(&[1.0, 9.0, 4.0], &[2.0, 5.0, 6.0], (Verdict::Overlap, Verdict::Overlap));
        check(&[1.0, 2.0], &[4.0, 5.0, 6.0], (Verdict::TooFew, Verdict::TooFew));
        check(&[], &[4.0, 5.0, 6.0], (Verdict::TooFew, Verdict::TooFew));
        let (low, high): (Vec<f64>, Vec<f64>) = ((0..20).map(f64::from).collect(), (4..24).map(f64::from).collect());
        check(&low, &high, (Verdict::Overlap, Verdict::Overlap));
        let far: Vec<f64> = (30..50).map(f64::from).collect();
        check(&low, &far, (Verdict::Better, Verdict::Worse));
    }
}
