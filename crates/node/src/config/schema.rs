//! Every setting of the program, once: flags, environment, file, JSON and the manual are all made from this table.
//!
//! In:     nothing.
//! Out:    [`SETTINGS`], and how a name is spelled in each place.
//! Fails:  never; tests hold every default to its own range.

use super::electrum_settings::ELECTRUM_SETTINGS;
use super::mempool::MEMPOOL_SETTINGS;
use super::peer_settings::PEER_SETTINGS;
use super::value::Kind;
use super::zmq_settings::ZMQ_SETTINGS;

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Name in the file; other spellings follow from it.
    pub name: &'static str,
    /// Heading it stands under in the file and the manual.
    pub area: &'static str,
    /// What may be written.
    pub kind: Kind,
    /// Words accepted beside the kind's own values, such as `auto`.
    pub words: &'static [&'static str],
    /// What holds when nobody says anything, as one would write it.
    pub default: &'static str,
    /// Unit of the value; empty where there is none.
    pub unit: &'static str,
    /// One to three sentences for the user.
    pub help: &'static str,
    /// False for what decides where the file is.
    pub in_file: bool,
}

impl Setting {
    /// `electrum_listen` as a flag: `--electrum-listen`.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// `electrum_listen` in the environment: `ASSAY_ELECTRUM_LISTEN`.
    pub fn environment(&self) -> String {
        format!("{ENVIRONMENT_PREFIX}{}", self.name.to_uppercase())
    }

    /// What may be written, in words: `1..=256 or "auto"`.
    pub fn accepted(&self) -> String {
        let mut parts = vec![self.kind.accepted(self.unit)];
        parts.extend(self.words.iter().map(|word| format!("{word:?}")));
        parts.join(" or ")
    }
}

/// What every variable of ours begins with.
pub const ENVIRONMENT_PREFIX: &str = "ASSAY_";

/// The setting of this name.
pub fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

pub(super) const fn setting(
    area: &'static str,
    name: &'static str,
    kind: Kind,
    words: &'static [&'static str],
    default: &'static str,
    unit: &'static str,
    help: &'static str,
) -> Setting {
    Setting { name, area, kind, words, default, unit, help, in_file: true }
}

const NODE: &str = "node";
const SPEED: &str = "speed and memory";
const RPC: &str = "json-rpc";
const LOG: &str = "log";

/// Every setting, in the order of the file and the manual.
pub const SETTINGS: &[Setting] = &joined::<
    {
        FIRST.len()
            + PEER_SETTINGS.len()
            + MEMPOOL_SETTINGS.len()
            + ELECTRUM_SETTINGS.len()
            + LAST.len()
            + ZMQ_SETTINGS.len()
    },
>([FIRST, PEER_SETTINGS, MEMPOOL_SETTINGS, ELECTRUM_SETTINGS, LAST, ZMQ_SETTINGS]);

const fn joined<const COUNT: usize>(parts: [&[Setting]; 6]) -> [Setting; COUNT] {
    let mut all = [FIRST[0]; COUNT];
    let (mut part, mut at, mut count) = (0, 0, 0);
    while count < COUNT {
        if at == parts[part].len() {
            (part, at) = (part + 1, 0);
            continue;
        }
        all[count] = parts[part][at];
        (at, count) = (at + 1, count + 1);
    }
    all
}

