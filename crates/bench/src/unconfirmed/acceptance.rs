//! `assay bench mempool`: the same unconfirmed transactions taken in by the library, by JSON-RPC and from a peer; and by
//! bitcoind where there is one.
//!
//! In:     [`MempoolOptions`].
//! Out:    transactions a second by the clock and by CPU time, how many were taken, memory.
//! Fails:  when a contestant does, or takes none.
//!
//! Fair or not: transactions are those of [`super::offered`], parents before children, the same bytes for all, one
//! connection each. CPU time is that of the whole node while it takes them in, its sockets included; with `--core` the node
//! has that core alone, and wall time is its. A node starts anew for every run, with its chain read in before. bitcoind has
//! all its checks of regtest off, ours has none.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use chain::mempool::{Accept, Mempool, SharedMempool};
use chain::policy::Policy;
use net::Message;
use primitives::{Network, Params, Transaction};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::arguments::MempoolOptions;
use crate::import::ours;
use crate::measure::{Start, Usage};
use crate::network::scripted::Scripted;
use crate::nodes::bitcoind::{self, Bitcoind, free_address};
use crate::nodes::process::keep_off;
use crate::nodes::{Assay, AssaySettings, P2p, Process, Rpc};
use crate::report::{self, Table, bytes, count, median};
use crate::sample::{Blocks, Scratch};
use crate::{BenchError, at, child, machine};

use super::offered::{Offered, Wish};

/// Transactions of a batch in the library: what the node's own thread gathers in a moment.
const BATCH: usize = 200;
/// Time between two looks at how many a node has taken.
const POLL: Duration = Duration::from_millis(5);
/// A node that has taken no more for so long takes no more.
const QUIET: Duration = Duration::from_secs(3);

/// What the library is given.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    chain: ours::Settings,
    /// File of transactions, each behind its length.
    transactions: PathBuf,
    batch: usize,
}

/// What one run took.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    contestant: String,
    /// While transactions were taken in.
    usage: Usage,
    /// Transactions in the mempool afterwards.
    taken: u64,
    /// Bytes the mempool counts for itself.
    mempool_bytes: u64,
}

/// Runs the contestants in turn, prints, writes.
pub fn bench(options: &MempoolOptions) -> Result<(), BenchError> {
    let machine = machine::describe();
    let wish = Wish { count: options.transactions as usize, children_percent: options.children, seed: 1 };
    let Offered { blocks, first, txs: transactions, .. } = Offered::make(&options.scratch, &wish)?;
    if let Some(core) = options.core {
        keep_off(core, machine::cores())?;
    }
    let scratch = Scratch::new(&options.scratch, "mempool")?;
    let file = scratch.path().join("transactions");
    std::fs::write(&file, encode(&transactions)).map_err(at(&file))?;
    let library_blocks = scratch.path().join("blocks");
    blocks.copy_with(&first, &library_blocks)?;
    let world = World {
        options,
        blocks: &blocks,
        first: &first,
        scratch: scratch.path(),
        transactions: &transactions,
        file: &file,
        library_blocks: &library_blocks,
    };
    let mut runs = Vec::new();
    for round in 1..=options.runs {
        for contestant in world.contestants() {
            let run = world.run(contestant)?;
            eprintln!("round {round} of {}: {contestant}: {:.2} s", options.runs, run.usage.wall_s);
            if run.taken == 0 {
                return Err(BenchError::Wrong(format!("{contestant} took no transaction")));
            }
            runs.push(run);
        }
    }
    let summary = summary(&runs);
    println!("{} transactions offered\n\n{}", count(transactions.len() as u64), table(&runs).text());
    let settings = json!({
        "transactions": transactions.len(), "children_percent": options.children, "core": options.core, "threads": options.threads, "memory_mib": options.memory, "runs": options.runs, "batch": BATCH,
        "bitcoind": options.bitcoind.as_deref().map(bitcoind::version).transpose()?,
    });
    let report =
        json!({ "bench": "mempool", "machine": machine, "settings": settings, "summary": summary, "runs": runs });
    report::write_json(options.json.as_deref(), &report)
}

struct World<'a> {
    options: &'a MempoolOptions,
    blocks: &'a Blocks,
    first: &'a [u8],
    scratch: &'a Path,
    transactions: &'a [Transaction],
    file: &'a Path,
    /// Block files with the first block too: the library takes none from elsewhere.
    library_blocks: &'a Path,
}

