//! A small wallet: asks an Electrum server over a socket what wallets ask, and believes nothing it can check.
//!
//! In:     a server's address and the network.
//! Out:    [`Answer`]s, a line each, with the time each question took.
//! Fails:  when the server does not answer, or answers what its own headers contradict.
//! Source: Electrum protocol 1.4.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use primitives::hash::{ScriptHash, Txid, merkle_root_of_branch};
use primitives::header::Header;
use primitives::network::Params;
use primitives::script::ScriptType;
use primitives::{Transaction, address};
use serde_json::{Value as Json, json};
use stdx::hex;

/// Longest wait for one answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Transactions looked at while searching for script types, newest blocks first.
const SEARCH_TRANSACTIONS_MAX: usize = 3_000;
/// Script types there can be one example of: all of [`ScriptType`] that money can be sent to.
const TYPES_MAX: usize = 9;

/// A question, its answer in words, and how long it took.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The method, or what was asked.
    pub question: String,
    /// What came back, or what was proved by it.
    pub answer: String,
    /// Time from the first byte sent to the last received.
    pub took: Duration,
}

/// A connection.
pub struct Wallet {
    stream: BufReader<TcpStream>,
    next_id: u64,
    params: Params,
}

/// A script somebody was paid with.
struct Example {
    script: Vec<u8>,
    txid: Txid,
    height: u32,
}

