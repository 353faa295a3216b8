//! The Electrum server's part of the configuration.
//!
//! In:     the settings that begin with `electrum_`, the network and its folder, the memory budget.
//! Out:    the server's own configuration; `None` where every way in is off.
//! Fails:  when two limits contradict each other, a subnet cannot be read, or a certificate has no key.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use primitives::network::{Network, Params};
use serve::discovery::Wish;
use serve::discovery::server::Server;
use serve::electrum::Config as ElectrumConfig;
use serve::electrum::limits::Limits;
use serve::rpc::auth::Subnet;
use serve::shares::ShareLimits;
use serve::shares::login::Tokens;
use serve::transport::Framing;
use serve::transport::certificate::Files;
use serve::transport::listen::{Door, Place, SOCKET_PATH_BYTES_MAX};

use super::network::{proxy, tor};
use super::value::Value;
use super::{ConfigError, Layers, Source, path, whole, word};
use crate::wiring::{OnionWish, by_proxy};

/// The settings of ports, in the order in which `auto` counts them up from the first, and what comes in there.
const PORTS: [(&str, Framing, bool); 6] = [
    ("electrum_listen", Framing::Lines, false),
    ("electrum_tls_listen", Framing::Lines, true),
    ("electrum_ws_listen", Framing::WebSocket, false),
    ("electrum_wss_listen", Framing::WebSocket, true),
    ("electrum_http_listen", Framing::Http, false),
    ("electrum_https_listen", Framing::Http, true),
];

/// The server these settings describe; `chain_dir` is the network's folder.
pub fn resolve(
    layers: &Layers,
    network: Network,
    memory_mib: u64,
    chain_dir: &Path,
) -> Result<Option<ElectrumConfig>, ConfigError> {
    let doors = doors(layers, network)?;
    if doors.is_empty() {
        return Ok(None);
    }
    check_limits(layers, memory_mib)?;
    let mut config = ElectrumConfig::new(SocketAddr::from(([127, 0, 0, 1], 0)), Params::of(network));
    config.doors = doors;
    config.certificate = Some(certificate(layers, chain_dir)?);
    config.balancers = subnets(layers, "electrum_balancers")?;
    config.shares = shares(layers)?;
    config.hashes_addresses = word(layers, "electrum_log_addresses") == "hashed";
    let put = |name: &str, field: &mut String| {
        if let (Value::Text(text), _) = layers.get(name) {
            *field = text;
        }
    };
    put("electrum_server_name", &mut config.server_name);
    put("electrum_banner", &mut config.banner);
    put("electrum_donation_address", &mut config.donation_address);
    config.limits = limits(layers);
    config.tokens = tokens(layers)?;
    config.usual_ports = [usual_port(network), usual_port(network) + 1];
    config.public_hosts = public_hosts(layers, &config.doors)?;
    config.discovery = discovery(layers, network, chain_dir)?;
    Ok(Some(config))
}

fn doors(layers: &Layers, network: Network) -> Result<Vec<Door>, ConfigError> {
    let mut doors = Vec::new();
    for ((name, framing, has_tls), above) in PORTS.into_iter().zip(0..) {
        let address = match layers.get(name).0 {
            Value::Address(address) => address,
            Value::Word("off") => continue,
            _ => SocketAddr::from(([127, 0, 0, 1], usual_port(network) + above)),
        };
        doors.push(Door { framing, has_tls, ..Door::plain(address) });
    }
    if word(layers, "electrum_onion") == "on" {
        doors.push(Door { is_onion: true, ..Door::plain(SocketAddr::from(([127, 0, 0, 1], 0))) });
    }
    if let Some(socket) = path(layers, "electrum_unix_socket") {
        let length = socket.as_os_str().len();
        if length > SOCKET_PATH_BYTES_MAX {
            return Err(ConfigError::BadValue {
                setting: "electrum_unix_socket",
                source: layers.get("electrum_unix_socket").1,
                why: format!("the path has {length} bytes"),
                accepted: format!("a path of at most {SOCKET_PATH_BYTES_MAX} bytes or \"none\""),
            });
        }
        doors.push(Door { place: Place::Unix(socket), ..Door::plain(SocketAddr::from(([0, 0, 0, 0], 0))) });
    }
    Ok(doors)
}

