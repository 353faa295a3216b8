//! The field of secp256k1 in every lane: integers modulo p = 2^256 - 2^32 - 977.
//!
//! In:     elements as five limbs of 52 bits, one vector a limb.
//! Out:    sums, products, comparisons; the bounds of each limb are written at each function.
//! Fails:  never while the bounds hold; bounds.rs proves them by running this very code on intervals.
//! Source: docs/signatures.md, "Field". IFMA multiplies the low 52 bits of its operands, whatever stands above them.
//!
//! Four types keep the bounds apart:
//!
//! | type       | limbs 0..=3      | limb 4            | may be                                  |
//! |------------|------------------|-------------------|-----------------------------------------|
//! | [`Field`]  | < 2^52           | < 2^48 + 2^9      | anything                                |
//! | [`Factor`] | any; low 52 bits | < 2^51            | multiplied                              |
//! | [`Sum`]    | < 2^60           | < 2^60            | added, carried into one of the above    |
//! | [`Columns`]| ten of < 2^62    |                   | summed up, then reduced                 |

use super::vector::{Mask, Vector, Word};

/// p = 2^256 - FOLD_256.
const FOLD_256: u64 = 0x1_0000_03d1;
/// 2^260 = FOLD_260 modulo p: what limb 5 counts for in limb 0.
const FOLD_260: u64 = FOLD_256 << 4;
const LOW_52: u64 = (1 << 52) - 1;
const LOW_48: u64 = (1 << 48) - 1;
/// p in limbs.
pub const P: [u64; 5] = [LOW_52 - (FOLD_256 - 1), LOW_52, LOW_52, LOW_52, LOW_48];
/// p in words of 64 bits, lowest first.
pub const P_WORDS: [u64; 4] = [0xffff_fffe_ffff_fc2f, u64::MAX, u64::MAX, u64::MAX];
/// 1/2 modulo p.
const HALF: [u64; 4] = [0xffff_ffff_7fff_fe18, u64::MAX, u64::MAX, 0x7fff_ffff_ffff_ffff];

/// Adds products of limbs i and j to their columns, written out: the compiler leaves a loop of 25 rounds a loop.
macro_rules! add_products {
    ($columns:expr, $a:expr, $b:expr; $($i:literal $j:literal),*) => {$(
        $columns[$i + $j] = $columns[$i + $j].add_low($a[$i], $b[$j]);
        $columns[$i + $j + 1] = $columns[$i + $j + 1].add_high($a[$i], $b[$j]);
    )*};
}

/// An element with tight limbs; its value is below 2^256 + 2^217, so below 2p, not always below p.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Field<W>(pub [W; 5]);

/// An element fit for multiplication only: limbs 0..=3 may carry garbage above their 52 bits.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Factor<W>(pub [W; 5]);

/// Limbs added and subtracted, carries not yet moved.
#[derive(Clone, Copy)]
pub struct Sum<W>(pub [W; 5]);

/// A sum of products: column k counts 2^(52k).
#[derive(Clone, Copy)]
pub struct Columns<W>(pub [W; 10]);

impl<W: Word> Field<W> {
    /// `small` in every lane. Post: tight. Pre: below 2^52.
    #[inline(always)]
    pub fn small(seed: W, small: u64) -> Self {
        Field([seed.all(small), seed.all(0), seed.all(0), seed.all(0), seed.all(0)])
    }

    /// The value of four words of 64 bits, lowest first, in limbs. Pre: none. Post: tight, limb 4 < 2^48.
    #[inline(always)]
    pub fn from_words(words: [W; 4]) -> Self {
        let [a, b, c, d] = words;
        let low = a.all(LOW_52);
        Field([
            a & low,
            (a.right::<52>() | b.left::<12>()) & low,
            (b.right::<40>() | c.left::<24>()) & low,
            (c.right::<28>() | d.left::<36>()) & low,
            d.right::<16>(),
        ])
    }

    /// The element in four words of 64 bits, lowest first, below 2^256 but not always below p.
    #[inline(always)]
    pub fn to_vectors(self) -> [W; 4] {
        // A reduction clears what stands above 2^256 before it moves the last carries: hardly ever one gets there again.
        let folded = if self.0[4].has(!LOW_48) == 0 { self } else { self.sum().tighten() };
        let [a, b, c, d, e] = folded.0;
        [
            a | b.left::<52>(),
            b.right::<12>() | c.left::<40>(),
            c.right::<24>() | d.left::<28>(),
            d.right::<36>() | e.left::<16>(),
        ]
    }