impl Wallet {
    /// Connects.
    pub fn connect(address: SocketAddr, params: Params) -> Result<Wallet, String> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(|error| format!("{address}: {error}"))?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        Ok(Wallet { stream: BufReader::new(stream), next_id: 0, params })
    }

    /// Asks what a wallet asks when it is opened, and tells each answer as it comes.
    pub fn tour(&mut self, tell: &mut dyn FnMut(&Answer)) -> Result<(), String> {
        let tip = self.greet(tell)?;
        let examples = self.find_examples(tip)?;
        for (kind, example) in &examples {
            self.ask_script(kind, example, tell)?;
        }
        if let Some(example) = examples.values().next() {
            self.prove(example, tip, tell)?;
        }
        self.batch(&examples, tell)
    }

    fn greet(&mut self, tell: &mut dyn FnMut(&Answer)) -> Result<u32, String> {
        let (version, took) = self.timed("server.version", json!(["assay demo", ["1.4", "1.4.3"]]))?;
        tell(&Answer { question: "server.version".into(), answer: version.to_string(), took });
        let (features, took) = self.timed("server.features", json!([]))?;
        let genesis = features["genesis_hash"].as_str().unwrap_or_default().to_owned();
        if genesis != self.params.genesis_hash.to_string() {
            return Err(format!("the server is on another network: its genesis block is {genesis:?}"));
        }
        tell(&Answer { question: "server.features".into(), answer: format!("genesis {genesis}"), took });
        let (tip, took) = self.timed("blockchain.headers.subscribe", json!([]))?;
        let height = tip["height"].as_u64().and_then(|height| u32::try_from(height).ok()).ok_or("no height")?;
        let hash = header_of(&tip["hex"])?.hash();
        let question = "blockchain.headers.subscribe".to_owned();
        tell(&Answer { question, answer: format!("height {height}, block {hash}"), took });
        Ok(height)
    }

    /// One script of each type, from the newest blocks back.
    fn find_examples(&mut self, tip: u32) -> Result<BTreeMap<&'static str, Example>, String> {
        let mut examples = BTreeMap::new();
        let mut looked = 0;
        for height in (1..=tip).rev() {
            for position in 0.. {
                if looked == SEARCH_TRANSACTIONS_MAX || examples.len() == TYPES_MAX {
                    return Ok(examples);
                }
                let Ok(txid) = self.ask("blockchain.transaction.id_from_pos", json!([height, position])) else { break };
                let txid: Txid = parse_text(&txid)?;
                let raw = self.ask("blockchain.transaction.get", json!([txid.to_string()]))?;
                let bytes = hex::decode(raw.as_str().ok_or("no transaction")?).map_err(|error| error.to_string())?;
                let transaction = Transaction::parse(bytes).map_err(|error| format!("{txid}: {error}"))?;
                if transaction.tx().txid() != txid {
                    return Err(format!("the server sent another transaction for {txid}"));
                }
                for output in transaction.tx().outputs() {
                    let kind = ScriptType::of(output.script);
                    if !matches!(kind, ScriptType::NullData | ScriptType::Nonstandard) {
                        let example = || Example { script: output.script.to_vec(), txid, height };
                        examples.entry(kind.name()).or_insert_with(example);
                    }
                }
                looked += 1;
            }
        }
        Ok(examples)
    }

    fn ask_script(&mut self, kind: &str, example: &Example, tell: &mut dyn FnMut(&Answer)) -> Result<(), String> {
        let script_hash = ScriptHash::of(&example.script).to_string();
        let started = Instant::now();
        let status = self.ask("blockchain.scripthash.subscribe", json!([script_hash]))?;
        let balance = self.ask("blockchain.scripthash.get_balance", json!([script_hash]))?;
        let history = self.ask("blockchain.scripthash.get_history", json!([script_hash]))?;
        let unspent = self.ask("blockchain.scripthash.listunspent", json!([script_hash]))?;
        let took = started.elapsed();
        let (history, unspent) = (history.as_array().ok_or("no list")?, unspent.as_array().ok_or("no list")?);
        let confirmed_sat = balance["confirmed"].as_u64().ok_or("no balance")?;
        let sum_sat: u64 = unspent.iter().filter_map(|coin| coin["value"].as_u64()).sum();
        if sum_sat != confirmed_sat {
            return Err(format!(
                "{kind}: the balance is {confirmed_sat} sat, the unspent outputs sum to {sum_sat} sat"
            ));
        }
        if !history.iter().any(|entry| entry["tx_hash"] == example.txid.to_string()) {
            return Err(format!("{kind}: the history lacks {}", example.txid));
        }
        let name = address::of_script(&example.script, &self.params).unwrap_or_else(|| format!("script {script_hash}"));
        let status = status.as_str().unwrap_or("none").get(..8).unwrap_or("none").to_owned();
        let answer = format!(
            "{confirmed_sat} sat in {} unspent, {} in history, status {status}: {name}",
            unspent.len(),
            history.len()
        );
        tell(&Answer { question: format!("{kind}: subscribe, balance, history, unspent"), answer, took });
        Ok(())
    }

    /// Merkle branch and header proof, both followed to their roots.
    fn prove(&mut self, example: &Example, tip: u32, tell: &mut dyn FnMut(&Answer)) -> Result<(), String> {
        let (txid, height) = (example.txid, example.height);
        let (merkle, took) = self.timed("blockchain.transaction.get_merkle", json!([txid.to_string(), height]))?;
        let branch = branch_of(&merkle["merkle"])?;
        let position = merkle["pos"].as_u64().ok_or("no position")? as usize;
        let header = header_of(&self.ask("blockchain.block.header", json!([height]))?)?;
        if merkle_root_of_branch(txid.0, position, &branch) != header.merkle_root {
            return Err(format!("the merkle branch of {txid} does not lead to the root of block {height}"));
        }
        let answer = format!("{txid} is number {position} of block {height}, proved by {} hashes", branch.len());
        tell(&Answer { question: "blockchain.transaction.get_merkle".into(), answer, took });
        let (proof, took) = self.timed("blockchain.block.header", json!([height, tip]))?;
        let branch = branch_of(&proof["branch"])?;
        let root: Txid = parse_text(&proof["root"])?; // 32 bytes shown reversed, as a txid is
        if merkle_root_of_branch(header.hash().0, height as usize, &branch) != root.0 {
            return Err(format!("the header proof of block {height} does not lead to its root"));
        }
        let answer = format!("header {height} is under root {root} of {tip}, proved by {} hashes", branch.len());
        tell(&Answer { question: "blockchain.block.header with cp_height".into(), answer, took });
        Ok(())
    }

    /// All scripts at once, as wallets refresh.
    fn batch(
        &mut self,
        examples: &BTreeMap<&'static str, Example>,
        tell: &mut dyn FnMut(&Answer),
    ) -> Result<(), String> {
        let request = |(id, example): (usize, &Example)| {
            let params = [ScriptHash::of(&example.script).to_string()];
            json!({ "jsonrpc": "2.0", "id": id, "method": "blockchain.scripthash.subscribe", "params": params })
        };
        let requests: Vec<Json> = examples.values().cycle().take(50).enumerate().map(request).collect();
        if requests.is_empty() {
            return Ok(());
        }
        let started = Instant::now();
        self.send(&Json::Array(requests.clone()))?;
        let answers = self.receive()?;
        let count = answers.as_array().map_or(0, Vec::len);
        if count != requests.len() {
            return Err(format!("a batch of {} got {count} answers", requests.len()));
        }
        let question = format!("a batch of {} scripthash.subscribe", requests.len());
        tell(&Answer { question, answer: format!("{count} answers"), took: started.elapsed() });
        Ok(())
    }

    fn timed(&mut self, method: &str, params: Json) -> Result<(Json, Duration), String> {
        let started = Instant::now();
        Ok((self.ask(method, params)?, started.elapsed()))
    }

    /// One question; an error of the server is an error here.
    pub fn ask(&mut self, method: &str, params: Json) -> Result<Json, String> {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        loop {
            let mut line = self.receive()?;
            if line["id"] != id {
                continue; // a notification
            }
            return match line["error"].take() {
                Json::Null => Ok(line["result"].take()),
                error => Err(format!("{method}: {error}")),
            };
        }
    }

    fn send(&mut self, request: &Json) -> Result<(), String> {
        let line = format!("{request}\n");
        self.stream.get_mut().write_all(line.as_bytes()).map_err(|error| format!("sending: {error}"))
    }

    fn receive(&mut self) -> Result<Json, String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => Err("the server hung up".to_owned()),
            Ok(_) => serde_json::from_str(&line).map_err(|error| format!("the server's line is no JSON: {error}")),
            Err(error) => Err(format!("receiving: {error}")),
        }
    }
}

fn header_of(text: &Json) -> Result<Header, String> {
    let text = text.as_str().ok_or("no header")?;
    let bytes = hex::decode_array::<80>(text).map_err(|error| format!("header: {error}"))?;
    Ok(Header::decode(&bytes))
}

fn branch_of(list: &Json) -> Result<Vec<[u8; 32]>, String> {
    let list = list.as_array().ok_or("no branch")?;
    list.iter().map(|item| parse_text::<Txid>(item).map(|hash| hash.0)).collect()
}

fn parse_text<T: std::str::FromStr>(text: &Json) -> Result<T, String>
where
    T::Err: std::fmt::Display,
{
    text.as_str().ok_or("no text")?.parse().map_err(|error: T::Err| error.to_string())
}
