//! Whether a sum of many multiples of points is the point at infinity.
//!
//! In:     keys with multipliers modulo n, nonces with two short multipliers each.
//! Out:    `true` where the sum was computed and is infinity.
//! Fails:  `false`: another sum, an x off the curve, or an addition of equal or opposite points on the way.
//! Source: Pippenger's buckets with odd digits; docs/signatures.md, "Batches".

use super::collect::Collector;
use super::curve::{Abscissa, Curve, Point, Term};
use crate::lanes::digits::{encode_half, split};
use crate::number::order::Scalar;

/// Bits of a half of a key's multiplier, without its sign.
const KEY_BITS: usize = 130;
/// Bits of a half of a randomiser, without its sign.
pub const RANDOMISER_BITS: usize = 60;
/// Widths of windows that are considered, in bits.
pub const WIDTHS: std::ops::RangeInclusive<usize> = 3..=13;

/// The points, and what they are multiplied by.
#[derive(Default)]
pub struct Terms {
    /// Keys, then nonces.
    pub abscissas: Vec<Abscissa>,
    /// A multiplier for each key.
    pub keys: Vec<Scalar>,
    /// For each nonce K of two odd numbers a = 2 K - (2^60 - 1): it is multiplied by -(a + a' lambda).
    pub nonces: Vec<[u64; 2]>,
}

/// Memory of a sum.
#[derive(Default)]
pub struct Sum {
    points: Vec<Point>,
    halves: Vec<[u64; 3]>,
    collector: Collector,
    powers: Vec<Option<Term>>,
}

/// How the multipliers are cut: windows of `width` bits, `keys` of them for keys' halves and `nonces` for nonces'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    width: usize,
    keys: usize,
    nonces: usize,
}

impl Windows {
    /// Of this width in bits, one of [`WIDTHS`].
    pub fn of(width: usize) -> Windows {
        Windows { width, keys: KEY_BITS.div_ceil(width), nonces: RANDOMISER_BITS.div_ceil(width) }
    }

    /// Additions there are to be made: one a digit, and one more a bucket.
    fn additions(self, keys: usize, nonces: usize) -> usize {
        2 * keys * self.keys + 2 * nonces * self.nonces + self.keys * self.buckets()
    }

    /// The cheapest for so many keys and nonces.
    pub fn cheapest(keys: usize, nonces: usize) -> Windows {
        let all = WIDTHS.map(Windows::of);
        all.min_by_key(|windows| windows.additions(keys, nonces)).expect("there are widths")
    }

    /// One for each size of an odd digit.
    fn buckets(self) -> usize {
        1 << (self.width - 1)
    }

    /// Bits of a key's half in all windows.
    fn key_bits(self) -> usize {
        self.keys * self.width
    }
}

impl Terms {
    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.abscissas.clear();
        self.keys.clear();
        self.nonces.clear();
    }
}

impl Sum {
    /// Makes the points: key or nonce i at i, its product with lambda at i + the number of both.
    pub fn lift<C: Curve>(&mut self, curve: &mut C, terms: &Terms) -> bool {
        assert_eq!(terms.abscissas.len(), terms.keys.len() + terms.nonces.len(), "a multiplier for each point");
        self.points.clear();
        if !curve.lift(&terms.abscissas, &mut self.points) {
            return false;
        }
        curve.append_conjugates(0..terms.abscissas.len(), &mut self.points);
        true
    }

    /// The point of abscissa `index`, after [`Sum::lift`].
    pub fn point(&self, index: usize) -> &Point {
        &self.points[index]
    }

