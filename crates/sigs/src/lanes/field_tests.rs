//! Field and point arithmetic at the limits of its limbs, against slow, plain arithmetic.
//!
//! In:     a seed; limbs at 0, at their largest, next to both, and random ones.
//! Out:    nothing.
//! Fails:  where a lane's value differs from the plain one, in plain Rust or in a vector the processor has.
//! Source: plain.rs; the formulas of affine addition as school teaches them.

use stdx::random::Random;

use super::field::{Columns, Factor, Field, P_WORDS, square_roots};
use super::point::{Affine, Jacobian};
#[cfg(target_arch = "x86_64")]
use super::vector::{AvxIfma, Ifma, Twin, enter_avx_ifma, enter_ifma, enter_twin};
use super::vector::{LANES, Lanes, Portable, Vector};
use crate::number::inverse::Modulus;
use crate::number::plain;

type Number = [u64; 4];
/// Limbs of an element in every lane.
type Limbs = [Lanes; 5];

/// Tight limbs, or with garbage above the 52 bits of a factor.
fn limbs(random: &mut Random, garbage: bool) -> Limbs {
    let top = (1 << 48) + (1 << 9) - 1;
    std::array::from_fn(|k| {
        let most = if k == 4 { top } else { (1 << 52) - 1 };
        Lanes(std::array::from_fn(|_| {
            let value = match random.below(6) {
                0 => 0,
                1 => most,
                2 => most - random.below(3),
                3 => random.below(3),
                _ => random.below(most + 1),
            };
            if garbage && k < 4 { value | random.next_u64() << 52 } else { value }
        }))
    })
}

fn load<W: Vector>(seed: W, limbs: &Limbs) -> [W; 5] {
    [0, 1, 2, 3, 4].map(|k| seed.load(&limbs[k]))
}

fn words<W: Vector>(field: Field<W>) -> [Number; LANES] {
    field.to_words()
}

/// The value in one lane; garbage above 52 bits has been carried, so it does not count.
fn value(limbs: &Limbs, lane: usize) -> Number {
    let low: Vec<u64> = (0..5).map(|k| if k < 4 { limbs[k].0[lane] << 12 >> 12 } else { limbs[k].0[lane] }).collect();
    plain::of_limbs(&low, P_WORDS)
}

fn times(a: Number, b: Number) -> Number {
    plain::multiply(a, b, P_WORDS)
}

fn plus(a: Number, b: Number) -> Number {
    plain::add(a, b, P_WORDS)
}

fn minus(a: Number, b: Number) -> Number {
    if b == [0; 4] { a } else { plus(a, plain::subtract(P_WORDS, b)) }
}

fn small(number: u64) -> Number {
    [number, 0, 0, 0]
}

fn inverse(number: Number) -> Number {
    Modulus::new(P_WORDS).invert(number)
}

/// What the engine computes of two elements.
#[inline(always)]
fn elements<W: Vector>(seed: W, a: &Limbs, b: &Limbs, raw: &Limbs) -> Vec<[Number; LANES]> {
    let (a, b, raw) = (Field(load(seed, a)), Field(load(seed, b)), Factor(load(seed, raw)));
    let sum = a.sum() + b.sum();
    let square = a.factor().squared();
    let fused = Columns::square(raw).plus_product(a.factor(), b.factor()).plus(sum.from_multiple::<3>());
    let root = square_roots([square, raw.squared()]);
    let bits = a.is_odd();
    vec![
        words(a.factor().times(b.factor()).mask()),
        words(raw.times(raw).mask()),
        words(raw.squared().mask()),
        words(sum.tighten()),
        words(a.negate()),
        words(a.double()),
        words(a.halve()),
        words(fused.reduce::<1>().mask()),
        words(fused.reduce::<2>().mask()),
        words(fused.reduce::<3>().mask()),
        words(fused.reduce::<4>().mask()),
        words(fused.reduce_plus::<2>(Some(b.sum().from_multiple::<2>())).mask()),
        words(root[0].factor().squared().mask()),
        words(root[1].factor().squared().mask()),
        std::array::from_fn(|lane| small(u64::from(bits >> lane & 1))),
        std::array::from_fn(|lane| small(u64::from(a.is_zero() >> lane & 1))),
    ]
}

