//! Eight 64-bit integers side by side, and the few operations on them that the engine is made of.
//!
//! In:     lanes of integers.
//! Out:    the same operation in every lane: [`Ifma`] (vector_512.rs) does it in one AVX-512 instruction, [`AvxIfma`]
//!         (vector_256.rs) in two of AVX2 and AVX-IFMA, `Portable` in plain Rust.
//! Fails:  never; sums wrap around, so the callers keep their bounds (field.rs has them checked by interval arithmetic).
//! Source: Intel's manual for VPMADD52LUQ and VPMADD52HUQ. `unsafe` is in the two files of registers only.
//!
//! Everything here is `inline(always)`, so that it becomes part of the few functions compiled for each kind of register
//! (stages.rs).

use std::ops::{Add, BitAnd, BitOr, BitXor, Sub};

#[cfg(target_arch = "x86_64")]
pub use super::vector_256::AvxIfma;
#[cfg(all(test, target_arch = "x86_64"))]
pub use super::vector_256::Twin;
#[cfg(all(test, target_arch = "x86_64"))]
pub(crate) use super::vector_256::enter_twin;
#[cfg(target_arch = "x86_64")]
pub(crate) use super::vector_256::{enter_avx_ifma, enter_two_registers};
#[cfg(target_arch = "x86_64")]
pub use super::vector_512::Ifma;
#[cfg(target_arch = "x86_64")]
pub(crate) use super::vector_512::enter_ifma;

/// One bit a lane, lane 0 lowest.
pub type Mask = u8;

/// Signatures side by side.
pub const LANES: usize = 8;

/// One number of every lane, as it lies in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Lanes(pub [u64; LANES]);

/// What field arithmetic needs of a vector. Constants are made from a vector in hand: who has one has the processor.
pub trait Word:
    Copy + Add<Output = Self> + Sub<Output = Self> + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self>
{
    /// `x` in every lane.
    fn all(self, x: u64) -> Self;
    /// Shifted right, zeros coming in.
    fn right<const BITS: u32>(self) -> Self;
    /// Shifted left, bits going out lost.
    fn left<const BITS: u32>(self) -> Self;
    /// `self + (a mod 2^52) * (b mod 2^52) mod 2^52`.
    fn add_low(self, a: Self, b: Self) -> Self;
    /// `self + floor((a mod 2^52) * (b mod 2^52) / 2^52)`.
    fn add_high(self, a: Self, b: Self) -> Self;
    /// Where the lanes are equal.
    fn equals(self, other: Self) -> Mask;
    /// Where a bit of `bits` is set.
    fn has(self, bits: u64) -> Mask;
    /// `other` in the lanes of `mask`, `self` elsewhere.
    fn select(self, mask: Mask, other: Self) -> Self;
    /// Says that every lane is below `2^bits`; nothing happens but in the bounds test, which proves it.
    #[inline(always)]
    fn below(self, bits: u32) -> Self {
        let _ = bits;
        self
    }
}

/// What else the engine needs: lanes that differ, and look-ups.
pub trait Vector: Word {
    /// The instructions it is made of, as logs name them.
    const NAME: &'static str;

    /// The lanes, from memory.
    fn load(self, lanes: &Lanes) -> Self;
    /// The lanes, to memory.
    fn store(self) -> Lanes;
    /// Every lane from the lane whose number differs by the bit `DISTANCE`, 1, 2 or 4.
    fn swap<const DISTANCE: usize>(self) -> Self;
    /// Shifted right by a number known at run time, below 64.
    fn right_by(self, bits: u32) -> Self;
    /// Shifted left by a number known at run time, below 64.
    fn left_by(self, bits: u32) -> Self;
    /// Each lane's own word of row `self mod 16` of a table, from part `parts[0]` of the row, or `parts[1]` in `mask`.
    fn look_up<const PARTS: usize>(self, table: &[[Lanes; PARTS]; 16], parts: [usize; 2], mask: Mask) -> Self;
    /// Rows `index mod LENGTH` of a table, transposed: vector `k` has word `k` of every lane's row.
    fn look_up_rows<const LENGTH: usize>(self, table: &[Lanes; LENGTH]) -> [Self; 8];
    /// Eight rows, transposed: vector `k` has word `k` of every lane's row.
    fn load_rows(self, rows: [&[u64; LANES]; LANES]) -> [Self; LANES];
    /// The rows of which [`Vector::load_rows`] makes these vectors.
    fn store_rows(vectors: [Self; LANES]) -> [Lanes; LANES];
    /// Asks the processor to fetch a row.
    fn prefetch(self, row: &[u64; LANES]);
    /// Asks the processor to fetch those rows.
    fn prefetch_rows<const LENGTH: usize>(self, table: &[Lanes; LENGTH]);
}

