//! Batches against libsecp256k1.
//!
//! In:     rows signed by libsecp256k1, their hints computed by libsecp256k1; sums of points computed by it.
//! Out:    nothing.
//! Fails:  where a batch of good rows is refused without an exception, or one with a bad row accepted.
//! Source: docs/signatures.md, "Batches".

use secp256k1::{Keypair, Message, PublicKey, SecretKey, ecdsa, schnorr};
use stdx::random::Random;

use super::curve::{Abscissa, Curve, Term};
use super::lanes::LanesCurve;
use super::randomisers::Randomisers;
use super::rows::Batch;
use super::sum::{RANDOMISER_BITS, Sum, Terms, WIDTHS, Windows};
use super::word::WordCurve;
use crate::check::{Check, Hint, PublicKeyBytes};
use crate::lanes::vector::Portable;
#[cfg(target_arch = "x86_64")]
use crate::lanes::vector::{Ifma, Twin};
use crate::number::order::{Scalar, words_from_bytes};
use crate::self_test::right_hint;
use crate::verify_one;

fn portable() -> LanesCurve<Portable> {
    LanesCurve::new(Portable([0; 8]))
}

#[cfg(target_arch = "x86_64")]
fn avx512() -> Option<LanesCurve<Ifma>> {
    Ifma::detect().map(LanesCurve::new)
}

/// The numbers modulo n as libsecp256k1 takes them.
fn tweak(scalar: Scalar) -> secp256k1::Scalar {
    secp256k1::Scalar::from_be_bytes(scalar.to_bytes()).unwrap()
}

/// Secrets above n come up once in 2^128.
fn keypair(random: &mut Random) -> Keypair {
    Keypair::from_secret_key(&SecretKey::from_secret_bytes(random.bytes()).unwrap())
}

/// A good row of either kind.
fn signed(random: &mut Random, is_schnorr: bool) -> Check {
    let (pair, message) = (keypair(random), random.bytes());
    if is_schnorr {
        let signature = schnorr::sign_no_aux_rand(&message, &pair).to_byte_array();
        return Check::Schnorr { key: pair.x_only_public_key().0.to_byte_array(), signature, message };
    }
    let mut signature = ecdsa::sign(Message::from_digest(message), &pair.secret_key()).serialize_compact();
    if random.chance(1, 2) {
        let s = Scalar::from_bytes(signature[32..].try_into().unwrap()).unwrap();
        signature[32..].copy_from_slice(&s.negate().to_bytes());
    }
    let key = match random.below(4) {
        0 => PublicKeyBytes::new(&pair.public_key().serialize_uncompressed()),
        _ => PublicKeyBytes::new(&pair.public_key().serialize()),
    };
    Check::Ecdsa { key: key.unwrap(), signature, message }
}

/// Good rows of both kinds and their hints.
fn rows(random: &mut Random, count: usize) -> (Vec<Check>, Vec<Hint>) {
    let checks: Vec<Check> = (0..count).map(|row| signed(random, row % 2 == 0)).collect();
    let hints = checks.iter().map(right_hint).collect();
    (checks, hints)
}

/// s = (m + r d) / k.
fn ecdsa_by(key: Scalar, nonce: Scalar, message: [u8; 32]) -> Check {
    let point = |secret: Scalar| {
        PublicKey::from_secret_key(&SecretKey::from_secret_bytes(secret.to_bytes()).unwrap()).serialize()
    };
    let r: [u8; 32] = point(nonce)[1..].try_into().unwrap();
    let sum = Scalar::from_bytes_reduced(&message).plus(Scalar::from_bytes_reduced(&r).times(key));
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(&r);
    signature[32..].copy_from_slice(&sum.times(nonce.invert()).to_bytes());
    Check::Ecdsa { key: PublicKeyBytes::new(&point(key)).unwrap(), signature, message }
}

/// How many rows are fit, and whether the batch of them is proved.
fn prove<C: Curve>(batch: &mut Batch<C>, checks: &[Check], hints: &[Hint]) -> (usize, bool) {
    let numbers: Vec<u32> = (0..checks.len() as u32).collect();
    let count = batch.read(checks, hints, &numbers);
    (count, batch.prove(&Randomisers::draw().unwrap()))
}

