//! Which transaction is asked of whom, and when.
//!
//! In:     announcements, answers, the time.
//! Out:    what to ask of a peer now: one request in flight for each transaction, the best of its announcers first.
//! Fails:  never; how many announcements a peer may have is the caller's to decide.
//! Source: Bitcoin Core, `txrequest.cpp`: states and rules are the same, tables are fewer.
//!
//! An announcement waits for its time, is ready, is the best of its transaction, is requested, or is done with. A done one is
//! kept while others of its transaction are not, so that nobody is asked twice; the last of them takes all away.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use primitives::{Txid, Wtxid};

use crate::peer::PeerId;
use crate::siphash::siphash;
use crate::wire::{Inventory, InventoryKind};

/// A transaction by one of its two identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TxName {
    /// Whatever its witnesses.
    Txid(Txid),
    /// With these witnesses.
    Wtxid(Wtxid),
}

impl fmt::Display for TxName {
    /// As Core's log names it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TxName::Txid(txid) => write!(f, "tx {txid}"),
            TxName::Wtxid(wtxid) => write!(f, "wtx {wtxid}"),
        }
    }
}

impl TxName {
    /// The identifier's bytes.
    pub fn hash(&self) -> [u8; 32] {
        match self {
            TxName::Txid(txid) => txid.0,
            TxName::Wtxid(wtxid) => wtxid.0,
        }
    }

    /// What an entry of inv, getdata or notfound names; none for a block.
    pub fn of(entry: &Inventory) -> Option<TxName> {
        match entry.kind {
            InventoryKind::Wtx => Some(TxName::Wtxid(Wtxid(entry.hash))),
            InventoryKind::Tx | InventoryKind::WitnessTx => Some(TxName::Txid(Txid(entry.hash))),
            _ => None,
        }
    }

