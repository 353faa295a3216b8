//! Headers: asking, taking, and chains that must prove their work first.
//!
//! In:     headers and block announcements of peers, the time.
//! Out:    getheaders; headers in the chain; what each peer has.
//! Fails:  a peer that sends headers that break a rule loses its connection.
//! Source: Bitcoin Core, `ProcessHeadersMessage`, `TryLowWorkHeadersSync`, `HandleUnconnectingHeaders`,
//!         `MaybeSendGetHeaders`, `SendMessages` (`fSyncStarted`), `ConsiderEviction`.

use std::time::Duration;

use consensus::header::{check_proof_of_work, work_of};
use primitives::{BlockHash, Header};

use super::talk::Asking;
use super::{Chain, HeadersRefusal, Hub, Place};
use crate::peer::{ConnectionKind, End, PeerId, Permissions};
use crate::sync::{LowWork, LowWorkError, Start};
use crate::wire::limits::HEADERS_MAX;
use crate::wire::{Inventory, LocatorRequest, Message, Services};

/// Blocks below its best that a pruned peer is asked for; Core's `NODE_NETWORK_LIMITED_MIN_BLOCKS`, two fewer.
const LIMITED_BLOCKS: u32 = 286;
/// Blocks that a peer is asked for that promises none, where it tells of them (Core: `HeadersDirectFetchBlocks`).
const PROMISED_NONE_BLOCKS: u32 = 16;
/// How long headers may be on their way; Core's `HEADERS_RESPONSE_TIME` for one answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(120);
/// Our best header is recent enough to ask every peer, and not only one, for what follows it (Core: 24 hours).
const RECENT_S: u64 = 24 * 60 * 60;
/// How long a peer we chose may have less work than our tip; Core's `CHAIN_SYNC_TIMEOUT`.
const BEHIND_TIME_MAX: Duration = Duration::from_secs(20 * 60);

impl<C: Chain> Hub<C> {
    /// A handshake is done.
    pub(super) fn begin(&mut self, id: PeerId) {
        self.window.join(id.0);
        if let Some(talk) = self.talks.get_mut(&id) {
            talk.peer.ping_if_due(self.now, &mut self.random);
        }
        self.begin_txs(id);
        self.trickle(id);
        self.check_headers_time(id);
        let others = self.talks.iter().any(|(other, talk)| *other != id && talk.asking.since().is_some());
        if self.promises_blocks(id) && (!others || self.is_recent()) {
            self.begin_headers(id);
        }
    }

    pub(super) fn services_of(&self, id: PeerId) -> Services {
        let version = self.features(id).and_then(|features| features.version.as_ref());
        version.map_or(Services::NONE, |version| version.services)
    }

    /// True for a peer that says it has blocks, all of them or the last (Core: `CanServeBlocks`).
    fn promises_blocks(&self, id: PeerId) -> bool {
        let services = self.services_of(id);
        let kind = self.talks.get(&id).map(|talk| talk.peer.setup().kind);
        if kind == Some(ConnectionKind::AddressFetch) {
            return false; // it is asked for addresses and left
        }
        services.has(Services::NETWORK) || services.has(Services::NETWORK_LIMITED)
    }

    fn is_recent(&self) -> bool {
        u64::from(self.chain.best_header().header.time_s) + RECENT_S > self.now.unix_s
    }

    /// Asks for what follows our best header; from its parent, so that an answer shows the peer's view of it too.
    fn begin_headers(&mut self, id: PeerId) {
        let best = self.chain.best_header();
        self.ask_for_headers_from(id, if best.height == 0 { best.hash } else { best.header.previous });
        if let Some(talk) = self.talks.get_mut(&id) {
            talk.was_asked = true;
        }
    }

    /// Asks for what lies between our best header and what the peer tells of, unless an answer is on its way.
    pub(super) fn ask_for_headers(&mut self, id: PeerId) {
        if self.talks.get(&id).is_some_and(|talk| talk.asking.since().is_none()) {
            self.ask_for_headers_from(id, self.chain.best_header().hash);
        }
    }

