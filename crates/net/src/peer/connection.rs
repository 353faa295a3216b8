//! A peer: the transport, the handshake, pings, queue and limits of one connection, put together.
//!
//! In:     bytes that came, the time, chance, messages to send.
//! Out:    bytes to send, [`Event`]s.
//! Fails:  an [`Event::End`] is the last event of a peer; after it nothing is read or sent.
//! Source: Bitcoin Core, `InactivityCheck`, `ProcessMessages`, `ProcessAddrs`.

use std::sync::Arc;
use std::time::Duration;

use super::bucket::{Bucket, cost};
use super::end::End;
use super::handshake::{Answer, Features, Handshake};
use super::kind::{ConnectionKind, PeerId, Permissions};
use super::local::Local;
use super::ping::{self, Latency, Pings};
use super::queue::{SEND_BYTES_MAX, SEND_PAUSE_BYTES, SendQueue};
use super::statistics::Statistics;
use crate::entropy::{self, Entropy};
use crate::moment::Moment;
use crate::transport::{Received, Role, Secret, Transport, TransportKind};
use crate::wire::limits::ADDRESSES_MAX;
use crate::wire::{Command, Endpoint, Message, PeerAddress, WireError};

/// Addresses taken from a peer for each second; Core's `MAX_ADDR_RATE_PER_SECOND`.
const ADDRESSES_PER_S: f64 = 0.1;
/// Messages a peer may send in one go ...
const MESSAGES_BURST: f64 = 20_000.0;
/// ... and for each second: far above what an honest one sends, and cheap enough for us.
const MESSAGES_PER_S: f64 = 2_000.0;

/// How long a connection for addresses may last: Core's ten times `AVG_ADDRESS_BROADCAST_INTERVAL`.
const ADDRESS_FETCH_TIME_MAX: Duration = Duration::from_secs(10 * 30);

/// What happened on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The handshake is done.
    Ready,
    /// A message that is not the connection's own business came.
    Message(Message),
    /// Addresses came, as many as the peer may send.
    Addresses(Vec<PeerAddress>),
    /// The connection is over.
    End(End),
}

/// What a connection begins with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Its number.
    pub id: PeerId,
    /// What it is for.
    pub kind: ConnectionKind,
    /// The other side.
    pub remote: Endpoint,
    /// What we tell it about its endpoint: [`Endpoint::NONE`] behind a proxy and for addresses that nobody can reach.
    pub told_remote: Endpoint,
    /// What it may do.
    pub permissions: Permissions,
    /// Encrypted; as a responder it is found out.
    pub encrypted: bool,
}

/// One connection.
pub struct Peer {
    setup: Setup,
    local: Arc<Local>,
    nonce: u64,
    transport: Transport,
    handshake: Handshake,
    pings: Pings,
    queue: SendQueue,
    /// Messages made before the transport could carry them: our version, and nothing else.
    early: Vec<Message>,
    addresses: Bucket,
    messages: Bucket,
    getaddr_came: bool,
    ended: bool,
    /// It said something at a wrong time.
    was_untimely: bool,
    /// Something that it sent is not dealt with yet: its pings wait for that too.
    is_busy: bool,
    statistics: Statistics,
}

impl Peer {
    /// A connection that was just made.
    pub fn new(setup: Setup, local: Arc<Local>, now: Moment, entropy: &mut dyn Entropy) -> Peer {
        let nonce = local.draw_nonce(entropy);
        let mut queue = SendQueue::default();
        let role = if setup.kind.is_outbound() { Role::Initiator } else { Role::Responder };
        let transport = match setup.encrypted {
            true => Transport::encrypted(local.magic, role, Secret::draw(entropy), queue.tail()),
            false => Transport::plain(local.magic),
        };
        let mut peer = Peer {
            nonce,
            transport,
            handshake: Handshake::new(setup.kind),
            pings: Pings::default(),
            queue,
            early: Vec::new(),
            // Core starts with one: enough for the peer's own address.
            addresses: Bucket::new(1.0, ADDRESSES_PER_S, ADDRESSES_MAX as f64, now),
            messages: Bucket::new(MESSAGES_BURST, MESSAGES_PER_S, MESSAGES_BURST, now),
            getaddr_came: false,
            ended: false,
            was_untimely: false,
            is_busy: false,
            statistics: Statistics::new(now),
            setup,
            local,
        };
        if role == Role::Initiator {
            let version = peer.own_version(now);
            peer.put(&version);
        }
        peer
    }

    fn own_version(&self, now: Moment) -> Message {
        version_of(&self.local, &self.setup, self.nonce, now)
    }

    /// Its number.
    pub fn id(&self) -> PeerId {
        self.setup.id
    }

