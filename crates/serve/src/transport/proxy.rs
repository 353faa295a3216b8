//! The header with which a balancer says for whom it speaks.
//!
//! In:     the first bytes of a connection from a listed balancer.
//! Out:    the client's address, and the bytes behind the header.
//! Fails:  [`Refusal::ProxyHeader`] for anything else than version 2, and for one longer than any balancer writes.
//! Source: HAProxy, doc/proxy-protocol.txt, section 2.2 (version 2).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Refusal;

/// What each header of version 2 begins with.
pub const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// Bytes before the addresses: signature, version and command, family, length.
const FIXED_BYTES: usize = 16;

/// Bytes behind them, at most: addresses of sockets in the file system take 216, and few balancers add more than a name.
const REST_BYTES_MAX: usize = 1024;

/// Reading the header.
#[derive(Default)]
pub struct ProxyHeader {
    bytes: Vec<u8>,
}

/// Who is behind a balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// The balancer itself: it looks whether we are well.
    Balancer,
    /// The client with this address.
    Client(IpAddr),
}

impl ProxyHeader {
    /// Takes bytes from the front of `bytes`; says who is there once the header is whole.
    pub fn take(&mut self, bytes: &mut &[u8]) -> Result<Option<Behind>, Refusal> {
        loop {
            let wanted = self.wanted()?;
            let missing = wanted - self.bytes.len();
            if missing == 0 {
                return parse(&self.bytes).map(Some);
            }
            let (now, later) = bytes.split_at(missing.min(bytes.len()));
            self.bytes.extend_from_slice(now);
            *bytes = later;
            if now.len() < missing {
                self.wanted()?; // a stranger's first byte is wrong already
                return Ok(None);
            }
        }
    }

    /// Length of the header as far as it is known.
    fn wanted(&self) -> Result<usize, Refusal> {
        let known = self.bytes.len().min(SIGNATURE.len());
        if self.bytes[..known] != SIGNATURE[..known] {
            return Err(Refusal::ProxyHeader("the connection does not begin with one of version 2"));
        }
        let Some(length) = self.bytes.get(14..FIXED_BYTES) else { return Ok(FIXED_BYTES) };
        let rest = usize::from(u16::from_be_bytes([length[0], length[1]]));
        match rest > REST_BYTES_MAX {
            true => Err(Refusal::ProxyHeader("it is longer than 1,040 bytes")),
            false => Ok(FIXED_BYTES + rest),
        }
    }
}

/// Reads a whole header.
fn parse(header: &[u8]) -> Result<Behind, Refusal> {
    let (fixed, rest) = header.split_at(FIXED_BYTES);
    let is_client = match fixed[12] {
        0x20 => false,
        0x21 => true,
        _ => return Err(Refusal::ProxyHeader("a version or command that is not known")),
    };
    let short = Refusal::ProxyHeader("addresses are cut off");
    match fixed[13] {
        _ if !is_client => Ok(Behind::Balancer),
        0x11 => {
            let source: [u8; 4] = rest.get(..12).ok_or(short)?[..4].try_into().expect("four bytes");
            Ok(Behind::Client(IpAddr::V4(Ipv4Addr::from(source))))
        }
        0x21 => {
            let source: [u8; 16] = rest.get(..36).ok_or(short)?[..16].try_into().expect("sixteen bytes");
            Ok(Behind::Client(IpAddr::V6(Ipv6Addr::from(source)).to_canonical()))
        }
        // Unspecified, and a socket in the balancer's file system: there is no address to count.
        0x00 | 0x31 => Ok(Behind::Balancer),
        _ => Err(Refusal::ProxyHeader("a family of addresses that is not TCP")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = (rest.len() as u16).to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, rest].concat()
    }

    #[test]
    fn headers_say_who_is_there_however_they_are_cut() {
        #[track_caller]
        fn check(header: &[u8], want: Result<Option<Behind>, &str>) {
            for cut in [1, 2, 5, 12, 13, 15, 16, 17, 100_000] {
                let mut reader = ProxyHeader::default();
                let whole = [header, b"rest"].concat();
                let (mut got, mut left) = (Ok(None), Vec::new());
                for piece in whole.chunks(cut) {
                    let mut piece = piece;
                    if matches!(got, Ok(None)) {
                        got = reader.take(&mut piece);
                    }
                    left.extend_from_slice(piece);
                }
                match (&got, &want) {
                    (Ok(got), Ok(want)) => assert_eq!(got, want),
                    (Err(got), Err(want)) => assert!(got.to_string().contains(want), "{got}"),
                    _ => panic!("{got:?} is not {want:?}"),
                }
                if matches!(got, Ok(Some(_))) {
                    assert_eq!(left, b"rest", "what follows the header stays");
                }
            }
        }
        let v4 = [&[192, 0, 2, 7, 10, 0, 0, 1, 1, 2, 3, 4][..]].concat();
        let v6 = [&[0x20, 1, 0xd, 0xb8][..], &[0; 11], &[9], &[0; 20]].concat();
        let mapped = [&[0; 10][..], &[255, 255, 192, 0, 2, 7], &[0; 20]].concat();
        let client = |text: &str| Ok(Some(Behind::Client(text.parse().unwrap())));
        check(&header(0x21, 0x11, &v4), client("192.0.2.7"));
        check(&header(0x21, 0x11, &[&v4[..], &[3, 0, 1, 9]].concat()), client("192.0.2.7"));
        check(&header(0x21, 0x21, &v6), client("2001:db8::9"));
        check(&header(0x21, 0x21, &mapped), client("192.0.2.7"));
        check(&header(0x20, 0x00, &[]), Ok(Some(Behind::Balancer)));
        check(&header(0x20, 0x11, &v4), Ok(Some(Behind::Balancer)));
        check(&header(0x21, 0x00, &[]), Ok(Some(Behind::Balancer)));
        check(&header(0x21, 0x31, &[0; 216]), Ok(Some(Behind::Balancer)));
        check(&header(0x21, 0x11, &v4[..11]), Err("cut off"));
        check(&header(0x21, 0x21, &v6[..35]), Err("cut off"));
        check(&header(0x21, 0x12, &v4), Err("not TCP"));
        check(&header(0x22, 0x11, &v4), Err("not known"));
        check(&header(0x11, 0x11, &v4), Err("not known"));
        check(&header(0x21, 0x00, &[0; REST_BYTES_MAX]), Ok(Some(Behind::Balancer)));
        check(&header(0x21, 0x00, &[0; REST_BYTES_MAX + 1]), Err("longer"));
        check(b"PROXY TCP4 192.0.2.7 10.0.0.1 1 2\r\n", Err("version 2"));
        check(b"{\"id\":1,\"method\":\"server.version\"}\n", Err("version 2"));
        check(&SIGNATURE[..11], Err("version 2")); // "rest" follows
    }
}
