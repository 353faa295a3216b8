//! The curve's arithmetic for batches, one point at a time: for any 64-bit processor.
//!
//! In:     as [`Curve`] says.
//! Out:    as [`Curve`] says.
//! Fails:  as [`Curve`] says; a zero among the differences makes their product zero.
//! Source: docs/signatures.md, "Points", "Batches" and "One number at a time".

use std::ops::Range;

use super::curve::{Abscissa, Curve, Point, Term};
use crate::lanes::stages::BETA;
use crate::word::field::{Field, Sum, square_roots};
use crate::word::point::{Affine, Jacobian};

/// Square roots in turns: two keep the processor's multiplier busy, three are no faster.
const ROOTS_TOGETHER: usize = 2;
/// Pairs that share an inversion: 1 us for 512, 2 ns each; what is kept of them takes 40 KiB.
const BLOCK: usize = 512;

/// One point at a time.
#[derive(Clone, Default)]
pub struct WordCurve {
    /// One for each pair of a block.
    links: Vec<Link>,
}

#[derive(Clone, Copy)]
struct Link {
    /// 2 (x' - x).
    difference: Sum,
    /// The product of those before it.
    before: Field,
}

impl WordCurve {
    /// With memory for a block of pairs.
    pub fn new() -> Self {
        WordCurve { links: Vec::with_capacity(BLOCK) }
    }
}

impl Curve for WordCurve {
    fn lift(&mut self, abscissas: &[Abscissa], points: &mut Vec<Point>) -> bool {
        let mut on_curve = true;
        for chunk in abscissas.chunks(ROOTS_TOGETHER) {
            // Past the last one it stands again.
            let x: [Field; ROOTS_TOGETHER] =
                std::array::from_fn(|k| Field::from_words(chunk[k.min(chunk.len() - 1)].x));
            let squares = x.map(|x| (x.squared().times(x).sum() + Field::small(7).sum()).times(Field::small(1).sum()));
            let roots = square_roots(squares);
            for (k, abscissa) in chunk.iter().enumerate() {
                let error = roots[k].squared().sum() + squares[k].sum().from_multiple::<2>();
                on_curve &= error.is_zero();
                let flip = (roots[k].sum().canonical_words()[0] & 1 == 1) != abscissa.odd;
                let y = roots[k].sum().select(flip, roots[k].sum().from_multiple::<2>());
                points.push(pack(abscissa.x, (y + y).words()));
            }
        }
        on_curve
    }

    fn append_conjugates(&mut self, range: Range<usize>, points: &mut Vec<Point>) {
        let beta = Field::from_words(BETA);
        points.reserve(range.len());
        for place in range {
            let [a, b, c, d, w @ ..] = points[place].0;
            let x = Field::from_words([a, b, c, d]).times(beta).sum().words();
            points.push(pack(x, w));
        }
    }

    fn add_pairs(&mut self, pairs: &[[Term; 2]], points: &mut Vec<Point>) -> bool {
        points.reserve(pairs.len());
        pairs.chunks(BLOCK).all(|pairs| self.add_block(pairs, points))
    }

    fn is_zero(&mut self, powers: &[Option<Term>], points: &[Point]) -> bool {
        let Some((&Some(last), others)) = powers.split_first() else { return false };
        let mut sum: Option<Jacobian> = None;
        for power in others.iter().rev() {
            let double = sum.map(Jacobian::double);
            sum = match (double, power) {
                (Some(double), Some(term)) => Some(double.add(point(*term, points))),
                (None, Some(term)) => Some(Jacobian::from_affine(point(*term, points))),
                (double, None) => double,
            };
        }
        let Some(sum) = sum.map(Jacobian::double) else { return false };
        // The sum of the others is the opposite of the last: x Z^2 = X and w Z^3 = -W.
        let last = point(last, points);
        let zz = sum.z.squared();
        let x = last.x.times(zz).sum() + sum.x.sum().from_multiple::<2>();
        let w = last.w.times(sum.z.times(zz).sum()).sum() + sum.w.sum();
        x.is_zero() && w.is_zero() && !sum.z.sum().is_zero()
    }
}

impl WordCurve {
    /// Pairs that share an inversion: forwards the product of all differences, backwards the inverse of each. The pairs
    /// go backwards first, so that the sums come in their order.
    fn add_block(&mut self, pairs: &[[Term; 2]], points: &mut Vec<Point>) -> bool {
        let mut product = Field::small(1);
        self.links.clear();
        for [a, b] in pairs.iter().rev() {
            let difference = Affine::difference_of_x(x_of(*a, points), x_of(*b, points));
            self.links.push(Link { difference, before: product });
            product = product.sum().times(difference);
        }
        if product.sum().is_zero() {
            return false;
        }
        let mut inverse = product.invert();
        for ([a, b], link) in pairs.iter().zip(self.links.iter().rev()) {
            let own = inverse.times(link.before);
            inverse = inverse.sum().times(link.difference);
            let [x, w] = point(*a, points).add_with(point(*b, points), own);
            points.push(pack(x.words(), w.words()));
        }
        true
    }
}

#[inline(always)]
fn pack([a, b, c, d]: [u64; 4], [e, f, g, h]: [u64; 4]) -> Point {
    Point([a, b, c, d, e, f, g, h])
}

#[inline(always)]
fn x_of(term: Term, points: &[Point]) -> Field {
    let [a, b, c, d, ..] = points[term.place()].0;
    Field::from_words([a, b, c, d])
}

#[inline(always)]
fn point(term: Term, points: &[Point]) -> Affine {
    let [a, b, c, d, e, f, g, h] = points[term.place()].0;
    Affine::new(Field::from_words([a, b, c, d]), Field::from_words([e, f, g, h]), term.is_negative())
}
