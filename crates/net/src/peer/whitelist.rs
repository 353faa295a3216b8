//! Who may do more than others, as the user writes it.
//!
//! In:     text: `192.168.0.0/16`, `noban,relay@1.2.3.4`, `in,out,download@10.0.0.0/8`, `noban@127.0.0.1:8333`.
//! Out:    [`Whitelisted`] and [`Whitebound`].
//! Fails:  [`WhitelistError`], in Core's words.
//! Source: Bitcoin Core, `src/net_permissions.cpp` (`TryParsePermissionFlags`).

use std::fmt;
use std::net::SocketAddr;

use super::kind::Permissions;
use crate::hosts::Subnet;

/// Hosts that may do more, and on connections of which direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whitelisted {
    /// The hosts.
    pub subnet: Subnet,
    /// What they may do; `None` for what a list without words means ([`Permissions::implicit`]).
    pub permissions: Option<Permissions>,
    /// On connections they make.
    pub inbound: bool,
    /// On connections we make.
    pub outbound: bool,
}

/// An address to listen at, whose guests may do more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whitebound {
    /// Where.
    pub address: SocketAddr,
    /// As in [`Whitelisted`].
    pub permissions: Option<Permissions>,
}

/// Why text gives nobody anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhitelistError {
    /// A word that is no permission.
    Unknown(String),
    /// A direction without a permission.
    OnlyDirection(String),
    /// Guests come in: nobody goes out through a listening socket.
    OutOfBind,
    /// What follows the permissions is no host or subnet.
    NoSubnet(String),
    /// What follows the permissions is no address with a port.
    NoAddress(String),
}

impl fmt::Display for WhitelistError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WhitelistError::Unknown(word) => write!(f, "Invalid P2P permission: '{word}'"),
            WhitelistError::OnlyDirection(text) => write!(f, "Only direction was set, no permissions: '{text}'"),
            WhitelistError::OutOfBind => {
                f.write_str("whitebind may only be used for incoming connections (\"out\" was passed)")
            }
            WhitelistError::NoSubnet(text) => write!(f, "Invalid netmask specified in -whitelist: '{text}'"),
            WhitelistError::NoAddress(text) => write!(f, "Need to specify a port with -whitebind: '{text}'"),
        }
    }
}

impl std::error::Error for WhitelistError {}

/// What stands before `@`.
struct Words<'a> {
    permissions: Option<Permissions>,
    inbound: bool,
    outbound: bool,
    rest: &'a str,
}

fn words(text: &str) -> Result<Words<'_>, WhitelistError> {
    let Some((list, rest)) = text.split_once('@') else {
        return Ok(Words { permissions: None, inbound: true, outbound: false, rest: text });
    };
    let (mut all, mut inbound, mut outbound) = (Permissions::NONE, false, false);
    for word in list.split(',').filter(|word| !word.is_empty()) {
        match word {
            "in" => inbound = true,
            "out" => outbound = true,
            _ => {
                let one = Permissions::of_name(word).ok_or_else(|| WhitelistError::Unknown(word.to_owned()))?;
                all = all.and(one);
            }
        }
    }
    let is_directed = inbound || outbound;
    if is_directed && all == Permissions::NONE {
        return Err(WhitelistError::OnlyDirection(text.to_owned()));
    }
    Ok(Words { permissions: Some(all), inbound: inbound || !is_directed, outbound, rest })
}

impl Whitelisted {
    /// Reads an entry of a whitelist.
    pub fn parse(text: &str) -> Result<Whitelisted, WhitelistError> {
        let Words { permissions, inbound, outbound, rest } = words(text)?;
        let subnet = rest.parse().map_err(|_| WhitelistError::NoSubnet(rest.to_owned()))?;
        Ok(Whitelisted { subnet, permissions, inbound, outbound })
    }
}

impl Whitebound {
    /// Reads an address to listen at.
    pub fn parse(text: &str) -> Result<Whitebound, WhitelistError> {
        let Words { permissions, outbound, rest, .. } = words(text)?;
        if outbound {
            return Err(WhitelistError::OutOfBind);
        }
        let address = rest.parse().map_err(|_| WhitelistError::NoAddress(rest.to_owned()))?;
        Ok(Whitebound { address, permissions })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_say_who_may_what_and_in_which_direction() {
        #[track_caller]
        fn check(text: &str, want: Option<&[&str]>, inbound: bool, outbound: bool) {
            let got = Whitelisted::parse(text).unwrap();
            let names = got.permissions.map(Permissions::names);
            assert_eq!((names.as_deref(), got.inbound, got.outbound), (want, inbound, outbound), "{text}");
        }
        check("1.2.3.4", None, true, false);
        check("@1.2.3.4", Some(&[]), true, false);
        check("noban@1.2.3.0/24", Some(&["noban", "download"]), true, false);
        check("forcerelay,,mempool@::1", Some(&["forcerelay", "relay", "mempool"]), true, false);
        check("out,relay@1.2.3.4", Some(&["relay"]), false, true);
        check("in,out,addr,bloom@1.2.3.4", Some(&["bloomfilter", "addr"]), true, true);
        let all = ["bloomfilter", "noban", "forcerelay", "relay", "mempool", "download", "addr"];
        check("all@1.2.3.4", Some(&all), true, false);
    }

    #[test]
    fn what_gives_nobody_anything_says_why() {
        #[track_caller]
        fn check(text: &str, want: &str) {
            assert_eq!(Whitelisted::parse(text).unwrap_err().to_string(), want);
        }
        check("oopsie@1.2.3.4", "Invalid P2P permission: 'oopsie'");
        check("out@1.2.3.4", "Only direction was set, no permissions: 'out@1.2.3.4'");
        check("noban@1.2.3.4:33", "Invalid netmask specified in -whitelist: '1.2.3.4:33'");
        check("", "Invalid netmask specified in -whitelist: ''");
        let bind = |text: &str| Whitebound::parse(text);
        assert_eq!(bind("noban,out@127.0.0.1:1").unwrap_err(), WhitelistError::OutOfBind);
        assert_eq!(
            bind("noban@127.0.0.1").unwrap_err().to_string(),
            "Need to specify a port with -whitebind: '127.0.0.1'"
        );
        let bound = bind("in,mempool@127.0.0.1:1").unwrap();
        assert_eq!((bound.address.port(), bound.permissions), (1, Some(Permissions::MEMPOOL)));
    }
}