    /// One constant in every lane.
    #[inline(always)]
    pub fn constant(seed: W, words: [u64; 4]) -> Self {
        Field::from_words([seed.all(words[0]), seed.all(words[1]), seed.all(words[2]), seed.all(words[3])])
    }

    /// The same element, to be multiplied.
    #[inline(always)]
    pub fn factor(self) -> Factor<W> {
        Factor(self.0)
    }

    /// The same element, to be added. Post: limbs as tight.
    #[inline(always)]
    pub fn sum(self) -> Sum<W> {
        Sum(self.0)
    }

    /// -self. Post: tight.
    #[inline(always)]
    pub fn negate(self) -> Self {
        self.sum().from_multiple::<2>().tighten()
    }

    /// Twice the element. Post: tight.
    #[inline(always)]
    pub fn double(self) -> Self {
        (self.sum() + self.sum()).tighten()
    }

    /// `other` in the lanes of `mask`.
    #[inline(always)]
    pub fn select(self, mask: Mask, other: Self) -> Self {
        Field(each(|k| self.0[k].select(mask, other.0[k])))
    }

    /// Where the element is zero modulo p.
    ///
    /// One more fold brings the value below 2^256 < 2p (if limb 4 was at or above 2^48, what is left is below 2^218),
    /// so zero shows as 0 or as p.
    #[inline(always)]
    pub fn is_zero(self) -> Mask {
        let folded = self.sum().tighten();
        let zero = folded.0[0].all(0);
        let (mut zeros, mut ps) = (0xff, 0xff);
        for k in 0..5 {
            zeros &= folded.0[k].equals(zero);
            ps &= folded.0[k].equals(zero.all(P[k]));
        }
        zeros | ps
    }

    /// Where the canonical value, the one below p, is odd.
    ///
    /// The folded value v is below 2^256. v >= p exactly when v + FOLD_256 reaches 2^256; then the canonical value is
    /// v + FOLD_256 - 2^256, of the parity of v + FOLD_256.
    #[inline(always)]
    pub fn is_odd(self) -> Mask {
        let folded = self.sum().tighten();
        let mut raised = folded.sum();
        raised.0[0] = raised.0[0] + raised.0[0].all(FOLD_256);
        let raised = raised.carry().mask();
        let reaches = raised.0[4].has(!LOW_48);
        (folded.0[0].has(1) & !reaches) | (raised.0[0].has(1) & reaches)
    }

    /// Half the element. Post: tight.
    #[inline(always)]
    pub fn halve(self) -> Self {
        Columns::product(self.factor(), Field::constant(self.0[0], HALF).factor()).reduce::<1>().mask()
    }
}

impl<W: Vector> Field<W> {
    /// The canonical value of every lane, four words of 64 bits, lowest first.
    #[inline(always)]
    pub fn to_words(self) -> [[u64; 4]; 8] {
        let limbs = self.sum().tighten().0.map(|limb| limb.store().0);
        std::array::from_fn(|lane| canonical_words([0, 1, 2, 3, 4].map(|k| limbs[k][lane])))
    }

    /// The canonical value of the first lane.
    #[inline(always)]
    pub fn first_words(self) -> [u64; 4] {
        let [a, b, c, d, e] = self.sum().tighten().0;
        canonical_words([a.store().0[0], b.store().0[0], c.store().0[0], d.store().0[0], e.store().0[0]])
    }
}

/// The value below p of limbs below 2^256.
fn canonical_words([a, b, c, d, e]: [u64; 5]) -> [u64; 4] {
    let words = [a | b << 52, b >> 12 | c << 40, c >> 24 | d << 28, d >> 36 | e << 16];
    // At or above p: adding FOLD_256 subtracts p modulo 2^256.
    let mut carry = u128::from(FOLD_256);
    let raised = words.map(|word| {
        carry += u128::from(word);
        let low = carry as u64;
        carry >>= 64;
        low
    });
    if carry > 0 { raised } else { words }
}

impl<W: Word> Factor<W> {
    /// Drops what stands above 52 bits; it has been carried already. Post: tight, as the carry's result was.
    #[inline(always)]
    pub fn mask(self) -> Field<W> {
        let low = self.0[0].all(LOW_52);
        let [a, b, c, d, e] = self.0;
        Field([a & low, b & low, c & low, d & low, e])
    }

