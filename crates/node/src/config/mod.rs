//! Configuration: one table of settings, four places to set them, one checked result.
//!
//! In:     flags, environment, `assay.toml` in the data directory.
//! Out:    [`Config`], in which every value is in range and no two contradict each other.
//! Fails:  with one [`ConfigError`], before anything in the data directory is touched.

mod electrum;
mod electrum_settings;
pub mod machine;
pub mod mempool;
pub mod network;
mod params;
mod peer_settings;
pub mod rpc;
pub mod schema;
pub mod show;
pub mod sources;
pub mod value;
pub mod zmq;
mod zmq_settings;

use std::path::{Path, PathBuf};
use std::time::Duration;

use primitives::hash::BlockHash;
use primitives::network::{Network, Params};

pub use sources::{ConfigError, Layers, Source, nearest};
use value::Value;

use crate::wiring::OnionWish;

/// Name of the settings file in the data directory.
pub const FILE_NAME: &str = "assay.toml";
/// Memory one thread needs at least for the block it checks and its scripts, in MiB.
const THREAD_MEMORY_MIB: u64 = 8;

/// Importance of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// The node stops or something was lost.
    Error,
    /// Somebody should look.
    Warn,
    /// What happened.
    Info,
    /// Details for the hunter of a bug.
    Debug,
}

/// The settings of one start, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// The network.
    pub network: Network,
    /// Its constants, those changed that the settings change.
    pub params: Params,
    /// Age of a tip that counts as recent, in seconds.
    pub tip_age_max_s: u64,
    /// Folder of all networks and the settings file.
    pub datadir: PathBuf,
    /// Folder of this network.
    pub chain_dir: PathBuf,
    /// Folder of coins and index, all of which can be built again.
    pub store_dir: PathBuf,
    /// Folder of another node's block files; our own where there is no other.
    pub blocks_from: PathBuf,
    /// True when there is no other node's folder.
    pub blocks_own: bool,
    /// Block up to which scripts are taken on trust.
    pub assume_valid: Option<BlockHash>,
    /// Free disk below which the node stops, in bytes.
    pub disk_free_min_bytes: u64,
    /// Threads for checking.
    pub threads: usize,
    /// Memory budget, in bytes.
    pub memory_bytes: u64,
    /// Name of the signature engine.
    pub sig_engine: &'static str,
    /// Folder of hints of earlier validations; none where they are off.
    pub hints_dir: Option<PathBuf>,
    /// Block filters are built.
    pub block_filters: bool,
    /// What ZeroMQ publishes where.
    pub zmq: Vec<serve::zmq::Notifier>,
    /// The Electrum server's onion service; `None` for none.
    pub electrum_onion: Option<OnionWish>,
    /// The Electrum server; `None` for none.
    pub electrum: Option<serve::electrum::Config>,
    /// JSON-RPC; `None` for none.
    pub rpc: Option<rpc::RpcSettings>,
    /// The mempool, and what miners are offered.
    pub mempool: mempool::MempoolSettings,
    /// The network of peers; `None` for no peers.
    pub peers: Option<network::NetworkConfig>,
    /// Least important line that is logged.
    pub log_level: LogLevel,
    /// Where every line goes besides.
    pub log_file: Option<PathBuf>,
    /// Messages of peers have lines there.
    pub log_messages: bool,
    /// No place of the program may fill that file.
    pub log_rate_limit: bool,
    /// Time between progress lines.
    pub progress_interval: Duration,
}

impl Config {
    /// Reads every place for this process.
    pub fn load(flags: &[(String, String)]) -> Result<(Config, Layers), ConfigError> {
        Config::load_with(flags, &[])
    }

    /// The same with other defaults for some settings.
    pub fn load_with(flags: &[(String, String)], defaults: &[(&str, &str)]) -> Result<(Config, Layers), ConfigError> {
        let mut layers = Layers::of_process(flags, variables())?;
        for (name, text) in defaults.iter().filter(|(name, _)| *name == "datadir") {
            layers.set_default(name, text)?; // it decides where the file is
        }
        layers.add_file(&settings_file(&layers))?;
        for (name, text) in defaults {
            layers.set_default(name, text)?;
        }
        let config = Config::resolve(&layers, machine::memory_mib())?;
        Ok((config, layers))
    }

