//! The entries of the columns, byte by byte. Numbers are little endian.
//!
//! `blocks`, by height:
//!
//! | bytes  | field           | meaning                             |
//! |--------|-----------------|-------------------------------------|
//! | 0..4   | `file`          | number of the block file            |
//! | 4..8   | `offset`        | of the block's first byte           |
//! | 8..12  | `size`          | bytes of the block                  |
//! | 12..16 | `first_tx_num`  | ordinal of its coinbase transaction |
//! | 16..21 | `first_txo_num` | ordinal of its first output         |
//!
//! `txs`, by TxNum:
//!
//! | bytes | field          | meaning                                      |
//! |-------|----------------|----------------------------------------------|
//! | 0..3  | `offset`       | of its first byte in the block               |
//! | 3..6  | `first_output` | outputs of the block's transactions before it |
//!
//! `found`, in the order learned:
//!
//! | bytes  | field    | meaning                                                            |
//! |--------|----------|--------------------------------------------------------------------|
//! | 0..80  | `header` | a header                                                           |
//! | 80..84 | `file`   | number of the block file; without a block, the kind of fact        |
//! | 84..88 | `offset` | of the block's first byte; without a block, 0                      |
//! | 88..92 | `size`   | bytes of the block; 0 says that no block was found, but a fact learned |
//!
//! `filters`, by height:
//!
//! | bytes  | field    | meaning                                                     |
//! |--------|----------|-------------------------------------------------------------|
//! | 0..32  | `hash`   | double SHA-256 of the block's filter                        |
//! | 32..64 | `header` | of the filter, which commits to those of all blocks below   |
//! | 64..70 | `end`    | bytes of all filters up to this one, where it ends in its file |
//!
//! Kinds of facts without a block: 0 the header is known, 1 its block was refused, 2 that was taken back.
//!
//! `headers`, by height, is the 80 bytes of the header.
//!
//! In:     entries, or their bytes.
//! Out:    their bytes, or entries.
//! Fails:  never; a number too large for its field is our own bug and panics.

use primitives::header::HEADER_BYTES;
use primitives::{TxNum, TxoNum};

use crate::blockfiles::{Found, Position};

/// Bytes of an entry of `blocks`.
pub const BLOCK_ENTRY_BYTES: usize = 21;
/// Bytes of an entry of `txs`.
pub const TX_ENTRY_BYTES: usize = 6;
/// Bytes of an entry of `found`.
pub const FOUND_ENTRY_BYTES: usize = 92;
/// Bytes of an entry of `filters`.
pub const FILTER_ENTRY_BYTES: usize = 70;

/// Where the block at a height lies, and its first ordinals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockEntry {
    /// Where its bytes are.
    pub position: Position,
    /// Ordinal of its coinbase transaction.
    pub first_tx_num: TxNum,
    /// Ordinal of its first output.
    pub first_txo_num: TxoNum,
}

/// Where a transaction lies in its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxEntry {
    /// Offset of its first byte in the block; below 2^24.
    pub offset: u32,
    /// Outputs of the block's transactions before it; below 2^24.
    pub first_output: u32,
}

/// What is known of a block's filter beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterEntry {
    /// Hash of the filter.
    pub hash: [u8; 32],
    /// Header of the filter.
    pub header: [u8; 32],
    /// Where it ends in the file of filters; below 2^48.
    pub end: u64,
}

/// What was learned about a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// Its block is in a file.
    Block(Found),
    /// It is known, its block is not.
    Header([u8; HEADER_BYTES]),
    /// Its block breaks a rule, or the operator refuses it.
    Refused([u8; HEADER_BYTES]),
    /// Refusals of it, of what it builds on and of what builds on it are taken back.
    Reconsidered([u8; HEADER_BYTES]),
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn position_at(bytes: &[u8], at: usize) -> Position {
    Position { file: u32_at(bytes, at), offset: u32_at(bytes, at + 4), size: u32_at(bytes, at + 8) }
}

fn put_position(bytes: &mut [u8], position: Position) {
    bytes[..4].copy_from_slice(&position.file.to_le_bytes());
    bytes[4..8].copy_from_slice(&position.offset.to_le_bytes());
    bytes[8..12].copy_from_slice(&position.size.to_le_bytes());
}

impl BlockEntry {
    /// Reads an entry.
    pub fn decode(bytes: &[u8; BLOCK_ENTRY_BYTES]) -> BlockEntry {
        let mut txo = [0; 8];
        txo[..5].copy_from_slice(&bytes[16..]);
        BlockEntry {
            position: position_at(bytes, 0),
            first_tx_num: u32_at(bytes, 12),
            first_txo_num: u64::from_le_bytes(txo),
        }
    }

