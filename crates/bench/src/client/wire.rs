//! The way to an Electrum server: whole messages over TCP, TLS or WebSockets.
//!
//! In:     an [`Address`] such as `tcp://127.0.0.1:50001`, messages to send.
//! Out:    messages, one at a time, as they arrive.
//! Fails:  with the socket's error; `TimedOut` once nothing came for the deadline, `InvalidData` where the framing is broken.
//! Source: RFC 6455. Frames are masked with zeros: a mask protects proxies, and there are none on the way of a bench.
//!
//! Blocking sockets and one buffer: between the last byte of an answer and the moment it is timed lies one search for a
//! newline. Certificates are not verified; most servers of wallets have signed their own.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

/// Longest message that is read, in bytes: a history of a million entries has less.
const MESSAGE_BYTES_MAX: usize = 256 << 20;
/// Room for one read.
const READ_BYTES: usize = 256 << 10;
/// Longest answer to a WebSocket's opening, in bytes.
const OPENING_BYTES_MAX: usize = 16 << 10;

/// What lies between a socket and messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Lines.
    Tcp,
    /// Lines in TLS.
    Tls,
    /// WebSocket messages.
    Ws,
    /// WebSocket messages in TLS.
    Wss,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// How it is spoken to.
    pub scheme: Scheme,
    /// A name or an address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let wrong = || format!("{text:?}: expected tcp://, ssl://, ws:// or wss://, then HOST:PORT");
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let scheme = match scheme {
            "tcp" => Scheme::Tcp,
            "ssl" | "tls" => Scheme::Tls,
            "ws" => Scheme::Ws,
            "wss" => Scheme::Wss,
            _ => return Err(wrong()),
        };
        let (host, port) = rest.trim_end_matches('/').rsplit_once(':').ok_or_else(wrong)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = port.parse().map_err(|_| wrong())?;
        if host.is_empty() { Err(wrong()) } else { Ok(Address { scheme, host: host.to_owned(), port }) }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Tcp => "tcp",
            Scheme::Tls => "ssl",
            Scheme::Ws => "ws",
            Scheme::Wss => "wss",
        };
        match self.host.contains(':') {
            true => write!(f, "{scheme}://[{}]:{}", self.host, self.port),
            false => write!(f, "{scheme}://{}:{}", self.host, self.port),
        }
    }
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.read(into),
            Stream::Tls(stream) => stream.read(into),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Plain(stream) => stream.write_all(bytes),
            Stream::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }
}

/// One connection.
pub struct Wire {
    stream: Stream,
    has_frames: bool,
    deadline: Duration,
    buffer: Vec<u8>,
    /// What of the buffer holds bytes that came and were not handed out.
    filled: Range<usize>,
    /// Payload of a WebSocket message in several frames.
    message: Vec<u8>,
}

impl Wire {
    /// Connects; nothing may take longer than `deadline`.
    pub fn connect(address: &Address, deadline: Duration) -> io::Result<Wire> {
        let tcp = TcpStream::connect((address.host.as_str(), address.port))?;
        tcp.set_nodelay(true)?;
        tcp.set_read_timeout(Some(deadline))?;
        tcp.set_write_timeout(Some(deadline))?;
        let stream = match address.scheme {
            Scheme::Tcp | Scheme::Ws => Stream::Plain(tcp),
            Scheme::Tls | Scheme::Wss => {
                Stream::Tls(Box::new(StreamOwned::new(tls(&address.host).map_err(io::Error::other)?, tcp)))
            }
        };
        let has_frames = matches!(address.scheme, Scheme::Ws | Scheme::Wss);
        let mut wire = Wire { stream, has_frames, deadline, buffer: Vec::new(), filled: 0..0, message: Vec::new() };
        if has_frames {
            wire.open_websocket(address)?;
        }
        Ok(wire)
    }

    /// Sends one message; lines in it, where lines are sent, are as many messages.
    pub fn send(&mut self, message: &str) -> io::Result<()> {
        let bytes = match self.has_frames {
            true => message.lines().flat_map(|line| frame(0x81, line.as_bytes())).collect(),
            false => [message.as_bytes(), b"\n"].concat(),
        };
        self.stream.write_all(&bytes)
    }

    /// The next message, without what ends it.
    pub fn receive(&mut self) -> io::Result<&[u8]> {
        let before = Instant::now();
        let range = if self.has_frames { self.receive_frames(before)? } else { self.receive_line(before)? };
        Ok(match range {
            Some(range) => &self.buffer[range],
            None => &self.message,
        })
    }

    fn receive_line(&mut self, before: Instant) -> io::Result<Option<Range<usize>>> {
        let mut searched = self.filled.start;
        loop {
            if let Some(at) = newline(&self.buffer[searched..self.filled.end]) {
                let line = self.filled.start..searched + at;
                self.filled.start = searched + at + 1;
                return Ok(Some(line));
            }
            // Reading may move what is there to the front.
            let unsearched_from = self.filled.len();
            self.fill(before)?;
            searched = self.filled.start + unsearched_from;
        }
    }

