//! Counting signature operations.
//!
//! In:     scripts and witnesses.
//! Out:    counts; a block may cost 80,000, where one outside the witness costs 4 (BIP 141).
//! Fails:  never: counting stops where a script cannot be read on.
//! Source: Bitcoin Core, `script/script.cpp` (`GetSigOpCount`), `script/interpreter.cpp` (`CountWitnessSigOps`).

use primitives::script::{
    MULTISIG_KEYS_MAX, Operation, Operations, is_pay_to_script_hash, last_push, op, witness_program,
};
use primitives::{Input, Witness};

use crate::WITNESS_SCALE;
use crate::flags::Flags;

/// Signature operations of a script on its own; `accurate` reads CHECKMULTISIG's number of keys where it is plain.
pub fn count(script: &[u8], accurate: bool) -> u32 {
    let (mut count, mut last) = (0, 0xff);
    for Operation { code, .. } in Operations::of(script) {
        match code {
            op::CHECKSIG | op::CHECKSIGVERIFY => count += 1,
            op::CHECKMULTISIG | op::CHECKMULTISIGVERIFY if accurate && (op::ONE..=op::SIXTEEN).contains(&last) => {
                count += u32::from(last - op::ONE) + 1;
            }
            op::CHECKMULTISIG | op::CHECKMULTISIGVERIFY => count += MULTISIG_KEYS_MAX,
            _ => {}
        }
        last = code;
    }
    count
}

/// [`count`] without accuracy, with the shapes that make up nearly every input answered at once.
#[inline]
pub fn count_input(script: &[u8]) -> u32 {
    match script {
        [] => 0,
        // One push that fills the script: P2SH around a witness program, P2PK.
        [first @ 1..=75, rest @ ..] if rest.len() == usize::from(*first) => 0,
        // P2PKH: a signature of 64 to 75 bytes, a key of 33 or 65.
        [first @ 64..=75, rest @ ..] => match rest.get(usize::from(*first)) {
            Some(second @ (33 | 65)) if rest.len() == usize::from(*first + second) + 1 => 0,
            _ => count(script, false),
        },
        _ => count(script, false),
    }
}

/// [`count`] without accuracy, with the shapes that make up nearly every output answered at once.
#[inline]
pub fn count_output(script: &[u8]) -> u32 {
    match script {
        // P2WPKH, P2WSH, P2TR: one push.
        [0, 20, rest @ ..] if rest.len() == 20 => 0,
        [0 | op::ONE, 32, rest @ ..] if rest.len() == 32 => 0,
        // P2PKH.
        [0x76, op::HASH160, 20, rest @ ..] if rest.len() == 22 && rest[20] == 0x88 => {
            u32::from(rest[21] == op::CHECKSIG)
        }
        [op::HASH160, 20, rest @ ..] if rest.len() == 21 && rest[20] == op::EQUAL => 0,
        _ => count(script, false),
    }
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
