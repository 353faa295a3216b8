//! bcoin: an independent node in another language, plain transport, as source and as sink.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use net::shell::Config;
use net::transport::TransportKind;

use super::line::Line;
use super::shells::{height, params, quiet, ready, start, wait};

/// The folder that holds `node_modules/bcoin`.
fn modules() -> Option<PathBuf> {
    let folders = std::env::var_os("ASSAY_PEERS").unwrap_or_default();
    let inside = |folder: PathBuf| [folder.join("node_modules"), folder.join("bcoin/node_modules")];
    let mut found = std::env::split_paths(&folders).flat_map(inside);
    let found = found.find(|modules| modules.join("bcoin/package.json").is_file());
    let has_node = Command::new("node").arg("--version").stdout(Stdio::null()).status().is_ok_and(|s| s.success());
    if found.is_none() || !has_node {
        println!("skipped: no bcoin in ASSAY_PEERS, or no node on PATH");
        return None;
    }
    found
}

/// A running bcoin on regtest, ended with the test.
struct Bcoin {
    child: Child,
    peer_port: u16,
    rpc_port: u16,
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Bcoin {
    fn start(modules: &Path, peer: Option<SocketAddr>) -> Bcoin {
        let (peer_port, rpc_port) = (free_port(), free_port());
        let peer = peer.map_or("none".to_owned(), |peer| peer.to_string());
        let child = Command::new("node")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sockets/bcoin.js"))
            .args([peer_port.to_string(), rpc_port.to_string(), peer])
            .env("NODE_PATH", modules)
            .env("NODE_BACKEND", "js")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let bcoin = Bcoin { child, peer_port, rpc_port };
        let begin = Instant::now();
        while bcoin.call("getblockcount", "").is_none() {
            assert!(begin.elapsed() < Duration::from_secs(60), "bcoin does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
        bcoin
    }

    /// The result of a call, as text.
    fn call(&self, method: &str, arguments: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.rpc_port)).ok()?;
        let body = format!("{{\"id\":1,\"method\":\"{method}\",\"params\":[{arguments}]}}");
        let head = format!("POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, result) = answer.split_once("\"result\":")?;
        Some(result.split(",\"error\"").next()?.to_owned())
    }

    fn mine(&self, count: u32) {
        let mined = self.call("generate", &count.to_string()).expect("bcoin mines");
        assert_ne!(mined, "null");
    }

    fn height(&self) -> u32 {
        self.call("getblockcount", "").and_then(|text| text.parse().ok()).unwrap_or_default()
    }
}

impl Drop for Bcoin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn blocks_of_bcoin_reach_us_and_go_on_to_another_bcoin() {
    let Some(modules) = modules() else { return };
    let source = Bcoin::start(&modules, None);
    source.mine(25);
    let added = vec![format!("127.0.0.1:{}", source.peer_port)];
    let ours = start(Config { added, encrypts: false, ..quiet() }, Line::new(&params()));
    wait(&[&ours], "a chain of 25 blocks from bcoin", || height(&ours) == 25);
    let peer = ready(&ours).remove(0);
    assert_eq!(peer.transport, TransportKind::V1);
    let version = peer.features.version.expect("it is ready");
    assert!(version.user_agent_text().contains("bcoin"), "{}", version.user_agent_text());
    source.mine(1);
    wait(&[&ours], "a new block of bcoin", || height(&ours) == 26);
    let sink = Bcoin::start(&modules, Some(ours.listening()[0]));
    wait(&[&ours], "a chain of 26 blocks at the other bcoin", || sink.height() == 26);
    source.mine(1);
    wait(&[&ours], "a new block at the other bcoin", || sink.height() == 27);
    ours.stop().unwrap();
}
