//! The store as its one writer sees it.
//!
//! In:     blocks in chain order, batches of rows, coins.
//! Out:    durable commits, and a snapshot of each.
//! Fails:  [`StoreError`]; after a failed write or sync every further one is refused.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use primitives::header::HEADER_BYTES;
use primitives::{BlockHash, Params, TxNum, TxoNum};
use stdx::disk::Disk;
use stdx::pool::Pool;

use crate::blockfiles::{Found, Position};
use crate::coins::Coins;
use crate::columns::{Column, ColumnName, ColumnView, FilterFile, FilterReader};
use crate::commit::{self, CommitRecord, SegmentName};
use crate::cut::{CutJob, CutState, WrittenCut};
use crate::entries::{
    self, BLOCK_ENTRY_BYTES, BlockEntry, FILTER_ENTRY_BYTES, FOUND_ENTRY_BYTES, Fact, FilterEntry, TX_ENTRY_BYTES,
    TxEntry,
};
use crate::error::StoreError;
use crate::merge::{self, MergeJob, MergedSegment};
use crate::row::Batch;
use crate::segment::{Segment, segment_path};
use crate::snapshot::Snapshot;

/// What an open needs beside the folder.
#[derive(Clone, Debug)]
pub struct Options {
    /// Key of the script tags for a store that is made now; random. An existing store keeps its own.
    pub tag_key_seed: [u8; 16],
}

/// The last block of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tip {
    /// Its height.
    pub height: u32,
    /// Its hash.
    pub hash: BlockHash,
    /// Work of the chain up to it, 32 bytes big endian.
    pub chainwork: [u8; 32],
}

/// First ordinals by height, in memory for searching: 12 bytes a block.
#[derive(Default)]
pub(crate) struct Ordinals {
    pub(crate) first_tx_num: Vec<TxNum>,
    pub(crate) first_txo_num: Vec<TxoNum>,
}

/// What the writer and its snapshots share.
pub(crate) struct Shared {
    pub(crate) tag_key: [u8; 16],
    /// Counts cuts of committed columns; a snapshot from before one cannot read columns any more.
    pub(crate) epoch: AtomicU64,
    pub(crate) ordinals: RwLock<Ordinals>,
}

/// What one commit makes durable.
pub struct Cut<'a> {
    /// Tip after the blocks pushed so far; None while there is no block.
    pub tip: Option<Tip>,
    /// Rows of the blocks since the last cut.
    pub batch: Batch,
    /// The coins; what changed in them is taken out.
    pub coins: &'a mut Coins,
}

/// The store.
pub struct Store {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    shared: Arc<Shared>,
    /// The last commit.
    record: CommitRecord,
    /// In the order of [`ColumnName::ALL`].
    columns: [Column; ColumnName::ALL.len()],
    filters: FilterFile,
    txo_count: TxoNum,
    /// Committed blocks were cut: nothing may be pushed before the commit of that.
    cut_first: bool,
    /// A cut is being written.
    cutting: bool,
    segment_next: u64,
    snapshot: Arc<Snapshot>,
    /// A merge was handed out and not brought back.
    merging: bool,
    merged: Option<MergedSegment>,
    poisoned: bool,
}

const HEADERS: usize = 0;
const BLOCKS: usize = 1;
const TXS: usize = 2;
const FOUND: usize = 3;
const FILTERS: usize = 4;

