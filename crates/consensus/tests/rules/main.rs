//! The rules against real chains, published vectors, and both sides of every bound.
//!
//! In:     `../shared/vectors` and Bitcoin Core's JSON, where present; forged blocks on regtest.
//! Out:    each verdict as published, or as Core gives it.
//! Fails:  where a verdict differs.

mod bounds;
mod chains;
mod forge;
mod headers;
mod speed;
mod support;
mod transactions;
