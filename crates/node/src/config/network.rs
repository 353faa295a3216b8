//! The peer-to-peer network's part of the configuration.
//!
//! In:     the settings that begin with `p2p`, the network, whether the node keeps block files of its own.
//! Out:    what the sockets are told to do; `None` where the node talks to no peers.
//! Fails:  where a text names no network, address, host or permission, and where a map of systems is damaged.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use net::addresses::{Reachable, Targets};
use net::hosts::{AsMap, Groups, HostKind};
use net::peer::{Permissions, Whitebound, Whitelisted};
use net::shell::{Config as ShellConfig, Password, Proxy, SamBridge, TorService};
use net::wire::Endpoint;
use primitives::network::{Network, Params};

use super::value::Value;
use super::{ConfigError, Layers, path, whole, word};

/// Core's word for connecting to nobody, and ours.
const NOBODY: [&str; 2] = ["0", "none"];

/// What the node does on the network.
#[derive(Clone, Debug)]
pub struct NetworkConfig {
    /// Sockets, and whom to connect to.
    pub shell: ShellConfig,
    /// Block filters are served.
    pub serves_filters: bool,
    /// Bytes sent in a day; none for as many as are asked for.
    pub upload_bytes_max: Option<u64>,
    /// Longest time for a handshake, in seconds.
    pub handshake_s: u64,
    /// No transactions from others.
    pub blocks_only: bool,
    /// Anybody may ask for the names of all transactions.
    pub tells_mempool: bool,
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
    let serves_filters = serves_filters(layers)?;
    let wanted = match word(layers, "p2p") {
        "auto" => blocks_own,
        choice => choice == "on",
    };
    if !wanted {
        return Ok(None);
    }
    let usual_port = Params::of(network).default_port;
    let connect = list(layers, "p2p_connect");
    let targets = Targets { full: whole(layers, "p2p_outbound") as usize, ..Targets::USUAL };
    let seeds = if connect.is_empty() { word(layers, "p2p_seeds") } else { "off" };
    let only = connect.iter().filter(|node| !NOBODY.contains(&node.as_str())).cloned();
    let external = each(layers, "p2p_external", ",", |text| Endpoint::parse(text, Some(usual_port)))?;
    let discovers = match word(layers, "p2p_discover") {
        "auto" => proxy(layers, "p2p_proxy").is_none() && external.is_empty(),
        choice => choice == "on",
    };
    let shell = ShellConfig {
        listen: listen(layers, network).into_iter().collect(),
        whitebind: each(layers, "p2p_whitebind", " ", Whitebound::parse)?,
        whitelist: each(layers, "p2p_whitelist", " ", Whitelisted::parse)?,
        implicit: Permissions::implicit(
            is_on(layers, "p2p_whitelist_relay"),
            is_on(layers, "p2p_whitelist_force_relay"),
        ),
        external,
        discovers,
        targets: if connect.is_empty() { targets } else { Targets::NONE },
        added: only.chain(list(layers, "p2p_add")).collect(),
        seed_nodes: list(layers, "p2p_seed_nodes"),
        reachable: reachable(layers)?,
        groups: groups(layers)?,
        proxy: proxy(layers, "p2p_proxy"),
        onion_proxy: proxy(layers, "p2p_onion_proxy"),
        tor: tor(layers),
        sam: sam(layers),
        connect_timeout: Duration::from_millis(whole(layers, "p2p_connect_ms")),
        inbound_max: whole(layers, "p2p_inbound_max") as usize,
        inbound_relay_max: (whole(layers, "p2p_inbound_max") * whole(layers, "p2p_inbound_relay_percent") / 100)
            as usize,
        encrypts: is_on(layers, "p2p_encrypt"),
        dns_seeds: matches!(seeds, "on" | "dns"),
        fixed_seeds: matches!(seeds, "on" | "fixed"),
        ban_s: whole(layers, "p2p_ban_s"),
        directory: Some(chain_dir.join("peers")),
        ..ShellConfig::default()
    };
    let upload_bytes_max = match layers.get("p2p_upload_mib_per_day").0 {
        Value::Whole(mib) => Some(mib << 20),
        _ => None,
    };
    let (handshake_s, blocks_only) = (whole(layers, "p2p_handshake_s"), is_on(layers, "p2p_blocks_only"));
    Ok(Some(NetworkConfig {
        serves_filters,
        shell,
        upload_bytes_max,
        handshake_s,
        blocks_only,
        tells_mempool: is_on(layers, "peer_mempool"),
        comments: comments(layers)?,
    }))
}

/// Whether block filters are served, which have to be built for that.
fn serves_filters(layers: &Layers) -> Result<bool, ConfigError> {
    let (setting, other) = ("peer_block_filters", "block_filters");
    if is_on(layers, setting) && !is_on(layers, other) {
        let why = "filters that are not built cannot be served".to_owned();
        return Err(ConfigError::Conflict { setting, source: layers.get(setting).1, other, why });
    }
    Ok(is_on(layers, setting))
}

