//! What idle sessions and subscriptions cost a server, how soon subscribers hear of a block, and how a light client fares
//! beside a heavy one.
//!
//! In:     [`Contestant`]s with their processes; a block nobody has yet; scripts.
//! Out:    bytes, milliseconds, microseconds.
//! Fails:  when a server is gone.
//!
//! Memory is what the system counts as resident, before and after; what an allocator keeps for later counts too, so many
//! sessions are opened. A client holds one buffer for each, in this process and not in the server's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use primitives::{Block, ScriptHash, script};
use serde::Serialize;
use serde_json::{Value, json};

use super::addresses::rotated;
use super::arguments::Server;
use super::contestants::Contestant;
use crate::client::{Client, Failure, request};
use crate::nodes::Rpc;
use crate::{BenchError, at};

/// Requests of a batch while subscribing.
const PAGE: usize = 200;
/// Sessions that hold the subscriptions whose memory is measured.
const SUBSCRIBERS: usize = 10;
/// Subscriptions for each session that is opened.
const SUBSCRIPTIONS_PER_SESSION: u64 = 100;
/// Time for a server to settle before its memory is read.
const SETTLE: Duration = Duration::from_millis(1_500);
/// Longest wait for an answer, and for the last notice of a block: the slowest look for blocks every ten seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// Length of one measure of a light client.
const LIGHT: Duration = Duration::from_millis(1_500);
/// Time between two questions of a light client.
const LIGHT_PAUSE: Duration = Duration::from_millis(1);

/// Memory of a server.
#[derive(Clone, Debug, Serialize)]
pub struct Memory {
    /// Who.
    pub server: String,
    /// Resident before, in bytes.
    pub before_bytes: u64,
    /// More for each idle session.
    pub session_bytes: f64,
    /// More for each subscription.
    pub subscription_bytes: f64,
}

/// How soon the subscribers of a server heard of a block.
#[derive(Clone, Debug, Serialize)]
pub struct Noticed {
    /// Who.
    pub server: String,
    /// Subscribed scripts that the block touched.
    pub scripts: usize,
    /// From the moment the node had connected the block to the notice of the new tip, in milliseconds.
    pub tip_ms: Option<f64>,
    /// The same to the last notice of a script.
    pub last_ms: Option<f64>,
    /// Notices that came.
    pub notices: usize,
}

/// A light client's times, alone and beside a heavy one, in microseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Light {
    /// Nobody else asks.
    pub alone_us: Vec<f64>,
    /// Another client reads the longest history again and again.
    pub beside_us: Vec<f64>,
    /// How often it got it.
    pub heavy_answers: u64,
}

fn gone(server: &Server, failure: &Failure) -> BenchError {
    BenchError::Wrong(format!("{}: {failure}", server.name))
}

fn open(server: &Server) -> Result<Client, BenchError> {
    Client::open(&server.address, PATIENCE).map_err(|failure| gone(server, &failure))
}

/// Opens sessions, then subscribes to scripts nobody has used, and reads the server's memory between.
pub fn memory(contestant: &Contestant, sessions: u64) -> Result<Memory, BenchError> {
    let server = contestant.server();
    let process = contestant.process().ok_or_else(|| BenchError::Wrong(format!("{} does not run", server.name)))?;
    let resident = || {
        std::thread::sleep(SETTLE);
        process.memory_bytes().map(|(now, _)| now as f64)
    };
    // What the first sessions bring with them is not theirs alone.
    let warm = (0..20).map(|_| open(&server)).collect::<Result<Vec<_>, _>>()?;
    let before = resident()?;
    let idle: Vec<Client> = (0..sessions).map(|_| open(&server)).collect::<Result<_, _>>()?;
    let with_sessions = resident()?;
    // New ones: some servers ping WebSockets, and end those that nobody reads from.
    let mut subscribers: Vec<Client> = (0..SUBSCRIBERS).map(|_| open(&server)).collect::<Result<_, _>>()?;
    let each = sessions * SUBSCRIPTIONS_PER_SESSION / SUBSCRIBERS as u64;
    for (number, client) in subscribers.iter_mut().enumerate() {
        let hash = |index: u64| ScriptHash::of(&[&index.to_le_bytes()[..], &[number as u8]].concat()).to_string();
        let hashes: Vec<String> = (0..each).map(hash).collect();
        subscribe(client, &hashes).map_err(|failure| gone(&server, &failure))?;
    }
    let with_subscriptions = resident()?;
    drop((warm, idle));
    Ok(Memory {
        server: server.name,
        before_bytes: before as u64,
        session_bytes: (with_sessions - before) / sessions as f64,
        subscription_bytes: (with_subscriptions - with_sessions) / (each * SUBSCRIBERS as u64) as f64,
    })
}

