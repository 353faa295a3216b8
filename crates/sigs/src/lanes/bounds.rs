//! Proof of the limb bounds: the engine's own field and point code, run on intervals instead of numbers.
//!
//! In:     intervals holding every value the types of field.rs allow.
//! Out:    nothing.
//! Fails:  where a lane could overflow 64 bits, go below zero, break a promise ([`Word::below`]) or leave its type's
//!         bounds.
//! Source: interval arithmetic; an interval's ends are kept in 128 bits, so nothing here can overflow unseen.

use std::ops::{Add, BitAnd, BitOr, BitXor, Sub};

use super::field::{Columns, Factor, Field, Sum, square_roots};
use super::point::{Affine, Jacobian};
use super::vector::{Mask, Word};

/// Every value from `low` to `high`, both included.
#[derive(Clone, Copy, Debug)]
struct Interval {
    low: u128,
    high: u128,
}

const LOW_52: u128 = (1 << 52) - 1;

impl Interval {
    #[track_caller]
    fn new(low: u128, high: u128) -> Interval {
        assert!(low <= high && high < 1 << 64, "a lane holds 64 bits: {low:#x}..={high:#x}");
        Interval { low, high }
    }

    /// The low 52 bits of any value in it, as IFMA reads them.
    fn multiplicand(self) -> u128 {
        self.high.min(LOW_52)
    }
}

impl Add for Interval {
    type Output = Self;
    #[inline(never)]
    fn add(self, other: Self) -> Self {
        Interval::new(self.low + other.low, self.high + other.high)
    }
}

impl Sub for Interval {
    type Output = Self;
    #[inline(never)]
    fn sub(self, other: Self) -> Self {
        let low = self.low.checked_sub(other.high);
        Interval::new(low.unwrap_or_else(|| panic!("{self:x?} - {other:x?} may be negative")), self.high - other.low)
    }
}

impl BitAnd for Interval {
    type Output = Self;
    #[inline(never)]
    fn bitand(self, other: Self) -> Self {
        Interval::new(0, self.high.min(other.high))
    }
}

/// The smallest 2^n - 1 not below both.
fn ones(a: Interval, b: Interval) -> u128 {
    (a.high.max(b.high) + 1).next_power_of_two() - 1
}

impl BitOr for Interval {
    type Output = Self;
    #[inline(never)]
    fn bitor(self, other: Self) -> Self {
        Interval::new(self.low.max(other.low), ones(self, other))
    }
}

impl BitXor for Interval {
    type Output = Self;
    #[inline(never)]
    fn bitxor(self, other: Self) -> Self {
        Interval::new(0, ones(self, other))
    }
}

impl Word for Interval {
    #[inline(never)]
    fn all(self, x: u64) -> Self {
        Interval::new(x.into(), x.into())
    }
    #[inline(never)]
    fn right<const BITS: u32>(self) -> Self {
        Interval::new(self.low >> BITS, self.high >> BITS)
    }
    /// Bits must not be lost here, unlike in [`Field::from_words`], which has no bounds to prove.
    #[inline(never)]
    fn left<const BITS: u32>(self) -> Self {
        Interval::new(self.low << BITS, self.high << BITS)
    }
    #[inline(never)]
    fn add_low(self, a: Self, b: Self) -> Self {
        Interval::new(self.low, self.high + (a.multiplicand() * b.multiplicand()).min(LOW_52))
    }
    #[inline(never)]
    fn add_high(self, a: Self, b: Self) -> Self {
        Interval::new(self.low, self.high + ((a.multiplicand() * b.multiplicand()) >> 52))
    }
    #[inline(never)]
    fn equals(self, _: Self) -> Mask {
        0
    }
    #[inline(never)]
    fn has(self, _: u64) -> Mask {
        0
    }
    #[inline(never)]
    fn select(self, _: Mask, other: Self) -> Self {
        Interval::new(self.low.min(other.low), self.high.max(other.high))
    }
    #[inline(never)]
    fn below(self, bits: u32) -> Self {
        assert!(self.high < 1 << bits, "{:#x} is promised to be below 2^{bits}", self.high);
        self
    }
}

fn up_to(high: u128) -> Interval {
    Interval::new(0, high)
}

/// Every tight element.
fn any_field() -> Field<Interval> {
    let limb = up_to(LOW_52);
    Field([limb, limb, limb, limb, up_to((1 << 48) + (1 << 9) - 1)])
}

/// Every factor.
fn any_factor() -> Factor<Interval> {
    let limb = up_to(u64::MAX.into());
    Factor([limb, limb, limb, limb, up_to((1 << 51) - 1)])
}

/// Every factor a reduction gives: tight once masked.
fn reduced_factor() -> Factor<Interval> {
    Factor(any_field().0.map(|limb| up_to(limb.high)))
}

fn any_point() -> Affine<Interval> {
    Affine { x: any_field(), w: any_field() }
}

#[track_caller]
fn tight(field: Field<Interval>) {
    for (limb, most) in field.0.iter().zip(any_field().0) {
        assert!(limb.high <= most.high, "{limb:x?} exceeds {most:x?}");
    }
}

#[test]
fn arithmetic_of_elements_stays_in_bounds() {
    let (field, factor) = (any_field(), any_factor());
    tight(field.negate());
    tight(field.double());
    tight(field.factor().mask());
    tight(factor.times(factor).mask());
    tight(factor.squared().mask());
    field.is_zero();
    field.is_odd();
    for root in square_roots([factor; 2]) {
        tight(root);
    }
}

#[test]
fn fused_forms_stay_in_bounds() {
    let factor = any_factor();
    let sum = (any_field().sum() + any_field().sum() + any_field().sum()).from_multiple::<4>();
    let two = Columns::square(factor).plus_product(factor, factor).plus(sum).plus(sum);
    tight(two.reduce::<1>().mask());
    tight(two.reduce::<2>().mask());
    tight(two.reduce::<3>().mask());
    tight(two.reduce::<4>().mask());
    tight(two.reduce_plus::<4>(Some(sum)).mask());
    tight(Columns::start(sum).plus_product(factor, factor).reduce::<1>().mask());
    let largest = Sum([up_to((1 << 60) - 1); 5]);
    tight(largest.tighten());
}

#[test]
fn points_stay_in_bounds() {
    let mut point = Jacobian { x: any_field(), w: reduced_factor(), z: reduced_factor() };
    let check = |point: &Jacobian<Interval>| {
        tight(point.x);
        tight(point.w.mask());
        tight(point.z.mask());
    };
    point.double_negated();
    check(&point);
    let mut point = Jacobian { x: any_field(), w: reduced_factor(), z: reduced_factor() };
    point.add_negated(any_point());
    check(&point);
    let (a, b) = (any_point(), any_point());
    for sum in [a.add_with(b, any_factor()), a.double_with(any_factor())] {
        tight(sum.x);
        tight(sum.w);
    }
    a.difference_of_x(b);
    tight(a.negate().w);
}

#[test]
#[should_panic(expected = "is promised to be below")]
fn a_limb_too_large_is_seen() {
    let limb = up_to((1 << 58) - 1);
    Sum([limb; 5]).carry();
}

#[test]
#[should_panic(expected = "may be negative")]
fn a_difference_below_zero_is_seen() {
    (any_field().sum() + any_field().sum()).from_multiple::<2>();
}
