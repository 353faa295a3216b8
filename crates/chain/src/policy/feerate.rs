//! Fees by size, as fractions that nothing is rounded in.
//!
//! In:     fees in satoshi and sizes, in virtual bytes or in weight.
//! Out:    fees for a size, comparisons of feerates and of feerate diagrams.
//! Fails:  never; products fit 128 bits.
//! Source: Bitcoin Core: `util/feefrac.h`, `policy/feerate.h`, `CompareChunks`.

use std::cmp::Ordering;
use std::ops::{Add, AddAssign, Sub, SubAssign};

/// A fee and what it pays for. Size is virtual bytes or weight: who holds it says which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FeeFrac {
    /// Satoshi; may be below zero where the owner has said so (prioritisetransaction).
    pub fee_sat: i64,
    /// What it pays for.
    pub size: u32,
}

impl FeeFrac {
    /// A fee for a size.
    pub fn new(fee_sat: i64, size: u32) -> FeeFrac {
        FeeFrac { fee_sat, size }
    }

    /// Which one pays more for each unit of size. An empty one equals every other.
    #[inline]
    pub fn cmp_rate(&self, other: &FeeFrac) -> Ordering {
        let left = i128::from(self.fee_sat) * i128::from(other.size);
        left.cmp(&(i128::from(other.fee_sat) * i128::from(self.size)))
    }

    /// True where it pays more for each unit than `other`.
    #[inline]
    pub fn above(&self, other: &FeeFrac) -> bool {
        self.cmp_rate(other).is_gt()
    }
}

impl Add for FeeFrac {
    type Output = FeeFrac;

    fn add(self, other: FeeFrac) -> FeeFrac {
        FeeFrac { fee_sat: self.fee_sat.saturating_add(other.fee_sat), size: self.size + other.size }
    }
}

impl Sub for FeeFrac {
    type Output = FeeFrac;

    fn sub(self, other: FeeFrac) -> FeeFrac {
        FeeFrac { fee_sat: self.fee_sat.saturating_sub(other.fee_sat), size: self.size - other.size }
    }
}

impl AddAssign for FeeFrac {
    fn add_assign(&mut self, other: FeeFrac) {
        *self = *self + other;
    }
}

impl SubAssign for FeeFrac {
    fn sub_assign(&mut self, other: FeeFrac) {
        *self = *self - other;
    }
}

/// Satoshi for virtual bytes, as a fraction (Core: `CFeeRate`).
#[derive(Clone, Copy, Debug, Default)]
pub struct FeeRate(FeeFrac);

impl FeeRate {
    /// Nothing for anything.
    pub const ZERO: FeeRate = FeeRate(FeeFrac { fee_sat: 0, size: 1_000 });

    /// A feerate in satoshi for 1,000 virtual bytes.
    pub const fn per_kvb(fee_sat: i64) -> FeeRate {
        FeeRate(FeeFrac { fee_sat, size: 1_000 })
    }

    /// The feerate of a fee for a size in virtual bytes; zero for no size.
    pub fn of(fee_sat: i64, size_vb: u32) -> FeeRate {
        if size_vb == 0 { FeeRate::ZERO } else { FeeRate(FeeFrac { fee_sat, size: size_vb }) }
    }

    /// What a size must pay, rounded up to the next satoshi.
    pub fn fee_sat(&self, size_vb: u32) -> i64 {
        let size = i128::from(self.0.size.max(1));
        let product = i128::from(self.0.fee_sat) * i128::from(size_vb);
        let fee = -((-product).div_euclid(size)) as i64;
        if fee == 0 && size_vb != 0 && self.0.fee_sat < 0 { -1 } else { fee }
    }

    /// Satoshi for 1,000 virtual bytes, rounded down.
    pub fn sat_per_kvb(&self) -> i64 {
        (i128::from(self.0.fee_sat) * 1_000).div_euclid(i128::from(self.0.size.max(1))) as i64
    }
}

