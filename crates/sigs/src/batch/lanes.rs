//! The curve's arithmetic for batches, eight points at a time.
//!
//! In:     as [`Curve`] says.
//! Out:    as [`Curve`] says.
//! Fails:  as [`Curve`] says; a zero among the differences is seen by the chain of inverses.
//! Source: docs/signatures.md, "Field", "Points" and "Batches". The stages are generic; here they are compiled for each
//!         kind of register, and in the tests in plain Rust.

use std::ops::Range;

use super::curve::{Abscissa, Curve, Point, Term};
use crate::lanes::chain::Chain;
use crate::lanes::field::{Columns, Field, square_roots};
use crate::lanes::point::{Affine, Jacobian};
use crate::lanes::stages::BETA;
#[cfg(test)]
use crate::lanes::vector::Portable;
#[cfg(target_arch = "x86_64")]
use crate::lanes::vector::{AvxIfma, Ifma, enter_avx_ifma, enter_ifma};
use crate::lanes::vector::{LANES, Lanes, Mask, Vector};
#[cfg(all(test, target_arch = "x86_64"))]
use crate::lanes::vector::{Twin, enter_twin};

/// Groups of eight whose square roots are interleaved.
const ROOTS_TOGETHER: usize = 4;
/// Groups of eight pairs that share an inversion: some 1.5 us for 1,536 pairs; their points take 0.4 MiB.
const BLOCK: usize = 192;
/// Groups of pairs by which fetching points runs ahead: their lines come from the second-level cache in time.
const AHEAD: usize = 4;

/// Eight points at a time.
#[derive(Clone)]
pub struct LanesCurve<V> {
    seed: V,
    memory: Memory<V>,
}

/// What sums of pairs are made in.
#[derive(Clone)]
struct Memory<V> {
    chain: Chain<V>,
    pairs: Vec<[Affine<V>; 2]>,
}

impl<V: Vector> LanesCurve<V> {
    /// On this kind of vector.
    pub fn new(seed: V) -> Self {
        let zero = Field::small(seed, 0);
        let pairs = vec![[Affine { x: zero, w: zero }; 2]; BLOCK];
        LanesCurve { seed, memory: Memory { chain: Chain::new(seed, BLOCK), pairs } }
    }
}

/// Names the functions that are a vector's operations.
macro_rules! curve {
    ($type:ty: $lift:path, $conjugates:path, $pairs:path, $zero:path) => {
        impl Curve for LanesCurve<$type> {
            fn lift(&mut self, abscissas: &[Abscissa], points: &mut Vec<Point>) -> bool {
                $lift(self.seed, abscissas, points)
            }
            fn append_conjugates(&mut self, range: Range<usize>, points: &mut Vec<Point>) {
                $conjugates(self.seed, range, points);
            }
            fn add_pairs(&mut self, pairs: &[[Term; 2]], points: &mut Vec<Point>) -> bool {
                $pairs(self.seed, &mut self.memory, pairs, points)
            }
            fn is_zero(&mut self, powers: &[Option<Term>], points: &[Point]) -> bool {
                $zero(self.seed, powers, points)
            }
        }
    };
}

#[cfg(test)]
curve!(Portable: lift, append_conjugates, add_pairs, is_zero);

/// The operations compiled for a vector of the processor, in a module of their own.
#[cfg(target_arch = "x86_64")]
macro_rules! compiled_curve {
    ($type:ident: $enter:ident, $module:ident) => {
        mod $module {
            use super::*;

            $enter! {
                fn lift(abscissas: &[Abscissa], points: &mut Vec<Point>) -> bool = super::lift;
                fn append_conjugates(range: Range<usize>, points: &mut Vec<Point>) = super::append_conjugates;
                fn add_pairs(memory: &mut Memory<$type>, pairs: &[[Term; 2]], points: &mut Vec<Point>) -> bool =
                    super::add_pairs;
                fn is_zero(powers: &[Option<Term>], points: &[Point]) -> bool = super::is_zero;
            }
            curve!($type: lift, append_conjugates, add_pairs, is_zero);
        }
    };
}

