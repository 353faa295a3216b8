//! One connection, one address, one kind of network: from `net`'s types to the rows of `getpeerinfo` and its like.
//!
//! In:     reports of the shell.
//! Out:    `serve`'s plain data.
//! Fails:  never.
//! Source: Bitcoin Core, `src/rpc/net.cpp`, `CNode::CopyStats`, `GetNodeStateStats`.

use net::Moment;
use net::hosts::HostKind;
use net::peer::Traffic;
use net::shell::{PeerReport, Raw};
use net::transport::TransportKind;
use net::wire::PeerAddress;
use serve::rpc::needs::{KnownAddress, Peer, RawAddress};
use stdx::hex;

/// Core's name for bytes of messages it does not know.
const OTHER_MESSAGES: &str = "*other*";
/// Core's name for hosts that nobody else could reach.
const UNROUTABLE: &str = "not_publicly_routable";

fn seconds(moment: Option<Moment>) -> u64 {
    moment.map_or(0, |moment| moment.unix_s)
}

fn by_message(traffic: &Traffic) -> Vec<(String, u64)> {
    let name = |command: &Option<net::wire::Command>| {
        command.map_or(OTHER_MESSAGES.to_owned(), |command| command.name().to_owned())
    };
    // By name, as Core's map has them.
    let mut rows: Vec<(String, u64)> =
        traffic.by_message.iter().map(|(command, bytes)| (name(command), *bytes)).collect();
    rows.sort();
    rows
}

/// A connection as `getpeerinfo` shows it.
pub fn peer(report: &PeerReport, now: Moment) -> Peer {
    let (features, statistics) = (&report.features, &report.statistics);
    let version = features.version.as_ref();
    let height = |height: Option<u32>| height.map_or(-1, i64::from);
    let kind = report.setup.kind;
    Peer {
        id: report.setup.id.0,
        address: report.name.clone(),
        bound: report.bound.map(|bound| bound.to_string()),
        local: report.seen_as().map(|seen| seen.to_string()),
        network: report.network.map_or(UNROUTABLE, HostKind::name),
        mapped_as: report.mapped_as,
        services: version.map_or(0, |version| version.services.0),
        relays: kind.relays_txs() && features.wants_txs(),
        last_inv_sequence: report.talk.told_sequence,
        to_announce: report.talk.to_tell as u64,
        last_send_s: seconds(statistics.sent.last),
        last_receive_s: seconds(statistics.received.last),
        last_transaction_s: seconds(statistics.last_tx),
        last_block_s: seconds(statistics.last_block),
        bytes_sent: statistics.sent.bytes,
        bytes_received: statistics.received.bytes,
        connected_s: statistics.connected.unix_s,
        time_offset_s: features.time_offset_s,
        ping: report.latency.last,
        ping_least: report.latency.least,
        ping_waiting: report.latency.waiting_since.map(|since| now.since(&since)),
        version: version.map_or(0, |version| version.protocol.max(0) as u32),
        user_agent: version.map(|version| version.user_agent_text()).unwrap_or_default(),
        inbound: !kind.is_outbound(),
        high_bandwidth_to: report.talk.announces_compact,
        high_bandwidth_from: features.compact_at_once,
        presynced_headers: height(report.talk.presynced_headers),
        synced_headers: height(report.talk.synced_headers),
        synced_blocks: height(report.talk.synced_blocks),
        in_flight: report.talk.in_flight.clone(),
        address_relay: report.relays_addresses,
        addresses_processed: statistics.addresses_processed,
        addresses_limited: statistics.addresses_limited,
        permissions: report.setup.permissions.names().into_iter().map(str::to_owned).collect(),
        fee_filter_sat_per_kvb: features.fee_filter_sat_per_kvb,
        sent_by_message: by_message(&statistics.sent),
        received_by_message: by_message(&statistics.received),
        connection_type: kind.name(),
        transport: match report.transport {
            TransportKind::Detecting => "detecting",
            TransportKind::V1 => "v1",
            TransportKind::V2 => "v2",
        },
        session_id: report.session_id.map(|id| hex::encode(&id)).unwrap_or_default(),
    }
}

/// An address of the book.
pub fn known(address: &PeerAddress) -> KnownAddress {
    KnownAddress {
        time_s: u64::from(address.time_s),
        services: address.services.0,
        address: address.endpoint.host.to_string(),
        port: address.endpoint.port,
        network: HostKind::of(&address.endpoint.host).name(),
    }
}

/// A place of the book.
pub fn raw(raw: &Raw) -> RawAddress {
    RawAddress {
        bucket: raw.entry.bucket,
        position: raw.entry.position,
        known: known(&raw.entry.address),
        mapped_as: raw.mapped_as,
        source: raw.entry.source.to_string(),
        source_network: HostKind::of(&raw.entry.source).name(),
        source_mapped_as: raw.source_mapped_as,
    }
}
