//! Transactions among programs: two of ours and one of another house, by JSON-RPC and over real sockets.
//!
//! In:     a `btcd` on PATH or in the folder `ASSAY_PEERS`; bcoin in that folder's `node_modules`, and `node` on PATH.
//! Out:    what one is sent, all have; what one mines, all confirm; what a reorganisation takes back is unconfirmed again.
//! Fails:  where something does not come about in time. Without the other program the test says "skipped".

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use primitives::hash::{sha256, sha256d};
use serde_json::{Value, json};

/// Longest time anything may take: bursts come at random times, five seconds apart on average.
const PATIENCE: Duration = Duration::from_secs(120);
/// Anybody may spend what is paid to it: the hash of OP_TRUE as a witness script.
const ANYONE: &str = "bcrt1qft5p2uhsdcdc3l2ua4ap5qqfg4pjaqlp250x7us7a8qqhrxrxfsqseac85";

/// Waits until a closure has an answer.
#[track_caller]
fn wait<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begin.elapsed() < PATIENCE, "{what} does not come about");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A call of JSON-RPC; `user` in base64.
fn call(address: &str, user: &str, method: &str, params: &Value) -> Result<Value, String> {
    let failed = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect(address).map_err(failed)?;
    let body = json!({ "jsonrpc": "1.0", "id": 1, "method": method, "params": params }).to_string();
    let head = format!(
        "POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {user}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).map_err(failed)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed)?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    // A body in chunks has their lengths on lines of their own.
    let body: String = body.lines().filter(|line| line.starts_with('{')).collect();
    let mut answer: Value = serde_json::from_str(&body).map_err(|error| format!("{error}: {answer}"))?;
    match answer["error"].take() {
        Value::Null => Ok(answer["result"].take()),
        error => Err(error.to_string()),
    }
}

fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = |group: &[u8]| {
        let bits = group.iter().enumerate().fold(0u32, |bits, (at, byte)| bits | u32::from(*byte) << (16 - 8 * at));
        let digit = move |at: usize| DIGITS[(bits >> (18 - 6 * at)) as usize & 63] as char;
        (0..4).map(move |at| if at <= group.len() { digit(at) } else { '=' }).collect::<String>()
    };
    text.as_bytes().chunks(3).map(digits).collect()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A program at work, its folder gone with it.
struct Node {
    child: Child,
    folder: PathBuf,
    /// Where it answers, and to whom.
    rpc: String,
    user: String,
    /// Where others connect to.
    peers: String,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("assay-relay-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

/// The lines of a program's log, read so that it never waits.
fn lines(child: &mut Child) -> Receiver<String> {
    let (tell, told) = channel();
    let log = BufReader::new(child.stderr.take().unwrap());
    std::thread::spawn(move || log.lines().map_while(Result::ok).for_each(|line| drop(tell.send(line))));
    told
}

impl Node {
    /// One of ours that connects to `peer`; encrypted where `encrypts`.
    fn ours(name: &str, peer: &str, encrypts: bool) -> Node {
        let folder = folder(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_assay"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ASSAY_")) {
            command.env_remove(name);
        }
        command.args(["run", "--chain", "regtest", "--p2p", "on", "--p2p-listen", "127.0.0.1:0", "--p2p-seeds", "off"]);
        command.args(["--memory-mib", "256", "--disk-free-min-mib", "16", "--rpc-listen", "127.0.0.1:0"]);
        command.args(["--electrum-listen", "off", "--p2p-connect", peer]).arg("--datadir").arg(&folder);
        command.args(["--p2p-encrypt", if encrypts { "on" } else { "off" }]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let log = lines(&mut child);
        let (mut rpc, mut peers, mut seen) = (None, None, String::new());
        while rpc.is_none() || peers.is_none() {
            let line = log.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("it does not listen: {seen}"));
            let address = line.split("address=").nth(1).and_then(|rest| rest.split(' ').next());
            if let (true, Some(address)) = (line.contains("event=listening"), address) {
                let slot = if line.contains("rpc") { &mut rpc } else { &mut peers };
                *slot = Some(address.trim_matches('"').to_owned());
            }
            seen.push_str(&line);
        }
        let cookie = wait("a cookie", || fs::read_to_string(folder.join("regtest/.cookie")).ok());
        Node { child, folder, rpc: rpc.unwrap(), user: base64(&cookie), peers: peers.unwrap() }
    }

    fn btcd(name: &str) -> Option<Node> {
        let folders = std::env::var_os("ASSAY_PEERS").into_iter().chain(std::env::var_os("PATH"));
        let found = folders.flat_map(|list| std::env::split_paths(&list).collect::<Vec<_>>());
        let Some(program) = found.map(|folder| folder.join("btcd")).find(|path| path.is_file()) else {
            println!("skipped: no btcd on PATH or in ASSAY_PEERS");
            return None;
        };
        let (folder, peers, rpc) = (folder(name), free_port(), free_port());
        let child = Command::new(program)
            .arg(format!("--datadir={}", folder.display()))
            .arg(format!("--logdir={}", folder.display()))
            .arg(format!("--configfile={}", folder.join("none").display()))
            .arg(format!("--listen=127.0.0.1:{peers}"))
            .arg(format!("--rpclisten=127.0.0.1:{rpc}"))
            .arg(format!("--miningaddr={ANYONE}"))
            .args(["--regtest", "--notls", "--rpcuser=u", "--rpcpass=p", "--nodnsseed", "--trickleinterval=100ms"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (rpc, peers) = (format!("127.0.0.1:{rpc}"), format!("127.0.0.1:{peers}"));
        Some(Node { child, folder, rpc, user: base64("u:p"), peers }.answering())
    }

    fn bcoin(name: &str) -> Option<Node> {
        let folders = std::env::var_os("ASSAY_PEERS").unwrap_or_default();
        let inside = |folder: PathBuf| [folder.join("node_modules"), folder.join("bcoin/node_modules")];
        let mut found = std::env::split_paths(&folders).flat_map(inside);
        let Some(modules) = found.find(|modules| modules.join("bcoin/package.json").is_file()) else {
            println!("skipped: no bcoin in ASSAY_PEERS");
            return None;
        };
        let (folder, peers, rpc) = (folder(name), free_port(), free_port());
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../net/tests/sockets/bcoin.js");
        let mut command = Command::new("node");
        command.arg(script).args([peers.to_string(), rpc.to_string(), "none".to_owned()]);
        command.env("NODE_PATH", modules).env("NODE_BACKEND", "js").stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(child) = command.spawn() else {
            println!("skipped: no node on PATH");
            return None;
        };
        let (rpc, peers) = (format!("127.0.0.1:{rpc}"), format!("127.0.0.1:{peers}"));
        Some(Node { child, folder, rpc, user: base64("u:p"), peers }.answering())
    }

    fn answering(self) -> Node {
        wait("an answer", || self.try_call("getblockcount", &json!([])).ok());
        self
    }

    fn try_call(&self, method: &str, params: &Value) -> Result<Value, String> {
        call(&self.rpc, &self.user, method, params)
    }

    #[track_caller]
    fn call(&self, method: &str, params: Value) -> Value {
        self.try_call(method, &params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    #[track_caller]
    fn wait_for_height(&self, height: u64) {
        wait(&format!("height {height}"), || {
            (self.try_call("getblockcount", &json!([])).ok()?.as_u64()? == height).then_some(())
        });
    }

    /// Waits until exactly these are unconfirmed.
    #[track_caller]
    fn wait_for_mempool(&self, want: &[&Tx]) {
        let mut want: Vec<String> = want.iter().map(|tx| tx.txid.clone()).collect();
        want.sort();
        wait(&format!("a mempool of {}", want.len()), || {
            let mempool = self.try_call("getrawmempool", &json!([])).ok()?;
            let mut got: Vec<String> =
                mempool.as_array()?.iter().map(|txid| txid.as_str().unwrap().to_owned()).collect();
            got.sort();
            (got == want).then_some(())
        });
    }

    /// Waits until it has told so many peers, and heard from so many, what they want: then all are past their download.
    fn wait_for_peers(&self, count: usize) {
        wait("peers that want transactions", || {
            let peers = self.try_call("getpeerinfo", &json!([])).ok()?;
            let wants = |peer: &&Value| peer["minfeefilter"].as_f64().is_some_and(|fee| fee > 0.0 && fee < 0.001);
            (peers.as_array()?.iter().filter(wants).count() >= count).then_some(())
        });
    }

    /// The coinbase's txid of a block.
    fn coinbase(&self, height: u64) -> String {
        let hash = self.call("getblockhash", json!([height]));
        self.call("getblock", json!([hash, 1]))["tx"][0].as_str().unwrap().to_owned()
    }
}

/// A transaction of one input and one output, both anyone's.
struct Tx {
    txid: String,
    hex: String,
}

fn pay(from: &str, value_sat: u64) -> Tx {
    let mut input = stdx::hex::decode(from).unwrap();
    input.reverse();
    input.extend_from_slice(&[0, 0, 0, 0, 0, 0xfd, 0xff, 0xff, 0xff]);
    let output = [&value_sat.to_le_bytes()[..], &[34, 0, 32], &sha256(&[0x51])].concat();
    let parts = |witness: bool| {
        let (flag, items): (&[u8], &[u8]) = if witness { (&[0, 1], &[1, 1, 0x51]) } else { (&[], &[]) };
        [&[2, 0, 0, 0][..], flag, &[1], &input, &[1], &output, items, &[0; 4]].concat()
    };
    let mut txid = sha256d(&parts(false));
    txid.reverse();
    Tx { txid: stdx::hex::encode(&txid), hex: stdx::hex::encode(&parts(true)) }
}

const COINBASE_SAT: u64 = 5_000_000_000;

/// What one is sent the others have, whoever that is; what is mined is gone everywhere. The transactions, now confirmed.
fn relay(foreign: &Node, name: &str, height: u64, encrypts: bool) -> (Node, Node, [Tx; 3]) {
    foreign.call("generate", json!([height]));
    let first = Node::ours(&format!("{name}-first"), &foreign.peers, encrypts);
    first.wait_for_height(height);
    let second = Node::ours(&format!("{name}-second"), &first.peers, true);
    second.wait_for_height(height);
    first.wait_for_peers(1);
    second.wait_for_peers(1);
    let all = [foreign, &first, &second];
    let a = pay(&first.coinbase(1), COINBASE_SAT - 10_000);
    first.call("sendrawtransaction", json!([a.hex]));
    all.iter().for_each(|node| node.wait_for_mempool(&[&a]));
    let b = pay(&first.coinbase(2), COINBASE_SAT - 10_000);
    foreign.call("sendrawtransaction", json!([b.hex]));
    all.iter().for_each(|node| node.wait_for_mempool(&[&a, &b]));
    let child = pay(&a.txid, COINBASE_SAT - 30_000);
    second.call("sendrawtransaction", json!([child.hex]));
    all.iter().for_each(|node| node.wait_for_mempool(&[&a, &b, &child]));
    foreign.call("generate", json!([1]));
    for node in all {
        node.wait_for_height(height + 1);
        node.wait_for_mempool(&[]);
    }
    (first, second, [a, b, child])
}

#[test]
fn transactions_and_reorganisations_go_between_us_and_btcd() {
    let (Some(btcd), Some(other)) = (Node::btcd("btcd"), Node::btcd("btcd-other")) else { return };
    let (first, second, [a, b, child]) = relay(&btcd, "btcd", 104, true);
    // Another branch, longer by one, on the same coins but without the block that confirmed them.
    for height in 1..=104 {
        let hash = btcd.call("getblockhash", json!([height]));
        let block = btcd.call("getblock", json!([hash, 0]));
        assert_eq!(other.call("submitblock", json!([block])), Value::Null);
    }
    other.call("generate", json!([2]));
    other.call("addnode", json!([first.peers, "add"]));
    for node in [&btcd, &first, &second] {
        node.wait_for_height(106);
        node.wait_for_mempool(&[&a, &b, &child]);
    }
    btcd.call("generate", json!([1]));
    for node in [&btcd, &first, &second, &other] {
        node.wait_for_height(107);
        node.wait_for_mempool(&[]);
    }
}

#[test]
fn transactions_go_between_us_and_bcoin() {
    let Some(bcoin) = Node::bcoin("bcoin") else { return };
    // Its regtest needs three periods of 144 blocks before witnesses are known; it speaks plainly.
    relay(&bcoin, "bcoin", 450, false);
}