#[cfg(target_arch = "x86_64")]
compiled_curve!(Ifma: enter_ifma, one_register);
#[cfg(target_arch = "x86_64")]
compiled_curve!(AvxIfma: enter_avx_ifma, two_registers);
#[cfg(all(test, target_arch = "x86_64"))]
compiled_curve!(Twin: enter_twin, twin);

/// Appends the first `count` lanes.
#[inline(always)]
fn append<V: Vector>(x: [V; 4], w: [V; 4], count: usize, points: &mut Vec<Point>) {
    let ([a, b, c, d], [e, f, g, h]) = (x, w);
    for row in &V::store_rows([a, b, c, d, e, f, g, h])[..count.min(LANES)] {
        points.push(Point(row.0));
    }
}

#[inline(always)]
fn lift<V: Vector>(seed: V, abscissas: &[Abscissa], points: &mut Vec<Point>) -> bool {
    let seven = Columns::start(Field::small(seed, 7).sum());
    let mut on_curve = Mask::MAX;
    for chunk in abscissas.chunks(ROOTS_TOGETHER * LANES) {
        let mut x = [Field::small(seed, 0); ROOTS_TOGETHER];
        let mut squares = [x[0].factor(); ROOTS_TOGETHER];
        let mut odd = [0; ROOTS_TOGETHER];
        for k in 0..ROOTS_TOGETHER {
            // Past the last one it stands again.
            let mut words = [Lanes::default(); 4];
            for lane in 0..LANES {
                let abscissa = &chunk[(k * LANES + lane).min(chunk.len() - 1)];
                for (words, word) in words.iter_mut().zip(abscissa.x) {
                    words.0[lane] = word;
                }
                odd[k] |= Mask::from(abscissa.odd) << lane;
            }
            let [a, b, c, d] = words;
            x[k] = Field::from_words([seed.load(&a), seed.load(&b), seed.load(&c), seed.load(&d)]);
            squares[k] = seven.plus_product(x[k].factor(), x[k].factor().squared()).reduce::<1>();
        }
        let roots = square_roots(squares);
        for k in 0..ROOTS_TOGETHER {
            let minus_square = squares[k].mask().sum().from_multiple::<2>();
            on_curve &= Columns::square(roots[k].factor()).plus(minus_square).reduce::<1>().mask().is_zero();
            let y = roots[k].select(roots[k].is_odd() ^ odd[k], roots[k].negate());
            let left = chunk.len().saturating_sub(k * LANES);
            append(x[k].to_vectors(), y.double().to_vectors(), left, points);
        }
    }
    on_curve == Mask::MAX
}

#[inline(always)]
fn append_conjugates<V: Vector>(seed: V, range: Range<usize>, points: &mut Vec<Point>) {
    let beta = Field::constant(seed, BETA).factor();
    points.reserve(range.len());
    for start in range.clone().step_by(LANES) {
        let row = |lane: usize| &points[(start + lane).min(range.end - 1)].0;
        let rows = [row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7)];
        let [a, b, c, d, e, f, g, h] = seed.load_rows(rows);
        let x = Field::from_words([a, b, c, d]).factor().times(beta).mask();
        append(x.to_vectors(), [e, f, g, h], range.end - start, points);
    }
}

/// Eight points.
#[inline(always)]
fn load_points<V: Vector>(seed: V, terms: [Term; LANES], points: &[Point]) -> Affine<V> {
    let [a, b, c, d, e, f, g, h] = terms;
    let row = |term: Term| &points[term.place()].0;
    let rows = [row(a), row(b), row(c), row(d), row(e), row(f), row(g), row(h)];
    let negative = (0..LANES).fold(0, |mask, lane| mask | Mask::from(terms[lane].is_negative()) << lane);
    let [a, b, c, d, e, f, g, h] = seed.load_rows(rows);
    let point = Affine { x: Field::from_words([a, b, c, d]), w: Field::from_words([e, f, g, h]) };
    // Sums of pairs are never negated: half of all points loaded.
    if negative == 0 { point } else { point.select(negative, point.negate()) }
}

