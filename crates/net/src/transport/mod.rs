//! Messages in a stream of bytes: plain frames, and the encrypted packets of BIP 324.
//!
//! In:     bytes as they came from the other side, in pieces of any size; messages to send.
//! Out:    [`Received`] frames in order, and bytes for the other side, answers of the handshake included.
//! Fails:  [`TransportError`], after which the connection is over; a frame that only lost its meaning is [`Received::Dropped`].
//! Source: Bitcoin Core, `V1Transport` and `V2Transport` of `src/net.cpp`; BIP 324.
//!
//! A frame is the only thing kept between two calls, and it never holds more memory than twice what came of it.

mod cipher;
mod encrypted;
mod gather;
mod plain;

use std::fmt;

use crate::entropy::Entropy;
use crate::wire::{Command, Message};
use encrypted::{Detected, Encrypted};
use plain::Plain;

/// Longest garbage before the first packet, in bytes; BIP 324.
pub const GARBAGE_BYTES_MAX: usize = 4_095;

/// Who connected to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// We connected.
    Initiator,
    /// They connected.
    Responder,
}

/// What a connection turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportKind {
    /// Not known yet.
    Detecting,
    /// Plain frames.
    V1,
    /// Encrypted packets.
    V2,
}

/// What came out of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// A message, not yet parsed.
    Frame {
        /// Its name.
        command: Command,
        /// Its payload.
        payload: Vec<u8>,
        /// Bytes it took on the line.
        wire_bytes: usize,
    },
    /// A frame that says nothing; Core drops it and goes on.
    Dropped {
        /// Why.
        reason: DropReason,
        /// Bytes it took on the line.
        wire_bytes: usize,
    },
}

/// Why a frame is dropped while the connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The checksum is not that of the payload.
    WrongChecksum,
    /// The name has other characters than it may.
    InvalidCommand,
    /// A one-byte name that BIP 324 does not have.
    UnknownShortId,
    /// A packet without a name.
    EmptyPacket,
}

/// Why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportError {
    /// A frame begins with other bytes than the network's.
    WrongMagic {
        /// What it begins with.
        got: [u8; 4],
    },
    /// A frame announces more than [`crate::wire::limits::PAYLOAD_BYTES_MAX`].
    PayloadTooLarge {
        /// Its name as it came.
        name: [u8; 12],
        /// Bytes announced.
        got: u32,
    },
    /// A plain version message of another network came where a key was expected.
    OtherNetwork {
        /// What it begins with.
        got: [u8; 4],
    },
    /// No terminator within [`GARBAGE_BYTES_MAX`] bytes of garbage.
    NoGarbageTerminator,
    /// A packet announces more than the largest message.
    PacketTooLarge {
        /// Bytes announced.
        got: usize,
    },
    /// A packet does not decrypt.
    WrongTag,
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransportError::WrongMagic { got } => {
                write!(f, "Header error: Wrong MessageStart {} received", stdx::hex::encode(got))
            }
            TransportError::PayloadTooLarge { name, got } => {
                write!(f, "Header error: Size too large ({}, {got} bytes)", plain::shown(name))
            }
            TransportError::OtherNetwork { got } => {
                write!(f, "V1 peer with wrong MessageStart {}", stdx::hex::encode(got))
            }
            TransportError::NoGarbageTerminator => write!(f, "missing garbage terminator in {GARBAGE_BYTES_MAX} bytes"),
            TransportError::PacketTooLarge { got } => write!(f, "packet too large ({got} bytes)"),
            TransportError::WrongTag => f.write_str("packet decryption failure"),
        }
    }
}

impl TransportError {
    /// True for errors of the encrypted transport.
    pub fn is_encrypted(&self) -> bool {
        !matches!(self, TransportError::WrongMagic { .. } | TransportError::PayloadTooLarge { .. })
    }
}

impl std::error::Error for TransportError {}

/// What one side of an encrypted connection keeps to itself.
pub struct Secret {
    key: secp256k1::SecretKey,
    entropy: [u8; 32],
    garbage: Vec<u8>,
}

