//! Plain frames.
//!
//! | bytes  | field    | meaning                                          |
//! |--------|----------|--------------------------------------------------|
//! | 0..4   | magic    | the network's                                    |
//! | 4..16  | command  | printable ASCII, then zeros                      |
//! | 16..20 | length   | of the payload, little endian                    |
//! | 20..24 | checksum | first bytes of the payload's double SHA-256      |
//! | 24..   | payload  |                                                  |
//!
//! In:     bytes.
//! Out:    frames.
//! Fails:  [`TransportError`] for a wrong magic or a length above the limit; a wrong checksum or name drops the frame.
//! Source: Bitcoin Core, `V1Transport`.

use primitives::hash::sha256d;

use super::gather::Gather;
use super::{DropReason, Received, TransportError};
use crate::wire::limits::PAYLOAD_BYTES_MAX;
use crate::wire::{Command, Message};

/// Bytes before the payload.
pub const HEADER_BYTES: usize = 24;

pub struct Plain {
    magic: [u8; 4],
    /// The header of the frame whose payload is being gathered.
    header: Option<[u8; HEADER_BYTES]>,
    gather: Gather,
}

impl Plain {
    pub fn new(magic: [u8; 4]) -> Plain {
        let mut gather = Gather::default();
        gather.start(HEADER_BYTES);
        Plain { magic, header: None, gather }
    }

    pub fn receive(&mut self, mut input: &[u8], received: &mut Vec<Received>) -> Result<(), TransportError> {
        while self.gather.take(&mut input) {
            match self.header.take() {
                None => {
                    let header = self.gather.finish().try_into().expect("as many as asked for");
                    self.gather.start(self.payload_length(&header)?);
                    self.header = Some(header);
                }
                Some(header) => {
                    received.push(frame(&header, self.gather.finish()));
                    self.gather.start(HEADER_BYTES);
                }
            }
        }
        Ok(())
    }

    /// Bytes that have come of a payload that is not complete.
    pub fn unfinished_bytes(&self) -> usize {
        self.header.map_or(0, |_| self.gather.bytes().len())
    }

    fn payload_length(&self, header: &[u8; HEADER_BYTES]) -> Result<usize, TransportError> {
        let magic = header[..4].try_into().expect("four bytes");
        if magic != self.magic {
            return Err(TransportError::WrongMagic { got: magic });
        }
        let length = u32::from_le_bytes(header[16..20].try_into().expect("four bytes"));
        if length as usize > PAYLOAD_BYTES_MAX {
            return Err(TransportError::PayloadTooLarge { name: name(header), got: length });
        }
        Ok(length as usize)
    }

    pub fn send(&mut self, message: &Message, out: &mut Vec<u8>) {
        let start = out.len();
        self.send_any(message.command(), |out| message.encode(out), out);
        assert!(out.len() - start <= HEADER_BYTES + PAYLOAD_BYTES_MAX, "we send no message that nobody takes");
    }

    /// Appends a frame of any payload.
    pub fn send_any(&mut self, command: Command, payload: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.magic);
        out.extend_from_slice(command.bytes());
        out.extend_from_slice(&[0; 8]);
        payload(out);
        let payload = &out[start + HEADER_BYTES..];
        let (length, checksum) = (payload.len() as u32, sha256d(payload));
        out[start + 16..start + 20].copy_from_slice(&length.to_le_bytes());
        out[start + 20..start + 24].copy_from_slice(&checksum[..4]);
    }
}

fn frame(header: &[u8; HEADER_BYTES], payload: Vec<u8>) -> Received {
    let wire_bytes = HEADER_BYTES + payload.len();
    let bytes = payload.len();
    let hash = sha256d(&payload);
    if hash[..4] != header[20..] {
        let [expected, was] = [&hash[..4], &header[20..]].map(stdx::hex::encode);
        log::debug!(
            target: "net",
            "Header error: Wrong checksum ({}, {bytes} bytes), expected {expected} was {was}", shown(&name(header))
        );
        return Received::Dropped { reason: DropReason::WrongChecksum, wire_bytes };
    }
    match Command::from_bytes(name(header)) {
        Some(command) => Received::Frame { command, payload, wire_bytes },
        None => {
            let name = shown(&name(header));
            log::debug!(target: "net", "Header error: Invalid message type ({name}, {bytes} bytes)");
            Received::Dropped { reason: DropReason::InvalidCommand, wire_bytes }
        }
    }
}

fn name(header: &[u8; HEADER_BYTES]) -> [u8; 12] {
    header[4..16].try_into().expect("twelve bytes")
}

/// A name for the log: of whatever its bytes are, what may stand there (Core: `SanitizeString`).
pub fn shown(name: &[u8; 12]) -> String {
    let is_safe = |c: &char| c.is_ascii_alphanumeric() || " .,;-_/:?@()".contains(*c);
    name.iter().map(|byte| char::from(*byte)).filter(is_safe).collect()
}
