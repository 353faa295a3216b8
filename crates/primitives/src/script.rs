//! Scripts as bytes: their operations, and the shapes that have names.
//!
//! In:     any bytes that stand where a script stands.
//! Out:    operations in order; witness programs; [`ScriptType`] under Core's names.
//! Fails:  never: reading stops where a push is longer than what is left, and unnamed shapes are nonstandard.
//! Source: Bitcoin Core, `script/script.cpp` (`GetScriptOp`, `IsWitnessProgram`), `script/solver.cpp` (`Solver`).

use std::fmt;

/// Longest script that can be run; Core's `MAX_SCRIPT_SIZE`.
pub const SCRIPT_BYTES_MAX: usize = 10_000;
/// Most keys of CHECKMULTISIG; Core's `MAX_PUBKEYS_PER_MULTISIG`.
pub const MULTISIG_KEYS_MAX: u32 = 20;

/// Codes of operations that rules look at.
#[allow(missing_docs)]
pub mod op {
    pub const PUSHDATA1: u8 = 0x4c;
    pub const PUSHDATA4: u8 = 0x4e;
    pub const ONE: u8 = 0x51;
    pub const SIXTEEN: u8 = 0x60;
    pub const RETURN: u8 = 0x6a;
    pub const DUP: u8 = 0x76;
    pub const EQUAL: u8 = 0x87;
    pub const EQUALVERIFY: u8 = 0x88;
    pub const HASH160: u8 = 0xa9;
    pub const CHECKSIG: u8 = 0xac;
    pub const CHECKSIGVERIFY: u8 = 0xad;
    pub const CHECKMULTISIG: u8 = 0xae;
    pub const CHECKMULTISIGVERIFY: u8 = 0xaf;
}

/// Operations of a script in order.
#[derive(Clone, Copy, Debug)]
pub struct Operations<'a> {
    left: &'a [u8],
}

/// An operation: its code, and what it pushes (empty for those that push nothing or a number).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation<'a> {
    /// The operation's code.
    pub code: u8,
    /// Bytes of the script that it pushes.
    pub data: &'a [u8],
}

impl<'a> Operations<'a> {
    /// Starts at the script's first byte.
    pub fn of(script: &'a [u8]) -> Operations<'a> {
        Operations { left: script }
    }

    /// Bytes not read yet: none at the end, some where a push is longer than what is left.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.left
    }
}

impl<'a> Iterator for Operations<'a> {
    type Item = Operation<'a>;

    #[inline]
    fn next(&mut self) -> Option<Operation<'a>> {
        let (&code, rest) = self.left.split_first()?;
        if code > op::PUSHDATA4 {
            self.left = rest;
            return Some(Operation { code, data: &[] });
        }
        let (length, rest) = if code < op::PUSHDATA1 {
            (usize::from(code), rest)
        } else {
            let (bytes, rest) = rest.split_at_checked(1 << (code - op::PUSHDATA1))?;
            (bytes.iter().rev().fold(0, |length, &byte| length << 8 | usize::from(byte)), rest)
        };
        let (data, rest) = rest.split_at_checked(length)?;
        self.left = rest;
        Some(Operation { code, data })
    }
}

/// True for a script that no input can satisfy, so that its output is no coin (Core: `IsUnspendable`).
#[inline]
pub fn is_unspendable(script: &[u8]) -> bool {
    script.first() == Some(&op::RETURN) || script.len() > SCRIPT_BYTES_MAX
}

/// True for the 23 bytes of BIP 16.
#[inline]
pub fn is_pay_to_script_hash(script: &[u8]) -> bool {
    script.len() == 23 && matches!(script, [op::HASH160, 20, .., op::EQUAL])
}

/// Version and program of a witness program (BIP 141).
#[inline]
pub fn witness_program(script: &[u8]) -> Option<(u8, &[u8])> {
    let &[code, length, ref program @ ..] = script else { return None };
    let version = match code {
        0 => 0,
        op::ONE..=op::SIXTEEN => code - op::ONE + 1,
        _ => return None,
    };
    let fits = usize::from(length) == program.len() && (2..=40).contains(&program.len());
    fits.then_some((version, program))
}

/// What an input script's last operation pushes; `None` where it cannot be read or holds more than pushes.
#[inline]
pub fn last_push(script_sig: &[u8]) -> Option<&[u8]> {
    let mut operations = Operations::of(script_sig);
    let mut last: &[u8] = &[];
    for Operation { code, data } in &mut operations {
        if code > op::SIXTEEN {
            return None;
        }
        last = data;
    }
    operations.rest().is_empty().then_some(last)
}

