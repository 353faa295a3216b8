//! The methods of the protocol, 1.4 to 1.7: names, parameters, versions, and what each answers.
//!
//! In:     a session's state and checked arguments.
//! Out:    the result appended to a buffer whose answer is already open, or a stream that will write it.
//! Fails:  [`Fault`].
//! Source: Electrum protocol 1.4 to 1.7, docs/protocol-methods.rst; where it is silent, ElectrumX; Fulcrum for what only
//!         Fulcrum has besides.

use super::stream::Stream;
use super::{about, fees, headers, outpoints, scripts, sending, transactions};
use crate::electrum::error::{Error, Fault};
use crate::electrum::machine::Machine;
use crate::electrum::params::Arguments;
use crate::electrum::version::{OLDEST, V1_6, V1_7, Version};

/// What a method left behind.
pub enum Reply {
    /// The result is in the buffer.
    Written,
    /// The result will come in pages.
    Stream(Stream),
}

type Call = fn(&mut Machine, &Arguments<'_>, &mut Vec<u8>) -> Result<Reply, Fault>;

/// One method.
#[derive(Clone, Copy)]
pub struct Method {
    /// Its name on the wire.
    pub name: &'static str,
    /// Its parameters' names, in order.
    pub params: &'static [&'static str],
    /// Ignores parameters beyond those.
    pub extra: bool,
    /// The first version that has it.
    pub since: Version,
    /// The first version after those that have it.
    pub before: Option<Version>,
    /// What it does.
    pub call: Call,
}

impl Method {
    /// True where a version has it.
    pub fn is_of(&self, version: Version) -> bool {
        self.since <= version && self.before.is_none_or(|before| version < before)
    }

    const fn since(mut self, version: Version) -> Method {
        self.since = version;
        self
    }

    const fn before(mut self, version: Version) -> Method {
        self.before = Some(version);
        self
    }
}

