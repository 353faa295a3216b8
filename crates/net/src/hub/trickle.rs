//! Telling peers of transactions: in little bursts, at times nobody can foresee, the best-paying first.
//!
//! In:     what came into the mempool, the time, chance; fee filters and questions of peers.
//! Out:    inv, feefilter, tx.
//! Fails:  a peer that asks for the whole mempool without permission loses its connection.
//! Source: Bitcoin Core, `SendMessages`, `ProcessInvBacklog`, `ReattemptInitialBroadcast`, `FindTxForGetData`,
//!         `MaybeSendFeefilter`; BIP 35, 133, 339.

use std::time::Duration;

use chain::mempool::Event;
use chain::policy::FeeRate;
use primitives::{Transaction, Wtxid};

use super::{Chain, Hub};
use crate::entropy;
use crate::hosts::HostKind;
use crate::moment::Moment;
use crate::peer::{ConnectionKind, End, PeerId, Permissions};
use crate::relay::{FeeFilter, Offer, Rolling, TxName};
use crate::wire::limits::INVENTORY_MAX;
use crate::wire::{Inventory, InventoryKind, Message};

/// Mean time between two bursts to peers that connected to us; Core's `INBOUND_INVENTORY_BROADCAST_INTERVAL`.
const INBOUND_INTERVAL: Duration = Duration::from_secs(5);
/// Mean time between two bursts to a peer we chose; Core's `OUTBOUND_INVENTORY_BROADCAST_INTERVAL`.
const OUTBOUND_INTERVAL: Duration = Duration::from_secs(2);
/// Identifiers that a peer is known to know; Core's figure.
const KNOWN_TXS: usize = 50_000;
/// What nobody has asked for is told of again after this time ...
const REBROADCAST_MIN: Duration = Duration::from_secs(10 * 60);
/// ... and up to so much more.
const REBROADCAST_SPREAD: Duration = Duration::from_secs(5 * 60);
/// First version that knows fee filters; Core's `FEEFILTER_VERSION`.
const PROTOCOL_FEE_FILTER: i32 = 70_013;

/// What is remembered of a peer for telling it of transactions.
pub(super) struct TxTalk {
    /// What it has, or was told of.
    pub known: Rolling,
    /// What it is to be told of.
    pub to_tell: Vec<Wtxid>,
    /// It may ask for what came before this change of the mempool: the rest it was not told of.
    pub told_sequence: u64,
    /// When it is told next; none before the first time.
    pub next: Option<Moment>,
    /// It has asked for everything.
    pub wants_all: bool,
    pub fee_filter: FeeFilter,
}

impl TxTalk {
    pub fn new(key: [u64; 2]) -> TxTalk {
        TxTalk {
            known: Rolling::new(KNOWN_TXS, key),
            to_tell: Vec::new(),
            told_sequence: 1,
            next: None,
            wants_all: false,
            fee_filter: FeeFilter::default(),
        }
    }
}

impl<C: Chain> Hub<C> {
    /// The mempool has changed: what is new in it is told of, wherever it came from.
    pub fn pool_changed(&mut self, event: &Event, now: Moment) {
        self.now = now;
        if let Event::Added { entry, announce: true, .. } | Event::Offered { entry } = event {
            self.txs.backlog.push(entry.wtxid);
        }
    }

    /// What has changed is everything for now: it is dealt out among those who are connected, before others come.
    pub fn pool_settled(&mut self, now: Moment) {
        self.now = now;
        self.deal_out();
    }

    /// Deals out what is to be told among the peers.
    pub(super) fn deal_out(&mut self) {
        let again = self.txs.rebroadcast.get_or_insert(self.now.after(REBROADCAST_MIN));
        if self.now >= *again {
            let spread = Duration::from_millis(self.random.below(REBROADCAST_SPREAD.as_millis() as u64));
            *again = self.now.after(REBROADCAST_MIN + spread);
            self.txs.pool.unbroadcast().into_iter().for_each(|wtxid| self.txs.backlog.push(wtxid));
        }
        if self.txs.backlog.is_empty() {
            return;
        }
        let mut is_there = [false, false];
        // Who has not been told anything yet is left out: what comes during a handshake would tell a spy when it came.
        let listeners = || self.talks.values().filter(|talk| talk.peer.relays_txs() && talk.txs.next.is_some());
        listeners().for_each(|talk| is_there[usize::from(talk.peer.setup().kind.is_outbound())] = true);
        let told = self.txs.backlog.take(&*self.txs.pool, is_there, self.now);
        for talk in self.talks.values_mut().filter(|talk| talk.peer.relays_txs() && talk.txs.next.is_some()) {
            talk.txs.to_tell.extend(&told[usize::from(talk.peer.setup().kind.is_outbound())]);
        }
    }

