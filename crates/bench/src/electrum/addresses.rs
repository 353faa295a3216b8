//! `assay bench addresses`: balance, history and unspent outputs of scripts of every size, from every server in turn.
//!
//! In:     servers, [`Probe`]s, passes.
//! Out:    [`Answers`]: for each server, question and script the first time apart and those of the passes after it; which
//!         answers differed.
//! Fails:  when a server is gone. A refusal is written down as such and is no time; an answer that is not the others' is
//!         an error at the end.
//!
//! Servers take turns at every single question, each time another first; scripts come in another order in every pass.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use stdx::random::Random;

use super::arguments::{PassOptions, Server};
use super::scripts::Probe;
use crate::BenchError;
use crate::client::{Client, Failure, request, short};

/// What took longer than this the first time is asked for in one pass more only: its times vary little, and a bench ends.
const LONG_US: f64 = 3e6;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Question {
    /// The sum of what is unspent.
    Balance,
    /// Every transaction.
    History,
    /// Every unspent output.
    Unspent,
}

impl Question {
    /// All of them.
    pub const ALL: [Question; 3] = [Question::Balance, Question::History, Question::Unspent];

    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Question::Balance => "balance",
            Question::History => "history",
            Question::Unspent => "unspent",
        }
    }

    fn method(self) -> &'static str {
        match self {
            Question::Balance => "blockchain.scripthash.get_balance",
            Question::History => "blockchain.scripthash.get_history",
            Question::Unspent => "blockchain.scripthash.listunspent",
        }
    }
}

/// How one server answered one question about one script.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Times {
    /// The first time, in microseconds.
    pub cold_us: f64,
    /// In each pass afterwards, in microseconds.
    pub warm_us: Vec<f64>,
    /// Bytes of the answer.
    pub bytes: usize,
    /// Why there is none.
    pub refused: Option<String>,
}

/// Answers that are not the same.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Differing {
    /// What was asked.
    pub question: Question,
    /// About which script.
    pub hash: String,
    /// What each group of servers says, in short.
    pub said: Vec<(Vec<String>, String)>,
}

/// Everything that was measured.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// By server, question and script, as they were given.
    pub times: BTreeMap<(usize, Question, usize), Times>,
    /// Where servers say different things.
    pub differing: Vec<Differing>,
    /// CPU time of this process for each exchange, in microseconds.
    pub own_cpu_us: f64,
}

/// Asks everything of everyone.
pub fn ask(servers: &[Server], probes: &[Probe], options: &PassOptions) -> Result<Answers, BenchError> {
    let timeout = Duration::from_secs(options.timeout_s);
    let open = |server: &Server| Client::open(&server.address, timeout).map_err(|failure| gone(server, &failure));
    let mut clients: Vec<Client> = servers.iter().map(open).collect::<Result<_, _>>()?;
    let mut all = Answers::default();
    first_pass(servers, &mut clients, probes, &mut all)?;
    let start = crate::measure::Start::now()?;
    let (mut random, mut exchanges) = (Random::new(1), 0u64);
    for pass in 1..=options.passes {
        eprintln!("pass {pass} of {}", options.passes);
        let mut order: Vec<usize> = (0..probes.len()).collect();
        random.shuffle(&mut order);
        for (turn, probe) in order.into_iter().enumerate() {
            for question in Question::ALL {
                let text = text_of(question, &probes[probe]);
                for server in rotated(servers.len(), turn + pass as usize) {
                    exchanges += 1;
                    again(&servers[server], &mut clients[server], &text, all.at(server, question, probe))?;
                }
            }
        }
    }
    all.own_cpu_us = start.usage()?.cpu_s() * 1e6 / exchanges.max(1) as f64;
    Ok(all)
}

fn text_of(question: Question, probe: &Probe) -> String {
    request(1, question.method(), &json!([probe.hash]))
}

/// All of `count`, beginning with another one each turn.
pub fn rotated(count: usize, turn: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |index| (index + turn) % count)
}

fn gone(server: &Server, failure: &Failure) -> BenchError {
    BenchError::Wrong(format!("{}: {failure}", server.name))
}

impl Answers {
    fn at(&mut self, server: usize, question: Question, probe: usize) -> &mut Times {
        self.times.entry((server, question, probe)).or_default()
    }
}

