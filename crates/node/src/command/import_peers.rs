//! The options of a bitcoin.conf about peers, as our settings.
//!
//! In:     the file's options in order.
//! Out:    settings whose names begin with `p2p`.
//! Fails:  never; an option whose value means nothing to us is left out.
//! Source: Bitcoin Core, `src/init.cpp`, `SetupServerArgs`.

use std::net::SocketAddr;

use primitives::network::{Network, Params};

/// Options that are taken over here.
#[rustfmt::skip]
pub const KNOWN: [&str; 34] = [
    "addnode", "asmap", "bantime", "bind", "blocksonly", "cjdnsreachable", "connect", "discover", "dnsseed", "externalip",
    "fixedseeds", "i2pacceptincoming", "i2psam", "inboundrelaypercent", "listen", "listenonion", "maxconnections",
    "maxuploadtarget", "onion", "onlynet", "peerbloomfilters", "peertimeout", "port", "proxy", "proxyrandomize", "seednode",
    "timeout", "torcontrol", "torpassword", "v2transport", "whitebind", "whitelist", "whitelistforcerelay", "whitelistrelay",
];
/// Connections Core makes itself, out of all that `maxconnections` allows.
const OUTBOUND: u64 = 11;
/// Usual ports of a proxy, of Tor's control and of a SAM bridge.
const PROXY_PORT: u16 = 9050;
const TOR_PORT: u16 = 9051;
const SAM_PORT: u16 = 7656;

/// The options by name.
struct Options<'a>(&'a [(String, String)]);

impl<'a> Options<'a> {
    fn all(&self, wanted: &str) -> Vec<&'a str> {
        self.0.iter().filter(|(name, _)| name == wanted).map(|(_, value)| value.as_str()).collect()
    }

    fn last(&self, wanted: &str) -> Option<&'a str> {
        self.all(wanted).last().copied()
    }

    fn number(&self, wanted: &str) -> Option<u64> {
        self.last(wanted)?.parse().ok()
    }

    fn switch(&self, wanted: &str) -> Option<bool> {
        self.last(wanted).map(|value| value != "0")
    }

    /// An address whose port may be missing, and which may name a network behind it.
    fn address(&self, wanted: &str, port: u16) -> Option<String> {
        let text = self.last(wanted)?.split('=').next()?;
        address(text, port)
    }
}

fn address(text: &str, port: u16) -> Option<String> {
    let whole = text.parse::<SocketAddr>().ok();
    let alone = || text.trim_matches(['[', ']']).parse().ok().map(|ip| SocketAddr::new(ip, port));
    whole.or_else(alone).map(|address| address.to_string())
}

fn word(is_on: bool) -> String {
    if is_on { "on" } else { "off" }.to_owned()
}

/// Bytes of `maxuploadtarget`, as MiB: `500M`, `2G`, `300` (MiB); 0 is without limit. None where it is no amount.
pub fn mebibytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    let unit = match &text[digits.len()..] {
        "" | "M" => 1 << 20,
        "k" => 1_000,
        "K" => 1 << 10,
        "m" => 1_000_000,
        "g" => 1_000_000_000,
        "G" => 1 << 30,
        "t" => 1_000_000_000_000,
        "T" => 1 << 40,
        _ => return None,
    };
    Some(number.checked_mul(unit)?.div_ceil(1 << 20))
}