/// Eight pairs; past the last one it stands again.
#[inline(always)]
fn group(pairs: &[[Term; 2]], start: usize) -> [[Term; 2]; LANES] {
    if let Some(group) = pairs[start..].first_chunk() {
        return *group;
    }
    let pair = |lane: usize| pairs[(start + lane).min(pairs.len() - 1)];
    [pair(0), pair(1), pair(2), pair(3), pair(4), pair(5), pair(6), pair(7)]
}

/// The first or the second of each pair.
#[inline(always)]
fn side(pairs: &[[Term; 2]; LANES], side: usize) -> [Term; LANES] {
    let of = |lane: usize| pairs[lane][side];
    [of(0), of(1), of(2), of(3), of(4), of(5), of(6), of(7)]
}

/// Blocks of pairs, the last pairs of each first, so that the inverses come first pairs first.
#[inline(always)]
fn add_pairs<V: Vector>(seed: V, memory: &mut Memory<V>, pairs: &[[Term; 2]], points: &mut Vec<Point>) -> bool {
    let Memory { chain, pairs: loaded } = memory;
    let mut proper = true;
    points.reserve(pairs.len());
    for pairs in pairs.chunks(BLOCK * LANES) {
        chain.clear();
        for number in (0..pairs.len().div_ceil(LANES)).rev() {
            for [a, b] in group(pairs, number.saturating_sub(AHEAD) * LANES) {
                seed.prefetch(&points[a.place()].0);
                seed.prefetch(&points[b.place()].0);
            }
            let terms = group(pairs, number * LANES);
            let [a, b] = &mut loaded[number];
            *a = load_points(seed, side(&terms, 0), points);
            *b = load_points(seed, side(&terms, 1), points);
            chain.push(a.difference_of_x(*b));
        }
        chain.invert(|_, _| proper = false);
        for (number, [a, b]) in loaded[..pairs.len().div_ceil(LANES)].iter().enumerate() {
            let sum = a.add_with(*b, chain.pop());
            append(sum.x.to_vectors(), sum.w.to_vectors(), pairs.len() - number * LANES, points);
        }
    }
    proper
}

/// One point in all lanes.
#[inline(always)]
fn load_point<V: Vector>(seed: V, term: Term, points: &[Point]) -> Affine<V> {
    let [a, b, c, d, e, f, g, h] = points[term.place()].0;
    let point = Affine { x: Field::constant(seed, [a, b, c, d]), w: Field::constant(seed, [e, f, g, h]) };
    if term.is_negative() { point.negate() } else { point }
}

/// All lanes do the same: the work is a few per cent of a batch's.
///
/// The sum is kept as plus or minus itself: each step gives the negative (crate::lanes::point).
#[inline(always)]
fn is_zero<V: Vector>(seed: V, powers: &[Option<Term>], points: &[Point]) -> bool {
    let Some((&Some(last), others)) = powers.split_first() else { return false };
    let mut negative = false;
    let mut sum = None;
    for power in others.iter().rev() {
        match (&mut sum, power) {
            (None, None) => {}
            (None, Some(term)) => sum = Some(Jacobian::from_affine(load_point(seed, *term, points))),
            (Some(sum), power) => {
                sum.double_negated();
                negative = !negative;
                if let Some(term) = power {
                    sum.add_negated(load_point(seed, term.negated_if(negative), points));
                    negative = !negative;
                }
            }
        }
    }
    let Some(mut sum) = sum else { return false };
    // Opposite means 2 S = -last. From what is kept, S or -S where `negative`, this makes -2 S or 2 S.
    sum.double_negated();
    let last = load_point(seed, last.negated_if(negative), points);
    let zz = sum.z.squared();
    let minus_x = Columns::start(sum.x.sum().from_multiple::<2>());
    let minus_w = Columns::start(sum.w.mask().sum().from_multiple::<2>());
    let opposite = minus_x.plus_product(last.x.factor(), zz).reduce::<1>().mask().is_zero()
        & minus_w.plus_product(last.w.factor(), sum.z.times(zz)).reduce::<1>().mask().is_zero();
    opposite & !sum.z.mask().is_zero() == Mask::MAX
}
