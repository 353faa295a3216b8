//! Which transactions to ask for, and what to do with those that come and those that were judged.
//!
//! In:     announcements, transactions, verdicts, blocks, the time.
//! Out:    requests; whether to judge a transaction, and with which other; what an orphan lacks.
//! Fails:  never.
//! Source: Bitcoin Core, `node/txdownloadman_impl.cpp`, the function named beside each rule.
//!
//! What was refused or confirmed lately is not asked for again; filters of fixed size remember it. A parent that pays too
//! little is judged with a child of the same peer; an orphan's parents are asked for from everyone who announced it.

use std::collections::BTreeMap;
use std::time::Duration;

use chain::orphans::Orphans;
use chain::policy::{Class, package_hash};
use primitives::{Block, Transaction, Txid, Wtxid};
use stdx::random::Random;

use super::pool::Pool;
use super::requests::{Requests, TxName};
use super::rolling::Rolling;
use crate::peer::PeerId;

/// Requests in flight above which a peer counts as overloaded; Core's `MAX_PEER_TX_REQUEST_IN_FLIGHT`.
const IN_FLIGHT_MAX: usize = 100;
/// Announcements of one peer that are remembered; Core's `MAX_PEER_TX_ANNOUNCEMENTS`.
pub const ANNOUNCEMENTS_MAX: usize = 5_000;
/// Wait before asking a peer that did not choose us as we chose it; Core's `NONPREF_PEER_TX_DELAY`.
const NOT_PREFERRED_DELAY: Duration = Duration::from_secs(2);
/// Wait before asking by txid while others know wtxids; Core's `TXID_RELAY_DELAY`.
const TXID_DELAY: Duration = Duration::from_secs(2);
/// Wait before asking an overloaded peer; Core's `OVERLOADED_PEER_TX_DELAY`.
const OVERLOADED_DELAY: Duration = Duration::from_secs(2);
/// Time to answer before another is asked; Core's `GETDATA_TX_INTERVAL`.
const ANSWER_TIME: Duration = Duration::from_secs(60);
/// Identifiers of refused transactions that are remembered; Core's figure.
const REJECTS: usize = 120_000;
/// Identifiers of confirmed transactions that are remembered, two a transaction: several blocks' worth; Core's figure.
const CONFIRMED: usize = 48_000;

/// What a peer is, as far as asking goes.
#[derive(Clone, Copy, Debug)]
pub struct Announcer {
    /// It is asked before others (we chose it, or the user trusts it).
    pub preferred: bool,
    /// Its announcements are not limited.
    pub unlimited: bool,
    /// Transactions go by wtxid.
    pub wtxid_relay: bool,
}

/// What to do with a transaction that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// Nothing: it is here, or was refused, or is confirmed.
    Drop,
    /// Judge it.
    Judge,
    /// Judge it together with this child: alone it paid too little.
    WithChild(Transaction),
}

/// What follows from a refusal.
#[derive(Clone, Debug, Default)]
pub struct Rejection {
    /// A block may have it all the same.
    pub is_extra: bool,
    /// It is an orphan now; these are its parents, which its sender knows.
    pub parents: Vec<Txid>,
    /// Judge it together with this child.
    pub child: Option<Transaction>,
}

/// Everything about getting transactions.
pub struct Download {
    requests: Requests,
    orphans: Orphans,
    rejects: Rolling,
    /// Those that pay too little alone, and packages that were refused.
    reconsiderable: Rolling,
    confirmed: Rolling,
    peers: BTreeMap<PeerId, Announcer>,
    random: Random,
}

impl Download {
    /// Nothing asked for, nothing remembered.
    pub fn new(random: &mut Random) -> Download {
        let mut random = random.fork(339);
        let mut key = || [random.next_u64(), random.next_u64()];
        Download {
            requests: Requests::new(key()),
            orphans: Orphans::default(),
            rejects: Rolling::new(REJECTS, key()),
            reconsiderable: Rolling::new(REJECTS, key()),
            confirmed: Rolling::new(CONFIRMED, key()),
            peers: BTreeMap::new(),
            random,
        }
    }