impl World<'_> {
    fn contestants(&self) -> Vec<&'static str> {
        let mut all = vec!["library, one by one", "library, batches"];
        let (rpc, theirs) = (!self.options.no_rpc, self.options.bitcoind.is_some());
        all.extend(rpc.then_some("assay, JSON-RPC"));
        all.extend((rpc && theirs).then_some("bitcoind, JSON-RPC"));
        all.push("assay, from a peer");
        all.extend(theirs.then_some("bitcoind, from a peer"));
        all
    }

    fn run(&self, contestant: &str) -> Result<Run, BenchError> {
        let run = match contestant {
            "library, one by one" => child::run("mempool", &self.library(1)),
            "library, batches" => child::run("mempool", &self.library(BATCH)),
            _ => {
                let mut node = if contestant.starts_with("assay") { self.ours()? } else { self.theirs()? };
                match contestant.ends_with("JSON-RPC") {
                    true => node.by_rpc(self.transactions),
                    false => node.from_peer(self.transactions),
                }
            }
        };
        run.map(|run| Run { contestant: contestant.to_owned(), ..run })
    }

    fn library(&self, batch: usize) -> Settings {
        let chain = ours::Settings {
            chain: "regtest".to_owned(),
            blocks_from: self.library_blocks.to_owned(),
            datadir: self.scratch.join("library"),
            threads: self.options.threads,
            memory_mib: self.options.memory,
            engine: "auto".to_owned(),
            signatures: true,
            index: true,
            hints: None,
        };
        Settings { chain, transactions: self.file.to_owned(), batch }
    }

    fn ours(&self) -> Result<Node, BenchError> {
        let MempoolOptions { threads, memory, core, .. } = *self.options;
        let how = How { threads, memory_mib: memory, core, mempool_mb: None };
        let (node, mut rpc, address) = start_ours(self.blocks, self.scratch, how)?;
        rpc.step_onto(self.first)?;
        Ok(Node { process: node.process, rpc, p2p: address })
    }

    fn theirs(&self) -> Result<Node, BenchError> {
        let program = self.options.bitcoind.as_deref().expect("asked only where there is one");
        let how = How { threads: self.options.threads, memory_mib: 0, core: self.options.core, mempool_mb: None };
        let mut node = start_theirs(program, self.blocks, self.scratch, how)?;
        node.rpc.step_onto(self.first)?;
        Ok(Node { process: node.process, rpc: node.rpc, p2p: node.p2p })
    }
}

/// How a node is started.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Its threads.
    pub threads: usize,
    /// Memory budget of ours, in MiB.
    pub memory_mib: u64,
    /// The core it is bound to.
    pub core: Option<u32>,
    /// Its mempool's bound; none: its own default.
    pub mempool_mb: Option<u64>,
}

/// Our node, new, with the chain read in.
pub fn start_ours(blocks: &Blocks, scratch: &Path, how: How) -> Result<(Assay, Rpc, SocketAddr), BenchError> {
    let (address, datadir) = (free_address()?, scratch.join("assay"));
    if datadir.exists() {
        std::fs::remove_dir_all(&datadir).map_err(at(&datadir))?;
    }
    let settings = AssaySettings {
        chain: "regtest".to_owned(),
        blocks_from: Some(blocks.folder().to_owned()),
        datadir,
        threads: how.threads,
        memory_mib: how.memory_mib,
        engine: "auto".to_owned(),
        p2p: P2p::Serve,
        rpc: Some(address),
        mempool_mb: how.mempool_mb,
        core: how.core,
    };
    let mut node = Assay::start("assay", &settings)?;
    node.wait_until_following()?;
    let rpc = node.rpc(address)?;
    let p2p = node.p2p_address()?;
    Ok((node, rpc, p2p))
}

/// bitcoind, new, with the chain read in.
pub fn start_theirs(program: &Path, blocks: &Blocks, scratch: &Path, how: How) -> Result<Bitcoind, BenchError> {
    let folder = scratch.join("bitcoind");
    // One that was killed has not kept its chain: it begins anew, as ours does.
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(at(&folder))?;
    }
    let more: Vec<String> = how.mempool_mb.map(|megabytes| format!("-maxmempool={megabytes}")).into_iter().collect();
    Bitcoind::start_with(program, &folder, blocks, how.threads, blocks.height()?, how.core, &more)
}

/// A node that is handed transactions.
pub struct Node {
    /// It.
    pub process: Process,
    /// Its JSON-RPC.
    pub rpc: Rpc,
    /// Where peers may connect to.
    pub p2p: SocketAddr,
}

