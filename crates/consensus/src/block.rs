//! Rules about one block that need no coins.
//!
//! In:     a parsed block and the network; for [`check_contextual`] also height and median time past of the parent.
//! Out:    [`CheckedBlock`], the receipt, with every hash and count that later rules ask for.
//! Fails:  [`BlockError`], in Core's order.
//! Source: Bitcoin Core, `validation.cpp` (`CheckBlock`, `ContextualCheckBlock`, `CheckWitnessMalleation`).

use std::fmt;
use std::sync::Arc;

use primitives::hash::{merkle_root, sha256d_parts};
use primitives::sha256::sha256d_many;
use primitives::{Block, BlockHash, Header, Params, Tx, Txid, Wtxid};

use crate::errors::BlockError;
use crate::{BLOCK_WEIGHT_MAX, SIGOP_COST_MAX, WITNESS_SCALE, header, locks, signet, tx};

/// What begins the output script of a witness commitment: RETURN, a push of 36 bytes, BIP 141's four bytes.
const COMMITMENT_HEADER: [u8; 6] = [0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed];
/// Shortest output script of a witness commitment.
const COMMITMENT_BYTES: usize = 38;

/// A block that passed every rule needing no chain state.
///
/// [`check`] is the only way to make one, so taking `&CheckedBlock` is the proof.
#[derive(Clone)]
pub struct CheckedBlock {
    block: Block,
    hash: BlockHash,
    txids: Vec<Txid>,
    facts: Vec<tx::Facts>,
    stripped_bytes: usize,
    witness: WitnessVerdict,
    /// Where somebody knew them: they are not kept for the sake of blocks that wait by the thousand.
    wtxids: Option<Arc<Vec<Wtxid>>>,
}

impl fmt::Debug for CheckedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CheckedBlock({}, {} transactions)", self.hash, self.txids.len())
    }
}

/// What BIP 141 says of a block's witnesses, if it is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WitnessVerdict {
    /// No commitment; the first transaction that has witnesses nonetheless.
    Uncommitted { first_witness: Option<usize> },
    /// A commitment, and what it is worth; the first transaction with witnesses, for heights below the rule's.
    Committed { first_witness: Option<usize>, verdict: Result<(), BlockError> },
}

impl CheckedBlock {
    /// The block.
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// Its hash.
    pub fn hash(&self) -> &BlockHash {
        &self.hash
    }

    /// Its header.
    pub fn header(&self) -> &Header {
        self.block.header()
    }

    /// Ids of its transactions, in order.
    pub fn txids(&self) -> &[Txid] {
        &self.txids
    }

    /// Ids with witnesses, hashed anew unless they were known; zero stands for the coinbase's.
    pub fn wtxids(&self) -> Vec<Wtxid> {
        match &self.wtxids {
            Some(known) => known.to_vec(),
            None => witness_leaves(&self.block, &self.txids).into_iter().map(Wtxid).collect(),
        }
    }

    /// What the context-free pass learned of each transaction, in order.
    pub fn facts(&self) -> &[tx::Facts] {
        &self.facts
    }

    /// Weight (BIP 141).
    pub fn weight(&self) -> usize {
        (WITNESS_SCALE - 1) * self.stripped_bytes + self.block.bytes().len()
    }
}

/// Judges a block by itself; Core: `CheckBlock`, proof of work and signet solution included.
pub fn check(block: Block, params: &Params) -> Result<CheckedBlock, BlockError> {
    check_mined(block, |block| (txids_of(block), None), params)
}

/// The same for a block that was put together of known transactions, so that nothing is hashed twice: the caller has hashed
/// these very bytes. `wtxids` begin with anything for the coinbase.
pub fn check_identified(
    block: Block,
    txids: Vec<Txid>,
    mut wtxids: Vec<Wtxid>,
    params: &Params,
) -> Result<CheckedBlock, BlockError> {
    assert!(block.tx_count() == txids.len() && txids.len() == wtxids.len(), "an id for each transaction");
    // The commitment cannot cover the coinbase that holds it: zero stands in for that one.
    if let Some(first) = wtxids.first_mut() {
        *first = Wtxid([0; 32]);
    }
    check_mined(block, |_| (txids, Some(wtxids)), params)
}

