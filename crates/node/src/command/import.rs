//! `assay import-config`: what a bitcoin.conf says, as our settings.
//!
//! In:     the file of Bitcoin Core.
//! Out:    settings on standard output as assay.toml has them; on standard error what was not taken over.
//! Fails:  with exit code 1 where the file cannot be read.
//! Source: Bitcoin Core, doc/bitcoin-conf.md and `src/init.cpp` for what options mean.

use std::io::Write;
use std::process::ExitCode;

use super::import_peers;
use crate::config::mempool::RESERVE_PERCENT;
use crate::{Failure, say};

/// What became of a file's options.
#[derive(Debug, Default, PartialEq, Eq)]
struct Imported {
    /// Settings of ours, in order.
    settings: Vec<(&'static str, String)>,
    /// Options that we have nothing for, with a word on what to do.
    left: Vec<String>,
}

/// Names that Core gives to networks, and ours.
const CHAINS: [(&str, &str); 5] =
    [("main", "main"), ("test", "testnet3"), ("testnet4", "testnet4"), ("signet", "signet"), ("regtest", "regtest")];

/// Reads the file and prints.
pub fn import(file: &str) -> Result<ExitCode, Failure> {
    let text =
        std::fs::read_to_string(file).map_err(|error| Failure::Run(format!("{file} cannot be read: {error}")))?;
    let imported = translate(&text);
    for (name, value) in &imported.settings {
        say(&format!("{name} = {}", literal(value)));
    }
    for line in &imported.left {
        let _ = writeln!(std::io::stderr(), "not taken over: {line}"); // a reader that left is no failure
    }
    Ok(ExitCode::SUCCESS)
}

fn literal(value: &str) -> String {
    if value.parse::<u64>().is_ok() { value.to_owned() } else { toml::Value::from(value).to_string() }
}

/// Options of the file, those of the sections of other networks left out.
fn options(text: &str) -> (Vec<(String, String)>, &'static str) {
    let mut all: Vec<(String, String, String)> = Vec::new();
    let mut section = String::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.to_owned();
        } else if let Some((name, value)) = line.split_once('=') {
            let (at, name) = name.trim().split_once('.').map_or((section.as_str(), name.trim()), |both| both);
            all.push((at.to_owned(), name.to_owned(), value.trim().to_owned()));
        }
    }
    let is = |flag: &str| all.iter().any(|(at, name, value)| at.is_empty() && name == flag && value != "0");
    let named = all.iter().find(|(at, name, _)| at.is_empty() && name == "chain").map(|(_, _, value)| value.clone());
    let by_flag = [("regtest", "regtest"), ("signet", "signet"), ("testnet4", "testnet4"), ("testnet", "test")];
    let by_flag = by_flag.iter().find(|(flag, _)| is(flag)).map(|(_, chain)| (*chain).to_owned());
    let core_name = by_flag.or(named).unwrap_or("main".to_owned());
    let chain = CHAINS.iter().find(|(core, _)| *core == core_name).map_or("main", |(_, ours)| ours);
    let ours = all.into_iter().filter(|(at, _, _)| at.is_empty() || *at == core_name);
    (ours.map(|(_, name, value)| (name, value)).collect(), chain)
}

/// Options that are taken over, or need no setting here.
#[rustfmt::skip]
const KNOWN: [&str; 58] = [
    "chain", "regtest", "signet", "testnet4", "testnet", "server", "rpcport", "rpcbind",
    "rpcallowip", "rpcuser", "rpcpassword", "rpcauth", "rpcwhitelist", "rpcthreads", "rpcworkqueue",
    "rpcservertimeout", "rest",
    "par", "dbcache", "assumevalid", "blocksdir", "txindex", "daemon",
    "logratelimit", "maxmempool", "mempoolexpiry", "persistmempool", "persistmempoolv1", "minrelaytxfee", "incrementalrelayfee",
    "dustrelayfee", "bytespersigop", "permitbaremultisig", "datacarrier", "datacarriersize", "acceptnonstdtxn",
    "limitclustercount", "limitclustersize", "blockmaxweight", "blockreservedweight", "blockmintxfee",
    "testactivationheight", "minimumchainwork", "maxtipage", "uacomment", "debuglogfile",
    "zmqpubhashblock", "zmqpubhashtx", "zmqpubrawblock", "zmqpubrawtx", "zmqpubsequence",
    "zmqpubhashblockhwm", "zmqpubhashtxhwm", "zmqpubrawblockhwm", "zmqpubrawtxhwm", "zmqpubsequencehwm",
    "blockfilterindex", "peerblockfilters",
];

