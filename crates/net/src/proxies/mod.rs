//! Conversations with programs that connect for us: SOCKS5 proxies, Tor's control port, I2P's SAM bridge.
//!
//! In:     their answers, keys of files.
//! Out:    what to write next; at the end a connection, or an address where we can be reached.
//! Fails:  one error type a conversation; none of them is a peer's fault.
//!
//! No sockets and no files: the shell carries the bytes.

mod sam;
mod socks;
mod tor_control;

pub use sam::{LINE_BYTES_MAX as SAM_LINE_BYTES_MAX, Sam, SamError, SamRefusal, SamStep, SamWish, host_of_destination};
pub use socks::{Socks, SocksError};
pub use tor_control::{LINE_BYTES_MAX as TOR_LINE_BYTES_MAX, TorControl, TorError, TorStep};
