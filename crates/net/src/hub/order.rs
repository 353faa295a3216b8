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
/// Blocks of one peer that are waited for, the last ones. All that the chain's queue has room for, but for the smallest ones:
/// any of them may be the one that those after it wait for.
const OPEN_MAX: usize = 4_096;
/// Messages that wait before the peer is not read from.
const HELD_MAX: usize = 64;

/// What of one peer is not dealt with yet.
#[derive(Default)]
pub(super) struct Order {
    /// Blocks that are being judged, oldest first.
    open: VecDeque<(BlockHash, Moment)>,
    /// What came after them.
    held: VecDeque<Message>,
    /// The last block since the last ping.
    last: Option<BlockHash>,
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
        talk.order.last = Some(hash);
        talk.peer.set_busy(true);
    }

    /// A block was tried.
    pub(super) fn tried(&mut self, hash: &BlockHash) {
        for talk in self.talks.values_mut() {
            // They are tried in order, more or less: it is one of the first.
            if let Some(at) = talk.order.open.iter().position(|(open, _)| open == hash) {
                talk.order.open.remove(at);
            }
        }
    }

    /// Deals with a message, now or when its turn comes.
    pub(super) fn take_in_order(&mut self, id: PeerId, message: Message) {
        let Some(talk) = self.talks.get(&id) else { return };
        if talk.order.held.is_empty() && self.may_pass(id, &message) {
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

    /// True for a message whose turn it is. Far below the best headers blocks are committed many at a time: before a ping is
    /// answered, the last block before it is asked to be shown, and waited for once more.
    fn may_pass(&mut self, id: PeerId, message: &Message) -> bool {
        if self.must_wait(id, message) {
            return false;
        }
        let is_ping = matches!(message, Message::Ping(_));
        let Some(talk) = self.talks.get_mut(&id).filter(|_| is_ping) else { return true };
        let Some(last) = talk.order.last.take() else { return true };
        let waits = self.chain.show(&last);
        if waits && let Some(talk) = self.talks.get_mut(&id) {
            talk.order.open.push_back((last, self.now));
        }
        !waits
    }

    /// Deals with what need not wait any longer.
    pub(super) fn release(&mut self) {
        let now = self.now;
        for id in self.ids() {
            if let Some(talk) = self.talks.get_mut(&id) {
                let is_over = |open: &VecDeque<(BlockHash, Moment)>| {
                    open.front().is_some_and(|(_, since)| now.since(since) >= WAIT_MAX)
                };
                while is_over(&talk.order.open) {
                    talk.order.open.pop_front();
                }
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
        let first = self.talks.get_mut(&id)?.order.held.pop_front()?;
        if self.may_pass(id, &first) {
            return Some(first);
        }
        self.talks.get_mut(&id)?.order.held.push_front(first);
        None
    }
}
