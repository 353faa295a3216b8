//! What is remembered of one peer, beyond its connection.
//!
//! In:     what it sent.
//! Out:    what it knows, what it is asked for, what it asks for.
//! Fails:  never.

use std::collections::VecDeque;

use primitives::{BlockHash, Transaction};

use super::order::Order;
use super::trickle::TxTalk;
use crate::moment::Moment;
use crate::peer::Peer;
use crate::sync::LowWork;
use crate::wire::{Inventory, Reconstruction};

/// Headers asked of a peer.
pub(super) enum Asking {
    /// None.
    Nothing,
    /// What follows our best header; since when.
    Headers(Moment),
    /// A chain that has yet to prove its work; since when the last answer is awaited.
    LowWork(Box<LowWork>, Moment),
}

impl Asking {
    /// Since when an answer is awaited.
    pub fn since(&self) -> Option<Moment> {
        match self {
            Asking::Nothing => None,
            Asking::Headers(since) | Asking::LowWork(_, since) => Some(*since),
        }
    }
}

/// A compact block whose missing transactions are on their way.
pub(super) struct Pending {
    pub hash: BlockHash,
    pub reconstruction: Reconstruction<Transaction>,
}

/// One peer.
pub(super) struct Talk {
    pub peer: Peer,
    pub asking: Asking,
    /// It was asked for headers once: whoever has nothing for us is not asked again and again.
    pub was_asked: bool,
    /// The best header it has shown; none before the first.
    pub known: Option<BlockHash>,
    /// The last header it told of: the end of a branch beside the best headers, where it is one.
    pub branch: Option<BlockHash>,
    /// The best header we have told it of.
    pub told: Option<BlockHash>,
    /// What it asks for and has not got yet, oldest first.
    pub wants: VecDeque<Inventory>,
    /// Blocks whose filters it asks for and has not got yet, oldest first.
    pub filters: VecDeque<BlockHash>,
    /// It was offered block filters when it connected.
    pub offers_filters: bool,
    pub pending: Option<Pending>,
    /// The block it sent parts of that made no block: it is asked for whole.
    pub failed: Option<BlockHash>,
    pub order: Order,
    /// When it was looked at what is due for it.
    pub looked_at: Moment,
    /// Since when its chain has less work than ours, and whether it was asked for headers since.
    pub behind: Option<(Moment, bool)>,
    /// Bytes of blocks it was served.
    pub served_bytes: u64,
    /// What it is told of transactions.
    pub txs: TxTalk,
}

impl Talk {
    /// `key`: a secret for what it knows.
    pub fn new(peer: Peer, key: [u64; 2]) -> Talk {
        Talk {
            peer,
            asking: Asking::Nothing,
            was_asked: false,
            known: None,
            branch: None,
            told: None,
            wants: VecDeque::new(),
            filters: VecDeque::new(),
            offers_filters: false,
            pending: None,
            failed: None,
            order: Order::default(),
            looked_at: Moment::default(),
            behind: None,
            served_bytes: 0,
            txs: TxTalk::new(key),
        }
    }
}
