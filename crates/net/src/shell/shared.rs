//! What all connections share: the hub, the book, the bans, and who is connected.
//!
//! In:     events of sockets.
//! Out:    bytes and wake-ups for sockets; decisions about who may connect.
//! Fails:  never.
//!
//! Everything is under one lock. After each use [`State::pump`] carries what the hub decided to where it belongs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use primitives::Params;
use stdx::clock::Clock;
use tokio::sync::Notify;

use super::config::Config;
use super::i2p::I2p;
use crate::addresses::{
    Answers, Bans, Book, Candidate, Connected, Destination, Dial, Dialler, Gossip, PERCENT_MAX, select_to_evict,
};
use crate::entropy::Entropy;
use crate::hosts::{Groups, HostKind, Subnet, is_local, is_routable};
use crate::hub::{Chain, Hub};
use crate::moment::Moment;
use crate::peer::{ConnectionKind, End, PeerId, Permissions, Setup};
use crate::relay::TxJob;
use crate::wire::limits::ADDRESSES_MAX;
use crate::wire::{Endpoint, Host, PeerAddress, Services};

/// Bytes given to a socket at once.
const WRITE_BYTES: usize = 64 * 1024;
/// Addresses told by others count as seen so much earlier; Core's two hours.
const ADDRESS_PENALTY_S: u64 = 2 * 3600;
/// Lines for the log that nobody took are kept, so many at most.
const REMARKS_MAX: usize = 100;
/// Connections that ended are remembered for the log, so many at most.
const ENDED_MAX: usize = 1_000;

/// A connection that ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its number.
    pub id: PeerId,
    /// The other side.
    pub remote: Endpoint,
    /// What it was for.
    pub kind: ConnectionKind,
    /// Why.
    pub end: End,
}

/// The socket of a connection, as the others see it.
pub struct Door {
    pub remote: Endpoint,
    pub kind: ConnectionKind,
    pub added: Option<String>,
    pub bound: Option<Endpoint>,
    port: u16,
    connected: Moment,
    wake: Arc<Notify>,
    was_ready: bool,
    /// It came through our onion service, whose connections all seem to come from this machine.
    pub by_onion: bool,
}

/// A connection that begins.
pub struct Opening {
    pub setup: Setup,
    /// Our end of its socket.
    pub bound: Option<Endpoint>,
    /// The port of ours that it came to; any for those we make.
    pub port: u16,
    /// What the user wrote, where he asked for it.
    pub added: Option<String>,
}

impl Door {
    /// What users call it.
    pub fn name(&self) -> String {
        self.added.clone().unwrap_or_else(|| self.remote.to_string())
    }

    pub fn host_kind(&self) -> HostKind {
        if self.by_onion { HostKind::Onion } else { HostKind::of(&self.remote.host) }
    }
}

/// What the lock is around.
pub struct State<C> {
    pub hub: Hub<C>,
    pub book: Book,
    pub bans: Bans,
    pub dialler: Dialler,
    pub gossip: Gossip,
    pub ended: VecDeque<Ended>,
    pub remarks: VecDeque<String>,
    /// Where connections to our onion service arrive.
    pub onion_port: Option<u16>,
    /// False where the user wants no connections for now.
    pub active: bool,
    pub groups: Groups,
    /// Of those who connected, how many may want transactions.
    pub inbound_relay_max: usize,
    pub received_bytes: u64,
    pub sent_bytes: u64,
    answers: Answers,
    pub doors: BTreeMap<PeerId, Door>,
    /// Connections on their way, by a number of their own.
    pub dialling: BTreeMap<u64, Connected>,
    entropy: Box<dyn Entropy>,
    next_dial: u64,
    next_peer: u64,
}

/// What one socket is to do next.
pub struct Look {
    /// Bytes to write.
    pub output: Vec<u8>,
    /// How long to wait before reading; `None` while the other side does not read.
    pub read: Option<Duration>,
}