/// Plain Rust: the meaning of every operation. The tests run the whole engine on it, on any processor.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portable(pub [u64; LANES]);

#[cfg(test)]
const LOW_52: u64 = (1 << 52) - 1;

#[cfg(test)]
impl Portable {
    fn map(self, other: Self, each: impl Fn(u64, u64) -> u64) -> Self {
        Portable(std::array::from_fn(|lane| each(self.0[lane], other.0[lane])))
    }

    fn mask(self, each: impl Fn(usize, u64) -> bool) -> Mask {
        (0..LANES).fold(0, |mask, lane| mask | u8::from(each(lane, self.0[lane])) << lane)
    }
}

/// The operators of a vector type by functions of two operands.
macro_rules! operators {
    ($type:ty, $inline:meta: $($trait:ident $name:ident |$a:ident, $b:ident| $body:expr;)*) => {$(
        impl $trait for $type {
            type Output = Self;
            #[$inline]
            fn $name(self, other: Self) -> Self {
                let ($a, $b) = (self, other);
                $body
            }
        }
    )*};
}
#[cfg(any(test, target_arch = "x86_64"))]
pub(crate) use operators;

#[cfg(test)]
operators! { Portable, inline(never):
    Add add |a, b| a.map(b, u64::wrapping_add);
    Sub sub |a, b| a.map(b, u64::wrapping_sub);
    BitAnd bitand |a, b| a.map(b, |x, y| x & y);
    BitOr bitor |a, b| a.map(b, |x, y| x | y);
    BitXor bitxor |a, b| a.map(b, |x, y| x ^ y);
}

#[cfg(test)]
fn product_52(a: u64, b: u64) -> u128 {
    u128::from(a & LOW_52) * u128::from(b & LOW_52)
}

#[cfg(test)]
impl Word for Portable {
    #[inline(never)]
    fn all(self, x: u64) -> Self {
        Portable([x; LANES])
    }
    #[inline(never)]
    fn right<const BITS: u32>(self) -> Self {
        self.right_by(BITS)
    }
    #[inline(never)]
    fn left<const BITS: u32>(self) -> Self {
        self.left_by(BITS)
    }
    #[inline(never)]
    fn add_low(self, a: Self, b: Self) -> Self {
        self + a.map(b, |x, y| product_52(x, y) as u64 & LOW_52)
    }
    #[inline(never)]
    fn add_high(self, a: Self, b: Self) -> Self {
        self + a.map(b, |x, y| (product_52(x, y) >> 52) as u64)
    }
    #[inline(never)]
    fn equals(self, other: Self) -> Mask {
        self.mask(|lane, x| x == other.0[lane])
    }
    #[inline(never)]
    fn has(self, bits: u64) -> Mask {
        self.mask(|_, x| x & bits != 0)
    }
    #[inline(never)]
    fn select(self, mask: Mask, other: Self) -> Self {
        Portable(std::array::from_fn(|lane| if mask >> lane & 1 == 1 { other.0[lane] } else { self.0[lane] }))
    }
}

#[cfg(test)]
impl Vector for Portable {
    const NAME: &'static str = "plain Rust";

    #[inline(never)]
    fn load(self, lanes: &Lanes) -> Self {
        Portable(lanes.0)
    }
    #[inline(never)]
    fn store(self) -> Lanes {
        Lanes(self.0)
    }
    #[inline(never)]
    fn swap<const DISTANCE: usize>(self) -> Self {
        Portable(std::array::from_fn(|lane| self.0[lane ^ DISTANCE]))
    }
    #[inline(never)]
    fn right_by(self, bits: u32) -> Self {
        self.map(self, |x, _| x >> bits)
    }
    #[inline(never)]
    fn left_by(self, bits: u32) -> Self {
        self.map(self, |x, _| x << bits)
    }
    #[inline(never)]
    fn look_up<const PARTS: usize>(self, table: &[[Lanes; PARTS]; 16], parts: [usize; 2], mask: Mask) -> Self {
        let word = |lane: usize| table[self.0[lane] as usize % 16][parts[usize::from(mask >> lane & 1)]].0[lane];
        Portable(std::array::from_fn(word))
    }
    #[inline(never)]
    fn look_up_rows<const LENGTH: usize>(self, table: &[Lanes; LENGTH]) -> [Self; 8] {
        let rows = self.0.map(|index| table[index as usize % LENGTH].0);
        std::array::from_fn(|word| Portable(std::array::from_fn(|lane| rows[lane][word])))
    }
    #[inline(never)]
    fn load_rows(self, rows: [&[u64; LANES]; LANES]) -> [Self; LANES] {
        std::array::from_fn(|word| Portable(std::array::from_fn(|lane| rows[lane][word])))
    }
    #[inline(never)]
    fn store_rows(vectors: [Self; LANES]) -> [Lanes; LANES] {
        std::array::from_fn(|row| Lanes(std::array::from_fn(|word| vectors[word].0[row])))
    }
    #[inline(never)]
    fn prefetch(self, _: &[u64; LANES]) {}
    #[inline(never)]
    fn prefetch_rows<const LENGTH: usize>(self, _: &[Lanes; LENGTH]) {}
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use stdx::random::Random;

