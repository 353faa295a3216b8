//! Input scripts of the common forms, recognised exactly and turned into signature rows.
//!
//! In:     an input, the coin it spends, the flags of its block, the transaction's [`Sighasher`].
//! Out:    [`Plan`]: what must be true of which rows for the input to be valid.
//! Fails:  `None` for whatever is not exactly a template; Bitcoin Core's interpreter decides that input.
//! Source: Core's script/interpreter.cpp (`VerifyScript`, `VerifyWitnessProgram`, `EvalScript`).
//!
//! A template may only say yes, so each condition here is one under which the interpreter returns true once the rows
//! are good; conditions that only cost a yes are chosen for being simple. What the interpreter would do besides:
//!
//! - FindAndDelete takes a signature's push out of the script code before segwit. A signature whose bytes occur in
//!   the script code is refused, so there is nothing to take out.
//! - OP_CODESEPARATOR, disabled opcodes, the limit of 201 operations and of 1,000 elements: the scripts recognised
//!   have none of the first two and cannot reach the others.
//! - Low S, minimal pushes, a clean stack before segwit, defined hash types and key forms are policy, not consensus;
//!   where [`Flags::POLICY`] asks for them, `strict` looks at them.

use primitives::hash::{hash160, sha256};
use primitives::{Coin, Input};
use sigs::{Check, PublicKeyBytes, is_strict_der, parse_der_lax};

use super::multisig::{self, Multisig, Signed};
use super::push::{ELEMENT_BYTES_MAX, Stack, is_true};
use super::sighash::Sighasher;
use super::{strict, taproot};
use crate::flags::Flags;

/// What makes an input valid.
pub(super) enum Plan {
    /// This row is good.
    Single(Check),
    /// The walk ends with yes.
    Multisig(Box<Multisig>),
}

/// How messages are made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// Before segwit.
    Base,
    /// BIP 143.
    WitnessV0,
}

const OP_CHECKSIG: u8 = 0xac;

/// One input under judgement.
pub(super) struct Subject<'s, 'a> {
    pub input: Input<'a>,
    pub index: usize,
    pub coin: Coin<'a>,
    pub flags: Flags,
    pub sighasher: &'s mut Sighasher<'a>,
}

/// The plan of an input, if it is of a form known here.
pub(super) fn plan(subject: &mut Subject<'_, '_>) -> Option<Plan> {
    let script = subject.coin.script;
    if subject.flags.any_policy() && !strict::pushes(subject.input.script_sig()) {
        return None;
    }
    let witness = subject.flags.has(Flags::WITNESS);
    match script {
        [0x51, 0x20, program @ ..] if program.len() == 32 && witness && subject.flags.has(Flags::TAPROOT) => {
            taproot::plan(subject, program.try_into().expect("32 bytes")).map(Plan::Single)
        }
        [0x00, 0x14 | 0x20, program @ ..] if program.len() == usize::from(script[1]) && witness => {
            // Not empty would be malleable (BIP 141).
            subject.input.script_sig().is_empty().then(|| witness_v0(subject, program))?
        }
        [0xa9, 0x14, hash @ .., 0x87] if hash.len() == 20 && subject.flags.has(Flags::P2SH) => {
            script_hash(subject, hash)
        }
        _ => {
            let stack = Stack::of_script(subject.input.script_sig())?;
            has_no_unexpected_witness(subject).then(|| execute(subject, script, &stack, Version::Base))?
        }
    }
}

/// A witness where none belongs makes an input invalid (BIP 141).
fn has_no_unexpected_witness(subject: &Subject<'_, '_>) -> bool {
    !subject.flags.has(Flags::WITNESS) || subject.input.witness().len() == 0
}

/// P2SH (BIP 16), a witness program inside it included.
fn script_hash(subject: &mut Subject<'_, '_>, hash: &[u8]) -> Option<Plan> {
    let mut stack = Stack::of_script(subject.input.script_sig())?;
    let redeem = stack.pop()?;
    if hash160(redeem) != hash {
        return None;
    }
    if let [0x00, length @ (0x14 | 0x20), program @ ..] = redeem
        && program.len() == usize::from(*length)
        && subject.flags.has(Flags::WITNESS)
    {
        // Exactly one push of the script, by the opcode that is its length (BIP 141).
        let exact = subject.input.script_sig().len() == 1 + redeem.len();
        return exact.then(|| witness_v0(subject, program))?;
    }
    has_no_unexpected_witness(subject).then(|| execute(subject, redeem, &stack, Version::Base))?
}

