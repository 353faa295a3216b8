//! What signatures sign: the three message digests, written plainly.
//!
//! In:     a draft, the coins it spends, which input, and a hash type.
//! Out:    32 bytes.
//! Fails:  never. For BIP 341, `SIGHASH_SINGLE` without a matching output has no digest: the caller avoids it.
//! Source: Core's `SignatureHash` and `SignatureHashSchnorr`; BIP 143, BIP 341, BIP 342. This is a second version, apart
//!         from `consensus`, on purpose: both must agree for a forged chain to pass.

use primitives::encode::put_compact_size;
use primitives::hash::{sha256, sha256d};

use super::draft::Draft;

/// Hash types.
pub const ALL: u8 = 1;
/// No output is signed.
pub const NONE: u8 = 2;
/// Only the output at the input's position is signed.
pub const SINGLE: u8 = 3;
/// Only this input is signed; added to the others.
pub const ANYONE_CAN_PAY: u8 = 0x80;
/// BIP 341's default: as [`ALL`], and no byte in the signature.
pub const DEFAULT: u8 = 0;

/// A coin as a digest sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedCoin {
    /// Amount.
    pub value_sat: u64,
    /// Output script.
    pub script: Vec<u8>,
}

/// BIP 340's tagged hash.
pub fn tagged(tag: &str, parts: &[&[u8]]) -> [u8; 32] {
    let tag = sha256(tag.as_bytes());
    let mut bytes = [tag, tag].concat();
    for part in parts {
        bytes.extend_from_slice(part);
    }
    sha256(&bytes)
}

/// The digest before BIP 143 (Core: `SignatureHash` with `SigVersion::BASE`).
pub fn legacy(draft: &Draft, index: usize, script_code: &[u8], hash_type: u8) -> [u8; 32] {
    let base = hash_type & 0x1f;
    if base == SINGLE && index >= draft.outputs.len() {
        // Core returns the number one.
        let mut one = [0; 32];
        one[0] = 1;
        return one;
    }
    let only_one = hash_type & ANYONE_CAN_PAY != 0;
    let mut out = Vec::with_capacity(16 + 41 * draft.inputs.len() + script_code.len() + 40 * draft.outputs.len());
    out.extend_from_slice(&draft.version.to_le_bytes());
    put_compact_size(&mut out, if only_one { 1 } else { draft.inputs.len() as u64 });
    for (at, input) in draft.inputs.iter().enumerate() {
        if only_one && at != index {
            continue;
        }
        out.extend_from_slice(&input.outpoint.encode());
        let code = if at == index { script_code } else { &[] };
        put_compact_size(&mut out, code.len() as u64);
        out.extend_from_slice(code);
        let sequence = if at != index && (base == NONE || base == SINGLE) { 0 } else { input.sequence };
        out.extend_from_slice(&sequence.to_le_bytes());
    }
    let outputs = match base {
        NONE => 0,
        SINGLE => index + 1,
        _ => draft.outputs.len(),
    };
    put_compact_size(&mut out, outputs as u64);
    for (at, output) in draft.outputs[..outputs].iter().enumerate() {
        if base == SINGLE && at != index {
            out.extend_from_slice(&[0xff; 8]);
            out.push(0);
        } else {
            output.write(&mut out);
        }
    }
    out.extend_from_slice(&draft.lock_time.to_le_bytes());
    out.extend_from_slice(&u32::from(hash_type).to_le_bytes());
    sha256d(&out)
}

/// Hashes over the whole transaction that every input's digest uses; single SHA-256, as BIP 341 takes them.
pub struct Parts {
    prevouts: [u8; 32],
    sequences: [u8; 32],
    outputs: [u8; 32],
    amounts: [u8; 32],
    scripts: [u8; 32],
}

