//! `server.*`: who we are and what we speak.
//!
//! In:     a session's state and checked arguments.
//! Out:    the result appended to a buffer whose answer is already open.
//! Fails:  [`Fault`].
//! Source: Electrum protocol 1.4 to 1.7, docs/protocol-methods.rst; where it is silent, ElectrumX.

use super::methods::{Reply, write};
use crate::discovery::server::Server;
use crate::electrum::answer;
use crate::electrum::error::{Error, Fault};
use crate::electrum::limits::PONG_DIGITS_MAX;
use crate::electrum::machine::Machine;
use crate::electrum::params::Arguments;
use crate::electrum::version::{self, V1_7};

pub(super) fn version(machine: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    if machine.version.is_some() && !std::mem::take(&mut machine.may_greet) {
        return Err(Error::VersionTwice.into());
    }
    let software = match arguments.value(0)? {
        None | Some(serde_json::Value::Null) => String::new(),
        Some(serde_json::Value::String(name)) => name,
        Some(_) => return Err(Error::InvalidParams("client_name is a string".into()).into()),
    };
    let agreed = version::negotiate(arguments.value(1)?.as_ref())?;
    machine.version = Some(agreed);
    let (name, knows_a_token) = machine.env.config.tokens.split(&software);
    machine.tally.software = Some(name.to_owned());
    machine.tally.has_logged_in |= knows_a_token;
    out.push(b'[');
    answer::string(&machine.env.config.server_name, out);
    out.push(b',');
    answer::string(&agreed.to_string(), out);
    write(out, "]")
}

pub(super) fn ping(_: &mut Machine, _: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    write(out, "null")
}

/// A ping whose answer is as long as the client wishes, so that nobody can tell by its size what it is.
pub(super) fn ping_with_data(_: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let digits = arguments.number(0, Some(0))?;
    arguments.digits_of_any_length(1)?;
    if digits > PONG_DIGITS_MAX {
        return Err(Error::InvalidParams(format!("pong_len is at most {PONG_DIGITS_MAX}")).into());
    }
    out.extend_from_slice(b"{\"data\":\"");
    out.resize(out.len() + digits as usize, b'0');
    write(out, "\"}")
}

pub(super) fn features(machine: &mut Machine, _: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let config = &machine.env.config;
    let hosts = Server::hosts(&machine.env.directory.ours());
    let mut features = serde_json::json!({
        "genesis_hash": config.params.genesis_hash.to_string(),
        "hosts": hosts,
        "server_version": config.server_name,
        "protocol_min": version::OLDEST.to_string(),
        "protocol_max": version::NEWEST.to_string(),
        "pruning": null,
    });
    if machine.version.is_none_or(|version| version < V1_7) {
        features["hash_function"] = "sha256".into();
    }
    write(out, &features.to_string())
}

pub(super) fn banner(machine: &mut Machine, _: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    answer::string(&machine.env.config.banner, out);
    Ok(Reply::Written)
}

pub(super) fn donation_address(machine: &mut Machine, _: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    answer::string(&machine.env.config.donation_address, out);
    Ok(Reply::Written)
}

/// Servers verified lately; none where no part is taken in discovery.
pub(super) fn peers_subscribe(machine: &mut Machine, _: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let rows = machine.env.directory.told(machine.origin);
    write(out, &serde_json::Value::Array(rows).to_string())
}

/// A server announces itself by its features. It will be visited, or not; nobody waits for that here.
pub(super) fn add_peer(machine: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let features = arguments.value(0)?.unwrap_or_default();
    let is_ours = features["genesis_hash"] == machine.env.config.params.genesis_hash.to_string();
    let servers = Server::of_features(&features["hosts"]);
    let taken = is_ours && machine.env.directory.announce(&servers, machine.origin);
    write(out, if taken { "true" } else { "false" })
}
