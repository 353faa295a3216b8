//! Passing addresses on.
//!
//! In:     addresses that peers told, our own, the time, chance.
//! Out:    addresses to tell, and to whom.
//! Fails:  never.
//! Source: Bitcoin Core, `ProcessAddrs`, `RelayAddress`, `MaybeSendAddr`.
//!
//! A fresh address goes to two peers, the same two for a day whoever tells it: so a repeated telling spreads no further. It waits
//! for half a minute on average, and never goes to a peer that is known to know it.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use bitcoin_hashes::siphash24;

use super::book::Reachable;
use crate::entropy::{self, Entropy};
use crate::hosts::{HostKind, is_routable};
use crate::moment::Moment;
use crate::peer::PeerId;
use crate::wire::limits::ADDRESSES_MAX;
use crate::wire::{Endpoint, Host, PeerAddress, Services};

/// Only messages as small as this are passed on: larger ones answer a question.
const MESSAGE_MAX: usize = 10;
/// Only addresses seen so lately are passed on, in seconds.
const FRESH_S: u64 = 600;
/// Peers an address goes to; one if we cannot reach it ourselves.
const FANOUT: usize = 2;
/// How long an address goes to the same peers, in seconds; Core's `ROTATE_ADDR_RELAY_DEST_INTERVAL`.
const ROTATION_S: u64 = 24 * 3600;
/// Mean time between two tellings; Core's `AVG_ADDRESS_BROADCAST_INTERVAL`.
const TELL_INTERVAL: Duration = Duration::from_secs(30);
/// Mean time between two tellings of our own address; Core's `AVG_LOCAL_ADDRESS_BROADCAST_INTERVAL`.
const OWN_INTERVAL: Duration = Duration::from_secs(24 * 3600);
/// Addresses of one generation that a peer is known to know; two are kept. Core's filter holds 5,000.
const KNOWN_MAX: usize = 2_500;

/// How sure it is that we can be reached at an endpoint: the machine has the address; we listen at it; somebody says so. Core's
/// `LOCAL_IF`, `LOCAL_BIND`, `LOCAL_MANUAL`.
pub const SCORE_FOUND: u32 = 1;
/// See [`SCORE_FOUND`].
pub const SCORE_BOUND: u32 = 2;
/// See [`SCORE_FOUND`].
pub const SCORE_GIVEN: u32 = 4;

/// One peer's side.
#[derive(Debug, Default)]
struct Listener {
    /// It was asked for addresses and has not answered: what it sends first is not news.
    awaits_answer: bool,
    known: [HashSet<Endpoint>; 2],
    queue: Vec<PeerAddress>,
    next_tell: Option<Moment>,
    next_own: Option<Moment>,
}

impl Listener {
    fn knows(&self, endpoint: &Endpoint) -> bool {
        self.known.iter().any(|known| known.contains(endpoint))
    }

    fn learn(&mut self, endpoint: Endpoint) {
        if self.known[0].len() >= KNOWN_MAX {
            self.known.swap(0, 1);
            self.known[0].clear();
        }
        self.known[0].insert(endpoint);
    }

    fn queue(&mut self, address: PeerAddress, entropy: &mut dyn Entropy) {
        if self.knows(&address.endpoint) {
            return;
        }
        if self.queue.len() < ADDRESSES_MAX {
            self.queue.push(address);
        } else {
            let at = entropy::below(entropy, self.queue.len() as u64) as usize;
            self.queue[at] = address;
        }
    }
}

/// Who is told what.
#[derive(Debug)]
pub struct Gossip {
    key: [u64; 2],
    own: Vec<(Endpoint, u32)>,
    reachable: Reachable,
    listeners: BTreeMap<PeerId, Listener>,
}

impl Gossip {
    /// Nobody to tell yet; `own` is what the user says we can be reached at.
    pub fn new(own: Vec<Endpoint>, reachable: Reachable, entropy: &mut dyn Entropy) -> Gossip {
        let key = [entropy::number(entropy), entropy::number(entropy)];
        let own = own.into_iter().map(|endpoint| (endpoint, SCORE_GIVEN)).collect();
        Gossip { key, own, reachable, listeners: BTreeMap::new() }
    }

    /// Another endpoint we can be reached at, and how sure that is.
    pub fn add_own(&mut self, endpoint: Endpoint, score: u32) {
        if self.own.iter().all(|(known, _)| *known != endpoint) {
            self.own.push((endpoint, score));
        }
    }

    /// An endpoint we can be reached at no longer.
    pub fn remove_own(&mut self, endpoint: &Endpoint) {
        self.own.retain(|(known, _)| known != endpoint);
    }

    /// What we can be reached at, and how sure that is.
    pub fn own(&self) -> &[(Endpoint, u32)] {
        &self.own
    }

    /// True for a host that we could connect to.
    pub fn reaches(&self, host: &Host) -> bool {
        self.reachable.has(HostKind::of(host))
    }

