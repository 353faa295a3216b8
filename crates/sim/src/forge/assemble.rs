//! Putting a block together: coinbase, witness commitment, merkle root, proof of work.
//!
//! In:     signed transactions and what the coinbase and the header should say.
//! Out:    the block's bytes and hash.
//! Fails:  never on regtest, whose target half of all hashes reach.
//! Source: BIP 34, BIP 141; Core's `GenerateCoinbaseCommitment`.

use primitives::encode::put_compact_size;
use primitives::hash::{merkle_root, sha256d_parts};
use primitives::{BlockHash, Header, OutPoint, Txid};

use super::draft::{Draft, DraftInput, DraftOutput};
use super::lock::{push, push_number};

/// First bytes of the output that carries the witness commitment (BIP 141).
pub const COMMITMENT_PREFIX: [u8; 6] = [0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed];

/// What the coinbase says.
#[derive(Clone, Debug)]
pub struct Coinbase {
    /// Height, pushed first (BIP 34).
    pub height: u32,
    /// Bytes that make its txid unlike others'.
    pub extra_nonce: u64,
    /// Outputs before the commitment.
    pub outputs: Vec<DraftOutput>,
    /// True for a witness commitment, and the reserved value in the input's witness.
    pub commitment: bool,
}

/// A transaction that is ready.
#[derive(Clone, Debug)]
pub struct Part {
    /// All its bytes.
    pub bytes: Vec<u8>,
    /// Its txid.
    pub txid: [u8; 32],
    /// Its hash with witnesses.
    pub wtxid: [u8; 32],
}

/// Header fields that are not computed.
#[derive(Clone, Copy, Debug)]
pub struct HeaderPlan {
    /// Version.
    pub version: i32,
    /// Hash of the block before.
    pub previous: BlockHash,
    /// Time.
    pub time_s: u32,
    /// Target, compact.
    pub bits: u32,
}

/// A block that is ready.
#[derive(Clone, Debug)]
pub struct Built {
    /// All its bytes.
    pub bytes: Vec<u8>,
    /// Its hash.
    pub hash: BlockHash,
    /// The coinbase's id.
    pub coinbase_txid: Txid,
}

impl Part {
    /// Of a draft.
    pub fn of(draft: &Draft) -> Part {
        let bytes = draft.encode();
        let wtxid = primitives::hash::sha256d(&bytes);
        Part { txid: draft.txid().0, wtxid, bytes }
    }
}

/// The coinbase, with the commitment to `parts` where it is wanted.
pub fn coinbase(plan: &Coinbase, parts: &[Part]) -> Draft {
    let mut script_sig = Vec::new();
    push_number(&mut script_sig, plan.height);
    push(&mut script_sig, &plan.extra_nonce.to_le_bytes());
    let mut input = DraftInput::unsigned(OutPoint::NULL, u32::MAX);
    input.script_sig = script_sig;
    let mut outputs = plan.outputs.clone();
    if plan.commitment {
        input.witness = vec![vec![0; 32]];
        outputs.push(DraftOutput { value_sat: 0, script: commitment_script(parts, &[0; 32]) });
    }
    Draft { version: 2, inputs: vec![input], outputs, lock_time: 0 }
}

/// The output script that commits to the witnesses of `parts` under a reserved value.
pub fn commitment_script(parts: &[Part], reserved: &[u8; 32]) -> Vec<u8> {
    let mut leaves = vec![[0; 32]];
    leaves.extend(parts.iter().map(|part| part.wtxid));
    let mut script = COMMITMENT_PREFIX.to_vec();
    script.extend_from_slice(&sha256d_parts(&[&merkle_root(&leaves).0, reserved]));
    script
}

/// A whole block, mined.
pub fn block(plan: &Coinbase, parts: &[Part], header: &HeaderPlan) -> Built {
    with_coinbase(&coinbase(plan, parts), parts, header)
}

/// A whole block, mined, with this coinbase.
pub fn with_coinbase(coinbase: &Draft, parts: &[Part], header: &HeaderPlan) -> Built {
    let first = Part::of(coinbase);
    let mut leaves = vec![first.txid];
    leaves.extend(parts.iter().map(|part| part.txid));
    let header = Header {
        version: header.version,
        previous: header.previous,
        merkle_root: merkle_root(&leaves).0,
        time_s: header.time_s,
        bits: header.bits,
        nonce: 0,
    };
    let header = mine(header);
    let mut bytes = Vec::with_capacity(100 + first.bytes.len() + parts.iter().map(|p| p.bytes.len()).sum::<usize>());
    bytes.extend_from_slice(&header.encode());
    put_compact_size(&mut bytes, 1 + parts.len() as u64);
    bytes.extend_from_slice(&first.bytes);
    parts.iter().for_each(|part| bytes.extend_from_slice(&part.bytes));
    Built { bytes, hash: header.hash(), coinbase_txid: Txid(first.txid) }
}

/// Whether `hash` reaches the target of `bits`, for targets whose three bytes lie inside 32.
pub fn reaches(hash: &BlockHash, bits: u32) -> bool {
    let size = (bits >> 24) as usize;
    let mut target = [0u8; 32];
    for (at, byte) in bits.to_be_bytes()[1..].iter().enumerate() {
        if let Some(index) = size.checked_sub(1 + at) {
            target[index] = *byte;
        }
    }
    hash.0.iter().rev().le(target.iter().rev())
}

/// Turns the nonce until the hash reaches the target; two tries on regtest.
pub fn mine(mut header: Header) -> Header {
    while !reaches(&header.hash(), header.bits) {
        header.nonce = header.nonce.wrapping_add(1);
    }
    header
}
