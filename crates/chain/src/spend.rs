//! Spending and creating the coins of a block, and taking that back.
//!
//! In:     a block that passed every rule needing no coins; the coin table as its parent left it.
//! Out:    the block with the coins it spends, for the checks that run beside; the table as the block leaves it.
//! Fails:  [`ConnectFailure`]; what had been changed has been taken back.
//! Source: Core's `ConnectBlock`, `UpdateCoins`; BIP 30.

use std::sync::Arc;

use consensus::connect::bip30_applies;
use consensus::header::median_time_past;
use consensus::{BlockError, CheckedBlock};
use primitives::script::is_unspendable;
use primitives::{Coin, OutPoint, SpentCoins, Tx, TxNum, Txid, TxoNum};
use store::StoreError;

use crate::lot::{Connected, Prepared};
use crate::tree::NodeId;
use crate::writer::Chain;

/// Coins brought into the processor's cache at once, before they are spent one by one.
const COINS_WARMED: usize = 32;

/// Ordinals of the next transaction and output.
#[derive(Default)]
pub(crate) struct Ordinals {
    tx_num: TxNum,
    txo_num: TxoNum,
}

/// Why a block's coins could not be connected; what it had changed has been taken back.
pub(crate) enum ConnectFailure {
    Rule(BlockError),
    Store(StoreError),
}

impl From<StoreError> for ConnectFailure {
    fn from(error: StoreError) -> Self {
        ConnectFailure::Store(error)
    }
}

impl Chain {
    /// Ordinals behind the last block accepted.
    pub(crate) fn ordinals(&self) -> Ordinals {
        Ordinals { tx_num: self.store.tx_count(), txo_num: self.store.txo_count() }
    }

    /// Spends and creates the coins of one block; on failure all of it is taken back.
    pub(crate) fn connect_block(
        &mut self,
        prepared: Prepared,
        next: &mut Ordinals,
    ) -> Result<Connected, ConnectFailure> {
        let Prepared { node, height, position, checked, output_tags, hints, unknown, median_time_past_s } = prepared;
        self.check_bip30(node, height, &checked)?;
        let inputs = checked.block().input_count();
        let mut spent = SpentCoins::with_capacity(inputs);
        let mut spent_tags = Vec::with_capacity(inputs);
        let mut txo_num = next.txo_num;
        let outpoints: Vec<OutPoint> =
            checked.block().txs().skip(1).flat_map(|tx| tx.inputs().map(|input| input.outpoint())).collect();
        for tx in checked.block().txs() {
            if let Err(failure) = self.spend_inputs(&tx, &outpoints, &mut spent, &mut spent_tags) {
                self.take_back(&checked, &spent, tx.index())?;
                return Err(failure);
            }
            self.create_outputs(&tx, &checked.txids()[tx.index()], height, txo_num, &output_tags)?;
            txo_num += tx.output_count() as u64;
        }
        let connected = Connected {
            node,
            height,
            position,
            output_tags,
            spent: Arc::new(spent),
            spent_tags: Arc::new(spent_tags),
            first_tx_num: next.tx_num,
            median_time_past_s,
            hints,
            unknown,
            check_scripts: self.checks_scripts(node),
            checked,
        };
        next.tx_num += connected.checked.block().tx_count() as TxNum;
        next.txo_num = txo_num;
        let median_s = median_time_past(height, &self.tree().branch(node));
        let mut times = self.judges.median_times_s.write().expect("no panic while held");
        times.truncate(height as usize);
        times.push(median_s);
        Ok(connected)
    }

    /// BIP 30: a transaction must not repeat one that has unspent outputs.
    ///
    /// Only coinbases are looked up. Any other repeated transaction spends what the first one spent, so the transaction
    /// it spends was repeated too, and so on down to a repeated coinbase; the two that history allows overwrote coins
    /// that nobody had spent.
    fn check_bip30(&mut self, node: NodeId, height: u32, checked: &CheckedBlock) -> Result<(), ConnectFailure> {
        let bip34_ancestor = {
            let tree = self.tree();
            tree.ancestor(node, self.params.bip34_height).map(|id| tree.hash(id))
        };
        if !bip30_applies(height, checked.hash(), bip34_ancestor, &self.params) {
            return Ok(());
        }
        let (coinbase, txid) = (checked.block().tx(0), checked.txids()[0]);
        for vout in 0..coinbase.output_count() as u32 {
            let outpoint = OutPoint { txid, vout };
            if self.coins.exists(&outpoint)? {
                return Err(ConnectFailure::Rule(BlockError::Bip30 { outpoint }));
            }
        }
        Ok(())
    }

    fn spend_inputs(
        &mut self,
        tx: &Tx<'_>,
        outpoints: &[OutPoint],
        spent: &mut SpentCoins,
        spent_tags: &mut Vec<u64>,
    ) -> Result<(), ConnectFailure> {
        if tx.index() == 0 {
            return Ok(());
        }
        for index in tx.input_range() {
            let (outpoint, rest) = (outpoints[index - 1], &outpoints[index - 1..]);
            if (index - 1) % COINS_WARMED == 0 {
                self.coins.warm(&rest[..rest.len().min(COINS_WARMED)]);
            }
            match self.coins.spend(&outpoint)? {
                Some(found) => {
                    spent.push(found.coin);
                    spent_tags.push(found.tag);
                }
                None => {
                    let tx_index = tx.index();
                    return Err(ConnectFailure::Rule(BlockError::MissingInput { tx_index, outpoint }));
                }
            }
        }
        Ok(())
    }

    fn create_outputs(
        &mut self,
        tx: &Tx<'_>,
        txid: &Txid,
        height: u32,
        first_txo_num: TxoNum,
        output_tags: &[u64],
    ) -> Result<(), StoreError> {
        let tags = &output_tags[tx.output_range()];
        for (vout, (output, &tag)) in tx.outputs().zip(tags).enumerate() {
            if is_unspendable(output.script) {
                continue;
            }
            let coin = Coin {
                value_sat: output.value_sat as u64,
                height,
                coinbase: tx.index() == 0,
                txo_num: first_txo_num + vout as u64,
                script: output.script,
            };
            self.coins.create(&OutPoint { txid: *txid, vout: vout as u32 }, coin, tag)?;
        }
        Ok(())
    }

    /// Takes back a block whose transactions before `end` are connected, and of which `spent` has been spent.
    pub(crate) fn take_back(
        &mut self,
        checked: &CheckedBlock,
        spent: &SpentCoins,
        end: usize,
    ) -> Result<(), StoreError> {
        let mut left = spent.len();
        // The transaction at `end` has spent some of its inputs and created nothing.
        for index in (0..=end.min(checked.block().tx_count() - 1)).rev() {
            let tx = checked.block().tx(index);
            if index < end {
                for (vout, output) in tx.outputs().enumerate() {
                    if !is_unspendable(output.script) {
                        self.coins.remove(&OutPoint { txid: checked.txids()[index], vout: vout as u32 })?;
                    }
                }
            }
            if index == 0 {
                break;
            }
            let first = tx.input_range().start - 1;
            for input in (first..left).rev() {
                self.coins.restore(&tx.input(input - first).outpoint(), spent.get(input))?;
            }
            left = left.min(first);
        }
        Ok(())
    }
}
