//! All peers together: what each says goes to the chain or to the mempool, and what they lack is asked of whoever has it.
//!
//! In:     connections, their bytes, the time; what the chain and the mempool decided.
//! Out:    bytes for each connection; connections that are over, and why.
//! Fails:  never as a whole; a peer that breaks a rule loses its connection.
//! Source: Bitcoin Core, `net_processing.cpp`.
//!
//! No socket, no thread, no clock: a seed replays every run. Read `headers` first, then `blocks`, `announce`, `serve`; for
//! transactions `txs` and `trickle`.

mod announce;
mod blocks;
mod chain;
mod filters;
mod headers;
mod node;
mod order;
mod report;
mod serve;
#[cfg(test)]
pub(crate) mod stranger_tests;
mod talk;
mod trickle;
mod txs;
mod upload;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use consensus::block::CheckedBlock;
use primitives::{BlockHash, Params};
use stdx::random::Random;

pub use self::chain::{Chain, FilterHead, HeadersRefusal, Judgement, Place};
use crate::entropy::{self, Entropy};
use crate::moment::Moment;
use crate::peer::{End, Event, Features, Local, Peer, PeerId, Permissions, Setup};
use crate::relay::{Newest, Pool};
use crate::sync::{Limits, Waiting, Window};
use crate::wire::{Message, PeerAddress, Services};
pub use node::{NodeChain, judgement_of};
use talk::Talk;
use txs::Txs;

pub use report::{FetchRefusal, TalkReport};
pub use upload::UploadBudget;

/// Blocks whose senders are remembered until they are judged.
const JUDGED_BLOCKS_MAX: usize = 8_192;

/// Age of our tip up to which peers without old blocks will do; Core's `NODE_NETWORK_LIMITED_ALLOW_CONN_BLOCKS`, 144 of them.
const PRUNED_DEPTH_S_MAX: u64 = 144 * 600;
/// Time between two looks at what is due for a peer that sends much.
const LOOK_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// A connection that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Whose.
    pub id: PeerId,
    /// Why.
    pub end: End,
    /// Its address is to be discouraged.
    pub discourage: bool,
}

/// A node's side of all its conversations.
pub struct Hub<C> {
    chain: C,
    params: Arc<Params>,
    local: Arc<Local>,
    random: Random,
    talks: BTreeMap<PeerId, Talk>,
    window: Window,
    /// The best header the window follows.
    best: BlockHash,
    /// The tip peers have been told of.
    announced: BlockHash,
    /// The newest block, once it was asked for or told of.
    newest: Option<Newest>,
    /// The one that may take its place once it was looked at.
    coming: Option<Newest>,
    /// Blocks that peers were told of already, until that is on its way: then they go to the chain.
    held: Vec<(PeerId, CheckedBlock)>,
    /// Who sent the blocks that are being judged, oldest first, and whether they were put together here.
    judging: HashMap<BlockHash, (PeerId, bool)>,
    judging_order: VecDeque<BlockHash>,
    /// Blocks outside the window that are on their way, of branches and for users: of whom, and since when.
    fetching: HashMap<BlockHash, (PeerId, Moment)>,
    /// Those who announce compact blocks to us, the last chosen last.
    announcers: Vec<PeerId>,
    upload: UploadBudget,
    txs: Txs,
    addresses: Vec<(PeerId, Vec<PeerAddress>)>,
    address_questions: Vec<PeerId>,
    gone: Vec<Gone>,
    now: Moment,
}

impl<C: Chain> Hub<C> {
    /// A hub without peers.
    pub fn new(
        chain: C,
        params: Arc<Params>,
        local: Arc<Local>,
        limits: Limits,
        upload: UploadBudget,
        pool: Box<dyn Pool>,
        entropy: &mut dyn Entropy,
    ) -> Hub<C> {
        let (tip, best) = (chain.tip(), chain.best_header());
        let mut random = Random::new(entropy::number(entropy));
        Hub {
            window: Window::new(limits, tip.height),
            best: best.hash,
            announced: tip.hash,
            newest: None,
            coming: None,
            held: Vec::new(),
            txs: Txs::new(pool, &mut random),
            chain,
            params,
            local,
            random,
            talks: BTreeMap::new(),
            judging: HashMap::new(),
            judging_order: VecDeque::new(),
            fetching: HashMap::new(),
            announcers: Vec::new(),
            upload,
            addresses: Vec::new(),
            address_questions: Vec::new(),
            gone: Vec::new(),
            now: Moment::default(),
        }
    }

    /// The chain.
    pub fn chain(&self) -> &C {
        &self.chain
    }

    /// The chain, for whoever feeds it.
    pub fn chain_mut(&mut self) -> &mut C {
        &mut self.chain
    }