impl Node {
    fn by_rpc(&mut self, transactions: &[Transaction]) -> Result<Run, BenchError> {
        let texts: Vec<String> = transactions.iter().map(|tx| stdx::hex::encode(tx.tx().raw())).collect();
        let before = self.process.usage()?;
        for text in &texts {
            // One that is refused is counted by its absence.
            self.rpc.answer("sendrawtransaction", json!([text, 0]))?;
        }
        let after = self.process.usage()?;
        self.finish(&before, after)
    }

    fn from_peer(&mut self, transactions: &[Transaction]) -> Result<Run, BenchError> {
        let mut peer = Scripted::connect(self.p2p, Params::of(Network::Regtest).magic, 77)?;
        let messages: Vec<Message> = transactions.iter().map(|tx| Message::Tx(tx.clone())).collect();
        let frames = peer.frames(&messages);
        let (before, wanted) = (self.process.usage()?, transactions.len() as u64);
        peer.send_frame(&frames)?;
        let (mut last, mut when, mut after) = (0, Instant::now(), before.clone());
        while last < wanted && when.elapsed() < QUIET {
            let taken = self.taken()?;
            if taken > last {
                (last, when, after) = (taken, Instant::now(), self.process.usage()?);
            }
            std::thread::sleep(POLL);
        }
        self.finish(&before, after)
    }

    fn taken(&mut self) -> Result<u64, BenchError> {
        Ok(self.rpc.call("getmempoolinfo", json!([]))?["size"].as_u64().unwrap_or(0))
    }

    fn finish(&mut self, before: &Usage, after: Usage) -> Result<Run, BenchError> {
        let info = self.rpc.call("getmempoolinfo", json!([]))?;
        let usage = Usage {
            wall_s: after.wall_s - before.wall_s,
            user_s: after.user_s - before.user_s,
            sys_s: after.sys_s - before.sys_s,
            ..self.process.usage()?
        };
        let number = |name: &str| info[name].as_u64().unwrap_or(0);
        Ok(Run { contestant: String::new(), usage, taken: number("size"), mempool_bytes: number("usage") })
    }
}

/// The library alone, in this process.
pub fn in_library(settings: &Settings) -> Result<Run, BenchError> {
    std::fs::create_dir_all(&settings.chain.datadir).map_err(at(&settings.chain.datadir))?;
    let ours::Opened { mut chain, engine, .. } = ours::open(&settings.chain)?;
    chain.catch_up()?;
    let pool = SharedMempool::new(Mempool::new(Policy::default(), chain.handle().view(), engine, [7; 16]));
    let transactions = decode(&std::fs::read(&settings.transactions).map_err(at(&settings.transactions))?)?;
    let time_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let how = Accept::at(time_s);
    let start = Start::now()?;
    let mut taken = 0;
    for batch in transactions.chunks(settings.batch) {
        taken += match batch {
            [one] => u64::from(pool.accept(one, &how).is_ok()),
            many => pool.accept_all(many, &how).iter().filter(|verdict| verdict.is_ok()).count() as u64,
        };
    }
    let usage = start.usage()?;
    Ok(Run { contestant: String::new(), usage, taken, mempool_bytes: pool.read().bytes() as u64 })
}

fn encode(transactions: &[Transaction]) -> Vec<u8> {
    let mut out = Vec::new();
    for tx in transactions {
        out.extend_from_slice(&(tx.tx().raw().len() as u32).to_le_bytes());
        out.extend_from_slice(tx.tx().raw());
    }
    out
}

fn decode(mut bytes: &[u8]) -> Result<Vec<Transaction>, BenchError> {
    let wrong = || BenchError::Wrong("the file of transactions is cut off".to_owned());
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(wrong)?;
        let (tx, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(wrong)?;
        all.push(Transaction::parse(tx.to_vec()).map_err(|_| wrong())?);
        bytes = rest;
    }
    Ok(all)
}

fn rate(run: &Run, seconds: f64) -> f64 {
    run.taken as f64 / seconds.max(0.005)
}

fn names(runs: &[Run]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for run in runs {
        if !names.contains(&run.contestant.as_str()) {
            names.push(&run.contestant);
        }
    }
    names
}

fn of<'a>(runs: &'a [Run], name: &str) -> Vec<&'a Run> {
    runs.iter().filter(|run| run.contestant == name).collect()
}

