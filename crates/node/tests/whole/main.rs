//! The program as its users see it, and the habits of the house.
//!
//! In:     the built program `assay`, and the sources and documents of this repository.
//! Out:    one test a promise.
//! Fails:  with the file and line to change.

mod core_tests;
mod documents;
mod electrum_bench;
mod filters;
mod habits;
mod headers;
mod layout;
mod measuring;
mod operator;
mod peers;
mod program;
mod relay;
mod sources;
