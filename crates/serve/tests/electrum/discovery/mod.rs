//! Servers that find each other, over real sockets of the loopback network.
//!
//! In:     several servers, each at an address of its own; liars among them.
//! Out:    one test a promise.
//! Fails:  where an honest server is not told of in time, or a liar is.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use primitives::{Network, Params};
use serde_json::{Value, json};
use serve::discovery::Wish;
use serve::discovery::book::Counts;
use serve::discovery::server::{Host, Server as Announced};
use serve::discovery::shell::ByProxy;
use serve::electrum::{Config, ServerHandle, start};
use serve::plain::PlainChain;
use serve::transport::listen::Door;

use crate::chain::{coinbase, mainnet, next};
use crate::client::{Client, greet_at};
use crate::wire::{Folder, files, folder};

/// Longest wait for servers to find each other: each looks around once a second.
const PATIENCE: Duration = Duration::from_secs(30);

/// A chain of 25 blocks; two with another tag are the same up to block 8.
fn chain(tag: u8) -> PlainChain {
    let chain = mainnet();
    for height in 9..25 {
        let block = next(&chain, &[coinbase(height, tag)]);
        chain.connect(block);
    }
    chain
}

/// A port of an address that is free now.
fn free_port(address: IpAddr) -> u16 {
    TcpListener::bind((address, 0)).unwrap().local_addr().unwrap().port()
}

/// A server that is to be started.
struct Draft {
    config: Config,
    url: String,
    folder: Folder,
}

/// A server at an address of the loopback network, which knows these others.
fn draft(address: &str, scheme: &str, seeds: &[&str]) -> Draft {
    let ip: IpAddr = address.parse().unwrap();
    let (port, folder) = (free_port(ip), folder());
    let mut config = Config::new((ip, port).into(), Params::of(Network::Main));
    config.doors = vec![Door { has_tls: scheme == "ssl", ..Door::plain((ip, port).into()) }];
    config.certificate = Some(files(&folder));
    let url = format!("{scheme}://{address}:{port}");
    config.public_hosts = servers(&[&url]);
    let wish = Wish { seeds: servers(seeds), announces: true, accepts_local: true, ..Wish::default() };
    config.discovery = Some(wish);
    Draft { config, url, folder }
}

fn servers(urls: &[&str]) -> Vec<Announced> {
    Announced::of_settings(&urls.join(" "), [None; 4]).unwrap()
}

impl Draft {
    fn wish(mut self, change: impl FnOnce(&mut Wish)) -> Draft {
        change(self.config.discovery.as_mut().unwrap());
        self
    }

    fn start(self) -> (ServerHandle, Folder) {
        (start(self.config, Arc::new(chain(1))).unwrap(), self.folder)
    }
}

fn client(server: &ServerHandle) -> Client {
    greet_at(server.local_address())
}

/// The hosts that a server tells of.
fn told(server: &ServerHandle) -> Vec<String> {
    let rows = server.env().directory.told(None);
    let mut hosts: Vec<String> = rows.iter().map(|row| row[1].as_str().unwrap().to_owned()).collect();
    hosts.sort();
    hosts
}

#[track_caller]
fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} does not come about");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn servers_find_each_other_through_each_other() {
    let first = draft("127.0.0.1", "ssl", &[]);
    let second = draft("127.0.0.2", "tcp", &[&first.url]);
    let third = draft("127.0.0.3", "ssl", &[&second.url]);
    // Each begins when those before it have met: what a server has not yet found out it cannot tell a visitor, who comes
    // again only after hours.
    let (first, second) = (first.start(), second.start());
    for (server, _) in [&first, &second] {
        wait("two know each other", || told(server) == ["127.0.0.1", "127.0.0.2"]);
    }
    let all = [first, second, third.start()];
    for (server, _) in &all {
        wait("everybody is told of", || told(server) == ["127.0.0.1", "127.0.0.2", "127.0.0.3"]);
    }
    // As a wallet sees it: address, host, ways in; and every port among the features.
    let mut wallet = client(&all[1].0);
    let rows = wallet.call("server.peers.subscribe", json!([]));
    let port = |n: usize| all[n].0.local_address().port();
    let want = json!(["127.0.0.1", "127.0.0.1", ["v1.7", format!("s{}", port(0))]]);
    assert!(rows.as_array().unwrap().contains(&want), "{rows}");
    let features = wallet.call("server.features", json!([]));
    assert_eq!(features["hosts"], json!({"127.0.0.2": {"tcp_port": port(1)}}));
    assert_eq!(all[1].0.env().directory.counts(), Counts { good: 2, ..Counts::default() });
}

