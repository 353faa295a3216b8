//! Core's REST interface: blocks, headers, transactions and coins without a password.
//!
//! In:     paths with `.bin`, `.hex` or `.json` behind, and a query.
//! Out:    [`RestAnswer`]: status, type and bytes.
//! Fails:  with Core's statuses and sentences, as plain text.
//! Source: Bitcoin Core 31, `src/rest.cpp`; BIP 64 for coins.

pub mod blocks;
pub mod coins;
pub mod filters;

use crate::rpc::env::Env;
use crate::rpc::error::{RpcError, code};

/// What every path begins with.
pub const PREFIX: &str = "/rest/";
/// Longest path and query that we look at: 15 outpoints take 1,200 characters.
const TARGET_BYTES_MAX: usize = 4096;

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub struct RestAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// As bytes.
    Binary,
    /// As hexadecimal digits.
    Hex,
    /// As JSON.
    Json,
}

/// Why there is no answer: a status, and a sentence.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused {
    status: u16,
    text: String,
}

/// What a path leads to.
type Answered = Result<RestAnswer, Refused>;

impl Refused {
    pub(crate) fn new(status: u16, text: impl Into<String>) -> Refused {
        Refused { status, text: text.into() }
    }

    pub(crate) fn bad(text: impl Into<String>) -> Refused {
        Refused::new(400, text)
    }

    pub(crate) fn missing(text: impl Into<String>) -> Refused {
        Refused::new(404, text)
    }

    /// No format, or one that this path does not have.
    pub(crate) fn format(available: &str) -> Refused {
        Refused::missing(format!("output format not found (available: {available})"))
    }
}

impl From<RpcError> for Refused {
    fn from(error: RpcError) -> Refused {
        match error.code {
            code::IN_WARMUP => Refused::new(503, format!("Service temporarily unavailable: {}", error.message)),
            code::INVALID_ADDRESS_OR_KEY => Refused::missing(error.message),
            code::INVALID_PARAMETER => Refused::bad(error.message),
            _ => Refused::new(500, error.message),
        }
    }
}

impl From<chain::ViewError> for Refused {
    fn from(error: chain::ViewError) -> Refused {
        RpcError::from(error).into()
    }
}

/// The formats of paths that have all three.
pub(crate) const ALL_FORMATS: &str = ".bin, .hex, .json";

/// A path behind its prefix, and its query.
pub(crate) struct Target<'a> {
    /// Without the format.
    pub path: &'a str,
    /// The format, where one is named that exists.
    pub format: Option<Format>,
    query: Option<&'a str>,
}

impl<'a> Target<'a> {
    fn of(text: &'a str, query: Option<&'a str>) -> Target<'a> {
        let formats = [(".bin", Format::Binary), (".hex", Format::Hex), (".json", Format::Json)];
        for (ending, format) in formats {
            if let Some(path) = text.strip_suffix(ending) {
                return Target { path, format: Some(format), query };
            }
        }
        Target { path: text, format: None, query }
    }

    /// A value of the query.
    pub fn query(&self, name: &str) -> Option<&'a str> {
        let pairs = self.query.unwrap_or_default().split('&');
        pairs.filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// The format, which must be named.
    pub fn format(&self) -> Result<Format, Refused> {
        self.format.ok_or_else(|| Refused::format(ALL_FORMATS))
    }

    /// JSON, which must be named.
    pub fn json(&self) -> Result<(), Refused> {
        if self.format == Some(Format::Json) { Ok(()) } else { Err(Refused::format("json")) }
    }
}

/// JSON that `write` appends.
pub(crate) fn json_answer<E: Into<Refused>>(
    write: impl FnOnce(&mut crate::json::Json<'_>) -> Result<(), E>,
) -> Answered {
    let mut body = Vec::new();
    write(&mut crate::json::Json::new(&mut body)).map_err(Into::into)?;
    body.push(b'\n');
    Ok(RestAnswer { status: 200, content_type: "application/json", body })
}

/// Bytes, or their digits.
pub(crate) fn bytes_answer(format: Format, bytes: Vec<u8>) -> Answered {
    if format == Format::Binary {
        return Ok(RestAnswer { status: 200, content_type: "application/octet-stream", body: bytes });
    }
    let mut body = Vec::with_capacity(2 * bytes.len() + 1);
    crate::json::push_hex(&mut body, &bytes);
    body.push(b'\n');
    Ok(RestAnswer { status: 200, content_type: "text/plain", body })
}

/// 32 bytes as Core shows them.
pub(crate) fn hash_of(text: &str) -> Result<[u8; 32], Refused> {
    let mut bytes = stdx::hex::decode_array::<32>(text).map_err(|_| Refused::bad(format!("Invalid hash: {text}")))?;
    bytes.reverse();
    Ok(bytes)
}

/// Answers a path with its query; `body` is that of a POST.
pub fn answer(env: &Env, target: &str, body: &[u8]) -> RestAnswer {
    let found = if target.len() > TARGET_BYTES_MAX {
        Err(Refused::new(414, "The path is too long"))
    } else {
        dispatch(env, target, body)
    };
    found.unwrap_or_else(|Refused { status, text }| RestAnswer {
        status,
        content_type: "text/plain",
        body: format!("{text}\r\n").into_bytes(),
    })
}

fn dispatch(env: &Env, target: &str, body: &[u8]) -> Answered {
    env.handle()?;
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let below = path.strip_prefix(PREFIX).unwrap_or_default();
    let handlers: [(&str, fn(&Env, &Target<'_>) -> Answered); 13] = [
        ("tx/", coins::tx),
        ("block/notxdetails/", blocks::block_without_details),
        ("block/", blocks::block),
        ("blockpart/", blocks::block_part),
        ("chaininfo", blocks::chain_info),
        ("mempool/", coins::mempool),
        ("headers/", blocks::headers),
        ("deploymentinfo/", blocks::deployment_info),
        ("deploymentinfo", blocks::deployment_info),
        ("blockhashbyheight/", blocks::block_hash_by_height),
        ("spenttxouts/", blocks::spent_tx_outs),
        ("blockfilter/", filters::block_filter),
        ("blockfilterheaders/", filters::filter_headers),
    ];
    for (prefix, handler) in handlers {
        if let Some(rest) = below.strip_prefix(prefix) {
            return handler(env, &Target::of(rest, query));
        }
    }
    if let Some(rest) = below.strip_prefix("getutxos") {
        return coins::utxos(env, &Target::of(rest, query), body);
    }
    Err(Refused::missing(""))
}