    /// The entry of a getdata that asks for it, witnesses included.
    pub fn wanted(&self) -> Inventory {
        let kind = match self {
            TxName::Txid(_) => InventoryKind::WitnessTx,
            TxName::Wtxid(_) => InventoryKind::Wtx,
        };
        Inventory { kind, hash: self.hash() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// To be asked for later.
    Delayed,
    /// Could be asked for now, but another is better or asked already.
    Ready,
    /// To be asked for now.
    Best,
    /// Asked for.
    Requested,
    /// Answered, or not in time.
    Done,
}

impl State {
    /// True where the time changes it.
    fn waits(self) -> bool {
        matches!(self, State::Delayed | State::Requested)
    }
}

#[derive(Clone, Debug)]
struct Announcement {
    peer: PeerId,
    is_wtxid: bool,
    state: State,
    /// Announcements are asked for in their order.
    sequence: u64,
    /// Preferred peers first, then by a keyed hash: nobody can make himself the first to be asked.
    priority: u64,
    /// When it becomes ready, or the request has failed.
    time: Duration,
}

/// A peer's announcements, counted.
#[derive(Clone, Copy, Default)]
struct Load {
    all: usize,
    in_flight: usize,
}

type Hash = [u8; 32];

/// All announcements.
pub struct Requests {
    key: [u64; 2],
    txs: BTreeMap<Hash, Vec<Announcement>>,
    waiting: BTreeSet<(Duration, Hash, PeerId)>,
    best: BTreeSet<(PeerId, u64, Hash)>,
    by_peer: BTreeSet<(PeerId, Hash)>,
    peers: BTreeMap<PeerId, Load>,
    sequence: u64,
}

impl Requests {
    /// No announcements.
    pub fn new(key: [u64; 2]) -> Requests {
        Requests {
            key,
            txs: BTreeMap::new(),
            waiting: BTreeSet::new(),
            best: BTreeSet::new(),
            by_peer: BTreeSet::new(),
            peers: BTreeMap::new(),
            sequence: 0,
        }
    }

    /// A peer has announced a transaction, which may be asked of it from `time` on; the second announcement is none.
    pub fn announced(&mut self, peer: PeerId, name: TxName, preferred: bool, time: Duration) {
        let hash = name.hash();
        if !self.by_peer.insert((peer, hash)) {
            return;
        }
        let mut salted = hash;
        salted[..8].iter_mut().zip(peer.0.to_le_bytes()).for_each(|(byte, other)| *byte ^= other);
        let priority = u64::from(preferred) << 63 | siphash(self.key, &salted) >> 1;
        let (is_wtxid, sequence) = (matches!(name, TxName::Wtxid(_)), self.sequence);
        let announcement = Announcement { peer, is_wtxid, state: State::Delayed, sequence, priority, time };
        self.txs.entry(hash).or_default().push(announcement);
        self.waiting.insert((time, hash, peer));
        self.peers.entry(peer).or_default().all += 1;
        self.sequence += 1;
    }

    /// A peer has left.
    pub fn leave(&mut self, peer: PeerId) {
        let own = self.by_peer.range((peer, [0; 32])..=(peer, [255; 32]));
        let own: Vec<Hash> = own.map(|(_, hash)| *hash).collect();
        for hash in own {
            self.set(&hash, peer, State::Done, Duration::ZERO);
            self.reselect(&hash);
            self.erase(&hash, peer);
        }
    }

    /// The transaction is here, or not wanted.
    pub fn forget(&mut self, hash: &Hash) {
        let Some(announcements) = self.txs.get(hash) else { return };
        let peers: Vec<PeerId> = announcements.iter().map(|one| one.peer).collect();
        peers.into_iter().for_each(|peer| self.erase(hash, peer));
    }

    /// What to ask of a peer now, in the order in which it was announced.
    pub fn requestable(&mut self, peer: PeerId, now: Duration) -> Vec<TxName> {
        self.advance(now);
        let own = self.best.range((peer, 0, [0; 32])..=(peer, u64::MAX, [255; 32]));
        let name = |&(_, _, hash): &(PeerId, u64, Hash)| match self.find(&hash, peer)?.is_wtxid {
            true => Some(TxName::Wtxid(Wtxid(hash))),
            false => Some(TxName::Txid(Txid(hash))),
        };
        own.filter_map(name).collect()
    }

    /// It was asked for; by `expiry` the answer must be here.
    pub fn requested(&mut self, peer: PeerId, hash: &Hash, expiry: Duration) {
        use State::{Best, Delayed, Ready, Requested};
        if !self.find(hash, peer).is_some_and(|one| matches!(one.state, Best | Ready | Delayed)) {
            return;
        }
        let others = self.txs[hash].iter().filter(|one| one.peer != peer);
        let before = others.filter(|one| matches!(one.state, Best | Requested));
        let before: Vec<(PeerId, State)> = before.map(|one| (one.peer, one.state)).collect();
        for (other, state) in before {
            // A request that another takes the place of is not waited for any more.
            let state = if state == Best { Ready } else { State::Done };
            self.set(hash, other, state, Duration::ZERO);
        }
        self.set(hash, peer, Requested, expiry);
    }

    /// The peer has sent it, or does not have it.
    pub fn answered(&mut self, peer: PeerId, hash: &Hash) {
        if self.find(hash, peer).is_some() {
            self.set(hash, peer, State::Done, Duration::ZERO);
            self.reselect(hash);
        }
    }

    /// Requests to a peer that are not answered yet.
    pub fn in_flight(&self, peer: PeerId) -> usize {
        self.peers.get(&peer).map_or(0, |load| load.in_flight)
    }

    /// Announcements of a peer, done with or not.
    pub fn count(&self, peer: PeerId) -> usize {
        self.peers.get(&peer).map_or(0, |load| load.all)
    }

    /// Announcements of all peers.
    pub fn len(&self) -> usize {
        self.by_peer.len()
    }

    /// True without announcements.
    pub fn is_empty(&self) -> bool {
        self.by_peer.is_empty()
    }

    /// Peers that have announced it and are not done with.
    pub fn candidates(&self, hash: &Hash) -> Vec<PeerId> {
        let all = self.txs.get(hash).into_iter().flatten();
        all.filter(|one| one.state != State::Done).map(|one| one.peer).collect()
    }

    fn find(&self, hash: &Hash, peer: PeerId) -> Option<&Announcement> {
        self.txs.get(hash)?.iter().find(|one| one.peer == peer)
    }

    /// What has waited long enough is ready, and what was not answered in time is done with.
    fn advance(&mut self, now: Duration) {
        while let Some(&(time, hash, peer)) = self.waiting.first() {
            if time > now {
                return;
            }
            let state = self.find(&hash, peer).expect("what waits is announced").state;
            let next = if state == State::Delayed { State::Ready } else { State::Done };
            self.set(&hash, peer, next, time);
            self.reselect(&hash);
        }
    }

    /// Changes a state, and the tables with it.
    fn set(&mut self, hash: &Hash, peer: PeerId, state: State, time: Duration) {
        let announcements = self.txs.get_mut(hash).expect("the caller has found it");
        let one = announcements.iter_mut().find(|one| one.peer == peer).expect("the caller has found it");
        let before = std::mem::replace(&mut one.state, state);
        let time_before = std::mem::replace(&mut one.time, time);
        let sequence = one.sequence;
        if before.waits() {
            self.waiting.remove(&(time_before, *hash, peer));
        }
        if state.waits() {
            self.waiting.insert((time, *hash, peer));
        }
        if before == State::Best {
            self.best.remove(&(peer, sequence, *hash));
        }
        if state == State::Best {
            self.best.insert((peer, sequence, *hash));
        }
        let load = self.peers.get_mut(&peer).expect("who has announced has a load");
        load.in_flight -= usize::from(before == State::Requested);
        load.in_flight += usize::from(state == State::Requested);
    }

    /// After a change: the best is the best again, and what nobody can be asked for is forgotten.
    fn reselect(&mut self, hash: &Hash) {
        let announcements = &self.txs[hash];
        if announcements.iter().all(|one| one.state == State::Done) {
            return self.forget(hash);
        }
        if announcements.iter().any(|one| one.state == State::Requested) {
            return;
        }
        let ready = announcements.iter().filter(|one| matches!(one.state, State::Ready | State::Best));
        let Some(best) = ready.max_by_key(|one| one.priority).map(|one| one.peer) else { return };
        let before = announcements.iter().find(|one| one.state == State::Best).map(|one| one.peer);
        if before == Some(best) {
            return;
        }
        if let Some(before) = before {
            self.set(hash, before, State::Ready, Duration::ZERO);
        }
        self.set(hash, best, State::Best, Duration::ZERO);
    }

    /// Takes an announcement out of every table, if it is there.
    fn erase(&mut self, hash: &Hash, peer: PeerId) {
        if self.find(hash, peer).is_none() {
            return;
        }
        self.set(hash, peer, State::Done, Duration::ZERO);
        let announcements = self.txs.get_mut(hash).expect("it was just looked at");
        announcements.retain(|one| one.peer != peer);
        if announcements.is_empty() {
            self.txs.remove(hash);
        }
        self.by_peer.remove(&(peer, *hash));
        let load = self.peers.get_mut(&peer).expect("who has announced has a load");
        load.all -= 1;
        if load.all == 0 {
            self.peers.remove(&peer);
        }
    }
}
