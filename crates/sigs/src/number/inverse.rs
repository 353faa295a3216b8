//! The inverse of one number modulo an odd modulus of 256 bits, on one core without vectors.
//!
//! In:     a number below the modulus, not zero, as four words of 64 bits, lowest first.
//! Out:    its inverse, below the modulus.
//! Fails:  never; zero gives zero.
//! Source: Bernstein and Yang, "Fast constant-time gcd computation and modular inversion" (2019), in the variable-time
//!         form that libsecp256k1's doc/safegcd_implementation.md explains. Numbers here are public.

/// Five limbs of 62 bits, the last one with the sign.
type Signed = [i64; 5];

const LOW_62: u64 = u64::MAX >> 2;

/// An odd modulus, made ready.
#[derive(Clone, Copy, Debug)]
pub struct Modulus {
    limbs: Signed,
    /// Its inverse modulo 2^62.
    inverse: u64,
}

impl Modulus {
    /// The modulus of these words. Pre: odd, above 2^255.
    pub const fn new(words: [u64; 4]) -> Modulus {
        let mut inverse: u64 = 1;
        let mut round = 0;
        // Each round doubles the number of correct low bits.
        while round < 6 {
            inverse = inverse.wrapping_mul(2u64.wrapping_sub(words[0].wrapping_mul(inverse)));
            round += 1;
        }
        Modulus { limbs: limbs(words), inverse: inverse & LOW_62 }
    }

    /// 1 / `number` modulo this.
    pub fn invert(&self, number: [u64; 4]) -> [u64; 4] {
        let (mut d, mut e): (Signed, Signed) = ([0; 5], [1, 0, 0, 0, 0]);
        let (mut f, mut g) = (self.limbs, limbs(number));
        let mut eta = -1;
        // d * number = f and e * number = g modulo the modulus, up to the same power of two, which each step divides out.
        while g != [0; 5] {
            let step = divide_62(&mut eta, f[0] as u64, g[0] as u64);
            (d, e) = step.apply_modulo(&d, &e, self);
            (f, g) = step.apply(&f, &g);
        }
        // f is the greatest common divisor, 1 or -1 (or, for zero, the modulus, with d = 0).
        words(self.normalize(d, f[4] < 0))
    }

    /// `number`, negated where asked, brought into 0..modulus. Pre: above -2 moduli and below one.
    fn normalize(&self, mut number: Signed, negate: bool) -> Signed {
        let add_modulus = |number: &mut Signed| {
            for (limb, modulus) in number.iter_mut().zip(self.limbs) {
                *limb += modulus;
            }
        };
        if number[4] < 0 {
            add_modulus(&mut number);
        }
        if negate {
            number = number.map(|limb| -limb);
        }
        carry(&mut number);
        if number[4] < 0 {
            add_modulus(&mut number);
            carry(&mut number);
        }
        number
    }
}

const fn limbs(words: [u64; 4]) -> Signed {
    let [a, b, c, d] = words;
    [
        (a & LOW_62) as i64,
        ((a >> 62 | b << 2) & LOW_62) as i64,
        ((b >> 60 | c << 4) & LOW_62) as i64,
        ((c >> 58 | d << 6) & LOW_62) as i64,
        (d >> 56) as i64,
    ]
}

fn words(limbs: Signed) -> [u64; 4] {
    let [a, b, c, d, e] = limbs.map(|limb| limb as u64);
    [a | b << 62, b >> 2 | c << 60, c >> 4 | d << 58, d >> 6 | e << 56]
}

fn carry(number: &mut Signed) {
    for k in 0..4 {
        number[k + 1] += number[k] >> 62;
        number[k] &= LOW_62 as i64;
    }
}

/// 62 steps of the division, as a matrix: (f, g) becomes (u f + v g, q f + r g) / 2^62.
struct Step {
    u: i64,
    v: i64,
    q: i64,
    r: i64,
}

