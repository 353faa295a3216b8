//! Tests that join the crates: the whole program on forged chains, asked over real sockets.
//!
//! In:     the built program `assay`, chains forged below the system's temporary folder.
//! Out:    one test binary, `tests/whole`.
//! Fails:  with the program's log.