#[test]
fn small_batches_of_good_rows_are_proved() {
    let mut random = Random::new(1);
    let mut batch = Batch::new(portable());
    for count in 1..20 {
        let (checks, hints) = rows(&mut random, count);
        assert_eq!(prove(&mut batch, &checks, &hints), (count, true));
    }
}

#[test]
fn equal_keys_share_a_term_and_equal_nonces_do_not_meet() {
    let mut random = Random::new(2);
    let mut batch = Batch::new(portable());
    let mut scalar = || Scalar::from_bytes_reduced(&random.bytes());
    for _ in 0..10 {
        let (d, k) = (scalar(), scalar());
        let mut rows = vec![ecdsa_by(d, scalar(), [1; 32]), ecdsa_by(d, scalar(), [2; 32])];
        rows.push(ecdsa_by(d.negate(), scalar(), [3; 32]));
        rows.push(ecdsa_by(scalar(), k, [4; 32]));
        let check = |batch: &mut Batch<_>, rows: &[Check], fit: usize| {
            let hints: Vec<Hint> = rows.iter().map(right_hint).collect();
            assert_eq!(prove(batch, rows, &hints), (fit, true));
        };
        check(&mut batch, &rows, 4);
        // The same R, its negative, the same row: the first stays.
        let first = rows[3];
        for same_x in [ecdsa_by(scalar(), k, [5; 32]), ecdsa_by(scalar(), k.negate(), [6; 32]), first] {
            rows.push(same_x);
            check(&mut batch, &rows, 4);
        }
        // A key that is the generator, and one that is its negative.
        rows.truncate(4);
        rows.push(ecdsa_by(Scalar::ONE, scalar(), [7; 32]));
        rows.push(ecdsa_by(Scalar::ONE.negate(), scalar(), [8; 32]));
        check(&mut batch, &rows, 6);
    }
}

/// Spoils a row, or two, in one of so many ways.
const WAYS: u64 = 12;

fn spoil(random: &mut Random, way: u64, checks: &mut [Check], hints: &mut [Hint]) {
    let (row, other) = (random.below(checks.len() as u64) as usize, random.below(checks.len() as u64) as usize);
    let (bit, source) = (random.below(256) as usize, checks[other]);
    let flip = |bytes: &mut [u8]| bytes[bit / 8] ^= 1 << (bit % 8);
    let (Check::Ecdsa { signature: theirs, message: their_message, .. }
    | Check::Schnorr { signature: theirs, message: their_message, .. }) = source;
    let key_of = |check: &Check| match check {
        Check::Ecdsa { key, .. } => key.as_slice().to_vec(),
        Check::Schnorr { key, .. } => [&[2], &key[..]].concat(),
    };
    let set_key = |check: &mut Check, bytes: &[u8]| match check {
        Check::Ecdsa { key, .. } => *key = PublicKeyBytes::new(bytes).unwrap_or(*key),
        Check::Schnorr { key, .. } => key.copy_from_slice(&bytes[1..33]),
    };
    match (way, &mut checks[row]) {
        (0, Check::Ecdsa { message, .. } | Check::Schnorr { message, .. }) => flip(message),
        (1, Check::Ecdsa { signature, .. } | Check::Schnorr { signature, .. }) => flip(&mut signature[..32]),
        (2, Check::Ecdsa { signature, .. } | Check::Schnorr { signature, .. }) => flip(&mut signature[32..]),
        (3, Check::Ecdsa { message, .. } | Check::Schnorr { message, .. }) => *message = their_message,
        (4, Check::Ecdsa { signature, .. } | Check::Schnorr { signature, .. }) => {
            signature[..32].copy_from_slice(&theirs[..32]);
        }
        (5, Check::Ecdsa { signature, .. } | Check::Schnorr { signature, .. }) => *signature = theirs,
        (6, check) => {
            let mut key = key_of(check);
            flip(&mut key[1..33]);
            set_key(check, &key);
        }
        (7, check) => set_key(check, &key_of(&source)),
        (8, check) => {
            // The point's negative: another first byte, or the other y.
            let mut key = key_of(check);
            key[0] ^= u8::from(key.len() == 33);
            if key.len() == 65 {
                let negative = PublicKey::from_slice(&key).unwrap().negate();
                key = negative.serialize_uncompressed().to_vec();
            }
            set_key(check, &key);
        }
        (9, _) => {
            hints[row] = match hints[row] {
                Hint::Odd => Hint::Even,
                Hint::Even => Hint::Odd,
                Hint::Unknown => Hint::Unknown,
            };
        }
        (10, _) => {
            // Errors that cancel in a plain sum: u1 of one grows by as much as that of the other shrinks.
            let d = Scalar::from_bytes_reduced(&random.bytes());
            shift(&mut checks[row], d);
            shift(&mut checks[other], d.negate());
        }
        _ => {
            let (mine, theirs) = (key_of(&checks[row]), key_of(&source));
            set_key(&mut checks[row], &theirs);
            set_key(&mut checks[other], &mine);
        }
    }
}

