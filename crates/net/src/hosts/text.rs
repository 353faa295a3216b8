//! Hosts and endpoints as people write them.
//!
//! In:     text, or a host.
//! Out:    a host or endpoint, or text: `1.2.3.4:8333`, `[::1]:8333`, `....onion:8333`, `....b32.i2p:0`.
//! Fails:  [`TextError`].
//! Source: Tor's rend-spec-v3, section 6 (public key, checksum by SHA3-256, version 3; base32); I2P's base32 names.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use bitcoin_hashes::sha3_256;

use crate::wire::{Endpoint, Host};

const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Why text is no host or endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextError {
    /// Neither an IP address nor an onion or I2P name. Names of the domain name system are not looked up here.
    NotAHost,
    /// An onion name of a wrong checksum, or of a version other than the third.
    WrongOnionChecksum,
    /// The port is missing, or is none.
    NoPort,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TextError::NotAHost => "neither an IP address nor an onion or I2P name",
            TextError::WrongOnionChecksum => "the onion name has a typing error or is of an old version",
            TextError::NoPort => "a port is needed: HOST:PORT, with [] around IPv6",
        })
    }
}

impl std::error::Error for TextError {}

/// Bytes as base32 without padding, in the small letters of onion and I2P names.
pub fn base32(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(5) * 8);
    let (mut bits, mut count) = (0u32, 0);
    for byte in bytes {
        bits = bits << 8 | u32::from(*byte);
        count += 8;
        while count >= 5 {
            count -= 5;
            text.push(BASE32[(bits >> count) as usize & 31] as char);
        }
        bits &= (1 << count) - 1;
    }
    if count > 0 {
        text.push(BASE32[(bits << (5 - count)) as usize & 31] as char);
    }
    text
}

/// Bytes of base32 text without padding; bits left over must be zero.
fn from_base32<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != (N * 8).div_ceil(5) {
        return None;
    }
    let mut bytes = Vec::with_capacity(N);
    let (mut bits, mut count) = (0u32, 0);
    for character in text.bytes() {
        let value = BASE32.iter().position(|digit| *digit == character.to_ascii_lowercase())?;
        bits = bits << 5 | value as u32;
        count += 5;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
        bits &= (1 << count) - 1;
    }
    (bits == 0).then_some(())?;
    bytes.try_into().ok()
}

/// IPv4 with fewer than four numbers, whose last one stands for all the rest: 127.1 is 127.0.0.1 (as `inet_aton` reads it).
fn short_v4(text: &str) -> Option<[u8; 4]> {
    let parts: Vec<u32> = text.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [first @ .., last] = &parts[..] else { return None };
    let rest_bits = 32 - 8 * u32::try_from(first.len()).ok()?;
    if !(1..=2).contains(&first.len()) || first.iter().any(|part| *part > 255) || last >> rest_bits != 0 {
        return None;
    }
    let high = first.iter().fold(0, |high, part| high << 8 | part);
    Some((high << rest_bits | last).to_be_bytes())
}

fn onion_checksum(key: &[u8; 32]) -> [u8; 2] {
    let hash = sha3_256::Hash::hash_byte_chunks(&[&b".onion checksum"[..], key, &[3]]).to_byte_array();
    [hash[0], hash[1]]
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::V4(bytes) => write!(f, "{}", Ipv4Addr::from(*bytes)),
            Host::V6(bytes) | Host::Cjdns(bytes) => write!(f, "{}", Ipv6Addr::from(*bytes)),
            Host::Onion(key) => {
                let mut bytes = [0; 35];
                bytes[..32].copy_from_slice(key);
                bytes[32..34].copy_from_slice(&onion_checksum(key));
                bytes[34] = 3;
                write!(f, "{}.onion", base32(&bytes))
            }
            Host::I2p(hash) => write!(f, "{}.b32.i2p", base32(hash)),
        }
    }
}

impl FromStr for Host {
    type Err = TextError;

