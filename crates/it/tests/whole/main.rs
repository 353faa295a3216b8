//! The whole program: wallets' questions against a book, growth, reorganisation, kills, damaged files.
//!
//! In:     the built program and forged chains.
//! Out:    a module a subject.
//! Fails:  with the program's log and what was expected of it.

mod bitcoind;
mod crash;
mod damage;
mod growth;
mod node;
mod own;
mod peers;
mod raw;
mod wallet;
mod world;
