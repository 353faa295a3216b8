//! Hosts: their kinds, how people write them, and which of them belong together.
//!
//! In:     text, hosts, a map of autonomous systems.
//! Out:    hosts and subnets, their kind and group.
//! Fails:  [`TextError`], [`AsMapError`].
//! Source: Bitcoin Core, `src/netaddress.cpp`, `src/netgroup.cpp`, `src/util/asmap.cpp`.

mod asmap;
#[cfg(test)]
mod asmap_tests;
mod group;
mod subnet;
mod text;

pub use asmap::{AsMap, AsMapError};
pub use group::{Group, Groups, HostKind, is_local, is_routable};
pub use subnet::Subnet;
pub use text::{TextError, base32};
