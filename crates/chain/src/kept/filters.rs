//! Block filters: built with each block, and in quiet moments for blocks from before they were switched on.
//!
//! In:     blocks that joined the chain, with what they spend; block files and index for those that joined earlier.
//! Out:    one filter for each block, from height 0 up, in the same commits as coins and index.
//! Fails:  [`ChainError`] where they cannot be written. Where those of old blocks cannot be built, the status says why, and
//!         the node goes on without them.
//! Source: BIP 157, BIP 158; docs/formats.md, "filters entry".

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use index::filter;
use primitives::hash::sha256d;
use primitives::{Block, BlockHash, Transaction, TxNum, Txid};
use store::FilterEntry;

use crate::error::ChainError;
use crate::handle::Handle;
use crate::view::{View, ViewError};
use crate::writer::Chain;

/// Bytes of old blocks whose filters are built between two looks for new blocks: some 10,000 lookups.
const STEP_BYTES: u64 = 2_000_000;
/// Blocks of one such step; early blocks have 200 bytes each.
const STEP_BLOCKS_MAX: u32 = 1_000;
/// Filters of old blocks between two commits.
const FILTERS_PER_COMMIT: u64 = 20_000;

/// Filters of blocks that left the chain, which peers may still ask for: a day and a half of blocks at most.
const LEFT_BLOCKS_MAX: usize = 288;
/// Their bytes at most.
const LEFT_BYTES_MAX: usize = 8_000_000;

/// A block's filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockFilter {
    /// Its hash and header.
    pub head: FilterHead,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// What is told of a filter without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterHead {
    /// The block.
    pub block: BlockHash,
    /// Hash of the filter.
    pub hash: [u8; 32],
    /// Header of the filter.
    pub header: [u8; 32],
}

impl FilterHead {
    fn of(block: BlockHash, entry: &FilterEntry) -> FilterHead {
        FilterHead { block, hash: entry.hash, header: entry.header }
    }
}

/// Filters of blocks that left the chain, the last ones.
#[derive(Default)]
pub(crate) struct LeftFilters {
    filters: VecDeque<BlockFilter>,
    bytes: usize,
}

impl LeftFilters {
    fn keep(&mut self, filter: BlockFilter) {
        self.filters.retain(|other| other.head.block != filter.head.block);
        self.filters.push_back(filter);
        self.bytes = self.filters.iter().map(|filter| filter.bytes.len()).sum();
        while self.filters.len() > LEFT_BLOCKS_MAX || self.bytes > LEFT_BYTES_MAX {
            self.bytes -= self.filters.pop_front().map_or(0, |filter| filter.bytes.len());
        }
    }

    fn find(&self, block: &BlockHash) -> Option<&BlockFilter> {
        self.filters.iter().find(|filter| filter.head.block == *block)
    }
}

impl Handle {
    /// True where block filters are built.
    pub fn has_filters(&self) -> bool {
        self.0.block_filters
    }

    /// The filter of a block of the best chain, or of one that left it lately; none where it is not built.
    pub fn block_filter(&self, block: &BlockHash) -> Result<Option<BlockFilter>, ViewError> {
        let view = self.view();
        let Some(info) = self.header(block) else { return Ok(None) };
        if is_in(&view, block, info.height)? {
            let filter = view.filter(info.height)?;
            return Ok(filter.map(|(entry, bytes)| BlockFilter { head: FilterHead::of(*block, &entry), bytes }));
        }
        Ok(self.left_filters().find(block).cloned())
    }

    /// Hash and header of a block's filter.
    pub fn filter_head(&self, block: &BlockHash) -> Result<Option<FilterHead>, ViewError> {
        let view = self.view();
        let Some(info) = self.header(block) else { return Ok(None) };
        if is_in(&view, block, info.height)? {
            return Ok(view.filter_entry(info.height)?.map(|entry| FilterHead::of(*block, &entry)));
        }
        Ok(self.left_filters().find(block).map(|filter| filter.head))
    }

