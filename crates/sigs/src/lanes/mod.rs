//! The engine that checks eight signatures at a time.
//!
//! In:     rows of [`crate::Check`].
//! Out:    [`start`], an [`crate::Engine`] some eight times (AVX-512) or four times (AVX-IFMA) as fast as libsecp256k1.
//! Fails:  where the processor has no IFMA; see engine.rs.
//! Source: docs/signatures.md. Read upwards: vector.rs (the processor: vector_512.rs, vector_256.rs), field.rs, point.rs,
//!         chain.rs (inverses), digits.rs (multipliers), row.rs and rows.rs (what comes in), stages.rs (the
//!         computation), engine.rs (the verdict).

#[cfg(test)]
mod bounds;
pub mod chain;
pub mod digits;
pub mod engine;
pub mod field;
#[cfg(test)]
mod field_tests;
mod generator;
pub mod point;
pub mod row;
mod rows;
pub mod stages;
pub mod vector;
#[cfg(target_arch = "x86_64")]
mod vector_256;
#[cfg(target_arch = "x86_64")]
mod vector_512;

pub use engine::start;
