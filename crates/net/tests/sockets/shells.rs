//! Shells of ours: synchronisation, proxies, bans, room for newcomers, what survives a restart.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use net::addresses::{Ban, Reachable, Targets};
use net::hosts::HostKind;
use net::hub::{Hub, Judgement, UploadBudget};
use net::peer::{ConnectionKind, End, Local, Whitebound, Whitelisted};
use net::relay::NoPool;
use net::shell::{Config, OsEntropy, PeerReport, Proxy, Shell};
use net::sync::Limits;
use net::transport::TransportKind;
use net::wire::{Endpoint, Host, PeerAddress, Services};
use primitives::{Network, Params};
use stdx::clock::SystemClock;

use super::line::Line;

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn params() -> Params {
    Params::of(Network::Regtest)
}

/// Settings of a node that only does what it is told.
pub fn quiet() -> Config {
    Config {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        targets: Targets::NONE,
        dns_seeds: false,
        fixed_seeds: false,
        ..Config::default()
    }
}

pub fn start(config: Config, line: Line) -> Shell<Line> {
    let local = Local::new(params().magic, &mut OsEntropy);
    let (limits, upload) = (Limits::default(), UploadBudget::new(None));
    let hub = Hub::new(line, Arc::new(params()), Arc::new(local), limits, upload, Box::new(NoPool), &mut OsEntropy);
    let clock = Arc::new(SystemClock::default());
    Shell::start(config, params(), clock, hub, Box::new(OsEntropy)).expect("a free port of this machine")
}

pub fn mined(count: u32) -> Line {
    let mut line = Line::new(&params());
    (0..count).for_each(|_| line.mine(&params()));
    line
}

/// Takes the blocks that came for good ones.
pub fn judge(shell: &Shell<Line>) {
    shell.with_hub(|hub| {
        for (hash, bytes) in std::mem::take(&mut hub.chain_mut().waiting) {
            hub.chain_mut().take(hash, bytes);
            let now = net::Moment { monotonic: Duration::from_secs(1), unix_s: 1 };
            hub.judged(&hash, Judgement::Good, now);
        }
    });
}

pub fn height(shell: &Shell<Line>) -> u32 {
    use net::hub::Chain;
    shell.with_hub(|hub| hub.chain().tip().height)
}

/// Waits until `is_so`, judging blocks meanwhile.
#[track_caller]
pub fn wait(shells: &[&Shell<Line>], what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        if begin.elapsed() > PATIENCE {
            let ended: Vec<String> = shells
                .iter()
                .flat_map(|shell| shell.take_ended())
                .map(|one| format!("{}: {}", one.remote, one.end))
                .collect();
            panic!("{what} does not come about; ended: {ended:?}");
        }
        shells.iter().for_each(|shell| judge(shell));
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn ready(shell: &Shell<Line>) -> Vec<PeerReport> {
    shell.peers().into_iter().filter(|peer| peer.features.version.is_some()).collect()
}

#[test]
fn blocks_cross_between_shells_encrypted_and_plain() {
    for (encrypts, want) in
        [([true, true], TransportKind::V2), ([true, false], TransportKind::V1), ([false, true], TransportKind::V1)]
    {
        let source = start(Config { encrypts: encrypts[0], ..quiet() }, mined(300));
        let added = vec![source.listening()[0].to_string()];
        let sink = start(Config { encrypts: encrypts[1], added, ..quiet() }, Line::new(&params()));
        wait(&[&sink], "a chain of 300 blocks", || height(&sink) == 300);
        let peers = ready(&sink);
        assert_eq!((peers.len(), peers[0].transport, peers[0].setup.kind), (1, want, ConnectionKind::Manual));
        assert_eq!(ready(&source)[0].session_id, peers[0].session_id);
        assert_eq!(peers[0].session_id.is_some(), want == TransportKind::V2);
        wait(&[&sink], "a ping", || ready(&sink).iter().all(|peer| peer.latency.least.is_some()));
        // The source mines on, and tells.
        source.with_hub(|hub| {
            hub.chain_mut().mine(&params());
            hub.tick(net::Moment { monotonic: Duration::from_secs(10), unix_s: 1 }, &mut OsEntropy);
        });
        wait(&[&source, &sink], "a new block", || height(&sink) == 301);
        sink.stop().unwrap();
        source.stop().unwrap();
    }
}

#[test]
fn a_shell_that_dials_itself_notices() {
    let shell = start(quiet(), mined(1));
    let own = shell.listening()[0].to_string();
    assert!(shell.add_node(&own, true) && !shell.add_node(&own, true));
    wait(&[], "the end of the connection", || shell.take_ended().iter().any(|one| one.end == End::ConnectedToSelf));
    assert!(shell.remove_node(&own));
    shell.stop().unwrap();
}

/// A SOCKS5 proxy for one connection after another; tells whom it was asked for and by whom.
fn proxy(target: SocketAddr) -> (SocketAddr, std::sync::mpsc::Receiver<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, (tell, told)) = (listener.local_addr().unwrap(), std::sync::mpsc::channel());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let tell = tell.clone();
            std::thread::spawn(move || serve_proxy(stream, target, &tell));
        }
    });
    (address, told)
}

