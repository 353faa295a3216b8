//! From a line of text to requests: JSON-RPC 1.0 and 2.0, single or in a batch.
//!
//! In:     one line, without its newline, of at most `Limits::line_bytes_max` bytes.
//! Out:    [`Line`]: where each request lies in the line; [`Request`]: one of them, fields still as text.
//! Fails:  [`Error`] with code -32700 or -32600. Depth of nesting cannot exhaust the stack: what is skipped is skipped
//!         without recursion, and values are only ever read as numbers, strings and short lists of strings.
//! Source: JSON-RPC 2.0 specification, sections 4 to 6.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::error::Error;
use super::limits::{ID_BYTES_MAX, PARAMS_MAX};

/// The requests of one line, as ranges of its bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// Nothing but white space.
    Blank,
    /// One request.
    Single,
    /// A batch, at least one long.
    Batch(Vec<Range<usize>>),
}

/// Finds the requests of a line.
pub fn split(line: &[u8], batch_requests_max: usize) -> Result<Line, Error> {
    let text = std::str::from_utf8(line).map_err(|_| Error::NotUtf8)?;
    let Some(first) = text.bytes().find(|byte| !byte.is_ascii_whitespace()) else {
        return Ok(Line::Blank);
    };
    if first != b'[' {
        return Ok(Line::Single);
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let elements = (&mut deserializer)
        .deserialize_seq(Elements { max: batch_requests_max })
        .and_then(|elements| deserializer.end().map(|()| elements))
        .map_err(|_| Error::Parse)?;
    let Some(elements) = elements else {
        return Err(Error::BatchTooLong { max: batch_requests_max });
    };
    if elements.is_empty() {
        return Err(Error::EmptyBatch);
    }
    let start_of = |raw: &RawValue| raw.get().as_ptr() as usize - text.as_ptr() as usize;
    Ok(Line::Batch(elements.iter().map(|raw| start_of(raw)..start_of(raw) + raw.get().len()).collect()))
}

/// Takes at most `max` elements of a list; none where there are more.
struct Elements {
    max: usize,
}

impl<'de> Visitor<'de> for Elements {
    type Value = Option<Vec<&'de RawValue>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = seq.next_element::<&'de RawValue>()? {
            if elements.len() == self.max {
                // The rest is read and forgotten, so that the line as a whole is known to be JSON or not.
                while seq.next_element::<serde::de::IgnoredAny>()?.is_some() {}
                return Ok(None);
            }
            elements.push(element);
        }
        Ok(Some(elements))
    }
}

/// One request.
#[derive(Debug)]
pub struct Request<'a> {
    /// The `id` to echo, as it was written; none for a notification, which gets no answer.
    pub id: Option<&'a str>,
    /// True for JSON-RPC 2.0: the answer carries `jsonrpc` and either `result` or `error`, not both.
    pub two: bool,
    /// The method's name.
    pub method: Cow<'a, str>,
    /// The parameters.
    pub params: Params<'a>,
}

/// Parameters as text, by position or by name.
#[derive(Debug)]
pub enum Params<'a> {
    /// By position; absent parameters are an empty list.
    List(Vec<&'a RawValue>),
    /// By name.
    Map(Vec<(Cow<'a, str>, &'a RawValue)>),
    /// Neither a list nor an object, or one too long.
    Wrong,
}

/// What could be read of a request that is none: the `id`, so that the client learns which one failed.
#[derive(Debug)]
pub struct Refused<'a> {
    /// The `id` to echo.
    pub id: Option<&'a str>,
    /// As [`Request::two`].
    pub two: bool,
    /// Why.
    pub error: Error,
}

#[derive(serde::Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
}

#[derive(serde::Deserialize)]
struct Response<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(default, deserialize_with = "some")]
    method: bool,
    #[serde(default, deserialize_with = "some")]
    result: bool,
    #[serde(default, deserialize_with = "some")]
    error: bool,
}

/// Reads over a value that is there.
fn some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    serde::de::IgnoredAny::deserialize(deserializer).map(|_| true)
}

/// The `id` of what is no request but the answer to one of ours, whatever it says.
pub fn response_id(text: &str) -> Option<&str> {
    let response: Response<'_> = serde_json::from_str(text).ok()?;
    let is_one = !response.method && (response.result || response.error) && text.trim_start().starts_with('{');
    is_one.then(|| response.id.get())
}