impl Secret {
    /// Draws a key, and garbage of random length.
    pub fn draw(entropy: &mut dyn Entropy) -> Secret {
        let key = loop {
            if let Ok(key) = secp256k1::SecretKey::from_secret_bytes(crate::entropy::bytes(entropy)) {
                break key;
            }
        };
        let mut garbage = vec![0; crate::entropy::below(entropy, GARBAGE_BYTES_MAX as u64 + 1) as usize];
        entropy.fill(&mut garbage);
        Secret { key, entropy: crate::entropy::bytes(entropy), garbage }
    }
}

enum Kind {
    Plain(Plain),
    Encrypted(Box<Encrypted>),
}

/// One side of a connection's stream of bytes.
pub struct Transport {
    kind: Kind,
}

impl Transport {
    /// Plain frames, in either role.
    pub fn plain(magic: [u8; 4]) -> Transport {
        Transport { kind: Kind::Plain(Plain::new(magic)) }
    }

    /// Encrypted packets; a responder first finds out whether the other side speaks plainly. What the initiator says first is
    /// appended to `out`.
    pub fn encrypted(magic: [u8; 4], role: Role, secret: Secret, out: &mut Vec<u8>) -> Transport {
        Transport { kind: Kind::Encrypted(Box::new(Encrypted::new(magic, role, secret, out))) }
    }

    /// Takes all of `input`; frames that are complete are appended to `received`, answers of the handshake to `out`.
    pub fn receive(
        &mut self,
        mut input: &[u8],
        out: &mut Vec<u8>,
        received: &mut Vec<Received>,
    ) -> Result<(), TransportError> {
        if let Kind::Encrypted(encrypted) = &mut self.kind {
            match encrypted.receive(&mut input, out, received)? {
                None => return Ok(()),
                Some(Detected { magic, heard }) => {
                    let mut plain = Plain::new(magic);
                    plain.receive(&heard, received)?;
                    self.kind = Kind::Plain(plain);
                }
            }
        }
        let Kind::Plain(plain) = &mut self.kind else { unreachable!("encrypted connections returned above") };
        plain.receive(input, received)
    }

    /// True once messages can be sent.
    pub fn can_send(&self) -> bool {
        match &self.kind {
            Kind::Plain(_) => true,
            Kind::Encrypted(encrypted) => encrypted.can_send(),
        }
    }

    /// Appends a message's frame to `out`; panics where [`Transport::can_send`] says no.
    pub fn send(&mut self, message: &Message, out: &mut Vec<u8>) {
        match &mut self.kind {
            Kind::Plain(plain) => plain.send(message, out),
            Kind::Encrypted(encrypted) => encrypted.send(message, out),
        }
    }

    /// As [`Transport::send`] with any payload, for tests of others.
    pub fn send_any(&mut self, command: Command, payload: &[u8], out: &mut Vec<u8>) {
        let write = |out: &mut Vec<u8>| out.extend_from_slice(payload);
        match &mut self.kind {
            Kind::Plain(plain) => plain.send_any(command, write, out),
            Kind::Encrypted(encrypted) => encrypted.send_any(command, write, out),
        }
    }

    /// Bytes that have come of a message that is not complete.
    pub fn unfinished_bytes(&self) -> usize {
        match &self.kind {
            Kind::Plain(plain) => plain.unfinished_bytes(),
            Kind::Encrypted(encrypted) => encrypted.unfinished_bytes(),
        }
    }

    /// What the connection turned out to be; encrypted only once a packet of the other side proved that it has the key.
    pub fn kind(&self) -> TransportKind {
        match &self.kind {
            Kind::Plain(_) => TransportKind::V1,
            Kind::Encrypted(encrypted) if encrypted.is_proven() => TransportKind::V2,
            Kind::Encrypted(_) => TransportKind::Detecting,
        }
    }

    /// The number both sides can compare to find a third one between them (BIP 324); once [`Transport::kind`] is V2.
    pub fn session_id(&self) -> Option<[u8; 32]> {
        match &self.kind {
            Kind::Encrypted(encrypted) if encrypted.is_proven() => encrypted.session_id(),
            _ => None,
        }
    }

    /// True for an encrypted connection of ours on which nothing has come: if it ends now, the other side speaks plainly.
    pub fn should_retry_plain(&self) -> bool {
        matches!(&self.kind, Kind::Encrypted(encrypted) if encrypted.heard_nothing())
    }
}

#[cfg(test)]
mod tests;