impl PartialEq for FeeRate {
    fn eq(&self, other: &FeeRate) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for FeeRate {}

impl PartialOrd for FeeRate {
    fn partial_cmp(&self, other: &FeeRate) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for FeeRate {
    fn cmp(&self, other: &FeeRate) -> Ordering {
        self.0.cmp_rate(&other.0)
    }
}

/// Compares what two lists of chunks, each from the highest feerate down, have earned at every size.
///
/// `Some(Greater)` where `left` is nowhere below `right` and somewhere above; `None` where each is above somewhere.
/// A list that has ended earns nothing more. Core: `CompareChunks`.
pub fn compare_diagrams(left: &[FeeFrac], right: &[FeeFrac]) -> Option<Ordering> {
    let lists = [left, right];
    let (mut next, mut sums) = ([0, 0], [FeeFrac::default(); 2]);
    let mut above = [false, false];
    loop {
        let done = [next[0] == left.len(), next[1] == right.len()];
        let point = |side: usize| lists[side][next[side]] + sums[side];
        // The side whose next corner comes first; one that has ended waits.
        let side = match done {
            [true, true] => break,
            [true, false] => 1,
            [false, true] => 0,
            _ => usize::from(point(0).size > point(1).size),
        };
        let other = 1 - side;
        let slope = point(side) - sums[other];
        let against = if done[other] { FeeFrac::new(0, 1) } else { point(other) - sums[other] };
        match slope.cmp_rate(&against) {
            Ordering::Greater => above[side] = true,
            Ordering::Less => above[other] = true,
            Ordering::Equal => {}
        }
        let both = !done[other] && point(other).size == point(side).size;
        for side in [Some(side), both.then_some(other)].into_iter().flatten() {
            sums[side] = sums[side] + lists[side][next[side]];
            next[side] += 1;
        }
    }
    match above {
        [true, true] => None,
        [left, right] => Some(left.cmp(&right)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::random::Random;

    #[test]
    fn fees_are_rounded_up_and_rates_down() {
        #[track_caller]
        fn check(rate: FeeRate, size_vb: u32, want: i64) {
            assert_eq!(rate.fee_sat(size_vb), want, "{rate:?} {size_vb}");
        }
        check(FeeRate::per_kvb(100), 0, 0);
        check(FeeRate::per_kvb(100), 1, 1);
        check(FeeRate::per_kvb(100), 10, 1);
        check(FeeRate::per_kvb(100), 11, 2);
        check(FeeRate::per_kvb(1_000), 250, 250);
        check(FeeRate::per_kvb(-100), 5, -1);
        check(FeeRate::per_kvb(-100), 25, -2);
        check(FeeRate::of(7, 3), 3, 7);
        check(FeeRate::of(i64::MAX / 4, 1), 4, i64::MAX / 4 * 4);
        check(FeeRate::of(5, 0), 1_000, 0);
        assert_eq!(FeeRate::of(2, 3).sat_per_kvb(), 666);
        assert!(FeeRate::of(2, 3) > FeeRate::per_kvb(666) && FeeRate::of(2, 3) < FeeRate::per_kvb(667));
    }

    /// What a list has earned at `size`, times `scale`.
    fn earned(chunks: &[FeeFrac], size: u32) -> f64 {
        let (mut left, mut fee) = (size, 0.0);
        for chunk in chunks {
            let part = left.min(chunk.size);
            fee += chunk.fee_sat as f64 * f64::from(part) / f64::from(chunk.size);
            left -= part;
        }
        fee
    }

    #[test]
    fn diagrams_compare_as_their_curves_do() {
        let mut random = Random::new(5);
        let mut seen = [0; 4];
        for _ in 0..4_000 {
            let [a, b] = [0, 1].map(|_| {
                let count = random.below(4);
                let chunk = |_| FeeFrac::new(random.below(6) as i64 * 10, 1 + random.below(4) as u32);
                let mut chunks: Vec<FeeFrac> = (0..count).map(chunk).collect();
                chunks.sort_by(|a, b| b.cmp_rate(a));
                chunks
            });
            let sizes = 0..=20;
            let (mut above, mut below) = (false, false);
            for size in sizes {
                let difference = earned(&a, size) - earned(&b, size);
                above |= difference > 1e-6;
                below |= difference < -1e-6;
            }
            let want = if above && below { None } else { Some(above.cmp(&below)) };
            assert_eq!(compare_diagrams(&a, &b), want, "{a:?} {b:?}");
            seen[want.map_or(3, |order| (order as i8 + 1) as usize)] += 1;
        }
        assert!(seen.iter().all(|&count| count > 100), "{seen:?}");
    }
}
