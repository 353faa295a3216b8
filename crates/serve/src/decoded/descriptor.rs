//! The output descriptor that stands for a script, and the checksum of descriptors.
//!
//! In:     an output script; text of a descriptor.
//! Out:    the descriptor of a script about which nothing else is known, with its checksum.
//! Fails:  [`checksum`] is none for characters that no descriptor has.
//! Source: BIP 380 for the checksum; Bitcoin Core, `src/script/descriptor.cpp` (`InferScript` without keys or scripts).

use primitives::script::{Operation, Operations, ScriptType};
use primitives::{Params, address};
use secp256k1::XOnlyPublicKey;

use crate::json::push_hex;

/// Characters of descriptors; a character's place in rows of 32 is what the checksum reads (BIP 380).
const INPUT: &[u8; 95] =
    b"0123456789()[],'/*abcdefgh@:$%{}IJKLMNOPQRSTUVWXYZ&+-.;<=>?!^_|~ijklmnopqrstuvwxyzABCDEFGH`#\"\\ ";
/// Characters of checksums: those of Bech32.
const OUTPUT: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
/// The generator of the code (BIP 380).
const GENERATOR: [u64; 5] = [0xf5_dee5_1989, 0xa9_fdca_3312, 0x1b_ab10_e32d, 0x37_06b1_677a, 0x64_4d62_6ffd];
/// Characters of a checksum.
pub const CHECKSUM_LENGTH: usize = 8;

const PLACES: [u8; 256] = {
    let mut places = [0xff; 256];
    let mut place = 0;
    while place < INPUT.len() {
        places[INPUT[place] as usize] = place as u8;
        place += 1;
    }
    places
};

fn step(state: u64, value: u64) -> u64 {
    let top = state >> 35;
    let mut state = (state & 0x7_ffff_ffff) << 5 ^ value;
    for (bit, generator) in GENERATOR.iter().enumerate() {
        if top >> bit & 1 == 1 {
            state ^= generator;
        }
    }
    state
}

/// The checksum of a descriptor's text.
pub fn checksum(descriptor: &[u8]) -> Option<[u8; CHECKSUM_LENGTH]> {
    let (mut state, mut class, mut classes) = (1, 0, 0);
    for &byte in descriptor {
        let place = u64::from(PLACES[usize::from(byte)]);
        if place == 0xff {
            return None;
        }
        state = step(state, place & 31);
        class = class * 3 + (place >> 5);
        classes += 1;
        if classes == 3 {
            state = step(state, class);
            (class, classes) = (0, 0);
        }
    }
    if classes > 0 {
        state = step(state, class);
    }
    for _ in 0..CHECKSUM_LENGTH {
        state = step(state, 0);
    }
    state ^= 1;
    Some(std::array::from_fn(|place| OUTPUT[(state >> (5 * (7 - place)) & 31) as usize]))
}

/// Appends `#` and the checksum of what was appended from `start` on.
pub fn push_checksum(out: &mut Vec<u8>, start: usize) {
    let sum = checksum(&out[start..]).expect("descriptors of ours are made of such characters");
    out.push(b'#');
    out.extend_from_slice(&sum);
}

/// True for a key whose first byte and length fit, hybrid ones left out (Core: `IsValidNonHybrid`).
fn is_plain_key(key: &[u8]) -> bool {
    matches!((key.first(), key.len()), (Some(2 | 3), 33) | (Some(4), 65))
}