/// Nothing is hashed for a header without work.
fn check_mined(
    block: Block,
    ids: impl FnOnce(&Block) -> (Vec<Txid>, Option<Vec<Wtxid>>),
    params: &Params,
) -> Result<CheckedBlock, BlockError> {
    let hash = block.header().hash();
    header::check_proof_of_work(&hash, block.header().bits, params)?;
    let (txids, wtxids) = ids(&block);
    if !signet::is_solved(&block, &hash, &txids, params) {
        return Err(BlockError::SignetSolution {});
    }
    check_contents(block, hash, txids, wtxids)
}

/// Judges a block that nobody has mined yet: neither proof of work nor signet solution are asked for (Core:
/// `TestBlockValidity`).
pub fn check_unmined(block: Block) -> Result<CheckedBlock, BlockError> {
    let (hash, txids) = (block.header().hash(), txids_of(&block));
    check_contents(block, hash, txids, None)
}

/// Judges nothing but whether the transactions are those the header commits to (Core: `IsBlockMutated`).
pub fn check_root(block: &Block) -> Result<(), BlockError> {
    check_merkle_root(block, &txids_of(block))
}

fn txids_of(block: &Block) -> Vec<Txid> {
    sha256d_many(block.tx_count(), |index| block.tx(index).stripped_parts()).into_iter().map(Txid).collect()
}

fn check_contents(
    block: Block,
    hash: BlockHash,
    txids: Vec<Txid>,
    wtxids: Option<Vec<Wtxid>>,
) -> Result<CheckedBlock, BlockError> {
    check_merkle_root(&block, &txids)?;
    let stripped_bytes = check_shape(&block)?;
    let facts = check_transactions(&block, &txids)?;
    let witness = judge_witnesses(&block, &txids, wtxids.as_deref());
    Ok(CheckedBlock { block, hash, txids, facts, stripped_bytes, witness, wtxids: wtxids.map(Arc::new) })
}

fn check_merkle_root(block: &Block, txids: &[Txid]) -> Result<(), BlockError> {
    let leaves: Vec<[u8; 32]> = txids.iter().map(|txid| txid.0).collect();
    let (root, mutated) = merkle_root(&leaves);
    let header = block.header().merkle_root;
    if header != root {
        return Err(BlockError::MerkleRoot { header: Txid(header), computed: Txid(root) });
    }
    if mutated { Err(BlockError::MerkleMutated {}) } else { Ok(()) }
}

/// Size, and a coinbase first and nowhere else; returns the bytes without witnesses.
fn check_shape(block: &Block) -> Result<usize, BlockError> {
    let (txs, stripped_bytes) = (block.tx_count(), block.stripped_length());
    if txs == 0 || txs * WITNESS_SCALE > BLOCK_WEIGHT_MAX || stripped_bytes * WITNESS_SCALE > BLOCK_WEIGHT_MAX {
        return Err(BlockError::Length { txs, stripped_bytes });
    }
    if !block.tx(0).is_coinbase() {
        return Err(BlockError::CoinbaseMissing {});
    }
    match block.txs().skip(1).position(|tx| tx.is_coinbase()) {
        Some(index) => Err(BlockError::CoinbaseMultiple { tx_index: index + 1 }),
        None => Ok(stripped_bytes),
    }
}

fn check_transactions(block: &Block, txids: &[Txid]) -> Result<Vec<tx::Facts>, BlockError> {
    let mut scratch = tx::Scratch::default();
    let mut facts = Vec::with_capacity(txids.len());
    for (tx_index, (tx, txid)) in block.txs().zip(txids).enumerate() {
        facts.push(tx::check(&tx, txid, &mut scratch).map_err(|error| BlockError::Tx { error, tx_index })?);
    }
    // Witness and redeem scripts are not counted here: `connect` counts them, with the coins at hand.
    let cost = WITNESS_SCALE as u64 * facts.iter().map(|facts| u64::from(facts.legacy_sigops)).sum::<u64>();
    if cost > SIGOP_COST_MAX { Err(BlockError::LegacySigOps { cost }) } else { Ok(facts) }
}

/// Position of the coinbase's output that commits to the witnesses: the last that looks like it (BIP 141).
pub fn commitment_output(coinbase: &Tx<'_>) -> Option<usize> {
    let is_commitment = |script: &[u8]| script.len() >= COMMITMENT_BYTES && script[..6] == COMMITMENT_HEADER;
    (0..coinbase.output_count()).rfind(|&vout| is_commitment(coinbase.output(vout).script))
}