    /// Types, defaults that depend on the machine or the network, and contradictions.
    pub fn resolve(layers: &Layers, machine_mib: u64) -> Result<Config, ConfigError> {
        let network: Network = word(layers, "chain").parse().expect("the table's choices are the networks");
        let datadir = path(layers, "datadir").expect("datadir is always a path");
        let chain_dir = datadir.join(network.name());
        let blocks = path(layers, "blocks_from");
        let threads = match layers.get("threads").0 {
            Value::Whole(threads) => threads as usize,
            _ => machine::processors(),
        };
        let memory_mib = memory_mib(layers, machine_mib)?;
        check_threads(layers, threads as u64, memory_mib)?;
        check_blocks_from(layers, blocks.as_deref(), [&datadir, &chain_dir])?;
        Ok(Config {
            network,
            params: params::resolve(layers, network)?,
            tip_age_max_s: whole(layers, "tip_age_max_s"),
            peers: network::resolve(layers, network, blocks.is_none(), &chain_dir)?,
            blocks_own: blocks.is_none(),
            blocks_from: blocks.unwrap_or_else(|| chain_dir.join("blocks")),
            hints_dir: (word(layers, "sig_hints") == "on").then(|| chain_dir.join("hints")),
            store_dir: chain_dir.join("store"),
            datadir,
            chain_dir: chain_dir.clone(),
            assume_valid: match layers.get("assume_valid").0 {
                Value::BlockHash(hash) => Some(hash),
                _ => None,
            },
            disk_free_min_bytes: whole(layers, "disk_free_min_mib") << 20,
            threads,
            memory_bytes: memory_mib << 20,
            sig_engine: word(layers, "sig_engine"),
            electrum_onion: electrum::onion(layers, network, &chain_dir)?,
            electrum: electrum::resolve(layers, network, memory_mib, &chain_dir)?,
            rpc: rpc::resolve(layers, network, &chain_dir)?,
            mempool: mempool::resolve(layers, network, memory_mib)?,
            block_filters: word(layers, "block_filters") == "on",
            zmq: zmq::resolve(layers)?,
            log_level: log_level(word(layers, "log_level")),
            log_file: path(layers, "log_file"),
            log_messages: word(layers, "log_messages") == "on",
            log_rate_limit: word(layers, "log_rate_limit") == "on",
            progress_interval: Duration::from_secs(whole(layers, "progress_interval_s")),
        })
    }
}

/// The settings file of these layers' data directory.
pub fn settings_file(layers: &Layers) -> PathBuf {
    path(layers, "datadir").expect("datadir is always a path").join(FILE_NAME)
}

fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| {
        // A name that is no text cannot be ours; a value that is none becomes one no setting accepts.
        Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
    })
}

fn memory_mib(layers: &Layers, machine_mib: u64) -> Result<u64, ConfigError> {
    let (value, source) = layers.get("memory_mib");
    let Value::Whole(wanted) = value else { return Ok(machine::auto_memory_mib(machine_mib)) };
    if wanted <= machine_mib {
        return Ok(wanted);
    }
    let why = format!("{wanted} MiB is more than this machine or control group has");
    let accepted = format!("256..={machine_mib} MiB or \"auto\"");
    Err(ConfigError::BadValue { setting: "memory_mib", source, why, accepted })
}

fn check_threads(layers: &Layers, threads: u64, memory_mib: u64) -> Result<(), ConfigError> {
    let needed_mib = threads * THREAD_MEMORY_MIB;
    let source = layers.get("threads").1;
    if needed_mib <= memory_mib || source == Source::Default {
        return Ok(());
    }
    let why = format!("{threads} threads need {needed_mib} MiB, and the budget is {memory_mib} MiB");
    Err(ConfigError::Conflict { setting: "threads", source, other: "memory_mib", why })
}

fn check_blocks_from(layers: &Layers, blocks: Option<&Path>, own: [&PathBuf; 2]) -> Result<(), ConfigError> {
    let Some(blocks) = blocks else { return Ok(()) };
    let source = layers.get("blocks_from").1;
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if own.iter().any(|folder| real(folder) == real(blocks)) {
        let why = "the node's own folder holds no block files of others".to_owned();
        return Err(ConfigError::Conflict { setting: "blocks_from", source, other: "datadir", why });
    }
    if !blocks.is_dir() {
        let why = format!("{} is no folder", blocks.display());
        let accepted = "an existing folder with blk*.dat files or \"own\"".to_owned();
        return Err(ConfigError::BadValue { setting: "blocks_from", source, why, accepted });
    }
    Ok(())
}