/// Appends the descriptor of an output script, checksum included. Text is ASCII without quotes or backslashes.
pub fn push_of_script(script: &[u8], kind: ScriptType, params: &Params, out: &mut Vec<u8>) {
    let start = out.len();
    let inferred = match kind {
        ScriptType::Pubkey if is_plain_key(&script[1..script.len() - 1]) => {
            out.extend_from_slice(b"pk(");
            push_hex(out, &script[1..script.len() - 1]);
            true
        }
        ScriptType::Multisig => push_multisig(script, out),
        ScriptType::WitnessV1Taproot => {
            let key: [u8; 32] = script[2..34].try_into().expect("a program of 32 bytes");
            let valid = XOnlyPublicKey::from_byte_array(key).is_ok();
            if valid {
                out.extend_from_slice(b"rawtr(");
                push_hex(out, &key);
            }
            valid
        }
        _ => false,
    };
    if !inferred {
        out.truncate(start);
        match address::of_script(script, params) {
            Some(address) => {
                out.extend_from_slice(b"addr(");
                out.extend_from_slice(address.as_bytes());
            }
            None => {
                out.extend_from_slice(b"raw(");
                push_hex(out, script);
            }
        }
    }
    out.push(b')');
    push_checksum(out, start);
}

/// `multi(m,key,...` of a bare multisignature script; false where a key has no plain form.
fn push_multisig(script: &[u8], out: &mut Vec<u8>) -> bool {
    let mut operations = Operations::of(script);
    let required = operations.next().map_or(0, |first| small_number(&first));
    out.extend_from_slice(b"multi(");
    out.extend_from_slice(required.to_string().as_bytes());
    for Operation { data, .. } in operations {
        if data.len() < 33 {
            break;
        }
        if !is_plain_key(data) {
            return false;
        }
        out.push(b',');
        push_hex(out, data);
    }
    true
}

/// A number that a script pushes, up to 20.
pub fn small_number(operation: &Operation<'_>) -> u32 {
    match operation {
        Operation { code: 0x51..=0x60, .. } => u32::from(operation.code) - 0x50,
        Operation { data: [value], .. } => u32::from(*value),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::Network;
    use stdx::hex;

    #[test]
    fn checksums_are_those_of_bip_380() {
        #[track_caller]
        fn check(text: &str, want: &str) {
            assert_eq!(std::str::from_utf8(&checksum(text.as_bytes()).unwrap()), Ok(want));
        }
        check("raw(deadbeef)", "89f8spxm");
        assert_ne!(checksum(b"raw(deedbeef)"), checksum(b"raw(deadbeef)"));
        assert_eq!(checksum("raw(\u{fc})".as_bytes()), None);
        // Core's doc/descriptors.md.
        check(
            "wpkh([d34db33f/84h/0h/0h]xpub6DJ2dNUysrn5Vt36jH2KLBT2i1auw1tTSSomg8PhqNiUtx8QX2SvC9nrHu81fT41fvDUnhMjEzQgXnQjKEu3oaqMSzhSrHMxyyoEAmUHQbY/0/*)",
            "cjjspncu",
        );
    }

    #[test]
    fn scripts_have_the_descriptors_core_infers() {
        #[track_caller]
        fn check(script: &str, want: &str) {
            let (script, mut out) = (hex::decode(script).unwrap(), Vec::new());
            push_of_script(&script, ScriptType::of(&script), &Params::of(Network::Main), &mut out);
            let text = String::from_utf8(out).unwrap();
            let (body, sum) = text.rsplit_once('#').unwrap();
            assert_eq!(body, want);
            assert_eq!(checksum(body.as_bytes()).unwrap(), sum.as_bytes());
        }
        let key = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";
        check(&format!("21{key}ac"), &format!("pk({key})"));
        check(&format!("5121{key}21{key}52ae"), &format!("multi(1,{key},{key})"));
        check("76a91462e907b15cbf27d5425399ebf6f0fb50ebb88f1888ac", "addr(1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa)");
        check(&format!("5120{}", &key[2..]), &format!("rawtr({})", &key[2..]));
        // No point of the curve has this x coordinate.
        let no_point = "eefdea4cdb677750a420fee807eacf21eb9898ae79b9768766e4faa04a2d4a34";
        let (script, mut out) = (hex::decode(&format!("5120{no_point}")).unwrap(), Vec::new());
        push_of_script(&script, ScriptType::of(&script), &Params::of(Network::Main), &mut out);
        assert!(out.starts_with(b"addr(bc1p"));
        check("6a0401020304", "raw(6a0401020304)");
        check("", "raw()");
        check("51024e73", "addr(bc1pfeessrawgf)");
    }
}
