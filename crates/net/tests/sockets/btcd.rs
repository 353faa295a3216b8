//! btcd: an independent node, plain and encrypted, as source and as sink.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use net::shell::Config;
use net::transport::TransportKind;

use super::line::Line;
use super::shells::{height, params, quiet, ready, start, wait};

/// Where btcd is.
fn program() -> Option<PathBuf> {
    let folders = std::env::var_os("FOREIGN_NODES").into_iter().chain(std::env::var_os("PATH"));
    let found = folders.flat_map(|list| std::env::split_paths(&list).collect::<Vec<_>>());
    let found = found.map(|folder| folder.join("btcd")).find(|path| path.is_file());
    if found.is_none() {
        println!("skipped: no btcd on PATH or in FOREIGN_NODES");
    }
    found
}

/// A running btcd on regtest, ended with the test.
struct Btcd {
    child: Child,
    folder: PathBuf,
    peer_port: u16,
    rpc_port: u16,
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Btcd {
    fn start(name: &str, arguments: &[&str]) -> Option<Btcd> {
        let program = program()?;
        let folder = std::env::temp_dir().join(format!("assay-btcd-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (peer_port, rpc_port) = (free_port(), free_port());
        let child = Command::new(program)
            .arg("--regtest")
            .arg(format!("--datadir={}", folder.display()))
            .arg(format!("--logdir={}", folder.display()))
            .arg(format!("--configfile={}", folder.join("none").display()))
            .arg(format!("--listen=127.0.0.1:{peer_port}"))
            .arg(format!("--rpclisten=127.0.0.1:{rpc_port}"))
            .args(["--notls", "--rpcuser=u", "--rpcpass=p", "--nodnsseed", "--trickleinterval=100ms"])
            .arg("--miningaddr=bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080")
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let btcd = Btcd { child, folder, peer_port, rpc_port };
        let begin = Instant::now();
        while btcd.call("getblockcount", "").is_none() {
            assert!(begin.elapsed() < Duration::from_secs(20), "btcd does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(btcd)
    }

    /// The result of a call, as text.
    fn call(&self, method: &str, arguments: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.rpc_port)).ok()?;
        let body = format!("{{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"{method}\",\"params\":[{arguments}]}}");
        // "u:p" in base64.
        let head = format!(
            "POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Basic dTpw\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, result) = answer.split_once("\"result\":")?;
        Some(result.split(",\"error\"").next()?.to_owned())
    }

    fn height(&self) -> u32 {
        self.call("getblockcount", "").and_then(|text| text.parse().ok()).unwrap_or_default()
    }
}

impl Drop for Btcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn blocks_of_btcd_reach_us_and_go_on_to_another_btcd() {
    for (arguments, kind) in [(&[][..], TransportKind::V1), (&["--v2transport"][..], TransportKind::V2)] {
        let Some(source) = Btcd::start("source", arguments) else { return };
        source.call("generate", "25").expect("btcd mines");
        let ours =
            start(Config { added: vec![format!("127.0.0.1:{}", source.peer_port)], ..quiet() }, Line::new(&params()));
        wait(&[&ours], "a chain of 25 blocks from btcd", || height(&ours) == 25);
        let peer = ready(&ours).remove(0);
        assert_eq!(peer.transport, kind);
        let version = peer.features.version.expect("it is ready");
        assert!(version.user_agent_text().contains("btcd"), "{}", version.user_agent_text());
        wait(&[&ours], "a ping", || ready(&ours).iter().all(|peer| peer.latency.least.is_some()));
        source.call("generate", "1").expect("btcd mines");
        wait(&[&ours], "a new block of btcd", || height(&ours) == 26);

        let connect = format!("--connect={}", ours.listening()[0]);
        let arguments: Vec<&str> = arguments.iter().copied().chain([connect.as_str()]).collect();
        let Some(sink) = Btcd::start("sink", &arguments) else { return };
        wait(&[&ours], "a chain of 26 blocks at the other btcd", || sink.height() == 26);
        let inbound =
            ready(&ours).into_iter().find(|peer| !peer.setup.kind.is_outbound()).expect("btcd connected to us");
        assert_eq!(inbound.transport, kind);
        source.call("generate", "1").expect("btcd mines");
        wait(&[&ours], "a new block at the other btcd", || sink.height() == 27);
        ours.stop().unwrap();
    }
}