    /// True for a peer that takes part.
    pub fn has(&self, id: PeerId) -> bool {
        self.listeners.contains_key(&id)
    }

    /// A peer takes part: one we connected to (and asked), or one that told or asked first.
    pub fn join(&mut self, id: PeerId, was_asked: bool) {
        self.listeners.entry(id).or_insert_with(|| Listener { awaits_answer: was_asked, ..Listener::default() });
    }

    /// A peer is gone.
    pub fn leave(&mut self, id: PeerId) {
        self.listeners.remove(&id);
    }

    /// A peer told addresses: what is news goes on.
    pub fn told(&mut self, from: PeerId, addresses: &[PeerAddress], now: Moment, entropy: &mut dyn Entropy) {
        self.join(from, false);
        let Some(listener) = self.listeners.get_mut(&from) else { return };
        addresses.iter().for_each(|address| listener.learn(address.endpoint));
        let answers = std::mem::take(&mut listener.awaits_answer);
        if answers || addresses.len() > MESSAGE_MAX {
            return;
        }
        let is_fresh = |address: &&PeerAddress| u64::from(address.time_s) + FRESH_S > now.unix_s;
        for address in addresses.iter().filter(is_fresh).filter(|address| is_routable(&address.endpoint.host)) {
            for id in self.audience(from, address, now) {
                if let Some(listener) = self.listeners.get_mut(&id) {
                    listener.queue(*address, entropy);
                }
            }
        }
    }

    /// The peers an address goes to today.
    fn audience(&self, from: PeerId, address: &PeerAddress, now: Moment) -> Vec<PeerId> {
        let hash = |parts: &[&[u8]]| siphash24::Hash::hash_to_u64_with_keys(self.key[0], self.key[1], &parts.concat());
        let host = address.endpoint.host;
        let address_hash = hash(&[&[host.network_id()], host.bytes(), &address.endpoint.port.to_le_bytes()]);
        // Each address changes its peers at a time of day of its own.
        let day = (now.unix_s + address_hash % ROTATION_S) / ROTATION_S;
        let rank = |id: &PeerId| hash(&[&address_hash.to_le_bytes(), &day.to_le_bytes(), &id.0.to_le_bytes()]);
        let mut ranked: Vec<(u64, PeerId)> =
            self.listeners.keys().filter(|id| **id != from).map(|id| (rank(id), *id)).collect();
        ranked.sort_unstable();
        // What we cannot reach ourselves goes to one peer, and to a second for half of the addresses.
        let is_reachable = self.reachable.has(HostKind::of(&host));
        let fanout = if is_reachable || address_hash & 1 == 1 { FANOUT } else { 1 };
        ranked.into_iter().take(fanout).map(|(_, id)| id).collect()
    }

    /// What is to be told now; `services` are ours where our own endpoints may be told.
    pub fn due(
        &mut self,
        services: Option<Services>,
        now: Moment,
        entropy: &mut dyn Entropy,
    ) -> Vec<(PeerId, Vec<PeerAddress>)> {
        let ids: Vec<PeerId> = self.listeners.keys().copied().collect();
        let due = ids.into_iter().map(|id| (id, self.due_of(id, services, now, entropy)));
        due.filter(|(_, addresses)| !addresses.is_empty()).collect()
    }

