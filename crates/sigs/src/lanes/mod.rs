//! The engine that checks eight signatures at a time.
//!
//! In:     rows of [`crate::Check`].
//! Out:    [`LanesEngine`], an [`crate::Engine`] some eight times as fast as libsecp256k1 on one core.
//! Fails:  where the processor has no AVX-512 IFMA; see engine.rs.
//! Source: docs/signatures.md. Read upwards: vector.rs (the processor), field.rs, point.rs, chain.rs (inverses), order.rs
//!         and digits.rs (multipliers), rows.rs (what comes in), stages.rs (the computation), engine.rs (the verdict).

#[cfg(test)]
mod bounds;
mod chain;
pub mod digits;
mod engine;
mod field;
#[cfg(test)]
mod field_tests;
mod generator;
mod inverse;
pub mod order;
#[cfg(test)]
mod plain;
mod point;
mod rows;
mod stages;
mod vector;

pub use engine::LanesEngine;
