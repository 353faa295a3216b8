//! Which connection to open next.
//!
//! In:     the connections there are, the book, anchors, what the user asked for, the time, chance.
//! Out:    a [`Dial`], or nothing for now.
//! Fails:  never.
//! Source: Bitcoin Core, `CConnman::ThreadOpenConnections` and `ThreadOpenAddedConnections`.
//!
//! First what was asked for once, then what the user wants kept; then anchors, full connections, connections for blocks only; then, from time to time, one connection
//! more for blocks, to hear of headers from somebody new, and a feeler. No two chosen connections share a network group.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use super::book::{Book, Reachable};
use crate::entropy::{self, Entropy};
use crate::hosts::{Group, Groups, HostKind};
use crate::moment::Moment;
use crate::peer::ConnectionKind;
use crate::wire::{Endpoint, Host, PeerAddress, Services};

/// Mean time between feelers; Core's `FEELER_INTERVAL`.
const FEELER_INTERVAL: Duration = Duration::from_secs(2 * 60);
/// Mean time between extra connections for blocks; Core's `EXTRA_BLOCK_RELAY_ONLY_PEER_INTERVAL`.
const EXTRA_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// Time between two attempts at what the user asked for; Core's wait is a minute.
const ADDED_INTERVAL: Duration = Duration::from_secs(60);
/// Connections to what the user adds at most; Core's `MAX_ADDNODE_CONNECTIONS`.
const ADDED_MAX: usize = 8;
/// Connections asked for once that wait to be opened; more are forgotten.
const ASKED_MAX: usize = 100;
/// Addresses looked at for one connection; Core's 100.
const TRIES_MAX: u32 = 100;
/// From this one on, those tried lately are taken too.
const TRIES_RECENT: u32 = 30;
/// From this one on, ports of other services are taken too.
const TRIES_ANY_PORT: u32 = 50;

/// How many connections of ours there should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Targets {
    /// For blocks, transactions and addresses; Core's 8, more while the chain is downloaded.
    pub full: usize,
    /// For blocks only; Core's 2.
    pub blocks_only: usize,
    /// Extra connections and feelers from time to time.
    pub explores: bool,
}

impl Targets {
    /// Core's numbers.
    pub const USUAL: Targets = Targets { full: 8, blocks_only: 2, explores: true };
    /// Only what the user asks for ("connect").
    pub const NONE: Targets = Targets { full: 0, blocks_only: 0, explores: false };
}

/// Whom to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// An endpoint of the book.
    Known(Endpoint),
    /// What the user wrote: an endpoint or a name.
    Added(String),
}

/// A connection to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dial {
    /// Whom to.
    pub to: Destination,
    /// What for.
    pub kind: ConnectionKind,
    /// Encrypted at first.
    pub encrypted: bool,
    /// A failure says something about the address, since we are on the network.
    pub counts: bool,
}

impl Dial {
    /// What the user, or a test, writes.
    pub fn by_hand(text: &str, kind: ConnectionKind, encrypted: bool) -> Dial {
        Dial { to: Destination::Added(text.to_owned()), kind, encrypted, counts: false }
    }
}

/// A connection that is there or on its way.
#[derive(Clone, Debug)]
pub struct Connected {
    /// The other side, once it is known.
    pub endpoint: Option<Endpoint>,
    /// What the user wrote, where he did.
    pub added: Option<String>,
    /// What it is for.
    pub kind: ConnectionKind,
}

/// What the user wants kept.
#[derive(Debug)]
struct Added {
    text: String,
    encrypted: bool,
    last: Option<Moment>,
}

/// Chooses connections.
#[derive(Debug)]
pub struct Dialler {
    targets: Targets,
    asked: VecDeque<Dial>,
    anchors: Vec<PeerAddress>,
    added: Vec<Added>,
    /// Connections to them at most.
    added_max: usize,
    reachable: Reachable,
    required: Services,
    groups: Groups,
    next_feeler: Option<Moment>,
    next_extra: Option<Moment>,
}

impl Dialler {
    /// A dialler that takes hosts of reachable kinds with the services required.
    pub fn new(targets: Targets, anchors: Vec<PeerAddress>, reachable: Reachable, required: Services) -> Dialler {
        Dialler {
            targets,
            asked: VecDeque::new(),
            anchors,
            added: Vec::new(),
            added_max: ADDED_MAX,
            reachable,
            required,
            groups: Groups::default(),
            next_feeler: None,
            next_extra: None,
        }
    }

