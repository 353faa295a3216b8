//! What a batch asks of the curve's arithmetic: the four operations that do all of its work.
//!
//! In:     points in one growing list, the arena; later points are made from earlier ones, named by their place.
//! Out:    points appended to the arena; and whether one last sum is the point at infinity.
//! Fails:  `false`: an x that is none of the curve, or a sum of two points with the same x. Then the batch proves nothing,
//!         which costs time and nothing else; so no operation here needs formulas for the exceptional cases.
//! Source: docs/signatures.md, "Batches".
//!
//! | implemented by | how |
//! |----------------|-----|
//! | lanes.rs       | eight points at a time, with the field of crate::lanes |
//! | word.rs        | one point at a time, with the field of crate::word |

use std::ops::Range;

/// A point of y^2 = x^3 + 7 as it lies in the arena, 64 bytes; never the one at infinity.
///
/// | words | field                                       |
/// |-------|---------------------------------------------|
/// | 0..4  | x modulo p, 64 bits a word, lowest first    |
/// | 4..8  | w = 2y modulo p, likewise                   |
///
/// Both are below 2^256 and need not be below p: a number and the same plus p are the same element. The doubled y saves
/// the halvings (crate::lanes::point): with w, slope = (w' - w) / (2 (x' - x)), x3 = slope^2 - x - x',
/// w3 = 2 slope (x - x3) - w.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Point(pub [u64; 8]);

impl Point {
    /// w = 2y, below 2^256.
    #[inline]
    pub fn w(&self) -> [u64; 4] {
        let [_, _, _, _, a, b, c, d] = self.0;
        [a, b, c, d]
    }
}

/// A point of the arena, or its negative (x, -w): its place times two, and one more for the negative.
///
/// An arena has fewer than 2^31 points: 128 GiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Term(u32);

impl Term {
    /// A term no arena has.
    pub const LAST: Term = Term(u32::MAX);

    /// The point at this place, negated where `negative`.
    #[inline(always)]
    pub fn new(place: usize, negative: bool) -> Term {
        debug_assert!(place < 1 << 31, "an arena of 2^31 points");
        Term((place as u32) << 1 | u32::from(negative))
    }

    /// Where the point is.
    #[inline(always)]
    pub fn place(self) -> usize {
        (self.0 >> 1) as usize
    }

    /// Whether its negative is meant.
    #[inline(always)]
    pub fn is_negative(self) -> bool {
        self.0 & 1 == 1
    }

    /// The negative of this.
    #[inline(always)]
    pub fn negated_if(self, negative: bool) -> Term {
        Term(self.0 ^ u32::from(negative))
    }
}

/// An x coordinate and which of the two points is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abscissa {
    /// Below p.
    pub x: [u64; 4],
    /// Whether y, the one below p, is odd.
    pub odd: bool,
}

/// The arithmetic of one processor, with the memory it works in; each thread has its own copy.
///
/// Every call gets as many points as there are, thousands, so that inversions are shared and lanes are full; lists may be
/// empty and of any length. All numbers are public: time and memory access may depend on them.
pub trait Curve: Clone + Send + Sync {
    /// Appends the point of each abscissa, in their order: y = (x^3 + 7)^((p+1)/4) or its negative.
    ///
    /// `false` where x^3 + 7 is no square for one of them (y^2 = x^3 + 7 is tested); then any points of the curve or none
    /// may have been appended.
    #[must_use]
    fn lift(&mut self, abscissas: &[Abscissa], points: &mut Vec<Point>) -> bool;

    /// Appends (beta x, w), lambda times the point, for each point of `range`, in their order.
    fn append_conjugates(&mut self, range: Range<usize>, points: &mut Vec<Point>);

    /// Appends the sum of each pair, in their order. No pair names a point appended by the same call.
    ///
    /// `false` where the two of a pair have the same x, be they equal or opposite: where the product of all differences
    /// is zero. Then anything may have been appended. One inversion serves at least some hundred pairs.
    #[must_use]
    fn add_pairs(&mut self, pairs: &[[Term; 2]], points: &mut Vec<Point>) -> bool;

    /// Whether the sum of 2^k `powers[k]` is the point at infinity; `None` adds nothing.
    ///
    /// Horner's rule, from the last power to the first: double, then add, in Jacobian coordinates. Before power 0 the sum
    /// S is compared with its negative, x Z^2 = X and w Z^3 = -W. An addition that meets an equal or opposite point
    /// before that, Z = 0 in the end, gives `false`; so do no powers, or none at place 0.
    #[must_use]
    fn is_zero(&mut self, powers: &[Option<Term>], points: &[Point]) -> bool;
}
