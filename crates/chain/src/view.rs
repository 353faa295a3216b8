//! The chain as readers see it: confirmed, fixed at one height, cheap to clone.
//!
//! In:     script hashes, txids, outpoints, heights.
//! Out:    what wallets ask for, in chain order.
//! Fails:  [`ViewError::Stale`] when a reorganisation cut what the view stands on: take a new view and ask again;
//!         [`ViewError::Store`] when the disk fails.
//!
//! Transactions are not stored twice: a lookup ends in the block file, where the transaction is read, hashed and
//! compared with what was asked for.

use std::fmt;
use std::sync::{Arc, Mutex};

use index::proof::HeaderMountain;
use index::rows::txid_prefix;
use index::status::Status;
use index::tag::TagKey;
use primitives::hash::{merkle_branch, sha256d};
use primitives::{Block, BlockHash, Network, OutPoint, Params, ScriptHash, Transaction, TxNum, Txid, TxoNum};
use store::blockfiles::{BlockFiles, BlockFilesError, Position};
use store::{BlockEntry, Snapshot, StoreError, Table};

/// Why a view cannot answer.
#[derive(Debug)]
pub enum ViewError {
    /// A reorganisation passed under the view.
    Stale,
    /// The disk failed, or its bytes are not what was written.
    Store(StoreError),
    /// The block files cannot be read.
    BlockFiles(BlockFilesError),
    /// A row names a transaction or output that the chain does not have.
    NoSuchOrdinal {
        /// What it names.
        ordinal: u64,
    },
    /// Block files no longer hold a block they held when it was connected.
    BlockGone {
        /// Height of the block.
        height: u32,
    },
}

impl fmt::Display for ViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ViewError::Stale => f.write_str("the chain was reorganised meanwhile; ask again"),
            ViewError::Store(error) => write!(f, "{error}"),
            ViewError::BlockFiles(error) => write!(f, "{error}"),
            ViewError::NoSuchOrdinal { ordinal } => {
                write!(f, "a row names ordinal {ordinal}, which the chain does not have; run `assay verify`")
            }
            ViewError::BlockGone { height } => write!(f, "the block files no longer hold block {height}"),
        }
    }
}

impl std::error::Error for ViewError {}

impl From<StoreError> for ViewError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Stale => ViewError::Stale,
            error => ViewError::Store(error),
        }
    }
}

impl From<BlockFilesError> for ViewError {
    fn from(error: BlockFilesError) -> Self {
        ViewError::BlockFiles(error)
    }
}

/// Roots of whole groups of headers, shared by the views of one chain; the writer cuts them at a reorganisation.
pub(crate) type Mountain = Arc<Mutex<HeaderMountain>>;

/// The position written for a genesis block that no block file holds; its bytes come from the network's constants.
pub(crate) const GENESIS_POSITION: Position = Position { file: u32::MAX, offset: 0, size: 0 };

/// The best chain at one height.
pub struct View {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) files: Arc<BlockFiles>,
    pub(crate) params: Arc<Params>,
    pub(crate) tag_key: TagKey,
    pub(crate) mountain: Mountain,
}

/// The last block of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tip {
    /// Its height.
    pub height: u32,
    /// Its hash.
    pub hash: BlockHash,
}

/// One transaction of a script's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// Its ordinal; ask from the next one on for the next page.
    pub tx_num: TxNum,
    /// Its block.
    pub height: u32,
    /// Its identifier.
    pub txid: Txid,
}

/// One unspent output of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnspentEntry {
    /// Its ordinal; ask from the next one on for the next page.
    pub txo_num: TxoNum,
    /// Its block.
    pub height: u32,
    /// Where it is.
    pub outpoint: OutPoint,
    /// Its amount.
    pub value_sat: u64,
}

