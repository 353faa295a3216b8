//! 256-bit numbers of proof of work: targets, and the work they stand for.
//!
//! In:     the compact form a header carries, or 32 bytes.
//! Out:    [`Target`] and [`Work`], ordered as numbers.
//! Fails:  [`BadCompact`] for the compact forms Core calls negative, overflowing or zero.
//! Source: Bitcoin Core, `arith_uint256.cpp` (`SetCompact`, `GetCompact`), `chain.cpp` (`GetBlockProof`).

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

use primitives::BlockHash;

/// A number below 2^256 that a block's hash must not exceed; most significant limb first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Target([u64; 4]);

/// Expected number of hashes, of a block or of a chain; most significant limb first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Work(pub [u64; 4]);

/// A compact form that no target has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadCompact {
    /// The sign bit is set over a mantissa that is not zero.
    Negative,
    /// The number needs more than 256 bits.
    Overflow,
    /// The number is zero.
    Zero,
}

impl Target {
    /// Decodes the compact form; strict, as `DeriveTarget` asks.
    pub fn from_compact(bits: u32) -> Result<Target, BadCompact> {
        let size = bits >> 24;
        let word = bits & 0x007f_ffff;
        let used = if size <= 3 { word >> (8 * (3 - size)) } else { word };
        if used == 0 {
            return Err(BadCompact::Zero);
        }
        if bits & 0x0080_0000 != 0 {
            return Err(BadCompact::Negative);
        }
        if size > 34 || (used > 0xff && size > 33) || (used > 0xffff && size > 32) {
            return Err(BadCompact::Overflow);
        }
        Ok(Target(shift_left([0, 0, 0, u64::from(used)], 8 * size.saturating_sub(3))))
    }

    /// The compact form; bits beyond its 23 are cut off.
    pub fn to_compact(self) -> u32 {
        let mut size = bit_length(&self.0).div_ceil(8);
        let mut word =
            if size <= 3 { self.0[3] << (8 * (3 - size)) } else { shift_right(self.0, 8 * (size - 3))[3] } as u32;
        // Bit 23 is the sign.
        if word & 0x0080_0000 != 0 {
            word >>= 8;
            size += 1;
        }
        word | size << 24
    }

    /// From 32 bytes, big endian.
    pub fn from_be_bytes(bytes: &[u8; 32]) -> Target {
        Target(limbs(bytes))
    }

    /// A block's hash read as a number.
    pub fn of_hash(hash: &BlockHash) -> Target {
        let mut bytes = hash.0;
        bytes.reverse();
        Target(limbs(&bytes))
    }

    /// `self * factor / divisor`, the product modulo 2^256, as Core's retargeting computes it.
    pub fn scaled(self, factor: u32, divisor: u32) -> Target {
        let mut product = [0; 4];
        let mut carry = 0u128;
        for i in (0..4).rev() {
            carry += u128::from(self.0[i]) * u128::from(factor);
            product[i] = carry as u64;
            carry >>= 64;
        }
        let mut quotient = [0; 4];
        let mut rest = 0u128;
        for i in 0..4 {
            rest = rest << 64 | u128::from(product[i]);
            quotient[i] = (rest / u128::from(divisor)) as u64;
            rest %= u128::from(divisor);
        }
        Target(quotient)
    }

    /// Work of a block of this target: `2^256 / (target + 1)`, rounded down.
    pub fn work(self) -> Work {
        // 2^256 / (t + 1) = (2^256 - 1 - t) / (t + 1) + 1, which stays within 256 bits for t > 0.
        let divisor = add(self.0, [0, 0, 0, 1]);
        Work(add(divide(self.0.map(|limb| !limb), divisor), [0, 0, 0, 1]))
    }
}

impl Work {
    /// No work.
    pub const ZERO: Work = Work([0; 4]);

    /// From 32 bytes, big endian.
    pub fn from_be_bytes(bytes: &[u8; 32]) -> Work {
        Work(limbs(bytes))
    }

