//! Connections without sockets: both sides ours, or one side a puppet that says what it likes.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::entropy;
use crate::moment::Moment;
use crate::transport::{Received, Transport, TransportKind};
use crate::wire::{
    BlockBytes, Command, Endpoint, Feature, Host, Inventory, InventoryKind, LocatorRequest, Message, PeerAddress,
    SendCompact, SendTxReconciliation, Services, Version, WireError,
};
use stdx::random::Random;

const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];

fn start() -> Moment {
    Moment { monotonic: Duration::from_secs(1_000), unix_s: 1_700_000_000 }
}

fn after(seconds: u64) -> Moment {
    start().after(Duration::from_secs(seconds))
}

fn remote() -> Endpoint {
    Endpoint { host: Host::V4([9, 8, 7, 6]), port: 8333 }
}

fn setup(kind: ConnectionKind, encrypted: bool) -> Setup {
    let permissions = Permissions::NONE;
    Setup { id: PeerId(1), kind, remote: remote(), told_remote: remote(), permissions, encrypted }
}

fn local(seed: u64) -> Arc<Local> {
    Arc::new(Local::new(MAGIC, &mut Random::new(seed)))
}

/// Carries bytes between two peers until both are silent.
fn talk(peers: &mut [Peer; 2], now: Moment, random: &mut Random) -> [Vec<Event>; 2] {
    let mut events = [Vec::new(), Vec::new()];
    while peers.iter().any(|peer| !peer.output().is_empty()) {
        for from in [0, 1] {
            let count = random.below(peers[from].output().len().min(3_000) as u64 + 1) as usize;
            let piece = peers[from].output()[..count].to_vec();
            peers[from].sent(count, now);
            peers[1 - from].receive(&piece, now, random, &mut events[1 - from]);
        }
    }
    events
}

#[test]
fn two_nodes_agree_on_all_they_both_know() {
    for (seed, encrypted) in [(1, [true, true]), (2, [false, true]), (3, [false, false])] {
        let mut random = Random::new(seed);
        let out = Peer::new(setup(ConnectionKind::OutboundFull, encrypted[0]), local(seed), start(), &mut random);
        let inbound = Peer::new(setup(ConnectionKind::Inbound, encrypted[1]), local(99), start(), &mut random);
        let mut peers = [out, inbound];
        let events = talk(&mut peers, start(), &mut random);
        assert_eq!(events[0], [Event::Ready]);
        // The side that connected asks for addresses right behind its verack.
        assert_eq!(events[1], [Event::Ready, Event::Message(Message::GetAddr)]);
        for peer in &mut peers {
            let features = peer.features();
            assert!(features.wtxid_relay && features.addrv2 && features.compact_blocks && features.wants_txs());
            assert!(!features.prefers_headers && !features.compact_at_once);
            assert_eq!((features.protocol, features.time_offset_s), (70_016, 0));
            let kind = if encrypted[0] { TransportKind::V2 } else { TransportKind::V1 };
            assert_eq!(peer.transport_kind(), kind);
            peer.tick(start(), &mut random, &mut Vec::new());
        }
        assert_eq!(peers[0].session_id(), peers[1].session_id());
        let events = talk(&mut peers, after(1), &mut random);
        assert_eq!(events, [vec![], vec![]], "pings and pongs are nobody else's business");
        assert_eq!(peers[0].latency().least, Some(Duration::from_secs(1)));
        peers[0].send(&Message::SendHeaders);
        peers[0].send(&Message::FeeFilter(1_000));
        peers[0].send(&Message::MemPool);
        let events = talk(&mut peers, after(2), &mut random);
        assert_eq!(events[1], [Event::Message(Message::MemPool)]);
        assert!(peers[1].features().prefers_headers);
        assert_eq!(peers[1].features().fee_filter_sat_per_kvb, 1_000);
        let [one, other] = &peers;
        assert_eq!(one.statistics().sent.bytes, other.statistics().received.bytes);
        let of = |traffic: &Traffic| traffic.by_message.clone();
        assert_eq!(of(&one.statistics().sent), of(&other.statistics().received));
        assert_eq!(of(&other.statistics().sent), of(&one.statistics().received));
    }
}

