//! Asking I2P's SAM bridge for a session, a connection, or somebody who connects.
//!
//! In:     a wish, and the bridge's lines.
//! Out:    lines to send; at the end a session with its key and address, or a stream.
//! Fails:  [`SamError`].
//! Source: I2P's SAM version 3.1; Bitcoin Core, `src/i2p.cpp`.
//!
//! A session lives as long as its connection to the bridge; streams name it by its identifier.

use std::collections::BTreeMap;
use std::fmt;

use primitives::hash::sha256;

use crate::wire::Host;

/// Longest line of the bridge, in bytes; Core's `MAX_MSG_SIZE`.
pub const LINE_BYTES_MAX: usize = 65_536;
/// Bytes of a destination before its certificate, and where the certificate's length stands.
const DESTINATION_BYTES: usize = 387;
const CERTIFICATE_LENGTH_AT: usize = 385;
/// Digits of I2P's base64.
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-~";
/// The kind of keys; i2pd before 2.24 knows the number only (EdDSA_SHA512_Ed25519).
const SIGNATURE_TYPE: u8 = 7;

/// What the bridge says where it does not do what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamRefusal {
    /// The session is gone.
    InvalidId,
    /// The other side is not there.
    CantReachPeer,
    /// The other side does not answer.
    Timeout,
    /// Anything else.
    Other,
}

impl SamRefusal {
    fn of(word: &str) -> SamRefusal {
        match word {
            "INVALID_ID" => SamRefusal::InvalidId,
            "CANT_REACH_PEER" => SamRefusal::CantReachPeer,
            "TIMEOUT" => SamRefusal::Timeout,
            _ => SamRefusal::Other,
        }
    }
}

/// Why there is no session or stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamError {
    /// The bridge refuses a command.
    Refused {
        /// Which.
        command: &'static str,
        /// Its reason.
        why: SamRefusal,
    },
    /// A reply lacks what the command is for.
    Incomplete {
        /// Which command's.
        command: &'static str,
    },
    /// A destination or key is no base64, or shorter than it says.
    WrongKey,
}

impl SamError {
    /// True where the session is of no more use.
    pub fn ends_session(&self) -> bool {
        matches!(self, SamError::Refused { why: SamRefusal::InvalidId, .. })
    }
}

impl fmt::Display for SamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SamError::Refused { command, why } => write!(f, "the SAM bridge refuses {command} ({why:?})"),
            SamError::Incomplete { command } => write!(f, "the reply to {command} is not that of a SAM bridge"),
            SamError::WrongKey => f.write_str("a destination of the SAM bridge or the key's file is damaged"),
        }
    }
}

impl std::error::Error for SamError {}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SamWish {
    /// A session under an address that stays; `None` makes a new key.
    Session {
        /// What streams name it by.
        id: String,
        /// Its key.
        key: Option<Vec<u8>>,
    },
    /// A session under an address for this time only.
    TransientSession {
        /// What streams name it by.
        id: String,
    },
    /// A stream to a host.
    Connect {
        /// The session.
        id: String,
        /// Its name, `....b32.i2p`.
        name: String,
    },
    /// The stream of the next one who connects; its destination comes as a line before its bytes.
    Accept {
        /// The session.
        id: String,
    },
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SamStep {
    /// Send this line.
    Send(String),
    /// The session stands.
    Session {
        /// Where we can be reached.
        host: Host,
        /// Its key, to be kept where it is new.
        key: Vec<u8>,
    },
    /// What follows is the stream's.
    Stream,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Hello,
    Generate,
    Create,
    Lookup,
    Stream,
}

/// One conversation with the bridge.
pub struct Sam {
    wish: SamWish,
    state: State,
}

impl Sam {
    /// A conversation, and its first line.
    pub fn new(wish: SamWish) -> (Sam, String) {
        (Sam { wish, state: State::Hello }, "HELLO VERSION MIN=3.1 MAX=3.1\n".to_owned())
    }

