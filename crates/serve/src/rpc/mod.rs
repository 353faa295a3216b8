//! Bitcoin Core's JSON-RPC over HTTP, and what its REST interface shares with it.
//!
//! In:     a [`Config`], an [`env::Env`] that learns of the chain as soon as it is open.
//! Out:    answers in Core's shape: codes, versions, batches, named arguments, statuses.
//! Fails:  [`server::start`] where the address cannot be bound; later each request alone.
//! Source: Bitcoin Core 31, `src/httpserver.cpp`, `src/httprpc.cpp`, `src/rpc/`.
//!
//! A request goes from [`server`] (limits, who may ask: [`auth`]) to [`answer`] ([`request`], [`value`]) and through
//! [`table`] to a call in `calls`, which sees [`call::Call`] and [`env::Env`] and no socket.

pub mod error;
pub mod value;

pub mod call;
pub mod located;
pub mod method;
pub mod request;

pub mod env;
pub mod needs;

pub mod answer;
pub mod help;
pub mod openrpc;
pub mod table;

pub mod auth;
pub mod server;

use std::net::SocketAddr;
use std::time::Duration;

pub use server::{ServerHandle, start};

/// How the server listens, and its limits.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address and port; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Who may connect, besides this machine.
    pub allow: Vec<auth::Subnet>,
    /// Who may ask.
    pub users: auth::Users,
    /// Calls answered at the same time; Core's `rpcthreads` is 16.
    pub threads: usize,
    /// Calls that wait for a thread before more are refused; Core's `rpcworkqueue` is 64.
    pub queue_max: usize,
    /// Answer Core's REST paths too, without a password.
    pub rest: bool,
    /// Connections open at the same time.
    pub connections_max: usize,
    /// Bytes of a request's body; Core's `MAX_BODY_SIZE` is 32 MiB, enough for a block in hexadecimal digits four times.
    pub body_bytes_max: usize,
    /// Time for a request's header and for its body, and for a client to take its answer; Core's `rpcservertimeout`.
    pub timeout: Duration,
    /// Requests of a batch.
    pub batch_max: usize,
    /// Bytes of all answers of a batch: one more full block in verbosity 3 may come on top, about 100 MB.
    pub batch_answer_bytes_max: usize,
}

impl Config {
    /// Everything at its default, for these users.
    pub fn new(listen: SocketAddr, users: auth::Users) -> Config {
        Config {
            listen,
            allow: Vec::new(),
            users,
            threads: 16,
            queue_max: 64,
            rest: false,
            connections_max: 256,
            body_bytes_max: 32 << 20,
            timeout: Duration::from_secs(30),
            batch_max: 50_000,
            batch_answer_bytes_max: 256 << 20,
        }
    }
}
