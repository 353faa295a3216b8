//! A host, or all hosts that begin with the same bits.
//!
//! In:     text: `1.2.3.4`, `1.2.3.0/24`, `1.2.3.0/255.255.255.0`, `2001:db8::/32`, `....onion`.
//! Out:    [`Subnet`], and whether a host is in it.
//! Fails:  `None` for text that is none.

use std::fmt;
use std::str::FromStr;

use super::text::TextError;
use crate::wire::Host;

/// Hosts of one kind that share their first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subnet {
    /// A host of it, whose other bits are zero.
    pub first: Host,
    /// How many bits are shared.
    pub bits: u16,
}

impl Subnet {
    /// The subnet of one host alone.
    pub fn of_host(host: Host) -> Subnet {
        Subnet { first: host, bits: 8 * host.bytes().len() as u16 }
    }

    /// The hosts that share `bits` bits with `host`; more than it has are all of them.
    pub fn new(host: Host, bits: u16) -> Subnet {
        let bits = bits.min(8 * host.bytes().len() as u16);
        Subnet { first: cut(host, bits), bits }
    }

    /// True for a host of it.
    pub fn contains(&self, host: &Host) -> bool {
        self.first.network_id() == host.network_id() && cut(*host, self.bits) == self.first
    }
}

/// The host with all bits behind the first `bits` zero.
fn cut(mut host: Host, bits: u16) -> Host {
    let clear = |bytes: &mut [u8]| {
        for (index, byte) in bytes.iter_mut().enumerate() {
            let kept = usize::from(bits).saturating_sub(8 * index).min(8);
            *byte &= !(0xffu32 >> kept) as u8;
        }
    };
    match &mut host {
        Host::V4(bytes) => clear(bytes),
        Host::V6(bytes) | Host::Cjdns(bytes) => clear(bytes),
        Host::Onion(bytes) | Host::I2p(bytes) => clear(bytes),
    }
    host
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first {
            Host::V4(_) | Host::V6(_) | Host::Cjdns(_) => write!(f, "{}/{}", self.first, self.bits),
            _ => write!(f, "{}", self.first),
        }
    }
}

impl FromStr for Subnet {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Subnet, TextError> {
        let Some((host, mask)) = text.split_once('/') else { return Ok(Subnet::of_host(text.parse()?)) };
        let host: Host = host.parse()?;
        let width = 8 * host.bytes().len() as u16;
        if !matches!(host, Host::V4(_) | Host::V6(_)) {
            return Err(TextError::NotAHost);
        }
        let bits = match mask.parse::<u16>() {
            Ok(bits) => bits,
            Err(_) => mask_bits(mask.parse()?).ok_or(TextError::NotAHost)?,
        };
        (bits <= width).then(|| Subnet::new(host, bits)).ok_or(TextError::NotAHost)
    }
}

/// How many ones a netmask begins with, where it has no others.
fn mask_bits(mask: Host) -> Option<u16> {
    let ones = mask.bytes().iter().map(|byte| byte.count_ones()).sum::<u32>() as u16;
    let whole = Host::from_network(mask.network_id(), &vec![0xff; mask.bytes().len()]).ok()??;
    (cut(whole, ones) == mask).then_some(ones)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_in_or_out_at_both_ends() {
        #[track_caller]
        fn check(subnet: &str, host: &str, want: bool) {
            let subnet: Subnet = subnet.parse().unwrap();
            assert_eq!(subnet.contains(&host.parse().unwrap()), want, "{subnet} {host}");
        }
        check("1.2.3.0/24", "1.2.3.0", true);
        check("1.2.3.77/24", "1.2.3.255", true);
        check("1.2.3.0/255.255.255.0", "1.2.4.0", false);
        check("1.2.3.4", "1.2.3.4", true);
        check("1.2.3.4", "1.2.3.5", false);
        check("0.0.0.0/0", "255.0.0.1", true);
        check("0.0.0.0/0", "::2", false);
        check("1.2.3.128/25", "1.2.3.127", false);
        check("2001:db8::/33", "2001:db8:7fff::", true);
        check("2001:db8::/33", "2001:db8:8000::", false);
        for wrong in ["1.2.3.4/33", "1.2.3.4/x", "1.2.3.4/255.0.255.0", "::/129", "", "1.2.3.4/"] {
            assert!(wrong.parse::<Subnet>().is_err(), "{wrong}");
        }
        assert_eq!("1.2.3.77/24".parse::<Subnet>().unwrap().to_string(), "1.2.3.0/24");
    }
}
