//! Keys from a seed, and signatures that cost a microsecond.
//!
//! In:     a seed and a number of keys; then digests to sign.
//! Out:    public keys in every form, ECDSA and BIP 340 signatures.
//! Fails:  never; the chance that a sum of secrets is zero is below 2^-200.
//! Source: BIP 340, BIP 341; SEC 1 for ECDSA.
//!
//! Nothing here is safe for money, on purpose: key `i` is the first secret plus `i`, so a public key costs one point
//! addition (3 us) instead of a multiplication (20 us); and nonces come from a fixed set whose points are known, so a
//! signature costs three scalar multiplications instead of one of a point (1 us instead of 25 to 45). Whoever verifies
//! such a signature does all the work of any other.

use std::sync::{Arc, OnceLock};

use secp256k1::{Keypair, Parity, PublicKey, Scalar, SecretKey, XOnlyPublicKey};
use stdx::pool::Pool;

use super::sighash::tagged;
use super::stream;

/// Order of the group, big endian.
pub const ORDER: [u8; 32] = [
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 0xba, 0xae, 0xdc,
    0xe6, 0xaf, 0x48, 0xa0, 0x3b, 0xbf, 0xd2, 0x5e, 0x8c, 0xd0, 0x36, 0x41, 0x41,
];
/// Half of the order, big endian; ECDSA's `s` is kept at or below it (BIP 62).
const HALF_ORDER: [u8; 32] = [
    0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x5d, 0x57, 0x6e,
    0x73, 0x57, 0xa4, 0x50, 0x1d, 0xdf, 0xe9, 0x2f, 0x46, 0x68, 0x1b, 0x20, 0xa0,
];

/// Least nonces in the set: enough that signatures look unlike each other, few enough to make in 0.1 s.
const NONCES_MIN: usize = 2048;
/// Most: of a thousand signatures eight share a nonce with another of them, so that long chains are to an engine that
/// batches what real ones are, where none do.
const NONCES_MAX: usize = 65_536;
/// Keys for each nonce between the two.
const KEYS_PER_NONCE: usize = 4;
/// Keys made in one piece of work.
const KEYS_PER_PIECE: u32 = 4096;

/// A nonce whose point has an even y coordinate.
struct Nonce {
    secret: SecretKey,
    inverse: Scalar,
    /// x coordinate of the point; below the order, so it is ECDSA's `r` too.
    x: [u8; 32],
}

/// A key that can sign, with the x coordinate of its point.
#[derive(Clone, Copy)]
pub struct Signer {
    /// The secret of the point with an even y coordinate (BIP 340).
    pub secret: SecretKey,
    /// x coordinate.
    pub x: [u8; 32],
    /// True where the point itself, before negation, has an odd y coordinate.
    pub odd: bool,
}

/// All keys of one chain.
pub struct Keyring {
    base: SecretKey,
    keys: Vec<PublicKey>,
    nonces: Vec<Nonce>,
    /// Taproot output keys without a script tree, made when first used: 10 us each.
    tweaked: Vec<OnceLock<Signer>>,
}

fn scalar(bytes: [u8; 32]) -> Scalar {
    Scalar::from_be_bytes(reduced(bytes)).expect("reduced below the order")
}

/// `bytes` modulo the order; one subtraction is enough below 2^256.
fn reduced(bytes: [u8; 32]) -> [u8; 32] {
    if bytes < ORDER {
        return bytes;
    }
    let mut out = [0; 32];
    let mut borrow = 0i16;
    for i in (0..32).rev() {
        let digit = i16::from(bytes[i]) - i16::from(ORDER[i]) - borrow;
        borrow = i16::from(digit < 0);
        out[i] = digit.rem_euclid(256) as u8;
    }
    out
}

fn small(number: u32) -> Scalar {
    let mut bytes = [0; 32];
    bytes[28..].copy_from_slice(&number.to_be_bytes());
    scalar(bytes)
}

fn times(a: SecretKey, b: &Scalar) -> SecretKey {
    a.mul_tweak(b).expect("neither factor is zero")
}

fn as_scalar(secret: &SecretKey) -> Scalar {
    scalar(secret.to_secret_bytes())
}

/// `secret` to the power of order - 2: its inverse (Fermat).
fn inverse(secret: &SecretKey) -> SecretKey {
    let mut exponent = ORDER;
    exponent[31] -= 2;
    let mut result: Option<SecretKey> = None;
    for bit in 0..256 {
        result = result.map(|r| times(r, &as_scalar(&r)));
        if exponent[bit / 8] >> (7 - bit % 8) & 1 == 1 {
            result = Some(result.map_or(*secret, |r| times(r, &as_scalar(secret))));
        }
    }
    result.expect("the exponent is not zero")
}

