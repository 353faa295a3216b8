//! The hash of a set of coins that Bitcoin Core prints as `gettxoutsetinfo muhash`.
//!
//! In:     coins, in any order; insertions and removals.
//! Out:    32 bytes, shown reversed as Core's `uint256`.
//! Fails:  never.
//! Source: Core's `crypto/muhash.h` and `kernel/coinstats.cpp` (`TxOutSer`). An element is the SHA-256 of the coin's
//!         bytes, stretched to 3072 bits by ChaCha20; the set is the product of its elements modulo 2^3072 - 1103717.

use crate::encode::put_compact_size;
use crate::hash::sha256;
use crate::transaction::OutPoint;

/// 64-bit limbs of a number.
const LIMBS: usize = 48;
/// The modulus is 2^3072 minus this.
const GAP: u64 = 1_103_717;

/// A number below 2^3072, least limb first; equal numbers modulo the prime may look different until reduced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Number([u64; LIMBS]);

impl Number {
    const ONE: Number = {
        let mut limbs = [0; LIMBS];
        limbs[0] = 1;
        Number(limbs)
    };

    fn from_bytes(bytes: &[u8; 8 * LIMBS]) -> Number {
        let mut limbs = [0; LIMBS];
        for (limb, chunk) in limbs.iter_mut().zip(bytes.chunks_exact(8)) {
            *limb = u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
        }
        Number(limbs)
    }

    fn to_bytes(self) -> [u8; 8 * LIMBS] {
        let mut bytes = [0; 8 * LIMBS];
        for (chunk, limb) in bytes.chunks_exact_mut(8).zip(self.0) {
            chunk.copy_from_slice(&limb.to_le_bytes());
        }
        bytes
    }

    /// Adds a small number; true where it passed 2^3072.
    fn add_small(&mut self, number: u128) -> bool {
        let mut carry = number;
        for limb in &mut self.0 {
            if carry == 0 {
                return false;
            }
            let sum = u128::from(*limb) + (carry & u128::from(u64::MAX));
            *limb = sum as u64;
            carry = (carry >> 64) + (sum >> 64);
        }
        carry != 0
    }

    fn times(&self, other: &Number) -> Number {
        let mut wide = [0u64; 2 * LIMBS];
        for (i, &a) in self.0.iter().enumerate() {
            let mut carry = 0u128;
            for (slot, &b) in wide[i..i + LIMBS].iter_mut().zip(&other.0) {
                let sum = u128::from(a) * u128::from(b) + u128::from(*slot) + carry;
                *slot = sum as u64;
                carry = sum >> 64;
            }
            wide[i + LIMBS] = carry as u64;
        }
        // 2^3072 = GAP modulo the prime: the upper half comes back, multiplied.
        let mut low = Number(wide[..LIMBS].try_into().expect("half of it"));
        let mut carry = 0u128;
        for (limb, &high) in low.0.iter_mut().zip(&wide[LIMBS..]) {
            let sum = u128::from(high) * u128::from(GAP) + u128::from(*limb) + carry;
            *limb = sum as u64;
            carry = sum >> 64;
        }
        let mut back = carry * u128::from(GAP);
        while low.add_small(back) {
            back = u128::from(GAP);
        }
        low
    }

    /// The same number below the prime.
    fn reduced(mut self) -> Number {
        // At or above the prime exactly when adding the gap passes 2^3072.
        let mut shifted = self;
        if shifted.add_small(u128::from(GAP)) {
            self = shifted;
        }
        self
    }

    /// Fermat: to the power of the prime less two. 3,072 squarings, 12 ms; done once a set.
    fn inverse(&self) -> Number {
        // The exponent is 2^3072 - GAP - 2: all ones but for the lowest limb.
        let mut exponent = [u64::MAX; LIMBS];
        exponent[0] = 0u64.wrapping_sub(GAP + 2);
        let mut result = Number::ONE;
        for bit in (0..64 * LIMBS).rev() {
            result = result.times(&result);
            if exponent[bit / 64] >> (bit % 64) & 1 == 1 {
                result = result.times(self);
            }
        }
        result
    }
}

