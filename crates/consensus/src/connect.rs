//! Rules about a block and the coins it spends.
//!
//! In:     a checked block, the coins it spends, and what the rules ask of the chain below it.
//! Out:    [`Totals`].
//! Fails:  [`BlockError`], in Core's order: transaction by transaction, then the coinbase's amount.
//! Source: Bitcoin Core, `validation.cpp` (`ConnectBlock`, `GetBlockSubsidy`), `consensus/tx_verify.cpp`
//!         (`CheckTxInputs`, `GetTransactionSigOpCost`).
//!
//! Scripts are `script::verify`'s. That coins exist and BIP 30 is for whoever holds the coins: `BlockError::MissingInput`
//! and `BlockError::Bip30` are raised there, before this is called.

use primitives::coin::Coin;
use primitives::{BlockHash, Params, SpentCoins, Tx};

use crate::block::CheckedBlock;
use crate::errors::BlockError;
use crate::flags::Flags;
use crate::{MONEY_SAT_MAX, SIGOP_COST_MAX, WITNESS_SCALE, locks, sigops};

/// Blocks that must pass before a coinbase is spent; Core's `COINBASE_MATURITY`.
pub const COINBASE_MATURITY: u32 = 100;
/// Subsidy of the first block.
const SUBSIDY_SAT: u64 = 50 * 100_000_000;
/// First height at which BIP 34 no longer implies BIP 30: some early coinbases claim this height and later ones.
pub const BIP34_IMPLIES_BIP30_BELOW: u32 = 1_983_702;

/// The two blocks that repeat an earlier coinbase and are valid all the same; Core's `IsBIP30Repeat`.
const BIP30_REPEATS: [(u32, &str); 2] = [
    (91_842, "00000000000a4d0a398161ffc163c503763b1f4360639393e0e4c8e300e0caec"),
    (91_880, "00000000000743f190a18c5577a3c2d2a1f610ae9601ac046a38084ccb7cd721"),
];
/// The two blocks whose coinbases those overwrote, unspent; Core's `IsBIP30Unspendable`.
const BIP30_OVERWRITTEN: [(u32, &str); 2] = [
    (91_722, "00000000000271a2dc26e7667f8419f2e15416dc6955e5a6c6cdf3f2574dd08e"),
    (91_812, "00000000000af0aed4792b1acee3d966af36cf5def14935db8de83d6f9306f2f"),
];

/// What the rules ask of the chain.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Height of the block.
    pub height: u32,
    /// Hash of the block.
    pub block_hash: BlockHash,
    /// Median time past of its parent.
    pub median_time_past_s: u32,
    /// Median time past of the block at a height, on this chain.
    pub mtp_of: &'a dyn Fn(u32) -> u32,
    /// The network.
    pub params: &'a Params,
    /// Script rules in force, from [`crate::flags::at`].
    pub flags: Flags,
}

/// What a valid block adds up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Totals {
    /// Fees of its transactions.
    pub fees_sat: u64,
    /// What its coinbase pays.
    pub coinbase_sat: u64,
    /// Its signature operation cost.
    pub sigop_cost: u64,
}

/// Judges a block by the coins it spends: maturity, amounts, relative locks, signature operations, the coinbase's pay.
///
/// `spent` holds a coin for each input, the coinbase's left out; panics where it holds more or fewer.
/// The genesis block connects to nothing and spends nothing: Core adds none of its outputs to the coins.
pub fn check(block: &CheckedBlock, spent: &SpentCoins, context: &Context<'_>) -> Result<Totals, BlockError> {
    let mut totals = Totals { coinbase_sat: block.facts()[0].out_sat, ..Totals::default() };
    if context.block_hash == context.params.genesis_hash {
        return Ok(totals);
    }
    let mut coins = spent.iter();
    for tx in block.block().txs() {
        let facts = block.facts()[tx.index()];
        totals.sigop_cost += WITNESS_SCALE as u64 * u64::from(facts.legacy_sigops);
        if tx.index() > 0 {
            let tx_coins = coins.clone().take(tx.input_count());
            let fee_sat = check_amounts(&tx, tx_coins.clone(), facts.out_sat, context.height)?;
            totals.fees_sat += fee_sat;
            if totals.fees_sat > MONEY_SAT_MAX {
                return Err(BlockError::FeeSum { fees_sat: totals.fees_sat });
            }
            check_relative_locks(&tx, facts.relative_locks, tx_coins.clone(), context)?;
            for (vin, coin) in tx_coins.enumerate() {
                totals.sigop_cost += sigops::input_cost(coin.script, || tx.input(vin), context.flags);
            }
            coins.nth(tx.input_count() - 1);
        }
        if totals.sigop_cost > SIGOP_COST_MAX {
            return Err(BlockError::SigOpCost { cost: totals.sigop_cost });
        }
    }
    assert!(coins.next().is_none(), "a coin that no input spends");
    let limit_sat = totals.fees_sat + subsidy_sat(context.height, context.params);
    if totals.coinbase_sat > limit_sat {
        return Err(BlockError::CoinbaseAmount { got_sat: totals.coinbase_sat, limit_sat });
    }
    Ok(totals)
}

