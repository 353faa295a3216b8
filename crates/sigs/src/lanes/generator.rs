//! Odd multiples of the generator, ready to look up.
//!
//! In:     nothing but the curve's constants; libsecp256k1 gives the first few points.
//! Out:    {1, 3, .. 32767} G and the same of 2^135 G, 2 MiB, built at start in a few milliseconds.
//! Fails:  never.
//! Source: docs/signatures.md, "Tables". A table of s rows becomes one of 2s by adding 2s G to every row.

use secp256k1::{PublicKey, SecretKey};

use super::chain::Chain;
use super::digits::GENERATOR_BITS;
use super::field::Field;
use super::point::Affine;
use super::vector::{LANES, Lanes, Mask, Vector};
use crate::number::order::words_from_bytes;

/// Rows of a table: one for each size of an odd digit.
pub const ROWS: usize = 1 << (GENERATOR_BITS - 1);
/// The second table's point is this power of two times G: nine digits of 15 bits.
const HIGH_SHIFT: usize = 135;

/// One table: row i is (2i + 1) times the table's point, four words of x, then four of w = 2y.
pub type Table = [Lanes; ROWS];

/// Both tables.
pub struct Generator {
    /// Of G.
    pub low: Box<Table>,
    /// Of 2^135 G.
    pub high: Box<Table>,
}

impl Generator {
    /// Builds both.
    #[inline(always)]
    pub fn build<W: Vector>(seed: W) -> Generator {
        Generator { low: build_table(seed, 0), high: build_table(seed, HIGH_SHIFT) }
    }
}

#[inline(always)]
fn build_table<W: Vector>(seed: W, shift: usize) -> Box<Table> {
    let first: [[[u64; 4]; 2]; LANES] = std::array::from_fn(|lane| multiple(2 * lane as u64 + 1, shift));
    let words = |part: usize, word: usize| seed.load(&Lanes(first.map(|point| point[part][word])));
    let field = |part| Field::from_words([words(part, 0), words(part, 1), words(part, 2), words(part, 3)]);
    let mut rows = vec![Affine { x: field(0), w: field(1).double() }];
    let mut chain = Chain::new(seed, ROWS / LANES / 2);
    while rows.len() < ROWS / LANES {
        let [x, y] = multiple(2 * (rows.len() * LANES) as u64, shift);
        let step = Affine { x: Field::constant(seed, x), w: Field::constant(seed, y).double() };
        chain.clear();
        for row in &rows {
            chain.push(row.difference_of_x(step));
        }
        chain.invert(|_, _| unreachable!("an even and a smaller odd multiple differ"));
        let known = rows.len();
        rows.extend_from_within(..);
        for number in (0..known).rev() {
            rows[known + number] = rows[number].add_with(step, chain.pop());
        }
    }
    let mut table = vec![Lanes::default(); ROWS];
    for (rows, point) in table.chunks_mut(LANES).zip(rows) {
        let (x, w) = (point.x.to_words(), point.w.to_words());
        for (lane, row) in rows.iter_mut().enumerate() {
            row.0[..4].copy_from_slice(&x[lane]);
            row.0[4..].copy_from_slice(&w[lane]);
        }
    }
    table.into_boxed_slice().try_into().unwrap_or_else(|_| unreachable!("it has ROWS rows"))
}

/// x and y of `times` 2^shift G, by libsecp256k1.
fn multiple(times: u64, shift: usize) -> [[u64; 4]; 2] {
    let mut secret = [0; 32];
    let shifted = u128::from(times) << (shift % 8);
    let end = 32 - shift / 8;
    secret[end - 15..end].copy_from_slice(&shifted.to_be_bytes()[1..]);
    let secret = SecretKey::from_secret_bytes(secret).expect("a small multiple, not zero");
    let bytes = PublicKey::from_secret_key(&secret).serialize_uncompressed();
    [1, 33].map(|at| words_from_bytes(bytes[at..at + 32].try_into().expect("32 bytes")))
}

/// Rows of a table, negated in the lanes of `negative`.
#[inline(always)]
pub fn look_up<W: Vector>(table: &Table, row: W, negative: Mask) -> Affine<W> {
    let [a, b, c, d, e, f, g, h] = row.look_up_rows(table);
    let point = Affine { x: Field::from_words([a, b, c, d]), w: Field::from_words([e, f, g, h]) };
    point.select(negative, point.negate())
}

#[cfg(test)]
pub mod tests {
    use super::super::field::P_WORDS;
    use super::super::stages;
    use super::super::vector::Portable;
    use super::*;
    use crate::number::plain;

    /// Compares every `stride`th row with libsecp256k1's multiples.
    pub fn check(generator: &Generator, stride: usize) {
        for (table, shift) in [(&generator.low, 0), (&generator.high, HIGH_SHIFT)] {
            for (number, row) in table.iter().enumerate().step_by(stride) {
                let [x, y] = multiple(2 * number as u64 + 1, shift);
                let w = plain::add(y, y, P_WORDS);
                assert_eq!(row.0, [x[0], x[1], x[2], x[3], w[0], w[1], w[2], w[3]], "row {number}, 2^{shift} G");
            }
        }
    }

    #[test]
    fn plain_rust_builds_the_table() {
        check(&Generator::build(Portable([0; 8])), 101);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn every_row_built_with_avx512_is_libsecp256k1s() {
        use super::super::vector::Ifma;
        let Some(ifma) = Ifma::detect() else { return println!("skipped: this processor has no AVX-512 IFMA") };
        check(&<Ifma as stages::Machine>::generator(ifma), 1);
    }
}
