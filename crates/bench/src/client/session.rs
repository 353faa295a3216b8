//! A client that measures: requests out, answers in, and the time between.
//!
//! In:     an [`Address`]; requests as JSON text.
//! Out:    [`Took`] for whoever times, parsed results for whoever compares.
//! Fails:  [`Failure`], which says in a word what became of the request.
//!
//! Texts are made before the clock starts and parsed after it stopped.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Address, Wire};

/// The versions a client of today asks for.
const VERSIONS: [&str; 2] = ["1.4", "1.6"];
/// How wallets call themselves is what some servers go by; this one is nobody else.
const NAME: &str = "assay-bench";

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// Nothing came in time.
    Timeout,
    /// The connection is gone.
    Closed(String),
    /// The server said no.
    Refused {
        /// JSON-RPC's code.
        code: i64,
        /// Its words.
        message: String,
    },
    /// What came is no answer.
    Strange(String),
}

impl Failure {
    /// In a word, to count by.
    pub fn kind(&self) -> String {
        match self {
            Failure::Timeout => "timeout".to_owned(),
            Failure::Closed(_) => "closed".to_owned(),
            Failure::Refused { code, .. } => format!("error {code}"),
            Failure::Strange(_) => "no answer".to_owned(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Timeout => f.write_str("no answer in time"),
            Failure::Closed(text) => write!(f, "connection: {text}"),
            Failure::Refused { code, message } => write!(f, "error {code}: {message}"),
            Failure::Strange(text) => write!(f, "no answer: {text}"),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Failure::Timeout,
            _ => Failure::Closed(error.to_string()),
        }
    }
}

/// How an exchange went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Took {
    /// From the first byte sent to the last one received.
    pub time: Duration,
    /// Bytes of the answers, padding left out.
    pub bytes: usize,
    /// Whether an error is among the answers.
    pub has_error: bool,
}

impl Took {
    /// In microseconds.
    pub fn us(&self) -> f64 {
        self.time.as_secs_f64() * 1e6
    }
}

/// A session with a server.
pub struct Client {
    wire: Wire,
    address: Address,
    deadline: Duration,
    /// What the server calls itself, and the version agreed on.
    pub software: String,
    /// The version agreed on.
    pub protocol: String,
    next_id: u64,
}

/// A request's text.
pub fn request(id: u64, method: &str, parameters: &Value) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{parameters}}}"#)
}

/// A batch's text.
pub fn batch<'a>(requests: impl IntoIterator<Item = &'a (&'static str, Value)>) -> String {
    let texts = requests.into_iter().zip(0..).map(|((method, parameters), id)| request(id, method, parameters));
    format!("[{}]", texts.collect::<Vec<_>>().join(","))
}

impl Client {
    /// Connects and agrees on a version.
    pub fn open(address: &Address, deadline: Duration) -> Result<Client, Failure> {
        let wire = Wire::connect(address, deadline)?;
        let (software, protocol) = (String::new(), String::new());
        let mut client = Client { wire, address: address.clone(), deadline, software, protocol, next_id: 1 };
        let agreed = client.call("server.version", json!([NAME, VERSIONS]))?;
        let text = |index: usize| agreed[index].as_str().map(str::to_owned);
        let (Some(software), Some(protocol)) = (text(0), text(1)) else {
            return Err(Failure::Strange(format!("server.version: {agreed}")));
        };
        (client.software, client.protocol) = (software, protocol);
        Ok(client)
    }

    /// The same on a new connection, for what comes late on the old one is nobody's answer.
    pub fn again(&self) -> Result<Client, Failure> {
        Client::open(&self.address, self.deadline)
    }

    /// Sends a text and waits for this many answers; notices between them are passed over.
    pub fn exchange(&mut self, text: &str, answers: usize) -> Result<Took, Failure> {
        let before = Instant::now();
        self.wire.send(text)?;
        let mut took = Took { time: Duration::ZERO, bytes: 0, has_error: false };
        let mut left = answers;
        while left > 0 {
            let message = self.wire.receive()?;
            if is_notice(message) {
                continue;
            }
            left -= 1;
            if left == 0 {
                took.time = before.elapsed();
            }
            took.bytes += message.len();
            took.has_error |= has_error(message);
        }
        Ok(took)
    }