    /// The requests.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// The orphans.
    pub fn orphans(&self) -> &Orphans {
        &self.orphans
    }

    /// A handshake is done.
    pub fn join(&mut self, peer: PeerId, announcer: Announcer) {
        self.peers.insert(peer, announcer);
    }

    /// A peer has left.
    pub fn leave(&mut self, peer: PeerId) {
        self.orphans.erase_peer(peer.0);
        self.requests.leave(peer);
        self.peers.remove(&peer);
    }

    /// There is a new tip: what was refused may be valid now (Core: `ActiveTipChange`).
    pub fn tip_changed(&mut self) {
        self.rejects.clear();
        self.reconsiderable.clear();
    }

    /// A block joined the chain; `ids` are those of its transactions, in order (Core: `BlockConnected`).
    pub fn block_connected(&mut self, block: &Block, ids: &[(Txid, Wtxid)]) {
        let has_orphans = !self.orphans.is_empty();
        if has_orphans {
            let before = self.orphans.len();
            self.orphans.erase_for_block(block);
            let erased = before - self.orphans.len();
            if erased > 0 {
                log::debug!(
                    target: "txpackages",
                    "Erased {erased} orphan transaction(s) included or conflicted by block"
                );
            }
        }
        for (tx, (txid, wtxid)) in block.txs().zip(ids) {
            if has_orphans && let Ok(transaction) = Transaction::parse(tx.raw()) {
                self.orphans.reconsider_children(&transaction, &mut self.random);
            }
            self.confirmed.insert(&txid.0);
            if wtxid.0 != txid.0 {
                self.confirmed.insert(&wtxid.0);
            }
            self.requests.forget(&txid.0);
            self.requests.forget(&wtxid.0);
        }
    }

    /// A block left the chain: its transactions may be wanted again (Core: `BlockDisconnected`).
    pub fn block_disconnected(&mut self) {
        self.confirmed.clear();
    }

    /// True where it need not be asked for (Core: `AlreadyHaveTx`). Orphans are looked for by wtxid alone, since anybody can
    /// make another witness to a txid; where there is no witness both identifiers are one.
    fn has(&self, name: &TxName, pool: &dyn Pool, with_reconsiderable: bool) -> bool {
        let hash = name.hash();
        self.orphans.has(&Wtxid(hash))
            || (with_reconsiderable && self.reconsiderable.contains(&hash))
            || self.confirmed.contains(&hash)
            || self.rejects.contains(&hash)
            || pool.has(name)
    }

    /// A peer has announced a transaction (Core: `AddTxAnnouncement`).
    pub fn announced(&mut self, peer: PeerId, name: TxName, pool: &dyn Pool, now: Duration) {
        if let TxName::Wtxid(wtxid) = name
            && let Some(orphan) = self.orphans.get(&wtxid).cloned()
        {
            let parents = self.missing_parents(&orphan, pool);
            if !parents.is_empty() && self.ask_for_parents(&parents, &wtxid, peer, now) {
                self.orphans.add_announcer(&wtxid, peer.0);
            }
            return;
        }
        let Some(announcer) = self.peers.get(&peer).copied() else { return };
        if self.has(&name, pool, true) {
            return;
        }
        if !announcer.unlimited && self.requests.count(peer) >= ANNOUNCEMENTS_MAX {
            return;
        }
        let by_txid = matches!(name, TxName::Txid(_));
        let delay = self.delay(peer, &announcer, by_txid);
        self.requests.announced(peer, name, announcer.preferred, now + delay);
    }

    fn delay(&self, peer: PeerId, announcer: &Announcer, by_txid: bool) -> Duration {
        let others_know_wtxids = self.peers.values().any(|other| other.wtxid_relay);
        let is_overloaded = !announcer.unlimited && self.requests.in_flight(peer) >= IN_FLIGHT_MAX;
        let reasons = [
            (!announcer.preferred, NOT_PREFERRED_DELAY),
            (by_txid && others_know_wtxids, TXID_DELAY),
            (is_overloaded, OVERLOADED_DELAY),
        ];
        reasons.iter().filter(|(is_so, _)| *is_so).map(|(_, delay)| *delay).sum()
    }

