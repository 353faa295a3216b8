//! Bitcoin Core's node as a process, where it is installed.
//!
//! In:     `bitcoind` on PATH, or in a folder that `ASSAY_PEERS` lists.
//! Out:    [`Bitcoind`], a node on regtest that the test may call; killed when it is dropped.
//! Fails:  panics where an installed program does not start; one that is not installed is none.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use serve::keys::base64;

use crate::node::PATIENCE;
use crate::world::Folder;

/// Where blocks pay to: the witness program of the generator's public key.
pub const MINER_ADDRESS: &str = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080";
/// Its key: the number 1.
pub const MINER_KEY: &str = "cMahea7zqjxrtgAbB7LSGbcQUr1uX1ojuat9jZodMN87JcbXMTcA";
/// Starts that are tried: a port that was free may be somebody's by then.
const STARTS_MAX: usize = 4;

fn program() -> Option<PathBuf> {
    let folders = std::env::var_os("ASSAY_PEERS").into_iter().chain(std::env::var_os("PATH"));
    let folders = folders.flat_map(|list| std::env::split_paths(&list).collect::<Vec<_>>());
    let found = folders.map(|folder| folder.join("bitcoind")).find(|path| path.is_file());
    if found.is_none() {
        println!("skipped: no bitcoind on PATH or in ASSAY_PEERS");
    }
    found
}

/// A running bitcoind.
pub struct Bitcoind {
    child: Child,
    peer_port: u16,
    rpc: SocketAddr,
    _folder: Folder,
}

/// One call of JSON-RPC over a connection of its own; the error's text where there is no result.
pub fn call(rpc: SocketAddr, credentials: &str, method: &str, params: &Value) -> Result<Value, String> {
    let body = json!({"jsonrpc": "1.0", "id": 1, "method": method, "params": params}).to_string();
    let head = format!(
        "POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        base64::encode(credentials.as_bytes()),
        body.len()
    );
    let mut stream = TcpStream::connect(rpc).map_err(|error| error.to_string())?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
    let mut answer = Vec::new();
    stream.write_all(format!("{head}{body}").as_bytes()).map_err(|error| error.to_string())?;
    stream.read_to_end(&mut answer).map_err(|error| error.to_string())?;
    let answer = String::from_utf8_lossy(&answer);
    let (_, body) = answer.split_once("\r\n\r\n").ok_or("no end of the head")?;
    let body = &body[body.find('{').ok_or_else(|| answer.to_string())?..=body.rfind('}').unwrap_or(0)];
    let answer: Value = serde_json::from_str(body).map_err(|error| format!("{error}: {body}"))?;
    match &answer["error"] {
        Value::Null => Ok(answer["result"].clone()),
        error => Err(error.to_string()),
    }
}

/// Waits until a question is answered as wanted.
#[track_caller]
pub fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(25));
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Bitcoind {
    /// A node that speaks the encrypted transport or the plain one, and connects to `connect` where it is given.
    pub fn start(encrypted: bool, connect: Option<SocketAddr>) -> Option<Bitcoind> {
        let program = program()?;
        for _ in 0..STARTS_MAX {
            let folder = Folder::new("bitcoind");
            let (peer_port, rpc_port) = (free_port(), free_port());
            let mut command = Command::new(&program);
            command
                .args(["-regtest", "-server", "-rpcuser=u", "-rpcpassword=p", "-printtoconsole=0"])
                .args(["-dnsseed=0", "-fixedseeds=0", "-listenonion=0", "-discover=0"])
                .arg("-whitelist=127.0.0.1") // told of transactions at once
                .arg(format!("-bind=127.0.0.1:{peer_port}"))
                .arg(format!("-rpcport={rpc_port}"))
                .arg(format!("-v2transport={}", u8::from(encrypted)))
                .arg(format!("-datadir={}", folder.0.display()));
            command.args(connect.map(|address| format!("-connect={address}")));
            let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let rpc = SocketAddr::from(([127, 0, 0, 1], rpc_port));
            let mut node = Bitcoind { child, peer_port, rpc, _folder: folder };
            if node.answers() {
                return Some(node);
            }
        }
        panic!("bitcoind does not start");
    }

    /// True once it answers; false where it ended.
    fn answers(&mut self) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while self.try_call("getblockcount", &json!([])).is_err() {
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            assert!(Instant::now() < deadline, "bitcoind does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
        true
    }

    /// Where others connect to.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.peer_port)
    }

    fn try_call(&self, method: &str, params: &Value) -> Result<Value, String> {
        call(self.rpc, "u:p", method, params)
    }

    /// A call that has a result.
    #[track_caller]
    pub fn call(&self, method: &str, params: Value) -> Value {
        self.try_call(method, &params).unwrap_or_else(|error| panic!("bitcoind {method} {params}: {error}"))
    }

    /// Mines blocks that pay to [`MINER_ADDRESS`].
    #[track_caller]
    pub fn mine(&self, count: u32) {
        self.call("generatetoaddress", json!([count, MINER_ADDRESS]));
    }

    /// The hash of its tip.
    pub fn tip(&self) -> Value {
        self.call("getbestblockhash", json!([]))
    }

    /// True where a transaction is in its mempool.
    pub fn has_unconfirmed(&self, txid: &Value) -> bool {
        self.call("getrawmempool", json!([])).as_array().is_some_and(|txids| txids.contains(txid))
    }
}

impl Drop for Bitcoind {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