fn serve_proxy(mut stream: TcpStream, target: SocketAddr, tell: &std::sync::mpsc::Sender<(String, String)>) {
    let read = |stream: &mut TcpStream, count: usize| {
        let mut bytes = vec![0; count];
        stream.read_exact(&mut bytes).unwrap();
        bytes
    };
    let greeting = read(&mut stream, 2);
    read(&mut stream, usize::from(greeting[1]));
    stream.write_all(&[5, 2]).unwrap();
    let name_bytes = read(&mut stream, 2)[1];
    let name = String::from_utf8(read(&mut stream, usize::from(name_bytes))).unwrap();
    let password_bytes = read(&mut stream, 1)[0];
    read(&mut stream, usize::from(password_bytes));
    stream.write_all(&[1, 0]).unwrap();
    let host_bytes = read(&mut stream, 5)[4];
    let host = String::from_utf8(read(&mut stream, usize::from(host_bytes))).unwrap();
    read(&mut stream, 2);
    let onward = TcpStream::connect(target).unwrap();
    stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
    tell.send((host, name)).unwrap();
    let (mut back, mut forth) = (onward.try_clone().unwrap(), stream.try_clone().unwrap());
    std::thread::spawn(move || std::io::copy(&mut back, &mut forth));
    let mut onward = onward;
    let _ = std::io::copy(&mut stream, &mut onward);
}

#[test]
fn connections_go_through_the_proxy_each_under_its_own_name() {
    let source = start(quiet(), mined(20));
    let (address, told) = proxy(source.listening()[0]);
    let onion = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion";
    let config = Config {
        listen: vec![],
        proxy: Some(Proxy { address, isolates: true }),
        added: vec![format!("{onion}:8333"), "node.example:18444".to_owned()],
        ..quiet()
    };
    let sink = start(config, Line::new(&params()));
    wait(&[&sink], "a chain of 20 blocks", || height(&sink) == 20);
    let (first, second) = (told.recv_timeout(PATIENCE).unwrap(), told.recv_timeout(PATIENCE).unwrap());
    let mut hosts = [first.0, second.0];
    hosts.sort();
    assert_eq!(hosts, ["node.example", onion], "names are not looked up here");
    assert_ne!(first.1, second.1, "every connection has a name of its own");
    sink.stop().unwrap();
    source.stop().unwrap();
}

/// A peer of its own, in plain bytes: says version, and reads until the other side ends.
fn stranger(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    say_hello(&mut stream);
    stream
}