    /// One that groups hosts this way.
    #[must_use]
    pub fn grouped(mut self, groups: Groups) -> Dialler {
        self.groups = groups;
        self
    }

    /// So many connections by the user's own list (`connect`) come on top of those he adds.
    #[must_use]
    pub fn beside(mut self, listed: usize) -> Dialler {
        self.added_max = ADDED_MAX + listed;
        self
    }

    /// Changes how many connections there should be.
    pub fn set_targets(&mut self, targets: Targets) {
        self.targets = targets;
    }

    /// How many connections there should be.
    pub fn targets(&self) -> Targets {
        self.targets
    }

    /// Keeps a connection to what the user wrote; false where it is kept already.
    pub fn add(&mut self, text: &str, encrypted: bool) -> bool {
        let is_new = self.added.iter().all(|known| known.text != text);
        if is_new {
            self.added.push(Added { text: text.to_owned(), encrypted, last: None });
        }
        is_new
    }

    /// Opens a connection once, before all others.
    pub fn ask(&mut self, dial: Dial) {
        if self.asked.len() < ASKED_MAX {
            self.asked.push_back(dial);
        }
    }

    /// Keeps it no longer; false where it was not kept.
    pub fn remove(&mut self, text: &str) -> bool {
        let count = self.added.len();
        self.added.retain(|known| known.text != text);
        self.added.len() < count
    }

    /// What the user wrote.
    pub fn added(&self) -> impl Iterator<Item = &str> {
        self.added.iter().map(|added| added.text.as_str())
    }

    /// The next connection to open.
    pub fn next(
        &mut self,
        connected: &[Connected],
        book: &mut Book,
        now: Moment,
        entropy: &mut dyn Entropy,
    ) -> Option<Dial> {
        if let Some(dial) = self.asked.pop_front().or_else(|| self.next_added(connected, now)) {
            return Some(dial);
        }
        let groups = groups_of(&self.groups, connected);
        if let Some(anchor) = self.next_anchor(connected, &groups) {
            return Some(self.dial(&anchor, ConnectionKind::BlocksOnly, connected));
        }
        let kind = self.next_kind(connected, now, entropy)?;
        book.resolve_tests(now.unix_s);
        let address = self.choose(kind, connected, &groups, book, now, entropy)?;
        Some(self.dial(&address, kind, connected))
    }

    fn dial(&self, address: &PeerAddress, kind: ConnectionKind, connected: &[Connected]) -> Dial {
        // Failures count once two chosen connections stand: before, our own line may be down.
        let standing = connected.iter().filter(|one| one.kind.is_outbound() && one.endpoint.is_some()).count();
        let encrypted = address.services.has(Services::P2P_V2);
        Dial { to: Destination::Known(address.endpoint), kind, encrypted, counts: standing >= 2 }
    }

    fn next_added(&mut self, connected: &[Connected], now: Moment) -> Option<Dial> {
        let is_there = |text: &str| connected.iter().any(|one| one.added.as_deref() == Some(text));
        if self.added.iter().filter(|added| is_there(&added.text)).count() >= self.added_max {
            return None;
        }
        let is_due = |last: &Option<Moment>| last.is_none_or(|last| now.since(&last) >= ADDED_INTERVAL);
        let added = self.added.iter_mut().find(|added| !is_there(&added.text) && is_due(&added.last))?;
        added.last = Some(now);
        Some(Dial::by_hand(&added.text, ConnectionKind::Manual, added.encrypted))
    }

    fn next_anchor(&mut self, connected: &[Connected], groups: &BTreeSet<Group>) -> Option<PeerAddress> {
        while count(connected, ConnectionKind::BlocksOnly) < self.targets.blocks_only {
            let anchor = self.anchors.pop()?;
            let is_fresh = !groups.contains(&self.groups.of(&anchor.endpoint.host));
            if is_fresh && self.can_reach(&anchor.endpoint.host) && anchor.services.has(self.required) {
                return Some(anchor);
            }
        }
        None
    }