/// The settings the options mean on this chain.
pub fn settings(chain: &str, options: &[(String, String)]) -> Vec<(&'static str, String)> {
    let options = Options(options);
    let network: Network = chain.parse().expect("our own names");
    let mut settings = Vec::new();
    let mut put = |name: &'static str, value: Option<String>| {
        settings.extend(value.filter(|value| !value.is_empty()).map(|value| (name, value)));
    };
    put("p2p_listen", listen(&options, Params::of(network).default_port));
    put("p2p_whitebind", Some(options.all("whitebind").join(" ")));
    put("p2p_whitelist", Some(options.all("whitelist").join(" ")));
    put("p2p_whitelist_relay", options.switch("whitelistrelay").map(word));
    put("p2p_whitelist_force_relay", options.switch("whitelistforcerelay").map(word));
    put("p2p_external", Some(options.all("externalip").join(",")));
    put("p2p_discover", options.switch("discover").map(word));
    let connect = options.all("connect");
    put("p2p_connect", Some(if connect == ["0"] { "none".to_owned() } else { connect.join(",") }));
    put("p2p_add", Some(options.all("addnode").join(",")));
    put("p2p_seed_nodes", Some(options.all("seednode").join(",")));
    put("p2p_only", Some(options.all("onlynet").join(",")));
    put("p2p_cjdns", options.switch("cjdnsreachable").map(word));
    // Without a path Core takes the map that is built in, and we have none.
    put("p2p_asmap", options.last("asmap").filter(|path| !["", "0", "1"].contains(path)).map(str::to_owned));
    put("p2p_proxy", options.address("proxy", PROXY_PORT));
    put("p2p_onion_proxy", options.address("onion", PROXY_PORT));
    put("p2p_proxy_random", options.switch("proxyrandomize").map(word));
    if options.switch("listenonion") != Some(false) {
        put("p2p_tor_control", options.address("torcontrol", TOR_PORT));
        put("p2p_tor_password", options.last("torpassword").map(str::to_owned));
    }
    put("p2p_i2p_sam", options.address("i2psam", SAM_PORT));
    put("p2p_i2p_accept", options.switch("i2pacceptincoming").map(word));
    put("p2p_inbound_max", options.number("maxconnections").map(|all| all.saturating_sub(OUTBOUND).to_string()));
    put("p2p_inbound_relay_percent", options.number("inboundrelaypercent").map(|percent| percent.min(100).to_string()));
    put("p2p_encrypt", options.switch("v2transport").map(word));
    put("p2p_blocks_only", options.switch("blocksonly").map(word));
    put("peer_mempool", options.switch("peerbloomfilters").map(word));
    put("p2p_connect_ms", options.number("timeout").map(|number| number.to_string()));
    put("p2p_handshake_s", options.number("peertimeout").map(|number| number.to_string()));
    put("p2p_ban_s", options.number("bantime").map(|number| number.to_string()));
    let seeds = match (options.switch("dnsseed"), options.switch("fixedseeds")) {
        (Some(false), Some(false)) => Some("off"),
        (Some(false), _) => Some("fixed"),
        (_, Some(false)) => Some("dns"),
        _ => None,
    };
    put("p2p_seeds", seeds.map(str::to_owned));
    let upload = options.last("maxuploadtarget").and_then(mebibytes).filter(|mib| *mib > 0);
    put("p2p_upload_mib_per_day", upload.map(|mib| mib.to_string()));
    settings
}

