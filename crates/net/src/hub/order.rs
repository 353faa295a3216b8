//! One thing of a peer after the other: what it says after a block or a transaction is heard once that is judged.
//!
//! In:     messages in the order they came; blocks handed to the chain, and what became of them; transactions that wait.
//! Out:    the same messages, later where they have to wait.
//! Fails:  never; nothing waits longer than [`WAIT_MAX`], and a peer that has much waiting is not read from.
//! Source: Bitcoin Core, `ProcessMessages`, which deals with one message at a time: a pong says that all before the ping
//!         is done, and answers speak of the chain with the block in it.
//!
//! Blocks and transactions are judged on other threads here, many at a time. So blocks never wait, transactions wait for
//! blocks only, and while the chain is downloaded nothing but pings waits, and only for a few blocks.

use std::collections::VecDeque;
use std::time::Duration;

use primitives::BlockHash;

use super::{Chain, Hub};
use crate::moment::Moment;
use crate::peer::PeerId;
use crate::wire::Message;

/// Longest time a message waits for a block: one that takes longer is not worth the peer's patience.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Blocks of one peer that are waited for, the last ones: they are tried in order, more or less.
const OPEN_MAX: usize = 16;
/// Messages that wait before the peer is not read from.
const HELD_MAX: usize = 64;

/// What of one peer is not dealt with yet.
#[derive(Default)]
pub(super) struct Order {
    /// Blocks that are being judged, oldest first.
    open: VecDeque<(BlockHash, Moment)>,
    /// What came after them.
    held: VecDeque<Message>,
}

impl Order {
    /// True while so much waits that nothing more should be read.
    pub fn is_full(&self) -> bool {
        self.held.len() >= HELD_MAX
    }
}

impl<C: Chain> Hub<C> {
    /// A block of this peer is being judged.
    pub(super) fn open(&mut self, id: PeerId, hash: BlockHash) {
        let now = self.now;
        let Some(talk) = self.talks.get_mut(&id) else { return };
        if talk.order.open.len() == OPEN_MAX {
            talk.order.open.pop_front();
        }
        talk.order.open.push_back((hash, now));
        talk.peer.set_busy(true);
    }

    /// A block was tried.
    pub(super) fn tried(&mut self, hash: &BlockHash) {
        for talk in self.talks.values_mut() {
            talk.order.open.retain(|(open, _)| open != hash);
        }
    }

    /// Deals with a message, now or when its turn comes.
    pub(super) fn take_in_order(&mut self, id: PeerId, message: Message) {
        let Some(talk) = self.talks.get(&id) else { return };
        if talk.order.held.is_empty() && !self.must_wait(id, &message) {
            return self.take_message(id, message);
        }
        // What only brings something waits for nothing, or a download would go one block at a time.
        if matches!(message, Message::Block(_) | Message::CompactBlock(_) | Message::BlockTxs(_)) {
            return self.take_message(id, message);
        }
        if let Some(talk) = self.talks.get_mut(&id) {
            talk.order.held.push_back(message);
            talk.peer.set_busy(true);
        }
    }

    /// Transactions of this peer were taken to be judged.
    pub(super) fn open_txs(&mut self, id: PeerId) {
        if let Some(talk) = self.talks.get_mut(&id) {
            talk.peer.set_busy(true);
        }
    }

    fn must_wait(&self, id: PeerId, message: &Message) -> bool {
        let Some(talk) = self.talks.get(&id) else { return false };
        let waits = matches!(message, Message::Ping(_)) || !self.chain.is_initial_download();
        let brings_txs = matches!(message, Message::Tx(_) | Message::Inv(_) | Message::NotFound(_));
        waits && (!talk.order.open.is_empty() || (!brings_txs && self.has_txs_of(id)))
    }

    /// Deals with what need not wait any longer.
    pub(super) fn release(&mut self) {
        let now = self.now;
        for id in self.ids() {
            if let Some(talk) = self.talks.get_mut(&id) {
                talk.order.open.retain(|(_, since)| now.since(since) < WAIT_MAX);
            }
            while let Some(message) = self.next_in_order(id) {
                self.take_message(id, message);
            }
            let has_txs = self.has_txs_of(id);
            if let Some(talk) = self.talks.get_mut(&id) {
                talk.peer.set_busy(has_txs || !talk.order.open.is_empty() || !talk.order.held.is_empty());
            }
        }
    }

    fn next_in_order(&mut self, id: PeerId) -> Option<Message> {
        let first = self.talks.get(&id)?.order.held.front()?;
        if self.must_wait(id, first) {
            return None;
        }
        self.talks.get_mut(&id)?.order.held.pop_front()
    }
}
