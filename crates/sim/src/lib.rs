//! A world in a seed: a chain generator, a slow book, a coin-set hash, a disk that fails, and judges to compare with.
//!
//! In:     seeds and options.
//! Out:    forged chains, models that answer slowly and plainly, and checkers that run the node's parts against them.
//! Fails:  loudly; everything here exists to find a difference.

pub mod book;
pub mod compare;
pub mod crash;
pub mod disk;
pub mod forge;
pub mod learner;
pub mod mutate;
pub mod offered;
pub mod oracle;

pub use primitives::muhash;
