//! Multipliers as digits that are never zero, so that all lanes add a point at every window.
//!
//! In:     a number modulo n.
//! Out:    for a key: two halves of at most 130 bits as 26 digits of 5 bits; for the generator: 18 digits of 15 bits.
//! Fails:  never; the halves' size is asserted.
//! Source: Gallant, Lambert, Vanstone (2001), with the lattice libsecp256k1 uses; docs/signatures.md, "Multipliers".
//!
//! A digit of b bits is odd, from -(2^b - 1) to 2^b - 1. An odd k with |k| < 2^(b m) is the sum of d_i 2^(b i) over its
//! m digits, and d_i = 2 e_i - (2^b - 1), where the e_i are the ordinary digits of K = (k - 1)/2 + 2^(bm - 1).

use super::vector::{Mask, Vector};
use crate::number::order::{Scalar, multiply};

/// Windows of a half multiplier.
pub const WINDOWS: usize = 26;
/// Bits of a window.
pub const WINDOW_BITS: u32 = 5;
/// Bits of all windows of a half.
pub const HALF_BITS: usize = WINDOWS * WINDOW_BITS as usize;
/// Digits of the generator's multiplier; the first half of them goes with G, the second with 2^135 G.
pub const GENERATOR_DIGITS: usize = 18;
/// Bits of a digit of the generator's multiplier: three windows.
pub const GENERATOR_BITS: u32 = 3 * WINDOW_BITS;

/// Vectors (a, b) with a + b lambda = 0 modulo n: (A1, -B1) and (A2, A1). A1 and B1 are odd, A2 is even.
const A1: [u64; 3] = [0xe86c_90e4_9284_eb15, 0x3086_d221_a7d4_6bcd, 0];
const B1: [u64; 3] = [0x6f54_7fa9_0abf_e4c3, 0xe443_7ed6_010e_8828, 0];
const A2: [u64; 3] = [0x57c1_108d_9d44_cfd8, 0x14ca_50f7_a8e2_f3f6, 1];
/// 2^384 A1 / n and 2^384 B1 / n, rounded.
const A1_SHARE: [u64; 4] = [0xe893_209a_45db_b031, 0x3daa_8a14_71e8_ca7f, 0xe86c_90e4_9284_eb15, 0x3086_d221_a7d4_6bcd];
const B1_SHARE: [u64; 4] = [0x1571_b4ae_8ac4_7f71, 0x2212_08ac_9df5_06c6, 0x6f54_7fa9_0abf_e4c4, 0xe443_7ed6_010e_8828];

/// A number of 192 bits in two's complement.
type Half = [u64; 3];

fn add(a: Half, b: Half) -> Half {
    let mut carry = 0;
    std::array::from_fn(|k| {
        carry += u128::from(a[k]) + u128::from(b[k]);
        let digit = carry as u64;
        carry >>= 64;
        digit
    })
}

fn subtract(a: Half, b: Half) -> Half {
    // a - b = not (not a + b)
    add(a.map(|word| !word), b).map(|word| !word)
}

/// a * b modulo 2^192.
fn times(a: Half, b: Half) -> Half {
    let wide = |i: usize, j: usize| u128::from(a[i]) * u128::from(b[j]);
    let low = wide(0, 0);
    let (one, two) = (wide(0, 1), wide(1, 0));
    let middle = (low >> 64) + u128::from(one as u64) + u128::from(two as u64);
    let high = [(middle >> 64) as u64, (one >> 64) as u64, (two >> 64) as u64, wide(1, 1) as u64];
    let high = high.into_iter().fold(a[0].wrapping_mul(b[2]).wrapping_add(a[2].wrapping_mul(b[0])), u64::wrapping_add);
    [low as u64, middle as u64, high]
}

/// `k * share / 2^384`, rounded.
fn share_of(k: &[u64; 4], share: &[u64; 4]) -> Half {
    let product = multiply(k, share);
    add([product[6], product[7], 0], [product[5] >> 63, 0, 0])
}

/// Odd k1 and k2 with k1 + k2 lambda = k modulo n, each between -2^130 and 2^130.
///
/// The point of the lattice nearest to (k, 0) is subtracted from it: |k1| and |k2| are at most half the sum of the
/// vectors, below 2^128 (with the rounding). Adding (A1, -B1) flips both parities, adding (A2, A1) that of k2 only: at
/// most 2^128.1 + 2^125.7 more.
pub fn split(k: Scalar) -> (Half, Half) {
    let words = k.words();
    let (c1, c2) = (share_of(&words, &A1_SHARE), share_of(&words, &B1_SHARE));
    let mut k1 = subtract(subtract([words[0], words[1], words[2]], times(c1, A1)), times(c2, A2));
    let mut k2 = subtract(times(c1, B1), times(c2, A1));
    if k1[0] & 1 == 0 {
        (k1, k2) = (add(k1, A1), subtract(k2, B1));
    }
    if k2[0] & 1 == 0 {
        (k1, k2) = (add(k1, A2), add(k2, A1));
    }
    (k1, k2)
}

