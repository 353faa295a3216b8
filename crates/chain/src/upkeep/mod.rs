//! What keeps the mempool true: the writer's news told to it, its file, and what is learnt from it.
//!
//! In:     a [`Handle`](crate::Handle) to the writer, a policy, a clock; files.
//! Out:    [`Upkeep`], which somebody's thread steps; [`Followed`], for who waits until the mempool has caught up;
//!         [`MempoolFile`], which survives a restart.
//! Fails:  where a file is damaged or cannot be written; a block that cannot be found again has all of the mempool judged
//!         anew.

mod follow;
mod followed;
mod restore;

pub use follow::{SharedEstimates, Upkeep};
pub use followed::Followed;
pub use restore::{Loaded, MempoolFile, Restore, RestoreWish, replace};
