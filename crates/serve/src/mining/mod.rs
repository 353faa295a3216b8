//! Mining by JSON-RPC: blocks that could be the next, and the methods around them.
//!
//! In:     views, the mempool's choice of transactions, blocks of miners.
//! Out:    templates, blocks, BIP 22's words.
//! Fails:  with Core's codes and words.
//! Source: Bitcoin Core, `src/rpc/mining.cpp`, `src/node/miner.cpp`; BIP 22, 23, 34, 141, 145.

pub mod assemble;
pub mod methods;
