//! The computation of up to 256 rows, stage by stage, eight at a time.
//!
//! In:     groups of rows as rows.rs lays them out; the generator's tables.
//! Out:    for each group the lanes that are accepted. ACCEPT is the only answer: a lane not in the mask is undecided.
//! Fails:  never; lanes with an exception (a sum of equal or opposite points) are undecided, their neighbours are not.
//! Source: docs/signatures.md, "Sums" and "Exceptions".
//!
//! Every stage is generic; [`Machine`] has it compiled for each kind of register, and in the tests in plain Rust too.

use super::chain::Chain;
use super::digits::{GENERATOR_DIGITS, WINDOWS, digit};
use super::field::{Columns, Field, square_roots};
use super::generator::{Generator, look_up};
use super::point::{Affine, Jacobian};
use super::rows::{GROUPS, Group, ORDER};
#[cfg(test)]
use super::vector::Portable;
#[cfg(target_arch = "x86_64")]
use super::vector::{AvxIfma, Ifma, enter_avx_ifma, enter_ifma};
use super::vector::{Lanes, Mask, Vector};
#[cfg(all(test, target_arch = "x86_64"))]
use super::vector::{Twin, enter_twin};

/// Rows of a key's table: Q, 3Q, .. 31Q.
const MULTIPLES: usize = 16;
/// Parts of a table's row: five limbs each of x, beta x, w and -w.
const PARTS: usize = 20;
const X: usize = 0;
const BETA_X: usize = 5;
const W: usize = 10;
const MINUS_W: usize = 15;
/// Groups whose window sums share an inversion: their points take 0.5 MiB.
const BLOCK: usize = 8;
/// Sums of a group that need no other sum: of the two halves in each window, and of the generator's two tables.
const FIRST_SUMS: usize = WINDOWS + GENERATOR_SUMS;
const GENERATOR_SUMS: usize = GENERATOR_DIGITS / 2;
/// Groups whose doublings are interleaved, so that one's multiplications fill the other's waits.
const TOGETHER: usize = 2;
/// Groups whose square roots are interleaved.
const ROOTS_TOGETHER: usize = 4;

/// beta, a cube root of one modulo p: (beta x, y) is lambda times (x, y).
pub const BETA: [u64; 4] = [0xc139_6c28_7195_01ee, 0x9cf0_4975_12f5_8995, 0x6e64_479e_ac34_34e9, 0x7ae9_6a2b_657c_0710];

type KeyTable = [[Lanes; PARTS]; MULTIPLES];

/// Memory of one call.
pub struct Scratch<W> {
    seed: W,
    /// The rows.
    pub groups: Vec<Group>,
    /// Lanes that may still be accepted.
    sound: [Mask; GROUPS],
    /// Lanes whose sum has an odd y, where that was asked for.
    pub odd: [Mask; GROUPS],
    keys: Vec<[Affine<W>; KEY_POINTS]>,
    tables: Vec<KeyTable>,
    chain: Chain<W>,
    pairs: Vec<[Affine<W>; 2]>,
    first_sums: Vec<Affine<W>>,
    results: Vec<Jacobian<W>>,
}

impl<W: Vector> Scratch<W> {
    /// Room for 256 rows.
    pub fn new(seed: W) -> Self {
        let zero = Field::small(seed, 0);
        let point = Affine { x: zero, w: zero };
        Scratch {
            seed,
            groups: vec![Group::default(); GROUPS],
            sound: [0; GROUPS],
            odd: [0; GROUPS],
            keys: vec![[point; KEY_POINTS]; GROUPS],
            tables: vec![[[Lanes::default(); PARTS]; MULTIPLES]; GROUPS],
            chain: Chain::new(seed, BLOCK * FIRST_SUMS),
            pairs: vec![[point; 2]; BLOCK * FIRST_SUMS],
            first_sums: vec![point; BLOCK * FIRST_SUMS],
            results: vec![Jacobian::from_affine(point); GROUPS],
        }
    }
}

/// The stages, compiled for one kind of vector.
pub trait Machine: Vector {
    /// The generator's tables.
    fn generator(seed: Self) -> Generator;
    /// Keys to points: `keys[..][0]`.
    fn decompress(seed: Self, scratch: &mut Scratch<Self>, count: usize);
    /// Points to tables of their odd multiples.
    fn multiply_keys(seed: Self, scratch: &mut Scratch<Self>, count: usize);
    /// The points each window adds, for the groups of one block.
    fn sum_windows(seed: Self, scratch: &mut Scratch<Self>, generator: &Generator, groups: [usize; 2]);
    /// The sum over all windows, for the groups of one block.
    fn multiply(seed: Self, scratch: &mut Scratch<Self>, groups: [usize; 2]);
    /// Compares the sums with the rows' r.
    fn decide(seed: Self, scratch: &mut Scratch<Self>, count: usize, learn: bool);

