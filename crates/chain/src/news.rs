//! What subscribers have not been told yet about the chain.
//!
//! In:     blocks that joined and left, scripts they touch.
//! Out:    [`Event::NewTip`].
//! Fails:  never; blocks beyond [`NEWS_BYTES_MAX`] are told of by height and hash.

use std::collections::HashSet;
use std::sync::Arc;

use consensus::block::{self, CheckedBlock};
use primitives::{Block, BlockHash, Params, ScriptHash};

use crate::handle::{Event, TipBlock};

/// Bytes of blocks that one event carries at most: four of the largest.
const NEWS_BYTES_MAX: usize = 16_000_000;
/// Blocks that one event lists at most; a node that far behind is told of the rest by the heights.
const NEWS_BLOCKS_MAX: usize = 10_000;

/// Changes since the last event.
#[derive(Default)]
pub(crate) struct News {
    pub(crate) touched: HashSet<ScriptHash>,
    /// The lowest block that stayed.
    reorganised_from: Option<u32>,
    /// Highest first.
    disconnected: Vec<TipBlock>,
    /// Lowest first.
    connected: Vec<TipBlock>,
    bytes: usize,
}

impl News {
    pub(crate) fn reorganised(&mut self, fork_height: u32) {
        self.reorganised_from = Some(self.reorganised_from.map_or(fork_height, |height| height.min(fork_height)));
    }

    pub(crate) fn joined(&mut self, height: u32, checked: &Arc<CheckedBlock>) {
        let bytes = checked.block().bytes().len();
        let block = self.has_room(bytes).then(|| checked.clone());
        if self.connected.len() < NEWS_BLOCKS_MAX {
            self.connected.push(TipBlock { height, hash: *checked.hash(), block });
        }
    }

    pub(crate) fn left(&mut self, height: u32, hash: BlockHash, block: Block, params: &Params, tell: bool) {
        if self.connected.last().is_some_and(|last| last.hash == hash) {
            // Nobody has been told that it joined.
            self.connected.pop();
            return;
        }
        if !tell || self.disconnected.len() >= NEWS_BLOCKS_MAX {
            return;
        }
        let room = self.has_room(block.bytes().len());
        let block = if room { block::check(block, params).ok().map(Arc::new) } else { None };
        self.disconnected.push(TipBlock { height, hash, block });
    }

    fn has_room(&mut self, bytes: usize) -> bool {
        let room = self.bytes + bytes <= NEWS_BYTES_MAX;
        self.bytes += if room { bytes } else { 0 };
        room
    }

    /// The event that tells all of it.
    pub(crate) fn tell(&mut self, number: u64, height: u32, header: [u8; 80]) -> Event {
        let News { touched, reorganised_from, disconnected, connected, .. } = std::mem::take(self);
        Event::NewTip {
            number,
            height,
            header,
            touched: Arc::new(touched),
            reorganised_from,
            disconnected: disconnected.into(),
            connected: connected.into(),
        }
    }
}
