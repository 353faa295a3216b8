//! The Electrum server's part of the configuration.
//!
//! In:     the settings that begin with `electrum_`, the network, the memory budget.
//! Out:    the server's own configuration; `None` where it is off.
//! Fails:  when two limits contradict each other.

use std::net::SocketAddr;
use std::time::Duration;

use primitives::network::{Network, Params};
use serve::electrum::Config as ElectrumConfig;
use serve::electrum::limits::Limits;

use super::value::Value;
use super::{ConfigError, Layers, Source, whole};

/// The server these settings describe.
pub fn resolve(layers: &Layers, network: Network, memory_mib: u64) -> Result<Option<ElectrumConfig>, ConfigError> {
    let listen = match layers.get("electrum_listen").0 {
        Value::Address(address) => address,
        Value::Word("off") => return Ok(None),
        _ => SocketAddr::from(([127, 0, 0, 1], usual_port(network))),
    };
    check_limits(layers, memory_mib)?;
    let mut config = ElectrumConfig::new(listen, Params::of(network));
    let put = |name: &str, field: &mut String| {
        if let (Value::Text(text), _) = layers.get(name) {
            *field = text;
        }
    };
    put("electrum_server_name", &mut config.server_name);
    put("electrum_banner", &mut config.banner);
    put("electrum_donation_address", &mut config.donation_address);
    config.limits = limits(layers);
    Ok(Some(config))
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
        let config = resolve(&Layers::default(), Network::Main, 1 << 20).unwrap().unwrap();
        assert_eq!((config.server_name, config.banner), (server.server_name, server.banner));
        assert!(SETTINGS.iter().filter(|setting| setting.area == "electrum").count() >= 10);
    }
}