fn x_of(key: &PublicKey) -> ([u8; 32], bool) {
    let bytes = key.serialize();
    (bytes[1..].try_into().expect("32 bytes"), bytes[0] == 3)
}

fn make_nonces(seed: u64, count: usize) -> Vec<Nonce> {
    let mut random = stream(seed, 0x6e6f_6e63);
    let mut nonces: Vec<(SecretKey, [u8; 32])> = Vec::with_capacity(count);
    while nonces.len() < count {
        let Ok(secret) = SecretKey::from_secret_bytes(random.bytes()) else { continue };
        let (x, odd) = x_of(&PublicKey::from_secret_key(&secret));
        if x < ORDER {
            nonces.push((if odd { secret.negate() } else { secret }, x));
        }
    }
    // One inversion for all (Montgomery): products of all before, then back down.
    let mut products = Vec::with_capacity(count);
    let mut product = nonces[0].0;
    for (secret, _) in &nonces[1..] {
        products.push(product);
        product = times(product, &as_scalar(secret));
    }
    let mut rest = inverse(&product);
    let mut inverses = Vec::with_capacity(count);
    for index in (1..count).rev() {
        inverses.push(times(rest, &as_scalar(&products[index - 1])));
        rest = times(rest, &as_scalar(&nonces[index].0));
    }
    inverses.push(rest);
    let inverses = inverses.into_iter().rev();
    nonces.into_iter().zip(inverses).map(|((secret, x), inv)| Nonce { secret, inverse: as_scalar(&inv), x }).collect()
}

impl Keyring {
    /// Makes `count` keys under `seed`.
    pub fn new(seed: u64, count: u32, pool: &Pool) -> Keyring {
        let mut random = stream(seed, 0x6b65_7973);
        let base = loop {
            // The top bit off: adding any u32 stays below the order.
            let mut bytes: [u8; 32] = random.bytes();
            bytes[0] &= 0x7f;
            if let Ok(secret) = SecretKey::from_secret_bytes(bytes) {
                break secret;
            }
        };
        let pieces = (0..count).step_by(KEYS_PER_PIECE as usize);
        let one = PublicKey::from_secret_key(&SecretKey::from_secret_bytes(small(1).to_be_bytes()).expect("one"));
        let keys = pool.map(pieces, move |first| {
            let secret = base.add_tweak(&small(first)).expect("below the order");
            let mut key = PublicKey::from_secret_key(&secret);
            let mut keys = Vec::with_capacity(KEYS_PER_PIECE as usize);
            for _ in first..count.min(first + KEYS_PER_PIECE) {
                keys.push(key);
                key = key.combine(&one).expect("the sum is no point at infinity");
            }
            keys
        });
        let keys: Vec<PublicKey> = keys.into_iter().flatten().collect();
        let tweaked = (0..keys.len()).map(|_| OnceLock::new()).collect();
        let nonces = (keys.len() / KEYS_PER_NONCE).clamp(NONCES_MIN, NONCES_MAX);
        Keyring { base, keys, nonces: make_nonces(seed, nonces), tweaked }
    }

    /// Number of keys; an index beyond it begins again.
    pub fn count(&self) -> u32 {
        self.keys.len() as u32
    }

    fn at(&self, index: u32) -> usize {
        index as usize % self.keys.len()
    }

    /// The secret of key `index`.
    pub fn secret(&self, index: u32) -> SecretKey {
        self.base.add_tweak(&small(self.at(index) as u32)).expect("below the order")
    }

    /// Compressed form.
    pub fn compressed(&self, index: u32) -> [u8; 33] {
        self.keys[self.at(index)].serialize()
    }

    /// Uncompressed form.
    pub fn uncompressed(&self, index: u32) -> [u8; 65] {
        self.keys[self.at(index)].serialize_uncompressed()
    }

    /// Key `index` as BIP 340 uses it.
    pub fn signer(&self, index: u32) -> Signer {
        let (x, odd) = x_of(&self.keys[self.at(index)]);
        let secret = self.secret(index);
        Signer { secret: if odd { secret.negate() } else { secret }, x, odd }
    }

    /// The taproot output key of internal key `index` over a script tree (BIP 341, `taproot_tweak_seckey`).
    pub fn tweaked(&self, index: u32, root: Option<[u8; 32]>) -> Signer {
        match root {
            None => *self.tweaked[self.at(index)].get_or_init(|| self.tweak(index, None)),
            Some(_) => self.tweak(index, root),
        }
    }

