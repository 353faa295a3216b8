//! The field of secp256k1 on one 64-bit processor without vectors: integers modulo p = 2^256 - 2^32 - 977.
//!
//! In:     elements as five limbs of 52 bits.
//! Out:    sums, products, comparisons; the bounds of each limb are written at each function.
//! Fails:  never while the bounds hold; bounds.rs proves them by running this very code on intervals.
//! Source: docs/signatures.md, "One number at a time".
//!
//! Two types keep the bounds apart:
//!
//! | type      | limbs 0..=3      | limb 4  | may be                                            |
//! |-----------|------------------|---------|---------------------------------------------------|
//! | [`Field`] | < 2^52 + 2^45    | < 2^48  | anything                                          |
//! | [`Sum`]   | < 2^55           | < 2^51  | multiplied, added up to those bounds, made words  |

use super::limb::Limb;
use crate::number::inverse::Modulus;

/// p = 2^256 - FOLD_256.
const FOLD_256: u64 = 0x1_0000_03d1;
/// 2^260 = FOLD_260 modulo p: what limb 5 counts for in limb 0.
const FOLD_260: u64 = FOLD_256 << 4;
const LOW_52: u64 = (1 << 52) - 1;
/// p in limbs.
const P: [u64; 5] = [LOW_52 - (FOLD_256 - 1), LOW_52, LOW_52, LOW_52, (1 << 48) - 1];
/// p in words of 64 bits, lowest first.
pub const P_WORDS: [u64; 4] = [0xffff_fffe_ffff_fc2f, u64::MAX, u64::MAX, u64::MAX];
const MODULUS: Modulus = Modulus::new(P_WORDS);

/// An element with limbs as products give them; its value is below 2^256 + 2^98, not always below p.
#[derive(Clone, Copy, Debug)]
pub struct Field<L = u64>(pub [L; 5]);

/// Limbs added and subtracted, carries not yet moved.
#[derive(Clone, Copy, Debug)]
pub struct Sum<L = u64>(pub [L; 5]);

/// A sum of products of limbs: `products!(a 0 b 1, a 1 b 0)` is a0 b1 + a1 b0.
macro_rules! products {
    ($a:ident $i:literal $b:ident $j:literal $(, $c:ident $k:literal $d:ident $l:literal)*) => {
        $a[$i].times($b[$j]) $(+ $c[$k].times($d[$l]))*
    };
}

/// The columns of a product as they come, folded and carried.
///
/// 2^260 counts FOLD_260. Columns 5 to 8 are carried to 52 bits each, times FOLD_260 they are added to columns 0 to 3, and
/// what column 8 carries to column 4. Those are carried too; what stands above 2^256 counts FOLD_256 each in limb 0.
/// The order keeps few numbers alive: the processor has sixteen registers.
macro_rules! reduce {
    ($c0:expr, $c1:expr, $c2:expr, $c3:expr, $c4:expr, $c5:expr, $c6:expr, $c7:expr, $c8:expr) => {{
        let fold = L::new(FOLD_260);
        let (h5, carry) = L::split::<52>($c5);
        let (h6, carry) = L::split::<52>($c6 + carry);
        let (h7, carry) = L::split::<52>($c7 + carry);
        let (h8, carry) = L::split::<52>($c8 + carry);
        let h9 = L::narrow(carry);
        let (l0, carry) = L::split::<52>($c0 + h5.times(fold));
        let (l1, carry) = L::split::<52>($c1 + h6.times(fold) + carry);
        let (l2, carry) = L::split::<52>($c2 + h7.times(fold) + carry);
        let (l3, carry) = L::split::<52>($c3 + h8.times(fold) + carry);
        let (l4, carry) = L::split::<48>($c4 + h9.times(fold) + carry);
        let above = L::narrow(carry);
        let (l0, carry) = L::split::<52>(l0.wide() + above.times(L::new(FOLD_256)));
        Field([l0, l1 + L::narrow(carry), l2, l3, l4])
    }};
}