/// Takes 62 steps on the low words of f and g.
fn divide_62(eta: &mut i64, mut f: u64, mut g: u64) -> Step {
    let (mut u, mut v, mut q, mut r) = (1u64, 0u64, 0u64, 1u64);
    let mut left = 62;
    loop {
        let zeros = (g | u64::MAX << left).trailing_zeros();
        (g, u, v) = (g >> zeros, u << zeros, v << zeros);
        *eta -= i64::from(zeros);
        left -= zeros;
        if left == 0 {
            return Step { u: u as i64, v: v as i64, q: q as i64, r: r as i64 };
        }
        // f and g are odd: w times f added to g clears as many low bits of g as steps remain of this kind.
        let swap = *eta < 0;
        if swap {
            *eta = -*eta;
            (f, g) = (g, f.wrapping_neg());
            (u, q) = (q, u.wrapping_neg());
            (v, r) = (r, v.wrapping_neg());
        }
        let bits = (*eta as u64 + 1).min(u64::from(left)).min(if swap { 6 } else { 4 });
        let mask = u64::MAX >> (64 - bits);
        // -1/f modulo 2^6 is f (f^2 - 2); modulo 2^4, 1/f is f + (((f + 1) & 4) << 1).
        let w = if swap {
            f.wrapping_mul(g).wrapping_mul(f.wrapping_mul(f).wrapping_sub(2)) & mask
        } else {
            f.wrapping_add((f.wrapping_add(1) & 4) << 1).wrapping_neg().wrapping_mul(g) & mask
        };
        g = g.wrapping_add(f.wrapping_mul(w));
        q = q.wrapping_add(u.wrapping_mul(w));
        r = r.wrapping_add(v.wrapping_mul(w));
    }
}

impl Step {
    /// The new f and g.
    fn apply(&self, f: &Signed, g: &Signed) -> (Signed, Signed) {
        let (mut new_f, mut new_g) = ([0; 5], [0; 5]);
        let (mut carry_f, mut carry_g) = (0, 0);
        for k in 0..5 {
            carry_f += wide(self.u, f[k]) + wide(self.v, g[k]);
            carry_g += wide(self.q, f[k]) + wide(self.r, g[k]);
            if k > 0 {
                new_f[k - 1] = carry_f as i64 & LOW_62 as i64;
                new_g[k - 1] = carry_g as i64 & LOW_62 as i64;
            }
            carry_f >>= 62;
            carry_g >>= 62;
        }
        (new_f[4], new_g[4]) = (carry_f as i64, carry_g as i64);
        (new_f, new_g)
    }

    /// The new d and e: multiples of the modulus make the division by 2^62 exact.
    fn apply_modulo(&self, d: &Signed, e: &Signed, modulus: &Modulus) -> (Signed, Signed) {
        let (mut new_d, mut new_e) = ([0; 5], [0; 5]);
        let (sign_d, sign_e) = (d[4] >> 63, e[4] >> 63);
        let mut times_d = (self.u & sign_d) + (self.v & sign_e);
        let mut times_e = (self.q & sign_d) + (self.r & sign_e);
        let (mut carry_d, mut carry_e) = (0, 0);
        for k in 0..5 {
            carry_d += wide(self.u, d[k]) + wide(self.v, e[k]);
            carry_e += wide(self.q, d[k]) + wide(self.r, e[k]);
            if k == 0 {
                let low = |carry: i128, times: i64| {
                    modulus.inverse.wrapping_mul(carry as u64).wrapping_add(times as u64) & LOW_62
                };
                times_d -= low(carry_d, times_d) as i64;
                times_e -= low(carry_e, times_e) as i64;
            }
            carry_d += wide(modulus.limbs[k], times_d);
            carry_e += wide(modulus.limbs[k], times_e);
            if k > 0 {
                new_d[k - 1] = carry_d as i64 & LOW_62 as i64;
                new_e[k - 1] = carry_e as i64 & LOW_62 as i64;
            }
            carry_d >>= 62;
            carry_e >>= 62;
        }
        (new_d[4], new_e[4]) = (carry_d as i64, carry_e as i64);
        (new_d, new_e)
    }
}

fn wide(a: i64, b: i64) -> i128 {
    i128::from(a) * i128::from(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::field::P_WORDS;
    use crate::number::order::N_WORDS;
    use crate::number::plain;
    use stdx::random::Random;

    #[test]
    fn a_number_times_its_inverse_is_one() {
        let mut random = Random::new(62);
        for words in [P_WORDS, N_WORDS] {
            let modulus = Modulus::new(words);
            for round in 0..3000 {
                let number = plain::reduce(plain::edge_case(&mut random), words);
                let inverse = modulus.invert(number);
                assert!(plain::less(inverse, words));
                let want = if number == [0; 4] { [0; 4] } else { [1, 0, 0, 0] };
                assert_eq!(plain::multiply(number, inverse, words), want, "round {round}: {number:x?}");
            }
        }
    }
}