fn is_on(layers: &Layers, name: &str) -> bool {
    word(layers, name) == "on"
}

fn address(layers: &Layers, name: &str) -> Option<SocketAddr> {
    match layers.get(name).0 {
        Value::Address(address) => Some(address),
        _ => None,
    }
}

pub(super) fn proxy(layers: &Layers, name: &str) -> Option<Proxy> {
    let isolates = is_on(layers, "p2p_proxy_random");
    address(layers, name).map(|address| Proxy { address, isolates })
}

pub(super) fn tor(layers: &Layers) -> Option<TorService> {
    let password = match layers.get("p2p_tor_password").0 {
        Value::Text(text) if !text.is_empty() => Some(Password(text)),
        _ => None,
    };
    address(layers, "p2p_tor_control").map(|control| TorService { control, password })
}

fn sam(layers: &Layers) -> Option<SamBridge> {
    let accepts = is_on(layers, "p2p_i2p_accept");
    address(layers, "p2p_i2p_sam").map(|address| SamBridge { address, accepts })
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

/// What stands between the separators.
fn parts(layers: &Layers, name: &str, separator: &str) -> Vec<String> {
    let Value::Text(text) = layers.get(name).0 else { return Vec::new() };
    text.split(separator).map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// What stands between commas.
fn list(layers: &Layers, name: &str) -> Vec<String> {
    parts(layers, name, ",")
}

fn refused(layers: &Layers, setting: &'static str, why: String) -> ConfigError {
    let accepted = super::schema::find(setting).expect("a setting of the table").help.to_owned();
    ConfigError::BadValue { setting, source: layers.get(setting).1, why, accepted }
}

/// Each part of a text as what it means.
fn each<T, E: Display>(
    layers: &Layers,
    setting: &'static str,
    separator: &str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Vec<T>, ConfigError> {
    let read = |part: String| parse(&part).map_err(|error| refused(layers, setting, format!("{part:?}: {error}")));
    parts(layers, setting, separator).into_iter().map(read).collect()
}

/// The kinds of networks that are wanted, less those that nothing leads to.
fn reachable(layers: &Layers) -> Result<Reachable, ConfigError> {
    let kind = |name: &str| HostKind::of_name(name).ok_or("no network");
    let wanted = each(layers, "p2p_only", ",", kind)?;
    let ways = [
        (HostKind::Onion, address(layers, "p2p_proxy").or(address(layers, "p2p_onion_proxy")).is_some()),
        (HostKind::I2p, address(layers, "p2p_i2p_sam").is_some()),
        (HostKind::Cjdns, is_on(layers, "p2p_cjdns")),
    ];
    let all = HostKind::ALL.into_iter().filter(|kind| wanted.is_empty() || wanted.contains(kind));
    let there = all.filter(|kind| ways.iter().all(|(other, is_there)| other != kind || *is_there));
    Ok(there.fold(Reachable::NONE, Reachable::with))
}

/// What makes groups of hosts: a map of autonomous systems, where there is one.
fn groups(layers: &Layers) -> Result<Groups, ConfigError> {
    let Some(path) = path(layers, "p2p_asmap") else { return Ok(Groups::default()) };
    let wrong = |why: String| refused(layers, "p2p_asmap", format!("{}: {why}", path.display()));
    let bytes = std::fs::read(&path).map_err(|error| wrong(error.to_string()))?;
    let map = AsMap::new(bytes).map_err(|error| wrong(error.to_string()))?;
    Ok(Groups::by(Arc::new(map)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(flags: &[(&str, &str)]) -> Layers {
        let flags: Vec<_> = flags.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect();
        Layers::of_process(&flags, []).expect("settings of the table")
    }

    fn shell(flags: &[(&str, &str)]) -> ShellConfig {
        try_shell(flags).unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_shell(flags: &[(&str, &str)]) -> Result<ShellConfig, String> {
        let resolved = resolve(&layers(flags), Network::Regtest, true, Path::new("/nowhere"));
        Ok(resolved.map_err(|error| error.to_string())?.expect("peers are wanted").shell)
    }

    #[test]
    fn whom_to_connect_to_and_whom_to_ask() {
        let usual = shell(&[]);
        assert_eq!((usual.targets.full, usual.dns_seeds, usual.fixed_seeds), (12, true, true));
        let only = shell(&[("p2p_connect", "1.2.3.4, node.example:7"), ("p2p_add", "5.6.7.8")]);
        assert_eq!(only.added, ["1.2.3.4", "node.example:7", "5.6.7.8"]);
        assert_eq!((only.targets, only.dns_seeds, only.fixed_seeds), (Targets::NONE, false, false));
        for nobody in NOBODY {
            let config = shell(&[("p2p_connect", nobody)]);
            assert_eq!((config.targets, config.added.len()), (Targets::NONE, 0));
        }
        assert_eq!(shell(&[("p2p_seed_nodes", "a,b:1")]).seed_nodes, ["a", "b:1"]);
        for (seeds, want) in [("dns", (true, false)), ("fixed", (false, true)), ("off", (false, false))] {
            let config = shell(&[("p2p_seeds", seeds)]);
            assert_eq!((config.dns_seeds, config.fixed_seeds), want, "{seeds}");
        }
        let times = shell(&[("p2p_connect_ms", "7"), ("p2p_ban_s", "1234")]);
        assert_eq!((times.connect_timeout, times.ban_s), (Duration::from_millis(7), 1234));
    }

    #[test]
    fn networks_are_reachable_where_something_leads_to_them() {
        #[track_caller]
        fn check(flags: &[(&str, &str)], want: &[HostKind]) {
            let got = shell(flags).reachable;
            let got: Vec<HostKind> = HostKind::ALL.into_iter().filter(|kind| got.has(*kind)).collect();
            assert_eq!(got, want, "{flags:?}");
        }
        use HostKind::{Cjdns, I2p, Onion, V4, V6};
        check(&[], &[V4, V6]);
        check(&[("p2p_proxy", "127.0.0.1:9050")], &[V4, V6, Onion]);
        check(&[("p2p_onion_proxy", "127.0.0.1:9050")], &[V4, V6, Onion]);
        check(&[("p2p_i2p_sam", "127.0.0.1:7656")], &[V4, V6, I2p]);
        check(&[("p2p_cjdns", "on"), ("p2p_only", "cjdns,ipv6")], &[V6, Cjdns]);
        check(&[("p2p_only", "onion")], &[]);
        assert!(try_shell(&[("p2p_only", "ipx")]).unwrap_err().contains("\"ipx\": no network"));
    }

    #[test]
    fn permissions_proxies_and_addresses_are_read_and_wrong_ones_named() {
        let config = shell(&[
            ("p2p_whitelist", "noban,out@10.0.0.0/8 1.2.3.4"),
            ("p2p_whitebind", "relay@127.0.0.1:0"),
            ("p2p_whitelist_relay", "off"),
            ("p2p_external", "8.8.8.8,9.9.9.9:7"),
            ("p2p_proxy", "127.0.0.1:9050"),
            ("p2p_proxy_random", "off"),
            ("p2p_tor_control", "127.0.0.1:9051"),
            ("p2p_tor_password", "secret"),
            ("p2p_i2p_sam", "127.0.0.1:7656"),
            ("p2p_i2p_accept", "off"),
        ]);
        assert_eq!((config.whitelist.len(), config.whitebind.len()), (2, 1));
        assert_eq!(config.implicit.names(), ["noban", "mempool", "download"]);
        let external: Vec<String> = config.external.iter().map(Endpoint::to_string).collect();
        assert_eq!((external, config.discovers), (vec!["8.8.8.8:18444".to_owned(), "9.9.9.9:7".to_owned()], false));
        assert!(!config.proxy.unwrap().isolates && !config.sam.unwrap().accepts);
        assert_eq!(config.tor.unwrap().password, Some(Password("secret".to_owned())));
        assert!(shell(&[]).discovers && !shell(&[("p2p_discover", "off")]).discovers);
        let error = try_shell(&[("p2p_whitelist", "oopsie@1.2.3.4")]).unwrap_err();
        assert!(error.contains("p2p_whitelist") && error.contains("Invalid P2P permission: 'oopsie'"), "{error}");
        assert!(try_shell(&[("p2p_whitebind", "noban@127.0.0.1")]).is_err());
        assert!(try_shell(&[("p2p_external", "node.example")]).is_err());
    }

    #[test]
    fn a_damaged_map_is_refused() {
        let file = std::env::temp_dir().join(format!("assay-asmap-{}", std::process::id()));
        let flags = |path: &Path| vec![("p2p_asmap".to_owned(), path.display().to_string())];
        let try_map = |path: &Path| {
            let layers = Layers::of_process(&flags(path), []).expect("a setting of the table");
            groups(&layers).map_err(|error| error.to_string())
        };
        assert!(try_map(&file).unwrap_err().contains("p2p_asmap"), "there is no such file");
        std::fs::write(&file, [0xff; 100]).unwrap();
        assert!(try_map(&file).unwrap_err().contains("the map"));
        // One instruction: everything is system 1. A return is 17 zero bits.
        std::fs::write(&file, [0; 3]).unwrap();
        assert_eq!(try_map(&file).unwrap().mapped_as(&"8.8.8.8".parse().unwrap()), 1);
        std::fs::remove_file(&file).unwrap();
    }
}
