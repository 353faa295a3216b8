//! What subscribers have not been told yet about the chain.
//!
//! In:     blocks that joined and left, scripts they touch.
//! Out:    [`Event::NewTip`].
//! Fails:  never; blocks beyond [`NEWS_BYTES_MAX`] are told of by height and hash, and more scripts than [`TOUCHED_MAX`] as
//!         "any of them".

use std::collections::HashSet;
use std::sync::Arc;

use consensus::block::{self, CheckedBlock};
use primitives::{Block, BlockHash, Params, ScriptHash};

use crate::handle::{Event, TipBlock};

/// Bytes of blocks that one event carries at most: four of the largest.
const NEWS_BYTES_MAX: usize = 16_000_000;
/// Blocks that one event lists at most; a node that far behind is told of the rest by the heights.
const NEWS_BLOCKS_MAX: usize = 10_000;

/// Scripts that one event lists at most: those of a dozen full blocks. A node that fetches the chain stands at a tip, its
/// genesis block, before it knows of any other, and would list every script there ever was.
const TOUCHED_MAX: usize = 1 << 17;

/// Changes since the last event.
pub(crate) struct News {
    /// None where they are too many.
    touched: Option<HashSet<ScriptHash>>,
    /// The lowest block that stayed.
    reorganised_from: Option<u32>,
    /// Highest first.
    disconnected: Vec<TipBlock>,
    /// Lowest first.
    connected: Vec<TipBlock>,
    bytes: usize,
}

impl Default for News {
    fn default() -> News {
        News {
            touched: Some(HashSet::new()),
            reorganised_from: None,
            disconnected: Vec::new(),
            connected: Vec::new(),
            bytes: 0,
        }
    }
}

impl News {
    /// Scripts were paid to or spent from. Once they are too many none is hashed any more.
    pub(crate) fn touch<'a>(&mut self, scripts: impl Iterator<Item = &'a [u8]>) {
        let Some(touched) = &mut self.touched else { return };
        touched.extend(scripts.map(ScriptHash::of));
        if touched.len() > TOUCHED_MAX {
            self.touched = None;
        }
    }

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
            touched: touched.map(Arc::new),
            reorganised_from,
            disconnected: disconnected.into(),
            connected: connected.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_listed_up_to_a_bound_and_anew_after_each_event() {
        fn touch(news: &mut News, count: u32) {
            let scripts: Vec<[u8; 4]> = (0..count).map(u32::to_le_bytes).collect();
            news.touch(scripts.iter().map(|script| &script[..]));
        }
        fn told(news: &mut News) -> Option<usize> {
            let Event::NewTip { touched, .. } = news.tell(1, 1, [0; 80]) else { panic!("a tip") };
            touched.map(|touched| touched.len())
        }
        let mut news = News::default();
        touch(&mut news, TOUCHED_MAX as u32);
        touch(&mut news, 10);
        assert_eq!(told(&mut news), Some(TOUCHED_MAX), "scripts that come again count once");
        touch(&mut news, TOUCHED_MAX as u32 + 1);
        touch(&mut news, 1);
        assert_eq!(told(&mut news), None);
        touch(&mut news, 1);
        assert_eq!(told(&mut news), Some(1));
    }
}
