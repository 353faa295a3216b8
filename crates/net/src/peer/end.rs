//! Why a connection is over.
//!
//! In:     what happened.
//! Out:    one variant a reason, with the numbers.
//! Fails:  never.

use std::fmt;
use std::time::Duration;

use super::kind::PeerId;
use crate::transport::TransportError;
use crate::wire::{Command, Services, WireError};

/// Why a connection is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The stream of bytes is broken.
    Transport(TransportError),
    /// A message breaks a limit.
    Wire(Command, WireError),
    /// It speaks a version below Core's `MIN_PEER_PROTO_VERSION`.
    ObsoleteVersion {
        /// The version.
        protocol: i32,
    },
    /// It is this node.
    ConnectedToSelf,
    /// It lacks services without which we have no use for it.
    ServicesMissing {
        /// What it offers.
        offered: Services,
        /// What we want.
        wanted: Services,
    },
    /// A feature was negotiated after the handshake (BIP 155, 339, 434).
    LateNegotiation(Command),
    /// A Bloom filter, which we did not offer (BIP 111).
    BloomNotOffered,
    /// The encrypted transport's handshake took longer than it may.
    TransportTimeout,
    /// The handshake took longer than it may.
    HandshakeTimeout,
    /// One side has said nothing at all.
    NoMessage {
        /// In how many seconds.
        seconds: u64,
        /// It has said something.
        received: bool,
        /// We have.
        sent: bool,
    },
    /// Nothing came for too long.
    ReceiveTimeout,
    /// Nothing could be sent for too long.
    SendTimeout,
    /// A ping was not answered.
    PingTimeout {
        /// For how long.
        waited: Duration,
    },
    /// It reads too slowly: more than [`super::SEND_BYTES_MAX`] wait for it.
    SendQueueFull,
    /// It reads too slowly: what waits is taken in drops.
    SlowReader,
    /// A feeler has found out that somebody is there.
    FeelerDone,
    /// A connection for addresses brought them, or had its time.
    AddressesFetched,
    /// The other side closed the connection.
    ClosedByPeer,
    /// We close it for a reason of our own, in words for the log.
    ClosedByUs(&'static str),
    /// It broke a rule about blocks, transactions or addresses, in Core's words.
    Misbehaviour(&'static str),
}

impl End {
    /// Core's lines about it.
    pub fn log(&self, id: PeerId) {
        let id = id.0;
        match self {
            End::Misbehaviour(rule) => log::debug!(target: "net", "Misbehaving: peer={id}: {rule}"),
            End::Wire(_, error) if error.is_misbehaviour() => {
                log::debug!(target: "net", "Misbehaving: peer={id}: {error}");
            }
            End::Transport(error) if error.is_encrypted() => {
                log::debug!(target: "net", "V2 transport error: {error}, peer={id}");
            }
            _ => {}
        }
        log::debug!(target: "net", "{self}, disconnecting peer={id}");
        log::debug!(target: "net", "Cleared nodestate for peer={id}");
    }

    /// True where the address should be discouraged.
    pub fn is_misbehaviour(&self) -> bool {
        match self {
            End::Misbehaviour(_) => true,
            End::Wire(_, error) => error.is_misbehaviour(),
            _ => false,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Transport(error) => write!(f, "transport: {error}"),
            End::Wire(command, error) => write!(f, "{command}: {error}"),
            End::ObsoleteVersion { protocol } => write!(f, "using obsolete version {protocol}"),
            End::ConnectedToSelf => f.write_str("connected to self"),
            End::ServicesMissing { offered, wanted } => write!(
                f,
                "peer does not offer the expected services ({:08x} offered, {:08x} expected)",
                offered.0, wanted.0
            ),
            End::LateNegotiation(command) => write!(f, "{command} received after verack"),
            End::BloomNotOffered => f.write_str("a bloom filter, which was not offered"),
            End::TransportTimeout => f.write_str("V2 handshake timeout"),
            End::HandshakeTimeout => f.write_str("version handshake timeout"),
            End::NoMessage { seconds, received, sent } => {
                let never_received = if *received { "" } else { ", never received from peer" };
                let never_sent = if *sent { "" } else { ", never sent to peer" };
                write!(f, "socket no message in first {seconds} seconds{never_received}{never_sent}")
            }
            End::ReceiveTimeout => f.write_str("receive timeout"),
            End::SendTimeout => f.write_str("send timeout"),
            End::PingTimeout { waited } => write!(f, "ping timeout: {:.6}s", waited.as_secs_f64()),
            End::SendQueueFull => f.write_str("send queue full"),
            End::SlowReader => f.write_str("reads too slowly"),
            End::FeelerDone => f.write_str("feeler connection completed"),
            End::AddressesFetched => f.write_str("addresses fetched"),
            End::ClosedByPeer => f.write_str("closed by peer"),
            End::ClosedByUs(reason) => f.write_str(reason),
            End::Misbehaviour(rule) => write!(f, "misbehaviour: {rule}"),
        }
    }
}
