//! Asking for headers and blocks, and the answers.
//!
//! In:     bytes.
//! Out:    [`LocatorRequest`] of getheaders and getblocks, lists of headers, [`BlockBytes`].
//! Fails:  [`WireError`]: a locator above 101 hashes, more than 2,000 headers, a block without a whole header.
//! Source: Bitcoin Core, `NetMsgType::GETHEADERS`, `NetMsgType::HEADERS`.

use primitives::encode::{ParseError, compact_size, put_compact_size};
use primitives::header::HEADER_BYTES;
use primitives::{Block, BlockHash, Header};
use stdx::bytes::Reader;

use super::encode::{count, hashes};
use super::error::WireError;
use super::limits::{HEADERS_MAX, LOCATOR_MAX};

/// What getheaders and getblocks ask: what follows the first hash we share, up to `stop`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatorRequest {
    /// The sender's protocol version; nobody reads it.
    pub protocol: u32,
    /// Blocks the sender has, newest first, ever sparser.
    pub locator: Vec<BlockHash>,
    /// Where to end; zeros for as many as fit.
    pub stop: BlockHash,
}

impl LocatorRequest {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<LocatorRequest, WireError> {
        let protocol = reader.u32()?;
        let locator = hashes(reader, LOCATOR_MAX, |got| WireError::LocatorTooLong { got })?;
        let locator = locator.into_iter().map(BlockHash).collect();
        Ok(LocatorRequest { protocol, locator, stop: BlockHash(reader.array()?) })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.protocol.to_le_bytes());
        put_compact_size(out, self.locator.len() as u64);
        self.locator.iter().for_each(|hash| out.extend_from_slice(&hash.0));
        out.extend_from_slice(&self.stop.0);
    }
}

/// Reads headers, each with a count of transactions that is not looked at.
pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Vec<Header>, WireError> {
    let count = count(reader, HEADERS_MAX, HEADER_BYTES + 1, |got| WireError::TooManyHeaders { got })?;
    let mut headers = Vec::with_capacity(count);
    for _ in 0..count {
        headers.push(Header::decode(&reader.array()?));
        compact_size(reader)?;
    }
    Ok(headers)
}

/// Writes headers.
pub(super) fn encode(headers: &[Header], out: &mut Vec<u8>) {
    put_compact_size(out, headers.len() as u64);
    for header in headers {
        out.extend_from_slice(&header.encode());
        out.push(0);
    }
}

/// The bytes of one block as they came, not yet parsed; only the header is known to be there.
///
/// The payload of the message becomes the block's one buffer: nothing is copied on the way to `Block::parse`.
#[derive(Clone, PartialEq, Eq)]
pub struct BlockBytes(Vec<u8>);

impl BlockBytes {
    /// Takes the bytes of a block.
    pub fn new(bytes: Vec<u8>) -> Result<BlockBytes, ParseError> {
        if bytes.len() <= HEADER_BYTES {
            return Err(ParseError::Short);
        }
        Ok(BlockBytes(bytes))
    }

    /// The header.
    pub fn header(&self) -> Header {
        Header::decode(self.0[..HEADER_BYTES].try_into().expect("checked when made"))
    }

    /// The block's hash.
    pub fn hash(&self) -> BlockHash {
        self.header().hash()
    }

    /// All of them.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// All of them, without a copy.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// The block; to be done where a thread has time for it.
    pub fn parse(self) -> Result<Block, ParseError> {
        Block::parse(self.0)
    }
}

impl std::fmt::Debug for BlockBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} bytes)", self.hash(), self.0.len())
    }
}