/// A peer of ours, and what somebody else says to it and hears, in plain frames.
struct Puppet {
    peer: Peer,
    transport: Transport,
    random: Random,
    now: Moment,
    events: Vec<Event>,
    heard: Vec<Message>,
}

impl Puppet {
    fn new(kind: ConnectionKind) -> Puppet {
        Puppet::with(setup(kind, false), local(5))
    }

    fn with(setup: Setup, local: Arc<Local>) -> Puppet {
        let mut random = Random::new(7);
        let peer = Peer::new(setup, local, start(), &mut random);
        let transport = Transport::plain(MAGIC);
        Puppet { peer, transport, random, now: start(), events: Vec::new(), heard: Vec::new() }
    }

    /// One whose handshake is done.
    fn ready(kind: ConnectionKind) -> Puppet {
        let mut puppet = Puppet::new(kind);
        puppet.say(Message::Version(version(70_016)));
        puppet.say(Message::Verack);
        puppet.hear();
        assert_eq!(std::mem::take(&mut puppet.events), [Event::Ready]);
        puppet.heard.clear();
        puppet
    }

    fn say(&mut self, message: Message) {
        let mut bytes = Vec::new();
        self.transport.send(&message, &mut bytes);
        self.say_bytes(&bytes);
    }

    /// A frame whose payload need not be one.
    fn say_payload(&mut self, command: Command, payload: Vec<u8>) {
        let mut bytes = Vec::new();
        self.transport.send(&Message::Unknown(command, payload), &mut bytes);
        self.say_bytes(&bytes);
    }

    fn say_bytes(&mut self, bytes: &[u8]) {
        self.peer.receive(bytes, self.now, &mut self.random, &mut self.events);
    }

    fn hear(&mut self) {
        let bytes = self.peer.output().to_vec();
        self.peer.sent(bytes.len(), self.now);
        let mut received = Vec::new();
        self.transport.receive(&bytes, &mut Vec::new(), &mut received).unwrap();
        self.heard.extend(received.into_iter().map(|received| match received {
            Received::Frame { command, payload, .. } => Message::parse(command, payload).unwrap(),
            Received::Dropped { reason, .. } => panic!("{reason:?}"),
        }));
    }

    fn names(&mut self) -> Vec<String> {
        self.hear();
        self.heard.drain(..).map(|message| message.command().to_string()).collect()
    }

    fn tick(&mut self, now: Moment) {
        self.now = now;
        self.peer.tick(now, &mut self.random, &mut self.events);
    }

    fn end(&self) -> Option<&End> {
        self.events.iter().find_map(|event| match event {
            Event::End(end) => Some(end),
            _ => None,
        })
    }
}

fn version(protocol: i32) -> Version {
    Version {
        protocol,
        services: Services::NETWORK.and(Services::WITNESS),
        time_s: 1_700_000_042,
        receiver_services: Services::NONE,
        receiver: Endpoint::NONE,
        nonce: 12,
        user_agent: b"/puppet/".to_vec(),
        start_height: 7,
        relay: true,
    }
}

#[test]
fn what_we_answer_depends_on_the_lower_version() {
    #[track_caller]
    fn check(protocol: i32, before: &[&str], behind: &[&str]) {
        let mut puppet = Puppet::new(ConnectionKind::Inbound);
        puppet.say(Message::Version(version(protocol)));
        assert_eq!(puppet.names(), before, "{protocol}");
        assert_eq!(puppet.peer.features().protocol, protocol.min(70_016));
        assert_eq!(puppet.peer.features().time_offset_s, 42);
        puppet.say(Message::Verack);
        assert_eq!(puppet.names(), behind, "{protocol}");
    }
    check(31_800, &["version", "verack"], &[]);
    check(70_013, &["version", "verack"], &[]);
    check(70_014, &["version", "verack"], &["sendcmpct"]);
    check(70_015, &["version", "verack"], &["sendcmpct"]);
    check(70_016, &["version", "wtxidrelay", "sendaddrv2", "verack"], &["sendcmpct"]);
    check(99_999, &["version", "wtxidrelay", "sendaddrv2", "verack"], &["sendcmpct"]);
}