    /// Whether the sum is infinity, after [`Sum::lift`].
    pub fn add<C: Curve>(&mut self, curve: &mut C, terms: &Terms, windows: Windows) -> bool {
        self.halves.clear();
        for key in &terms.keys {
            let (one, two) = split(*key);
            self.halves.extend([one, two].map(|half| encode_half(half, windows.key_bits())));
        }
        self.collector.start(windows.keys * (windows.width + 2 * windows.buckets()));
        for window in 0..windows.keys {
            self.collector.reserve(2 * terms.abscissas.len());
            self.fill_buckets(terms, windows, window);
        }
        self.collector.settle(curve, &mut self.points) && self.weigh(curve, windows) && {
            let places = 0..windows.keys * windows.width;
            self.powers.clear();
            self.powers.extend(places.map(|place| self.collector.take(place)));
            curve.is_zero(&self.powers, &self.points)
        }
    }

    /// Puts every point with a digit in this window to the bucket of the digit's size.
    fn fill_buckets(&mut self, terms: &Terms, windows: Windows, window: usize) {
        let Windows { width, nonces, .. } = windows;
        let (keys, all) = (terms.keys.len(), terms.abscissas.len());
        let first = windows.first(window, 0);
        let half = 1u32 << (width - 1);
        // The digit is 2e + 1 - 2^width: at or above 2^(width - 1), e's lower bits count up; below it they count down.
        let mut put = |plain: u64, point: usize, negative: bool| {
            let plain = plain as u32 & (2 * half - 1);
            let below = plain < half;
            let size = if below { half - 1 - plain } else { plain - half };
            self.collector.put(first + size as usize, Term::new(point, below != negative));
        };
        let (word, shift) = (window * width / 64, window * width % 64);
        for (index, half) in self.halves.iter().enumerate() {
            let above = if word < 2 { half[word + 1] << 1 << (63 - shift) } else { 0 };
            put(half[word] >> shift | above, index / 2 + (index & 1) * all, false);
        }
        if window >= nonces {
            return;
        }
        // K of a number of 60 bits is raised to that of all windows' bits: 2^(bits - 1) in place of 2^59.
        let raise = (1u128 << (nonces * width - 1)) - (1 << (RANDOMISER_BITS - 1));
        for (index, numbers) in terms.nonces.iter().enumerate() {
            for (number, conjugate) in numbers.iter().zip([0, all]) {
                let plain = (u128::from(*number) + raise) >> (window * width);
                put(plain as u64, keys + index + conjugate, true);
            }
        }
    }

    /// Makes of the buckets' sums B_b the powers' terms: bucket b of window w counts (2b + 1) 2^(w width).
    ///
    /// Level by level: b = 2i + odd, so the sum of b B_b is twice the sum of i (B_2i + B_2i+1), and the odd ones once.
    fn weigh<C: Curve>(&mut self, curve: &mut C, windows: Windows) -> bool {
        let width = windows.width;
        for level in 0..width - 1 {
            // Each bucket goes to the next level, and every second one to a power.
            self.collector.reserve(2 * windows.keys * (windows.buckets() >> level));
            for window in 0..windows.keys {
                let (from, to) = (windows.first(window, level), windows.first(window, level + 1));
                for index in 0..windows.buckets() >> level {
                    let Some(sum) = self.collector.take(from + index) else { continue };
                    self.collector.put(to + index / 2, sum);
                    if index % 2 == 1 {
                        self.collector.put(window * width + 1 + level, sum);
                    }
                }
            }
            // The next level is complete after this; powers may still have pairs.
            if !self.collector.add(curve, &mut self.points) {
                return false;
            }
        }
        self.collector.reserve(windows.keys);
        for window in 0..windows.keys {
            if let Some(sum) = self.collector.take(windows.first(window, width - 1)) {
                self.collector.put(window * width, sum);
            }
        }
        self.collector.settle(curve, &mut self.points)
    }
}

impl Windows {
    /// The collector's place for the first bucket of a level of a window; before them all stand the powers.
    fn first(self, window: usize, level: usize) -> usize {
        // The levels of a window have half as many buckets each: together twice those of the first.
        let before = 2 * self.buckets() - (2 * self.buckets() >> level);
        self.keys * self.width + window * 2 * self.buckets() + before
    }
}
