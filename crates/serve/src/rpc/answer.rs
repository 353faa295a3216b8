//! From a body to its answer: versions, batches, status codes.
//!
//! In:     the body of a POST, and the methods its user may call.
//! Out:    [`Answer`]: an HTTP status, and the text of the answer where there is one.
//! Fails:  never; what fails is told in the answer.
//! Source: Bitcoin Core, `src/httprpc.cpp` (`ExecuteHTTPRPC`), `src/rpc/server.cpp` (`JSONRPCExec`).

use std::time::Instant;

use super::call::Call;
use super::env::Env;
use super::error::{RpcError, code};
use super::method::{Given, Method};
use super::request::{Body, Envelope, Params, Refused, Request, Version, body, request};
use super::table;
use super::value::Value;
use crate::json::Json;

/// An HTTP status, and what stands in the body.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The text; empty for none.
    pub body: Vec<u8>,
}

/// Which methods a user may call.
pub enum Allowed<'a> {
    /// All of them.
    All,
    /// These.
    Only(&'a [String]),
}

impl Allowed<'_> {
    fn allows(&self, method: &str) -> bool {
        match self {
            Allowed::All => true,
            Allowed::Only(methods) => methods.iter().any(|allowed| allowed == method),
        }
    }
}

/// Limits of one body.
#[derive(Clone, Copy, Debug)]
pub struct AnswerLimits {
    /// Requests of a batch.
    pub batch_max: usize,
    /// Bytes of all answers of a batch; what comes after gets an error.
    pub answer_bytes_max: usize,
}

/// Answers a body.
pub fn answer(env: &Env, bytes: &[u8], allowed: &Allowed<'_>, limits: &AnswerLimits) -> Answer {
    match body(bytes, limits.batch_max) {
        Err(error) => refused(&Envelope::UNKNOWN, &error),
        Ok(Body::Single(value)) => single(env, value, allowed),
        Ok(Body::Batch(values)) => batch(env, &values, allowed, limits),
    }
}

const FORBIDDEN: Answer = Answer { status: 403, body: Vec::new() };

/// The HTTP status of an error before 2.0.
fn status_of(error: &RpcError) -> u16 {
    match error.code {
        code::INVALID_REQUEST => 400,
        code::METHOD_NOT_FOUND => 404,
        _ => 500,
    }
}

fn refused(envelope: &Envelope<'_>, error: &RpcError) -> Answer {
    let mut body = Vec::new();
    write_error(envelope, error, &mut body);
    body.push(b'\n');
    let status = if envelope.version == Version::Two { 200 } else { status_of(error) };
    Answer { status, body }
}

fn single(env: &Env, value: Value<'_>, allowed: &Allowed<'_>) -> Answer {
    let request = match request(value) {
        Ok(request) => request,
        Err(Refused { envelope, error }) => return refused(&envelope, &error),
    };
    if !allowed.allows(&request.method) {
        return FORBIDDEN;
    }
    let mut out = Vec::with_capacity(1024);
    let result = execute(env, &request, &mut out);
    if request.envelope.is_notification() {
        return Answer { status: 204, body: Vec::new() };
    }
    let status = match result {
        Err(error) if request.envelope.version == Version::Legacy => status_of(&error),
        _ => 200,
    };
    out.push(b'\n');
    Answer { status, body: out }
}

fn batch(env: &Env, values: &[Value<'_>], allowed: &Allowed<'_>, limits: &AnswerLimits) -> Answer {
    let mut out = vec![b'['];
    let mut answers = 0;
    for value in values {
        let before = out.len();
        if answers > 0 {
            out.push(b',');
        }
        let silent = match request(*value) {
            Ok(request) if !allowed.allows(&request.method) => return FORBIDDEN,
            Ok(request) if before > limits.answer_bytes_max => {
                let told = "The answers of this batch are too long; ask in smaller batches";
                write_error(&request.envelope, &RpcError::new(code::OUT_OF_MEMORY, told), &mut out);
                request.envelope.is_notification()
            }
            Ok(request) => {
                // What failed has been written as its answer.
                let _ = execute(env, &request, &mut out);
                request.envelope.is_notification()
            }
            Err(Refused { envelope, error }) => {
                write_error(&envelope, &error, &mut out);
                envelope.is_notification()
            }
        };
        if silent {
            out.truncate(before);
        } else {
            answers += 1;
        }
    }
    if answers == 0 && !values.is_empty() {
        return Answer { status: 204, body: Vec::new() };
    }
    out.extend_from_slice(b"]\n");
    Answer { status: 200, body: out }
}

/// Runs a request and appends its answer, result or error.
fn execute(env: &Env, request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), RpcError> {
    let start = out.len();
    let envelope = &request.envelope;
    out.extend_from_slice(if envelope.version == Version::Two {
        b"{\"jsonrpc\":\"2.0\",\"result\":"
    } else {
        b"{\"result\":"
    });
    let result = run(env, &request.method, &request.params, out);
    match &result {
        Ok(()) => {
            if envelope.version == Version::Legacy {
                out.extend_from_slice(b",\"error\":null");
            }
            write_id(envelope, out);
            out.push(b'}');
        }
        Err(error) => {
            out.truncate(start);
            write_error(envelope, error, out);
        }
    }
    result
}

/// Runs a method and appends its result.
pub fn run(env: &Env, name: &str, params: &Params<'_>, out: &mut Vec<u8>) -> Result<(), RpcError> {
    let Some((number, method)) = table::find(name) else {
        env.handle()?; // a node that is starting says so first
        env.metrics.unknown_methods.add(1);
        return Err(RpcError::new(code::METHOD_NOT_FOUND, "Method not found"));
    };
    let started = Instant::now();
    let _running = env.begin(method.name);
    let result = arguments(env, method, params, out);
    let counters = &env.metrics.methods[number];
    counters.requests.add(1);
    counters.spent_ns.add(started.elapsed().as_nanos() as u64);
    if let Err(error) = &result {
        env.metrics.errors.add(1);
        if error.fault {
            env.metrics.faults.add(1);
            env.metrics.note_fault(&format!("{}: {}", method.name, error.message));
        }
    }
    result
}

fn arguments(env: &Env, method: &'static Method, params: &Params<'_>, out: &mut Vec<u8>) -> Result<(), RpcError> {
    if !method.runs_while_starting() {
        env.handle()?;
    }
    let mut kept = Vec::new();
    let given = match params {
        Params::List(values) => values.iter().copied().map(Given::Value).collect(),
        Params::Named(members) => method.positional(members, &mut kept)?,
    };
    let values: Vec<Value<'_>> = given
        .into_iter()
        .map(|given| match given {
            Given::Value(value) => value,
            Given::Kept(at) => Value::parse(&kept[at]).expect("made of values"),
        })
        .collect();
    method.check(&values)?;
    (method.run)(&Call { env, method, params: &values }, &mut Json::new(out))
}

fn write_id(envelope: &Envelope<'_>, out: &mut Vec<u8>) {
    if let Some(id) = envelope.id {
        out.extend_from_slice(b",\"id\":");
        out.extend_from_slice(id.raw().as_bytes());
    }
}

fn write_error(envelope: &Envelope<'_>, error: &RpcError, out: &mut Vec<u8>) {
    out.extend_from_slice(match envelope.version {
        Version::Two => b"{\"jsonrpc\":\"2.0\",\"error\":",
        Version::Legacy => b"{\"result\":null,\"error\":",
    });
    error.write(&mut Json::new(out));
    write_id(envelope, out);
    out.push(b'}');
}