#[test]
fn each_kind_of_connection_says_what_it_is_for() {
    #[track_caller]
    fn check(kind: ConnectionKind, want_relay: bool, want_getaddr: bool) {
        let mut puppet = Puppet::new(kind);
        puppet.hear();
        let [Message::Version(ours)] = &puppet.heard[..] else { panic!("{:?}", puppet.heard) };
        assert_eq!((ours.relay, ours.receiver), (want_relay, remote()), "{kind:?}");
        puppet.heard.clear();
        puppet.say(Message::Version(version(70_016)));
        assert_eq!(puppet.names().contains(&"getaddr".to_owned()), want_getaddr, "{kind:?}");
        assert_eq!(puppet.end(), (kind == ConnectionKind::Feeler).then_some(&End::FeelerDone), "{kind:?}");
    }
    check(ConnectionKind::OutboundFull, true, true);
    check(ConnectionKind::BlocksOnly, false, false);
    check(ConnectionKind::AddressFetch, true, true);
    check(ConnectionKind::Manual, true, true);
    check(ConnectionKind::Feeler, false, false);
}

#[test]
fn who_may_relay_is_asked_for_transactions_though_others_are_not() {
    let relays = |permissions: Permissions, kind: ConnectionKind, relays_txs: bool| {
        let mut random = Random::new(77);
        let mut quiet = Local::new(MAGIC, &mut random);
        quiet.relays_txs = relays_txs;
        let ours = Setup { permissions, ..setup(kind, false) };
        let ours = Peer::new(ours, Arc::new(quiet), start(), &mut random);
        let theirs = Peer::new(setup(ConnectionKind::Inbound, false), local(78), start(), &mut random);
        let mut peers = [ours, theirs];
        talk(&mut peers, start(), &mut random);
        peers[1].features().wants_txs()
    };
    use ConnectionKind::{BlocksOnly, OutboundFull};
    assert!(relays(Permissions::NONE, OutboundFull, true) && !relays(Permissions::NONE, OutboundFull, false));
    assert!(relays(Permissions::RELAY, OutboundFull, false) && !relays(Permissions::MEMPOOL, OutboundFull, false));
    assert!(!relays(Permissions::RELAY, BlocksOnly, true));
}

#[test]
fn a_connection_for_addresses_ends_with_them_or_after_five_minutes() {
    #[track_caller]
    fn check(count: u8, seconds: u64, want: bool) {
        let mut random = Random::new(79);
        let ours = Peer::new(setup(ConnectionKind::AddressFetch, false), local(79), start(), &mut random);
        let theirs = Peer::new(setup(ConnectionKind::Inbound, false), local(80), start(), &mut random);
        let mut peers = [ours, theirs];
        talk(&mut peers, start(), &mut random);
        let address = |n| PeerAddress {
            time_s: 1_700_000_000,
            services: Services::NETWORK,
            endpoint: Endpoint { host: Host::V4([20, n, 1, 1]), port: 8333 },
        };
        peers[1].send(&Message::Addr((0..count).map(address).collect()));
        let mut events = talk(&mut peers, after(1), &mut random)[0].clone();
        let heard = |event: &Event| matches!(event, Event::Addresses(list) if list.len() == usize::from(count));
        assert!(events.iter().any(heard), "what came is heard");
        peers[0].tick(after(seconds), &mut random, &mut events);
        assert_eq!(events.contains(&Event::End(End::AddressesFetched)), want, "{count} addresses, {seconds} s");
    }
    check(1, 300, false);
    check(1, 301, true);
    check(2, 1, true);
    check(200, 1, true);
}