/// Version and verack, in plain frames.
pub fn say_hello(stream: &mut TcpStream) {
    let mut random = stdx::random::Random::new(1);
    let local = Local::new(params().magic, &mut random);
    let now = net::Moment { monotonic: Duration::ZERO, unix_s: 1_800_000_000 };
    let version = local.version(ConnectionKind::OutboundFull, net::wire::Endpoint::NONE, 9, now);
    let mut out = Vec::new();
    let mut transport = net::transport::Transport::plain(params().magic);
    transport.send(&net::Message::Version(version), &mut out);
    transport.send(&net::Message::Verack, &mut out);
    stream.write_all(&out).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
}

pub fn is_closed(stream: &mut TcpStream) -> bool {
    let mut sink = vec![0; 65_536];
    loop {
        match stream.read(&mut sink) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

#[test]
fn the_banned_are_sent_away_and_stay_away() {
    let shell = start(quiet(), mined(1));
    let address = shell.listening()[0];
    let mut first = stranger(address);
    wait(&[], "a handshake", || ready(&shell).len() == 1);
    let subnet = "127.0.0.0/8".parse().unwrap();
    shell.ban(subnet, Ban { created_s: 1, until_s: u64::MAX });
    assert!(is_closed(&mut first) && is_closed(&mut stranger(address)));
    assert!(shell.lift_ban(&subnet));
    let _third = stranger(address);
    wait(&[], "a handshake", || ready(&shell).len() == 1);
    shell.stop().unwrap();
}

#[test]
fn whom_the_user_trusts_comes_in_though_banned_and_each_door_has_its_own_permissions() {
    let whitelist = ["noban,in@127.0.0.1", "relay,out@127.0.0.1", "mempool@127.0.0.2"];
    let whitelist = whitelist.iter().map(|text| Whitelisted::parse(text).unwrap()).collect();
    let whitebind = vec![Whitebound::parse("addr@127.0.0.1:0").unwrap()];
    let shell = start(Config { whitelist, whitebind, ..quiet() }, mined(1));
    let source = start(quiet(), mined(1));
    shell.ban("127.0.0.0/8".parse().unwrap(), Ban { created_s: 1, until_s: u64::MAX });
    let _plain = stranger(shell.listening()[0]);
    wait(&[], "a handshake", || ready(&shell).len() == 1);
    let _white = stranger(shell.listening()[1]);
    wait(&[], "a handshake", || ready(&shell).len() == 2);
    shell.try_node(&source.listening()[0].to_string(), false);
    wait(&[], "a handshake", || ready(&shell).len() == 3);
    let names: Vec<Vec<&str>> = ready(&shell).iter().map(|peer| peer.setup.permissions.names()).collect();
    assert_eq!(names, [vec!["noban", "download"], vec!["noban", "download", "addr"], vec!["relay"]]);
    // Those who need no words have what such a list means.
    let implicit = Whitelisted::parse("127.0.0.1").unwrap();
    let guarded = start(Config { whitelist: vec![implicit], ..quiet() }, mined(1));
    let _guest = stranger(guarded.listening()[0]);
    wait(&[], "a handshake", || ready(&guarded).len() == 1);
    assert_eq!(ready(&guarded)[0].setup.permissions.names(), ["noban", "relay", "mempool", "download"]);
    [shell, source, guarded].iter().for_each(|shell| shell.stop().unwrap());
}

#[test]
fn seed_nodes_are_asked_for_addresses_and_left() {
    let source = start(quiet(), mined(1));
    // Two may fall on one place of the book, which keeps the first.
    let add = |n: &u8| source.add_address(net::wire::Host::V4([20, *n, 1, 1]), 8333, false).is_ok();
    assert!((0..100).filter(add).count() > 90);
    let seed = source.listening()[0].to_string();
    let targets = Targets { full: 1, blocks_only: 0, explores: false };
    let (proxy, _told) = proxy(source.listening()[0]);
    // What it finds is behind a proxy that leads to the source again, whatever is asked for.
    let proxy = Some(Proxy { address: proxy, isolates: true });
    let config = Config { seed_nodes: vec![seed], targets, proxy, listen: vec![], ..quiet() };
    let shell = start(config, mined(1));
    wait(&[], "addresses", || shell.address_counts().iter().any(|(_, new, tried)| new + tried > 10));
    wait(&[], "the end", || shell.take_ended().iter().any(|one| one.end == End::AddressesFetched));
    wait(&[], "a connection to one of them", || {
        ready(&shell).iter().any(|peer| peer.setup.kind == ConnectionKind::OutboundFull)
    });
    [shell, source].iter().for_each(|shell| shell.stop().unwrap());
}

#[test]
fn newcomers_get_room_however_many_sockets_stay_silent() {
    let shell = start(Config { inbound_max: 40, ..quiet() }, mined(1));
    let address = shell.listening()[0];
    // Many more than there is room for, that say nothing; one place is made for every newcomer all the same.
    let silent: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
    wait(&[], "full house", || shell.peers().len() >= 40);
    let guest = stranger(address);
    wait(&[], "a handshake", || ready(&shell).len() == 1);
    assert!(shell.peers().len() <= 40);
    drop((silent, guest));
    wait(&[], "an empty house", || shell.peers().is_empty());
    shell.stop().unwrap();
}

#[test]
fn those_who_want_transactions_take_a_part_of_the_places() {
    let shell = start(Config { inbound_relay_max: 3, ..quiet() }, mined(1));
    let address = shell.listening()[0];
    let first: Vec<TcpStream> = (0..3).map(|_| stranger(address)).collect();
    wait(&[], "three", || ready(&shell).len() == 3);
    // The first ones are near, early and alike: nobody makes room, and the fourth goes.
    let mut fourth = stranger(address);
    assert!(is_closed(&mut fourth));
    assert_eq!(ready(&shell).len(), 3);
    let silent: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(address).unwrap()).collect();
    wait(&[], "who has not said what he wants stays", || shell.peers().len() == 7);
    drop((first, silent));
    wait(&[], "an empty house", || shell.peers().is_empty());
    let fifth = stranger(address);
    wait(&[], "a place is free again", || ready(&shell).len() == 1);
    drop(fifth);
    shell.stop().unwrap();
}

#[test]
fn addresses_that_cannot_be_reached_take_no_room() {
    for (reachable, want) in [(Reachable::ALL, 1), (Reachable::ALL.without(HostKind::V4), 0)] {
        let shell = start(Config { reachable, ..quiet() }, mined(1));
        let mut stream = stranger(shell.listening()[0]);
        let time_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as u32;
        let endpoint = Endpoint { host: Host::V4([20, 1, 1, 1]), port: 8333 };
        let services = Services::NETWORK.and(Services::WITNESS);
        let mut out = Vec::new();
        let mut transport = net::transport::Transport::plain(params().magic);
        transport.send(&net::Message::Addr(vec![PeerAddress { time_s, services, endpoint }]), &mut out);
        stream.write_all(&out).unwrap();
        // What it said is heard before it is gone.
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(is_closed(&mut stream));
        wait(&[], "an empty house", || shell.peers().is_empty());
        let known: usize = shell.address_counts().iter().map(|(_, new, tried)| new + tried).sum();
        assert_eq!(known, want);
        shell.stop().unwrap();
    }
}

#[test]
fn addresses_and_bans_survive_a_restart() {
    let directory = std::env::temp_dir().join(format!("assay-net-{}", std::process::id()));
    let config = || Config { directory: Some(directory.clone()), ..quiet() };
    let shell = start(config(), mined(1));
    shell.ban("1.2.3.0/24".parse().unwrap(), Ban { created_s: 1, until_s: u64::MAX });
    shell.stop().unwrap();
    std::fs::write(directory.join("anchors.dat"), b"nonsense").unwrap();
    let shell = start(config(), mined(1));
    assert_eq!(shell.bans().len(), 1);
    let remarks = shell.take_remarks();
    assert_eq!(remarks.len(), 1, "{remarks:?}");
    assert!(!directory.join("anchors.dat").exists(), "anchors are used once");
    shell.stop().unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_port_in_use_is_said() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let local = Local::new(params().magic, &mut OsEntropy);
    let (limits, upload) = (Limits::default(), UploadBudget::new(None));
    let hub = Hub::new(mined(0), Arc::new(params()), Arc::new(local), limits, upload, Box::new(NoPool), &mut OsEntropy);
    let config = Config { listen: vec![address], ..quiet() };
    let clock = Arc::new(SystemClock::default());
    let error = Shell::start(config, params(), clock, hub, Box::new(OsEntropy)).err().expect("the port is taken");
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

/// A control port that plays Tor: no authentication, one service; tells what was asked, and keeps the connection.
fn tor() -> (SocketAddr, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, (tell, told)) = (listener.local_addr().unwrap(), std::sync::mpsc::channel());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(stream.try_clone().unwrap()));
        for answer in [
            "250-AUTH METHODS=NULL\r\n250 OK\r\n",
            "250 OK\r\n",
            "250-ServiceID=pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd\r\n250-PrivateKey=ED25519-V3:key\r\n250 OK\r\n",
        ] {
            tell.send(lines.next().unwrap().unwrap()).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
        let _ = lines.next();
    });
    (address, told)
}

