//! The mempool's and the miner's part of the configuration: its settings, and the policy they make.
//!
//! In:     settings of the areas mempool and mining, the network, the memory budget.
//! Out:    [`MEMPOOL_SETTINGS`]; [`MempoolSettings`].
//! Fails:  where the mempool would take too much of the budget, hold no cluster, or take forms its network does not use.
//! Source: Bitcoin Core, `src/node/mempool_args.cpp`, `src/node/miner.cpp` (`ApplyArgsManOptions`).

use chain::policy::{FeeRate, Policy};
use primitives::network::Network;

use super::schema::{Setting, setting};
use super::value::{Kind, Value};
use super::{ConfigError, Layers, whole, word};

/// Most of the mempool where nothing is said, in millions of bytes; Core's `DEFAULT_MAX_MEMPOOL_SIZE_MB`.
const MEMPOOL_MB: u64 = 300;
/// The part of the budget it takes then, where that is less.
const BUDGET_SHARE: u64 = 8;
/// Most of the budget it may be given, in percent: the rest is for coins.
const BUDGET_PERCENT_MAX: u64 = 50;
/// A mempool holds so many of the largest clusters at least; Core's factor in `-maxmempool must be at least`.
const CLUSTERS_MIN: u64 = 40;
/// Memory taken for what the mempool counts, in percent of it: what allocators lose between two entries, and the
/// memories of coins and of verdicts beside it. Measured with 300 MB, full and after 41,000 evictions: 131 (docs/mempool.md,
/// "Memory").
pub const RESERVE_PERCENT: u64 = 135;

const MEMPOOL: &str = "mempool";
const MINING: &str = "mining";
const RATE: &str = "sat/kvB";
const RATES: Kind = Kind::Whole { min: 0, max: 100_000_000 };
const SWITCH: Kind = Kind::Choice(&["on", "off"]);

/// The settings, in the order of the file and the manual.
pub const MEMPOOL_SETTINGS: &[Setting] = &[
    setting(
        MEMPOOL,
        "mempool_mb",
        Kind::Whole { min: 5, max: 1 << 20 },
        &["auto"],
        "auto",
        "MB",
        "Memory for unconfirmed transactions, in millions of bytes; a part of memory_mib. Above it those that pay least go. \
         \"auto\" is 300, or an eighth of memory_mib where that is less.",
    ),
    setting(
        MEMPOOL,
        "mempool_expiry_h",
        Kind::Whole { min: 1, max: 1 << 20 },
        &[],
        "336",
        "h",
        "A transaction that is not confirmed for so long goes.",
    ),
    setting(
        MEMPOOL,
        "mempool_save",
        Kind::Choice(&["on", "v1", "off"]),
        &[],
        "on",
        "",
        "Keep the mempool in mempool.dat over a restart, in Bitcoin Core's format; \"v1\" in the one that versions before 28 \
         read.",
    ),
    setting(
        MEMPOOL,
        "relay_fee_min",
        RATES,
        &["auto"],
        "auto",
        RATE,
        "What pays less is not taken alone. \"auto\" is 100, or relay_fee_increment where that is more.",
    ),
    setting(
        MEMPOOL,
        "relay_fee_increment",
        RATES,
        &[],
        "100",
        RATE,
        "What a replacement pays beyond what it replaces, and the step by which a full mempool asks for more.",
    ),
    setting(
        MEMPOOL,
        "dust_fee",
        RATES,
        &[],
        "3000",
        RATE,
        "An output that costs more than it holds to spend at this rate is dust.",
    ),
    setting(
        MEMPOOL,
        "bytes_per_sigop",
        Kind::Whole { min: 0, max: 1_000_000 },
        &[],
        "20",
        "vB",
        "Virtual bytes that a signature operation counts for at least.",
    ),
    setting(MEMPOOL, "bare_multisig", SWITCH, &[], "on", "", "Take transactions with outputs of bare multisig."),
    setting(
        MEMPOOL,
        "datacarrier_bytes_max",
        Kind::Whole { min: 0, max: 4_000_000 },
        &["off"],
        "100000",
        "bytes",
        "Bytes of OP_RETURN outputs in one transaction; \"off\" takes none with such outputs.",
    ),
    setting(
        MEMPOOL,
        "accept_nonstandard",
        SWITCH,
        &[],
        "off",
        "",
        "Take forms of transactions that the network does not use; on test networks only.",
    ),
    setting(
        MEMPOOL,
        "cluster_txs_max",
        Kind::Whole { min: 1, max: chain::policy::CLUSTER_TXS_BOUND as u64 },
        &[],
        "64",
        "transactions",
        "Most unconfirmed transactions that depend on each other.",
    ),
    setting(
        MEMPOOL,
        "cluster_kvb_max",
        Kind::Whole { min: 1, max: 10_000 },
        &[],
        "101",
        "kvB",
        "Most virtual kilobytes that they have together.",
    ),
    setting(
        MINING,
        "block_weight_max",
        Kind::Whole { min: 2_000, max: 4_000_000 },
        &[],
        "4000000",
        "weight units",
        "Most weight of a block made here.",
    ),
    setting(
        MINING,
        "block_weight_reserved",
        Kind::Whole { min: 2_000, max: 4_000_000 },
        &[],
        "8000",
        "weight units",
        "Weight of it that is kept for the header and the coinbase.",
    ),
    setting(MINING, "block_fee_min", RATES, &[], "1", RATE, "What pays less is not put into a block made here."),
];