/// Adds `d` to u1 of a row.
fn shift(check: &mut Check, d: Scalar) {
    match check {
        Check::Ecdsa { signature, message, .. } => {
            let s = Scalar::from_bytes_reduced(signature.last_chunk().unwrap());
            *message = Scalar::from_bytes_reduced(message).plus(d.times(s)).to_bytes();
        }
        Check::Schnorr { signature, .. } => {
            let s: &mut [u8; 32] = signature.last_chunk_mut().unwrap();
            *s = Scalar::from_bytes_reduced(s).plus(d).to_bytes();
        }
    }
}

/// Batches of good rows, each spoilt in every way; `most` rows a batch.
fn spoilt_batches_are_refused<C: Curve>(curve: C, batches: usize, most: u64) {
    let mut random = Random::new(3);
    let mut batch = Batch::new(curve);
    let (pool, pool_hints) = rows(&mut random, 4 * most as usize);
    let (mut refused, mut proved) = (0, 0);
    for _ in 0..batches {
        let count = 1 + random.below(most) as usize;
        let start = random.below((pool.len() - count) as u64) as usize;
        let (good, good_hints) = (&pool[start..start + count], &pool_hints[start..start + count]);
        assert_eq!(prove(&mut batch, good, good_hints), (count, true));
        for way in 0..WAYS {
            let (mut checks, mut hints) = (good.to_vec(), good_hints.to_vec());
            spoil(&mut random, way, &mut checks, &mut hints);
            let numbers: Vec<u32> = (0..count as u32).collect();
            batch.read(&checks, &hints, &numbers);
            let is_good = |row: usize| {
                let unchanged = checks[row] == good[row] && hints[row] == good_hints[row];
                unchanged || verify_one(&checks[row]) && hints[row] == right_hint(&checks[row])
            };
            let good = batch.fit().all(is_good);
            // Whatever was changed makes no two points meet, so this is exact.
            assert_eq!(batch.prove(&Randomisers::draw().unwrap()), good, "way {way}, {count} rows");
            (refused, proved) = (refused + u32::from(!good), proved + u32::from(good));
        }
    }
    assert!(refused > 6 * batches as u32 && proved > 0, "{refused} refused, {proved} proved");
}