/// What all tasks of the shell have.
pub struct Shared<C> {
    pub config: Config,
    pub params: Params,
    pub clock: Arc<dyn Clock>,
    pub i2p: I2p,
    /// There is a connection to open before the next tick.
    pub stir: Notify,
    state: Mutex<State<C>>,
    /// Rung when transactions wait to be judged.
    tx_jobs: Condvar,
}

impl<C: Chain> Shared<C> {
    pub fn new(config: Config, params: Params, clock: Arc<dyn Clock>, state: State<C>) -> Shared<C> {
        let i2p = I2p::new(config.sam);
        let tx_jobs = Condvar::new();
        Shared { config, params, clock, i2p, stir: Notify::new(), state: Mutex::new(state), tx_jobs }
    }

    /// Opens a connection once, and soon.
    pub fn ask(&self, dial: Dial) {
        self.with(|state, _| state.dialler.ask(dial));
        self.stir.notify_one();
    }

    pub fn now(&self) -> Moment {
        Moment::of(&*self.clock)
    }

    /// Does something under the lock, and then what follows from it.
    pub fn with<R>(&self, act: impl FnOnce(&mut State<C>, Moment) -> R) -> R {
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let now = self.now();
        let result = act(&mut state, now);
        state.pump(now);
        if state.hub.has_tx_jobs() {
            self.tx_jobs.notify_one();
        }
        result
    }

    /// True where what peers are told of is to be dealt with once it is on its way.
    pub fn holds_block(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).hub.holds_block()
    }

    /// Transactions to judge, waited for so long at most.
    pub fn take_tx_jobs(&self, patience: Duration) -> Vec<TxJob> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.tx_jobs.wait_timeout_while(state, patience, |state| !state.hub.has_tx_jobs());
        waited.unwrap_or_else(PoisonError::into_inner).0.hub.take_tx_jobs()
    }

    /// What the socket of a connection is to do; `None` when it is over.
    pub fn look(&self, id: PeerId) -> Option<Look> {
        let state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let peer = state.hub.peer(id)?;
        let output = peer.output();
        let read = state.hub.input_wait(id, self.now());
        Some(Look { output: output[..output.len().min(WRITE_BYTES)].to_vec(), read })
    }
}

impl<C: Chain> State<C> {
    pub fn new(
        hub: Hub<C>,
        book: Book,
        bans: Bans,
        dialler: Dialler,
        gossip: Gossip,
        groups: Groups,
        entropy: Box<dyn Entropy>,
    ) -> State<C> {
        State {
            active: true,
            groups,
            inbound_relay_max: usize::MAX,
            received_bytes: 0,
            sent_bytes: 0,
            gossip,
            hub,
            book,
            bans,
            dialler,
            ended: VecDeque::new(),
            remarks: VecDeque::new(),
            onion_port: None,
            answers: Answers::default(),
            doors: BTreeMap::new(),
            dialling: BTreeMap::new(),
            entropy,
            next_dial: 0,
            next_peer: 0,
        }
    }

    /// A connection was made; gives its number and what wakes its socket.
    pub fn open(&mut self, opening: Opening, now: Moment) -> (PeerId, Arc<Notify>) {
        let Opening { setup, bound, port, added } = opening;
        let id = PeerId(self.next_peer);
        self.next_peer += 1;
        let wake = Arc::new(Notify::new());
        let (remote, kind) = (setup.remote, setup.kind);
        self.hub.connect(Setup { id, ..setup }, now, &mut *self.entropy);
        let by_onion = kind == ConnectionKind::Inbound && self.onion_port == Some(port);
        let (connected, wake_too) = (now, wake.clone());
        let door = Door { remote, kind, added, bound, port, connected, wake: wake_too, was_ready: false, by_onion };
        self.doors.insert(id, door);
        (id, wake)
    }

