//! Many inverses for one inversion.
//!
//! In:     factors, one after the other; lanes are independent.
//! Out:    their inverses, last one first: three products each, one inversion for all of them and all lanes.
//! Fails:  a zero has no inverse: its lane is reported with its place, counts as one, and disturbs no other.
//! Source: Montgomery's trick (1987), along the chain and then across the lanes.

use super::field::{Factor, Field, P_WORDS};
use super::vector::{Mask, Vector};
use crate::number::inverse::Modulus;

const FIELD: Modulus = Modulus::new(P_WORDS);

/// A product under way, or being taken apart.
#[derive(Clone)]
pub struct Chain<W> {
    links: Vec<Link<W>>,
    /// Of all factors; after [`Chain::invert`], the inverse of the product of those not yet taken.
    product: Factor<W>,
}

#[derive(Clone, Copy)]
struct Link<W> {
    factor: Factor<W>,
    /// The product of the factors before it.
    before: Factor<W>,
}

impl<W: Vector> Chain<W> {
    /// A chain of no factor.
    pub fn new(seed: W, capacity: usize) -> Self {
        Chain { links: Vec::with_capacity(capacity), product: Field::small(seed, 1).factor() }
    }

    /// Forgets all factors.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.links.clear();
        self.product = Field::small(self.product.0[0], 1).factor();
    }

    /// One more factor.
    #[inline(always)]
    pub fn push(&mut self, factor: Factor<W>) {
        self.links.push(Link { factor, before: self.product });
        self.product = self.product.times(factor);
    }

    /// Inverts the product. Tells `report` the number of each factor that is zero, and the lanes where it is.
    #[inline(always)]
    pub fn invert(&mut self, report: impl FnMut(usize, Mask)) {
        if self.product.mask().is_zero() != 0 {
            self.replace_zeros(report);
        }
        self.product = inverse_of_lanes(self.product.mask()).factor();
    }

    /// Builds the product again with one in place of zero.
    #[inline(always)]
    fn replace_zeros(&mut self, mut report: impl FnMut(usize, Mask)) {
        let one = Field::small(self.product.0[0], 1);
        let mut product = one.factor();
        for (number, link) in self.links.iter_mut().enumerate() {
            let zeros = link.factor.mask().is_zero();
            if zeros != 0 {
                report(number, zeros);
                link.factor = link.factor.mask().select(zeros, one).factor();
            }
            link.before = product;
            product = product.times(link.factor);
        }
        self.product = product;
    }

    /// The inverse of the last factor not yet taken. Pre: [`Chain::invert`] was called; a factor is left.
    #[inline(always)]
    pub fn pop(&mut self) -> Factor<W> {
        let link = self.links.pop().expect("as many inverses as factors");
        let inverse = self.product.times(link.before);
        self.product = self.product.times(link.factor);
        inverse
    }
}

/// The inverse in every lane. Pre: no lane is zero.
///
/// p_d is the product of the 2d lanes around each; the whole product is inverted once, and multiplying it by the other
/// lanes leaves the inverse of one's own.
#[inline(always)]
fn inverse_of_lanes<W: Vector>(own: Field<W>) -> Field<W> {
    let across1 = swap::<W, 1>(own);
    let two = own.factor().times(across1.factor()).mask();
    let across2 = swap::<W, 2>(two);
    let four = two.factor().times(across2.factor()).mask();
    let across4 = swap::<W, 4>(four);
    let eight = four.factor().times(across4.factor()).mask();
    let inverse = Field::constant(own.0[0], FIELD.invert(eight.first_words()));
    inverse.factor().times(across4.factor()).times(across2.factor()).times(across1.factor()).mask()
}

#[inline(always)]
fn swap<W: Vector, const DISTANCE: usize>(field: Field<W>) -> Field<W> {
    let [a, b, c, d, e] = field.0;
    Field([
        a.swap::<DISTANCE>(),
        b.swap::<DISTANCE>(),
        c.swap::<DISTANCE>(),
        d.swap::<DISTANCE>(),
        e.swap::<DISTANCE>(),
    ])
}

#[cfg(test)]
mod tests {
    use super::super::vector::{Lanes, Portable};
    use super::*;
    use crate::number::plain;
    use stdx::random::Random;

    #[test]
    fn a_zero_costs_its_own_lane_only() {
        let seed = Portable([0; 8]);
        let mut random = Random::new(8);
        for zeros in 0..4 {
            let mut numbers: Vec<[[u64; 4]; 8]> = Vec::new();
            for _ in 0..20 {
                numbers.push(std::array::from_fn(|_| {
                    plain::add([1, 0, 0, 0], plain::reduce(plain::edge_case(&mut random), P_WORDS), P_WORDS)
                }));
            }
            let mut want = Vec::new();
            for _ in 0..zeros {
                let (number, lane) = (random.below(20) as usize, random.below(8) as usize);
                numbers[number][lane] = [0; 4];
            }
            for (number, lanes) in numbers.iter().enumerate() {
                let mask = (0..8).fold(0, |mask, lane| mask | u8::from(lanes[lane] == [0; 4]) << lane);
                if mask != 0 {
                    want.push((number, mask));
                }
            }
            let mut chain = Chain::new(seed, 20);
            for lanes in &numbers {
                let words =
                    [0, 1, 2, 3].map(|word| seed.load(&Lanes([0, 1, 2, 3, 4, 5, 6, 7].map(|k| lanes[k][word]))));
                chain.push(Field::from_words(words).factor());
            }
            let mut got = Vec::new();
            chain.invert(|number, mask| got.push((number, mask)));
            assert_eq!(got, want);
            for lanes in numbers.iter().rev() {
                let inverse = chain.pop().mask().to_words();
                for lane in 0..8 {
                    let product = plain::multiply(lanes[lane], inverse[lane], P_WORDS);
                    assert!(product == [1, 0, 0, 0] || lanes[lane] == [0; 4]);
                }
            }
        }
    }
}