/// The hash of a set that grows and shrinks.
#[derive(Clone, Debug)]
pub struct MuHash {
    inserted: Number,
    removed: Number,
}

impl Default for MuHash {
    /// The empty set.
    fn default() -> Self {
        MuHash { inserted: Number::ONE, removed: Number::ONE }
    }
}

impl MuHash {
    /// Adds an element; 3 us.
    pub fn insert(&mut self, element: &[u8]) {
        self.inserted = self.inserted.times(&number_of(element));
    }

    /// Takes an element away.
    pub fn remove(&mut self, element: &[u8]) {
        self.removed = self.removed.times(&number_of(element));
    }

    /// Joins two sets; sets hashed on several threads become one.
    pub fn join(&mut self, other: &MuHash) {
        self.inserted = self.inserted.times(&other.inserted);
        self.removed = self.removed.times(&other.removed);
    }

    /// The hash, in the byte order of Core's `uint256`: shown reversed.
    pub fn finalize(&self) -> [u8; 32] {
        let product = match self.removed == Number::ONE {
            true => self.inserted,
            false => self.inserted.times(&self.removed.inverse()),
        };
        sha256(&product.reduced().to_bytes())
    }
}

/// The bytes that stand for a coin: outpoint, height and coinbase bit, output.
pub fn coin_bytes(outpoint: &OutPoint, height: u32, coinbase: bool, value_sat: u64, script: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(60 + script.len());
    push_coin(&mut bytes, outpoint, height, coinbase, value_sat, script);
    bytes
}

/// Appends those bytes.
pub fn push_coin(bytes: &mut Vec<u8>, outpoint: &OutPoint, height: u32, coinbase: bool, value_sat: u64, script: &[u8]) {
    bytes.extend_from_slice(&outpoint.encode());
    bytes.extend_from_slice(&(height << 1 | u32::from(coinbase)).to_le_bytes());
    bytes.extend_from_slice(&value_sat.to_le_bytes());
    put_compact_size(bytes, script.len() as u64);
    bytes.extend_from_slice(script);
}

fn number_of(element: &[u8]) -> Number {
    let key = sha256(element);
    let mut bytes = [0; 8 * LIMBS];
    for (counter, block) in bytes.chunks_exact_mut(64).enumerate() {
        block.copy_from_slice(&chacha20_block(&key, counter as u32));
    }
    Number::from_bytes(&bytes)
}

/// One block of ChaCha20 under nonce zero (RFC 8439 2.3).
fn chacha20_block(key: &[u8; 32], counter: u32) -> [u8; 64] {
    let mut start = [0u32; 16];
    start[..4].copy_from_slice(&[0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574]);
    for (word, bytes) in start[4..12].iter_mut().zip(key.chunks_exact(4)) {
        *word = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    }
    start[12] = counter;
    let mut state = start;
    for _ in 0..10 {
        for [a, b, c, d] in [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]] {
            quarter_round(&mut state, a, b, c, d);
        }
        for [a, b, c, d] in [[0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]] {
            quarter_round(&mut state, a, b, c, d);
        }
    }
    let mut out = [0; 64];
    for ((bytes, word), first) in out.chunks_exact_mut(4).zip(state).zip(start) {
        bytes.copy_from_slice(&word.wrapping_add(first).to_le_bytes());
    }
    out
}

