//! A server as others reach it: a host, and the ports of each way in.
//!
//! In:     `hosts` of `server.features`, rows of `server.peers.subscribe`, addresses of services as settings have them.
//! Out:    [`Server`], its host checked; the same forms again.
//! Fails:  none where a host is no host, or no port is one.
//! Source: Electrum protocol, `server.features` and `server.peers.subscribe`; ElectrumX's `REPORT_SERVICES` for settings.

use std::fmt;
use std::net::IpAddr;

use serde_json::{Map, Value, json};

/// Hosts looked at in one list of features.
const HOSTS_MAX: usize = 10;
/// Letters of a host's name (RFC 1035).
const NAME_LETTERS_MAX: usize = 253;
/// Letters of an onion service's name before its ending (rend-spec-v3).
const ONION_LETTERS: usize = 56;

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// An address, an IPv4 one always written as such.
    Address(IpAddr),
    /// A name that is looked up, in small letters.
    Name(String),
    /// An onion service, its ending included.
    Onion(String),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Address(address) => write!(f, "{address}"),
            Host::Name(name) | Host::Onion(name) => f.write_str(name),
        }
    }
}

impl Host {
    /// Reads a host; none where it is none.
    pub fn parse(text: &str) -> Option<Host> {
        let text = text.to_ascii_lowercase();
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&text);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Some(Host::Address(address.to_canonical()));
        }
        if let Some(name) = text.strip_suffix(".onion") {
            let is_digit = |byte: u8| byte.is_ascii_lowercase() || (b'2'..=b'7').contains(&byte);
            return (name.len() == ONION_LETTERS && name.bytes().all(is_digit)).then_some(Host::Onion(text));
        }
        let is_label = |label: &str| {
            let inside = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            (1..=63).contains(&label.len()) && inside && !label.starts_with('-') && !label.ends_with('-')
        };
        // A name that ends in digits would be an address that is written badly.
        let last_is_word =
            text.rsplit('.').next().is_some_and(|last| last.bytes().any(|byte| byte.is_ascii_alphabetic()));
        let is_name = text.len() <= NAME_LETTERS_MAX && last_is_word && text.split('.').all(is_label);
        is_name.then_some(Host::Name(text))
    }

    /// True where anybody may reach it, as far as can be seen without looking the name up.
    pub fn is_public(&self) -> bool {
        match self {
            Host::Address(address) => is_public(*address),
            Host::Name(name) => {
                let last = name.rsplit('.').next().unwrap_or_default();
                name.contains('.')
                    && !["local", "localhost", "internal", "lan", "home", "test", "invalid"].contains(&last)
            }
            Host::Onion(_) => true,
        }
    }

    /// True for an onion service.
    pub fn is_onion(&self) -> bool {
        matches!(self, Host::Onion(_))
    }

    /// What announcements are counted by: an address, or a name with the one that it is under.
    pub fn domain(&self) -> String {
        match self {
            Host::Address(address) => address.to_string(),
            Host::Name(name) | Host::Onion(name) => {
                let mut labels: Vec<&str> = name.rsplit('.').take(2).collect();
                labels.reverse();
                labels.join(".")
            }
        }
    }
}

/// True for an address that packets from anywhere find.
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [first, second, third, _] = address.octets();
            let shared = first == 100 && (64..128).contains(&second);
            let benchmarks = first == 198 && (18..20).contains(&second);
            let assigned = first == 192 && second == 0 && third == 0;
            let special = address.is_private() || address.is_loopback() || address.is_link_local();
            let nobodys = address.is_documentation() || address.is_unspecified() || first == 0 || first >= 224;
            !(special || nobodys || shared || benchmarks || assigned)
        }
        IpAddr::V6(address) => {
            let [first, second, ..] = address.segments();
            // Only 2000::/3 is given out; 2001:db8::/32 is for documents.
            first & 0xe000 == 0x2000 && (first, second) != (0x2001, 0xdb8)
        }
    }
}

/// A way in: its letter in rows, the scheme in settings, the key in features. Rows know only the first two.
const WAYS: [(&str, &str, &str); 4] =
    [("t", "tcp", "tcp_port"), ("s", "ssl", "ssl_port"), ("", "ws", "ws_port"), ("", "wss", "wss_port")];

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Where it is.
    pub host: Host,
    /// Ports for plain lines, lines over TLS, WebSockets, WebSockets over TLS.
    pub ports: [Option<u16>; 4],
}

