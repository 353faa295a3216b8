//! Getting the chain: headers that prove work before they cost memory, and blocks as fast as the line carries them.
//!
//! In:     headers and blocks of peers, the time, what the chain has connected.
//! Out:    what to ask which peer for, headers worth keeping, peers to part with.
//! Fails:  never as a whole; what a peer did wrong is an error about that peer.
//!
//! Pure state machines: they hold no socket and no chain. `hub` feeds them and carries out what they ask for.

mod action;
mod bound;
mod low_work;
mod plan;
mod stall;
mod supplier;
mod window;
#[cfg(test)]
mod window_tests;

pub use action::{Action, Arrival, PartReason};
pub use bound::Waiting;
pub use low_work::{LowWork, LowWorkError, Start, Taken};
pub use window::{Limits, PeerId, Room, Window};