    /// Hashes and headers of the filters from height `first` up to the block `stop`, on its branch; none where one of them
    /// is not built. The caller has limited their number.
    pub fn filter_heads(&self, first: u32, stop: &BlockHash) -> Result<Option<Vec<FilterHead>>, ViewError> {
        let view = self.view();
        let Some(last) = self.header(stop).map(|info| info.height).filter(|last| first <= *last) else {
            return Ok(None);
        };
        if !is_in(&view, stop, last)? {
            let mut heads = Vec::new();
            for height in first..=last {
                let Some(info) = self.ancestor(stop, height) else { return Ok(None) };
                let Some(head) = self.filter_head(&info.hash)? else { return Ok(None) };
                heads.push(head);
            }
            return Ok(Some(heads));
        }
        let count = last - first + 1;
        let (entries, headers) = (view.filter_entries(first, count)?, view.headers(first, count)?);
        let blocks = headers.chunks_exact(80).map(|header| BlockHash(sha256d(header)));
        let heads: Vec<FilterHead> = blocks.zip(&entries).map(|(block, entry)| FilterHead::of(block, entry)).collect();
        Ok((heads.len() == count as usize).then_some(heads))
    }

    /// Headers of the filters at each `interval`-th height up to the block `stop`, on its branch; none where one of them is
    /// not built.
    pub fn filter_checkpoints(&self, stop: &BlockHash, interval: u32) -> Result<Option<Vec<[u8; 32]>>, ViewError> {
        let view = self.view();
        let Some(last) = self.header(stop).map(|info| info.height) else { return Ok(None) };
        let active = is_in(&view, stop, last)?;
        let mut headers = Vec::new();
        for height in (interval..=last).step_by(interval as usize) {
            let header = match active {
                true => view.filter_entry(height)?.map(|entry| entry.header),
                false => {
                    let block = self.ancestor(stop, height).map(|info| info.hash);
                    block.map(|block| self.filter_head(&block)).transpose()?.flatten().map(|head| head.header)
                }
            };
            let Some(header) = header else { return Ok(None) };
            headers.push(header);
        }
        Ok(Some(headers))
    }

    fn left_filters(&self) -> std::sync::MutexGuard<'_, LeftFilters> {
        self.0.left_filters.lock().expect("no panic while held")
    }
}

fn is_in(view: &View, block: &BlockHash, height: u32) -> Result<bool, ViewError> {
    Ok(view.header(height)?.is_some_and(|header| sha256d(&header) == block.0))
}

/// How far block filters are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterStatus {
    /// They are built.
    pub on: bool,
    /// Filters committed: those of the heights below this.
    pub count: u32,
    /// Their bytes on the disk.
    pub bytes: u64,
    /// Why those of old blocks are not built.
    pub problem: Option<String>,
}

impl Chain {
    /// Readies the filters of a chain that has just been opened: a new one begins with that of its first block.
    pub(crate) fn start_filters(&mut self) -> Result<(), ChainError> {
        if self.store.block_count() == 1 {
            self.fill_filters()?;
        }
        self.note_filters();
        let (count, bytes) = (self.store.filter_count(), self.store.snapshot().filters_file_bytes()?);
        if count > 0 && !self.options.block_filters {
            let note = format!(
                "block filters of {count} blocks ({bytes} bytes) stay in the data directory; while `block_filters` is \
                 off none are added or served, and `assay reindex` removes them"
            );
            self.shared.update(|status| status.notes.push(note));
        }
        self.report_filters()
    }

    /// Keeps the filter of a block that has just been pushed; one that does not follow on the last is made later.
    pub(crate) fn keep_filter(&mut self, height: u32, built: Option<Vec<u8>>) -> Result<(), ChainError> {
        match built {
            Some(filter) if self.store.filter_count() == height => self.push_filter(&filter),
            _ => Ok(()),
        }
    }

    /// Remembers the filter of the tip, which is about to leave the chain that `view` shows.
    pub(crate) fn remember_filter(&self, view: &View, height: u32, block: BlockHash) -> Result<(), ChainError> {
        if self.options.block_filters
            && let Some((entry, bytes)) = view.filter(height)?
        {
            let head = FilterHead::of(block, &entry);
            self.handle().left_filters().keep(BlockFilter { head, bytes });
        }
        Ok(())
    }

    fn push_filter(&mut self, bytes: &[u8]) -> Result<(), ChainError> {
        let hash = filter::hash(bytes);
        let header = filter::header(&hash, &self.store.last_filter_header()?);
        Ok(self.store.push_filter(bytes, hash, header)?)
    }

