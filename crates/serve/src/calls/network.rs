//! Peers: who they are, what moved, whom to connect to and whom to keep out.
//!
//! In:     addresses, subnets, numbers of peers.
//! Out:    objects with Core's members.
//! Fails:  -31 without a network, and Core's sentences.
//! Source: Bitcoin Core, `src/rpc/net.cpp`, `src/protocol.cpp` (`serviceFlagsToStr`).

use primitives::Network;

use crate::json::Json;
use crate::rpc::call::Call;
use crate::rpc::error::{Outcome, RpcError, code};
use crate::rpc::help;
use crate::rpc::method::{Arg, HIDDEN, Kind, Method};
use crate::rpc::needs::{Peer, RawAddress};

/// The version that clients compare with Core's: 31.0.0.
const CORE_VERSION: u32 = 310_000;
/// Names of networks in Core's answers.
const NETWORK_NAMES: [&str; 5] = ["ipv4", "ipv6", "onion", "i2p", "cjdns"];
/// Bytes of a message's name.
const MESSAGE_NAME_MAX: usize = 12;

/// Services by their bits.
const SERVICES: [(u32, &str); 6] =
    [(0, "NETWORK"), (2, "BLOOM"), (3, "WITNESS"), (6, "COMPACT_FILTERS"), (10, "NETWORK_LIMITED"), (11, "P2P_V2")];

fn write_services(prefix: &str, services: u64, json: &mut Json<'_>) {
    json.key(&format!("{prefix}services")).text(&format!("{services:016x}"));
    json.key(&format!("{prefix}servicesnames")).begin_array();
    for bit in (0..64).filter(|bit| services >> bit & 1 == 1) {
        match SERVICES.iter().find(|(known, _)| *known == bit) {
            Some((_, name)) => json.text(name),
            None => json.text(&format!("UNKNOWN[2^{bit}]")),
        }
    }
    json.end_array();
}

fn write_bytes_by_message(name: &str, rows: &[(String, u64)], json: &mut Json<'_>) {
    json.key(name).begin_object();
    for (message, bytes) in rows.iter().filter(|(_, bytes)| *bytes > 0) {
        json.key_of(message).number(*bytes);
    }
    json.end_object();
}

fn write_peer(peer: &Peer, json: &mut Json<'_>) {
    json.begin_object();
    json.key("id").number(peer.id);
    json.key("addr").text(&peer.address);
    if let Some(bound) = &peer.bound {
        json.key("addrbind").text(bound);
    }
    if let Some(local) = &peer.local {
        json.key("addrlocal").text(local);
    }
    json.key("network").text(peer.network);
    if peer.mapped_as != 0 {
        json.key("mapped_as").number(peer.mapped_as);
    }
    write_services("", peer.services, json);
    json.key("relaytxes").bool(peer.relays);
    json.key("last_inv_sequence").number(peer.last_inv_sequence);
    json.key("inv_to_send").number(peer.to_announce);
    json.key("lastsend").number(peer.last_send_s);
    json.key("lastrecv").number(peer.last_receive_s);
    json.key("last_transaction").number(peer.last_transaction_s);
    json.key("last_block").number(peer.last_block_s);
    json.key("bytessent").number(peer.bytes_sent);
    json.key("bytesrecv").number(peer.bytes_received);
    json.key("conntime").number(peer.connected_s);
    json.key("timeoffset").number(peer.time_offset_s);
    for (name, time) in [("pingtime", peer.ping), ("minping", peer.ping_least), ("pingwait", peer.ping_waiting)] {
        if let Some(time) = time {
            json.key(name).float(time.as_secs_f64());
        }
    }
    json.key("version").number(peer.version);
    json.key("subver").text(&peer.user_agent);
    json.key("inbound").bool(peer.inbound);
    json.key("bip152_hb_to").bool(peer.high_bandwidth_to);
    json.key("bip152_hb_from").bool(peer.high_bandwidth_from);
    json.key("presynced_headers").number(peer.presynced_headers);
    json.key("synced_headers").number(peer.synced_headers);
    json.key("synced_blocks").number(peer.synced_blocks);
    json.key("inflight").begin_array();
    peer.in_flight.iter().for_each(|height| json.number(*height));
    json.end_array();
    json.key("addr_relay_enabled").bool(peer.address_relay);
    json.key("addr_processed").number(peer.addresses_processed);
    json.key("addr_rate_limited").number(peer.addresses_limited);
    json.key("permissions").begin_array();
    peer.permissions.iter().for_each(|permission| json.text(permission));
    json.end_array();
    json.key("minfeefilter").amount(peer.fee_filter_sat_per_kvb);
    write_bytes_by_message("bytessent_per_msg", &peer.sent_by_message, json);
    write_bytes_by_message("bytesrecv_per_msg", &peer.received_by_message, json);
    json.key("connection_type").text(peer.connection_type);
    json.key("transport_protocol_type").text(peer.transport);
    json.key("session_id").text(&peer.session_id);
    json.end_object();
}

