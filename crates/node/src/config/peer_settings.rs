//! The settings of the peers, a part of the table of all settings.
//!
//! In:     nothing.
//! Out:    [`PEER_SETTINGS`].
//! Fails:  never; the tests of the table hold every default to its own range.

use super::schema::{Setting, setting};
use super::value::Kind;

const P2P: &str = "peers";

/// Settings whose names begin with `p2p`, in the order of the file and the manual.
pub const PEER_SETTINGS: &[Setting] = &[
    setting(
        P2P,
        "p2p",
        Kind::Choice(&["auto", "on", "off"]),
        &[],
        "auto",
        "",
        "Talk to other nodes: download the chain from them and serve it. \"auto\" is on where the node keeps block files of \
         its own, and off where it reads those of another node.",
    ),
    setting(
        P2P,
        "peer_block_filters",
        Kind::Choice(&["on", "off"]),
        &[],
        "off",
        "",
        "Serve block filters to peers (BIP 157), once every block has its own. Needs block_filters.",
    ),
    setting(
        P2P,
        "peer_mempool",
        Kind::Choice(&["on", "off"]),
        &[],
        "off",
        "",
        "Tell any peer that asks the names of all transactions in the mempool (BIP 35), while the day's upload lasts. Bloom \
         filters (BIP 37), which Core switches on together with it, are not offered.",
    ),
    setting(
        P2P,
        "p2p_listen",
        Kind::Address,
        &["auto", "off"],
        "auto",
        "",
        "Where other nodes may connect to. \"auto\" is every interface with the network's usual port (8333 main), and \
         127.0.0.1 on regtest. Port 0 takes a free one.",
    ),
    setting(
        P2P,
        "p2p_whitebind",
        Kind::Text,
        &[],
        "",
        "",
        "More addresses to listen at, between blanks, whose guests may do more than others: permissions \
         between commas, @, address and port (noban,relay@127.0.0.1:8335). The permissions are bloomfilter, \
         noban, forcerelay, relay, mempool, download, addr and all; without any, those that p2p_whitelist \
         means.",
    ),
    setting(
        P2P,
        "p2p_whitelist",
        Kind::Text,
        &[],
        "",
        "",
        "Addresses and subnets, between blanks, that may do more than others: permissions between commas, @, \
         subnet (noban,download@192.168.0.0/16). \"in\" and \"out\" among them say on connections of \
         which direction, \"in\" where neither is said. Without permissions: noban, mempool, and relay as \
         the next two settings say.",
    ),
    setting(
        P2P,
        "p2p_whitelist_relay",
        Kind::Choice(&["on", "off"]),
        &[],
        "on",
        "",
        "Transactions of whitelisted nodes without permissions are relayed even where the node relays none.",
    ),
    setting(
        P2P,
        "p2p_whitelist_force_relay",
        Kind::Choice(&["on", "off"]),
        &[],
        "off",
        "",
        "Transactions of whitelisted nodes without permissions are relayed even where they are known already.",
    ),
    setting(
        P2P,
        "p2p_external",
        Kind::Text,
        &[],
        "",
        "",
        "What other nodes are told they can reach this node at, between commas: addresses or onion names, \
         with a port where it is not the usual one.",
    ),
    setting(
        P2P,
        "p2p_discover",
        Kind::Choice(&["auto", "on", "off"]),
        &[],
        "auto",
        "",
        "Tell other nodes the addresses of this machine that can be reached from everywhere. \"auto\" is \
         off where there is a proxy, or p2p_external says something.",
    ),
    setting(
        P2P,
        "p2p_connect",
        Kind::Text,
        &[],
        "",
        "",
        "Nodes to connect to, between commas, and no others: an address or name, with a port where it is not the usual one. \
         \"none\" connects to nobody.",
    ),
    setting(
        P2P,
        "p2p_add",
        Kind::Text,
        &[],
        "",
        "",
        "Nodes to stay connected to besides those the node finds itself, between commas.",
    ),
    setting(
        P2P,
        "p2p_seed_nodes",
        Kind::Text,
        &[],
        "",
        "",
        "Nodes to ask for addresses of others when too few are known, between commas.",
    ),
    setting(
        P2P,
        "p2p_only",
        Kind::Text,
        &[],
        "",
        "",
        "Kinds of networks to make connections in, between commas: ipv4, ipv6, onion, i2p, cjdns. Empty for all.",
    ),
    setting(
        P2P,
        "p2p_cjdns",
        Kind::Choice(&["on", "off"]),
        &[],
        "off",
        "",
        "Addresses that begin with fc are those of CJDNS, and can be reached.",
    ),
    setting(
        P2P,
        "p2p_asmap",
        Kind::Path,
        &["none"],
        "none",
        "",
        "A map from addresses to autonomous systems, as Bitcoin Core reads them: peers are then chosen from \
         different systems rather than from different parts of the address space. A damaged map is refused.",
    ),
    setting(
        P2P,
        "p2p_proxy",
        Kind::Address,
        &["none"],
        "none",
        "",
        "SOCKS5 proxy for all connections the node makes; names are then looked up by it alone.",
    ),
    setting(
        P2P,
        "p2p_proxy_random",
        Kind::Choice(&["on", "off"]),
        &[],
        "on",
        "",
        "Each connection through a proxy has a name and password of its own.",
    ),
    setting(
        P2P,
        "p2p_onion_proxy",
        Kind::Address,
        &["none"],
        "none",
        "",
        "SOCKS5 proxy for onion services, where it is another one.",
    ),
    setting(
        P2P,
        "p2p_tor_control",
        Kind::Address,
        &["none"],
        "none",
        "",
        "Control port of a Tor on this machine (usually 127.0.0.1:9051): an onion service is kept there for other nodes to \
         connect to. Tor's cookie file must be readable, or p2p_tor_password be set.",
    ),
    setting(
        P2P,
        "p2p_tor_password",
        Kind::Text,
        &[],
        "",
        "",
        "Password of the control port; Tor has its hash as HashedControlPassword.",
    ),
    setting(
        P2P,
        "p2p_i2p_sam",
        Kind::Address,
        &["none"],
        "none",
        "",
        "SAM bridge of an I2P router on this machine (usually 127.0.0.1:7656): connections in I2P are made \
         and taken there.",
    ),
    setting(
        P2P,
        "p2p_i2p_accept",
        Kind::Choice(&["on", "off"]),
        &[],
        "on",
        "",
        "Other nodes may connect through I2P, under an address that stays. With \"off\" each connection the \
         node makes has an address of its own.",
    ),
    setting(
        P2P,
        "p2p_outbound",
        Kind::Whole { min: 0, max: 64 },
        &[],
        "12",
        "connections",
        "Connections the node makes by itself, besides two for blocks only. While the chain is downloaded each is a source \
         of blocks.",
    ),
    setting(
        P2P,
        "p2p_inbound_max",
        Kind::Whole { min: 0, max: 10_000 },
        &[],
        "114",
        "connections",
        "Connections other nodes may make; where more come, those of least use to the network's diversity make room.",
    ),
    setting(
        P2P,
        "p2p_inbound_relay_percent",
        Kind::Whole { min: 0, max: 100 },
        &[],
        "50",
        "percent",
        "Part of p2p_inbound_max that nodes which want transactions may take; the rest is for those that want blocks only, \
         which cost less memory.",
    ),
    setting(
        P2P,
        "p2p_user_agent_comment",
        Kind::Text,
        &[],
        "",
        "",
        "Comments that the user agent ends with, between commas (BIP 14).",
    ),
    setting(
        P2P,
        "p2p_encrypt",
        Kind::Choice(&["on", "off"]),
        &[],
        "on",
        "",
        "Encrypted transport (BIP 324) with nodes that know it.",
    ),
    setting(
        P2P,
        "p2p_blocks_only",
        Kind::Choice(&["on", "off"]),
        &[],
        "off",
        "",
        "No transactions from other nodes, but from those whose permissions have relay; who sends them all the same is \
         disconnected. Transactions of the node's own users are passed on.",
    ),
    setting(
        P2P,
        "p2p_connect_ms",
        Kind::Whole { min: 1, max: 600_000 },
        &[],
        "5000",
        "ms",
        "Longest time for a connection to stand.",
    ),
    setting(
        P2P,
        "p2p_handshake_s",
        Kind::Whole { min: 1, max: 1 << 31 },
        &[],
        "60",
        "s",
        "Longest time for a new connection to say who is there.",
    ),
    setting(
        P2P,
        "p2p_ban_s",
        Kind::Whole { min: 1, max: 1 << 32 },
        &[],
        "86400",
        "s",
        "How long a ban holds that says nothing else.",
    ),
    setting(
        P2P,
        "p2p_seeds",
        Kind::Choice(&["on", "dns", "fixed", "off"]),
        &[],
        "on",
        "",
        "Ask the network's DNS seeds for nodes when too few are known, and take built-in addresses where they do not answer; \
         or do only one of both.",
    ),
    setting(
        P2P,
        "p2p_upload_mib_per_day",
        Kind::Whole { min: 1, max: 1 << 30 },
        &["none"],
        "none",
        "MiB",
        "Bytes sent in a day; when they are nearly spent only new blocks are served, the rest of the day.",
    ),
];
