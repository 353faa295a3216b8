//! The address book: addresses that were told, and addresses that answered.
//!
//! In:     addresses and who told them, what became of attempts, the time, chance.
//! Out:    an address to try, a sample to tell others, an old address to test before a new one takes its place.
//! Fails:  never; what does not fit is forgotten.
//! Source: Bitcoin Core, `src/addrman.cpp`. Times are seconds since 1970.
//!
//! Bounded: 65,536 places for addresses told, 16,384 for those that answered. Told addresses may stand in up to eight places.

use std::collections::{BTreeSet, HashMap};

use super::buckets::{BUCKET_SIZE, BookKey, NEW_BUCKETS, TRIED_BUCKETS};
use super::entry::Entry;
use crate::entropy::{self, Entropy};
use crate::hosts::{Groups, HostKind, is_routable};
use crate::wire::{Endpoint, Host, PeerAddress, Services};

/// Places an address that was told may stand in; Core's `ADDRMAN_NEW_BUCKETS_PER_ADDRESS`.
const PLACES_MAX: u8 = 8;
/// One that answered so lately keeps its place; Core's `ADDRMAN_REPLACEMENT`.
const REPLACEMENT_S: u64 = 4 * 3600;
/// A test that takes longer is decided for the new one; Core's `ADDRMAN_TEST_WINDOW`.
const TEST_WINDOW_S: u64 = 40 * 60;
/// Most tests waited for; Core's `ADDRMAN_SET_TRIED_COLLISION_SIZE`.
const COLLISIONS_MAX: usize = 10;

/// Kinds of hosts we can connect to, or want to ("onlynet").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reachable(u8);

impl Reachable {
    /// All kinds.
    pub const ALL: Reachable = Reachable(0x1f);
    /// No kind.
    pub const NONE: Reachable = Reachable(0);

    /// These too.
    #[must_use]
    pub fn with(self, kind: HostKind) -> Reachable {
        Reachable(self.0 | 1 << kind as u8)
    }

    /// All but these.
    #[must_use]
    pub fn without(self, kind: HostKind) -> Reachable {
        Reachable(self.0 & !(1 << kind as u8))
    }

    /// True for a kind that is there.
    pub fn has(self, kind: HostKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }
}

/// A place of the book, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawEntry {
    /// The bucket.
    pub bucket: usize,
    /// The place in it.
    pub position: usize,
    /// What stands there.
    pub address: PeerAddress,
    /// Who told it.
    pub source: Host,
}

/// All addresses we know.
#[derive(Debug)]
pub struct Book {
    pub(super) key: BookKey,
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    by_endpoint: HashMap<Endpoint, u32>,
    /// Every entry once, in an order that sampling shuffles.
    order: Vec<u32>,
    /// Entry plus one; 0 is empty.
    new: Vec<u32>,
    tried: Vec<u32>,
    /// Entries of each kind: told, tried.
    counts: [[usize; 2]; HostKind::ALL.len()],
    /// Entries that wait for another to be tested.
    collisions: BTreeSet<u32>,
    /// When last a connection was made: failures before it may be our own.
    last_good_s: u64,
}

impl Book {
    /// An empty book with a secret of its own.
    pub fn new(entropy: &mut dyn Entropy) -> Book {
        Book::grouped(Groups::default(), entropy)
    }

    /// An empty book that groups hosts this way.
    pub fn grouped(groups: Groups, entropy: &mut dyn Entropy) -> Book {
        Book::with_key(BookKey { secret: [entropy::number(entropy), entropy::number(entropy)], groups })
    }

    pub(super) fn with_key(key: BookKey) -> Book {
        Book {
            key,
            entries: Vec::new(),
            free: Vec::new(),
            by_endpoint: HashMap::new(),
            order: Vec::new(),
            new: vec![0; NEW_BUCKETS * BUCKET_SIZE],
            tried: vec![0; TRIED_BUCKETS * BUCKET_SIZE],
            counts: Default::default(),
            collisions: BTreeSet::new(),
            last_good_s: 1,
        }
    }