impl Parts {
    /// Of a draft and the coins it spends, in the order of its inputs.
    pub fn of(draft: &Draft, coins: &[SignedCoin]) -> Parts {
        let (mut prevouts, mut sequences, mut outputs) = (Vec::new(), Vec::new(), Vec::new());
        let (mut amounts, mut scripts) = (Vec::new(), Vec::new());
        for (input, coin) in draft.inputs.iter().zip(coins) {
            prevouts.extend_from_slice(&input.outpoint.encode());
            sequences.extend_from_slice(&input.sequence.to_le_bytes());
            amounts.extend_from_slice(&coin.value_sat.to_le_bytes());
            put_compact_size(&mut scripts, coin.script.len() as u64);
            scripts.extend_from_slice(&coin.script);
        }
        draft.outputs.iter().for_each(|output| output.write(&mut outputs));
        Parts {
            prevouts: sha256(&prevouts),
            sequences: sha256(&sequences),
            outputs: sha256(&outputs),
            amounts: sha256(&amounts),
            scripts: sha256(&scripts),
        }
    }
}

/// The digest of BIP 143.
pub fn version_0(
    draft: &Draft,
    parts: &Parts,
    index: usize,
    script_code: &[u8],
    value_sat: u64,
    hash_type: u8,
) -> [u8; 32] {
    let base = hash_type & 0x1f;
    let only_one = hash_type & ANYONE_CAN_PAY != 0;
    let zero = [0; 32];
    let input = &draft.inputs[index];
    let mut out = Vec::with_capacity(160 + script_code.len());
    out.extend_from_slice(&draft.version.to_le_bytes());
    out.extend_from_slice(&if only_one { zero } else { sha256(&parts.prevouts) });
    let sequences = !only_one && base != SINGLE && base != NONE;
    out.extend_from_slice(&if sequences { sha256(&parts.sequences) } else { zero });
    out.extend_from_slice(&input.outpoint.encode());
    put_compact_size(&mut out, script_code.len() as u64);
    out.extend_from_slice(script_code);
    out.extend_from_slice(&value_sat.to_le_bytes());
    out.extend_from_slice(&input.sequence.to_le_bytes());
    out.extend_from_slice(&match base {
        NONE => zero,
        SINGLE => draft.outputs.get(index).map_or(zero, |output| {
            let mut bytes = Vec::new();
            output.write(&mut bytes);
            sha256d(&bytes)
        }),
        _ => sha256(&parts.outputs),
    });
    out.extend_from_slice(&draft.lock_time.to_le_bytes());
    out.extend_from_slice(&u32::from(hash_type).to_le_bytes());
    sha256d(&out)
}

/// The digest of BIP 341, without annex; `leaf` is the tapleaf hash of a script path (BIP 342, no code separator).
pub fn taproot(
    draft: &Draft,
    parts: &Parts,
    index: usize,
    coin: &SignedCoin,
    hash_type: u8,
    leaf: Option<[u8; 32]>,
) -> [u8; 32] {
    let base = if hash_type == DEFAULT { ALL } else { hash_type & 3 };
    let only_one = hash_type & ANYONE_CAN_PAY != 0;
    let input = &draft.inputs[index];
    let mut out = vec![0, hash_type];
    out.extend_from_slice(&draft.version.to_le_bytes());
    out.extend_from_slice(&draft.lock_time.to_le_bytes());
    if !only_one {
        for part in [&parts.prevouts, &parts.amounts, &parts.scripts, &parts.sequences] {
            out.extend_from_slice(part);
        }
    }
    if base == ALL {
        out.extend_from_slice(&parts.outputs);
    }
    out.push(if leaf.is_some() { 2 } else { 0 });
    if only_one {
        out.extend_from_slice(&input.outpoint.encode());
        out.extend_from_slice(&coin.value_sat.to_le_bytes());
        put_compact_size(&mut out, coin.script.len() as u64);
        out.extend_from_slice(&coin.script);
        out.extend_from_slice(&input.sequence.to_le_bytes());
    } else {
        out.extend_from_slice(&(index as u32).to_le_bytes());
    }
    if base == SINGLE {
        let mut bytes = Vec::new();
        draft.outputs[index].write(&mut bytes);
        out.extend_from_slice(&sha256(&bytes));
    }
    if let Some(leaf) = leaf {
        out.extend_from_slice(&leaf);
        out.push(0);
        out.extend_from_slice(&u32::MAX.to_le_bytes());
    }
    tagged("TapSighash", &[&out])
}