fn peer_info(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let peers = call.network()?.peers();
    json.begin_array();
    peers.iter().for_each(|peer| write_peer(peer, json));
    json.end_array();
    Ok(())
}

fn connection_count(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let state = call.network()?.state();
    json.number(state.inbound + state.outbound);
    Ok(())
}

fn network_info(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    // Clients ask for the version before anything else, so it is told without a network too.
    let network = call.env.network.get();
    let state = network.map(|network| network.state()).unwrap_or_default();
    json.begin_object();
    json.key("version").number(CORE_VERSION);
    let agent = format!("/Assay:{}/", env!("CARGO_PKG_VERSION"));
    json.key("subversion").text(if state.user_agent.is_empty() { &agent } else { &state.user_agent });
    json.key("protocolversion").number(if network.is_some() { state.protocol_version } else { 70_016 });
    write_services("local", state.services, json);
    json.key("localrelay").bool(state.relays);
    json.key("timeoffset").number(state.time_offset_s);
    json.key("networkactive").bool(state.active);
    json.key("connections").number(state.inbound + state.outbound);
    json.key("connections_in").number(state.inbound);
    json.key("connections_out").number(state.outbound);
    json.key("networks").begin_array();
    for network in &state.reachable {
        json.begin_object();
        json.key("name").text(network.name);
        json.key("limited").bool(!network.reachable);
        json.key("reachable").bool(network.reachable);
        json.key("proxy").text(&network.proxy);
        json.key("proxy_randomize_credentials").bool(network.random_credentials);
        json.end_object();
    }
    json.end_array();
    let totals = call.env.mempool.get().map(|mempool| mempool.totals()).unwrap_or_default();
    json.key("relayfee").amount(totals.relay_floor_sat_per_kvb);
    json.key("incrementalfee").amount(totals.increment_sat_per_kvb);
    json.key("localaddresses").begin_array();
    for (address, port, score) in &state.local_addresses {
        json.begin_object();
        json.key("address").text(address);
        json.key("port").number(*port);
        json.key("score").number(*score);
        json.end_object();
    }
    json.end_array();
    super::chaininfo::write_warnings(call.env, json);
    json.end_object();
    Ok(())
}

fn net_totals(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let traffic = call.network()?.traffic();
    json.begin_object();
    json.key("totalbytesrecv").number(traffic.received_bytes);
    json.key("totalbytessent").number(traffic.sent_bytes);
    json.key("timemillis").number(call.env.host.unix_s() * 1000);
    json.key("uploadtarget").begin_object();
    json.key("timeframe").number(traffic.upload_frame_s);
    json.key("target").number(traffic.upload_bytes_max);
    json.key("target_reached").bool(traffic.upload_reached);
    json.key("serve_historical_blocks").bool(traffic.serves_old_blocks);
    json.key("bytes_left_in_cycle").number(traffic.upload_bytes_left);
    json.key("time_left_in_cycle").number(traffic.upload_s_left);
    json.end_object();
    json.end_object();
    Ok(())
}

fn ping(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    call.network()?.ping();
    json.null();
    Ok(())
}

fn add_node(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let (node, command, v2) = (call.text(0)?, call.text(1)?, call.optional_bool(2)?);
    if !["onetry", "add", "remove"].contains(&&*command) {
        return Err(RpcError::misc(help::of(call.method)));
    }
    let network = call.network()?;
    if node.trim().is_empty() {
        return Err(RpcError::parameter("Error: Node address cannot be empty"));
    }
    match &*command {
        "onetry" => network.try_node(&node, v2)?,
        "add" => network.add_node(&node, v2)?,
        _ => network.remove_node(&node)?,
    }
    json.null();
    Ok(())
}