/// Maturity and amounts of one transaction in a block at `height`; returns its fee. Core: `CheckTxInputs`.
pub fn check_amounts<'a>(
    tx: &Tx<'_>,
    coins: impl Iterator<Item = Coin<'a>>,
    out_sat: u64,
    height: u32,
) -> Result<u64, BlockError> {
    let tx_index = tx.index();
    let (mut in_sat, mut count) = (0u64, 0);
    for coin in coins {
        let depth = height.saturating_sub(coin.height);
        if coin.coinbase && depth < COINBASE_MATURITY {
            return Err(BlockError::PrematureCoinbaseSpend { tx_index, depth });
        }
        in_sat = in_sat.saturating_add(coin.value_sat);
        if coin.value_sat > MONEY_SAT_MAX || in_sat > MONEY_SAT_MAX {
            return Err(BlockError::InputValues { tx_index });
        }
        count += 1;
    }
    assert_eq!(count, tx.input_count(), "a coin for each input of transaction {tx_index}");
    in_sat.checked_sub(out_sat).ok_or(BlockError::InBelowOut { tx_index, in_sat, out_sat })
}

/// BIP 68, from the height at which it is in force.
fn check_relative_locks<'a>(
    tx: &Tx<'_>,
    has_locks: bool,
    coins: impl Iterator<Item = Coin<'a>>,
    context: &Context<'_>,
) -> Result<(), BlockError> {
    if !has_locks || context.height < context.params.csv_height {
        return Ok(());
    }
    let heights = coins.map(|coin| coin.height);
    let Context { height, median_time_past_s, mtp_of, .. } = *context;
    match locks::sequence_locks_reached(tx, heights, height, median_time_past_s, mtp_of) {
        true => Ok(()),
        false => Err(BlockError::SequenceLock { tx_index: tx.index() }),
    }
}

/// New coins a block at `height` may make; Core: `GetBlockSubsidy`.
pub fn subsidy_sat(height: u32, params: &Params) -> u64 {
    SUBSIDY_SAT.checked_shr(height / params.subsidy_halving_interval).unwrap_or(0)
}

/// Whether the block must not make an output that exists unspent under the same name (BIP 30).
///
/// `bip34_ancestor` is the hash of the block's ancestor at `params.bip34_height`, if the block lies above that height.
/// On the chain that everyone knows, BIP 34 makes repeated coinbases impossible from there to height 1,983,702.
pub fn bip30_applies(height: u32, hash: &BlockHash, bip34_ancestor: Option<BlockHash>, params: &Params) -> bool {
    let known_chain = params.bip34_hash.is_some() && bip34_ancestor == params.bip34_hash;
    let repeat = is_one_of(&BIP30_REPEATS, height, hash);
    (!repeat && !known_chain) || height >= BIP34_IMPLIES_BIP30_BELOW
}

/// Whether the coinbase of this block was overwritten before it was spent, so that its coins are in no account.
pub fn is_overwritten(height: u32, hash: &BlockHash) -> bool {
    is_one_of(&BIP30_OVERWRITTEN, height, hash)
}

/// Whether this block repeats the coinbase of an earlier one, and overwrites its coins.
pub fn is_bip30_repeat(height: u32, hash: &BlockHash) -> bool {
    is_one_of(&BIP30_REPEATS, height, hash)
}

fn is_one_of(blocks: &[(u32, &str); 2], height: u32, hash: &BlockHash) -> bool {
    blocks.iter().any(|&(at, name)| at == height && hash.to_string() == name)
}
