//! A block as offsets into its bytes.
//!
//! In:     the bytes of one block.
//! Out:    [`Block`]: the header, and a view of each transaction.
//! Fails:  [`ParseError`]; at most [`BLOCK_BYTES_MAX`] bytes are looked at. Rules are in `consensus::block`.

use std::sync::Arc;

use stdx::bytes::Reader;

use crate::encode::{ParseError, compact_size, put_compact_size};
use crate::header::{HEADER_BYTES, Header};
use crate::transaction::{Layout, Tx};

/// Largest serialized block, in bytes; follows from the BIP 141 weight limit.
pub const BLOCK_BYTES_MAX: usize = 4_000_000;
/// Most bytes of a block that is handed in by a caller: half of what Core's `MAX_BODY_SIZE` lets a request of JSON-RPC be.
pub const SUBMITTED_BYTES_MAX: usize = 16 << 20;

/// A parsed block; cloning it shares the bytes.
#[derive(Clone)]
pub struct Block {
    bytes: Arc<Vec<u8>>,
    header: Header,
    layout: Arc<Layout>,
}

impl Block {
    /// Parses exactly one block; bytes after it are an error.
    pub fn parse(bytes: impl Into<Vec<u8>>) -> Result<Block, ParseError> {
        let bytes = bytes.into();
        if bytes.len() > BLOCK_BYTES_MAX {
            return Err(ParseError::TooLarge);
        }
        let length = bytes.len();
        let block = Block::parse_first(bytes)?;
        if block.bytes.len() < length {
            return Err(ParseError::TrailingBytes);
        }
        Ok(block)
    }

    /// Parses the block that bytes begin with and drops what follows it, as Core does where a peer or a caller hands it a block.
    /// It may be larger than any good one, so that the rule it breaks can be named.
    pub fn parse_first(bytes: impl Into<Vec<u8>>) -> Result<Block, ParseError> {
        let mut bytes = bytes.into();
        if bytes.len() > SUBMITTED_BYTES_MAX {
            return Err(ParseError::TooLarge);
        }
        let mut reader = Reader::new(&bytes);
        let header = Header::decode(&reader.array::<HEADER_BYTES>()?);
        let mut layout = Layout::default();
        for _ in 0..compact_size(&mut reader)? {
            layout.push_tx(&mut reader)?;
        }
        let length = bytes.len() - reader.left();
        bytes.truncate(length);
        Ok(Block { bytes: Arc::new(bytes), header, layout: Arc::new(layout) })
    }

    /// All its bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The header.
    #[inline]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Number of transactions.
    #[inline]
    pub fn tx_count(&self) -> usize {
        self.layout.tx_count()
    }

    /// Number of inputs of all transactions, the coinbase's included.
    #[inline]
    pub fn input_count(&self) -> usize {
        self.layout.input_count()
    }

    /// Number of outputs of all transactions.
    #[inline]
    pub fn output_count(&self) -> usize {
        self.layout.output_count()
    }

    /// The transaction at `index`; panics beyond the last.
    #[inline]
    pub fn tx(&self, index: usize) -> Tx<'_> {
        self.layout.tx(&self.bytes, index)
    }

    /// Transactions in order.
    #[inline]
    pub fn txs(&self) -> impl ExactSizeIterator<Item = Tx<'_>> + Clone {
        (0..self.tx_count()).map(|index| self.tx(index))
    }

    /// Bytes without witnesses.
    pub fn stripped_length(&self) -> usize {
        let count = crate::encode::compact_size_length(self.tx_count() as u64);
        HEADER_BYTES + count + self.txs().map(|tx| tx.stripped_length()).sum::<usize>()
    }

    /// The block without witnesses, as peers from before BIP 144 want it.
    pub fn stripped_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.stripped_length());
        out.extend_from_slice(&self.bytes[..HEADER_BYTES]);
        put_compact_size(&mut out, self.tx_count() as u64);
        self.txs().for_each(|tx| tx.write_stripped(&mut out));
        out
    }

    /// BIP 141 weight.
    pub fn weight(&self) -> usize {
        3 * self.stripped_length() + self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Network, Params};

    #[test]
    fn cuts_and_tails_are_refused() {
        let bytes = Params::of(Network::Main).genesis_block();
        assert_eq!(bytes.len(), 285);
        for end in 0..bytes.len() {
            assert!(Block::parse(&bytes[..end]).is_err(), "{end}");
        }
        assert_eq!(Block::parse([&bytes[..], &[0]].concat()).err(), Some(ParseError::TrailingBytes));
        let first = Block::parse_first([&bytes[..], &[1, 2, 3]].concat()).unwrap();
        assert_eq!(first.bytes(), bytes, "what follows is dropped");
        assert!(Block::parse_first(&bytes[..284]).is_err());
        let block = Block::parse(bytes).unwrap();
        assert_eq!((block.tx_count(), block.input_count(), block.output_count(), block.weight()), (1, 1, 1, 1140));
        assert!(block.tx(0).is_coinbase());
    }

    #[test]
    fn a_block_may_be_handed_in_that_is_larger_than_any_good_one() {
        let genesis = Params::of(Network::Main).genesis_block();
        let filled = |length: usize| [&genesis[..], &vec![0; length - genesis.len()]].concat();
        assert_eq!(Block::parse(filled(BLOCK_BYTES_MAX)).err(), Some(ParseError::TrailingBytes));
        assert_eq!(Block::parse(filled(BLOCK_BYTES_MAX + 1)).err(), Some(ParseError::TooLarge));
        assert!(Block::parse_first(filled(SUBMITTED_BYTES_MAX)).is_ok());
        assert_eq!(Block::parse_first(filled(SUBMITTED_BYTES_MAX + 1)).err(), Some(ParseError::TooLarge));
    }
}