#[inline]
fn quarter_round(state: &mut [u32; 16], a: usize, b: usize, c: usize, d: usize) {
    for (add, to, turn, by) in [(b, a, d, 16), (d, c, b, 12), (b, a, d, 8), (d, c, b, 7)] {
        state[to] = state[to].wrapping_add(state[add]);
        state[turn] = (state[turn] ^ state[to]).rotate_left(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::hex;
    use stdx::random::Random;

    fn shown(hash: [u8; 32]) -> String {
        hex::encode(&hash.into_iter().rev().collect::<Vec<u8>>())
    }

    fn element(number: u8) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[0] = number;
        bytes
    }

    #[test]
    fn hashes_are_those_of_core() {
        // `muhash_tests` in Core's src/test/crypto_tests.cpp.
        let mut hash = MuHash::default();
        hash.insert(&element(0));
        hash.insert(&element(1));
        hash.remove(&element(2));
        assert_eq!(shown(hash.finalize()), "10d312b100cbd32ada024a6646e40d3482fcff103668d2625f10002a607d5863");
    }

    #[test]
    fn the_product_of_two_elements_is_that_of_core() {
        // First bytes of the serialised product of elements 1 and 2, same file.
        let product = number_of(&element(1)).times(&number_of(&element(2))).reduced();
        let want = "1fa093295ea30a6a3acdc7b3f770fa538eff537528e990e2910e40bbcfd7f6696b1256901929094694b56316de342f59";
        assert_eq!(hex::encode(&product.to_bytes()[..48]), want);
    }

    #[test]
    fn a_number_above_the_prime_is_reduced() {
        // Same file, "overflow": 2^3072 - 1 over 1.
        let hash = MuHash { inserted: Number([u64::MAX; LIMBS]), removed: Number::ONE };
        assert_eq!(hex::encode(&hash.finalize()), "3a31e6903aff0de9f62f9a9f7f8b861de76ce2cda09822b90014319ae5dc2271");
        let mut prime = [u64::MAX; LIMBS];
        prime[0] = 0u64.wrapping_sub(GAP);
        assert_eq!(Number(prime).reduced(), Number([0; LIMBS]));
        prime[0] -= 1;
        assert_eq!(Number(prime).reduced(), Number(prime));
    }

    /// The plain second version: one bit of one factor at a time.
    fn times_slowly(a: &Number, b: &Number) -> Number {
        let mut sum = Number([0; LIMBS]);
        for bit in (0..64 * LIMBS).rev() {
            let plus = |x: &Number, y: &Number| {
                let mut carry = 0;
                let mut out = [0; LIMBS];
                for i in 0..LIMBS {
                    let limb = u128::from(x.0[i]) + u128::from(y.0[i]) + carry;
                    out[i] = limb as u64;
                    carry = limb >> 64;
                }
                let mut out = Number(out);
                if carry == 1 {
                    assert!(!out.add_small(u128::from(GAP)));
                }
                out.reduced()
            };
            sum = plus(&sum, &sum);
            if b.0[bit / 64] >> (bit % 64) & 1 == 1 {
                sum = plus(&sum, &a.reduced());
            }
        }
        sum
    }

    #[test]
    fn fast_and_slow_products_agree() {
        let mut random = Random::new(3);
        let mut numbers: Vec<Number> = (0..12).map(|_| Number(std::array::from_fn(|_| random.next_u64()))).collect();
        numbers.extend([Number([u64::MAX; LIMBS]), Number::ONE, Number([0; LIMBS])]);
        for a in &numbers {
            for b in &numbers[8..] {
                assert_eq!(a.times(b).reduced(), times_slowly(a, b).reduced());
            }
            assert!(a.reduced() == Number([0; LIMBS]) || a.times(&a.inverse()).reduced() == Number::ONE);
        }
    }

    #[test]
    fn order_and_detours_do_not_matter() {
        let mut one = MuHash::default();
        (0..9).for_each(|n| one.insert(&element(n)));
        one.remove(&element(4));
        let (mut low, mut high) = (MuHash::default(), MuHash::default());
        [8, 7, 6, 5].into_iter().for_each(|n| high.insert(&element(n)));
        [3, 0, 2, 1].into_iter().for_each(|n| low.insert(&element(n)));
        low.join(&high);
        assert_eq!(one.finalize(), low.finalize());
    }
}
