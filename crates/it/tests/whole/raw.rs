//! A client of lines, and the comparison of everything a server says with the book.
//!
//! In:     an address, a book.
//! Out:    answers as JSON.
//! Fails:  panics with the first answer that differs from the book.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use primitives::ScriptHash;
use primitives::hash::sha256;
use primitives::script::is_unspendable;
use serde_json::{Value, json};
use sim::book::Book;
use stdx::hex;

use crate::node::PATIENCE;

/// Requests in one batch; what Sparrow sends.
const BATCH: usize = 100;

/// One connection that has greeted.
pub struct Raw {
    stream: BufReader<TcpStream>,
    /// Notifications that came between answers.
    pub told: Vec<Value>,
}

impl Raw {
    /// Connects and greets.
    #[track_caller]
    pub fn connect(address: SocketAddr) -> Raw {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut raw = Raw { stream: BufReader::new(stream), told: Vec::new() };
        raw.call("server.version", json!(["it", "1.4"]));
        raw
    }

    fn send(&mut self, value: &Value) {
        self.stream.get_mut().write_all(format!("{value}\n").as_bytes()).unwrap();
    }

    #[track_caller]
    fn read(&mut self) -> Value {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("an answer");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// The whole answer to one request.
    #[track_caller]
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
        loop {
            let answer = self.read();
            if answer.get("id").is_some() {
                return answer;
            }
            self.told.push(answer);
        }
    }

    /// The result of one request.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let mut answer = self.ask(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].take()
    }

    /// The results of a batch.
    #[track_caller]
    pub fn batch(&mut self, method: &str, params: &[Value]) -> Vec<Value> {
        let requests = params.iter().enumerate();
        let requests =
            requests.map(|(id, params)| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        self.send(&Value::Array(requests.collect()));
        loop {
            let answer = self.read();
            let Value::Array(answers) = answer else {
                self.told.push(answer);
                continue;
            };
            let result = |(id, mut answer): (usize, Value)| {
                assert!(answer["id"] == id && answer.get("error").is_none(), "{method} {}: {answer}", params[id]);
                answer["result"].take()
            };
            return answers.into_iter().enumerate().map(result).collect();
        }
    }

    /// The next notification, waiting for it.
    #[track_caller]
    pub fn next_told(&mut self) -> Value {
        if self.told.is_empty() { self.read() } else { self.told.remove(0) }
    }

    /// Waits until addresses are answered.
    #[track_caller]
    pub fn wait_ready(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.ask("blockchain.scripthash.get_balance", json!(["00".repeat(32)]));
            if answer.get("error").is_none() {
                return;
            }
            assert_eq!(answer["error"]["code"], -28, "{answer}");
            assert!(answer["error"]["message"].as_str().unwrap().starts_with("syncing: index at height "), "{answer}");
            assert!(Instant::now() < deadline, "never ready: {answer}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Every script of the chain that can hold a coin.
pub fn scripts(book: &Book) -> Vec<ScriptHash> {
    let mut all = BTreeSet::new();
    for height in 1..=book.height() {
        for tx in book.block(height).txs() {
            let spendable = tx.outputs().filter(|output| !is_unspendable(output.script));
            all.extend(spendable.map(|output| ScriptHash::of(output.script)));
        }
    }
    all.into_iter().collect()
}

/// A status as the protocol writes it: over the book's history and what waits unconfirmed, as `get_mempool` lists it.
/// Transactions of blocks that left the chain come back that way.
pub fn status_text(book: &Book, script: &ScriptHash, waiting: &Value) -> Value {
    let confirmed = book.history(script).iter().map(|entry| format!("{}:{}:", entry.txid, entry.height));
    let waiting = waiting.as_array().unwrap().iter();
    let waiting = waiting.map(|entry| format!("{}:{}:", entry["tx_hash"].as_str().unwrap(), entry["height"]));
    let text: String = confirmed.chain(waiting).collect();
    if text.is_empty() { Value::Null } else { json!(hex::encode(&sha256(text.as_bytes()))) }
}

/// What waits unconfirmed of each script.
#[track_caller]
pub fn waiting(raw: &mut Raw, scripts: &[ScriptHash]) -> Vec<Value> {
    let params: Vec<Value> = scripts.iter().map(|script| json!([script.to_string()])).collect();
    params.chunks(BATCH).flat_map(|some| raw.batch("blockchain.scripthash.get_mempool", some)).collect()
}

/// Compares tip, and of every script history, unspent outputs, balance and status, with the book; how many scripts. Where
/// something waits unconfirmed, it is at the end of the history, and the book does not know what it does to the coins.
#[track_caller]
pub fn compare(raw: &mut Raw, book: &Book) -> usize {
    let tip = raw.call("blockchain.headers.subscribe", json!([]));
    assert_eq!(tip, json!({"height": book.height(), "hex": hex::encode(&book.header(book.height()).encode())}));
    let scripts = scripts(book);
    for some in scripts.chunks(BATCH) {
        let params: Vec<Value> = some.iter().map(|script| json!([script.to_string()])).collect();
        let histories = raw.batch("blockchain.scripthash.get_history", &params);
        let coins = raw.batch("blockchain.scripthash.listunspent", &params);
        let balances = raw.batch("blockchain.scripthash.get_balance", &params);
        let statuses = raw.batch("blockchain.scripthash.subscribe", &params);
        let waiting = waiting(raw, some);
        for (index, script) in some.iter().enumerate() {
            let history = book.history(script).iter();
            let mut history: Vec<Value> =
                history.map(|entry| json!({"height": entry.height, "tx_hash": entry.txid.to_string()})).collect();
            history.extend(waiting[index].as_array().unwrap().clone());
            assert_eq!(histories[index], Value::Array(history), "history of {script}");
            assert_eq!(statuses[index], status_text(book, script, &waiting[index]), "status of {script}");
            if waiting[index] != json!([]) {
                continue;
            }
            let unspent = book.unspent(script).into_iter().map(|(outpoint, coin)| {
                let (txid, vout) = (outpoint.txid.to_string(), outpoint.vout);
                json!({"height": coin.height, "tx_hash": txid, "tx_pos": vout, "value": coin.value_sat})
            });
            assert_eq!(coins[index], Value::Array(unspent.collect()), "unspent outputs of {script}");
            assert_eq!(balances[index], json!({"confirmed": book.balance_sat(script), "unconfirmed": 0}), "{script}");
        }
    }
    scripts.len()
}
