//! Whether an output key is an internal key plus a tweak: the curve part of a taproot commitment.
//!
//! In:     x coordinate and parity of the output key, x coordinate of the internal key, the 32-byte tweak.
//! Out:    `true` where output = internal + tweak * G with that parity.
//! Fails:  never; an x off the curve or a tweak at or above the group order is `false`.
//! Source: BIP 341; Core's `XOnlyPubKey::CheckTapTweak` after its hash is computed.

use secp256k1::{Parity, Scalar, XOnlyPublicKey};

/// True where `output` (with an odd y if `odd`) is `internal` plus `tweak` times the generator.
pub fn tweak_add_check(output: &[u8; 32], odd: bool, internal: &[u8; 32], tweak: &[u8; 32]) -> bool {
    let Ok(internal) = XOnlyPublicKey::from_byte_array(*internal) else { return false };
    // libsecp256k1 compares bytes, so an output off the curve is refused by the comparison; here it is refused earlier.
    let Ok(output) = XOnlyPublicKey::from_byte_array(*output) else { return false };
    let Ok(tweak) = Scalar::from_be_bytes(*tweak) else { return false };
    let parity = if odd { Parity::Odd } else { Parity::Even };
    internal.tweak_add_check(&output, parity, tweak)
}

#[cfg(test)]
mod tests {
    use super::*;
    use secp256k1::Keypair;

    #[test]
    fn one_changed_part_breaks_the_sum() {
        let internal = Keypair::from_secret_bytes([7; 32]).unwrap().x_only_public_key().0;
        for byte in 1..40 {
            let tweak = [byte; 32];
            let (output, parity) = internal.add_tweak(&Scalar::from_be_bytes(tweak).unwrap()).unwrap();
            let (output, odd, internal) = (output.to_byte_array(), parity == Parity::Odd, internal.to_byte_array());
            assert!(tweak_add_check(&output, odd, &internal, &tweak));
            assert!(!tweak_add_check(&output, !odd, &internal, &tweak));
            assert!(!tweak_add_check(&output, odd, &internal, &[byte + 1; 32]));
            assert!(!tweak_add_check(&internal, odd, &internal, &tweak));
            assert!(!tweak_add_check(&output, odd, &output, &tweak));
        }
        let key = internal.to_byte_array();
        assert!(!tweak_add_check(&key, false, &[0xff; 32], &[1; 32]), "no such point");
        assert!(!tweak_add_check(&key, false, &key, &[0xff; 32]), "tweak above the group order");
        assert!(tweak_add_check(&key, false, &key, &[0; 32]), "the zero tweak changes nothing");
    }
}