impl<L: Limb> Field<L> {
    /// `small`. Pre: below 2^52. Post: limbs < 2^52.
    #[inline(always)]
    pub fn small(small: u64) -> Self {
        Field([L::new(small), L::new(0), L::new(0), L::new(0), L::new(0)])
    }

    /// The same element, to be added. Post: limbs as before.
    #[inline(always)]
    pub fn sum(self) -> Sum<L> {
        Sum(self.0)
    }

    /// self^2. Post: a field element.
    #[inline(always)]
    pub fn squared(self) -> Self {
        self.sum().squared()
    }

    /// self * other. Post: a field element.
    #[inline(always)]
    pub fn times(self, other: Self) -> Self {
        self.sum().times(other.sum())
    }
}

impl<L: Limb> std::ops::Add for Sum<L> {
    type Output = Self;
    /// Limb by limb. Post: bounds add up.
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Sum(each(|k| self.0[k] + other.0[k]))
    }
}

impl<L: Limb> Sum<L> {
    /// K p - self, limb by limb. Pre: the sum of at most K - 1 field elements, so that no limb goes below zero.
    /// Post: limbs <= K 2^52, limb 4 <= K 2^48.
    #[inline(always)]
    pub fn from_multiple<const K: u64>(self) -> Self {
        Sum(each(|k| L::new(K * P[k]) - self.0[k]))
    }

    /// `other` where `choose`. Post: the larger bound of both.
    #[inline(always)]
    pub fn select(self, choose: bool, other: Self) -> Self {
        Sum(each(|k| self.0[k].select(choose, other.0[k])))
    }

    /// Promises the bounds of a factor, which the bounds test proves.
    #[inline(always)]
    fn factor(self) -> [L; 5] {
        let [a, b, c, d, e] = self.0;
        [a.below(55), b.below(55), c.below(55), d.below(55), e.below(51)]
    }

    /// self * other. Pre: limbs < 2^55, limb 4 < 2^51, in both. Post: a field element.
    #[inline(always)]
    pub fn times(self, other: Self) -> Field<L> {
        let (a, b) = (self.factor(), other.factor());
        reduce!(
            products!(a 0 b 0),
            products!(a 0 b 1, a 1 b 0),
            products!(a 0 b 2, a 1 b 1, a 2 b 0),
            products!(a 0 b 3, a 1 b 2, a 2 b 1, a 3 b 0),
            products!(a 0 b 4, a 1 b 3, a 2 b 2, a 3 b 1, a 4 b 0),
            products!(a 1 b 4, a 2 b 3, a 3 b 2, a 4 b 1),
            products!(a 2 b 4, a 3 b 3, a 4 b 2),
            products!(a 3 b 4, a 4 b 3),
            products!(a 4 b 4)
        )
    }

    /// self^2. Pre: limbs < 2^55, limb 4 < 2^51. Post: a field element.
    #[inline(always)]
    pub fn squared(self) -> Field<L> {
        let a = self.factor();
        // Twice each limb, for the products that come twice.
        let d = [a[0] + a[0], a[1] + a[1], a[2] + a[2], a[3] + a[3]];
        reduce!(
            products!(a 0 a 0),
            products!(d 0 a 1),
            products!(d 0 a 2, a 1 a 1),
            products!(d 0 a 3, d 1 a 2),
            products!(d 0 a 4, d 1 a 3, a 2 a 2),
            products!(d 1 a 4, d 2 a 3),
            products!(d 2 a 4, a 3 a 3),
            products!(d 3 a 4),
            products!(a 4 a 4)
        )
    }

