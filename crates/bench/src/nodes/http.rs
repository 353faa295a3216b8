//! JSON-RPC over one connection that is kept.
//!
//! In:     an address, a cookie file, methods and parameters.
//! Out:    results; or the bytes of an answer, for whoever only measures.
//! Fails:  with what the node answered, or the socket's error; a connection that broke is made again once.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::{BenchError, at};

/// Longest answer that is read, in bytes: the largest block as JSON has less.
const ANSWER_BYTES_MAX: u64 = 256 << 20;
/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(300);

/// One connection.
pub struct Rpc {
    address: SocketAddr,
    authorization: String,
    wire: Option<BufReader<TcpStream>>,
}

impl Rpc {
    /// For the node at this address that wrote this cookie.
    pub fn new(address: SocketAddr, cookie: &Path) -> Result<Rpc, BenchError> {
        let cookie = fs::read_to_string(cookie).map_err(at(cookie))?;
        Ok(Rpc::with(address, cookie.trim()))
    }

    /// For the node at this address that takes this `name:password`.
    pub fn with(address: SocketAddr, credentials: &str) -> Rpc {
        Rpc { address, authorization: base64(credentials.as_bytes()), wire: None }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The result of a method; what the node says against it is an error.
    pub fn call(&mut self, method: &str, parameters: Value) -> Result<Value, BenchError> {
        let mut answer = self.answer(method, parameters)?;
        match answer["error"].is_null() {
            true => Ok(answer["result"].take()),
            false => Err(BenchError::Wrong(format!("{method}: {}", answer["error"]))),
        }
    }

    /// The whole answer, an error or not.
    pub fn answer(&mut self, method: &str, parameters: Value) -> Result<Value, BenchError> {
        let bytes = self.ask(&question(method, &parameters))?;
        serde_json::from_slice(&bytes).map_err(|error| BenchError::Wrong(format!("{method}: {error}")))
    }

    /// Takes the node to the day of this block, and the block to the node, until it counts as following; one that has it
    /// already is content.
    pub fn step_onto(&mut self, block: &[u8]) -> Result<(), BenchError> {
        self.set_time_of(block)?;
        let answer = self.call("submitblock", json!([stdx::hex::encode(block)]))?;
        if let Some(word) = answer.as_str().filter(|word| *word != "duplicate") {
            return Err(BenchError::Wrong(format!("submitblock: {word}")));
        }
        // Until then nobody takes transactions.
        while self.call("getblockchaininfo", json!([]))?["initialblockdownload"] == true {
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Sets the node's clock a minute behind the time of this block: a forged chain ends years ago, and nobody relays for
    /// one whose chain is old.
    pub fn set_time_of(&mut self, block: &[u8]) -> Result<(), BenchError> {
        let time = block.get(68..72).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
        let time_s = time.ok_or_else(|| BenchError::Wrong("a block without a header".to_owned()))?;
        self.call("setmocktime", json!([time_s + 60])).map(drop)
    }

    /// Sends a body and reads the answer's.
    pub fn ask(&mut self, body: &str) -> Result<Vec<u8>, BenchError> {
        let name = format!("JSON-RPC of {}", self.address);
        let first = self.try_ask(body);
        first.or_else(|_| self.try_ask(body)).map_err(at(name))
    }

    fn try_ask(&mut self, body: &str) -> io::Result<Vec<u8>> {
        let answer = self.exchange(body);
        if answer.is_err() {
            self.wire = None;
        }
        answer
    }

    fn exchange(&mut self, body: &str) -> io::Result<Vec<u8>> {
        if self.wire.is_none() {
            let wire = TcpStream::connect(self.address)?;
            wire.set_nodelay(true)?;
            wire.set_read_timeout(Some(PATIENCE))?;
            self.wire = Some(BufReader::with_capacity(1 << 18, wire));
        }
        let wire = self.wire.as_mut().expect("made above");
        let head = format!(
            "POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            self.authorization,
            body.len()
        );
        wire.get_mut().write_all([head.as_bytes(), body.as_bytes()].concat().as_slice())?;
        let head = read_head(wire)?;
        let mut answer = vec![0; head.length.unwrap_or(0) as usize];
        match head.length {
            Some(_) => wire.read_exact(&mut answer)?,
            None => drop(wire.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?),
        }
        if head.closes {
            self.wire = None;
        }
        Ok(answer)
    }
}

/// What the head of an answer says of its body.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    /// Its length; none: up to the end of the connection.
    length: Option<u64>,
    /// The connection ends behind it.
    closes: bool,
}

/// Reads status and headers.
fn read_head(wire: &mut impl BufRead) -> io::Result<Head> {
    let invalid = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text.to_owned());
    let mut head = Head { length: None, closes: false };
    let mut status = String::new();
    wire.read_line(&mut status)?;
    if status.contains(" 401 ") {
        return Err(invalid("the cookie is not taken"));
    }
    loop {
        let mut line = String::new();
        if wire.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            head.length = value.trim().parse::<u64>().ok();
        }
        head.closes |= line == "connection: close";
    }
    match head.length {
        Some(length) if length > ANSWER_BYTES_MAX => Err(invalid("an answer longer than any")),
        None if !head.closes => Err(invalid("an answer without a length")),
        _ => Ok(head),
    }
}

/// A request's body.
pub fn question(method: &str, parameters: &Value) -> String {
    json!({ "jsonrpc": "1.0", "id": 1, "method": method, "params": parameters }).to_string()
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at)) as usize & 63] as char;
            text.push(if at <= group.len() { letter } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_those_of_rfc_4648() {
        let cases =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE=")];
        cases.iter().for_each(|(text, want)| assert_eq!(base64(text.as_bytes()), *want, "{text}"));
    }

    #[test]
    fn heads_are_read_to_their_end_and_lengths_have_a_limit() {
        let read = |text: &str| read_head(&mut text.as_bytes());
        let head = |length, closes| Head { length, closes };
        let text = "HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 12\r\n\r\nrest";
        assert_eq!(read(text).unwrap(), head(Some(12), false));
        assert_eq!(read("HTTP/1.1 500 No\r\ncontent-length:7\r\n\r\n").unwrap(), head(Some(7), false));
        assert_eq!(read("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").unwrap(), head(None, true));
        for bad in [
            "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
            "",
        ] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
