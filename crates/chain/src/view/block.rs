//! What is asked about a block: its bytes, its transactions, merkle branches, header proofs.
//!
//! In:     heights and positions.
//! Out:    bytes, identifiers, branches.
//! Fails:  [`ViewError`].

use std::sync::{Arc, PoisonError};

use primitives::hash::sha256d;
use primitives::sha256::sha256d_many;
use primitives::{Block, BlockHash, Header, TxNum, Txid};

use super::merkle::MerkleTree;
use super::{GENESIS_POSITION, View, ViewError};

impl View {
    /// Ordinal of the first transaction of the block at `height`.
    pub fn first_tx_num(&self, height: u32) -> Result<TxNum, ViewError> {
        Ok(self.block(height)?.first_tx_num)
    }

    /// A whole block's bytes; none above the tip.
    pub fn block_bytes(&self, height: u32) -> Result<Option<Vec<u8>>, ViewError> {
        if height > self.tip().height {
            return Ok(None);
        }
        let bytes = match self.block(height)?.position {
            GENESIS_POSITION => self.params.genesis_block(),
            position => self.files.read_block(position)?,
        };
        Ok(Some(bytes))
    }

    /// Identifiers of a block's transactions; none above the tip.
    pub fn txids(&self, height: u32) -> Result<Option<Vec<Txid>>, ViewError> {
        let tree = self.merkle_tree(height)?;
        Ok(tree.map(|tree| tree.leaves().iter().copied().map(Txid).collect()))
    }

    /// The identifier at a position of a block; none where there is no such transaction.
    pub fn txid_at(&self, height: u32, position: u32) -> Result<Option<Txid>, ViewError> {
        let Some(txs) = self.snapshot.txs_of_block(height)? else { return Ok(None) };
        if position >= txs.end - txs.start {
            return Ok(None);
        }
        Ok(Some(self.tx_at(txs.start + position)?.txid))
    }

    /// The merkle branch of a transaction by its place; none where there is no such transaction.
    pub fn merkle_branch(&self, height: u32, position: u32) -> Result<Option<Vec<[u8; 32]>>, ViewError> {
        Ok(self.merkle_tree(height)?.and_then(|tree| tree.branch(position as usize)))
    }

    /// The merkle tree of a block, remembered or computed; none above the tip.
    pub(super) fn merkle_tree(&self, height: u32) -> Result<Option<Arc<MerkleTree>>, ViewError> {
        let Some(header) = self.header(height)? else { return Ok(None) };
        // The root names the transactions, on whatever branch: nothing has to be forgotten at a reorganisation.
        let root = Header::decode(&header).merkle_root;
        if let Some(tree) = self.merkle_memory.find(&root) {
            return Ok(Some(tree));
        }
        let gone = ViewError::BlockGone { height };
        let Some(bytes) = self.block_bytes(height)? else { return Ok(None) };
        let Ok(block) = Block::parse(bytes) else { return Err(gone) };
        let tree = MerkleTree::of(sha256d_many(block.tx_count(), |index| block.tx(index).stripped_parts()));
        if tree.root() != root {
            return Err(gone);
        }
        Ok(Some(self.merkle_memory.keep(tree)))
    }

    /// Branch and root of the header at `height` under the headers `0..=cp_height`; none unless
    /// `height <= cp_height <= tip`.
    pub fn header_proof(&self, height: u32, cp_height: u32) -> Result<Option<(Vec<[u8; 32]>, [u8; 32])>, ViewError> {
        if height > cp_height || cp_height > self.tip().height {
            return Ok(None);
        }
        let hashes = |start: usize, count: usize| -> Result<Vec<BlockHash>, ViewError> {
            let headers = self.headers(start as u32, count as u32)?;
            Ok(headers.chunks_exact(80).map(|header| BlockHash(sha256d(header))).collect())
        };
        let known = {
            let mut mountain = self.mountain.lock().unwrap_or_else(PoisonError::into_inner);
            mountain.extend(self.tip().height as usize + 1, hashes)?;
            mountain.clone()
        };
        Ok(Some(known.proof(height as usize, cp_height as usize, hashes)?))
    }
}
