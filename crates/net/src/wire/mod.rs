//! Every message of the peer protocol as exact bytes.
//!
//! In:     a command and the payload that came with it, already cut out of its frame.
//! Out:    a [`Message`]; and its bytes again.
//! Fails:  [`WireError`]: one variant a rule; [`WireError::is_misbehaviour`] says whether Core discourages the sender.
//! Source: Bitcoin Core 31 (`src/protocol.h`, `src/net_processing.cpp`), the BIPs named beside each message.
//!
//! Bytes behind a complete message are ignored, as Core ignores them; blocks and transactions are the exception.

mod address;
mod command;
mod compact;
mod encode;
mod error;
mod filters;
mod headers;
mod inventory;
#[cfg(test)]
mod limit_tests;
pub mod limits;
mod message;
mod reconstruct;
mod version;

pub use address::{Endpoint, Host, PeerAddress};
pub use command::Command;
pub use compact::{BlockTxs, BlockTxsRequest, CompactBlock, PrefilledTx, SendCompact, ShortIdKeys, TxList};
pub use error::WireError;
pub use filters::{Filter, FilterCheckpoints, FilterHeaders, FilterRange};
pub use headers::{BlockBytes, LocatorRequest};
pub use inventory::{Inventory, InventoryKind};
pub use message::{Feature, Message, SendTxReconciliation};
pub use reconstruct::{Ids, Rebuilt, Reconstruction, ReconstructionError};
pub use version::{Services, Version};
