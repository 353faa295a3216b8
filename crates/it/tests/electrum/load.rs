//! What clients of every kind cost the server over the real store: one after the other, wallets in batches, many at once.
//!
//! In:     a world whose last blocks pay thousands of scripts, and one script with a long history.
//! Out:    answers that are right under load; figures for docs/measurements.md from the ignored ones.
//! Fails:  where an answer is missing or an error.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use primitives::encode::put_compact_size;
use primitives::hash::sha256;
use primitives::{OutPoint, ScriptHash, Transaction};
use stdx::hex;

use crate::coins::{coin_of, digits, mine_coins, mine_only, own_script, sign};
use crate::wire::Wire;
use crate::world::World;

/// Pays to whoever says so: a witness script that is true.
fn anyone() -> Vec<u8> {
    [&[0, 32][..], &sha256(&[0x51])].concat()
}

/// The script of a wallet's address.
fn script(n: u32) -> Vec<u8> {
    [&[0, 20][..], &[9; 16], &n.to_be_bytes()].concat()
}

/// Spends an output of [`anyone`] to itself.
fn passed_on(from: OutPoint, value_sat: u64) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 1];
    bytes.extend_from_slice(&from.encode());
    bytes.push(0);
    bytes.extend_from_slice(&[0xff; 4]);
    bytes.push(1);
    bytes.extend_from_slice(&value_sat.to_le_bytes());
    put_compact_size(&mut bytes, anyone().len() as u64);
    bytes.extend_from_slice(&anyone());
    bytes.extend_from_slice(&[1, 1, 0x51, 0, 0, 0, 0]);
    bytes
}

/// What the clients ask about.
struct Subjects {
    scripts: Vec<String>,
    txids: Vec<String>,
    long: String,
    /// Entries of `long`.
    entries: usize,
}

/// Outputs of a transaction that pays wallets.
const PAID_TOGETHER: u32 = 30;

/// Two blocks that pay each of `scripts` scripts once, and as many more as make a history of `entries`.
fn prepare(world: &World, scripts: u32, entries: usize) -> Subjects {
    let mut coin = mine_coins(world, 1)[0];
    let mut txids = Vec::new();
    for _ in 0..2 {
        let mut payments = Vec::new();
        for first in (0..scripts).step_by(PAID_TOGETHER as usize) {
            let mut outputs: Vec<(u64, Vec<u8>)> =
                (first..scripts.min(first + PAID_TOGETHER)).map(|n| (1_000, script(n))).collect();
            outputs.push((coin.value_sat - 200_000, own_script()));
            let payment = sign(world, &[coin], &outputs);
            coin = coin_of(&payment, outputs.len() as u32 - 1);
            txids.push(payment.tx().txid().to_string());
            payments.push(digits(&payment));
        }
        mine_only(world, 1, &payments);
    }
    let last = sign(world, &[coin], &[(100_000_000, anyone())]);
    let mut at = OutPoint { txid: last.tx().txid(), vout: 0 };
    let mut pending = vec![digits(&last)];
    for left in (0..entries - 1).rev() {
        let bytes = passed_on(at, 100_000_000);
        at = OutPoint { txid: Transaction::parse(bytes.clone()).unwrap().tx().txid(), vout: 0 };
        pending.push(hex::encode(&bytes));
        if pending.len() == 4_000 || left == 0 {
            mine_only(world, 1, &std::mem::take(&mut pending));
            txids.push(at.txid.to_string());
        }
    }
    let hash = |n| ScriptHash::of(&script(n)).to_string();
    Subjects { scripts: (0..scripts).map(hash).collect(), txids, long: ScriptHash::of(&anyone()).to_string(), entries }
}

/// A connection that counts on answers in the order of its requests.
struct Plain {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
    line: String,
}

impl Plain {
    fn greet(address: SocketAddr) -> Plain {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let reader = BufReader::with_capacity(64 * 1024, stream.try_clone().unwrap());
        let mut plain = Plain { stream, reader, line: String::new() };
        plain.ask(r#"{"jsonrpc":"2.0","id":0,"method":"server.version","params":["load","1.4"]}"#);
        plain
    }

    /// The bytes of the answer to a line.
    #[track_caller]
    fn ask(&mut self, line: &str) -> usize {
        self.stream.write_all(format!("{line}\n").as_bytes()).unwrap();
        self.line.clear();
        self.reader.read_line(&mut self.line).unwrap();
        assert!(self.line.contains("\"result\":") && !self.line.contains("\"error\":{"), "{:.300}", self.line);
        self.line.len()
    }
}

fn request(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"blockchain.{method}","params":[{params}]}}"#)
}

/// The `n`-th request of a mix: what a wallet asks that is open, and now and then something larger.
fn mixed(subjects: &Subjects, n: usize) -> String {
    let script = format!("\"{}\"", subjects.scripts[n.wrapping_mul(7919) % subjects.scripts.len()]);
    let txid = &subjects.txids[n % subjects.txids.len()];
    match n % 10 {
        0..3 => request("scripthash.get_balance", &script),
        3..6 => request("scripthash.get_history", &script),
        6 => request("scripthash.listunspent", &script),
        7 => request("scripthash.subscribe", &script),
        8 => request("transaction.get", &format!("\"{txid}\"")),
        _ => request("block.header", &format!("{}", n % 100)),
    }
}

