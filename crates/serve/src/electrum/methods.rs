//! The methods of protocol 1.4: names, parameters, and what each answers.
//!
//! In:     a session's state and checked arguments.
//! Out:    the result appended to a buffer whose answer is already open, or a stream that will write it.
//! Fails:  [`Fault`].
//! Source: Electrum protocol 1.4.3, docs/protocol-methods.rst; where it is silent, ElectrumX.

use primitives::{Header, ScriptHash, Transaction};

use super::answer;
use super::error::{Error, Fault};
use super::limits::HEADERS_MAX;
use super::machine::Machine;
use super::params::Arguments;
use super::stream::{Purpose, Stream};
use super::version;
use crate::decoded;
use crate::source::{TxAt, View};

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
    method("blockchain.scripthash.subscribe", &["scripthash"], scripthash_subscribe),
    method("blockchain.scripthash.get_history", &["scripthash"], scripthash_get_history),
    method("blockchain.transaction.get", &["tx_hash", "verbose"], transaction_get),
    method("blockchain.transaction.get_merkle", &["tx_hash", "height"], transaction_get_merkle),
    method("blockchain.scripthash.get_balance", &["scripthash"], scripthash_get_balance),
    method("blockchain.scripthash.listunspent", &["scripthash"], scripthash_listunspent),
    method("blockchain.scripthash.get_mempool", &["scripthash"], scripthash_get_mempool),
    method("blockchain.scripthash.unsubscribe", &["scripthash"], scripthash_unsubscribe),
    method("blockchain.block.header", &["height", "cp_height"], block_header),
    method("blockchain.block.headers", &["start_height", "count", "cp_height"], block_headers),
    method("blockchain.headers.subscribe", &[], headers_subscribe),
    method("blockchain.transaction.id_from_pos", &["height", "tx_pos", "merkle"], transaction_id_from_pos),
    method("blockchain.transaction.broadcast", &["raw_tx"], transaction_broadcast),
    method("blockchain.estimatefee", &["number", "mode"], estimatefee),
    method("blockchain.relayfee", &[], relayfee),
    method("mempool.get_fee_histogram", &[], fee_histogram),
    Method { name: VERSION, params: &["client_name", "protocol_version"], extra: true, call: server_version },
    method("server.ping", &[], server_ping),
    method("server.features", &[], server_features),
    method("server.banner", &[], server_banner),
    method("server.donation_address", &[], server_donation_address),
    method("server.peers.subscribe", &[], server_peers_subscribe),
];

fn write(out: &mut Vec<u8>, text: &str) -> Result<Reply, Fault> {
    out.extend_from_slice(text.as_bytes());
    Ok(Reply::Written)
}

fn server_version(machine: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    if machine.version.is_some() {
        return Err(Error::VersionTwice.into());
    }
    // The client's name is only looked at for its type.
    if let Some(name) = arguments.value(0)?
        && !(name.is_string() || name.is_null())
    {
        return Err(Error::InvalidParams("client_name is a string".into()).into());
    }
    let agreed = version::negotiate(arguments.value(1)?.as_ref())?;
    machine.version = Some(agreed);
    out.push(b'[');
    answer::string(&machine.env.config.server_name, out);
    out.push(b',');
    answer::string(&agreed.to_string(), out);
    write(out, "]")
}

fn server_ping(_: &mut Machine, _: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    write(out, "null")
}

fn server_features(machine: &mut Machine, _: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let config = &machine.env.config;
    let hosts: serde_json::Map<_, _> = (config.public_hosts.iter())
        .map(|(host, port)| (host.clone(), serde_json::json!({ "tcp_port": port })))
        .collect();
    let features = serde_json::json!({
        "genesis_hash": config.params.genesis_hash.to_string(),
        "hosts": hosts,
        "hash_function": "sha256",
        "server_version": config.server_name,
        "protocol_min": version::OLDEST.to_string(),
        "protocol_max": version::NEWEST.to_string(),
        "pruning": null,
    });
    write(out, &features.to_string())
}

fn server_banner(machine: &mut Machine, _: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    answer::string(&machine.env.config.banner, out);
    Ok(Reply::Written)
}

fn server_donation_address(machine: &mut Machine, _: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    answer::string(&machine.env.config.donation_address, out);
    Ok(Reply::Written)
}

/// No peers are known: this server does not take part in their discovery.
fn server_peers_subscribe(_: &mut Machine, _: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    write(out, "[]")
}

