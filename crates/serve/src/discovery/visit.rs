//! One visit: what we ask another server, and whether its answers make it one to tell of.
//!
//! In:     what we know of the chain, lines that it sends.
//! Out:    lines to send; at the end an [`Outcome`].
//! Fails:  as [`Outcome::Bad`] where an answer is wrong or not so, [`Outcome::Unreached`] where it is an error.
//! Source: Electrum protocol, docs/protocol-peers.rst; ElectrumX, `server/peers.py` (`_verify_peer`).

use serde_json::{Value, json};

use super::book::{Findings, Outcome};
use super::server::{Host, Server};
use crate::electrum::version;

/// Blocks that two servers may be apart while both are right.
const HEIGHTS_APART_MAX: u64 = 5;
/// Blocks below the lower tip at which both have the same header: short branches come and go.
const BRANCH_MAX: u64 = 10;
/// Bytes of one line: a list of 1,000 servers has 100 KB.
pub const LINE_BYTES_MAX: usize = 1 << 20;
/// Lines of one visit: five answers, and notices that nobody asked for.
const LINES_MAX: u32 = 100;
/// Letters of a version that are kept.
const VERSION_LETTERS_MAX: usize = 10;

/// What a visitor knows, and what he wants.
pub struct Visitor {
    /// What we call ourselves.
    pub name: String,
    /// The first block's hash, as it is shown.
    pub genesis_hash: String,
    /// Our tip.
    pub height: u32,
    /// A header of ours at a height up to the tip, as digits; none where it cannot be read.
    pub header: Box<dyn Fn(u32) -> Option<String> + Send>,
    /// The network's usual ports for lines, without TLS and with it.
    pub usual_ports: [u16; 2],
    /// Ourselves, to announce; nobody where nothing is to be announced.
    pub ours: Vec<Server>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send this line, and read on.
    Send(String),
    /// Read on.
    Wait,
    /// That is all.
    Done(Outcome),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Version,
    Features,
    Tip,
    Header { height: u32 },
    Servers,
    Announced,
}

/// One visit.
pub struct Visit {
    host: Host,
    visitor: Visitor,
    asked: Asked,
    id: u32,
    lines: u32,
    findings: Findings,
}

impl Visit {
    /// The visit of a host, and the first line to send.
    pub fn new(host: Host, visitor: Visitor) -> (Visit, String) {
        let (asked, findings) = (Asked::Version, Findings::default());
        let mut visit = Visit { host, visitor, asked, id: 0, lines: 0, findings };
        let versions = json!([visit.visitor.name, [version::OLDEST.to_string(), version::NEWEST.to_string()]]);
        let first = visit.ask(Asked::Version, "server.version", versions);
        (visit, first)
    }