    /// So many bytes went out.
    pub fn sent(&mut self, id: PeerId, count: usize, now: Moment) {
        self.sent_bytes += count as u64;
        self.hub.sent(id, count, now);
    }

    pub fn receive(&mut self, id: PeerId, bytes: &[u8], now: Moment) {
        self.received_bytes += bytes.len() as u64;
        // What is due goes out before what answers these bytes.
        let addresses = self.gossip.due_of(id, self.services_told(), now, &mut *self.entropy);
        self.hub.tell_addresses(id, &addresses);
        self.hub.receive(id, bytes, now, &mut *self.entropy);
    }

    pub fn tick(&mut self, now: Moment) {
        self.hub.tick(now, &mut *self.entropy);
        for (id, addresses) in self.gossip.due(self.services_told(), now, &mut *self.entropy) {
            self.hub.tell_addresses(id, &addresses);
        }
    }

    /// Our services where we may be told of: who has no recent blocks to offer does not call others to himself.
    fn services_told(&self) -> Option<Services> {
        (!self.hub.chain().is_initial_download()).then_some(self.hub.local().services)
    }

    /// The next connection to open, entered as one on its way; its number is to be given to [`State::dialled`].
    pub fn next_dial(&mut self, now: Moment) -> Option<(u64, Dial)> {
        let connected = self.connected();
        let dial = self.dialler.next(&connected, &mut self.book, now, &mut *self.entropy)?;
        let (endpoint, added) = match &dial.to {
            Destination::Known(endpoint) => (Some(*endpoint), None),
            Destination::Added(text) => (text.parse().ok(), Some(text.clone())),
        };
        let is_known = |host: &Host| self.bans.is_banned(host, now.unix_s) || self.bans.is_discouraged(host);
        let is_unwelcome = matches!(&dial.to, Destination::Known(endpoint) if is_known(&endpoint.host));
        if !self.active || is_unwelcome {
            return None;
        }
        self.next_dial += 1;
        let number = self.next_dial;
        self.dialling.insert(number, Connected { endpoint, added, kind: dial.kind });
        Some((number, dial))
    }

    /// A connection is no longer on its way.
    pub fn dialled(&mut self, number: u64) {
        self.dialling.remove(&number);
    }

    fn connected(&self) -> Vec<Connected> {
        let doors = self.doors.values().map(|door| Connected {
            endpoint: Some(door.remote),
            added: door.added.clone(),
            kind: door.kind,
        });
        doors.chain(self.dialling.values().cloned()).collect()
    }

    /// Where random bytes come from.
    pub fn entropy(&mut self) -> &mut dyn Entropy {
        &mut *self.entropy
    }

    /// Keeps a line for the log.
    pub fn remark(&mut self, line: String) {
        if self.remarks.len() == REMARKS_MAX {
            self.remarks.pop_front();
        }
        self.remarks.push_back(line);
    }

    /// Random text for a proxy's name and password.
    pub fn random_text(&mut self) -> String {
        stdx::hex::encode(&crate::entropy::bytes::<16>(&mut *self.entropy))
    }

    /// Adds addresses that a name or the program itself tells.
    pub fn add_addresses(&mut self, addresses: &[PeerAddress], source: &Host, now: Moment) -> usize {
        self.book.add(addresses, source, 0, now.unix_s, &mut *self.entropy)
    }

    /// Random addresses of the book, of one kind where it is named.
    pub fn sample(&mut self, count: usize, kind: Option<HostKind>, now: Moment) -> Vec<PeerAddress> {
        self.book.sample(count, 100, kind, now.unix_s, &mut *self.entropy)
    }

    /// Connections we made that are up.
    pub fn outbound_ready(&self) -> usize {
        self.doors.values().filter(|door| door.kind.is_outbound() && door.was_ready).count()
    }

