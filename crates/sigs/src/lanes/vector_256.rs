//! Eight lanes in two registers of AVX2, for processors with AVX-IFMA and no AVX-512.
//!
//! In:     lanes of integers; lanes 0..=3 in the first register, 4..=7 in the second.
//! Out:    [`AvxIfma`], each operation of vector.rs by AVX2, and multiply-add by AVX-IFMA; `enter_avx_ifma!`, functions
//!         compiled for it. In the tests `Twin`, the same code with the multiply-add of AVX-512 VL, whose registers are as
//!         wide: it runs where AVX-IFMA is missing and AVX-512 is not.
//! Fails:  never, once `detect` has found the processor to have the instructions.
//! Source: Intel's manual: VPMADD52LUQ and VPMADD52HUQ, VEX.256 (AVX-IFMA) and EVEX.256 (AVX-512 IFMA and VL).
#![allow(unsafe_code)] // intrinsics; each use says why it is sound

use std::arch::x86_64::*;
use std::ops::{Add, BitAnd, BitOr, BitXor, Sub};

use super::vector::{LANES, Lanes, Mask, Vector, Word, operators};

/// An intrinsic on registers only, whose sole condition is the processor's.
macro_rules! intrinsic {
    ($call:expr) => {
        // SAFETY: a vector is at hand, so the processor has the instruction; no memory is touched.
        unsafe { $call }
    };
}

/// A vector by an intrinsic on each of its two registers.
macro_rules! both {
    ($type:ident: $call:ident $(::<$number:literal>)? ($($vector:expr),*)) => {
        $type([intrinsic!($call$(::<$number>)?($($vector.0[0]),*)), intrinsic!($call$(::<$number>)?($($vector.0[1]),*))])
    };
}

/// Four lanes' signs, lowest first: the top bit of each 64.
#[inline(always)]
fn signs(vector: [__m256i; 2]) -> Mask {
    let four = |half: __m256i| intrinsic!(_mm256_movemask_pd(_mm256_castsi256_pd(half))) as u8;
    four(vector[0]) | four(vector[1]) << 4
}

/// All ones in the lanes of `mask`, zeros elsewhere.
#[inline(always)]
fn spread(mask: Mask) -> [__m256i; 2] {
    intrinsic!({
        let mask = _mm256_set1_epi64x(i64::from(mask));
        let (low, high) = (_mm256_set_epi64x(8, 4, 2, 1), _mm256_set_epi64x(128, 64, 32, 16));
        [_mm256_cmpeq_epi64(_mm256_and_si256(mask, low), low), _mm256_cmpeq_epi64(_mm256_and_si256(mask, high), high)]
    })
}