    /// Parents of an orphan that are neither here nor known to be useless.
    fn missing_parents(&self, orphan: &Transaction, pool: &dyn Pool) -> Vec<Txid> {
        let mut parents = parents_of(orphan);
        parents.retain(|txid| !self.has(&TxName::Txid(*txid), pool, false));
        parents
    }

    /// An orphan's parents are asked of a peer that told us of the orphan, as if it had announced them; false where it may
    /// announce no more, or stands for the orphan already (Core: `MaybeAddOrphanResolutionCandidate`).
    fn ask_for_parents(&mut self, parents: &[Txid], orphan: &Wtxid, peer: PeerId, now: Duration) -> bool {
        let Some(announcer) = self.peers.get(&peer).copied() else { return false };
        if self.orphans.has_from(orphan, peer.0) {
            return false;
        }
        if !announcer.unlimited && self.requests.count(peer) + parents.len() > ANNOUNCEMENTS_MAX {
            return false;
        }
        let delay = self.delay(peer, &announcer, true);
        for parent in parents {
            self.requests.announced(peer, TxName::Txid(*parent), announcer.preferred, now + delay);
        }
        true
    }

    /// What to ask of a peer now; `is_busy` says what is being judged, and has to wait (Core: `GetRequestsToSend`).
    pub fn ask(
        &mut self,
        peer: PeerId,
        pool: &dyn Pool,
        is_busy: impl Fn(&TxName) -> bool,
        now: Duration,
    ) -> Vec<TxName> {
        let mut names = self.requests.requestable(peer, now);
        names.retain(|name| {
            if is_busy(name) {
                return false;
            }
            let hash = name.hash();
            let is_new = !self.has(name, pool, false);
            match is_new {
                true => self.requests.requested(peer, &hash, now + ANSWER_TIME),
                false => self.requests.forget(&hash),
            }
            is_new
        });
        names
    }

    /// A peer does not have it (Core: `ReceivedNotFound`).
    pub fn not_found(&mut self, peer: PeerId, name: &TxName) {
        self.requests.answered(peer, &name.hash());
    }

    /// A transaction came (Core: `ReceivedTx`).
    pub fn received(&mut self, peer: PeerId, transaction: &Transaction, pool: &dyn Pool) -> Route {
        let (txid, wtxid) = (transaction.tx().txid(), transaction.tx().wtxid());
        self.requests.answered(peer, &txid.0);
        self.requests.answered(peer, &wtxid.0);
        if self.has(&TxName::Wtxid(wtxid), pool, false) {
            return Route::Drop;
        }
        if self.reconsiderable.contains(&wtxid.0) {
            return self.child_of(transaction, peer).map_or(Route::Drop, Route::WithChild);
        }
        Route::Judge
    }

    /// A child of the same peer that may pay for a parent (Core: `Find1P1CPackage`).
    fn child_of(&self, parent: &Transaction, peer: PeerId) -> Option<Transaction> {
        let wtxid = parent.tx().wtxid();
        self.orphans.children_from(parent, peer.0).into_iter().find(|child| {
            let (txid, child_wtxid) = (child.tx().txid(), child.tx().wtxid());
            !self.reconsiderable.contains(&package_hash(&[wtxid, child_wtxid])) && !self.rejects.contains(&txid.0)
        })
    }

    /// The mempool has taken it (Core: `MempoolAcceptedTx`).
    pub fn accepted(&mut self, transaction: &Transaction) {
        let (txid, wtxid) = (transaction.tx().txid(), transaction.tx().wtxid());
        self.requests.forget(&txid.0);
        self.requests.forget(&wtxid.0);
        self.orphans.reconsider_children(transaction, &mut self.random);
        self.orphans.erase(&wtxid);
    }

