//! Scripts as text.
//!
//! In:     a script.
//! Out:    its operations separated by spaces; pushes of up to four bytes as numbers, longer ones as digits.
//! Fails:  never; a push that reaches beyond the end becomes "[error]".
//! Source: Bitcoin Core, `ScriptToAsmStr` and `GetOpName`; strict DER is BIP 66.

use std::io::Write as _;

use primitives::script::{Operation, Operations, is_unspendable, op};
use stdx::bytes::Reader;

use crate::json::push_hex;

/// The text of a script. With `signatures`, pushes that look like signatures end in the name of what they sign.
pub fn text(script: &[u8], signatures: bool) -> String {
    let mut text = Vec::with_capacity(2 * script.len());
    push(script, signatures, &mut text);
    String::from_utf8(text).expect("names and digits are ASCII")
}

/// Appends the text of a script: ASCII without quotes or backslashes.
pub fn push(script: &[u8], signatures: bool, out: &mut Vec<u8>) {
    // Data behind OP_RETURN is never shown as a signature.
    let signatures = signatures && !is_unspendable(script);
    let start = out.len();
    let mut operations = Operations::of(script);
    while !operations.rest().is_empty() {
        if out.len() > start {
            out.push(b' ');
        }
        let Some(Operation { code, data }) = operations.next() else {
            out.extend_from_slice(b"[error]");
            return;
        };
        match code {
            0..=op::PUSHDATA4 if data.len() <= 4 => write!(out, "{}", script_number(data)).expect("to memory"),
            0..=op::PUSHDATA4 => match signed_part(data).filter(|_| signatures) {
                Some(part) => {
                    push_hex(out, &data[..data.len() - 1]);
                    write!(out, "[{part}]").expect("to memory");
                }
                None => push_hex(out, data),
            },
            _ => out.extend_from_slice(name(code).as_bytes()),
        }
    }
}

/// A number of up to four bytes as scripts write it: little endian, sign in the last bit.
fn script_number(bytes: &[u8]) -> i64 {
    let mut value = 0i64;
    for (index, byte) in bytes.iter().enumerate() {
        value |= i64::from(*byte) << (8 * index);
    }
    match bytes.last() {
        Some(last) if last & 0x80 != 0 => -(value & !(0x80 << (8 * (bytes.len() - 1)))),
        _ => value,
    }
}

/// What a signature signs, by its last byte; none where the bytes are no strictly encoded signature.
fn signed_part(push: &[u8]) -> Option<&'static str> {
    let part = match push.last()? {
        0x01 => "ALL",
        0x81 => "ALL|ANYONECANPAY",
        0x02 => "NONE",
        0x82 => "NONE|ANYONECANPAY",
        0x03 => "SINGLE",
        0x83 => "SINGLE|ANYONECANPAY",
        _ => return None,
    };
    is_strict_der(&push[..push.len() - 1]).then_some(part)
}

/// BIP 66's `IsValidSignatureEncoding`, for the bytes before the last.
fn is_strict_der(signature: &[u8]) -> bool {
    /// An integer that fills its bytes: not empty, not negative, no zero in front without need.
    fn integer<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
        let tag = reader.u8().ok()?;
        let length = reader.u8().ok()?;
        let bytes = reader.take(usize::from(length)).ok()?;
        let first = *bytes.first()?;
        let padded = bytes.len() > 1 && first == 0 && bytes[1] & 0x80 == 0;
        (tag == 2 && first & 0x80 == 0 && !padded).then_some(bytes)
    }
    let mut reader = Reader::new(signature);
    // 8 to 72 bytes: 9 to 73 with the one that says what is signed.
    (8..=72).contains(&signature.len())
        && reader.u8() == Ok(0x30)
        && reader.u8() == Ok((signature.len() - 2) as u8)
        && integer(&mut reader).is_some()
        && integer(&mut reader).is_some()
        && reader.left() == 0
}

