//! Transactions whose parents we do not have, by who told us of them.
//!
//! In:     transactions and announcements of peers, transactions that came in, blocks.
//! Out:    which orphans to look at again, and for which peer.
//! Fails:  never: what does not fit is dropped, the oldest of the peer that takes most.
//! Source: Bitcoin Core 31, `node/txorphanage.cpp`.
//!
//! Every peer has an equal share of work and memory. It may use what others leave, but nobody's announcement is dropped
//! while he stays within his share, so no peer can drive out another's orphans. An orphan stays as long as one peer
//! stands for it. Ordered tables throughout: the same calls leave the same orphans.

use std::collections::{BTreeMap, BTreeSet};

use primitives::{Block, OutPoint, Transaction, Wtxid};
use stdx::random::Random;

use crate::policy::TX_WEIGHT_MAX;

/// Weight that each peer's orphans may have in any case; Core's `DEFAULT_RESERVED_ORPHAN_WEIGHT_PER_PEER`.
const PEER_WEIGHT: u64 = 404_000;
/// Work that all announcements may be: one each, and one for every ten inputs; Core's
/// `DEFAULT_MAX_ORPHANAGE_LATENCY_SCORE`.
const WORK_MAX: u64 = 3_000;

/// A peer's number.
pub type PeerId = u64;

/// What a peer's announcements take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Weight of the transactions.
    pub weight: u64,
    /// One each, and one for every ten inputs.
    pub work: u64,
    /// How many.
    pub announcements: u64,
}

struct Orphan {
    transaction: Transaction,
    weight: u64,
    work: u64,
    /// Sequence and whether to look at it again, by who told us.
    announcers: BTreeMap<PeerId, (u64, bool)>,
}

/// The orphans.
pub struct Orphans {
    peer_weight: u64,
    work_max: u64,
    orphans: BTreeMap<Wtxid, Orphan>,
    /// By peer: those not to be looked at first, then by age.
    by_peer: BTreeSet<(PeerId, bool, u64, Wtxid)>,
    by_outpoint: BTreeSet<(OutPoint, Wtxid)>,
    peers: BTreeMap<PeerId, Load>,
    sequence: u64,
    /// Of every orphan once, however many peers told us.
    weight: u64,
    /// Likewise, one for every ten inputs.
    input_work: u64,
}

impl Default for Orphans {
    fn default() -> Orphans {
        Orphans::new(WORK_MAX, PEER_WEIGHT)
    }
}

impl Orphans {
    /// No orphans, and other limits than Core's.
    pub fn new(work_max: u64, peer_weight: u64) -> Orphans {
        Orphans {
            peer_weight,
            work_max,
            orphans: BTreeMap::new(),
            by_peer: BTreeSet::new(),
            by_outpoint: BTreeSet::new(),
            peers: BTreeMap::new(),
            sequence: 0,
            weight: 0,
            input_work: 0,
        }
    }

    /// Number of orphans.
    pub fn len(&self) -> usize {
        self.orphans.len()
    }

    /// True without orphans.
    pub fn is_empty(&self) -> bool {
        self.orphans.is_empty()
    }

    /// Weight of all orphans.
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// What a peer's announcements take.
    pub fn load(&self, peer: PeerId) -> Load {
        self.peers.get(&peer).copied().unwrap_or_default()
    }

    /// True where the orphan is here.
    pub fn has(&self, wtxid: &Wtxid) -> bool {
        self.orphans.contains_key(wtxid)
    }

    /// True where this peer told us of it.
    pub fn has_from(&self, wtxid: &Wtxid, peer: PeerId) -> bool {
        self.orphans.get(wtxid).is_some_and(|orphan| orphan.announcers.contains_key(&peer))
    }

    /// The orphan of a wtxid.
    pub fn get(&self, wtxid: &Wtxid) -> Option<&Transaction> {
        self.orphans.get(wtxid).map(|orphan| &orphan.transaction)
    }

    /// Every orphan and who told us of it, by wtxid.
    pub fn iter(&self) -> impl Iterator<Item = (&Transaction, Vec<PeerId>)> {
        self.orphans.values().map(|orphan| (&orphan.transaction, orphan.announcers.keys().copied().collect()))
    }

