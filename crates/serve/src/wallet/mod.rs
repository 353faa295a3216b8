//! What wallets ask, and how it is answered: the methods of the Electrum protocol.
//!
//! In:     a session's [`Machine`](crate::electrum::machine::Machine) and checked arguments.
//! Out:    results, written at once by [`methods`] or page by page by [`stream`].
//! Fails:  as the protocol's errors.
//! Source: Electrum protocol (docs/protocol-methods.rst), ElectrumX where the document is silent.
//!
//! How requests come in and answers go out, sessions, limits and subscriptions are in [`electrum`](crate::electrum).

pub mod methods;
pub mod moment;
pub mod outpoints;
pub mod stream;
pub mod transactions;

mod about;
mod fees;
mod headers;
mod histogram;
mod scripts;
mod sending;

pub use histogram::Histogram;
