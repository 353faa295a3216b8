//! Which connection makes room for a new one.
//!
//! In:     facts about every connection.
//! Out:    the one to end; `None` where all are protected.
//! Fails:  never.
//! Source: Bitcoin Core, `SelectNodeToEvict` and `ProtectEvictionCandidatesByRatio`.
//!
//! Each kind of usefulness protects a few: an attacker who wants all our connections has to be near, fast, early and useful, in
//! many groups at once.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::hosts::HostKind;
use crate::moment::Moment;
use crate::peer::PeerId;

/// What counts of a connection.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its number.
    pub id: PeerId,
    /// They connected.
    pub is_inbound: bool,
    /// It may not be ended (`noban`).
    pub is_protected: bool,
    /// When it was made.
    pub connected: Moment,
    /// Its shortest ping.
    pub latency_least: Option<Duration>,
    /// When it last sent a block that was new to us.
    pub last_block: Option<Moment>,
    /// When it last sent a transaction that we took.
    pub last_tx: Option<Moment>,
    /// It offers what we need.
    pub has_services: bool,
    /// It wants transactions.
    pub relays_txs: bool,
    /// Its group under a key that nobody knows.
    pub keyed_group: u64,
    /// It is to go first (discouraged).
    pub prefer_evict: bool,
    /// It comes from this machine.
    pub is_local: bool,
    /// Its network.
    pub kind: HostKind,
}

/// Of two moments the later is greater, and none is less than any.
fn by_block(a: &Candidate, b: &Candidate) -> Ordering {
    a.last_block.cmp(&b.last_block).then(a.has_services.cmp(&b.has_services)).then_with(|| by_age(a, b))
}

/// The older connection is greater.
fn by_age(a: &Candidate, b: &Candidate) -> Ordering {
    b.connected.cmp(&a.connected)
}

fn by_tx(a: &Candidate, b: &Candidate) -> Ordering {
    a.last_tx.cmp(&b.last_tx).then(a.relays_txs.cmp(&b.relays_txs)).then_with(|| by_age(a, b))
}

fn by_block_of_block_peers(a: &Candidate, b: &Candidate) -> Ordering {
    b.relays_txs.cmp(&a.relays_txs).then_with(|| by_block(a, b))
}

/// The nearer is greater; who never answered a ping is infinitely far.
fn by_latency(a: &Candidate, b: &Candidate) -> Ordering {
    let far = |candidate: &Candidate| candidate.latency_least.unwrap_or(Duration::MAX);
    far(b).cmp(&far(a))
}

/// Removes those of the last `count` in order that satisfy `which`.
fn protect_last(
    candidates: &mut Vec<Candidate>,
    order: impl Fn(&Candidate, &Candidate) -> Ordering,
    count: usize,
    which: impl Fn(&Candidate) -> bool,
) {
    candidates.sort_by(order);
    let start = candidates.len() - count.min(candidates.len());
    let mut position = 0;
    candidates.retain(|candidate| {
        position += 1;
        position <= start || !which(candidate)
    });
}

/// The connection to end.
pub fn select_to_evict(mut candidates: Vec<Candidate>) -> Option<PeerId> {
    candidates.retain(|candidate| candidate.is_inbound && !candidate.is_protected);
    protect_last(&mut candidates, |a, b| a.keyed_group.cmp(&b.keyed_group), 4, |_| true);
    protect_last(&mut candidates, by_latency, 8, |_| true);
    protect_last(&mut candidates, by_tx, 4, |_| true);
    let is_block_peer = |candidate: &Candidate| !candidate.relays_txs && candidate.has_services;
    protect_last(&mut candidates, by_block_of_block_peers, 8, is_block_peer);
    protect_last(&mut candidates, by_block, 4, |_| true);
    protect_by_ratio(&mut candidates);
    if candidates.iter().any(|candidate| candidate.prefer_evict) {
        candidates.retain(|candidate| candidate.prefer_evict);
    }
    youngest_of_largest_group(&candidates)
}

/// A network whose peers lose by other measures, since it is slow or local.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Disadvantaged {
    Local,
    Kind(HostKind),
}

impl Disadvantaged {
    fn has(self, candidate: &Candidate) -> bool {
        match self {
            Disadvantaged::Local => candidate.is_local,
            Disadvantaged::Kind(kind) => candidate.kind == kind,
        }
    }
}

/// Protects half of what is left: a quarter for disadvantaged networks, shared evenly, the rest for the oldest.
fn protect_by_ratio(candidates: &mut Vec<Candidate>) {
    let total = candidates.len() / 2;
    let for_networks = total / 2;
    let before = candidates.len();
    let mut networks = [
        Disadvantaged::Kind(HostKind::Cjdns),
        Disadvantaged::Kind(HostKind::I2p),
        Disadvantaged::Local,
        Disadvantaged::Kind(HostKind::Onion),
    ]
    .map(|network| (network, candidates.iter().filter(|candidate| network.has(candidate)).count()));
    // The smaller network has the first chance to take what others leave.
    networks.sort_by_key(|(_, count)| *count);
    let mut protected = 0;
    while protected < for_networks {
        let left = networks.iter().filter(|(_, count)| *count > 0).count();
        if left == 0 {
            break;
        }
        let protected_before = protected;
        let each = ((for_networks - protected) / left).max(1);
        for (network, count) in networks.iter_mut().filter(|(_, count)| *count > 0) {
            let order = |a: &Candidate, b: &Candidate| network.has(a).cmp(&network.has(b)).then_with(|| by_age(a, b));
            let length = candidates.len();
            protect_last(candidates, order, each, |candidate| network.has(candidate));
            let removed = length - candidates.len();
            *count -= removed;
            protected += removed;
            if protected >= for_networks {
                break;
            }
        }
        // A local onion peer counts for two networks and is gone once.
        if protected == protected_before {
            break;
        }
    }
    assert_eq!(protected, before - candidates.len(), "every protected candidate was counted");
    protect_last(candidates, by_age, total - protected, |_| true);
}

