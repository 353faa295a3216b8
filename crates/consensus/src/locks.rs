//! Locks: when a transaction may be in a block.
//!
//! In:     a transaction, the coins it spends, heights and median times.
//! Out:    whether its absolute lock (BIP 113) and its relative locks (BIP 68) are reached.
//! Fails:  never.
//! Source: Bitcoin Core, `consensus/tx_verify.cpp` (`IsFinalTx`, `CalculateSequenceLocks`, `EvaluateSequenceLocks`).

use primitives::Tx;

/// Lock times below it are heights, others seconds; Core's `LOCKTIME_THRESHOLD`.
pub const LOCK_TIME_THRESHOLD: u32 = 500_000_000;
/// A sequence that gives up its input's locks.
pub const SEQUENCE_FINAL: u32 = 0xffff_ffff;

/// Set where a sequence is no relative lock.
const SEQUENCE_DISABLE: u32 = 1 << 31;
/// Set where a relative lock counts time and not blocks.
const SEQUENCE_IS_TIME: u32 = 1 << 22;
/// The part of a sequence that counts.
const SEQUENCE_MASK: u32 = 0xffff;
/// Relative time counts in units of 2^9 = 512 seconds.
const SEQUENCE_UNIT_SHIFT: u32 = 9;

/// True where the lock time is below height or `time_s`, or all inputs give it up.
#[inline]
pub fn is_final(tx: &Tx<'_>, height: u32, time_s: u32) -> bool {
    let lock_time = tx.lock_time();
    let reached = if lock_time < LOCK_TIME_THRESHOLD { height } else { time_s };
    lock_time == 0 || lock_time < reached || tx.inputs().all(|input| input.sequence() == SEQUENCE_FINAL)
}

/// True where every relative lock is reached in a block at `height` whose parent's median time past is `parent_mtp_s`.
///
/// `coin_heights` are those of the coins spent, in order of inputs; `mtp_of` gives the median time past of the block at
/// a height. The caller knows that BIP 68 is in force; transactions below version 2 have no relative locks.
pub fn sequence_locks_reached(
    tx: &Tx<'_>,
    coin_heights: impl Iterator<Item = u32>,
    height: u32,
    parent_mtp_s: u32,
    mtp_of: &dyn Fn(u32) -> u32,
) -> bool {
    if tx.version() < 2 {
        return true;
    }
    tx.inputs().zip(coin_heights).all(|(input, coin_height)| {
        let sequence = input.sequence();
        let count = u64::from(sequence & SEQUENCE_MASK);
        if sequence & SEQUENCE_DISABLE != 0 {
            true
        } else if sequence & SEQUENCE_IS_TIME != 0 {
            // Measured from the median time past of the block before the coin's, the earliest time that one could show.
            let coin_s = u64::from(mtp_of(coin_height.saturating_sub(1)));
            coin_s + (count << SEQUENCE_UNIT_SHIFT) <= u64::from(parent_mtp_s)
        } else {
            u64::from(coin_height) + count <= u64::from(height)
        }
    })
}