    /// Addresses known.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// True where none are.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Addresses of a kind that were told and never answered, and those that answered.
    pub fn counts(&self, kind: HostKind) -> (usize, usize) {
        let [new, tried] = self.counts[kind as usize];
        (new, tried)
    }

    /// A number for a host's group that nobody else can compute.
    pub fn keyed_group(&self, host: &Host) -> u64 {
        self.key.keyed_group(host)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.order.iter().map(|id| self.entry(*id))
    }

    fn entry(&self, id: u32) -> &Entry {
        self.entries[id as usize].as_ref().expect("tables name entries that are there")
    }

    fn entry_mut(&mut self, id: u32) -> &mut Entry {
        self.entries[id as usize].as_mut().expect("tables name entries that are there")
    }

    fn find(&mut self, endpoint: &Endpoint) -> Option<(u32, &mut Entry)> {
        let id = *self.by_endpoint.get(endpoint)?;
        Some((id, self.entry_mut(id)))
    }

    /// Takes addresses that `source` told, each `penalty_s` older than it says; gives how many found a place.
    pub fn add(
        &mut self,
        addresses: &[PeerAddress],
        source: &Host,
        penalty_s: u64,
        now_s: u64,
        entropy: &mut dyn Entropy,
    ) -> usize {
        let mut added = 0;
        for address in addresses.iter().filter(|address| is_routable(&address.endpoint.host)) {
            // Who tells his own address knows when he was seen.
            let penalty_s = if address.endpoint.host == *source { 0 } else { penalty_s };
            added += usize::from(self.add_one(address, source, penalty_s, now_s, entropy));
        }
        added
    }

    fn add_one(
        &mut self,
        address: &PeerAddress,
        source: &Host,
        penalty_s: u64,
        now_s: u64,
        entropy: &mut dyn Entropy,
    ) -> bool {
        let seen_s = u64::from(address.time_s);
        let id = match self.find(&address.endpoint) {
            Some((id, known)) => {
                let is_online = now_s < seen_s + 24 * 3600;
                let step_s = if is_online { 3600 } else { 24 * 3600 };
                let was_seen_s = known.seen_s;
                if was_seen_s + step_s + penalty_s < seen_s {
                    known.seen_s = seen_s.saturating_sub(penalty_s);
                }
                known.services = known.services.and(address.services);
                if seen_s <= was_seen_s || known.is_tried || known.places == PLACES_MAX {
                    return false;
                }
                // Each place more is twice as hard to get.
                let places = known.places;
                if places > 0 && entropy::below(entropy, 1 << places) != 0 {
                    return false;
                }
                id
            }
            None => self.create(Entry {
                endpoint: address.endpoint,
                services: address.services,
                seen_s: seen_s.saturating_sub(penalty_s),
                source: *source,
                last_try_s: 0,
                last_counted_s: 0,
                last_success_s: 0,
                attempts: 0,
                is_tried: false,
                places: 0,
                order: 0,
            }),
        };
        let place = self.key.new_place(&address.endpoint, source);
        self.put_new(id, place, now_s)
    }

    /// Puts an entry into a place of the table of those told, if what stands there is worth less.
    fn put_new(&mut self, id: u32, place: usize, now_s: u64) -> bool {
        if self.new[place] == id + 1 {
            return false;
        }
        if let Some(there) = self.new[place].checked_sub(1) {
            let there = self.entry(there);
            let gives_way = there.is_worthless(now_s) || (there.places > 1 && self.entry(id).places == 0);
            if !gives_way {
                if self.entry(id).places == 0 {
                    self.forget(id);
                }
                return false;
            }
        }
        self.clear_new(place);
        self.new[place] = id + 1;
        self.entry_mut(id).places += 1;
        true
    }