fn log_level(word: &str) -> LogLevel {
    match word {
        "error" => LogLevel::Error,
        "warn" => LogLevel::Warn,
        "debug" => LogLevel::Debug,
        _ => LogLevel::Info,
    }
}

fn word(layers: &Layers, name: &str) -> &'static str {
    match layers.get(name).0 {
        Value::Word(word) => word,
        other => unreachable!("{name} is a choice, not {other:?}"),
    }
}

fn whole(layers: &Layers, name: &str) -> u64 {
    match layers.get(name).0 {
        Value::Whole(number) => number,
        other => unreachable!("{name} is a number, not {other:?}"),
    }
}

fn path(layers: &Layers, name: &str) -> Option<PathBuf> {
    match layers.get(name).0 {
        Value::Path(path) => Some(path),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serve::transport::listen::Door;

    use super::*;

    fn resolve(flags: &[(&str, &str)], machine_mib: u64) -> Result<Config, String> {
        let flags: Vec<_> = flags.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect();
        let layers = Layers::of_process(&flags, []).map_err(|error| error.to_string())?;
        Config::resolve(&layers, machine_mib).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_make_a_whole() {
        let config = resolve(&[], 8_192).unwrap();
        assert_eq!(config.network, Network::Main);
        assert_eq!(config.memory_bytes, 4_096 << 20);
        assert_eq!(config.assume_valid, None, "every signature is checked unless somebody says otherwise");
        assert_eq!(config.electrum.unwrap().doors, [Door::plain("127.0.0.1:50001".parse().unwrap())]);
        assert_eq!(config.blocks_from, config.chain_dir.join("blocks"));
    }

    #[test]
    fn hints_are_beside_the_store_unless_they_are_off() {
        let config = resolve(&[], 8_192).unwrap();
        assert_eq!(config.hints_dir, Some(config.chain_dir.join("hints")));
        assert!(!config.hints_dir.unwrap().starts_with(config.store_dir), "`assay reindex` removes the store");
        assert_eq!(resolve(&[("sig_hints", "off")], 8_192).unwrap().hints_dir, None);
    }

    #[test]
    fn electrum_follows_the_network_and_can_be_off() {
        for (network, port) in [("main", 50_001), ("testnet4", 40_001), ("regtest", 60_401)] {
            let doors = resolve(&[("chain", network)], 8_192).unwrap().electrum.unwrap().doors;
            assert_eq!(doors, [Door::plain(([127, 0, 0, 1], port).into())], "{network}");
        }
        assert!(resolve(&[("electrum_listen", "off")], 8_192).unwrap().electrum.is_none());
    }

    #[test]
    fn more_memory_than_the_machine_has_is_refused() {
        assert!(resolve(&[("memory_mib", "8192")], 8_192).is_ok());
        assert_eq!(
            resolve(&[("memory_mib", "8193")], 8_192).unwrap_err(),
            "setting \"memory_mib\" (command line): 8193 MiB is more than this machine or control group has; \
             accepted: 256..=8192 MiB or \"auto\""
        );
    }

    #[test]
    fn settings_that_contradict_each_other_are_named_both() {
        assert!(resolve(&[("threads", "32"), ("memory_mib", "256")], 8_192).is_ok());
        assert_eq!(
            resolve(&[("threads", "33"), ("memory_mib", "256")], 8_192).unwrap_err(),
            "setting \"threads\" (command line) conflicts with \"memory_mib\": 33 threads need 264 MiB, and the budget \
             is 256 MiB"
        );
        assert_eq!(
            resolve(&[("electrum_subscriptions_session_max", "11"), ("electrum_subscriptions_max", "10")], 8_192)
                .unwrap_err(),
            "setting \"electrum_subscriptions_session_max\" (command line) conflicts with \
             \"electrum_subscriptions_max\": one session would be allowed 11 scripts, all together 10"
        );
        let error = resolve(&[("electrum_waiting_mib_max", "300"), ("memory_mib", "512")], 8_192).unwrap_err();
        assert!(error.contains("conflicts with \"memory_mib\""), "{error}");
        let error = resolve(&[("datadir", "/tmp"), ("blocks_from", "/tmp")], 8_192).unwrap_err();
        assert!(error.contains("conflicts with \"datadir\""), "{error}");
        let error = resolve(&[("blocks_from", "/nonexistent/blocks")], 8_192).unwrap_err();
        assert!(error.contains("\"blocks_from\" (command line): /nonexistent/blocks is no folder"), "{error}");
    }
}