#[test]
fn liars_are_visited_and_not_told_of() {
    // One on another branch, one that does not name itself, one that says nothing, one that says something else.
    let other = draft("127.0.1.1", "tcp", &[]);
    let other_url = other.url.clone();
    let other = (start(other.config, Arc::new(chain(2))).unwrap(), other.folder);
    let mut nameless = draft("127.0.1.2", "tcp", &[]);
    nameless.config.public_hosts = servers(&["tcp://127.9.9.9:1"]);
    let nameless_url = nameless.url.clone();
    let nameless = nameless.start();
    let odd = TcpListener::bind("127.0.1.3:0").unwrap();
    let odd_url = format!("tcp://{}", odd.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in odd.incoming().map_while(Result::ok).take(1) {
            let mut one = [0];
            let _ = stream.read(&mut one).and_then(|_| stream.write_all(b"220 mail.example.org ESMTP\r\n"));
        }
    });
    let silent = TcpListener::bind("127.0.1.4:0").unwrap();
    let silent_url = format!("tcp://{}", silent.local_addr().unwrap());
    let honest = draft("127.0.1.5", "ssl", &[]);
    let honest_url = honest.url.clone();
    let honest = honest.start();
    let (server, _folder) =
        draft("127.0.1.6", "tcp", &[&other_url, &nameless_url, &odd_url, &silent_url, &honest_url]).start();
    let want = Counts { good: 1, bad: 3, never: 1, stale: 0 };
    wait("three are found out", || server.env().directory.counts() == want);
    assert_eq!(told(&server), ["127.0.1.5", "127.0.1.6"]);
    assert_eq!(server.metrics().servers_refused.get(), 3);
    // A visit that never ends delays nobody who stops.
    let begin = Instant::now();
    server.stop();
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    drop((other, nameless, silent, honest));
}

#[test]
fn one_announces_itself_from_where_it_is() {
    let (server, _folder) = draft("127.0.2.1", "tcp", &[]).start();
    let (newcomer, _own) = draft("127.0.0.1", "tcp", &[]).start();
    let mut client = client(&server);
    let port = newcomer.local_address().port();
    let features = |host: &str, genesis: &str| json!([{"hosts": {host: {"tcp_port": port}}, "genesis_hash": genesis}]);
    let genesis = Params::of(Network::Main).genesis_hash.to_string();
    let mut announce = |params: Value| client.call("server.add_peer", params);
    assert_eq!(announce(features("127.0.2.9", &genesis)), false, "that is not where it comes from");
    assert_eq!(announce(features("127.0.0.1", &"00".repeat(32))), false, "another chain");
    assert_eq!(announce(json!(["hello"])), false);
    assert_eq!(announce(features("127.0.0.1", &genesis)), true);
    wait("it is told of", || told(&server) == ["127.0.0.1", "127.0.2.1"]);
    assert_eq!(announce(features("127.0.0.1", &genesis)), false, "once in ten minutes");
    // Where no part is taken, nobody is told of, and nobody taken.
    let mut off = Config::new("127.0.0.1:0".parse().unwrap(), Params::of(Network::Main));
    off.public_hosts = servers(&["tcp://127.0.0.1:1"]);
    let off = start(off, Arc::new(chain(1))).unwrap();
    let mut asked = self::client(&off);
    assert_eq!(asked.call("server.add_peer", features("127.0.0.1", &genesis)), false);
    assert_eq!(asked.call("server.peers.subscribe", json!([])), json!([]));
}

#[test]
fn verified_servers_outlast_a_restart_and_onions_come_by_their_proxy() {
    let onion = format!("{}.onion", "b".repeat(56));
    let mut hidden = draft("127.0.3.1", "tcp", &[]);
    hidden.config.public_hosts = servers(&[&format!("tcp://{onion}:50001")]);
    let (hidden, _own) = hidden.start();
    let target = hidden.local_address();
    let dial = move |host: String, port: u16| -> serve::discovery::shell::Dialled {
        assert!(host.ends_with(".onion") && port == 50_001);
        Box::pin(async move { tokio::net::TcpStream::connect(target).await })
    };
    let kept = folder();
    let file: PathBuf = kept.0.join("servers.jsonl");
    let seed = format!("tcp://{onion}:50001");
    let change = |wish: &mut Wish| {
        wish.onion_proxy = Some(ByProxy(Arc::new(dial)));
        wish.file = Some(file.clone());
    };
    let (server, _folder) = draft("127.0.3.2", "tcp", &[&seed]).wish(change.clone()).start();
    let want = ["127.0.3.2".to_owned(), onion.clone()];
    wait("the onion service is told of", || told(&server) == want);
    wait("it is kept", || std::fs::read_to_string(&file).is_ok_and(|text| text.contains(&onion)));
    server.stop();
    // Without seeds it is known all the same, and told of once it was visited again.
    let again = draft("127.0.3.2", "tcp", &[]).wish(change);
    let book = serve::discovery::directory::Directory::new(again.config.discovery.clone(), Vec::new(), 1);
    assert_eq!((book.counts(), book.told(None).len()), (Counts { stale: 1, ..Counts::default() }, 0));
    let (server, _folder) = again.start();
    wait("the onion service is told of again", || told(&server) == want);
    assert!(server.env().directory.ours()[0].host != Host::Onion(onion));
}
