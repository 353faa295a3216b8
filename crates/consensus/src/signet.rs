//! The signature of a signet block.
//!
//! In:     a block, its transaction ids, the network's challenge.
//! Out:    whether the solution in the coinbase satisfies the challenge.
//! Fails:  never; a solution that cannot be read is none.
//! Source: BIP 325; Bitcoin Core, `signet.cpp`.

use primitives::encode::{compact_size, put_compact_size};
use primitives::hash::{merkle_root, sha256d};
use primitives::script::{Operation, Operations};
use primitives::{Block, BlockHash, Params, Tx, Txid};
use stdx::bytes::Reader;

use crate::block::commitment_output;
use crate::flags::Flags;

/// What begins the push that holds the solution.
const SOLUTION_HEADER: [u8; 4] = [0xec, 0xc7, 0xda, 0xa2];
/// Script rules of the challenge; Core's `BLOCK_SCRIPT_VERIFY_FLAGS`.
const FLAGS: Flags = Flags(Flags::P2SH.0 | Flags::WITNESS.0 | Flags::DERSIG.0 | Flags::NULLDUMMY.0);

/// A solution: input script and witness stack, as serialized.
#[derive(Debug, Default, PartialEq, Eq)]
struct Solution {
    script_sig: Vec<u8>,
    witness: Vec<u8>,
    witness_count: u64,
}

/// True on networks without a challenge, for the genesis block, and for blocks whose solution satisfies it.
pub fn is_solved(block: &Block, hash: &BlockHash, txids: &[Txid], params: &Params) -> bool {
    match &params.signet_challenge {
        Some(challenge) if *hash != params.genesis_hash => satisfies(block, txids, challenge).unwrap_or(false),
        _ => true,
    }
}

/// Core's `SignetTxs::Create` and `CheckSignetBlockSolution`; `None` where the block cannot be read as BIP 325 says.
fn satisfies(block: &Block, txids: &[Txid], challenge: &[u8]) -> Option<bool> {
    let coinbase = (block.tx_count() > 0).then(|| block.tx(0))?;
    let vout = commitment_output(&coinbase)?;
    let (script, push) = clear_solution(coinbase.output(vout).script);
    // Without a push the solution is empty, which a trivial challenge accepts.
    let solution = push.map_or(Some(Solution::default()), |push| parse_solution(&push))?;
    let mut leaves: Vec<[u8; 32]> = txids.iter().map(|txid| txid.0).collect();
    leaves[0] = txid_with_script(&coinbase, vout, &script);
    let spent = transaction_to_spend(block, &merkle_root(&leaves).0, challenge);
    let spending = transaction_that_spends(&sha256d(&spent), &solution);
    Some(interpreter_accepts(challenge, &spending))
}

/// The commitment's script without the solution, and the solution; the script as it is where there is none.
///
/// Core's `FetchAndClearCommitmentSection`: every operation is written anew, and what cannot be read is dropped.
fn clear_solution(script: &[u8]) -> (Vec<u8>, Option<Vec<u8>>) {
    let (mut cleared, mut solution) = (Vec::with_capacity(script.len()), None);
    for Operation { code, data } in Operations::of(script) {
        if data.is_empty() {
            cleared.push(code);
        } else if solution.is_none() && data.len() > 4 && data.starts_with(&SOLUTION_HEADER) {
            solution = Some(data[4..].to_vec());
            push(&mut cleared, &SOLUTION_HEADER);
        } else {
            push(&mut cleared, data);
        }
    }
    if solution.is_some() { (cleared, solution) } else { (script.to_vec(), None) }
}

/// Appends the shortest operation that pushes `data` (Core: `CScript::operator<<`, which knows no small numbers here).
fn push(script: &mut Vec<u8>, data: &[u8]) {
    match data.len() {
        length @ 0..=0x4b => script.push(length as u8),
        length @ 0x4c..=0xff => script.extend_from_slice(&[0x4c, length as u8]),
        length @ 0x100..=0xffff => {
            script.push(0x4d);
            script.extend_from_slice(&(length as u16).to_le_bytes());
        }
        length => {
            script.push(0x4e);
            script.extend_from_slice(&(length as u32).to_le_bytes());
        }
    }
    script.extend_from_slice(data);
}