/// Where the public reaches this server; a port that is not named is the one where that way in listens.
fn public_hosts(layers: &Layers, doors: &[Door]) -> Result<Vec<Server>, ConfigError> {
    let usual = ["tcp", "tls", "ws", "wss"].map(|name| {
        doors.iter().find(|door| door.name() == name).and_then(|door| match door.place {
            Place::Tcp(address) => Some(address.port()).filter(|port| *port > 0),
            Place::Unix(_) => None,
        })
    });
    servers(layers, "electrum_report", usual)
}

fn servers(layers: &Layers, setting: &'static str, usual: [Option<u16>; 4]) -> Result<Vec<Server>, ConfigError> {
    let Value::Text(text) = layers.get(setting).0 else { return Ok(Vec::new()) };
    let accepted = "tcp://host:port, ssl://, ws:// or wss://, between blanks".to_owned();
    let told = |why| ConfigError::BadValue { setting, source: layers.get(setting).1, why, accepted };
    Server::of_settings(&text, usual).map_err(told)
}

fn tokens(layers: &Layers) -> Result<Tokens, ConfigError> {
    let (setting, accepted) = ("electrum_login", "words of 16 to 256 letters, between blanks".to_owned());
    let Value::Text(text) = layers.get(setting).0 else { return Ok(Tokens::default()) };
    Tokens::parse(&text).map_err(|why| ConfigError::BadValue { setting, source: layers.get(setting).1, why, accepted })
}

/// The part that is taken in discovery.
fn discovery(layers: &Layers, network: Network, chain_dir: &Path) -> Result<Option<Wish>, ConfigError> {
    let usual = usual_port(network);
    let seeds = servers(layers, "electrum_discovery_seeds", [Some(usual), Some(usual + 1), None, None])?;
    if word(layers, "electrum_discovery") == "off" {
        return Ok(None);
    }
    let by = |name: &str| proxy(layers, name).map(by_proxy);
    Ok(Some(Wish {
        seeds,
        announces: true,
        // A private chain is for this machine.
        accepts_local: network == Network::Regtest,
        file: Some(chain_dir.join("electrum-servers.jsonl")),
        onion_proxy: by("p2p_onion_proxy").or_else(|| by("p2p_proxy")),
        proxy: by("p2p_proxy"),
    }))
}

/// The onion service these settings want.
pub fn onion(layers: &Layers, network: Network, chain_dir: &Path) -> Result<Option<OnionWish>, ConfigError> {
    if word(layers, "electrum_onion") == "off" {
        return Ok(None);
    }
    let (setting, other) = ("electrum_onion", "p2p_tor_control");
    let tor = tor(layers).ok_or_else(|| {
        let why = "nobody knows where Tor can be asked for an onion service".to_owned();
        ConfigError::Conflict { setting, source: layers.get(setting).1, other, why }
    })?;
    let key_file = chain_dir.join("electrum-onion-private-key");
    Ok(Some(OnionWish { tor, port: usual_port(network), key_file }))
}

/// Our own certificate is made where it is missing; the operator's is not.
fn certificate(layers: &Layers, chain_dir: &Path) -> Result<Files, ConfigError> {
    let (certificate, key) = (path(layers, "electrum_certificate"), path(layers, "electrum_certificate_key"));
    match (certificate, key) {
        (None, None) => Ok(Files {
            certificate: chain_dir.join("electrum-certificate.pem"),
            key: chain_dir.join("electrum-key.pem"),
            are_made: true,
        }),
        (Some(certificate), Some(key)) => Ok(Files { certificate, key, are_made: false }),
        (certificate, _) => {
            let (setting, other) = match certificate {
                Some(_) => ("electrum_certificate", "electrum_certificate_key"),
                None => ("electrum_certificate_key", "electrum_certificate"),
            };
            let why = format!("a certificate and its key belong together, and {other} is \"auto\"");
            Err(ConfigError::Conflict { setting, source: layers.get(setting).1, other, why })
        }
    }
}

fn subnets(layers: &Layers, setting: &'static str) -> Result<Vec<Subnet>, ConfigError> {
    let Value::Text(text) = layers.get(setting).0 else { return Ok(Vec::new()) };
    let told = |why| ConfigError::BadValue {
        setting,
        source: layers.get(setting).1,
        why,
        accepted: "addresses and subnets such as 192.168.0.0/16, between blanks".to_owned(),
    };
    text.split_whitespace().map(|word| word.parse().map_err(told)).collect()
}

