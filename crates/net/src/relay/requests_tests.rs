//! The tracker beside a slow model that is nothing but the rules, and tables of single rules.

use std::collections::BTreeMap;
use std::time::Duration;

use primitives::{Txid, Wtxid};
use stdx::random::Random;

use super::requests::{Requests, TxName};
use crate::peer::PeerId;
use crate::siphash::siphash;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn name(number: u8, is_wtxid: bool) -> TxName {
    match is_wtxid {
        true => TxName::Wtxid(Wtxid([number; 32])),
        false => TxName::Txid(Txid([number; 32])),
    }
}

/// One announcement as the rules describe it.
#[derive(Clone, Debug)]
struct Plain {
    peer: PeerId,
    name: TxName,
    preferred: bool,
    sequence: u64,
    time: Duration,
    /// None: a candidate; false: requested; true: done with.
    done: Option<bool>,
}

/// Every question is answered by reading the whole list.
#[derive(Default)]
struct Model {
    key: [u64; 2],
    all: Vec<Plain>,
    sequence: u64,
}

impl Model {
    fn priority(&self, one: &Plain) -> (bool, u64) {
        let mut salted = one.name.hash();
        salted[..8].iter_mut().zip(one.peer.0.to_le_bytes()).for_each(|(byte, other)| *byte ^= other);
        (one.preferred, siphash(self.key, &salted) >> 1)
    }

    /// Requests that are late are done with; hashes nobody can be asked for are forgotten.
    fn sweep(&mut self, now: Option<Duration>) {
        for one in &mut self.all {
            if one.done == Some(false) && now.is_some_and(|now| one.time <= now) {
                one.done = Some(true);
            }
        }
        let mut alive: BTreeMap<[u8; 32], bool> = BTreeMap::new();
        for one in &self.all {
            *alive.entry(one.name.hash()).or_default() |= one.done != Some(true);
        }
        self.all.retain(|one| alive[&one.name.hash()]);
    }

    fn find(&mut self, peer: PeerId, hash: &[u8; 32]) -> Option<&mut Plain> {
        self.all.iter_mut().find(|one| one.peer == peer && one.name.hash() == *hash)
    }

    fn announced(&mut self, peer: PeerId, name: TxName, preferred: bool, time: Duration) {
        if self.find(peer, &name.hash()).is_none() {
            let sequence = self.sequence;
            self.all.push(Plain { peer, name, preferred, sequence, time, done: None });
            self.sequence += 1;
        }
    }

    fn requestable(&mut self, peer: PeerId, now: Duration) -> Vec<TxName> {
        self.sweep(Some(now));
        let is_best = |one: &&Plain| {
            let same = || self.all.iter().filter(|other| other.name.hash() == one.name.hash());
            let in_flight = same().any(|other| other.done == Some(false));
            let ready = same().filter(|other| other.done.is_none() && other.time <= now);
            !in_flight && ready.max_by_key(|other| self.priority(other)).is_some_and(|best| best.peer == one.peer)
        };
        let mut own: Vec<&Plain> = self.all.iter().filter(|one| one.peer == peer).filter(is_best).collect();
        own.sort_by_key(|one| one.sequence);
        own.into_iter().map(|one| one.name).collect()
    }

    fn requested(&mut self, peer: PeerId, hash: &[u8; 32], expiry: Duration) {
        if self.find(peer, hash).is_none_or(|one| one.done.is_some()) {
            return;
        }
        for one in self.all.iter_mut().filter(|one| one.name.hash() == *hash && one.done == Some(false)) {
            one.done = Some(true);
        }
        let one = self.find(peer, hash).unwrap();
        (one.done, one.time) = (Some(false), expiry);
    }

    fn answered(&mut self, peer: PeerId, hash: &[u8; 32]) {
        if let Some(one) = self.find(peer, hash) {
            one.done = Some(true);
        }
        self.sweep(None);
    }

    fn leave(&mut self, peer: PeerId) {
        self.all.iter_mut().filter(|one| one.peer == peer).for_each(|one| one.done = Some(true));
        self.sweep(None);
        self.all.retain(|one| one.peer != peer);
    }
}

