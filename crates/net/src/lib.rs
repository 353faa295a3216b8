//! Talking with peers.
//!
//! In:     bytes from sockets, the time, random numbers, and blocks and transactions to announce or serve.
//! Out:    bytes for sockets, and what peers told us: headers, blocks, transactions, addresses, each under a limit.
//! Fails:  never as a whole; a peer that breaks a rule loses its connection, and the error says which rule.
//!
//! Every peer is a state machine without a socket: bytes, time and chance come in as arguments, so that a seed replays any
//! conversation. Sockets and threads are in `shell` alone.
//!
//! Where things are:
//!
//! | area        | what is there                                                                                          |
//! |-------------|--------------------------------------------------------------------------------------------------------|
//! | `wire`      | every message as exact bytes, with its limits                                                          |
//! | `transport` | messages in a stream of bytes: plain frames, and the encrypted ones of BIP 324                         |
//! | `hosts`     | kinds of hosts, how people write them, which belong together                                           |
//! | `peer`      | one connection: handshake, what was negotiated, ping, timeouts, send queue, rate limits, statistics    |
//! | `addresses` | whom to connect to and whom to drop: address book, bans, eviction, groups of networks                  |
//! | `sync`      | headers from several peers with low-work protection, and the moving window of blocks ahead             |
//! | `relay`     | transactions: what to ask for, what to judge, what to tell                                              |
//! | `hub`       | all peers together: messages of each to `sync`, `relay` and `addresses`, and their wishes back         |
//! | `proxies`   | conversations with SOCKS5 proxies, Tor's control port and I2P's SAM bridge                             |
//! | `shell`     | sockets, listener, dialler, proxies and the encryption's randomness: the only part that knows the world |
//!
//! Left to right: an area uses areas above it. `sync`, `relay` and `hub` see the chain and the mempool through traits they
//! define, so that a simulated network of many nodes runs in one process under one seed.

pub mod addresses;
pub mod entropy;
pub mod fuzz;
pub mod hosts;
pub mod hub;
mod moment;
pub mod peer;
pub mod proxies;
pub mod relay;
pub mod shell;
mod siphash;
pub mod sync;
pub mod transport;
#[cfg(test)]
mod trials;
pub mod wire;

pub use moment::Moment;
pub use wire::Message;
