//! Every other server known: when to visit it, what came of it, and of which to tell.
//!
//! In:     seeds, announcements, lists of others, what came of visits; the time in seconds since 1970 as an argument.
//! Out:    whom to visit next, rows for `server.peers.subscribe`, lines for a file.
//! Fails:  never; what is too much is not noted.
//! Source: ElectrumX, `server/peers.py`: the times, and how many of which neighbourhood.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use serde_json::{Value, json};
use stdx::random::Random;

use super::server::{Host, Server, is_public};

/// A server that answered as it should within this time is told of.
pub const FRESH_S: u64 = 3 * 3600;
/// A good one is visited again so long before it would no longer be told of.
pub const EARLY_S: u64 = 600;
/// Half the rest after the first visit that failed; twice as long after each further one.
pub const REST_S: u64 = 300;
/// Visits in a row that may fail before a server is forgotten: one that was good once, and any other.
pub const TRIES_MAX: [u32; 2] = [10, 3];
/// A host may be announced, and a domain or address, once in this time.
pub const ANNOUNCED_S: u64 = 600;
/// An onion service may be announced once in a random part of this time, since nobody knows who does it.
pub const ONION_ANNOUNCED_S: u64 = 1200;
/// Announcements remembered; above it none is taken until they are old.
const ANNOUNCED_MAX: usize = 10_000;
/// Servers known; more are not noted. About 300 bytes each.
pub const KNOWN_MAX: usize = 1_000;
/// New ones noted out of the list of one server.
const NOTED_OF_ONE: usize = 2;
/// Servers told of out of one neighbourhood: /16 of IPv4, /56 of IPv6.
pub const TOLD_OF_GROUP: usize = 2;
/// Onion services told of to whoever comes by Tor; others are told of a quarter of the rest, and of ten at least.
pub const ONIONS_TOLD: [usize; 2] = [50, 10];
/// Servers told of at all: a row has about 80 bytes.
pub const TOLD_MAX: usize = 300;

/// What is known of one server.
#[derive(Clone, Debug)]
struct Known {
    server: Server,
    /// Where its host was found to be.
    address: Option<IpAddr>,
    /// The newest protocol it speaks.
    newest: String,
    /// When it last was as it should be; never where it is zero.
    good_s: u64,
    /// Visits since then that failed.
    tries: u32,
    /// What it says of itself is not so.
    is_bad: bool,
    next_s: u64,
    under_way: bool,
    /// Its host must be at this address, from where it was announced.
    announced_from: Option<IpAddr>,
}

/// A server to visit now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visitee {
    /// How it can be reached.
    pub server: Server,
    /// Where its host must be, if it announced itself.
    pub announced_from: Option<IpAddr>,
}

/// What came of a visit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is what it says.
    Good(Findings),
    /// What it says is not so.
    Bad(String),
    /// It did not answer, or not to the end.
    Unreached(String),
}

/// What a good server said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Where it was found; none through Tor.
    pub address: Option<IpAddr>,
    /// Its ports, as its features have them.
    pub ports: [Option<u16>; 4],
    /// The newest protocol it speaks.
    pub newest: String,
    /// Of whom it tells.
    pub others: Vec<Server>,
}

/// How many servers there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Verified, and told of.
    pub good: usize,
    /// Verified, but not lately.
    pub stale: usize,
    /// Not verified yet.
    pub never: usize,
    /// Not what they say.
    pub bad: usize,
}

/// All servers known.
pub struct Book {
    known: BTreeMap<Host, Known>,
    /// Ourselves.
    ours: Vec<Server>,
    accepts_local: bool,
    takes_onions: bool,
    announced: HashMap<String, u64>,
    onion_from_s: u64,
    random: Random,
}

impl Book {
    /// Nobody known; `seed` makes choices. Onion services are taken where there is a way to them.
    pub fn new(ours: Vec<Server>, accepts_local: bool, takes_onions: bool, seed: u64) -> Book {
        let (known, announced, random) = (BTreeMap::new(), HashMap::new(), Random::new(seed));
        Book { known, ours, accepts_local, takes_onions, announced, onion_from_s: 0, random }
    }

    /// Ourselves.
    pub fn ours(&self) -> &[Server] {
        &self.ours
    }

    /// One more way to ourselves.
    pub fn also_ours(&mut self, server: Server) {
        self.known.remove(&server.host);
        self.ours.retain(|own| own.host != server.host);
        self.ours.push(server);
    }

    /// Notes servers that nobody has to vouch for: those of the settings.
    pub fn seed(&mut self, servers: &[Server]) {
        for server in servers {
            self.note(server.clone(), None);
        }
    }

