//! A WebSocket: its request to be opened, then frames.
//!
//! In:     bytes as they arrive; pieces of answers, each answer ending with a newline.
//! Out:    whole messages; frames.
//! Fails:  [`Refusal`], after an answer of HTTP or a closing frame that says why.
//! Source: RFC 6455, section 4.2.

use bitcoin_hashes::Sha1;

use super::Refusal;
use super::frames::{Event, FrameError, FrameReader, FrameWriter, code};
use super::head::{self, Head, HeadError};
use super::room::Room;
use crate::keys::base64;

/// What the answer's key is made with (section 1.3).
const KEY_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

enum State {
    /// The bytes of the request so far.
    Opening(Vec<u8>),
    /// Frames go both ways.
    Open,
    /// No more is read, because the client said so or broke a rule; answers still go out.
    Ending,
    /// The request was refused, or the closing frame has been sent.
    Over,
}

/// One end of a WebSocket.
pub struct WebSocket {
    state: State,
    reader: FrameReader,
    writer: FrameWriter,
    /// The newest ping that has not been answered; older ones need no answer (section 5.5.3).
    pong_due: Option<Vec<u8>>,
    /// What goes out before all answers.
    first: Vec<u8>,
    /// The closing frame, sent behind all answers.
    farewell: Option<(u16, &'static str)>,
}

impl WebSocket {
    /// Waiting for the request to open it.
    pub fn new(room: Room) -> WebSocket {
        WebSocket {
            state: State::Opening(Vec::new()),
            reader: FrameReader::new(room),
            writer: FrameWriter::default(),
            pong_due: None,
            first: Vec::new(),
            farewell: None,
        }
    }

    /// True once it is open.
    pub fn is_open(&self) -> bool {
        !matches!(self.state, State::Opening(_))
    }

    /// True once no more is read.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Ending | State::Over)
    }

    /// True while a message has begun and not ended.
    pub fn is_partial(&self) -> bool {
        self.reader.is_partial()
    }

    /// Takes bytes that arrived.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        match &mut self.state {
            State::Ending | State::Over => Ok(()),
            State::Open => self.frames(bytes),
            State::Opening(request) => {
                request.extend_from_slice(bytes);
                match opened(request) {
                    Ok(None) => Ok(()),
                    Ok(Some((answer, length))) => {
                        let rest = request.split_off(length);
                        self.first = answer;
                        self.state = State::Open;
                        self.frames(&rest)
                    }
                    Err(HeadError(status, why)) => {
                        let more = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";
                        self.first = head::closing_answer(status, if status == 426 { more } else { "" }, why);
                        self.state = State::Over;
                        Err(Refusal::WebSocket(why))
                    }
                }
            }
        }
    }

    fn frames(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        self.reader.push(bytes).map_err(|FrameError(code, why)| {
            self.state = State::Ending;
            self.farewell = Some((code, why));
            if code == code::TOO_BIG { Refusal::TooLong } else { Refusal::WebSocket(why) }
        })
    }

    /// The next whole message.
    pub fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            match self.reader.next()? {
                Event::Message(message) => return Some(message),
                Event::Ping(payload) => self.pong_due = Some(payload),
                Event::Close(code) => {
                    self.state = State::Ending;
                    self.farewell.get_or_insert((code.unwrap_or(code::NORMAL), ""));
                    return None;
                }
            }
        }
    }

    /// True where something waits to be sent besides answers.
    pub fn has_output(&self) -> bool {
        !self.first.is_empty() || self.pong_due.is_some()
    }

    /// What goes out before the next answer, then pieces of answers.
    pub fn send(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        out.append(&mut self.first);
        if let Some(payload) = self.pong_due.take() {
            FrameWriter::pong(&payload, out);
        }
        if matches!(self.state, State::Open | State::Ending) {
            self.writer.write(bytes, out);
        }
    }

    /// Says that no more answers will come.
    pub fn close(&mut self, code: u16, reason: &str, out: &mut Vec<u8>) {
        self.send(&[], out);
        if matches!(self.state, State::Open | State::Ending) {
            let (code, reason) = self.farewell.take().unwrap_or((code, reason));
            FrameWriter::close(code, reason, out);
        }
        self.state = State::Over;
    }
}

/// The answer to a request that is whole, and how long the request is.
fn opened(request: &[u8]) -> Result<Option<(Vec<u8>, usize)>, HeadError> {
    let Some((head, length)) = head::parse(request)? else { return Ok(None) };
    Ok(Some((accept(&head)?, length)))
}

