//! Reading several segments as one, and merging adjacent ones into one file.
//!
//! In:     segments, oldest first.
//! Out:    rows by key with what the newest segment says; or one segment that says the same as all of them.
//! Fails:  [`StoreError`]; a merge that fails or is cancelled leaves everything as it was.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use stdx::disk::Disk;

use crate::error::StoreError;
use crate::reset;
use crate::row::{Op, Row, Table};
use crate::segment::{COIN_KEY_BYTES, CoinCursor, CoinRow, RowCursor, Section, SectionWriter, Segment, SegmentWriter};

/// Segments of similar size that are worth a merge.
const MERGE_INPUTS_MIN: usize = 4;
/// Segments of one merge at most; each holds a block or two in memory.
const MERGE_INPUTS_MAX: usize = 16;
/// Sizes up to this count as equally small.
const SMALLEST_CLASS_BYTES: u64 = 64 * 1024;
/// Unspent rows of one script that a merge holds at most before it decides about them: 128 KiB.
const ROWS_HELD_MAX: usize = 4096;
/// Rows between two looks at the cancel flag.
const ROWS_PER_LOOK: u64 = 4096;

/// What several versions of one key mean together.
///
/// `existed` says whether the oldest of them was written over something older.
fn combined(newest: Op, existed: bool) -> Option<Op> {
    match (newest, existed) {
        (Op::Reset, _) => Some(Op::Reset),
        (Op::Put | Op::Replace, false) => Some(Op::Put),
        (Op::Put | Op::Replace, true) => Some(Op::Replace),
        (Op::Delete, true) => Some(Op::Delete),
        (Op::Delete, false) => None,
    }
}

/// Rows of several segments in one order.
pub(crate) struct RowMerge {
    /// Oldest segment first.
    cursors: Vec<RowCursor>,
    /// A `hi` whose rows below this cursor are void.
    reset: Option<(u64, usize)>,
}

impl RowMerge {
    /// Starts at (hi, lo) in every segment.
    pub(crate) fn seek(segments: &[Arc<Segment>], table: Table, hi: u64, lo: u64) -> Result<RowMerge, StoreError> {
        let mut cursors = Vec::new();
        for segment in segments.iter().filter(|segment| segment.section(Section::Rows(table)).rows > 0) {
            cursors.push(RowCursor::seek(segment, table, hi, lo)?);
        }
        Ok(RowMerge { cursors, reset: None })
    }

    /// Starts at (hi, lo), knowing what `Reset` rows at (hi, 0) say, and leaves out segments without rows of `hi`.
    pub(crate) fn seek_hi(segments: &[Arc<Segment>], table: Table, hi: u64, lo: u64) -> Result<RowMerge, StoreError> {
        let mut cursors = Vec::new();
        for segment in segments.iter().rev().filter(|segment| segment.section(Section::Rows(table)).rows > 0) {
            let first = if table == Table::Unspent { 0 } else { lo };
            let mut cursor = RowCursor::seek(segment, table, hi, first)?;
            let void_below = cursor.peek().is_some_and(|row| row.hi == hi && row.op == Op::Reset);
            if first < lo {
                cursor = RowCursor::seek(segment, table, hi, lo)?;
            }
            if cursor.peek().is_some_and(|row| row.hi == hi) {
                cursors.push(cursor);
            }
            if void_below {
                break;
            }
        }
        cursors.reverse();
        Ok(RowMerge { cursors, reset: None })
    }

    /// Goes on to the first row of `hi`, which is not in front of where it stands.
    pub(crate) fn forward(&mut self, hi: u64) -> Result<(), StoreError> {
        self.reset = None;
        self.cursors.iter_mut().try_for_each(|cursor| cursor.forward(hi, 0))
    }

    /// The `hi` of the next row.
    pub(crate) fn next_hi(&self) -> Option<u64> {
        self.cursors.iter().filter_map(|cursor| cursor.peek().map(|row| row.hi)).min()
    }

    /// Segments it reads.
    #[cfg(test)]
    pub(crate) fn segment_count(&self) -> usize {
        self.cursors.len()
    }

    /// The next key: what its newest version says, and whether its oldest was written over something older.
    pub(crate) fn next(&mut self) -> Result<Option<(Row, bool)>, StoreError> {
        loop {
            let keys = self.cursors.iter().filter_map(|cursor| cursor.peek().map(|row| (row.hi, row.lo)));
            let Some(key) = keys.min() else { return Ok(None) };
            let first_valid = self.reset.filter(|(hi, _)| *hi == key.0).map_or(0, |(_, index)| index);
            let mut newest: Option<Row> = None;
            let mut existed = false;
            for (index, cursor) in self.cursors.iter_mut().enumerate() {
                let Some(&row) = cursor.peek().filter(|row| (row.hi, row.lo) == key) else { continue };
                cursor.advance()?;
                if index < first_valid {
                    continue;
                }
                if row.op == Op::Reset {
                    self.reset = Some((key.0, index));
                } else if newest.is_none() {
                    existed = row.op != Op::Put;
                }
                newest = Some(row);
            }
            if let Some(row) = newest {
                return Ok(Some((row, existed)));
            }
        }
    }
}

