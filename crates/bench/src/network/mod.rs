//! The node among peers: what it downloads from them, and how soon it passes on what it hears.
//!
//! In:     options.
//! Out:    times, bytes and ratios, printed and as JSON.
//! Fails:  when a node does, or ends at another tip than the others.

pub mod line;
pub mod relay;
pub mod scripted;
mod summary;
pub mod sync;