/// The youngest connection of the group with the most; of equal groups the one with the youngest.
fn youngest_of_largest_group(candidates: &[Candidate]) -> Option<PeerId> {
    let mut groups: BTreeMap<u64, (usize, &Candidate)> = BTreeMap::new();
    for candidate in candidates {
        let (count, youngest) = groups.entry(candidate.keyed_group).or_insert((0, candidate));
        *count += 1;
        if candidate.connected > youngest.connected {
            *youngest = candidate;
        }
    }
    let largest = groups.into_values().max_by_key(|(count, youngest)| (*count, youngest.connected));
    largest.map(|(_, youngest)| youngest.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::random::Random;

    /// Candidates whose properties are random and all different.
    fn crowd(count: u64, random: &mut Random) -> Vec<Candidate> {
        let at = |seconds: u64| Moment::default().after(Duration::from_secs(seconds));
        (0..count)
            .map(|n| Candidate {
                id: PeerId(n),
                is_inbound: true,
                is_protected: false,
                connected: at(random.below(1_000_000)),
                latency_least: Some(Duration::from_millis(100 + random.below(1_000_000))),
                last_block: Some(at(random.below(1_000_000))),
                last_tx: Some(at(random.below(1_000_000))),
                has_services: true,
                relays_txs: true,
                keyed_group: 1_000 + n,
                prefer_evict: false,
                is_local: false,
                kind: HostKind::V4,
            })
            .collect()
    }

    /// Changes some, and says that the changed ones are never chosen.
    #[track_caller]
    fn check_protected(count: u64, change: impl Fn(u64, &mut Candidate)) {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let mut candidates = crowd(60, &mut random);
            candidates.iter_mut().take(count as usize).enumerate().for_each(|(n, one)| change(n as u64, one));
            random.shuffle(&mut candidates);
            let chosen = select_to_evict(candidates).expect("60 are more than are protected");
            assert!(chosen.0 >= count, "seed {seed}: {chosen:?} is protected");
        }
    }

    #[test]
    fn each_kind_of_usefulness_protects_its_few() {
        let far_future = |n: u64| Some(Moment::default().after(Duration::from_secs(9_000_000 + n)));
        check_protected(4, |n, one| one.keyed_group = u64::MAX - n);
        check_protected(8, |n, one| one.latency_least = Some(Duration::from_millis(n)));
        check_protected(4, |n, one| one.last_tx = far_future(n));
        check_protected(4, |n, one| one.last_block = far_future(n));
        check_protected(8, |n, one| {
            (one.relays_txs, one.last_block) = (false, Some(Moment::default().after(Duration::from_secs(n))));
        });
        check_protected(16, |_, one| one.is_protected = true);
        check_protected(16, |_, one| one.is_inbound = false);
        // Half of what is left when the five kinds above took their 20 (no block peers here): 20 of 40, by age.
        check_protected(20, |n, one| one.connected = Moment::default().after(Duration::from_nanos(n)));
    }

    #[test]
    fn disadvantaged_networks_share_a_quarter() {
        // 20 protected by usefulness at most, so at least 40 are left and 10 places go to slow networks.
        check_protected(10, |_, one| one.kind = HostKind::Onion);
        check_protected(10, |_, one| one.is_local = true);
        check_protected(10, |_, one| (one.is_local, one.kind) = (true, HostKind::Onion));
        check_protected(5, |_, one| one.kind = HostKind::I2p);
        check_protected(8, |n, one| {
            one.kind = [HostKind::Onion, HostKind::I2p, HostKind::Cjdns, HostKind::Onion][n as usize % 4]
        });
    }

    #[test]
    fn an_attacker_in_one_group_loses_his_own_connections() {
        for seed in 0..100 {
            let mut random = Random::new(seed);
            let mut candidates = crowd(60, &mut random);
            // The attacker connects last and often, from one group.
            for attacker in &mut candidates[30..] {
                attacker.keyed_group = 7;
                attacker.connected = Moment::default().after(Duration::from_secs(2_000_000 + attacker.id.0));
            }
            random.shuffle(&mut candidates);
            assert!(select_to_evict(candidates).unwrap().0 >= 30, "seed {seed}");
        }
    }

    #[test]
    fn few_are_all_protected_and_the_discouraged_go_first() {
        let mut random = Random::new(1);
        assert_eq!(select_to_evict(Vec::new()), None);
        assert_eq!(select_to_evict(crowd(20, &mut random)), None);
        assert!(select_to_evict(crowd(30, &mut random)).is_some());
        let mut candidates = crowd(60, &mut random);
        let first = select_to_evict(candidates.clone()).unwrap();
        let other = candidates.iter_mut().find(|one| {
            let is_young = one.connected > Moment::default().after(Duration::from_secs(900_000));
            is_young && one.id != first
        });
        let other = other.expect("some are young");
        other.prefer_evict = true;
        (other.last_tx, other.last_block, other.latency_least) = (None, None, None);
        other.keyed_group = 0;
        let other = other.id;
        assert_eq!(select_to_evict(candidates), Some(other));
    }
}