/// Names of the opcodes from OP_RESERVED (0x50) to OP_CHECKSIGADD (0xba); the numbers among them have no letters.
const NAMES: [&str; 0xbb - 0x50] = [
    "OP_RESERVED",
    "1",
    "2",
    "3",
    "4",
    "5",
    "6",
    "7",
    "8",
    "9",
    "10",
    "11",
    "12",
    "13",
    "14",
    "15",
    "16",
    "OP_NOP",
    "OP_VER",
    "OP_IF",
    "OP_NOTIF",
    "OP_VERIF",
    "OP_VERNOTIF",
    "OP_ELSE",
    "OP_ENDIF",
    "OP_VERIFY",
    "OP_RETURN",
    "OP_TOALTSTACK",
    "OP_FROMALTSTACK",
    "OP_2DROP",
    "OP_2DUP",
    "OP_3DUP",
    "OP_2OVER",
    "OP_2ROT",
    "OP_2SWAP",
    "OP_IFDUP",
    "OP_DEPTH",
    "OP_DROP",
    "OP_DUP",
    "OP_NIP",
    "OP_OVER",
    "OP_PICK",
    "OP_ROLL",
    "OP_ROT",
    "OP_SWAP",
    "OP_TUCK",
    "OP_CAT",
    "OP_SUBSTR",
    "OP_LEFT",
    "OP_RIGHT",
    "OP_SIZE",
    "OP_INVERT",
    "OP_AND",
    "OP_OR",
    "OP_XOR",
    "OP_EQUAL",
    "OP_EQUALVERIFY",
    "OP_RESERVED1",
    "OP_RESERVED2",
    "OP_1ADD",
    "OP_1SUB",
    "OP_2MUL",
    "OP_2DIV",
    "OP_NEGATE",
    "OP_ABS",
    "OP_NOT",
    "OP_0NOTEQUAL",
    "OP_ADD",
    "OP_SUB",
    "OP_MUL",
    "OP_DIV",
    "OP_MOD",
    "OP_LSHIFT",
    "OP_RSHIFT",
    "OP_BOOLAND",
    "OP_BOOLOR",
    "OP_NUMEQUAL",
    "OP_NUMEQUALVERIFY",
    "OP_NUMNOTEQUAL",
    "OP_LESSTHAN",
    "OP_GREATERTHAN",
    "OP_LESSTHANOREQUAL",
    "OP_GREATERTHANOREQUAL",
    "OP_MIN",
    "OP_MAX",
    "OP_WITHIN",
    "OP_RIPEMD160",
    "OP_SHA1",
    "OP_SHA256",
    "OP_HASH160",
    "OP_HASH256",
    "OP_CODESEPARATOR",
    "OP_CHECKSIG",
    "OP_CHECKSIGVERIFY",
    "OP_CHECKMULTISIG",
    "OP_CHECKMULTISIGVERIFY",
    "OP_NOP1",
    "OP_CHECKLOCKTIMEVERIFY",
    "OP_CHECKSEQUENCEVERIFY",
    "OP_NOP4",
    "OP_NOP5",
    "OP_NOP6",
    "OP_NOP7",
    "OP_NOP8",
    "OP_NOP9",
    "OP_NOP10",
    "OP_CHECKSIGADD",
];

/// Core's `GetOpName`, for opcodes that push nothing.
pub fn name(opcode: u8) -> &'static str {
    match opcode {
        0x4f => "-1",
        0x50..=0xba => NAMES[usize::from(opcode - 0x50)],
        0xff => "OP_INVALIDOPCODE",
        _ => "OP_UNKNOWN",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::hex;

    #[test]
    fn names_stand_at_their_numbers() {
        for (opcode, want) in [
            (0x51, "1"),
            (0x60, "16"),
            (0x61, "OP_NOP"),
            (0x6a, "OP_RETURN"),
            (0x76, "OP_DUP"),
            (0x87, "OP_EQUAL"),
            (0x93, "OP_ADD"),
            (0xa5, "OP_WITHIN"),
            (0xac, "OP_CHECKSIG"),
            (0xae, "OP_CHECKMULTISIG"),
            (0xb1, "OP_CHECKLOCKTIMEVERIFY"),
            (0xb9, "OP_NOP10"),
            (0xba, "OP_CHECKSIGADD"),
            (0xbb, "OP_UNKNOWN"),
            (0xfe, "OP_UNKNOWN"),
            (0xff, "OP_INVALIDOPCODE"),
            (0x4f, "-1"),
            (0x50, "OP_RESERVED"),
        ] {
            assert_eq!(name(opcode), want, "{opcode:#x}");
        }
    }

    #[test]
    fn scripts_read_as_core_writes_them() {
        #[track_caller]
        fn check(script: &str, signatures: bool, want: &str) {
            assert_eq!(text(&hex::decode(script).unwrap(), signatures), want, "{script}");
        }
        check("", false, "");
        check("00", false, "0");
        check("4f51", false, "-1 1");
        check("01ff", false, "-127");
        check("0180", false, "0");
        check("04ffff001d0104", false, "486604799 4");
        check("05ffffffff7f", false, "ffffffff7f");
        check("4c02ff00", false, "255");
        check("4c0700000000000000", false, "00000000000000");
        check("02ff", false, "[error]");
        check("5102ff", false, "1 [error]");
        check("4d", false, "[error]");
        check(
            "76a914000000000000000000000000000000000000000188ac",
            false,
            "OP_DUP OP_HASH160 0000000000000000000000000000000000000001 OP_EQUALVERIFY OP_CHECKSIG",
        );
        // Core's script_tests.cpp, `script_GetScriptAsm`.
        let der = "304502207fa7a6d1e0ee81132a269ad84e68d695483745cde8b541e3bf630749894e342a022100c1f7ab20e13e22fb95281a870\
                   f3dcf38d782e53023ee313d741ad0cfbc0c5090";
        let key = "03b0da749730dc9b4b1f4a14d6902877a92541f5368778853d9c4a0cb7802dcfb2";
        for (last, shown) in [
            ("01", "[ALL]"),
            ("02", "[NONE]"),
            ("03", "[SINGLE]"),
            ("81", "[ALL|ANYONECANPAY]"),
            ("82", "[NONE|ANYONECANPAY]"),
            ("83", "[SINGLE|ANYONECANPAY]"),
            ("00", "00"),
            ("80", "80"),
            ("84", "84"),
        ] {
            let script = format!("48{der}{last}21{key}");
            check(&script, true, &format!("{der}{shown} {key}"));
            check(&script, false, &format!("{der}{last} {key}"));
        }
        // Data behind OP_RETURN is never read as a signature.
        check(&format!("6a48{der}01"), true, &format!("OP_RETURN {der}01"));
    }
}
