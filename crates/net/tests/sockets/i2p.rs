//! I2P by a SAM bridge that the test plays: sessions, connections both ways, and what goes wrong.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use net::hosts::{HostKind, Subnet};
use net::shell::{Config, SamBridge};
use net::wire::Host;
use primitives::hash::sha256;

use super::line::Line;
use super::shells::{PATIENCE, height, mined, params, quiet, ready, say_hello, start, wait};

/// Our private key: a destination of zeros, whose certificate is empty, and what only we know.
fn private() -> String {
    "A".repeat(516 + 128)
}

fn own_host() -> Host {
    Host::I2p(sha256(&[0; 387]))
}

/// Another's destination.
fn other() -> String {
    format!("BAAA{}", "A".repeat(512))
}

fn other_host() -> Host {
    let mut bytes = [0; 387];
    bytes[0] = 4;
    Host::I2p(sha256(&bytes))
}

/// What the bridge does.
#[derive(Clone)]
struct Manner {
    /// Where streams lead.
    target: Option<SocketAddr>,
    /// Answers of the first connections, before it behaves; an empty one ends the connection at once.
    first: Arc<Mutex<Vec<Vec<u8>>>>,
    /// Lines it got, without the words that are random.
    told: Sender<String>,
    /// Streams of those who wait for guests.
    waiting: Sender<TcpStream>,
}

struct Bridge {
    address: SocketAddr,
    told: Receiver<String>,
    waiting: Receiver<TcpStream>,
}

fn bridge(target: Option<SocketAddr>, first: &[&[u8]]) -> Bridge {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let ((tell, told), (wait, waiting)) = (channel(), channel());
    let first: Vec<Vec<u8>> = first.iter().rev().map(|answer| answer.to_vec()).collect();
    let manner = Manner { target, first: Arc::new(Mutex::new(first)), told: tell, waiting: wait };
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let manner = manner.clone();
            std::thread::spawn(move || serve(stream, &manner));
        }
    });
    Bridge { address, told, waiting }
}

fn serve(mut stream: TcpStream, manner: &Manner) -> Option<()> {
    if let Some(answer) = manner.first.lock().unwrap().pop() {
        return stream.write_all(&answer).ok();
    }
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let _ = manner.told.send(line.trim_end().to_owned());
        let answer = match line.split(' ').take(2).collect::<Vec<_>>()[..] {
            ["HELLO", _] => "HELLO REPLY RESULT=OK VERSION=3.1\n".to_owned(),
            ["DEST", _] => format!("DEST REPLY PUB={} PRIV={}\n", "A".repeat(516), private()),
            ["SESSION", _] => format!("SESSION STATUS RESULT=OK DESTINATION={}\n", private()),
            ["NAMING", _] => format!("NAMING REPLY RESULT=OK NAME=x VALUE={}\n", other()),
            _ => "STREAM STATUS RESULT=OK\n".to_owned(),
        };
        stream.write_all(answer.as_bytes()).ok()?;
        match line.split(' ').nth(1)? {
            "ACCEPT" => return manner.waiting.send(stream).ok(),
            "CONNECT" => break,
            _ => {}
        }
    }
    let onward = TcpStream::connect(manner.target?).ok()?;
    let (mut back, mut forth) = (onward.try_clone().ok()?, stream.try_clone().ok()?);
    std::thread::spawn(move || std::io::copy(&mut back, &mut forth));
    std::io::copy(&mut reader, &mut &onward).ok().map(|_| ())
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("assay-net-i2p-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn config(bridge: &Bridge, accepts: bool, folder: &Folder) -> Config {
    let sam = Some(SamBridge { address: bridge.address, accepts });
    Config { listen: vec![], sam, directory: Some(folder.0.clone()), ..quiet() }
}

#[test]
fn others_find_us_under_an_address_that_stays() {
    let folder = Folder::new("stays");
    for is_first in [true, false] {
        let bridge = bridge(None, &[]);
        let shell = start(config(&bridge, true, &folder), mined(1));
        wait(&[], "an address", || !shell.own_endpoints().is_empty());
        let own = shell.own_endpoints()[0];
        assert_eq!((own.host, own.port), (own_host(), 0));
        let mut guest = bridge.waiting.recv_timeout(PATIENCE).unwrap();
        guest.write_all(format!("{} FROM_PORT=0 TO_PORT=0\n", other()).as_bytes()).unwrap();
        say_hello(&mut guest);
        wait(&[], "a handshake", || ready(&shell).len() == 1);
        let peer = &ready(&shell)[0];
        assert_eq!((peer.network, peer.setup.remote.host), (Some(HostKind::I2p), other_host()));
        assert!(peer.name.ends_with(".b32.i2p:0"), "{}", peer.name);
        // The next one can come meanwhile.
        let _next = bridge.waiting.recv_timeout(PATIENCE).unwrap();
        let told: Vec<String> = bridge.told.try_iter().collect();
        let made = told.iter().filter(|line| line.starts_with("DEST GENERATE")).count();
        assert_eq!(made, usize::from(is_first), "the key is made once: {told:?}");
        let create = told.iter().find(|line| line.starts_with("SESSION CREATE")).unwrap();
        assert!(create.contains(&format!("DESTINATION={} ", private())), "{create}");
        shell.stop().unwrap();
    }
    let key = folder.0.join("i2p_private_key");
    assert_eq!(std::fs::read(&key).unwrap(), vec![0; 387 + 96]);
    #[cfg(unix)]
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(key).unwrap().permissions()) & 0o777, 0o600);
}