    fn create(&mut self, mut entry: Entry) -> u32 {
        entry.order = self.order.len() as u32;
        let (endpoint, kind) = (entry.endpoint, HostKind::of(&entry.endpoint.host));
        let id = match self.free.pop() {
            Some(id) => id,
            None => {
                self.entries.push(None);
                self.entries.len() as u32 - 1
            }
        };
        self.entries[id as usize] = Some(entry);
        self.order.push(id);
        self.by_endpoint.insert(endpoint, id);
        self.counts[kind as usize][0] += 1;
        id
    }

    /// Forgets an entry that stands nowhere.
    fn forget(&mut self, id: u32) {
        let entry = self.entries[id as usize].take().expect("forgotten once");
        assert!(entry.places == 0 && !entry.is_tried, "a place still names it");
        self.swap_order(entry.order as usize, self.order.len() - 1, Some(id));
        self.order.pop();
        self.by_endpoint.remove(&entry.endpoint);
        // Its number will be another's, who has not earned the place it waits for.
        self.collisions.remove(&id);
        self.counts[HostKind::of(&entry.endpoint.host) as usize][0] -= 1;
        self.free.push(id);
    }

    /// Swaps two in `order`; `gone` is one that has no entry any more.
    fn swap_order(&mut self, a: usize, b: usize, gone: Option<u32>) {
        self.order.swap(a, b);
        for at in [a, b] {
            let id = self.order[at];
            if Some(id) != gone {
                self.entry_mut(id).order = at as u32;
            }
        }
    }

    fn clear_new(&mut self, place: usize) {
        let Some(id) = std::mem::take(&mut self.new[place]).checked_sub(1) else { return };
        let entry = self.entry_mut(id);
        entry.places -= 1;
        if entry.places == 0 {
            self.forget(id);
        }
    }

    /// A connection to an address of ours was made and its version came; false where its place is taken, and a test of the one
    /// there is due (see [`Book::to_test`]).
    pub fn good(&mut self, endpoint: &Endpoint, now_s: u64) -> bool {
        self.last_good_s = now_s;
        let Some((id, entry)) = self.find(endpoint) else { return false };
        // When it was seen is left: whom we are connected to now is nobody's business.
        (entry.last_success_s, entry.last_try_s, entry.attempts) = (now_s, now_s, 0);
        if entry.is_tried {
            return true;
        }
        let place = self.key.tried_place(endpoint);
        if self.tried[place] != 0 {
            if self.collisions.len() < COLLISIONS_MAX {
                self.collisions.insert(id);
            }
            return false;
        }
        self.make_tried(id, place, now_s);
        true
    }

    /// Moves an entry to a place among those tried; what stands there goes back to those told.
    fn make_tried(&mut self, id: u32, place: usize, now_s: u64) {
        for at in 0..self.new.len() {
            if self.entry(id).places == 0 {
                break;
            }
            if self.new[at] == id + 1 {
                self.new[at] = 0;
                self.entry_mut(id).places -= 1;
            }
        }
        let old = std::mem::replace(&mut self.tried[place], id + 1).checked_sub(1);
        self.entry_mut(id).is_tried = true;
        self.count_move(id, 0, 1);
        if let Some(old) = old {
            self.entry_mut(old).is_tried = false;
            self.count_move(old, 1, 0);
            let (endpoint, source) = (self.entry(old).endpoint, self.entry(old).source);
            let back = self.key.new_place(&endpoint, &source);
            self.clear_new(back);
            assert!(self.put_new(old, back, now_s), "the place was cleared");
        }
    }

    fn count_move(&mut self, id: u32, from: usize, to: usize) {
        let kind = HostKind::of(&self.entry(id).endpoint.host) as usize;
        self.counts[kind][from] -= 1;
        self.counts[kind][to] += 1;
    }

    /// A connection to an address is tried; it counts as a failure unless one failed since the last that succeeded anywhere.
    pub fn attempt(&mut self, endpoint: &Endpoint, counts: bool, now_s: u64) {
        let last_good_s = self.last_good_s;
        let Some((_, entry)) = self.find(endpoint) else { return };
        entry.last_try_s = now_s;
        if counts && entry.last_counted_s < last_good_s {
            entry.last_counted_s = now_s;
            entry.attempts += 1;
        }
    }