    fn ask(&mut self, asked: Asked, method: &str, params: Value) -> String {
        self.asked = asked;
        self.id += 1;
        json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params }).to_string() + "\n"
    }

    /// Takes a line.
    pub fn take(&mut self, line: &[u8]) -> Step {
        self.lines += 1;
        if self.lines > LINES_MAX {
            return Step::Done(Outcome::Bad("it sends more than it was asked for".to_owned()));
        }
        let Ok(mut answer) = serde_json::from_slice::<Value>(line) else {
            return Step::Done(Outcome::Bad("a line is no JSON".to_owned()));
        };
        if answer["id"] != self.id {
            // A notice, since we ask for the tip; or a request, which has an answer of no interest to it.
            return Step::Wait;
        }
        if answer.get("error").is_some_and(|error| !error.is_null()) {
            // Whoever does not want to be told of us is none the worse for it.
            return Step::Done(match self.asked {
                Asked::Announced => Outcome::Good(std::mem::take(&mut self.findings)),
                asked => Outcome::Unreached(format!("{asked:?} is answered by an error")),
            });
        }
        match self.answered(answer["result"].take()) {
            Ok(step) => step,
            Err(why) => Step::Done(Outcome::Bad(why)),
        }
    }

    fn answered(&mut self, result: Value) -> Result<Step, String> {
        let line = match self.asked {
            Asked::Version => {
                let both = result.as_array().filter(|both| both.len() == 2 && both.iter().all(Value::is_string));
                both.ok_or("server.version is answered by no pair of texts")?;
                self.ask(Asked::Features, "server.features", json!([]))
            }
            Asked::Features => {
                self.look_at_features(&result)?;
                self.ask(Asked::Tip, "blockchain.headers.subscribe", json!([]))
            }
            Asked::Tip => {
                let height = self.height_to_compare(&result)?;
                self.ask(Asked::Header { height }, "blockchain.block.header", json!([height]))
            }
            Asked::Header { height } => {
                let ours = (self.visitor.header)(height);
                if ours.is_none() {
                    return Ok(Step::Done(Outcome::Unreached("we have no header to compare".to_owned())));
                }
                if result.as_str() != ours.as_deref() {
                    return Err(format!("another header at height {height}"));
                }
                self.ask(Asked::Servers, "server.peers.subscribe", json!([]))
            }
            Asked::Servers => {
                let rows = result.as_array().ok_or("server.peers.subscribe is answered by no list")?;
                let usual = self.visitor.usual_ports;
                self.findings.others = rows.iter().filter_map(|row| Server::of_row(row, usual)).collect();
                match self.announcement() {
                    Some(features) => self.ask(Asked::Announced, "server.add_peer", json!([features])),
                    None => return Ok(Step::Done(Outcome::Good(std::mem::take(&mut self.findings)))),
                }
            }
            Asked::Announced => return Ok(Step::Done(Outcome::Good(std::mem::take(&mut self.findings)))),
        };
        Ok(Step::Send(line))
    }

    fn look_at_features(&mut self, features: &Value) -> Result<(), String> {
        if features["genesis_hash"] != *self.visitor.genesis_hash {
            return Err("another chain: its genesis_hash is not ours".to_owned());
        }
        let servers = Server::of_features(&features["hosts"]);
        let own = servers.into_iter().find(|server| server.host == self.host);
        self.findings.ports = own.ok_or("it is not among its own hosts")?.ports;
        let newest = features["protocol_max"].as_str().unwrap_or("1.4");
        let is_version = |text: &str| {
            text.len() <= VERSION_LETTERS_MAX && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        };
        self.findings.newest = if is_version(newest) { newest.to_owned() } else { "1.4".to_owned() };
        Ok(())
    }

    /// Where both chains must be the same.
    fn height_to_compare(&self, tip: &Value) -> Result<u32, String> {
        let theirs = tip["height"].as_u64().ok_or("its tip has no height")?;
        let ours = u64::from(self.visitor.height);
        if theirs.abs_diff(ours) > HEIGHTS_APART_MAX {
            return Err(format!("its height is {theirs}, ours {ours}"));
        }
        // At most ours, which is a u32.
        Ok(theirs.min(ours).saturating_sub(BRANCH_MAX) as u32)
    }

    /// What to say of ourselves, where it does not tell of us yet as we are.
    fn announcement(&self) -> Option<Value> {
        // Whoever sees both of our names knows that they are of one server: each is told only where it is at home.
        let ours = self.visitor.ours.iter().find(|own| own.host.is_onion() == self.host.is_onion())?;
        let is_told = |other: &Server| other.host == ours.host && other.ports[..2] == ours.ports[..2];
        if self.findings.others.iter().any(is_told) {
            return None;
        }
        Some(json!({
            "hosts": Server::hosts(std::slice::from_ref(ours)),
            "genesis_hash": self.visitor.genesis_hash,
            "hash_function": "sha256",
            "server_version": self.visitor.name,
            "protocol_min": version::OLDEST.to_string(),
            "protocol_max": version::NEWEST.to_string(),
            "pruning": null,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us() -> Vec<Server> {
        Server::of_settings("tcp://us.org:1", [None; 4]).unwrap()
    }

    fn visit(ours: Vec<Server>) -> Visit {
        let visitor = Visitor {
            name: "us".into(),
            genesis_hash: "00ff".into(),
            height: 100,
            header: Box::new(|height| Some(format!("header {height}"))),
            usual_ports: [50_001, 50_002],
            ours,
        };
        Visit::new(Host::Name("a.org".into()), visitor).0
    }

    fn answers() -> [Value; 5] {
        [
            json!(["a server", "1.6"]),
            json!({"genesis_hash": "00ff", "hosts": {"A.org": {"ssl_port": 7}, "b.org": {}}, "protocol_max": "1.6"}),
            json!({"height": 103, "hex": ""}),
            json!("header 90"),
            json!([["1.1.1.1", "c.org", ["v1.4", "t", "s9"]], "odd"]),
        ]
    }

    /// Answers one after the other; what was asked, and what came of it.
    fn run(mut visit: Visit, answers: &[Value]) -> (Vec<String>, Outcome) {
        let mut asked = Vec::new();
        for (id, answer) in (1..).zip(answers) {
            let line = json!({"jsonrpc": "2.0", "id": id, "result": answer}).to_string();
            match visit.take(line.as_bytes()) {
                Step::Send(line) => {
                    let request: Value = serde_json::from_str(&line).unwrap();
                    asked.push(format!("{} {}", request["method"].as_str().unwrap(), request["params"]));
                }
                Step::Wait => panic!("an answer is an answer"),
                Step::Done(outcome) => return (asked, outcome),
            }
        }
        panic!("it does not end: {asked:?}");
    }

    #[test]
    fn a_good_server_is_asked_five_things_and_told_of_us() {
        let (asked, outcome) = run(visit(Vec::new()), &answers());
        let want = [
            "server.features []",
            "blockchain.headers.subscribe []",
            "blockchain.block.header [90]",
            "server.peers.subscribe []",
        ];
        assert_eq!(asked, want);
        let others = Server::of_settings("tcp://c.org:50001 ssl://c.org:9", [None; 4]).unwrap();
        let ports = [None, Some(7), None, None];
        let findings = Findings { address: None, ports, newest: "1.6".into(), others };
        assert_eq!(outcome, Outcome::Good(findings));
        // It is told of us, unless it tells of us already as we are.
        let (asked, outcome) = run(visit(us()), &[&answers()[..], &[json!(false)]].concat());
        assert!(asked[4].starts_with("server.add_peer [{\"hosts\":{\"us.org\":{\"tcp_port\":1}}"), "{asked:?}");
        assert!(matches!(outcome, Outcome::Good(_)));
        let mut knows = answers();
        knows[4] = json!([["2.2.2.2", "us.org", ["v1.4", "t1"]]]);
        assert_eq!(run(visit(us()), &knows).0.len(), 4);
        knows[4] = json!([["2.2.2.2", "us.org", ["v1.4", "t2"]]]);
        assert_eq!(run(visit(us()), &[&knows[..], &[json!(true)]].concat()).0.len(), 5, "the port has changed");
    }

    #[test]
    fn one_that_is_not_what_it_says_is_found_out() {
        #[track_caller]
        fn check(at: usize, answer: Value, why: &str) {
            let mut all = answers();
            all[at] = answer;
            let (_, outcome) = run(visit(Vec::new()), &all);
            let Outcome::Bad(said) = &outcome else { panic!("{outcome:?}") };
            assert!(said.contains(why), "{said}");
        }
        check(0, json!("a server"), "no pair");
        check(0, json!(["a server", 1.4]), "no pair");
        check(1, json!({"genesis_hash": "00fe", "hosts": {"a.org": {}}}), "another chain");
        check(1, json!(null), "another chain");
        check(1, json!({"genesis_hash": "00ff", "hosts": {"b.org": {"tcp_port": 1}}}), "own hosts");
        check(1, json!({"genesis_hash": "00ff"}), "own hosts");
        check(2, json!({"height": 106}), "height is 106");
        check(2, json!({"height": 94}), "height is 94");
        check(2, json!({"height": -1}), "no height");
        check(2, json!([]), "no height");
        check(3, json!("header 91"), "another header");
        check(3, json!(null), "another header");
        check(4, json!({}), "no list");
    }

    #[test]
    fn what_it_tells_unasked_is_passed_over_and_has_an_end() {
        let mut one = visit(Vec::new());
        let notice = br#"{"method":"blockchain.headers.subscribe","params":[{"height":1}]}"#;
        for _ in 0..LINES_MAX {
            assert_eq!(one.take(notice), Step::Wait);
        }
        assert!(matches!(one.take(notice), Step::Done(Outcome::Bad(_))));
        assert!(matches!(visit(Vec::new()).take(b"hello"), Step::Done(Outcome::Bad(_))));
        let error = br#"{"id":1,"error":{"code":-101,"message":"excessive"}}"#;
        assert!(matches!(visit(Vec::new()).take(error), Step::Done(Outcome::Unreached(_))));
        let odd = br#"{"id":1,"error":null,"result":["x","1.4"]}"#;
        assert!(matches!(visit(Vec::new()).take(odd), Step::Send(_)));
    }
}
