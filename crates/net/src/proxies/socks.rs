//! Asking a SOCKS5 proxy for a connection.
//!
//! In:     a host and port, and the proxy's answers.
//! Out:    what to write, and how many bytes to read next; at the end the stream is the connection asked for.
//! Fails:  [`SocksError`].
//! Source: RFC 1928, RFC 1929; Tor's `socks-extensions.txt` (names and passwords choose the circuit, its own error numbers).
//!
//! Hosts go as names, so that nothing is looked up outside of the proxy.

use std::fmt;

/// Why the proxy gave no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocksError {
    /// It speaks another protocol.
    NotSocks {
        /// The byte where a 5 should be.
        got: u8,
    },
    /// It wants a way of authentication that we did not offer.
    Authentication,
    /// It does not like name and password.
    Refused,
    /// It could not connect.
    Failed {
        /// Its reason by RFC 1928, section 6, or Tor's.
        code: u8,
    },
    /// The host's name has more than 255 bytes.
    NameTooLong,
    /// A kind of address that does not exist.
    AddressKind {
        /// Its number.
        got: u8,
    },
}

impl fmt::Display for SocksError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SocksError::NotSocks { got } => write!(f, "the proxy does not speak SOCKS5 (begins with {got})"),
            SocksError::Authentication => f.write_str("the proxy wants another authentication"),
            SocksError::Refused => f.write_str("the proxy refuses name and password"),
            SocksError::Failed { code } => write!(f, "{} ({code:#04x})", reason(*code)),
            SocksError::NameTooLong => f.write_str("the host's name is too long for the proxy"),
            SocksError::AddressKind { got } => write!(f, "the proxy answers with address kind {got}"),
        }
    }
}

fn reason(code: u8) -> &'static str {
    match code {
        1 => "general failure",
        2 => "not allowed",
        3 => "network unreachable",
        4 => "host unreachable",
        5 => "connection refused",
        6 => "time to live expired",
        7 => "command not supported",
        8 => "address kind not supported",
        0xf0 => "onion service descriptor not found",
        0xf1 => "onion service descriptor invalid",
        0xf2 => "onion service introduction failed",
        0xf3 => "onion service rendezvous failed",
        0xf4 => "onion service missing client authorization",
        0xf5 => "onion service wrong client authorization",
        0xf6 => "onion service address invalid",
        0xf7 => "onion service introduction timed out",
        _ => "unknown failure",
    }
}

impl std::error::Error for SocksError {}

/// What to do next: write, then read exactly so many bytes; the connection stands when nothing is to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    pub write: Vec<u8>,
    pub read: usize,
}

enum State {
    Method,
    Credentials,
    Reply,
    NameLength,
    Rest,
}

/// One request to a proxy.
pub struct Socks {
    state: State,
    host: String,
    port: u16,
    credentials: Option<(String, String)>,
}

impl Socks {
    /// The request, and what to do first.
    pub fn new(host: String, port: u16, credentials: Option<(String, String)>) -> Result<(Socks, Ask), SocksError> {
        if host.len() > 255 {
            return Err(SocksError::NameTooLong);
        }
        let greeting = if credentials.is_some() { vec![5, 2, 0, 2] } else { vec![5, 1, 0] };
        let socks = Socks { state: State::Method, host, port, credentials };
        Ok((socks, Ask { write: greeting, read: 2 }))
    }