/// Core's options of ZeroMQ, and ours for addresses and high-water marks.
const ZMQ: [(&str, &str, &str); 5] = [
    ("zmqpubhashblock", "zmq_pub_hashblock", "zmq_pub_hashblock_hwm"),
    ("zmqpubhashtx", "zmq_pub_hashtx", "zmq_pub_hashtx_hwm"),
    ("zmqpubrawblock", "zmq_pub_rawblock", "zmq_pub_rawblock_hwm"),
    ("zmqpubrawtx", "zmq_pub_rawtx", "zmq_pub_rawtx_hwm"),
    ("zmqpubsequence", "zmq_pub_sequence", "zmq_pub_sequence_hwm"),
];

/// Rates in bitcoin for 1,000 virtual bytes are whole satoshi here.
fn rate(value: String) -> Option<String> {
    let (whole, part) = value.split_once('.').unwrap_or((&value, ""));
    let digits = format!("{whole}{part:0<8}");
    (part.len() <= 8).then(|| digits.parse::<u64>().ok()).flatten().map(|sat| sat.to_string())
}

/// The settings that Core's options of the mempool and the miner mean.
fn mempool(last: impl Fn(&str) -> Option<String>) -> Vec<(&'static str, Option<String>)> {
    let switch = |name: &str| last(name).map(|value| if value == "0" { "off" } else { "on" }.to_owned());
    let save = match (last("persistmempool").as_deref(), last("persistmempoolv1").as_deref()) {
        (Some("0"), _) => Some("off".to_owned()),
        (_, Some(v1)) if v1 != "0" => Some("v1".to_owned()),
        _ => None,
    };
    let datacarrier = match last("datacarrier").as_deref() {
        Some("0") => Some("off".to_owned()),
        _ => last("datacarriersize"),
    };
    vec![
        ("mempool_mb", last("maxmempool")),
        ("mempool_expiry_h", last("mempoolexpiry")),
        ("mempool_save", save),
        ("relay_fee_min", last("minrelaytxfee").and_then(rate)),
        ("relay_fee_increment", last("incrementalrelayfee").and_then(rate)),
        ("dust_fee", last("dustrelayfee").and_then(rate)),
        ("bytes_per_sigop", last("bytespersigop")),
        ("bare_multisig", switch("permitbaremultisig")),
        ("datacarrier_bytes_max", datacarrier),
        ("accept_nonstandard", switch("acceptnonstdtxn")),
        ("cluster_txs_max", last("limitclustercount")),
        ("cluster_kvb_max", last("limitclustersize")),
        ("block_weight_max", last("blockmaxweight")),
        ("block_weight_reserved", last("blockreservedweight")),
        ("block_fee_min", last("blockmintxfee").and_then(rate)),
    ]
}

/// The setting `rpc_listen` that Core's options mean.
fn listen(chain: &str, server: Option<&str>, bind: Option<String>, port: Option<String>) -> Option<String> {
    let host = bind.map(|bind| bind.trim_start_matches('[').split(']').next().unwrap_or_default().to_owned());
    match (server, host, port) {
        (Some("0"), _, _) => Some("off".to_owned()),
        (_, None, None) => None,
        (_, host, port) => {
            let network = chain.parse().expect("our own names");
            let port = port.unwrap_or_else(|| crate::config::rpc::usual_port(network).to_string());
            match host.unwrap_or_else(|| "127.0.0.1".to_owned()) {
                host if host.matches(':').count() > 1 => Some(format!("[{host}]:{port}")),
                host if host.contains(':') => Some(host),
                host => Some(format!("{host}:{port}")),
            }
        }
    }
}

