//! The peer-to-peer network's part of the configuration.
//!
//! In:     the settings that begin with `p2p`, the network, whether the node keeps block files of its own.
//! Out:    what the sockets are told to do; `None` where the node talks to no peers.
//! Fails:  where a kind of network has no such name.

use std::net::SocketAddr;
use std::path::Path;

use net::addresses::{HostKind, Reachable, Targets};
use net::shell::{Config as ShellConfig, Proxy, TorService};
use primitives::network::{Network, Params};

use super::value::Value;
use super::{ConfigError, Layers, whole, word};

/// What the node does on the network.
#[derive(Clone, Debug)]
pub struct NetworkConfig {
    /// Sockets, and whom to connect to.
    pub shell: ShellConfig,
    /// Bytes of blocks served in a day; none for as many as are asked for.
    pub upload_bytes_max: Option<u64>,
    /// What the user agent ends with.
    comments: Vec<String>,
}

impl NetworkConfig {
    /// The program's user agent with the comments in it: `/Assay:0.1.0(a; b)/` (BIP 14).
    pub fn user_agent(&self, plain: &str) -> String {
        match self.comments.is_empty() {
            true => plain.to_owned(),
            false => format!("{}({})/", plain.trim_end_matches('/'), self.comments.join("; ")),
        }
    }
}

/// Comments of the user agent, of the letters that Core allows (`SAFE_CHARS_UA_COMMENT`).
fn comments(layers: &Layers) -> Result<Vec<String>, ConfigError> {
    let comments = list(layers, "p2p_user_agent_comment");
    let is_safe = |c: char| c.is_ascii_alphanumeric() || " .;-_?@".contains(c);
    let too_long = comments.iter().map(String::len).sum::<usize>() > USER_AGENT_COMMENT_BYTES_MAX;
    match comments.iter().find(|comment| too_long || !comment.chars().all(is_safe)) {
        None => Ok(comments),
        Some(comment) => Err(ConfigError::BadValue {
            setting: "p2p_user_agent_comment",
            source: layers.get("p2p_user_agent_comment").1,
            why: format!("{comment:?} is too long or has letters that other programs do not take"),
            accepted: "letters, digits and .;-_?@ and blanks, 200 in all".to_owned(),
        }),
    }
}

/// Bytes of all comments: with the rest they stay below the 256 of BIP 14's field that peers accept.
const USER_AGENT_COMMENT_BYTES_MAX: usize = 200;

/// The network these settings describe.
pub fn resolve(
    layers: &Layers,
    network: Network,
    blocks_own: bool,
    chain_dir: &Path,
) -> Result<Option<NetworkConfig>, ConfigError> {
    let wanted = match word(layers, "p2p") {
        "auto" => blocks_own,
        choice => choice == "on",
    };
    if !wanted {
        return Ok(None);
    }
    let proxy = |name: &str| match layers.get(name).0 {
        Value::Address(address) => Some(Proxy { address, isolates: true }),
        _ => None,
    };
    let only = list(layers, "p2p_connect");
    let targets = Targets { full: whole(layers, "p2p_outbound") as usize, ..Targets::USUAL };
    let seeds = word(layers, "p2p_seeds") == "on" && only.is_empty();
    let shell = ShellConfig {
        listen: listen(layers, network).into_iter().collect(),
        targets: if only.is_empty() { targets } else { Targets::NONE },
        added: only.into_iter().chain(list(layers, "p2p_add")).collect(),
        reachable: reachable(layers)?,
        proxy: proxy("p2p_proxy"),
        onion_proxy: proxy("p2p_onion_proxy"),
        tor: proxy("p2p_tor_control").map(|tor| TorService { control: tor.address, password: None }),
        inbound_max: whole(layers, "p2p_inbound_max") as usize,
        encrypts: word(layers, "p2p_encrypt") == "on",
        dns_seeds: seeds,
        fixed_seeds: seeds,
        directory: Some(chain_dir.join("peers")),
        ..ShellConfig::default()
    };
    let upload_bytes_max = match layers.get("p2p_upload_mib_per_day").0 {
        Value::Whole(mib) => Some(mib << 20),
        _ => None,
    };
    Ok(Some(NetworkConfig { shell, upload_bytes_max, comments: comments(layers)? }))
}

fn listen(layers: &Layers, network: Network) -> Option<SocketAddr> {
    let port = Params::of(network).default_port;
    match layers.get("p2p_listen").0 {
        Value::Address(address) => Some(address),
        Value::Word("off") => None,
        // A private chain is for this machine; everywhere else a node that serves others is the point.
        _ if network == Network::Regtest => Some(SocketAddr::from(([127, 0, 0, 1], port))),
        _ => Some(SocketAddr::from(([0, 0, 0, 0], port))),
    }
}

/// What stands between commas.
fn list(layers: &Layers, name: &str) -> Vec<String> {
    let Value::Text(text) = layers.get(name).0 else { return Vec::new() };
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn reachable(layers: &Layers) -> Result<Reachable, ConfigError> {
    let names = list(layers, "p2p_only");
    if names.is_empty() {
        return Ok(Reachable::ALL);
    }
    let kind = |name: &String| match name.as_str() {
        "ipv4" => Ok(HostKind::V4),
        "ipv6" => Ok(HostKind::V6),
        "onion" => Ok(HostKind::Onion),
        "i2p" => Ok(HostKind::I2p),
        "cjdns" => Ok(HostKind::Cjdns),
        _ => Err(ConfigError::BadValue {
            setting: "p2p_only",
            source: layers.get("p2p_only").1,
            why: format!("{name:?} is no network"),
            accepted: "ipv4, ipv6, onion, i2p, cjdns, between commas".to_owned(),
        }),
    };
    names.iter().try_fold(Reachable::NONE, |reachable, name| Ok(reachable.with(kind(name)?)))
}
