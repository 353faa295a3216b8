//! Notifications over ZeroMQ: new blocks and transactions, published to whoever subscribes.
//!
//! In:     [`Notifier`]s (a topic, an address, a high-water mark), events of the writer and of the mempool.
//! Out:    Bitcoin Core's five topics, each message in three parts: topic, body, number (4 bytes, little endian).
//! Fails:  starting, where an address cannot be bound; afterwards a subscriber fails alone.
//! Source: Bitcoin Core, doc/zmq.md, `src/zmq/zmqpublishnotifier.cpp`; ZMTP 3.1 (rfc.zeromq.org/spec/37), its PUB side with
//!         the NULL mechanism.
//!
//! [`wire`] is the protocol as bytes, [`queue`] what waits for one subscriber, [`server`] the sockets, [`news`] turns events
//! into messages.

pub mod news;
pub mod queue;
pub mod server;
pub mod wire;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

pub use news::{MempoolSource, News};
pub use server::{Publisher, start};

/// What is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topic {
    /// Hash of a new tip.
    HashBlock,
    /// Txid of a transaction that entered the mempool, or is in a block that joined or left the chain.
    HashTx,
    /// Bytes of a new tip.
    RawBlock,
    /// Bytes of a transaction, as with [`Topic::HashTx`].
    RawTx,
    /// Blocks that joined and left, transactions that came and went, with the mempool's numbers.
    Sequence,
}

impl Topic {
    /// Every topic.
    pub const ALL: [Topic; 5] = [Topic::HashBlock, Topic::HashTx, Topic::RawBlock, Topic::RawTx, Topic::Sequence];

    /// Its name, which is the first part of its messages.
    pub fn name(self) -> &'static str {
        match self {
            Topic::HashBlock => "hashblock",
            Topic::HashTx => "hashtx",
            Topic::RawBlock => "rawblock",
            Topic::RawTx => "rawtx",
            Topic::Sequence => "sequence",
        }
    }
}

/// Where a publisher listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// `tcp://127.0.0.1:28332`.
    Tcp(SocketAddr),
    /// `ipc:///path` or `unix:/path`: a socket in the file system.
    Ipc(PathBuf),
}

impl std::str::FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        if let Some(path) = text.strip_prefix("ipc://").or_else(|| text.strip_prefix("unix:")) {
            let usable = path.starts_with('/') && !path.contains('\0');
            return if usable { Ok(Address::Ipc(path.into())) } else { Err(format!("{text:?} has no whole path")) };
        }
        let host =
            text.strip_prefix("tcp://").ok_or_else(|| format!("{text:?} begins with neither tcp:// nor ipc://"))?;
        let host = host.strip_prefix("*:").map(|port| format!("0.0.0.0:{port}")).unwrap_or_else(|| host.to_owned());
        host.parse().map(Address::Tcp).map_err(|_| format!("{text:?} has no IP address with a port"))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => write!(f, "tcp://{address}"),
            Address::Ipc(path) => write!(f, "ipc://{}", path.display()),
        }
    }
}

/// One topic at one address. A topic may have several addresses, an address several topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notifier {
    /// What is published.
    pub topic: Topic,
    /// Where.
    pub address: Address,
    /// Messages that wait for a subscriber before those of this topic are dropped for it.
    pub high_water_mark: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        #[track_caller]
        fn check(text: &str, want: Option<&str>) {
            let shown = text.parse::<Address>().map(|address| address.to_string());
            assert_eq!(shown.as_deref().ok(), want, "{text}");
        }
        check("tcp://127.0.0.1:28332", Some("tcp://127.0.0.1:28332"));
        check("tcp://*:1", Some("tcp://0.0.0.0:1"));
        check("tcp://[::1]:28332", Some("tcp://[::1]:28332"));
        check("ipc:///tmp/a", Some("ipc:///tmp/a"));
        check("unix:/tmp/a", Some("ipc:///tmp/a"));
        for bad in [
            "",
            "127.0.0.1:1",
            "tcp://localhost:1",
            "tcp://1.2.3.4",
            "udp://1.2.3.4:5",
            "ipc://a",
            "tcp://1.2.3.4:65536",
        ] {
            check(bad, None);
        }
    }
}
