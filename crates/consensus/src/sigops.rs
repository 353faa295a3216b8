//! Counting signature operations.
//!
//! In:     scripts and witnesses.
//! Out:    counts; a block may cost 80,000, where one outside the witness costs 4 (BIP 141).
//! Fails:  never: counting stops where a script cannot be read on.
//! Source: Bitcoin Core, `script/script.cpp` (`GetSigOpCount`), `script/interpreter.cpp` (`CountWitnessSigOps`).

use primitives::{Input, Witness};

use crate::WITNESS_SCALE;
use crate::flags::Flags;

/// What CHECKMULTISIG counts where its number of keys is not looked at; Core's `MAX_PUBKEYS_PER_MULTISIG`.
const MULTISIG_KEYS_MAX: u32 = 20;

const OP_PUSHDATA1: u8 = 0x4c;
const OP_PUSHDATA4: u8 = 0x4e;
const OP_1: u8 = 0x51;
const OP_16: u8 = 0x60;
const OP_HASH160: u8 = 0xa9;
const OP_EQUAL: u8 = 0x87;
const OP_CHECKSIG: u8 = 0xac;
const OP_CHECKSIGVERIFY: u8 = 0xad;
const OP_CHECKMULTISIG: u8 = 0xae;
const OP_CHECKMULTISIGVERIFY: u8 = 0xaf;

/// Operations of a script in order; Core's `GetScriptOp`.
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

    /// The next operation; `None` at the end, and where a push is longer than what is left: then
    /// [`is_at_end`](Self::is_at_end) is false.
    #[inline]
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<Operation<'a>> {
        let (&code, rest) = self.left.split_first()?;
        if code > OP_PUSHDATA4 {
            self.left = rest;
            return Some(Operation { code, data: &[] });
        }
        let (length, rest) = if code < OP_PUSHDATA1 {
            (usize::from(code), rest)
        } else {
            let width = 1usize << (code - OP_PUSHDATA1);
            let (bytes, rest) = rest.split_at_checked(width)?;
            (bytes.iter().rev().fold(0, |length, &byte| length << 8 | usize::from(byte)), rest)
        };
        let (data, rest) = rest.split_at_checked(length)?;
        self.left = rest;
        Some(Operation { code, data })
    }

    /// True once every byte is read.
    #[inline]
    pub fn is_at_end(&self) -> bool {
        self.left.is_empty()
    }
}

/// Signature operations of a script on its own; `accurate` reads CHECKMULTISIG's number of keys where it is plain.
pub fn count(script: &[u8], accurate: bool) -> u32 {
    let mut operations = Operations::of(script);
    let (mut count, mut last) = (0, 0xff);
    while let Some(Operation { code, .. }) = operations.next() {
        match code {
            OP_CHECKSIG | OP_CHECKSIGVERIFY => count += 1,
            OP_CHECKMULTISIG | OP_CHECKMULTISIGVERIFY if accurate && (OP_1..=OP_16).contains(&last) => {
                count += u32::from(last - OP_1) + 1;
            }
            OP_CHECKMULTISIG | OP_CHECKMULTISIGVERIFY => count += MULTISIG_KEYS_MAX,
            _ => {}
        }
        last = code;
    }
    count
}

/// [`count`] without accuracy, with the shapes that make up nearly every output answered at once.
#[inline]
pub fn count_output(script: &[u8]) -> u32 {
    match script {
        // P2WPKH, P2WSH, P2TR: one push.
        [0, 20, rest @ ..] if rest.len() == 20 => 0,
        [0 | OP_1, 32, rest @ ..] if rest.len() == 32 => 0,
        // P2PKH.
        [0x76, OP_HASH160, 20, rest @ ..] if rest.len() == 22 && rest[20] == 0x88 => u32::from(rest[21] == OP_CHECKSIG),
        [OP_HASH160, 20, rest @ ..] if rest.len() == 21 && rest[20] == OP_EQUAL => 0,
        _ => count(script, false),
    }
}

/// True for the 23 bytes of BIP 16.
#[inline]
pub fn is_pay_to_script_hash(script: &[u8]) -> bool {
    matches!(script, [OP_HASH160, 20, .., OP_EQUAL]) && script.len() == 23
}

/// Version and program of a witness program (BIP 141).
#[inline]
pub fn witness_program(script: &[u8]) -> Option<(u8, &[u8])> {
    let &[code, length, ref program @ ..] = script else { return None };
    let version = match code {
        0 => 0,
        OP_1..=OP_16 => code - OP_1 + 1,
        _ => return None,
    };
    let fits = usize::from(length) == program.len() && (2..=40).contains(&program.len());
    fits.then_some((version, program))
}

/// What the input script's last operation pushes; `None` where it cannot be read or holds more than pushes.
#[inline]
pub fn last_push(script_sig: &[u8]) -> Option<&[u8]> {
    let mut operations = Operations::of(script_sig);
    let mut last: &[u8] = &[];
    while let Some(Operation { code, data }) = operations.next() {
        if code > OP_16 {
            return None;
        }
        last = data;
    }
    operations.is_at_end().then_some(last)
}

/// Cost of an input beyond its own script: redeem script times four, and witness script.
///
/// The input is asked for only where the spent script makes it matter. Core: `GetP2SHSigOpCount`, `CountWitnessSigOps`.
#[inline]
pub fn input_cost<'a>(spent_script: &[u8], input: impl FnOnce() -> Input<'a>, flags: Flags) -> u64 {
    if !flags.has(Flags::P2SH) {
        return 0;
    }
    if let Some(program) = witness_program(spent_script) {
        return if flags.has(Flags::WITNESS) { witness_cost(program, || input().witness()) } else { 0 };
    }
    if !is_pay_to_script_hash(spent_script) {
        return 0;
    }
    let input = input();
    let Some(redeem_script) = last_push(input.script_sig()) else { return 0 };
    let cost = WITNESS_SCALE as u64 * u64::from(count(redeem_script, true));
    match witness_program(redeem_script) {
        Some(program) if flags.has(Flags::WITNESS) => cost + witness_cost(program, || input.witness()),
        _ => cost,
    }
}

/// Core's `WitnessSigOps`; programs of version 1 and above cost nothing here.
#[inline]
fn witness_cost<'a>((version, program): (u8, &[u8]), witness: impl FnOnce() -> Witness<'a>) -> u64 {
    match (version, program.len()) {
        (0, 20) => 1,
        (0, 32) => witness().last().map_or(0, |script| u64::from(count(script, true))),
        _ => 0,
    }
}
