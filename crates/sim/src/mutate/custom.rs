//! Cases about scripts of no common type: limits of the interpreter, and versions yet to come.
//!
//! In:     a block on the bench.
//! Out:    an output with an odd script, spent in the same block.
//! Fails:  none where the world lacks a coin.
//! Source: Core's `EvalScript`, `VerifyScript`, `VerifyWitnessProgram`; BIP 16, 141, 341, 342.

use primitives::hash::{hash160, sha256};

use super::{Case, Craft, broken, valid};
use crate::forge::lock::push;

const RULE: &str = "Script";
const TRUE: u8 = 0x51;
const NOP: u8 = 0x61;
const DROP: u8 = 0x75;

/// The table.
pub const CASES: &[Case] = &[
    valid("bare true", |craft| bare(craft, vec![TRUE])),
    broken(RULE, "bare false", |craft| bare(craft, vec![0])),
    broken(RULE, "bare nothing", |craft| bare(craft, Vec::new())),
    broken(RULE, "negative zero is false", |craft| bare(craft, vec![1, 0x80])),
    valid("more than one item left in a bare script", |craft| bare(craft, vec![TRUE, TRUE])),
    valid("script of 10,000 bytes", |craft| bare(craft, big(10_000))),
    valid("push of 520 bytes", |craft| bare(craft, push_drop(520))),
    broken(RULE, "push of 521 bytes", |craft| bare(craft, push_drop(521))),
    valid("201 operations", |craft| bare(craft, nops(201))),
    broken(RULE, "202 operations", |craft| bare(craft, nops(202))),
    broken(RULE, "a disabled operation that is not reached", |craft| bare(craft, vec![0, 0x63, 0x7e, 0x68, TRUE])),
    broken(RULE, "a reserved operation that is reached", |craft| bare(craft, vec![0x50, TRUE])),
    valid("a reserved operation that is not reached", |craft| bare(craft, vec![0, 0x63, 0x50, 0x68, TRUE])),
    broken(RULE, "VERIF even when it is not reached", |craft| bare(craft, vec![0, 0x63, 0x65, 0x68, TRUE])),
    broken(RULE, "an IF that does not end", |craft| bare(craft, vec![TRUE, TRUE, 0x63])),
    broken(RULE, "a push that runs past the end", |craft| bare(craft, vec![TRUE, 5, 1])),
    valid("a NOP kept for later rules", |craft| bare(craft, vec![0xb9, TRUE])),
    valid("1,000 items on the stack", |craft| bare(craft, vec![TRUE; 1000])),
    broken(RULE, "1,001 items on the stack", |craft| bare(craft, vec![TRUE; 1001])),
    valid("true in P2SH", |craft| p2sh(craft, vec![TRUE], &[])),
    valid("more than one item left in P2SH", |craft| p2sh(craft, vec![TRUE, TRUE], &[])),
    broken(RULE, "false in P2SH", |craft| p2sh(craft, vec![0], &[])),
    broken(RULE, "an operation in the input script of P2SH", |craft| p2sh(craft, vec![TRUE], &[NOP])),
    broken(RULE, "another script than the one hashed", |craft| {
        let script = [&[0xa9, 20], &hash160(&[TRUE])[..], &[0x87]].concat();
        craft.custom(script, vec![2, NOP, TRUE], Vec::new())
    }),
    valid("true in P2WSH", |craft| p2wsh(craft, vec![TRUE], Vec::new())),
    broken(RULE, "more than one item left in P2WSH", |craft| p2wsh(craft, vec![TRUE, TRUE], Vec::new())),
    broken(RULE, "nothing left in P2WSH", |craft| p2wsh(craft, vec![NOP], Vec::new())),
    valid("witness script of 10,000 bytes", |craft| p2wsh(craft, big(10_000), Vec::new())),
    broken(RULE, "witness script of 10,001 bytes", |craft| p2wsh(craft, big(10_001), Vec::new())),
    valid("witness item of 520 bytes", |craft| p2wsh(craft, vec![DROP, TRUE], vec![vec![1; 520]])),
    broken(RULE, "witness item of 521 bytes", |craft| p2wsh(craft, vec![DROP, TRUE], vec![vec![1; 521]])),
    valid("an IF on 2 in P2WSH", |craft| p2wsh(craft, vec![0x63, TRUE, 0x67, 0, 0x68], vec![vec![2]])),
    broken(RULE, "another witness script than the one hashed", |craft| {
        craft.custom([&[0, 32], &sha256(&[TRUE])[..]].concat(), Vec::new(), vec![vec![NOP, TRUE]])
    }),
    broken(RULE, "no witness for P2WSH", |craft| {
        craft.custom([&[0, 32], &sha256(&[TRUE])[..]].concat(), Vec::new(), Vec::new())
    }),
    broken(RULE, "a version 0 program of 21 bytes", |craft| program(craft, 0, 21, vec![vec![TRUE]])),
    broken(RULE, "a version 0 program of 31 bytes", |craft| program(craft, 0, 31, vec![vec![TRUE]])),
    valid("a version 1 program of 31 bytes", |craft| program(craft, 0x51, 31, vec![vec![7; 80]])),
    valid("a version 1 program of 33 bytes", |craft| program(craft, 0x51, 33, Vec::new())),
    valid("a version 2 program", |craft| program(craft, 0x52, 32, vec![vec![1]])),
    valid("a version 16 program of 40 bytes", |craft| program(craft, 0x60, 40, vec![Vec::new()])),
    broken(RULE, "41 bytes are no witness program, so a witness is too much", |craft| {
        program(craft, 0x60, 41, vec![vec![1]])
    }),
    valid("41 bytes are no witness program", |craft| program(craft, 0x60, 41, Vec::new())),
    broken(RULE, "a version 1 program of 32 bytes without witness", |craft| program(craft, 0x51, 32, Vec::new())),
    broken(RULE, "a taproot key that is no point", |craft| {
        // x = 5 is on no point of the curve.
        let mut script = vec![0x51, 32];
        script.extend_from_slice(&[0; 31]);
        script.push(5);
        craft.custom(script, Vec::new(), vec![vec![1; 64]])
    }),
    valid("taproot inside P2SH is left alone", |craft| {
        let inner = [&[0x51, 32], &[9; 32][..]].concat();
        p2sh_with(craft, inner, &[], vec![vec![1]])
    }),
    valid("OP_SUCCESS in a leaf", |craft| leaf(craft, 0xc0, vec![0x50], Vec::new())),
    valid("OP_SUCCESS after nonsense in a leaf", |craft| leaf(craft, 0xc0, vec![0x6a, 0xfe, 0x7e], Vec::new())),
    broken(RULE, "OP_SUCCESS after a push that runs past the end", |craft| leaf(craft, 0xc0, vec![0x4c], Vec::new())),
    valid("an unknown leaf version", |craft| leaf(craft, 0xc2, vec![0], Vec::new())),
    valid("true in a leaf", |craft| leaf(craft, 0xc0, vec![TRUE], Vec::new())),
    broken(RULE, "false in a leaf", |craft| leaf(craft, 0xc0, vec![0], Vec::new())),
    broken(RULE, "more than one item left in a leaf", |craft| leaf(craft, 0xc0, vec![TRUE, TRUE], Vec::new())),
    valid("leaf of 10,001 bytes", |craft| leaf(craft, 0xc0, big(10_001), Vec::new())),
    valid("202 operations in a leaf", |craft| leaf(craft, 0xc0, nops(202), Vec::new())),
    broken(RULE, "multisig in a leaf", |craft| leaf(craft, 0xc0, vec![0, 0, 0, 0xae], Vec::new())),
    valid("an IF on 1 in a leaf", |craft| leaf(craft, 0xc0, vec![0x63, TRUE, 0x67, 0, 0x68], vec![vec![1]])),
    broken(RULE, "an IF on 2 in a leaf", |craft| leaf(craft, 0xc0, vec![0x63, TRUE, 0x67, 0, 0x68], vec![vec![2]])),
    valid("an unknown kind of key in a leaf", |craft| leaf(craft, 0xc0, vec![2, 7, 7, 0xac], vec![vec![1; 10]])),
    broken(RULE, "an empty key in a leaf", |craft| leaf(craft, 0xc0, vec![0, 0xac], vec![vec![1; 64]])),
    broken(RULE, "more signature checks than the witness pays for", |craft| {
        // Each costs 50 of a budget of 50 and the witness's size: 11 with a short signature run it out.
        let mut script = Vec::new();
        for _ in 0..11 {
            script.extend_from_slice(&[TRUE, 2, 7, 7, 0xac, DROP]);
        }
        script.push(TRUE);
        leaf(craft, 0xc0, script, Vec::new())
    }),
];