/// -1 is the protocol's word for "no estimate": there is no mempool to make one from.
fn estimatefee(_: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    arguments.number(0, None)?;
    if let Some(mode) = arguments.value(1)?
        && !(mode.is_string() || mode.is_null())
    {
        return Err(Error::InvalidParams("mode is a string".into()).into());
    }
    write(out, "-1")
}

/// In BTC per 1000 virtual bytes: what all nodes relayed until Core 29.1 (`DEFAULT_MIN_RELAY_TX_FEE`, 1000 sat/kvB).
fn relayfee(_: &mut Machine, _: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    write(out, "0.00001")
}

fn fee_histogram(_: &mut Machine, _: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    write(out, "[]")
}

fn headers_subscribe(machine: &mut Machine, _: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    // Wanted before it is read, so that no tip falls between the two.
    if !std::mem::replace(&mut machine.wants_headers, true) {
        machine.env.subscriptions.add_headers(machine.id);
    }
    let view = machine.env.source.view();
    let height = view.tip_height();
    let header = view.header(height)?.ok_or(Fault::Stale)?;
    answer::tip(height, &header, out);
    Ok(Reply::Written)
}

/// A height that is not above the tip.
fn known_height(height: u64, view: &dyn View) -> Result<u32, Error> {
    let tip = view.tip_height();
    match u32::try_from(height) {
        Ok(known) if known <= tip => Ok(known),
        _ => Err(Error::HeightOutOfRange { height, tip }),
    }
}

fn write_proof(height: u32, cp_height: u64, view: &dyn View, out: &mut Vec<u8>) -> Result<(), Fault> {
    let tip = view.tip_height();
    let cp = u32::try_from(cp_height).ok().filter(|cp| height <= *cp && *cp <= tip);
    let cp = cp.ok_or(Error::CheckpointOutOfRange { height: u64::from(height), cp_height, tip })?;
    let (branch, root) = view.header_proof(height, cp)?;
    out.extend_from_slice(b",\"branch\":");
    answer::hashes(&branch, out);
    out.extend_from_slice(b",\"root\":");
    answer::hash_string(&root, out);
    Ok(())
}

fn block_header(machine: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let (height, cp_height) = (arguments.number(0, None)?, arguments.number(1, Some(0))?);
    let view = machine.env.source.view();
    let height = known_height(height, &*view)?;
    let header = view.header(height)?.ok_or(Fault::Stale)?;
    if cp_height == 0 {
        answer::hex_string(&header, out);
        return Ok(Reply::Written);
    }
    out.extend_from_slice(b"{\"header\":");
    answer::hex_string(&header, out);
    write_proof(height, cp_height, &*view, out)?;
    write(out, "}")
}

fn block_headers(machine: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let (start, count) = (arguments.number(0, None)?, arguments.number(1, None)?);
    let cp_height = arguments.number(2, Some(0))?;
    let view = machine.env.source.view();
    // A start above the tip is no error: there are no headers there yet.
    let headers = match u32::try_from(start) {
        Ok(start) if start <= view.tip_height() => view.headers(start, count.min(HEADERS_MAX) as u32)?,
        _ => Vec::new(),
    };
    let count = headers.len() / 80;
    out.extend_from_slice(format!("{{\"count\":{count},\"hex\":").as_bytes());
    answer::hex_string(&headers, out);
    out.extend_from_slice(format!(",\"max\":{HEADERS_MAX}").as_bytes());
    if cp_height > 0 && count > 0 {
        write_proof((start + count as u64 - 1) as u32, cp_height, &*view, out)?;
    }
    write(out, "}")
}

/// Refuses questions about addresses and transactions while the index does not hold everything known.
fn require_ready(machine: &Machine) -> Result<(), Error> {
    let progress = machine.env.source.progress();
    if progress.ready { Ok(()) } else { Err(Error::Syncing(progress)) }
}

fn script_of(machine: &Machine, arguments: &Arguments<'_>) -> Result<ScriptHash, Error> {
    let script = arguments.script_hash(0)?;
    require_ready(machine)?;
    Ok(script)
}

fn scripthash_get_balance(machine: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let script = script_of(machine, arguments)?;
    let confirmed_sat = machine.env.source.view().balance_sat(&script)?;
    write(out, &format!("{{\"confirmed\":{confirmed_sat},\"unconfirmed\":0}}"))
}

fn scripthash_get_history(machine: &mut Machine, arguments: &Arguments<'_>, _: &mut Vec<u8>) -> Result<Reply, Fault> {
    let script = script_of(machine, arguments)?;
    Ok(Reply::Stream(Stream::new(&machine.env, script, Purpose::History)))
}

