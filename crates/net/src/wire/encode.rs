//! Lists, hashes and sizes as messages write them.
//!
//! In:     a reader, a limit and the bytes one entry has at least; or values to write.
//! Out:    a list that was never larger than both; or bytes.
//! Fails:  with the limit's own error before anything is allocated, else at the first missing byte.

use primitives::encode::{ParseError, compact_size, put_compact_size};
use stdx::bytes::Reader;

use super::error::WireError;

/// A count within `limit` that the bytes left can hold.
///
/// So a count alone reserves no more memory than came over the line: 9 bytes that announce 50,000 entries reserve nothing.
pub fn count(
    reader: &mut Reader<'_>,
    limit: usize,
    entry_bytes: usize,
    too_many: impl FnOnce(u64) -> WireError,
) -> Result<usize, WireError> {
    let count = compact_size(reader)?;
    if count > limit as u64 {
        return Err(too_many(count));
    }
    let count = count as usize;
    if count * entry_bytes > reader.left() {
        return Err(WireError::Format(ParseError::Short));
    }
    Ok(count)
}

/// A list of 32-byte hashes.
pub fn hashes(
    reader: &mut Reader<'_>,
    limit: usize,
    too_many: impl FnOnce(u64) -> WireError,
) -> Result<Vec<[u8; 32]>, WireError> {
    let count = count(reader, limit, 32, too_many)?;
    Ok((0..count).map(|_| reader.array()).collect::<Result<_, _>>()?)
}

/// A byte string of at most `limit` bytes.
pub fn bytes<'a>(
    reader: &mut Reader<'a>,
    limit: usize,
    too_long: impl FnOnce(u64) -> WireError,
) -> Result<&'a [u8], WireError> {
    let length = count(reader, limit, 1, too_long)?;
    Ok(reader.take(length)?)
}

/// Writes a list of hashes.
pub fn put_hashes(out: &mut Vec<u8>, hashes: &[[u8; 32]]) {
    put_compact_size(out, hashes.len() as u64);
    hashes.iter().for_each(|hash| out.extend_from_slice(hash));
}

/// Writes a byte string.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_compact_size(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A CompactSize that is a value of 64 bits, not a length: services in addrv2 (BIP 155).
pub fn wide_compact_size(reader: &mut Reader<'_>) -> Result<u64, ParseError> {
    let (value, least) = match reader.u8()? {
        0xfd => (u64::from(reader.u16()?), 0xfd),
        0xfe => (u64::from(reader.u32()?), 0x1_0000),
        0xff => (reader.u64()?, 0x1_0000_0000),
        small => return Ok(u64::from(small)),
    };
    if value < least {
        return Err(ParseError::NonCanonicalSize);
    }
    Ok(value)
}
