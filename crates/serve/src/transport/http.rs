//! Requests as bodies of HTTP's POST, each with its answer in a body.
//!
//! In:     bytes as they arrive; pieces of answers, and where each answer ends.
//! Out:    bodies as messages; responses with a length where the answer is whole at once, in chunks where it is long.
//! Fails:  [`Refusal`], with a response that says why among the bytes to send.
//! Source: RFC 9110, RFC 9112.
//!
//! A body has the length its head says. Chunked requests are refused, and after a refusal nothing more is read: there is
//! never a second opinion on where a request ends.

use std::collections::VecDeque;

use super::Refusal;
use super::head::{self, Head, HeadError};
use super::room::Room;

/// The response to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Response {
    status: u16,
    is_1_1: bool,
    keeps_alive: bool,
    has_begun: bool,
}

/// One connection.
pub struct Http {
    room: Room,
    bytes: Vec<u8>,
    /// The request whose body is being read, and the body's length.
    body: Option<(Response, usize)>,
    /// Responses that are due, in order.
    responses: VecDeque<Response>,
    /// What goes out before the next response.
    first: Vec<u8>,
    /// No more is read.
    is_closed: bool,
}

impl Http {
    /// Nothing read yet.
    pub fn new(room: Room) -> Http {
        Http { room, bytes: Vec::new(), body: None, responses: VecDeque::new(), first: Vec::new(), is_closed: false }
    }

    /// Takes bytes that arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        if !self.is_closed {
            self.bytes.extend_from_slice(bytes);
            self.room.hold(self.bytes.capacity());
        }
    }

    /// True once no more is read.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// True while a request has begun and not ended.
    pub fn is_partial(&self) -> bool {
        self.body.is_some() || !self.bytes.is_empty()
    }

    /// The next whole body.
    pub fn next(&mut self) -> Result<Option<Vec<u8>>, Refusal> {
        if self.is_closed {
            return Ok(None);
        }
        if self.body.is_none() {
            let parsed = head::parse(&self.bytes).and_then(|whole| match whole {
                Some((head, length)) => Ok(Some((self.judge(&head)?, length))),
                None => Ok(None),
            });
            match parsed {
                Ok(None) => return Ok(None),
                Ok(Some((body, length))) => {
                    self.bytes.drain(..length);
                    self.body = Some(body);
                }
                Err(error) => return Err(self.refuse(error)),
            }
        }
        let (response, length) = self.body.expect("it was read just now");
        if self.room.is_too_long(length) {
            // Its answer is an error of the protocol, made by whoever owns the session.
            self.is_closed = true;
            self.responses.push_back(Response { status: 413, keeps_alive: false, ..response });
            return Err(Refusal::TooLong);
        }
        if self.bytes.len() < length {
            return Ok(None);
        }
        let rest = self.bytes.split_off(length);
        let body = std::mem::replace(&mut self.bytes, rest);
        self.room.hold(self.bytes.capacity());
        self.body = None;
        self.is_closed = !response.keeps_alive;
        self.responses.push_back(response);
        Ok(Some(body))
    }

    fn refuse(&mut self, HeadError(status, why): HeadError) -> Refusal {
        self.is_closed = true;
        self.bytes = Vec::new();
        self.room.hold(0);
        let more = if status == 405 { "Allow: POST\r\n" } else { "" };
        self.first.extend_from_slice(&head::closing_answer(status, more, why));
        Refusal::Http(why)
    }

    /// Whether a request is one we serve, and how long its body is.
    fn judge(&mut self, head: &Head) -> Result<(Response, usize), HeadError> {
        if head.method != "POST" {
            return Err(HeadError(405, "requests come with POST"));
        }
        if head.has("transfer-encoding") {
            return Err(HeadError(501, "send the body with a Content-Length, not in chunks"));
        }
        if head.is_1_1 && head.header("host")?.is_none() {
            return Err(HeadError(400, "a request of HTTP/1.1 names its host"));
        }
        let digits = head.header("content-length")?.ok_or(HeadError(411, "the body has no Content-Length"))?;
        if digits.is_empty() || digits.len() > 18 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(HeadError(400, "Content-Length is no number"));
        }
        let length: usize = digits.parse().map_err(|_| HeadError(400, "Content-Length is no number"))?;
        // A page in a browser cannot send this type to a foreign server unasked.
        let kind = head.header("content-type")?.unwrap_or_default();
        if !kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")) {
            return Err(HeadError(415, "the body's type is application/json"));
        }
        match head.header("expect")? {
            None => {}
            Some(word) if word.eq_ignore_ascii_case("100-continue") && !self.room.is_too_long(length) => {
                if self.responses.is_empty() {
                    self.first.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                }
            }
            Some(word) if word.eq_ignore_ascii_case("100-continue") => {}
            Some(_) => return Err(HeadError(417, "an expectation that is not met")),
        }
        let keeps_alive = match head.is_1_1 {
            true => !head.has_word("connection", "close"),
            false => head.has_word("connection", "keep-alive"),
        };
        Ok((Response { status: 200, is_1_1: head.is_1_1, keeps_alive, has_begun: false }, length))
    }

    /// True where something waits to be sent besides answers.
    pub fn has_output(&self) -> bool {
        !self.first.is_empty()
    }

    /// Writes a piece of an answer, or its end. Refusals of the head go behind the answers that are due.
    pub fn send(&mut self, bytes: &[u8], is_end: bool, out: &mut Vec<u8>) {
        let Some(response) = self.responses.front_mut() else {
            out.append(&mut self.first);
            return;
        };
        if !response.has_begun && is_end {
            response.write_whole(bytes, out);
        } else if response.is_1_1 {
            if !response.has_begun && !bytes.is_empty() {
                response.write_head("Transfer-Encoding: chunked\r\n", out);
            }
            if !bytes.is_empty() {
                out.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
                out.extend_from_slice(bytes);
                out.extend_from_slice(b"\r\n");
            }
            if is_end {
                out.extend_from_slice(b"0\r\n\r\n");
            }
        } else if !bytes.is_empty() {
            // HTTP/1.0 knows no chunks: the end of the connection is the end of the answer.
            if !response.has_begun {
                response.keeps_alive = false;
                response.write_head("", out);
            }
            out.extend_from_slice(bytes);
        }
        if is_end {
            self.is_closed |= !response.keeps_alive;
            self.responses.pop_front();
            if self.responses.is_empty() {
                out.append(&mut self.first);
            }
        }
    }
}

