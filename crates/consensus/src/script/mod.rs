//! Whether the scripts of blocks allow what their transactions spend.
//!
//! In:     [`Job`]s: transactions of checked blocks, with the coins they spend and the flags of their heights.
//! Out:    for each job valid, or its first input that is not.
//! Fails:  [`ScriptFailure`], for `BlockError::Script`.
//! Source: Core's `CheckInputScripts`; templates in `template`, everything else by Core's own interpreter.
//!
//! Signatures of all jobs are pooled: an engine sees thousands of rows a call, whatever input they come from.

mod hints;
pub mod interpreter;
mod multisig;
mod push;
pub mod sighash;
mod strict;
mod taproot;
mod template;
mod verify;

pub use hints::{SEGMENT_INPUTS, fuzz_hints};
pub use interpreter::{Interpreter, ScriptError, verify_input};
pub use sighash::{Sighasher, TxCoins};
pub use verify::{Counters, CountersTotal, Job, Learnt, ScriptFailure, TxJob, verify, verify_learning, verify_txs};