fn subscribe(client: &mut Client, hashes: &[String]) -> Result<(), Failure> {
    for page in hashes.chunks(PAGE) {
        let requests: Vec<_> = page.iter().map(|hash| ("blockchain.scripthash.subscribe", json!([hash]))).collect();
        let (answers, _) = client.call_all(&requests)?;
        answers.into_iter().collect::<Result<Vec<Value>, Failure>>()?;
    }
    Ok(())
}

/// Scripts that a block pays.
pub fn touched(block: &[u8], most: usize) -> Result<Vec<String>, BenchError> {
    let block = Block::parse(block).map_err(|error| BenchError::Wrong(format!("a forged block: {error:?}")))?;
    let mut hashes = BTreeSet::new();
    for tx in block.txs() {
        let scripts = tx.outputs().map(|output| output.script).filter(|text| !script::is_unspendable(text));
        hashes.extend(scripts.map(|script| ScriptHash::of(script).to_string()));
    }
    Ok(hashes.into_iter().take(most).collect())
}

/// One client of each server subscribes to the scripts; the nodes get the block one after the other, and every client
/// waits for its notices.
pub fn notices(
    contestants: &mut [Contestant],
    bitcoind: Option<&mut Rpc>,
    block: &[u8],
    hashes: &[String],
) -> Result<Vec<Noticed>, BenchError> {
    let mut own_rpc = None;
    let mut waiting = Vec::new();
    for contestant in contestants.iter_mut() {
        let server = contestant.server();
        let mut client = open(&server)?;
        client.call("blockchain.headers.subscribe", json!([])).map_err(|failure| gone(&server, &failure))?;
        subscribe(&mut client, hashes).map_err(|failure| gone(&server, &failure))?;
        let own = contestant.own_rpc()?;
        waiting.push((server, client, own.is_some()));
        own_rpc = own_rpc.or(own);
    }
    let (ours, others): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(_, _, is_ours)| *is_ours);
    let mut noticed = Vec::new();
    for (rpc, group) in [(own_rpc.as_mut(), ours), (bitcoind, others)] {
        let Some(rpc) = rpc else { continue };
        noticed.extend(hand_in(rpc, block, group, hashes.len())?);
    }
    Ok(noticed)
}

fn hand_in(
    rpc: &mut Rpc,
    block: &[u8],
    group: Vec<(Server, Client, bool)>,
    count: usize,
) -> Result<Vec<Noticed>, BenchError> {
    let sent = std::sync::OnceLock::new();
    let text = stdx::hex::encode(block);
    std::thread::scope(|scope| {
        let start = |(server, client, _): (Server, Client, bool)| scope.spawn(|| wait(server, client, count));
        let threads: Vec<_> = group.into_iter().map(start).collect();
        let answer = rpc.call("submitblock", json!([text]))?;
        let connected = *sent.get_or_init(Instant::now);
        if !answer.is_null() {
            return Err(BenchError::Wrong(format!("submitblock: {answer}")));
        }
        let heard = threads.into_iter().map(|thread| thread.join().expect("a listener does not panic"));
        Ok(heard.map(|heard| heard.since(connected)).collect())
    })
}

/// When a client heard what.
struct Heard {
    server: Server,
    scripts: usize,
    notices: usize,
    tip: Option<Instant>,
    last: Option<Instant>,
}

impl Heard {
    fn since(self, connected: Instant) -> Noticed {
        // Who hears before the node has answered heard at once.
        let ms = |at: Instant| at.saturating_duration_since(connected).as_secs_f64() * 1e3;
        let last = self.last.filter(|_| self.notices == self.scripts);
        Noticed {
            server: self.server.name,
            scripts: self.scripts,
            tip_ms: self.tip.map(ms),
            last_ms: last.map(ms),
            notices: self.notices,
        }
    }
}