/// The setting `p2p_listen`: the last address that is not for an onion service.
fn listen(options: &Options<'_>, usual_port: u16) -> Option<String> {
    if options.switch("listen") == Some(false) {
        return Some("off".to_owned());
    }
    let port = options.last("port").and_then(|port| port.parse().ok());
    let bound = options.all("bind").into_iter().filter(|bind| !bind.ends_with("=onion")).next_back();
    match (bound, port) {
        (Some(bound), port) => address(bound, port.unwrap_or(usual_port)),
        (None, Some(port)) => Some(SocketAddr::from(([0, 0, 0, 0], port)).to_string()),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::schema;

    #[track_caller]
    fn check(lines: &[&str], want: &[(&str, &str)]) {
        let split =
            |line: &&str| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())).unwrap();
        let options: Vec<(String, String)> = lines.iter().map(split).collect();
        let got = settings("main", &options);
        let got: Vec<(&str, &str)> = got.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(got, want, "{lines:?}");
        for (name, value) in got {
            let setting = schema::find(name).unwrap_or_else(|| panic!("{name} is a setting"));
            assert!(setting.kind.parse(value, setting.words).is_ok(), "{name} = {value}");
        }
        assert!(options.iter().all(|(name, _)| KNOWN.contains(&name.as_str())));
    }

    #[test]
    fn every_option_about_peers_becomes_a_setting() {
        check(&["listen=0", "port=1"], &[("p2p_listen", "off")]);
        check(&["port=9333"], &[("p2p_listen", "0.0.0.0:9333")]);
        check(&["bind=127.0.0.1:8334=onion", "bind=10.0.0.1"], &[("p2p_listen", "10.0.0.1:8333")]);
        check(&["bind=[::1]:5"], &[("p2p_listen", "[::1]:5")]);
        check(
            &["whitelist=noban@10.0.0.0/8", "whitelist=1.2.3.4", "whitebind=relay@127.0.0.1:8335", "whitelistrelay=0"],
            &[
                ("p2p_whitebind", "relay@127.0.0.1:8335"),
                ("p2p_whitelist", "noban@10.0.0.0/8 1.2.3.4"),
                ("p2p_whitelist_relay", "off"),
            ],
        );
        check(
            &["whitelistforcerelay=1", "discover=0"],
            &[("p2p_whitelist_force_relay", "on"), ("p2p_discover", "off")],
        );
        check(&["connect=0"], &[("p2p_connect", "none")]);
        check(&["connect=a:1", "connect=b"], &[("p2p_connect", "a:1,b")]);
        check(
            &["addnode=c", "seednode=d", "onlynet=onion", "onlynet=ipv4", "externalip=8.8.8.8"],
            &[("p2p_external", "8.8.8.8"), ("p2p_add", "c"), ("p2p_seed_nodes", "d"), ("p2p_only", "onion,ipv4")],
        );
        check(&["asmap=1"], &[]);
        check(&["asmap=/a.map", "cjdnsreachable=1"], &[("p2p_cjdns", "on"), ("p2p_asmap", "/a.map")]);
        check(
            &["proxy=127.0.0.1", "onion=127.0.0.1:9150", "proxyrandomize=0"],
            &[("p2p_proxy", "127.0.0.1:9050"), ("p2p_onion_proxy", "127.0.0.1:9150"), ("p2p_proxy_random", "off")],
        );
        check(&["proxy=0"], &[]);
        check(
            &["torcontrol=127.0.0.1:9051", "torpassword=p", "i2psam=127.0.0.1", "i2pacceptincoming=0"],
            &[
                ("p2p_tor_control", "127.0.0.1:9051"),
                ("p2p_tor_password", "p"),
                ("p2p_i2p_sam", "127.0.0.1:7656"),
                ("p2p_i2p_accept", "off"),
            ],
        );
        check(&["listenonion=0", "torcontrol=127.0.0.1:9051"], &[]);
        check(&["maxconnections=125"], &[("p2p_inbound_max", "114")]);
        check(&["inboundrelaypercent=30"], &[("p2p_inbound_relay_percent", "30")]);
        check(&["inboundrelaypercent=120"], &[("p2p_inbound_relay_percent", "100")]);
        check(&["maxconnections=5"], &[("p2p_inbound_max", "0")]);
        check(
            &["v2transport=0", "blocksonly=1", "peerbloomfilters=1", "timeout=7", "peertimeout=8", "bantime=9"],
            &[
                ("p2p_encrypt", "off"),
                ("p2p_blocks_only", "on"),
                ("peer_mempool", "on"),
                ("p2p_connect_ms", "7"),
                ("p2p_handshake_s", "8"),
                ("p2p_ban_s", "9"),
            ],
        );
        check(&["dnsseed=0"], &[("p2p_seeds", "fixed")]);
        check(&["fixedseeds=0"], &[("p2p_seeds", "dns")]);
        check(&["fixedseeds=0", "dnsseed=0"], &[("p2p_seeds", "off")]);
        for (target, mib) in [("500M", "500"), ("300", "300"), ("2G", "2048"), ("1k", "1")] {
            check(&[&format!("maxuploadtarget={target}")], &[("p2p_upload_mib_per_day", mib)]);
        }
        check(&["maxuploadtarget=0"], &[]);
    }
}
