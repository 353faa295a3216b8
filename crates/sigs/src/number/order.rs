//! Numbers modulo n, the order of secp256k1's group, on one core without vectors.
//!
//! In:     32 bytes big endian, or other such numbers.
//! Out:    sums, products, inverses, all below n.
//! Fails:  [`Scalar::from_bytes`] at or above n.
//! Source: SEC 2; n = 2^256 - FOLD, so the upper half of a product counts FOLD in the lower.

use super::inverse::Modulus;

/// n in words of 64 bits, lowest first.
pub const N_WORDS: [u64; 4] = [0xbfd2_5e8c_d036_4141, 0xbaae_dce6_af48_a03b, 0xffff_ffff_ffff_fffe, u64::MAX];
/// 2^256 - n, 129 bits; the third word is one.
const FOLD: [u64; 2] = [0x402d_a173_2fc9_bebf, 0x4551_2319_50b7_5fc4];
const ORDER: Modulus = Modulus::new(N_WORDS);

/// A number below n.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scalar([u64; 4]);

/// Words of 64 bits, lowest first, from 32 bytes big endian.
#[inline]
pub fn words_from_bytes(bytes: &[u8; 32]) -> [u64; 4] {
    std::array::from_fn(|k| {
        let at = 24 - 8 * k;
        u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
    })
}

/// a < b.
#[inline]
pub fn less(a: &[u64; 4], b: &[u64; 4]) -> bool {
    a.iter().rev().lt(b.iter().rev())
}

impl Scalar {
    /// Zero.
    pub const ZERO: Scalar = Scalar([0; 4]);
    /// One.
    pub const ONE: Scalar = Scalar([1, 0, 0, 0]);
    /// Lambda, the number whose product with (x, y) is (beta x, y).
    pub const LAMBDA: Scalar =
        Scalar([0xdf02_967c_1b23_bd72, 0x122e_22ea_2081_6678, 0xa526_1c02_8812_645a, 0x5363_ad4c_c05c_30e0]);

    /// The number of this one word.
    #[inline]
    pub fn small(word: u64) -> Scalar {
        Scalar([word, 0, 0, 0])
    }

    /// The number below n these bytes say; none at or above n.
    #[inline]
    pub fn from_bytes(bytes: &[u8; 32]) -> Option<Scalar> {
        let words = words_from_bytes(bytes);
        less(&words, &N_WORDS).then_some(Scalar(words))
    }

    /// The number modulo n that these bytes say.
    #[inline]
    pub fn from_bytes_reduced(bytes: &[u8; 32]) -> Scalar {
        Scalar(subtract_order(words_from_bytes(bytes), 0))
    }

    /// The words, lowest first.
    #[inline]
    pub fn words(self) -> [u64; 4] {
        self.0
    }