/// How the mempool is kept and what miners are offered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MempoolSettings {
    /// What is taken.
    pub policy: Policy,
    /// The file it is kept in over a restart.
    pub save: Save,
    /// What a block made here may hold.
    pub mining: serve::pool::MiningLimits,
}

/// Whether the mempool is kept over a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Save {
    /// In Core's format.
    On,
    /// In the one of Core's versions before 28.
    V1,
    /// It is not, and a file there is left alone.
    Off,
}

impl MempoolSettings {
    /// Memory to take off the budget for it.
    pub fn reserve_bytes(&self) -> u64 {
        self.policy.mempool_bytes_max / 100 * RESERVE_PERCENT
    }
}

/// What these settings make.
pub fn resolve(layers: &Layers, network: Network, memory_mib: u64) -> Result<MempoolSettings, ConfigError> {
    let rate = |name: &str| FeeRate::per_kvb(whole(layers, name) as i64);
    let incremental = rate("relay_fee_increment");
    let min_relay = match layers.get("relay_fee_min").0 {
        Value::Whole(_) => rate("relay_fee_min"),
        _ => Policy::default().min_relay.max(incremental),
    };
    let nonstandard = word(layers, "accept_nonstandard") == "on";
    if nonstandard && network == Network::Main {
        let (setting, source) = ("accept_nonstandard", layers.get("accept_nonstandard").1);
        let why = "it is for test networks".to_owned();
        return Err(ConfigError::Conflict { setting, source, other: "chain", why });
    }
    let cluster_vbytes_max = whole(layers, "cluster_kvb_max") * 1_000;
    let policy = Policy {
        min_relay,
        incremental,
        dust_relay: rate("dust_fee"),
        datacarrier_bytes_max: match layers.get("datacarrier_bytes_max").0 {
            Value::Whole(bytes) => Some(bytes as usize),
            _ => None,
        },
        bare_multisig: word(layers, "bare_multisig") == "on",
        require_standard: !nonstandard,
        bytes_per_sigop: whole(layers, "bytes_per_sigop") as u32,
        cluster_txs_max: whole(layers, "cluster_txs_max") as usize,
        cluster_vbytes_max,
        mempool_bytes_max: mempool_bytes(layers, memory_mib, cluster_vbytes_max)?,
        expiry_s: whole(layers, "mempool_expiry_h") * 3_600,
    };
    let save = match word(layers, "mempool_save") {
        "on" => Save::On,
        "v1" => Save::V1,
        _ => Save::Off,
    };
    Ok(MempoolSettings { policy, save, mining: mining(layers)? })
}

fn mining(layers: &Layers) -> Result<serve::pool::MiningLimits, ConfigError> {
    let (weight_max, reserved) = (whole(layers, "block_weight_max"), whole(layers, "block_weight_reserved"));
    if reserved > weight_max {
        let (setting, source) = ("block_weight_reserved", layers.get("block_weight_reserved").1);
        let why = format!("{reserved} units cannot be kept of {weight_max}");
        return Err(ConfigError::Conflict { setting, source, other: "block_weight_max", why });
    }
    let min_feerate = FeeRate::per_kvb(whole(layers, "block_fee_min") as i64);
    Ok(serve::pool::MiningLimits { weight_max: weight_max - reserved, min_feerate })
}