    /// Endpoints of connections for blocks only, the anchors of the next start.
    pub fn anchors(&self) -> Vec<PeerAddress> {
        let doors = self.doors.iter().filter(|(_, door)| door.kind == ConnectionKind::BlocksOnly && door.was_ready);
        let address = |(id, door): (&PeerId, &Door)| {
            let version = self.hub.peer(*id)?.features().version.as_ref()?;
            Some(PeerAddress { time_s: 0, services: version.services, endpoint: door.remote })
        };
        doors.filter_map(address).collect()
    }

    /// True where somebody may connect, after another was sent away if need be.
    pub fn admit(&mut self, remote: &Endpoint, permissions: Permissions, config: &Config, now: Moment) -> bool {
        let is_trusted = permissions.has(Permissions::NO_BAN);
        if !self.active {
            return false;
        }
        if self.bans.is_banned(&remote.host, now.unix_s) && !is_trusted {
            return false;
        }
        let inbound = || self.doors.values().filter(|door| door.kind == ConnectionKind::Inbound);
        let is_full = inbound().count() >= config.inbound_max;
        // Core: the discouraged get a place while there are free ones.
        if self.bans.is_discouraged(&remote.host) && !is_trusted && inbound().count() + 1 >= config.inbound_max {
            return false;
        }
        let group = self.groups.of(&remote.host);
        let of_group = inbound().filter(|door| self.groups.of(&door.remote.host) == group).count();
        if is_routable(&remote.host) && of_group >= config.inbound_per_group_max && !is_trusted {
            return false;
        }
        if !is_full {
            return true;
        }
        match select_to_evict(self.candidates()) {
            Some(id) => {
                self.hub.close(id, End::ClosedByUs("made room"), now);
                true
            }
            None => {
                log::debug!(target: "net", "failed to find an eviction candidate - connection dropped (full)");
                false
            }
        }
    }

    fn candidates(&self) -> Vec<Candidate> {
        let candidate = |(id, door): (&PeerId, &Door)| {
            let peer = self.hub.peer(*id)?;
            let services = peer.features().version.as_ref().map_or(Services::NONE, |version| version.services);
            Some(Candidate {
                id: *id,
                is_inbound: door.kind == ConnectionKind::Inbound,
                is_protected: peer.setup().permissions.has(Permissions::NO_BAN),
                connected: door.connected,
                latency_least: peer.latency().least,
                last_block: peer.statistics().last_block,
                last_tx: peer.statistics().last_tx,
                has_services: services.has(self.hub.local().required),
                relays_txs: peer.relays_txs(),
                keyed_group: self.book.keyed_group(&door.remote.host),
                prefer_evict: self.bans.is_discouraged(&door.remote.host),
                is_local: is_local(&door.remote.host) && !door.by_onion,
                kind: door.host_kind(),
            })
        };
        self.doors.iter().filter_map(candidate).collect()
    }

    /// Ends the connections to a subnet.
    pub fn close_subnet(&mut self, subnet: &Subnet, now: Moment) {
        self.close_those(|door| subnet.contains(&door.remote.host), "banned", now);
    }