fn scripthash_listunspent(machine: &mut Machine, arguments: &Arguments<'_>, _: &mut Vec<u8>) -> Result<Reply, Fault> {
    let script = script_of(machine, arguments)?;
    Ok(Reply::Stream(Stream::new(&machine.env, script, Purpose::Unspent)))
}

/// There is no mempool yet, so nothing is ever in it.
fn scripthash_get_mempool(machine: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    script_of(machine, arguments)?;
    write(out, "[]")
}

fn scripthash_subscribe(machine: &mut Machine, arguments: &Arguments<'_>, _: &mut Vec<u8>) -> Result<Reply, Fault> {
    let script = script_of(machine, arguments)?;
    // Known to the table before its status is read, so that no change falls between the two.
    if !machine.scripts.contains_key(&script) {
        let max = machine.env.limits.subscriptions_session_max;
        if machine.scripts.len() >= max {
            return Err(Error::TooManySubscriptions { max }.into());
        }
        machine.env.subscriptions.add(machine.id, &script, machine.env.limits.subscriptions_max)?;
        machine.env.metrics.subscriptions_now.add(1);
        machine.scripts.insert(script, None);
    }
    Ok(Reply::Stream(Stream::new(&machine.env, script, Purpose::Subscribe)))
}

fn scripthash_unsubscribe(machine: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let script = arguments.script_hash(0)?;
    let known = machine.forget(&script);
    write(out, if known { "true" } else { "false" })
}

/// What to say of a transaction that was not found: while syncing it may only not be there yet.
fn not_found(machine: &Machine) -> Error {
    require_ready(machine).err().unwrap_or(Error::UnknownTransaction)
}

fn transaction_get(machine: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let (txid, verbose) = (arguments.txid(0)?, arguments.truth(1)?);
    let view = machine.env.source.view();
    let Some(found) = view.transaction(&txid)? else {
        return Err(not_found(machine).into());
    };
    if !verbose {
        answer::hex_string(&found.bytes, out);
        return Ok(Reply::Written);
    }
    let TxAt { height, bytes, .. } = found;
    let header = view.header(height)?.ok_or(Fault::Stale)?;
    let Ok(transaction) = Transaction::parse(bytes) else {
        return Err(Error::Internal(format!("the bytes of {txid} are no transaction")).into());
    };
    let block =
        decoded::transaction::Block { header: Header::decode(&header), confirmations: view.tip_height() - height + 1 };
    decoded::transaction::write(&transaction.tx(), Some(&block), &machine.env.config.params, out);
    Ok(Reply::Written)
}

fn transaction_get_merkle(machine: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let (txid, asked) = (arguments.txid(0)?, arguments.number(1, None)?);
    let view = machine.env.source.view();
    let Some((height, pos)) = view.locate(&txid)? else {
        return Err(not_found(machine).into());
    };
    if u64::from(height) != asked {
        return Err(Error::NotInBlock { height: asked }.into());
    }
    let branch = view.merkle_branch(height, pos)?.ok_or(Fault::Stale)?;
    out.extend_from_slice(format!("{{\"block_height\":{height},\"pos\":{pos},\"merkle\":").as_bytes());
    answer::hashes(&branch, out);
    write(out, "}")
}

fn transaction_id_from_pos(
    machine: &mut Machine,
    arguments: &Arguments<'_>,
    out: &mut Vec<u8>,
) -> Result<Reply, Fault> {
    let (height, pos) = (arguments.number(0, None)?, arguments.number(1, None)?);
    let merkle = arguments.truth(2)?;
    let view = machine.env.source.view();
    let height = known_height(height, &*view)?;
    let none = Error::NoSuchPosition { height, pos };
    let Ok(pos) = u32::try_from(pos) else {
        return Err(none.into());
    };
    let Some(txid) = view.txid_at(height, pos)? else {
        return Err(none.into());
    };
    if !merkle {
        answer::hash_string(&txid.0, out);
        return Ok(Reply::Written);
    }
    let branch = view.merkle_branch(height, pos)?.ok_or(Fault::Stale)?;
    out.extend_from_slice(b"{\"tx_hash\":");
    answer::hash_string(&txid.0, out);
    out.extend_from_slice(b",\"merkle\":");
    answer::hashes(&branch, out);
    write(out, "}")
}

fn transaction_broadcast(_: &mut Machine, arguments: &Arguments<'_>, _: &mut Vec<u8>) -> Result<Reply, Fault> {
    if Transaction::parse(arguments.bytes(0)?).is_err() {
        return Err(Error::TransactionDecode.into());
    }
    Err(Error::NoBroadcast.into())
}
