//! Whom to connect to, whom to keep, whom to avoid.
//!
//! In:     addresses that peers, seeds and the user tell, what became of connections, the time, chance.
//! Out:    an address to try, a connection to end, and whether a host is welcome.
//! Fails:  files that cannot be read say why; nothing else fails.
//! Source: Bitcoin Core, `src/addrman.cpp`, `src/node/eviction.cpp`, `src/netgroup.cpp`, `src/banman.cpp`.

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
mod group;
mod seeds;
mod subnet;
mod text;

pub use answers::Answers;
pub use bans::{Ban, Bans};
pub use book::{Book, Reachable};
pub use dialler::{Connected, Destination, Dial, Dialler, Targets};
pub use eviction::{Candidate, select_to_evict};
pub use file::{FileError, decode_anchors, encode_anchors};
pub use gossip::Gossip;
pub use group::{Group, HostKind, is_local, is_routable};
pub use seeds::{FIXED_SEED_SERVICES, fixed_seeds};
pub use subnet::Subnet;
pub use text::TextError;