    fn may_be_noted(&self, server: &Server) -> bool {
        let is_reachable = server.tcp().or(server.ssl()).is_some();
        let is_one_of_us = self.ours.iter().any(|own| own.host == server.host);
        let is_allowed = self.accepts_local || server.host.is_public();
        is_reachable && is_allowed && !is_one_of_us && (self.takes_onions || !server.host.is_onion())
    }

    /// Notes a server to be visited at once; false where it is not to be visited at all.
    fn note(&mut self, server: Server, announced_from: Option<IpAddr>) -> bool {
        if !self.may_be_noted(&server) {
            return false;
        }
        if let Some(known) = self.known.get_mut(&server.host) {
            // Other ports than we know: they are tried now, and counted for nothing before that.
            if announced_from.is_some() && known.server.ports != server.ports && !known.under_way {
                (known.server, known.announced_from, known.next_s) = (server, announced_from, 0);
            }
            return true;
        }
        if self.known.len() >= KNOWN_MAX {
            return false;
        }
        let known = Known {
            address: None,
            newest: "1.4".to_owned(),
            good_s: 0,
            tries: 0,
            is_bad: false,
            next_s: 0,
            under_way: false,
            announced_from,
            server: server.clone(),
        };
        self.known.insert(server.host, known);
        true
    }

    /// A server announces itself from an address, or through Tor. True where it will be visited; whether its host is where
    /// it came from is seen then.
    pub fn announce(&mut self, servers: &[Server], from: Option<IpAddr>, now_s: u64) -> bool {
        let Some(server) = servers.first() else { return false };
        if !self.may_be_noted(server) || !self.is_in_time(&server.host, now_s) {
            return false;
        }
        match (&server.host, from) {
            (Host::Onion(_), _) => {
                if now_s < self.onion_from_s {
                    return false;
                }
                self.onion_from_s = now_s + self.random.below(ONION_ANNOUNCED_S);
                self.note(server.clone(), None)
            }
            (Host::Address(host), Some(from)) => *host == from.to_canonical() && self.note(server.clone(), Some(from)),
            (Host::Name(_), Some(from)) => self.note(server.clone(), Some(from)),
            (_, None) => false,
        }
    }

    /// Once in a while for each domain.
    fn is_in_time(&mut self, host: &Host, now_s: u64) -> bool {
        let since = |last: u64| now_s.saturating_sub(last);
        if self.announced.len() >= ANNOUNCED_MAX {
            self.announced.retain(|_, last| since(*last) < ANNOUNCED_S);
        }
        let domain = host.domain();
        let last = self.announced.get(&domain).copied();
        if last.is_some_and(|last| since(last) < ANNOUNCED_S) || self.announced.len() >= ANNOUNCED_MAX {
            return false;
        }
        self.announced.insert(domain, now_s);
        true
    }

    /// Whom to visit now.
    pub fn next(&mut self, now_s: u64) -> Option<Visitee> {
        let due = self.known.values_mut().filter(|known| !known.under_way && known.next_s <= now_s);
        let known = due.min_by_key(|known| known.next_s)?;
        known.under_way = true;
        Some(Visitee { server: known.server.clone(), announced_from: known.announced_from })
    }

    /// What came of a visit. True where the list of those that are told of is another now.
    pub fn ended(&mut self, host: &Host, outcome: Outcome, now_s: u64) -> bool {
        let outcome = match outcome {
            Outcome::Good(findings) if self.is_one_too_many(host, &findings, now_s) => {
                Outcome::Bad("another server at the same address is known".to_owned())
            }
            outcome => outcome,
        };
        let Some(known) = self.known.get_mut(host) else { return false };
        known.under_way = false;
        let was_told = known.is_told(now_s);
        match outcome {
            Outcome::Good(findings) => {
                (known.good_s, known.tries, known.is_bad) = (now_s, 0, false);
                (known.address, known.newest, known.announced_from) = (findings.address, findings.newest, None);
                known.server.ports = findings.ports;
                known.next_s = now_s + FRESH_S - EARLY_S;
                self.hear(findings.others);
                return true;
            }
            Outcome::Bad(_) => known.is_bad = true,
            Outcome::Unreached(_) => {}
        }
        known.tries += 1;
        known.next_s = now_s + (REST_S << known.tries.min(10));
        let max = if known.good_s > 0 && !known.is_bad { TRIES_MAX[0] } else { TRIES_MAX[1] };
        if known.tries >= max {
            self.known.remove(host);
        }
        was_told
    }