    fn ask_for_headers_from(&mut self, id: PeerId, from: BlockHash) {
        self.send_getheaders(id, self.chain.locator(&from));
        if let Some(talk) = self.talks.get_mut(&id) {
            talk.asking = Asking::Headers(self.now);
        }
    }

    fn send_getheaders(&mut self, id: PeerId, locator: Vec<BlockHash>) {
        let protocol = crate::peer::PROTOCOL as u32;
        self.send(id, &Message::GetHeaders(LocatorRequest { protocol, locator, stop: BlockHash([0; 32]) }));
    }

    /// Blocks are announced by their hashes: their headers are asked for.
    pub(super) fn take_inventory(&mut self, id: PeerId, inventory: &[Inventory]) {
        let unknown = |entry: &&Inventory| entry.kind.is_block() && self.chain.find(&BlockHash(entry.hash)).is_none();
        if inventory.iter().rev().any(|entry| unknown(&entry)) {
            return self.take_unknown_hash(id);
        }
        if let Some(last) = inventory.iter().rev().find(|entry| entry.kind.is_block()) {
            self.note_known(id, &BlockHash(last.hash));
        }
    }

    /// A block is announced whose header we lack. Who promises no blocks is asked for headers once (Core:
    /// `m_inv_triggered_getheaders_before_sync`).
    fn take_unknown_hash(&mut self, id: PeerId) {
        let may_ask = self.promises_blocks(id);
        let Some(talk) = self.talks.get_mut(&id) else { return };
        if may_ask || !talk.was_asked {
            talk.was_asked = true;
            self.ask_for_headers(id);
        }
    }

    /// Headers came, asked for or announced.
    pub(super) fn take_headers(&mut self, id: PeerId, headers: Vec<Header>) {
        let full = headers.len() == HEADERS_MAX;
        let Some(talk) = self.talks.get_mut(&id) else { return };
        if let Asking::LowWork(exchange, _) = &mut talk.asking {
            let follows = headers.first().is_none_or(|first| first.previous == exchange.last());
            if follows {
                let result = exchange.take(&headers, full);
                return self.continue_low_work(id, result.map(|taken| (taken.headers, taken.more)));
            }
        }
        let Some((first, last)) = headers.first().zip(headers.last()) else {
            talk.asking = Asking::Nothing;
            return;
        };
        if headers.windows(2).any(|pair| pair[1].previous != pair[0].hash()) {
            return self.misbehaved(id, "non-continuous headers sequence");
        }
        if headers.iter().any(|header| check_proof_of_work(&header.hash(), header.bits, &self.params).is_err()) {
            log::debug!(target: "validation", "a header of peer={}: high-hash, proof of work failed", id.0);
            return self.misbehaved(id, "header with invalid proof of work");
        }
        let last = last.hash();
        match self.chain.find(&first.previous) {
            // They announce what does not follow anything we know: what lies between is asked for.
            None => self.ask_for_headers(id),
            Some(parent) => self.take_connected(id, &headers, &parent, last, full),
        }
    }

