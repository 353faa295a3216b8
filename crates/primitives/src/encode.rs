//! Bitcoin's CompactSize numbers.
//!
//! In:     bytes, or a number.
//! Out:    a number, or bytes.
//! Fails:  [`ParseError`]; a number written longer than needed is refused as Core's `ReadCompactSize` does
//!         ("non-canonical ReadCompactSize()"), and so is one above 0x02000000 (Core's `MAX_SIZE`).

use std::fmt;

use stdx::bytes::{Reader, Short};

/// Largest count or length a message may announce; Core's `MAX_SIZE`.
pub const COMPACT_SIZE_MAX: u64 = 0x0200_0000;

/// Why bytes are not a block, transaction or header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// The bytes end inside a value.
    Short,
    /// A CompactSize uses more bytes than its value needs.
    NonCanonicalSize,
    /// A CompactSize above [`COMPACT_SIZE_MAX`].
    SizeTooLarge,
    /// The witness flags are others than 1 (Core: "Unknown transaction optional data").
    UnknownWitnessFlag,
    /// A transaction marked as carrying witnesses has none (Core: "Superfluous witness record").
    SuperfluousWitness,
    /// Bytes are left after the last value.
    TrailingBytes,
    /// More bytes than any block may have.
    TooLarge,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ParseError::Short => "the bytes end inside a value",
            ParseError::NonCanonicalSize => "a size is written with more bytes than it needs",
            ParseError::SizeTooLarge => "a size is above 0x02000000",
            ParseError::UnknownWitnessFlag => "a witness flag nobody knows",
            ParseError::SuperfluousWitness => "witnesses are announced and all of them are empty",
            ParseError::TrailingBytes => "bytes are left after the last value",
            ParseError::TooLarge => "more bytes than a block may have",
        })
    }
}

impl std::error::Error for ParseError {}

impl ParseError {
    /// What Bitcoin Core's log says of such bytes.
    pub fn core_words(self) -> &'static str {
        match self {
            ParseError::Short => "DataStream::read(): end of data: iostream error",
            ParseError::NonCanonicalSize => "non-canonical ReadCompactSize(): iostream error",
            ParseError::SizeTooLarge => "ReadCompactSize(): size too large: iostream error",
            ParseError::UnknownWitnessFlag => "Unknown transaction optional data: iostream error",
            ParseError::SuperfluousWitness => "Superfluous witness record: iostream error",
            ParseError::TrailingBytes => "bytes are left after the last value",
            ParseError::TooLarge => "more bytes than a block may have",
        }
    }
}

impl From<Short> for ParseError {
    fn from(_: Short) -> Self {
        ParseError::Short
    }
}

/// Reads a CompactSize.
#[inline]
pub fn compact_size(reader: &mut Reader<'_>) -> Result<u64, ParseError> {
    let (value, least) = match reader.u8()? {
        0xfd => (u64::from(reader.u16()?), 0xfd),
        0xfe => (u64::from(reader.u32()?), 0x1_0000),
        0xff => (reader.u64()?, 0x1_0000_0000),
        small => return Ok(u64::from(small)),
    };
    if value < least {
        return Err(ParseError::NonCanonicalSize);
    }
    if value > COMPACT_SIZE_MAX {
        return Err(ParseError::SizeTooLarge);
    }
    Ok(value)
}

/// Appends a CompactSize.
pub fn put_compact_size(out: &mut Vec<u8>, value: u64) {
    match value {
        0..=0xfc => out.push(value as u8),
        0xfd..=0xffff => {
            out.push(0xfd);
            out.extend_from_slice(&(value as u16).to_le_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(0xfe);
            out.extend_from_slice(&(value as u32).to_le_bytes());
        }
        _ => {
            out.push(0xff);
            out.extend_from_slice(&value.to_le_bytes());
        }
    }
}

/// Bytes that [`put_compact_size`] appends.
pub fn compact_size_length(value: u64) -> usize {
    match value {
        0..=0xfc => 1,
        0xfd..=0xffff => 3,
        0x1_0000..=0xffff_ffff => 5,
        _ => 9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_of_every_length() {
        for value in [0, 0xfc, 0xfd, 0xffff, 0x1_0000, COMPACT_SIZE_MAX] {
            let mut out = Vec::new();
            put_compact_size(&mut out, value);
            assert_eq!(out.len(), compact_size_length(value));
            assert_eq!(compact_size(&mut Reader::new(&out)), Ok(value));
        }
    }

    #[test]
    fn longer_than_needed_and_too_large_are_refused() {
        #[track_caller]
        fn check(bytes: &[u8], want: ParseError) {
            assert_eq!(compact_size(&mut Reader::new(bytes)), Err(want));
        }
        check(&[0xfd, 0xfc, 0], ParseError::NonCanonicalSize);
        check(&[0xfe, 0xff, 0xff, 0, 0], ParseError::NonCanonicalSize);
        check(&[0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0], ParseError::NonCanonicalSize);
        check(&[0xfe, 1, 0, 0, 2], ParseError::SizeTooLarge);
        check(&[0xff, 0, 0, 0, 0, 1, 0, 0, 0], ParseError::SizeTooLarge);
        check(&[0xfd, 0xff], ParseError::Short);
    }
}
