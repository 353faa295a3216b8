//! Slow, plain arithmetic on 256-bit numbers, for tests to compare with.
//!
//! In:     numbers as four words of 64 bits, lowest first; a modulus above 2^255.
//! Out:    sums and products modulo the modulus, one bit at a time.
//! Fails:  never.
//! Source: school.

use stdx::random::Random;

/// a < b.
pub fn less(a: [u64; 4], b: [u64; 4]) -> bool {
    a.iter().rev().lt(b.iter().rev())
}

/// a - b modulo 2^256.
pub fn subtract(a: [u64; 4], b: [u64; 4]) -> [u64; 4] {
    let mut borrow = 0i128;
    std::array::from_fn(|k| {
        let digit = i128::from(a[k]) - i128::from(b[k]) + borrow;
        borrow = digit >> 64;
        digit as u64
    })
}

/// A number below 2^256 by one subtraction.
pub fn reduce(a: [u64; 4], modulus: [u64; 4]) -> [u64; 4] {
    if less(a, modulus) { a } else { subtract(a, modulus) }
}

/// a + b modulo `modulus`. Pre: both below it.
pub fn add(a: [u64; 4], b: [u64; 4], modulus: [u64; 4]) -> [u64; 4] {
    // a + b = a - (modulus - b), plus the modulus where that is negative.
    let rest = subtract(modulus, b);
    if less(a, rest) { subtract(a, subtract(rest, modulus)) } else { subtract(a, rest) }
}

/// a * b modulo `modulus`. Pre: both below it.
pub fn multiply(a: [u64; 4], b: [u64; 4], modulus: [u64; 4]) -> [u64; 4] {
    let mut product = [0; 4];
    for bit in (0..256).rev() {
        product = add(product, product, modulus);
        if b[bit / 64] >> (bit % 64) & 1 == 1 {
            product = add(product, a, modulus);
        }
    }
    product
}

/// The number limbs of 52 bits stand for, each of which may be any word.
pub fn of_limbs(limbs: &[u64], modulus: [u64; 4]) -> [u64; 4] {
    limbs
        .iter()
        .rev()
        .fold([0; 4], |value, &limb| add(multiply(value, [1 << 52, 0, 0, 0], modulus), [limb, 0, 0, 0], modulus))
}

/// A number with long runs of ones or zeros in three of four cases.
pub fn edge_case(random: &mut Random) -> [u64; 4] {
    match random.below(4) {
        0 => std::array::from_fn(|_| random.next_u64()),
        1 => [random.below(3), 0, 0, 0],
        2 => [u64::MAX - random.below(1 << 33), u64::MAX - random.below(3), u64::MAX - random.below(3), u64::MAX],
        _ => std::array::from_fn(|_| match random.below(4) {
            0 => 0,
            1 => u64::MAX,
            2 => u64::MAX << random.below(64),
            _ => u64::MAX >> random.below(64),
        }),
    }
}