/// Reads a value that is there, `null` included, which `Option` alone would read as absent.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// A string, borrowed where it has no escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Cow<'de, str>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E: serde::de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(text))
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Cow::Owned(text.to_owned()))
            }
        }
        deserializer.deserialize_str(TextVisitor).map(Text)
    }
}

/// Reads one request out of its text.
pub fn parse(text: &str) -> Result<Request<'_>, Refused<'_>> {
    let refuse = |id, two, error| Refused { id, two, error };
    let envelope: Envelope<'_> = serde_json::from_str(text).map_err(|error| {
        let error = match error.classify() {
            serde_json::error::Category::Data => Error::InvalidRequest("one object with each member once is expected"),
            _ => Error::Parse,
        };
        refuse(Some("null"), true, error)
    })?;
    // A list of four would otherwise pass for an object: that is how a derived reader takes structures.
    if !text.trim_start().starts_with('{') {
        return Err(refuse(Some("null"), true, Error::InvalidRequest("a request is an object")));
    }
    let two = match envelope.jsonrpc.map(RawValue::get) {
        None | Some("null" | "\"1.0\"") => false,
        Some("\"2.0\"") => true,
        Some(_) => return Err(refuse(Some("null"), true, Error::InvalidRequest("jsonrpc is neither 1.0 nor 2.0"))),
    };
    let id = match envelope.id.map(RawValue::get) {
        Some(id) if id.len() > ID_BYTES_MAX || id.starts_with(['{', '[', 't', 'f']) => {
            let error = Error::InvalidRequest("id is neither a short string nor a number");
            return Err(refuse(Some("null"), two, error));
        }
        id => id,
    };
    let method = envelope.method.and_then(|method| serde_json::from_str::<Text<'_>>(method.get()).ok());
    let Some(Text(method)) = method else {
        return Err(refuse(id.or(Some("null")), two, Error::InvalidRequest("method is not a string")));
    };
    let params = envelope.params.map_or(Params::List(Vec::new()), |params| read_params(params.get()));
    Ok(Request { id, two, method, params })
}

fn read_params(text: &str) -> Params<'_> {
    match text.as_bytes()[0] {
        b'[' => match serde_json::Deserializer::from_str(text).deserialize_seq(Elements { max: PARAMS_MAX }) {
            Ok(Some(list)) => Params::List(list),
            _ => Params::Wrong,
        },
        b'{' => serde_json::Deserializer::from_str(text).deserialize_map(Members).map_or(Params::Wrong, Params::Map),
        // JSON-RPC 1.0 clients send null for none.
        b'n' => Params::List(Vec::new()),
        _ => Params::Wrong,
    }
}

