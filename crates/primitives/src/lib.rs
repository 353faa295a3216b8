//! Bitcoin's nouns and their exact bytes.
//!
//! In:     bytes from files or peers.
//! Out:    zero-copy views of block and transaction, hashes, headers, coins, addresses, network constants.
//! Fails:  parsing says where the bytes break the format; no consensus rule is judged here.

pub mod address;
pub mod block;
pub mod coin;
pub mod encode;
pub mod hash;
pub mod header;
pub mod muhash;
pub mod network;
pub mod script;
pub mod sha256;
pub mod transaction;
pub mod txid;

pub use block::Block;
pub use coin::{Coin, SpentCoins, TxNum, TxoNum};
pub use hash::{BlockHash, ScriptHash, Txid, Wtxid};
pub use header::Header;
pub use network::{Network, Params};
pub use transaction::{Input, OutPoint, Output, Transaction, Tx, Witness};
