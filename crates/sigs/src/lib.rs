//! Many signatures in, one verdict each out.
//!
//! In:     rows of [`Check`]: key, signature and the 32-byte message they are about; rows of many inputs, transactions
//!         and blocks may stand in one slice.
//! Out:    a `bool` for each row, the one libsecp256k1 gives after the steps Bitcoin Core takes before it (lax DER,
//!         low-S normalisation); the taproot tweak check beside it.
//! Fails:  never on a row: what cannot be parsed is `false`. Asking for an engine that is not built is an error.
//!
//! No script is known here; `consensus::script` makes the rows and says what a verdict means.

mod audit;
mod batch;
mod check;
mod der;
mod engine;
mod fuzz;
mod jury;
mod lanes;
mod number;
#[cfg(test)]
mod pace_tests;
mod parallel;
mod scalar;
mod self_test;
mod tweak;
mod word;

pub use check::{Check, Hint, PublicKeyBytes};
pub use der::{is_strict_der, parse_der_lax};
pub use engine::{
    Counters, Engine, EngineError, EngineName, eager_batch, eager_portable_batch, engine, portable_batch,
};
pub use fuzz::{ByKind, Difference, Kind, Proofs, Report, fuzz, fuzz_checks};
pub use jury::Jury;
pub use parallel::{CALL_ROWS_MAX, verify_parallel};
pub use scalar::{ScalarEngine, verify_one};
pub use tweak::tweak_add_check;
