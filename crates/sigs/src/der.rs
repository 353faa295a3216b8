//! ECDSA signatures out of the encodings the chain holds.
//!
//! In:     signature bytes without the hash type byte ([`parse_der_lax`]) or with it ([`is_strict_der`]).
//! Out:    r and s as 64 bytes; or whether the encoding is the strict one of BIP 66.
//! Fails:  `None` exactly where Core's `ecdsa_signature_parse_der_lax` returns 0.
//! Source: Core's pubkey.cpp (`ecdsa_signature_parse_der_lax`) and script/interpreter.cpp (`IsValidSignatureEncoding`).

/// Reads a signature as leniently as the chain before BIP 66 demands.
///
/// A number longer than 32 bytes makes both zero, as in Core: parsed, and refused by every key.
#[inline]
pub fn parse_der_lax(signature: &[u8]) -> Option<[u8; 64]> {
    let mut cursor = Cursor { bytes: signature };
    cursor.tag(0x30)?;
    cursor.skip_sequence_length()?;
    let r = cursor.integer()?;
    let s = cursor.integer()?;
    let mut both = [0; 64];
    if r.len() <= 32 && s.len() <= 32 {
        both[32 - r.len()..32].copy_from_slice(r);
        both[64 - s.len()..].copy_from_slice(s);
    }
    Some(both)
}

struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(first)
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    fn tag(&mut self, want: u8) -> Option<()> {
        (self.byte()? == want).then_some(())
    }

    /// The sequence's length is stepped over and never compared with anything.
    fn skip_sequence_length(&mut self) -> Option<()> {
        let length = self.byte()?;
        if length & 0x80 != 0 {
            self.take(usize::from(length - 0x80))?;
        }
        Some(())
    }

    /// The digits of an integer without leading zeros; a sign bit is not looked at.
    fn integer(&mut self) -> Option<&'a [u8]> {
        self.tag(0x02)?;
        let length = self.integer_length()?;
        Some(without_leading_zeros(self.take(length)?))
    }

    fn integer_length(&mut self) -> Option<usize> {
        let length = self.byte()?;
        if length & 0x80 == 0 {
            return Some(usize::from(length));
        }
        let digits = without_leading_zeros(self.take(usize::from(length - 0x80))?);
        // Four digits or more could not be reached by any script element (520 bytes).
        if digits.len() >= 4 {
            return None;
        }
        Some(digits.iter().fold(0, |value, &digit| value << 8 | usize::from(digit)))
    }
}

fn without_leading_zeros(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().take_while(|&&digit| digit == 0).count();
    &digits[zeros..]
}

/// True for the one encoding BIP 66 allows; `signature` ends with its hash type byte.
pub fn is_strict_der(signature: &[u8]) -> bool {
    let length = signature.len();
    if !(9..=73).contains(&length) || signature[0] != 0x30 || usize::from(signature[1]) != length - 3 {
        return false;
    }
    let r_length = usize::from(signature[3]);
    if 5 + r_length >= length {
        return false;
    }
    let s_length = usize::from(signature[5 + r_length]);
    if r_length + s_length + 7 != length {
        return false;
    }
    is_strict_integer(signature[2], &signature[4..4 + r_length])
        && is_strict_integer(signature[4 + r_length], &signature[6 + r_length..6 + r_length + s_length])
}

/// Not empty, not negative, no zero in front that is not needed.
fn is_strict_integer(tag: u8, digits: &[u8]) -> bool {
    match digits {
        [] => false,
        [0, next, ..] => tag == 0x02 && next & 0x80 != 0,
        [first, ..] => tag == 0x02 && first & 0x80 == 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lax_reading_takes_what_the_old_chain_holds() {
        #[track_caller]
        fn check(hex: &str, want: Option<(u8, u8)>) {
            let got = parse_der_lax(&stdx::hex::decode(hex).unwrap());
            assert_eq!(got.map(|both| (both[31], both[63])), want, "{hex}");
        }
        check("3006020101020102", Some((1, 2)));
        // Wrong sequence lengths, long forms, zeros in front, bytes behind.
        check("3000020101020102", Some((1, 2)));
        check("30ff", None);
        check("308106020101020102", Some((1, 2)));
        check("30060281010102820001020f", Some((1, 2)));
        check("3006028400000001010201020f", Some((1, 2)));
        check("30060284010000010102010200", None);
        check("30080202000102020002", Some((1, 2)));
        check("300602010102010200ffee", Some((1, 2)));
        // Empty numbers are zero; a number beyond 32 bytes makes both zero.
        check("300402000200", Some((0, 0)));
        check(&format!("302602010102 21{}", "11".repeat(33)).replace(' ', ""), Some((0, 0)));
        check(&format!("302602010102 21 00{}", "11".repeat(32)).replace(' ', ""), Some((1, 0x11)));
        // Cuts and wrong tags.
        for (hex, want) in [("", None), ("30", None), ("3106020101020102", None), ("3006030101020102", None)] {
            check(hex, want);
        }
        let whole = stdx::hex::decode("3006020101020102").unwrap();
        for end in 0..whole.len() {
            assert_eq!(parse_der_lax(&whole[..end]), None, "{end}");
        }
    }

    #[test]
    fn strict_der_is_one_encoding_only() {
        #[track_caller]
        fn check(hex: &str, want: bool) {
            assert_eq!(is_strict_der(&stdx::hex::decode(hex).unwrap()), want, "{hex}");
        }
        check("300602010102010201", true);
        check("3006020101020102", false); // the hash type is missing: 8 bytes
        check("300702010102010201", false);
        check("310602010102010201", false);
        check("300603010102010201", false);
        check("300602010103010201", false);
        check("300602018102010201", false);
        check("300602010102018201", false);
        check("30070202000102010201", false);
        check("30070202008102010201", true);
        check("30070201010202000201", false);
        check("30070201010202008201", true);
        check("3005020002010201", false);
        check("30060200020201020101", false);
        check("300602010002010001", true);
        check(&format!("30460221 00{}022100{}01", "ff".repeat(32), "ff".repeat(32)).replace(' ', ""), true);
    }

    #[test]
    fn lax_reading_is_libsecp256k1s() {
        let mut random = stdx::random::Random::new(66);
        let base = stdx::hex::decode(
            "3045022100a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f900220112233445566778899aabbccddeeff0011\
             2233445566778899aabbccddeeff00",
        )
        .unwrap();
        for _ in 0..50_000 {
            let mut bytes = base.clone();
            for _ in 0..random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                match random.below(4) {
                    0 => bytes[at] = random.next_u64() as u8,
                    1 => bytes[at] ^= 1 << random.below(8),
                    2 => bytes.truncate(at),
                    _ => bytes.insert(at, random.below(3) as u8),
                }
                if bytes.is_empty() {
                    break;
                }
            }
            let want = secp256k1::ecdsa::Signature::from_der_lax(&bytes).ok().map(|sig| sig.serialize_compact());
            // Above the group order libsecp256k1 zeroes both numbers; the engines refuse such rows themselves.
            let got = parse_der_lax(&bytes).map(|both| {
                secp256k1::ecdsa::Signature::from_compact(&both).map_or([0; 64], |sig| sig.serialize_compact())
            });
            assert_eq!(got, want, "{bytes:02x?}");
        }
    }
}