/// The settings before those of the peers.
const FIRST: &[Setting] = &[
    Setting {
        in_file: false,
        ..setting(
            NODE,
            "datadir",
            Kind::Path,
            &[],
            "~/.assay",
            "",
            "Folder for everything the node keeps, this file included. Each network has its own folder in it.",
        )
    },
    setting(
        NODE,
        "chain",
        Kind::Choice(&["main", "testnet3", "testnet4", "signet", "regtest"]),
        &[],
        "main",
        "",
        "The network whose chain is proved.",
    ),
    setting(
        NODE,
        "blocks_from",
        Kind::Path,
        &["own"],
        "own",
        "",
        "Folder with another node's block files (blk00000.dat and so on) as Bitcoin Core keeps them; read in place, \
         never written. Blocks that come from elsewhere are kept in the folder blocks/ of this network in the data \
         directory; with \"own\" there is no other.",
    ),
    setting(
        NODE,
        "assume_valid",
        Kind::BlockHash,
        &["none"],
        "none",
        "",
        "Signatures and scripts of this block and its ancestors are not checked; every other rule is. The only setting \
         that skips a signature.",
    ),
    setting(
        NODE,
        "chainwork_min",
        Kind::Text,
        &["auto"],
        "auto",
        "",
        "Work that a chain must have before its blocks are fetched and the node counts as synced, in hexadecimal digits. \
         \"auto\" is the network's.",
    ),
    setting(
        NODE,
        "tip_age_max_s",
        Kind::Whole { min: 1, max: i64::MAX as u64 },
        &[],
        "86400",
        "s",
        "A tip older than this means that the node is not synced yet.",
    ),
    setting(
        NODE,
        "activation_heights",
        Kind::Text,
        &[],
        "",
        "",
        "On regtest: first heights of rules, between commas, as in bip34@2,segwit@165; also dersig, cltv and csv.",
    ),
    setting(
        NODE,
        "block_filters",
        Kind::Choice(&["on", "off"]),
        &[],
        "off",
        "",
        "Build and keep the basic filter of every block (BIP 158), with the block. Switched on later, those of older \
         blocks are built from the block files while the node runs; on a long chain `assay reindex` is faster.",
    ),
    setting(
        NODE,
        "disk_free_min_mib",
        Kind::Whole { min: 16, max: 1 << 30 },
        &[],
        "512",
        "MiB",
        "The node stops cleanly when the data directory's disk has less than this free.",
    ),
    setting(
        SPEED,
        "threads",
        Kind::Whole { min: 1, max: 256 },
        &["auto"],
        "auto",
        "threads",
        "Threads that check blocks and scripts. \"auto\" is one per processor this process may use.",
    ),
    setting(
        SPEED,
        "memory_mib",
        Kind::Whole { min: 256, max: 1 << 24 },
        &["auto"],
        "auto",
        "MiB",
        "Memory for coins, index and buffers together. \"auto\" is half of what this machine (or control group) has, at \
         most 16384. More than the machine has is refused.",
    ),
    setting(
        SPEED,
        "sig_engine",
        Kind::Choice(&["auto", "lanes", "batch", "scalar"]),
        &[],
        "auto",
        "",
        "How signatures are verified. All engines give the same verdicts; one this build or processor lacks is refused.",
    ),
    setting(
        SPEED,
        "sig_hints",
        Kind::Choice(&["on", "off"]),
        &[],
        "on",
        "",
        "Keep what a validation learns about signatures, about one bit each, in the folder hints/ of the network, for the \
         next validation of the same blocks: `assay reindex` and `assay verify` are faster with it. Nothing in it is \
         trusted, and it may be removed at any time.",
    ),
];