impl Server {
    /// The port for plain lines.
    pub fn tcp(&self) -> Option<u16> {
        self.ports[0]
    }

    /// The port for lines over TLS.
    pub fn ssl(&self) -> Option<u16> {
        self.ports[1]
    }

    /// Servers of the `hosts` of features; what cannot be read is left out.
    pub fn of_features(hosts: &Value) -> Vec<Server> {
        let Some(hosts) = hosts.as_object() else { return Vec::new() };
        let server = |(host, ways): (&String, &Value)| {
            let port =
                |key: &str| ways[key].as_u64().and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
            let ports = WAYS.map(|(_, _, key)| port(key));
            Some(Server { host: Host::parse(host)?, ports })
        };
        hosts.iter().take(HOSTS_MAX).filter_map(server).collect()
    }

    /// The `hosts` of features.
    pub fn hosts(servers: &[Server]) -> Value {
        let ways = |server: &Server| {
            let ports =
                WAYS.iter().zip(server.ports).filter_map(|((_, _, key), port)| Some(((*key).to_owned(), json!(port?))));
            Value::Object(ports.collect::<Map<_, _>>())
        };
        Value::Object(servers.iter().map(|server| (server.host.to_string(), ways(server))).collect())
    }

    /// The server of a row `[address, host, ["v1.4", "s50002", "t50001"]]`; a letter alone means the network's usual port.
    pub fn of_row(row: &Value, usual: [u16; 2]) -> Option<Server> {
        let mut ports = [None; 4];
        for feature in row[2].as_array()?.iter().take(HOSTS_MAX).filter_map(Value::as_str) {
            let way = WAYS.iter().take(2).position(|(letter, ..)| feature.starts_with(letter));
            let port = way.and_then(|way| match (&feature[1..], usual.get(way)) {
                ("", usual) => usual.copied(),
                (digits, _) => digits.parse().ok().filter(|port| *port > 0),
            });
            if let (Some(way), Some(port)) = (way, port) {
                ports[way] = Some(port);
            }
        }
        Some(Server { host: Host::parse(row[1].as_str()?)?, ports })
    }

    /// The row in which others are told of it.
    pub fn row(&self, address: Option<IpAddr>, newest: &str) -> Value {
        let seen = address.map_or_else(|| self.host.to_string(), |address| address.to_string());
        let ports = WAYS.iter().zip(self.ports).take(2);
        let ports = ports.filter_map(|((letter, ..), port)| Some(format!("{letter}{}", port?)));
        let features: Vec<String> = std::iter::once(format!("v{newest}")).chain(ports).collect();
        json!([seen, self.host.to_string(), features])
    }