fn bare(craft: &mut Craft<'_>, script: Vec<u8>) -> Option<()> {
    craft.custom(script, Vec::new(), Vec::new())
}

/// Pushes and drops of 520 bytes, then true, in exactly so many bytes.
fn big(length: usize) -> Vec<u8> {
    let mut script = Vec::new();
    while script.len() + 1 < length {
        let data = (length - script.len() - 1).checked_sub(4).map_or(0, |room| room.min(520));
        if data < 256 {
            script.push(NOP);
        } else {
            push(&mut script, &vec![7; data]);
            script.push(DROP);
        }
    }
    script.push(TRUE);
    script
}

fn push_drop(length: usize) -> Vec<u8> {
    let mut script = Vec::new();
    push(&mut script, &vec![7; length]);
    script.extend_from_slice(&[DROP, TRUE]);
    script
}

fn nops(count: usize) -> Vec<u8> {
    let mut script = vec![NOP; count];
    script.push(TRUE);
    script
}

fn p2sh(craft: &mut Craft<'_>, redeem: Vec<u8>, before: &[u8]) -> Option<()> {
    p2sh_with(craft, redeem, before, Vec::new())
}

fn p2sh_with(craft: &mut Craft<'_>, redeem: Vec<u8>, before: &[u8], witness: Vec<Vec<u8>>) -> Option<()> {
    let script = [&[0xa9, 20], &hash160(&redeem)[..], &[0x87]].concat();
    let mut script_sig = before.to_vec();
    push(&mut script_sig, &redeem);
    craft.custom(script, script_sig, witness)
}