/// Takes the members of an object: each once, and at most [`PARAMS_MAX`].
struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members: Vec<(Cow<'de, str>, &'de RawValue)> = Vec::new();
        while let Some((Text(name), value)) = map.next_entry::<Text<'de>, &'de RawValue>()? {
            if members.len() == PARAMS_MAX || members.iter().any(|(known, _)| *known == name) {
                return Err(A::Error::custom("too many, or one twice"));
            }
            members.push((name, value));
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_split_into_requests() {
        #[track_caller]
        fn check(line: &str, want: Result<&[&str], Error>) {
            let got = split(line.as_bytes(), 3);
            let texts = got.map(|line_is| match line_is {
                Line::Blank => vec![],
                Line::Single => vec!["single"],
                Line::Batch(ranges) => ranges.into_iter().map(|range| &line[range]).collect(),
            });
            assert_eq!(texts.as_deref().map_err(Clone::clone), want, "{line}");
        }
        check("", Ok(&[]));
        check(" \r\t", Ok(&[]));
        check("{}", Ok(&["single"]));
        check("anything", Ok(&["single"]));
        check(" [ {\"a\":1} , 2\t,[3]]\r", Ok(&["{\"a\":1}", "2", "[3]"]));
        check("[]", Err(Error::EmptyBatch));
        check("[1,2,3,4]", Err(Error::BatchTooLong { max: 3 }));
        check("[1,2,3,4", Err(Error::Parse));
        check("[1,2", Err(Error::Parse));
        check("[1]x", Err(Error::Parse));
        check("[1,]", Err(Error::Parse));
        assert_eq!(split(b"\xff", 3), Err(Error::NotUtf8));
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert!(matches!(split(deep.as_bytes(), 3), Ok(Line::Batch(one)) if one.len() == 1));
    }

    #[test]
    fn requests_are_read_and_the_rest_refused() {
        #[track_caller]
        fn check(text: &str, want: Result<(Option<&str>, bool, &str), (Option<&str>, bool, i32)>) {
            let got = parse(text);
            let got = got.as_ref().map(|r| (r.id, r.two, &*r.method)).map_err(|r| (r.id, r.two, r.error.code()));
            assert_eq!(got, want, "{text}");
        }
        check(r#"{"id":1,"method":"m"}"#, Ok((Some("1"), false, "m")));
        check(r#"{"jsonrpc":"1.0","id":null,"method":"m"}"#, Ok((Some("null"), false, "m")));
        check(r#"{"jsonrpc":"2.0","id":"a\u0062","method":"a\u0062"}"#, Ok((Some(r#""a\u0062""#), true, "ab")));
        check(r#"{"jsonrpc":"2.0","method":"m"}"#, Ok((None, true, "m")));
        check(r#"{"id":1.50e3,"method":"m","more":[[]]}"#, Ok((Some("1.50e3"), false, "m")));
        check(r#"{"id":{},"method":"m"}"#, Err((Some("null"), false, -32600)));
        check(r#"{"id":[1],"method":"m"}"#, Err((Some("null"), false, -32600)));
        check(r#"{"id":true,"method":"m"}"#, Err((Some("null"), false, -32600)));
        check(&format!(r#"{{"id":"{}","method":"m"}}"#, "x".repeat(127)), Err((Some("null"), false, -32600)));
        check(r#"{"jsonrpc":"3.0","id":1,"method":"m"}"#, Err((Some("null"), true, -32600)));
        check(r#"{"jsonrpc":2.0,"id":1,"method":"m"}"#, Err((Some("null"), true, -32600)));
        check(r#"{"id":1,"method":7}"#, Err((Some("1"), false, -32600)));
        check(r#"{"id":1}"#, Err((Some("1"), false, -32600)));
        check(r#"{}"#, Err((Some("null"), false, -32600)));
        check(r#"{"id":1,"id":2,"method":"m"}"#, Err((Some("null"), true, -32600)));
        for scalar in ["1", "null", "\"x\"", "true", "[]", r#"["2.0",1,"m",[]]"#] {
            check(scalar, Err((Some("null"), true, -32600)));
        }
        for broken in ["{", "x", "{\"id\":1}}", "\u{feff}{}", "\0", "GET / HTTP/1.1"] {
            check(broken, Err((Some("null"), true, -32700)));
        }
    }

    #[test]
    fn answers_to_us_are_known_from_requests() {
        for (text, want) in [
            (r#"{"jsonrpc":"2.0","id":"ping-1","result":{"data":""}}"#, Some("\"ping-1\"")),
            (r#"{"id":7,"result":null,"error":{"code":-32601}}"#, Some("7")),
            (r#"{"id":7,"error":null,"result":null}"#, Some("7")),
            (r#"{"id":7,"method":"server.ping","result":1}"#, None),
            (r#"{"id":7}"#, None),
            (r#"{"result":1}"#, None),
            (r#"[7,false,true,true]"#, None),
            ("{", None),
        ] {
            assert_eq!(response_id(text), want, "{text}");
        }
    }

    #[test]
    fn params_are_bounded() {
        #[track_caller]
        fn check(params: &str, want: Option<usize>) {
            let text = format!(r#"{{"id":1,"method":"m","params":{params}}}"#);
            let got = match parse(&text).expect("a request").params {
                Params::List(list) => Some(list.len()),
                Params::Map(map) => Some(map.len()),
                Params::Wrong => None,
            };
            assert_eq!(got, want, "{params}");
        }
        check("[]", Some(0));
        check("null", Some(0));
        check("[1,[2,[3]],{}]", Some(3));
        check(r#"{"a":1,"b":2}"#, Some(2));
        check(r#"{"a":1,"\u0061":2}"#, None);
        check("7", None);
        check("\"x\"", None);
        check(&format!("[{}1]", "1,".repeat(PARAMS_MAX - 1)), Some(PARAMS_MAX));
        check(&format!("[{}1]", "1,".repeat(PARAMS_MAX)), None);
        check(&("[".repeat(100_000) + &"]".repeat(100_000)), Some(1));
    }
}