    /// self * other. Post: a factor, tight once masked.
    #[inline(always)]
    pub fn times(self, other: Factor<W>) -> Factor<W> {
        Columns::product(self, other).reduce::<1>()
    }

    /// self^2. Post: a factor, tight once masked.
    #[inline(always)]
    pub fn squared(self) -> Factor<W> {
        Columns::square(self).reduce::<1>()
    }
}

impl<W: Word> std::ops::Add for Sum<W> {
    type Output = Self;
    /// Limb by limb. Post: bounds add up.
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Sum(each(|k| self.0[k] + other.0[k]))
    }
}

impl<W: Word> Sum<W> {
    /// K p - self, limb by limb. Pre: the sum of at most K - 1 tight elements, so that no limb goes below zero.
    /// Post: limbs <= K 2^52, limb 4 <= K 2^48.
    #[inline(always)]
    pub fn from_multiple<const K: u64>(self) -> Self {
        Sum(each(|k| self.0[k].all(K * P[k]) - self.0[k]))
    }

    /// Moves carries upwards, leaving them above the 52 bits too. Pre: limbs < 2^60. Post: as `self` in limb 4.
    #[inline(always)]
    pub fn carry(self) -> Factor<W> {
        let [a, b, c, d, e] = self.0;
        let b = b + a.right::<52>();
        let c = c + b.right::<52>();
        let d = d + c.right::<52>();
        let e = e + d.right::<52>();
        Factor([a, b, c, d, e.below(51)])
    }

    /// The same element, tight. Pre: limbs < 2^60. Post: tight.
    #[inline(always)]
    pub fn tighten(self) -> Field<W> {
        let [a, b, c, d, e] = self.0;
        // What stands above 2^256 counts FOLD_256 each; quotient * FOLD_256 fits in 52 bits.
        let above = e.right::<48>().below(19);
        let a = a.add_low(above, a.all(FOLD_256));
        Sum([a, b, c, d, e & e.all(LOW_48)]).carry().mask()
    }
}

impl<W: Word> Columns<W> {
    /// No product yet, a sum to start from. Pre: limbs < 2^60.
    #[inline(always)]
    pub fn start(sum: Sum<W>) -> Self {
        let [a, b, c, d, e] = sum.0;
        let zero = a.all(0);
        Columns([a, b, c, d, e, zero, zero, zero, zero, zero])
    }

    /// a * b. Post: a column is below 9 * 2^52.
    #[inline(always)]
    pub fn product(a: Factor<W>, b: Factor<W>) -> Self {
        Columns([a.0[0].all(0); 10]).plus_product(a, b)
    }

    /// self + a * b. Post: a column grows by less than 9 * 2^52.
    #[inline(always)]
    pub fn plus_product(mut self, a: Factor<W>, b: Factor<W>) -> Self {
        // In an order that keeps additions to one column apart: each takes four cycles.
        add_products! { self.0, a.0, b.0;
            0 0, 1 1, 2 2, 3 3, 4 4, 0 1, 1 2, 2 3, 3 4, 0 4, 1 0, 2 1, 3 2, 4 3, 4 0, 0 2, 1 3, 2 4, 0 3, 1 4, 2 0, 3 1,
            4 2, 3 0, 4 1
        }
        self
    }

    /// a^2. Post: a column is below 9 * 2^52.
    #[inline(always)]
    pub fn square(a: Factor<W>) -> Self {
        let mut columns = Columns([a.0[0].all(0); 10]);
        add_products! { columns.0, a.0, a.0; 0 1, 1 2, 2 3, 3 4, 0 4, 0 2, 1 3, 2 4, 0 3, 1 4 }
        for k in 1..9 {
            columns.0[k] = columns.0[k] + columns.0[k];
        }
        add_products! { columns.0, a.0, a.0; 0 0, 1 1, 2 2, 3 3, 4 4 }
        columns
    }

    /// self + sum. Pre: limbs < 2^60.
    #[inline(always)]
    pub fn plus(mut self, sum: Sum<W>) -> Self {
        for k in 0..5 {
            self.0[k] = self.0[k] + sum.0[k];
        }
        self
    }

    /// TIMES times the value, TIMES from 1 to 4. Pre: columns 0..=8 < 2^58, column 9 < 2^52.
    /// Post: a factor, tight once masked.
    #[inline(always)]
    pub fn reduce<const TIMES: u32>(self) -> Factor<W> {
        self.reduce_plus::<TIMES>(None)
    }