/// A transaction and its place.
#[derive(Clone)]
pub struct TxAt {
    /// Its ordinal.
    pub tx_num: TxNum,
    /// Its block.
    pub height: u32,
    /// Its position in the block, from zero.
    pub position: u32,
    /// Its bytes, witnesses included.
    pub bytes: Vec<u8>,
    /// Its identifier.
    pub txid: Txid,
}

/// Who spends an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spender {
    /// The spending transaction.
    pub txid: Txid,
    /// The position of the input in it, from zero.
    pub input_index: u32,
    /// Its block.
    pub height: u32,
}

/// Where a transaction's bytes are.
#[derive(Clone, Copy)]
struct Place {
    height: u32,
    position: u32,
    offset: u32,
    length: u32,
    block: Position,
}

impl View {
    /// The last block.
    pub fn tip(&self) -> Tip {
        let tip = self.snapshot.tip().expect("a view is made after the genesis block is committed");
        Tip { height: tip.height, hash: tip.hash }
    }

    /// The network.
    pub fn network(&self) -> Network {
        self.params.network
    }

    /// The network's constants.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// What the view reads from.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Key of the script tags.
    pub fn tag_key(&self) -> TagKey {
        self.tag_key
    }

    /// The header at `height`; none above the tip.
    pub fn header(&self, height: u32) -> Result<Option<[u8; 80]>, ViewError> {
        Ok(self.snapshot.header(height)?)
    }

    /// Up to `count` headers from `start` on, as many as there are, 80 bytes each.
    pub fn headers(&self, start: u32, count: u32) -> Result<Vec<u8>, ViewError> {
        Ok(self.snapshot.headers(start, count)?)
    }

    fn block(&self, height: u32) -> Result<BlockEntry, ViewError> {
        self.snapshot.block_entry(height)?.ok_or(ViewError::BlockGone { height })
    }

    fn place_of(&self, tx_num: TxNum) -> Result<Place, ViewError> {
        let height = self.snapshot.height_of_tx(tx_num)?.ok_or(ViewError::NoSuchOrdinal { ordinal: tx_num.into() })?;
        let block = self.block(height)?;
        let end_tx = self.tx_end(height)?;
        let entries = self.snapshot.tx_entries(tx_num, if tx_num + 1 < end_tx { 2 } else { 1 })?;
        let offset = entries.first().ok_or(ViewError::BlockGone { height })?.offset;
        let size = match block.position {
            GENESIS_POSITION => self.params.genesis_block().len() as u32,
            position => position.size,
        };
        let end = entries.get(1).map_or(size, |next| next.offset);
        if end <= offset || end > size {
            return Err(ViewError::BlockGone { height });
        }
        let position = tx_num - block.first_tx_num;
        Ok(Place { height, position, offset, length: end - offset, block: block.position })
    }

    /// Ordinal after the last transaction of the block at `height`.
    fn tx_end(&self, height: u32) -> Result<TxNum, ViewError> {
        Ok(self.snapshot.txs_of_block(height)?.ok_or(ViewError::BlockGone { height })?.end)
    }

    fn read(&self, place: Place) -> Result<Vec<u8>, ViewError> {
        if place.block == GENESIS_POSITION {
            let genesis = self.params.genesis_block();
            return Ok(genesis[place.offset as usize..(place.offset + place.length) as usize].to_vec());
        }
        Ok(self.files.read_at(place.block, place.offset, place.length)?)
    }

    /// The transaction of an ordinal.
    pub fn tx_at(&self, tx_num: TxNum) -> Result<TxAt, ViewError> {
        let place = self.place_of(tx_num)?;
        let bytes = self.read(place)?;
        let parsed = Transaction::parse(&bytes[..]).map_err(|_| ViewError::BlockGone { height: place.height })?;
        let txid = parsed.tx().txid();
        Ok(TxAt { tx_num, height: place.height, position: place.position, bytes, txid })
    }

