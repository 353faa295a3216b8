//! What the rules of policy ask of a template beyond consensus.
//!
//! In:     parts of an input that a template has recognised.
//! Out:    whether Core's interpreter would let them pass under [`crate::Flags::POLICY`] too.
//! Fails:  never. A no only costs time: the interpreter decides, and names the rule.
//! Source: Core's script/interpreter.cpp (`CheckMinimalPush`, `CheckSignatureEncoding`, `CheckPubKeyEncoding`).
//!
//! The other rules of policy cannot be broken by a template that consensus would pass: a clean stack (a template takes
//! exactly the elements it uses), NULLFAIL (every signature counts), no OP_CODESEPARATOR, no reserved opcode or version.

use super::template::Version;

/// Half of the group's order; a signature's s above it could be negated by anyone.
const HALF_ORDER: [u8; 32] = [
    0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x5d, 0x57, 0x6e,
    0x73, 0x57, 0xa4, 0x50, 0x1d, 0xdf, 0xe9, 0x2f, 0x46, 0x68, 0x1b, 0x20, 0xa0,
];

/// True where every push of `script` is the shortest there is (MINIMALDATA); any other operation is a no.
pub(super) fn pushes(script: &[u8]) -> bool {
    let mut rest = script;
    while let Some((&opcode, after)) = rest.split_first() {
        let (length, head, least) = match (opcode, after) {
            (0..=75, _) => (usize::from(opcode), 0, 0),
            (76, [length, ..]) => (usize::from(*length), 1, 76),
            (77, [low, high, ..]) => (usize::from(*low) | usize::from(*high) << 8, 2, 256),
            _ => return false,
        };
        let Some(item) = after.get(head..head + length) else { return false };
        if length < least || matches!(item, [1..=16 | 0x81]) {
            return false;
        }
        rest = &after[head + length..];
    }
    true
}

/// STRICTENC and LOW_S: a defined hash type, and the lower one of the two values of s.
pub(super) fn signature(hash_type: u8, signature: &[u8; 64]) -> bool {
    (1..=3).contains(&(hash_type & 0x7f)) && signature[32..] <= HALF_ORDER[..]
}

/// STRICTENC and WITNESS_PUBKEYTYPE: compressed, or uncompressed before segwit.
pub(super) fn key(key: &[u8], version: Version) -> bool {
    match key {
        [2 | 3, x @ ..] => x.len() == 32,
        [4, both @ ..] => both.len() == 64 && version == Version::Base,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shortest_pushes_pass() {
        #[track_caller]
        fn check(script: &[u8], want: bool) {
            assert_eq!(pushes(script), want, "{script:02x?}");
        }
        check(&[], true);
        check(&[0], true);
        check(&[1, 0], true);
        check(&[1, 1], false);
        check(&[1, 16], false);
        check(&[1, 17], true);
        check(&[1, 0x80], true);
        check(&[1, 0x81], false);
        check(&[1], false);
        check(&[76, 75].iter().copied().chain([9; 75]).collect::<Vec<_>>(), false);
        check(&[76, 76].iter().copied().chain([9; 76]).collect::<Vec<_>>(), true);
        check(&[77, 255, 0].iter().copied().chain([9; 255]).collect::<Vec<_>>(), false);
        check(&[77, 0, 1].iter().copied().chain([9; 256]).collect::<Vec<_>>(), true);
        check(&[78, 1, 0, 0, 0, 9], false);
        check(&[0x51], false);
    }

    #[test]
    fn hash_types_and_s_have_edges() {
        #[track_caller]
        fn check(hash_type: u8, last: u8, want: bool) {
            let mut bytes = [1; 64];
            bytes[32..].copy_from_slice(&HALF_ORDER);
            bytes[63] = last;
            assert_eq!(signature(hash_type, &bytes), want, "{hash_type:02x} {last:02x}");
        }
        for hash_type in [1, 2, 3, 0x81, 0x82, 0x83] {
            check(hash_type, 0xa0, true);
            check(hash_type, 0xa1, false);
        }
        for hash_type in [0, 4, 0x80, 0x84, 0x41, 0xff] {
            check(hash_type, 0xa0, false);
        }
    }

    #[test]
    fn keys_are_compressed_in_witnesses() {
        for (first, length, base, witness) in [
            (2, 33, true, true),
            (3, 33, true, true),
            (4, 65, true, false),
            (6, 65, false, false),
            (2, 65, false, false),
        ] {
            let bytes: Vec<u8> = std::iter::once(first).chain(vec![7; length - 1]).collect();
            assert_eq!(key(&bytes, Version::Base), base, "{first}");
            assert_eq!(key(&bytes, Version::WitnessV0), witness, "{first}");
        }
    }
}