fn add_connection(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    if call.chain_params().network != Network::Regtest {
        return Err(RpcError::misc("addconnection is for regression testing (-regtest mode) only."));
    }
    let (address, kind, v2) = (call.text(0)?, call.text(1)?, call.bool(2)?);
    let kind = kind.trim();
    if !["outbound-full-relay", "block-relay-only", "addr-fetch", "feeler"].contains(&kind) {
        return Err(RpcError::parameter(help::of(call.method)));
    }
    call.network()?.open_connection(&address, kind, v2)?;
    json.begin_object();
    json.key("address").text(&address);
    json.key("connection_type").text(kind);
    json.end_object();
    Ok(())
}

fn disconnect_node(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let (address, id) = (call.optional_text(0)?, call.optional_integer::<i64>(1)?);
    let network = call.network()?;
    let ended = match (address.as_deref(), id) {
        (Some(address), None) => network.disconnect_address(address),
        (None | Some(""), Some(id)) => u64::try_from(id).is_ok_and(|id| network.disconnect_id(id)),
        _ => {
            let told = "Only one of address and nodeid should be provided.";
            return Err(RpcError::new(code::INVALID_PARAMS, told));
        }
    };
    if !ended {
        return Err(RpcError::new(code::CLIENT_NODE_NOT_CONNECTED, "Node not found in connected nodes"));
    }
    json.null();
    Ok(())
}

fn added_node_info(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let mut nodes = call.network()?.added_nodes();
    if let Some(wanted) = call.optional_text(0)? {
        nodes.retain(|node| node.name == wanted);
        if nodes.is_empty() {
            return Err(RpcError::new(code::CLIENT_NODE_NOT_ADDED, "Error: Node has not been added."));
        }
    }
    json.begin_array();
    for node in nodes {
        json.begin_object();
        json.key("addednode").text(&node.name);
        json.key("connected").bool(node.connected.is_some());
        json.key("addresses").begin_array();
        if let Some((address, inbound)) = &node.connected {
            json.begin_object();
            json.key("address").text(address);
            json.key("connected").text(if *inbound { "inbound" } else { "outbound" });
            json.end_object();
        }
        json.end_array();
        json.end_object();
    }
    json.end_array();
    Ok(())
}

fn set_ban(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let (subnet, command) = (call.text(0)?, call.text(1)?);
    if !["add", "remove"].contains(&&*command) {
        return Err(RpcError::misc(help::of(call.method)));
    }
    let network = call.network()?;
    match &*command {
        "add" => network.ban(&subnet, call.integer(2)?, call.bool(3)?)?,
        _ => network.unban(&subnet)?,
    }
    json.null();
    Ok(())
}

fn list_banned(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let (bans, now_s) = (call.network()?.bans(), call.env.host.unix_s());
    json.begin_array();
    for ban in bans {
        json.begin_object();
        json.key("address").text(&ban.subnet);
        json.key("ban_created").number(ban.since_s);
        json.key("banned_until").number(ban.until_s);
        json.key("ban_duration").number(ban.until_s.saturating_sub(ban.since_s));
        json.key("time_remaining").number(ban.until_s.saturating_sub(now_s));
        json.end_object();
    }
    json.end_array();
    Ok(())
}

fn clear_banned(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    call.network()?.clear_bans();
    json.null();
    Ok(())
}

fn set_network_active(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let network = call.network()?;
    network.set_active(call.bool(0)?);
    json.bool(network.state().active);
    Ok(())
}

fn node_addresses(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let count: i32 = call.integer(0)?;
    let count = usize::try_from(count).map_err(|_| RpcError::parameter("Address count out of range"))?;
    let name = call.optional_text(1)?;
    if let Some(unknown) = name.as_deref().filter(|name| !NETWORK_NAMES.contains(name)) {
        return Err(RpcError::parameter(format!("Network not recognized: {unknown}")));
    }
    json.begin_array();
    for known in call.network()?.addresses(count, name.as_deref()) {
        json.begin_object();
        json.key("time").number(known.time_s);
        json.key("services").number(known.services);
        json.key("address").text(&known.address);
        json.key("port").number(known.port);
        json.key("network").text(known.network);
        json.end_object();
    }
    json.end_array();
    Ok(())
}