/// Input script, then witness stack, and nothing after.
fn parse_solution(bytes: &[u8]) -> Option<Solution> {
    let mut reader = Reader::new(bytes);
    let length = compact_size(&mut reader).ok()? as usize;
    let script_sig = reader.take(length).ok()?.to_vec();
    let start = reader.position();
    let witness_count = compact_size(&mut reader).ok()?;
    for _ in 0..witness_count {
        let length = compact_size(&mut reader).ok()? as usize;
        reader.take(length).ok()?;
    }
    (reader.left() == 0).then(|| Solution { script_sig, witness: bytes[start..].to_vec(), witness_count })
}

/// Id of the coinbase with another script in one output.
fn txid_with_script(coinbase: &Tx<'_>, vout: usize, script: &[u8]) -> [u8; 32] {
    let mut bytes = coinbase.version().to_le_bytes().to_vec();
    put_compact_size(&mut bytes, coinbase.input_count() as u64);
    for input in coinbase.inputs() {
        bytes.extend_from_slice(input.outpoint_bytes());
        put_bytes(&mut bytes, input.script_sig());
        bytes.extend_from_slice(&input.sequence().to_le_bytes());
    }
    put_compact_size(&mut bytes, coinbase.output_count() as u64);
    for (index, output) in coinbase.outputs().enumerate() {
        bytes.extend_from_slice(&output.value_sat.to_le_bytes());
        put_bytes(&mut bytes, if index == vout { script } else { output.script });
    }
    bytes.extend_from_slice(&coinbase.lock_time().to_le_bytes());
    sha256d(&bytes)
}

/// Version 0, one input that pushes what is signed of the header, one output with the challenge.
fn transaction_to_spend(block: &Block, merkle_root: &[u8; 32], challenge: &[u8]) -> Vec<u8> {
    let header = block.header();
    let mut signed = header.version.to_le_bytes().to_vec();
    signed.extend_from_slice(&header.previous.0);
    signed.extend_from_slice(merkle_root);
    signed.extend_from_slice(&header.time_s.to_le_bytes());
    let mut script_sig = vec![0];
    push(&mut script_sig, &signed);
    let mut bytes = vec![0, 0, 0, 0, 1];
    bytes.extend_from_slice(&[0; 32]);
    bytes.extend_from_slice(&[0xff; 4]);
    put_bytes(&mut bytes, &script_sig);
    bytes.extend_from_slice(&[0, 0, 0, 0, 1]);
    bytes.extend_from_slice(&[0; 8]);
    put_bytes(&mut bytes, challenge);
    bytes.extend_from_slice(&[0; 4]);
    bytes
}

/// Version 0, one input that carries the solution, one output that returns nothing.
fn transaction_that_spends(txid: &[u8; 32], solution: &Solution) -> Vec<u8> {
    let has_witness = solution.witness_count > 0;
    let mut bytes = vec![0, 0, 0, 0];
    if has_witness {
        bytes.extend_from_slice(&[0, 1]);
    }
    bytes.push(1);
    bytes.extend_from_slice(txid);
    bytes.extend_from_slice(&[0; 4]);
    put_bytes(&mut bytes, &solution.script_sig);
    bytes.extend_from_slice(&[0, 0, 0, 0, 1]);
    bytes.extend_from_slice(&[0; 8]);
    put_bytes(&mut bytes, &[0x6a]);
    if has_witness {
        bytes.extend_from_slice(&solution.witness);
    }
    bytes.extend_from_slice(&[0; 4]);
    bytes
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_compact_size(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Bitcoin Core's interpreter on input 0, which spends `challenge` worth nothing.
fn interpreter_accepts(challenge: &[u8], spending: &[u8]) -> bool {
    let verdict = || {
        let tx = bitcoinkernel::Transaction::new(spending)?;
        let script = bitcoinkernel::ScriptPubkey::new(challenge)?;
        let spent = [bitcoinkernel::TxOut::new(&script, 0)];
        let data = bitcoinkernel::PrecomputedTransactionData::new(&tx, &spent)?;
        bitcoinkernel::verify(&script, Some(0), &tx, 0, Some(FLAGS.0), &data)
    };
    verdict().is_ok()
}