    /// Takes headers whose parent we know.
    fn take_connected(&mut self, id: PeerId, headers: &[Header], parent: &Place, last: BlockHash, full: bool) {
        let work = headers.iter().fold(parent.work, |work, header| work + work_of(header.bits));
        let is_known = self.chain.find(&last).is_some();
        // Who is trusted need not show work first, which saves both sides half of the headers (Core: `NoBan`).
        let is_trusted = self.has_permission(id, Permissions::NO_BAN);
        if !is_known && !is_trusted && work < self.chain.enough_work() {
            match full {
                true => self.begin_low_work(id, headers, parent),
                // A short chain without work is not worth a thing, and may be an honest peer's that is behind.
                false => {
                    let height = parent.height as usize + headers.len();
                    log::debug!(target: "net", "Ignoring low-work chain (height={height}) from peer={}", id.0);
                    self.note_answered(id)
                }
            }
            return;
        }
        if !is_known && !self.keep(id, headers) {
            return;
        }
        self.note_known(id, &last);
        // Told anew, a block is worth asking for again, though the peer's last copy of it was damaged.
        self.window.tells(id.0, self.chain.common_height(&last));
        if !full {
            if let Some(talk) = self.talks.get_mut(&id) {
                talk.branch = Some(last);
            }
            self.fetch_branch(id);
        }
        match full {
            true => {
                let locator = self.chain.locator(&last);
                self.send_getheaders(id, locator);
                if let Some(talk) = self.talks.get_mut(&id) {
                    talk.asking = Asking::Headers(self.now);
                }
            }
            false => self.note_answered(id),
        }
    }

    /// Hands headers to the chain; false where the peer was at fault.
    fn keep(&mut self, id: PeerId, headers: &[Header]) -> bool {
        match self.chain.take_headers(headers) {
            Ok(()) => return true,
            // Its clock may be right and ours wrong.
            Err(HeadersRefusal::Invalid(word)) if word == consensus::HeaderError::TIME_TOO_NEW => {
                self.note_answered(id);
            }
            Err(HeadersRefusal::Invalid(_) | HeadersRefusal::InvalidParent) => {
                self.misbehaved(id, "invalid header received");
            }
            // Others may follow a chain that they think valid; those we chose should not.
            Err(HeadersRefusal::KnownInvalid) => match self.talks.get(&id) {
                Some(talk) if talk.peer.setup().kind.is_outbound() => self.misbehaved(id, "invalid header received"),
                _ => self.note_answered(id),
            },
            Err(HeadersRefusal::UnknownParent) => self.note_answered(id),
        }
        false
    }

    fn note_answered(&mut self, id: PeerId) {
        let Some(talk) = self.talks.get_mut(&id) else { return };
        talk.asking = Asking::Nothing;
        // The one peer that was asked first has told all it has: the others may have more, and have the same blocks. Core
        // waits until the best header is a day old at most, and downloads an older chain from one peer.
        let fresh = |talk: &super::Talk| talk.peer.is_ready() && talk.known.is_none() && !talk.was_asked;
        let others = self.talks.iter().filter(|(other, talk)| **other != id && fresh(talk));
        let others: Vec<PeerId> = others.map(|(other, _)| *other).collect();
        for other in others {
            if self.promises_blocks(other) {
                self.begin_headers(other);
            }
        }
    }

    /// The chain the headers belong to has not shown enough work yet.
    fn begin_low_work(&mut self, id: PeerId, headers: &[Header], parent: &Place) {
        let start = Start {
            height: parent.height,
            header: parent.header,
            work: parent.work,
            median_time_past_s: parent.median_time_past_s,
        };
        let enough = self.chain.enough_work();
        let mut exchange = LowWork::new(&start, enough, self.now.unix_s, &self.params, &mut self.random);
        let result = exchange.take(headers, true).map(|taken| (taken.headers, taken.more));
        if let Some(talk) = self.talks.get_mut(&id) {
            talk.asking = Asking::LowWork(Box::new(exchange), self.now);
        }
        self.continue_low_work(id, result);
    }