/// What each may cost us.
fn shares(layers: &Layers) -> Result<ShareLimits, ConfigError> {
    let seconds = |name: &str| Duration::from_secs(whole(layers, name));
    let shares = ShareLimits {
        sessions_max: whole(layers, "electrum_sessions_max") as usize,
        sessions_address_max: whole(layers, "electrum_sessions_address_max") as usize,
        soft: seconds("electrum_work_soft_s"),
        hard: seconds("electrum_work_hard_s"),
        forgiven_ms_per_s: whole(layers, "electrum_work_forgiven_ms"),
        exempt: subnets(layers, "electrum_exempt")?,
    };
    if shares.soft < shares.hard {
        return Ok(shares);
    }
    let (setting, other) = ("electrum_work_soft_s", "electrum_work_hard_s");
    let why =
        format!("{} s to be slow after, and {} s to be closed after", shares.soft.as_secs(), shares.hard.as_secs());
    Err(ConfigError::Conflict { setting, source: layers.get(setting).1, other, why })
}

/// Ports as other Electrum servers use them (electrs, `doc/config.md`).
fn usual_port(network: Network) -> u16 {
    match network {
        Network::Main => 50_001,
        Network::Testnet3 => 60_001,
        Network::Testnet4 => 40_001,
        Network::Signet => 60_601,
        Network::Regtest => 60_401,
    }
}

fn limits(layers: &Layers) -> Limits {
    let size = |name: &str| whole(layers, name) as usize;
    let seconds = |name: &str| Duration::from_secs(whole(layers, name));
    Limits {
        sessions_max: size("electrum_sessions_max"),
        batch_requests_max: size("electrum_batch_requests_max"),
        line_bytes_max: size("electrum_line_bytes_max"),
        subscriptions_session_max: size("electrum_subscriptions_session_max"),
        subscriptions_max: size("electrum_subscriptions_max"),
        waiting_bytes_shared_max: size("electrum_waiting_mib_max") << 20,
        idle_time_max: seconds("electrum_idle_s"),
        request_time_max: seconds("electrum_request_s"),
        history_entries_max: match layers.get("electrum_history_entries_max").0 {
            Value::Whole(entries) => Some(entries as usize),
            _ => None,
        },
        ..Limits::default()
    }
}

