//! The newest block, in memory: it is what everybody asks for.
//!
//! In:     a block that was found good so far.
//! Out:    its bytes, its compact form, its transactions by position and by name.
//! Fails:  never.
//! Source: Bitcoin Core, `m_most_recent_block`, `m_most_recent_block_txs`.

use std::collections::HashMap;

use primitives::sha256::sha256d_many;
use primitives::{Block, BlockHash, Transaction, Txid, Wtxid};

use super::requests::TxName;
use crate::wire::{CompactBlock, Message};

/// The newest block.
pub struct Newest {
    /// Its hash.
    pub hash: BlockHash,
    /// It.
    pub block: Block,
    /// Its compact form, made when the first peer wants it.
    compact: Option<Message>,
    /// Its identifiers, where it was put together here.
    ids: Option<(Vec<Txid>, Vec<Wtxid>)>,
    /// Positions by txid and wtxid, made when the first peer asks.
    names: HashMap<[u8; 32], u16>,
}

impl Newest {
    /// A block and its hash.
    pub fn new(hash: BlockHash, block: Block) -> Newest {
        Newest { hash, block, compact: None, ids: None, names: HashMap::new() }
    }

    /// The same with the identifiers of its transactions, the coinbase's as they are.
    pub fn identified(hash: BlockHash, block: Block, txids: Vec<Txid>, wtxids: Vec<Wtxid>) -> Newest {
        Newest { ids: Some((txids, wtxids)), ..Newest::new(hash, block) }
    }

    /// The compact form; every peer gets the same.
    pub fn compact(&mut self, nonce: u64) -> &Message {
        self.compact.get_or_insert_with(|| {
            let compact = |wtxids: &[Wtxid]| CompactBlock::with_wtxids(&self.block, wtxids, nonce);
            Message::CompactBlock(match &self.ids {
                Some((_, wtxids)) => compact(wtxids),
                None => compact(&wtxids_of(&self.block)),
            })
        })
    }

    /// A transaction of it, so that those who were told of one can have it after it was confirmed.
    pub fn tx(&mut self, name: &TxName) -> Option<Transaction> {
        if self.names.is_empty() {
            let ids = match self.ids.take() {
                Some((txids, wtxids)) => txids.into_iter().zip(wtxids).collect(),
                None => tx_ids(&self.block),
            };
            let both = ids.into_iter().zip(0..=u16::MAX);
            self.names = both.flat_map(|((txid, wtxid), at)| [(txid.0, at), (wtxid.0, at)]).collect();
        }
        let position = *self.names.get(&name.hash())?;
        Transaction::parse(self.block.tx(usize::from(position)).raw()).ok()
    }
}

/// Both identifiers of a block's transactions, in order, for [`crate::hub::Hub::block_connected`].
pub fn tx_ids(block: &Block) -> Vec<(Txid, Wtxid)> {
    let txids = sha256d_many(block.tx_count(), |index| block.tx(index).stripped_parts());
    txids.into_iter().map(Txid).zip(wtxids_of(block)).collect()
}

/// Wtxids of a block's transactions, the coinbase's as it is and not as the commitment counts it.
fn wtxids_of(block: &Block) -> Vec<Wtxid> {
    let hashes = sha256d_many(block.tx_count(), |index| [block.tx(index).raw(), &[], &[]]);
    hashes.into_iter().map(Wtxid).collect()
}