/// The same by school's arithmetic.
fn plain_elements(a: Number, b: Number, raw: Number) -> Vec<Number> {
    let (square, sum) = (times(a, a), plus(a, b));
    let fused = minus(plus(times(raw, raw), times(a, b)), sum);
    let raw_square = times(raw, raw);
    vec![
        times(a, b),
        raw_square,
        raw_square,
        sum,
        minus(small(0), a),
        plus(a, a),
        times(a, inverse(small(2))),
        fused,
        times(fused, small(2)),
        times(fused, small(3)),
        times(fused, small(4)),
        minus(times(fused, small(2)), b),
        square,
        raw_square,
        small(a[0] & 1),
        small(u64::from(a == small(0))),
    ]
}

/// What the engine computes of two points; they need not be on the curve, the formulas never use its 7.
#[inline(always)]
fn points<W: Vector>(seed: W, limbs: &[Limbs; 7], inverses: &[[Lanes; 4]; 2]) -> Vec<[Number; LANES]> {
    let field = |k: usize| Field(load(seed, &limbs[k]));
    let inverse = |k: usize| Field::from_words([0, 1, 2, 3].map(|word| seed.load(&inverses[k][word]))).factor();
    let (p, q) = (Affine { x: field(0), w: field(1) }, Affine { x: field(2), w: field(3) });
    let (sum, double) = (p.add_with(q, inverse(0)), p.double_with(inverse(1)));
    let start = || Jacobian { x: field(4), w: Factor(load(seed, &limbs[5])), z: Factor(load(seed, &limbs[6])) };
    let (mut doubled, mut added) = (start(), start());
    doubled.double_negated();
    added.add_negated(p);
    let mut out = vec![words(p.difference_of_x(q).mask()), words(p.negate().w)];
    out.extend([sum.x, sum.w, double.x, double.w].map(words));
    for point in [doubled, added] {
        out.extend([point.x, point.w.mask(), point.z.mask()].map(words));
    }
    out
}

/// (x3, w3) of the chord through two points or of the tangent at one.
fn third_point(x: Number, w: Number, other_x: Number, slope: Number) -> [Number; 2] {
    let x3 = minus(minus(times(slope, slope), x), other_x);
    [x3, minus(times(times(small(2), slope), minus(x, x3)), w)]
}

fn plain_points(v: [Number; 7]) -> Vec<Number> {
    let [x1, w1, x2, w2, x, w, z] = v;
    let run = times(small(2), minus(x2, x1));
    let tangent = |x: Number, w: Number| times(times(small(3), times(x, x)), inverse(w));
    let mut out = vec![run, minus(small(0), w1)];
    out.extend(third_point(x1, w1, x2, times(minus(w2, w1), inverse(run))));
    out.extend(third_point(x1, w1, x1, tangent(x1, w1)));
    // A Jacobian point as an affine one, there and back.
    let (i2, z2) = (times(inverse(z), inverse(z)), times(z, z));
    let (ax, aw, z3) = (times(x, i2), times(w, times(i2, inverse(z))), times(z2, z));
    let lift = |[x, w]: [Number; 2], z: Number| {
        let z2 = times(z, z);
        [times(x, z2), minus(small(0), times(w, times(z2, z))), z]
    };
    out.extend(lift(third_point(ax, aw, ax, tangent(ax, aw)), times(w, z)));
    let h = minus(times(x1, z2), x);
    let rise = minus(times(w1, z3), w);
    let slope = times(rise, inverse(times(small(2), times(z, h))));
    out.extend(lift(third_point(ax, aw, x1, slope), times(small(2), times(z, h))));
    out
}