    /// All of it for the first `count` groups: the lanes accepted. Where they are to `learn`, `scratch.odd` says of each
    /// of them whether y(u1 G + u2 Q) is odd.
    fn accept(scratch: &mut Scratch<Self>, generator: &Generator, count: usize, learn: bool) -> [Mask; GROUPS] {
        assert!(count <= GROUPS, "no more groups than there is memory for");
        let seed = scratch.seed;
        Self::decompress(seed, scratch, count);
        Self::multiply_keys(seed, scratch, count);
        for start in (0..count).step_by(BLOCK) {
            let groups = [start, (start + BLOCK).min(count)];
            Self::sum_windows(seed, scratch, generator, groups);
            Self::multiply(seed, scratch, groups);
        }
        Self::decide(seed, scratch, count, learn);
        scratch.sound
    }
}

/// Names the functions that are a machine's stages.
macro_rules! machine {
    ($type:ty: $generator:path, $decompress:path, $keys:path, $sums:path, $multiply:path, $decide:path) => {
        impl Machine for $type {
            fn generator(seed: Self) -> Generator {
                $generator(seed)
            }
            fn decompress(seed: Self, scratch: &mut Scratch<Self>, count: usize) {
                $decompress(seed, scratch, count);
            }
            fn multiply_keys(seed: Self, scratch: &mut Scratch<Self>, count: usize) {
                $keys(seed, scratch, count);
            }
            fn sum_windows(seed: Self, scratch: &mut Scratch<Self>, generator: &Generator, groups: [usize; 2]) {
                $sums(seed, scratch, generator, groups);
            }
            fn multiply(seed: Self, scratch: &mut Scratch<Self>, groups: [usize; 2]) {
                $multiply(seed, scratch, groups);
            }
            fn decide(seed: Self, scratch: &mut Scratch<Self>, count: usize, learn: bool) {
                $decide(seed, scratch, count, learn);
            }
        }
    };
}

#[cfg(test)]
machine!(Portable: Generator::build, decompress, multiply_keys, sum_windows, multiply, decide);

/// The stages compiled for a vector of the processor, in a module of their own.
#[cfg(target_arch = "x86_64")]
macro_rules! compiled_machine {
    ($type:ident: $enter:ident, $module:ident) => {
        mod $module {
            use super::*;

            $enter! {
                fn generator() -> Generator = Generator::build;
                fn decompress(scratch: &mut Scratch<$type>, count: usize) = super::decompress;
                fn multiply_keys(scratch: &mut Scratch<$type>, count: usize) = super::multiply_keys;
                fn sum_windows(scratch: &mut Scratch<$type>, generator: &Generator, groups: [usize; 2]) =
                    super::sum_windows;
                fn multiply(scratch: &mut Scratch<$type>, groups: [usize; 2]) = super::multiply;
                fn decide(scratch: &mut Scratch<$type>, count: usize, learn: bool) = super::decide;
            }
            machine!($type: generator, decompress, multiply_keys, sum_windows, multiply, decide);
        }
    };
}

#[cfg(target_arch = "x86_64")]
compiled_machine!(Ifma: enter_ifma, one_register);
#[cfg(target_arch = "x86_64")]
compiled_machine!(AvxIfma: enter_avx_ifma, two_registers);
#[cfg(all(test, target_arch = "x86_64"))]
compiled_machine!(Twin: enter_twin, twin);

#[inline(always)]
fn load<V: Vector, const N: usize>(seed: V, lanes: &[Lanes; N]) -> [V; N] {
    let mut out = [seed; N];
    for (vector, lanes) in out.iter_mut().zip(lanes) {
        *vector = seed.load(lanes);
    }
    out
}

/// y = sqrt(x^3 + 7), of the parity asked for; a key that came with a y must have that one.
#[inline(always)]
fn decompress<V: Vector>(seed: V, scratch: &mut Scratch<V>, count: usize) {
    let seven = Columns::start(Field::small(seed, 7).sum());
    for start in (0..count).step_by(ROOTS_TOGETHER) {
        // Past `count` stand the rows of an earlier call; their lanes are computed and not looked at.
        let mut x = [Field::small(seed, 0); ROOTS_TOGETHER];
        let mut squares = [x[0].factor(); ROOTS_TOGETHER];
        for k in 0..ROOTS_TOGETHER {
            x[k] = Field::from_words(load(seed, &scratch.groups[start + k].x));
            squares[k] = seven.plus_product(x[k].factor(), x[k].factor().squared()).reduce::<1>();
        }
        let roots = square_roots(squares);
        for k in 0..ROOTS_TOGETHER {
            let group = &scratch.groups[start + k];
            let minus_square = squares[k].mask().sum().from_multiple::<2>();
            let on_curve = Columns::square(roots[k].factor()).plus(minus_square).reduce::<1>().mask().is_zero();
            let flip = roots[k].is_odd() ^ group.odd;
            let y = roots[k].select(flip, roots[k].negate());
            let given = Field::from_words(load(seed, &group.y));
            let as_given = (given.sum() + y.sum().from_multiple::<2>()).tighten().is_zero();
            scratch.sound[start + k] = group.usable & on_curve & (as_given | !group.has_y);
            scratch.keys[start + k][0] = Affine { x: x[k], w: y.double() };
        }
    }
}

