//! A cut: everything that changed since the last one, sorted into one segment file.
//!
//! In:     rows and coins taken by `Store::cut`, and the snapshot they apply to.
//! Out:    a synced segment that nothing names yet; `Store::install` makes it count.
//! Fails:  [`StoreError`] from writing, or from reading rows of scripts that are reset.

use std::path::PathBuf;
use std::sync::Arc;

use primitives::TxoNum;
use stdx::disk::Disk;
use stdx::pool::Pool;

use crate::coins::{DirtyCoins, UnspentChange};
use crate::columns::ColumnName;
use crate::error::StoreError;
use crate::reset;
use crate::row::{Batch, Op, Row, Table};
use crate::segment::{Section, SectionWriter, Segment, SegmentWriter};
use crate::snapshot::Snapshot;
use crate::store::Tip;

/// The state a cut makes durable, beside its rows.
pub(crate) struct CutState {
    pub(crate) tip: Option<Tip>,
    pub(crate) txo_count: TxoNum,
    pub(crate) column_entries: [u64; ColumnName::ALL.len()],
}

/// A cut to be sorted and written on any thread.
pub struct CutJob {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) segment_id: u64,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) batch: Batch,
    pub(crate) coins: DirtyCoins,
    pub(crate) state: CutState,
}

/// What a [`CutJob`] wrote; give it to `Store::install`.
pub struct WrittenCut {
    pub(crate) segment: Option<Segment>,
    pub(crate) state: CutState,
}

impl CutJob {
    /// Sorts and writes one segment; returns once it is on the disk. The sections but the first are built on the pool.
    pub fn run(self, pool: &Pool) -> Result<WrittenCut, StoreError> {
        let CutJob { disk, dir, segment_id: id, snapshot, batch, coins, state } = self;
        if batch.rows() == 0 && coins.is_empty() {
            return Ok(WrittenCut { segment: None, state });
        }
        let Batch { history, txid, spender, history_deleted, txid_deleted, spender_deleted } = batch;
        let mut coins = coins;
        let unspent = std::mem::take(&mut coins.unspent);
        let mut writer = SegmentWriter::create(disk, &dir, id)?;
        let tickets = [
            pool.submit(move || Ok(pairs_section(id, Table::History, history, history_deleted))),
            pool.submit(move || unspent_section(id, unspent, &snapshot)),
            pool.submit(move || Ok(pairs_section(id, Table::Txid, txid, txid_deleted))),
            pool.submit(move || Ok(spender_section(id, spender, spender_deleted))),
        ];
        let mut failed = write_coins(id, coins, &mut writer).err();
        for ticket in tickets {
            let written = ticket.wait().and_then(|section| match failed {
                None => writer.end_section(section),
                Some(_) => Ok(()),
            });
            if let Err(error) = written {
                failed.get_or_insert(error);
            }
        }
        if let Some(error) = failed {
            writer.abandon();
            return Err(error);
        }
        Ok(WrittenCut { segment: Some(writer.finish()?), state })
    }
}

/// The largest section goes to the file as it is made.
fn write_coins(id: u64, mut coins: DirtyCoins, writer: &mut SegmentWriter) -> Result<(), StoreError> {
    coins.sort();
    let rows = coins.rows();
    let mut section = SectionWriter::new(id, Section::Coins, rows.len() as u64);
    for row in rows {
        section.push_coin(&row);
        if SegmentWriter::wants_drain(&section) {
            writer.drain(&mut section)?;
        }
    }
    writer.end_section(section)
}

/// Rows of a table whose key is all there is; puts or deletes, not both of one key.
fn pairs_section(id: u64, table: Table, mut puts: Vec<(u64, u32)>, mut deletes: Vec<(u64, u32)>) -> SectionWriter {
    let mut section = SectionWriter::new(id, Section::Rows(table), 0);
    sort_pairs(&mut puts);
    puts.dedup();
    deletes.sort_unstable();
    deletes.dedup();
    let row = |(hi, lo): (u64, u32), op| Row { hi, lo: lo.into(), value: 0, op };
    if deletes.is_empty() {
        puts.into_iter().for_each(|pair| section.push_row(row(pair, Op::Put)));
    } else {
        // A key that is deleted and put again by one cut is alive, and was before.
        let again = |pair: &(u64, u32)| if deletes.binary_search(pair).is_ok() { Op::Replace } else { Op::Put };
        let mut rows: Vec<Row> = puts.iter().map(|pair| row(*pair, again(pair))).collect();
        rows.extend(deletes.iter().filter(|pair| puts.binary_search(pair).is_err()).map(|p| row(*p, Op::Delete)));
        rows.sort_unstable_by_key(|row| (row.hi, row.lo));
        rows.into_iter().for_each(|row| section.push_row(row));
    }
    section
}

