//! What a peer did, for `getpeerinfo` and for choosing between peers.
//!
//! In:     frames that came and went.
//! Out:    [`Statistics`].
//! Fails:  never.

use std::collections::BTreeMap;

use crate::moment::Moment;
use crate::wire::Command;

/// Bytes of one direction.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// All of them, handshake of the transport included.
    pub bytes: u64,
    /// Those of frames, by message; unknown names and dropped frames together under `None`.
    pub by_message: BTreeMap<Option<Command>, u64>,
    /// When the last bytes went.
    pub last: Option<Moment>,
}

impl Traffic {
    pub(super) fn count(&mut self, command: Option<Command>, bytes: usize) {
        *self.by_message.entry(command).or_default() += bytes as u64;
    }
}

/// What a peer did.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// When the connection was made.
    pub connected: Moment,
    /// What came.
    pub received: Traffic,
    /// What went.
    pub sent: Traffic,
    /// Frames and messages that were dropped because they could not be read.
    pub dropped_messages: u64,
    /// When it last sent a block that was new to us.
    pub last_block: Option<Moment>,
    /// When it last sent a transaction that we took.
    pub last_tx: Option<Moment>,
    /// Addresses taken.
    pub addresses_processed: u64,
    /// Addresses left away, since too many came.
    pub addresses_limited: u64,
}

impl Statistics {
    pub(super) fn new(now: Moment) -> Statistics {
        Statistics {
            connected: now,
            received: Traffic::default(),
            sent: Traffic::default(),
            dropped_messages: 0,
            last_block: None,
            last_tx: None,
            addresses_processed: 0,
            addresses_limited: 0,
        }
    }
}