fn translate(text: &str) -> Imported {
    let (options, chain) = options(text);
    let mut imported = Imported::default();
    if chain != "main" {
        imported.settings.push(("chain", chain.to_owned()));
    }
    let all = |wanted: &str| {
        let values = options.iter().filter(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
        values.collect::<Vec<_>>()
    };
    let last = |wanted: &str| all(wanted).last().map(|value| (*value).to_owned());
    let mut put = |name: &'static str, value: Option<String>| {
        imported.settings.extend(value.filter(|value| !value.is_empty()).map(|value| (name, value)));
    };
    let listen = listen(chain, last("server").as_deref(), last("rpcbind"), last("rpcport"));
    put("rpc_listen", listen);
    put("rpc_allow", Some(all("rpcallowip").join(" ")));
    put("rpc_user", last("rpcuser"));
    put("rpc_password", last("rpcpassword"));
    put("rpc_auth", Some(all("rpcauth").join(" ")));
    put("rpc_whitelist", Some(all("rpcwhitelist").join(" ")));
    put("rpc_threads", last("rpcthreads"));
    put("rpc_workqueue", last("rpcworkqueue"));
    put("rpc_timeout_s", last("rpcservertimeout"));
    put("rest", last("rest").map(|value| if value == "0" { "off" } else { "on" }.to_owned()));
    put("threads", last("par").filter(|value| value.parse::<u32>().is_ok_and(|threads| threads > 0)));
    // Core's dbcache is beside the mempool, and ours holds both.
    let mempool_mib =
        last("maxmempool").and_then(|value| value.parse::<u64>().ok()).map_or(0, |mb| mb * RESERVE_PERCENT / 100);
    let memory_mib = last("dbcache").and_then(|value| value.parse::<u64>().ok()).map(|mib| mib + mempool_mib);
    put("memory_mib", memory_mib.filter(|mib| *mib >= 256).map(|mib| mib.to_string()));
    mempool(&last).into_iter().for_each(|(name, value)| put(name, value));
    put("assume_valid", last("assumevalid").filter(|value| value.len() == 64));
    put("activation_heights", Some(all("testactivationheight").join(",")));
    put("chainwork_min", last("minimumchainwork").map(|value| if value == "0" { "0x0".to_owned() } else { value }));
    put("tip_age_max_s", last("maxtipage"));
    put("p2p_user_agent_comment", Some(all("uacomment").join(",")));
    put("log_file", last("debuglogfile").filter(|value| value != "0"));
    put("log_rate_limit", last("logratelimit").map(|value| if value == "0" { "off" } else { "on" }.to_owned()));
    put("blocks_from", last("blocksdir").map(|folder| format!("{folder}/blocks")));
    for (core, addresses, mark) in ZMQ {
        put(addresses, Some(all(core).join(" ")));
        // 0 is "no limit" there; here it is the highest there is.
        let highest = |value: String| if value == "0" { "1000000".to_owned() } else { value };
        put(mark, last(&format!("{core}hwm")).map(highest).filter(|value| value.parse::<u32>().is_ok()));
    }
    let filters = last("blockfilterindex").filter(|value| ["1", "basic", ""].contains(&value.as_str()));
    put("block_filters", filters.map(|_| "on".to_owned()));
    put("peer_block_filters", last("peerblockfilters").filter(|value| value != "0").map(|_| "on".to_owned()));
    imported.settings.extend(import_peers::settings(chain, &options));
    let known: [&[&str]; 2] = [&KNOWN, &import_peers::KNOWN];
    let is_known = |name: &str| known.iter().any(|known| known.contains(&name));
    for (name, value) in options.iter().filter(|(name, _)| !is_known(name)) {
        let hint = match name.as_str() {
            "datadir" => " (give --datadir to assay; block files there can be read with blocks_from)",
            "wallet" | "disablewallet" => " (there is no wallet)",
            _ => "",
        };
        imported.left.push(format!("{name}={value}{hint}"));
    }
    if let Some(value) = last("maxuploadtarget").filter(|value| import_peers::mebibytes(value).is_none()) {
        imported.left.push(format!("maxuploadtarget={value} (no number of bytes, such as 500M)"));
    }
    imported
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_mempool_become_settings_of_ours() {
        let text = "regtest=1\nmaxmempool=5\nmempoolexpiry=10\npersistmempoolv1=1\nminrelaytxfee=0.00001\n\
            incrementalrelayfee=0.000012\ndustrelayfee=0\nbytespersigop=5\npermitbaremultisig=0\ndatacarriersize=42\n\
            acceptnonstdtxn=1\nlimitclustercount=10\nlimitclustersize=50\nblockmaxweight=400000\n\
            blockreservedweight=4000\nblockmintxfee=1\n";
        let imported = translate(text);
        let want = [
            ("chain", "regtest"),
            ("mempool_mb", "5"),
            ("mempool_expiry_h", "10"),
            ("mempool_save", "v1"),
            ("relay_fee_min", "1000"),
            ("relay_fee_increment", "1200"),
            ("dust_fee", "0"),
            ("bytes_per_sigop", "5"),
            ("bare_multisig", "off"),
            ("datacarrier_bytes_max", "42"),
            ("accept_nonstandard", "on"),
            ("cluster_txs_max", "10"),
            ("cluster_kvb_max", "50"),
            ("block_weight_max", "400000"),
            ("block_weight_reserved", "4000"),
            ("block_fee_min", "100000000"),
        ];
        assert_eq!(imported.settings, want.map(|(name, value)| (name, value.to_owned())));
        assert!(imported.left.is_empty(), "{:?}", imported.left);
        for (name, value) in imported.settings {
            let setting = crate::config::schema::find(name).expect(name);
            assert!(setting.kind.parse(&value, setting.words).is_ok(), "{name} = {value}");
        }
        let both = translate("dbcache=450\nmaxmempool=300\n");
        assert_eq!(both.settings, [("memory_mib", "855"), ("mempool_mb", "300")].map(|(n, v)| (n, v.to_owned())));
        let off = translate("datacarrier=0\npersistmempool=0\nminrelaytxfee=0.000000001\n");
        let want = [("mempool_save", "off"), ("datacarrier_bytes_max", "off")];
        assert_eq!(off.settings, want.map(|(name, value)| (name, value.to_owned())));
    }

    #[test]
    fn common_options_are_taken_over_and_the_rest_is_listed() {
        let text = "\
            # comment\nserver=1\ntxindex=1\nregtest=1\nrpcuser=u # behind\nrpcpassword=p\nrpcauth=a:b$c\nrpcauth=d:e$f\n\
            dbcache=4096\npar=0\nzmqpubrawtx=tcp://127.0.0.1:28333\nzmqpubrawtx=ipc:///x\nzmqpubrawtxhwm=0\n\
            blockfilterindex=1\npeerblockfilters=1\nprune=550\n\
            testactivationheight=csv@5\ntestactivationheight=segwit@6\nminimumchainwork=0x1f\nmaxtipage=100\nrpcservertimeout=60\n\
            uacomment=a\nuacomment=b\ndebuglogfile=/debug.log\nlogratelimit=0\nmain.rpcport=1\n\
            [regtest]\nrpcport=18000\nrpcbind=0.0.0.0\n[main]\nrpcthreads=4\n";
        let imported = translate(text);
        let want = [
            ("chain", "regtest"),
            ("rpc_listen", "0.0.0.0:18000"),
            ("rpc_user", "u"),
            ("rpc_password", "p"),
            ("rpc_auth", "a:b$c d:e$f"),
            ("rpc_timeout_s", "60"),
            ("memory_mib", "4096"),
            ("activation_heights", "csv@5,segwit@6"),
            ("chainwork_min", "0x1f"),
            ("tip_age_max_s", "100"),
            ("p2p_user_agent_comment", "a,b"),
            ("log_file", "/debug.log"),
            ("log_rate_limit", "off"),
            ("zmq_pub_rawtx", "tcp://127.0.0.1:28333 ipc:///x"),
            ("zmq_pub_rawtx_hwm", "1000000"),
            ("block_filters", "on"),
            ("peer_block_filters", "on"),
        ];
        assert_eq!(imported.settings, want.map(|(name, value)| (name, value.to_owned())));
        assert_eq!(imported.left, ["prune=550"]);
        for value in ["abc", "1x", "-5", "99999999999999T"] {
            let imported = translate(&format!("maxuploadtarget={value}\n"));
            assert_eq!(imported.left, [format!("maxuploadtarget={value} (no number of bytes, such as 500M)")]);
            assert_eq!(imported.settings, []);
        }
        assert_eq!(translate("server=0\n").settings, [("rpc_listen", "off".to_owned())]);
        assert_eq!(translate(""), Imported::default());
        // Every setting that is written is one of ours.
        for (name, value) in imported.settings {
            let setting = crate::config::schema::find(name).expect(name);
            assert!(setting.kind.parse(&value, setting.words).is_ok(), "{name} = {value}");
        }
    }
}
