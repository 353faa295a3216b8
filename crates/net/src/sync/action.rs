//! What the window of blocks says: whom to ask for what, whom to part with, what an arriving block is.
//!
//! In:     nothing.
//! Out:    [`Action`], [`PartReason`], [`Arrival`].
//! Fails:  never.

use std::fmt;

use primitives::BlockHash;

use super::window::PeerId;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask the peer for these blocks, heights ascending.
    Request {
        /// Whom.
        peer: PeerId,
        /// Which.
        blocks: Vec<BlockHash>,
    },
    /// Close the connection and look for another peer.
    Part {
        /// Whose.
        peer: PeerId,
        /// Why.
        why: PartReason,
    },
}

/// Why a peer is parted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartReason {
    /// Nothing came for so long while blocks were on order.
    Silent {
        /// How long.
        ms: u64,
    },
    /// Everything waited for a block of it.
    Stalls {
        /// How long.
        ms: u64,
    },
    /// Its rate stayed far below the others'.
    Slow {
        /// Its rate.
        bytes_per_s: u64,
        /// The median of all.
        median_bytes_per_s: u64,
    },
}

impl fmt::Display for PartReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartReason::Silent { ms } => write!(f, "no block for {ms} ms while some were on order"),
            PartReason::Stalls { ms } => write!(f, "everything waited for a block of it for {ms} ms"),
            PartReason::Slow { bytes_per_s, median_bytes_per_s } => {
                write!(f, "{bytes_per_s} bytes a second where others have {median_bytes_per_s}")
            }
        }
    }
}

/// What an arriving block is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The first copy of a block of the window.
    Wanted {
        /// Its height.
        height: u32,
    },
    /// A copy came before.
    Again,
    /// Nobody asked for it, or it left the window meanwhile.
    Unasked,
}