    /// As 32 bytes, big endian.
    pub fn to_be_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (chunk, limb) in bytes.chunks_exact_mut(8).zip(self.0) {
            chunk.copy_from_slice(&limb.to_be_bytes());
        }
        bytes
    }

    /// What is left of this work without `other`; zero where `other` is more.
    pub fn saturating_sub(self, other: Work) -> Work {
        if self <= other { Work::ZERO } else { Work(subtract(self.0, other.0)) }
    }

    /// The nearest floating-point number, for progress and display.
    pub fn to_f64(self) -> f64 {
        self.0.iter().fold(0.0, |sum, &limb| sum * 18_446_744_073_709_551_616.0 + limb as f64)
    }
}

/// Sums wrap at 2^256, as Core's do; a chain of 2^32 headers of the hardest target stays below only because real
/// targets are far from 1.
impl Add for Work {
    type Output = Work;

    fn add(self, other: Work) -> Work {
        Work(add(self.0, other.0))
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Work) {
        *self = *self + other;
    }
}

impl Sum for Work {
    fn sum<I: Iterator<Item = Work>>(items: I) -> Work {
        items.fold(Work::ZERO, Add::add)
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|limb| write!(f, "{limb:016x}"))
    }
}

fn limbs(bytes: &[u8; 32]) -> [u64; 4] {
    std::array::from_fn(|i| u64::from_be_bytes(bytes[8 * i..8 * i + 8].try_into().expect("eight bytes")))
}

fn bit_length(number: &[u64; 4]) -> u32 {
    let zeros = number.iter().position(|&limb| limb != 0).map_or(256, |i| 64 * i as u32 + number[i].leading_zeros());
    256 - zeros
}

fn shift_left(number: [u64; 4], count: u32) -> [u64; 4] {
    let (limbs, bits) = ((count / 64) as usize, count % 64);
    std::array::from_fn(|i| {
        let at = |i: usize| number.get(i).copied().unwrap_or(0);
        let low = if bits == 0 { 0 } else { at(i + limbs + 1) >> (64 - bits) };
        at(i + limbs) << bits | low
    })
}

fn shift_right(number: [u64; 4], count: u32) -> [u64; 4] {
    let (limbs, bits) = ((count / 64) as usize, count % 64);
    std::array::from_fn(|i| {
        let at = |i: Option<usize>| i.map_or(0, |i| number[i]);
        let high = if bits == 0 { 0 } else { at(i.checked_sub(limbs + 1)) << (64 - bits) };
        at(i.checked_sub(limbs)) >> bits | high
    })
}

fn add(a: [u64; 4], b: [u64; 4]) -> [u64; 4] {
    let mut sum = [0; 4];
    let mut carry = false;
    for i in (0..4).rev() {
        let (partial, first) = a[i].overflowing_add(b[i]);
        let (total, second) = partial.overflowing_add(u64::from(carry));
        (sum[i], carry) = (total, first | second);
    }
    sum
}

fn subtract(a: [u64; 4], b: [u64; 4]) -> [u64; 4] {
    // a - b = a + !b + 1 modulo 2^256.
    add(add(a, b.map(|limb| !limb)), [0, 0, 0, 1])
}

