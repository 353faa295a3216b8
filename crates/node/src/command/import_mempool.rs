//! What a bitcoin.conf says about unconfirmed transactions and mining, as our settings.
//!
//! In:     options of Bitcoin Core by name.
//! Out:    settings; those options that need none are among [`KNOWN`] too.
//! Fails:  never: a value that is no number is left to the setting to refuse.
//! Source: Bitcoin Core, `src/node/mempool_args.cpp`, `src/node/miner.cpp`, `src/init.cpp`.

/// Options that are taken over, or mean nothing any more (the last four: clusters have taken their place).
#[rustfmt::skip]
pub const KNOWN: [&str; 21] = [
    "maxmempool", "mempoolexpiry", "persistmempool", "persistmempoolv1", "minrelaytxfee", "incrementalrelayfee",
    "dustrelayfee", "bytespersigop", "permitbaremultisig", "datacarrier", "datacarriersize", "acceptnonstdtxn",
    "limitclustercount", "limitclustersize", "blockmaxweight", "blockreservedweight", "blockmintxfee",
    "limitancestorcount", "limitancestorsize", "limitdescendantcount", "limitdescendantsize",
];

/// Bitcoin as satoshi: `0.00001` is 1000. What is no amount stays as it is.
fn satoshi(text: &str) -> String {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{part:0<8}");
    match part.len() <= 8 && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        true => digits.parse::<u64>().map_or_else(|_| text.to_owned(), |sat| sat.to_string()),
        false => text.to_owned(),
    }
}

/// The settings the options mean.
pub fn settings(options: &[(String, String)]) -> Vec<(&'static str, String)> {
    let last = |wanted: &str| {
        let found = options.iter().rev().find(|(name, _)| name == wanted);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    };
    let is_on = |wanted: &str| last(wanted).map(|value| value != "0");
    let word = |is_on: bool| if is_on { "on" } else { "off" }.to_owned();
    let mut settings = Vec::new();
    let mut put = |name: &'static str, value: Option<String>| settings.extend(value.map(|value| (name, value)));
    put("mempool_mb", last("maxmempool").map(str::to_owned));
    put("mempool_expiry_h", last("mempoolexpiry").map(str::to_owned));
    put(
        "mempool_save",
        match (is_on("persistmempool"), is_on("persistmempoolv1")) {
            (Some(false), _) => Some("off".to_owned()),
            (_, Some(true)) => Some("v1".to_owned()),
            (saves, _) => saves.map(word),
        },
    );
    for (setting, option) in [
        ("relay_fee_min", "minrelaytxfee"),
        ("relay_fee_increment", "incrementalrelayfee"),
        ("dust_fee", "dustrelayfee"),
        ("block_fee_min", "blockmintxfee"),
    ] {
        put(setting, last(option).map(satoshi));
    }
    put("bytes_per_sigop", last("bytespersigop").map(str::to_owned));
    put("bare_multisig", is_on("permitbaremultisig").map(word));
    let size = last("datacarriersize").map(str::to_owned);
    put("datacarrier_bytes_max", if is_on("datacarrier") == Some(false) { Some("off".to_owned()) } else { size });
    put("accept_nonstandard", is_on("acceptnonstdtxn").map(word));
    put("cluster_txs_max", last("limitclustercount").map(str::to_owned));
    put("cluster_kvb_max", last("limitclustersize").map(str::to_owned));
    put("block_weight_max", last("blockmaxweight").map(str::to_owned));
    put("block_weight_reserved", last("blockreservedweight").map(str::to_owned));
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(options: &[&str], want: &[(&str, &str)]) {
        let pair = |text: &&str| text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        let options: Vec<_> = options.iter().filter_map(pair).collect();
        assert!(options.iter().all(|(name, _)| KNOWN.contains(&name.as_str())));
        let got = settings(&options);
        assert_eq!(got.iter().map(|(name, value)| (*name, value.as_str())).collect::<Vec<_>>(), want);
        for (name, value) in got {
            let setting = crate::config::schema::find(name).expect(name);
            assert!(setting.kind.parse(&value, setting.words).is_ok(), "{name} = {value}");
        }
    }

    #[test]
    fn options_about_transactions_become_settings() {
        check(&["maxmempool=5", "mempoolexpiry=1"], &[("mempool_mb", "5"), ("mempool_expiry_h", "1")]);
        check(&["persistmempool=0", "persistmempoolv1=1"], &[("mempool_save", "off")]);
        check(&["persistmempoolv1=1"], &[("mempool_save", "v1")]);
        check(&["persistmempool=1"], &[("mempool_save", "on")]);
        check(
            &["minrelaytxfee=0.00000100", "incrementalrelayfee=0", "dustrelayfee=0.00003", "blockmintxfee=0.00000001"],
            &[("relay_fee_min", "100"), ("relay_fee_increment", "0"), ("dust_fee", "3000"), ("block_fee_min", "1")],
        );
        check(&["datacarrier=0", "datacarriersize=9"], &[("datacarrier_bytes_max", "off")]);
        check(&["datacarriersize=9"], &[("datacarrier_bytes_max", "9")]);
        check(
            &["permitbaremultisig=0", "acceptnonstdtxn=1", "bytespersigop=7"],
            &[("bytes_per_sigop", "7"), ("bare_multisig", "off"), ("accept_nonstandard", "on")],
        );
        check(&["limitancestorcount=1"], &[]);
        assert_eq!(
            (satoshi("1"), satoshi("0.1"), satoshi("x"), satoshi("0.123456789")),
            ("100000000".into(), "10000000".into(), "x".into(), "0.123456789".into())
        );
    }
}
