//! The coins that confirmed transactions spent, found again in the blocks that made them.
//!
//! In:     a view, and a block or a transaction of its chain.
//! Out:    [`SpentCoins`] in the order of the inputs, the coinbase's left out.
//! Fails:  [`ViewError`], among them a block that the files no longer hold.
//! Source: there are no undo files (docs/decisions/0002-no-undo-files.md): the index leads from an outpoint to its
//!         transaction.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use chain::{View, ViewError};
use primitives::{Block, Coin, OutPoint, SpentCoins, Transaction, Tx, TxNum, Txid};

/// A transaction that made coins.
struct Maker {
    transaction: Transaction,
    height: u32,
    coinbase: bool,
}

/// Transactions looked up for one answer, by identifier.
struct Makers<'a> {
    view: &'a View,
    known: HashMap<Txid, Maker>,
}

impl Makers<'_> {
    /// The coin that a transaction below ordinal `spender` made.
    fn push(&mut self, outpoint: &OutPoint, spender: TxNum, coins: &mut SpentCoins) -> Result<(), ViewError> {
        let gone = ViewError::NoSuchOrdinal { ordinal: spender.into() };
        let maker = match self.known.entry(outpoint.txid) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let Some(found) = self.view.transaction_before(&outpoint.txid, spender)? else { return Err(gone) };
                let height = found.height;
                let parsed = Transaction::parse(found.bytes).map_err(|_| ViewError::BlockGone { height })?;
                place.insert(Maker { transaction: parsed, height, coinbase: found.position == 0 })
            }
        };
        let Some(output) = maker.transaction.tx().outputs().nth(outpoint.vout as usize) else { return Err(gone) };
        let (height, coinbase) = (maker.height, maker.coinbase);
        coins.push(Coin { value_sat: output.value_sat as u64, height, coinbase, txo_num: 0, script: output.script });
        Ok(())
    }
}

/// The coins that the block at `height` spent; ordinals of coins are zero.
pub fn of_block(view: &View, block: &Block, height: u32) -> Result<SpentCoins, ViewError> {
    let first = view.first_tx_num(height)?;
    let mut makers = Makers { view, known: HashMap::new() };
    let mut coins = SpentCoins::with_capacity(block.input_count());
    let mut here: HashMap<Txid, usize> = HashMap::with_capacity(block.tx_count());
    for tx in block.txs() {
        for input in tx.inputs().filter(|_| tx.index() > 0) {
            let outpoint = input.outpoint();
            let made_here = here.get(&outpoint.txid).and_then(|at| block.tx(*at).outputs().nth(outpoint.vout as usize));
            match made_here {
                Some(output) => coins.push(Coin {
                    value_sat: output.value_sat as u64,
                    height,
                    coinbase: false,
                    txo_num: 0,
                    script: output.script,
                }),
                None => makers.push(&outpoint, first, &mut coins)?,
            }
        }
        here.insert(tx.txid(), tx.index());
    }
    Ok(coins)
}

/// The coins that one transaction with ordinal `tx_num` spent.
pub fn of_transaction(view: &View, tx: &Tx<'_>, tx_num: TxNum) -> Result<SpentCoins, ViewError> {
    let mut makers = Makers { view, known: HashMap::new() };
    let mut coins = SpentCoins::with_capacity(tx.input_count());
    if !tx.is_coinbase() {
        for input in tx.inputs() {
            makers.push(&input.outpoint(), tx_num, &mut coins)?;
        }
    }
    Ok(coins)
}