/// Kinds of output scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ScriptType {
    Nonstandard,
    Pubkey,
    PubkeyHash,
    ScriptHash,
    Multisig,
    NullData,
    Anchor,
    WitnessV0KeyHash,
    WitnessV0ScriptHash,
    WitnessV1Taproot,
    WitnessUnknown,
}

impl ScriptType {
    /// The kind of `script`.
    pub fn of(script: &[u8]) -> ScriptType {
        if is_pay_to_script_hash(script) {
            return ScriptType::ScriptHash;
        }
        if let Some((version, program)) = witness_program(script) {
            return match (version, program) {
                (0, _) if program.len() == 20 => ScriptType::WitnessV0KeyHash,
                (0, _) if program.len() == 32 => ScriptType::WitnessV0ScriptHash,
                (0, _) => ScriptType::Nonstandard,
                (1, _) if program.len() == 32 => ScriptType::WitnessV1Taproot,
                (1, [0x4e, 0x73]) => ScriptType::Anchor,
                _ => ScriptType::WitnessUnknown,
            };
        }
        match script {
            [op::RETURN, pushes @ ..] if last_push(pushes).is_some() => ScriptType::NullData,
            [33 | 65, key @ .., op::CHECKSIG] if key.len() + 2 == script.len() && is_key_for(key, script[0]) => {
                ScriptType::Pubkey
            }
            [op::DUP, op::HASH160, 20, .., op::EQUALVERIFY, op::CHECKSIG] if script.len() == 25 => {
                ScriptType::PubkeyHash
            }
            _ if is_multisig(script) => ScriptType::Multisig,
            _ => ScriptType::Nonstandard,
        }
    }

    /// The name in Bitcoin Core's verbose answers (`GetTxnOutputType`).
    pub fn name(self) -> &'static str {
        match self {
            ScriptType::Nonstandard => "nonstandard",
            ScriptType::Pubkey => "pubkey",
            ScriptType::PubkeyHash => "pubkeyhash",
            ScriptType::ScriptHash => "scripthash",
            ScriptType::Multisig => "multisig",
            ScriptType::NullData => "nulldata",
            ScriptType::Anchor => "anchor",
            ScriptType::WitnessV0KeyHash => "witness_v0_keyhash",
            ScriptType::WitnessV0ScriptHash => "witness_v0_scripthash",
            ScriptType::WitnessV1Taproot => "witness_v1_taproot",
            ScriptType::WitnessUnknown => "witness_unknown",
        }
    }
}

impl fmt::Display for ScriptType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A key is as long as its first byte says (Core: `CPubKey::ValidSize`); nobody asks for a point on the curve here.
fn is_key(key: &[u8]) -> bool {
    match key.first() {
        Some(2 | 3) => key.len() == 33,
        Some(4 | 6 | 7) => key.len() == 65,
        _ => false,
    }
}

fn is_key_for(key: &[u8], length: u8) -> bool {
    key.len() == usize::from(length) && is_key(key)
}

/// `m key... n CHECKMULTISIG`, numbers written as short as they can be.
fn is_multisig(script: &[u8]) -> bool {
    let [body @ .., op::CHECKMULTISIG] = script else { return false };
    let mut operations = Operations::of(body);
    let required = operations.next().and_then(number);
    let mut keys = 0;
    let count = loop {
        match operations.next() {
            Some(Operation { data, .. }) if is_key(data) => keys += 1,
            other => break other.and_then(number),
        }
    };
    let (Some(required), Some(count)) = (required, count) else { return false };
    let in_range = (1..=MULTISIG_KEYS_MAX).contains(&required) && (required..=MULTISIG_KEYS_MAX).contains(&count);
    in_range && keys == count && operations.rest().is_empty()
}