    /// The history of a script from the transaction `from` on, at most `limit` entries, in chain order.
    pub fn history(&self, script_hash: &ScriptHash, from: TxNum, limit: usize) -> Result<Vec<HistoryEntry>, ViewError> {
        let tag = self.tag_key.tag(script_hash);
        let mut entries = Vec::new();
        for row in self.snapshot.rows(Table::History, tag, u64::from(from))?.take(limit) {
            let tx = self.tx_at(row?.lo as TxNum)?;
            entries.push(HistoryEntry { tx_num: tx.tx_num, height: tx.height, txid: tx.txid });
        }
        Ok(entries)
    }

    /// The Electrum status of a script's confirmed history.
    pub fn status(&self, script_hash: &ScriptHash) -> Result<Option<[u8; 32]>, ViewError> {
        let tag = self.tag_key.tag(script_hash);
        let mut status = Status::default();
        for row in self.snapshot.rows(Table::History, tag, 0)? {
            let tx = self.tx_at(row?.lo as TxNum)?;
            status.push(&tx.txid, i64::from(tx.height));
        }
        Ok(status.finish())
    }

    /// Sum of a script's unspent outputs.
    pub fn balance_sat(&self, script_hash: &ScriptHash) -> Result<u64, ViewError> {
        let tag = self.tag_key.tag(script_hash);
        let mut sum = 0u64;
        for row in self.snapshot.rows(Table::Unspent, tag, 0)? {
            sum += row?.value;
        }
        Ok(sum)
    }

    /// Unspent outputs of a script from the output `from` on, at most `limit` entries, in chain order.
    pub fn unspent(
        &self,
        script_hash: &ScriptHash,
        from: TxoNum,
        limit: usize,
    ) -> Result<Vec<UnspentEntry>, ViewError> {
        let tag = self.tag_key.tag(script_hash);
        let mut entries = Vec::new();
        for row in self.snapshot.rows(Table::Unspent, tag, from)?.take(limit) {
            let row = row?;
            let no_such = ViewError::NoSuchOrdinal { ordinal: row.lo };
            let (_, tx_num, vout) = self.snapshot.place_of_txo(row.lo)?.ok_or(no_such)?;
            let tx = self.tx_at(tx_num)?;
            let outpoint = OutPoint { txid: tx.txid, vout };
            entries.push(UnspentEntry { txo_num: row.lo, height: tx.height, outpoint, value_sat: row.value });
        }
        Ok(entries)
    }

    /// The confirmed transaction of an identifier; of two with one identifier (BIP 30's exceptions) the later.
    pub fn transaction(&self, txid: &Txid) -> Result<Option<TxAt>, ViewError> {
        self.transaction_before(txid, TxNum::MAX)
    }

    /// The last transaction of an identifier with an ordinal below `end`.
    pub fn transaction_before(&self, txid: &Txid, end: TxNum) -> Result<Option<TxAt>, ViewError> {
        let mut found = None;
        for row in self.snapshot.rows(Table::Txid, txid_prefix(txid), 0)? {
            let tx_num = row?.lo as TxNum;
            if tx_num >= end {
                break;
            }
            let tx = self.tx_at(tx_num)?;
            if tx.txid == *txid {
                found = Some(tx);
            }
        }
        Ok(found)
    }

    /// Ordinal of an output of a transaction.
    pub fn txo_num(&self, tx: &TxAt, vout: u32) -> Result<TxoNum, ViewError> {
        let no_such = ViewError::NoSuchOrdinal { ordinal: tx.tx_num.into() };
        let first_in_block = self.snapshot.tx_entry(tx.tx_num)?.ok_or(no_such)?.first_output;
        Ok(self.block(tx.height)?.first_txo_num + u64::from(first_in_block) + u64::from(vout))
    }