    fn receive_frames(&mut self, before: Instant) -> io::Result<Option<Range<usize>>> {
        self.message.clear();
        let mut is_first = true;
        loop {
            let (head, payload) = self.next_frame(before)?;
            let (is_last, opcode) = (head & 0x80 != 0, head & 0x0f);
            match opcode {
                0x0..=0x2 if is_last && is_first => return Ok(Some(payload)),
                0x0..=0x2 => {
                    is_first = false;
                    self.message.extend_from_slice(&self.buffer[payload]);
                    if self.message.len() > MESSAGE_BYTES_MAX {
                        return Err(invalid("a message longer than any"));
                    }
                    if is_last {
                        return Ok(None);
                    }
                }
                0x8 => return Err(io::ErrorKind::ConnectionAborted.into()),
                0x9 => {
                    let pong = frame(0x8a, &self.buffer[payload]);
                    self.stream.write_all(&pong)?;
                }
                _ => {}
            }
        }
    }

    /// First byte and payload of the next frame.
    fn next_frame(&mut self, before: Instant) -> io::Result<(u8, Range<usize>)> {
        loop {
            let bytes = &self.buffer[self.filled.clone()];
            if let Some((head_bytes, length)) = frame_lengths(bytes)? {
                if bytes.len() >= head_bytes + length {
                    let (head, start) = (bytes[0], self.filled.start + head_bytes);
                    self.filled.start = start + length;
                    return Ok((head, start..start + length));
                }
            }
            self.fill(before)?;
        }
    }

    /// Reads once. What was handed out before is gone.
    fn fill(&mut self, before: Instant) -> io::Result<()> {
        if before.elapsed() > self.deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if self.filled.len() > MESSAGE_BYTES_MAX {
            return Err(invalid("a message longer than any"));
        }
        if self.filled.start > 0 {
            self.buffer.copy_within(self.filled.clone(), 0);
            self.filled = 0..self.filled.len();
        }
        if self.buffer.len() < self.filled.end + READ_BYTES {
            let wanted = (self.filled.end + READ_BYTES).max(self.buffer.len() * 2);
            self.buffer.resize(wanted, 0);
        }
        match self.stream.read(&mut self.buffer[self.filled.end..]) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.filled.end += count;
                Ok(())
            }
            // What a socket's own timeout is called differs between systems.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(io::ErrorKind::TimedOut.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn open_websocket(&mut self, address: &Address) -> io::Result<()> {
        let opening = format!(
            "GET / HTTP/1.1\r\nHost: {}:{}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: YXNzYXkgYmVuY2ggLi4uIQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
            address.host, address.port
        );
        self.stream.write_all(opening.as_bytes())?;
        let before = Instant::now();
        loop {
            let bytes = &self.buffer[self.filled.clone()];
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                if !bytes.starts_with(b"HTTP/1.1 101") {
                    return Err(invalid("no WebSocket is opened here"));
                }
                self.filled.start += end + 4;
                return Ok(());
            }
            if bytes.len() > OPENING_BYTES_MAX {
                return Err(invalid("a WebSocket's opening longer than any"));
            }
            self.fill(before)?;
        }
    }
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.to_owned())
}

/// Where the first newline is. Mostly there is none, or it is the last byte.
fn newline(bytes: &[u8]) -> Option<usize> {
    let (last, rest) = bytes.split_last()?;
    match (rest.contains(&b'\n'), last) {
        (false, b'\n') => Some(rest.len()),
        (false, _) => None,
        (true, _) => rest.iter().position(|byte| *byte == b'\n'),
    }
}

fn frame(head: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![head];
    match payload.len() {
        length @ 0..=125 => bytes.push(0x80 | length as u8),
        length @ 126..=0xffff => {
            bytes.push(0x80 | 126);
            bytes.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            bytes.push(0x80 | 127);
            bytes.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(payload);
    bytes
}

/// Bytes of a frame's head and of its payload, once they can be told.
fn frame_lengths(bytes: &[u8]) -> io::Result<Option<(usize, usize)>> {
    let (Some(_), Some(&second)) = (bytes.first(), bytes.get(1)) else { return Ok(None) };
    if second & 0x80 != 0 {
        return Err(invalid("a server does not mask"));
    }
    let number = |count: usize| {
        let digits = bytes.get(2..2 + count)?;
        Some(digits.iter().fold(0u64, |number, digit| number << 8 | u64::from(*digit)))
    };
    let (head, length) = match second {
        126 => (4, number(2)),
        127 => (10, number(8)),
        length => (2, Some(u64::from(length))),
    };
    match length {
        None => Ok(None),
        Some(length) if length > MESSAGE_BYTES_MAX as u64 => Err(invalid("a frame longer than any")),
        Some(length) => Ok(Some((head, length as usize))),
    }
}

/// Believes every certificate.
#[derive(Debug)]
struct Believer;

impl ServerCertVerifier for Believer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = ring::default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = ring::default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

fn tls(host: &str) -> Result<ClientConnection, Box<dyn std::error::Error + Send + Sync>> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Believer))
        .with_no_client_auth();
    Ok(ClientConnection::new(Arc::new(config), ServerName::try_from(host.to_owned())?)?)
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