    /// Limbs below 2^52, 2^48 for the last, and what stands above 2^256. Pre: limbs < 2^60.
    #[inline(always)]
    pub fn carried(self) -> ([L; 5], L) {
        let [a, b, c, d, e] = self.0;
        let b = b + a.right::<52>();
        let c = c + b.right::<52>();
        let d = d + c.right::<52>();
        let e = e + d.right::<52>();
        ([a.low::<52>(), b.low::<52>(), c.low::<52>(), d.low::<52>(), e.low::<48>()], e.right::<48>().below(13))
    }
}

impl Field {
    /// The value of four words of 64 bits, lowest first. Post: limbs < 2^52, limb 4 < 2^48.
    #[inline(always)]
    pub fn from_words([a, b, c, d]: [u64; 4]) -> Self {
        let limbs = [a, a >> 52 | b << 12, b >> 40 | c << 24, c >> 28 | d << 36, d >> 16];
        Field([limbs[0] & LOW_52, limbs[1] & LOW_52, limbs[2] & LOW_52, limbs[3] & LOW_52, limbs[4]])
    }

    /// 1 / self; zero gives zero.
    pub fn invert(self) -> Self {
        Field::from_words(MODULUS.invert(self.sum().canonical_words()))
    }
}

impl Sum {
    /// The element as four words of 64 bits, below 2^256, not always below p. Pre: limbs < 2^60.
    ///
    /// What stands above 2^256, below 2^13, is folded; a carry that leaves leaves less than 2^46 behind, so folding it
    /// carries nothing.
    #[inline(always)]
    pub fn words(self) -> [u64; 4] {
        let ([a, b, c, d, e], above) = self.carried();
        let words = [a | b << 52, b >> 12 | c << 40, c >> 24 | d << 28, d >> 36 | e << 16];
        let ([a, b, c, d], carry) = plus(words, above * FOLD_256);
        [a + FOLD_256 * u64::from(carry), b, c, d]
    }

    /// The element as four words of 64 bits, below p. Pre: limbs < 2^60.
    #[inline(always)]
    pub fn canonical_words(self) -> [u64; 4] {
        let words = self.words();
        // At or above p: adding FOLD_256 subtracts p modulo 2^256.
        let (raised, carry) = plus(words, FOLD_256);
        if carry { raised } else { words }
    }

    /// Whether the element is zero. Pre: limbs < 2^60.
    #[inline(always)]
    pub fn is_zero(self) -> bool {
        let words = self.words();
        words == [0; 4] || words == P_WORDS
    }
}

/// Five limbs by a function of their number; an array's own `map` is not always inlined.
#[inline(always)]
fn each<L>(limb: impl Fn(usize) -> L) -> [L; 5] {
    [limb(0), limb(1), limb(2), limb(3), limb(4)]
}

/// A sum modulo 2^256, and whether it reached 2^256.
#[inline(always)]
fn plus([a, b, c, d]: [u64; 4], small: u64) -> ([u64; 4], bool) {
    let (a, carry) = a.overflowing_add(small);
    let (b, carry) = b.overflowing_add(carry.into());
    let (c, carry) = c.overflowing_add(carry.into());
    let (d, carry) = d.overflowing_add(carry.into());
    ([a, b, c, d], carry)
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

/// Square roots of N elements, c^((p + 1) / 4), where there is one; else some other element.
///
/// 253 squares and 13 products each. A chain waits for each square to end, so N elements go in turns.
pub fn square_roots<const N: usize>(of: [Field; N]) -> [Field; N] {
    let mut powers = [of; ROOT_STEPS.len() + 1];
    for (number, (from, squares, by)) in ROOT_STEPS.into_iter().enumerate() {
        let mut power = powers[from];
        square(&mut power, squares);
        for k in 0..N {
            power[k] = power[k].times(powers[by][k]);
        }
        powers[number + 1] = power;
    }
    let mut roots = powers[ROOT_STEPS.len()];
    square(&mut roots, 2);
    roots
}

/// Squares each value so many times.
fn square<const N: usize>(values: &mut [Field; N], times: usize) {
    for _ in 0..times {
        for value in &mut *values {
            *value = value.squared();
        }
    }
}
