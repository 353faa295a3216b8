//! Compact block filters on the wire.
//!
//! In:     bytes.
//! Out:    requests ([`FilterRange`]) and answers.
//! Fails:  [`WireError`]: more than 2,000 hashes in cfheaders, or more checkpoints than any chain has.
//! Source: BIP 157.

use primitives::BlockHash;
use stdx::bytes::Reader;

use super::encode::{bytes, hashes, put_bytes, put_hashes};
use super::error::WireError;
use super::limits::{FILTER_CHECKPOINTS_MAX, FILTER_HASHES_MAX, PAYLOAD_BYTES_MAX};

/// What getcfilters and getcfheaders ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterRange {
    /// Kind of filter; 0 is the basic one of BIP 158.
    pub filter_type: u8,
    /// First height.
    pub start_height: u32,
    /// Block at the last height.
    pub stop: BlockHash,
}

impl FilterRange {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<FilterRange, WireError> {
        let (filter_type, start_height) = (reader.u8()?, reader.u32()?);
        Ok(FilterRange { filter_type, start_height, stop: BlockHash(reader.array()?) })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.filter_type);
        out.extend_from_slice(&self.start_height.to_le_bytes());
        out.extend_from_slice(&self.stop.0);
    }
}

/// The filter of one block (cfilter).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Kind of filter.
    pub filter_type: u8,
    /// The block.
    pub block: BlockHash,
    /// The filter, with its count of elements in front.
    pub filter: Vec<u8>,
}

impl Filter {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Filter, WireError> {
        let (filter_type, block) = (reader.u8()?, BlockHash(reader.array()?));
        let filter = bytes(reader, PAYLOAD_BYTES_MAX, |got| WireError::PayloadTooLarge { got: got as usize })?;
        Ok(Filter { filter_type, block, filter: filter.to_vec() })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.filter_type);
        out.extend_from_slice(&self.block.0);
        put_bytes(out, &self.filter);
    }
}

/// Hashes of the filters of a range (cfheaders).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterHeaders {
    /// Kind of filter.
    pub filter_type: u8,
    /// Block at the last height.
    pub stop: BlockHash,
    /// Filter header before the first height.
    pub previous: [u8; 32],
    /// Hash of each filter.
    pub hashes: Vec<[u8; 32]>,
}

impl FilterHeaders {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<FilterHeaders, WireError> {
        let (filter_type, stop, previous) = (reader.u8()?, BlockHash(reader.array()?), reader.array()?);
        let hashes = hashes(reader, FILTER_HASHES_MAX, |got| WireError::TooManyFilterHashes { got })?;
        Ok(FilterHeaders { filter_type, stop, previous, hashes })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.filter_type);
        out.extend_from_slice(&self.stop.0);
        out.extend_from_slice(&self.previous);
        put_hashes(out, &self.hashes);
    }
}

/// Filter headers at every 1,000th height (cfcheckpt).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterCheckpoints {
    /// Kind of filter.
    pub filter_type: u8,
    /// Block the chain ends at.
    pub stop: BlockHash,
    /// Filter headers of heights 1000, 2000, ...
    pub headers: Vec<[u8; 32]>,
}

impl FilterCheckpoints {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<FilterCheckpoints, WireError> {
        let (filter_type, stop) = (reader.u8()?, BlockHash(reader.array()?));
        let headers = hashes(reader, FILTER_CHECKPOINTS_MAX, |got| WireError::TooManyFilterCheckpoints { got })?;
        Ok(FilterCheckpoints { filter_type, stop, headers })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.filter_type);
        out.extend_from_slice(&self.stop.0);
        put_hashes(out, &self.headers);
    }
}