/// Points of a key held while its table is built: 1, 3, .. 31 times Q, then 2, 4, 8, 16 times.
const KEY_POINTS: usize = MULTIPLES + 4;

/// Where `multiple` times Q is held.
const fn place(multiple: usize) -> usize {
    if multiple % 2 == 1 { multiple / 2 } else { MULTIPLES - 1 + multiple.trailing_zeros() as usize }
}

/// Rounds of sums (a, b), each giving a + b times Q from a and b times; sums of one round need none of the same.
const ROUNDS: [&[(usize, usize)]; 5] = [
    &[(1, 1)],
    &[(1, 2), (2, 2)],
    &[(1, 4), (3, 4), (4, 4)],
    &[(1, 8), (3, 8), (5, 8), (7, 8), (8, 8)],
    &[(1, 16), (3, 16), (5, 16), (7, 16), (9, 16), (11, 16), (13, 16), (15, 16)],
];

/// All odd multiples of every key in affine form: five inversions for the whole call.
///
/// No sum here meets an exception for a key on the curve: a < b < n. A key off the curve is on another curve, whose
/// points may have a small order; its lane is not sound anyway.
#[inline(always)]
fn multiply_keys<V: Vector>(seed: V, scratch: &mut Scratch<V>, count: usize) {
    let Scratch { keys, chain, sound, tables, .. } = scratch;
    for round in ROUNDS {
        chain.clear();
        for points in &keys[..count] {
            for &(a, b) in round {
                let (a, b) = (&points[place(a)], &points[place(b)]);
                chain.push(if std::ptr::eq(a, b) { a.w.factor() } else { a.difference_of_x(*b) });
            }
        }
        chain.invert(|number, zeros| sound[number / round.len()] &= !zeros);
        for points in keys[..count].iter_mut().rev() {
            for &(a, b) in round.iter().rev() {
                let inverse = chain.pop();
                let (first, second) = (points[place(a)], points[place(b)]);
                let sum = if a == b { first.double_with(inverse) } else { first.add_with(second, inverse) };
                points[place(a + b)] = sum;
            }
        }
    }
    let beta = Field::constant(seed, BETA).factor();
    for (table, points) in tables.iter_mut().zip(&keys[..count]) {
        for (row, point) in table.iter_mut().zip(&points[..MULTIPLES]) {
            let beta_x = point.x.factor().times(beta).mask();
            for (part, field) in [(X, point.x), (BETA_X, beta_x), (W, point.w), (MINUS_W, point.w.negate())] {
                for k in 0..5 {
                    row[part + k] = field.0[k].store();
                }
            }
        }
    }
}

/// d times Q, or lambda times that, for a digit d of every lane: its size's row, and where it is negative.
#[inline(always)]
fn multiple_of_key<V: Vector>(table: &KeyTable, x_part: usize, (row, negative): (V, Mask)) -> Affine<V> {
    let mut point = Affine { x: Field([row; 5]), w: Field([row; 5]) };
    for k in 0..5 {
        point.x.0[k] = row.look_up(table, [x_part + k; 2], 0);
        point.w.0[k] = row.look_up(table, [W + k, MINUS_W + k], negative);
    }
    point
}