fn add_peer_address(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let (address, port, tried) = (call.text(0)?, call.integer(1)?, call.bool(2)?);
    let refused = call.network()?.add_address(&address, port, tried)?;
    json.begin_object();
    if let Some(told) = refused {
        json.key("error").text(told);
    }
    json.key("success").bool(refused.is_none());
    json.end_object();
    Ok(())
}

fn address_manager_info(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let mut rows = call.network()?.address_counts();
    let (new, tried) = rows.iter().fold((0, 0), |(new, tried), row| (new + row.1, tried + row.2));
    rows.push(("all_networks", new, tried));
    json.begin_object();
    for (name, new, tried) in rows {
        json.key(name).begin_object();
        json.key("new").number(new);
        json.key("tried").number(tried);
        json.key("total").number(new + tried);
        json.end_object();
    }
    json.end_object();
    Ok(())
}

fn write_raw_address(raw: &RawAddress, json: &mut Json<'_>) {
    json.key_of(&format!("{}/{}", raw.bucket, raw.position)).begin_object();
    json.key("address").text(&raw.known.address);
    if raw.mapped_as != 0 {
        json.key("mapped_as").number(raw.mapped_as);
    }
    json.key("port").number(raw.known.port);
    json.key("services").number(raw.known.services);
    json.key("time").number(raw.known.time_s);
    json.key("network").text(raw.known.network);
    json.key("source").text(&raw.source);
    json.key("source_network").text(raw.source_network);
    if raw.source_mapped_as != 0 {
        json.key("source_mapped_as").number(raw.source_mapped_as);
    }
    json.end_object();
}

fn raw_addresses(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let network = call.network()?;
    json.begin_object();
    for (name, tried) in [("new", false), ("tried", true)] {
        json.key(name).begin_object();
        network.raw_addresses(tried).iter().for_each(|raw| write_raw_address(raw, json));
        json.end_object();
    }
    json.end_object();
    Ok(())
}

fn send_message(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let (id, message): (i64, _) = (call.integer(0)?, call.text(1)?);
    if message.len() > MESSAGE_NAME_MAX {
        let told = format!("Error: msg_type too long, max length is {MESSAGE_NAME_MAX}");
        return Err(RpcError::parameter(told));
    }
    let payload = stdx::hex::decode(&call.text(2)?).map_err(|_| RpcError::parameter("Error parsing input for msg"))?;
    let network = call.network()?;
    if !u64::try_from(id).is_ok_and(|id| network.send_message(id, &message, &payload)) {
        return Err(RpcError::misc("Error: Could not send message to peer"));
    }
    json.begin_object();
    json.end_object();
    Ok(())
}

fn block_from_peer(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let (hash, id): (_, i64) = (call.block_hash(0, "blockhash")?, call.integer(1)?);
    let (network, view) = (call.network()?, call.view()?);
    let known = crate::rpc::located::Located::find(call.env, &view, &hash)?;
    let block = known.ok_or_else(|| RpcError::misc("Block header missing"))?;
    if block.is_active() || matches!(block.stale, Some(Some(_))) {
        return Err(RpcError::misc("Block already downloaded"));
    }
    let id = u64::try_from(id).map_err(|_| RpcError::misc("Peer does not exist"))?;
    network.fetch_block(id, &hash)?;
    json.begin_object();
    json.end_object();
    Ok(())
}

const ADDRESS: Arg = Arg::required("address", Kind::Text, "An address, with a port where it is not the usual one.");

macro_rules! method {
    ($name:literal, $category:expr, $args:expr, $about:literal, $result:literal, $run:ident) => {
        Method { name: $name, category: $category, args: $args, about: $about, result: $result, run: $run }
    };
}

