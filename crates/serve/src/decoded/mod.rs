//! Transactions and scripts as text and JSON, the way Bitcoin Core shows them.
//!
//! In:     parsed transactions and scripts.
//! Out:    JSON members with Core's names and order, script text (`asm`).
//! Fails:  never: every script has a text, if only "[error]".
//! Source: Bitcoin Core, `src/core_io.cpp` (`TxToUniv`, `ScriptToAsmStr`).

pub mod asm;
pub mod descriptor;
pub mod transaction;
