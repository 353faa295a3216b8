//! Nodes that a bench starts, watches and asks: our own program, and bitcoind.
//!
//! In:     settings; questions.
//! Out:    running processes on loopback, on ports they choose themselves or that were free a moment ago; what they took.
//! Fails:  [`crate::BenchError::Child`] when one ends early, or stays silent for [`process::PATIENCE`].
//!
//! A node is killed when it is dropped: what it wrote lies in the bench's own folder.

pub mod assay;
pub mod bitcoind;
pub mod http;
pub mod process;

pub use assay::{Assay, AssaySettings, P2p};
pub use http::Rpc;
pub use process::Process;