    /// CJDNS addresses read as IPv6: only who uses CJDNS can tell them from private ones.
    fn from_str(text: &str) -> Result<Host, TextError> {
        if let Ok(address) = text.parse::<std::net::IpAddr>() {
            return Ok(Host::from(address));
        }
        if let Some(bytes) = short_v4(text) {
            return Ok(Host::V4(bytes));
        }
        if let Some(name) = text.strip_suffix(".onion") {
            let bytes: [u8; 35] = from_base32(name).ok_or(TextError::NotAHost)?;
            let key: [u8; 32] = bytes[..32].try_into().expect("32 of 35 bytes");
            let is_right = bytes[32..34] == onion_checksum(&key) && bytes[34] == 3;
            return is_right.then_some(Host::Onion(key)).ok_or(TextError::WrongOnionChecksum);
        }
        let name = text.strip_suffix(".b32.i2p").ok_or(TextError::NotAHost)?;
        from_base32(name).map(Host::I2p).ok_or(TextError::NotAHost)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host {
            Host::V6(_) | Host::Cjdns(_) => write!(f, "[{}]:{}", self.host, self.port),
            _ => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl Endpoint {
    /// The endpoint of text whose port may be missing.
    pub fn parse(text: &str, default_port: Option<u16>) -> Result<Endpoint, TextError> {
        // IPv6 without brackets has more than one colon and no port.
        if let Ok(host) = text.trim_start_matches('[').trim_end_matches(']').parse::<Host>() {
            return Ok(Endpoint { host, port: default_port.ok_or(TextError::NoPort)? });
        }
        let (host, port) = text.rsplit_once(':').ok_or(TextError::NotAHost)?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Ok(Endpoint { host: host.parse()?, port: port.parse().map_err(|_| TextError::NoPort)? })
    }
}

impl FromStr for Endpoint {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Endpoint, TextError> {
        Endpoint::parse(text, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_reads_as_it_was_written() {
        for text in [
            "1.2.3.4:8333",
            "[2001:db8::1]:1",
            "[::]:0",
            // The examples of Core's `SetSpecial`.
            "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion:8333",
            "ukeu3k5oycgaauneqgtnvselmt4yemvoilkln7jpvamvfx7dnkdq.b32.i2p:0",
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        assert_eq!("127.1:9".parse::<Endpoint>().unwrap().to_string(), "127.0.0.1:9");
        assert_eq!("10.1.65535".parse(), Ok(Host::V4([10, 1, 255, 255])));
        assert!(["10.1.65536", "256.1", "1", "1.2.3.4.5", "1.-2"].iter().all(|text| text.parse::<Host>().is_err()));
        assert_eq!("::ffff:1.2.3.4".parse(), Ok(Host::V4([1, 2, 3, 4])));
        assert_eq!(Endpoint::parse("::1", Some(5)).unwrap().to_string(), "[::1]:5");
        assert_eq!(Endpoint::parse("[::1]", Some(5)).unwrap().to_string(), "[::1]:5");
        assert_eq!(Endpoint::parse("1.2.3.4", Some(5)).unwrap().to_string(), "1.2.3.4:5");
    }

    #[test]
    fn what_is_no_endpoint_says_why() {
        #[track_caller]
        fn check(text: &str, want: TextError) {
            assert_eq!(text.parse::<Endpoint>(), Err(want), "{text}");
        }
        check("1.2.3.4", TextError::NoPort);
        check("1.2.3.4:", TextError::NoPort);
        check("1.2.3.4:65536", TextError::NoPort);
        check("", TextError::NotAHost);
        check("example.org:8333", TextError::NotAHost);
        check("1.2.3.256:1", TextError::NotAHost);
        check("qg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion:1", TextError::WrongOnionChecksum);
        check("expyuzz4wqqyqhjn.onion:1", TextError::NotAHost);
        check("ukeu3k5oycgaauneqgtnvselmt4yemvoilkln7jpvamvfx7dnkd.b32.i2p:0", TextError::NotAHost);
        // The last digit has bits that name nothing.
        check("ukeu3k5oycgaauneqgtnvselmt4yemvoilkln7jpvamvfx7dnkdr.b32.i2p:0", TextError::NotAHost);
    }
}