/// The settings behind those of the Electrum server.
const LAST: &[Setting] = &[
    setting(
        RPC,
        "rpc_listen",
        Kind::Address,
        &["auto", "off"],
        "auto",
        "",
        "Where JSON-RPC listens, plain HTTP. \"auto\" is 127.0.0.1 with Bitcoin Core's port: 8332 main, 18332 testnet3, \
         48332 testnet4, 38332 signet, 18443 regtest. Port 0 takes a free one.",
    ),
    setting(
        RPC,
        "rpc_allow",
        Kind::Text,
        &[],
        "",
        "",
        "Addresses and subnets that may connect, besides this machine, separated by blanks: 192.168.0.0/16 fd00::/8.",
    ),
    setting(
        RPC,
        "rpc_user",
        Kind::Text,
        &[],
        "",
        "",
        "A user for rpc_password. Without one a password is made at each start and written to the cookie file.",
    ),
    setting(
        RPC,
        "rpc_password",
        Kind::Text,
        &[],
        "",
        "",
        "The password of rpc_user. A hashed one in rpc_auth is better: this one can be read by whoever reads the file.",
    ),
    setting(
        RPC,
        "rpc_auth",
        Kind::Text,
        &[],
        "",
        "",
        "Users with hashed passwords as Bitcoin Core's rpcauth.py makes them, separated by blanks: user:salt$hash.",
    ),
    setting(
        RPC,
        "rpc_whitelist",
        Kind::Text,
        &[],
        "",
        "",
        "Methods that users are limited to, separated by blanks: user:getblock,getblockcount. Users that are not named \
         may then call nothing.",
    ),
    setting(
        RPC,
        "rpc_cookie_file",
        Kind::Path,
        &["auto"],
        "auto",
        "",
        "Where the password of this start is written. \"auto\" is .cookie in the folder of this network.",
    ),
    setting(
        RPC,
        "rpc_threads",
        Kind::Whole { min: 1, max: 256 },
        &[],
        "16",
        "threads",
        "Calls answered at the same time.",
    ),
    setting(
        RPC,
        "rpc_workqueue",
        Kind::Whole { min: 1, max: 10_000 },
        &[],
        "64",
        "calls",
        "Calls that wait for a thread; more are refused with status 503.",
    ),
    setting(
        RPC,
        "rpc_timeout_s",
        Kind::Whole { min: 1, max: 1_000_000 },
        &[],
        "30",
        "seconds",
        "Time for a request to come and for its answer to be taken; a connection without a request ends after it, too.",
    ),
    setting(
        RPC,
        "rest",
        Kind::Choice(&["on", "off"]),
        &[],
        "off",
        "",
        "Bitcoin Core's REST interface on the same port: blocks, headers, transactions and coins without a password.",
    ),
    setting(
        LOG,
        "log_level",
        Kind::Choice(&["error", "warn", "info", "debug"]),
        &[],
        "info",
        "",
        "Least important line that is written to standard error.",
    ),
    setting(
        LOG,
        "log_file",
        Kind::Path,
        &["none"],
        "none",
        "",
        "A file that every line is added to as well, whatever log_level says, and with them what Bitcoin Core's debug.log \
         says about blocks, peers and transactions, in its format and words.",
    ),
    setting(
        LOG,
        "log_messages",
        Kind::Choice(&["on", "off"]),
        &[],
        "off",
        "",
        "A line in log_file for each message of a peer, too, some gigabytes a week.",
    ),
    setting(
        LOG,
        "log_rate_limit",
        Kind::Choice(&["on", "off"]),
        &[],
        "on",
        "",
        "Each place of the program adds a mebibyte an hour to log_file at most, so that nobody outside can fill the disk by \
         causing lines; what is left away is counted there.",
    ),
    setting(
        LOG,
        "progress_interval_s",
        Kind::Whole { min: 1, max: 3_600 },
        &[],
        "5",
        "s",
        "Seconds between two progress lines while it syncs. In a terminal one line is refreshed every second instead.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_default_is_accepted_by_its_own_setting() {
        for setting in SETTINGS {
            let parsed = setting.kind.parse(setting.default, setting.words);
            assert!(parsed.is_ok(), "{}: {parsed:?}", setting.name);
        }
    }

    #[test]
    fn names_are_unique_and_spelled_in_one_way() {
        let names: HashSet<_> = SETTINGS.iter().map(|setting| setting.name).collect();
        assert_eq!(names.len(), SETTINGS.len());
        for name in names {
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'), "{name}");
        }
    }

    #[test]
    fn numbers_have_units_in_the_table_and_sizes_in_the_name() {
        for setting in SETTINGS {
            if matches!(setting.kind, Kind::Whole { .. }) {
                assert!(!setting.unit.is_empty(), "{} has no unit", setting.name);
            }
        }
    }

    #[test]
    fn spellings() {
        let setting = find("electrum_listen").unwrap();
        assert_eq!(setting.flag(), "electrum-listen");
        assert_eq!(setting.environment(), "ASSAY_ELECTRUM_LISTEN");
        assert_eq!(find("threads").unwrap().accepted(), "1..=256 threads or \"auto\"");
    }
}