    /// 32 bytes, big endian.
    #[inline]
    pub fn to_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (chunk, word) in bytes.chunks_mut(8).zip(self.0.iter().rev()) {
            chunk.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    /// Whether it is zero.
    #[inline]
    pub fn is_zero(self) -> bool {
        self.0 == [0; 4]
    }

    /// Whether it is odd.
    #[inline]
    pub fn is_odd(self) -> bool {
        self.0[0] & 1 == 1
    }

    /// n - self; zero stays n, which is odd, so that one of a number and its [`Scalar::complement`] is always odd.
    #[inline]
    pub fn complement(self) -> [u64; 4] {
        let mut borrow = false;
        std::array::from_fn(|k| {
            let (digit, under) = N_WORDS[k].overflowing_sub(self.0[k]);
            let (digit, under_again) = digit.overflowing_sub(u64::from(borrow));
            borrow = under | under_again;
            digit
        })
    }

    /// -self.
    #[inline]
    pub fn negate(self) -> Scalar {
        if self.is_zero() { self } else { Scalar(self.complement()) }
    }

    /// self + other.
    pub fn plus(self, other: Scalar) -> Scalar {
        let mut carry = 0;
        let sum = std::array::from_fn(|k| {
            carry += u128::from(self.0[k]) + u128::from(other.0[k]);
            let digit = carry as u64;
            carry >>= 64;
            digit
        });
        Scalar(subtract_order(sum, carry as u64))
    }

    /// self * other.
    #[inline]
    pub fn times(self, other: Scalar) -> Scalar {
        let t = multiply(&self.0, &other.0);
        // 512 bits: low + high * FOLD is below 2^256 + 2^256 * 2^129.1, 386 bits.
        let (low, high) = fold([t[0], t[1], t[2], t[3]], [t[4], t[5], t[6], t[7]]);
        // high is below 2^130: now below 2^256 + 2^259.1.
        let (low, high) = fold(low, [high[0], high[1], high[2]]);
        // high is below 2^4: now below 2^256 + 2^133.
        let (low, high) = fold(low, [high[0]]);
        Scalar(subtract_order(low, high[0]))
    }

    /// 1 / self; zero for zero.
    pub fn invert(self) -> Scalar {
        Scalar(ORDER.invert(self.0))
    }
}

/// `words + carry * 2^256 - n` where that is not negative. Pre: below 2n.
#[inline]
fn subtract_order(words: [u64; 4], carry: u64) -> [u64; 4] {
    // Adding FOLD subtracts n modulo 2^256.
    let mut sum = 0;
    let mut raised = words;
    for (k, word) in raised.iter_mut().enumerate() {
        sum += u128::from(*word) + u128::from([FOLD[0], FOLD[1], 1, 0][k]);
        *word = sum as u64;
        sum >>= 64;
    }
    if sum as u64 + carry > 0 { raised } else { words }
}

/// a * b, eight words.
#[inline]
pub fn multiply(a: &[u64; 4], b: &[u64; 4]) -> [u64; 8] {
    let mut product = [0; 8];
    for i in 0..4 {
        let mut carry = 0;
        for j in 0..4 {
            let sum = u128::from(product[i + j]) + u128::from(a[i]) * u128::from(b[j]) + carry;
            product[i + j] = sum as u64;
            carry = sum >> 64;
        }
        product[i + 4] = carry as u64;
    }
    product
}

/// low + high * FOLD in two halves of 256 bits. Pre: any. Post: equal modulo n.
#[inline]
fn fold<const N: usize>(low: [u64; 4], high: [u64; N]) -> ([u64; 4], [u64; 4]) {
    let mut sum = [low[0], low[1], low[2], low[3], 0, 0, 0, 0];
    for (j, factor) in [FOLD[0], FOLD[1], 1].into_iter().enumerate() {
        let mut carry = 0;
        for i in 0..N {
            let digit = u128::from(sum[i + j]) + u128::from(high[i]) * u128::from(factor) + carry;
            sum[i + j] = digit as u64;
            carry = digit >> 64;
        }
        for digit in &mut sum[j + N..] {
            carry += u128::from(*digit);
            *digit = carry as u64;
            carry >>= 64;
        }
    }
    ([sum[0], sum[1], sum[2], sum[3]], [sum[4], sum[5], sum[6], sum[7]])
}

/// Replaces every number by its inverse: three products each and one inversion. Pre: none is zero.
pub fn invert_all(numbers: &mut [Scalar], before: &mut Vec<Scalar>) {
    before.clear();
    let mut product = Scalar::ONE;
    for number in numbers.iter() {
        before.push(product);
        product = product.times(*number);
    }
    let mut inverse = product.invert();
    for (number, before) in numbers.iter_mut().zip(before.iter()).rev() {
        (*number, inverse) = (inverse.times(*before), inverse.times(*number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::plain;
    use stdx::random::Random;

    fn scalar(random: &mut Random) -> Scalar {
        Scalar(plain::reduce(plain::edge_case(random), N_WORDS))
    }

    #[test]
    fn sums_and_products_are_those_of_plain_arithmetic() {
        let mut random = Random::new(256);
        for round in 0..20_000 {
            let (a, b) = (scalar(&mut random), scalar(&mut random));
            assert_eq!(a.times(b).0, plain::multiply(a.0, b.0, N_WORDS), "round {round}: {a:x?} * {b:x?}");
            assert_eq!(a.plus(b).0, plain::add(a.0, b.0, N_WORDS), "round {round}: {a:x?} + {b:x?}");
            assert!(a.plus(a.negate()).is_zero());
            assert!(a.is_odd() != (a.complement()[0] & 1 == 1));
            assert_eq!(Scalar::from_bytes(&a.to_bytes()), Some(a));
        }
    }

    #[test]
    fn numbers_at_the_order_are_refused_or_reduced() {
        #[track_caller]
        fn check(last: u8, want: Option<u64>, reduced: u64) {
            let mut bytes = [0xff; 32];
            bytes[15] = 0xfe;
            for (k, word) in [(16, N_WORDS[1]), (24, N_WORDS[0])] {
                bytes[k..k + 8].copy_from_slice(&word.to_be_bytes());
            }
            bytes[31] = last;
            assert_eq!(Scalar::from_bytes(&bytes).map(|scalar| scalar.0[0]), want);
            assert_eq!(Scalar::from_bytes_reduced(&bytes).0[0], reduced);
        }
        check(0x40, Some(N_WORDS[0] - 1), N_WORDS[0] - 1);
        check(0x41, None, 0);
        check(0x42, None, 1);
    }

    #[test]
    fn many_inverses_at_once_are_single_ones() {
        let mut random = Random::new(3);
        for count in [0, 1, 2, 3, 8, 100] {
            let numbers: Vec<Scalar> = (0..count).map(|_| scalar(&mut random).plus(Scalar::ONE)).collect();
            let numbers: Vec<Scalar> = numbers.into_iter().filter(|number| !number.is_zero()).collect();
            let mut inverses = numbers.clone();
            invert_all(&mut inverses, &mut Vec::new());
            for (number, inverse) in numbers.iter().zip(&inverses) {
                assert_eq!(number.times(*inverse), Scalar::ONE);
                assert_eq!(number.invert(), *inverse);
            }
        }
    }
}
