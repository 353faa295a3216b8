//! What keeps the mempool true: the writer's news told to it, and what is learnt from it.
//!
//! In:     a [`Handle`](crate::Handle) to the writer, a policy, a clock.
//! Out:    [`Upkeep`], which somebody's thread steps; [`Followed`], for who waits until the mempool has caught up.
//! Fails:  never; where a block cannot be found again, all of the mempool is judged anew.

mod follow;
mod followed;

pub use follow::{SharedEstimates, Upkeep};
pub use followed::Followed;
