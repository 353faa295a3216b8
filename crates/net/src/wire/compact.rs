//! Compact blocks: a block as its header and six bytes of each transaction.
//!
//! In:     bytes of sendcmpct, cmpctblock, getblocktxn, blocktxn; or a block to announce.
//! Out:    the messages; the short identifier of a transaction.
//! Fails:  [`WireError`]: more than 65,535 transactions, positions that do not exist, transactions that do not parse.
//! Source: BIP 152, version 2 (identifiers over wtxids); Bitcoin Core, `src/blockencodings.h`.

use primitives::encode::{compact_size, put_compact_size};
use primitives::hash::sha256;
use primitives::transaction::length_of_first;
use primitives::{Block, BlockHash, Header, Wtxid};
use stdx::bytes::Reader;

use super::encode::count;
use super::error::WireError;
use super::limits::COMPACT_TXS_MAX;
use crate::siphash::siphash;

/// Bytes of a short identifier.
const SHORT_ID_BYTES: usize = 6;
/// Fewest bytes of a transaction: version, no inputs, no outputs, lock time.
const TX_BYTES_MIN: usize = 10;

/// A node's wish for compact blocks (sendcmpct).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendCompact {
    /// True for blocks at once as compact blocks ("high bandwidth"), false for an announcement first.
    pub announce: bool,
    /// Version of compact blocks; 2 is the one with witnesses.
    pub version: u64,
}

impl SendCompact {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<SendCompact, WireError> {
        let (announce, version) = (reader.u8()?, reader.u64()?);
        match announce {
            0 | 1 => Ok(SendCompact { announce: announce == 1, version }),
            got => Err(WireError::AnnounceNotBoolean { got }),
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.announce));
        out.extend_from_slice(&self.version.to_le_bytes());
    }
}

/// A transaction that a compact block carries whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefilledTx {
    /// Position in the block.
    pub index: u16,
    /// The transaction, with witnesses.
    pub tx: Vec<u8>,
}

/// A block by short identifiers (cmpctblock).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactBlock {
    /// The header.
    pub header: Header,
    /// What the sender salted the identifiers with.
    pub nonce: u64,
    /// Identifiers, 48 bits each, of transactions that are not prefilled, in order of the block.
    pub short_ids: Vec<u64>,
    /// Transactions the sender thinks we lack, by rising position; every position is one the block has.
    pub prefilled: Vec<PrefilledTx>,
}

impl CompactBlock {
    /// The compact form of a block: the coinbase whole, the others by identifier; panics for a block without transactions.
    pub fn of(block: &Block, nonce: u64) -> CompactBlock {
        let wtxids: Vec<Wtxid> = block.txs().map(|tx| tx.wtxid()).collect();
        CompactBlock::with_wtxids(block, &wtxids, nonce)
    }

    /// The same, with the wtxids of its transactions, that of the coinbase first.
    pub fn with_wtxids(block: &Block, wtxids: &[Wtxid], nonce: u64) -> CompactBlock {
        let keys = ShortIdKeys::of(block.header(), nonce);
        let short_ids = wtxids[1..].iter().map(|wtxid| keys.short_id(wtxid)).collect();
        let prefilled = vec![PrefilledTx { index: 0, tx: block.tx(0).raw().to_vec() }];
        CompactBlock { header: *block.header(), nonce, short_ids, prefilled }
    }

    /// Number of transactions of the block.
    pub fn tx_count(&self) -> usize {
        self.short_ids.len() + self.prefilled.len()
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<CompactBlock, WireError> {
        let (header, nonce) = (Header::decode(&reader.array()?), reader.u64()?);
        let too_many = |got| WireError::TooManyTransactions { got };
        let short_count = count(reader, COMPACT_TXS_MAX, SHORT_ID_BYTES, too_many)?;
        let mut short_ids = Vec::with_capacity(short_count);
        for _ in 0..short_count {
            let mut bytes = [0; 8];
            bytes[..SHORT_ID_BYTES].copy_from_slice(reader.take(SHORT_ID_BYTES)?);
            short_ids.push(u64::from_le_bytes(bytes));
        }
        let prefilled_count = count(reader, COMPACT_TXS_MAX - short_count, TX_BYTES_MIN + 1, |got| {
            WireError::TooManyTransactions { got: got + short_count as u64 }
        })?;
        let mut prefilled = Vec::with_capacity(prefilled_count);
        let mut next = 0u64;
        for position in 0..prefilled_count {
            let index = next + compact_size(reader)?;
            // A position is good while all between it and the one before can be filled with short identifiers.
            if index > (short_count + position) as u64 {
                return Err(WireError::PrefilledBeyondBlock { index });
            }
            prefilled.push(PrefilledTx { index: index as u16, tx: take_tx(reader)?.to_vec() });
            next = index + 1;
        }
        if short_count + prefilled_count == 0 {
            return Err(WireError::NoTransactions);
        }
        Ok(CompactBlock { header, nonce, short_ids, prefilled })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.header.encode());
        out.extend_from_slice(&self.nonce.to_le_bytes());
        put_compact_size(out, self.short_ids.len() as u64);
        for short_id in &self.short_ids {
            out.extend_from_slice(&short_id.to_le_bytes()[..SHORT_ID_BYTES]);
        }
        put_compact_size(out, self.prefilled.len() as u64);
        put_differences(out, self.prefilled.iter().map(|prefilled| prefilled.index), |out, position| {
            out.extend_from_slice(&self.prefilled[position].tx);
        });
    }
}