impl Store {
    /// Opens or makes a store: the newest valid commit is taken, what it does not name is cut or removed.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, params: &Params, options: &Options) -> Result<Store, StoreError> {
        let record = match commit::read_newest(&*disk, dir, params)? {
            Some(record) => record,
            None => {
                let record = CommitRecord::empty(params, options.tag_key_seed);
                for folder in [dir.to_path_buf(), dir.join("columns"), dir.join("segments")] {
                    disk.create_dir(&folder).map_err(StoreError::io("create", &folder))?;
                }
                commit::create(&*disk, dir, &record)?;
                CommitRecord { sequence: 1, ..record }
            }
        };
        let mut columns = Vec::new();
        for (name, (entries, tail)) in ColumnName::ALL.into_iter().zip(&record.columns) {
            columns.push(Column::open(&*disk, dir, name, *entries, tail.clone())?);
        }
        let columns: [Column; ColumnName::ALL.len()] =
            columns.try_into().unwrap_or_else(|_| unreachable!("one for each name"));
        let filters = FilterFile::open(&*disk, dir, filters_end(&columns[FILTERS], u64::MAX)?)?;
        let columns_dir = dir.join("columns");
        disk.sync_dir(&columns_dir).map_err(StoreError::io("sync", &columns_dir))?;
        let mut segments = Vec::new();
        for &SegmentName { id, bytes, footer_checksum } in &record.segments {
            segments.push(Arc::new(Segment::open(disk.clone(), dir, id, bytes, footer_checksum)?));
        }
        remove_unnamed(&*disk, dir, &record)?;
        let blocks = record.tip.map_or(0, |tip| u64::from(tip.height) + 1);
        let has_all = [HEADERS, BLOCKS].iter().all(|column| columns[*column].entries() == blocks);
        if !has_all || columns[FILTERS].entries() > blocks {
            return Err(StoreError::corrupt(dir, "the columns' lengths"));
        }
        let mut ordinals = Ordinals::default();
        for entry in columns[BLOCKS].range(0, blocks)?.chunks_exact(BLOCK_ENTRY_BYTES) {
            let entry = BlockEntry::decode(entry.try_into().expect("whole entries"));
            ordinals.first_tx_num.push(entry.first_tx_num);
            ordinals.first_txo_num.push(entry.first_txo_num);
        }
        let (epoch, ordinals) = (AtomicU64::new(0), RwLock::new(ordinals));
        let shared = Arc::new(Shared { tag_key: record.tag_key, epoch, ordinals });
        let views = columns.each_ref().map(Column::committed_view);
        let snapshot = snapshot_of(&shared, &record, segments, views, filters.reader());
        Ok(Store {
            disk,
            dir: dir.to_path_buf(),
            shared,
            columns,
            filters,
            txo_count: record.txo_count,
            cut_first: false,
            cutting: false,
            segment_next: record.segment_next,
            snapshot: Arc::new(snapshot),
            merging: false,
            merged: None,
            poisoned: false,
            record,
        })
    }

    /// The committed state.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.clone()
    }

    /// Key of the script tags.
    pub fn tag_key(&self) -> [u8; 16] {
        self.shared.tag_key
    }

    /// Blocks connected, committed or not.
    pub fn block_count(&self) -> u32 {
        self.columns[HEADERS].entries() as u32
    }

    /// Transactions of connected blocks.
    pub fn tx_count(&self) -> TxNum {
        self.columns[TXS].entries() as u32
    }

    /// Outputs of connected blocks.
    pub fn txo_count(&self) -> TxoNum {
        self.txo_count
    }

    /// Blocks seen in block files, and other facts about headers.
    pub fn found_count(&self) -> u32 {
        self.columns[FOUND].entries() as u32
    }

    /// Appends a block seen in block files.
    pub fn push_found(&mut self, found: &Found) {
        self.push_fact(&Fact::Block(*found));
    }

    /// Appends what was learned about a header.
    pub fn push_fact(&mut self, fact: &Fact) {
        self.columns[FOUND].push(&entries::encode_fact(fact));
    }

    /// Up to `count` of what was learned, from `first` on, in that order.
    pub fn found(&self, first: u32, count: u32) -> Result<Vec<Fact>, StoreError> {
        let bytes = self.columns[FOUND].range(first.into(), count.into())?;
        let entry = |bytes: &[u8]| entries::decode_fact(bytes.try_into().expect("whole entries"));
        Ok(bytes.chunks_exact(FOUND_ENTRY_BYTES).map(entry).collect())
    }

    /// How many of them no commit holds yet.
    pub fn found_uncommitted(&self) -> u64 {
        self.columns[FOUND].entries() - self.record.columns[FOUND].0
    }

    /// Forgets every block seen (another blocks folder is used); durable when it returns.
    pub fn clear_found(&mut self) -> Result<(), StoreError> {
        self.may_write()?;
        assert!(!self.cutting && !self.cut_first, "commit first");
        self.columns[FOUND].truncate(0)?;
        self.record.columns[FOUND] = Default::default();
        // Twice, so that neither record names pages that are written over from now on.
        for _ in 0..2 {
            self.record.sequence += 1;
            if let Err(error) = commit::write(&*self.disk, &self.dir, &self.record) {
                self.poisoned = true;
                return Err(error);
            }
        }
        self.columns[FOUND].set_durable();
        Ok(())
    }

    /// Appends a connected block: header, position, its transactions, and the number of its outputs.
    pub fn push_block(&mut self, header: &[u8; HEADER_BYTES], position: Position, txs: &[TxEntry], outputs: u32) {
        assert!(!self.cut_first, "blocks on disk were cut: commit that first");
        let entry = BlockEntry { position, first_tx_num: self.tx_count(), first_txo_num: self.txo_count };
        let mut ordinals = self.shared.ordinals.write().expect("nobody panics while holding the ordinals");
        ordinals.first_tx_num.push(entry.first_tx_num);
        ordinals.first_txo_num.push(entry.first_txo_num);
        drop(ordinals);
        self.columns[HEADERS].push(header);
        self.columns[BLOCKS].push(&entry.encode());
        txs.iter().for_each(|tx| self.columns[TXS].push(&tx.encode()));
        self.txo_count += u64::from(outputs);
    }

    /// Block filters, committed or not: one for each block, from the first on, or for none of the later ones.
    pub fn filter_count(&self) -> u32 {
        self.columns[FILTERS].entries() as u32
    }

    /// How many of them no commit holds yet.
    pub fn filters_uncommitted(&self) -> u64 {
        self.columns[FILTERS].entries().saturating_sub(self.record.columns[FILTERS].0)
    }

    /// Header of the last block filter; zeros before the first.
    pub fn last_filter_header(&self) -> Result<[u8; 32], StoreError> {
        let Some(last) = self.filter_count().checked_sub(1) else { return Ok([0; 32]) };
        let bytes = self.columns[FILTERS].range(last.into(), 1)?;
        Ok(bytes[32..64].try_into().expect("a whole entry"))
    }

    /// Appends the filter of the block at height [`Store::filter_count`], which has been pushed, with its hash and header.
    pub fn push_filter(&mut self, filter: &[u8], hash: [u8; 32], header: [u8; 32]) -> Result<(), StoreError> {
        self.may_write()?;
        assert!(self.filter_count() < self.block_count(), "a block comes before its filter");
        let pushed = self.filters.push(filter);
        self.poisoned = pushed.is_err();
        let entry = FilterEntry { hash, header, end: self.filters.end() };
        self.columns[FILTERS].push(&entry.encode());
        pushed
    }

    /// Cuts the chain to `block_count` blocks. Where that drops committed blocks, the next thing must be a commit:
    /// pushing a block before it panics.
    pub fn truncate_blocks(&mut self, block_count: u32) -> Result<(), StoreError> {
        assert!(!self.cutting, "install the cut first");
        let Some(first) = self.block_entry(block_count)? else {
            assert_eq!(block_count, self.block_count(), "a chain is not cut to more than it has");
            return Ok(());
        };
        self.columns[HEADERS].truncate(block_count.into())?;
        self.columns[BLOCKS].truncate(block_count.into())?;
        self.columns[TXS].truncate(first.first_tx_num.into())?;
        if u64::from(block_count) < self.columns[FILTERS].entries() {
            self.filters.truncate(filters_end(&self.columns[FILTERS], block_count.into())?);
            self.columns[FILTERS].truncate(block_count.into())?;
        }
        self.txo_count = first.first_txo_num;
        if block_count < self.snapshot.block_count() {
            self.cut_first = true;
        } else {
            self.truncate_ordinals();
        }
        Ok(())
    }

    /// Readers below the committed tip never look at what this drops, unless committed blocks were cut.
    fn truncate_ordinals(&self) {
        let blocks = self.block_count() as usize;
        let mut ordinals = self.shared.ordinals.write().expect("nobody panics while holding the ordinals");
        ordinals.first_tx_num.truncate(blocks);
        ordinals.first_txo_num.truncate(blocks);
    }

    /// Header of a connected block.
    pub fn header(&self, height: u32) -> Result<Option<[u8; HEADER_BYTES]>, StoreError> {
        Ok(self.columns[HEADERS].range(height.into(), 1)?.try_into().ok())
    }

    /// Up to `count` headers of connected blocks from a height on, 80 bytes each.
    pub fn headers(&self, height: u32, count: u32) -> Result<Vec<u8>, StoreError> {
        self.columns[HEADERS].range(height.into(), count.into())
    }

    /// Entry of a connected block.
    pub fn block_entry(&self, height: u32) -> Result<Option<BlockEntry>, StoreError> {
        let bytes = self.columns[BLOCKS].range(height.into(), 1)?;
        Ok(bytes.as_slice().try_into().ok().map(BlockEntry::decode))
    }

    /// Entry of a transaction.
    pub fn tx_entry(&self, tx_num: TxNum) -> Result<Option<TxEntry>, StoreError> {
        let bytes = self.columns[TXS].range(tx_num.into(), 1)?;
        Ok(bytes.as_slice().try_into().ok().map(TxEntry::decode))
    }

    /// Up to `count` entries of transactions from `tx_num` on.
    pub fn tx_entries(&self, tx_num: TxNum, count: u32) -> Result<Vec<TxEntry>, StoreError> {
        let bytes = self.columns[TXS].range(tx_num.into(), count.into())?;
        let entry = |bytes: &[u8]| TxEntry::decode(bytes.try_into().expect("whole entries"));
        Ok(bytes.chunks_exact(TX_ENTRY_BYTES).map(entry).collect())
    }

    /// Bytes of entries that wait in memory for a commit.
    pub fn waiting_bytes(&self) -> usize {
        self.columns.iter().map(Column::waiting_bytes).sum::<usize>() + self.filters.waiting_bytes()
    }

    fn may_write(&self) -> Result<(), StoreError> {
        if self.poisoned { Err(StoreError::Poisoned) } else { Ok(()) }
    }

    /// Takes what changed since the last cut out of `cut.coins` and the columns; nothing is written yet. Until
    /// [`Store::install`], coins go on being spent and created, and blocks pushed, but none truncated.
    pub fn cut(&mut self, cut: Cut<'_>) -> Result<CutJob, StoreError> {
        self.may_write()?;
        assert!(!self.cutting, "one cut is written at a time");
        let Cut { tip, batch, coins } = cut;
        assert_eq!(tip.map_or(0, |tip| tip.height + 1), self.block_count(), "the tip is the last block pushed");
        self.cutting = true;
        let segment_id = self.segment_next;
        self.segment_next += 1;
        let column_entries = std::array::from_fn(|column| self.columns[column].entries());
        Ok(CutJob {
            disk: self.disk.clone(),
            dir: self.dir.clone(),
            segment_id,
            snapshot: self.snapshot.clone(),
            batch,
            coins: coins.take_dirty(),
            state: CutState { tip, txo_count: self.txo_count, column_entries },
        })
    }

    /// Makes a written cut the durable state and publishes its snapshot. A cut that failed goes in here too: the
    /// store writes nothing after it.
    pub fn install(&mut self, written: Result<WrittenCut, StoreError>, coins: &mut Coins) -> Result<(), StoreError> {
        self.may_write()?;
        assert!(self.cutting, "a cut comes before its installation");
        self.cutting = false;
        let installed = written.and_then(|written| self.make_durable(written));
        self.poisoned = installed.is_err();
        if installed.is_ok() {
            coins.installed(self.snapshot.clone());
        }
        installed
    }

    fn make_durable(&mut self, written: WrittenCut) -> Result<(), StoreError> {
        let WrittenCut { segment, state } = written;
        let merged = self.merged.take();
        let mut replaced = Vec::new();
        let mut segments = self.snapshot.segments.clone();
        let has_new_file = segment.is_some() || merged.is_some();
        if let Some(MergedSegment { segment, inputs }) = merged {
            let is_first = |old: &Arc<Segment>| old.id == inputs[0];
            let start = segments.iter().position(is_first).expect("the inputs of a merge stay until it is installed");
            replaced = segments.splice(start..start + inputs.len(), [Arc::new(segment)]).collect();
        }
        segments.extend(segment.map(Arc::new));
        if has_new_file {
            let folder = self.dir.join("segments");
            self.disk.sync_dir(&folder).map_err(StoreError::io("sync", &folder))?;
        }
        let mut views = Vec::new();
        for (column, entries) in self.columns.iter_mut().zip(state.column_entries) {
            views.push(column.flush(entries)?);
        }
        self.filters.flush()?;
        self.record.sequence += 1;
        self.record.tip = state.tip;
        self.record.txo_count = state.txo_count;
        self.record.segment_next = self.segment_next;
        self.record.columns = std::array::from_fn(|column| (views[column].entries, views[column].tail().to_vec()));
        let name = |s: &Arc<Segment>| SegmentName { id: s.id, bytes: s.bytes, footer_checksum: s.footer_checksum };
        self.record.segments = segments.iter().map(name).collect();
        commit::write(&*self.disk, &self.dir, &self.record)?;
        if self.columns.iter().any(Column::is_cut) || self.filters.is_cut() {
            // The pages that were cut are written over from now on, and would pass for what the record before names:
            // should this record rot, the other file must say the same.
            self.record.sequence += 1;
            commit::write(&*self.disk, &self.dir, &self.record)?;
        }
        self.columns.iter_mut().for_each(Column::set_durable);
        let committed_end = views[FILTERS].last_entry()?.map_or(0, |entry| filter_entry(&entry).end);
        self.filters.set_durable(committed_end);
        if std::mem::take(&mut self.cut_first) {
            self.shared.epoch.fetch_add(1, Ordering::AcqRel);
            self.truncate_ordinals();
        }
        let views = views.try_into().unwrap_or_else(|_| unreachable!("one a column"));
        let snapshot = snapshot_of(&self.shared, &self.record, segments, views, self.filters.reader());
        self.snapshot = Arc::new(snapshot);
        replaced.iter().for_each(|segment| segment.doom());
        Ok(())
    }

    /// [`Store::cut`], [`CutJob::run`] and [`Store::install`] in a row.
    pub fn commit(&mut self, mut cut: Cut<'_>, pool: &Pool) -> Result<(), StoreError> {
        let coins = &mut *cut.coins;
        let job = self.cut(Cut { tip: cut.tip, batch: std::mem::take(&mut cut.batch), coins })?;
        let written = job.run(pool);
        self.install(written, cut.coins)
    }

    /// A merge worth doing now, if there is one and none is running. Its answer goes into [`Store::install_merge`].
    pub fn pick_merge(&mut self) -> Option<MergeJob> {
        if self.merging || self.merged.is_some() || self.poisoned {
            return None;
        }
        let sizes: Vec<u64> = self.snapshot.segments.iter().map(|segment| segment.bytes).collect();
        let range = merge::pick(&sizes)?;
        self.merging = true;
        self.segment_next += 1;
        Some(MergeJob {
            disk: self.disk.clone(),
            dir: self.dir.clone(),
            id: self.segment_next - 1,
            older: self.snapshot.segments[..range.start].to_vec(),
            inputs: self.snapshot.segments[range].to_vec(),
            cancel: Arc::new(AtomicBool::new(false)),
        })
    }

    /// Puts a merged segment in place of its inputs from the next commit on. A merge that was cancelled changes
    /// nothing; one that failed otherwise ends all writing.
    pub fn install_merge(&mut self, merged: Result<MergedSegment, StoreError>) -> Result<(), StoreError> {
        self.may_write()?;
        self.merging = false;
        match merged {
            Ok(merged) => self.merged = Some(merged),
            Err(StoreError::Cancelled) => {}
            Err(error) => {
                self.poisoned = true;
                return Err(error);
            }
        }
        Ok(())
    }
}