/// The two halves' points of each window become one; in every third window the generator's two, and all four.
///
/// `first_sums` gets, for each group of the block, its 26 windows.
#[inline(always)]
fn sum_windows<V: Vector>(seed: V, scratch: &mut Scratch<V>, generator: &Generator, [start, end]: [usize; 2]) {
    let Scratch { groups, chain, sound, tables, pairs, first_sums, .. } = scratch;
    chain.clear();
    for (block, group) in groups[start..end].iter().enumerate() {
        let (one, two) = (load(seed, &group.halves[0]), load(seed, &group.halves[1]));
        let third = load(seed, &group.generator);
        for index in 0..GENERATOR_DIGITS {
            let table = if index < GENERATOR_SUMS { &generator.low } else { &generator.high };
            digit::<V, 15, 5>(&third, index).0.prefetch_rows(table);
        }
        let table = &tables[start + block];
        let pairs = &mut pairs[block * FIRST_SUMS..][..FIRST_SUMS];
        for (index, pair) in pairs[..WINDOWS].iter_mut().enumerate() {
            let a = multiple_of_key(table, X, digit::<V, 5, 3>(&one, index));
            let b = multiple_of_key(table, BETA_X, digit::<V, 5, 3>(&two, index));
            chain.push(a.difference_of_x(b));
            *pair = [a, b];
        }
        for (index, pair) in pairs[WINDOWS..].iter_mut().enumerate() {
            let (row, negative) = digit::<V, 15, 5>(&third, index);
            let a = look_up(&generator.low, row, negative ^ group.generator_negative);
            let (row, negative) = digit::<V, 15, 5>(&third, GENERATOR_SUMS + index);
            let b = look_up(&generator.high, row, negative ^ group.generator_negative);
            chain.push(a.difference_of_x(b));
            *pair = [a, b];
        }
    }
    chain.invert(|number, zeros| sound[start + number / FIRST_SUMS] &= !zeros);
    let used = (end - start) * FIRST_SUMS;
    for ([a, b], sum) in pairs[..used].iter().zip(&mut first_sums[..used]).rev() {
        *sum = a.add_with(*b, chain.pop());
    }
    chain.clear();
    for sums in first_sums[..used].chunks(FIRST_SUMS) {
        for index in 0..GENERATOR_SUMS {
            chain.push(sums[3 * index].difference_of_x(sums[WINDOWS + index]));
        }
    }
    chain.invert(|number, zeros| sound[start + number / GENERATOR_SUMS] &= !zeros);
    for sums in first_sums[..used].chunks_mut(FIRST_SUMS).rev() {
        for index in (0..GENERATOR_SUMS).rev() {
            sums[3 * index] = sums[3 * index].add_with(sums[WINDOWS + index], chain.pop());
        }
    }
}

/// 125 doublings and 25 additions, the highest window first; two groups in turns.
///
/// Each step gives the negative: five doublings and one addition leave the sign as it was, so it starts and ends negative.
#[inline(always)]
fn multiply<V: Vector>(_: V, scratch: &mut Scratch<V>, [start, end]: [usize; 2]) {
    let Scratch { first_sums, results, .. } = scratch;
    for first in (start..end).step_by(TOGETHER) {
        // Past the last group stand sums of an earlier one; results past `count` are not looked at.
        let sums = &first_sums[(first - start) * FIRST_SUMS..][..TOGETHER * FIRST_SUMS];
        let (one, two) = sums.split_at(FIRST_SUMS);
        let mut a = Jacobian::from_affine(one[WINDOWS - 1].negate());
        let mut b = Jacobian::from_affine(two[WINDOWS - 1].negate());
        for window in (0..WINDOWS - 1).rev() {
            for _ in 0..super::digits::WINDOW_BITS {
                a.double_negated();
                b.double_negated();
            }
            a.add_negated(one[window]);
            b.add_negated(two[window]);
        }
        [results[first], results[first + 1]] = [a, b];
    }
}

/// Which lanes' sums say that the signature is good.
///
/// x(R) = r is tested as r Z^2 = X; Z is not zero, so this is exact. Only BIP 340 and hints ask for y, and so for 1/Z.
#[inline(always)]
fn decide<V: Vector>(seed: V, scratch: &mut Scratch<V>, count: usize, learn: bool) {
    let Scratch { groups, chain, sound, odd, results, .. } = scratch;
    let order = Field::constant(seed, ORDER);
    for ((group, result), sound) in groups[..count].iter().zip(results.iter()).zip(sound.iter_mut()) {
        let r = Field::from_words(load(seed, &group.r));
        let zz = result.z.squared();
        let minus_x = Columns::start(result.x.sum().from_multiple::<2>());
        let mut equal = minus_x.plus_product(r.factor(), zz).reduce::<1>().mask().is_zero();
        if group.wraps != 0 {
            let raised = (r.sum() + order.sum()).tighten();
            equal |= minus_x.plus_product(raised.factor(), zz).reduce::<1>().mask().is_zero() & group.wraps;
        }
        *sound &= equal & !result.z.mask().is_zero();
    }
    if !learn && groups[..count].iter().all(|group| group.schnorr == 0) {
        return;
    }
    chain.clear();
    for result in &results[..count] {
        chain.push(result.z);
    }
    chain.invert(|number, zeros| sound[number] &= !zeros);
    for number in (0..count).rev() {
        let (result, inverse) = (&results[number], chain.pop());
        let cube = inverse.times(inverse.squared());
        // The result is the negative of R: its y is even where that of R is odd, for neither is zero.
        odd[number] = !result.w.times(cube).mask().halve().is_odd();
        sound[number] &= !(odd[number] & groups[number].schnorr);
    }
}