#[test]
fn a_handshake_goes_wrong_in_one_way_a_rule() {
    #[track_caller]
    fn check(kind: ConnectionKind, version: Version, want: Option<End>) {
        let mut puppet = Puppet::new(kind);
        puppet.say(Message::Version(version));
        assert_eq!(puppet.end(), want.as_ref(), "{kind:?}");
        assert!(!want.is_some_and(|end| end.is_misbehaviour()));
    }
    let old = |protocol| Some(End::ObsoleteVersion { protocol });
    check(ConnectionKind::Inbound, version(31_799), old(31_799));
    check(ConnectionKind::Inbound, version(-1), old(-1));
    check(ConnectionKind::Inbound, version(31_800), None);
    let poor = Version { services: Services::NETWORK, ..version(70_016) };
    let missing =
        Some(End::ServicesMissing { offered: Services::NETWORK, wanted: Services::NETWORK.and(Services::WITNESS) });
    check(ConnectionKind::OutboundFull, poor.clone(), missing.clone());
    check(ConnectionKind::BlocksOnly, poor.clone(), missing.clone());
    check(ConnectionKind::AddressFetch, poor.clone(), missing);
    check(ConnectionKind::Manual, poor.clone(), None);
    check(ConnectionKind::Inbound, poor, None);
    // Who keeps the last blocks only will do where those are all we lack.
    let pruned = Services::NETWORK_LIMITED.and(Services::WITNESS);
    let mut near = (*local(5)).clone();
    assert_eq!(near.wanted_of(pruned), Services::NETWORK.and(Services::WITNESS));
    near.takes_pruned = true;
    assert!(pruned.has(near.wanted_of(pruned)));
    assert_eq!(near.wanted_of(Services::WITNESS), Services::NETWORK.and(Services::WITNESS));
    let own = local(5).draw_nonce(&mut Random::new(3));
    let ours = Version { nonce: own, ..version(70_016) };
    check(ConnectionKind::Inbound, ours.clone(), Some(End::ConnectedToSelf));
    check(ConnectionKind::OutboundFull, ours, None);
    check(ConnectionKind::Inbound, Version { nonce: own ^ 1, ..version(70_016) }, None);
    check(ConnectionKind::Inbound, Version { time_s: i64::MAX, ..version(70_016) }, None);
}

#[test]
fn messages_at_the_wrong_time_are_ignored_or_end_the_connection() {
    let feature = || Message::Feature(Feature { id: b"BIP-1".to_vec(), data: vec![] });
    #[track_caller]
    fn check(says: Vec<Message>, want_events: Vec<Event>) {
        let mut puppet = Puppet::new(ConnectionKind::Inbound);
        says.into_iter().for_each(|message| puppet.say(message));
        assert_eq!(puppet.events, want_events);
    }
    let version = |protocol| Message::Version(version(protocol));
    let late = |command| vec![Event::Ready, Event::End(End::LateNegotiation(command))];
    check(vec![Message::Verack, Message::MemPool, Message::WtxidRelay, version(70_016)], vec![]);
    check(vec![version(70_016), Message::MemPool, Message::GetAddr], vec![]);
    check(vec![version(70_016), version(31_000), Message::Verack, version(1)], vec![Event::Ready]);
    check(vec![version(70_016), Message::Verack, Message::Verack], vec![Event::Ready]);
    check(vec![version(70_016), Message::Verack, Message::WtxidRelay], late(Command::WTXIDRELAY));
    check(vec![version(70_016), Message::Verack, Message::SendAddrV2], late(Command::SENDADDRV2));
    check(vec![version(70_016), Message::Verack, feature()], late(Command::FEATURE));
    check(vec![version(70_016), feature()], vec![Event::End(End::LateNegotiation(Command::FEATURE))]);
    let offer = Message::SendTxReconciliation(SendTxReconciliation { version: 1, salt: 2 });
    check(vec![version(70_016), offer.clone(), Message::Verack, offer], vec![Event::Ready]);
    // After the end nothing is heard.
    check(vec![version(70_016), Message::Verack, Message::WtxidRelay, Message::MemPool], late(Command::WTXIDRELAY));
}