    /// Who told us of an orphan.
    pub fn announcers(&self, wtxid: &Wtxid) -> impl Iterator<Item = PeerId> + '_ {
        self.orphans.get(wtxid).into_iter().flat_map(|orphan| orphan.announcers.keys().copied())
    }

    /// Keeps an orphan that a peer sent; true where it was not here before. Too heavy a one is not kept.
    pub fn add(&mut self, transaction: &Transaction, peer: PeerId) -> bool {
        let tx = transaction.tx();
        if tx.weight() > TX_WEIGHT_MAX {
            return false;
        }
        let wtxid = tx.wtxid();
        let is_first = !self.has(&wtxid);
        if is_first {
            let (weight, work) = (tx.weight() as u64, 1 + tx.input_count() as u64 / 10);
            self.by_outpoint.extend(tx.inputs().map(|input| (input.outpoint(), wtxid)));
            (self.weight, self.input_work) = (self.weight + weight, self.input_work + work - 1);
            let orphan = Orphan { transaction: transaction.clone(), weight, work, announcers: BTreeMap::new() };
            self.orphans.insert(wtxid, orphan);
        }
        self.add_announcer(&wtxid, peer);
        is_first && self.has(&wtxid)
    }

    /// Another peer told us of an orphan; true where that is news about an orphan that is here.
    pub fn add_announcer(&mut self, wtxid: &Wtxid, peer: PeerId) -> bool {
        let Some(orphan) = self.orphans.get_mut(wtxid) else { return false };
        if orphan.announcers.contains_key(&peer) {
            return false;
        }
        orphan.announcers.insert(peer, (self.sequence, false));
        self.by_peer.insert((peer, false, self.sequence, *wtxid));
        self.sequence += 1;
        let load = self.peers.entry(peer).or_default();
        load.weight += orphan.weight;
        load.work += orphan.work;
        load.announcements += 1;
        self.limit();
        true
    }

    /// Takes the orphan that a peer should be asked about next, off its list but not out of here.
    pub fn next_to_reconsider(&mut self, peer: PeerId) -> Option<Transaction> {
        let &(_, _, sequence, wtxid) = self.by_peer.range((peer, true, 0, Wtxid([0; 32]))..).next()?;
        if !self.by_peer.remove(&(peer, true, sequence, wtxid)) {
            return None;
        }
        self.by_peer.insert((peer, false, sequence, wtxid));
        let orphan = self.orphans.get_mut(&wtxid).expect("both tables name the same orphans");
        orphan.announcers.insert(peer, (sequence, false));
        Some(orphan.transaction.clone())
    }

    /// True where a peer has orphans to look at again.
    pub fn has_to_reconsider(&self, peer: PeerId) -> bool {
        let next = self.by_peer.range((peer, true, 0, Wtxid([0; 32]))..).next();
        next.is_some_and(|&(owner, ..)| owner == peer)
    }

    /// A transaction came in: its children are put on the list of one peer each that told us of them, drawn by chance, so
    /// that nobody can take care that his peer is the one asked.
    pub fn reconsider_children(&mut self, transaction: &Transaction, random: &mut Random) -> Vec<(Wtxid, PeerId)> {
        let tx = transaction.tx();
        let txid = tx.txid();
        let range =
            (OutPoint { txid, vout: 0 }, Wtxid([0; 32]))..=(OutPoint { txid, vout: u32::MAX }, Wtxid([255; 32]));
        let mut children: Vec<Wtxid> = self.by_outpoint.range(range).map(|&(_, wtxid)| wtxid).collect();
        children.sort_unstable();
        children.dedup();
        let mut chosen = Vec::new();
        for wtxid in children {
            let orphan = self.orphans.get_mut(&wtxid).expect("both tables name the same orphans");
            if orphan.announcers.values().any(|&(_, reconsider)| reconsider) {
                continue;
            }
            let pick = random.below(orphan.announcers.len() as u64) as usize;
            let (&peer, announcement) = orphan.announcers.iter_mut().nth(pick).expect("drawn below their number");
            announcement.1 = true;
            self.by_peer.remove(&(peer, false, announcement.0, wtxid));
            self.by_peer.insert((peer, true, announcement.0, wtxid));
            chosen.push((wtxid, peer));
        }
        chosen
    }

    /// Orphans of a peer that spend from `parent`: those to be looked at again first, then the youngest.
    pub fn children_from(&self, parent: &Transaction, peer: PeerId) -> Vec<Transaction> {
        let txid = parent.tx().txid();
        let own = self.by_peer.range((peer, false, 0, Wtxid([0; 32]))..).take_while(|(owner, ..)| *owner == peer);
        let own: Vec<&Transaction> = own.map(|(.., wtxid)| &self.orphans[wtxid].transaction).collect();
        let spends = |tx: &&&Transaction| tx.tx().inputs().any(|input| input.outpoint().txid == txid);
        own.iter().rev().filter(spends).map(|&tx| tx.clone()).collect()
    }

    /// Drops an orphan; true where it was here.
    pub fn erase(&mut self, wtxid: &Wtxid) -> bool {
        let Some(orphan) = self.orphans.get(wtxid) else { return false };
        let announcers: Vec<PeerId> = orphan.announcers.keys().copied().collect();
        announcers.into_iter().for_each(|peer| self.erase_announcement(wtxid, peer));
        // Peers without orphans bring no share.
        self.limit();
        true
    }

    /// A peer has left: what only he told us of goes.
    pub fn erase_peer(&mut self, peer: PeerId) {
        let own = self.by_peer.range((peer, false, 0, Wtxid([0; 32]))..).take_while(|(owner, ..)| *owner == peer);
        let own: Vec<Wtxid> = own.map(|&(.., wtxid)| wtxid).collect();
        own.iter().for_each(|wtxid| self.erase_announcement(wtxid, peer));
        // Fewer peers share what there is.
        self.limit();
    }

    /// A block came: what is in it, or spends what it spends, goes.
    pub fn erase_for_block(&mut self, block: &Block) {
        let spent: Vec<OutPoint> = block.txs().flat_map(|tx| tx.inputs().map(|input| input.outpoint())).collect();
        for outpoint in spent {
            let range = (outpoint, Wtxid([0; 32]))..=(outpoint, Wtxid([255; 32]));
            let spenders: Vec<Wtxid> = self.by_outpoint.range(range).map(|&(_, wtxid)| wtxid).collect();
            spenders.iter().for_each(|wtxid| {
                self.erase(wtxid);
            });
        }
    }

    fn erase_announcement(&mut self, wtxid: &Wtxid, peer: PeerId) {
        let orphan = self.orphans.get_mut(wtxid).expect("an announcement is of an orphan");
        let (sequence, reconsider) = orphan.announcers.remove(&peer).expect("the peer told us of it");
        self.by_peer.remove(&(peer, reconsider, sequence, *wtxid));
        let load = self.peers.get_mut(&peer).expect("a peer with announcements has a load");
        load.weight -= orphan.weight;
        load.work -= orphan.work;
        load.announcements -= 1;
        if load.announcements == 0 {
            self.peers.remove(&peer);
        }
        if orphan.announcers.is_empty() {
            let orphan = self.orphans.remove(wtxid).expect("it was just looked at");
            for input in orphan.transaction.tx().inputs() {
                self.by_outpoint.remove(&(input.outpoint(), *wtxid));
            }
            (self.weight, self.input_work) = (self.weight - orphan.weight, self.input_work - (orphan.work - 1));
        }
    }

    fn is_over(&self) -> bool {
        let peers = self.peers.len().max(1) as u64;
        self.by_peer.len() as u64 + self.input_work > self.work_max || self.weight > self.peer_weight * peers
    }

    /// Drops announcements of the peer that takes most of its share, the oldest first, until all fit.
    fn limit(&mut self) {
        while self.is_over() {
            let peer_work = (self.work_max / self.peers.len().max(1) as u64).max(1);
            // The larger of two shares, compared as products; equal ones by number.
            let share = |load: &Load| {
                let work = u128::from(load.work) * u128::from(self.peer_weight);
                work.max(u128::from(load.weight) * u128::from(peer_work))
            };
            let worst = self.peers.iter().max_by_key(|(peer, load)| (share(load), **peer));
            let (&worst, _) = worst.expect("over a limit only with announcements");
            let oldest = self.by_peer.range((worst, false, 0, Wtxid([0; 32]))..).next();
            let &(peer, .., wtxid) = oldest.expect("a peer with a load has announcements");
            self.erase_announcement(&wtxid, peer);
        }
    }
}