    /// What the connection began with.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// What was agreed on.
    pub fn features(&self) -> &Features {
        &self.handshake.features
    }

    /// True between [`Event::Ready`] and [`Event::End`].
    pub fn is_ready(&self) -> bool {
        self.handshake.is_done() && !self.ended
    }

    /// What it did.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Takes note of a block of its that was new to us, and good.
    pub fn earned_block(&mut self, now: Moment) {
        self.statistics.last_block = Some(now);
    }

    /// Takes note of a transaction of its that we took.
    pub fn earned_tx(&mut self, now: Moment) {
        self.statistics.last_tx = Some(now);
    }

    /// How far it is away.
    pub fn latency(&self) -> Latency {
        self.pings.latency()
    }

    /// Plain or encrypted.
    pub fn transport_kind(&self) -> TransportKind {
        self.transport.kind()
    }

    /// The number of an encrypted session.
    pub fn session_id(&self) -> Option<[u8; 32]> {
        self.transport.session_id()
    }

    /// True where a connection that ended now should be made again without encryption.
    pub fn should_retry_plain(&self) -> bool {
        self.transport.should_retry_plain()
    }

    /// True where transactions go over the connection in both ways.
    pub fn relays_txs(&self) -> bool {
        self.setup.kind.relays_txs() && self.features().wants_txs()
    }

    /// True for one that is neither discouraged nor parted with for what it says (`noban`).
    pub fn is_trusted(&self) -> bool {
        self.setup.permissions.has(Permissions::NO_BAN)
    }

    /// Something that the peer sent is not dealt with yet, or all of it is: until then its pings are events.
    pub fn set_busy(&mut self, is_busy: bool) {
        self.is_busy = is_busy;
    }

    /// Pings as soon as possible.
    pub fn request_ping(&mut self) {
        self.pings.request();
    }

    /// Time until more bytes are welcome; `None` while the peer does not read what waits for it.
    ///
    /// The shell leaves bytes in the socket meanwhile, so that a peer which asks faster than it reads, or sends more messages
    /// than it should, is slowed down and costs no memory.
    pub fn input_wait(&self, now: Moment) -> Option<Duration> {
        (!self.is_clogged()).then(|| self.messages.wait(now))
    }

    /// True while so much waits to be sent that nothing large should be added.
    pub fn is_clogged(&self) -> bool {
        self.queue.len() > SEND_PAUSE_BYTES
    }

    /// Bytes to send.
    pub fn output(&self) -> &[u8] {
        self.queue.front()
    }

    /// Takes note that `count` bytes of [`Peer::output`] were sent.
    pub fn sent(&mut self, count: usize, now: Moment) {
        self.queue.advance(count);
        self.statistics.sent.bytes += count as u64;
        self.statistics.sent.last = Some(now);
    }

    /// Sends a message, once the handshake is done; before and after it is dropped.
    pub fn send(&mut self, message: &Message) {
        if self.is_ready() {
            self.put(message);
        }
    }

    /// Sends any payload under any name, once the handshake is done; false before.
    pub fn send_any(&mut self, command: Command, payload: &[u8]) -> bool {
        if self.is_ready() {
            let before = self.queue.len();
            self.transport.send_any(command, payload, self.queue.tail());
            let name = command.is_known().then_some(command);
            self.statistics.sent.count(name, self.queue.len() - before);
        }
        self.is_ready()
    }

    /// Asks for addresses, and takes as many as come in answer.
    fn ask_for_addresses(&mut self) {
        self.addresses.add(ADDRESSES_MAX as f64);
        self.put(&Message::GetAddr);
    }

    fn put(&mut self, message: &Message) {
        if !self.transport.can_send() {
            self.early.push(message.clone());
            return;
        }
        let before = self.queue.len();
        self.transport.send(message, self.queue.tail());
        if log::log_enabled!(target: "net", log::Level::Trace) {
            let mut payload = Vec::new();
            message.encode(&mut payload);
            log::trace!(target: "net", "sending {} ({} bytes) peer={}", message.command(), payload.len(), self.setup.id.0);
        }
        self.statistics.sent.count(Some(message.command()), self.queue.len() - before);
    }

    /// Bytes that have come of a message that is not complete.
    pub fn unfinished_bytes(&self) -> usize {
        self.transport.unfinished_bytes()
    }

    /// Takes bytes that came.
    pub fn receive(&mut self, bytes: &[u8], now: Moment, entropy: &mut dyn Entropy, events: &mut Vec<Event>) {
        if self.ended {
            return;
        }
        self.statistics.received.bytes += bytes.len() as u64;
        self.statistics.received.last = Some(now);
        let mut received = Vec::new();
        let result = self.transport.receive(bytes, self.queue.tail(), &mut received);
        if self.transport.can_send() {
            std::mem::take(&mut self.early).iter().for_each(|message| self.put(message));
        }
        // What came whole before the stream broke is still heard.
        for frame in received {
            if let Err(end) = self.take_frame(frame, now, entropy, events) {
                return self.end(end, events);
            }
        }
        if let Err(error) = result {
            self.end(End::Transport(error), events);
        }
        self.refuse_full_queue(events);
    }