    /// Notes a few of those that a good server tells of.
    fn hear(&mut self, mut others: Vec<Server>) {
        self.random.shuffle(&mut others);
        let mut left = NOTED_OF_ONE;
        for other in others {
            let is_new = !self.known.contains_key(&other.host);
            if left > 0 && is_new && self.note(other, None) {
                left -= 1;
            }
        }
    }

    /// Many servers at one address are one server under many names.
    fn is_one_too_many(&self, host: &Host, findings: &Findings, now_s: u64) -> bool {
        let Some(address) = findings.address.filter(|_| !self.accepts_local) else { return false };
        let place = |address: IpAddr| match address {
            IpAddr::V4(address) => u128::from(u32::from(address)),
            IpAddr::V6(address) => u128::from(address) >> 64 | 1 << 64,
        };
        let others = self.known.iter().filter(|(other, known)| *other != host && known.is_told(now_s));
        let mut places = others.filter_map(|(_, known)| known.address.map(place));
        places.any(|other| other == place(address))
    }

    /// Rows for whoever asks for servers: ourselves, and a choice of those verified lately.
    pub fn told(&mut self, by_tor: bool, now_s: u64) -> Vec<Value> {
        let newest = crate::electrum::version::NEWEST.to_string();
        let mut rows: Vec<Value> = self.ours.iter().map(|server| server.row(None, &newest)).collect();
        let mut good: Vec<&Known> = self.known.values().filter(|known| known.is_told(now_s)).collect();
        self.random.shuffle(&mut good);
        let (onions, others): (Vec<&Known>, Vec<&Known>) =
            good.into_iter().partition(|known| known.server.host.is_onion());
        let mut of_group: HashMap<Option<u128>, usize> = HashMap::new();
        for known in others {
            let told = of_group.entry(known.address.map(neighbourhood)).or_default();
            if self.accepts_local || *told < TOLD_OF_GROUP {
                *told += 1;
                rows.push(known.row());
            }
        }
        let onions_max = if by_tor { ONIONS_TOLD[0] } else { ONIONS_TOLD[1].max(rows.len() / 4) };
        rows.truncate(TOLD_MAX - ONIONS_TOLD[0]);
        rows.extend(onions.iter().take(onions_max.min(TOLD_MAX - rows.len())).map(|known| known.row()));
        rows
    }

    /// How many there are of each kind.
    pub fn counts(&self, now_s: u64) -> Counts {
        let mut counts = Counts::default();
        for known in self.known.values() {
            match (known.is_bad, known.good_s, known.is_told(now_s)) {
                (true, ..) => counts.bad += 1,
                (_, _, true) => counts.good += 1,
                (_, 0, _) => counts.never += 1,
                _ => counts.stale += 1,
            }
        }
        counts
    }

    /// Those that were good once, a line of JSON each.
    pub fn text(&self) -> String {
        let line = |known: &Known| {
            let hosts = Server::hosts(std::slice::from_ref(&known.server));
            json!({ "hosts": hosts, "newest": known.newest, "good_s": known.good_s, "tries": known.tries }).to_string()
        };
        let good = self.known.values().filter(|known| known.good_s > 0 && !known.is_bad);
        good.map(|known| line(known) + "\n").collect()
    }

    /// Takes the lines of a file; those of servers that are known already, and what is no line, are passed over. None is told
    /// of before it was visited again.
    pub fn read(&mut self, text: &str, now_s: u64) {
        for line in text.lines().take(KNOWN_MAX) {
            let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
            let Some(server) = Server::of_features(&line["hosts"]).pop() else { continue };
            let host = server.host.clone();
            if self.known.contains_key(&host) || !self.note(server, None) {
                continue;
            }
            if let Some(known) = self.known.get_mut(&host) {
                // A clock that went back makes nobody good in the future; stale until the next visit.
                known.good_s = line["good_s"].as_u64().unwrap_or(0).min(now_s.saturating_sub(FRESH_S));
                known.tries = line["tries"].as_u64().unwrap_or(0).min(u64::from(TRIES_MAX[0])) as u32;
            }
        }
    }
}

/// Addresses that are told of together: /16 of IPv4, /56 of IPv6.
fn neighbourhood(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address) >> 16),
        IpAddr::V6(address) => u128::from(address) >> 72 | 1 << 64,
    }
}

impl Known {
    fn is_told(&self, now_s: u64) -> bool {
        self.good_s > 0 && !self.is_bad && now_s.saturating_sub(self.good_s) < FRESH_S
    }

    fn row(&self) -> Value {
        self.server.row(self.address.filter(|address| is_public(*address)), &self.newest)
    }
}

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;