/// Takes the transaction that begins what is left.
fn take_tx<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], WireError> {
    let left = reader.clone().take(reader.left())?;
    Ok(reader.take(length_of_first(left)?)?)
}

/// Writes rising positions, each as its distance from the one before; `behind` writes what follows each.
fn put_differences(out: &mut Vec<u8>, indexes: impl Iterator<Item = u16>, behind: impl Fn(&mut Vec<u8>, usize)) {
    let mut next = 0;
    for (position, index) in indexes.map(u64::from).enumerate() {
        assert!(index >= next, "positions rise");
        put_compact_size(out, index - next);
        behind(out, position);
        next = index + 1;
    }
}

/// The key that turns wtxids into the short identifiers of one compact block.
#[derive(Clone, Copy, Debug)]
pub struct ShortIdKeys([u64; 2]);

impl ShortIdKeys {
    /// The first 16 bytes of SHA-256 over header and nonce.
    pub fn of(header: &Header, nonce: u64) -> ShortIdKeys {
        let mut bytes = header.encode().to_vec();
        bytes.extend_from_slice(&nonce.to_le_bytes());
        let hash = sha256(&bytes);
        let word = |at: usize| u64::from_le_bytes(hash[at..at + 8].try_into().expect("eight bytes"));
        ShortIdKeys([word(0), word(8)])
    }

    /// The low 48 bits of SipHash-2-4.
    #[inline]
    pub fn short_id(&self, wtxid: &Wtxid) -> u64 {
        siphash(self.0, &wtxid.0) & 0xffff_ffff_ffff
    }
}

/// Which transactions of a block are missing (getblocktxn).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockTxsRequest {
    /// The block.
    pub block: BlockHash,
    /// Positions, rising.
    pub indexes: Vec<u16>,
}

impl BlockTxsRequest {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<BlockTxsRequest, WireError> {
        let block = BlockHash(reader.array()?);
        let count = count(reader, COMPACT_TXS_MAX, 1, |got| WireError::TooManyTransactions { got })?;
        let mut indexes = Vec::with_capacity(count);
        let mut next = 0u64;
        for _ in 0..count {
            let index = next + compact_size(reader)?;
            indexes.push(u16::try_from(index).map_err(|_| WireError::IndexOverflow)?);
            next = index + 1;
        }
        Ok(BlockTxsRequest { block, indexes })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.block.0);
        put_compact_size(out, self.indexes.len() as u64);
        put_differences(out, self.indexes.iter().copied(), |_, _| ());
    }
}

/// The answer to [`BlockTxsRequest`] (blocktxn).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockTxs {
    /// The block.
    pub block: BlockHash,
    /// The transactions asked for, in that order.
    pub txs: TxList,
}

impl BlockTxs {
    /// Takes the payload as it came; it stays the transactions' one buffer.
    pub(super) fn decode(payload: Vec<u8>) -> Result<BlockTxs, WireError> {
        let mut reader = Reader::new(&payload);
        let block = BlockHash(reader.array()?);
        let count = count(&mut reader, COMPACT_TXS_MAX, TX_BYTES_MIN, |got| WireError::TooManyTransactions { got })?;
        let mut bounds = Vec::with_capacity(count + 1);
        bounds.push(reader.position() as u32);
        for _ in 0..count {
            take_tx(&mut reader)?;
            bounds.push(reader.position() as u32);
        }
        Ok(BlockTxs { block, txs: TxList { bytes: payload, bounds } })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.block.0);
        put_compact_size(out, self.txs.len() as u64);
        self.txs.iter().for_each(|tx| out.extend_from_slice(tx));
    }
}

/// Transactions in a row in one buffer, each known to parse.
#[derive(Clone)]
pub struct TxList {
    bytes: Vec<u8>,
    /// Where the first begins and each ends; never empty.
    bounds: Vec<u32>,
}

impl TxList {
    /// The list of serialized transactions, which the caller knows to parse.
    pub fn of<'a>(txs: impl IntoIterator<Item = &'a [u8]>) -> TxList {
        let mut list = TxList { bytes: Vec::new(), bounds: vec![0] };
        for tx in txs {
            list.bytes.extend_from_slice(tx);
            list.bounds.push(list.bytes.len() as u32);
        }
        list
    }

    /// Number of transactions.
    pub fn len(&self) -> usize {
        self.bounds.len() - 1
    }

    /// True without transactions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Each transaction's bytes.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.bounds.windows(2).map(|bounds| &self.bytes[bounds[0] as usize..bounds[1] as usize])
    }
}

impl PartialEq for TxList {
    fn eq(&self, other: &TxList) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for TxList {}

impl std::fmt::Debug for TxList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} transactions", self.len())
    }
}
