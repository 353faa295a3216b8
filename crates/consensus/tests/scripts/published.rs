//! Where published vectors lie, and the text forms they are written in.
//!
//! In:     file names.
//! Out:    JSON values, script bytes, flags.
//! Fails:  `None` with a "skipped" line where a file is not on this machine; a malformed vector panics.
//! Source: Core's core_io.cpp (`ParseScript`), test/transaction_tests.cpp (`ParseScriptFlags`).

use std::path::PathBuf;

use consensus::Flags;
use serde_json::Value;
use stdx::hex;

/// A file of Bitcoin Core's test data.
pub fn core_json(name: &str) -> Option<Value> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))?;
    let package = "libbitcoinkernel-sys-0.4.1/bitcoin/src/test/data";
    let registries = std::fs::read_dir(home.join("registry/src")).into_iter().flatten().filter_map(Result::ok);
    let path = registries.map(|entry| entry.path().join(package).join(name)).find(|path| path.is_file());
    let Some(path) = path else {
        println!("skipped: {package}/{name} is not in cargo's registry");
        return None;
    };
    Some(serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap())
}

/// A file or folder of `../shared/vectors`.
pub fn shared(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors").join(name);
    if !path.exists() {
        println!("skipped: {} is not here", path.display());
        return None;
    }
    Some(path)
}

/// Flags by name, SIGPUSHONLY left out, which no mempool asks for; "CLEANSTACK" brings what it needs, as in Core's tests.
pub fn flags(text: &str) -> Flags {
    let mut flags = Flags::NONE;
    for name in text.split(',').filter(|name| !name.is_empty() && *name != "NONE") {
        let flag = match name {
            "P2SH" => Flags::P2SH,
            "DERSIG" => Flags::DERSIG,
            "NULLDUMMY" => Flags::NULLDUMMY,
            "CHECKLOCKTIMEVERIFY" => Flags::CLTV,
            "CHECKSEQUENCEVERIFY" => Flags::CSV,
            "WITNESS" => Flags::WITNESS,
            "TAPROOT" => Flags::TAPROOT,
            "SIGPUSHONLY" => Flags::NONE,
            "STRICTENC" => Flags(1 << 1),
            "LOW_S" => Flags(1 << 3),
            "MINIMALDATA" => Flags(1 << 6),
            "DISCOURAGE_UPGRADABLE_NOPS" => Flags(1 << 7),
            "CLEANSTACK" => Flags(1 << 8) | Flags::P2SH | Flags::WITNESS,
            "DISCOURAGE_UPGRADABLE_WITNESS_PROGRAM" => Flags(1 << 12),
            "MINIMALIF" => Flags(1 << 13),
            "NULLFAIL" => Flags(1 << 14),
            "WITNESS_PUBKEYTYPE" => Flags(1 << 15),
            "CONST_SCRIPTCODE" => Flags(1 << 16),
            "DISCOURAGE_UPGRADABLE_TAPROOT_VERSION" => Flags(1 << 18),
            "DISCOURAGE_OP_SUCCESS" => Flags(1 << 19),
            "DISCOURAGE_UPGRADABLE_PUBKEYTYPE" => Flags(1 << 20),
            other => panic!("a flag called {other}"),
        };
        flags = flags | flag;
    }
    flags
}

/// Operations from 0x61 on, in order.
const NAMES: &str = "NOP VER IF NOTIF VERIF VERNOTIF ELSE ENDIF VERIFY RETURN TOALTSTACK FROMALTSTACK 2DROP 2DUP 3DUP \
    2OVER 2ROT 2SWAP IFDUP DEPTH DROP DUP NIP OVER PICK ROLL ROT SWAP TUCK CAT SUBSTR LEFT RIGHT SIZE INVERT AND OR XOR \
    EQUAL EQUALVERIFY RESERVED1 RESERVED2 1ADD 1SUB 2MUL 2DIV NEGATE ABS NOT 0NOTEQUAL ADD SUB MUL DIV MOD LSHIFT RSHIFT \
    BOOLAND BOOLOR NUMEQUAL NUMEQUALVERIFY NUMNOTEQUAL LESSTHAN GREATERTHAN LESSTHANOREQUAL GREATERTHANOREQUAL MIN MAX \
    WITHIN RIPEMD160 SHA1 SHA256 HASH160 HASH256 CODESEPARATOR CHECKSIG CHECKSIGVERIFY CHECKMULTISIG \
    CHECKMULTISIGVERIFY NOP1 CHECKLOCKTIMEVERIFY CHECKSEQUENCEVERIFY NOP4 NOP5 NOP6 NOP7 NOP8 NOP9 NOP10 CHECKSIGADD";

/// A script in the vectors' words: numbers, 0x.. for raw bytes, '..' for a push of text, names.
pub fn script(text: &str) -> Vec<u8> {
    let mut script = Vec::new();
    for word in text.split_whitespace() {
        if let Ok(number) = word.parse::<i64>() {
            push_number(&mut script, number);
        } else if let Some(raw) = word.strip_prefix("0x") {
            script.extend(hex::decode(raw).unwrap());
        } else if let Some(quoted) = word.strip_prefix('\'') {
            push(&mut script, quoted.strip_suffix('\'').unwrap().as_bytes());
        } else {
            let name = word.strip_prefix("OP_").unwrap_or(word);
            let place = NAMES.split_whitespace().position(|known| known == name);
            script.push(match place {
                Some(place) => 0x61 + place as u8,
                None if name == "RESERVED" => 0x50,
                None => panic!("no operation is named {word}"),
            });
        }
    }
    script
}

fn push_number(script: &mut Vec<u8>, number: i64) {
    match number {
        0 => script.push(0),
        -1 => script.push(0x4f),
        1..=16 => script.push(0x50 + number as u8),
        _ => {
            let mut bytes: Vec<u8> = number.unsigned_abs().to_le_bytes().to_vec();
            while bytes.last() == Some(&0) {
                bytes.pop();
            }
            if bytes.last().unwrap() & 0x80 != 0 {
                bytes.push(0);
            }
            *bytes.last_mut().unwrap() |= if number < 0 { 0x80 } else { 0 };
            push(script, &bytes);
        }
    }
}

/// Appends the shortest data push of `bytes` (Core: `CScript << vector`).
pub fn push(script: &mut Vec<u8>, bytes: &[u8]) {
    match bytes.len() {
        length @ 0..=75 => script.push(length as u8),
        length @ 76..=255 => script.extend([76, length as u8]),
        length => script.extend([77, length as u8, (length >> 8) as u8]),
    }
    script.extend(bytes);
}
