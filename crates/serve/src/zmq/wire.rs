//! ZMTP 3.1 as bytes: greeting, commands, subscriptions, messages.
//!
//! In:     bytes of a subscriber, as they come.
//! Out:    what it says ([`Said`]); bytes of messages.
//! Fails:  [`BadPeer`]: another protocol or version, another mechanism than NULL, no subscriber, frames beyond the limits.
//! Source: rfc.zeromq.org/spec/23 (ZMTP 3.0), spec/37 (3.1), spec/29 (publish and subscribe).

use std::fmt;

/// Bytes of a greeting.
pub const GREETING_BYTES: usize = 64;
/// Longest frame that a subscriber may send, in bytes: a command with its properties, or a prefix.
pub const FRAME_BYTES_MAX: usize = 1024;
/// Longest context of a PING, which PONG repeats; spec/37.
const PING_CONTEXT_BYTES_MAX: usize = 16;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// Why a connection is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadPeer(pub &'static str);

impl fmt::Display for BadPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// What a subscriber says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// Its greeting: NULL mechanism, version 3.
    Greeting,
    /// It is a subscriber and ready.
    Ready,
    /// It wants what begins with this.
    Subscribe(Vec<u8>),
    /// It does not any more.
    Cancel(Vec<u8>),
    /// It wants a PONG with this context.
    Ping(Vec<u8>),
    /// Something that needs no answer.
    Nothing,
}

/// Our greeting: version 3.1, NULL mechanism, not a server.
pub fn greeting() -> [u8; GREETING_BYTES] {
    let mut bytes = [0; GREETING_BYTES];
    bytes[0] = 0xff;
    bytes[9] = 0x7f;
    (bytes[10], bytes[11]) = (3, 1);
    bytes[12..16].copy_from_slice(b"NULL");
    bytes
}

/// Our READY: a publisher.
pub fn ready() -> Vec<u8> {
    let mut body = b"\x05READY".to_vec();
    put_property(&mut body, "Socket-Type", b"PUB");
    frame(COMMAND, &body)
}

/// The answer to a PING.
pub fn pong(context: &[u8]) -> Vec<u8> {
    frame(COMMAND, &[b"\x04PONG", context].concat())
}

/// A message of several parts.
pub fn message(parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::with_capacity(parts.iter().map(|part| part.len() + 9).sum());
    for (index, part) in parts.iter().enumerate() {
        put_frame(&mut out, if index + 1 < parts.len() { MORE } else { 0 }, part);
    }
    out
}

fn put_property(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.push(name.len() as u8);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(&(value.len() as u32).to_be_bytes());
    out.extend_from_slice(value);
}

fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_frame(&mut out, flags, body);
    out
}