/// P2WPKH and P2WSH (BIP 141); the flag is set and the input script is as it must be.
fn witness_v0(subject: &mut Subject<'_, '_>, program: &[u8]) -> Option<Plan> {
    // The program is also run as a script: it pushes 0 and itself, and a program of zeros would be false.
    if !is_true(program) {
        return None;
    }
    let mut stack = Stack::of_witness(subject.input.witness())?;
    if program.len() == 20 {
        let mut script =
            [0x76, 0xa9, 0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x88, OP_CHECKSIG];
        script[3..23].copy_from_slice(program);
        return execute(subject, &script, &stack, Version::WitnessV0);
    }
    let script = stack.pop()?;
    if sha256(script) != program {
        return None;
    }
    execute(subject, script, &stack, Version::WitnessV0)
}

/// P2PK, P2PKH and multisig, with exactly the elements they use on the stack.
fn execute(subject: &mut Subject<'_, '_>, script: &[u8], stack: &Stack<'_>, version: Version) -> Option<Plan> {
    match (script, stack.items()) {
        ([0x21, key @ .., OP_CHECKSIG], &[signature]) if key.len() == 33 => {
            single(subject, script, key, signature, version)
        }
        ([0x41, key @ .., OP_CHECKSIG], &[signature]) if key.len() == 65 => {
            single(subject, script, key, signature, version)
        }
        ([0x76, 0xa9, 0x14, hash @ .., 0x88, OP_CHECKSIG], &[signature, key]) if hash.len() == 20 => {
            let matches = hash160(key) == hash;
            matches.then(|| single(subject, script, key, signature, version))?
        }
        (_, &[dummy, ref signatures @ ..]) => multiple(subject, script, dummy, signatures, version),
        _ => None,
    }
}

fn single(
    subject: &mut Subject<'_, '_>,
    script: &[u8],
    key: &[u8],
    signature: &[u8],
    version: Version,
) -> Option<Plan> {
    if subject.flags.any_policy() && !strict::key(key, version) {
        return None;
    }
    let key = PublicKeyBytes::new(key)?;
    let (hash_type, signature) = read_signature(subject.flags, script, signature, version)?;
    let message = message(subject, script, hash_type, version);
    Some(Plan::Single(Check::Ecdsa { key, signature, message }))
}

fn multiple(
    subject: &mut Subject<'_, '_>,
    script: &[u8],
    dummy: &[u8],
    signatures: &[&[u8]],
    version: Version,
) -> Option<Plan> {
    let dummy_bytes_max = if subject.flags.has(Flags::NULLDUMMY) { 0 } else { ELEMENT_BYTES_MAX };
    let parsed = multisig::parse(script)?;
    if parsed.required != signatures.len() || dummy.len() > dummy_bytes_max {
        return None;
    }
    if subject.flags.any_policy() && !parsed.keys.iter().all(|key| strict::key(key.as_slice(), version)) {
        return None;
    }
    let mut signed: Vec<Signed> = Vec::with_capacity(signatures.len());
    let mut last: Option<(u8, [u8; 32])> = None;
    for bytes in signatures {
        let (hash_type, signature) = read_signature(subject.flags, script, bytes, version)?;
        let message = match last {
            Some((same, message)) if same == hash_type => message,
            _ => message(subject, script, hash_type, version),
        };
        last = Some((hash_type, message));
        signed.push(Signed { signature, message });
    }
    Some(Plan::Multisig(Box::new(Multisig::new(parsed.keys, signed))))
}

/// Hash type, r and s of a signature that nothing but the curve can still refuse.
fn read_signature(flags: Flags, script: &[u8], bytes: &[u8], version: Version) -> Option<(u8, [u8; 64])> {
    if bytes.len() > ELEMENT_BYTES_MAX || (flags.has(Flags::DERSIG) && !is_strict_der(bytes)) {
        return None;
    }
    if version == Version::Base && occurs_in(script, bytes) {
        return None;
    }
    let (&hash_type, encoded) = bytes.split_last()?;
    let signature = parse_der_lax(encoded)?;
    if flags.any_policy() && !strict::signature(hash_type, &signature) {
        return None;
    }
    Some((hash_type, signature))
}

/// True where FindAndDelete could find the signature's push in the script: its bytes occur somewhere.
fn occurs_in(script: &[u8], signature: &[u8]) -> bool {
    !signature.is_empty() && script.windows(signature.len()).any(|window| window == signature)
}

fn message(subject: &mut Subject<'_, '_>, script: &[u8], hash_type: u8, version: Version) -> [u8; 32] {
    match version {
        Version::Base => subject.sighasher.legacy(subject.index, script, hash_type.into()),
        Version::WitnessV0 => subject.sighasher.segwit_v0(subject.index, script, hash_type.into()),
    }
}