/// Rows to columns of a 4 x 4 square: 2 x 2 blocks of words, then of pairs.
#[inline(always)]
fn transpose_4([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
    intrinsic!({
        let (ab_even, ab_odd) = (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
        let (cd_even, cd_odd) = (_mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d));
        [
            _mm256_permute2x128_si256::<0x20>(ab_even, cd_even),
            _mm256_permute2x128_si256::<0x20>(ab_odd, cd_odd),
            _mm256_permute2x128_si256::<0x31>(ab_even, cd_even),
            _mm256_permute2x128_si256::<0x31>(ab_odd, cd_odd),
        ]
    })
}

/// Rows to columns of an 8 x 8 square: each quarter, and the quarters beside the diagonal change places.
#[inline(always)]
fn transpose([a, b, c, d, e, f, g, h]: [[__m256i; 2]; 8]) -> [[__m256i; 2]; 8] {
    let [a0, b0, c0, d0] = transpose_4([a[0], b[0], c[0], d[0]]);
    let [a1, b1, c1, d1] = transpose_4([e[0], f[0], g[0], h[0]]);
    let [e0, f0, g0, h0] = transpose_4([a[1], b[1], c[1], d[1]]);
    let [e1, f1, g1, h1] = transpose_4([e[1], f[1], g[1], h[1]]);
    [[a0, a1], [b0, b1], [c0, c1], [d0, d1], [e0, e1], [f0, f1], [g0, g1], [h0, h1]]
}

/// Defines a function compiled for a vector's instructions into which all of a generic `body` is inlined.
///
/// Its first argument is the vector, the receipt that calling it is sound.
macro_rules! enter_two_registers {
    ($vector:ident $features:tt $(fn $name:ident($($argument:ident: $type:ty),*) $(-> $output:ty)? = $body:path;)*) => {$(
        #[allow(unsafe_code, clippy::too_many_arguments)]
        fn $name(seed: $crate::lanes::vector::$vector, $($argument: $type),*) $(-> $output)? {
            #[target_feature(enable = $features)]
            fn compiled(seed: $crate::lanes::vector::$vector, $($argument: $type),*) $(-> $output)? {
                $body(seed, $($argument),*)
            }
            // SAFETY: `seed` exists only where the processor has these features.
            unsafe { compiled(seed, $($argument),*) }
        }
    )*};
}
pub(crate) use enter_two_registers;

/// Functions compiled for [`AvxIfma`].
macro_rules! enter_avx_ifma {
    ($($functions:tt)*) => { $crate::lanes::vector::enter_two_registers! { AvxIfma "avx2,avxifma" $($functions)* } };
}
pub(crate) use enter_avx_ifma;

/// Functions compiled for [`Twin`].
#[cfg(test)]
macro_rules! enter_twin {
    ($($functions:tt)*) => {
        $crate::lanes::vector::enter_two_registers! { Twin "avx2,avx512f,avx512ifma,avx512vl" $($functions)* }
    };
}
#[cfg(test)]
pub(crate) use enter_twin;

/// A vector of two registers by its name, the processor features it asks for, and its two multiply-adds.
macro_rules! two_registers {
    ($(#[$attribute:meta])* $type:ident, $name:literal, [$($feature:tt)*], $low:ident, $high:ident) => {
        $(#[$attribute])*
        ///
        /// A value exists only where the processor has those: `detect` looks before it makes the first one, and every
        /// other is made from one in hand. That makes each intrinsic below sound.
        #[derive(Clone, Copy)]
        #[repr(transparent)]
        pub struct $type([__m256i; 2]);

        impl $type {
            /// A vector of zeros where the processor and the system can hold one.
            pub fn detect() -> Option<$type> {
                let able = $(is_x86_feature_detected!($feature))&&*;
                // SAFETY: the instruction's set has just been found.
                able.then(|| $type([unsafe { _mm256_setzero_si256() }; 2]))
            }
        }

        operators! { $type, inline(always):
            Add add |a, b| both!($type: _mm256_add_epi64(a, b));
            Sub sub |a, b| both!($type: _mm256_sub_epi64(a, b));
            BitAnd bitand |a, b| both!($type: _mm256_and_si256(a, b));
            BitOr bitor |a, b| both!($type: _mm256_or_si256(a, b));
            BitXor bitxor |a, b| both!($type: _mm256_xor_si256(a, b));
        }

        impl Word for $type {
            #[inline(always)]
            fn all(self, x: u64) -> Self {
                $type([intrinsic!(_mm256_set1_epi64x(x as i64)); 2])
            }
            #[inline(always)]
            fn right<const BITS: u32>(self) -> Self {
                self.right_by(BITS)
            }
            #[inline(always)]
            fn left<const BITS: u32>(self) -> Self {
                self.left_by(BITS)
            }
            #[inline(always)]
            fn add_low(self, a: Self, b: Self) -> Self {
                both!($type: $low(self, a, b))
            }
            #[inline(always)]
            fn add_high(self, a: Self, b: Self) -> Self {
                both!($type: $high(self, a, b))
            }
            #[inline(always)]
            fn equals(self, other: Self) -> Mask {
                signs(both!($type: _mm256_cmpeq_epi64(self, other)).0)
            }
            #[inline(always)]
            fn has(self, bits: u64) -> Mask {
                !(self & self.all(bits)).equals(self.all(0))
            }
            #[inline(always)]
            fn select(self, mask: Mask, other: Self) -> Self {
                let mask = $type(spread(mask));
                both!($type: _mm256_blendv_epi8(self, other, mask))
            }
        }

        impl Vector for $type {
            const NAME: &'static str = $name;

            #[inline(always)]
            fn load(self, lanes: &Lanes) -> Self {
                let from: *const __m256i = lanes.0.as_ptr().cast();
                // SAFETY: `lanes` is 64 readable bytes, aligned to 64; the processor has the instruction.
                $type(unsafe { [_mm256_load_si256(from), _mm256_load_si256(from.add(1))] })
            }
            #[inline(always)]
            fn store(self) -> Lanes {
                let mut lanes = Lanes([0; LANES]);
                let to: *mut __m256i = lanes.0.as_mut_ptr().cast();
                // SAFETY: `lanes` is 64 writable bytes, aligned to 64; the processor has the instruction.
                unsafe {
                    _mm256_store_si256(to, self.0[0]);
                    _mm256_store_si256(to.add(1), self.0[1]);
                }
                lanes
            }
            #[inline(always)]
            fn swap<const DISTANCE: usize>(self) -> Self {
                match DISTANCE {
                    1 => both!($type: _mm256_permute4x64_epi64::<0b10_11_00_01>(self)),
                    2 => both!($type: _mm256_permute4x64_epi64::<0b01_00_11_10>(self)),
                    4 => $type([self.0[1], self.0[0]]),
                    _ => unreachable!("distances are 1, 2 and 4"),
                }
            }
            #[inline(always)]
            fn right_by(self, bits: u32) -> Self {
                let bits = intrinsic!(_mm_cvtsi64_si128(i64::from(bits)));
                $type([intrinsic!(_mm256_srl_epi64(self.0[0], bits)), intrinsic!(_mm256_srl_epi64(self.0[1], bits))])
            }
            #[inline(always)]
            fn left_by(self, bits: u32) -> Self {
                let bits = intrinsic!(_mm_cvtsi64_si128(i64::from(bits)));
                $type([intrinsic!(_mm256_sll_epi64(self.0[0], bits)), intrinsic!(_mm256_sll_epi64(self.0[1], bits))])
            }
            #[inline(always)]
            fn look_up<const PARTS: usize>(self, table: &[[Lanes; PARTS]; 16], parts: [usize; 2], mask: Mask) -> Self {
                assert!(parts[0] < PARTS && parts[1] < PARTS, "parts of a row");
                let lane = $type(intrinsic!([_mm256_set_epi64x(3, 2, 1, 0), _mm256_set_epi64x(7, 6, 5, 4)]));
                let (row, words) = (self & self.all(15), self.all((PARTS * LANES) as u64));
                // Of 32 bits each, so one multiplication of the low halves is the product.
                let word = both!($type: _mm256_mul_epu32(row, words)) + lane;
                let (first, second) = (self.all((parts[0] * LANES) as u64), self.all((parts[1] * LANES) as u64));
                let word = word + first.select(mask, second);
                let base: *const i64 = table.as_ptr().cast();
                // SAFETY: row <= 15, both parts < PARTS, lane <= 7: each of the four addresses is a word of `table`.
                let four = |word| unsafe { _mm256_i64gather_epi64::<8>(base, word) };
                $type([four(word.0[0]), four(word.0[1])])
            }
            #[inline(always)]
            fn look_up_rows<const LENGTH: usize>(self, table: &[Lanes; LENGTH]) -> [Self; 8] {
                let index = self.store().0;
                self.load_rows(std::array::from_fn(|lane| &table[index[lane] as usize % LENGTH].0))
            }
            #[inline(always)]
            fn load_rows(self, rows: [&[u64; LANES]; LANES]) -> [Self; LANES] {
                let load = |row: &[u64; LANES]| {
                    let from: *const __m256i = row.as_ptr().cast();
                    // SAFETY: `row` is 64 readable bytes; the processor has the instruction.
                    unsafe { [_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1))] }
                };
                let [a, b, c, d, e, f, g, h] = rows;
                let rows = [load(a), load(b), load(c), load(d), load(e), load(f), load(g), load(h)];
                let [a, b, c, d, e, f, g, h] = transpose(rows);
                [$type(a), $type(b), $type(c), $type(d), $type(e), $type(f), $type(g), $type(h)]
            }
            #[inline(always)]
            fn store_rows(vectors: [Self; LANES]) -> [Lanes; LANES] {
                let [a, b, c, d, e, f, g, h] = vectors;
                let [a, b, c, d, e, f, g, h] = transpose([a.0, b.0, c.0, d.0, e.0, f.0, g.0, h.0]);
                let store = |row| $type(row).store();
                [store(a), store(b), store(c), store(d), store(e), store(f), store(g), store(h)]
            }
            #[inline(always)]
            fn prefetch(self, row: &[u64; LANES]) {
                intrinsic!(_mm_prefetch::<_MM_HINT_T0>(row.as_ptr().cast()));
            }
            #[inline(always)]
            fn prefetch_rows<const LENGTH: usize>(self, table: &[Lanes; LENGTH]) {
                for index in self.store().0 {
                    self.prefetch(&table[index as usize % LENGTH].0);
                }
            }
        }
    };
}

two_registers! {
    /// Two registers of a processor with AVX2 and AVX-IFMA.
    AvxIfma, "AVX-IFMA", ["avx2" "avxifma"], _mm256_madd52lo_avx_epu64, _mm256_madd52hi_avx_epu64
}

#[cfg(test)]
two_registers! {
    /// Two registers of a processor with AVX2 and AVX-512 F, IFMA and VL.
    Twin, "AVX-512 IFMA in 256 bits", ["avx2" "avx512f" "avx512ifma" "avx512vl"],
    _mm256_madd52lo_epu64, _mm256_madd52hi_epu64
}