fn snapshot_of(
    shared: &Arc<Shared>,
    record: &CommitRecord,
    segments: Vec<Arc<Segment>>,
    [headers, blocks, txs, _found, filters]: [ColumnView; ColumnName::ALL.len()],
    filter_bytes: FilterReader,
) -> Snapshot {
    Snapshot {
        shared: shared.clone(),
        epoch: shared.epoch.load(Ordering::Acquire),
        tip: record.tip,
        txo_count: record.txo_count,
        segments,
        headers,
        blocks,
        txs,
        filters,
        filter_bytes,
    }
}

fn filter_entry(bytes: &[u8]) -> FilterEntry {
    FilterEntry::decode(bytes.try_into().expect("a whole entry"))
}

/// Bytes of the first `count` filters, or of all there are.
fn filters_end(column: &Column, count: u64) -> Result<u64, StoreError> {
    let Some(last) = count.min(column.entries()).checked_sub(1) else { return Ok(0) };
    let bytes = column.range(last, 1)?;
    Ok(bytes.chunks_exact(FILTER_ENTRY_BYTES).map(|entry| filter_entry(entry).end).sum())
}

/// Removes files of ours that the record does not name: what a crash left of a cut or a merge.
fn remove_unnamed(disk: &dyn Disk, dir: &Path, record: &CommitRecord) -> Result<(), StoreError> {
    let folder = dir.join("segments");
    let named: Vec<PathBuf> = record.segments.iter().map(|segment| segment_path(dir, segment.id)).collect();
    let mut unnamed = disk.list(&folder).map_err(StoreError::io("list", &folder))?;
    unnamed.retain(|path| !named.contains(path));
    let files = disk.list(dir).map_err(StoreError::io("list", dir))?;
    unnamed.extend(files.into_iter().filter(|path| path.file_name().is_some_and(|name| name == "commit.new")));
    for path in unnamed {
        disk.remove(&path).map_err(StoreError::io("remove", &path))?;
    }
    Ok(())
}
