//! The field and the points of secp256k1 on any 64-bit processor, one number at a time.
//!
//! In:     elements and points.
//! Out:    sums, products, inverses and square roots, about as fast as those inside libsecp256k1, which it does not offer.
//! Fails:  never; an addition of equal or opposite points shows as a zero, see point.rs.
//! Source: docs/signatures.md, "One number at a time". Used by crate::batch where the processor has no IFMA.

#[cfg(test)]
mod bounds;
pub mod field;
#[cfg(test)]
mod field_tests;
pub mod limb;
pub mod point;
