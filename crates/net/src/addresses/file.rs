//! The address book and the anchors as bytes.
//!
//! | bytes         | field                                                                            |
//! |---------------|----------------------------------------------------------------------------------|
//! | 0..4          | `AsAB` for the book, `AsAN` for anchors                                          |
//! | 4             | version of the format, 1                                                         |
//! | 5..9          | the network's magic                                                              |
//! | 9..25         | the book's secret; zeros for anchors                                             |
//! | 25..29        | count of entries, little endian                                                  |
//! | ...           | entries: an address as addrv2 writes it; for the book then the source (network, length, bytes), tried (1 byte), |
//! |               | last attempt, last success (8 bytes each), failures (4 bytes)                    |
//! | last 8        | checksum of all before                                                           |
//!
//! In:     a book; or bytes of a file.
//! Out:    bytes; or the book. Writing and syncing are the caller's.
//! Fails:  [`FileError`]; the caller starts with an empty book then, and says so.
//! Source: our own format.

use std::fmt;

use stdx::bytes::Reader;
use stdx::checksum::checksum;

use super::book::Book;
use super::buckets::{BUCKET_SIZE, BookKey, NEW_BUCKETS, TRIED_BUCKETS};
use super::entry::Entry;
use crate::hosts::Groups;
use crate::wire::{Host, PeerAddress, WireError};

const BOOK: [u8; 4] = *b"AsAB";
const ANCHORS: [u8; 4] = *b"AsAN";
const VERSION: u8 = 1;
/// Seed of the checksum.
const SEED: u64 = 0x6164_6472;
const HEAD_BYTES: usize = 4 + 1 + 4 + 16 + 4;
/// Most entries a book has.
const ENTRIES_MAX: usize = (NEW_BUCKETS + TRIED_BUCKETS) * BUCKET_SIZE;
/// Most anchors; Core's `MAX_BLOCK_RELAY_ONLY_ANCHORS`.
pub const ANCHORS_MAX: usize = 2;

/// Why a file is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileError {
    /// It is another kind of file.
    NotOurs,
    /// It was written by a newer program.
    NewerVersion {
        /// Version of its format.
        got: u8,
    },
    /// It is of another network.
    OtherNetwork,
    /// The checksum is wrong, or the file was cut.
    Damaged,
    /// The checksum is right and the content is not.
    Malformed(WireError),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::NotOurs => f.write_str("not a file of addresses"),
            FileError::NewerVersion { got } => write!(f, "written by a newer program (format {got})"),
            FileError::OtherNetwork => f.write_str("of another network"),
            FileError::Damaged => f.write_str("the checksum is wrong"),
            FileError::Malformed(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for FileError {}

impl<E: Into<WireError>> From<E> for FileError {
    fn from(error: E) -> Self {
        FileError::Malformed(error.into())
    }
}

fn head(kind: [u8; 4], magic: [u8; 4], secret: [u64; 2], count: usize) -> Vec<u8> {
    let mut bytes = kind.to_vec();
    bytes.push(VERSION);
    bytes.extend_from_slice(&magic);
    secret.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    bytes.extend_from_slice(&(count as u32).to_le_bytes());
    bytes
}

fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = checksum(SEED, &bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

/// Checks all but the entries; gives secret, count and the entries' bytes.
fn open(bytes: &[u8], kind: [u8; 4], magic: [u8; 4]) -> Result<([u64; 2], usize, Reader<'_>), FileError> {
    if !bytes.starts_with(&kind) {
        return Err(FileError::NotOurs);
    }
    match bytes.get(4) {
        Some(&VERSION) => {}
        Some(&got) if got > VERSION => return Err(FileError::NewerVersion { got }),
        _ => return Err(FileError::Damaged),
    }
    if bytes.len() < HEAD_BYTES + 8 {
        return Err(FileError::Damaged);
    }
    let (body, sum) = bytes.split_at(bytes.len() - 8);
    if checksum(SEED, body).to_le_bytes() != sum {
        return Err(FileError::Damaged);
    }
    let mut reader = Reader::new(body);
    reader.take(5)?;
    if reader.array::<4>()? != magic {
        return Err(FileError::OtherNetwork);
    }
    let secret = [reader.u64()?, reader.u64()?];
    let count = reader.u32()? as usize;
    Ok((secret, count, reader))
}

impl Book {
    /// The book as bytes of a file.
    pub fn encode(&self, magic: [u8; 4]) -> Vec<u8> {
        let mut bytes = head(BOOK, magic, self.key.secret, self.len());
        for entry in self.entries() {
            let time_s = u32::try_from(entry.seen_s).unwrap_or(u32::MAX);
            PeerAddress { time_s, services: entry.services, endpoint: entry.endpoint }.encode_v2(&mut bytes);
            bytes.push(entry.source.network_id());
            bytes.push(entry.source.bytes().len() as u8);
            bytes.extend_from_slice(entry.source.bytes());
            bytes.push(u8::from(entry.is_tried));
            bytes.extend_from_slice(&entry.last_try_s.to_le_bytes());
            bytes.extend_from_slice(&entry.last_success_s.to_le_bytes());
            bytes.extend_from_slice(&entry.attempts.to_le_bytes());
        }
        seal(bytes)
    }

    /// The book of a file, whose entries get the places that `groups` give them.
    pub fn decode(bytes: &[u8], magic: [u8; 4], groups: Groups, now_s: u64) -> Result<Book, FileError> {
        let (secret, count, mut reader) = open(bytes, BOOK, magic)?;
        let mut book = Book::with_key(BookKey { secret, groups });
        for _ in 0..count.min(ENTRIES_MAX) {
            let address = PeerAddress::decode_v2(&mut reader)?;
            let (network, length) = (reader.u8()?, reader.u8()?);
            let source = Host::from_network(network, reader.take(usize::from(length))?)?;
            let (is_tried, last_try_s) = (reader.u8()? != 0, reader.u64()?);
            let (last_success_s, attempts) = (reader.u64()?, reader.u32()?);
            if let (Some(address), Some(source)) = (address, source) {
                book.restore(Entry::of_file(address, source, is_tried, last_try_s, last_success_s, attempts), now_s);
            }
        }
        Ok(book)
    }
}

/// The peers to connect to first after a restart, as bytes of a file.
pub fn encode_anchors(anchors: &[PeerAddress], magic: [u8; 4]) -> Vec<u8> {
    let anchors = &anchors[..anchors.len().min(ANCHORS_MAX)];
    let mut bytes = head(ANCHORS, magic, [0, 0], anchors.len());
    anchors.iter().for_each(|anchor| anchor.encode_v2(&mut bytes));
    seal(bytes)
}

/// The anchors of a file.
pub fn decode_anchors(bytes: &[u8], magic: [u8; 4]) -> Result<Vec<PeerAddress>, FileError> {
    let (_, count, mut reader) = open(bytes, ANCHORS, magic)?;
    let mut anchors = Vec::new();
    for _ in 0..count.min(ANCHORS_MAX) {
        anchors.extend(PeerAddress::decode_v2(&mut reader)?);
    }
    Ok(anchors)
}
