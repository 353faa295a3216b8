//! Many clients at once: idle ones, subscribers by the hundred thousand, wallets of every make while blocks come, slow readers.
//!
//! In:     a chain in memory with thousands of scripts, a server on loopback; sizes small enough for every test run.
//! Out:    one test a promise; the same in the sizes of docs/measurements.md by the ignored `measure_` tests, which print.
//! Fails:  where an answer or a notice is missing, or memory, sessions and subscriptions are not given back.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use primitives::ScriptHash;
use serve::electrum::limits::Limits;
use serve::plain::PlainChain;
use serve::source::View as _;

use crate::chain::{Draft, coinbase, mainnet, next};
use crate::client::{Server, serve};
use crate::transports::resident_kib;
use crate::wallets::{HABITS, PATIENCE, SCRIPTS, Wallet, middle_and_p99, request, script};

/// Its history has a million entries.
const LONG: ScriptHash = ScriptHash([7; 32]);

/// Pays each of `scripts` once.
fn payment(tag: u8, scripts: std::ops::Range<u16>) -> Draft {
    Draft { spends: Vec::new(), pays: scripts.map(|n| (1_000, script(n))).collect(), tag }
}

/// Every wallet's script has two entries in its history.
fn chain() -> PlainChain {
    let chain = mainnet();
    for tag in 0..2 {
        chain.connect(next(&chain, &[coinbase(20 + tag, 1), payment(tag, 0..SCRIPTS)]));
    }
    chain
}

fn server(change: impl FnOnce(&mut Limits)) -> Server {
    serve(chain(), |limits| {
        (limits.sessions_max, limits.subscriptions_max) = (20_000, 2_000_000);
        change(limits);
    })
}

/// Adds a block that pays some wallets, and tells of it.
fn grow(server: &Server, scripts: std::ops::Range<u16>) {
    let tag = server.chain.plain_view().next_tag();
    let block = next(&server.chain, &[coinbase(tag, 1), payment(tag, scripts)]);
    server.events.send(server.chain.connect(block)).unwrap();
}

/// The system lets a process open so many files, sockets among them.
fn sockets_max() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(3).unwrap().parse().unwrap()
}

/// A light client's times while `busy` runs, and what `busy` gave.
fn beside<T: Send>(server: &Server, busy: impl FnOnce() -> T + Send) -> (Vec<Duration>, T) {
    let mut light = Wallet::greet(server, "light", "\"1.4\"");
    std::thread::scope(|scope| {
        let busy = scope.spawn(busy);
        let mut times = light.latencies(1);
        while !busy.is_finished() {
            times.extend(light.latencies(1));
        }
        (times, busy.join().unwrap())
    })
}

#[track_caller]
fn is_empty_again(server: &Server) {
    server.wait_for("sessions_now", 0);
    server.wait_for("subscriptions_now", 0);
    assert_eq!(server.handle.env().subscriptions.count(), 0);
    assert_eq!((server.count("bytes_waiting_now"), server.count("line_bytes_now")), (0, 0));
    assert_eq!((server.count("dropped_fault"), server.count("faults")), (0, 0));
}

/// Clients that want tips and say nothing.
struct Idle(Vec<TcpStream>);

impl Idle {
    fn connect(address: &str, count: usize) -> Idle {
        let one = |n: usize| {
            let stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let greeting = request(n, "server.version", "\"idle\",\"1.4\"");
            let wish = request(n, "blockchain.headers.subscribe", "");
            (&stream).write_all(format!("{greeting}\n{wish}\n").as_bytes()).unwrap();
            stream
        };
        let idle = Idle((0..count).map(one).collect());
        idle.read_lines(2);
        idle
    }

    /// Each has been told so many lines.
    fn read_lines(&self, wanted: usize) {
        for mut stream in &self.0 {
            let (mut buffer, mut seen) = ([0; 1024], 0);
            while seen < wanted {
                let read = stream.read(&mut buffer).unwrap();
                assert!(read > 0, "a session was closed");
                seen += buffer[..read].iter().filter(|byte| **byte == b'\n').count();
            }
        }
    }
}

