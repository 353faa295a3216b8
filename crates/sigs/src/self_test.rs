//! Rows with known answers, which an engine must give before it is trusted.
//!
//! In:     nothing.
//! Out:    rows of both kinds, good ones and the same with one bit changed, their verdicts and hints.
//! Fails:  never.
//! Source: BIP 340's test vectors 0 and 1; the rest is signed by libsecp256k1 with fixed keys (RFC 6979, no chance).

use bitcoin_hashes::sha256;
use secp256k1::{Keypair, Message, ecdsa, schnorr};

use crate::check::{Check, Hint, PublicKeyBytes};

/// Keys; each signs twice. With the published rows this fills more than one group of eight, and not the last one.
const KEYS: u8 = 25;

/// Key, message, signature of BIP 340's vectors 0 and 1.
const PUBLISHED: [[&str; 3]; 2] = [
    [
        "f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "e907831f80848d1069a5371b402410364bdf1c5f8307b0084c55f1ce2dca821525f66a4a85ea8b71e482a74f382d2ce5ebeee8fdb2172f477df4900d310536c0",
    ],
    [
        "dff1d77f2a671c5f36183726db2341be58feae1da2deced843240f7b502ba659",
        "243f6a8885a308d313198a2e03707344a4093822299f31d0082efa98ec4e6c89",
        "6896bd60eeae296db48a229ff71dfe071bde413e6d43f917dc8dcf8c78de33418906d11ac976abccb20b091292bff4ea897efcb639ea871cfa95f6de339e4b0a",
    ],
];

/// The rows, and whether each is good.
pub fn rows() -> (Vec<Check>, Vec<bool>) {
    let mut good: Vec<Check> = PUBLISHED.iter().map(published).collect();
    for number in 1..=KEYS {
        good.extend(signed(number));
    }
    let bad: Vec<Check> = good.iter().enumerate().map(|(number, check)| changed(check, number)).collect();
    // Good and bad ones in turns, so that each lane sees both.
    let mixed = good.into_iter().zip(bad).flat_map(|(good, bad)| [good, bad]).collect::<Vec<_>>();
    let want = (0..mixed.len()).map(|row| row % 2 == 0).collect();
    (mixed, want)
}

/// Whether y(R) is odd in the good ECDSA row of each key, the first one's in the lowest bit. Their s is low.
const ODD_NONCES: u32 = 0x12d_909e;

/// The right hints for the good rows of [`rows`], in the same places; bad ones have their good twin's.
pub fn hints() -> Vec<Hint> {
    let mut good = vec![Hint::Unknown; PUBLISHED.len()];
    for number in 0..KEYS {
        good.extend([if ODD_NONCES >> number & 1 == 1 { Hint::Odd } else { Hint::Even }, Hint::Unknown]);
    }
    good.into_iter().flat_map(|hint| [hint; 2]).collect()
}

fn published([key, message, signature]: &[&str; 3]) -> Check {
    fn bytes<const N: usize>(text: &str) -> [u8; N] {
        stdx::hex::decode_array(text).expect("written above")
    }
    Check::Schnorr { key: bytes(key), message: bytes(message), signature: bytes(signature) }
}

/// One row of each kind by the key of that number.
fn signed(number: u8) -> [Check; 2] {
    // Hashes, because multiples of one secret would make points meet in a batch.
    let secret = sha256::Hash::hash(&[number]).to_byte_array();
    let pair = Keypair::from_secret_bytes(secret).expect("a secret below n, not zero");
    let message = [number.wrapping_mul(37); 32];
    let key = match number % 3 {
        0 => pair.public_key().serialize_uncompressed().to_vec(),
        _ => pair.public_key().serialize().to_vec(),
    };
    let ecdsa = ecdsa::sign(Message::from_digest(message), &pair.secret_key()).serialize_compact();
    let schnorr = schnorr::sign_no_aux_rand(&message, &pair).to_byte_array();
    [
        Check::Ecdsa { key: PublicKeyBytes::new(&key).expect("a key"), signature: ecdsa, message },
        Check::Schnorr { key: pair.x_only_public_key().0.to_byte_array(), signature: schnorr, message },
    ]
}

/// The row with one bit of its signature or message changed.
fn changed(check: &Check, number: usize) -> Check {
    let mut check = *check;
    let (Check::Ecdsa { signature, message, .. } | Check::Schnorr { signature, message, .. }) = &mut check;
    match number % 3 {
        0 => message[number % 32] ^= 1 << (number % 8),
        1 => signature[number % 32] ^= 1 << (number % 8),
        _ => signature[32 + number % 32] ^= 1 << (number % 8),
    }
    check
}

/// The right hint for a good row: the parity of y(u1 G + u2 Q), by libsecp256k1.
#[cfg(test)]
pub fn right_hint(check: &Check) -> Hint {
    use crate::number::order::Scalar;
    let Check::Ecdsa { key, signature, message } = check else { return Hint::Unknown };
    let number = |bytes: &[u8]| Scalar::from_bytes_reduced(bytes.try_into().unwrap());
    let (r, inverse) = (number(&signature[..32]), number(&signature[32..]).invert());
    let tweak = |scalar: Scalar| secp256k1::Scalar::from_be_bytes(scalar.to_bytes()).unwrap();
    let key = secp256k1::PublicKey::from_slice(key.as_slice()).unwrap();
    let point = key.mul_tweak(&tweak(r.times(inverse))).unwrap();
    let point = point.add_exp_tweak(&tweak(number(message).times(inverse))).unwrap().serialize();
    assert_eq!(point[1..], signature[..32], "a good row");
    if point[0] == 3 { Hint::Odd } else { Hint::Even }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify_one;

    #[test]
    fn the_hints_are_libsecp256k1s() {
        let (rows, hints) = (rows().0, hints());
        assert_eq!(rows.len(), hints.len());
        for (row, hint) in rows.iter().zip(hints).step_by(2) {
            assert_eq!(right_hint(row), hint, "{row:x?}");
        }
    }

    #[test]
    fn the_answers_are_libsecp256k1s() {
        let (rows, want) = rows();
        assert_eq!(rows.len(), 104);
        for (row, want) in rows.iter().zip(want) {
            assert_eq!(verify_one(row), want, "{row:?}");
        }
    }
}
