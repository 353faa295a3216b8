//! Eight lanes in one register of AVX-512.
//!
//! In:     lanes of integers.
//! Out:    [`Ifma`], each operation of vector.rs in one or a few instructions; `enter_ifma!`, functions compiled for it.
//! Fails:  never, once [`Ifma::detect`] has found the processor to have the instructions.
//! Source: Intel's manual. `unsafe` for intrinsics only.
#![allow(unsafe_code)] // intrinsics; each use says why it is sound

use std::arch::x86_64::*;
use std::ops::{Add, BitAnd, BitOr, BitXor, Sub};

use super::vector::{LANES, Lanes, Mask, Vector, Word, operators};

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
    const NAME: &'static str = "AVX-512 IFMA";

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
    fn load_rows(self, rows: [&[u64; LANES]; LANES]) -> [Self; LANES] {
        let load = |row: &[u64; LANES]| {
            // SAFETY: `row` is 64 readable bytes; the processor has the instruction.
            Ifma(unsafe { _mm512_loadu_si512(row.as_ptr().cast()) })
        };
        let [a, b, c, d, e, f, g, h] = rows;
        transpose([load(a), load(b), load(c), load(d), load(e), load(f), load(g), load(h)])
    }
    #[inline(always)]
    fn store_rows(vectors: [Self; LANES]) -> [Lanes; LANES] {
        let [a, b, c, d, e, f, g, h] = transpose(vectors);
        [a.store(), b.store(), c.store(), d.store(), e.store(), f.store(), g.store(), h.store()]
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
