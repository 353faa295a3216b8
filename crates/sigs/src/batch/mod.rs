//! The random linear combination of many signatures.
//!
//! In:     rows of [`crate::Check`], with a [`crate::Hint`] for each of ECDSA.
//! Out:    whether all rows of a batch are good, in one sum of points.
//! Fails:  a sum that is not zero says nothing about any row: another engine decides each.
//! Source: docs/signatures.md, "Batches". The algebra (curve.rs) is written once for eight lanes and once in plain Rust.

mod abscissas;
mod collect;
mod curve;
#[cfg(test)]
mod curve_tests;
mod engine;
#[cfg(any(test, target_arch = "x86_64"))]
mod lanes;
#[cfg(test)]
mod pace_tests;
mod randomisers;
mod rows;
mod sum;
#[cfg(test)]
mod tests;
mod word;

pub use engine::{BatchEngine, Limits};
#[cfg(target_arch = "x86_64")]
pub use lanes::LanesCurve;
pub use word::WordCurve;