    /// Does what is due: pings, and the end of a peer that takes too long.
    pub fn tick(&mut self, now: Moment, entropy: &mut dyn Entropy, events: &mut Vec<Event>) {
        if self.ended {
            return;
        }
        if let Err(end) = self.check_times(now) {
            return self.end(end, events);
        }
        if self.is_ready() {
            self.ping_if_due(now, entropy);
        }
        self.refuse_full_queue(events);
    }

    /// Pings where it is time to; for the first time as soon as the handshake is done.
    pub fn ping_if_due(&mut self, now: Moment, entropy: &mut dyn Entropy) {
        if let Some(nonce) = self.pings.due(self.handshake.features.protocol, now, entropy) {
            self.put(&Message::Ping(nonce));
        }
    }

    fn take_pong(&mut self, nonce: Option<u64>, now: Moment) {
        let (id, wanted, came) = (self.setup.id.0, self.pings.wanted(), nonce.unwrap_or(0));
        if let Err(problem) = self.pings.answered(nonce, now) {
            let bytes = if nonce.is_some() { 8 } else { 0 };
            log::debug!(
                target: "net",
                "pong peer={id}: {problem}, {wanted:x} expected, {came:x} received, {bytes} bytes"
            );
        }
    }

    /// Ends the connection: the other side closed it, or we have a reason.
    pub fn close(&mut self, end: End, events: &mut Vec<Event>) {
        if !self.ended {
            self.end(end, events);
        }
    }

    fn end(&mut self, end: End, events: &mut Vec<Event>) {
        self.ended = true;
        events.push(Event::End(end));
    }

    fn refuse_full_queue(&mut self, events: &mut Vec<Event>) {
        if self.queue.len() > SEND_BYTES_MAX && !self.ended {
            self.end(End::SendQueueFull, events);
        }
    }

    fn check_times(&mut self, now: Moment) -> Result<(), End> {
        let is_fetch = self.setup.kind == ConnectionKind::AddressFetch && self.handshake.is_done();
        if is_fetch && now.since(&self.statistics.connected) > ADDRESS_FETCH_TIME_MAX {
            return Err(End::AddressesFetched);
        }
        if now.since(&self.statistics.connected) <= Duration::from_secs(self.local.handshake_timeout_s) {
            return Ok(());
        }
        let idle = |last: Option<Moment>| last.is_none_or(|last| now.since(&last) > ping::TIMEOUT);
        let (received, sent) = (self.statistics.received.last.is_some(), self.statistics.sent.last.is_some());
        if !received || !sent {
            return Err(End::NoMessage { seconds: self.local.handshake_timeout_s, received, sent });
        }
        if !self.handshake.is_done() {
            let is_encrypting = self.setup.encrypted && self.transport.kind() == TransportKind::Detecting;
            return Err(if is_encrypting { End::TransportTimeout } else { End::HandshakeTimeout });
        }
        if idle(self.statistics.sent.last) {
            return Err(End::SendTimeout);
        }
        if idle(self.statistics.received.last) {
            return Err(End::ReceiveTimeout);
        }
        if let Some(waited) = self.pings.overdue(now) {
            return Err(End::PingTimeout { waited });
        }
        if self.queue.is_slow(now) {
            return Err(End::SlowReader);
        }
        Ok(())
    }

    fn take_frame(
        &mut self,
        frame: Received,
        now: Moment,
        entropy: &mut dyn Entropy,
        events: &mut Vec<Event>,
    ) -> Result<(), End> {
        let (command, payload) = match frame {
            Received::Frame { command, payload, wire_bytes } => {
                self.statistics.received.count(command.is_known().then_some(command), wire_bytes);
                (command, payload)
            }
            Received::Dropped { wire_bytes, .. } => {
                self.statistics.received.count(None, wire_bytes);
                self.statistics.dropped_messages += 1;
                self.messages.charge(1.0, now);
                return Ok(());
            }
        };
        log::trace!(target: "net", "received: {command} ({} bytes) peer={}", payload.len(), self.setup.id.0);
        self.messages.charge(cost(command, payload.len()), now);
        let bytes = payload.len();
        match Message::parse(command, payload) {
            Ok(message) => self.take_message(message, now, entropy, events),
            Err(error) if self.ends_by(&error) => Err(End::Wire(command, error)),
            Err(error) => {
                log::debug!(target: "net", "ProcessMessages({command}, {bytes} bytes): Exception '{error}' caught");
                self.statistics.dropped_messages += 1;
                Ok(())
            }
        }
    }