fn p2wsh(craft: &mut Craft<'_>, script: Vec<u8>, mut items: Vec<Vec<u8>>) -> Option<()> {
    let output = [&[0, 32], &sha256(&script)[..]].concat();
    items.push(script);
    craft.custom(output, Vec::new(), items)
}

fn program(craft: &mut Craft<'_>, version: u8, length: usize, witness: Vec<Vec<u8>>) -> Option<()> {
    let mut script = vec![version, length as u8];
    script.extend(std::iter::repeat_n(9, length));
    craft.custom(script, Vec::new(), witness)
}

/// A taproot output with one leaf, spent by it.
fn leaf(craft: &mut Craft<'_>, version: u8, script: Vec<u8>, mut items: Vec<Vec<u8>>) -> Option<()> {
    use crate::forge::sighash::tagged;
    let mut bytes = vec![version];
    primitives::encode::put_compact_size(&mut bytes, script.len() as u64);
    let root = tagged("TapLeaf", &[&bytes, &script]);
    let output = craft.world.keys.tweaked(3, Some(root));
    let mut control = vec![version | u8::from(output.odd)];
    control.extend_from_slice(&craft.world.keys.signer(3).x);
    items.extend([script, control]);
    craft.custom([&[0x51, 32], &output.x[..]].concat(), Vec::new(), items)
}
