//! Rows of a batch as one sum of points.
//!
//! In:     rows with hints.
//! Out:    which of them are fit, and whether all these are good: sum of a_i (u1_i G + u2_i Q_i - R_i) = infinity.
//! Fails:  `false` proves nothing about any row.
//! Source: docs/signatures.md, "Batches".

use super::abscissas::Abscissas;
use super::curve::{Abscissa, Curve};
use super::randomisers::Randomisers;
use super::sum::{RANDOMISER_BITS, Sum, Terms, Windows};
use crate::check::{Check, Hint};
use crate::lanes::field::P_WORDS;
use crate::lanes::row::{Row, RowReader};
use crate::number::order::{Scalar, invert_all, less};

/// The generator: its y is even.
const GENERATOR: Abscissa = Abscissa {
    x: [0x59f2_815b_16f8_1798, 0x029b_fcdb_2dce_28d9, 0x55a0_6295_ce87_0b07, 0x79be_667e_f9dc_bbac],
    odd: false,
};

/// A row fit for the batch.
struct Fit {
    /// Its number among the rows of the call.
    number: u32,
    row: Row,
    /// Whether y(R) is odd, if the row is good and its hint right.
    odd: bool,
}

/// Proves batches; keeps its memory from one to the next.
pub struct Batch<C> {
    curve: C,
    reader: RowReader,
    fit: Vec<Fit>,
    nonces: Abscissas,
    keys: Abscissas,
    inverses: Vec<Scalar>,
    products: Vec<Scalar>,
    terms: Terms,
    /// Keys that came with a y: their place, and the one of y and -y that is even.
    given: Vec<(usize, [u64; 4])>,
    sum: Sum,
}

/// Whether a row may be fit for a batch: one of BIP 340, or one whose hint is known.
pub fn may_fit(check: &Check, hint: Hint) -> bool {
    matches!(check, Check::Schnorr { .. }) || hint != Hint::Unknown
}

impl<C: Curve> Batch<C> {
    /// On this curve's arithmetic.
    pub fn new(curve: C) -> Batch<C> {
        Batch {
            curve,
            reader: RowReader::new(),
            fit: Vec::new(),
            nonces: Abscissas::new(),
            keys: Abscissas::new(),
            inverses: Vec::new(),
            products: Vec::new(),
            terms: Terms::default(),
            given: Vec::new(),
            sum: Sum::default(),
        }
    }

    /// Reads the rows of these numbers and keeps those that are fit; gives how many. Pre: [`may_fit`] says yes of each.
    ///
    /// Not fit: a row whose x(R) may be r + n; what row.rs refuses; a row with the r of an earlier one, because equal or
    /// opposite points would meet.
    pub fn read(&mut self, checks: &[Check], hints: &[Hint], numbers: &[u32]) -> usize {
        let Batch { reader, fit, nonces, .. } = self;
        fit.clear();
        nonces.start(numbers.len());
        for &number in numbers {
            let row = reader.read(&checks[number as usize]);
            let Some(row) = row.filter(|row| !row.wraps()) else { continue };
            if nonces.find_or_insert(&row.r, fit.len(), |place| fit[place].row.r).is_none() {
                fit.push(Fit { number, row, odd: !row.schnorr && hints[number as usize] == Hint::Odd });
            }
        }
        fit.len()
    }

    /// The numbers of the rows that are fit.
    pub fn fit(&self) -> impl Iterator<Item = usize> {
        self.fit.iter().map(|fit| fit.number as usize)
    }

    /// Whether all rows that are fit are good; `false` where one is not, a hint is wrong, or points met on the way.
    pub fn prove(&mut self, randomisers: &Randomisers) -> bool {
        self.prove_by(randomisers, Windows::cheapest)
    }

    /// As [`Batch::prove`], with windows chosen by the numbers of keys and nonces.
    pub fn prove_by(&mut self, randomisers: &Randomisers, windows: impl Fn(usize, usize) -> Windows) -> bool {
        self.make_terms(randomisers);
        let windows = windows(self.terms.keys.len(), self.terms.nonces.len());
        let Batch { curve, terms, given, sum, .. } = self;
        sum.lift(curve, terms)
            && given.iter().all(|(place, y)| *y == half_of(sum.point(*place).w()))
            && sum.add(curve, terms, windows)
    }

    /// The multipliers: for each row a u1 to the generator's, a u2 to its key's, and -a for its nonce.
    fn make_terms(&mut self, randomisers: &Randomisers) {
        let Batch { fit, keys, inverses, products, terms, given, .. } = self;
        inverses.clear();
        inverses.extend(fit.iter().filter(|fit| !fit.row.schnorr).map(|fit| fit.row.s));
        invert_all(inverses, products);
        terms.clear();
        given.clear();
        randomisers.append(fit.len(), &mut terms.nonces);
        keys.start(fit.len() + 1);
        keys.find_or_insert(&GENERATOR.x, 0, |_| GENERATOR.x);
        terms.abscissas.push(GENERATOR);
        terms.keys.push(Scalar::ZERO);
        let mut inverses = inverses.iter();
        for (Fit { row, .. }, numbers) in fit.iter().zip(&terms.nonces) {
            let mut factor = randomiser(*numbers);
            if !row.schnorr {
                factor = factor.times(*inverses.next().expect("an inverse for each row of ECDSA"));
            }
            let [of_generator, of_key] = row.factors.map(|number| number.times(factor));
            // Keys with one x share a term: that of the point with an even y.
            let of_key = if row.odd { of_key.negate() } else { of_key };
            let next = terms.abscissas.len();
            let place = keys.find_or_insert(&row.x, next, |place| terms.abscissas[place].x).unwrap_or_else(|| {
                terms.abscissas.push(Abscissa { x: row.x, odd: false });
                terms.keys.push(Scalar::ZERO);
                next
            });
            terms.keys[place] = terms.keys[place].plus(of_key);
            terms.keys[0] = terms.keys[0].plus(of_generator);
            if let Some(y) = row.y {
                given.push((place, if row.odd { subtract(P_WORDS, y) } else { y }));
            }
        }
        terms.abscissas.extend(fit.iter().map(|fit| Abscissa { x: fit.row.r, odd: fit.odd }));
    }
}

/// a + a' lambda of the two odd numbers 2 K - (2^60 - 1).
fn randomiser(numbers: [u64; 2]) -> Scalar {
    let [one, two] = numbers.map(|number| {
        let odd = 2 * number as i64 - ((1 << RANDOMISER_BITS) - 1);
        let size = Scalar::small(odd.unsigned_abs());
        if odd < 0 { size.negate() } else { size }
    });
    one.plus(two.times(Scalar::LAMBDA))
}

/// a - b. Pre: b <= a.
fn subtract(a: [u64; 4], b: [u64; 4]) -> [u64; 4] {
    let mut borrow = false;
    std::array::from_fn(|k| {
        let (digit, under) = a[k].overflowing_sub(b[k]);
        let (digit, under_again) = digit.overflowing_sub(u64::from(borrow));
        borrow = under | under_again;
        digit
    })
}

/// Half of an element below 2^256, below p.
fn half_of(element: [u64; 4]) -> [u64; 4] {
    let element = if less(&element, &P_WORDS) { element } else { subtract(element, P_WORDS) };
    let [a, b, c, d] = element;
    let halved = [a >> 1 | b << 63, b >> 1 | c << 63, c >> 1 | d << 63, d >> 1];
    // An odd element is p minus an even one, so its half is p minus half of that.
    if a & 1 == 0 { halved } else { subtract(P_WORDS, half_of(subtract(P_WORDS, element))) }
}