/// Coins of several segments in one order.
pub(crate) struct CoinMerge {
    /// Oldest segment first.
    cursors: Vec<CoinCursor>,
}

impl CoinMerge {
    /// Starts at the first coin of every segment.
    pub(crate) fn new(segments: &[Arc<Segment>]) -> Result<CoinMerge, StoreError> {
        let mut cursors = Vec::new();
        for segment in segments.iter().filter(|segment| segment.section(Section::Coins).rows > 0) {
            cursors.push(CoinCursor::seek(segment, &[0; COIN_KEY_BYTES])?);
        }
        Ok(CoinMerge { cursors })
    }

    /// Gives `each` the next key: what its newest version says, and whether its oldest was written over something
    /// older. False at the end.
    pub(crate) fn next(&mut self, each: &mut dyn FnMut(CoinRow<'_>, bool)) -> Result<bool, StoreError> {
        let Some(key) = self.cursors.iter().filter_map(|cursor| cursor.peek().map(|row| row.key)).min() else {
            return Ok(false);
        };
        let has_key = |cursor: &CoinCursor| cursor.peek().is_some_and(|row| row.key == key);
        let oldest = self.cursors.iter().position(has_key).expect("one has the least key");
        let newest = self.cursors.iter().rposition(has_key).expect("one has the least key");
        let existed = self.cursors[oldest].peek().is_some_and(|row| row.op != Op::Put);
        each(self.cursors[newest].peek().expect("it has the key"), existed);
        for cursor in &mut self.cursors[oldest..=newest] {
            if has_key(cursor) {
                cursor.advance()?;
            }
        }
        Ok(true)
    }
}

/// What becomes of the unspent rows of one script in a merge.
#[derive(Clone, Copy, Default)]
enum Fate {
    /// Not decided yet.
    #[default]
    Open,
    /// They are written as they are.
    Kept,
    /// They were left out, for everything alive was written instead.
    WrittenAnew,
}

/// Unspent rows of one script, until their fate is decided.
#[derive(Default)]
struct HeldRows {
    hi: Option<u64>,
    rows: Vec<Row>,
    fate: Fate,
}

/// A merge to be run on any thread.
pub struct MergeJob {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    /// Number of the segment to write.
    pub(crate) id: u64,
    /// Adjacent segments, oldest first.
    pub(crate) inputs: Vec<Arc<Segment>>,
    /// Segments older than the inputs, oldest first.
    pub(crate) older: Vec<Arc<Segment>>,
    pub(crate) cancel: Arc<AtomicBool>,
}

/// What a merge wrote; give it to `Store::install_merge`.
pub struct MergedSegment {
    pub(crate) segment: Segment,
    pub(crate) inputs: Vec<u64>,
}

impl MergeJob {
    /// Setting it to true ends the merge soon with [`StoreError::Cancelled`].
    pub fn cancel_flag(&self) -> Arc<AtomicBool> {
        self.cancel.clone()
    }

    /// Bytes it will read.
    pub fn input_bytes(&self) -> u64 {
        self.inputs.iter().map(|input| input.bytes).sum()
    }

    /// Reads the inputs and writes one file, in bounded memory.
    pub fn run(self) -> Result<MergedSegment, StoreError> {
        let mut writer = SegmentWriter::create(self.disk.clone(), &self.dir, self.id)?;
        for section in Section::ALL {
            let merged = match section {
                Section::Coins => self.merge_coins(&mut writer),
                Section::Rows(table) => self.merge_rows(table, &mut writer),
            };
            if let Err(error) = merged {
                writer.abandon();
                return Err(error);
            }
        }
        let inputs = self.inputs.iter().map(|input| input.id).collect();
        Ok(MergedSegment { segment: writer.finish()?, inputs })
    }

    fn look(&self, rows: &mut u64) -> Result<(), StoreError> {
        *rows += 1;
        if rows.is_multiple_of(ROWS_PER_LOOK) && self.cancel.load(Ordering::Relaxed) {
            return Err(StoreError::Cancelled);
        }
        Ok(())
    }

    /// What to write for a key, if anything.
    fn op_of(&self, newest: Op, existed: bool) -> Option<Op> {
        match combined(newest, existed) {
            // Nothing older can be hidden by deletions.
            Some(Op::Put | Op::Replace) if self.older.is_empty() => Some(Op::Put),
            Some(Op::Delete | Op::Reset) if self.older.is_empty() => None,
            op => op,
        }
    }

    fn merge_rows(&self, table: Table, writer: &mut SegmentWriter) -> Result<(), StoreError> {
        let mut out = SectionWriter::new(self.id, Section::Rows(table), 0);
        let mut merge = RowMerge::seek(&self.inputs, table, 0, 0)?;
        let mut rows = 0;
        let mut held = HeldRows::default();
        while let Some((row, existed)) = merge.next()? {
            self.look(&mut rows)?;
            let Some(op) = self.op_of(row.op, existed) else { continue };
            let row = Row { op, ..row };
            if table == Table::Unspent && !self.older.is_empty() {
                self.hold(&mut held, row, &mut out)?;
            } else {
                out.push_row(row);
            }
            if SegmentWriter::wants_drain(&out) {
                writer.drain(&mut out)?;
            }
        }
        self.settle(&mut held, &mut out)?;
        writer.end_section(out)
    }