    /// TIMES times the value, and `sum`. Pre: as [`Columns::reduce`]; limbs of `sum` < 2^56. Post: the same.
    ///
    /// Column 5 + k counts FOLD_260 at column k. IFMA takes its low 52 bits; what stands above is folded one column on.
    /// What then stands above 2^256, from limb 4 and from column 5, counts FOLD_256; one chain of carries ends it.
    #[inline(always)]
    pub fn reduce_plus<const TIMES: u32>(self, sum: Option<Sum<W>>) -> Factor<W> {
        let t = self.0;
        let fold = t[0].all(FOLD_260);
        let mut l: [W; 6] = [t[0], t[1], t[2], t[3], t[4], t[0].all(0)];
        let top = t[9].below(52);
        for (k, column) in [t[5], t[6], t[7], t[8], top].into_iter().enumerate() {
            l[k] = l[k].add_low(column, fold);
        }
        for (k, column) in [t[5], t[6], t[7], t[8], top].into_iter().enumerate() {
            l[k + 1] = l[k + 1].add_high(column, fold);
        }
        for k in 0..4 {
            // 15 bits times 37 bits stay within the 52 of the low half.
            l[k + 1] = l[k + 1].add_low(t[5 + k].right::<52>().below(15), fold);
        }
        for limb in &mut l {
            *limb = match TIMES {
                1 => *limb,
                2 => *limb + *limb,
                3 => *limb + *limb + *limb,
                4 => limb.left::<2>(),
                _ => unreachable!("small multiples only"),
            };
        }
        if let Some(sum) = sum {
            for k in 0..5 {
                l[k] = l[k] + sum.0[k];
            }
        }
        let above = (l[4].right::<48>() + l[5].left::<4>()).below(52);
        let fold = fold.all(FOLD_256);
        l[0] = l[0].add_low(above, fold);
        l[1] = l[1].add_high(above, fold);
        Sum([l[0], l[1], l[2], l[3], l[4] & fold.all(LOW_48)]).carry()
    }
}

/// Five limbs by a function of their number; an array's own `map` is not always inlined.
#[inline(always)]
fn each<W: Copy>(limb: impl Fn(usize) -> W) -> [W; 5] {
    [limb(0), limb(1), limb(2), limb(3), limb(4)]
}

/// How the power of a square root is built: square one of the earlier powers so many times, multiply by another.
///
/// Power number k of the list, from 1 on, is of^(2^ones - 1), with the number of ones in the comment; power 0 is `of`.
/// The exponent (p + 1) / 4 is 223 ones, a zero, 22 ones, 0000 11 00 in binary.
const ROOT_STEPS: [(usize, usize, usize); 13] = [
    (0, 1, 0),   // 1: 2
    (1, 1, 0),   // 2: 3
    (2, 3, 2),   // 3: 6
    (3, 3, 2),   // 4: 9
    (4, 2, 1),   // 5: 11
    (5, 11, 5),  // 6: 22
    (6, 22, 6),  // 7: 44
    (7, 44, 7),  // 8: 88
    (8, 88, 8),  // 9: 176
    (9, 44, 7),  // 10: 220
    (10, 3, 2),  // 11: 223
    (11, 23, 6), // 223 ones, a zero, 22 ones
    (12, 6, 1),  // and 0000 11
];
/// Squares after the last step: the exponent's last two zeros.
const ROOT_SQUARES: usize = 2;

/// Square roots of N elements at once, c^((p + 1) / 4), where there is one; else some other element.
///
/// 253 squares and 13 products. A chain waits for each square to end, so N elements go in turns. Post: tight.
#[inline(always)]
pub fn square_roots<W: Word, const N: usize>(of: [Factor<W>; N]) -> [Field<W>; N] {
    let mut powers = [of; ROOT_STEPS.len() + 1];
    for (number, (from, squares, by)) in ROOT_STEPS.into_iter().enumerate() {
        let mut power = square(powers[from], squares);
        for k in 0..N {
            power[k] = power[k].times(powers[by][k]);
        }
        powers[number + 1] = power;
    }
    let roots = square(powers[ROOT_STEPS.len()], ROOT_SQUARES);
    let mut out = [Field(of[0].0); N];
    for k in 0..N {
        out[k] = roots[k].mask();
    }
    out
}

/// Squares each value so many times.
#[inline(always)]
fn square<W: Word, const N: usize>(mut values: [Factor<W>; N], times: usize) -> [Factor<W>; N] {
    for _ in 0..times {
        for value in &mut values {
            *value = value.squared();
        }
    }
    values
}
