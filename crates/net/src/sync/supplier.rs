//! What one peer has on order, and how fast it delivers.
//!
//! In:     orders, deliveries, the time.
//! Out:    its rate, when more would be here, how many more it may have on order.
//! Fails:  never.

use primitives::BlockHash;

use super::window::Limits;

/// Blocks on order from a peer at first.
pub(super) const FIRST_ORDER_BLOCKS: usize = 2;
/// Time a peer whose rate is not known is given for a block.
pub(super) const FIRST_ORDER_MS: u64 = 1_000;
/// What has to come of a message for its sender to count as alive.
const PIECE_BYTES: u64 = 16 * 1024;
/// Longest time that pieces count without a whole block; Core's timeout for a block (`BLOCK_DOWNLOAD_TIMEOUT_BASE`).
const GROWING_MS_MAX: u64 = 10 * 60 * 1_000;

/// One peer.
pub(super) struct Peer {
    /// Highest block of our best headers it is known to have.
    pub height: u32,
    /// Lowest block it is worth asking for.
    pub lowest: u32,
    /// Blocks it may have on order at most, whatever it has shown.
    pub most: usize,
    /// Blocks on order, also those that came from elsewhere or left the window meanwhile: its line is busy with them. When each
    /// was ordered stands beside it.
    pub orders: Vec<(BlockHash, u64)>,
    /// How many it may have on order.
    pub room: usize,
    /// When its last block came, or its first order after a pause went out.
    pub heard_ms: u64,
    /// When a good piece of a message that is on its way came last, and how much of the message was here then.
    pub grown_ms: u64,
    pub grown_bytes: u64,
    /// Bytes and milliseconds of its deliveries, old ones fading.
    pub bytes: u64,
    pub ms: u64,
    /// Its first order.
    pub began_ms: Option<u64>,
    /// Blocks it brought.
    pub blocks: u32,
}

impl Peer {
    /// A peer that has shown nothing yet.
    pub fn new() -> Peer {
        Peer {
            height: 0,
            lowest: 0,
            most: usize::MAX,
            orders: Vec::new(),
            room: FIRST_ORDER_BLOCKS,
            heard_ms: 0,
            grown_ms: 0,
            grown_bytes: 0,
            bytes: 0,
            ms: 0,
            began_ms: None,
            blocks: 0,
        }
    }

    /// True where one more block may be ordered of it; `least` are granted to anybody.
    pub fn has_room(&self, least: usize) -> bool {
        self.orders.len() < self.room.max(least).min(self.most)
    }

    /// True where it has the block at `height`, as far as anybody knows.
    pub fn has(&self, height: u32) -> bool {
        (self.lowest..=self.height).contains(&height)
    }

    /// None before a block has come.
    pub fn rate_per_s(&self) -> Option<u64> {
        (self.ms > 0).then(|| (self.bytes * 1000 / self.ms).max(1))
    }

    /// `bytes` are here of a message that is on its way; 0 between two messages.
    pub fn growing(&mut self, bytes: u64, now_ms: u64) {
        if bytes >= self.grown_bytes + PIECE_BYTES {
            self.grown_ms = now_ms;
        } else if bytes >= self.grown_bytes {
            return;
        }
        self.grown_bytes = bytes;
    }

    /// For how long it has shown no life while blocks were on order: a large block on a slow line takes minutes, and is alive
    /// as long as it grows, up to a time.
    pub fn silent_ms(&self, now_ms: u64) -> u64 {
        if self.orders.is_empty() {
            return 0;
        }
        let grown_ms = self.grown_ms.min(self.heard_ms + GROWING_MS_MAX);
        now_ms.saturating_sub(self.heard_ms.max(grown_ms))
    }

    /// A block came that was ordered at `ordered_ms`.
    pub fn delivered(&mut self, bytes: u64, now_ms: u64, ordered_ms: u64, limits: &Limits) {
        // The line's own time: since the block before, or since the order where it had been idle.
        let took_ms = now_ms.saturating_sub(self.heard_ms).max(1);
        (self.bytes, self.ms) = (self.bytes - self.bytes / 8 + bytes, self.ms - self.ms / 8 + took_ms);
        self.blocks = self.blocks.saturating_add(1);
        self.heard_ms = now_ms;
        let waited_ms = now_ms.saturating_sub(ordered_ms);
        if waited_ms <= limits.ordered_ms / 2 {
            self.room = (self.room + 1).min(limits.blocks_per_peer_max);
        } else if waited_ms > limits.ordered_ms {
            self.room = (self.room * 7 / 8).max(1);
        }
    }

    /// When `more` blocks behind all on order would be here, from now on.
    ///
    /// Who has shown nothing is taken for as good as the best for its first block, or would never get to show anything
    /// beside others that are quick.
    pub fn expected_ms(&self, more: u64, mean_bytes: u64, best_rate_per_s: Option<u64>) -> u64 {
        let blocks = self.orders.len() as u64 + more;
        let assumed = best_rate_per_s.filter(|_| self.orders.is_empty());
        self.rate_per_s().or(assumed).map_or(blocks * FIRST_ORDER_MS, |rate| blocks * mean_bytes * 1000 / rate)
    }
}