    /// The mempool has refused it, `is_first` where it was judged alone and for the first time (Core: `MempoolRejectedTx`).
    pub fn rejected(
        &mut self,
        transaction: &Transaction,
        class: Class,
        peer: PeerId,
        is_first: bool,
        pool: &dyn Pool,
        now: Duration,
    ) -> Rejection {
        let (txid, wtxid) = (transaction.tx().txid(), transaction.tx().wtxid());
        let mut rejection = Rejection { is_extra: is_first, ..Rejection::default() };
        match class {
            Class::MissingInputs if is_first && !self.rejects.contains(&wtxid.0) => {
                return self.keep_orphan(transaction, peer, pool, now);
            }
            Class::MissingInputs => return rejection,
            // Whoever takes the witness away must not spoil the transaction for others.
            Class::WitnessStripped => rejection.is_extra = false,
            Class::Reconsiderable => {
                self.reconsiderable.insert(&wtxid.0);
                rejection.child = if is_first { self.child_of(transaction, peer) } else { None };
                self.requests.forget(&wtxid.0);
            }
            _ => {
                self.rejects.insert(&wtxid.0);
                self.requests.forget(&wtxid.0);
                // What it spends is not standard whatever its witnesses: its children need not ask for it by txid.
                if class == Class::InputsNotStandard && txid.0 != wtxid.0 {
                    self.rejects.insert(&txid.0);
                    self.requests.forget(&txid.0);
                }
            }
        }
        self.orphans.erase(&wtxid);
        rejection
    }

    /// Its parents are missing: they are asked for, unless they were refused.
    fn keep_orphan(&mut self, orphan: &Transaction, peer: PeerId, pool: &dyn Pool, now: Duration) -> Rejection {
        let (txid, wtxid) = (orphan.tx().txid(), orphan.tx().wtxid());
        let parents = parents_of(orphan);
        // One parent may pay too little: with the orphan it may pass.
        let poor = |txid: &&Txid| self.reconsiderable.contains(&txid.0) && !pool.has(&TxName::Txid(**txid));
        let is_lost =
            parents.iter().any(|txid| self.rejects.contains(&txid.0)) || parents.iter().filter(poor).count() > 1;
        if is_lost {
            log::debug!(target: "mempool", "not keeping orphan with rejected parents {txid} (wtxid={wtxid})");
            self.rejects.insert(&txid.0);
            self.rejects.insert(&wtxid.0);
            self.requests.forget(&txid.0);
            self.requests.forget(&wtxid.0);
            return Rejection { is_extra: true, ..Rejection::default() };
        }
        let is_extra = !self.orphans.has(&wtxid);
        let missing = self.missing_parents(orphan, pool);
        let mut announcers = vec![peer];
        announcers.extend(self.requests.candidates(&txid.0));
        if txid.0 != wtxid.0 {
            announcers.extend(self.requests.candidates(&wtxid.0));
        }
        for announcer in announcers {
            if self.ask_for_parents(&missing, &wtxid, announcer, now) {
                self.orphans.add(orphan, announcer.0);
            }
        }
        self.requests.forget(&txid.0);
        self.requests.forget(&wtxid.0);
        Rejection { is_extra, parents: missing, child: None }
    }

    /// The mempool has refused parent and child together (Core: `MempoolRejectedPackage`).
    pub fn package_rejected(&mut self, parent: &Transaction, child: &Transaction) {
        self.reconsiderable.insert(&package_hash(&[parent.tx().wtxid(), child.tx().wtxid()]));
    }

    /// True where a peer's orphans are to be judged again.
    pub fn has_orphan_to_judge(&self, peer: PeerId) -> bool {
        self.orphans.has_to_reconsider(peer.0)
    }

    /// The next of a peer's orphans to be judged again.
    pub fn orphan_to_judge(&mut self, peer: PeerId) -> Option<Transaction> {
        self.orphans.next_to_reconsider(peer.0)
    }
}

/// Transactions it spends from, once each.
fn parents_of(transaction: &Transaction) -> Vec<Txid> {
    let mut parents: Vec<Txid> = transaction.tx().inputs().map(|input| input.outpoint().txid).collect();
    parents.sort_unstable();
    parents.dedup();
    parents
}