    fn tweak(&self, index: u32, root: Option<[u8; 32]>) -> Signer {
        let internal = self.signer(index);
        let tweak = scalar(tagged("TapTweak", &[&internal.x, root.as_ref().map_or(&[][..], |root| &root[..])]));
        let secret = internal.secret.add_tweak(&tweak).expect("the sum is not zero");
        let point = XOnlyPublicKey::from_byte_array(internal.x).expect("on the curve").public_key(Parity::Even);
        let (x, odd) = x_of(&point.add_exp_tweak(&tweak).expect("the sum is no point at infinity"));
        Signer { secret: if odd { secret.negate() } else { secret }, x, odd }
    }

    fn nonce(&self, digest: &[u8; 32], secret: &SecretKey) -> &Nonce {
        // Chosen by message and key, so a run repeats; a fold is enough to spread.
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
        let mixed = word(digest) ^ word(&secret.to_secret_bytes()[24..]).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.nonces[(mixed >> 16) as usize % self.nonces.len()]
    }

    /// ECDSA, DER, `s` low.
    pub fn ecdsa(&self, secret: &SecretKey, digest: &[u8; 32]) -> Vec<u8> {
        let nonce = self.nonce(digest, secret);
        let sum = times(*secret, &scalar(nonce.x)).add_tweak(&scalar(*digest)).expect("the sum is not zero");
        let mut s = times(sum, &nonce.inverse);
        if s.to_secret_bytes() > HALF_ORDER {
            s = s.negate();
        }
        der(&nonce.x, &s.to_secret_bytes())
    }

    /// BIP 340.
    pub fn schnorr(&self, signer: &Signer, digest: &[u8; 32]) -> [u8; 64] {
        let nonce = self.nonce(digest, &signer.secret);
        let challenge = scalar(tagged("BIP0340/challenge", &[&nonce.x, &signer.x, digest]));
        let s = times(signer.secret, &challenge).add_tweak(&as_scalar(&nonce.secret)).expect("the sum is not zero");
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&nonce.x);
        signature[32..].copy_from_slice(&s.to_secret_bytes());
        signature
    }

    /// The keypair of libsecp256k1, for whoever wants its signatures instead.
    pub fn keypair(&self, index: u32) -> Keypair {
        Keypair::from_secret_key(&self.secret(index))
    }
}

/// DER of two positive integers (X.690 8.3: no leading zero byte but one before a set top bit).
pub fn der(r: &[u8; 32], s: &[u8; 32]) -> Vec<u8> {
    let mut out = vec![0x30, 0];
    for number in [r, s] {
        let first = number.iter().position(|&byte| byte != 0).unwrap_or(31);
        let pad = number[first] >= 0x80;
        out.extend_from_slice(&[2, (32 - first + usize::from(pad)) as u8]);
        if pad {
            out.push(0);
        }
        out.extend_from_slice(&number[first..]);
    }
    out[1] = (out.len() - 2) as u8;
    out
}

/// Keys shared between threads.
pub type SharedKeys = Arc<Keyring>;

#[cfg(test)]
mod tests {
    use super::*;
    use secp256k1::{ecdsa, schnorr};

    #[test]
    fn libsecp256k1_accepts_both_kinds_of_signature() {
        let keys = Keyring::new(7, 5000, &Pool::new("test", 1));
        for index in [0, 1, 2, 4095, 4096, 4999] {
            let public = PublicKey::from_secret_key(&keys.secret(index));
            assert_eq!(public.serialize(), keys.compressed(index));
            assert_eq!(public.serialize_uncompressed(), keys.uncompressed(index));
            for round in 0..20u8 {
                let digest = primitives::hash::sha256(&[round, index as u8]);
                let signature = ecdsa::Signature::from_der(&keys.ecdsa(&keys.secret(index), &digest)).unwrap();
                let mut low = signature;
                low.normalize_s();
                assert_eq!(low, signature, "s is low");
                let message = secp256k1::Message::from_digest(digest);
                ecdsa::verify(&signature, message, &public).unwrap();

                let signer = keys.tweaked(index, (round % 2 == 1).then_some(digest));
                let x_only = XOnlyPublicKey::from_byte_array(signer.x).unwrap();
                let signature = schnorr::Signature::from_byte_array(keys.schnorr(&signer, &digest));
                schnorr::verify(&signature, &digest, &x_only).unwrap();
            }
        }
    }

    #[test]
    fn numbers_are_reduced_once_at_the_order() {
        assert_eq!(reduced(ORDER), [0; 32]);
        let mut below = ORDER;
        below[31] -= 1;
        assert_eq!(reduced(below), below);
        let mut want = [0u8; 32];
        want[31] = 1;
        let mut above = ORDER;
        above[31] += 1;
        assert_eq!(reduced(above), want);
    }
}