#[test]
fn plain_rust_refuses_spoilt_batches() {
    spoilt_batches_are_refused(portable(), 3, 10);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn avx512_refuses_spoilt_batches() {
    let Some(curve) = avx512() else { return println!("skipped: this processor has no AVX-512 IFMA") };
    spoilt_batches_are_refused(curve, 60, 100);
}

#[test]
fn one_number_at_a_time_refuses_spoilt_batches() {
    spoilt_batches_are_refused(WordCurve::new(), 15, 100);
}

/// A point as libsecp256k1 has it, and as the sum takes it.
fn abscissa(point: &PublicKey) -> Abscissa {
    let bytes = point.serialize();
    Abscissa { x: words_from_bytes(bytes[1..].try_into().unwrap()), odd: bytes[0] == 3 }
}

/// Sums whose value libsecp256k1 computes; a last key makes them infinity.
fn sums_are_libsecp256k1s<C: Curve>(curve: &mut C, rounds: usize, widths: impl Iterator<Item = usize> + Clone) {
    let mut random = Random::new(4);
    let mut sum = Sum::default();
    for round in 0..rounds {
        let mut terms = Terms::default();
        let (keys, nonces) = (1 + random.below(4) as usize, random.below(4) as usize);
        let points: Vec<PublicKey> = (0..keys + nonces).map(|_| keypair(&mut random).public_key()).collect();
        terms.keys = (0..keys).map(|_| Scalar::from_bytes_reduced(&random.bytes())).collect();
        let short = |random: &mut Random| random.below(1 << RANDOMISER_BITS);
        terms.nonces = (0..nonces).map(|_| [short(&mut random), short(&mut random)]).collect();
        let of_nonces = terms.nonces.iter().map(|numbers| {
            let [one, two] = numbers.map(|number| {
                let least = Scalar::small((1 << RANDOMISER_BITS) - 1).negate();
                Scalar::small(number).plus(Scalar::small(number)).plus(least)
            });
            one.plus(two.times(Scalar::LAMBDA)).negate()
        });
        let multipliers: Vec<Scalar> = terms.keys.iter().copied().chain(of_nonces).collect();
        let products: Vec<PublicKey> =
            points.iter().zip(multipliers).map(|(point, by)| point.mul_tweak(&tweak(by)).unwrap()).collect();
        let total = PublicKey::combine_keys(&products.iter().collect::<Vec<_>>()).unwrap();
        terms.abscissas = points.iter().map(abscissa).collect();
        for (last, by, want) in [(total.negate(), 1, true), (total, 1, false), (total.negate(), 2, false)] {
            let mut terms =
                Terms { abscissas: terms.abscissas.clone(), keys: terms.keys.clone(), nonces: terms.nonces.clone() };
            terms.abscissas.insert(keys, abscissa(&last));
            terms.keys.push(Scalar::small(by));
            for width in widths.clone() {
                assert!(sum.lift(curve, &terms));
                assert_eq!(sum.add(curve, &terms, Windows::of(width)), want, "round {round}, width {width}");
            }
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn sums_of_the_twin_are_libsecp256k1s() {
    let Some(seed) = Twin::detect() else { return println!("skipped: this processor has no AVX-512 IFMA") };
    sums_are_libsecp256k1s(&mut LanesCurve::new(seed), 5, [4, 8, 11].into_iter());
}

#[test]
fn sums_of_plain_rust_are_libsecp256k1s() {
    sums_are_libsecp256k1s(&mut portable(), 2, [3, 6, 10].into_iter());
}

#[test]
fn sums_of_one_number_at_a_time_are_libsecp256k1s() {
    sums_are_libsecp256k1s(&mut WordCurve::new(), 8, WIDTHS);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn sums_of_avx512_are_libsecp256k1s() {
    let Some(mut curve) = avx512() else { return println!("skipped: this processor has no AVX-512 IFMA") };
    sums_are_libsecp256k1s(&mut curve, 30, WIDTHS);
}

#[test]
fn points_that_meet_and_coordinates_without_a_point_are_seen() {
    let mut curve = portable();
    let mut random = Random::new(5);
    let all: Vec<Abscissa> = (0..40).map(|_| abscissa(&keypair(&mut random).public_key())).collect();
    let mut points = Vec::new();
    assert!(curve.lift(&all, &mut points));
    assert_eq!(points.len(), all.len());
    let term = |place, negative| Term::new(place, negative);
    for count in [1, 7, 8, 9, 20] {
        let mut pairs: Vec<[Term; 2]> = (0..count).map(|k| [term(k, k % 3 == 0), term(39 - k, k % 2 == 0)]).collect();
        let known = points.len();
        assert!(curve.add_pairs(&pairs, &mut points));
        assert_eq!(points.len(), known + count);
        for negative in [false, true] {
            pairs[count / 2] = [term(3, false), term(3, negative)];
            assert!(!curve.add_pairs(&pairs, &mut points), "{count} pairs");
            points.truncate(known);
        }
    }
    // x = 5 has no point.
    for place in [0, 20, 39] {
        let mut others = all.clone();
        others[place].x = [5, 0, 0, 0];
        assert!(!curve.lift(&others, &mut points));
    }
}