#[cfg(target_arch = "x86_64")]
enter_ifma! {
    fn elements_ifma(a: &Limbs, b: &Limbs, raw: &Limbs) -> Vec<[Number; LANES]> = elements;
    fn points_ifma(limbs: &[Limbs; 7], inverses: &[[Lanes; 4]; 2]) -> Vec<[Number; LANES]> = points;
}
#[cfg(target_arch = "x86_64")]
enter_avx_ifma! {
    fn elements_avx_ifma(a: &Limbs, b: &Limbs, raw: &Limbs) -> Vec<[Number; LANES]> = elements;
    fn points_avx_ifma(limbs: &[Limbs; 7], inverses: &[[Lanes; 4]; 2]) -> Vec<[Number; LANES]> = points;
}
#[cfg(target_arch = "x86_64")]
enter_twin! {
    fn elements_twin(a: &Limbs, b: &Limbs, raw: &Limbs) -> Vec<[Number; LANES]> = elements;
    fn points_twin(limbs: &[Limbs; 7], inverses: &[[Lanes; 4]; 2]) -> Vec<[Number; LANES]> = points;
}

/// The results of each vector this processor has, by name; plain Rust's first.
#[cfg(target_arch = "x86_64")]
macro_rules! on_every_vector {
    ($($argument:expr),*; $portable:ident, $ifma:ident, $avx_ifma:ident, $twin:ident) => {{
        let mut results = vec![(Portable::NAME, $portable(Portable([0; 8]), $($argument),*))];
        results.extend(Ifma::detect().map(|seed| (Ifma::NAME, $ifma(seed, $($argument),*))));
        results.extend(AvxIfma::detect().map(|seed| (AvxIfma::NAME, $avx_ifma(seed, $($argument),*))));
        results.extend(Twin::detect().map(|seed| (Twin::NAME, $twin(seed, $($argument),*))));
        results
    }};
}
#[cfg(not(target_arch = "x86_64"))]
macro_rules! on_every_vector {
    ($($argument:expr),*; $portable:ident, $ifma:ident, $avx_ifma:ident, $twin:ident) => {
        [(Portable::NAME, $portable(Portable([0; 8]), $($argument),*))]
    };
}

/// Compares every lane of every result.
#[track_caller]
fn check(got: &[[Number; LANES]], want: impl Fn(usize) -> Vec<Number>, name: &str) {
    for lane in 0..LANES {
        let got: Vec<Number> = got.iter().map(|result| result[lane]).collect();
        assert_eq!(got, want(lane), "{name}, lane {lane}");
    }
}

#[test]
fn elements_at_the_limits_are_exact() {
    let mut random = Random::new(260);
    for round in 0..150 {
        let (mut a, b, raw) = (limbs(&mut random, false), limbs(&mut random, false), limbs(&mut random, true));
        // p itself, in two forms, and zero.
        for (lane, form) in [[0; 5], super::field::P].into_iter().enumerate() {
            for (limb, value) in a.iter_mut().zip(form) {
                limb.0[lane] = value;
            }
        }
        let want = |lane| plain_elements(value(&a, lane), value(&b, lane), value(&raw, lane));
        let results = on_every_vector!(&a, &b, &raw; elements, elements_ifma, elements_avx_ifma, elements_twin);
        for (name, got) in results {
            check(&got, want, &format!("{name}, round {round}"));
        }
    }
}

#[test]
fn points_at_the_limits_are_exact() {
    let mut random = Random::new(7);
    let mut compared = 0;
    'round: for round in 0..150 {
        let all: [Limbs; 7] = std::array::from_fn(|k| limbs(&mut random, k >= 5));
        let values = |lane| [0, 1, 2, 3, 4, 5, 6].map(|k| value(&all[k], lane));
        let mut inverses = [[Lanes::default(); 4]; 2];
        for lane in 0..LANES {
            let [x1, w1, x2, _, x, w, z] = values(lane);
            let run = times(small(2), minus(x2, x1));
            if [w1, run, w, z, minus(times(x1, times(z, z)), x)].contains(&small(0)) {
                continue 'round; // exceptions are tested with the engine
            }
            for (inverses, number) in inverses.iter_mut().zip([run, w1]) {
                for (lanes, word) in inverses.iter_mut().zip(inverse(number)) {
                    lanes.0[lane] = word;
                }
            }
        }
        let want = |lane| plain_points(values(lane));
        let results = on_every_vector!(&all, &inverses; points, points_ifma, points_avx_ifma, points_twin);
        for (name, got) in results {
            check(&got, want, &format!("{name}, round {round}"));
        }
        compared += 1;
    }
    assert!(compared > 120, "{compared} of 150 rounds without a zero");
}
