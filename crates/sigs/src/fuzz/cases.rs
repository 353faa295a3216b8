//! Signatures of every kind, made from few secrets by arithmetic modulo n.
//!
//! In:     a seed; what a case is to be about.
//! Out:    rows, the same for the same seed, forever.
//! Fails:  never.
//! Source: docs/signatures.md, "Trials". Keys and nonces come from a pool, so that a row costs no multiplication on the
//!         curve: some 2 us instead of 60.

use secp256k1::{PublicKey, SecretKey};
use stdx::random::Random;

use super::Kind;
use super::meeting::Meeting;
use crate::check::{Check, PublicKeyBytes};
use crate::number::order::{N_WORDS, Scalar};

/// Random secrets and nonces made once; every pair of them signs differently.
const POOL: usize = 512;
/// Small multiples of G: |u1 + u2 d| with |u1|, |u2| <= 20 and d <= 12.
const SMALL_MAX: u64 = 260;
/// Points whose x is at or above n.
const WRAPPED: usize = 64;

/// A secret and its point.
#[derive(Clone, Copy)]
struct Pair {
    secret: Scalar,
    inverse: Scalar,
    /// Uncompressed.
    point: [u8; 65],
}

impl Pair {
    fn new(secret: Scalar) -> Option<Pair> {
        let key = SecretKey::from_secret_bytes(secret.to_bytes()).ok()?;
        let point = PublicKey::from_secret_key(&key).serialize_uncompressed();
        Some(Pair { secret, inverse: secret.invert(), point })
    }

    fn x(&self) -> [u8; 32] {
        self.point[1..33].try_into().expect("32 bytes")
    }

    fn is_odd(&self) -> bool {
        self.point[64] & 1 == 1
    }

    /// The secret of the point with the same x and an even y.
    fn even_secret(&self) -> Scalar {
        if self.is_odd() { self.secret.negate() } else { self.secret }
    }

    fn compressed(&self) -> PublicKeyBytes {
        key_bytes(&[&[2 + u8::from(self.is_odd())], &self.point[1..33]].concat())
    }
}

fn key_bytes(key: &[u8]) -> PublicKeyBytes {
    PublicKeyBytes::new(key).expect("a key's first byte and length")
}

fn join(r: &[u8; 32], s: Scalar) -> [u8; 64] {
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(r);
    signature[32..].copy_from_slice(&s.to_bytes());
    signature
}

/// A number modulo n; negative ones too.
pub fn small(number: i64) -> Scalar {
    let mut bytes = [0; 32];
    bytes[24..].copy_from_slice(&number.unsigned_abs().to_be_bytes());
    let scalar = Scalar::from_bytes(&bytes).expect("64 bits");
    if number < 0 { scalar.negate() } else { scalar }
}

/// Makes cases.
pub struct Maker {
    random: Random,
    pool: Vec<Pair>,
    /// i G for i from 1.
    multiples: Vec<Pair>,
    /// Good rows whose R has an x at or above n.
    wrapped: Vec<Check>,
}

impl Maker {
    /// The first case of a seed comes next.
    pub fn new(seed: u64) -> Maker {
        let mut maker =
            Maker { random: Random::new(seed), pool: Vec::new(), multiples: Vec::new(), wrapped: Vec::new() };
        while maker.pool.len() < POOL {
            let secret = maker.scalar();
            maker.pool.extend(Pair::new(secret));
        }
        maker.multiples = (1..=SMALL_MAX as i64).filter_map(|number| Pair::new(small(number))).collect();
        let mut x_minus_n = maker.random.below(1 << 40);
        while maker.wrapped.len() < WRAPPED {
            x_minus_n += 1;
            let check = maker.wrapped_check(small(x_minus_n as i64));
            maker.wrapped.extend(check);
        }
        maker
    }

    fn scalar(&mut self) -> Scalar {
        Scalar::from_bytes_reduced(&self.random.bytes())
    }

    /// What the next case is about, drawn by the shares.
    pub fn kind(&mut self) -> Kind {
        let mut left = self.random.below(Kind::ALL.iter().map(|kind| kind.share()).sum());
        for kind in Kind::ALL {
            match left.checked_sub(kind.share()) {
                Some(rest) => left = rest,
                None => return kind,
            }
        }
        unreachable!("the shares add up")
    }

    fn pair(&mut self) -> Pair {
        self.pool[self.random.below(POOL as u64) as usize]
    }

