//! Eight 64-bit integers side by side, and the few operations on them that the engine is made of.
//!
//! In:     lanes of integers.
//! Out:    the same operation in every lane: [`Ifma`] does it in one AVX-512 instruction, `Portable` in plain Rust.
//! Fails:  never; sums wrap around, so the callers keep their bounds (field.rs has them checked by interval arithmetic).
//! Source: Intel's manual for VPMADD52LUQ and VPMADD52HUQ. The only `unsafe` code of the engine's arithmetic is here.
//!
//! Everything here is `inline(always)`, so that it becomes part of the few functions compiled for AVX-512 (stages.rs).

use std::ops::{Add, BitAnd, BitOr, BitXor, Sub};

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
    fn prefetch_rows<const LENGTH: usize>(self, _: &[Lanes; LENGTH]) {}
}

#[cfg(target_arch = "x86_64")]
pub use ifma::Ifma;
#[cfg(target_arch = "x86_64")]
pub(crate) use ifma::enter_ifma;

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)] // intrinsics; each use says why it is sound
mod ifma {
    use super::*;
    use std::arch::x86_64::*;

    /// A register of AVX-512.
    ///
    /// A value exists only where the processor has AVX-512 F, IFMA, VL, DQ and BW: [`Ifma::detect`] looks before it
    /// makes the first one, and every other is made from one in hand. That makes each intrinsic below sound.
    #[derive(Clone, Copy)]
    #[repr(transparent)]
    pub struct Ifma(__m512i);

