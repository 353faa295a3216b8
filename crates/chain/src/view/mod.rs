//! The chain as readers see it: confirmed, fixed at one height, cheap to clone.
//!
//! In:     script hashes, txids, outpoints, heights.
//! Out:    what wallets ask for, in chain order.
//! Fails:  [`ViewError::Stale`] when a reorganisation cut what the view stands on: take a new view and ask again;
//!         [`ViewError::Store`] when the disk fails.
//!
//! Transactions are not stored twice: a lookup ends in the block file, where the transaction is read, hashed and
//! compared with what was asked for. Questions about scripts are in [`script`], about transactions in
//! [`transaction`], about blocks and headers in [`block`].

mod block;
mod filters;
mod memory;
mod merkle;
mod read;
mod script;
mod transaction;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use index::proof::HeaderMountain;
use index::tag::TagKey;
use primitives::{BlockHash, Network, OutPoint, Params, TxNum, Txid, TxoNum};
use store::blockfiles::{BlockFiles, BlockFilesError, Position};
use store::{BlockEntry, Snapshot, StoreError};

use memory::OrdinalMemory;
use merkle::MerkleMemory;

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

/// Roots of whole groups of headers, shared by the views of one branch.
type Mountain = Arc<Mutex<HeaderMountain>>;

/// The position written for a genesis block that no block file holds; its bytes come from the network's constants.
pub(crate) const GENESIS_POSITION: Position = Position { file: u32::MAX, offset: 0, size: 0 };

/// The best chain at one height.
pub struct View {
    snapshot: Arc<Snapshot>,
    files: Arc<BlockFiles>,
    params: Arc<Params>,
    tag_key: TagKey,
    mountain: Mountain,
    merkle_memory: Arc<MerkleMemory>,
    ordinal_memory: Arc<OrdinalMemory>,
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

impl View {
    /// The first view of a chain, whose readers share a memory of so many bytes.
    pub(crate) fn new(
        snapshot: Arc<Snapshot>,
        files: Arc<BlockFiles>,
        params: Arc<Params>,
        memory_bytes: usize,
    ) -> View {
        let tag_key = TagKey::new(snapshot.tag_key());
        let (mountain, merkle_memory) = (Mountain::default(), Arc::default());
        let ordinal_memory = Arc::new(OrdinalMemory::new(memory_bytes));
        View { snapshot, files, params, tag_key, mountain, merkle_memory, ordinal_memory }
    }

    /// The same chain at another commit: on top of this view's tip, or cut back to a block below it.
    pub(crate) fn moved(&self, snapshot: Arc<Snapshot>, files: Arc<BlockFiles>) -> View {
        let (params, tag_key, merkle_memory) = (self.params.clone(), self.tag_key, self.merkle_memory.clone());
        let height = snapshot.tip().map_or(0, |tip| tip.height);
        let (mut mountain, mut ordinal_memory) = (self.mountain.clone(), self.ordinal_memory.clone());
        if height < self.tip().height {
            // A mountain and a memory of its own: readers of the view before may still add what is no longer there.
            let mut kept = mountain.lock().unwrap_or_else(PoisonError::into_inner).clone();
            kept.cut(height as usize + 1);
            mountain = Arc::new(Mutex::new(kept));
            ordinal_memory = Arc::new(ordinal_memory.emptied());
        }
        View { snapshot, files, params, tag_key, mountain, merkle_memory, ordinal_memory }
    }

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

    /// False once a reorganisation has cut what it stands on.
    pub fn is_fresh(&self) -> bool {
        !matches!(self.header(self.tip().height), Err(ViewError::Stale))
    }

    /// The header at `height`; none above the tip.
    pub fn header(&self, height: u32) -> Result<Option<[u8; 80]>, ViewError> {
        Ok(self.snapshot.header(height)?)
    }

    /// Up to `count` headers from `start` on, as many as there are, 80 bytes each.
    pub fn headers(&self, start: u32, count: u32) -> Result<Vec<u8>, ViewError> {
        Ok(self.snapshot.headers(start, count)?)
    }

    /// The block files it reads from.
    pub(crate) fn files(&self) -> &BlockFiles {
        &self.files
    }

    fn block(&self, height: u32) -> Result<BlockEntry, ViewError> {
        self.snapshot.block_entry(height)?.ok_or(ViewError::BlockGone { height })
    }
}
