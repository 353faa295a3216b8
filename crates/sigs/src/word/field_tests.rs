//! Field and point arithmetic at the limits of its limbs, against slow, plain arithmetic.
//!
//! In:     a seed; limbs at 0, at their largest, next to both, and random ones.
//! Out:    nothing.
//! Fails:  where a value differs from the plain one.
//! Source: crate::number::plain; the formulas of affine addition as school teaches them.

use stdx::random::Random;

use super::field::{Field, P_WORDS, Sum, square_roots};
use super::point::{Affine, Jacobian};
use crate::number::plain;

type Number = [u64; 4];

/// Limbs up to `most`, the last up to `most_of_last`, both included.
fn limbs(random: &mut Random, most: u64, most_of_last: u64) -> [u64; 5] {
    std::array::from_fn(|k| {
        let most = if k == 4 { most_of_last } else { most };
        match random.below(6) {
            0 => 0,
            1 => most,
            2 => most - random.below(3),
            3 => random.below(3),
            _ => random.below(most + 1),
        }
    })
}

fn any_field(random: &mut Random) -> Field {
    Field(limbs(random, (1 << 52) + (1 << 45) - 1, (1 << 48) - 1))
}

fn any_sum(random: &mut Random) -> Sum {
    Sum(limbs(random, (1 << 55) - 1, (1 << 51) - 1))
}

fn value(sum: Sum) -> Number {
    plain::of_limbs(&sum.0, P_WORDS)
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

/// a^e by school.
fn power(a: Number, e: Number) -> Number {
    (0..256).rev().fold(small(1), |result, bit| {
        let square = times(result, result);
        if e[bit / 64] >> (bit % 64) & 1 == 1 { times(square, a) } else { square }
    })
}

fn inverse(a: Number) -> Number {
    power(a, plain::subtract(P_WORDS, small(2)))
}

#[test]
fn elements_at_the_limits_are_exact() {
    let mut random = Random::new(52);
    for round in 0..3000 {
        let (a, b) = (any_sum(&mut random), any_sum(&mut random));
        let (c, d) = (any_field(&mut random), any_field(&mut random));
        let (x, y, v, w) = (value(a), value(b), value(c.sum()), value(d.sum()));
        let check = |got: Sum, want: Number, what: &str| {
            assert_eq!(got.canonical_words(), want, "{what}, round {round}: {a:?} {b:?} {c:?} {d:?}");
            assert_eq!(plain::reduce(got.words(), P_WORDS), want, "words of {what}, round {round}");
            assert_eq!(got.is_zero(), want == [0; 4], "{what} is zero, round {round}");
        };
        check(a, x, "a");
        check(a.times(b).sum(), times(x, y), "a b");
        check(a.squared().sum(), times(x, x), "a^2");
        check(c.sum() + d.sum(), plus(v, w), "c + d");
        check((c.sum() + d.sum()).from_multiple::<3>(), minus(small(0), plus(v, w)), "-c - d");
        check(a.select(false, b), x, "a of both");
        check(a.select(true, b), y, "b of both");
        check(Sum([0; 5]), [0; 4], "0");
        check(c.sum() + c.sum().from_multiple::<2>(), [0; 4], "c - c");
        let words = plain::edge_case(&mut random);
        check(Field::from_words(words).sum(), plain::reduce(words, P_WORDS), "words");
    }
}

#[test]
fn values_around_the_modulus_are_brought_below_it() {
    #[track_caller]
    fn check(words: Number, want: Number) {
        let field = Field::from_words(words);
        assert_eq!(field.sum().canonical_words(), want);
        assert_eq!(field.sum().is_zero(), want == [0; 4]);
        // The same with all that may stand above: 2^256 counts 2^32 + 977.
        let Field([a, b, c, d, e]) = field;
        let raised = Sum([a, b, c, d, e + (1 << 59)]);
        assert_eq!(raised.canonical_words(), plus(want, small((1 << 11) * 0x1_0000_03d1)));
    }
    check([0; 4], [0; 4]);
    check(small(1), small(1));
    check(plain::subtract(P_WORDS, small(1)), plain::subtract(P_WORDS, small(1)));
    check(P_WORDS, [0; 4]);
    check(plain::subtract(P_WORDS, [u64::MAX; 4]), small(1));
    check([u64::MAX; 4], small(0x1_0000_03d0));
}

#[test]
fn inverses_and_roots_are_those_of_plain_arithmetic() {
    let mut random = Random::new(53);
    let exponent = [0xffff_ffff_bfff_ff0c, u64::MAX, u64::MAX, 0x3fff_ffff_ffff_ffff]; // (p + 1) / 4
    for _ in 0..30 {
        let (a, b) = (any_field(&mut random), any_field(&mut random));
        let (x, y) = (value(a.sum()), value(b.sum()));
        assert_eq!(a.invert().sum().canonical_words(), inverse(x));
        let roots = square_roots([a, b]).map(|root| root.sum().canonical_words());
        assert_eq!(roots, [power(x, exponent), power(y, exponent)]);
    }
    assert_eq!(Field::<u64>::small(0).invert().sum().canonical_words(), [0; 4]);
}

/// x and w of the third point on the line of this slope, mirrored.
fn third_point(slope: Number, x: Number, w: Number, other_x: Number) -> [Number; 2] {
    let x3 = minus(minus(times(slope, slope), x), other_x);
    [x3, minus(times(times(small(2), slope), minus(x, x3)), w)]
}

#[test]
fn points_at_the_limits_are_exact() {
    let mut random = Random::new(54);
    let words = |sum: Sum| sum.canonical_words();
    for round in 0..60 {
        let fields: [Field; 7] = std::array::from_fn(|_| any_field(&mut random));
        let [x1, w1, x2, w2, x, w, z] = fields;
        let a = Affine::new(x1, w1, random.chance(1, 2));
        let b = Affine::new(x2, w2, random.chance(1, 2));
        let point = Jacobian { x, w, z };
        let [x1, w1, x2, w2, x, w, z] = [x1.sum(), a.w, x2.sum(), b.w, x.sum(), w.sum(), z.sum()].map(value);
        let zi = inverse(z);
        let (zi2, zi3) = (times(zi, zi), times(times(zi, zi), zi));
        let (x0, w0) = (times(x, zi2), times(w, zi3));
        let run = |a: Number, b: Number| times(small(2), minus(b, a));
        if [run(x1, x2), run(x0, x1), w0].contains(&[0; 4]) {
            continue; // exceptions are tested with the batch
        }
        // Two affine points.
        let difference = Affine::difference_of_x(a.x, b.x);
        assert_eq!(words(difference), run(x1, x2));
        let got = a.add_with(b, Field::from_words(inverse(run(x1, x2))));
        let slope = times(minus(w2, w1), inverse(run(x1, x2)));
        assert_eq!(got.map(words), third_point(slope, x1, w1, x2), "round {round}");
        // A Jacobian one and an affine one, and the double; compared in affine form.
        let affine = |point: Jacobian| {
            let [x, w, z] = [point.x, point.w, point.z].map(|field| words(field.sum()));
            let zi = inverse(z);
            [times(x, times(zi, zi)), times(w, times(times(zi, zi), zi))]
        };
        let slope = times(minus(w1, w0), inverse(run(x0, x1)));
        assert_eq!(affine(point.add(a)), third_point(slope, x0, w0, x1), "round {round}");
        let slope = times(times(small(3), times(x0, x0)), inverse(w0));
        assert_eq!(affine(point.double()), third_point(slope, x0, w0, x0), "round {round}");
        assert_eq!(affine(Jacobian::from_affine(a)), [x1, w1]);
    }
}
