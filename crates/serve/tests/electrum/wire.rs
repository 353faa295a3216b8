//! Clients of every transport, written small: TLS by `rustls`, WebSocket and HTTP by hand.
//!
//! In:     a server with all its doors open on loopback.
//! Out:    [`Caller`]: messages sent, messages heard.
//! Fails:  panics where the server does not answer within ten seconds.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use primitives::{Network, Params};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};
use serde_json::{Value, json};
use serve::electrum::{Config, start};
use serve::plain::PlainChain;
use serve::transport::Framing;
use serve::transport::certificate::Files;
use serve::transport::listen::{Door, Place};

use super::client::{PATIENCE, Server};

/// A folder that goes with the test.
pub struct Folder(pub PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A new folder.
pub fn folder() -> Folder {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("assay-doors-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::SeqCst));
    let path = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&path).unwrap();
    Folder(path)
}

/// Every way in, by the name it has.
pub const DOORS: [&str; 7] = ["tcp", "tls", "ws", "wss", "http", "https", "unix"];

/// The certificate of a folder.
pub fn files(folder: &Folder) -> Files {
    Files { certificate: folder.0.join("certificate.pem"), key: folder.0.join("key.pem"), are_made: true }
}

/// A server with every door open, changed by `change`.
pub fn serve_all(chain: PlainChain, folder: &Folder, change: impl FnOnce(&mut Config)) -> Server {
    let free: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let mut config = Config::new(free, Params::of(Network::Main));
    config.certificate = Some(files(folder));
    let door = |framing, has_tls| Door { framing, has_tls, ..Door::plain(free) };
    config.doors.extend([
        door(Framing::Lines, true),
        door(Framing::WebSocket, false),
        door(Framing::WebSocket, true),
        door(Framing::Http, false),
        door(Framing::Http, true),
        Door { place: Place::Unix(folder.0.join("electrum.sock")), ..Door::plain(free) },
    ]);
    change(&mut config);
    let chain = Arc::new(chain);
    let (events, receiver) = channel();
    let mut handle = start(config, chain.clone()).unwrap();
    handle.follow(receiver, None).unwrap();
    Server { chain, handle, events }
}

impl Server {
    /// The way in of this name.
    pub fn door(&self, name: &str) -> Door {
        self.handle.doors().iter().find(|door| door.name() == name).unwrap_or_else(|| panic!("no door {name}")).clone()
    }

    /// A connection of TCP to the way in of this name.
    pub fn tcp(&self, name: &str) -> TcpStream {
        let Place::Tcp(address) = self.door(name).place else { panic!("{name} is no port") };
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// A client that has opened every layer and not greeted.
    pub fn caller(&self, name: &str) -> Caller {
        let door = self.door(name);
        let stream: Box<dyn Duplex> = match &door.place {
            Place::Unix(path) => {
                let stream = UnixStream::connect(path).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                Box::new(stream)
            }
            Place::Tcp(_) => Box::new(self.tcp(name)),
        };
        Caller::over(stream, door.framing, door.has_tls)
    }
}

/// Bytes both ways.
pub trait Duplex: Read + Write + Send {}
impl<T: Read + Write + Send> Duplex for T {}

/// Believes every certificate, and remembers the last.
#[derive(Debug, Default)]
pub struct Believer(pub Mutex<Vec<u8>>);

impl ServerCertVerifier for Believer {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        *self.0.lock().unwrap() = certificate.to_vec();
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

/// A client's end of TLS, and what it believed.
pub fn tls_client(versions: &[&'static rustls::SupportedProtocolVersion]) -> (ClientConnection, Arc<Believer>) {
    let believer = Arc::new(Believer::default());
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(believer.clone())
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    (ClientConnection::new(Arc::new(config), name).unwrap(), believer)
}

/// One connection of any transport.
pub struct Caller {
    pub stream: Box<dyn Duplex>,
    framing: Framing,
    bytes: Vec<u8>,
    next_id: u64,
}

impl Caller {
    /// Opens the layers over a connected stream.
    pub fn over(stream: Box<dyn Duplex>, framing: Framing, has_tls: bool) -> Caller {
        let stream: Box<dyn Duplex> = match has_tls {
            true => Box::new(StreamOwned::new(tls_client(rustls::ALL_VERSIONS).0, stream)),
            false => stream,
        };
        let mut caller = Caller { stream, framing, bytes: Vec::new(), next_id: 0 };
        if framing == Framing::WebSocket {
            caller.send_raw(UPGRADE.as_bytes());
            let head = caller.head().expect("an answer");
            assert!(head.starts_with("HTTP/1.1 101 ") && head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
        }
        caller
    }

    /// Sends bytes as they are, below the framing.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
        self.stream.flush().unwrap();
    }

    /// Sends a message in its framing.
    pub fn send(&mut self, message: &str) {
        let bytes = match self.framing {
            Framing::Lines => format!("{message}\n").into_bytes(),
            Framing::WebSocket => frame(0x81, message.as_bytes()),
            Framing::Http => post(message).into_bytes(),
        };
        self.send_raw(&bytes);
    }

    /// Reads more; false at the end.
    fn more(&mut self) -> bool {
        let mut buffer = [0; 16 * 1024];
        match self.stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(count) => {
                self.bytes.extend_from_slice(&buffer[..count]);
                true
            }
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof) => false,
            Err(error) => panic!("no answer: {error}"),
        }
    }

    fn take(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.bytes.len() < count {
            if !self.more() {
                return None;
            }
        }
        Some(self.bytes.drain(..count).collect())
    }

    fn until(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        let mut from = 0;
        loop {
            if let Some(at) = self.bytes[from..].windows(end.len()).position(|part| part == end) {
                return self.take(from + at + end.len());
            }
            // What was looked at before is not looked at again: an answer may have megabytes.
            from = self.bytes.len().saturating_sub(end.len() - 1);
            if !self.more() {
                return None;
            }
        }
    }

    /// The head of an answer of HTTP.
    pub fn head(&mut self) -> Option<String> {
        self.until(b"\r\n\r\n").map(|head| String::from_utf8(head).unwrap())
    }

    /// A whole answer of HTTP: its head and its body.
    pub fn response(&mut self) -> Option<(String, Vec<u8>)> {
        let head = self.head()?;
        let mut body = Vec::new();
        if let Some(length) = head.split("Content-Length: ").nth(1) {
            body = self.take(length.split('\r').next().unwrap().parse().unwrap())?;
        } else if head.contains("chunked") {
            loop {
                let size = String::from_utf8(self.until(b"\r\n")?).unwrap();
                let size = usize::from_str_radix(size.trim(), 16).unwrap();
                let chunk = self.take(size + 2)?;
                body.extend_from_slice(&chunk[..size]);
                if size == 0 {
                    break;
                }
            }
        }
        Some((head, body))
    }

    /// The next frame: its first byte and what is in it.
    pub fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let head = self.take(2)?;
        let length = match head[1] {
            126 => u16::from_be_bytes(self.take(2)?.try_into().unwrap()).into(),
            127 => u64::from_be_bytes(self.take(8)?.try_into().unwrap()) as usize,
            short => usize::from(short),
        };
        Some((head[0], self.take(length)?))
    }

    /// The next message; none at the end.
    pub fn message(&mut self) -> Option<String> {
        let bytes = match self.framing {
            Framing::Lines => self.until(b"\n")?,
            Framing::Http => self.response()?.1,
            Framing::WebSocket => {
                let mut whole = Vec::new();
                loop {
                    let (first, payload) = self.frame()?;
                    match first & 0x0f {
                        0 | 1 => whole.extend_from_slice(&payload),
                        8 => return None,
                        _ => continue,
                    }
                    if first & 0x80 != 0 {
                        break whole;
                    }
                }
            }
        };
        Some(String::from_utf8(bytes).unwrap().trim_end().to_owned())
    }

    /// The next message as JSON.
    #[track_caller]
    pub fn json(&mut self) -> Value {
        let message = self.message().expect("an answer");
        serde_json::from_str(&message).unwrap_or_else(|error| panic!("{error}: {message:.200}"))
    }

    /// The result of a request.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params}).to_string());
        let mut answer = self.json();
        assert_eq!(answer["id"], self.next_id, "{answer}");
        answer["result"].take()
    }

    /// Greets, where the transport has greetings.
    #[track_caller]
    pub fn greet(&mut self) {
        if self.framing != Framing::Http {
            assert_eq!(self.call("server.version", json!(["test", "1.4"]))[1], "1.4");
        }
    }

    /// All that still comes.
    pub fn rest(&mut self) -> Vec<u8> {
        while self.more() {}
        std::mem::take(&mut self.bytes)
    }
}

/// A request to open a WebSocket (RFC 6455's own key).
pub const UPGRADE: &str = "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

/// A client's frame.
pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![first];
    match payload.len() {
        short @ 0..126 => out.push(0x80 | short as u8),
        middle @ 126..0x1_0000 => {
            out.push(0xfe);
            out.extend_from_slice(&(middle as u16).to_be_bytes());
        }
        long => {
            out.push(0xff);
            out.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    let mask = [7, 11, 13, 17];
    out.extend_from_slice(&mask);
    out.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ mask[at % 4]));
    out
}

/// A request of HTTP.
pub fn post(body: &str) -> String {
    let length = body.len();
    format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
}