#[test]
fn wishes_are_kept_where_they_make_sense() {
    let mut puppet = Puppet::new(ConnectionKind::Inbound);
    puppet.say(Message::Version(version(70_015)));
    puppet.say(Message::WtxidRelay);
    puppet.say(Message::SendHeaders);
    puppet.say(Message::Verack);
    assert!(!puppet.peer.features().wtxid_relay, "the common version is too old for it");
    assert!(puppet.peer.features().prefers_headers && !puppet.peer.features().addrv2);
    puppet.say(Message::SendCompact(SendCompact { announce: true, version: 1 }));
    assert!(!puppet.peer.features().compact_blocks, "version 1 has no witnesses");
    puppet.say(Message::SendCompact(SendCompact { announce: true, version: 2 }));
    assert!(puppet.peer.features().compact_blocks && puppet.peer.features().compact_at_once);
    puppet.say(Message::SendCompact(SendCompact { announce: false, version: 2 }));
    assert!(puppet.peer.features().compact_blocks && !puppet.peer.features().compact_at_once);
    for (rate, want) in
        [(5, 5), (-1, 5), (2_100_000_000_000_000, 2_100_000_000_000_000), (i64::MAX, 2_100_000_000_000_000)]
    {
        puppet.say(Message::FeeFilter(rate));
        assert_eq!(puppet.peer.features().fee_filter_sat_per_kvb, want);
    }
}

#[test]
fn limits_broken_are_misbehaviour_and_nonsense_is_dropped() {
    #[track_caller]
    fn check(command: Command, payload: Vec<u8>, want: Option<bool>) {
        let mut puppet = Puppet::ready(ConnectionKind::Inbound);
        puppet.say_payload(command, payload.clone());
        assert_eq!(puppet.end().map(End::is_misbehaviour), want, "{command}");
        assert_eq!(puppet.peer.statistics().dropped_messages, u64::from(want.is_none()));
        // Before the handshake is done nobody is blamed for anything.
        let mut early = Puppet::new(ConnectionKind::Inbound);
        early.say_payload(command, payload);
        assert_eq!(early.end(), None);
    }
    let many = |count: u16, entry_bytes: usize| {
        [&[0xfd][..], &count.to_le_bytes(), &vec![1; usize::from(count) * entry_bytes]].concat()
    };
    check(Command::INV, many(50_001, 36), Some(true));
    check(Command::GETDATA, many(50_001, 36), Some(true));
    check(Command::HEADERS, many(2_001, 81), Some(true));
    check(Command::ADDR, many(1_001, 30), Some(true));
    check(Command::SENDCMPCT, vec![2; 9], Some(true));
    check(Command::GETHEADERS, [&[0; 4][..], &[102], &[0; 102 * 32 + 32]].concat(), Some(false));
    check(Command::INV, vec![1], None);
    check(Command::TX, vec![1, 2, 3], None);
    check(Command::BLOCK, vec![0; 80], None);
    check(Command::PING, vec![1; 7], None);
}

#[test]
fn bloom_filters_end_the_connection_and_unknown_messages_do_not() {
    let mut puppet = Puppet::ready(ConnectionKind::Inbound);
    puppet.say_payload(Command::from_name("nonsense").unwrap(), vec![1; 100_000]);
    puppet.say(Message::Reject(vec![1]));
    puppet.say(Message::Bloom(Command::MERKLEBLOCK, vec![1]));
    assert_eq!(puppet.events, []);
    puppet.say(Message::Bloom(Command::FILTERLOAD, vec![1]));
    assert_eq!(puppet.end(), Some(&End::BloomNotOffered));
}

#[test]
fn addresses_are_taken_at_core_s_rate() {
    let address = |n: u32| PeerAddress {
        time_s: 1,
        services: Services::NETWORK,
        endpoint: Endpoint { host: Host::V4(n.to_be_bytes()), port: 8333 },
    };
    let batch = |count: u32| Message::AddrV2((0..count).map(address).collect());
    let taken = |puppet: &mut Puppet| {
        puppet.events.drain(..).fold(0, |sum, event| match event {
            Event::Addresses(addresses) => sum + addresses.len(),
            event => panic!("{event:?}"),
        })
    };
    let mut puppet = Puppet::ready(ConnectionKind::Inbound);
    puppet.say(batch(1_000));
    assert_eq!(taken(&mut puppet), 1);
    puppet.now = after(100);
    puppet.say(batch(1_000));
    assert_eq!(taken(&mut puppet), 10);
    // However long it was silent, no more than 1,000 have gathered.
    puppet.now = after(1_000_000);
    (0..3).for_each(|_| puppet.say(batch(1_000)));
    assert_eq!(taken(&mut puppet), 1_000);
    assert_eq!(puppet.peer.statistics().addresses_processed, 1_011);
    assert_eq!(puppet.peer.statistics().addresses_limited, 5_000 - 1_011);
    // The answer to our question comes on top.
    let mut asked = Puppet::ready(ConnectionKind::OutboundFull);
    (0..2).for_each(|_| asked.say(batch(1_000)));
    assert_eq!(taken(&mut asked), 1_001);
    let mut silent = Puppet::ready(ConnectionKind::BlocksOnly);
    silent.say(batch(10));
    assert_eq!(taken(&mut silent), 0);
    let trusted = Setup { permissions: Permissions::ADDRESSES, ..setup(ConnectionKind::Inbound, false) };
    let mut trusted = Puppet::with(trusted, local(5));
    trusted.say(Message::Version(version(70_016)));
    trusted.say(Message::Verack);
    trusted.events.clear();
    trusted.say(batch(1_000));
    assert_eq!(taken(&mut trusted), 1_000);
}