    /// Takes a line without its end.
    pub fn take(&mut self, line: &str) -> Result<SamStep, SamError> {
        let command = self.command();
        let words: BTreeMap<&str, &str> = line.split(' ').filter_map(|word| word.split_once('=')).collect();
        let get = |name: &str| words.get(name).copied().ok_or(SamError::Incomplete { command });
        // A reply to DEST GENERATE has no result where all is well.
        match words.get("RESULT") {
            Some(&"OK") => {}
            Some(word) => return Err(SamError::Refused { command, why: SamRefusal::of(word) }),
            None if self.state == State::Generate => {}
            None => return Err(SamError::Incomplete { command }),
        }
        match self.state {
            State::Hello => Ok(self.after_hello()),
            State::Generate => {
                let made = decode(get("PRIV")?)?;
                if let SamWish::Session { key, .. } = &mut self.wish {
                    *key = Some(made);
                }
                Ok(self.create())
            }
            State::Create => match &self.wish {
                SamWish::Session { key: Some(key), .. } => session(key.clone()),
                _ => session(decode(get("DESTINATION")?)?),
            },
            State::Lookup => {
                let destination = get("VALUE")?;
                // It goes back in a command: nothing but digits.
                decode(destination)?;
                let SamWish::Connect { id, .. } = &self.wish else { unreachable!("only connecting looks up") };
                self.state = State::Stream;
                Ok(SamStep::Send(format!("STREAM CONNECT ID={id} DESTINATION={destination} SILENT=false\n")))
            }
            State::Stream => Ok(SamStep::Stream),
        }
    }

    fn command(&self) -> &'static str {
        match (self.state, &self.wish) {
            (State::Hello, _) => "HELLO",
            (State::Generate, _) => "DEST GENERATE",
            (State::Create, _) => "SESSION CREATE",
            (State::Lookup, _) => "NAMING LOOKUP",
            (State::Stream, SamWish::Accept { .. }) => "STREAM ACCEPT",
            (State::Stream, _) => "STREAM CONNECT",
        }
    }

    fn after_hello(&mut self) -> SamStep {
        let (state, line) = match &self.wish {
            SamWish::Session { key: None, .. } => {
                (State::Generate, format!("DEST GENERATE SIGNATURE_TYPE={SIGNATURE_TYPE}\n"))
            }
            SamWish::Session { .. } | SamWish::TransientSession { .. } => return self.create(),
            SamWish::Connect { name, .. } => (State::Lookup, format!("NAMING LOOKUP NAME={name}\n")),
            SamWish::Accept { id } => (State::Stream, format!("STREAM ACCEPT ID={id} SILENT=false\n")),
        };
        self.state = state;
        SamStep::Send(line)
    }

    fn create(&mut self) -> SamStep {
        self.state = State::Create;
        // Three tunnels carry a node's connections; a session for one connection needs one.
        let (id, destination, tunnels) = match &self.wish {
            SamWish::Session { id, key } => (id, encode(key.as_deref().unwrap_or_default()), 3),
            SamWish::TransientSession { id } => (id, format!("TRANSIENT SIGNATURE_TYPE={SIGNATURE_TYPE}"), 1),
            SamWish::Connect { .. } | SamWish::Accept { .. } => unreachable!("only sessions are created"),
        };
        SamStep::Send(format!(
            "SESSION CREATE STYLE=STREAM ID={id} DESTINATION={destination} i2cp.leaseSetEncType=4,0 \
             inbound.quantity={tunnels} outbound.quantity={tunnels}\n"
        ))
    }
}

/// The session of a private key, which begins with the public destination.
fn session(key: Vec<u8>) -> Result<SamStep, SamError> {
    let length = key.get(CERTIFICATE_LENGTH_AT..DESTINATION_BYTES).ok_or(SamError::WrongKey)?;
    let certificate_bytes = usize::from(u16::from_be_bytes(length.try_into().expect("two bytes")));
    let destination = key.get(..DESTINATION_BYTES + certificate_bytes).ok_or(SamError::WrongKey)?;
    Ok(SamStep::Session { host: Host::I2p(sha256(destination)), key })
}

/// The host of a line that tells who connects.
pub fn host_of_destination(line: &str) -> Result<Host, SamError> {
    let destination = line.split(' ').next().unwrap_or_default();
    let result = line.split(' ').find_map(|word| word.strip_prefix("RESULT="));
    if result.is_some() {
        // Not who connects, but that nobody will: the session was closed.
        return Err(SamError::Refused { command: "STREAM ACCEPT", why: SamRefusal::InvalidId });
    }
    let bytes = decode(destination)?;
    if bytes.len() < DESTINATION_BYTES {
        return Err(SamError::WrongKey);
    }
    Ok(Host::I2p(sha256(&bytes)))
}

fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for part in bytes.chunks(3) {
        let bits = part.iter().chain(&[0; 2]).take(3).fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
        for digit in 0..4 {
            let is_there = digit <= part.len();
            text.push(if is_there { BASE64[(bits >> (18 - 6 * digit)) as usize & 63] as char } else { '=' });
        }
    }
    text
}

fn decode(text: &str) -> Result<Vec<u8>, SamError> {
    let digits = text.trim_end_matches('=');
    if text.len() % 4 != 0 || text.is_empty() || text.len() - digits.len() > 2 {
        return Err(SamError::WrongKey);
    }
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    let (mut bits, mut count) = (0u32, 0);
    for digit in digits.bytes() {
        let value = BASE64.iter().position(|known| *known == digit).ok_or(SamError::WrongKey)?;
        bits = bits << 6 | value as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    if bits == 0 { Ok(bytes) } else { Err(SamError::WrongKey) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A private key: a destination with a certificate of 4 bytes, and what only we know.
    fn key() -> Vec<u8> {
        let mut key = vec![9; DESTINATION_BYTES];
        key[CERTIFICATE_LENGTH_AT..].copy_from_slice(&[0, 4]);
        key.extend([1, 2, 3, 4]);
        key.extend([77; 96]);
        key
    }

    fn host() -> Host {
        Host::I2p(sha256(&key()[..DESTINATION_BYTES + 4]))
    }

    /// Plays the bridge's lines; gives what was sent, and the end.
    fn play(wish: SamWish, lines: &[&str]) -> (Vec<String>, Result<SamStep, SamError>) {
        let (mut sam, first) = Sam::new(wish);
        assert_eq!(first, "HELLO VERSION MIN=3.1 MAX=3.1\n");
        let (mut sent, mut last) = (Vec::new(), Ok(SamStep::Stream));
        for line in lines {
            last = sam.take(line);
            match &last {
                Ok(SamStep::Send(line)) => sent.push(line.trim_end().to_owned()),
                _ => break,
            }
        }
        (sent, last)
    }

    const HELLO: &str = "HELLO REPLY RESULT=OK VERSION=3.1";

    #[test]
    fn sessions_are_made_with_a_key_without_one_and_for_once() {
        let done = Ok(SamStep::Session { host: host(), key: key() });
        let text = encode(&key());
        let create = |destination: &str, tunnels: u8| {
            format!(
                "SESSION CREATE STYLE=STREAM ID=x DESTINATION={destination} i2cp.leaseSetEncType=4,0 \
                 inbound.quantity={tunnels} outbound.quantity={tunnels}"
            )
        };
        let id = || "x".to_owned();
        let created = format!("SESSION STATUS RESULT=OK DESTINATION={text}");
        let with = SamWish::Session { id: id(), key: Some(key()) };
        assert_eq!(play(with, &[HELLO, &created]), (vec![create(&text, 3)], done.clone()));
        let without = SamWish::Session { id: id(), key: None };
        let made = format!("DEST REPLY PUB=abcd PRIV={text}");
        let sent = vec!["DEST GENERATE SIGNATURE_TYPE=7".to_owned(), create(&text, 3)];
        assert_eq!(play(without, &[HELLO, &made, &created]), (sent, done.clone()));
        let once = SamWish::TransientSession { id: id() };
        assert_eq!(play(once, &[HELLO, &created]), (vec![create("TRANSIENT SIGNATURE_TYPE=7", 1)], done));
    }

    #[test]
    fn streams_are_opened_and_waited_for() {
        let (id, name) = ("x".to_owned(), "ukeu.b32.i2p".to_owned());
        let destination = encode(&key());
        let found = format!("NAMING REPLY RESULT=OK NAME={name} VALUE={destination}");
        let (sent, last) = play(SamWish::Connect { id: id.clone(), name }, &[HELLO, &found, "STREAM STATUS RESULT=OK"]);
        let want = [
            "NAMING LOOKUP NAME=ukeu.b32.i2p".to_owned(),
            format!("STREAM CONNECT ID=x DESTINATION={destination} SILENT=false"),
        ];
        assert_eq!((sent, last), (want.to_vec(), Ok(SamStep::Stream)));
        let (sent, last) = play(SamWish::Accept { id }, &[HELLO, "STREAM STATUS RESULT=OK"]);
        assert_eq!((sent, last), (vec!["STREAM ACCEPT ID=x SILENT=false".to_owned()], Ok(SamStep::Stream)));
        let public = encode(&key()[..DESTINATION_BYTES + 4]);
        assert_eq!(host_of_destination(&public), Ok(host()));
        assert_eq!(host_of_destination(&format!("{public} FROM_PORT=0 TO_PORT=0")), Ok(host()));
    }

    #[test]
    fn what_goes_wrong_is_said() {
        #[track_caller]
        fn check(wish: &SamWish, lines: &[&str], want: SamError) {
            assert_eq!(play(wish.clone(), lines).1, Err(want));
        }
        let id = || "x".to_owned();
        let connect = SamWish::Connect { id: id(), name: "n.b32.i2p".to_owned() };
        let session = SamWish::Session { id: id(), key: None };
        let refused = |command, why| SamError::Refused { command, why };
        check(&connect, &["220 mail.example ESMTP"], SamError::Incomplete { command: "HELLO" });
        check(&connect, &[""], SamError::Incomplete { command: "HELLO" });
        check(&connect, &["HELLO REPLY RESULT=NOVERSION"], refused("HELLO", SamRefusal::Other));
        let lookup = "NAMING REPLY RESULT=KEY_NOT_FOUND NAME=n";
        check(&connect, &[HELLO, lookup], refused("NAMING LOOKUP", SamRefusal::Other));
        check(&connect, &[HELLO, "NAMING REPLY RESULT=OK"], SamError::Incomplete { command: "NAMING LOOKUP" });
        for value in ["a\nSTREAM", "abc", "ab==c===", "", "====", "abc+", "ab!="] {
            check(&connect, &[HELLO, &format!("NAMING REPLY RESULT=OK VALUE={value}")], SamError::WrongKey);
        }
        let found = format!("NAMING REPLY RESULT=OK VALUE={}", encode(&key()));
        for (word, why) in [
            ("INVALID_ID", SamRefusal::InvalidId),
            ("CANT_REACH_PEER", SamRefusal::CantReachPeer),
            ("TIMEOUT", SamRefusal::Timeout),
            ("I2P_ERROR", SamRefusal::Other),
        ] {
            let status = format!("STREAM STATUS RESULT={word} MESSAGE=\"no such thing\"");
            check(&connect, &[HELLO, &found, &status], refused("STREAM CONNECT", why));
            assert_eq!(refused("STREAM CONNECT", why).ends_session(), word == "INVALID_ID");
        }
        check(&session, &[HELLO, "DEST REPLY PUB=x"], SamError::Incomplete { command: "DEST GENERATE" });
        check(&session, &[HELLO, "DEST REPLY PRIV=***="], SamError::WrongKey);
        let made = format!("DEST REPLY PRIV={}", encode(&key()));
        let duplicate = "SESSION STATUS RESULT=DUPLICATED_DEST";
        check(&session, &[HELLO, &made, duplicate], refused("SESSION CREATE", SamRefusal::Other));
        // A key that is shorter than it says, at both sides of the edge.
        let cut = |length: usize| SamWish::Session { id: id(), key: Some(key()[..length].to_vec()) };
        let created = "SESSION STATUS RESULT=OK";
        check(&cut(DESTINATION_BYTES - 1), &[HELLO, created], SamError::WrongKey);
        check(&cut(DESTINATION_BYTES + 3), &[HELLO, created], SamError::WrongKey);
        assert!(play(cut(DESTINATION_BYTES + 4), &[HELLO, created]).1.is_ok());
        let closed = "STREAM STATUS RESULT=I2P_ERROR MESSAGE=\"Session was closed\"";
        assert!(host_of_destination(closed).unwrap_err().ends_session());
        for line in ["", "abcd", "not base64 at all", "===="] {
            assert_eq!(host_of_destination(line), Err(SamError::WrongKey), "{line}");
        }
    }

    #[test]
    fn base64_is_i2p_s_own() {
        for length in 0..100 {
            let bytes: Vec<u8> = (0..length).map(|n| (n * 37 + 251) as u8).collect();
            let text = encode(&bytes);
            assert!(text.bytes().all(|digit| BASE64.contains(&digit) || digit == b'='));
            if length > 0 {
                assert_eq!(decode(&text).as_deref(), Ok(&bytes[..]));
            }
        }
        assert_eq!(encode(&[0xfb, 0xff]), "-~8=");
    }
}