    /// Sends a text and parses its one answer; the time ends before the parsing begins.
    fn answer(&mut self, text: &str) -> Result<(Value, Took), Failure> {
        let before = Instant::now();
        self.wire.send(text)?;
        loop {
            let message = self.wire.receive()?;
            if !is_notice(message) {
                let took = Took { time: before.elapsed(), bytes: message.len(), has_error: false };
                let answer = serde_json::from_slice(message).map_err(|error| Failure::Strange(error.to_string()))?;
                return Ok((answer, took));
            }
        }
    }

    /// The result of one request, and how it went.
    pub fn timed_answer(&mut self, text: &str) -> Result<(Value, Took), Failure> {
        let (answer, took) = self.answer(text)?;
        Ok((result_of(answer)?, took))
    }

    /// The next message if it is a notice, parsed.
    pub fn notice(&mut self) -> Result<Option<Value>, Failure> {
        let message = self.wire.receive()?;
        if !is_notice(message) {
            return Ok(None);
        }
        serde_json::from_slice(message).map(Some).map_err(|error| Failure::Strange(error.to_string()))
    }

    /// A method's result.
    pub fn call(&mut self, method: &'static str, parameters: Value) -> Result<Value, Failure> {
        self.next_id += 1;
        let text = request(self.next_id, method, &parameters);
        self.timed_answer(&text).map(|(result, _)| result)
    }

    /// The results of a batch, in its order, and how long it took until its last byte was there.
    pub fn call_all(&mut self, page: &[(&'static str, Value)]) -> Result<(Vec<Result<Value, Failure>>, f64), Failure> {
        let (answer, took) = self.answer(&batch(page))?;
        in_order(answer, page.len()).map(|results| (results, took.time.as_secs_f64()))
    }
}

/// What is told without having been asked for: members come in any order, but `method` is among the first.
fn is_notice(message: &[u8]) -> bool {
    let start = String::from_utf8_lossy(&message[..message.len().min(100)]);
    message.first() == Some(&b'{') && (start.contains("\"method\":") || start.contains("\"method\" :"))
}

fn has_error(message: &[u8]) -> bool {
    // Of what is answered nothing but an error is called so; some servers add one that is null.
    let text = String::from_utf8_lossy(message);
    let mut rest = text.as_ref();
    while let Some(at) = rest.find("\"error\"") {
        rest = rest[at + 7..].trim_start_matches([':', ' ']);
        if !rest.starts_with("null") {
            return true;
        }
    }
    false
}

fn result_of(mut answer: Value) -> Result<Value, Failure> {
    match &answer["error"] {
        Value::Null => match answer.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => Err(Failure::Strange(short(&answer))),
        },
        error => Err(Failure::Refused {
            code: error["code"].as_i64().unwrap_or(0),
            message: error["message"].as_str().map_or_else(|| short(error), str::to_owned),
        }),
    }
}

fn in_order(answer: Value, count: usize) -> Result<Vec<Result<Value, Failure>>, Failure> {
    let all = match answer {
        Value::Array(all) => all,
        one => return Err(result_of(one).err().unwrap_or_else(|| Failure::Strange("no batch".to_owned()))),
    };
    let mut by_id: BTreeMap<u64, Result<Value, Failure>> =
        all.into_iter().filter_map(|one| Some((one["id"].as_u64()?, result_of(one)))).collect();
    let missing = || Err(Failure::Strange("a batch with an answer missing".to_owned()));
    Ok((0..count as u64).map(|id| by_id.remove(&id).unwrap_or_else(missing)).collect())
}

/// The start of a value as text.
pub fn short(value: &Value) -> String {
    value.to_string().chars().take(120).collect()
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
