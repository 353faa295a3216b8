//! The Electrum server over the real writer, mempool and sockets: recorded answers, pushed news, a model.
//!
//! In:     a forged chain with coins of one key on top.
//! Out:    one module a subject.
//! Fails:  where an answer differs from the recorded one, or a client is told something that is not so.

#[allow(dead_code)]
#[path = "../rpc/world.rs"]
mod world;

mod bdk;
mod clients;
mod coins;
mod golden;
mod library;
mod load;
mod model;
mod program;
mod push;
mod slow;
mod wire;
