//! `assay bench wallet`: a large wallet opens, and refreshes.
//!
//! In:     a server, the wallet's script hashes, pages and connections.
//! Out:    [`Run`]: seconds of each stage.
//! Fails:  never; what went wrong is counted in the run.
//!
//! As Sparrow does it: subscribe to every script in batches, then fetch the histories of those that have one, then every
//! transaction and the header of every block it is in; between runs it pings, as an open wallet does. A refresh is what a
//! wallet does that kept its transactions: subscribe to all again, and fetch the histories again. A page that is not
//! answered in time is asked for again in halves on a new connection, as wallets do, and counts as an error.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};

use super::arguments::{Server, WalletShape};
use crate::BenchError;
use crate::client::{Client, Failure};

/// Pings between two runs.
const PINGS: usize = 5;
/// Halvings of a page that is not answered.
const HALVINGS_MAX: u32 = 3;

/// Seconds of each stage of one opening, and of a refresh after it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Run {
    /// To connect and agree on a version.
    pub connect_s: f64,
    /// To subscribe to all scripts.
    pub subscribe_s: f64,
    /// To fetch the histories.
    pub histories_s: f64,
    /// To fetch the transactions.
    pub transactions_s: f64,
    /// To fetch the headers.
    pub headers_s: f64,
    /// To subscribe and fetch the histories once more.
    pub refresh_s: f64,
    /// The median of the pings after it, in milliseconds.
    pub ping_ms: f64,
    /// Transactions fetched.
    pub transactions: usize,
    /// Headers fetched.
    pub headers: usize,
    /// What went wrong, by kind.
    pub errors: BTreeMap<String, u64>,
}

impl Run {
    /// Seconds from the first byte until the wallet knows everything.
    pub fn load_s(&self) -> f64 {
        self.connect_s + self.subscribe_s + self.histories_s + self.transactions_s + self.headers_s
    }
}

