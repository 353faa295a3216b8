//! Two nodes and their users: who is connected, who is kept out, what is known of others, and what outlasts a restart.
//!
//! In:     the built program, twice, on loopback; `data/peers.txt`.
//! Out:    one test; with `ASSAY_BLESS=1` in the environment the answers are recorded anew, for a person to read.
//! Fails:  with the first answer that differs, or what did not come about within a minute.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);
const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/whole/data/peers.txt");
/// Members that no two runs have in common.
const VOLATILE: [&str; 20] = [
    "lastsend",
    "lastrecv",
    "last_block",
    "conntime",
    "bytessent",
    "bytesrecv",
    "bytessent_per_msg",
    "bytesrecv_per_msg",
    "pingtime",
    "minping",
    "session_id",
    "timeoffset",
    "totalbytesrecv",
    "totalbytessent",
    "timemillis",
    "ban_created",
    "minfeefilter",
    // Whether the chain counts as young when its blocks come is a matter of time.
    "bip152_hb_to",
    "bip152_hb_from",
    "time",
];

/// A running node; killed if the test fails.
pub struct Node {
    child: Child,
    datadir: PathBuf,
    rpc: SocketAddr,
    pub peers: SocketAddr,
    /// The end of its log.
    ended: Receiver<String>,
}

impl Node {
    pub fn start(datadir: &Path, more: &[&str]) -> Node {
        let mut command = Command::new(env!("CARGO_BIN_EXE_assay"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ASSAY_")) {
            command.env_remove(name);
        }
        command.args([
            "run",
            "--chain",
            "regtest",
            "--memory-mib",
            "256",
            "--disk-free-min-mib",
            "16",
            "--threads",
            "1",
        ]);
        command.args(["--electrum-listen", "off", "--rpc-listen", "127.0.0.1:0", "--p2p-listen", "127.0.0.1:0"]);
        command.args(["--p2p-connect", "none", "--datadir"]).arg(datadir).args(more);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (log, (tell, told), (end, ended)) = (child.stderr.take().unwrap(), channel(), channel());
        std::thread::spawn(move || {
            let mut all = String::new();
            for line in BufReader::new(log).lines().map_while(Result::ok) {
                if let Some((before, address)) = line.split_once("listening address=") {
                    let address: SocketAddr = address.split(' ').next().unwrap().parse().unwrap();
                    let _ = tell.send((before.contains("rpc"), address));
                }
                all.push_str(&line);
                all.push('\n');
            }
            let _ = end.send(all);
        });
        let next = |is_rpc: bool| loop {
            match told.recv_timeout(PATIENCE) {
                Ok((of_rpc, address)) if of_rpc == is_rpc => break address,
                Ok(_) => {}
                Err(_) => panic!("it does not listen: {:?}", ended.try_recv()),
            }
        };
        let (rpc, peers) = (next(true), next(false));
        let node = Node { child, datadir: datadir.to_owned(), rpc, peers, ended };
        wait("peers can be asked for", || node.call("getconnectioncount", json!([])).is_ok());
        node
    }

    /// Result or error of a call.
    fn call(&self, method: &str, params: Value) -> Result<Value, Value> {
        let cookie = std::fs::read_to_string(self.datadir.join("regtest/.cookie")).unwrap();
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let mut stream = TcpStream::connect(self.rpc).unwrap();
        let auth = serve::keys::base64::encode(cookie.as_bytes());
        write!(
            stream,
            "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Basic {auth}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        let body = reply.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let mut reply: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{method}: {error}: {reply}"));
        match reply["error"].take() {
            Value::Null => Ok(reply["result"].take()),
            error => Err(error),
        }
    }

    pub fn result(&self, method: &str, params: Value) -> Value {
        self.call(method, params.clone()).unwrap_or_else(|error| panic!("{method} {params}: {error}"))
    }

    fn peers(&self) -> Vec<Value> {
        self.result("getpeerinfo", json!([])).as_array().unwrap().clone()
    }

    /// Connections whose handshake is done.
    fn connections(&self) -> usize {
        self.peers().iter().filter(|peer| peer["version"] != 0).count()
    }

