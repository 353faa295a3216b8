//! What Core's JSON-RPC methods do, a file for each subject; each ends in its table of methods.
//!
//! In:     [`Call`](crate::rpc::call::Call)s, their arguments checked by type.
//! Out:    results, written as they are found.
//! Fails:  [`RpcError`](crate::rpc::error::RpcError) with Core's codes and words.
//! Source: Bitcoin Core 31, `src/rpc/*.cpp`; differences are listed in docs/rpc.md.

pub mod blocks;
pub mod chaininfo;
pub mod coins;
pub mod deployments;
pub mod proofs;

pub mod construct;
pub mod messages;
pub mod scripts;
pub mod signing;
pub mod transactions;

pub mod control;
pub mod mempool;
pub mod network;
pub mod submission;
