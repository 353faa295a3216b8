//! A block on paper: what is spent and paid, before anything is signed.
//!
//! In:     the planner's decisions.
//! Out:    drafts to sign, and how their inputs open.
//! Fails:  never.

use primitives::{OutPoint, Txid};
use stdx::random::Random;

use super::Keyring;
use super::draft::{Draft, DraftInput, DraftOutput};
use super::lock::{Lock, SEQUENCE_SECONDS, push};
use super::plan::{JITTER_S, SPACING_S};
use super::sighash::SignedCoin;
use super::sign::Opening;

/// Where a coin's transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Signed already.
    Known(Txid),
    /// Planned at this position of the same block.
    SameBlock(u32),
}

/// A coin the planner may spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedCoin {
    /// Its transaction.
    pub source: Source,
    /// Its output.
    pub vout: u32,
    /// Height of its block.
    pub height: u32,
    /// Amount.
    pub value_sat: u64,
    /// Its lock.
    pub lock: Lock,
}

/// An input, planned.
#[derive(Clone, Copy, Debug)]
pub struct PlannedInput {
    /// What it spends.
    pub coin: PlannedCoin,
    /// Its sequence.
    pub sequence: u32,
    /// Hash type of its signatures.
    pub hash_type: u8,
}

/// An output, planned.
#[derive(Clone, Copy, Debug)]
pub enum PlannedOutput {
    /// Pays a lock.
    Pay(Lock, u64),
    /// `OP_RETURN` and so many bytes, from this seed.
    Data(u8, u64),
}

/// A transaction, planned.
#[derive(Clone, Debug)]
pub struct PlannedTx {
    /// Version.
    pub version: u32,
    /// Lock time.
    pub lock_time: u32,
    /// Longest row of parents in the same block.
    pub depth: u32,
    /// Inputs.
    pub inputs: Vec<PlannedInput>,
    /// Outputs.
    pub outputs: Vec<PlannedOutput>,
}

/// A block, planned.
#[derive(Clone, Debug)]
pub struct BlockPlan {
    /// Its height.
    pub height: u32,
    /// Its time.
    pub time_s: u32,
    /// Its version.
    pub version: i32,
    /// What makes the coinbase unlike others.
    pub extra_nonce: u64,
    /// Outputs of the coinbase.
    pub coinbase: Vec<(Lock, u64)>,
    /// True for a witness commitment.
    pub commitment: bool,
    /// Transactions after the coinbase; parents come first.
    pub txs: Vec<PlannedTx>,
}

impl PlannedTx {
    /// The unsigned draft and how its inputs open.
    pub fn draft(&self, keys: &Keyring) -> (Draft, Vec<Opening>) {
        let mut draft =
            Draft { version: self.version, inputs: Vec::new(), outputs: Vec::new(), lock_time: self.lock_time };
        let mut openings = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            let Source::Known(txid) = input.coin.source else { unreachable!("parents are signed before children") };
            draft.inputs.push(DraftInput::unsigned(OutPoint { txid, vout: input.coin.vout }, input.sequence));
            let lock = input.coin.lock;
            let coin = SignedCoin { value_sat: input.coin.value_sat, script: lock.script(keys) };
            openings.push(Opening { coin, lock, hash_type: input.hash_type });
        }
        draft.outputs.extend(self.outputs.iter().map(|output| match *output {
            PlannedOutput::Pay(lock, value_sat) => {
                DraftOutput { value_sat: value_sat as i64, script: lock.script(keys) }
            }
            PlannedOutput::Data(length, seed) => DraftOutput { value_sat: 0, script: data_script(length, seed) },
        }));
        (draft, openings)
    }
}

fn data_script(length: u8, seed: u64) -> Vec<u8> {
    let mut data = vec![0; length.into()];
    Random::new(seed).fill(&mut data);
    let mut script = vec![0x6a];
    push(&mut script, &data);
    script
}
/// The height from which a coin's own lock lets it be spent.
///
/// The median of 11 times lies between 5 spacings back and a jitter above that, so `n` units of 512 s have passed after
/// `(512 n + jitter) / spacing` blocks for certain.
pub fn ready_height(coin: &PlannedCoin) -> u32 {
    match coin.lock.needs().sequence {
        Some(sequence) if sequence & SEQUENCE_SECONDS != 0 => {
            coin.height + ((sequence & 0xffff) * 512 + JITTER_S) / SPACING_S + 1
        }
        Some(blocks) => coin.height + blocks,
        None => coin.height,
    }
}