    fn can_reach(&self, host: &Host) -> bool {
        self.reachable.has(HostKind::of(host))
    }

    fn next_kind(&mut self, connected: &[Connected], now: Moment, entropy: &mut dyn Entropy) -> Option<ConnectionKind> {
        if count(connected, ConnectionKind::OutboundFull) < self.targets.full {
            return Some(ConnectionKind::OutboundFull);
        }
        if count(connected, ConnectionKind::BlocksOnly) < self.targets.blocks_only {
            return Some(ConnectionKind::BlocksOnly);
        }
        if !self.targets.explores {
            return None;
        }
        let has_extra = count(connected, ConnectionKind::BlocksOnly) > self.targets.blocks_only;
        if !has_extra && is_due(&mut self.next_extra, EXTRA_INTERVAL, now, entropy) {
            return Some(ConnectionKind::BlocksOnly);
        }
        is_due(&mut self.next_feeler, FEELER_INTERVAL, now, entropy).then_some(ConnectionKind::Feeler)
    }

    fn choose(
        &self,
        kind: ConnectionKind,
        connected: &[Connected],
        groups: &BTreeSet<Group>,
        book: &mut Book,
        now: Moment,
        entropy: &mut dyn Entropy,
    ) -> Option<PeerAddress> {
        let is_feeler = kind == ConnectionKind::Feeler;
        if is_feeler && let Some((test, _)) = book.to_test(entropy) {
            if connected.iter().all(|one| one.endpoint != Some(test.endpoint)) {
                return Some(test);
            }
            // We are connected to it: that is the test.
            book.good(&test.endpoint, now.unix_s);
        }
        for tries in 0..TRIES_MAX {
            let (address, last_try_s) = book.select(is_feeler, self.reachable, now.unix_s, entropy)?;
            let services = if is_feeler { Services::NETWORK } else { self.required };
            let is_taken = !is_feeler && groups.contains(&self.groups.of(&address.endpoint.host));
            let is_connected = connected.iter().any(|one| one.endpoint == Some(address.endpoint));
            let is_recent = now.unix_s.saturating_sub(last_try_s) < 600 && tries < TRIES_RECENT;
            let is_odd_port = is_port_of_another(address.endpoint.port) && tries < TRIES_ANY_PORT;
            if !is_taken && !is_connected && !is_recent && !is_odd_port && address.services.has(services) {
                return Some(address);
            }
        }
        None
    }
}

/// Groups of the connections that were chosen or asked for; for networks whose addresses are random, groups mean nothing.
fn groups_of(groups: &Groups, connected: &[Connected]) -> BTreeSet<Group> {
    let lasting = connected.iter().filter(|one| {
        matches!(one.kind, ConnectionKind::OutboundFull | ConnectionKind::BlocksOnly | ConnectionKind::Manual)
    });
    let hosts = lasting.filter_map(|one| one.endpoint).map(|endpoint| endpoint.host);
    hosts.filter(Host::is_ip).map(|host| groups.of(&host)).collect()
}

fn count(connected: &[Connected], kind: ConnectionKind) -> usize {
    connected.iter().filter(|one| one.kind == kind).count()
}

/// True at random times with this mean between them; the first is not at once.
fn is_due(next: &mut Option<Moment>, mean: Duration, now: Moment, entropy: &mut dyn Entropy) -> bool {
    let was_due = next.is_some_and(|next| now >= next);
    if was_due || next.is_none() {
        *next = Some(now.after(entropy::exponential(entropy, mean)));
    }
    was_due
}