/// The methods of this file.
#[rustfmt::skip]
pub const METHODS: &[Method] = &[
    method!("getpeerinfo", "network", &[], "Every connection.", "array of objects", peer_info),
    method!("getconnectioncount", "network", &[], "Number of connections.", "number", connection_count),
    method!("getnetworkinfo", "network", &[], "What this node is on the network.",
        "object: version, subversion, protocolversion, localservices, localservicesnames, localrelay, timeoffset, networkactive, \
         connections, connections_in, connections_out, networks, relayfee, incrementalfee, localaddresses, warnings", network_info),
    method!("getnettotals", "network", &[], "Bytes that moved.", "object: totalbytesrecv, totalbytessent, timemillis, uploadtarget", net_totals),
    method!("ping", "network", &[], "Sends a ping to every peer; getpeerinfo shows the times.", "null", ping),
    method!("addnode", "network", &[
            Arg::required("node", Kind::Text, "The node's address."),
            Arg::required("command", Kind::Text, "add, remove or onetry."),
            Arg::hint("v2transport", Kind::Bool, "what the node prefers", "Whether to try the encrypted transport."),
        ], "Keeps a node connected, forgets it, or tries it once.", "null", add_node),
    method!("disconnectnode", "network", &[
            Arg::hint("address", Kind::Text, "see nodeid", "The peer's address and port."),
            Arg::hint("nodeid", Kind::Number, "see address", "The peer's number."),
        ], "Ends one connection.", "null", disconnect_node),
    method!("getaddednodeinfo", "network", &[Arg::hint("node", Kind::Text, "all nodes", "Only this node.")],
        "Nodes that were added.", "array of objects: addednode, connected, addresses", added_node_info),
    method!("setban", "network", &[
            Arg::required("subnet", Kind::Text, "An address, or one with the number of its leading bits."),
            Arg::required("command", Kind::Text, "add or remove."),
            Arg::default("bantime", Kind::Number, "0", "Seconds; 0 for a day."),
            Arg::default("absolute", Kind::Bool, "false", "Whether bantime is a moment, in seconds since 1970."),
        ], "Keeps an address out, or lets it in again.", "null", set_ban),
    method!("listbanned", "network", &[], "Addresses that are kept out.",
        "array of objects: address, ban_created, banned_until, ban_duration, time_remaining", list_banned),
    method!("clearbanned", "network", &[], "Lets every address in again.", "null", clear_banned),
    method!("setnetworkactive", "network", &[Arg::required("state", Kind::Bool, "false ends all connections.")],
        "Switches the network on or off.", "boolean", set_network_active),
    method!("getnodeaddresses", "network", &[
            Arg::default("count", Kind::Number, "1", "Addresses at most; 0 for all."),
            Arg::hint("network", Kind::Text, "all networks", "ipv4, ipv6, onion, i2p or cjdns."),
        ], "Addresses of nodes that are known.", "array of objects: time, services, address, port, network", node_addresses),
    method!("getaddrmaninfo", "network", &[], "Number of known addresses by network.", "object of objects: new, tried, total", address_manager_info),
    method!("getblockfrompeer", "blockchain", &[
            Arg::required("blockhash", Kind::Hex, "A block whose header is known."),
            Arg::required("peer_id", Kind::Number, "The peer's number."),
        ], "Asks one peer for a block.", "object", block_from_peer),
    method!("addconnection", HIDDEN, &[ADDRESS,
            Arg::required("connection_type", Kind::Text, "outbound-full-relay, block-relay-only, addr-fetch or feeler."),
            Arg::required("v2transport", Kind::Bool, "Whether to use the encrypted transport."),
        ], "Opens a connection, on regtest only.", "object: address, connection_type", add_connection),
    method!("getrawaddrman", HIDDEN, &[], "Every place of the address book that is taken.",
        "object: new, tried; each an object of objects by bucket and position: address, mapped_as, port, services, time, network, \
         source, source_network, source_mapped_as", raw_addresses),
    method!("addpeeraddress", HIDDEN, &[ADDRESS,
            Arg::required("port", Kind::Number, "The port."),
            Arg::default("tried", Kind::Bool, "false", "Whether it counts as reached before."),
        ], "Puts an address into the book, for tests.", "object: success, error", add_peer_address),
    method!("sendmsgtopeer", HIDDEN, &[
            Arg::required("peer_id", Kind::Number, "The peer's number."),
            Arg::required("msg_type", Kind::Text, "The message's name."),
            Arg::required("msg", Kind::Hex, "The message's content."),
        ], "Sends any message to one peer, for tests.", "object", send_message),
];