    /// A connection ended that was not for blocks only: the address was seen, to within twenty minutes.
    pub fn seen(&mut self, endpoint: &Endpoint, now_s: u64) {
        if let Some((_, entry)) = self.find(endpoint)
            && now_s > entry.seen_s + 20 * 60
        {
            entry.seen_s = now_s;
        }
    }

    /// What a peer itself says it offers.
    pub fn set_services(&mut self, endpoint: &Endpoint, services: Services) {
        if let Some((_, entry)) = self.find(endpoint) {
            entry.services = services;
        }
    }

    /// An address to try, and when it was last tried: told or tried with equal chance, recent failures seldom.
    pub fn select(
        &self,
        new_only: bool,
        reachable: Reachable,
        now_s: u64,
        entropy: &mut dyn Entropy,
    ) -> Option<(PeerAddress, u64)> {
        let count = |table: usize| -> usize {
            HostKind::ALL
                .iter()
                .filter(|kind| reachable.has(**kind))
                .map(|kind| self.counts[*kind as usize][table])
                .sum()
        };
        let tables = match (count(0), if new_only { 0 } else { count(1) }) {
            (0, 0) => return None,
            (0, _) => &self.tried,
            (_, 0) => &self.new,
            _ if entropy::number(entropy) & 1 == 0 => &self.tried,
            _ => &self.new,
        };
        let mut factor = 1.0;
        loop {
            // A random bucket, then the first that fits from a random position on.
            let bucket = entropy::below(entropy, (tables.len() / BUCKET_SIZE) as u64) as usize * BUCKET_SIZE;
            let start = entropy::below(entropy, BUCKET_SIZE as u64) as usize;
            let places = (0..BUCKET_SIZE).map(|step| tables[bucket + (start + step) % BUCKET_SIZE]);
            let mut entries = places.filter_map(|place| Some(self.entry(place.checked_sub(1)?)));
            let fits = |entry: &&Entry| reachable.has(HostKind::of(&entry.endpoint.host));
            let Some(entry) = entries.find(fits) else { continue };
            let threshold = factor * entry.chance(now_s) * (1u64 << 30) as f64;
            if ((entropy::number(entropy) >> 34) as f64) < threshold {
                return Some((entry.address(), entry.last_try_s));
            }
            factor *= 1.2;
        }
    }

    /// An address whose place another wants, to be tested by a feeler; and when it was last tried.
    pub fn to_test(&mut self, entropy: &mut dyn Entropy) -> Option<(PeerAddress, u64)> {
        if self.collisions.is_empty() {
            return None;
        }
        let nth = entropy::below(entropy, self.collisions.len() as u64) as usize;
        let id = *self.collisions.iter().nth(nth).expect("below their number");
        let Some(entry) = self.entries[id as usize].as_ref().filter(|entry| !entry.is_tried) else {
            self.collisions.remove(&id);
            return None;
        };
        let old = self.tried[self.key.tried_place(&entry.endpoint)].checked_sub(1)?;
        let old = self.entry(old);
        Some((old.address(), old.last_try_s))
    }

    /// Decides the tests that are over: one that answered lately keeps its place, one that failed loses it.
    pub fn resolve_tests(&mut self, now_s: u64) {
        for id in std::mem::take(&mut self.collisions) {
            let Some(entry) = self.entries[id as usize].as_ref().filter(|entry| !entry.is_tried) else { continue };
            let age = |time_s: u64| now_s.saturating_sub(time_s);
            let (place, success_s) = (self.key.tried_place(&entry.endpoint), entry.last_success_s);
            let old = self.tried[place].checked_sub(1).map(|old| self.entry(old));
            let wins = match old {
                None => Some(true),
                Some(old) if age(old.last_success_s) < REPLACEMENT_S => Some(false),
                // A minute for an attempt to succeed.
                Some(old) if age(old.last_try_s) < REPLACEMENT_S => (age(old.last_try_s) > 60).then_some(true),
                Some(_) => (age(success_s) > TEST_WINDOW_S).then_some(true),
            };
            match wins {
                Some(true) => self.make_tried(id, place, now_s),
                Some(false) => {}
                None => {
                    self.collisions.insert(id);
                }
            }
        }
    }