#[test]
fn our_addresses_are_given_once_and_to_those_who_connected() {
    let mut puppet = Puppet::ready(ConnectionKind::Inbound);
    (0..3).for_each(|_| puppet.say(Message::GetAddr));
    assert_eq!(puppet.events, [Event::Message(Message::GetAddr)]);
    let mut outbound = Puppet::ready(ConnectionKind::OutboundFull);
    outbound.say(Message::GetAddr);
    assert_eq!(outbound.events, []);
}

#[test]
fn a_peer_that_asks_without_reading_is_not_read_from() {
    let mut puppet = Puppet::ready(ConnectionKind::Inbound);
    let mut asked = 0;
    while puppet.peer.input_wait(puppet.now) == Some(Duration::ZERO) && asked < 100_000 {
        puppet.say(Message::Ping(Some(asked)));
        asked += 1;
        puppet.now = puppet.now.after(Duration::from_millis(1));
    }
    assert_eq!(puppet.peer.input_wait(puppet.now), None);
    assert!(puppet.peer.is_clogged() && puppet.peer.output().len() < SEND_PAUSE_BYTES + 100);
    assert_eq!(puppet.end(), None);
    puppet.hear();
    assert_eq!(puppet.heard.len() as u64, asked, "what was asked is answered once it reads");
    assert_eq!(puppet.peer.input_wait(puppet.now), Some(Duration::ZERO));
}

#[test]
fn a_flood_of_messages_is_slowed_down_and_requests_sooner() {
    #[track_caller]
    fn check(message: Message, want_in_one_go: u64) {
        let mut puppet = Puppet::ready(ConnectionKind::Inbound);
        let mut came = 0u64;
        while puppet.peer.input_wait(puppet.now) == Some(Duration::ZERO) {
            puppet.say(message.clone());
            came += 1;
        }
        assert!(came.abs_diff(want_in_one_go) <= 5, "{came}");
        let wait = puppet.peer.input_wait(puppet.now).unwrap();
        puppet.now = puppet.now.after(wait + Duration::from_nanos(1));
        assert_eq!(puppet.peer.input_wait(puppet.now), Some(Duration::ZERO));
        assert_eq!(puppet.end(), None);
    }
    check(Message::Verack, 20_000);
    check(Message::Unknown(Command::from_name("x").unwrap(), vec![]), 20_000);
    let locator = LocatorRequest { protocol: 1, locator: vec![], stop: primitives::BlockHash([0; 32]) };
    check(Message::GetHeaders(locator), 1_000);
    let unknown = Inventory { kind: InventoryKind::Unknown(9), hash: [0; 32] };
    check(Message::GetData(vec![unknown]), 1_000);
}

#[test]
fn what_is_sent_past_all_limits_costs_the_connection_and_not_our_memory() {
    let mut puppet = Puppet::ready(ConnectionKind::Inbound);
    let block = Message::Block(BlockBytes::new(vec![1; 3_000_000]).unwrap());
    for sent in 0..10 {
        puppet.peer.send(&block);
        puppet.tick(start());
        assert_eq!(puppet.end().is_some(), sent >= 3, "after {} blocks", sent + 1);
    }
    assert_eq!(puppet.end(), Some(&End::SendQueueFull));
    assert!(puppet.peer.output().len() < SEND_BYTES_MAX + 3_000_100, "nothing is queued after the end");
}