impl Response {
    fn write_head(&mut self, more: &str, out: &mut Vec<u8>) {
        self.has_begun = true;
        let (version, status, reason) = (u8::from(self.is_1_1), self.status, head::reason(self.status));
        let kept = match (self.keeps_alive, self.is_1_1) {
            (true, true) => "",
            (true, false) => "Connection: keep-alive\r\n",
            (false, _) => "Connection: close\r\n",
        };
        let kind = if status == 204 { "" } else { "Content-Type: application/json\r\n" };
        let head = format!("HTTP/1.{version} {status} {reason}\r\n{kind}{more}{kept}\r\n");
        out.extend_from_slice(head.as_bytes());
    }

    /// An answer that is whole; an empty one, to nothing but notifications, has no body.
    fn write_whole(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        match bytes {
            [] => {
                self.status = 204;
                self.write_head("", out);
            }
            bytes => {
                self.write_head(&format!("Content-Length: {}\r\n", bytes.len()), out);
                out.extend_from_slice(bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::room::RoomLimits;
    use super::*;
    use crate::metrics::Metrics;

    fn http() -> Http {
        let limits = RoomLimits { message_bytes_max: 100, own_bytes: 64, shared_bytes_max: 1 << 20 };
        Http::new(Room::new(Arc::new(Metrics::new([])), limits))
    }

    fn post(headers: &str, body: &str) -> String {
        let length = body.len();
        format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        )
    }

    fn sent(http: &mut Http, bytes: &[u8], is_end: bool) -> String {
        let mut out = Vec::new();
        http.send(bytes, is_end, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn bodies_are_messages_however_they_are_cut() {
        let bytes = [post("", "one"), post("", ""), post("Connection: close\r\n", &"x".repeat(100))].concat();
        for cut in [1, 7, 50, 100_000] {
            let mut http = http();
            let mut got = Vec::new();
            for piece in bytes.as_bytes().chunks(cut) {
                http.push(piece);
                while let Some(body) = http.next().unwrap() {
                    got.push(body);
                }
            }
            assert_eq!(got, [b"one".to_vec(), vec![], vec![b'x'; 100]], "cut every {cut}");
            assert!(http.is_closed() && !http.is_partial());
            assert_eq!(
                sent(&mut http, b"{}\n", true),
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 3\r\n\r\n{}\n"
            );
            assert_eq!(sent(&mut http, b"", true), "HTTP/1.1 204 No Content\r\n\r\n");
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\
                Connection: close\r\n\r\n";
            assert_eq!(sent(&mut http, b"[1,", false), format!("{head}3\r\n[1,\r\n"));
            assert_eq!(sent(&mut http, b"", false), "");
            assert_eq!(sent(&mut http, b"2]\n", true), "3\r\n2]\n\r\n0\r\n\r\n");
            assert_eq!(sent(&mut http, b"nobody asked", true), "");
        }
    }

    #[test]
    fn http_1_0_is_answered_until_the_end_of_the_connection() {
        let request = post("Connection: keep-alive\r\n", "{}").replace("1.1", "1.0");
        let mut http = http();
        http.push([request.as_bytes(), request.as_bytes()].concat().as_slice());
        assert!(http.next().unwrap().is_some() && http.next().unwrap().is_some());
        assert_eq!(
            sent(&mut http, b"1\n", true),
            "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\n1\n"
        );
        let head = "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n";
        assert_eq!(sent(&mut http, b"1", false), format!("{head}1"));
        assert!(!http.is_closed());
        assert_eq!(sent(&mut http, b"2\n", true), "2\n");
        assert!(http.is_closed());
    }

    #[test]
    fn requests_that_are_refused() {
        #[track_caller]
        fn check(request: &str, status: u16) {
            let mut http = http();
            http.push(request.as_bytes());
            let refused = http.next();
            assert!(refused.is_err(), "{request:?}");
            let is_long = refused == Err(Refusal::TooLong);
            let out = sent(&mut http, if is_long { b"too long\n" } else { b"" }, is_long);
            assert!(out.starts_with(&format!("HTTP/1.1 {status} ")), "{out}");
            assert!(out.contains("Connection: close"), "{out}");
            http.push(post("", "smuggled").as_bytes());
            assert_eq!(http.next(), Ok(None), "nothing is read behind a refusal");
        }
        check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 405);
        check("OPTIONS / HTTP/1.1\r\nHost: a\r\n\r\n", 405);
        check("POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\r\n", 411);
        check(&post("Transfer-Encoding: chunked\r\n", "{}"), 501);
        check(&post("Content-Length: 2\r\n", "{}"), 400);
        check(&post("", "{}").replace("Length: 2", "Length: +2"), 400);
        check(&post("", "{}").replace("Length: 2", "Length: 2, 2"), 400);
        check(&post("", "{}").replace("Length: 2", "Length: 99999999999999999999"), 400);
        check(&post("", "{}").replace("Length: 2", "Length: 101"), 413);
        check(&post("Expect: 100-continue\r\n", "{}").replace("Length: 2", "Length: 101"), 413);
        check(&post("", "{}").replace("Host", "X"), 400);
        check(&post("", "{}").replace("application/json", "text/plain"), 415);
        check(&post("Expect: a\r\n", "{}"), 417);
        check(&post("", "{}").replace("1.1", "2.0"), 505);
        check("\u{16}\u{3}\u{1}\u{2}\u{0}", 400);
        check(&format!("POST /{} HTTP/1.1\r\n", "x".repeat(head::HEAD_BYTES_MAX)), 431);
    }

    #[test]
    fn expectations_are_met_once_and_pipelines_answered_in_order() {
        let mut http = http();
        http.push(&post("Expect: 100-continue\r\n", "{}").as_bytes()[..101]);
        assert_eq!(http.next(), Ok(None));
        assert!(http.has_output());
        assert_eq!(sent(&mut http, b"", false), "HTTP/1.1 100 Continue\r\n\r\n");
        let mut http = super::tests::http();
        http.push(format!("{}BAD\r\n\r\n", post("", "1").repeat(3)).as_bytes());
        for _ in 0..3 {
            assert_eq!(http.next(), Ok(Some(b"1".to_vec())));
        }
        assert!(matches!(http.next(), Err(Refusal::Http(_))));
        for _ in 0..2 {
            assert!(sent(&mut http, b"1\n", true).ends_with("\r\n\r\n1\n"));
        }
        let last = sent(&mut http, b"1\n", true);
        assert!(last.contains("1\nHTTP/1.1 400 "), "the refusal comes behind the answers: {last}");
    }
}