    /// What all connections have in common.
    pub fn local(&self) -> &Arc<Local> {
        &self.local
    }

    /// Peers by number.
    pub fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.talks.values().map(|talk| &talk.peer)
    }

    /// How much of the time validation waited for blocks on their way.
    pub fn waiting(&self) -> Waiting {
        self.window.waiting()
    }

    /// A connection was made.
    pub fn connect(&mut self, setup: Setup, now: Moment, entropy: &mut dyn Entropy) {
        let (height, services) = (self.chain.tip().height as i32, self.services_now());
        let depth_s = now.unix_s.saturating_sub(self.chain.tip().header.time_s.into());
        let takes_pruned = depth_s < PRUNED_DEPTH_S_MAX;
        if (self.local.start_height, self.local.services, self.local.takes_pruned) != (height, services, takes_pruned) {
            let local = Arc::make_mut(&mut self.local);
            (local.start_height, local.services, local.takes_pruned) = (height, services, takes_pruned);
        }
        log::debug!(target: "net", "Added connection peer={}", setup.id.0);
        if setup.encrypted && setup.kind.is_outbound() {
            log::debug!(target: "net", "start sending v2 handshake to peer={}", setup.id.0);
        }
        let peer = Peer::new(setup, self.local.clone(), now, entropy);
        let key = [self.random.next_u64(), self.random.next_u64()];
        let mut talk = Talk::new(peer, key);
        talk.offers_filters = services.has(Services::COMPACT_FILTERS);
        self.talks.insert(talk.peer.id(), talk);
    }

    /// Bytes came; none for a connection that is over.
    pub fn receive(&mut self, id: PeerId, bytes: &[u8], now: Moment, entropy: &mut dyn Entropy) {
        self.now = now;
        self.hand_over();
        // What is due goes out before what answers these bytes: an answer says that it did.
        if self.talks.get(&id).is_some_and(|talk| now.since(&talk.looked_at) >= LOOK_INTERVAL_MIN) {
            self.deal_out();
            self.do_due(id, entropy);
        }
        let mut events = Vec::new();
        if let Some(talk) = self.talks.get_mut(&id) {
            talk.peer.receive(bytes, now, entropy, &mut events);
            self.window.growing(id.0, talk.peer.unfinished_bytes() as u64, now.monotonic.as_millis() as u64);
        }
        self.take_events(id, events);
        self.serve(id);
        self.settle();
    }

    /// The connection was closed, by the other side or by the system.
    pub fn disconnected(&mut self, id: PeerId, now: Moment) {
        self.now = now;
        self.end(id, End::ClosedByPeer);
        self.settle();
    }

    /// Closes a connection.
    pub fn close(&mut self, id: PeerId, end: End, now: Moment) {
        self.now = now;
        self.end(id, end);
        self.settle();
    }

    /// Does what is due; to be called a few times a second.
    pub fn tick(&mut self, now: Moment, entropy: &mut dyn Entropy) {
        self.now = now;
        self.hand_over();
        self.deal_out();
        for id in self.ids() {
            self.do_due(id, entropy);
        }
        self.settle();
    }

    /// Does what is due for one peer (Core: `SendMessages`).
    fn do_due(&mut self, id: PeerId, entropy: &mut dyn Entropy) {
        let now = self.now;
        let mut events = Vec::new();
        if let Some(talk) = self.talks.get_mut(&id) {
            talk.looked_at = now;
            talk.peer.tick(now, entropy, &mut events);
        }
        self.take_events(id, events);
        self.check_headers_time(id);
        self.serve(id);
        self.ask_for_txs(id);
        self.trickle(id);
        self.send_fee_filter(id);
    }

    /// Bytes to send to a peer; tell by [`Hub::sent`] how many went out.
    pub fn output(&self, id: PeerId) -> &[u8] {
        self.talks.get(&id).map_or(&[], |talk| talk.peer.output())
    }

    /// So many bytes went out.
    pub fn sent(&mut self, id: PeerId, count: usize, now: Moment) {
        self.now = now;
        self.hand_over();
        if let Some(talk) = self.talks.get_mut(&id) {
            talk.peer.sent(count, now);
            self.upload.spend(count as u64, now);
        }
        self.serve(id);
    }

    /// Connections that are over since this was asked last; what they had to send is lost.
    pub fn take_gone(&mut self) -> Vec<Gone> {
        std::mem::take(&mut self.gone)
    }

    /// Addresses that came since this was asked last, and from whom.
    pub fn take_addresses(&mut self) -> Vec<(PeerId, Vec<PeerAddress>)> {
        std::mem::take(&mut self.addresses)
    }

    /// Peers that asked for addresses since this was asked last.
    pub fn take_address_questions(&mut self) -> Vec<PeerId> {
        std::mem::take(&mut self.address_questions)
    }

    /// Tells a peer addresses, in the form it understands; what that form cannot say is left away.
    pub fn tell_addresses(&mut self, id: PeerId, addresses: &[PeerAddress]) {
        let Some(features) = self.features(id) else { return };
        let message = match features.addrv2 {
            true => Message::AddrV2(addresses.to_vec()),
            false => Message::Addr(addresses.iter().filter(|one| one.endpoint.host.is_ip()).copied().collect()),
        };
        if !matches!(&message, Message::Addr(list) | Message::AddrV2(list) if list.is_empty()) {
            self.send(id, &message);
        }
    }

    /// A peer.
    pub fn peer(&self, id: PeerId) -> Option<&Peer> {
        self.talks.get(&id).map(|talk| &talk.peer)
    }

    fn ids(&self) -> Vec<PeerId> {
        self.talks.keys().copied().collect()
    }

    fn features(&self, id: PeerId) -> Option<&Features> {
        self.talks.get(&id).map(|talk| talk.peer.features())
    }

    fn has_permission(&self, id: PeerId, wanted: Permissions) -> bool {
        self.talks.get(&id).is_some_and(|talk| talk.peer.setup().permissions.has(wanted))
    }

    fn send(&mut self, id: PeerId, message: &Message) {
        if let Some(talk) = self.talks.get_mut(&id) {
            talk.peer.send(message);
        }
    }

    /// A rule is broken; whom the user trusts or asked for stays all the same (Core: `MaybeDiscourageAndDisconnect`).
    fn misbehaved(&mut self, id: PeerId, rule: &'static str) {
        let is_asked_for =
            |talk: &Talk| talk.peer.setup().kind == crate::peer::ConnectionKind::Manual || talk.peer.is_trusted();
        if !self.talks.get(&id).is_some_and(is_asked_for) {
            self.end(id, End::Misbehaviour(rule));
        }
    }

    /// The connection is over for this reason, if it was not before.
    fn end(&mut self, id: PeerId, end: End) {
        let mut events = Vec::new();
        if let Some(talk) = self.talks.get_mut(&id) {
            talk.peer.close(end, &mut events);
        }
        self.take_events(id, events);
    }

    fn take_events(&mut self, id: PeerId, events: Vec<Event>) {
        for event in events {
            match event {
                Event::Ready => self.begin(id),
                Event::Message(message) => self.take_in_order(id, message),
                Event::Addresses(addresses) => self.addresses.push((id, addresses)),
                Event::End(end) => self.forget(id, end),
            }
        }
    }

    fn forget(&mut self, id: PeerId, end: End) {
        let Some(talk) = self.talks.remove(&id) else { return };
        end.log(id);
        let is_trusted = talk.peer.is_trusted();
        self.window.leave(id.0);
        self.end_txs(id);
        self.announcers.retain(|announcer| *announcer != id);
        self.fetching.retain(|_, (by, _)| *by != id);
        let discourage = end.is_misbehaviour() && !is_trusted;
        self.gone.push(Gone { id, end, discourage });
    }

    fn take_message(&mut self, id: PeerId, message: Message) {
        match message {
            Message::Headers(headers) => self.take_headers(id, headers),
            Message::Inv(inventory) => {
                self.take_tx_inventory(id, &inventory);
                self.take_inventory(id, &inventory);
            }
            Message::Tx(tx) => self.take_tx(id, tx),
            Message::Block(block) => self.take_block(id, block),
            Message::CompactBlock(compact) => self.take_compact(id, compact),
            Message::BlockTxs(txs) => self.take_block_txs(id, &txs),
            Message::NotFound(inventory) => {
                self.take_txs_not_found(id, &inventory);
                self.take_not_found(id, &inventory);
            }
            Message::GetHeaders(request) => self.serve_headers(id, &request),
            Message::GetBlocks(request) => self.serve_hashes(id, &request),
            Message::GetData(inventory) => self.take_wants(id, inventory),
            Message::GetBlockTxs(request) => self.serve_block_txs(id, &request),
            Message::Ping(Some(nonce)) => self.send(id, &Message::Pong(Some(nonce))),
            Message::MemPool => self.take_mempool_question(id),
            Message::GetFilters(asked) => self.serve_filters(id, &asked),
            Message::GetFilterHeaders(asked) => self.serve_filter_hashes(id, &asked),
            Message::GetFilterCheckpoints(kind, stop) => self.serve_filter_checkpoints(id, kind, &stop),
            Message::GetAddr => self.address_questions.push(id),
            // Addresses are dealt with elsewhere; the rest asks for what is not offered.
            _ => {}
        }
    }
}