#[test]
fn connections_go_through_i2p_each_from_an_address_of_its_own() {
    let (folder, source) = (Folder::new("out"), start(quiet(), mined(20)));
    let bridge = bridge(Some(source.listening()[0]), &[]);
    let names: Vec<String> = [1, 2].iter().map(|n| format!("{}:0", Host::I2p([*n; 32]))).collect();
    let names = [&names[..], &[format!("{}:1", Host::I2p([3; 32])), "x.b32.i2p:0".to_owned()]].concat();
    let sink = start(Config { added: names, ..config(&bridge, false, &folder) }, Line::new(&params()));
    wait(&[&sink], "a chain of 20 blocks over two connections", || height(&sink) == 20 && ready(&sink).len() == 2);
    let told: Vec<String> = bridge.told.try_iter().collect();
    let created: Vec<&String> = told.iter().filter(|line| line.starts_with("SESSION CREATE")).collect();
    assert!(created.iter().all(|line| line.contains(" DESTINATION=TRANSIENT ")), "{created:?}");
    let ids: std::collections::HashSet<&str> = created.iter().map(|line| line.split(' ').nth(3).unwrap()).collect();
    assert!(ids.len() >= 2, "a session for each: {created:?}");
    let mut looked: Vec<&str> = told.iter().filter_map(|line| line.strip_prefix("NAMING LOOKUP NAME=")).collect();
    looked.sort_unstable();
    looked.dedup();
    assert_eq!(looked.len(), 2, "ports other than 0 are not asked for: {looked:?}");
    assert!(sink.own_endpoints().is_empty() && !folder.0.join("i2p_private_key").exists());
    // What connects is a network of its own, and can be banned.
    let host = Host::I2p([1; 32]);
    sink.ban(Subnet::of_host(host), net::addresses::Ban { created_s: 1, until_s: u64::MAX });
    wait(&[&sink], "one connection less", || sink.peers().iter().all(|peer| peer.setup.remote.host != host));
    sink.stop().unwrap();
    source.stop().unwrap();
}

#[test]
fn a_bridge_that_fails_is_asked_again() {
    let folder = Folder::new("fails");
    let long = vec![b'x'; 100_000];
    let first: [&[u8]; 3] = [b"", b"HELLO REPLY RESULT=I2P_ERROR MESSAGE=\"no\"\n", &long];
    let bridge = bridge(None, &first);
    let shell = start(config(&bridge, true, &folder), mined(1));
    // One second, two and four of rest.
    let mut guest = bridge.waiting.recv_timeout(PATIENCE).unwrap();
    let remarks = shell.take_remarks();
    assert_eq!(remarks.iter().filter(|remark| remark.starts_with("I2P: ")).count(), 3, "{remarks:?}");
    assert!(remarks.iter().any(|remark| remark.contains("the SAM bridge refuses HELLO")), "{remarks:?}");
    wait(&[], "the address is told", || shell.own_endpoints().len() == 1);
    // The session is closed behind our back: the address is no longer told, and a new session made.
    guest.write_all(b"STREAM STATUS RESULT=I2P_ERROR MESSAGE=\"Session was closed\"\n").unwrap();
    wait(&[], "the address is withdrawn", || shell.own_endpoints().is_empty());
    let mut again = bridge.waiting.recv_timeout(PATIENCE).unwrap();
    wait(&[], "the address is told again", || shell.own_endpoints().len() == 1);
    let sessions = bridge.told.try_iter().filter(|line| line.starts_with("SESSION CREATE")).count();
    assert_eq!(sessions, 2);
    // Who says who he is not: his line is no destination.
    again.write_all(b"not a destination\n").unwrap();
    assert_eq!(again.read(&mut [0; 8]).unwrap_or(0), 0, "closed");
    let _last = bridge.waiting.recv_timeout(PATIENCE).unwrap();
    assert!(shell.peers().is_empty());
    shell.stop().unwrap();
}