fn summary(runs: &[Run]) -> Value {
    let rates = |name: &str| {
        let runs = of(runs, name);
        let by_wall: Vec<f64> = runs.iter().map(|run| rate(run, run.usage.wall_s)).collect();
        let by_cpu: Vec<f64> = runs.iter().map(|run| rate(run, run.usage.cpu_s())).collect();
        (!runs.is_empty()).then(|| (median(&by_wall), median(&by_cpu)))
    };
    let ratio = |how: &str| {
        let ours = rates(&format!("assay, {how}"))?;
        let theirs = rates(&format!("bitcoind, {how}"))?;
        Some(json!({ "by_wall": ours.0 / theirs.0, "by_cpu": ours.1 / theirs.1 }))
    };
    let each: serde_json::Map<String, Value> = names(runs)
        .into_iter()
        .filter_map(|name| Some((name, rates(name)?)))
        .map(|(name, (wall, cpu))| (name.to_owned(), json!({ "per_s": wall, "per_cpu_s": cpu })))
        .collect();
    json!({ "rates": each, "times_bitcoind": { "json_rpc": ratio("JSON-RPC"), "from_a_peer": ratio("from a peer") } })
}

fn table(runs: &[Run]) -> Table {
    let headings = ["contestant", "runs", "taken", "tx/s", "tx/s of CPU", "mempool counts", "peak memory"];
    let mut table = Table::new(&headings);
    for name in names(runs) {
        let runs = of(runs, name);
        let figure = |figure: fn(&Run) -> f64| median(&runs.iter().map(|run| figure(run)).collect::<Vec<_>>());
        table.row(vec![
            name.to_owned(),
            runs.len().to_string(),
            count(figure(|run| run.taken as f64) as u64),
            count(figure(|run| rate(run, run.usage.wall_s)) as u64),
            count(figure(|run| rate(run, run.usage.cpu_s())) as u64),
            bytes(figure(|run| run.mempool_bytes as f64) as u64),
            bytes(figure(|run| run.usage.peak_memory_bytes as f64) as u64),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_takes_forged_transactions_one_by_one_and_in_batches() {
        let parent = std::env::temp_dir();
        let wish = Wish { count: 60, children_percent: 20, seed: 1 };
        let Offered { blocks, first, txs: offered, .. } = Offered::make(&parent, &wish).unwrap();
        let scratch = Scratch::new(&parent, "mempool-test").unwrap();
        let folder = scratch.path().join("blocks");
        blocks.copy_with(&first, &folder).unwrap();
        let file = scratch.path().join("transactions");
        std::fs::write(&file, encode(&offered)).unwrap();
        let run = |batch| {
            let chain = ours::Settings {
                chain: "regtest".to_owned(),
                blocks_from: folder.clone(),
                datadir: scratch.path().join(format!("data-{batch}")),
                threads: 1,
                memory_mib: 256,
                engine: "scalar".to_owned(),
                signatures: true,
                index: true,
                hints: None,
            };
            in_library(&Settings { chain, transactions: file.clone(), batch }).unwrap()
        };
        let (one, many) = (run(1), run(7));
        assert_eq!((one.taken, many.taken), (offered.len() as u64, offered.len() as u64));
        assert!(one.mempool_bytes > 0);
    }

    #[test]
    fn a_file_that_is_cut_off_is_not_taken_for_a_shorter_one() {
        let tx = Transaction::parse(
            stdx::hex::decode(concat!(
                "0200000001000000000000000000000000000000000000000000000000000000000000000000000000000000000001",
                "00000000000000000151",
                "00000000"
            ))
            .unwrap(),
        )
        .unwrap();
        let bytes = encode(&[tx.clone(), tx]);
        assert_eq!(decode(&bytes).unwrap().len(), 2);
        assert!(decode(&bytes[..bytes.len() - 1]).is_err());
        assert!(decode(&[1, 0]).is_err());
    }

    #[test]
    fn rates_are_compared_by_wall_and_by_cpu_time() {
        let run = |contestant: &str, wall_s, user_s| Run {
            contestant: contestant.to_owned(),
            usage: Usage { wall_s, user_s, ..Usage::default() },
            taken: 100,
            mempool_bytes: 1,
        };
        let runs = [run("assay, from a peer", 1.0, 0.5), run("bitcoind, from a peer", 3.0, 1.0)];
        let summary = summary(&runs);
        assert_eq!(summary["times_bitcoind"]["from_a_peer"], json!({ "by_wall": 3.0, "by_cpu": 2.0 }));
        assert!(summary["times_bitcoind"]["json_rpc"].is_null());
        assert_eq!(summary["rates"]["assay, from a peer"]["per_cpu_s"], json!(200.0));
    }
}