fn check_limits(layers: &Layers, memory_mib: u64) -> Result<(), ConfigError> {
    let conflict = |setting: &'static str, other: &'static str, why: String| {
        let source = layers.get(setting).1;
        Err(ConfigError::Conflict { setting, source, other, why })
    };
    let (one, all) = (whole(layers, "electrum_subscriptions_session_max"), whole(layers, "electrum_subscriptions_max"));
    if one > all {
        let why = format!("one session would be allowed {one} scripts, all together {all}");
        return conflict("electrum_subscriptions_session_max", "electrum_subscriptions_max", why);
    }
    let waiting_mib = whole(layers, "electrum_waiting_mib_max");
    let said = layers.get("electrum_waiting_mib_max").1 != Source::Default;
    if said && waiting_mib > memory_mib / 2 {
        let why = format!("{waiting_mib} MiB for slow readers is more than half the budget of {memory_mib} MiB");
        return conflict("electrum_waiting_mib_max", "memory_mib", why);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::schema::SETTINGS;

    #[test]
    fn the_table_and_the_server_have_the_same_defaults() {
        let ours = limits(&Layers::default());
        assert_eq!(format!("{ours:?}"), format!("{:?}", Limits::default()));
        let server = ElectrumConfig::new("127.0.0.1:50001".parse().unwrap(), Params::of(Network::Main));
        let config = resolved(&[]).unwrap().unwrap();
        assert_eq!(
            (config.server_name, config.banner, config.doors),
            (server.server_name, server.banner, server.doors)
        );
        assert!(SETTINGS.iter().filter(|setting| setting.area == "electrum").count() >= 10);
    }

    fn resolved(values: &[(&str, &str)]) -> Result<Option<ElectrumConfig>, String> {
        let flags: Vec<(String, String)> = values.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let layers = Layers::of_process(&flags, std::iter::empty()).map_err(|error| error.to_string())?;
        resolve(&layers, Network::Main, 1 << 20, Path::new("/x")).map_err(|error| error.to_string())
    }

    #[test]
    fn the_public_and_other_servers_are_told_where_we_are_only_if_we_wish() {
        let config = resolved(&[]).unwrap().unwrap();
        assert!(config.public_hosts.is_empty() && config.discovery.is_none());
        let seeds = ("electrum_discovery_seeds", "ssl://b.org tcp://b.org:7");
        let given = [("electrum_report", "tcp://a.org ssl://a.org:443"), ("electrum_discovery", "on"), seeds];
        let config = resolved(&given).unwrap().unwrap();
        assert_eq!(config.public_hosts[0].ports, [Some(50_001), Some(443), None, None]);
        let wish = config.discovery.unwrap();
        assert_eq!(wish.seeds[0].ports, [Some(7), Some(50_002), None, None]);
        assert!(wish.onion_proxy.is_none() && wish.proxy.is_none() && !wish.accepts_local);
        let tor = resolved(&[("electrum_discovery", "on"), ("p2p_onion_proxy", "127.0.0.1:9050")]).unwrap().unwrap();
        let wish = tor.discovery.unwrap();
        assert!(wish.onion_proxy.is_some() && wish.proxy.is_none() && wish.file.unwrap().starts_with("/x"));
        assert!(resolved(&[seeds]).unwrap().unwrap().discovery.is_none());
    }

    #[test]
    fn every_way_in_has_its_setting() {
        let all: Vec<(&str, &str)> = PORTS.iter().map(|(name, ..)| (*name, "auto")).collect();
        let config = resolved(&all).unwrap().unwrap();
        let told: Vec<String> = config.doors.iter().map(|door| format!("{} {}", door.name(), door.place)).collect();
        let want = ["tcp", "tls", "ws", "wss", "http", "https"].iter().zip(50_001..);
        let want: Vec<String> = want.map(|(name, port)| format!("{name} 127.0.0.1:{port}")).collect();
        assert_eq!(told, want);
        let only = resolved(&[("electrum_listen", "off"), ("electrum_unix_socket", "/y/e.sock")]).unwrap().unwrap();
        assert_eq!(only.doors.iter().map(Door::name).collect::<Vec<_>>(), ["unix"]);
        assert!(resolved(&[("electrum_listen", "off")]).unwrap().is_none());
        let flags = [
            ("electrum_onion".to_owned(), "on".to_owned()),
            ("p2p_tor_control".to_owned(), "127.0.0.1:9051".to_owned()),
        ];
        let told = |flags: &[(String, String)]| {
            let layers = Layers::of_process(flags, std::iter::empty()).unwrap();
            onion(&layers, Network::Main, Path::new("/x")).map(|wish| wish.map(|wish| wish.port))
        };
        assert_eq!(told(&flags).unwrap(), Some(50_001));
        assert_eq!(told(&[]).unwrap(), None);
        assert!(told(&flags[..1]).unwrap_err().to_string().contains("conflicts with \"p2p_tor_control\""));
        assert!(resolved(&[("electrum_onion", "on")]).unwrap().unwrap().doors[1].is_onion);
        let own = config.certificate.unwrap();
        assert!(own.are_made && own.key.starts_with("/x"));
        let given = resolved(&[("electrum_certificate", "/c"), ("electrum_certificate_key", "/k")]).unwrap().unwrap();
        assert!(!given.certificate.unwrap().are_made);
        let given = resolved(&[("electrum_balancers", "10.0.0.0/8 ::1")]).unwrap().unwrap();
        assert_eq!(given.balancers.len(), 2);
        let long = "/".to_owned() + &"x".repeat(SOCKET_PATH_BYTES_MAX);
        for (name, value, word) in [
            ("electrum_certificate", "/c", "conflicts with \"electrum_certificate_key\""),
            ("electrum_certificate_key", "/k", "conflicts with \"electrum_certificate\""),
            ("electrum_balancers", "10.0.0.0/33", "no subnet"),
            ("electrum_unix_socket", &long, "108 bytes"),
            ("electrum_exempt", "a", "no address"),
            ("electrum_work_soft_s", "300", "conflicts with \"electrum_work_hard_s\""),
            ("electrum_login", "secret", "16 to 256 letters"),
            ("electrum_report", "ssl://a.org", "no such way in whose port"),
            ("electrum_discovery_seeds", "a.org", "no scheme"),
        ] {
            let told = resolved(&[(name, value)]).unwrap_err();
            assert!(told.contains(name) && told.contains(word), "{told}");
        }
        assert!(resolved(&[("electrum_unix_socket", &long[1..].replacen('x', "/", 1))]).is_ok());
    }
}