type Page = Vec<(&'static str, Value)>;
type Results = Vec<Result<Value, Failure>>;

/// The wallet's connections, and what went wrong on them.
struct Pool {
    clients: Vec<Client>,
    page: usize,
    errors: BTreeMap<String, u64>,
}

impl Pool {
    /// Asks for everything, page by page, each connection taking the next one.
    fn fetch(&mut self, requests: Page) -> Results {
        let pages: Vec<Page> = requests.chunks(self.page).map(<[_]>::to_vec).collect();
        let (next, done, errors) = (Mutex::new(0), Mutex::new(Vec::new()), Mutex::new(&mut self.errors));
        let work = |client: &mut Client| {
            loop {
                let index = {
                    let mut next = next.lock().expect("no thread panics here");
                    *next += 1;
                    *next - 1
                };
                let Some(page) = pages.get(index) else { return };
                let mut failed = Vec::new();
                let results = ask_page(client, page, HALVINGS_MAX, &mut failed);
                let refused = results.iter().filter_map(|result| result.as_ref().err()).map(Failure::kind);
                let mut errors = errors.lock().expect("no thread panics here");
                failed.iter().map(Failure::kind).chain(refused).for_each(|kind| *errors.entry(kind).or_default() += 1);
                done.lock().expect("no thread panics here").push((index, results));
            }
        };
        match self.clients.as_mut_slice() {
            [only] => work(only),
            many => std::thread::scope(|scope| {
                for client in many {
                    scope.spawn(|| work(client));
                }
            }),
        }
        let mut done = done.into_inner().expect("no thread panics here");
        done.sort_by_key(|(index, _)| *index);
        done.into_iter().flat_map(|(_, results)| results).collect()
    }
}

/// A page's results; where it is not answered its halves are asked for on a new connection.
fn ask_page(client: &mut Client, page: &[(&'static str, Value)], halvings: u32, failed: &mut Vec<Failure>) -> Results {
    let failure = match client.call_all(page) {
        Ok((results, _)) => return results,
        Err(failure) => failure,
    };
    failed.push(failure.clone());
    let fresh = client.again();
    match fresh {
        Ok(fresh) if halvings > 0 && page.len() > 1 => {
            *client = fresh;
            let (one, other) = page.split_at(page.len() / 2);
            let mut results = ask_page(client, one, halvings - 1, failed);
            results.extend(ask_page(client, other, halvings - 1, failed));
            results
        }
        other => {
            if let Ok(fresh) = other {
                *client = fresh;
            }
            page.iter().map(|_| Err(failure.clone())).collect()
        }
    }
}

/// Opens the wallet once, refreshes it, pings.
pub fn open(server: &Server, hashes: &[String], shape: &WalletShape, timeout_s: u64) -> Result<Run, BenchError> {
    let timeout = Duration::from_secs(timeout_s);
    let gone = |failure: Failure| BenchError::Wrong(format!("{}: {failure}", server.name));
    let mut clock = Instant::now();
    let mut lap = || std::mem::replace(&mut clock, Instant::now()).elapsed().as_secs_f64();
    let clients = (0..shape.sockets).map(|_| Client::open(&server.address, timeout));
    let clients: Vec<Client> = clients.collect::<Result<_, _>>().map_err(gone)?;
    let mut pool = Pool { clients, page: shape.page as usize, errors: BTreeMap::new() };
    pool.clients[0].call("blockchain.headers.subscribe", json!([])).map_err(gone)?;
    let mut run = Run { connect_s: lap(), ..Run::default() };
    let statuses = pool.fetch(of_scripts("blockchain.scripthash.subscribe", hashes));
    run.subscribe_s = lap();
    let used: Vec<String> =
        hashes.iter().zip(&statuses).filter(|(_, status)| is_used(status)).map(|(hash, _)| hash.clone()).collect();
    let histories = pool.fetch(of_scripts("blockchain.scripthash.get_history", &used));
    let (txids, heights) = in_histories(&histories);
    run.histories_s = lap();
    let transactions = txids.into_iter().map(|txid| ("blockchain.transaction.get", json!([txid]))).collect();
    run.transactions = pool.fetch(transactions).iter().filter(|result| result.is_ok()).count();
    run.transactions_s = lap();
    let headers = heights.into_iter().map(|height| ("blockchain.block.header", json!([height]))).collect();
    run.headers = pool.fetch(headers).iter().filter(|result| result.is_ok()).count();
    run.headers_s = lap();
    run.ping_ms = ping(&mut pool.clients[0]).map_err(gone)?;
    lap();
    pool.fetch(of_scripts("blockchain.scripthash.subscribe", hashes));
    pool.fetch(of_scripts("blockchain.scripthash.get_history", &used));
    run.refresh_s = lap();
    run.errors = pool.errors;
    Ok(run)
}

fn ping(client: &mut Client) -> Result<f64, Failure> {
    let mut times_ms = Vec::new();
    for _ in 0..PINGS {
        let before = Instant::now();
        client.call("server.ping", json!([]))?;
        times_ms.push(before.elapsed().as_secs_f64() * 1e3);
    }
    Ok(crate::report::median(&times_ms))
}

fn of_scripts(method: &'static str, hashes: &[String]) -> Page {
    hashes.iter().map(|hash| (method, json!([hash]))).collect()
}

fn is_used(status: &Result<Value, Failure>) -> bool {
    status.as_ref().is_ok_and(|status| !status.is_null())
}

/// Every transaction once, and the height of every block one is in.
fn in_histories(histories: &Results) -> (BTreeSet<String>, BTreeSet<u64>) {
    let entries = || histories.iter().flatten().filter_map(Value::as_array).flatten();
    let txids = entries().filter_map(|entry| entry["tx_hash"].as_str()).map(str::to_owned).collect();
    let heights = entries().filter_map(|entry| entry["height"].as_u64()).filter(|height| *height > 0).collect();
    (txids, heights)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_and_headers_are_fetched_once() {
        let entry = |txid: &str, height: i64| json!({ "tx_hash": txid, "height": height });
        let histories = vec![
            Ok(json!([entry("b", 7), entry("a", 9)])),
            Ok(json!([entry("a", 9), entry("c", 0), entry("d", -1)])),
            Err(Failure::Timeout),
        ];
        let (txids, heights) = in_histories(&histories);
        assert_eq!(txids.into_iter().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
        assert_eq!(heights.into_iter().collect::<Vec<_>>(), [7, 9]);
    }

    #[test]
    fn an_unused_address_has_no_history_to_fetch() {
        assert_eq!(
            [Ok(json!("ab")), Ok(Value::Null), Err(Failure::Timeout)].map(|status| is_used(&status)),
            [true, false, false]
        );
    }

    #[test]
    fn loading_is_everything_before_the_refresh() {
        let run = Run {
            connect_s: 1.0,
            subscribe_s: 2.0,
            histories_s: 4.0,
            transactions_s: 8.0,
            headers_s: 16.0,
            refresh_s: 32.0,
            ..Run::default()
        };
        assert_eq!(run.load_s(), 31.0);
    }
}
