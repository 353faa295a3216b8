//! Which hosts are of one kind, and which belong together.
//!
//! In:     a host.
//! Out:    its kind, whether others can reach it, and its group: what one operator is likely to hold.
//! Fails:  never.
//! Source: Bitcoin Core, `CNetAddr::IsRoutable`, `GetNetClass`, `NetGroupManager::GetGroup`.

use std::sync::Arc;

use super::asmap::AsMap;
use crate::wire::Host;

/// The network a host is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostKind {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
    /// Onion services.
    Onion,
    /// I2P.
    I2p,
    /// CJDNS.
    Cjdns,
}

impl HostKind {
    /// Every kind.
    pub const ALL: [HostKind; 5] = [HostKind::V4, HostKind::V6, HostKind::Onion, HostKind::I2p, HostKind::Cjdns];

    /// The kind of a host.
    pub fn of(host: &Host) -> HostKind {
        match host {
            Host::V4(_) => HostKind::V4,
            Host::V6(_) => HostKind::V6,
            Host::Onion(_) => HostKind::Onion,
            Host::I2p(_) => HostKind::I2p,
            Host::Cjdns(_) => HostKind::Cjdns,
        }
    }

    /// Core's name in `getpeerinfo` and `-onlynet`.
    pub fn name(self) -> &'static str {
        match self {
            HostKind::V4 => "ipv4",
            HostKind::V6 => "ipv6",
            HostKind::Onion => "onion",
            HostKind::I2p => "i2p",
            HostKind::Cjdns => "cjdns",
        }
    }

    /// The kind of a name.
    pub fn of_name(name: &str) -> Option<HostKind> {
        HostKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// True for the machine itself.
pub fn is_local(host: &Host) -> bool {
    match host {
        Host::V4([first, ..]) => matches!(first, 0 | 127),
        Host::V6(bytes) => bytes[..15] == [0; 15] && bytes[15] == 1,
        _ => false,
    }
}

/// True for a host that anybody on its network can reach.
pub fn is_routable(host: &Host) -> bool {
    match host {
        Host::V4(bytes) => is_routable_v4(*bytes),
        Host::V6(bytes) => is_routable_v6(bytes),
        Host::Cjdns(bytes) => bytes[0] == 0xfc,
        Host::Onion(_) | Host::I2p(_) => true,
    }
}

fn is_routable_v4(bytes: [u8; 4]) -> bool {
    let reserved = matches!(
        bytes,
        [0 | 10 | 127, ..] // RFC 1122, RFC 1918
            | [172, 16..=31, ..] // RFC 1918
            | [192, 168, ..] // RFC 1918
            | [198, 18 | 19, ..] // RFC 2544, between networks
            | [169, 254, ..] // RFC 3927, configured by itself
            | [100, 64..=127, ..] // RFC 6598, behind a provider
            | [192, 0, 2, _] // RFC 5737, documents
            | [198, 51, 100, _]
            | [203, 0, 113, _]
            | [255, 255, 255, 255]
    );
    !reserved
}

fn is_routable_v6(bytes: &[u8; 16]) -> bool {
    let unspecified = *bytes == [0; 16] || is_local(&Host::V6(*bytes));
    let document = bytes.starts_with(&[0x20, 0x01, 0x0d, 0xb8]); // RFC 3849
    let link = bytes.starts_with(&[0xfe, 0x80, 0, 0, 0, 0, 0, 0]); // RFC 4862
    let private = bytes[0] & 0xfe == 0xfc; // RFC 4193, where addr hides onion services and names too
    let orchid = bytes.starts_with(&[0x20, 0x01, 0x00]) && matches!(bytes[3] & 0xf0, 0x10 | 0x20); // RFC 4843, 7343
    !(unspecified || document || link || private || orchid)
}

/// The IPv4 address that a routable IPv6 address is only another form of.
pub(super) fn linked_v4(bytes: &[u8; 16]) -> Option<[u8; 4]> {
    let at = |start: usize| bytes[start..start + 4].try_into().expect("four of 16 bytes");
    if bytes.starts_with(&[0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0])
        || bytes.starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0])
    {
        return Some(at(12)); // RFC 6052, RFC 6145
    }
    if bytes.starts_with(&[0x20, 0x02]) {
        return Some(at(2)); // RFC 3964, 6to4
    }
    if bytes.starts_with(&[0x20, 0x01, 0, 0]) {
        return Some(at(12).map(|byte: u8| !byte)); // RFC 4380, Teredo
    }
    None
}

/// Hosts that one operator is likely to hold together: an autonomous system where a map tells it; /16 of IPv4, /32 of IPv6, a
/// sixteenth of the other networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group([u8; 6]);

impl Group {
    fn new(class: u8, prefix: &[u8]) -> Group {
        let mut bytes = [0; 6];
        bytes[0] = class;
        bytes[1..=prefix.len()].copy_from_slice(prefix);
        Group(bytes)
    }