/// K of an odd half multiplier for windows of `bits` together, 130 to 191: (k - 1)/2 + 2^(bits - 1), below 2^bits.
pub fn encode_half(k: Half, bits: usize) -> Half {
    let halved = [k[0] >> 1 | k[1] << 63, k[1] >> 1 | k[2] << 63, (k[2] as i64 >> 1) as u64];
    let encoded = add(halved, [0, 0, 1 << (bits - 1 - 128)]);
    assert!(encoded[2] >> (bits - 128) == 0, "a half multiplier has 130 bits and a sign: {k:x?}");
    encoded
}

/// K of the generator's multiplier, and whether it is that of the negative: of `k` and `n - k` one is odd.
pub fn encode_generator(k: Scalar) -> ([u64; 5], bool) {
    let odd = if k.is_odd() { k.words() } else { k.complement() };
    let [a, b, c, d] = odd;
    // (odd - 1)/2 + 2^269
    ([a >> 1 | b << 63, b >> 1 | c << 63, c >> 1 | d << 63, d >> 1, 1 << (269 - 256)], !k.is_odd())
}

/// Digit number `index` of every lane's K: (|d| - 1)/2, and where d is negative.
#[inline(always)]
pub fn digit<W: Vector, const BITS: u32, const WORDS: usize>(k: &[W; WORDS], index: usize) -> (W, Mask) {
    let at = index * BITS as usize;
    let (word, shift) = (at / 64, (at % 64) as u32);
    let mut plain = k[word].right_by(shift);
    if shift + BITS > 64 && word + 1 < WORDS {
        plain = plain | k[word + 1].left_by(64 - shift);
    }
    // 2e - (2^b - 1): at or above 2^(b-1), e's lower bits count up; below it they count down.
    let half = 1u64 << (BITS - 1);
    let negative = !plain.has(half);
    let low = plain.all(half - 1);
    ((plain ^ plain.all(0).select(negative, low)) & low, negative)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::lanes::vector::Portable;
    use crate::number::order::N_WORDS;
    use crate::number::plain;
    use stdx::random::Random;

    /// Digits of K, straight from their definition.
    pub fn digits_of(k: &[u64], bits: usize, count: usize) -> Vec<i64> {
        let bit = |at: usize| k.get(at / 64).map_or(0, |word| (word >> (at % 64) & 1) as i64);
        let plain = |index: usize| (0..bits).fold(0, |value, j| value | bit(index * bits + j) << j);
        (0..count).map(|index| 2 * plain(index) - ((1 << bits) - 1)).collect()
    }

    /// A signed number modulo n.
    pub fn scalar_of(number: i64) -> Scalar {
        let scalar = Scalar::small(number.unsigned_abs());
        if number < 0 { scalar.negate() } else { scalar }
    }

    /// The sum of d_i 2^(bits i) modulo n.
    pub fn sum_of(digits: &[i64], bits: u32) -> Scalar {
        let base = scalar_of(1 << bits);
        digits.iter().rev().fold(Scalar::ZERO, |sum, &digit| sum.times(base).plus(scalar_of(digit)))
    }

    #[test]
    fn digits_add_up_to_the_multiplier() {
        let mut random = Random::new(130);
        for round in 0..20_000 {
            let words = plain::reduce(plain::edge_case(&mut random), N_WORDS);
            let bytes: Vec<u8> = words.iter().rev().flat_map(|word| word.to_be_bytes()).collect();
            let k = Scalar::from_bytes(&bytes.try_into().unwrap()).unwrap();
            let (k1, k2) = split(k);
            let (k1, k2) = (encode_half(k1, HALF_BITS), encode_half(k2, HALF_BITS));
            let halves = [k1, k2].map(|half| digits_of(&half, 5, WINDOWS));
            let [one, two] = halves.map(|digits| sum_of(&digits, WINDOW_BITS));
            assert_eq!(one.plus(two.times(Scalar::LAMBDA)), k, "round {round}: {k:x?}");
            let (encoded, negative) = encode_generator(k);
            let sum = sum_of(&digits_of(&encoded, 15, GENERATOR_DIGITS), GENERATOR_BITS);
            assert_eq!(if negative { sum.negate() } else { sum }, k, "round {round}: {k:x?}");
        }
    }

    #[test]
    fn lanes_cut_digits_as_defined() {
        let mut random = Random::new(5);
        for _ in 0..300 {
            let words: [Portable; 5] = std::array::from_fn(|_| Portable(std::array::from_fn(|_| random.next_u64())));
            #[track_caller]
            fn check(got: (Portable, Mask), lane: usize, want: i64) {
                let size = 2 * got.0.0[lane] as i64 + 1;
                assert_eq!(if got.1 >> lane & 1 == 1 { -size } else { size }, want);
            }
            for lane in 0..8 {
                let k = words.map(|word| word.0[lane]);
                for (index, want) in digits_of(&k, 15, GENERATOR_DIGITS).into_iter().enumerate() {
                    check(digit::<_, 15, 5>(&words, index), lane, want);
                }
                for (index, want) in digits_of(&k[..3], 5, WINDOWS).into_iter().enumerate() {
                    check(digit::<_, 5, 3>(&[words[0], words[1], words[2]], index), lane, want);
                }
            }
        }
    }
}
