//! Proof of the limb bounds: the field's and points' own code, run on intervals instead of numbers.
//!
//! In:     intervals holding every value the types of field.rs allow.
//! Out:    nothing.
//! Fails:  where a limb could overflow 64 bits or a sum of products 128, go below zero, break a promise
//!         ([`Limb::below`]) or leave its type's bounds.
//! Source: interval arithmetic, as in crate::lanes::bounds; every sum here is checked.

use std::ops::{Add, Sub};

use super::field::{Field, Sum};
use super::limb::Limb;
use super::point::{Affine, Jacobian};

/// Every value from `low` to `high`, both included, of 64 bits or of 128.
#[derive(Clone, Copy, Debug)]
struct Interval<const BITS: u32> {
    low: u128,
    high: u128,
}

type Short = Interval<64>;
type Long = Interval<128>;

impl<const BITS: u32> Interval<BITS> {
    #[track_caller]
    fn new(low: u128, high: u128) -> Self {
        assert!(low <= high && high <= u128::MAX >> (128 - BITS), "{BITS} bits must hold {low:#x}..={high:#x}");
        Interval { low, high }
    }
}

impl<const BITS: u32> Add for Interval<BITS> {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let high = self.high.checked_add(other.high);
        Interval::new(self.low + other.low, high.expect("128 bits must hold it"))
    }
}

impl Sub for Short {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        let low = self.low.checked_sub(other.high);
        Interval::new(low.unwrap_or_else(|| panic!("{self:x?} - {other:x?} may be negative")), self.high - other.low)
    }
}

impl Limb for Short {
    type Wide = Long;

    fn new(x: u64) -> Self {
        Interval::new(x.into(), x.into())
    }
    fn low<const BITS: u32>(self) -> Self {
        Interval::new(0, self.high.min((1 << BITS) - 1))
    }
    fn right<const BITS: u32>(self) -> Self {
        Interval::new(self.low >> BITS, self.high >> BITS)
    }
    fn times(self, other: Self) -> Long {
        Interval::new(self.low * other.low, self.high * other.high)
    }
    fn wide(self) -> Long {
        Interval::new(self.low, self.high)
    }
    fn split<const BITS: u32>(wide: Long) -> (Self, Long) {
        (Interval::new(0, wide.high.min((1 << BITS) - 1)), Interval::new(wide.low >> BITS, wide.high >> BITS))
    }
    fn narrow(wide: Long) -> Self {
        Interval::new(wide.low, wide.high)
    }
    fn select(self, _: bool, other: Self) -> Self {
        Interval::new(self.low.min(other.low), self.high.max(other.high))
    }
    fn below(self, bits: u32) -> Self {
        assert!(self.high < 1 << bits, "{:#x} is promised to be below 2^{bits}", self.high);
        self
    }
}

fn limbs(most: u128, most_of_last: u128) -> [Short; 5] {
    let limb = Interval::new(0, most);
    [limb, limb, limb, limb, Interval::new(0, most_of_last)]
}

/// Every element.
fn any_field() -> Field<Short> {
    Field(limbs((1 << 52) + (1 << 45) - 1, (1 << 48) - 1))
}

/// Every sum that may be multiplied.
fn any_sum() -> Sum<Short> {
    Sum(limbs((1 << 55) - 1, (1 << 51) - 1))
}

/// Every point as [`Affine::new`] makes it.
fn any_point() -> Affine<Short> {
    Affine::new(any_field(), any_field(), true)
}

#[track_caller]
fn is_field(field: Field<Short>) {
    for (limb, most) in field.0.iter().zip(any_field().0) {
        assert!(limb.high <= most.high, "{limb:x?} exceeds {most:x?}");
    }
}

/// Not above `count` times an element.
#[track_caller]
fn is_sum_of(count: u128, sum: Sum<Short>) {
    for (limb, most) in sum.0.iter().zip(any_field().0) {
        assert!(limb.high <= count * most.high, "{limb:x?} exceeds {count} times {most:x?}");
    }
}

#[test]
fn products_stay_in_bounds() {
    is_field(any_sum().times(any_sum()));
    is_field(any_sum().squared());
    is_field(any_field().times(any_field()));
    Sum(limbs((1 << 60) - 1, (1 << 60) - 1)).carried();
}

#[test]
fn points_stay_in_bounds() {
    let (a, b) = (any_point(), any_point());
    is_sum_of(2, a.w);
    is_sum_of(6, Affine::difference_of_x(a.x, b.x));
    any_sum().times(Affine::difference_of_x(a.x, b.x));
    let [x, w] = a.add_with(b, any_field());
    is_sum_of(4, x);
    is_sum_of(4, w);
    let point = Jacobian { x: any_field(), w: any_field(), z: any_field() };
    for point in [point.double(), point.add(a), Jacobian::from_affine(a)] {
        is_field(point.x);
        is_field(point.w);
        is_field(point.z);
    }
}

#[test]
#[should_panic(expected = "is promised to be below")]
fn a_limb_too_large_is_seen() {
    Sum(limbs(1 << 55, 0)).squared();
}

#[test]
#[should_panic(expected = "may be negative")]
fn a_difference_below_zero_is_seen() {
    (any_field().sum() + any_field().sum()).from_multiple::<2>();
}

#[test]
#[should_panic(expected = "bits must hold")]
fn a_column_too_large_is_seen() {
    let _ = Interval::<128>::new(0, u128::MAX) + Interval::new(0, 1);
}