    /// Ends some connections.
    pub fn close_those(&mut self, which: impl Fn(&Door) -> bool, why: &'static str, now: Moment) {
        let ids: Vec<PeerId> = self.doors.iter().filter(|(_, door)| which(door)).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.hub.close(id, End::ClosedByUs(why), now));
    }

    /// Carries what the hub decided to the book, the bans and the sockets.
    fn pump(&mut self, now: Moment) {
        // What somebody told is taken although his connection may be over: one for addresses ends with them.
        for (id, addresses) in self.hub.take_addresses() {
            let Some(door) = self.doors.get(&id) else { continue };
            // What cannot be reached takes no room in the book; others may reach it.
            let reachable: Vec<PeerAddress> =
                addresses.iter().filter(|address| self.gossip.reaches(&address.endpoint.host)).copied().collect();
            self.book.add(&reachable, &door.remote.host, ADDRESS_PENALTY_S, now.unix_s, &mut *self.entropy);
            self.gossip.told(id, &addresses, now, &mut *self.entropy);
        }
        self.take_gone(now);
        self.take_ready(now);
        for id in self.hub.take_address_questions() {
            let Some(door) = self.doors.get(&id) else { continue };
            self.gossip.join(id, false);
            let (kind, entropy) = (door.host_kind(), &mut *self.entropy);
            let is_told_more = |peer: &crate::peer::Peer| peer.setup().permissions.has(Permissions::ADDRESSES);
            if self.hub.peer(id).is_some_and(is_told_more) {
                let fresh = self.book.sample(ADDRESSES_MAX, PERCENT_MAX, None, now.unix_s, entropy);
                self.hub.tell_addresses(id, &fresh);
                continue;
            }
            let answer = self.answers.answer(&mut self.book, kind, door.port, now.unix_s, entropy);
            self.hub.tell_addresses(id, answer);
        }
        for peer in self.hub.peers().filter(|peer| !peer.output().is_empty()) {
            if let Some(door) = self.doors.get(&peer.id()) {
                door.wake.notify_one();
            }
        }
    }

    fn take_gone(&mut self, now: Moment) {
        for gone in self.hub.take_gone() {
            let Some(door) = self.doors.remove(&gone.id) else { continue };
            self.gossip.leave(gone.id);
            door.wake.notify_one();
            // What the user asked for is not held against it, and the machine itself is many.
            let is_many = is_local(&door.remote.host) || door.by_onion;
            if gone.discourage && door.kind != ConnectionKind::Manual && !is_many {
                self.bans.discourage(door.remote.host);
            }
            if gone.end == End::FeelerDone {
                self.book.good(&door.remote, now.unix_s);
            }
            if door.was_ready && door.kind.is_outbound() && door.kind != ConnectionKind::BlocksOnly {
                self.book.seen(&door.remote, now.unix_s);
            }
            if self.ended.len() == ENDED_MAX {
                self.ended.pop_front();
            }
            self.ended.push_back(Ended { id: gone.id, remote: door.remote, kind: door.kind, end: gone.end });
        }
    }

    /// Notes connections whose handshake is done.
    fn take_ready(&mut self, now: Moment) {
        let mut relaying = Vec::new();
        for (id, door) in self.doors.iter_mut().filter(|(_, door)| !door.was_ready) {
            let Some(peer) = self.hub.peer(*id).filter(|peer| peer.is_ready()) else { continue };
            door.was_ready = true;
            if door.kind == ConnectionKind::Inbound && peer.relays_txs() {
                relaying.push(*id);
            }
            if let (true, Some(version)) = (door.kind.is_outbound(), &peer.features().version) {
                self.book.set_services(&door.remote, version.services);
                self.book.good(&door.remote, now.unix_s);
            }
            // Of those who connected, only who tells or asks wants addresses (as light wallets do not).
            if door.kind.is_outbound() && door.kind.relays_addresses() {
                self.gossip.join(*id, true);
            }
        }
        relaying.into_iter().for_each(|id| self.bound_relaying(id, now));
    }

    /// Where too many of those who connected want transactions, one of them makes room for the newest, or that one goes (Core:
    /// `MaybeDisconnectForTxRelayCapacity`).
    fn bound_relaying(&mut self, newest: PeerId, now: Moment) {
        let mut relaying = self.candidates();
        relaying.retain(|candidate| candidate.is_inbound && candidate.relays_txs);
        if relaying.len() <= self.inbound_relay_max {
            return;
        }
        relaying.retain(|candidate| candidate.id != newest);
        let leaving = select_to_evict(relaying).unwrap_or(newest);
        if leaving == newest {
            let id = newest.0;
            log::debug!(target: "net", "failed to find a tx-relaying eviction candidate - connection dropped, peer={id}");
        }
        self.hub.close(leaving, End::ClosedByUs("made room"), now);
    }
}