    /// Random addresses to tell others: at most `count_max`, and at most `percent_max` of all; none that is worth nothing.
    pub fn sample(
        &mut self,
        count_max: usize,
        percent_max: usize,
        kind: Option<HostKind>,
        now_s: u64,
        entropy: &mut dyn Entropy,
    ) -> Vec<PeerAddress> {
        let count = (self.order.len() * percent_max / 100).min(count_max);
        let mut sample = Vec::with_capacity(count);
        for at in 0..self.order.len() {
            if sample.len() == count {
                break;
            }
            let other = at + entropy::below(entropy, (self.order.len() - at) as u64) as usize;
            self.swap_order(at, other, None);
            let entry = self.entry(self.order[at]);
            let fits = kind.is_none_or(|kind| HostKind::of(&entry.endpoint.host) == kind);
            if fits && !entry.is_worthless(now_s) {
                sample.push(entry.address());
            }
        }
        sample
    }

    /// Every place that is taken, of addresses told or of those that answered: bucket, position, what stands there.
    pub fn raw(&self, tried: bool) -> impl Iterator<Item = RawEntry> {
        let table = if tried { &self.tried } else { &self.new };
        table.iter().enumerate().filter_map(|(at, place)| {
            let entry = self.entry(place.checked_sub(1)?);
            let (bucket, position) = (at / BUCKET_SIZE, at % BUCKET_SIZE);
            Some(RawEntry { bucket, position, address: entry.address(), source: entry.source })
        })
    }

    /// Puts back an entry of a file; false where its place is taken.
    pub(super) fn restore(&mut self, entry: Entry, now_s: u64) -> bool {
        if self.by_endpoint.contains_key(&entry.endpoint) || !is_routable(&entry.endpoint.host) {
            return false;
        }
        let (endpoint, source, was_tried) = (entry.endpoint, entry.source, entry.is_tried);
        let id = self.create(Entry { is_tried: false, places: 0, ..entry });
        let tried_place = self.key.tried_place(&endpoint);
        if was_tried && self.tried[tried_place] == 0 {
            self.make_tried(id, tried_place, now_s);
            return true;
        }
        self.put_new(id, self.key.new_place(&endpoint, &source), now_s)
    }

    /// Panics where tables, counts and entries disagree.
    #[cfg(test)]
    pub fn check_consistency(&self) {
        let mut places: HashMap<u32, (u8, bool)> = HashMap::new();
        for place in self.new.iter().filter(|place| **place != 0) {
            places.entry(place - 1).or_default().0 += 1;
        }
        for place in self.tried.iter().filter(|place| **place != 0) {
            assert!(!std::mem::replace(&mut places.entry(place - 1).or_default().1, true), "tried once");
        }
        assert_eq!(places.len(), self.order.len());
        let mut counts: [[usize; 2]; HostKind::ALL.len()] = Default::default();
        for (at, id) in self.order.iter().enumerate() {
            let entry = self.entry(*id);
            assert_eq!((entry.places, entry.is_tried), places[id]);
            assert!(entry.is_tried != (entry.places > 0), "in exactly one table");
            assert_eq!((entry.order as usize, self.by_endpoint[&entry.endpoint]), (at, *id));
            counts[HostKind::of(&entry.endpoint.host) as usize][usize::from(entry.is_tried)] += 1;
        }
        assert_eq!(counts, self.counts);
        assert_eq!(self.entries.iter().flatten().count(), self.order.len());
    }
}