fn wait(server: Server, mut client: Client, scripts: usize) -> Heard {
    let before = Instant::now();
    let mut heard = Heard { server, scripts, notices: 0, tip: None, last: None };
    let mut seen = BTreeSet::new();
    while (heard.notices < scripts || heard.tip.is_none()) && before.elapsed() < PATIENCE {
        let Ok(Some(notice)) = client.notice() else { break };
        let now = Instant::now();
        match notice["method"].as_str() {
            Some("blockchain.headers.subscribe") => heard.tip = heard.tip.or(Some(now)),
            Some("blockchain.scripthash.subscribe") => {
                seen.extend(notice["params"][0].as_str().map(str::to_owned));
                (heard.notices, heard.last) = (seen.len(), Some(now));
            }
            _ => {}
        }
    }
    heard
}

/// The light client asks for a small balance, alone and beside another who reads `heavy`'s history, in turns.
pub fn light(
    servers: &[Server],
    small: &str,
    heavy: &str,
    rounds: usize,
) -> Result<BTreeMap<String, Light>, BenchError> {
    let mut all: BTreeMap<String, Light> = BTreeMap::new();
    for round in 0..rounds {
        for index in rotated(servers.len(), round) {
            let server = &servers[index];
            let of = all.entry(server.name.clone()).or_default();
            let mut client = open(server)?;
            of.alone_us.extend(ask_lightly(&mut client, small).map_err(|failure| gone(server, &failure))?);
            let (stop, mut other) = (AtomicBool::new(false), open(server)?);
            let (beside, answers) = std::thread::scope(|scope| {
                let reader = scope.spawn(|| read_heavily(&mut other, heavy, &stop));
                let beside = ask_lightly(&mut client, small);
                stop.store(true, Ordering::Relaxed);
                (beside, reader.join().expect("a reader does not panic"))
            });
            of.beside_us.extend(beside.map_err(|failure| gone(server, &failure))?);
            of.heavy_answers += answers;
        }
    }
    Ok(all)
}

fn ask_lightly(client: &mut Client, hash: &str) -> Result<Vec<f64>, Failure> {
    let text = request(1, "blockchain.scripthash.get_balance", &json!([hash]));
    let (before, mut us) = (Instant::now(), Vec::new());
    while before.elapsed() < LIGHT {
        us.push(client.exchange(&text, 1)?.us());
        std::thread::sleep(LIGHT_PAUSE);
    }
    Ok(us)
}

/// How often a long history came until it was told to stop; one that is refused came never.
fn read_heavily(client: &mut Client, hash: &str, stop: &AtomicBool) -> u64 {
    let text = request(1, "blockchain.scripthash.get_history", &json!([hash]));
    let mut answers = 0;
    while !stop.load(Ordering::Relaxed) {
        match client.exchange(&text, 1) {
            Ok(took) if !took.has_error => answers += 1,
            _ => break,
        }
    }
    answers
}

/// Opens files for thousands of sessions, where the system lets us.
pub fn allow_sessions(sessions: u64) -> Result<(), BenchError> {
    let limits = std::fs::read_to_string("/proc/self/limits").map_err(at("/proc/self/limits"))?;
    let open_files = limits.lines().find(|line| line.starts_with("Max open files"));
    let most = open_files.and_then(|line| line.split_whitespace().nth(3)?.parse::<u64>().ok());
    match most {
        Some(most) if most < sessions + 200 => {
            Err(BenchError::Usage(format!("--sessions {sessions}: this shell allows {most} open files (ulimit -n)")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_touches_what_it_pays() {
        let genesis = primitives::Params::of(primitives::Network::Regtest).genesis_block();
        let touched = touched(&genesis, 10).unwrap();
        assert_eq!(touched.len(), 1);
        assert!(super::touched(&genesis, 0).unwrap().is_empty());
        assert!(super::touched(&[1, 2, 3], 1).is_err());
    }

    #[test]
    fn the_last_notice_counts_when_all_have_come() {
        let heard = |notices| Heard {
            server: "a=tcp://h:1".parse().unwrap(),
            scripts: 2,
            notices,
            tip: None,
            last: Some(Instant::now()),
        };
        let now = Instant::now();
        assert_eq!(heard(1).since(now).last_ms, None);
        assert!(heard(2).since(now).last_ms.is_some_and(|ms| ms < 1_000.0));
    }
}
