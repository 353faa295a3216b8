//! One HTTP request and its answer, for `assay cli`.
//!
//! In:     an address, a path, a password, a body.
//! Out:    status and body.
//! Fails:  [`HttpError`]: nobody there, too slow, or no HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use serve::keys::base64;

/// Bytes of an answer that are read: a batch of full blocks as text.
const ANSWER_BYTES_MAX: u64 = 1 << 30;
/// Bytes of one line of an answer's header.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub enum HttpError {
    /// Nobody listens, or the connection broke.
    Connect(String),
    /// The answer took too long.
    Timeout,
    /// What came is no HTTP.
    Malformed,
}

/// Where to ask, and as whom.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// `user:password`.
    pub credentials: String,
    /// Longest wait; none for any.
    pub timeout: Option<Duration>,
}

/// Sends a body, and reads status and body of the answer.
pub fn post(endpoint: &Endpoint, path: &str, body: &str) -> Result<(u16, String), HttpError> {
    let broken = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => HttpError::Timeout,
        _ => HttpError::Connect(error.to_string()),
    };
    let addresses = (endpoint.host.as_str(), endpoint.port).to_socket_addrs().map_err(broken)?;
    let mut last = HttpError::Connect("the name has no address".to_owned());
    for address in addresses {
        let connected = match endpoint.timeout {
            Some(timeout) => TcpStream::connect_timeout(&address, timeout),
            None => TcpStream::connect(address),
        };
        match connected {
            Ok(stream) => return exchange(stream, endpoint, path, body).map_err(broken)?.ok_or(HttpError::Malformed),
            Err(error) => last = broken(error),
        }
    }
    Err(last)
}

fn exchange(
    mut stream: TcpStream,
    endpoint: &Endpoint,
    path: &str,
    body: &str,
) -> std::io::Result<Option<(u16, String)>> {
    stream.set_read_timeout(endpoint.timeout)?;
    stream.set_write_timeout(endpoint.timeout)?;
    let credentials = base64::encode(endpoint.credentials.as_bytes());
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Authorization: Basic {credentials}\r\nContent-Length: {}\r\n\r\n{body}",
        endpoint.host,
        body.len()
    )?;
    stream.flush()?;
    let mut reader = BufReader::new(stream);
    let line = |reader: &mut BufReader<TcpStream>| -> std::io::Result<String> {
        let mut line = String::new();
        reader.by_ref().take(LINE_BYTES_MAX).read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    };
    let status = line(&mut reader)?.split(' ').nth(1).and_then(|status| status.parse().ok());
    let Some(status) = status else { return Ok(None) };
    let mut length = None;
    loop {
        let header = line(&mut reader)?;
        if header.is_empty() {
            break;
        }
        if let Some((name, value)) = header.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse::<u64>().ok();
        }
    }
    let mut bytes = Vec::new();
    reader.take(length.unwrap_or(ANSWER_BYTES_MAX).min(ANSWER_BYTES_MAX)).read_to_end(&mut bytes)?;
    Ok(String::from_utf8(bytes).ok().map(|text| (status, text)))
}