fn spender_section(id: u64, mut puts: Vec<(u64, u32)>, mut deletes: Vec<u64>) -> SectionWriter {
    let mut section = SectionWriter::new(id, Section::Rows(Table::Spender), 0);
    deletes.sort_unstable();
    deletes.dedup();
    sort_pairs(&mut puts);
    puts.dedup_by_key(|(txo_num, _)| *txo_num);
    let is_put = |txo_num: &u64| puts.binary_search_by_key(txo_num, |(put, _)| *put).is_ok();
    let mut gone = deletes.iter().copied().filter(|txo_num| !is_put(txo_num)).peekable();
    for &(hi, tx_num) in &puts {
        while let Some(hi) = gone.next_if(|gone| *gone < hi) {
            section.push_row(Row { hi, lo: 0, value: 0, op: Op::Delete });
        }
        let op = if deletes.binary_search(&hi).is_ok() { Op::Replace } else { Op::Put };
        section.push_row(Row { hi, lo: 0, value: tx_num.into(), op });
    }
    gone.for_each(|hi| section.push_row(Row { hi, lo: 0, value: 0, op: Op::Delete }));
    section
}

/// Sorts by splitting on the top bits that differ, then inside each part: parts fit into the nearest cache.
fn sort_pairs(pairs: &mut Vec<(u64, u32)>) {
    const PART_ROWS: usize = 2048;
    let Some(&(highest, _)) = pairs.iter().max_by_key(|pair| pair.0) else { return };
    let parts_bits = (pairs.len() / PART_ROWS).checked_ilog2().unwrap_or(0).min(12);
    if parts_bits == 0 {
        pairs.sort_unstable();
        return;
    }
    let shift = (64 - highest.leading_zeros()).saturating_sub(parts_bits);
    let mut starts = vec![0usize; (1 << parts_bits) + 1];
    pairs.iter().for_each(|pair| starts[(pair.0 >> shift) as usize + 1] += 1);
    for part in 1..starts.len() {
        starts[part] += starts[part - 1];
    }
    let mut next = starts.clone();
    let mut sorted = vec![(0, 0); pairs.len()];
    for pair in pairs.iter() {
        let at = &mut next[(pair.0 >> shift) as usize];
        sorted[*at] = *pair;
        *at += 1;
    }
    starts.windows(2).for_each(|part| sorted[part[0]..part[1]].sort_unstable());
    *pairs = sorted;
}

fn unspent_section(id: u64, mut changes: Vec<UnspentChange>, before: &Snapshot) -> Result<SectionWriter, StoreError> {
    let mut section = SectionWriter::new(id, Section::Rows(Table::Unspent), 0);
    changes.sort_unstable_by_key(UnspentChange::key);
    for script in changes.chunk_by(|a, b| a.key().0 == b.key().0) {
        if script.len() < reset::DELETES_MIN {
            script.iter().for_each(|change| section.push_row(change.row()));
            continue;
        }
        let script: Vec<Row> = script.iter().map(UnspentChange::row).collect();
        let deletes = script.iter().filter(|row| row.op == Op::Delete).count();
        let live = match deletes >= reset::DELETES_MIN {
            true => reset::live_rows(&before.segments, script[0].hi, deletes, &script)?,
            false => None,
        };
        match live {
            Some(live) => reset::write(script[0].hi, live, &mut section),
            None => script.iter().for_each(|row| section.push_row(*row)),
        }
    }
    Ok(section)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::random::Random;

    #[test]
    fn pairs_are_sorted_at_every_size() {
        let mut random = Random::new(9);
        for (count, bits) in [(0, 64), (1, 64), (5000, 64), (20_000, 40), (20_000, 3), (9_000, 1), (50_000, 64)] {
            let mut pairs: Vec<(u64, u32)> =
                (0..count).map(|_| (random.next_u64() >> (64 - bits), random.below(1000) as u32)).collect();
            let mut want = pairs.clone();
            want.sort();
            sort_pairs(&mut pairs);
            assert_eq!(pairs, want);
        }
    }
}
