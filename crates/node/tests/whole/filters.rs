//! Block filters, from two running nodes to a light client (BIP 157, 158).
//!
//! In:     the built program, twice: one mines, the other follows it; a client that knows nothing but the peer protocol.
//! Out:    one test: both serve the same filters, each filter is what its hash and header say, and what JSON-RPC shows.
//! Fails:  with the first answer that differs, or what does not come within a minute.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use net::Message;
use net::peer::{ConnectionKind, Local};
use net::transport::{Received, Transport};
use net::wire::{Endpoint, FilterRange, Services};
use primitives::hash::sha256d;
use primitives::{BlockHash, Network, Params};
use serde_json::{Value, json};
use stdx::hex;
use stdx::random::Random;

use super::peers::{Node, wait};

/// A block and its height.
type At = (BlockHash, u32);

/// A light client's connection.
struct Client {
    stream: TcpStream,
    transport: Transport,
    heard: Vec<Message>,
}

impl Client {
    fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let magic = Params::of(Network::Regtest).magic;
        let mut client = Client { stream, transport: Transport::plain(magic), heard: Vec::new() };
        let now = net::Moment { monotonic: Duration::ZERO, unix_s: 1_800_000_000 };
        let local = Local::new(magic, &mut Random::new(1));
        let version = local.version(ConnectionKind::BlocksOnly, Endpoint::NONE, 9, now);
        client.say(&Message::Version(version));
        let services = client.hear(|message| match message {
            Message::Version(version) => Some(version.services),
            _ => None,
        });
        assert!(services.has(Services::COMPACT_FILTERS), "{services:?}");
        client.say(&Message::Verack);
        client
    }

    fn say(&mut self, message: &Message) {
        let mut out = Vec::new();
        self.transport.send(message, &mut out);
        self.stream.write_all(&out).unwrap();
    }

    /// The next message that is picked; pings are answered.
    fn hear<T>(&mut self, pick: impl Fn(Message) -> Option<T>) -> T {
        loop {
            while !self.heard.is_empty() {
                match self.heard.remove(0) {
                    Message::Ping(nonce) => self.say(&Message::Pong(nonce)),
                    message => {
                        if let Some(picked) = pick(message) {
                            return picked;
                        }
                    }
                }
            }
            let mut bytes = vec![0; 1 << 16];
            let count = self.stream.read(&mut bytes).unwrap();
            assert!(count > 0, "the node hangs up");
            let mut received = Vec::new();
            self.transport.receive(&bytes[..count], &mut Vec::new(), &mut received).unwrap();
            for frame in received {
                let Received::Frame { command, payload, .. } = frame else { panic!("{frame:?}") };
                self.heard.push(Message::parse(command, payload).unwrap());
            }
        }
    }

    /// Filters of the chain up to a block at this height, each checked against its hash and header; headers shown as users see
    /// them, and filters.
    fn filters(&mut self, (stop, height): At, (below, below_height): At) -> Vec<(String, String)> {
        let (stop, below) = (&stop, &below);
        self.say(&Message::GetFilterHeaders(FilterRange { filter_type: 0, start_height: 0, stop: *stop }));
        let heads = self.hear(|message| match message {
            Message::FilterHeaders(heads) => Some(heads),
            _ => None,
        });
        assert_eq!((heads.stop, heads.previous, heads.hashes.len()), (*stop, [0; 32], height as usize + 1));
        let mut filters = Vec::new();
        // A thousand at most are asked for at once: those that end at a block below, and the rest.
        for (start_height, stop) in [(0, *below), (below_height + 1, *stop)] {
            self.say(&Message::GetFilters(FilterRange { filter_type: 0, start_height, stop }));
            let last = if start_height == 0 { below_height } else { height };
            for _ in start_height..=last {
                filters.push(self.hear(|message| match message {
                    Message::Filter(filter) => Some(filter),
                    _ => None,
                }));
            }
        }
        let mut header = heads.previous;
        let checked = heads.hashes.iter().zip(filters).map(|(hash, filter)| {
            assert_eq!(sha256d(&filter.filter), *hash, "{:?}", filter.block);
            header = sha256d(&[*hash, header].concat());
            (BlockHash(header).to_string(), hex::encode(&filter.filter))
        });
        let checked: Vec<_> = checked.collect();
        self.say(&Message::GetFilterCheckpoints(0, *stop));
        let checkpoints = self.hear(|message| match message {
            Message::FilterCheckpoints(checkpoints) => Some(checkpoints.headers),
            _ => None,
        });
        let expected: Vec<String> =
            checked.iter().skip(1_000).step_by(1_000).map(|(header, _)| header.clone()).collect();
        let shown: Vec<String> = checkpoints.iter().map(|header| BlockHash(*header).to_string()).collect();
        assert_eq!(shown, expected);
        checked
    }
}

fn tip(node: &Node) -> At {
    let hash = node.result("getbestblockhash", json!([]));
    let height = node.result("getblockcount", json!([])).as_u64().unwrap();
    (hash.as_str().unwrap().parse().unwrap(), height as u32)
}

fn synced(node: &Node) -> bool {
    let index = node.result("getindexinfo", json!([]));
    let (_, height) = tip(node);
    index["basic block filter index"] == json!({"synced": true, "best_block_height": height})
}

/// Both nodes stand at one tip, and what they serve is what they say of it.
fn check(a: &Node, b: &Node) -> Vec<(String, String)> {
    wait("both have the chain and its filters", || tip(a) == tip(b) && synced(a) && synced(b));
    let (stop, height) = tip(a);
    let below = a.result("getblockhash", json!([500])).as_str().unwrap().parse().unwrap();
    let filters = |node: &Node| Client::connect(node.peers).filters((stop, height), (below, 500));
    let (filters, of_a) = (filters(b), filters(a));
    assert_eq!(filters, of_a);
    for height in [0, 1, height / 2, height] {
        let hash = b.result("getblockhash", json!([height]));
        let told = b.result("getblockfilter", json!([hash]));
        let (header, filter) = &filters[height as usize];
        assert_eq!((&told["header"], &told["filter"]), (&json!(header), &json!(filter)), "height {height}");
    }
    filters
}

#[test]
fn light_clients_get_filters_from_two_nodes_and_others_after_a_reorganisation() {
    let folder = std::env::temp_dir().join(format!("assay-filters-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let folders = [folder.join("a"), folder.join("b")];
    folders.iter().for_each(|folder| std::fs::create_dir_all(folder).unwrap());
    let settings = ["--block-filters", "on", "--peer-block-filters", "on"];
    let [a, b] = folders.each_ref().map(|folder| Node::start(folder, &settings));
    let mine = |count: u32, script: &str| a.result("generatetodescriptor", json!([count, script]));
    mine(1_010, "raw(51)");
    b.result("addnode", json!([a.peers.to_string(), "onetry"]));
    let before = check(&a, &b);
    assert_eq!(before.len(), 1_011);
    // The last three blocks are left for four that pay to another script.
    let left: Value = a.result("getblockhash", json!([1_008]));
    a.result("invalidateblock", json!([left]));
    mine(4, "raw(52)");
    let after = check(&a, &b);
    assert_eq!((after.len(), &after[..1_008]), (1_012, &before[..1_008]));
    assert!((1_008..=1_010).all(|height| after[height] != before[height]));
    (a.stop(), b.stop());
    std::fs::remove_dir_all(&folder).unwrap();
}
