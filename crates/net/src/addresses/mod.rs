//! Whom to connect to, whom to keep, whom to avoid.
//!
//! In:     addresses that peers, seeds and the user tell, what became of connections, the time, chance.
//! Out:    an address to try, a connection to end, and whether a host is welcome.
//! Fails:  files that cannot be read say why; nothing else fails.
//! Source: Bitcoin Core, `src/addrman.cpp`, `src/node/eviction.cpp`, `src/banman.cpp`.

mod answers;
mod bans;
mod book;
#[cfg(test)]
mod book_tests;
mod buckets;
mod dialler;
mod entry;
mod eviction;
mod file;
mod gossip;
mod seeds;

pub use answers::{Answers, PERCENT_MAX};
pub use bans::{Ban, Bans};
pub use book::{Book, RawEntry, Reachable};
pub use dialler::{Connected, Destination, Dial, Dialler, Targets};
pub use eviction::{Candidate, select_to_evict};
pub use file::{FileError, decode_anchors, encode_anchors};
pub use gossip::{Gossip, SCORE_BOUND, SCORE_FOUND, SCORE_GIVEN};
pub use seeds::{FIXED_SEED_SERVICES, fixed_seeds};