    /// The confirmed transaction that spends an output.
    pub fn spender(&self, outpoint: &OutPoint) -> Result<Option<Spender>, ViewError> {
        let Some(funding) = self.transaction(&outpoint.txid)? else { return Ok(None) };
        let output_count = Transaction::parse(&funding.bytes[..]).map_or(0, |parsed| parsed.tx().output_count());
        if outpoint.vout as usize >= output_count {
            return Ok(None);
        }
        let txo_num = self.txo_num(&funding, outpoint.vout)?;
        let Some(row) = self.snapshot.rows(Table::Spender, txo_num, 0)?.next() else { return Ok(None) };
        let spending = self.tx_at(row?.value as TxNum)?;
        let parsed =
            Transaction::parse(&spending.bytes[..]).map_err(|_| ViewError::BlockGone { height: spending.height })?;
        let input = parsed.tx().inputs().position(|input| input.outpoint() == *outpoint);
        let spender = input.map(|input_index| Spender {
            txid: spending.txid,
            input_index: input_index as u32,
            height: spending.height,
        });
        Ok(spender)
    }

    /// Ordinal of the first transaction of the block at `height`.
    pub fn first_tx_num(&self, height: u32) -> Result<TxNum, ViewError> {
        Ok(self.block(height)?.first_tx_num)
    }

    /// A whole block's bytes; none above the tip.
    pub fn block_bytes(&self, height: u32) -> Result<Option<Vec<u8>>, ViewError> {
        if height > self.tip().height {
            return Ok(None);
        }
        let bytes = match self.block(height)?.position {
            GENESIS_POSITION => self.params.genesis_block(),
            position => self.files.read_block(position)?,
        };
        Ok(Some(bytes))
    }

    /// Identifiers of a block's transactions; none above the tip.
    pub fn txids(&self, height: u32) -> Result<Option<Vec<Txid>>, ViewError> {
        let Some(bytes) = self.block_bytes(height)? else { return Ok(None) };
        let block = Block::parse(bytes).map_err(|_| ViewError::BlockGone { height })?;
        Ok(Some(block.txs().map(|tx| tx.txid()).collect()))
    }

    /// The identifier at a position of a block; none where there is no such transaction.
    pub fn txid_at(&self, height: u32, position: u32) -> Result<Option<Txid>, ViewError> {
        if height > self.tip().height {
            return Ok(None);
        }
        let first = self.block(height)?.first_tx_num;
        if position >= self.tx_end(height)? - first {
            return Ok(None);
        }
        Ok(Some(self.tx_at(first + position)?.txid))
    }

    /// The merkle branch of a transaction by its place; none where there is no such transaction.
    pub fn merkle_branch(&self, height: u32, position: u32) -> Result<Option<Vec<[u8; 32]>>, ViewError> {
        let Some(txids) = self.txids(height)? else { return Ok(None) };
        let leaves: Vec<[u8; 32]> = txids.iter().map(|txid| txid.0).collect();
        let inside = (position as usize) < leaves.len();
        Ok(inside.then(|| merkle_branch(&leaves, position as usize)))
    }

    /// Branch and root of the header at `height` under the headers `0..=cp_height`; none unless
    /// `height <= cp_height <= tip`.
    pub fn header_proof(&self, height: u32, cp_height: u32) -> Result<Option<(Vec<[u8; 32]>, [u8; 32])>, ViewError> {
        if height > cp_height || cp_height > self.tip().height {
            return Ok(None);
        }
        let hashes = |start: usize, count: usize| -> Result<Vec<BlockHash>, ViewError> {
            let headers = self.headers(start as u32, count as u32)?;
            Ok(headers.chunks_exact(80).map(|header| BlockHash(sha256d(header))).collect())
        };
        // The writer cuts the mountain before it publishes a snapshot with other headers, and a snapshot that was cut
        // below answers `Stale`: what is added here is of the chain that the lock's holder sees.
        let known = {
            let mut mountain = self.mountain.lock().expect("no panic while held");
            mountain.extend(self.tip().height as usize + 1, hashes)?;
            mountain.clone()
        };
        Ok(Some(known.proof(height as usize, cp_height as usize, hashes)?))
    }
}
