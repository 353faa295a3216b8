//! TLS: records in, plain bytes out, and back.
//!
//! In:     bytes as they arrive; plain bytes to send.
//! Out:    plain bytes; records.
//! Fails:  [`Refusal::Tls`], with the alert that says why among the bytes to send.
//! Source: RFC 8446 and 5246 as `rustls` has them: versions 1.2 and 1.3, no renegotiation, no data before the handshake.

use std::io::{self, BufRead, Write};
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection};

use super::Refusal;

/// Bytes a client may send before the handshake is done; the longest known hello, with post-quantum keys, has 1,800.
pub const HANDSHAKE_BYTES_MAX: usize = 32 * 1024;

/// The server's end of a connection.
pub struct Tls {
    connection: Box<ServerConnection>,
    handshake_bytes: usize,
    /// The client has said that it sends no more.
    is_closed: bool,
}

impl Tls {
    /// Waiting for the client's hello.
    pub fn new(config: Arc<ServerConfig>) -> Result<Tls, Refusal> {
        let mut connection = ServerConnection::new(config).map_err(|error| Refusal::Tls(error.to_string()))?;
        // Whoever hands us bytes to send has bounded them.
        connection.set_buffer_limit(None);
        Ok(Tls { connection: Box::new(connection), handshake_bytes: 0, is_closed: false })
    }

    /// True once the handshake is done.
    pub fn is_open(&self) -> bool {
        !self.connection.is_handshaking()
    }

    /// True once the client has said that it sends no more.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Takes records; hands over what is in them.
    pub fn receive(
        &mut self,
        mut bytes: &[u8],
        mut take: impl FnMut(&[u8]) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        if self.connection.is_handshaking() {
            self.handshake_bytes += bytes.len();
            if self.handshake_bytes > HANDSHAKE_BYTES_MAX {
                return Err(Refusal::Tls("a handshake of more than 32 KiB".to_owned()));
            }
        }
        let failed = |error: io::Error| Refusal::Tls(error.to_string());
        while !bytes.is_empty() && !self.is_closed {
            self.connection.read_tls(&mut bytes).map_err(failed)?;
            let state = self.connection.process_new_packets().map_err(|error| Refusal::Tls(error.to_string()))?;
            self.is_closed = state.peer_has_closed();
            let mut left = state.plaintext_bytes_to_read();
            let mut reader = self.connection.reader();
            while left > 0 {
                let plain = reader.fill_buf().map_err(failed)?;
                let count = plain.len().min(left);
                take(&plain[..count])?;
                reader.consume(count);
                left -= count;
            }
        }
        Ok(())
    }

    /// True where records wait to be sent.
    pub fn has_output(&self) -> bool {
        self.connection.wants_write()
    }

    /// What waits to be sent, then these bytes.
    pub fn send(&mut self, plain: &[u8], out: &mut Vec<u8>) {
        out.reserve(plain.len() + 256);
        self.connection.writer().write_all(plain).expect("its buffers have no limit");
        while self.connection.wants_write() {
            self.connection.write_tls(out).expect("a vector takes everything");
        }
    }

    /// Says that we send no more.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        self.connection.send_close_notify();
        self.send(&[], out);
    }
}
