//! Disconnecting blocks: the way back to a fork.
//!
//! In:     a fork point below the tip.
//! Out:    coins, rows and columns as they were after the fork's block, committed.
//! Fails:  [`ChainError`]; an interrupted disconnect stands at some block between tip and fork, which is a valid state.
//! Source: Core's `DisconnectBlock`. There are no undo files: a coin that was spent is found again through the index,
//!         in the block that made it (docs/decisions/0002-no-undo-files.md).

use index::rows::txid_prefix;
use primitives::script::is_unspendable;
use primitives::{Block, OutPoint, Transaction, TxNum};
use store::CoinBuf;

use crate::error::ChainError;
use crate::tree::NodeId;
use crate::view::View;
use crate::writer::Chain;

/// Blocks disconnected between two commits: bounds the rows held in memory (some 20,000 a block).
const BLOCKS_PER_COMMIT: u32 = 64;

impl Chain {
    /// Disconnects blocks until `fork` is the tip.
    pub(crate) fn disconnect_to(&mut self, fork: NodeId) -> Result<(), ChainError> {
        // Rows of blocks that are only in the batch would meet their own deletions there: commit first.
        self.commit_if_changed()?;
        let fork_height = self.tree().height(fork);
        self.news.reorganised(fork_height);
        while self.tip != fork && !self.stopping() {
            let height = self.tree().height(self.tip);
            let stop = fork_height.max(height.saturating_sub(BLOCKS_PER_COMMIT));
            let view = self.handle().view();
            for _ in stop..height {
                self.disconnect_tip(&view)?;
            }
            self.store.truncate_blocks(stop + 1)?;
            self.judges.median_times_s.write().expect("no panic while held").truncate(stop as usize + 1);
            self.commit()?;
            let (tip_hash, time_s) = {
                let tree = self.tree();
                (tree.hash(self.tip), tree.time_s(self.tip))
            };
            self.shared.update(|status| {
                status.disconnected += u64::from(height - stop);
                (status.height, status.hash, status.time_s) = (stop, tip_hash, time_s);
            });
        }
        Ok(())
    }

    /// Takes back the tip: coins, rows. `view` still shows the chain with it.
    fn disconnect_tip(&mut self, view: &View) -> Result<(), ChainError> {
        let (height, hash) = {
            let tree = self.tree();
            (tree.height(self.tip), tree.hash(self.tip))
        };
        self.remember_filter(view, height, hash)?;
        let bytes = view.block_bytes(height)?.ok_or(ChainError::SpentCoinLost { height })?;
        let block = Block::parse(bytes).map_err(|_| ChainError::SpentCoinLost { height })?;
        let first_tx_num = view.first_tx_num(height)?;
        for tx in block.txs().collect::<Vec<_>>().into_iter().rev() {
            let tx_num = first_tx_num + tx.index() as TxNum;
            let txid = tx.txid();
            self.batch.txid_deleted.push((txid_prefix(&txid), tx_num));
            for (vout, output) in tx.outputs().enumerate().filter(|(_, output)| !is_unspendable(output.script)) {
                self.coins.remove(&OutPoint { txid, vout: vout as u32 })?;
                self.forget_history(view, output.script, tx_num);
            }
            if tx.index() == 0 {
                continue;
            }
            for input in tx.inputs() {
                let outpoint = input.outpoint();
                let coin = find_spent(view, &outpoint, tx_num)?.ok_or(ChainError::SpentCoinLost { height })?;
                self.batch.spender_deleted.push(coin.txo_num);
                self.forget_history(view, &coin.script, tx_num);
                self.coins.restore(&outpoint, coin.coin())?;
            }
        }
        let parent = self.tree().parent(self.tip);
        self.shared.intake.tree_mut().set_connected(parent);
        self.tip = parent;
        self.news.left(height, hash, block, &self.params, self.following);
        Ok(())
    }

    fn forget_history(&mut self, view: &View, script: &[u8], tx_num: TxNum) {
        let script_hash = primitives::ScriptHash::of(script);
        self.batch.history_deleted.push((view.tag_key().tag(&script_hash), tx_num));
        if self.following {
            self.news.touch(std::iter::once(script));
        }
    }
}

/// The coin that the transaction `spender` spent, out of the block that made it.
fn find_spent(view: &View, outpoint: &OutPoint, spender: TxNum) -> Result<Option<CoinBuf>, ChainError> {
    let Some(made) = view.transaction_before(&outpoint.txid, spender)? else { return Ok(None) };
    let Ok(parsed) = Transaction::parse(&made.bytes[..]) else { return Ok(None) };
    let Some(output) = parsed.tx().outputs().nth(outpoint.vout as usize) else { return Ok(None) };
    Ok(Some(CoinBuf {
        value_sat: output.value_sat as u64,
        height: made.height,
        coinbase: made.position == 0,
        txo_num: view.txo_num(&made, outpoint.vout)?,
        script: output.script.to_vec(),
    }))
}
