//! Rules about one transaction that need no chain state.
//!
//! In:     a transaction and its id.
//! Out:    [`Facts`], what later rules ask for again.
//! Fails:  [`TxError`], in Core's order.
//! Source: Bitcoin Core, `consensus/tx_check.cpp` (`CheckTransaction`).

use primitives::{OutPoint, Tx, Txid};

use crate::errors::TxError;
use crate::{BLOCK_WEIGHT_MAX, MONEY_SAT_MAX, WITNESS_SCALE, sigops};

/// Largest number of inputs compared each with each; above it a table is faster.
const PAIRWISE_INPUTS_MAX: usize = 8;

/// What the context-free pass learns of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Sum of its outputs.
    pub out_sat: u64,
    /// Signature operations of its input and output scripts, not multiplied.
    pub legacy_sigops: u32,
    /// Version 2 or above and an input whose sequence is a relative lock (BIP 68).
    pub relative_locks: bool,
}

/// Reusable memory of [`check`].
#[derive(Debug, Default)]
pub struct Scratch {
    slots: Vec<u64>,
}

/// Judges one transaction.
pub fn check(tx: &Tx<'_>, txid: &Txid, scratch: &mut Scratch) -> Result<Facts, TxError> {
    let input_count = tx.input_count();
    if input_count == 0 {
        return Err(TxError::NoInputs {});
    }
    if tx.output_count() == 0 {
        return Err(TxError::NoOutputs {});
    }
    let stripped_bytes = tx.stripped_length();
    if stripped_bytes * WITNESS_SCALE > BLOCK_WEIGHT_MAX {
        return Err(TxError::Oversize { stripped_bytes });
    }
    let (out_sat, output_sigops) = check_outputs(tx)?;
    if let Some(vin) = duplicate_input(tx, txid, scratch) {
        return Err(TxError::DuplicateInput { vin });
    }
    let mut facts = Facts { out_sat, legacy_sigops: output_sigops, relative_locks: false };
    let coinbase = tx.is_coinbase();
    if coinbase {
        let got_bytes = tx.input(0).script_sig().len();
        if !(2..=100).contains(&got_bytes) {
            return Err(TxError::CoinbaseScriptLength { got_bytes });
        }
    }
    for (vin, input) in tx.inputs().enumerate() {
        // The last byte first: it is 0xff in no real transaction.
        if !coinbase && input.outpoint_bytes()[35] == 0xff && input.outpoint() == OutPoint::NULL {
            return Err(TxError::NullInput { vin });
        }
        facts.legacy_sigops += sigops::count_input(input.script_sig());
        facts.relative_locks |= input.sequence() >> 31 == 0;
    }
    facts.relative_locks &= tx.version() >= 2;
    Ok(facts)
}

/// Amounts in range, one by one and in sum (CVE-2010-5139).
fn check_outputs(tx: &Tx<'_>) -> Result<(u64, u32), TxError> {
    let (mut sum_sat, mut count) = (0, 0);
    for (vout, output) in tx.outputs().enumerate() {
        let value_sat = output.value_sat;
        if value_sat < 0 {
            return Err(TxError::NegativeOutput { vout, value_sat });
        }
        if value_sat as u64 > MONEY_SAT_MAX {
            return Err(TxError::OutputTooLarge { vout, value_sat });
        }
        sum_sat += value_sat as u64;
        if sum_sat > MONEY_SAT_MAX {
            return Err(TxError::OutputSumTooLarge { sum_sat });
        }
        count += sigops::count_output(output.script);
    }
    Ok((sum_sat, count))
}

/// Position of an input that spends what one before it spends.
fn duplicate_input(tx: &Tx<'_>, txid: &Txid, scratch: &mut Scratch) -> Option<usize> {
    let count = tx.input_count();
    if count > PAIRWISE_INPUTS_MAX {
        return duplicate_by_table(tx, txid, &mut scratch.slots);
    }
    (1..count).find(|&vin| {
        let outpoint = tx.input(vin).outpoint_bytes();
        (0..vin).any(|before| tx.input(before).outpoint_bytes() == outpoint)
    })
}

/// An open-addressing table of input positions, at most half full.
///
/// Slots follow from the outpoint and, as a key, the transaction's own id: whoever picks outpoints to collide changes
/// the id, and with it every slot. A search of 2^k outpoints that share one slot under a given key is void under the next.
fn duplicate_by_table(tx: &Tx<'_>, txid: &Txid, slots: &mut Vec<u64>) -> Option<usize> {
    let size = (2 * tx.input_count()).next_power_of_two();
    slots.clear();
    slots.resize(size, u64::MAX);
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let key = [0, 8, 16, 24].map(|at| word(&txid.0, at) | 1);
    let shift = 64 - size.trailing_zeros();
    for (vin, input) in tx.inputs().enumerate() {
        let outpoint = input.outpoint_bytes();
        let mut hash = u64::from(u32::from_le_bytes(outpoint[32..].try_into().expect("four bytes")));
        for (at, key) in [0, 8, 16, 24].into_iter().zip(key) {
            hash = (hash.rotate_left(32) ^ word(outpoint, at)).wrapping_mul(key);
        }
        // A slot holds 32 bits of the hash, so that the outpoint is looked at only where it is nearly surely the same.
        let entry = hash << 32 | vin as u64;
        let mut slot = (hash >> shift) as usize;
        while slots[slot] != u64::MAX {
            let other = slots[slot];
            if (other ^ entry) >> 32 == 0 && tx.input(other as u32 as usize).outpoint_bytes() == outpoint {
                return Some(vin);
            }
            slot = (slot + 1) & (size - 1);
        }
        slots[slot] = entry;
    }
    None
}