    /// Takes an unspent row; what becomes of the rows of a script is decided once enough of them are known.
    fn hold(&self, held: &mut HeldRows, row: Row, out: &mut SectionWriter) -> Result<(), StoreError> {
        if held.hi != Some(row.hi) {
            self.settle(held, out)?;
            *held = HeldRows { hi: Some(row.hi), ..HeldRows::default() };
        }
        match held.fate {
            Fate::Open => held.rows.push(row),
            Fate::Kept => out.push_row(row),
            Fate::WrittenAnew => {}
        }
        if held.rows.len() >= ROWS_HELD_MAX { self.settle(held, out) } else { Ok(()) }
    }

    /// Writes the held rows of one script: as they are, or what is alive of it in all older segments too.
    fn settle(&self, held: &mut HeldRows, out: &mut SectionWriter) -> Result<(), StoreError> {
        let rows = std::mem::take(&mut held.rows);
        let Some(first) = rows.first() else { return Ok(()) };
        let deletes = rows.iter().filter(|row| row.op == Op::Delete).count();
        if deletes >= reset::DELETES_MIN {
            let all: Vec<Arc<Segment>> = self.older.iter().chain(&self.inputs).cloned().collect();
            if let Some(live) = reset::live_rows(&all, first.hi, deletes, &[])? {
                reset::write(first.hi, live, out);
                held.fate = Fate::WrittenAnew;
                return Ok(());
            }
        }
        rows.into_iter().for_each(|row| out.push_row(row));
        held.fate = Fate::Kept;
        Ok(())
    }

    fn merge_coins(&self, writer: &mut SegmentWriter) -> Result<(), StoreError> {
        let keys_max = self.inputs.iter().map(|input| input.section(Section::Coins).rows).sum();
        let mut out = SectionWriter::new(self.id, Section::Coins, keys_max);
        let mut merge = CoinMerge::new(&self.inputs)?;
        let mut rows = 0;
        while merge.next(&mut |row, existed| {
            if let Some(op) = self.op_of(row.op, existed) {
                out.push_coin(&CoinRow { op, ..row });
            }
        })? {
            self.look(&mut rows)?;
            if SegmentWriter::wants_drain(&out) {
                writer.drain(&mut out)?;
            }
        }
        writer.end_section(out)
    }
}

/// Powers of four above the smallest class.
fn size_class(bytes: u64) -> u32 {
    (bytes / SMALLEST_CLASS_BYTES).checked_ilog2().map_or(0, |log| log / 2 + 1)
}

/// Which of the segments (bytes, oldest first) to merge: those of the lowest size class that has enough at the new end,
/// with the smaller ones between and behind them.
///
/// A row moves up one class each time it is written again, so it is written log4(all / one batch) times.
pub(crate) fn pick(sizes: &[u64]) -> Option<std::ops::Range<usize>> {
    let highest = sizes.iter().map(|bytes| size_class(*bytes)).max()?;
    for class in 0..=highest {
        let run = sizes.iter().rev().map(|bytes| size_class(*bytes)).take_while(|other| *other <= class);
        if run.clone().filter(|other| *other == class).count() >= MERGE_INPUTS_MIN {
            let start = sizes.len() - run.count();
            return Some(start..(start + MERGE_INPUTS_MAX).min(sizes.len()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_of_a_size_are_merged_and_no_fewer() {
        #[track_caller]
        fn check(sizes_kib: &[u64], want: Option<std::ops::Range<usize>>) {
            let sizes: Vec<u64> = sizes_kib.iter().map(|kib| kib * 1024).collect();
            assert_eq!(pick(&sizes), want);
        }
        check(&[], None);
        check(&[1, 1, 1], None);
        check(&[1, 1, 1, 1], Some(0..4));
        check(&[9000, 1, 40, 2, 63], Some(1..5));
        check(&[9000, 1, 300, 2, 63], None);
        check(&[9000, 300, 1, 2, 3], None);
        check(&[9000, 300, 1, 300, 300, 300, 2], Some(1..7));
        check(&[9000, 9000, 9000, 300, 1, 2], None);
        check(&[9000, 9000, 9000, 9000, 1, 2], Some(0..6));
        check(&[1; 20], Some(0..16));
    }

    #[test]
    fn versions_of_a_key_combine_to_one() {
        assert_eq!(combined(Op::Put, false), Some(Op::Put));
        assert_eq!(combined(Op::Replace, false), Some(Op::Put));
        assert_eq!(combined(Op::Put, true), Some(Op::Replace));
        assert_eq!(combined(Op::Delete, true), Some(Op::Delete));
        assert_eq!(combined(Op::Delete, false), None);
        assert_eq!(combined(Op::Reset, false), Some(Op::Reset));
    }
}
