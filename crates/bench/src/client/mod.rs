//! A client of Electrum servers that measures them and not itself.
//!
//! In:     an [`Address`], requests as text.
//! Out:    [`Client`]: answers, and the time each took; [`Wire`]: messages over TCP, TLS and WebSockets.
//! Fails:  with a [`Failure`].

mod session;
mod wire;

pub use session::{Client, Failure, batch, request, short};
pub use wire::{Address, Scheme, Wire};