    impl Ifma {
        /// A vector of zeros where the processor and the system can hold one.
        pub fn detect() -> Option<Ifma> {
            let able = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512ifma")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512bw");
            // SAFETY: the instruction's set has just been found.
            able.then(|| Ifma(unsafe { _mm512_setzero_si512() }))
        }
    }

    /// Defines a function compiled for AVX-512 into which all of a generic `body` is inlined.
    ///
    /// Its first argument is an [`Ifma`], the receipt that calling it is sound.
    macro_rules! enter_ifma {
        ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $output:ty)? = $body:path;)*) => {$(
            #[allow(unsafe_code, clippy::too_many_arguments)]
            fn $name(seed: $crate::lanes::vector::Ifma, $($argument: $type),*) $(-> $output)? {
                #[target_feature(enable = "avx512f,avx512ifma,avx512vl,avx512dq,avx512bw")]
                fn compiled(seed: $crate::lanes::vector::Ifma, $($argument: $type),*) $(-> $output)? {
                    $body(seed, $($argument),*)
                }
                // SAFETY: `seed` exists only where the processor has these features.
                unsafe { compiled(seed, $($argument),*) }
            }
        )*};
    }
    pub(crate) use enter_ifma;

    /// An intrinsic on registers only, whose sole condition is the processor's.
    macro_rules! intrinsic {
        ($call:expr) => {
            // SAFETY: an `Ifma` is at hand, so the processor has the instruction; no memory is touched.
            unsafe { $call }
        };
    }

    operators! { Ifma, inline(always):
        Add add |a, b| Ifma(intrinsic!(_mm512_add_epi64(a.0, b.0)));
        Sub sub |a, b| Ifma(intrinsic!(_mm512_sub_epi64(a.0, b.0)));
        BitAnd bitand |a, b| Ifma(intrinsic!(_mm512_and_si512(a.0, b.0)));
        BitOr bitor |a, b| Ifma(intrinsic!(_mm512_or_si512(a.0, b.0)));
        BitXor bitxor |a, b| Ifma(intrinsic!(_mm512_xor_si512(a.0, b.0)));
    }

    impl Word for Ifma {
        #[inline(always)]
        fn all(self, x: u64) -> Self {
            Ifma(intrinsic!(_mm512_set1_epi64(x as i64)))
        }
        #[inline(always)]
        fn right<const BITS: u32>(self) -> Self {
            Ifma(intrinsic!(_mm512_srli_epi64::<BITS>(self.0)))
        }
        #[inline(always)]
        fn left<const BITS: u32>(self) -> Self {
            Ifma(intrinsic!(_mm512_slli_epi64::<BITS>(self.0)))
        }
        #[inline(always)]
        fn add_low(self, a: Self, b: Self) -> Self {
            Ifma(intrinsic!(_mm512_madd52lo_epu64(self.0, a.0, b.0)))
        }
        #[inline(always)]
        fn add_high(self, a: Self, b: Self) -> Self {
            Ifma(intrinsic!(_mm512_madd52hi_epu64(self.0, a.0, b.0)))
        }
        #[inline(always)]
        fn equals(self, other: Self) -> Mask {
            intrinsic!(_mm512_cmpeq_epi64_mask(self.0, other.0))
        }
        #[inline(always)]
        fn has(self, bits: u64) -> Mask {
            intrinsic!(_mm512_test_epi64_mask(self.0, _mm512_set1_epi64(bits as i64)))
        }
        #[inline(always)]
        fn select(self, mask: Mask, other: Self) -> Self {
            Ifma(intrinsic!(_mm512_mask_mov_epi64(self.0, mask, other.0)))
        }
    }

    impl Vector for Ifma {
        #[inline(always)]
        fn load(self, lanes: &Lanes) -> Self {
            // SAFETY: `lanes` is 64 readable bytes, aligned to 64; the processor has the instruction.
            Ifma(unsafe { _mm512_load_si512(lanes.0.as_ptr().cast()) })
        }
        #[inline(always)]
        fn store(self) -> Lanes {
            let mut lanes = Lanes([0; LANES]);
            // SAFETY: `lanes` is 64 writable bytes, aligned to 64; the processor has the instruction.
            unsafe { _mm512_store_si512(lanes.0.as_mut_ptr().cast(), self.0) };
            lanes
        }
        #[inline(always)]
        fn swap<const DISTANCE: usize>(self) -> Self {
            Ifma(match DISTANCE {
                1 => intrinsic!(_mm512_permutex_epi64::<0b10_11_00_01>(self.0)),
                2 => intrinsic!(_mm512_permutex_epi64::<0b01_00_11_10>(self.0)),
                4 => intrinsic!(_mm512_shuffle_i64x2::<0b01_00_11_10>(self.0, self.0)),
                _ => unreachable!("distances are 1, 2 and 4"),
            })
        }
        #[inline(always)]
        fn right_by(self, bits: u32) -> Self {
            Ifma(intrinsic!(_mm512_srl_epi64(self.0, _mm_cvtsi64_si128(i64::from(bits)))))
        }
        #[inline(always)]
        fn left_by(self, bits: u32) -> Self {
            Ifma(intrinsic!(_mm512_sll_epi64(self.0, _mm_cvtsi64_si128(i64::from(bits)))))
        }
        #[inline(always)]
        fn look_up<const PARTS: usize>(self, table: &[[Lanes; PARTS]; 16], parts: [usize; 2], mask: Mask) -> Self {
            assert!(parts[0] < PARTS && parts[1] < PARTS, "parts of a row");
            let words = |count: usize| intrinsic!(_mm512_set1_epi64((count * LANES) as i64));
            let lane = intrinsic!(_mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
            let row = intrinsic!(_mm512_and_si512(self.0, _mm512_set1_epi64(15)));
            let row = intrinsic!(_mm512_mullo_epi64(row, words(PARTS)));
            let word = intrinsic!(_mm512_add_epi64(row, lane));
            // The lanes of `mask` look on by parts[1] - parts[0], which may be negative.
            let further = intrinsic!(_mm512_sub_epi64(words(parts[1]), words(parts[0])));
            let word = intrinsic!(_mm512_mask_add_epi64(word, mask, word, further));
            let base = table.as_ptr().cast::<Lanes>().wrapping_add(parts[0]);
            // SAFETY: row <= 15, both parts < PARTS, lane <= 7: each of the eight addresses is a word of `table`.
            Ifma(unsafe { _mm512_i64gather_epi64::<8>(word, base.cast()) })
        }
        #[inline(always)]
        fn look_up_rows<const LENGTH: usize>(self, table: &[Lanes; LENGTH]) -> [Self; 8] {
            let index = self.store().0;
            transpose(std::array::from_fn(|lane| self.load(&table[index[lane] as usize % LENGTH])))
        }
        #[inline(always)]
        fn prefetch_rows<const LENGTH: usize>(self, table: &[Lanes; LENGTH]) {
            for index in self.store().0 {
                let row: *const Lanes = &table[index as usize % LENGTH];
                intrinsic!(_mm_prefetch::<_MM_HINT_T0>(row.cast()));
            }
        }
    }

    /// Rows to columns of an 8 x 8 square: 2 x 2 blocks of words, then of pairs, then of fours.
    #[inline(always)]
    fn transpose(rows: [Ifma; 8]) -> [Ifma; 8] {
        let mut pairs = rows;
        for i in 0..4 {
            let (a, b) = (rows[2 * i].0, rows[2 * i + 1].0);
            pairs[2 * i] = Ifma(intrinsic!(_mm512_unpacklo_epi64(a, b)));
            pairs[2 * i + 1] = Ifma(intrinsic!(_mm512_unpackhi_epi64(a, b)));
        }
        // pairs[2i + odd] holds, for rows 2i and 2i + 1, the columns odd, odd + 2, odd + 4, odd + 6.
        let mut fours = pairs;
        for half in 0..2 {
            for odd in 0..2 {
                let (a, b) = (pairs[4 * half + odd].0, pairs[4 * half + 2 + odd].0);
                fours[4 * half + odd] = Ifma(intrinsic!(_mm512_shuffle_i64x2::<0b10_00_10_00>(a, b)));
                fours[4 * half + 2 + odd] = Ifma(intrinsic!(_mm512_shuffle_i64x2::<0b11_01_11_01>(a, b)));
            }
        }
        let mut columns = fours;
        for column in 0..4 {
            let (a, b) = (fours[column].0, fours[4 + column].0);
            columns[column] = Ifma(intrinsic!(_mm512_shuffle_i64x2::<0b10_00_10_00>(a, b)));
            columns[column + 4] = Ifma(intrinsic!(_mm512_shuffle_i64x2::<0b11_01_11_01>(a, b)));
        }
        columns
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use stdx::random::Random;

    enter_ifma! {
        fn operations_ifma(a: &Lanes, b: &Lanes, c: &Lanes, table: &[Lanes; 16 * 3]) -> Vec<[u64; 8]> = operations;
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
        let mut out: Vec<[u64; 8]> = out.into_iter().map(|vector| vector.store().0).collect();
        out.push([a.equals(b), a.equals(a.select(0x5a, b)), a.has(1), a.has(6), 0, 0, 0, 0].map(u64::from));
        out
    }

    #[test]
    fn the_processor_does_what_plain_rust_does() {
        let Some(ifma) = Ifma::detect() else { return println!("skipped: this processor has no AVX-512 IFMA") };
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
            assert_eq!(operations_ifma(ifma, &a, &b, &c, &table), want, "round {round}: {a:?} {b:?} {c:?}");
        }
    }
}