#[test]
fn the_tracker_answers_as_the_slow_model_does() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let key = [random.next_u64(), random.next_u64()];
        let mut model = Model { key, ..Model::default() };
        let (mut requests, mut now) = (Requests::new(key), seconds(1_000));
        let mut asked = 0;
        for _ in 0..2_000 {
            let peer = PeerId(1 + random.below(5));
            let number = random.below(8) as u8;
            let hash = [number; 32];
            match random.below(20) {
                0..=7 => {
                    let (preferred, wait) = (random.chance(1, 3), seconds(random.below(5)));
                    let name = name(number, random.chance(1, 2));
                    requests.announced(peer, name, preferred, now + wait);
                    model.announced(peer, name, preferred, now + wait);
                }
                8..=12 => {
                    let got = requests.requestable(peer, now);
                    assert_eq!(got, model.requestable(peer, now), "seed {seed}");
                    for name in got.into_iter().filter(|_| random.chance(3, 4)).collect::<Vec<_>>() {
                        let expiry = now + seconds(random.below(10));
                        requests.requested(peer, &name.hash(), expiry);
                        model.requested(peer, &name.hash(), expiry);
                        asked += 1;
                    }
                }
                13 => {
                    // Out of turn, as an orphan's parent may be.
                    requests.requested(peer, &hash, now + seconds(3));
                    model.requested(peer, &hash, now + seconds(3));
                }
                14..=16 => {
                    requests.answered(peer, &hash);
                    model.answered(peer, &hash);
                }
                17 => {
                    requests.forget(&hash);
                    model.all.retain(|one| one.name.hash() != hash);
                }
                18 if random.chance(1, 4) => {
                    requests.leave(peer);
                    model.leave(peer);
                }
                _ => now += seconds(random.below(4)),
            }
            assert_eq!(requests.len(), model.all.len(), "seed {seed}");
            let own = || model.all.iter().filter(|one| one.peer == peer);
            assert_eq!(requests.count(peer), own().count());
            assert_eq!(requests.in_flight(peer), own().filter(|one| one.done == Some(false)).count());
            let mut candidates = requests.candidates(&hash);
            candidates.sort();
            let same = model.all.iter().filter(|one| one.name.hash() == hash && one.done != Some(true));
            let mut want: Vec<PeerId> = same.map(|one| one.peer).collect();
            want.sort();
            assert_eq!(candidates, want);
        }
        assert!(asked > 50, "seed {seed} asked for {asked} only");
        (1..=5).for_each(|peer| requests.leave(PeerId(peer)));
        assert!(requests.is_empty());
    }
}

#[test]
fn an_unanswered_request_goes_to_the_next_announcer_after_its_time() {
    let mut requests = Requests::new([1, 2]);
    let (slow, next) = (PeerId(1), PeerId(2));
    let tx = name(7, true);
    requests.announced(slow, tx, true, seconds(10));
    requests.announced(next, tx, false, seconds(12));
    assert_eq!(requests.requestable(slow, seconds(9)), []);
    assert_eq!(requests.requestable(slow, seconds(10)), [tx]);
    requests.requested(slow, &tx.hash(), seconds(70));
    assert_eq!(requests.requestable(next, seconds(69)), [], "one request in flight for each transaction");
    assert_eq!(requests.requestable(next, seconds(70)), [tx]);
    assert_eq!(requests.requestable(slow, seconds(70)), [], "nobody is asked twice");
    requests.requested(next, &tx.hash(), seconds(130));
    assert_eq!(requests.requestable(slow, seconds(131)), []);
    assert!(requests.is_empty(), "nobody is left to be asked");
}

#[test]
fn the_preferred_are_asked_first_and_notfound_moves_on_at_once() {
    let mut requests = Requests::new([1, 2]);
    let tx = name(7, true);
    for peer in 1..=20 {
        requests.announced(PeerId(peer), tx, peer == 13, seconds(1));
    }
    let whom =
        |requests: &mut Requests| (1..=20).map(PeerId).find(|peer| !requests.requestable(*peer, seconds(2)).is_empty());
    let mut order = Vec::new();
    while let Some(peer) = whom(&mut requests) {
        requests.requested(peer, &tx.hash(), seconds(60));
        assert_eq!(whom(&mut requests), None);
        requests.answered(peer, &tx.hash());
        order.push(peer);
    }
    assert_eq!((order.len(), order[0]), (20, PeerId(13)));
    assert!(!order[1..].is_sorted(), "the others come in an order nobody can foresee");
    assert!(requests.is_empty());
}