/// The first time anything is asked: what comes is also compared.
fn first_pass(
    servers: &[Server],
    clients: &mut [Client],
    probes: &[Probe],
    all: &mut Answers,
) -> Result<(), BenchError> {
    eprintln!("first pass over {} scripts", probes.len());
    for (index, probe) in probes.iter().enumerate() {
        // Whatever is asked first about a script finds it colder than the rest does.
        for question in rotated(Question::ALL.len(), index).map(|place| Question::ALL[place]) {
            let text = text_of(question, probe);
            let mut said = vec![Value::Null; servers.len()];
            for server in rotated(servers.len(), index) {
                let times = all.at(server, question, index);
                match clients[server].timed_answer(&text) {
                    Ok((result, took)) => {
                        (times.cold_us, times.bytes) = (took.us(), took.bytes);
                        said[server] = comparable(question, result);
                    }
                    Err(failure @ (Failure::Refused { .. } | Failure::Timeout)) => {
                        times.refused = Some(failure.to_string());
                        if failure == Failure::Timeout {
                            // What comes late would be taken for the next answer.
                            clients[server] =
                                clients[server].again().map_err(|failure| gone(&servers[server], &failure))?;
                        }
                    }
                    Err(Failure::Closed(text)) => {
                        times.refused = Some(format!("connection: {text}"));
                        clients[server] =
                            clients[server].again().map_err(|failure| gone(&servers[server], &failure))?;
                    }
                    Err(failure) => return Err(gone(&servers[server], &failure)),
                }
            }
            all.differing.extend(differing(question, probe, servers, &said));
        }
    }
    Ok(())
}

fn again(server: &Server, client: &mut Client, text: &str, times: &mut Times) -> Result<(), BenchError> {
    if times.refused.is_some() || (times.cold_us > LONG_US && !times.warm_us.is_empty()) {
        return Ok(());
    }
    match client.exchange(text, 1) {
        Ok(took) if took.has_error => times.refused = Some("answered once, refused later".to_owned()),
        Ok(took) => times.warm_us.push(took.us()),
        Err(failure) => {
            times.refused = Some(failure.to_string());
            *client = client.again().map_err(|failure| gone(server, &failure))?;
        }
    }
    Ok(())
}

/// Histories have one order; unspent outputs have none that servers agree on.
fn comparable(question: Question, mut result: Value) -> Value {
    if let (Question::Unspent, Value::Array(outputs)) = (question, &mut result) {
        let key = |output: &Value| {
            let text = |name: &str| output[name].as_str().unwrap_or_default().to_owned();
            (output["height"].as_i64(), text("tx_hash"), output["tx_pos"].as_u64())
        };
        outputs.sort_by_cached_key(key);
    }
    result
}

/// Groups of servers that say the same; none where all who answered agree.
fn differing(question: Question, probe: &Probe, servers: &[Server], said: &[Value]) -> Option<Differing> {
    let mut groups: Vec<(&Value, Vec<String>)> = Vec::new();
    for (server, value) in servers.iter().zip(said).filter(|(_, value)| !value.is_null()) {
        match groups.iter_mut().find(|(known, _)| *known == value) {
            Some((_, names)) => names.push(server.name.clone()),
            None => groups.push((value, vec![server.name.clone()])),
        }
    }
    if groups.len() < 2 {
        return None;
    }
    let describe = |value: &Value| match value {
        Value::Array(all) => format!("{} entries: {}", all.len(), short(value)),
        _ => short(value),
    };
    let said = groups.into_iter().map(|(value, names)| (names, describe(value))).collect();
    Some(Differing { question, hash: probe.hash.clone(), said })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str) -> Server {
        format!("{name}=tcp://127.0.0.1:1").parse().unwrap()
    }

    #[test]
    fn servers_take_turns_at_being_first() {
        assert_eq!(rotated(3, 0).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(rotated(3, 4).collect::<Vec<_>>(), [1, 2, 0]);
    }

    #[test]
    fn unspent_outputs_have_no_order_and_histories_have_one() {
        let (a, b) = (json!({ "height": 2, "tx_hash": "a" }), json!({ "height": 1, "tx_hash": "b" }));
        let same = |question| comparable(question, json!([a, b])) == comparable(question, json!([b, a]));
        assert!(same(Question::Unspent));
        assert!(!same(Question::History));
    }

    #[test]
    fn those_who_answer_must_agree() {
        let probe = Probe { hash: "00".to_owned(), entries: 1, unspent: 1 };
        let servers = ["a", "b", "c"].map(server);
        let of = |said: [Value; 3]| differing(Question::Balance, &probe, &servers, &said).map(|found| found.said);
        assert_eq!(of([json!(1), Value::Null, json!(1)]), None);
        let want = vec![(vec!["a".to_owned(), "c".to_owned()], "1".to_owned()), (vec!["b".to_owned()], "2".to_owned())];
        assert_eq!(of([json!(1), json!(2), json!(1)]), Some(want));
    }
}
