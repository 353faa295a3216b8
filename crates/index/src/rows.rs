//! The rows of one connected block.
//!
//! In:     a checked block, tags of its outputs, the coins it spends and their tags, the ordinal of its first transaction.
//! Out:    [`BlockRows`], in block order; the store sorts them when it cuts a segment.
//! Fails:  never; the block has already passed every rule.
//! Source: our own formats, docs/formats.md, tables `history`, `txid`, `spender` and column `txs`.

use consensus::block::CheckedBlock;
use primitives::script::is_unspendable;
use primitives::{SpentCoins, TxNum, Txid};

use crate::tag::TagKey;

/// Tag of an output that no table knows, because nobody can ever spend it.
pub const NO_TAG: u64 = 0;

/// Bits of a txid that the table `txid` keeps; the rest is compared after reading the transaction.
pub const TXID_PREFIX_BITS: u32 = 40;

/// Index rows of one block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockRows {
    /// (script tag, transaction) for every script a transaction funds or spends; may repeat.
    pub history: Vec<(u64, TxNum)>,
    /// (txid prefix, transaction).
    pub txid: Vec<(u64, TxNum)>,
    /// (spent output, spending transaction).
    pub spender: Vec<(u64, TxNum)>,
}

/// First [`TXID_PREFIX_BITS`] bits of a txid as stored.
#[inline]
pub fn txid_prefix(txid: &Txid) -> u64 {
    u64::from_be_bytes(txid.0[..8].try_into().expect("eight bytes")) >> (64 - TXID_PREFIX_BITS)
}

/// Tags of all outputs of a block, in order; [`NO_TAG`] for those that cannot be spent.
pub fn output_tags(block: &primitives::Block, key: &TagKey) -> Vec<u64> {
    let tag = |script: &[u8]| if is_unspendable(script) { NO_TAG } else { key.tag_of_script(script) };
    block.txs().flat_map(|tx| tx.outputs().map(move |output| tag(output.script))).collect()
}

/// Rows of `block`, whose first transaction is `first_tx_num` and which spends `spent`.
pub fn of_block(
    block: &CheckedBlock,
    output_tags: &[u64],
    spent: &SpentCoins,
    spent_tags: &[u64],
    first_tx_num: TxNum,
) -> BlockRows {
    let parsed = block.block();
    let tx_count = parsed.tx_count();
    let mut rows = BlockRows {
        history: Vec::with_capacity(parsed.input_count() + parsed.output_count()),
        txid: Vec::with_capacity(tx_count),
        spender: Vec::with_capacity(spent.len()),
    };
    for (tx, txid) in parsed.txs().zip(block.txids()) {
        let tx_num = first_tx_num + tx.index() as u32;
        rows.txid.push((txid_prefix(txid), tx_num));
        // The genesis coinbase is no coin, and no server shows it in a history.
        if tx_num == 0 {
            continue;
        }
        for &tag in &output_tags[tx.output_range()] {
            if tag != NO_TAG {
                rows.history.push((tag, tx_num));
            }
        }
        if tx.index() == 0 {
            continue;
        }
        for input in tx.input_range() {
            let coin = spent.get(input - 1);
            rows.history.push((spent_tags[input - 1], tx_num));
            rows.spender.push((coin.txo_num, tx_num));
        }
    }
    rows
}