    /// Writes an entry.
    pub fn encode(&self) -> [u8; BLOCK_ENTRY_BYTES] {
        assert!(self.first_txo_num < 1 << 40);
        let mut bytes = [0; BLOCK_ENTRY_BYTES];
        put_position(&mut bytes, self.position);
        bytes[12..16].copy_from_slice(&self.first_tx_num.to_le_bytes());
        bytes[16..].copy_from_slice(&self.first_txo_num.to_le_bytes()[..5]);
        bytes
    }
}

impl TxEntry {
    /// Reads an entry.
    pub fn decode(bytes: &[u8; TX_ENTRY_BYTES]) -> TxEntry {
        let [a, b, c, d, e, f] = *bytes;
        TxEntry { offset: u32::from_le_bytes([a, b, c, 0]), first_output: u32::from_le_bytes([d, e, f, 0]) }
    }

    /// Writes an entry.
    pub fn encode(&self) -> [u8; TX_ENTRY_BYTES] {
        assert!(self.offset < 1 << 24 && self.first_output < 1 << 24);
        let ([a, b, c, _], [d, e, f, _]) = (self.offset.to_le_bytes(), self.first_output.to_le_bytes());
        [a, b, c, d, e, f]
    }
}

impl FilterEntry {
    /// Reads an entry.
    pub fn decode(bytes: &[u8; FILTER_ENTRY_BYTES]) -> FilterEntry {
        let mut end = [0; 8];
        end[..6].copy_from_slice(&bytes[64..]);
        FilterEntry {
            hash: bytes[..32].try_into().expect("32 bytes"),
            header: bytes[32..64].try_into().expect("32 bytes"),
            end: u64::from_le_bytes(end),
        }
    }

    /// Writes an entry.
    pub fn encode(&self) -> [u8; FILTER_ENTRY_BYTES] {
        assert!(self.end < 1 << 48);
        let mut bytes = [0; FILTER_ENTRY_BYTES];
        bytes[..32].copy_from_slice(&self.hash);
        bytes[32..64].copy_from_slice(&self.header);
        bytes[64..].copy_from_slice(&self.end.to_le_bytes()[..6]);
        bytes
    }
}

/// Reads an entry of `found`; a kind that this version does not know is a known header.
pub fn decode_fact(bytes: &[u8; FOUND_ENTRY_BYTES]) -> Fact {
    let header = bytes[..80].try_into().expect("80 bytes");
    let position = position_at(bytes, 80);
    match (position.size, position.file) {
        (0, 1) => Fact::Refused(header),
        (0, 2) => Fact::Reconsidered(header),
        (0, _) => Fact::Header(header),
        _ => Fact::Block(Found { header, position }),
    }
}

/// Writes an entry of `found`.
pub fn encode_fact(fact: &Fact) -> [u8; FOUND_ENTRY_BYTES] {
    let (header, place) = match fact {
        Fact::Block(found) => (&found.header, found.position),
        Fact::Header(header) => (header, Position { file: 0, offset: 0, size: 0 }),
        Fact::Refused(header) => (header, Position { file: 1, offset: 0, size: 0 }),
        Fact::Reconsidered(header) => (header, Position { file: 2, offset: 0, size: 0 }),
    };
    let mut bytes = [0; FOUND_ENTRY_BYTES];
    bytes[..80].copy_from_slice(header);
    put_position(&mut bytes[80..], place);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_survive_both_ways_at_their_bounds() {
        for n in [0, 1, u32::MAX] {
            let position = Position { file: n, offset: n ^ 5, size: n ^ 9 };
            let block = BlockEntry { position, first_tx_num: n ^ 3, first_txo_num: u64::from(n) << 8 | 7 };
            assert_eq!(BlockEntry::decode(&block.encode()), block);
            let tx = TxEntry { offset: n >> 8, first_output: (n ^ 1 << 9) >> 8 };
            assert_eq!(TxEntry::decode(&tx.encode()), tx);
            let filter = FilterEntry { hash: [n as u8; 32], header: [!n as u8; 32], end: u64::from(n) << 16 | 3 };
            assert_eq!(FilterEntry::decode(&filter.encode()), filter);
            let header = [n as u8 ^ 4; 80];
            let block = Fact::Block(Found { header, position: Position { size: n | 80, ..position } });
            for fact in [block, Fact::Header(header), Fact::Refused(header), Fact::Reconsidered(header)] {
                assert_eq!(decode_fact(&encode_fact(&fact)), fact);
            }
        }
    }
}