    fn continue_low_work(&mut self, id: PeerId, result: Result<(Vec<Header>, bool), LowWorkError>) {
        let (headers, more) = match result {
            Ok(taken) => taken,
            Err(error) => {
                if matches!(error, LowWorkError::NoWork(_)) {
                    self.misbehaved(id, "header with invalid proof of work");
                }
                // Anything else may be an honest peer's reorganisation, or a chain we have no use for.
                return self.note_answered(id);
            }
        };
        if !headers.is_empty() && !self.keep(id, &headers) {
            return;
        }
        if let Some(last) = headers.last() {
            self.note_known(id, &last.hash());
        }
        let Some(talk) = self.talks.get_mut(&id) else { return };
        match (&mut talk.asking, more) {
            (Asking::LowWork(exchange, since), true) => {
                *since = self.now;
                let mut locator = vec![exchange.last()];
                locator.extend(self.chain.locator(&self.chain.best_header().hash));
                locator.truncate(crate::wire::limits::LOCATOR_MAX);
                self.send_getheaders(id, locator);
            }
            // The work is proved: what the peer has beyond is asked for in the ordinary way.
            _ => self.begin_headers(id),
        }
    }

    /// The peer has shown that it has this block and all below.
    pub(super) fn note_known(&mut self, id: PeerId, hash: &BlockHash) {
        let Some(place) = self.chain.find(hash) else { return };
        let Some(talk) = self.talks.get_mut(&id) else { return };
        let before = talk.known.and_then(|known| self.chain.find(&known));
        if before.is_none_or(|before| before.is_invalid || before.work <= place.work) {
            talk.known = Some(*hash);
            self.note_supply(id);
        }
    }

    /// Which of the best headers' blocks the peer can be asked for.
    pub(super) fn note_supply(&mut self, id: PeerId) {
        let Some(known) = self.talks.get(&id).and_then(|talk| self.chain.find(&talk.known?)) else { return };
        let services = self.services_of(id);
        self.window.has(id.0, self.chain.common_height(&known.hash));
        let last = |count: u32| (known.height + 1).saturating_sub(count);
        if !services.has(Services::WITNESS) {
            // Its blocks would lack what their headers commit to (Core: `CanServeWitnesses`).
            self.window.serves(id.0, u32::MAX, 0);
        } else if services.has(Services::NETWORK) {
            self.window.serves(id.0, 0, usize::MAX);
        } else if services.has(Services::NETWORK_LIMITED) {
            self.window.serves(id.0, last(LIMITED_BLOCKS), usize::MAX);
        } else if !self.chain.is_initial_download() {
            self.window.serves(id.0, last(PROMISED_NONE_BLOCKS), PROMISED_NONE_BLOCKS as usize);
        } else {
            self.window.serves(id.0, u32::MAX, 0);
        }
    }

    /// Ends connections that let us wait for headers, and those we chose that stay behind.
    pub(super) fn check_headers_time(&mut self, id: PeerId) {
        let Some(talk) = self.talks.get(&id) else { return };
        let is_late = talk.asking.since().is_some_and(|since| self.now.since(&since) > ANSWER_TIME_MAX);
        let is_chosen = talk.peer.setup().kind.expects_services();
        if is_late {
            // Who connected to us owes us none; from who we chose we want some while we have none. Later it is enough that
            // its chain does not stay behind.
            let is_needed = talk.peer.setup().kind.is_outbound() && self.chain.is_initial_download();
            match is_needed && !self.has_permission(id, Permissions::NO_BAN) {
                true => return self.end(id, End::ClosedByUs("headers were asked for and did not come")),
                false => self.note_answered(id),
            }
        }
        if !is_chosen || !self.talks[&id].peer.is_ready() {
            return;
        }
        let tip = self.chain.tip();
        let known = self.talks[&id].known.and_then(|known| self.chain.find(&known));
        let is_behind = known.is_none_or(|known| known.work < tip.work);
        let talk = self.talks.get_mut(&id).expect("looked up above");
        match talk.behind {
            _ if !is_behind => talk.behind = None,
            None => talk.behind = Some((self.now, false)),
            Some((since, false)) if self.now.since(&since) > BEHIND_TIME_MAX => {
                talk.behind = Some((self.now, true));
                self.begin_headers(id);
            }
            Some((since, true)) if self.now.since(&since) > ANSWER_TIME_MAX => {
                self.end(id, End::ClosedByUs("its chain has less work than ours"));
            }
            Some(_) => {}
        }
    }
}
