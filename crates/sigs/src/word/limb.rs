//! One 64-bit integer, and what field arithmetic asks of it.
//!
//! In:     integers.
//! Out:    [`Limb`] for `u64`, whose products are `u128`; the bounds test has another one, of intervals.
//! Fails:  never; sums wrap around, so the callers keep their bounds (bounds.rs proves them).
//! Source: school.

use std::ops::{Add, Sub};

/// A digit of a number.
pub trait Limb: Copy + Add<Output = Self> + Sub<Output = Self> {
    /// Holds a product, and sums of products.
    type Wide: Copy + Add<Output = Self::Wide>;

    /// A constant.
    fn new(x: u64) -> Self;
    /// The low `BITS` bits.
    fn low<const BITS: u32>(self) -> Self;
    /// Shifted right.
    fn right<const BITS: u32>(self) -> Self;
    /// The product.
    fn times(self, other: Self) -> Self::Wide;
    /// The same number.
    fn wide(self) -> Self::Wide;
    /// The low `BITS` bits, and what stands above.
    fn split<const BITS: u32>(wide: Self::Wide) -> (Self, Self::Wide);
    /// The same number. Pre: below 2^64.
    fn narrow(wide: Self::Wide) -> Self;
    /// `other` where `choose`, without a jump: a choice by chance would cost a wrong prediction every other time.
    fn select(self, choose: bool, other: Self) -> Self;
    /// Says that it is below `2^bits`; nothing happens but in the bounds test, which proves it.
    #[inline(always)]
    fn below(self, bits: u32) -> Self {
        let _ = bits;
        self
    }
}

impl Limb for u64 {
    type Wide = u128;

    #[inline(always)]
    fn new(x: u64) -> Self {
        x
    }
    #[inline(always)]
    fn low<const BITS: u32>(self) -> Self {
        self & (u64::MAX >> (64 - BITS))
    }
    #[inline(always)]
    fn right<const BITS: u32>(self) -> Self {
        self >> BITS
    }
    #[inline(always)]
    fn times(self, other: Self) -> u128 {
        u128::from(self) * u128::from(other)
    }
    #[inline(always)]
    fn wide(self) -> u128 {
        self.into()
    }
    #[inline(always)]
    fn split<const BITS: u32>(wide: u128) -> (Self, u128) {
        ((wide as u64).low::<BITS>(), wide >> BITS)
    }
    #[inline(always)]
    fn narrow(wide: u128) -> Self {
        wide as u64
    }
    #[inline(always)]
    fn select(self, choose: bool, other: Self) -> Self {
        self ^ (self ^ other) & u64::from(choose).wrapping_neg()
    }
}
