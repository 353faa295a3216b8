//! Where a peer can be reached, as addr and addrv2 write it.
//!
//! | bytes of addr | field      | meaning                                                    |
//! |---------------|------------|------------------------------------------------------------|
//! | 0..4          | `time_s`   | when it was last seen; absent in `version`                 |
//! | 4..12         | `services` |                                                            |
//! | 12..28        | `host`     | IPv6, or IPv4 behind ::ffff:0:0/96; zeros for other kinds  |
//! | 28..30        | `port`     | big endian                                                 |
//!
//! addrv2: `time_s`, services as CompactSize, one byte of network, length and bytes of the host, port big endian.
//!
//! In:     bytes.
//! Out:    [`PeerAddress`]; in addrv2 `None` for a network nobody knows yet, so that the list goes on behind it.
//! Fails:  [`WireError`]: too long, or a known network with the wrong length.
//! Source: BIP 155; Bitcoin Core, `CNetAddr::UnserializeV2Stream`.

use primitives::encode::put_compact_size;
use stdx::bytes::Reader;

use super::encode::{bytes, put_bytes, wide_compact_size};
use super::error::WireError;
use super::limits::ADDRESS_BYTES_MAX;
use super::version::Services;

/// Bytes of one entry of `addr`.
pub(super) const ADDR_ENTRY_BYTES: usize = 30;
/// Fewest bytes of one entry of `addrv2`: time, services, network, length, port.
pub(super) const ADDRV2_ENTRY_BYTES_MIN: usize = 4 + 1 + 1 + 1 + 2;
/// How IPv6 writes IPv4.
const V4_IN_V6: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
/// How `addr` wrote the onion services of Tor's second version, which are gone.
const TORV2_IN_V6: [u8; 6] = [0xfd, 0x87, 0xd8, 0x7e, 0xeb, 0x43];

/// A machine, in one of the networks peers live in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// IPv4.
    V4([u8; 4]),
    /// IPv6.
    V6([u8; 16]),
    /// The public key of an onion service of Tor's third version.
    Onion([u8; 32]),
    /// The hash of an I2P destination.
    I2p([u8; 32]),
    /// CJDNS, an IPv6 address that begins with 0xfc.
    Cjdns([u8; 16]),
}

impl Host {
    /// The number of the network in BIP 155.
    pub fn network_id(&self) -> u8 {
        match self {
            Host::V4(_) => 1,
            Host::V6(_) => 2,
            Host::Onion(_) => 4,
            Host::I2p(_) => 5,
            Host::Cjdns(_) => 6,
        }
    }

    /// The bytes as BIP 155 writes them.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Host::V4(bytes) => bytes,
            Host::V6(bytes) | Host::Cjdns(bytes) => bytes,
            Host::Onion(bytes) | Host::I2p(bytes) => bytes,
        }
    }

    /// True for a host that `addr` can name.
    pub fn is_ip(&self) -> bool {
        matches!(self, Host::V4(_) | Host::V6(_))
    }

    /// The 16 bytes of `addr` and `version`; zeros where it cannot say the network.
    pub fn to_v6_bytes(&self) -> [u8; 16] {
        match self {
            Host::V4(v4) => {
                let mut bytes = [0; 16];
                bytes[..12].copy_from_slice(&V4_IN_V6);
                bytes[12..].copy_from_slice(v4);
                bytes
            }
            Host::V6(bytes) => *bytes,
            Host::Onion(_) | Host::I2p(_) | Host::Cjdns(_) => [0; 16],
        }
    }

    /// The host of 16 bytes: IPv4 where they begin with ::ffff:0:0/96.
    pub fn from_v6_bytes(bytes: [u8; 16]) -> Host {
        match bytes.strip_prefix(&V4_IN_V6) {
            Some(v4) => Host::V4(v4.try_into().expect("16 - 12 bytes")),
            None => Host::V6(bytes),
        }
    }

    /// The host that BIP 155 writes as `bytes` in `network`; `None` for an unknown network, or for IPv6 that hides another.
    pub fn from_network(network: u8, bytes: &[u8]) -> Result<Option<Host>, WireError> {
        let wrong = |_| WireError::AddressWrongLength { network, got: bytes.len() as u64 };
        Ok(Some(match network {
            1 => Host::V4(bytes.try_into().map_err(wrong)?),
            2 => Host::V6(bytes.try_into().map_err(wrong)?),
            4 => Host::Onion(bytes.try_into().map_err(wrong)?),
            5 => Host::I2p(bytes.try_into().map_err(wrong)?),
            6 => Host::Cjdns(bytes.try_into().map_err(wrong)?),
            _ => return Ok(None),
        })
        .filter(|host| !matches!(host, Host::V6(v6) if v6.starts_with(&V4_IN_V6) || v6.starts_with(&TORV2_IN_V6))))
    }
}

impl From<std::net::IpAddr> for Host {
    fn from(address: std::net::IpAddr) -> Host {
        match address {
            std::net::IpAddr::V4(v4) => Host::V4(v4.octets()),
            std::net::IpAddr::V6(v6) => Host::from_v6_bytes(v6.octets()),
        }
    }
}

/// A host and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The machine.
    pub host: Host,
    /// The port; 0 for I2P, which has none.
    pub port: u16,
}

impl Endpoint {
    /// What is written where there is nothing to say: `[::]:0`.
    pub const NONE: Endpoint = Endpoint { host: Host::V6([0; 16]), port: 0 };

    /// Reads 18 bytes.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Endpoint, WireError> {
        let host = Host::from_v6_bytes(reader.array()?);
        Ok(Endpoint { host, port: u16::from_be_bytes(reader.array()?) })
    }

    /// Writes 18 bytes.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.host.to_v6_bytes());
        out.extend_from_slice(&self.port.to_be_bytes());
    }
}

/// An address as one peer tells it to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerAddress {
    /// When somebody last saw it, in seconds since 1970.
    pub time_s: u32,
    /// What it is said to offer.
    pub services: Services,
    /// Where it is.
    pub endpoint: Endpoint,
}

impl PeerAddress {
    /// Reads an entry of `addr`.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<PeerAddress, WireError> {
        let (time_s, services) = (reader.u32()?, Services(reader.u64()?));
        Ok(PeerAddress { time_s, services, endpoint: Endpoint::decode(reader)? })
    }

    /// Writes an entry of `addr`.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.time_s.to_le_bytes());
        out.extend_from_slice(&self.services.0.to_le_bytes());
        self.endpoint.encode(out);
    }

    /// Reads an entry of `addrv2`; `None` where the host is of an unknown network or hides another one.
    pub(crate) fn decode_v2(reader: &mut Reader<'_>) -> Result<Option<PeerAddress>, WireError> {
        let (time_s, services) = (reader.u32()?, Services(wide_compact_size(reader)?));
        let network = reader.u8()?;
        let host = bytes(reader, ADDRESS_BYTES_MAX, |got| WireError::AddressTooLong { got })?;
        let host = Host::from_network(network, host)?;
        let port = u16::from_be_bytes(reader.array()?);
        Ok(host.map(|host| PeerAddress { time_s, services, endpoint: Endpoint { host, port } }))
    }

    /// Writes an entry of `addrv2`.
    pub(crate) fn encode_v2(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.time_s.to_le_bytes());
        put_compact_size(out, self.services.0);
        out.push(self.endpoint.host.network_id());
        put_bytes(out, self.endpoint.host.bytes());
        out.extend_from_slice(&self.endpoint.port.to_be_bytes());
    }
}