#[test]
fn an_onion_service_is_asked_for_and_connections_to_it_are_heard() {
    let directory = std::env::temp_dir().join(format!("assay-net-onion-{}", std::process::id()));
    let (control, told) = tor();
    let tor = net::shell::TorService { control, password: None };
    let shell = start(Config { tor: Some(tor), directory: Some(directory.clone()), ..quiet() }, mined(1));
    wait(&[], "an onion service", || !shell.own_endpoints().is_empty());
    assert!(shell.own_endpoints()[0].to_string().ends_with("scryd.onion:18444"));
    assert_eq!([told.recv().unwrap(), told.recv().unwrap()], ["PROTOCOLINFO 1", "AUTHENTICATE"]);
    let add = told.recv().unwrap();
    let target = add.strip_prefix("ADD_ONION NEW:ED25519-V3 Port=18444,").expect("a port of the service");
    let _guest = stranger(target.parse().unwrap());
    wait(&[], "a handshake", || ready(&shell).len() == 1);
    assert_eq!(std::fs::read_to_string(directory.join("onion_v3_private_key")).unwrap(), "ED25519-V3:key");
    shell.stop().unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
#[ignore = "a measurement"]
fn speed() {
    const BLOCKS: u32 = 300;
    let run = |encrypts: bool| {
        let mut line = Line::new(&params());
        (0..BLOCKS).for_each(|_| line.mine_sized(&params(), 1_000_000));
        let source = start(Config { encrypts, ..quiet() }, line);
        let added = vec![source.listening()[0].to_string()];
        let sink = start(Config { encrypts, added, ..quiet() }, Line::new(&params()));
        let begin = Instant::now();
        while height(&sink) < BLOCKS {
            judge(&sink);
            std::thread::sleep(Duration::from_millis(1));
        }
        f64::from(BLOCKS) / begin.elapsed().as_secs_f64()
    };
    let copy = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let writer = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let piece = vec![7; 65_536];
            (0..16 * BLOCKS).for_each(|_| stream.write_all(&piece).unwrap());
        });
        let (mut stream, mut buffer, begin) = (TcpStream::connect(address).unwrap(), vec![0; 65_536], Instant::now());
        while stream.read(&mut buffer).unwrap() > 0 {}
        writer.join().unwrap();
        f64::from(BLOCKS) / begin.elapsed().as_secs_f64()
    };
    let mut best = [0f64; 3];
    for _ in 0..4 {
        for (slot, rate) in [run(true), run(false), copy()].into_iter().enumerate() {
            best[slot] = best[slot].max(rate);
        }
    }
    println!(
        "MB/s over loopback, both ends here: encrypted {:.0}, plain {:.0}; bytes alone {:.0}",
        best[0], best[1], best[2]
    );
}
