//! The first message of a connection.
//!
//! | bytes          | field                                                                             |
//! |----------------|-----------------------------------------------------------------------------------|
//! | 0..4           | `protocol`                                                                        |
//! | 4..12          | `services`                                                                        |
//! | 12..20         | `time_s`                                                                          |
//! | 20..46         | services and endpoint of the receiver, as the sender sees it                      |
//! | 46..80         | services and endpoint of the sender, which nobody reads; `nonce`                  |
//! | 80..           | `user_agent` as a byte string, `start_height`, `relay` (BIP 37)                   |
//!
//! In:     bytes.
//! Out:    [`Version`]; parts that old versions leave away at the end have the values Core gives them.
//! Fails:  [`WireError`]: short, or a user agent above 256 bytes.
//! Source: Bitcoin Core, `PeerManagerImpl::ProcessMessage` (`NetMsgType::VERSION`) and `PushNodeVersion`.

use stdx::bytes::Reader;

use super::address::Endpoint;
use super::encode::{bytes, put_bytes};
use super::error::WireError;
use super::limits::USER_AGENT_BYTES_MAX;

/// What a node says it offers, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Services(pub u64);

impl Services {
    /// Nothing.
    pub const NONE: Services = Services(0);
    /// All blocks (`NODE_NETWORK`).
    pub const NETWORK: Services = Services(1);
    /// Bloom filters (BIP 111).
    pub const BLOOM: Services = Services(1 << 2);
    /// Witnesses (BIP 144).
    pub const WITNESS: Services = Services(1 << 3);
    /// Compact block filters (BIP 157).
    pub const COMPACT_FILTERS: Services = Services(1 << 6);
    /// The last 288 blocks (BIP 159).
    pub const NETWORK_LIMITED: Services = Services(1 << 10);
    /// The encrypted transport (BIP 324).
    pub const P2P_V2: Services = Services(1 << 11);

    /// True when every bit of `wanted` is set.
    pub fn has(self, wanted: Services) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// These, and not those of `other`.
    pub const fn without(self, other: Services) -> Services {
        Services(self.0 & !other.0)
    }

    /// Both together.
    pub const fn and(self, other: Services) -> Services {
        Services(self.0 | other.0)
    }
}

/// Who is there, and what it speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Highest protocol version it speaks.
    pub protocol: i32,
    /// What it offers.
    pub services: Services,
    /// Its clock, in seconds since 1970; below zero counts as zero.
    pub time_s: i64,
    /// The receiver's services, as the sender knows them.
    pub receiver_services: Services,
    /// The receiver's endpoint, as the sender sees it.
    pub receiver: Endpoint,
    /// A random number, by which a node recognises itself.
    pub nonce: u64,
    /// Name and version of its program, not to be shown as it is: see [`Version::user_agent_text`].
    pub user_agent: Vec<u8>,
    /// Height of its best block.
    pub start_height: i32,
    /// False where transactions are not wanted until asked for (BIP 37).
    pub relay: bool,
}

impl Version {
    /// Reads a version message.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Version, WireError> {
        let mut version = Version {
            protocol: reader.u32()? as i32,
            services: Services(reader.u64()?),
            time_s: (reader.u64()? as i64).max(0),
            receiver_services: Services(reader.u64()?),
            receiver: Endpoint::decode(reader)?,
            nonce: 1,
            user_agent: Vec::new(),
            start_height: -1,
            relay: true,
        };
        if reader.left() > 0 {
            reader.take(26)?;
            version.nonce = reader.u64()?;
        }
        if reader.left() > 0 {
            let agent = bytes(reader, USER_AGENT_BYTES_MAX, |got| WireError::UserAgentTooLong { got })?;
            version.user_agent = agent.to_vec();
        }
        if reader.left() > 0 {
            version.start_height = reader.u32()? as i32;
        }
        if reader.left() > 0 {
            version.relay = reader.u8()? != 0;
        }
        Ok(version)
    }

    /// Writes a version message; of the sender's endpoint it says nothing, as Core does.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.protocol.to_le_bytes());
        out.extend_from_slice(&self.services.0.to_le_bytes());
        out.extend_from_slice(&self.time_s.to_le_bytes());
        out.extend_from_slice(&self.receiver_services.0.to_le_bytes());
        self.receiver.encode(out);
        out.extend_from_slice(&self.services.0.to_le_bytes());
        Endpoint::NONE.encode(out);
        out.extend_from_slice(&self.nonce.to_le_bytes());
        put_bytes(out, &self.user_agent);
        out.extend_from_slice(&self.start_height.to_le_bytes());
        out.push(u8::from(self.relay));
    }

    /// The user agent without characters that could do harm where it is shown (Core: `SanitizeString`).
    pub fn user_agent_text(&self) -> String {
        let is_safe = |byte: &&u8| byte.is_ascii_alphanumeric() || b" .,;-_/:?@()".contains(*byte);
        self.user_agent.iter().filter(is_safe).map(|byte| char::from(*byte)).collect()
    }
}
