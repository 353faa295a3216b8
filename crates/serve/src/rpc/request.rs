//! From a request's body to calls: JSON-RPC 1.0, 1.1 and 2.0, one or many.
//!
//! In:     the body of a POST, within its limit.
//! Out:    [`Body`]: one request or the texts of many; [`Request`]: version, id as it was written, method, arguments.
//! Fails:  [`Refused`] with the error, and the id and version as far as they were understood.
//! Source: Bitcoin Core, `src/rpc/request.cpp` (`JSONRPCRequest::parse`); JSON-RPC 2.0 specification.

use super::error::{RpcError, code};
use super::value::{Member, Type, Value, member};

/// Bytes of an id that we echo: clients count upwards or send a UUID of 36.
pub const ID_BYTES_MAX: usize = 1024;

/// Which rules of answering a request asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// 1.0 and 1.1: errors are HTTP errors too, and every request is answered.
    Legacy,
    /// 2.0.
    Two,
}

/// What a body holds.
#[derive(Debug)]
pub enum Body<'a> {
    /// One request.
    Single(Value<'a>),
    /// A list of them.
    Batch(Vec<Value<'a>>),
}

/// Who is answered, and how.
#[derive(Clone, Copy, Debug)]
pub struct Envelope<'a> {
    /// The id as it was written; none where there was none.
    pub id: Option<Value<'a>>,
    /// The rules asked for.
    pub version: Version,
}

impl Envelope<'_> {
    /// Before anything is known.
    pub const UNKNOWN: Envelope<'static> = Envelope { id: Some(Value::NULL), version: Version::Legacy };

    /// True for a request that wants no answer.
    pub fn is_notification(&self) -> bool {
        self.id.is_none() && self.version == Version::Two
    }
}

/// One request.
#[derive(Debug)]
pub struct Request<'a> {
    /// Who is answered, and how.
    pub envelope: Envelope<'a>,
    /// The method's name.
    pub method: String,
    /// Its arguments.
    pub params: Params<'a>,
}

/// Arguments as they were given.
#[derive(Debug)]
pub enum Params<'a> {
    /// By position.
    List(Vec<Value<'a>>),
    /// By name.
    Named(Vec<Member<'a>>),
}

/// A request that is none, and who is to hear of it.
#[derive(Debug)]
pub struct Refused<'a> {
    /// As far as it was understood.
    pub envelope: Envelope<'a>,
    /// Why.
    pub error: RpcError,
}

fn parse_error(message: &str) -> RpcError {
    RpcError::new(code::PARSE_ERROR, message)
}

/// What the bytes of a body hold; at most `batch_max` requests.
pub fn body(bytes: &[u8], batch_max: usize) -> Result<Body<'_>, RpcError> {
    let text = std::str::from_utf8(bytes).map_err(|_| parse_error("Parse error"))?;
    let value = Value::parse(text).ok_or_else(|| parse_error("Parse error"))?;
    match value.kind() {
        Type::Object => Ok(Body::Single(value)),
        Type::Array => {
            let requests = value.array()?;
            if requests.len() > batch_max {
                let told = format!("Batch of {} requests is too long, the limit is {batch_max}", requests.len());
                return Err(RpcError::new(code::INVALID_REQUEST, told));
            }
            Ok(Body::Batch(requests))
        }
        _ => Err(parse_error("Top-level object parse error")),
    }
}

/// Reads one request.
pub fn request(value: Value<'_>) -> Result<Request<'_>, Refused<'_>> {
    let mut envelope = Envelope::UNKNOWN;
    let invalid = |message: &str| RpcError::new(code::INVALID_REQUEST, message);
    let Ok(members) = value.object() else {
        return Err(Refused { envelope, error: invalid("Invalid Request object") });
    };
    envelope.id = members.iter().find(|(key, _)| key == "id").map(|(_, id)| *id);
    if envelope.id.is_some_and(|id| id.raw().len() > ID_BYTES_MAX) {
        envelope.id = Some(Value::NULL);
        return Err(Refused { envelope, error: invalid("The id is too long") });
    }
    let fail = |envelope, message: &str| Err(Refused { envelope, error: invalid(message) });
    let version = member(&members, "jsonrpc");
    match (version.kind(), version.text().as_deref()) {
        (Type::Null, _) | (_, Ok("1.0")) => {}
        (_, Ok("2.0")) => envelope.version = Version::Two,
        (Type::Text, _) => return fail(envelope, "JSON-RPC version not supported"),
        _ => return fail(envelope, "jsonrpc field must be a string"),
    }
    let method = member(&members, "method");
    let method = match (method.kind(), method.text()) {
        (Type::Null, _) => return fail(envelope, "Missing method"),
        (_, Ok(name)) => name.into_owned(),
        _ => return fail(envelope, "Method must be a string"),
    };
    let params = member(&members, "params");
    let read = match params.kind() {
        Type::Null => Ok(Params::List(Vec::new())),
        Type::Array => params.array().map(Params::List),
        Type::Object => params.object().map(Params::Named),
        _ => Err(invalid("Params must be an array or object")),
    };
    match read {
        Ok(params) => Ok(Request { envelope, method, params }),
        Err(error) => Err(Refused { envelope, error }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_their_mistakes() {
        #[track_caller]
        fn check(text: &str, want: Result<(&str, Version, Option<&str>), &str>) {
            let value = Value::parse(text).unwrap();
            let got = request(value);
            match (got, want) {
                (Ok(got), Ok((method, version, id))) => {
                    assert_eq!((&*got.method, got.envelope.version), (method, version));
                    assert_eq!(got.envelope.id.map(Value::raw), id);
                }
                (Err(got), Err(want)) => assert_eq!(got.error.message, want, "{text}"),
                (got, want) => panic!("{text}: {got:?}, expected {want:?}"),
            }
        }
        check(r#"{"method":"a"}"#, Ok(("a", Version::Legacy, None)));
        check(r#"{"method":"a","id":1.0}"#, Ok(("a", Version::Legacy, Some("1.0"))));
        check(r#"{"jsonrpc":"1.0","method":"a","id":"x"}"#, Ok(("a", Version::Legacy, Some("\"x\""))));
        check(r#"{"jsonrpc":"2.0","method":"a","id":null}"#, Ok(("a", Version::Two, Some("null"))));
        check(r#"{"jsonrpc":"2.0","method":"a"}"#, Ok(("a", Version::Two, None)));
        check(r#"{"jsonrpc":2,"method":"a"}"#, Err("jsonrpc field must be a string"));
        check(r#"{"jsonrpc":"3.0","method":"a"}"#, Err("JSON-RPC version not supported"));
        check(r#"{"id":1}"#, Err("Missing method"));
        check(r#"{"method":1}"#, Err("Method must be a string"));
        check(r#"{"method":"a","params":1}"#, Err("Params must be an array or object"));
        check("[]", Err("Invalid Request object"));
    }

    #[test]
    fn bodies() {
        assert!(matches!(body(b" {\"a\":1} ", 1), Ok(Body::Single(_))));
        assert!(matches!(body(b"[]", 1), Ok(Body::Batch(list)) if list.is_empty()));
        assert!(matches!(body(b"[1,2]", 2), Ok(Body::Batch(list)) if list.len() == 2));
        assert_eq!(body(b"[1,2]", 1).unwrap_err().code, code::INVALID_REQUEST);
        assert_eq!(body(b"1", 1).unwrap_err().message, "Top-level object parse error");
        assert_eq!(body(b"{", 1).unwrap_err().code, code::PARSE_ERROR);
        assert_eq!(body(b"\xff", 1).unwrap_err().code, code::PARSE_ERROR);
    }
}
