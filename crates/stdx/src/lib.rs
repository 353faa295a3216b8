//! What the standard library lacks, and the doors to the world.
//!
//! In:     nothing; this crate knows no Bitcoin.
//! Out:    byte reading, hexadecimal text, checksums, seeded random numbers, worker pool, and the doors: disk and clock.
//! Fails:  each function says how; nothing here panics on bytes from outside.

pub mod bytes;
pub mod checksum;
pub mod clock;
pub mod disk;
pub mod hex;
pub mod pool;
pub mod random;
pub mod vectors;
