//! Script verdicts: published vectors, real blocks, and thousands of damaged spends against Core's interpreter alone.
//!
//! In:     Bitcoin Core's JSON vectors (inside the `libbitcoinkernel-sys` package), `../shared/vectors` where present.
//! Out:    the published verdict from templates plus interpreter, and the same one from the interpreter alone.
//! Fails:  says "skipped" where the files are not on this machine.

mod assets;
mod blocks;
mod core_vectors;
mod edges;
mod hints;
mod mutations;
mod published;
mod raw;
mod spends;