/// Hashes the witnesses, where the coinbase commits to them.
fn judge_witnesses(block: &Block, txids: &[Txid], wtxids: Option<&[Wtxid]>) -> WitnessVerdict {
    let coinbase = block.tx(0);
    let first_witness = block.txs().position(|tx| tx.has_witness());
    match commitment_output(&coinbase) {
        None => WitnessVerdict::Uncommitted { first_witness },
        Some(vout) => {
            let leaves = || match wtxids {
                Some(known) => known.iter().map(|wtxid| wtxid.0).collect(),
                None => witness_leaves(block, txids),
            };
            let verdict = check_commitment(block, leaves, coinbase.output(vout).script);
            WitnessVerdict::Committed { first_witness, verdict }
        }
    }
}

fn check_commitment(block: &Block, leaves: impl FnOnce() -> Vec<[u8; 32]>, script: &[u8]) -> Result<(), BlockError> {
    let mut stack = block.tx(0).input(0).witness();
    let (Some(reserved), None) = (stack.next(), stack.next()) else { return Err(BlockError::WitnessNonce {}) };
    if reserved.len() != 32 {
        return Err(BlockError::WitnessNonce {});
    }
    let commitment = sha256d_parts(&[&merkle_root(&leaves()).0, reserved]);
    if commitment == script[6..COMMITMENT_BYTES] { Ok(()) } else { Err(BlockError::WitnessCommitment {}) }
}

/// Ids with witnesses, zero for the coinbase; a transaction without any has its id, and nothing is hashed.
fn witness_leaves(block: &Block, txids: &[Txid]) -> Vec<[u8; 32]> {
    let mut leaves: Vec<[u8; 32]> = txids.iter().map(|txid| txid.0).collect();
    leaves[0] = [0; 32];
    let with_witness: Vec<usize> = (1..txids.len()).filter(|&index| block.tx(index).has_witness()).collect();
    let hashes = sha256d_many(with_witness.len(), |at| [block.tx(with_witness[at]).raw(), &[], &[]]);
    for (index, hash) in with_witness.into_iter().zip(hashes) {
        leaves[index] = hash;
    }
    leaves
}

/// Judges a block by its place; Core: `ContextualCheckBlock`. `median_time_past_s` is that of the parent.
pub fn check_contextual(
    checked: &CheckedBlock,
    height: u32,
    median_time_past_s: u32,
    params: &Params,
) -> Result<(), BlockError> {
    let block = &checked.block;
    // BIP 113: locks look at the median time past, which a miner cannot push ahead.
    let time_s = if height >= params.csv_height { median_time_past_s } else { block.header().time_s };
    if let Some(tx) = block.txs().find(|tx| !locks::is_final(tx, height, time_s)) {
        return Err(BlockError::NonFinal { tx_index: tx.index(), lock_time: tx.lock_time() });
    }
    if height >= params.bip34_height {
        let script_sig = block.tx(0).input(0).script_sig();
        if !script_sig.starts_with(&height_push(height)) {
            return Err(BlockError::CoinbaseHeight { height });
        }
    }
    let first_witness = match checked.witness {
        WitnessVerdict::Committed { verdict, .. } if height >= params.segwit_height => {
            verdict?;
            None
        }
        WitnessVerdict::Committed { first_witness, .. } | WitnessVerdict::Uncommitted { first_witness } => {
            first_witness
        }
    };
    if let Some(tx_index) = first_witness {
        return Err(BlockError::UnexpectedWitness { tx_index });
    }
    let got = checked.weight();
    if got > BLOCK_WEIGHT_MAX { Err(BlockError::Weight { got }) } else { Ok(()) }
}

/// What a coinbase script begins with at `height`: Core's `CScript() << nHeight` (BIP 34).
pub fn height_push(height: u32) -> Vec<u8> {
    match height {
        0 => vec![0],
        1..=16 => vec![0x50 + height as u8],
        _ => {
            let mut number = height.to_le_bytes().to_vec();
            while number.last() == Some(&0) {
                number.pop();
            }
            // The top bit is the sign: a zero byte keeps the number positive.
            if number.last().is_some_and(|byte| byte & 0x80 != 0) {
                number.push(0);
            }
            number.insert(0, number.len() as u8);
            number
        }
    }
}
