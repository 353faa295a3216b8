//! Taproot's two templates: the key path, and a leaf `<key> CHECKSIG`.
//!
//! In:     an input whose coin is `1 <32 bytes>`, with witness and taproot rules in force.
//! Out:    one Schnorr row.
//! Fails:  `None` for every other leaf, and for whatever BIP 341 or BIP 342 refuses.
//! Source: BIP 341, BIP 342; Core's `VerifyWitnessProgram`, `ComputeTaprootMerkleRoot`, `CheckTapTweak`.
//!
//! One signature always fits the budget of BIP 342: the budget is the witness's size plus 50, a signature costs 50.

use std::sync::LazyLock;

use bitcoin_hashes::{HashEngine as _, sha256};
use sigs::Check;

use super::push::{Stack, is_true};
use super::sighash::{feed_script, tagged};
use super::template::Subject;

/// First byte of an annex.
const ANNEX_TAG: u8 = 0x50;
/// Leaf version of tapscript; the control block's lowest bit is the parity of the output key.
const LEAF_TAPSCRIPT: u8 = 0xc0;
/// Control block without a merkle path, in bytes.
const CONTROL_BYTES_MIN: usize = 33;
/// Longest merkle path.
const PATH_LENGTH_MAX: usize = 128;

static TAP_LEAF: LazyLock<sha256::HashEngine> = LazyLock::new(|| tagged(b"TapLeaf"));
static TAP_BRANCH: LazyLock<sha256::HashEngine> = LazyLock::new(|| tagged(b"TapBranch"));
static TAP_TWEAK: LazyLock<sha256::HashEngine> = LazyLock::new(|| tagged(b"TapTweak"));

pub(super) fn plan(subject: &mut Subject<'_, '_>, program: &[u8; 32]) -> Option<Check> {
    // The program is also run as a script, and one that is zero as a number, or negative zero, is false.
    if !subject.input.script_sig().is_empty() || !is_true(program) {
        return None;
    }
    let mut stack = Stack::of_witness(subject.input.witness())?;
    let annex = take_annex(&mut stack);
    match *stack.items() {
        [signature] => row(subject, program, signature, annex.as_ref(), None),
        [signature, script @ &[0x20, ref key @ .., 0xac], control] => {
            let key: &[u8; 32] = key.try_into().ok()?;
            let leaf = tapleaf_hash(script);
            let committed = is_committed(program, control, leaf);
            committed.then(|| row(subject, key, signature, annex.as_ref(), Some(&leaf)))?
        }
        _ => None,
    }
}

/// Removes an annex and gives its hash.
fn take_annex(stack: &mut Stack<'_>) -> Option<[u8; 32]> {
    let annex = match *stack.items() {
        [_, .., annex] if annex.first() == Some(&ANNEX_TAG) => annex,
        _ => return None,
    };
    stack.pop();
    let mut engine = sha256::HashEngine::new();
    feed_script(&mut engine, annex);
    Some(engine.finalize().to_byte_array())
}

/// The row of a signature with 64 bytes, or 65 where the last one is a hash type other than zero.
fn row(
    subject: &mut Subject<'_, '_>,
    key: &[u8; 32],
    signature: &[u8],
    annex: Option<&[u8; 32]>,
    leaf: Option<&[u8; 32]>,
) -> Option<Check> {
    let (signature, hash_type) = match signature.split_first_chunk::<64>()? {
        (signature, []) => (signature, 0),
        (_, [0]) => return None,
        (signature, &[hash_type]) => (signature, hash_type),
        _ => return None,
    };
    let message = subject.sighasher.taproot(subject.index, hash_type, annex, leaf)?;
    Some(Check::Schnorr { key: *key, signature: *signature, message })
}

fn tapleaf_hash(script: &[u8]) -> [u8; 32] {
    let mut engine = TAP_LEAF.clone();
    engine.input(&[LEAF_TAPSCRIPT]);
    feed_script(&mut engine, script);
    engine.finalize().to_byte_array()
}

/// True where the control block leads from a tapscript leaf to the output key.
fn is_committed(output: &[u8; 32], control: &[u8], leaf: [u8; 32]) -> bool {
    let Some((&[first, ref internal @ ..], path)) = control.split_first_chunk::<CONTROL_BYTES_MIN>() else {
        return false;
    };
    let (nodes, rest) = path.as_chunks::<32>();
    if first & 0xfe != LEAF_TAPSCRIPT || !rest.is_empty() || nodes.len() > PATH_LENGTH_MAX {
        return false;
    }
    let root = nodes.iter().fold(leaf, |node, sibling| branch_hash(&node, sibling));
    let mut engine = TAP_TWEAK.clone();
    engine.input(internal);
    engine.input(&root);
    sigs::tweak_add_check(output, first & 1 == 1, internal, &engine.finalize().to_byte_array())
}

fn branch_hash(a: &[u8; 32], b: &[u8; 32]) -> [u8; 32] {
    let mut engine = TAP_BRANCH.clone();
    engine.input(a.min(b));
    engine.input(a.max(b));
    engine.finalize().to_byte_array()
}
