//! The encrypted connection: keys, garbage, the version packet, then messages.
//!
//! In:     bytes; messages to send.
//! Out:    frames; bytes of the handshake; [`Detected`] when the other side speaks plainly after all.
//! Fails:  [`TransportError`]: no terminator behind the garbage, a packet too large, a packet that does not decrypt.
//! Source: BIP 324; Bitcoin Core, `V2Transport`.

use secp256k1::ellswift::ElligatorSwift;

use super::cipher::{DECOY, HEADER_BYTES, LENGTH_BYTES, SessionCipher, TAG_BYTES, TERMINATOR_BYTES};
use super::gather::Gather;
use super::{DropReason, GARBAGE_BYTES_MAX, Received, Role, Secret, TransportError};
use crate::wire::limits::PAYLOAD_BYTES_MAX;
use crate::wire::{Command, Message};

/// Bytes of an encoded public key.
const KEY_BYTES: usize = 64;
/// Bytes that tell a plain version message from a key: magic and command.
const PREFIX_BYTES: usize = 16;
/// Largest contents of a packet: a zero, a command, the largest payload.
const CONTENTS_BYTES_MAX: usize = 1 + 12 + PAYLOAD_BYTES_MAX;

/// The other side speaks plainly; `heard` begins its first frame.
pub struct Detected {
    pub magic: [u8; 4],
    pub heard: Vec<u8>,
}

/// What is expected next.
enum State {
    /// 16 bytes at most, until they differ from a plain version message.
    Detect,
    /// The other side's key.
    Key,
    /// Garbage, up to its terminator.
    Garbage,
    /// The length of a packet.
    Length,
    /// The rest of a packet.
    Packet,
}

pub struct Encrypted {
    magic: [u8; 4],
    role: Role,
    /// Our key and garbage, until the other side's key came.
    secret: Option<Secret>,
    our_key: [u8; KEY_BYTES],
    cipher: Option<SessionCipher>,
    state: State,
    gather: Gather,
    /// Garbage of the other side, until the first packet has authenticated it.
    their_garbage: Vec<u8>,
    version_came: bool,
    heard_anything: bool,
}

impl Encrypted {
    pub fn new(magic: [u8; 4], role: Role, secret: Secret, out: &mut Vec<u8>) -> Encrypted {
        let our_key = ElligatorSwift::from_seckey(secret.key, Some(secret.entropy)).to_array();
        let mut encrypted = Encrypted {
            magic,
            role,
            secret: Some(secret),
            our_key,
            cipher: None,
            state: State::Detect,
            gather: Gather::default(),
            their_garbage: Vec::new(),
            version_came: false,
            heard_anything: false,
        };
        encrypted.gather.start(KEY_BYTES);
        if role == Role::Initiator {
            encrypted.begin(out);
        }
        encrypted
    }

    /// Sends our key and garbage.
    fn begin(&mut self, out: &mut Vec<u8>) {
        self.state = State::Key;
        out.extend_from_slice(&self.our_key);
        out.extend_from_slice(&self.secret.as_ref().expect("kept until their key came").garbage);
    }

    pub fn can_send(&self) -> bool {
        self.cipher.is_some()
    }

    pub fn is_proven(&self) -> bool {
        self.version_came
    }

    pub fn heard_nothing(&self) -> bool {
        self.role == Role::Initiator && !self.heard_anything
    }

    pub fn session_id(&self) -> Option<[u8; 32]> {
        self.cipher.as_ref().map(|cipher| cipher.session_id)
    }

    /// Takes input until it is empty, or until the other side turned out to speak plainly.
    pub fn receive(
        &mut self,
        input: &mut &[u8],
        out: &mut Vec<u8>,
        received: &mut Vec<Received>,
    ) -> Result<Option<Detected>, TransportError> {
        self.heard_anything |= !input.is_empty();
        loop {
            match self.state {
                State::Detect => match self.detect(input, out) {
                    Step::Wait => return Ok(None),
                    Step::Next => {}
                    Step::Plain => return Ok(Some(Detected { magic: self.magic, heard: self.gather.finish() })),
                },
                State::Key => {
                    let complete = self.gather.take(input);
                    self.refuse_other_network()?;
                    if !complete {
                        return Ok(None);
                    }
                    self.agree(out);
                }
                State::Garbage => {
                    if !self.take_garbage(input)? {
                        return Ok(None);
                    }
                }
                State::Length => {
                    if !self.gather.take(input) {
                        return Ok(None);
                    }
                    let length = self.gather.finish().try_into().expect("three bytes");
                    let length = self.cipher().decrypt_length(length);
                    if length > CONTENTS_BYTES_MAX {
                        return Err(TransportError::PacketTooLarge { got: length });
                    }
                    self.gather.start(HEADER_BYTES + length + TAG_BYTES);
                    self.state = State::Packet;
                }
                State::Packet => {
                    if !self.gather.take(input) {
                        return Ok(None);
                    }
                    received.extend(self.open()?);
                }
            }
        }
    }

    /// Bytes that have come of a packet that is not complete.
    pub fn unfinished_bytes(&self) -> usize {
        if matches!(self.state, State::Packet) { self.gather.bytes().len() } else { 0 }
    }

    fn cipher(&mut self) -> &mut SessionCipher {
        self.cipher.as_mut().expect("states behind the key have a cipher")
    }