    /// Servers as settings have them: `tcp://host:50001 ssl://host:50002 wss://[::1]:50004`, between blanks. Without a port
    /// it is the one in `usual` of that way in.
    pub fn of_settings(text: &str, usual: [Option<u16>; 4]) -> Result<Vec<Server>, String> {
        let mut servers: Vec<Server> = Vec::new();
        for word in text.split_whitespace() {
            let wrong = |why: &str| format!("{word:?} {why}");
            let (scheme, place) = word.split_once("://").ok_or_else(|| wrong("has no scheme"))?;
            let way = WAYS.iter().position(|(_, known, _)| *known == scheme);
            let way = way.ok_or_else(|| wrong("begins with none of tcp, ssl, ws, wss"))?;
            let split = place.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
            let (host, port) = match split {
                Some((host, port)) => {
                    (host, Some(port.parse().ok().filter(|port| *port > 0).ok_or_else(|| wrong("has no such port"))?))
                }
                None => (place, usual[way]),
            };
            let host = Host::parse(host).ok_or_else(|| wrong("has no host"))?;
            let port = port.ok_or_else(|| wrong("has no port, and there is no such way in whose port it could be"))?;
            let at = servers.iter().position(|server| server.host == host);
            let at = at.unwrap_or_else(|| {
                servers.push(Server { host, ports: [None; 4] });
                servers.len() - 1
            });
            servers[at].ports[way] = Some(port);
        }
        Ok(servers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_hosts_and_some_are_public() {
        #[track_caller]
        fn check(text: &str, want: Option<(&str, bool, &str)>) {
            let host = Host::parse(text);
            let got = host.as_ref().map(|host| (host.to_string(), host.is_public(), host.domain()));
            assert_eq!(
                got,
                want.map(|(shown, public, domain)| (shown.to_owned(), public, domain.to_owned())),
                "{text:?}"
            );
        }
        check("Electrum.Example.org", Some(("electrum.example.org", true, "example.org")));
        check("203.0.114.7", Some(("203.0.114.7", true, "203.0.114.7")));
        check("[2a00::1]", Some(("2a00::1", true, "2a00::1")));
        check("::ffff:8.8.8.8", Some(("8.8.8.8", true, "8.8.8.8")));
        let onion = format!("{}.onion", "a2".repeat(28));
        check(&onion.to_uppercase(), Some((&onion, true, &onion)));
        for local in ["127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "100.64.0.1", "169.254.0.1", "0.1.2.3"] {
            check(local, Some((local, false, local)));
        }
        for local in
            ["224.0.0.1", "255.255.255.255", "198.18.0.1", "::1", "fe80::1", "fc00::1", "2001:db8::1", "ff02::1"]
        {
            check(local, Some((local, false, local)));
        }
        check("localhost", Some(("localhost", false, "localhost")));
        check("printer.local", Some(("printer.local", false, "printer.local")));
        let label = "x".repeat(64);
        for wrong in ["", ".", "a..b", "-a.org", "a-.org", "a b.org", "1.2.3", "1.2.3.4.5", "a_b.org", "ä.org", &label]
        {
            check(wrong, None);
        }
        check(&format!("{}.onion", "a".repeat(16)), None);
        check(&format!("{}org", "a.".repeat(126)), None);
    }

    #[test]
    fn every_form_says_the_same() {
        let text = "tcp://a.example.org:50001 ssl://a.example.org ws://a.example.org:3 wss://[2a00::1]:4";
        let servers = Server::of_settings(text, [None, Some(7), None, None]).unwrap();
        let ports = [Some(50_001), Some(7), Some(3), None];
        assert_eq!(servers[0], Server { host: Host::Name("a.example.org".into()), ports });
        let hosts = Server::hosts(&servers);
        let want = json!({
            "a.example.org": {"tcp_port": 50_001, "ssl_port": 7, "ws_port": 3},
            "2a00::1": {"wss_port": 4},
        });
        assert_eq!(hosts, want);
        assert_eq!(Server::of_features(&hosts), servers);
        let row = servers[0].row(Some("192.0.2.1".parse().unwrap()), "1.7");
        assert_eq!(row, json!(["192.0.2.1", "a.example.org", ["v1.7", "t50001", "s7"]]));
        let read = Server::of_row(&row, [1, 2]).unwrap();
        assert_eq!((read.host, read.ports), (servers[0].host.clone(), [Some(50_001), Some(7), None, None]));
    }

    #[test]
    fn what_is_no_server_is_none() {
        let usual = [50_001, 50_002];
        let row = Server::of_row(&json!(["", "a.org", ["v1.4", "t", "s", "p100"]]), usual).unwrap();
        assert_eq!(row.ports, [Some(50_001), Some(50_002), None, None]);
        for row in [json!([]), json!(["x", 7, []]), json!(["x", "a.org"]), json!(["x", "a b", ["t1"]]), json!(7)] {
            assert_eq!(Server::of_row(&row, usual), None, "{row}");
        }
        let odd = Server::of_row(&json!(["", "a.org", ["t0", "s65536", "t-1", "é"]]), usual).unwrap();
        assert_eq!(odd.ports, [None; 4]);
        for features in [json!(null), json!([]), json!({"a b": {"tcp_port": 1}})] {
            assert!(Server::of_features(&features).is_empty(), "{features}");
        }
        let many: Map<String, Value> = (0..100).map(|n| (format!("h{n}.org"), json!({"tcp_port": 65_536}))).collect();
        let many = Server::of_features(&Value::Object(many));
        assert!(many.len() == HOSTS_MAX && many.iter().all(|server| server.tcp().is_none()));
        for (text, word) in [("a.org", "no scheme"), ("udp://a.org:1", "none of"), ("tcp://a.org:0", "no such port")] {
            assert!(Server::of_settings(text, [None; 4]).unwrap_err().contains(word), "{text}");
        }
        for (text, word) in [("tcp://a.org", "no port"), ("tcp://:1", "no host"), ("tcp://a.org:65536", "no such port")]
        {
            assert!(Server::of_settings(text, [None; 4]).unwrap_err().contains(word), "{text}");
        }
    }
}