/// Ports that belong to other services, which a list of addresses could make us knock at (a part of Core's `IsBadPort`).
fn is_port_of_another(port: u16) -> bool {
    const PORTS: [u16; 36] = [
        2049, 3306, 3389, 3659, 4045, 5060, 5061, 5432, 5900, 6000, 6379, 6566, 6665, 6666, 6667, 6668, 6669, 6697,
        8080, 8443, 9200, 10_080, 11_211, 27_017, 1719, 1720, 1723, 2082, 2083, 2086, 2087, 2095, 2096, 3128, 4190,
        5190,
    ];
    port < 1024 || PORTS.contains(&port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::random::Random;

    const NOW: Moment = Moment { monotonic: Duration::from_secs(1_000), unix_s: 1_800_000_000 };
    const FULL_NODE: Services = Services::NETWORK.and(Services::WITNESS);

    fn address(n: u32, services: Services, port: u16) -> PeerAddress {
        let endpoint = Endpoint { host: Host::V4(((20 << 24) + n).to_be_bytes()), port };
        PeerAddress { time_s: (NOW.unix_s - 3_600) as u32, services, endpoint }
    }

    fn book(addresses: impl Iterator<Item = PeerAddress>, random: &mut Random) -> Book {
        let mut book = Book::new(random);
        for (n, address) in addresses.enumerate() {
            book.add(&[address], &Host::V4([30 + (n % 190) as u8, 1, 1, 1]), 0, NOW.unix_s, random);
        }
        book
    }

    fn dialler(targets: Targets) -> Dialler {
        Dialler::new(targets, Vec::new(), Reachable::ALL, FULL_NODE)
    }

    /// Opens connections until nothing more is wanted at once.
    fn fill(dialler: &mut Dialler, book: &mut Book, now: Moment, random: &mut Random) -> Vec<Connected> {
        let mut connected: Vec<Connected> = Vec::new();
        while let Some(dial) = dialler.next(&connected, book, now, random) {
            let (endpoint, added) = match dial.to {
                Destination::Known(endpoint) => (Some(endpoint), None),
                Destination::Added(text) => (text.parse().ok(), Some(text)),
            };
            connected.push(Connected { endpoint, added, kind: dial.kind });
            assert!(connected.len() < 100, "it comes to an end");
        }
        connected
    }

    #[test]
    fn connections_are_as_many_as_wanted_and_of_different_groups() {
        let mut random = Random::new(1);
        // 4,000 addresses of 30 groups.
        let mut book = book((0..4_000).map(|n| address((n % 30) << 16 | n, FULL_NODE, 8333)), &mut random);
        let connected = fill(&mut dialler(Targets::USUAL), &mut book, NOW, &mut random);
        assert_eq!(count(&connected, ConnectionKind::OutboundFull), 8);
        assert_eq!(count(&connected, ConnectionKind::BlocksOnly), 2);
        assert_eq!(groups_of(&Groups::default(), &connected).len(), 10);
        assert_eq!(connected.len(), 10);
        // An attacker with one group gets one connection of ten.
        let mut book = self::book((0..4_000).map(|n| address(n, FULL_NODE, 8333)), &mut random);
        assert_eq!(fill(&mut dialler(Targets::USUAL), &mut book, NOW, &mut random).len(), 1);
    }

    #[test]
    fn what_does_not_offer_enough_or_cannot_be_reached_is_not_dialled() {
        let mut random = Random::new(2);
        #[track_caller]
        fn check(services: Services, port: u16, reachable: Reachable, want: usize, random: &mut Random) {
            let mut book = book((0..2_000).map(|n| address((n % 100) << 16 | n, services, port)), random);
            let mut dialler = Dialler::new(Targets::USUAL, Vec::new(), reachable, FULL_NODE);
            assert_eq!(fill(&mut dialler, &mut book, NOW, random).len(), want);
        }
        check(FULL_NODE, 8333, Reachable::ALL, 10, &mut random);
        check(Services::NETWORK, 8333, Reachable::ALL, 0, &mut random);
        check(FULL_NODE, 8333, Reachable::ALL.without(HostKind::V4), 0, &mut random);
        check(FULL_NODE, 8333, Reachable::NONE.with(HostKind::V4), 10, &mut random);
        // Where there is nothing else, another service's port is knocked at in the end.
        check(FULL_NODE, 25, Reachable::ALL, 10, &mut random);
    }

    #[test]
    fn anchors_come_first_and_what_the_user_asks_for_before_them() {
        let mut random = Random::new(3);
        let mut book = book(std::iter::empty(), &mut random);
        let anchors = vec![address(1 << 16, FULL_NODE.and(Services::P2P_V2), 8333), address(2 << 16, FULL_NODE, 8333)];
        let mut dialler = Dialler::new(Targets::USUAL, anchors.clone(), Reachable::ALL, FULL_NODE);
        assert!(
            dialler.add("1.2.3.4:8333", true)
                && !dialler.add("1.2.3.4:8333", true)
                && dialler.add("node.example", true)
        );
        let connected = fill(&mut dialler, &mut book, NOW, &mut random);
        let kinds: Vec<ConnectionKind> = connected.iter().map(|one| one.kind).collect();
        use ConnectionKind::{BlocksOnly, Manual};
        assert_eq!(kinds, [Manual, Manual, BlocksOnly, BlocksOnly]);
        assert_eq!(connected[3].endpoint, Some(anchors[0].endpoint));
        // Asked for again after a minute, while it is not there; and no more once it is not wanted.
        assert_eq!(dialler.next(&[], &mut book, NOW.after(Duration::from_secs(59)), &mut random), None);
        let again = dialler.next(&[], &mut book, NOW.after(Duration::from_secs(60)), &mut random);
        assert_eq!(again.map(|dial| dial.to), Some(Destination::Added("1.2.3.4:8333".to_owned())));
        assert!(dialler.remove("1.2.3.4:8333") && dialler.remove("node.example") && !dialler.remove("x"));
        assert_eq!(dialler.next(&[], &mut book, NOW.after(Duration::from_secs(600)), &mut random), None);
    }

    #[test]
    fn eight_of_those_that_the_user_adds_are_connected_to_at_once() {
        let mut random = Random::new(6);
        let mut book = book(std::iter::empty(), &mut random);
        let mut dialler = dialler(Targets::NONE);
        (0..12).for_each(|n| assert!(dialler.add(&format!("1.2.3.{n}:8333"), false)));
        let mut connected = fill(&mut dialler, &mut book, NOW, &mut random);
        assert_eq!(connected.len(), 8);
        // One that ends makes room for one that waits; who connected to us or was asked for once takes none.
        connected.remove(3);
        connected.push(Connected { endpoint: None, added: Some("once:1".to_owned()), kind: ConnectionKind::Manual });
        let next = dialler.next(&connected, &mut book, NOW, &mut random).unwrap();
        assert_eq!(next.to, Destination::Added("1.2.3.8:8333".to_owned()));
        // All that the settings list are connected to, and eight more.
        let mut dialler = self::dialler(Targets::NONE).beside(12);
        (0..30).for_each(|n| assert!(dialler.add(&format!("1.2.3.{n}:8333"), false)));
        assert_eq!(fill(&mut dialler, &mut book, NOW, &mut random).len(), 20);
    }

    #[test]
    fn feelers_and_extra_connections_come_from_time_to_time() {
        let mut random = Random::new(4);
        let mut book = book((0..4_000).map(|n| address((n % 200) << 16 | n, FULL_NODE, 8333)), &mut random);
        let mut dialler = dialler(Targets::USUAL);
        let connected = fill(&mut dialler, &mut book, NOW, &mut random);
        let (mut feelers, mut extras) = (0, 0);
        for second in 0..24 * 3600 {
            match dialler
                .next(&connected, &mut book, NOW.after(Duration::from_secs(second)), &mut random)
                .map(|dial| dial.kind)
            {
                Some(ConnectionKind::Feeler) => feelers += 1,
                Some(ConnectionKind::BlocksOnly) => extras += 1,
                None => {}
                other => panic!("{other:?}"),
            }
        }
        assert!((600..840).contains(&feelers), "{feelers} of 720");
        assert!((220..360).contains(&extras), "{extras} of 288");
    }

    #[test]
    fn what_is_asked_for_once_comes_first_and_once() {
        let mut random = Random::new(5);
        let mut book = book(std::iter::empty(), &mut random);
        let mut dialler = dialler(Targets::NONE);
        dialler.add("kept:1", false);
        let dial = Dial::by_hand("once:1", ConnectionKind::Feeler, true);
        (0..2 * ASKED_MAX).for_each(|_| dialler.ask(dial.clone()));
        for _ in 0..ASKED_MAX {
            assert_eq!(dialler.next(&[], &mut book, NOW, &mut random), Some(dial.clone()));
        }
        let kept = Dial::by_hand("kept:1", ConnectionKind::Manual, false);
        assert_eq!(dialler.next(&[], &mut book, NOW, &mut random), Some(kept));
        assert_eq!(dialler.next(&[], &mut book, NOW, &mut random), None);
    }
}
