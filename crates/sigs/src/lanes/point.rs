//! Points of the curve y^2 = x^3 + 7 in every lane.
//!
//! In:     points given by x and w = 2y, affine or Jacobian; the doubled y saves the halving in every formula.
//! Out:    sums and doubles; limb bounds as the types of field.rs say, proved by bounds.rs.
//! Fails:  never; adding a point to itself or to its negative gives z = 0, which no later step repairs, so one look at
//!         the last z tells whether every addition was a proper one.
//! Source: docs/signatures.md, "Points"; dbl-2009-l and madd-2007-bl of the Explicit-Formulas Database, rewritten for w.

use super::field::{Columns, Factor, Field};
use super::vector::{Mask, Word};

/// A point (x, w/2), not the one at infinity.
#[derive(Clone, Copy)]
pub struct Affine<W> {
    /// x, tight.
    pub x: Field<W>,
    /// 2y, tight.
    pub w: Field<W>,
}

/// The point (x/z^2, w/(2 z^3)); z = 0 means that an exception has happened.
#[derive(Clone, Copy)]
pub struct Jacobian<W> {
    /// X, tight.
    pub x: Field<W>,
    /// W = 2Y, a factor as a reduction gives it.
    pub w: Factor<W>,
    /// Z, a factor as a reduction gives it.
    pub z: Factor<W>,
}

impl<W: Word> Affine<W> {
    /// The negative.
    #[inline(always)]
    pub fn negate(self) -> Self {
        Affine { x: self.x, w: self.w.negate() }
    }

    /// `other` in the lanes of `mask`.
    #[inline(always)]
    pub fn select(self, mask: Mask, other: Self) -> Self {
        Affine { x: self.x.select(mask, other.x), w: self.w.select(mask, other.w) }
    }

    /// 2 (x' - x): what [`Affine::add_with`] needs inverted. Post: a factor, limb 4 < 2^51.
    #[inline(always)]
    pub fn difference_of_x(self, other: Self) -> Factor<W> {
        let difference = other.x.sum() + self.x.sum().from_multiple::<2>();
        (difference + difference).carry()
    }

    /// The sum of two points, given the inverse of [`Affine::difference_of_x`]; wrong where that was zero.
    #[inline(always)]
    pub fn add_with(self, other: Self, inverse: Factor<W>) -> Self {
        let rise = (other.w.sum() + self.w.sum().from_multiple::<2>()).carry();
        self.third_point(other.x, rise.times(inverse))
    }

    /// Twice the point, given the inverse of its w, which is never zero: the curve has no point of order two.
    #[inline(always)]
    pub fn double_with(self, inverse: Factor<W>) -> Self {
        let rise = Columns::square(self.x.factor()).reduce::<3>();
        self.third_point(self.x, rise.times(inverse))
    }

    /// x3 = slope^2 - x - x', w3 = 2 slope (x - x3) - w.
    #[inline(always)]
    fn third_point(self, other_x: Field<W>, slope: Factor<W>) -> Self {
        let both = (self.x.sum() + other_x.sum()).from_multiple::<3>();
        let x = Columns::square(slope).plus(both).reduce::<1>().mask();
        let run = (self.x.sum() + x.sum().from_multiple::<2>()).carry();
        let w = Columns::product(slope, run).reduce_plus::<2>(Some(self.w.sum().from_multiple::<2>())).mask();
        Affine { x, w }
    }
}

impl<W: Word> Jacobian<W> {
    /// The point with z = 1.
    #[inline(always)]
    pub fn from_affine(point: Affine<W>) -> Self {
        let one = Field::small(point.x.0[0], 1).factor();
        Jacobian { x: point.x, w: point.w.factor(), z: one }
    }

    /// Becomes -2 times itself.
    ///
    /// With B = W^2, M = 3 X^2, S = X B: X3 = M^2 - 2S, Z3 = W Z, W3 = 2M(S - X3) - B^2. The negative of W3 is a sum
    /// of two products, so it shares one reduction: the caller keeps the sign.
    #[inline(always)]
    pub fn double_negated(&mut self) {
        let b = self.w.squared();
        let m = Columns::square(self.x.factor()).reduce::<3>();
        let s = self.x.factor().times(b).mask();
        self.z = self.w.times(self.z);
        let minus_2s = (s.sum() + s.sum()).from_multiple::<3>();
        self.x = Columns::square(m).plus(minus_2s).reduce::<1>().mask();
        let fall = (self.x.sum() + self.x.sum() + minus_2s).carry();
        self.w = Columns::square(b).plus_product(m, fall).reduce::<1>();
    }

    /// Becomes -(itself + `point`).
    ///
    /// With H = x Z^2 - X, R = w Z^3 - W, I = 4 H^2, J = H I, V = X I: X3 = R^2 - J - 2V, Z3 = 2 Z H,
    /// W3 = 2 (R (V - X3) - W J). H = 0, an equal or opposite point, gives Z3 = 0.
    #[inline(always)]
    pub fn add_negated(&mut self, point: Affine<W>) {
        let zz = self.z.squared();
        let zzz = self.z.times(zz);
        let minus_x = Columns::start(self.x.sum().from_multiple::<2>());
        let minus_w = Columns::start(self.w.mask().sum().from_multiple::<2>());
        let h = minus_x.plus_product(point.x.factor(), zz).reduce::<1>();
        let r = minus_w.plus_product(point.w.factor(), zzz).reduce::<1>();
        let i = Columns::square(h).reduce::<4>();
        self.z = Columns::product(self.z, h).reduce::<2>();
        let v = self.x.factor().times(i).mask();
        let j = h.times(i).mask();
        let minus_j_2v = (j.sum() + v.sum() + v.sum()).from_multiple::<4>();
        self.x = Columns::square(r).plus(minus_j_2v).reduce::<1>().mask();
        let fall = (self.x.sum() + v.sum().from_multiple::<2>()).carry();
        self.w = Columns::product(r, fall).plus_product(self.w, j.factor()).reduce::<2>();
    }
}
