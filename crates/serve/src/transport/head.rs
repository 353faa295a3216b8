//! The head of an HTTP request, read within its limits and with one meaning only.
//!
//! In:     bytes as they arrive.
//! Out:    [`Head`], once it is whole, and the bytes behind it.
//! Fails:  [`HeadError`] with the status that answers it.
//! Source: RFC 9110, RFC 9112; the parsing of lines is `httparse`, which `hyper` stands on.

/// Bytes of a head; what Bitcoin Core allows for all headers is the same.
pub const HEAD_BYTES_MAX: usize = 8192;

/// Headers of a request; a browser sends about twenty.
const HEADERS_MAX: usize = 64;

/// A request before its body.
#[derive(Debug, PartialEq, Eq)]
pub struct Head {
    /// `GET`, `POST`, ...
    pub method: String,
    /// What is asked for.
    pub target: String,
    /// True for HTTP/1.1, false for 1.0.
    pub is_1_1: bool,
    headers: Vec<(String, String)>,
}

/// A head that is not served: status, reason, and what is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadError(pub u16, pub &'static str);

impl Head {
    /// The only value of a header; none where there is none.
    pub fn header(&self, name: &str) -> Result<Option<&str>, HeadError> {
        let mut values = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        match (values.next(), values.next()) {
            (first, None) => Ok(first.map(|(_, value)| value.as_str())),
            _ => Err(HeadError(400, "a header is there twice")),
        }
    }

    /// True where one of a header's values, between commas, is this word.
    pub fn has_word(&self, name: &str, word: &str) -> bool {
        let values = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        values.flat_map(|(_, value)| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(word))
    }

    /// True where a header is there at all.
    pub fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
    }
}

/// Reads a head from the front of `bytes`; says how long it is. None where more must come.
pub fn parse(bytes: &[u8]) -> Result<Option<(Head, usize)>, HeadError> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let within = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
    let length = match request.parse(within) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() >= HEAD_BYTES_MAX => {
            return Err(HeadError(431, "the head of the request is longer than 8,192 bytes"));
        }
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(HeadError(431, "more than 64 headers")),
        Err(httparse::Error::Version) => return Err(HeadError(505, "neither HTTP/1.1 nor HTTP/1.0")),
        Err(_) => return Err(HeadError(400, "no request of HTTP")),
    };
    let text = |value: &[u8]| std::str::from_utf8(value).map(str::to_owned);
    let mut known = Vec::with_capacity(request.headers.len());
    for header in request.headers.iter() {
        let value = text(header.value).map_err(|_| HeadError(400, "a header that is not UTF-8"))?;
        known.push((header.name.to_owned(), value));
    }
    let head = Head {
        method: request.method.unwrap_or_default().to_owned(),
        target: request.path.unwrap_or_default().to_owned(),
        is_1_1: request.version == Some(1),
        headers: known,
    };
    Ok(Some((head, length)))
}

/// The words of a status.
pub fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        411 => "Length Required",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        417 => "Expectation Failed",
        426 => "Upgrade Required",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        505 => "HTTP Version Not Supported",
        _ => "Error",
    }
}

/// A short answer after which the connection is closed.
pub fn closing_answer(status: u16, more: &str, why: &str) -> Vec<u8> {
    let (reason, length) = (reason(status), why.len() + 1);
    format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\n{more}\
         Connection: close\r\n\r\n{why}\n"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_have_limits_and_one_meaning() {
        #[track_caller]
        fn check(text: &str, want: Result<Option<usize>, u16>) {
            let got = parse(text.as_bytes()).map(|whole| whole.map(|(_, length)| length));
            assert_eq!(got.map_err(|HeadError(status, _)| status), want, "{text:?}");
        }
        check("POST / HTTP/1.1\r\nHost: a\r\n\r\nbody", Ok(Some(28)));
        check("POST / HTTP/1.1\r\nHost: a\r\n", Ok(None));
        check("", Ok(None));
        check("{\"id\":1}\n", Err(400));
        check("GET / HTTP/2.0\r\n\r\n", Err(505));
        check("GET / HTTP/1.1\r\n folded: x\r\n\r\n", Err(400));
        check("GET / HTTP/1.1\r\nA : x\r\n\r\n", Err(400));
        check("GET / HTTP/1.1\r\nA: \0\r\n\r\n", Err(400));
        let with = |count: usize| format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(count));
        check(&with(HEADERS_MAX), Ok(Some(18 + 6 * HEADERS_MAX)));
        check(&with(HEADERS_MAX + 1), Err(431));
        let long = |length: usize| format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(length - 18));
        check(&long(HEAD_BYTES_MAX), Ok(Some(HEAD_BYTES_MAX)));
        check(&long(HEAD_BYTES_MAX + 1), Err(431));
        let (head, _) = parse(b"GET / HTTP/1.1\r\nA: x\r\na: y\r\nB: p, Q\r\n\r\n").unwrap().unwrap();
        assert_eq!(head.header("a"), Err(HeadError(400, "a header is there twice")));
        assert_eq!((head.header("c"), head.header("b")), (Ok(None), Ok(Some("p, Q"))));
        assert!(head.has_word("b", "q") && head.has_word("a", "y") && !head.has_word("b", "p, Q"));
    }
}
