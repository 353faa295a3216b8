//! The part of the configuration that JSON-RPC and REST have.
//!
//! In:     the settings that begin with `rpc_`, `rest`, the network.
//! Out:    [`RpcSettings`]; `None` where they are off.
//! Fails:  when an address, subnet or hashed password cannot be read, or a password has no user.

use std::net::SocketAddr;
use std::path::PathBuf;

use primitives::network::Network;
use serve::rpc::auth::{Subnet, Users};

use super::value::Value;
use super::{ConfigError, Layers, whole, word};

/// How JSON-RPC listens. Its `Debug` says no secrets.
#[derive(Clone)]
pub struct RpcSettings {
    /// Where.
    pub listen: SocketAddr,
    /// Who may connect, besides this machine.
    pub allow: Vec<Subnet>,
    /// A user with his password, or empty.
    pub user: String,
    /// His password, or empty: then a cookie is made.
    pub password: String,
    /// Users with hashed passwords, and the methods that some are limited to.
    pub users: Users,
    /// Where the cookie is written.
    pub cookie_file: PathBuf,
    /// Calls answered at the same time.
    pub threads: usize,
    /// Calls that wait.
    pub queue_max: usize,
    /// Seconds for a request to come, and for its answer to be taken.
    pub timeout_s: u64,
    /// REST too.
    pub rest: bool,
}

impl std::fmt::Debug for RpcSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RpcSettings").field("listen", &self.listen).field("users", &self.users).finish_non_exhaustive()
    }
}

/// Name of the cookie in the network's folder.
pub const COOKIE_NAME: &str = ".cookie";

/// The server these settings describe; `chain_dir` is the network's folder.
pub fn resolve(
    layers: &Layers,
    network: Network,
    chain_dir: &std::path::Path,
) -> Result<Option<RpcSettings>, ConfigError> {
    let listen = match layers.get("rpc_listen").0 {
        Value::Address(address) => address,
        Value::Word("off") => return Ok(None),
        _ => SocketAddr::from(([127, 0, 0, 1], usual_port(network))),
    };
    let allow = each(layers, "rpc_allow", "addresses and subnets such as 192.168.0.0/16", str::parse::<Subnet>)?;
    let mut users = Users::default();
    each(layers, "rpc_auth", "user:salt$hash", |text| users.add_hashed(text))?;
    each(layers, "rpc_whitelist", "user:method,method", |text| {
        users.limit(text);
        Ok(())
    })?;
    let (user, password) = (text(layers, "rpc_user"), text(layers, "rpc_password"));
    if user.is_empty() != password.is_empty() {
        let (setting, other) =
            if user.is_empty() { ("rpc_password", "rpc_user") } else { ("rpc_user", "rpc_password") };
        let why = format!("a user and a password belong together, and {other} is empty");
        return Err(ConfigError::Conflict { setting, source: layers.get(setting).1, other, why });
    }
    Ok(Some(RpcSettings {
        listen,
        allow,
        user,
        password,
        users,
        cookie_file: match layers.get("rpc_cookie_file").0 {
            Value::Path(path) => path,
            _ => chain_dir.join(COOKIE_NAME),
        },
        threads: whole(layers, "rpc_threads") as usize,
        queue_max: whole(layers, "rpc_workqueue") as usize,
        timeout_s: whole(layers, "rpc_timeout_s"),
        rest: word(layers, "rest") == "on",
    }))
}

/// Ports as Bitcoin Core uses them (`src/chainparamsbase.cpp`).
pub fn usual_port(network: Network) -> u16 {
    match network {
        Network::Main => 8332,
        Network::Testnet3 => 18_332,
        Network::Testnet4 => 48_332,
        Network::Signet => 38_332,
        Network::Regtest => 18_443,
    }
}

fn text(layers: &Layers, name: &str) -> String {
    match layers.get(name).0 {
        Value::Text(text) => text,
        _ => String::new(),
    }
}

/// Every word of a setting that holds several.
fn each<T>(
    layers: &Layers,
    setting: &'static str,
    accepted: &str,
    mut read: impl FnMut(&str) -> Result<T, String>,
) -> Result<Vec<T>, ConfigError> {
    let told =
        |why| ConfigError::BadValue { setting, source: layers.get(setting).1, why, accepted: accepted.to_owned() };
    text(layers, setting).split_whitespace().map(|word| read(word).map_err(told)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(values: &[(&str, &str)]) -> Result<Option<RpcSettings>, String> {
        let flags: Vec<(String, String)> = values.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let layers = Layers::of_process(&flags, std::iter::empty()).map_err(|error| error.to_string())?;
        resolve(&layers, Network::Regtest, std::path::Path::new("/x")).map_err(|error| error.to_string())
    }

    #[test]
    fn settings_become_a_server() {
        let plain = resolved(&[]).unwrap().unwrap();
        assert_eq!(plain.listen.to_string(), "127.0.0.1:18443");
        assert_eq!((plain.threads, plain.queue_max, plain.timeout_s, plain.rest), (16, 64, 30, false));
        assert_eq!(plain.cookie_file, PathBuf::from("/x/.cookie"));
        assert!(resolved(&[("rpc_listen", "off")]).unwrap().is_none());
        let full = resolved(&[
            ("rpc_allow", "10.0.0.0/8 ::1"),
            ("rpc_auth", "a:b$c d:e$f"),
            ("rpc_user", "u"),
            ("rpc_password", "secret"),
            ("rest", "on"),
        ]);
        let full = full.unwrap().unwrap();
        assert_eq!((full.allow.len(), full.rest), (2, true));
        assert!(!format!("{full:?}").contains("secret"));
        for (name, value, word) in [
            ("rpc_allow", "10.0.0.0/33", "no subnet"),
            ("rpc_auth", "a", "user:salt$hash"),
            ("rpc_password", "x", "conflicts with \"rpc_user\""),
        ] {
            let told = resolved(&[(name, value)]).unwrap_err();
            assert!(told.contains(name) && told.contains(word), "{told}");
        }
    }
}