const fn method(name: &'static str, params: &'static [&'static str], call: Call) -> Method {
    Method { name, params, extra: false, since: OLDEST, before: None, call }
}

/// The method that comes first.
pub const VERSION: &str = "server.version";

const HASH: &[&str] = &["scripthash"];
const SPK: &[&str] = &["spk"];
const ADDRESS: &[&str] = &["address"];
const OUTPOINT: &[&str] = &["tx_hash", "txout_idx", "spk_hint"];

/// Every method, the ones asked most often first.
#[rustfmt::skip]
pub const METHODS: &[Method] = &[
    method("blockchain.scripthash.subscribe", HASH, scripts::subscribe).before(V1_7),
    method("blockchain.scripthash.get_history", &["scripthash", "from_height", "to_height"], scripts::get_history).before(V1_7),
    method("blockchain.transaction.get", &["tx_hash", "verbose"], transactions::get),
    method("blockchain.transaction.get_merkle", &["tx_hash", "height"], transactions::get_merkle),
    method("blockchain.scripthash.get_balance", HASH, scripts::get_balance).before(V1_7),
    method("blockchain.scripthash.listunspent", HASH, scripts::listunspent).before(V1_7),
    method("blockchain.scripthash.get_mempool", HASH, scripts::get_mempool).before(V1_7),
    method("blockchain.scripthash.unsubscribe", HASH, scripts::unsubscribe).before(V1_7),
    method("blockchain.scriptpubkey.subscribe", SPK, scripts::subscribe).since(V1_7),
    method("blockchain.scriptpubkey.get_history", &["spk", "from_height", "to_height"], scripts::get_history).since(V1_7),
    method("blockchain.scriptpubkey.get_balance", SPK, scripts::get_balance).since(V1_7),
    method("blockchain.scriptpubkey.listunspent", SPK, scripts::listunspent).since(V1_7),
    method("blockchain.scriptpubkey.get_mempool", SPK, scripts::get_mempool).since(V1_7),
    method("blockchain.scriptpubkey.unsubscribe", SPK, scripts::unsubscribe).since(V1_7),
    method("blockchain.block.header", &["height", "cp_height"], headers::block_header),
    method("blockchain.block.headers", &["start_height", "count", "cp_height"], headers::block_headers),
    method("blockchain.headers.subscribe", &["raw"], headers::subscribe),
    method("blockchain.transaction.id_from_pos", &["height", "tx_pos", "merkle"], transactions::id_from_pos),
    method("blockchain.transaction.broadcast", &["raw_tx"], sending::broadcast),
    method("blockchain.transaction.broadcast_package", &["raw_txs", "verbose"], sending::broadcast_package).since(V1_6),
    method("blockchain.transaction.testmempoolaccept", &["raw_txs"], sending::test_accept).since(V1_7),
    method("blockchain.outpoint.subscribe", OUTPOINT, outpoints::subscribe).since(V1_7),
    method("blockchain.outpoint.get_status", OUTPOINT, outpoints::get_status).since(V1_7),
    method("blockchain.outpoint.unsubscribe", &["tx_hash", "txout_idx"], outpoints::unsubscribe).since(V1_7),
    method("blockchain.estimatefee", &["number", "mode"], fees::estimatefee),
    method("blockchain.relayfee", &[], fees::relayfee).before(V1_6),
    method("mempool.get_fee_histogram", &[], fees::get_fee_histogram),
    method("mempool.get_info", &[], fees::get_info).since(V1_6),
    method("mempool.recent", &[], fees::recent).since(V1_7),
    Method { extra: true, ..method(VERSION, &["client_name", "protocol_version"], about::version) },
    method("server.ping", &[], about::ping).before(V1_7),
    method("server.ping", &["pong_len", "data"], about::ping_with_data).since(V1_7),
    method("server.features", &[], about::features),
    method("server.banner", &[], about::banner),
    method("server.donation_address", &[], about::donation_address),
    method("server.peers.subscribe", &[], about::peers_subscribe),
    method("server.add_peer", &["features"], about::add_peer),
    // What Fulcrum has besides; in every version.
    method("blockchain.scripthash.get_first_use", HASH, scripts::get_first_use),
    method("blockchain.scripthash.get_status", HASH, scripts::get_status),
    method("blockchain.address.subscribe", ADDRESS, scripts::subscribe),
    method("blockchain.address.get_history", &["address", "from_height", "to_height"], scripts::get_history),
    method("blockchain.address.get_balance", ADDRESS, scripts::get_balance),
    method("blockchain.address.listunspent", ADDRESS, scripts::listunspent),
    method("blockchain.address.get_mempool", ADDRESS, scripts::get_mempool),
    method("blockchain.address.unsubscribe", ADDRESS, scripts::unsubscribe),
    method("blockchain.address.get_first_use", ADDRESS, scripts::get_first_use),
    method("blockchain.address.get_status", ADDRESS, scripts::get_status),
    method("blockchain.address.get_scripthash", ADDRESS, scripts::get_scripthash),
    method("blockchain.header.get", &["block_hash"], headers::get),
    method("blockchain.headers.get_tip", &[], headers::get_tip),
    method("blockchain.headers.unsubscribe", &[], headers::unsubscribe),
    method("blockchain.transaction.get_height", &["tx_hash"], transactions::get_height),
    method("blockchain.transaction.get_confirmed_blockhash", &["tx_hash", "include_header"], transactions::get_confirmed_blockhash),
    method("blockchain.transaction.subscribe", &["tx_hash"], transactions::subscribe),
    method("blockchain.transaction.unsubscribe", &["tx_hash"], transactions::unsubscribe),
    method("blockchain.utxo.get_info", &["tx_hash", "out_n"], outpoints::get_info),
    // What Sparrow asks servers that have it; in every version.
    method("blockchain.block.stats", &["height"], headers::block_stats),
];

/// The number of the method that a version has under a name; before there is a version, of any.
pub fn find(name: &str, version: Option<Version>) -> Option<usize> {
    let is_it = |method: &Method| method.name == name && version.is_none_or(|version| method.is_of(version));
    METHODS.iter().position(is_it)
}

pub(super) fn write(out: &mut Vec<u8>, text: &str) -> Result<Reply, Fault> {
    out.extend_from_slice(text.as_bytes());
    Ok(Reply::Written)
}

/// Refuses questions about addresses and transactions while the index does not hold everything known.
pub(super) fn require_ready(machine: &Machine) -> Result<(), Error> {
    let progress = machine.env.source.progress();
    if progress.ready { Ok(()) } else { Err(Error::Syncing(progress)) }
}