    /// The same for one peer.
    pub fn due_of(
        &mut self,
        id: PeerId,
        services: Option<Services>,
        now: Moment,
        entropy: &mut dyn Entropy,
    ) -> Vec<PeerAddress> {
        let Some(listener) = self.listeners.get_mut(&id) else { return Vec::new() };
        if let Some(services) = services
            && listener.next_own.is_none_or(|next| now >= next)
        {
            listener.next_own = Some(now.after(entropy::exponential(entropy, OWN_INTERVAL)));
            let time_s = now.unix_s as u32;
            let own = self.own.iter().map(|(endpoint, _)| PeerAddress { time_s, services, endpoint: *endpoint });
            listener.queue.extend(own);
        }
        // The clock runs whether there is something to tell or not: when it is due says nothing about what came when.
        if listener.next_tell.is_some_and(|next| now < next) {
            return Vec::new();
        }
        listener.next_tell = Some(now.after(entropy::exponential(entropy, TELL_INTERVAL)));
        let mut addresses = std::mem::take(&mut listener.queue);
        addresses.truncate(ADDRESSES_MAX);
        // Several may have told the same one while it waited.
        addresses.retain(|address| {
            let is_news =
                !listener.knows(&address.endpoint) || self.own.iter().any(|(own, _)| *own == address.endpoint);
            listener.learn(address.endpoint);
            is_news
        });
        addresses
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::random::Random;

    const NOW: Moment = Moment { monotonic: Duration::from_secs(1), unix_s: 1_800_000_000 };

    fn address(n: u8) -> PeerAddress {
        let endpoint = Endpoint { host: Host::V4([20, n, 1, 1]), port: 8333 };
        PeerAddress { time_s: NOW.unix_s as u32 - 60, services: Services::NETWORK, endpoint }
    }

    fn gossip(peers: u64, own: Vec<Endpoint>) -> (Gossip, Random) {
        let mut random = Random::new(5);
        let mut gossip = Gossip::new(own, Reachable::ALL, &mut random);
        (0..peers).for_each(|id| gossip.join(PeerId(id), false));
        (gossip, random)
    }

    /// All that is told within an hour.
    fn hour(gossip: &mut Gossip, random: &mut Random) -> Vec<(PeerId, PeerAddress)> {
        let mut told = Vec::new();
        for second in 0..3_600 {
            for (id, addresses) in gossip.due(None, NOW.after(Duration::from_secs(second)), random) {
                told.extend(addresses.into_iter().map(|address| (id, address)));
            }
        }
        told
    }

    #[test]
    fn news_goes_to_two_whoever_and_however_often_it_is_told() {
        let (mut gossip, mut random) = gossip(30, vec![]);
        for from in [3, 4, 3, 5] {
            gossip.told(PeerId(from), &[address(1)], NOW, &mut random);
        }
        let told = hour(&mut gossip, &mut random);
        // The two, and a third where one of the two told it itself.
        assert!((2..=3).contains(&told.len()), "{told:?}");
        assert!(told.iter().all(|(id, one)| *one == address(1) && ![3, 4, 5].contains(&id.0)));
        gossip.told(PeerId(6), &[address(1)], NOW, &mut random);
        assert!(hour(&mut gossip, &mut random).is_empty(), "who was told is not told again");
    }

    #[test]
    fn the_time_of_telling_does_not_follow_from_the_time_of_hearing() {
        let (mut gossip, mut random) = gossip(3, vec![]);
        assert!(gossip.due(None, NOW, &mut random).is_empty());
        gossip.told(PeerId(0), &[address(1)], NOW, &mut random);
        // Nobody looked in between: what is due is told all the same, to each when it is looked at.
        let later = NOW.after(Duration::from_secs(1_800));
        assert_eq!(gossip.due_of(PeerId(1), None, later, &mut random), [address(1)]);
        assert_eq!(gossip.due(None, later, &mut random), [(PeerId(2), vec![address(1)])]);
    }

    #[test]
    fn what_is_no_news_stays_here() {
        #[track_caller]
        fn check(addresses: &[PeerAddress], was_asked: bool, want: bool) {
            let (mut gossip, mut random) = gossip(10, vec![]);
            gossip.join(PeerId(77), was_asked);
            gossip.told(PeerId(77), addresses, NOW, &mut random);
            assert_eq!(!hour(&mut gossip, &mut random).is_empty(), want);
        }
        check(&[address(1)], false, true);
        check(&[address(1)], true, false);
        check(&(0..10).map(address).collect::<Vec<_>>(), false, true);
        check(&(0..11).map(address).collect::<Vec<_>>(), false, false);
        check(&[PeerAddress { time_s: NOW.unix_s as u32 - 599, ..address(1) }], false, true);
        check(&[PeerAddress { time_s: NOW.unix_s as u32 - 600, ..address(1) }], false, false);
        let private = Endpoint { host: Host::V4([10, 0, 0, 1]), port: 8333 };
        check(&[PeerAddress { endpoint: private, ..address(1) }], false, false);
    }

    #[test]
    fn our_own_address_is_told_to_everybody_about_once_a_day() {
        let own = address(9).endpoint;
        let (mut gossip, mut random) = gossip(20, vec![own]);
        let mut told = 0;
        for minute in 0..10 * 24 * 60 {
            let now = NOW.after(Duration::from_secs(60 * minute));
            told += gossip.due(Some(Services::NETWORK), now, &mut random).len();
        }
        assert!((150..260).contains(&told), "{told} of 220 in ten days");
        gossip.leave(PeerId(0));
        assert!(gossip.due(Some(Services::NETWORK), NOW.after(Duration::from_secs(1 << 30)), &mut random).len() <= 19);
    }

    #[test]
    fn what_waits_and_what_is_known_is_bounded() {
        let (mut gossip, mut random) = gossip(3, vec![]);
        for n in 0..50_000u32 {
            let endpoint = Endpoint { host: Host::V4(((20 << 24) + n).to_be_bytes()), port: 8333 };
            gossip.told(PeerId(u64::from(n % 3)), &[PeerAddress { endpoint, ..address(0) }], NOW, &mut random);
        }
        for listener in gossip.listeners.values() {
            assert!(listener.queue.len() <= ADDRESSES_MAX);
            assert!(listener.known.iter().map(HashSet::len).sum::<usize>() <= 2 * KNOWN_MAX);
        }
    }
}