fn mempool_bytes(layers: &Layers, memory_mib: u64, cluster_vbytes_max: u64) -> Result<u64, ConfigError> {
    let (value, source) = layers.get("mempool_mb");
    let memory_bytes = memory_mib << 20;
    let bytes = match value {
        Value::Whole(mb) => mb * 1_000_000,
        _ => (MEMPOOL_MB * 1_000_000).min(memory_bytes / BUDGET_SHARE),
    };
    let conflict = |other, why| Err(ConfigError::Conflict { setting: "mempool_mb", source, other, why });
    if bytes < cluster_vbytes_max * CLUSTERS_MIN {
        let least = (cluster_vbytes_max * CLUSTERS_MIN).div_ceil(1_000_000);
        return conflict("cluster_kvb_max", format!("clusters of that size need {least} MB at least"));
    }
    let most = memory_bytes / 100 * BUDGET_PERCENT_MAX;
    if bytes / 100 * RESERVE_PERCENT > most {
        let most = most / RESERVE_PERCENT / 10_000;
        return conflict("memory_mib", format!("a budget of {memory_mib} MiB leaves {most} MB for it at most"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(values: &[(&str, &str)], memory_mib: u64) -> Result<MempoolSettings, String> {
        let flags: Vec<(String, String)> = values.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let layers = Layers::of_process(&flags, std::iter::empty()).map_err(|error| error.to_string())?;
        let network = word(&layers, "chain").parse().unwrap();
        resolve(&layers, network, memory_mib).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_said_is_what_core_does() {
        let settings = resolved(&[], 4_096).unwrap();
        assert_eq!((settings.policy, settings.save), (Policy::default(), Save::On));
        assert_eq!(settings.mining.weight_max, 3_992_000);
        assert_eq!(settings.mining.min_feerate, FeeRate::per_kvb(1));
        // A small budget has a small mempool, and always one.
        for (memory_mib, want) in [(256, 33_554_432), (2_288, 299_892_736), (2_289, 300_000_000)] {
            assert_eq!(resolved(&[], memory_mib).unwrap().policy.mempool_bytes_max, want, "{memory_mib}");
        }
    }

    #[test]
    fn every_setting_has_an_effect() {
        let of = |name: &str, value: &str| {
            resolved(&[("chain", "regtest"), (name, value)], 4_096).unwrap_or_else(|error| panic!("{name}: {error}"))
        };
        let plain = resolved(&[("chain", "regtest")], 4_096).unwrap();
        for setting in MEMPOOL_SETTINGS {
            let other = match setting.name {
                "mempool_mb" => "299",
                "mempool_save" => "v1",
                "bare_multisig" => "off",
                "accept_nonstandard" => "on",
                "datacarrier_bytes_max" => "off",
                "cluster_txs_max" => "63",
                "block_weight_max" => "3999999",
                _ => "4999",
            };
            assert_ne!(of(setting.name, other), plain, "{}", setting.name);
        }
    }

    #[test]
    fn the_relay_minimum_follows_the_increment_unless_it_is_said() {
        let least = |values: &[(&str, &str)]| resolved(values, 4_096).unwrap().policy.min_relay.sat_per_kvb();
        assert_eq!(least(&[("relay_fee_increment", "250")]), 250);
        assert_eq!(least(&[("relay_fee_increment", "50")]), 100);
        assert_eq!(least(&[("relay_fee_increment", "250"), ("relay_fee_min", "0")]), 0);
    }

    #[test]
    fn contradictions_are_named_at_both_sides_of_their_bounds() {
        let check = |values: &[(&str, &str)], memory_mib: u64, want: Option<&str>| {
            let told = resolved(values, memory_mib).err();
            let fits = match (&told, want) {
                (Some(told), Some(want)) => told.contains(want),
                (told, want) => told.is_none() && want.is_none(),
            };
            assert!(fits, "{values:?}: {told:?}");
        };
        check(&[("mempool_mb", "99")], 256, None);
        check(&[("mempool_mb", "100")], 256, Some("a budget of 256 MiB leaves 99 MB for it at most"));
        check(&[("mempool_mb", "5"), ("cluster_kvb_max", "125")], 256, None);
        check(&[("mempool_mb", "5"), ("cluster_kvb_max", "126")], 256, Some("clusters of that size need 6 MB"));
        check(&[("accept_nonstandard", "on"), ("chain", "testnet4")], 256, None);
        check(&[("accept_nonstandard", "on")], 256, Some("conflicts with \"chain\": it is for test networks"));
        check(&[("block_weight_max", "8000")], 256, None);
        check(&[("block_weight_max", "7999")], 256, Some("8000 units cannot be kept of 7999"));
    }
}
