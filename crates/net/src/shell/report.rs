//! What the shell says about itself and its connections, for `getpeerinfo`, `getnetworkinfo` and `getnettotals`.
//!
//! In:     the state behind the lock.
//! Out:    plain data.
//! Fails:  never.
//! Source: Bitcoin Core, `CNode::CopyStats`, `GetNodeStateStats`, `CConnman::GetTotalBytesSent`.

use std::time::Duration;

use super::config::{Config, Proxy};
use super::shared::{Door, State};
use crate::hosts::{HostKind, is_routable};
use crate::hub::{Chain, TalkReport, UploadBudget};
use crate::moment::Moment;
use crate::peer::{Features, Latency, Peer, Setup, Statistics};
use crate::transport::TransportKind;
use crate::wire::{Endpoint, Host, Services};

/// Connections whose clocks have to be known before their median says something; Core's figure.
const CLOCKS_MIN: usize = 5;

/// A connection, for `getpeerinfo` and the like.
#[derive(Clone, Debug)]
pub struct PeerReport {
    /// What it began with.
    pub setup: Setup,
    /// Services, user agent and wishes.
    pub features: Features,
    /// What it did.
    pub statistics: Statistics,
    /// How far it is away.
    pub latency: Latency,
    /// Plain or encrypted.
    pub transport: TransportKind,
    /// The number of an encrypted session.
    pub session_id: Option<[u8; 32]>,
    /// What the hub knows of it.
    pub talk: TalkReport,
    /// What the user wrote, where he asked for it; the other side's endpoint otherwise.
    pub name: String,
    /// Our end of its socket.
    pub bound: Option<Endpoint>,
    /// The network it came through; none for hosts that nobody else could reach.
    pub network: Option<HostKind>,
    /// The autonomous system of its host; 0 for none.
    pub mapped_as: u32,
    /// Addresses go over it.
    pub relays_addresses: bool,
}

impl PeerReport {
    /// Where the other side says it sees us.
    pub fn seen_as(&self) -> Option<Endpoint> {
        let seen = self.features.version.as_ref()?.receiver;
        (!is_nowhere(&seen.host)).then_some(seen)
    }
}

/// An endpoint we tell others we can be reached at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// How sure that is; see [`crate::addresses::SCORE_FOUND`].
    pub score: u32,
}

/// What we are on the network.
#[derive(Clone, Debug)]
pub struct NodeReport {
    /// Connections are made and taken.
    pub is_active: bool,
    /// What we offer.
    pub services: Services,
    /// Transactions are wanted.
    pub relays_txs: bool,
    /// Name and version of the program.
    pub user_agent: String,
    /// Connections others made, and those we made.
    pub connections: (usize, usize),
    /// The median of the clocks of those we chose, minus ours, in seconds.
    pub time_offset_s: i64,
    /// Each kind of network: whether connections are made there, and by which proxy.
    pub networks: Vec<(HostKind, bool, Option<Proxy>)>,
    /// Where we can be reached.
    pub own: Vec<Own>,
}

/// Bytes moved since the start.
#[derive(Clone, Debug)]
pub struct Totals {
    /// Bytes that came.
    pub received_bytes: u64,
    /// Bytes that went.
    pub sent_bytes: u64,
    /// The day's budget.
    pub upload: UploadBudget,
    /// Now, for asking the budget.
    pub now: Moment,
}

impl Totals {
    /// Time a budget is for.
    pub fn period(&self) -> Duration {
        UploadBudget::period()
    }
}

/// The proxy for a kind of host.
fn proxy_of(config: &Config, kind: HostKind) -> Option<Proxy> {
    match kind {
        HostKind::I2p => config.sam.map(|sam| Proxy { address: sam.address, isolates: false }),
        HostKind::Onion => config.onion_proxy.or(config.proxy),
        _ => config.proxy,
    }
}

impl<C: Chain> State<C> {
    /// All connections, oldest first.
    pub fn reports(&self) -> Vec<PeerReport> {
        let both = self.hub.peers().filter_map(|peer| Some((peer, self.doors.get(&peer.id())?)));
        both.map(|(peer, door)| self.report(peer, door)).collect()
    }

    fn report(&self, peer: &Peer, door: &Door) -> PeerReport {
        let host = door.remote.host;
        PeerReport {
            setup: peer.setup().clone(),
            features: peer.features().clone(),
            statistics: peer.statistics().clone(),
            latency: peer.latency(),
            transport: peer.transport_kind(),
            session_id: peer.session_id(),
            talk: self.hub.report(peer.id()),
            name: door.name(),
            bound: door.bound,
            network: (door.by_onion || is_routable(&host)).then(|| door.host_kind()),
            mapped_as: self.groups.mapped_as(&host),
            relays_addresses: self.gossip.has(peer.id()),
        }
    }

    /// What we are on the network.
    pub fn node_report(&self, config: &Config) -> NodeReport {
        let local = self.hub.local();
        let inbound = self.doors.values().filter(|door| !door.kind.is_outbound()).count();
        let network = |kind: HostKind| (kind, config.reachable.has(kind), proxy_of(config, kind));
        let own = self.gossip.own().iter().map(|(endpoint, score)| Own { endpoint: *endpoint, score: *score });
        NodeReport {
            is_active: self.active,
            services: local.services,
            relays_txs: local.relays_txs,
            user_agent: local.user_agent.clone(),
            connections: (inbound, self.doors.len() - inbound),
            time_offset_s: self.median_time_offset_s(),
            networks: HostKind::ALL.map(network).to_vec(),
            own: own.collect(),
        }
    }

    fn median_time_offset_s(&self) -> i64 {
        let chosen = self.hub.peers().filter(|peer| peer.setup().kind.is_outbound() && peer.is_ready());
        let mut offsets: Vec<i64> = chosen.map(|peer| peer.features().time_offset_s).collect();
        offsets.sort_unstable();
        if offsets.len() < CLOCKS_MIN { 0 } else { offsets[offsets.len() / 2] }
    }
}

/// True for a host of which a message can say nothing.
fn is_nowhere(host: &Host) -> bool {
    host.bytes().iter().all(|byte| *byte == 0)
}
