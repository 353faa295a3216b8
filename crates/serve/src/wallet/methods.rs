//! The methods of protocol 1.4: names, parameters, and what each answers.
//!
//! In:     a session's state and checked arguments.
//! Out:    the result appended to a buffer whose answer is already open, or a stream that will write it.
//! Fails:  [`Fault`].
//! Source: Electrum protocol 1.4.3, docs/protocol-methods.rst; where it is silent, ElectrumX.

use super::stream::Stream;
use super::{about, fees, headers, scripts, transactions};
use crate::electrum::error::{Error, Fault};
use crate::electrum::machine::Machine;
use crate::electrum::params::Arguments;

/// What a method left behind.
pub enum Reply {
    /// The result is in the buffer.
    Written,
    /// The result will come in pages.
    Stream(Stream),
}

type Call = fn(&mut Machine, &Arguments<'_>, &mut Vec<u8>) -> Result<Reply, Fault>;

/// One method.
pub struct Method {
    /// Its name on the wire.
    pub name: &'static str,
    /// Its parameters' names, in order.
    pub params: &'static [&'static str],
    /// Ignores parameters beyond those.
    pub extra: bool,
    /// What it does.
    pub call: Call,
}

const fn method(name: &'static str, params: &'static [&'static str], call: Call) -> Method {
    Method { name, params, extra: false, call }
}

/// The method that comes first.
pub const VERSION: &str = "server.version";

/// Every method, the ones asked most often first.
pub const METHODS: &[Method] = &[
    method("blockchain.scripthash.subscribe", &["scripthash"], scripts::scripthash_subscribe),
    method("blockchain.scripthash.get_history", &["scripthash"], scripts::scripthash_get_history),
    method("blockchain.transaction.get", &["tx_hash", "verbose"], transactions::transaction_get),
    method("blockchain.transaction.get_merkle", &["tx_hash", "height"], transactions::transaction_get_merkle),
    method("blockchain.scripthash.get_balance", &["scripthash"], scripts::scripthash_get_balance),
    method("blockchain.scripthash.listunspent", &["scripthash"], scripts::scripthash_listunspent),
    method("blockchain.scripthash.get_mempool", &["scripthash"], scripts::scripthash_get_mempool),
    method("blockchain.scripthash.unsubscribe", &["scripthash"], scripts::scripthash_unsubscribe),
    method("blockchain.block.header", &["height", "cp_height"], headers::block_header),
    method("blockchain.block.headers", &["start_height", "count", "cp_height"], headers::block_headers),
    method("blockchain.headers.subscribe", &[], headers::headers_subscribe),
    method(
        "blockchain.transaction.id_from_pos",
        &["height", "tx_pos", "merkle"],
        transactions::transaction_id_from_pos,
    ),
    method("blockchain.transaction.broadcast", &["raw_tx"], transactions::transaction_broadcast),
    method("blockchain.estimatefee", &["number", "mode"], fees::estimatefee),
    method("blockchain.relayfee", &[], fees::relayfee),
    method("mempool.get_fee_histogram", &[], fees::fee_histogram),
    Method { name: VERSION, params: &["client_name", "protocol_version"], extra: true, call: about::server_version },
    method("server.ping", &[], about::server_ping),
    method("server.features", &[], about::server_features),
    method("server.banner", &[], about::server_banner),
    method("server.donation_address", &[], about::server_donation_address),
    method("server.peers.subscribe", &[], about::server_peers_subscribe),
];

pub(super) fn write(out: &mut Vec<u8>, text: &str) -> Result<Reply, Fault> {
    out.extend_from_slice(text.as_bytes());
    Ok(Reply::Written)
}

/// Refuses questions about addresses and transactions while the index does not hold everything known.
pub(super) fn require_ready(machine: &Machine) -> Result<(), Error> {
    let progress = machine.env.source.progress();
    if progress.ready { Ok(()) } else { Err(Error::Syncing(progress)) }
}
