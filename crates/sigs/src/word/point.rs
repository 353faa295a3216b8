//! Points of the curve y^2 = x^3 + 7, one at a time.
//!
//! In:     points given by x and w = 2y, affine or Jacobian; the doubled y saves the halving in every formula.
//! Out:    sums and doubles; limb bounds as the types of field.rs say, proved by bounds.rs.
//! Fails:  never; adding a point to itself or to its negative gives z = 0, which no later step repairs, so one look at
//!         the last z tells whether every addition was a proper one.
//! Source: docs/signatures.md, "Points"; the formulas are those of crate::lanes::point.

use super::field::{Field, Sum};
use super::limb::Limb;

/// A point (x, w/2), not the one at infinity.
#[derive(Clone, Copy, Debug)]
pub struct Affine<L = u64> {
    /// x.
    pub x: Field<L>,
    /// 2y, to be added: at most two field elements.
    pub w: Sum<L>,
}

/// The point (x/z^2, w/(2 z^3)); z = 0 means that an exception has happened.
#[derive(Clone, Copy, Debug)]
pub struct Jacobian<L = u64> {
    /// X.
    pub x: Field<L>,
    /// W = 2Y.
    pub w: Field<L>,
    /// Z.
    pub z: Field<L>,
}

impl<L: Limb> Affine<L> {
    /// The negative where `negative`. Pre: w is a field element. Post: w at most two.
    #[inline(always)]
    pub fn new(x: Field<L>, w: Field<L>, negative: bool) -> Self {
        Affine { x, w: w.sum().select(negative, w.sum().from_multiple::<2>()) }
    }

    /// 2 (x' - x): what [`Affine::add_with`] needs inverted. Post: at most six field elements.
    #[inline(always)]
    pub fn difference_of_x(x: Field<L>, other: Field<L>) -> Sum<L> {
        let difference = other.sum() + x.sum().from_multiple::<2>();
        difference + difference
    }

    /// x and w of the sum of two points, given the inverse of [`Affine::difference_of_x`]; wrong where that was zero.
    /// Post: at most four and five field elements.
    ///
    /// slope = (w' - w) / (2 (x' - x)), x3 = slope^2 - x - x', w3 = 2 slope (x - x3) - w.
    #[inline(always)]
    pub fn add_with(self, other: Self, inverse: Field<L>) -> [Sum<L>; 2] {
        let rise = other.w + self.w.from_multiple::<3>();
        let slope = rise.times(inverse.sum());
        let x = slope.squared().sum() + (self.x.sum() + other.x.sum()).from_multiple::<3>();
        let run = self.x.sum() + x.from_multiple::<5>();
        let w = (slope.sum() + slope.sum()).times(run).sum() + self.w.from_multiple::<3>();
        [x, w]
    }
}

impl<L: Limb> Jacobian<L> {
    /// The point with z = 1.
    #[inline(always)]
    pub fn from_affine(point: Affine<L>) -> Self {
        let one = Field::small(1);
        Jacobian { x: point.x, w: point.w.times(one.sum()), z: one }
    }

    /// Twice the point.
    ///
    /// With B = W^2, M = 3 X^2, S = X B: X3 = M^2 - 2S, Z3 = W Z, W3 = 2M (S - X3) - B^2.
    pub fn double(self) -> Self {
        let one = Field::small(1).sum();
        let b = self.w.squared();
        let square = self.x.squared().sum();
        let m = (square + square + square).times(one);
        let s = self.x.times(b).sum();
        let x = (m.squared().sum() + (s + s).from_multiple::<3>()).times(one);
        let run = s + x.sum().from_multiple::<2>();
        let w = (m.sum() + m.sum()).times(run).sum() + b.squared().sum().from_multiple::<2>();
        Jacobian { x, w: w.times(one), z: self.w.times(self.z) }
    }

    /// The sum with an affine point.
    ///
    /// With H = x Z^2 - X, R = w Z^3 - W, I = 4 H^2, J = H I, V = X I: X3 = R^2 - J - 2V, Z3 = 2 Z H,
    /// W3 = 2 (R (V - X3) - W J). H = 0, an equal or opposite point, gives Z3 = 0.
    pub fn add(self, point: Affine<L>) -> Self {
        let one = Field::small(1).sum();
        let zz = self.z.squared();
        let h = (point.x.times(zz).sum() + self.x.sum().from_multiple::<2>()).times(one);
        let zzz = self.z.times(zz).sum();
        let r = point.w.times(zzz).sum() + self.w.sum().from_multiple::<2>();
        let twice = h.sum() + h.sum();
        let i = twice.squared();
        let (j, v) = (h.times(i).sum(), self.x.times(i).sum());
        let x = (r.squared().sum() + (j + v + v).from_multiple::<4>()).times(one);
        let run = v + x.sum().from_multiple::<2>();
        let w = r.times(run).sum() + self.w.sum().times(j).sum().from_multiple::<2>();
        Jacobian { x, w: (w + w).times(one), z: self.z.sum().times(twice) }
    }
}
