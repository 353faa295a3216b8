//! The mempool: every rule at both sides of its bound, and a slow mempool to compare with.
//!
//! In:     chains made up in memory, transactions without signatures (outputs to P2A) or with wrong ones, seeds.
//! Out:    one test a rule or property.
//! Fails:  with the seed that fails.

mod accept;
mod blocks;
mod estimates;
mod judged;
mod limits;
mod model;
mod orphans;
mod package;
mod persist;
mod policy;
mod replace;
mod world;