    /// Takes the bytes asked for.
    pub fn next(&mut self, read: &[u8]) -> Result<Ask, SocksError> {
        let nothing = |read| Ask { write: Vec::new(), read };
        match self.state {
            State::Method => {
                version(read[0], 5)?;
                match (read[1], &self.credentials) {
                    (0, _) => Ok(self.request()),
                    (2, Some((name, password))) => {
                        self.state = State::Credentials;
                        let mut write = vec![1, name.len() as u8];
                        write.extend_from_slice(name.as_bytes());
                        write.push(password.len() as u8);
                        write.extend_from_slice(password.as_bytes());
                        Ok(Ask { write, read: 2 })
                    }
                    _ => Err(SocksError::Authentication),
                }
            }
            State::Credentials => match read[1] {
                0 => Ok(self.request()),
                _ => Err(SocksError::Refused),
            },
            State::Reply => {
                version(read[0], 5)?;
                if read[1] != 0 {
                    return Err(SocksError::Failed { code: read[1] });
                }
                // What it is bound to is read and not looked at.
                self.state = State::Rest;
                match read[3] {
                    1 => Ok(nothing(4 + 2)),
                    4 => Ok(nothing(16 + 2)),
                    3 => {
                        self.state = State::NameLength;
                        Ok(nothing(1))
                    }
                    got => Err(SocksError::AddressKind { got }),
                }
            }
            State::NameLength => {
                self.state = State::Rest;
                Ok(nothing(usize::from(read[0]) + 2))
            }
            State::Rest => Ok(nothing(0)),
        }
    }

    fn request(&mut self) -> Ask {
        self.state = State::Reply;
        let mut write = vec![5, 1, 0, 3, self.host.len() as u8];
        write.extend_from_slice(self.host.as_bytes());
        write.extend_from_slice(&self.port.to_be_bytes());
        Ask { write, read: 4 }
    }
}

fn version(got: u8, want: u8) -> Result<(), SocksError> {
    if got == want { Ok(()) } else { Err(SocksError::NotSocks { got }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays the proxy: what it answers, and what it should have been told.
    #[track_caller]
    fn check(credentials: bool, answers: &[&[u8]], want: Result<Vec<u8>, SocksError>) {
        let credentials = credentials.then(|| ("n".to_owned(), "pw".to_owned()));
        let (mut socks, mut ask) = Socks::new("host".to_owned(), 0x1234, credentials).unwrap();
        let mut written = ask.write.clone();
        let mut result = Ok(());
        for answer in answers {
            assert_eq!(answer.len(), ask.read, "as much as was asked for");
            match socks.next(answer) {
                Ok(next) => ask = next,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
            written.extend_from_slice(&ask.write);
        }
        assert!(result.is_err() || ask.read == 0, "the connection stands");
        assert_eq!(result.map(|()| written), want);
    }

    #[test]
    fn requests_and_answers_are_those_of_rfc_1928() {
        let request = b"\x05\x01\x00\x03\x04host\x12\x34";
        let plain = [&b"\x05\x01\x00"[..], request].concat();
        let named = [&b"\x05\x02\x00\x02\x01\x01n\x02pw"[..], request].concat();
        let done: &[u8] = &[5, 0, 0, 1];
        check(false, &[&[5, 0], done, &[0; 6]], Ok(plain.clone()));
        check(false, &[&[5, 0], &[5, 0, 0, 4], &[0; 18]], Ok(plain.clone()));
        check(false, &[&[5, 0], &[5, 0, 0, 3], &[7], &[0; 9]], Ok(plain));
        check(true, &[&[5, 2], &[1, 0], done, &[0; 6]], Ok(named));
        check(true, &[&[5, 0], done, &[0; 6]], Ok([&b"\x05\x02\x00\x02"[..], request].concat()));
        check(true, &[&[5, 2], &[1, 1]], Err(SocksError::Refused));
        check(false, &[&[5, 2]], Err(SocksError::Authentication));
        check(true, &[&[5, 0xff]], Err(SocksError::Authentication));
        check(false, &[&[4, 0]], Err(SocksError::NotSocks { got: 4 }));
        check(false, &[&[5, 0], &[5, 5, 0, 1]], Err(SocksError::Failed { code: 5 }));
        check(false, &[&[5, 0], &[5, 0, 0, 9]], Err(SocksError::AddressKind { got: 9 }));
        assert_eq!(Socks::new("x".repeat(256), 1, None).err(), Some(SocksError::NameTooLong));
        assert!(Socks::new("x".repeat(255), 1, None).is_ok());
    }
}