    /// Tells a peer what it is to be told, if it is time.
    pub(super) fn trickle(&mut self, id: PeerId) {
        let Some(talk) = self.talks.get(&id).filter(|talk| talk.peer.is_ready() && talk.peer.relays_txs()) else {
            return;
        };
        let is_due = talk.txs.next.is_none_or(|next| next.monotonic < self.now.monotonic);
        if is_due {
            let next = match talk.peer.setup().kind.is_outbound() {
                true => self.now.after(entropy::exponential(&mut self.random, OUTBOUND_INTERVAL)),
                false => self.inbound_time(id),
            };
            self.talks.get_mut(&id).expect("looked up above").txs.next = Some(next);
        }
        if !is_due && !self.has_permission(id, Permissions::NO_BAN) {
            return;
        }
        let talk = self.talks.get_mut(&id).expect("looked up above");
        let (wants_all, to_tell) = (talk.txs.wants_all, std::mem::take(&mut talk.txs.to_tell));
        if !wants_all && to_tell.is_empty() {
            return;
        }
        // Asked before the list is made: what comes in between may not be asked for.
        talk.txs.told_sequence = self.txs.pool.sequence();
        talk.txs.wants_all = false;
        let offers = if wants_all { self.txs.pool.all() } else { self.txs.pool.sorted(&to_tell) };
        self.tell_txs(id, &offers, wants_all);
    }

    /// When peers that came through the same network as this one are told next.
    fn inbound_time(&mut self, id: PeerId) -> Moment {
        let network = HostKind::of(&self.talks[&id].peer.setup().remote.host) as u8;
        let time = self.txs.inbound_times.entry(network).or_default();
        if time.monotonic < self.now.monotonic {
            *time = self.now.after(entropy::exponential(&mut self.random, INBOUND_INTERVAL));
        }
        *time
    }

    fn tell_txs(&mut self, id: PeerId, offers: &[Offer], again: bool) {
        let Some(talk) = self.talks.get_mut(&id) else { return };
        let features = talk.peer.features();
        let least = FeeRate::per_kvb(features.fee_filter_sat_per_kvb);
        let by_wtxid = features.wtxid_relay;
        let mut entries = Vec::new();
        for offer in offers.iter().filter(|offer| offer.fee_sat >= least.fee_sat(offer.size_vb)) {
            let entry = match by_wtxid {
                true => Inventory { kind: InventoryKind::Wtx, hash: offer.wtxid.0 },
                false => Inventory { kind: InventoryKind::Tx, hash: offer.txid.0 },
            };
            if again || !talk.txs.known.contains(&entry.hash) {
                talk.txs.known.insert(&entry.hash);
                entries.push(entry);
            }
        }
        for part in entries.chunks(INVENTORY_MAX) {
            self.send(id, &Message::Inv(part.to_vec()));
        }
    }

    /// A peer asks for the whole mempool.
    pub(super) fn take_mempool_question(&mut self, id: PeerId) {
        let refusal = if self.has_permission(id, Permissions::MEMPOOL) {
            None
        } else if !self.local.tells_mempool {
            Some("it asks for the mempool, which is not offered")
        } else {
            self.upload.is_spent(self.now).then_some("mempool request with bandwidth limit reached")
        };
        if let Some(why) = refusal {
            if !self.has_permission(id, Permissions::NO_BAN) {
                self.end(id, End::ClosedByUs(why));
            }
            return;
        }
        if let Some(talk) = self.talks.get_mut(&id).filter(|talk| talk.peer.relays_txs()) {
            talk.txs.wants_all = true;
        }
    }

    /// Tells a peer below which feerate nothing is wanted.
    pub(super) fn send_fee_filter(&mut self, id: PeerId) {
        let Some(talk) = self.talks.get_mut(&id).filter(|talk| talk.peer.is_ready()) else { return };
        let (setup, features) = (talk.peer.setup(), talk.peer.features());
        let is_left_out = setup.kind == ConnectionKind::BlocksOnly || setup.permissions.has(Permissions::FORCE_RELAY);
        if !self.local.relays_txs || features.protocol < PROTOCOL_FEE_FILTER || is_left_out {
            return;
        }
        let pool = &self.txs.pool;
        let minimum = (!self.chain.is_initial_download()).then(|| pool.minimum_sat_per_kvb(self.now.unix_s));
        let (relayed, _) = pool.policy_sat_per_kvb();
        let filter = &mut talk.txs.fee_filter;
        if let Some(feerate) = filter.due(minimum, relayed, &self.txs.steps, self.now, &mut self.random) {
            self.send(id, &Message::FeeFilter(feerate));
        }
    }

    /// Gives a transaction to a peer that asks for it; false where it may not have it, or it is not here.
    pub(super) fn serve_tx(&mut self, id: PeerId, wanted: Inventory) -> bool {
        let Some(name) = TxName::of(&wanted) else { return true };
        // Who wants no announcements has nothing to ask for, and is not answered.
        let Some(talk) = self.talks.get(&id).filter(|talk| talk.peer.relays_txs()) else { return true };
        let found = self.txs.pool.get(&name, talk.txs.told_sequence);
        let Some(tx) = found.or_else(|| self.newest.as_mut()?.tx(&name)) else { return false };
        let txid = tx.tx().txid();
        let tx = if wanted.kind == InventoryKind::Tx { stripped(tx) } else { tx };
        self.send(id, &Message::Tx(tx));
        self.txs.pool.asked_for(&txid);
        true
    }
}

/// The transaction without its witnesses.
fn stripped(transaction: Transaction) -> Transaction {
    if !transaction.tx().has_witness() {
        return transaction;
    }
    let mut bytes = Vec::with_capacity(transaction.tx().stripped_length());
    transaction.tx().write_stripped(&mut bytes);
    Transaction::parse(bytes).unwrap_or(transaction)
}