    /// Builds some of the filters that are missing below the committed tip. False: none is, or none can be built.
    pub(crate) fn fill_filters(&mut self) -> Result<bool, ChainError> {
        let view = self.handle().view();
        let (first, end) = (self.store.filter_count(), view.tip().height + 1);
        let wanted = self.options.block_filters && first < end && self.filter_problem.is_none();
        if !wanted || self.stopping() {
            return Ok(false);
        }
        let mut tickets = Vec::new();
        let mut bytes = 0;
        for height in first..end.min(first + STEP_BLOCKS_MAX) {
            let view = view.clone();
            bytes += u64::from(view.snapshot().block_entry(height)?.map_or(0, |entry| entry.position.size));
            tickets.push(self.world.pool.submit(move || filter_of(&view, height)));
            if bytes >= STEP_BYTES {
                break;
            }
        }
        for (height, built) in (first..).zip(tickets) {
            match built.wait() {
                Ok(filter) if self.filter_problem.is_none() => self.push_filter(&filter)?,
                Ok(_) => {}
                Err(error) => {
                    self.filter_problem.get_or_insert(format!(
                        "no block filters from block {height} on: {error}; `assay reindex` builds all of them"
                    ));
                }
            }
        }
        self.note_filters();
        self.report_filters()?;
        Ok(true)
    }

    /// True where a commit is due for filters alone.
    pub(crate) fn filters_are_due(&self) -> bool {
        let waiting = self.store.filters_uncommitted();
        let all = self.store.filter_count() == self.store.block_count();
        waiting > 0 && (all || waiting >= FILTERS_PER_COMMIT || self.stopping() || self.commit_is_due())
    }

    /// Blocks that join build their filters on the way once no filter below is missing.
    fn note_filters(&self) {
        let follow = self.options.block_filters && self.store.filter_count() == self.store.block_count();
        self.judges.builds_filters.store(follow, Ordering::Relaxed);
    }

    /// Tells how far the filters are.
    pub(crate) fn report_filters(&self) -> Result<(), ChainError> {
        let (on, snapshot) = (self.options.block_filters, self.store.snapshot());
        let (count, bytes) = (snapshot.filter_count(), snapshot.filters_file_bytes()?);
        let filters = FilterStatus { on, count, bytes, problem: self.filter_problem.clone() };
        self.shared.update(|status| status.filters = filters);
        Ok(())
    }
}

/// The filter of a connected block, with what it spends looked up through the index.
fn filter_of(view: &Arc<View>, height: u32) -> Result<Vec<u8>, ViewError> {
    let gone = || ViewError::BlockGone { height };
    let bytes = view.block_bytes(height)?.ok_or_else(gone)?;
    let block = Block::parse(bytes).map_err(|_| gone())?;
    let hash: BlockHash = block.header().hash();
    let first_tx_num = view.first_tx_num(height)?;
    let txids: Vec<Txid> = block.txs().map(|tx| tx.txid()).collect();
    let here: HashMap<&Txid, usize> = txids.iter().zip(0..).collect();
    let mut spent = Vec::with_capacity(block.input_count());
    for tx in block.txs().skip(1) {
        for input in tx.inputs() {
            let outpoint = input.outpoint();
            let vout = outpoint.vout as usize;
            let script = match here.get(&outpoint.txid).filter(|index| **index < tx.index()) {
                Some(index) => block.tx(*index).outputs().nth(vout).map(|output| output.script.to_vec()),
                None => script_of(view, &outpoint.txid, vout, first_tx_num + tx.index() as TxNum)?,
            };
            spent.push(script.ok_or_else(gone)?);
        }
    }
    Ok(filter::of_block(&block, &hash, spent.iter().map(Vec::as_slice)))
}

/// The script of an output of the last transaction with this identifier before `spender`.
fn script_of(view: &View, txid: &Txid, vout: usize, spender: TxNum) -> Result<Option<Vec<u8>>, ViewError> {
    let Some(made) = view.transaction_before(txid, spender)? else { return Ok(None) };
    let Ok(parsed) = Transaction::parse(made.bytes) else { return Ok(None) };
    Ok(parsed.tx().outputs().nth(vout).map(|output| output.script.to_vec()))
}