    /// The group of a host no map tells of; all that cannot be reached are one group, and so is the machine itself.
    fn of(host: &Host) -> Group {
        let group = Group::new;
        if is_local(host) {
            return group(254, &[]);
        }
        if !is_routable(host) {
            return group(255, &[]);
        }
        match host {
            Host::V4(bytes) => group(1, &bytes[..2]),
            Host::V6(bytes) => match linked_v4(bytes) {
                Some(v4) => group(1, &v4[..2]),
                // Hurricane Electric gives away /48s to everybody: four bits more.
                None if bytes.starts_with(&[0x20, 0x01, 0x04, 0x70]) => {
                    group(2, &[bytes[0], bytes[1], bytes[2], bytes[3], bytes[4] | 0x0f])
                }
                None => group(2, &bytes[..4]),
            },
            Host::Onion(bytes) => group(4, &[bytes[0] | 0x0f]),
            Host::I2p(bytes) => group(5, &[bytes[0] | 0x0f]),
            // The first byte is 0xfc for all.
            Host::Cjdns(bytes) => group(6, &[bytes[0], bytes[1] | 0x0f]),
        }
    }

    /// The bytes, for keyed hashes.
    pub fn bytes(&self) -> &[u8; 6] {
        &self.0
    }
}

/// What makes groups of hosts: the bits of addresses, and a map of autonomous systems where the user has one.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    map: Option<Arc<AsMap>>,
}

impl Groups {
    /// Groups by this map; what it does not know, by address.
    pub fn by(map: Arc<AsMap>) -> Groups {
        Groups { map: Some(map) }
    }

    /// The group of a host.
    pub fn of(&self, host: &Host) -> Group {
        match self.mapped_as(host) {
            0 => Group::of(host),
            // IPv4 and IPv6 of one operator are one group.
            system => Group::new(3, &system.to_le_bytes()),
        }
    }

    /// The autonomous system of a host; 0 where nobody knows, a number that is nobody's (RFC 7607).
    pub fn mapped_as(&self, host: &Host) -> u32 {
        let bytes = match host {
            Host::V4(_) => host.to_v6_bytes(),
            Host::V6(bytes) if is_routable(host) => linked_v4(bytes).map_or(*bytes, |v4| Host::V4(v4).to_v6_bytes()),
            _ => return 0,
        };
        match &self.map {
            Some(map) if is_routable(host) => map.system_of(&bytes),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Host {
        Host::from(text.parse::<std::net::IpAddr>().unwrap())
    }

    #[test]
    fn hosts_nobody_can_reach_are_known() {
        #[track_caller]
        fn check(text: &str, want: bool) {
            assert_eq!(is_routable(&host(text)), want, "{text}");
        }
        for text in ["8.8.8.8", "172.15.0.1", "172.32.0.1", "100.63.0.1", "100.128.0.1", "198.20.0.1", "2001:4860::1"] {
            check(text, true);
        }
        for text in ["0.0.0.0", "10.0.0.1", "127.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.0.1", "169.254.1.1"] {
            check(text, false);
        }
        for text in
            ["100.64.0.1", "100.127.0.1", "198.18.0.1", "198.19.0.1", "192.0.2.1", "198.51.100.1", "203.0.113.9"]
        {
            check(text, false);
        }
        for text in ["::", "::1", "2001:db8::1", "fe80::1", "fc00::1", "fd87:d87e:eb43::1", "2001:10::1", "2001:20::1"]
        {
            check(text, false);
        }
        check("255.255.255.255", false);
        check("::ffff:8.8.8.8", true);
        check("2002:808:808::1", true);
        assert!(is_routable(&Host::Onion([0; 32])) && is_routable(&Host::Cjdns([0xfc; 16])));
        assert!(!is_routable(&Host::Cjdns([0xfd; 16])));
    }

    #[test]
    fn groups_are_those_of_core() {
        #[track_caller]
        fn check(one: Host, other: Host, want: bool) {
            assert_eq!(Group::of(&one) == Group::of(&other), want, "{one:?} {other:?}");
        }
        let of = |one, other, want| check(host(one), host(other), want);
        of("1.2.3.4", "1.2.200.1", true);
        of("1.2.3.4", "1.3.3.4", false);
        of("127.0.0.1", "::1", true);
        of("10.0.0.1", "192.168.1.1", true);
        of("2001:4860:1::1", "2001:4860:2::1", true);
        of("2001:4860::1", "2001:4861::1", false);
        of("2001:470:1000::", "2001:470:1fff::", true);
        of("2001:470:1000::", "2001:470:2000::", false);
        // Other forms of 1.2.3.4: 6to4, Teredo, RFC 6052 and 6145.
        of("2002:0102:0304::9", "1.2.3.4", true);
        of("2001:0:9999:9999:9999:9999:fefd:fcfb", "1.2.3.4", true);
        of("64:ff9b::1.2.3.4", "1.2.3.4", true);
        of("::ffff:0:1.2.3.4", "1.2.3.4", true);
        check(Host::Onion([0x10; 32]), Host::Onion([0x1f; 32]), true);
        check(Host::Onion([0x10; 32]), Host::Onion([0x20; 32]), false);
        check(Host::Onion([0x10; 32]), Host::I2p([0x10; 32]), false);
        let cjdns = |second| Host::Cjdns([0xfc, second, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        check(cjdns(0x10), cjdns(0x1f), true);
        check(cjdns(0x10), cjdns(0x20), false);
    }
}