/// Processor time of the threads whose names begin so, so far.
fn spent(names: &str) -> Duration {
    let mut ticks = 0;
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let Ok(stat) = std::fs::read_to_string(task.path().join("stat")) else { continue };
        let (head, tail) = stat.rsplit_once(") ").unwrap();
        if head.split_once('(').unwrap().1.starts_with(names) {
            ticks += tail.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum::<u64>();
        }
    }
    Duration::from_millis(10 * ticks)
}

/// Work of all sessions so far.
fn charged_ms(wire: &Wire) -> u64 {
    let env = wire.handle.env();
    env.shares.clients(env.now()).iter().map(|client| client.work_ms).sum()
}

/// The middle one and the one in a hundred.
fn middle_and_p99(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort();
    (times[times.len() / 2], times[times.len() * 99 / 100])
}

/// Requests a second of `clients` that each ask the mix for this long, one after the other.
fn closed_loop(wire: &Wire, subjects: &Subjects, clients: usize, time: Duration) -> (f64, Duration, Vec<Duration>) {
    let address = wire.handle.local_address();
    let greeted: Vec<Plain> = (0..clients).map(|_| Plain::greet(address)).collect();
    let (before, started) = (spent("electrum"), Instant::now());
    let times: Vec<Vec<Duration>> = std::thread::scope(|scope| {
        let one = |(number, mut client): (usize, Plain)| {
            scope.spawn(move || {
                let mut times = Vec::new();
                while started.elapsed() < time {
                    let asked = Instant::now();
                    client.ask(&mixed(subjects, number * 100_003 + times.len()));
                    times.push(asked.elapsed());
                }
                times
            })
        };
        let threads: Vec<_> = greeted.into_iter().enumerate().map(one).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let took = started.elapsed();
    let times = times.concat();
    let each = (spent("electrum") - before) / times.len() as u32;
    (times.len() as f64 / took.as_secs_f64(), each, times)
}

/// A wallet of all the scripts: subscribes in batches, then asks for the histories.
fn load_wallet(client: &mut Plain, subjects: &Subjects, method: &str) -> Duration {
    let started = Instant::now();
    for batch in subjects.scripts.chunks(50) {
        let of = |script: &String| request(method, &format!("\"{script}\""));
        let requests: Vec<String> = batch.iter().map(of).collect();
        client.ask(&format!("[{}]", requests.join(",")));
    }
    started.elapsed()
}

#[test]
fn many_clients_of_every_kind_are_all_answered() {
    let world = World::new("electrum-load");
    let subjects = prepare(&world, 200, 1_500);
    let wire = Wire::new(&world);
    let (rate, _, times) = closed_loop(&wire, &subjects, 32, Duration::from_millis(300));
    assert!(times.len() >= 32, "{rate} a second");
    let mut client = Plain::greet(wire.handle.local_address());
    load_wallet(&mut client, &subjects, "scripthash.subscribe");
    load_wallet(&mut client, &subjects, "scripthash.get_history");
    client.ask(&request("scripthash.get_history", &format!("\"{}\"", subjects.long)));
    assert_eq!(client.line.matches("tx_hash").count(), subjects.entries);
}

/// Figures for the documents.
#[test]
#[ignore = "measures, a minute"]
fn measure_requests() {
    let world = World::new("electrum-measure");
    let subjects = prepare(&world, 3_000, 50_000);
    let wire = Wire::new(&world);
    let mut client = Plain::greet(wire.handle.local_address());
    let (load, histories) = (
        load_wallet(&mut client, &subjects, "scripthash.subscribe"),
        load_wallet(&mut client, &subjects, "scripthash.get_history"),
    );
    println!("wallet of 3,000 in batches of 50: subscribed {load:?}, histories {histories:?}");
    println!("its work, as it is charged: {} ms", charged_ms(&wire));
    for round in 0..3 {
        let before = spent("electrum");
        let refresh = load_wallet(&mut client, &subjects, "scripthash.subscribe");
        println!("refresh {round}: {refresh:?}, {:?} of the server", spent("electrum") - before);
    }
    let script = |n: usize| format!("\"{}\"", subjects.scripts[n.wrapping_mul(7919) % 3_000]);
    for method in ["get_balance", "get_history", "listunspent", "subscribe"] {
        let (before, mut times) = (spent("electrum"), Vec::new());
        for n in 0..10_000 {
            let line = request(&format!("scripthash.{method}"), &script(n));
            let asked = Instant::now();
            client.ask(&line);
            times.push(asked.elapsed());
        }
        let each = (spent("electrum") - before) / 10_000;
        let (p50, p99) = middle_and_p99(times);
        println!("{method}, one after the other: p50 {p50:?}, p99 {p99:?}, {each:?} of the server each");
    }
    let long = request("scripthash.get_history", &format!("\"{}\"", subjects.long));
    let times: Vec<Duration> = (0..9)
        .map(|_| {
            let asked = Instant::now();
            client.ask(&long);
            asked.elapsed()
        })
        .collect();
    println!("history of {} entries: {:?}", subjects.entries, middle_and_p99(times).0);
    let before = charged_ms(&wire);
    client.ask(&long);
    client.ask(&request("block.header", "0"));
    println!("its work, as it is charged: {} ms", charged_ms(&wire) - before);
    for clients in [1, 8, 64] {
        let (rate, each, times) = closed_loop(&wire, &subjects, clients, Duration::from_secs(4));
        let (p50, p99) = middle_and_p99(times);
        println!("{clients} clients, mixed: {rate:.0} a second, p50 {p50:?}, p99 {p99:?}, {each:?} of the server each");
    }
}