    /// A case of that kind.
    pub fn check(&mut self, kind: Kind) -> Check {
        match kind {
            Kind::Ecdsa => self.ecdsa(),
            Kind::Schnorr => self.schnorr(false),
            Kind::OddNonce => self.schnorr(true),
            Kind::Corrupted => self.corrupted(),
            Kind::Small => self.small(),
            Kind::Wrapped => self.wrapped(),
            Kind::Infinity => self.infinity(),
            Kind::OffCurve => self.off_curve(),
            Kind::Exception => self.exception(),
        }
    }

    /// s = (m + r d) / k.
    fn ecdsa(&mut self) -> Check {
        let (key, nonce, message) = (self.pair(), self.pair(), self.random.bytes());
        let r = nonce.x();
        let sum = Scalar::from_bytes_reduced(&message).plus(Scalar::from_bytes_reduced(&r).times(key.secret));
        let s = sum.times(nonce.inverse);
        let s = if self.random.chance(1, 4) { s.negate() } else { s };
        let parity = u8::from(key.is_odd());
        let form = match self.random.below(8) {
            0 => key_bytes(&key.point),
            1 => key_bytes(&[&[6 + parity], &key.point[1..]].concat()),
            _ => key.compressed(),
        };
        Check::Ecdsa { key: form, signature: join(&r, s), message }
    }

    /// s = k + e d, where k is that of an even R unless `odd` asks for the other.
    fn schnorr(&mut self, odd: bool) -> Check {
        let (key, nonce, message) = (self.pair(), self.pair(), self.random.bytes());
        let k = if odd { nonce.even_secret().negate() } else { nonce.even_secret() };
        let e = challenge(&nonce.x(), &key.x(), &message);
        let signature = join(&nonce.x(), k.plus(e.times(key.even_secret())));
        Check::Schnorr { key: key.x(), signature, message }
    }

    fn corrupted(&mut self) -> Check {
        let mut check = if self.random.chance(1, 2) { self.ecdsa() } else { self.schnorr(false) };
        let (bit, edge) = (self.random.below(256) as usize, self.edge());
        let flip = |bytes: &mut [u8]| bytes[bit / 8] ^= 1 << (bit % 8);
        let (signature, message) = match &mut check {
            Check::Ecdsa { signature, message, .. } | Check::Schnorr { signature, message, .. } => (signature, message),
        };
        match self.random.below(8) {
            0 => flip(&mut signature[..32]),
            1 => flip(&mut signature[32..]),
            2 => flip(message),
            3 => signature[..32].copy_from_slice(&edge),
            4 => signature[32..].copy_from_slice(&edge),
            5 => *message = edge,
            choice => match &mut check {
                Check::Schnorr { key, .. } if choice == 6 => flip(key),
                Check::Schnorr { key, .. } => *key = edge,
                Check::Ecdsa { key, .. } => {
                    let mut bytes = key.as_slice().to_vec();
                    match self.random.below(4) {
                        0 => bytes[0] ^= 1,
                        1 => bytes[1..33].copy_from_slice(&edge),
                        2 => flip(&mut bytes[1..33]),
                        _ => flip(bytes.last_chunk_mut::<32>().expect("33 bytes or more")),
                    }
                    // A first byte of 5 is no key at all.
                    *key = PublicKeyBytes::new(&bytes).unwrap_or(*key);
                }
            },
        }
        check
    }

