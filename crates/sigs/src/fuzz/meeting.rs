//! Secrets for which an addition inside the lanes meets an equal or an opposite point.
//!
//! In:     the multipliers u1 and u2 of a signature to be made; a choice of place.
//! Out:    the secret of a key for which the points meet there. The signature made with it is good.
//! Fails:  never; the secret may be zero, which is no key.
//! Source: docs/signatures.md, "Exceptions": every point is (a + b d) G with a and b from the digits, d the secret.

use super::cases::small;
use crate::lanes::digits::{
    GENERATOR_BITS, GENERATOR_DIGITS, HALF_BITS, WINDOWS, encode_generator, encode_half, split,
};
use crate::number::order::Scalar;

/// What the lanes add in each window: `of_key` times Q and `of_generator` times G.
pub struct Meeting {
    of_key: Vec<Scalar>,
    of_generator: Vec<Scalar>,
}

impl Meeting {
    /// Of these multipliers.
    pub fn of(u1: Scalar, u2: Scalar) -> Meeting {
        let digit = |k: &[u64], bits: u32, index: usize| {
            let bit = |at: usize| k.get(at / 64).map_or(0, |word| (word >> (at % 64) & 1) as i64);
            let plain = (0..bits as usize).fold(0, |value, j| value | bit(index * bits as usize + j) << j);
            small(2 * plain - ((1 << bits) - 1))
        };
        let (k1, k2) = split(u2);
        let (k1, k2) = (encode_half(k1, HALF_BITS), encode_half(k2, HALF_BITS));
        let of_key =
            (0..WINDOWS).map(|index| digit(&k1, 5, index).plus(Scalar::LAMBDA.times(digit(&k2, 5, index)))).collect();
        let (generator, negative) = encode_generator(u1);
        let sums = GENERATOR_DIGITS / 2;
        let high = power_of_two(sums * GENERATOR_BITS as usize);
        let mut of_generator = vec![Scalar::ZERO; WINDOWS];
        for index in 0..sums {
            let [low, upper] = [index, sums + index].map(|index| digit(&generator, GENERATOR_BITS, index));
            let sum = low.plus(upper.times(high));
            of_generator[3 * index] = if negative { sum.negate() } else { sum };
        }
        Meeting { of_key, of_generator }
    }

    /// A secret for which two points meet; `choice` says where, and whether they are equal or opposite.
    pub fn secret(&self, choice: u64) -> Scalar {
        let opposite = |number: Scalar| if choice & 1 == 1 { number.negate() } else { number };
        let place = (choice >> 2) as usize;
        if choice & 2 == 0 {
            // In a window's sum: of_key d = +-of_generator.
            let window = 3 * (place % (GENERATOR_DIGITS / 2));
            return opposite(self.of_generator[window]).times(self.of_key[window].invert());
        }
        // In the loop: what is there before the window, (a + b d), is +-(of_generator + of_key d). In window 0 only
        // an equal point: an opposite one would make R infinity.
        let window = place % (WINDOWS - 1);
        let window = if window == 0 && choice & 1 == 1 { 1 } else { window };
        let before = |digits: &[Scalar]| {
            let sum =
                digits[window + 1..].iter().rev().fold(Scalar::ZERO, |sum, digit| sum.times(small(32)).plus(*digit));
            sum.times(small(32))
        };
        let (a, b) = (before(&self.of_generator), before(&self.of_key));
        let above = opposite(self.of_generator[window]).plus(a.negate());
        above.times(b.plus(opposite(self.of_key[window]).negate()).invert())
    }
}

fn power_of_two(exponent: usize) -> Scalar {
    (0..exponent).fold(Scalar::ONE, |power, _| power.plus(power))
}