/// Quotient by shifting and subtracting; as many steps as the quotient has bits, 32 to 80 for mainnet's targets.
fn divide(mut number: [u64; 4], divisor: [u64; 4]) -> [u64; 4] {
    let mut quotient = [0u64; 4];
    let Some(steps) = bit_length(&number).checked_sub(bit_length(&divisor)) else { return quotient };
    for shift in (0..=steps).rev() {
        let shifted = shift_left(divisor, shift);
        if number >= shifted {
            number = subtract(number, shifted);
            quotient[3 - (shift / 64) as usize] |= 1 << (shift % 64);
        }
    }
    quotient
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::hex;
    use stdx::random::Random;

    #[test]
    fn compact_forms_follow_set_compact() {
        // Rows of Core's src/test/arith_uint256_tests.cpp, bignum_SetCompact.
        #[track_caller]
        fn check(bits: u32, want: Result<&str, BadCompact>) {
            let want = want.map(|text| Target::from_be_bytes(&hex::decode_array(text).unwrap()));
            assert_eq!(Target::from_compact(bits), want, "{bits:08x}");
        }
        let number = |tail: &str| format!("{tail:0>64}");
        for zero in [0, 0x0012_3456, 0x0100_3456, 0x0200_0056, 0x0300_0000, 0x0400_0000, 0x0092_3456, 0x0180_3456] {
            check(zero, Err(BadCompact::Zero));
        }
        for zero in [0x0280_0056, 0x0380_0000, 0x0480_0000] {
            check(zero, Err(BadCompact::Zero));
        }
        check(0x0112_3456, Ok(&number("12")));
        check(0x0212_3456, Ok(&number("1234")));
        check(0x0312_3456, Ok(&number("123456")));
        check(0x0412_3456, Ok(&number("12345600")));
        check(0x0500_9234, Ok(&number("92340000")));
        check(0x01fe_dcba, Err(BadCompact::Negative));
        check(0x0492_3456, Err(BadCompact::Negative));
        check(0x2012_3456, Ok(&format!("{:0<64}", "123456")));
        // Both sides of overflow for mantissas of one, two and three bytes.
        check(0x2200_00ff, Ok(&format!("{:0<64}", "ff")));
        check(0x2300_0001, Err(BadCompact::Overflow));
        check(0x2100_ffff, Ok(&format!("{:0<64}", "ffff")));
        check(0x2200_0100, Err(BadCompact::Overflow));
        check(0x207f_ffff, Ok(&format!("{:0<64}", "7fffff")));
        check(0x2101_0000, Err(BadCompact::Overflow));
        check(0xff12_3456, Err(BadCompact::Overflow));
    }

    #[test]
    fn compact_forms_come_back() {
        for bits in [0x1d00_ffff, 0x1b04_04cb, 0x1703_1abe, 0x207f_ffff, 0x0112_0000, 0x0500_9234, 0x1e03_77ae] {
            assert_eq!(Target::from_compact(bits).unwrap().to_compact(), bits);
        }
        // A mantissa whose top bit would be the sign moves up a byte.
        assert_eq!(Target([0, 0, 0, 0x80]).to_compact(), 0x0200_8000);
        assert_eq!(Target([0; 4]).to_compact(), 0);
    }

    #[test]
    fn work_is_that_of_core() {
        #[track_caller]
        fn check(bits: u32, want: &str) {
            assert_eq!(Target::from_compact(bits).unwrap().work().to_string(), format!("{want:0>64}"), "{bits:08x}");
        }
        check(0x1d00_ffff, "100010001");
        check(0x207f_ffff, "2");
        // Hardest and easiest numbers: 2^256 / 2 and 2^256 / (0xffff00...00 + 1).
        check(0x0101_0000, "8000000000000000000000000000000000000000000000000000000000000000");
        check(0x2100_ffff, "1");
        // Chainwork of mainnet's block 1 is twice that of the genesis block.
        let one = Target::from_compact(0x1d00_ffff).unwrap().work();
        assert_eq!((one + one).to_string(), format!("{:0>64}", "200020002"));
    }

    #[test]
    fn arithmetic_agrees_with_128_bits() {
        let mut random = Random::new(256);
        let wide = |n: u128| [0, 0, (n >> 64) as u64, n as u64];
        for _ in 0..20_000 {
            let shift = random.below(127) as u32;
            let a = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
            let b = (u128::from(random.next_u64()) << 64 | u128::from(random.next_u64())) >> shift | 1;
            assert_eq!(divide(wide(a), wide(b)), wide(a / b));
            assert_eq!(subtract(wide(a.max(b)), wide(a.min(b))), wide(a.max(b) - a.min(b)));
            assert_eq!(shift_right(wide(a), shift), wide(a >> shift));
            assert_eq!(shift_right(shift_left(wide(a), shift), shift), wide(a));
            let (factor, divisor) = (random.next_u64() as u32, random.next_u64() as u32 | 1);
            let want = (a >> 32) * u128::from(factor) / u128::from(divisor);
            assert_eq!(Target(wide(a >> 32)).scaled(factor, divisor), Target(wide(want)));
        }
    }
}