/// Accepts a request to open a WebSocket. The target and the origin are not looked at: everything here is public, and
/// nobody is known by a cookie.
fn accept(head: &Head) -> Result<Vec<u8>, HeadError> {
    if head.method != "GET" {
        return Err(HeadError(405, "a WebSocket is opened with GET"));
    }
    if !head.has_word("connection", "upgrade") || !head.has_word("upgrade", "websocket") {
        return Err(HeadError(426, "this port speaks WebSocket only"));
    }
    if !head.is_1_1 || head.header("host")?.is_none() || head.has("content-length") || head.has("transfer-encoding") {
        return Err(HeadError(400, "a WebSocket is opened by a request of HTTP/1.1 with a host and without a body"));
    }
    if head.header("sec-websocket-version")? != Some("13") {
        return Err(HeadError(426, "version 13 of WebSocket is spoken here"));
    }
    let key = head.header("sec-websocket-key")?.unwrap_or_default();
    if key.len() != 24 || base64::decode(key).is_none_or(|bytes| bytes.len() != 16) {
        return Err(HeadError(400, "Sec-WebSocket-Key is 16 bytes in base 64"));
    }
    let proof = base64::encode(Sha1::hash(format!("{key}{KEY_SUFFIX}").as_bytes()).as_byte_array());
    Ok(format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {proof}\r\n\r\n"
    )
    .into_bytes())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::room::RoomLimits;
    use super::*;
    use crate::metrics::Metrics;

    const REQUEST: &str = "GET /any HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

    fn socket() -> WebSocket {
        let limits = RoomLimits { message_bytes_max: 100, own_bytes: 64, shared_bytes_max: 1 << 20 };
        WebSocket::new(Room::new(Arc::new(Metrics::new([])), limits))
    }

    fn sent(socket: &mut WebSocket, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        socket.send(bytes, &mut out);
        out
    }

    #[test]
    fn it_opens_however_the_request_is_cut_and_keeps_what_follows() {
        // The key and its proof are RFC 6455's own (section 1.3).
        let want = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
            Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
        let bytes = [REQUEST.as_bytes(), &[0x81, 0x82, 0, 0, 0, 0], b"hi"].concat();
        for cut in [1, 10, 100_000] {
            let mut socket = socket();
            bytes.chunks(cut).for_each(|piece| socket.push(piece).unwrap());
            assert!(socket.is_open() && socket.has_output());
            assert_eq!(socket.next(), Some(b"hi".to_vec()));
            let out = sent(&mut socket, b"ab\n");
            assert_eq!(out, [want.as_bytes(), &[0x81, 2], b"ab"].concat());
            assert!(!socket.has_output());
        }
    }

    #[test]
    fn requests_that_open_nothing() {
        #[track_caller]
        fn check(from: &str, to: &str, status: u16) {
            let mut socket = socket();
            let request = REQUEST.replacen(from, to, 1);
            assert!(matches!(socket.push(request.as_bytes()), Err(Refusal::WebSocket(_))), "{request}");
            let out = String::from_utf8(sent(&mut socket, b"an answer\n")).unwrap();
            assert!(out.starts_with(&format!("HTTP/1.1 {status} ")) && !out.contains("an answer"), "{out}");
            assert_eq!(out.contains("Sec-WebSocket-Version: 13"), status == 426);
            let mut rest = Vec::new();
            socket.close(1000, "", &mut rest);
            assert!(rest.is_empty(), "no frames where no WebSocket was opened");
        }
        check("GET", "POST", 405);
        check("Upgrade: websocket", "Upgrade: h2c", 426);
        check("keep-alive, Upgrade", "keep-alive", 426);
        check("Version: 13", "Version: 8", 426);
        check("HTTP/1.1", "HTTP/1.0", 400);
        check("Host: a", "X: a", 400);
        check("Host: a", "Host: a\r\nContent-Length: 3", 400);
        check("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25j", 400);
        check("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZQ\r\nSec-WebSocket-Key: x", 400);
        check(" /any", "", 400);
    }

    #[test]
    fn only_the_newest_ping_is_answered_and_closing_is_answered_once() {
        let mut socket = socket();
        socket.push(REQUEST.as_bytes()).unwrap();
        sent(&mut socket, b"");
        for payload in 0..200u8 {
            socket.push(&[0x89, 0x81, 0, 0, 0, 0, payload]).unwrap();
            assert_eq!(socket.next(), None);
        }
        assert_eq!(sent(&mut socket, b""), [0x8a, 1, 199]);
        socket.push(&[0x88, 0x82, 0, 0, 0, 0, 3, 0xe9]).unwrap();
        assert_eq!((socket.next(), socket.is_closed()), (None, true));
        socket.push(b"whatever comes now is not read").unwrap();
        let mut out = sent(&mut socket, b"late\n");
        socket.close(1000, "", &mut out);
        assert_eq!(out, [&[0x81, 4][..], b"late", &[0x88, 2, 3, 0xe9]].concat());
    }

    #[test]
    fn a_broken_frame_closes_with_its_code() {
        let mut socket = socket();
        socket.push(REQUEST.as_bytes()).unwrap();
        sent(&mut socket, b"");
        assert_eq!(socket.push(&[0x81, 0xfe, 0, 200, 0, 0, 0, 0]), Err(Refusal::TooLong));
        let mut out = sent(&mut socket, b"why\n");
        socket.close(1000, "", &mut out);
        assert_eq!(out[..5], *b"\x81\x03why");
        assert_eq!(out[5..9], [0x88, 23, 3, 0xf1]);
    }
}
