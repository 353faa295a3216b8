//! Cases about lock times and sequences.
//!
//! In:     a block on the bench.
//! Out:    a lock that is just reached, or just not.
//! Fails:  none where the world lacks a coin.
//! Source: Core's `IsFinalTx`, `CalculateSequenceLocks`; BIP 68, 65, 112, 113.

use super::{Case, Craft, WorldCoin, broken, valid};
use crate::forge::draft::{Draft, DraftInput};
use crate::forge::lock::{Kind, SEQUENCE_SECONDS};
use primitives::OutPoint;

/// Bit of a sequence that switches its lock off (BIP 68).
const DISABLED: u32 = 1 << 31;

/// The table.
pub const CASES: &[Case] = &[
    valid("lock time one block below the height", |craft| lock_time(craft, craft.height - 1, 0)),
    broken("NonFinal", "lock time at the height", |craft| lock_time(craft, craft.height, 0)),
    valid("lock time at the height, all sequences final", |craft| lock_time(craft, craft.height, u32::MAX)),
    valid("lock time one second before the median", |craft| lock_time(craft, craft.median_s - 1, u32::MAX - 1)),
    broken("NonFinal", "lock time at the median", |craft| lock_time(craft, craft.median_s, u32::MAX - 1)),
    broken("NonFinal", "lock time at the last height there is", |craft| lock_time(craft, 499_999_999, 0)),
    broken("NonFinal", "lock time at the last second there is", |craft| lock_time(craft, u32::MAX, 0)),
    broken("NonFinal", "coinbase not final", |craft| {
        craft.coinbase.lock_time = craft.height;
        craft.coinbase.inputs[0].sequence = 0;
        Some(())
    }),
    valid("relative lock of as many blocks as have passed", |craft| blocks_lock(craft, 0, 2)),
    broken("SequenceLock", "relative lock of one block more", |craft| blocks_lock(craft, 1, 2)),
    valid("relative lock of one block more in version 1", |craft| blocks_lock(craft, 1, 1)),
    broken("SequenceLock", "relative lock of one block more in the highest version", |craft| {
        blocks_lock(craft, 1, u32::MAX)
    }),
    valid("relative lock of one block more, switched off", |craft| {
        let coin = craft.free_coin()?;
        let age = craft.height - coin.height;
        relative(craft, coin, DISABLED | (age + 1), 2)
    }),
    valid("relative lock of as many seconds as have passed", |craft| seconds_lock(craft, 0)),
    broken("SequenceLock", "relative lock of 512 seconds more", |craft| seconds_lock(craft, 1)),
    valid("relative lock of nothing in the same block", |craft| same_block(craft, 0)),
    broken("SequenceLock", "relative lock of one block in the same block", |craft| same_block(craft, 1)),
    broken("SequenceLock", "relative lock of 512 seconds in the same block", |craft| {
        same_block(craft, SEQUENCE_SECONDS | 1)
    }),
    // Script locks: reached by the transaction's own numbers, or not.
    broken("Script", "height lock with a lock time one too low", |craft| {
        let coin = craft.coin(|coin| coin.lock.kind == Kind::P2shHeightLock)?;
        craft.spend(&[coin], |draft| draft.lock_time -= 1);
        Some(())
    }),
    broken("Script", "height lock with a final sequence", |craft| {
        let coin = craft.coin_of(Kind::P2shHeightLock)?;
        craft.spend(&[coin], |draft| draft.inputs[0].sequence = u32::MAX);
        Some(())
    }),
    broken("Script", "height lock with a time", |craft| {
        let coin = craft.coin_of(Kind::P2shHeightLock)?;
        let time_s = craft.median_s - 1;
        craft.spend(&[coin], |draft| draft.lock_time = time_s);
        Some(())
    }),
    broken("Script", "time lock with a lock time one too low", |craft| {
        let coin = craft.coin_of(Kind::P2shTimeLock)?;
        craft.spend(&[coin], |draft| draft.lock_time -= 1);
        Some(())
    }),
    broken("Script", "blocks lock with a sequence one too low", |craft| {
        let coin = craft.coin_of(Kind::P2wshBlocksLock)?;
        craft.spend(&[coin], |draft| draft.inputs[0].sequence -= 1);
        Some(())
    }),
    broken("Script", "blocks lock with the sequence switched off", |craft| {
        let coin = craft.coin_of(Kind::P2wshBlocksLock)?;
        craft.spend(&[coin], |draft| draft.inputs[0].sequence |= DISABLED);
        Some(())
    }),
    broken("Script", "blocks lock in version 1", |craft| {
        let coin = craft.coin_of(Kind::P2wshBlocksLock)?;
        craft.spend(&[coin], |draft| draft.version = 1);
        Some(())
    }),
    broken("Script", "seconds lock with a sequence of blocks", |craft| {
        let coin = craft.coin_of(Kind::P2wshSecondsLock)?;
        craft.spend(&[coin], |draft| draft.inputs[0].sequence &= 0xffff);
        Some(())
    }),
];

fn lock_time(craft: &mut Craft<'_>, lock_time: u32, sequence: u32) -> Option<()> {
    let coin = craft.free_coin()?;
    // Version 1: the sequence is no relative lock.
    craft.spend(&[coin], |draft| {
        (draft.version, draft.lock_time, draft.inputs[0].sequence) = (1, lock_time, sequence);
    });
    Some(())
}

fn relative(craft: &mut Craft<'_>, coin: WorldCoin, sequence: u32, version: u32) -> Option<()> {
    craft.spend(&[coin], |draft| (draft.version, draft.inputs[0].sequence) = (version, sequence));
    Some(())
}

fn blocks_lock(craft: &mut Craft<'_>, more: u32, version: u32) -> Option<()> {
    let coin = craft.free_coin()?;
    let age = craft.height - coin.height;
    relative(craft, coin, age + more, version)
}

fn seconds_lock(craft: &mut Craft<'_>, more: u32) -> Option<()> {
    let coin = craft.free_coin()?;
    let units = craft.world.elapsed_s(coin.height) / 512 + more;
    (units <= 0xffff).then(|| relative(craft, coin, SEQUENCE_SECONDS | units, 2))?
}

fn same_block(craft: &mut Craft<'_>, sequence: u32) -> Option<()> {
    let coin = craft.free_coin()?;
    let funding = craft.spend(&[coin], |draft| draft.outputs[0].script = vec![0x51]);
    let value_sat = craft.txs[funding].outputs[0].value_sat;
    let outpoint = OutPoint { txid: craft.txs[funding].txid(), vout: 0 };
    let output = craft.output(value_sat as u64);
    let inputs = vec![DraftInput::unsigned(outpoint, sequence)];
    craft.add(Draft { version: 2, inputs, outputs: vec![output], lock_time: 0 }, value_sat as u64);
    Some(())
}