    enter_ifma! {
        fn operations_ifma(a: &Lanes, b: &Lanes, c: &Lanes, table: &[Lanes; 16 * 3]) -> Vec<[u64; 8]> = operations;
    }
    enter_avx_ifma! {
        fn operations_avx_ifma(a: &Lanes, b: &Lanes, c: &Lanes, table: &[Lanes; 16 * 3]) -> Vec<[u64; 8]> = operations;
    }
    enter_twin! {
        fn operations_twin(a: &Lanes, b: &Lanes, c: &Lanes, table: &[Lanes; 16 * 3]) -> Vec<[u64; 8]> = operations;
    }

    /// Every operation once, with a table of 48 rows, 16 of 3.
    #[inline(always)]
    fn operations<W: Vector>(seed: W, a: &Lanes, b: &Lanes, c: &Lanes, table: &[Lanes; 16 * 3]) -> Vec<[u64; 8]> {
        let square: [[Lanes; 3]; 16] = std::array::from_fn(|row| std::array::from_fn(|part| table[3 * row + part]));
        let (a, b, c) = (seed.load(a), seed.load(b), seed.load(c));
        a.prefetch_rows(table);
        let mut out = vec![a + b, a - b, a & b, a | b, a ^ b, a.all(7), a.right::<12>(), a.left::<9>()];
        out.extend([a.add_low(b, c), a.add_high(b, c), a.right_by(3), a.left_by(61)]);
        out.extend([a.swap::<1>(), a.swap::<2>(), a.swap::<4>(), a.select(0b1010_0110, b)]);
        out.extend((0..3).map(|part| a.look_up(&square, [part, 2 - part], 0b0110_1001)));
        out.extend(a.look_up_rows(table));
        let rows: [&[u64; LANES]; LANES] = std::array::from_fn(|row| &table[40 - 5 * row].0);
        a.prefetch(rows[7]);
        out.extend(a.load_rows(rows));
        out.extend(W::store_rows([a, b, c, a + b, b + c, a ^ c, a - c, b ^ c]).iter().map(|row| a.load(row)));
        let mut out: Vec<[u64; 8]> = out.into_iter().map(|vector| vector.store().0).collect();
        out.push([a.equals(b), a.equals(a.select(0x5a, b)), a.has(1), a.has(6), 0, 0, 0, 0].map(u64::from));
        out
    }

    /// Compares each operation with plain Rust, where this processor has the vector.
    fn check<W: Vector>(seed: Option<W>, run: fn(W, &Lanes, &Lanes, &Lanes, &[Lanes; 16 * 3]) -> Vec<[u64; 8]>) {
        let Some(seed) = seed else { return println!("skipped: this processor has no {}", W::NAME) };
        let mut random = Random::new(52);
        for round in 0..2000 {
            let mut lanes = || {
                Lanes(std::array::from_fn(|_| match random.below(5) {
                    0 => u64::MAX >> random.below(64),
                    1 => random.below(4),
                    _ => random.next_u64(),
                }))
            };
            let (a, b, c, table) = (lanes(), lanes(), lanes(), std::array::from_fn(|_| lanes()));
            let want = operations(Portable([0; 8]), &a, &b, &c, &table);
            assert_eq!(run(seed, &a, &b, &c, &table), want, "{}, round {round}: {a:?} {b:?} {c:?}", W::NAME);
        }
    }

    #[test]
    fn one_register_does_what_plain_rust_does() {
        check(Ifma::detect(), operations_ifma);
    }

    #[test]
    fn two_registers_do_what_plain_rust_does() {
        check(AvxIfma::detect(), operations_avx_ifma);
    }

    #[test]
    fn the_twin_of_two_registers_does_what_plain_rust_does() {
        check(Twin::detect(), operations_twin);
    }
}