    /// A number at the edge of a range: 0, 1, n - 1, n, n + 1, p - 1, p, 2^256 - 1 and the like.
    fn edge(&mut self) -> [u8; 32] {
        let near = self.random.below(3);
        let words = match self.random.below(5) {
            0 => [near, 0, 0, 0],
            1 => [N_WORDS[0] - 1 + near, N_WORDS[1], N_WORDS[2], N_WORDS[3]],
            2 => [0xffff_fffe_ffff_fc2e + near, u64::MAX, u64::MAX, u64::MAX],
            3 => [u64::MAX - near, u64::MAX, u64::MAX, u64::MAX],
            // Half of n.
            _ => [0xdfe9_2f46_681b_209f + near, 0x5d57_6e73_57a4_501d, u64::MAX, 0x7fff_ffff_ffff_ffff],
        };
        let mut bytes = [0; 32];
        for (chunk, word) in bytes.chunks_mut(8).zip(words.iter().rev()) {
            chunk.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    /// From u1, u2 and d: R = (u1 + u2 d) G, r = x(R), s = r / u2, m = u1 s.
    fn small(&mut self) -> Check {
        loop {
            let mut signed = |most: u64| self.random.below(2 * most + 1) as i64 - most as i64;
            let (u1, u2) = (signed(20), signed(20));
            let d = 1 + self.random.below(12) as i64;
            let k = u1 + u2 * d;
            if u2 == 0 || k == 0 {
                continue;
            }
            let r = self.multiples[k.unsigned_abs() as usize - 1].x();
            let s = Scalar::from_bytes_reduced(&r).times(small(u2).invert());
            let message = small(u1).times(s).to_bytes();
            let key = self.multiples[d as usize - 1].compressed();
            return Check::Ecdsa { key, signature: join(&r, s), message };
        }
    }

    fn wrapped(&mut self) -> Check {
        let mut check = self.wrapped[self.random.below(WRAPPED as u64) as usize];
        if let (Check::Ecdsa { signature, .. }, true) = (&mut check, self.random.chance(1, 4)) {
            signature[31] ^= 1;
        }
        check
    }

    /// R has x = r + n; Q = (s R - m G) / r for any s and m.
    fn wrapped_check(&mut self, r: Scalar) -> Option<Check> {
        let mut x = [2; 33];
        let mut carry = 0;
        for (at, (order, digit)) in bytes_of(N_WORDS).iter().zip(r.to_bytes()).enumerate().rev() {
            carry += u16::from(*order) + u16::from(digit);
            x[at + 1] = carry as u8;
            carry >>= 8;
        }
        let point = PublicKey::from_slice(&x).ok()?;
        let (s, message, inverse) = (self.scalar(), self.random.bytes(), r.invert());
        let m = Scalar::from_bytes_reduced(&message);
        let tweak = |scalar: Scalar| secp256k1::Scalar::from_be_bytes(scalar.to_bytes()).expect("below n");
        let key = point.mul_tweak(&tweak(s.times(inverse))).ok()?;
        let key = key.add_exp_tweak(&tweak(m.times(inverse).negate())).ok()?;
        let signature = join(&r.to_bytes(), s);
        Some(Check::Ecdsa { key: key_bytes(&key.serialize()), signature, message })
    }

    /// u1 + u2 d = 0: m = -r d, or s = e d.
    fn infinity(&mut self) -> Check {
        let key = self.pair();
        if self.random.chance(1, 2) {
            let (r, message) = (self.pair().x(), self.random.bytes());
            let s = challenge(&r, &key.x(), &message).times(key.even_secret());
            return Check::Schnorr { key: key.x(), signature: join(&r, s), message };
        }
        let (r, s) = (self.scalar(), self.scalar());
        let message = r.times(key.secret).negate().to_bytes();
        Check::Ecdsa { key: key.compressed(), signature: join(&r.to_bytes(), s), message }
    }

    fn off_curve(&mut self) -> Check {
        let mut check = if self.random.chance(1, 2) { self.ecdsa() } else { self.schnorr(false) };
        let random: [u8; 32] = self.random.bytes();
        match &mut check {
            Check::Schnorr { key, .. } => *key = random,
            Check::Ecdsa { key, .. } => {
                let point = self.pair().point;
                // An x without a point in half of the cases; another point's y; a y with one bit changed.
                *key = match self.random.below(3) {
                    0 => key_bytes(&[&[2 + (random[0] & 1)], &random[..]].concat()),
                    1 => key_bytes(&[&[4], &key.as_slice()[1..33], &point[33..]].concat()),
                    _ => {
                        let mut bytes = point;
                        bytes[33 + usize::from(random[0] % 32)] ^= 1 << (random[1] % 8);
                        key_bytes(&bytes)
                    }
                };
            }
        }
        check
    }

    /// Chooses u1 and u2, reads their digits, and solves for the secret that makes two points meet.
    fn exception(&mut self) -> Check {
        loop {
            let (u1, u2, choice) = (self.scalar(), self.scalar(), self.random.next_u64());
            let Some(key) = Pair::new(Meeting::of(u1, u2).secret(choice)) else { continue };
            let Some(nonce) = Pair::new(u1.plus(u2.times(key.secret))) else { continue };
            let s = Scalar::from_bytes_reduced(&nonce.x()).times(u2.invert());
            let message = u1.times(s).to_bytes();
            return Check::Ecdsa { key: key.compressed(), signature: join(&nonce.x(), s), message };
        }
    }
}

/// 32 bytes, big endian.
pub fn bytes_of(words: [u64; 4]) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (chunk, word) in bytes.chunks_mut(8).zip(words.iter().rev()) {
        chunk.copy_from_slice(&word.to_be_bytes());
    }
    bytes
}

fn challenge(r: &[u8; 32], key: &[u8; 32], message: &[u8; 32]) -> Scalar {
    use bitcoin_hashes::{HashEngine, sha256};
    let mut engine = sha256::Midstate::hash_tag(b"BIP0340/challenge").to_engine();
    for part in [r, key, message] {
        engine.input(part);
    }
    Scalar::from_bytes_reduced(&sha256::Hash::from_engine(engine).to_byte_array())
}