    /// Compares byte by byte with a plain version message; no byte more than needed is taken.
    fn detect(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Step {
        let mut prefix = [0; PREFIX_BYTES];
        prefix[..4].copy_from_slice(&self.magic);
        prefix[4..].copy_from_slice(Command::VERSION.bytes());
        while let Some((byte, _)) = input.split_first() {
            let expected = prefix[self.gather.bytes().len()];
            let (mut one, rest) = input.split_at(1);
            let is_expected = *byte == expected;
            self.gather.take(&mut one);
            *input = rest;
            if !is_expected {
                self.begin(out);
                return Step::Next;
            }
            if self.gather.bytes().len() == PREFIX_BYTES {
                return Step::Plain;
            }
        }
        Step::Wait
    }

    /// A plain version message behind another magic comes from a peer of another network (Core does the same).
    fn refuse_other_network(&self) -> Result<(), TransportError> {
        let heard = self.gather.bytes();
        match self.role {
            Role::Responder if heard.get(4..PREFIX_BYTES) == Some(Command::VERSION.bytes()) => {
                Err(TransportError::OtherNetwork { got: heard[..4].try_into().expect("four bytes") })
            }
            _ => Ok(()),
        }
    }

    /// Their key is complete: derives the ciphers, ends our garbage, and sends an empty version packet over it.
    fn agree(&mut self, out: &mut Vec<u8>) {
        let theirs = self.gather.finish().try_into().expect("64 bytes");
        let secret = self.secret.take().expect("their key comes once");
        let mut cipher = SessionCipher::new(secret.key, self.our_key, theirs, self.role, self.magic);
        out.extend_from_slice(&cipher.send_terminator);
        cipher.encrypt(0, &secret.garbage, out, |_| ());
        self.cipher = Some(cipher);
        self.gather.start(GARBAGE_BYTES_MAX + TERMINATOR_BYTES);
        self.state = State::Garbage;
    }

    /// Takes garbage up to its terminator; false while it is not complete.
    fn take_garbage(&mut self, input: &mut &[u8]) -> Result<bool, TransportError> {
        let terminator = self.cipher().receive_terminator;
        while !input.is_empty() {
            let (mut one, rest) = input.split_at(1);
            let is_full = self.gather.take(&mut one);
            *input = rest;
            if self.gather.bytes().ends_with(&terminator) {
                self.their_garbage = self.gather.finish();
                self.their_garbage.truncate(self.their_garbage.len() - TERMINATOR_BYTES);
                self.gather.start(LENGTH_BYTES);
                self.state = State::Length;
                return Ok(true);
            }
            if is_full {
                return Err(TransportError::NoGarbageTerminator);
            }
        }
        Ok(false)
    }

    /// Opens a complete packet; `None` for decoys and the version packet.
    fn open(&mut self) -> Result<Option<Received>, TransportError> {
        let mut packet = self.gather.finish();
        let wire_bytes = LENGTH_BYTES + packet.len();
        // Their garbage is authenticated by the first packet, decoy or not.
        let garbage = std::mem::take(&mut self.their_garbage);
        if !self.cipher().decrypt(&garbage, &mut packet) {
            return Err(TransportError::WrongTag);
        }
        self.gather.start(LENGTH_BYTES);
        self.state = State::Length;
        if packet[0] & DECOY != 0 {
            return Ok(None);
        }
        if !self.version_came {
            self.version_came = true;
            return Ok(None);
        }
        Ok(Some(frame(packet, wire_bytes)))
    }

    pub fn send(&mut self, message: &Message, out: &mut Vec<u8>) {
        let (start, command) = (out.len(), message.command());
        self.send_any(command, |out| message.encode(out), out);
        let overhead = LENGTH_BYTES + HEADER_BYTES + 1 + command.bytes().len() + TAG_BYTES;
        assert!(out.len() - start <= PAYLOAD_BYTES_MAX + overhead, "we send no message that nobody takes");
    }

    /// Appends a packet of any payload below 16 MiB, which is all that its length can say.
    pub fn send_any(&mut self, command: Command, payload: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
        self.cipher().encrypt(0, &[], out, |out| {
            match command.short_id() {
                Some(short_id) => out.push(short_id),
                None => {
                    out.push(0);
                    out.extend_from_slice(command.bytes());
                }
            }
            payload(out);
        });
    }

    /// Appends a packet of any contents.
    #[cfg(test)]
    pub fn send_contents(&mut self, contents: &[u8], out: &mut Vec<u8>) {
        self.cipher().encrypt(0, &[], out, |out| out.extend_from_slice(contents));
    }

    /// Appends a packet that the other side ignores.
    #[cfg(test)]
    pub fn send_decoy(&mut self, length: usize, out: &mut Vec<u8>) {
        self.cipher().encrypt(DECOY, &[], out, |out| out.resize(out.len() + length, 0));
    }
}

enum Step {
    Wait,
    Next,
    Plain,
}

/// The message in a decrypted packet: header, name of one or thirteen bytes, payload.
fn frame(mut packet: Vec<u8>, wire_bytes: usize) -> Received {
    let contents = &packet[HEADER_BYTES..];
    let dropped = |reason| {
        log::debug!(target: "net", "V2 transport error: invalid message type ({} bytes contents)", contents.len());
        Received::Dropped { reason, wire_bytes }
    };
    let (command, name_bytes) = match contents.first() {
        None => return dropped(DropReason::EmptyPacket),
        Some(0) => match contents.get(1..13).and_then(|name| Command::from_bytes(name.try_into().expect("twelve"))) {
            Some(command) => (command, 13),
            None => return dropped(DropReason::InvalidCommand),
        },
        Some(short_id) => match Command::of_short_id(*short_id) {
            Some(command) => (command, 1),
            None => return dropped(DropReason::UnknownShortId),
        },
    };
    packet.drain(..HEADER_BYTES + name_bytes);
    Received::Frame { command, payload: packet, wire_bytes }
}