#[test]
fn a_reader_of_drops_is_dropped() {
    let mut puppet = Puppet::ready(ConnectionKind::Inbound);
    puppet.peer.send(&Message::Block(BlockBytes::new(vec![1; 900_000]).unwrap()));
    for second in 0..700 {
        if puppet.end().is_some() {
            break;
        }
        puppet.peer.sent(10, after(second));
        if second % 60 == 0 {
            puppet.say(Message::Pong(Some(1)));
        }
        puppet.tick(after(second));
    }
    assert_eq!(puppet.end(), Some(&End::SlowReader));
}

#[test]
fn silence_ends_a_connection_at_its_time() {
    // Nothing at all, or a version without verack: a minute.
    for says_version in [false, true] {
        let mut puppet = Puppet::new(ConnectionKind::Inbound);
        if says_version {
            puppet.say(Message::Version(version(70_016)));
            puppet.hear();
        }
        puppet.tick(after(60));
        assert_eq!(puppet.end(), None);
        puppet.tick(after(61));
        let silent = End::NoMessage { seconds: 60, received: false, sent: false };
        assert_eq!(puppet.end(), Some(if says_version { &End::HandshakeTimeout } else { &silent }));
    }
    #[track_caller]
    fn check(answers_pings: bool, reads: bool, want: Option<End>) {
        let mut puppet = Puppet::ready(ConnectionKind::Inbound);
        for minute in 1..60 {
            puppet.tick(after(60 * minute));
            if puppet.end().is_some() {
                break;
            }
            if reads {
                puppet.hear();
            }
            for message in std::mem::take(&mut puppet.heard) {
                if let (Message::Ping(nonce), true) = (message, answers_pings) {
                    puppet.say(Message::Pong(nonce));
                }
            }
        }
        assert_eq!(puppet.end(), want.as_ref());
    }
    check(true, true, None);
    check(false, true, Some(End::ReceiveTimeout));
    check(false, false, Some(End::SlowReader));
    // One that talks and never answers pings.
    let mut puppet = Puppet::ready(ConnectionKind::Inbound);
    for minute in 1..60 {
        puppet.say(Message::Verack);
        puppet.tick(after(60 * minute));
        puppet.hear();
    }
    assert_eq!(puppet.end(), Some(&End::PingTimeout { waited: Duration::from_secs(1_260) }));
}

#[test]
fn a_broken_stream_is_the_end_and_what_came_before_it_is_heard() {
    let mut puppet = Puppet::ready(ConnectionKind::Inbound);
    let mut bytes = Vec::new();
    puppet.transport.send(&Message::MemPool, &mut bytes);
    bytes.extend_from_slice(&[0; 24]);
    puppet.say_bytes(&bytes);
    assert_eq!(puppet.events.len(), 2);
    assert_eq!(puppet.events[0], Event::Message(Message::MemPool));
    assert!(matches!(puppet.end(), Some(End::Transport(_))));
    assert!(!puppet.peer.is_ready());
}

#[test]
fn nonces_of_our_own_are_known_and_others_are_not() {
    let (ours, others) = (local(1), local(2));
    let mut random = Random::new(8);
    for _ in 0..1_000 {
        let nonce = ours.draw_nonce(&mut random);
        assert!(ours.is_own_nonce(nonce) && !others.is_own_nonce(nonce));
        assert!(!ours.is_own_nonce(entropy::number(&mut random)));
    }
}

#[test]
fn the_reasons_of_misbehaviour_are_few() {
    #[track_caller]
    fn check(end: End, want: bool) {
        assert_eq!(end.is_misbehaviour(), want, "{end}");
    }
    check(End::Misbehaviour("bad-headers"), true);
    check(End::Wire(Command::INV, WireError::TooManyInventory { got: 50_001 }), true);
    check(End::Wire(Command::GETHEADERS, WireError::LocatorTooLong { got: 102 }), false);
    check(End::SlowReader, false);
    check(End::ClosedByPeer, false);
}