/// A number up to 20 as `1` to `16`, or as the shortest push of the others (Core: `GetScriptNumber`).
fn number(operation: Operation<'_>) -> Option<u32> {
    match operation {
        Operation { code: op::ONE..=op::SIXTEEN, .. } => Some(u32::from(operation.code - op::ONE) + 1),
        Operation { code: 1, data: &[value @ 17..=20] } => Some(u32::from(value)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::hex;

    #[test]
    fn operations_end_where_core_ends() {
        #[track_caller]
        fn check(script: &str, want: &[(u8, usize)], rest: usize) {
            let script = hex::decode(script).unwrap();
            let mut operations = Operations::of(&script);
            let got: Vec<_> = operations.by_ref().map(|operation| (operation.code, operation.data.len())).collect();
            assert_eq!((&got[..], operations.rest().len()), (want, rest));
        }
        check("", &[], 0);
        check("0001aa51", &[(0, 0), (1, 1), (0x51, 0)], 0);
        check("4c01aa4d0100aa4e01000000aaff", &[(0x4c, 1), (0x4d, 1), (0x4e, 1), (0xff, 0)], 0);
        check("02aa", &[], 2);
        check("514c", &[(0x51, 0)], 1);
        check("4d01", &[], 2);
        check("4d0100", &[], 3);
        check("4effffffff00", &[], 6);
    }

    #[test]
    fn witness_programs_are_one_number_and_one_push_of_2_to_40_bytes() {
        #[track_caller]
        fn check(code: u8, length: u8, program_bytes: usize, want: Option<u8>) {
            let script = [&[code, length][..], &vec![7; program_bytes]].concat();
            assert_eq!(witness_program(&script).map(|(version, _)| version), want, "{code} {length}");
        }
        for (code, version) in [(0, Some(0)), (0x51, Some(1)), (0x60, Some(16)), (0x50, None), (0x61, None), (1, None)]
        {
            check(code, 20, 20, version);
        }
        check(0, 1, 1, None);
        check(0, 2, 2, Some(0));
        check(0, 40, 40, Some(0));
        check(0, 41, 41, None);
        check(0, 20, 21, None);
        check(0, 20, 19, None);
        assert_eq!(witness_program(&[0]), None);
    }

    #[test]
    fn shapes_have_the_names_of_core() {
        #[track_caller]
        fn check(script: &str, want: &str) {
            assert_eq!(ScriptType::of(&hex::decode(script).unwrap()).name(), want, "{script}");
        }
        let key = format!("02{}", "11".repeat(32));
        let long = format!("04{}", "11".repeat(64));
        check("", "nonstandard");
        check(&format!("21{key}ac"), "pubkey");
        check(&format!("41{long}ac"), "pubkey");
        // A length that the key's first byte contradicts.
        check(&format!("2104{}ac", "11".repeat(32)), "nonstandard");
        check(&format!("21{key}ad"), "nonstandard");
        check(&format!("76a914{}88ac", "00".repeat(20)), "pubkeyhash");
        check(&format!("76a914{}88ad", "00".repeat(20)), "nonstandard");
        check(&format!("a914{}87", "00".repeat(20)), "scripthash");
        check("6a", "nulldata");
        check("6a04deadbeef", "nulldata");
        check("6a51", "nulldata");
        check("6a61", "nonstandard");
        check("6a05dead", "nonstandard");
        check("51024e73", "anchor");
        check("52024e73", "witness_unknown");
        check(&format!("0014{}", "00".repeat(20)), "witness_v0_keyhash");
        check(&format!("0020{}", "00".repeat(32)), "witness_v0_scripthash");
        check(&format!("0015{}", "00".repeat(21)), "nonstandard");
        check(&format!("5120{}", "00".repeat(32)), "witness_v1_taproot");
        check(&format!("511f{}", "00".repeat(31)), "witness_unknown");
        check(&format!("5121{key}21{key}52ae"), "multisig");
        check(&format!("5141{long}51ae"), "multisig");
        check(&format!("5221{key}51ae"), "nonstandard");
        check(&format!("5121{key}52ae"), "nonstandard");
        check(&format!("0021{key}51ae"), "nonstandard");
        check("5151ae", "nonstandard");
        check(&format!("5121{key}5151ae"), "nonstandard");
        check("ae", "nonstandard");
        let keys = |count: usize| format!("21{key}").repeat(count);
        check(&format!("51{}0111ae", keys(17)), "multisig");
        check(&format!("0114{}0114ae", keys(20)), "multisig");
        check(&format!("51{}0115ae", keys(21)), "nonstandard");
        // A number that is longer than it must be.
        check(&format!("0101{}51ae", keys(1)), "nonstandard");
        check(&format!("4c0111{}0111ae", keys(17)), "nonstandard");
    }

    #[test]
    fn unspendable_scripts_begin_with_return_or_are_too_long() {
        assert!(is_unspendable(&[op::RETURN]));
        assert!(!is_unspendable(&[]));
        assert!(!is_unspendable(&[0x51; SCRIPT_BYTES_MAX]));
        assert!(is_unspendable(&[0x51; SCRIPT_BYTES_MAX + 1]));
    }
}