fn put_frame(out: &mut Vec<u8>, flags: u8, body: &[u8]) {
    match u8::try_from(body.len()) {
        Ok(length) => out.extend_from_slice(&[flags, length]),
        Err(_) => {
            out.push(flags | LONG);
            out.extend_from_slice(&(body.len() as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(body);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Greeting,
    Handshake,
    Open,
}

/// The subscriber's side of a connection.
pub struct Peer {
    state: State,
    bytes: Vec<u8>,
}

impl Default for Peer {
    fn default() -> Peer {
        Peer { state: State::Greeting, bytes: Vec::new() }
    }
}

impl Peer {
    /// True once messages may be sent.
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Takes bytes that came.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next thing said, once all of it is there.
    pub fn next(&mut self) -> Result<Option<Said>, BadPeer> {
        if self.state == State::Greeting {
            return self.take_greeting();
        }
        let Some((flags, body)) = self.take_frame()? else { return Ok(None) };
        let said = match (self.state, flags & COMMAND != 0) {
            (State::Handshake, true) => {
                check_ready(&body)?;
                self.state = State::Open;
                Said::Ready
            }
            (State::Handshake, false) => return Err(BadPeer("a message before READY")),
            (_, true) => command(&body)?,
            // ZMTP 3.0: subscriptions are messages.
            (_, false) => match body.split_first() {
                Some((1, prefix)) => Said::Subscribe(prefix.to_vec()),
                Some((0, prefix)) => Said::Cancel(prefix.to_vec()),
                _ => Said::Nothing,
            },
        };
        Ok(Some(said))
    }

    fn take_greeting(&mut self) -> Result<Option<Said>, BadPeer> {
        let at = |index: usize| self.bytes.get(index).copied();
        if at(0).is_some_and(|byte| byte != 0xff) || at(9).is_some_and(|byte| byte & 1 == 0) {
            return Err(BadPeer("it does not speak ZMTP"));
        }
        if at(10).is_some_and(|major| major < 3) {
            return Err(BadPeer("it speaks a version of ZMTP before 3"));
        }
        if self.bytes.len() < GREETING_BYTES {
            return Ok(None);
        }
        let mut mechanism = *b"NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
        mechanism.copy_from_slice(&self.bytes[12..32]);
        if mechanism != *b"NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" {
            return Err(BadPeer("it wants another security mechanism than NULL"));
        }
        self.bytes.drain(..GREETING_BYTES);
        self.state = State::Handshake;
        Ok(Some(Said::Greeting))
    }

    fn take_frame(&mut self) -> Result<Option<(u8, Vec<u8>)>, BadPeer> {
        let Some(&flags) = self.bytes.first() else { return Ok(None) };
        if flags & !(MORE | LONG | COMMAND) != 0 || flags & (COMMAND | MORE) == COMMAND | MORE {
            return Err(BadPeer("a frame with flags that mean nothing"));
        }
        let (head, length) = match flags & LONG {
            0 => (2, self.bytes.get(1).map(|length| u64::from(*length))),
            _ => (9, self.bytes.get(1..9).map(|length| u64::from_be_bytes(length.try_into().expect("eight bytes")))),
        };
        let Some(length) = length else { return Ok(None) };
        if length > FRAME_BYTES_MAX as u64 {
            return Err(BadPeer("a frame longer than subscribers need"));
        }
        let end = head + length as usize;
        if self.bytes.len() < end {
            return Ok(None);
        }
        let body = self.bytes[head..end].to_vec();
        self.bytes.drain(..end);
        Ok(Some((flags, body)))
    }
}

/// Name and data of a command.
fn split_command(body: &[u8]) -> Result<(&[u8], &[u8]), BadPeer> {
    let bad = BadPeer("a command without a name");
    let (&length, rest) = body.split_first().ok_or(bad)?;
    rest.split_at_checked(usize::from(length)).ok_or(bad)
}

fn command(body: &[u8]) -> Result<Said, BadPeer> {
    Ok(match split_command(body)? {
        (b"SUBSCRIBE", prefix) => Said::Subscribe(prefix.to_vec()),
        (b"CANCEL", prefix) => Said::Cancel(prefix.to_vec()),
        (b"PING", data) => {
            // Two bytes say how long to wait; they are for us, and we wait for nobody.
            let context = data.get(2..).ok_or(BadPeer("a PING without its time"))?;
            Said::Ping(context[..context.len().min(PING_CONTEXT_BYTES_MAX)].to_vec())
        }
        (b"ERROR", _) => return Err(BadPeer("it refused us")),
        _ => Said::Nothing,
    })
}

/// A READY of a subscriber.
fn check_ready(body: &[u8]) -> Result<(), BadPeer> {
    let bad = BadPeer("its READY cannot be read");
    let (name, mut data) = split_command(body)?;
    if name != b"READY" {
        return Err(BadPeer("another command than READY"));
    }
    while let Some((&name_length, rest)) = data.split_first() {
        let (name, rest) = rest.split_at_checked(usize::from(name_length)).ok_or(bad)?;
        let (length, rest) = rest.split_first_chunk::<4>().ok_or(bad)?;
        let (value, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize).ok_or(bad)?;
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            let subscribes = value == b"SUB" || value == b"XSUB";
            return if subscribes { Ok(()) } else { Err(BadPeer("it is no subscriber")) };
        }
        data = rest;
    }
    Err(BadPeer("its READY names no type of socket"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything said by these bytes, whether they come at once or one by one.
    fn said(bytes: &[u8]) -> Result<Vec<Said>, BadPeer> {
        let read = |step: usize| {
            let (mut peer, mut all) = (Peer::default(), Vec::new());
            for piece in bytes.chunks(step) {
                peer.feed(piece);
                while let Some(said) = peer.next()? {
                    all.push(said);
                }
            }
            Ok(all)
        };
        let (whole, piecewise) = (read(bytes.len().max(1)), read(1));
        assert_eq!(whole, piecewise);
        whole
    }

    fn with_handshake(rest: &[u8]) -> Vec<u8> {
        let mut ready = b"\x05READY".to_vec();
        put_property(&mut ready, "Identity", b"");
        put_property(&mut ready, "Socket-Type", b"SUB");
        [&greeting()[..], &frame(COMMAND, &ready), rest].concat()
    }

    #[test]
    fn subscribers_of_both_versions_are_understood() {
        let rest = [
            frame(0, b"\x01raw"),
            frame(0, b"\x00raw"),
            frame(COMMAND, b"\x09SUBSCRIBEhash"),
            frame(COMMAND, b"\x06CANCELhash"),
            frame(COMMAND, b"\x04PING\x00\x0aabc"),
            frame(0, b""),
            frame(0, b"\x07other"),
            frame(COMMAND, b"\x07UNKNOWNdata"),
            frame(0, b"\x01"),
        ];
        let want = [
            Said::Greeting,
            Said::Ready,
            Said::Subscribe(b"raw".to_vec()),
            Said::Cancel(b"raw".to_vec()),
            Said::Subscribe(b"hash".to_vec()),
            Said::Cancel(b"hash".to_vec()),
            Said::Ping(b"abc".to_vec()),
            Said::Nothing,
            Said::Nothing,
            Said::Nothing,
            Said::Subscribe(Vec::new()),
        ];
        assert_eq!(said(&with_handshake(&rest.concat())).unwrap(), want);
    }

    #[test]
    fn others_are_sent_away() {
        #[track_caller]
        fn check(bytes: &[u8], why: &str) {
            let error = said(bytes).expect_err(why);
            assert!(error.0.contains(why), "{error}");
        }
        check(b"GET / HTTP/1.1\r\n\r\n", "does not speak ZMTP");
        let mut other = greeting();
        other[9] = 0x7e;
        check(&other, "does not speak ZMTP");
        other = greeting();
        other[10] = 2;
        check(&other, "before 3");
        other = greeting();
        other[12..17].copy_from_slice(b"CURVE");
        check(&other, "mechanism");
        other = greeting();
        other[12..17].copy_from_slice(b"NULLX");
        check(&other, "mechanism");
        let after_greeting = |rest: &[u8]| [&greeting()[..], rest].concat();
        check(&after_greeting(&frame(0, b"\x01raw")), "before READY");
        check(&after_greeting(&frame(COMMAND, b"\x05HELLO")), "another command");
        check(&after_greeting(&frame(COMMAND, b"\x05READY")), "names no type");
        check(&after_greeting(&frame(COMMAND, b"\x05READY\x0bSocket-Type\x00\x00\x00\x09SUB")), "cannot be read");
        let mut push = b"\x05READY".to_vec();
        put_property(&mut push, "Socket-Type", b"PUSH");
        check(&after_greeting(&frame(COMMAND, &push)), "no subscriber");
        check(&with_handshake(&[8, 0]), "flags");
        check(&with_handshake(&[5, 0]), "flags");
        check(&with_handshake(&frame(COMMAND, b"")), "without a name");
        check(&with_handshake(&frame(COMMAND, b"\x09SUB")), "without a name");
        check(&with_handshake(&frame(COMMAND, b"\x04PING\x00")), "without its time");
        check(&with_handshake(&frame(COMMAND, b"\x05ERROR\x02no")), "refused");
    }

    #[test]
    fn frames_up_to_the_limit_are_taken() {
        let prefix = vec![b'a'; FRAME_BYTES_MAX - 1];
        let longest = frame(0, &[&[1], &prefix[..]].concat());
        assert_eq!(longest[0], LONG);
        assert_eq!(said(&with_handshake(&longest)).unwrap()[2], Said::Subscribe(prefix.clone()));
        let longer = frame(0, &[&[1, 1], &prefix[..]].concat());
        assert!(said(&with_handshake(&longer)).unwrap_err().0.contains("longer"));
        // The length alone ends it: nothing is gathered for a frame of 2^64 - 1 bytes.
        assert!(said(&with_handshake(&[&[LONG][..], &[0xff; 8]].concat())).unwrap_err().0.contains("longer"));
    }

    #[test]
    fn messages_are_framed() {
        assert_eq!(message(&[b"a", b"", b"bc"]), b"\x01\x01a\x01\x00\x00\x02bc");
        let (short, long) = (vec![7; 255], vec![8; 256]);
        assert_eq!(message(&[&short])[..2], [0, 255]);
        assert_eq!(message(&[&long])[..9], [LONG, 0, 0, 0, 0, 0, 0, 1, 0]);
        assert_eq!(message(&[&long, b"x"])[..1], [LONG | MORE]);
        assert_eq!(ready()[..2], [COMMAND, 25]);
        assert_eq!(pong(b"abc"), b"\x04\x08\x04PONGabc");
    }
}