/// Names the address for the clients of another process.
const ADDRESS: &str = "ASSAY_LOAD_ADDRESS";
/// And how many of them there are.
const COUNT: &str = "ASSAY_LOAD_COUNT";

#[test]
#[ignore = "the clients of measure_ten_thousand_idle_sessions: a process may not have all sockets of both ends"]
fn clients_of_another_process() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let idle = Idle::connect(&address, std::env::var(COUNT).unwrap().parse().unwrap());
    println!("connected");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    idle.read_lines(1);
    println!("told");
    std::io::stdin().read_line(&mut line).unwrap();
}

/// Clients of this process, or of one of its own.
enum Clients {
    Here(Idle),
    Elsewhere(Child, BufReader<ChildStdout>),
}

impl Clients {
    fn connect(server: &Server, count: usize, elsewhere: bool) -> Clients {
        let address = server.handle.local_address().to_string();
        if !elsewhere {
            return Clients::Here(Idle::connect(&address, count));
        }
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["load::clients_of_another_process", "--exact", "--ignored", "--nocapture"]);
        command.env(ADDRESS, address).env(COUNT, count.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let mut clients = Clients::Elsewhere(child, said);
        clients.wait_for("connected");
        clients
    }

    fn wait_for(&mut self, word: &str) {
        let Clients::Elsewhere(_, said) = self else { return };
        let mut line = String::new();
        while !line.contains(word) {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "the process of the clients has ended");
        }
    }

    /// Returns once each has read a notice.
    fn are_told(&mut self) {
        match self {
            Clients::Here(idle) => idle.read_lines(1),
            Clients::Elsewhere(child, _) => {
                child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
                self.wait_for("told");
            }
        }
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        if let Clients::Elsewhere(child, _) = self {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

/// That many sessions that want tips and say nothing; one block; then all leave.
fn idle_sessions(count: usize, elsewhere: bool) {
    assert!(sockets_max() > count + 500, "raise `ulimit -n`");
    let server = server(|_| {});
    let mut warm: Vec<Wallet> = (0..count / 100 + 1).map(|_| Wallet::greet(&server, "warm", "\"1.4\"")).collect();
    let (alone, before, started) = (warm[0].latencies(200), resident_kib(), Instant::now());
    let mut idle = Clients::connect(&server, count, elsewhere);
    let (opened, kib) = (started.elapsed(), (resident_kib().saturating_sub(before)) as f64 / count as f64);
    assert_eq!(server.count("sessions_now"), (count + warm.len()) as u64);
    let among = warm[0].latencies(200);
    let told = Instant::now();
    grow(&server, 0..1);
    idle.are_told();
    let told = told.elapsed();
    let started = Instant::now();
    drop((idle, warm));
    is_empty_again(&server);
    println!(
        "{count} idle sessions: opened in {opened:.2?}, {kib:.1} KiB each; a light client's p50 and p99 {:.2?} ms, alone \
         {:.2?} ms; the last told of a block after {told:.1?}; all gone after {:.2?}",
        middle_and_p99(among),
        middle_and_p99(alone),
        started.elapsed()
    );
}

#[test]
fn idle_sessions_are_all_told_of_a_block() {
    idle_sessions(300, false);
}

#[test]
#[ignore = "measures, ten seconds"]
fn measure_ten_thousand_idle_sessions() {
    idle_sessions(10_000, true);
}

/// So many sessions with so many subscriptions each come, hear of a block, and leave, beside a light client.
fn subscriptions(sessions: usize, each: usize) {
    let server = server(|limits| limits.subscriptions_session_max = each);
    let mut light = Wallet::greet(&server, "light", "\"1.4\"");
    let (alone, before, started) = (light.latencies(200), resident_kib(), Instant::now());
    let (coming, mut wallets) = beside(&server, || {
        let one = |n: usize| {
            let mut wallet = Wallet::greet(&server, "wallet", "\"1.4\"");
            wallet.subscribe(n * each, each);
            wallet
        };
        (0..sessions).map(one).collect::<Vec<Wallet>>()
    });
    let (came, kib) = (started.elapsed(), resident_kib().saturating_sub(before));
    let total = sessions * each;
    assert_eq!(server.count("subscriptions_now"), total as u64);
    // The first session has all scripts with a history.
    let touched = SCRIPTS.min(each as u16);
    let started = Instant::now();
    grow(&server, 0..touched);
    for _ in 0..touched {
        assert!(!wallets[0].is_answer());
    }
    let told = started.elapsed();
    let started = Instant::now();
    let (leaving, ()) = beside(&server, || {
        wallets.clear();
        while server.count("subscriptions_now") > 0 {
            assert!(started.elapsed() < PATIENCE, "subscriptions stay");
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let left = started.elapsed();
    drop(light);
    is_empty_again(&server);
    println!(
        "{total} subscriptions of {sessions} sessions: made in {came:.2?}, {} bytes each; {touched} notices of a block in \
         {told:.1?}; all gone after {left:.2?}; a light client's p50 and p99 alone {:.2?} ms, while they came {:.2?}, \
         while they went {:.2?}",
        kib * 1024 / total as u64,
        middle_and_p99(alone),
        middle_and_p99(coming),
        middle_and_p99(leaving),
    );
}

#[test]
fn thousands_of_subscriptions_come_hear_of_a_block_and_go() {
    subscriptions(4, 5_000);
}

#[test]
#[ignore = "measures, half a minute"]
fn measure_a_million_subscriptions() {
    subscriptions(20, 50_000);
}

#[test]
#[ignore = "measures, half a minute"]
fn measure_a_client_that_reconnects_with_a_hundred_thousand_subscriptions() {
    let server = server(|_| {});
    let mut light = Wallet::greet(&server, "light", "\"1.4\"");
    let (alone50, alone99) = middle_and_p99(light.latencies(2_000));
    let started = Instant::now();
    let (times, ()) = beside(&server, || {
        for _ in 0..5 {
            Wallet::greet(&server, "large", "\"1.4\"").subscribe(0, 100_000);
        }
    });
    let took = started.elapsed() / 5;
    let (p50, p99) = middle_and_p99(times);
    drop(light);
    is_empty_again(&server);
    println!(
        "100,000 subscriptions again, five times: {took:.2?} each; a light client's p50 {alone50:.2} and p99 {alone99:.2} ms \
         alone, {p50:.2} and {p99:.2} ms beside"
    );
}

/// So many wallets live for a while, each with a pause between its rounds, and a block comes now and then.
fn active_clients(count: usize, time: Duration, pause: Duration, between_blocks: Duration) {
    let server = server(|_| {});
    let mut light = Wallet::greet(&server, "light", "\"1.4\"");
    let alone = light.latencies(200);
    let (rounds, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let live = |number: usize| {
        let (name, versions, habit) = HABITS[number % 3];
        let mut wallet = Wallet::greet(&server, name, if name == "electrum" { "\"1.4\"" } else { versions });
        wallet.ask(&request(0, "blockchain.headers.subscribe", ""));
        let mut n = number;
        while !over.load(SeqCst) {
            habit(&mut wallet, n);
            n += count;
            rounds.fetch_add(1, SeqCst);
            std::thread::sleep(pause);
        }
        // What was due before this answer has been told.
        wallet.ask(&request(0, "server.ping", ""));
        (wallet.notices, wallet.tip)
    };
    let started = Instant::now();
    let (times, (told, blocks)) = beside(&server, || {
        std::thread::scope(|scope| {
            let thread = || std::thread::Builder::new().stack_size(256 * 1024);
            let live = &live;
            let wallets: Vec<_> =
                (0..count).map(|number| thread().spawn_scoped(scope, move || live(number)).unwrap()).collect();
            let mut blocks = 0;
            while started.elapsed() < time {
                std::thread::sleep(between_blocks);
                grow(&server, 0..SCRIPTS / 2);
                blocks += 1;
            }
            // The last one is told before the wallets look for the end.
            std::thread::sleep(Duration::from_millis(500));
            over.store(true, SeqCst);
            let told: Vec<(u64, u64)> = wallets.into_iter().map(|wallet| wallet.join().unwrap()).collect();
            (told, blocks)
        })
    });
    let took = started.elapsed();
    let tip = u64::from(server.chain.plain_view().tip_height());
    let last: HashSet<u64> = told.iter().map(|(_, tip)| *tip).collect();
    assert_eq!(last, HashSet::from([tip]), "every wallet knows the last block");
    let requests: u64 = server.handle.metrics().methods.iter().map(|method| method.requests.get()).sum();
    drop(light);
    is_empty_again(&server);
    println!(
        "{count} wallets for {took:.1?}, {blocks} blocks: {} rounds, {:.0} requests and {:.0} notices a second; a light \
         client's p50 and p99 alone {:.2?} ms, among them {:.2?} ms",
        rounds.load(SeqCst),
        requests as f64 / took.as_secs_f64(),
        told.iter().map(|(notices, _)| notices).sum::<u64>() as f64 / took.as_secs_f64(),
        middle_and_p99(alone),
        middle_and_p99(times),
    );
}

#[test]
fn wallets_of_every_make_live_while_blocks_come() {
    active_clients(24, Duration::from_millis(600), Duration::from_millis(10), Duration::from_millis(150));
}

#[test]
#[ignore = "measures, half a minute"]
fn measure_five_hundred_active_clients() {
    active_clients(500, Duration::from_secs(20), Duration::from_secs(2), Duration::from_secs(2));
}

/// So many ask for a history of a million entries and take a few bytes of it now and then.
fn slow_readers(count: usize, time: Duration) {
    let shared = 16 << 20;
    let server = server(|limits| {
        limits.write_time_max = time;
        limits.waiting_bytes_shared_max = shared;
    });
    server.chain.pad(LONG, 1_000_000);
    let before = resident_kib();
    let line = request(1, "blockchain.scripthash.get_history", &format!("\"{LONG}\""));
    let mut slow: Vec<Wallet> = (0..count).map(|_| Wallet::greet(&server, "slow", "\"1.4\"")).collect();
    slow.iter_mut().for_each(|wallet| wallet.send(&line));
    let (mut most, mut most_kib) = (0, 0);
    let started = Instant::now();
    let (times, ()) = beside(&server, || {
        while server.count("sessions_now") > 1 {
            for wallet in &mut slow {
                // The socket is closed below one that was too slow.
                let _ = wallet.stream.read(&mut [0; 64]);
            }
            most = most.max(server.count("bytes_waiting_now"));
            most_kib = most_kib.max(resident_kib().saturating_sub(before));
            assert!(started.elapsed() < PATIENCE, "{} are still there", server.count("sessions_now"));
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    // The shared room, and what each may have besides: its own, and a slice that overshoots.
    let limits = &server.handle.env().limits;
    let bound = shared + count * (limits.waiting_bytes_own + serve::electrum::limits::SLICE_BYTES * 2);
    assert!(most <= bound as u64, "{most} bytes waited, the bound is {bound}");
    assert_eq!(server.count("dropped_slow_reader"), count as u64);
    drop(slow);
    is_empty_again(&server);
    println!(
        "{count} slow readers: closed after {:.1?}; at most {} KiB waited for them, the process grew by {most_kib} KiB; a \
         light client's p50 and p99 beside them {:.2?} ms",
        started.elapsed(),
        most / 1024,
        middle_and_p99(times)
    );
}

#[test]
fn slow_readers_are_bounded_and_closed() {
    slow_readers(12, Duration::from_millis(400));
}

#[test]
#[ignore = "measures, a quarter of a minute"]
fn measure_slow_readers() {
    slow_readers(500, Duration::from_secs(5));
}
