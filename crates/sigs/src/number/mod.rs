//! Numbers without vectors: modulo the group's order, inverses, and the slow arithmetic that tests compare with.
//!
//! In:     words of 64 bits, lowest first.
//! Out:    the same.
//! Fails:  each file says how.
//! Source: docs/signatures.md.

pub mod inverse;
pub mod order;
#[cfg(test)]
pub mod plain;
