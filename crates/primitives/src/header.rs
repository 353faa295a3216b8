//! The 80-byte block header.
//!
//! | bytes  | field         | meaning                               |
//! |--------|---------------|---------------------------------------|
//! | 0..4   | `version`     | little endian, signed                 |
//! | 4..36  | `previous`    | hash of the header before             |
//! | 36..68 | `merkle_root` | over the block's txids                |
//! | 68..72 | `time_s`      | seconds since 1970, unsigned          |
//! | 72..76 | `bits`        | target, compact form                  |
//! | 76..80 | `nonce`       |                                       |
//!
//! In:     80 bytes.
//! Out:    the fields, and the hash.
//! Fails:  never; rules about headers are in `consensus::header`.

use crate::hash::{BlockHash, sha256d};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 80;

/// A block header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Block version.
    pub version: i32,
    /// Hash of the header before.
    pub previous: BlockHash,
    /// Root over the block's txids.
    pub merkle_root: [u8; 32],
    /// Seconds since 1970.
    pub time_s: u32,
    /// Target in compact form.
    pub bits: u32,
    /// What the miner turned.
    pub nonce: u32,
}

impl Header {
    /// Reads a header.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Header {
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let hash_at = |at: usize| bytes[at..at + 32].try_into().expect("32 bytes");
        Header {
            version: u32_at(0) as i32,
            previous: BlockHash(hash_at(4)),
            merkle_root: hash_at(36),
            time_s: u32_at(68),
            bits: u32_at(72),
            nonce: u32_at(76),
        }
    }

    /// Writes a header.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&self.version.to_le_bytes());
        bytes[4..36].copy_from_slice(&self.previous.0);
        bytes[36..68].copy_from_slice(&self.merkle_root);
        bytes[68..72].copy_from_slice(&self.time_s.to_le_bytes());
        bytes[72..76].copy_from_slice(&self.bits.to_le_bytes());
        bytes[76..80].copy_from_slice(&self.nonce.to_le_bytes());
        bytes
    }

    /// The block's hash.
    pub fn hash(&self) -> BlockHash {
        BlockHash(sha256d(&self.encode()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Network, Params};

    #[test]
    fn every_network_begins_with_its_genesis_header() {
        for network in Network::ALL {
            let params = Params::of(network);
            let header = params.genesis;
            assert_eq!(Header::decode(&header.encode()), header);
            assert_eq!(header.hash(), params.genesis_hash, "{network}");
        }
    }
}
