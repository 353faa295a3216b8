//! Each curve's four operations against libsecp256k1.
//!
//! In:     multiples of the generator by libsecp256k1.
//! Out:    nothing.
//! Fails:  where a point differs, or an exception is not seen.
//! Source: curve.rs, whose contract this is the test of.

use secp256k1::{PublicKey, SecretKey};
use stdx::random::Random;

use super::curve::{Abscissa, Curve, Point, Term};
use super::lanes::LanesCurve;
use super::word::WordCurve;
use crate::lanes::vector::Portable;
use crate::number::order::{Scalar, words_from_bytes};
use crate::number::plain;

const P: [u64; 4] = crate::lanes::field::P_WORDS;

/// x and y of a multiple of the generator.
fn multiple(scalar: Scalar) -> [[u64; 4]; 2] {
    let secret = SecretKey::from_secret_bytes(scalar.to_bytes()).expect("not zero");
    let bytes = PublicKey::from_secret_key(&secret).serialize_uncompressed();
    [1, 33].map(|at| words_from_bytes(bytes[at..at + 32].try_into().expect("32 bytes")))
}

/// The point as the arena has it; p is added to a coordinate where that still fits, as curves may.
fn point(scalar: Scalar) -> Point {
    let [x, y] = multiple(scalar);
    let [a, b, c, d] = x;
    let [e, f, g, h] = plain::add(y, y, P);
    Point([a, b, c, d, e, f, g, h])
}

#[track_caller]
fn assert_same(got: &[Point], want: &[Point], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (number, (got, want)) in got.iter().zip(want).enumerate() {
        for half in [0..4, 4..8] {
            let got: [u64; 4] = got.0[half.clone()].try_into().expect("four words");
            assert_eq!(plain::reduce(got, P), want.0[half], "{what}, point {number}");
        }
    }
}

fn scalars(random: &mut Random, count: usize) -> Vec<Scalar> {
    (0..count).map(|_| Scalar::from_bytes_reduced(&random.bytes())).collect()
}

fn check_lift<C: Curve>(mut curve: C, name: &str) {
    let mut random = Random::new(1);
    for count in [0, 1, 2, 3, 7, 33] {
        let scalars = scalars(&mut random, count);
        let abscissas: Vec<Abscissa> = scalars
            .iter()
            .map(|scalar| {
                let [x, y] = multiple(*scalar);
                Abscissa { x, odd: y[0] & 1 == 1 }
            })
            .collect();
        // What stood there before must stay.
        let mut points = vec![point(Scalar::ONE)];
        assert!(curve.lift(&abscissas, &mut points));
        curve.append_conjugates(1..count + 1, &mut points);
        let mut want = vec![point(Scalar::ONE)];
        want.extend(scalars.iter().map(|scalar| point(*scalar)));
        want.extend(scalars.iter().map(|scalar| point(scalar.times(Scalar::LAMBDA))));
        assert_same(&points, &want, name);
        // One x in the middle that is none of the curve: 5^3 + 7 is no square.
        let mut wrong = abscissas.clone();
        wrong.insert(count / 2, Abscissa { x: [5, 0, 0, 0], odd: false });
        assert!(!curve.lift(&wrong, &mut Vec::new()), "{name}: {count}");
    }
}

#[test]
fn abscissas_become_points_and_conjugates() {
    check_lift(WordCurve::new(), "word");
    check_lift(LanesCurve::new(Portable([0; 8])), "lanes");
}

fn check_add<C: Curve>(mut curve: C, name: &str) {
    let mut random = Random::new(2);
    for count in [0, 1, 9, 600] {
        let scalars = scalars(&mut random, 12);
        let mut points: Vec<Point> = scalars.iter().map(|scalar| point(*scalar)).collect();
        let mut want = points.clone();
        let mut pairs = Vec::new();
        // Of twelve points and either sign there are 264 different sums; they are made once.
        let mut sums = std::collections::BTreeMap::new();
        for _ in 0..count {
            let (a, b) = (random.below(12) as usize, random.below(11) as usize);
            let places = [a, if b == a { 11 } else { b }];
            let signs = [random.chance(1, 2), random.chance(1, 2)];
            if places[0] == places[1] {
                continue;
            }
            let signed = |side: usize| {
                let scalar = scalars[places[side]];
                if signs[side] { scalar.negate() } else { scalar }
            };
            want.push(*sums.entry((places, signs)).or_insert_with(|| point(signed(0).plus(signed(1)))));
            pairs.push([Term::new(places[0], signs[0]), Term::new(places[1], signs[1])]);
        }
        assert!(curve.add_pairs(&pairs, &mut points), "{name}: {count}");
        assert_same(&points, &want, name);
        for opposite in [false, true] {
            let mut met = pairs.clone();
            met.insert(pairs.len() / 2, [Term::new(4, false), Term::new(4, opposite)]);
            assert!(!curve.add_pairs(&met, &mut points[..12].to_vec()), "{name}: {count}");
        }
    }
}

#[test]
fn pairs_are_added_and_equal_or_opposite_ones_seen() {
    check_add(WordCurve::new(), "word");
    check_add(LanesCurve::new(Portable([0; 8])), "lanes");
}

fn check_weigh<C: Curve>(mut curve: C, name: &str) {
    let mut random = Random::new(3);
    for count in [2, 3, 20, 130] {
        let mut numbers = scalars(&mut random, count);
        let signs: Vec<bool> = (0..count).map(|_| random.chance(1, 2)).collect();
        let there: Vec<bool> = (0..count).map(|power| power <= 1 || random.chance(2, 3)).collect();
        // The sum of 2^k times the others, to be undone by the first.
        let mut sum = Scalar::ZERO;
        for power in (1..count).rev() {
            let number = if signs[power] { numbers[power].negate() } else { numbers[power] };
            sum = if there[power] { sum.plus(number) } else { sum };
            sum = sum.plus(sum);
        }
        numbers[0] = if signs[0] { sum } else { sum.negate() };
        let points: Vec<Point> = numbers.iter().map(|number| point(*number)).collect();
        let term = |power: usize| there[power].then(|| Term::new(power, signs[power]));
        let powers: Vec<Option<Term>> = (0..count).map(term).collect();
        assert!(curve.is_zero(&powers, &points), "{name}: {count} powers");
        for wrong in [0, 1, count - 1] {
            let mut powers = powers.clone();
            powers[wrong] = Some(Term::new(wrong, !signs[wrong]));
            assert!(!curve.is_zero(&powers, &points), "{name}: {count} powers, sign {wrong}");
        }
        let mut without = powers.clone();
        without[0] = None;
        assert!(!curve.is_zero(&without, &points), "{name}: no power 0");
    }
    assert!(!curve.is_zero(&[], &[]), "{name}: no power");
    // 2 G - 2 G on the way: nothing is known after it.
    let [one, two] = [point(Scalar::ONE), point(Scalar::ONE.plus(Scalar::ONE))];
    let powers = [Some(Term::new(0, false)), Some(Term::new(1, true)), Some(Term::new(0, false))];
    assert!(!curve.is_zero(&powers, &[one, two]), "{name}: opposite points on the way");
}

#[test]
fn a_sum_of_powers_is_zero_or_not() {
    check_weigh(WordCurve::new(), "word");
    check_weigh(LanesCurve::new(Portable([0; 8])), "lanes");
}
