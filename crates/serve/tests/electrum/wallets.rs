//! Wallets of several makes, in the way each asks: batches of its own sizes, or many single requests on their way at once.
//!
//! In:     a server whose chain has [`SCRIPTS`] scripts with a history.
//! Out:    answers and notices counted; how long a light client waits.
//! Fails:  panics where an answer is an error or does not come within a minute.
//! Source: Sparrow, Electrum 4.x and BlueWallet as of 2026: versions, methods and sizes of batches.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serve::priority::answer_at_once;

use crate::client::{Server, hash_of};

/// Scripts of the wallets.
pub const SCRIPTS: u16 = 3_000;
/// Longest wait for an answer among thousands of clients.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A wallet's script: a push, OP_DROP, OP_TRUE.
pub fn script(n: u16) -> Vec<u8> {
    let [high, low] = n.to_be_bytes();
    vec![2, high, low, 0x75, 0x51]
}

pub fn hash(n: usize) -> String {
    hash_of(&script(n as u16 % SCRIPTS))
}

/// The middle one, and the one in a hundred, in milliseconds.
pub fn middle_and_p99(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort();
    let ms = |index: usize| times[index].as_secs_f64() * 1000.0;
    (ms(times.len() / 2), ms(times.len() * 99 / 100))
}

pub fn request(id: usize, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":[{params}]}}"#)
}

pub fn batch(requests: impl Iterator<Item = String>) -> String {
    format!("[{}]", requests.collect::<Vec<_>>().join(","))
}

/// A connection that reads answers as text and counts the notices between them.
pub struct Wallet {
    pub stream: TcpStream,
    reader: BufReader<TcpStream>,
    line: String,
    pub notices: u64,
    /// The height of the last tip that it was told of.
    pub tip: u64,
}

impl Wallet {
    pub fn greet(server: &Server, name: &str, versions: &str) -> Wallet {
        let stream = TcpStream::connect(server.handle.local_address()).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        let mut wallet = Wallet { stream, reader, line: String::new(), notices: 0, tip: 0 };
        wallet.ask(&request(0, "server.version", &format!("\"{name}\",{versions}")));
        wallet
    }

    pub fn send(&mut self, line: &str) {
        self.stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Reads a line; false where it is a notice.
    pub fn is_answer(&mut self) -> bool {
        self.line.clear();
        assert!(self.reader.read_line(&mut self.line).unwrap() > 0, "the server has closed");
        let is_notice = self.line.starts_with("{\"jsonrpc\":\"2.0\",\"method\"");
        if is_notice {
            self.notices += 1;
            if let Some(height) = self.line.split("\"height\":").nth(1) {
                self.tip = height.split(',').next().unwrap().parse().unwrap();
            }
        }
        !is_notice
    }

    /// The next answer, which is no error.
    #[track_caller]
    pub fn answer(&mut self) -> &str {
        while !self.is_answer() {}
        assert!(self.line.contains("\"result\":") && !self.line.contains("\"error\":{"), "{:.300}", self.line);
        &self.line
    }

    #[track_caller]
    pub fn ask(&mut self, line: &str) -> &str {
        self.send(line);
        self.answer()
    }

    /// Subscribes to `count` scripts from `first` on, a thousand at a time; those above the wallets' have no history.
    pub fn subscribe(&mut self, first: usize, count: usize) {
        for start in (first..first + count).step_by(1_000) {
            let name = |n: usize| if n < SCRIPTS.into() { hash(n) } else { format!("{n:064x}") };
            let one = |n: usize| request(n, "blockchain.scripthash.subscribe", &format!("\"{}\"", name(n)));
            let answered = self.ask(&batch((start..(start + 1_000).min(first + count)).map(one)));
            assert!(answered.starts_with('['));
        }
    }

    /// Asks for a small history `count` times, two milliseconds between.
    pub fn latencies(&mut self, count: usize) -> Vec<Duration> {
        // It stands for a client elsewhere, who does not share processors with the others of this process.
        answer_at_once();
        let one = |n: usize| {
            std::thread::sleep(Duration::from_millis(2));
            let asked = Instant::now();
            self.ask(&request(n, "blockchain.scripthash.get_history", &format!("\"{}\"", hash(n))));
            asked.elapsed()
        };
        (0..count).map(one).collect()
    }
}

/// One round of a wallet's habits.
pub type Habit = fn(&mut Wallet, usize);

/// Batches of a hundred: subscribes first, then histories, then transactions.
pub fn sparrow(wallet: &mut Wallet, n: usize) {
    let of = |method: &'static str| move |at: usize| request(at, method, &format!("\"{}\"", hash(n * 100 + at)));
    wallet.ask(&batch((0..100).map(of("blockchain.scripthash.subscribe"))));
    wallet.ask(&batch((0..100).map(of("blockchain.scripthash.get_history"))));
    wallet.ask(&batch(
        [1, 2, 5, 10].map(|target| request(target, "blockchain.estimatefee", &target.to_string())).into_iter(),
    ));
    wallet.ask(&request(1, "blockchain.relayfee", ""));
    wallet.ask(&request(2, "mempool.get_fee_histogram", ""));
}

/// No batches: many single requests on their way at once.
pub fn electrum(wallet: &mut Wallet, n: usize) {
    wallet.ask(&request(1, "server.features", ""));
    let mut lines = request(2, "blockchain.block.headers", "0,2016") + "\n";
    for at in 0..40 {
        let script = format!("\"{}\"", hash(n * 40 + at));
        lines += &(request(at, "blockchain.scripthash.subscribe", &script) + "\n");
        lines += &(request(at, "blockchain.scripthash.get_history", &script) + "\n");
    }
    lines += &request(3, "blockchain.transaction.id_from_pos", "9,1,true");
    wallet.send(&lines);
    for _ in 0..82 {
        wallet.answer();
    }
    wallet.ask(&request(4, "server.ping", ""));
}

/// Batches of 200 balances, 100 histories and lists of coins, 45 transactions.
pub fn blue_wallet(wallet: &mut Wallet, n: usize) {
    let of = |method: &'static str| move |at: usize| request(at, method, &format!("\"{}\"", hash(n * 200 + at)));
    wallet.ask(&batch((0..200).map(of("blockchain.scripthash.get_balance"))));
    wallet.ask(&batch((0..100).map(of("blockchain.scripthash.get_history"))));
    wallet.ask(&batch((0..100).map(of("blockchain.scripthash.listunspent"))));
    let known = "\"0e3e2357e806b6cdb1f70b54c3a3a17b6714ee1f0e68bebb44a74b1efd512098\",true";
    wallet.ask(&batch((0..45).map(|at| request(at, "blockchain.transaction.get", known))));
}

pub const HABITS: [(&str, &str, Habit); 3] = [
    ("Sparrow", r#"["1.3","1.4.2"]"#, sparrow),
    ("electrum", r#"["1.4","1.6"]"#, electrum),
    ("bluewallet", "\"1.4\"", blue_wallet),
];