    /// What a message that cannot be read means; before the handshake is done, no more than a drop.
    fn ends_by(&self, error: &WireError) -> bool {
        self.handshake.is_done() && (error.is_misbehaviour() || error.ends_connection())
    }

    fn take_message(
        &mut self,
        message: Message,
        now: Moment,
        entropy: &mut dyn Entropy,
        events: &mut Vec<Event>,
    ) -> Result<(), End> {
        let (local, setup, nonce) = (self.local.clone(), &self.setup, self.nonce);
        let own_version = || version_of(&local, setup, nonce, now);
        match self.handshake.take(&message, &local, now, own_version)? {
            Answer::Nothing => {}
            Answer::Ignored(why) => {
                // The first of them is worth a line; how many follow is the peer's choice.
                if !std::mem::replace(&mut self.was_untimely, true) {
                    log::debug!(target: "net", "{}", why.line(message.command(), self.setup.id));
                }
            }
            Answer::Send(answers) => {
                answers.iter().for_each(|answer| self.put(answer));
                if self.setup.kind.is_outbound() && self.setup.kind.relays_addresses() {
                    self.ask_for_addresses();
                }
            }
            Answer::Done(answers) => {
                answers.iter().for_each(|answer| self.put(answer));
                events.push(Event::Ready);
            }
            Answer::Other => return self.take_other(message, now, entropy, events),
        }
        Ok(())
    }

    fn take_other(
        &mut self,
        message: Message,
        now: Moment,
        entropy: &mut dyn Entropy,
        events: &mut Vec<Event>,
    ) -> Result<(), End> {
        match message {
            // In order: what came before it and is not dealt with yet is dealt with first.
            Message::Ping(Some(_)) if self.is_busy || !events.is_empty() => events.push(Event::Message(message)),
            Message::Ping(Some(nonce)) => self.put(&Message::Pong(Some(nonce))),
            Message::Ping(None) => {}
            Message::Pong(nonce) => self.take_pong(nonce, now),
            Message::Addr(addresses) | Message::AddrV2(addresses) => {
                // One address may be its own, told to everybody.
                let answers = self.setup.kind == ConnectionKind::AddressFetch && addresses.len() > 1;
                let addresses = self.limit_addresses(addresses, now, entropy);
                // Whoever tells none says all the same that he takes part.
                events.push(Event::Addresses(addresses));
                if answers {
                    return Err(End::AddressesFetched);
                }
            }
            Message::GetAddr => {
                // Once, and only for those who connected: otherwise our address book could be read through many questions.
                let is_heard = self.setup.kind == ConnectionKind::Inbound && !self.getaddr_came;
                if self.getaddr_came {
                    log::debug!(target: "net", "Ignoring repeated \"getaddr\". peer={}", self.setup.id.0);
                }
                self.getaddr_came = true;
                events.extend(is_heard.then_some(Event::Message(Message::GetAddr)));
            }
            Message::Bloom(Command::MERKLEBLOCK, _) | Message::Reject(_) | Message::Unknown(..) => {}
            Message::Bloom(..) => return Err(End::BloomNotOffered),
            message => events.push(Event::Message(message)),
        }
        Ok(())
    }

    /// Takes as many addresses as there are tokens, at random, so that the first ones have no advantage.
    fn limit_addresses(
        &mut self,
        mut addresses: Vec<PeerAddress>,
        now: Moment,
        entropy: &mut dyn Entropy,
    ) -> Vec<PeerAddress> {
        if !self.setup.kind.relays_addresses() {
            return Vec::new();
        }
        let came = addresses.len();
        if !self.setup.permissions.has(Permissions::ADDRESSES) {
            for at in (1..addresses.len()).rev() {
                addresses.swap(at, entropy::below(entropy, at as u64 + 1) as usize);
            }
            let taken = (0..addresses.len()).take_while(|_| self.addresses.take(1.0, now)).count();
            addresses.truncate(taken);
        }
        self.statistics.addresses_processed += addresses.len() as u64;
        self.statistics.addresses_limited += (came - addresses.len()) as u64;
        addresses
    }
}

/// What we say first; whoever may relay is asked for transactions though others are not (Core: `RejectIncomingTxs`).
fn version_of(local: &Local, setup: &Setup, nonce: u64, now: Moment) -> Message {
    let mut version = local.version(setup.kind, setup.told_remote, nonce, now);
    version.relay |= setup.kind.relays_txs() && setup.permissions.has(Permissions::RELAY);
    Message::Version(version)
}