    pub fn stop(mut self) -> PathBuf {
        self.result("stop", json!([]));
        let begin = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(begin.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(self.child.wait().unwrap().success(), "{:?}", self.ended.recv());
        self.datadir.clone()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
pub fn wait(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what}: it does not come about");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What was asked and answered, without what no two runs have in common.
#[derive(Default)]
struct Record {
    text: String,
    /// Addresses of the nodes, and their names.
    names: Vec<(String, &'static str)>,
}

impl Record {
    fn steady(&self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    match VOLATILE.contains(&name.as_str()) {
                        true => *member = Value::Null,
                        false => self.steady(member),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.steady(item)),
            Value::String(text) => {
                for (address, name) in &self.names {
                    *text = text.replace(address, name);
                }
                if let Some(port) = text.strip_prefix("127.0.0.1:").filter(|port| port.parse::<u16>().is_ok()) {
                    *text = text.replace(port, "{port}");
                }
            }
            _ => {}
        }
    }

    fn ask(&mut self, node: &Node, method: &str, params: Value) {
        let (mut answer, mut asked) = (node.call(method, params.clone()), params);
        self.steady(&mut asked);
        let text = match &mut answer {
            Ok(result) => {
                self.steady(result);
                result.to_string()
            }
            // Usage is recorded where all methods are.
            Err(error) => {
                let told = error["message"].as_str().unwrap().lines().next().unwrap_or_default().to_owned();
                format!("{} {told}", error["code"])
            }
        };
        self.text.push_str(&format!("> {method} {asked}\n< {text}\n"));
    }

    fn check(&self) {
        if std::env::var_os("ASSAY_BLESS").is_some() {
            std::fs::write(RECORDED, &self.text).unwrap();
        }
        let recorded = std::fs::read_to_string(RECORDED).unwrap_or_default();
        for (row, (got, want)) in self.text.lines().zip(recorded.lines()).enumerate() {
            assert_eq!(got, want, "tests/whole/data/peers.txt:{}", row + 1);
        }
        assert_eq!(self.text.lines().count(), recorded.lines().count());
    }
}

#[test]
fn two_nodes_meet_part_and_remember() {
    let folder = std::env::temp_dir().join(format!("assay-peers-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let folders = [folder.join("a"), folder.join("b")];
    folders.iter().for_each(|folder| std::fs::create_dir_all(folder).unwrap());
    let (a, b) = (Node::start(&folders[0], &[]), Node::start(&folders[1], &["--p2p-ban-s", "1234"]));
    let mut record = Record { text: String::new(), names: vec![] };
    let short = a.peers.to_string().replace("127.0.0.1", "127.1");
    record.names = vec![(a.peers.to_string(), "{a}"), (b.peers.to_string(), "{b}"), (short, "{a, shorter}")];
    alone(&mut record, &a);
    meeting(&mut record, &a, &b);
    book(&mut record, &a);
    refusals(&mut record, &a, &b);
    let a = bans(&mut record, a, &b);
    kinds(&mut record, &a, &b);
    switch(&a, &b);
    record.check();
    (a.stop(), b.stop());
    std::fs::remove_dir_all(&folder).unwrap();
}

fn alone(record: &mut Record, a: &Node) {
    for method in
        ["getconnectioncount", "getpeerinfo", "getaddednodeinfo", "listbanned", "getnetworkinfo", "getnettotals"]
    {
        record.ask(a, method, json!([]));
    }
    record.ask(a, "getaddrmaninfo", json!([]));
}

fn meeting(record: &mut Record, a: &Node, b: &Node) {
    let at = a.peers.to_string();
    record.ask(b, "addnode", json!([at, "add"]));
    let meet = || [a, b].iter().all(|node| node.connections() == 1);
    wait("both are connected", meet);
    let pinged = |node: &Node| node.peers()[0]["minping"].is_number();
    [a, b].iter().for_each(|node| node.result("ping", json!([])).is_null().then_some(()).unwrap());
    wait("both have pinged", || pinged(a) && pinged(b));
    let peer = b.peers()[0].clone();
    for (member, message) in [("bytessent_per_msg", "ping"), ("bytesrecv_per_msg", "pong")] {
        assert!(peer[member][message].as_u64().is_some_and(|bytes| bytes > 0), "{peer}");
    }
    assert_eq!(peer["session_id"], a.peers()[0]["session_id"], "{peer}");
    assert_eq!(peer["session_id"].as_str().map(str::len), Some(64));
    // Our end of a socket is the other's other end.
    assert_eq!((&peer["addrbind"], &peer["addr"]), (&a.peers()[0]["addr"], &a.peers()[0]["addrbind"]));
    let address = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080";
    a.result("generatetoaddress", json!([3, address]));
    wait("three blocks come over", || b.result("getblockcount", json!([])) == 3);
    let knows = |node: &Node, member: &str| node.peers()[0][member] == 3;
    wait("b knows that a has them", || knows(b, "synced_blocks") && knows(b, "synced_headers"));
    wait("a is told that b has them", || a.peers()[0]["inflight"] == json!([]));
    record.ask(b, "getpeerinfo", json!([]));
    record.ask(b, "getaddednodeinfo", json!([]));
    record.ask(b, "getnetworkinfo", json!([]));
    let totals = a.result("getnettotals", json!([]));
    assert!(totals["totalbytessent"].as_u64() > Some(1_000) && totals["totalbytesrecv"].as_u64() > Some(500));
}

fn book(record: &mut Record, a: &Node) {
    let onion = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion";
    for params in [
        json!(["1.0.0.0", 8333]),
        json!(["1.0.0.0", 8333, true]),
        json!(["1.2.3.4", 8333, true]),
        json!(["10.0.0.1", 8333]),
        json!([onion, 8333]),
        json!(["", 8333]),
        json!(["node.example", 8333]),
        json!(["1.2.3.4", 65536]),
    ] {
        record.ask(a, "addpeeraddress", params);
    }
    record.ask(a, "getaddrmaninfo", json!([]));
    record.ask(a, "getnodeaddresses", json!([0, "ipv6"]));
    record.ask(a, "getnodeaddresses", json!([0, "onion"]));
    assert_eq!(a.result("getnodeaddresses", json!([0])).as_array().unwrap().len(), 3);
    let raw = a.result("getrawaddrman", json!([]));
    let addresses = |table: &str| -> Vec<String> {
        let rows = raw[table].as_object().unwrap().values();
        rows.map(|row| row["address"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(addresses("tried"), ["1.2.3.4"]);
    assert!(addresses("new").contains(&"1.0.0.0".to_owned()) && raw["new"].as_object().unwrap().len() == 2, "{raw}");
}

fn refusals(record: &mut Record, a: &Node, b: &Node) {
    let at = a.peers.to_string();
    for (method, params) in [
        ("addnode", json!([at, "add"])),
        ("addnode", json!([at.replace("127.0.0.1", "127.1"), "add"])),
        ("addnode", json!([at, "never"])),
        ("addnode", json!([" ", "onetry"])),
        ("addnode", json!(["1.1.1.1", "remove"])),
        ("getaddednodeinfo", json!(["1.1.1.1"])),
        ("disconnectnode", json!(["221B Baker Street"])),
        ("disconnectnode", json!(["", 100])),
        ("disconnectnode", json!([at, 0])),
        ("setban", json!(["127.0.0.1/42", "add"])),
        ("setban", json!(["127.27.0.1", "add", 123, true])),
        ("setban", json!(["127.0.0.1", "remove"])),
        ("setban", json!(["127.0.0.1", "never"])),
        ("getnodeaddresses", json!([-1])),
        ("getnodeaddresses", json!([1, "Foo"])),
        ("sendmsgtopeer", json!([100, "addr", "FF"])),
        ("sendmsgtopeer", json!([0, "long_msg_type", "FF"])),
        ("sendmsgtopeer", json!([0, "addr", "F"])),
        ("getblockfrompeer", json!(["00".repeat(32), 0])),
        ("addconnection", json!([at, "inbound", false])),
    ] {
        record.ask(b, method, params);
    }
}

/// Bans outlast a restart of `a`, as does what it knows of others; gives the node that was started again.
fn bans(record: &mut Record, a: Node, b: &Node) -> Node {
    for params in [
        json!(["127.0.0.0/24", "add"]),
        json!(["127.0.0.1", "add"]),
        json!(["2001:4d48:ac57:400:cacf:e9ff:fe1d:9c63/19", "add", 1000]),
        json!(["pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion", "add"]),
        json!(["192.168.0.1", "add", 4_000_000_000u64, true]),
    ] {
        record.ask(&a, "setban", params);
    }
    wait("the banned is gone", || a.peers().is_empty() && b.peers().is_empty());
    let before = a.result("listbanned", json!([]));
    // Banned or not is decided before a word is said, also where the user asks.
    b.result("addnode", json!([a.peers.to_string(), "onetry"]));
    let datadir = a.stop();
    let a = Node::start(&datadir, &[]);
    let bans = |value: &Value| -> Vec<(Value, Value)> {
        let rows = value.as_array().unwrap().iter();
        rows.map(|row| (row["address"].clone(), row["banned_until"].clone())).collect()
    };
    let after = a.result("listbanned", json!([]));
    assert_eq!(bans(&before), bans(&after));
    let addresses: Vec<&str> = after.as_array().unwrap().iter().map(|row| row["address"].as_str().unwrap()).collect();
    let onion = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion";
    assert_eq!(addresses, ["127.0.0.0/24", "192.168.0.1/32", "2001:4000::/19", onion]);
    let day: Vec<u64> = after.as_array().unwrap().iter().map(|row| row["ban_duration"].as_u64().unwrap()).collect();
    assert_eq!((day[0], day[2], after[1]["banned_until"].as_u64()), (86_400, 1_000, Some(4_000_000_000)));
    record.ask(&a, "getaddrmaninfo", json!([]));
    record.ask(&a, "setban", json!(["127.0.0.0/24", "remove"]));
    record.ask(&a, "setban", json!(["127.0.0.0/24", "remove"]));
    record.ask(&a, "clearbanned", json!([]));
    record.ask(&a, "listbanned", json!([]));
    // The time that a ban holds may be a setting.
    b.result("setban", json!(["1.2.3.4", "add"]));
    assert_eq!(b.result("listbanned", json!([]))[0]["ban_duration"], 1234);
    a
}

fn kinds(record: &mut Record, a: &Node, b: &Node) {
    record.names[0].0 = a.peers.to_string();
    let at = a.peers.to_string();
    b.result("addnode", json!([at, "onetry", false]));
    wait("they meet again", || b.connections() == 1);
    assert_eq!(b.peers()[0]["transport_protocol_type"], "v1");
    for kind in ["outbound-full-relay", "block-relay-only", "block-relay-only", "addr-fetch"] {
        let before = b.connections();
        record.ask(b, "addconnection", json!([at, kind, true]));
        wait(kind, || b.connections() > before);
    }
    record.ask(b, "addconnection", json!([at, "block-relay-only", true]));
    record.ask(b, "addconnection", json!([at, "feeler", true]));
    let kinds: Vec<Value> = b.peers().iter().map(|peer| peer["connection_type"].clone()).collect();
    assert_eq!(kinds[..5], ["manual", "outbound-full-relay", "block-relay-only", "block-relay-only", "addr-fetch"]);
    // By its address the first one ends; by its number any.
    record.ask(b, "disconnectnode", json!([at]));
    let id = b.peers().iter().find(|peer| peer["connection_type"] == "addr-fetch").unwrap()["id"].clone();
    b.result("disconnectnode", json!({ "nodeid": id }));
    wait("two connections less", || b.connections() == 3 && b.peers().len() == 3);
    // Whatever is said by hand is heard, and what is too long costs the connection.
    let id = b.peers()[0]["id"].clone();
    assert_eq!(b.result("sendmsgtopeer", json!([id, "unknown", "FF"])), json!({}));
    assert_eq!(b.result("sendmsgtopeer", json!([id, "", ""])), json!({}));
    assert_eq!(b.result("sendmsgtopeer", json!([id, "addr", "00".repeat(4_000_001)])), json!({}));
    wait("the connection is over", || b.connections() == 2);
}

fn switch(a: &Node, b: &Node) {
    assert_eq!(b.result("setnetworkactive", json!([false])), false);
    assert_eq!(b.result("getnetworkinfo", json!([]))["networkactive"], false);
    wait("nobody is connected", || a.peers().is_empty() && b.peers().is_empty());
    a.result("addnode", json!([b.peers.to_string(), "onetry"]));
    b.result("addnode", json!([a.peers.to_string(), "onetry"]));
    let stale = branch(a, b);
    assert_eq!(b.result("setnetworkactive", json!([true])), true);
    a.result("addnode", json!([b.peers.to_string(), "onetry"]));
    wait("they meet again", || b.connections() > 0);
    fetch(a, b, &stale);
}

/// While `b` hears nothing, `a` leaves a block behind, whose header `b` is told by hand.
fn branch(a: &Node, b: &Node) -> Value {
    let stale = a.result("generatetodescriptor", json!([1, "raw(51)"]))[0].clone();
    a.result("invalidateblock", json!([stale]));
    a.result("generatetodescriptor", json!([2, "raw(52)"]));
    a.result("reconsiderblock", json!([stale]));
    let header = a.result("getblockheader", json!([stale, false]));
    b.result("submitheader", json!([header]));
    stale
}

/// A block beside the best chain comes only where somebody asks for it.
fn fetch(a: &Node, b: &Node, stale: &Value) {
    let best = |node: &Node| node.result("getbestblockhash", json!([]));
    wait("the best chain comes over", || best(a) == best(b));
    assert!(b.call("getblock", json!([stale])).is_err(), "nobody asked for it");
    let told = |error: Result<Value, Value>| error.unwrap_err()["message"].as_str().unwrap().to_owned();
    let ask = |id: &Value| b.call("getblockfrompeer", json!([stale, id]));
    assert_eq!(told(ask(&json!(12_345))), "Peer does not exist");
    let id = b.peers()[0]["id"].clone();
    assert_eq!(ask(&id), Ok(json!({})));
    wait("the block comes", || b.call("getblock", json!([stale])).is_ok());
    assert_eq!(told(ask(&id)), "Block already downloaded");
    assert_eq!(best(a), best(b));
}
