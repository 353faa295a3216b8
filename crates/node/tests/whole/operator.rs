//! What an operator does to the Electrum server of a running node, with the program's own commands.
//!
//! In:     the built binary, a node with several ways in, clients that stay.
//! Out:    one test.
//! Fails:  where a command does not do what it says, or what was to be kept is gone after a restart.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::Value as Json;

use super::program::{Folder, Running, assert_private, forge, output, stderr, stdout};

/// A command of the operator's, and its answer.
fn command(datadir: &str, arguments: &[&str]) -> Json {
    let all = [arguments, &["--json", "--chain", "regtest", "--datadir", datadir]].concat();
    let answer = output(&all);
    assert!(answer.status.success(), "{arguments:?}: {}", stderr(&answer));
    serde_json::from_str(&stdout(&answer)).unwrap()
}

/// Greets, and reads the answer.
fn greet<T: Read + Write>(stream: T) -> BufReader<T> {
    let mut stream = BufReader::new(stream);
    let request = b"{\"id\":1,\"method\":\"server.version\",\"params\":[\"wallet 7\",\"1.4\"]}\n";
    stream.get_mut().write_all(request).unwrap();
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    assert!(line.contains("1.4"), "{line}");
    stream
}

#[test]
fn an_operator_sees_ends_bans_and_changes() {
    let (chain, folder) = (Folder::new("operator-blocks"), Folder::new("operator"));
    forge(chain.text(), 103, 100);
    let (socket, log) = (folder.0.join("electrum.sock"), folder.0.join("log"));
    let more = [
        "--electrum-tls-listen",
        "127.0.0.1:0",
        "--electrum-unix-socket",
        socket.to_str().unwrap(),
        "--log-file",
        log.to_str().unwrap(),
        "--electrum-log-addresses",
        "hashed",
    ];
    let mut node = Running::start_with(folder.text(), chain.text(), &more);
    let report = node.wait_for(folder.text(), |report| report["phase"] == "following");
    assert_private(&folder.0.join("regtest/electrum-key.pem"));
    let address = report["electrum"]["listen"].as_str().unwrap();
    let tcp = TcpStream::connect(address).unwrap();
    tcp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut tcp = greet(tcp);
    let mut unix = greet(UnixStream::connect(&socket).unwrap());

    let clients = command(folder.text(), &["clients"]);
    let rows = clients["clients"].as_array().unwrap();
    let told: Vec<[&str; 3]> =
        rows.iter().map(|row| ["origin", "door", "software"].map(|name| row[name].as_str().unwrap())).collect();
    assert_eq!(told, [["127.0.0.1", "tcp", "wallet 7"], ["unix", "unix", "wallet 7"]]);
    let first = rows[0]["id"].to_string();
    assert_eq!(command(folder.text(), &["kick", &first])["kicked"], 1);
    assert_eq!(tcp.read_line(&mut String::new()).unwrap_or(0), 0, "the session is closed");
    assert_eq!(command(folder.text(), &["kick", "unix"])["kicked"], 1);
    assert_eq!(unix.read_line(&mut String::new()).unwrap_or(0), 0);

    command(folder.text(), &["ban", "192.0.2.0/24"]);
    command(folder.text(), &["set", "electrum_sessions_address_max", "7"]);
    command(folder.text(), &["set", "electrum_sessions_max", "8", "--keep"]);
    let limits = command(folder.text(), &["limits"]);
    assert_eq!(limits["bans"][0]["who"], "192.0.2.0/24");
    let now = |limits: &Json| {
        ["electrum_sessions_address_max", "electrum_sessions_max"].map(|name| limits["limits"][name].clone())
    };
    assert_eq!(now(&limits), [7, 8]);
    assert_eq!(command(folder.text(), &["ban", "192.0.2.0/24", "--lift"])["lifted"], true);
    let banned = command(folder.text(), &["ban", "198.51.100.7", "--seconds", "86400"]);
    let wrong = output(&["set", "electrum_sessions_max", "none", "--chain", "regtest", "--datadir", folder.text()]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(stderr(&wrong).contains("accepted: 1..=100000 sessions"), "{}", stderr(&wrong));
    let metrics = stdout(&output(&["status", "--metrics", "--chain", "regtest", "--datadir", folder.text()]));
    assert!(
        metrics.contains("# TYPE assay_electrum_sessions_opened counter\nassay_electrum_sessions_opened 2"),
        "{metrics}"
    );
    assert!(metrics.contains("assay_electrum_answer_seconds_count{method=\"server.version\",bytes_max=\"1024\"} 2"));
    node.signal("TERM");
    node.end();
    let text = fs::read_to_string(&log).unwrap();
    let ended: Vec<&str> = text.lines().filter(|line| line.contains("session ended")).collect();
    assert_eq!(ended.len(), 2, "{text}");
    assert!(ended[1].contains("from=unix door=unix why=Kicked"), "{}", ended[1]);
    assert!(!ended[0].contains("127.0.0.1"), "{}", ended[0]);

    let mut node = Running::start_with(folder.text(), chain.text(), &[]);
    node.wait_for(folder.text(), |report| report["phase"] == "following");
    assert_eq!(now(&command(folder.text(), &["limits"])), [100, 8], "one was kept, the other not");
    let bans = command(folder.text(), &["bans"])["bans"].clone();
    assert_eq!(
        (&bans[0]["who"], &bans[0]["until"], bans.as_array().unwrap().len()),
        (&banned["banned"], &banned["until"], 1)
    );
    node.signal("TERM");
    node.end();
}
