//! Our own files: one immutable file of sorted, delta-coded rows a batch, merged four at a time, and one commit record.
//!
//! In:     sorted batches.
//! Out:    rows of one script, merged over the files, the newest file's word first.
//! Fails:  with the operating system's error, or naming the file whose checksum is wrong.
//! Source: our own design: the smallest thing that does the job, to be compared with two full engines.
//!
//! A commit writes and syncs the batch's file, then writes and syncs the commit record, which names the tip and every
//! file; the record has two slots and a checksum, so a torn one leaves the one before it in force. Opening reads the
//! newer valid slot and removes files it does not name. There is no log.

use crate::engine::{Engine, Outcome};
use crate::workload::Batch;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use stdx::checksum::checksum;

/// Encoded rows of one block, in bytes; one page of the disk.
const BLOCK_BYTES: usize = 4_096;
/// Files of one level that are merged into one of the next.
const MERGE_COUNT: usize = 4;
/// One slot of the commit record, in bytes.
const SLOT_BYTES: usize = 4_096;

/// One row of either table; history rows carry `Some(0)`, deletions `None`.
#[derive(Clone, Copy)]
struct Row {
    table: u8,
    tag: u64,
    number: u64,
    value: Option<u64>,
}

impl Row {
    fn key(&self) -> (u8, u64, u64) {
        (self.table, self.tag, self.number)
    }
}

/// Where a block starts and which key is its first.
struct BlockEntry {
    first: (u8, u64, u64),
    offset: u64,
}

struct Run {
    number: u64,
    level: u32,
    file: File,
    blocks: Vec<BlockEntry>,
    /// End of the last block.
    end: u64,
}

pub struct Runs {
    dir: PathBuf,
    /// Oldest first.
    runs: Vec<Run>,
    tip: Option<u32>,
    generation: u64,
    next_number: u64,
}

fn text(error: io::Error) -> String {
    error.to_string()
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn take_varint(bytes: &[u8], at: &mut usize) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes[*at];
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
        shift += 7;
    }
}

/// Writes one file: blocks, then the block index, then a footer of 24 bytes.
struct RunWriter {
    file: io::BufWriter<File>,
    blocks: Vec<BlockEntry>,
    block: Vec<u8>,
    previous: Row,
    offset: u64,
}

impl RunWriter {
    fn new(path: &Path) -> io::Result<RunWriter> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        let previous = Row { table: 0, tag: 0, number: 0, value: None };
        let file = io::BufWriter::with_capacity(1 << 20, file);
        Ok(RunWriter { file, blocks: Vec::new(), block: Vec::new(), previous, offset: 0 })
    }

    fn push(&mut self, row: Row) -> io::Result<()> {
        // Longest row: three varints of ten bytes.
        if self.block.len() + 30 > BLOCK_BYTES - 8 || (row.table != self.previous.table && !self.block.is_empty()) {
            self.end_block()?;
        }
        if self.block.is_empty() {
            self.blocks.push(BlockEntry { first: row.key(), offset: self.offset });
            self.previous = Row { table: row.table, tag: row.tag, number: 0, value: None };
        }
        put_varint(&mut self.block, row.tag - self.previous.tag);
        let same = row.tag == self.previous.tag;
        put_varint(&mut self.block, if same { row.number - self.previous.number } else { row.number });
        if row.table == 2 {
            put_varint(&mut self.block, row.value.map_or(0, |value| value + 1));
        }
        self.previous = row;
        Ok(())
    }

    fn end_block(&mut self) -> io::Result<()> {
        let sum = checksum(self.offset, &self.block);
        self.block.extend_from_slice(&sum.to_le_bytes());
        self.file.write_all(&self.block)?;
        self.offset += self.block.len() as u64;
        self.block.clear();
        Ok(())
    }

    fn finish(mut self, number: u64, level: u32) -> io::Result<Run> {
        if !self.block.is_empty() {
            self.end_block()?;
        }
        let mut index = Vec::with_capacity(self.blocks.len() * 25);
        for block in &self.blocks {
            index.push(block.first.0);
            index.extend_from_slice(&block.first.1.to_le_bytes());
            index.extend_from_slice(&block.first.2.to_le_bytes());
            index.extend_from_slice(&block.offset.to_le_bytes());
        }
        let sum = checksum(self.offset, &index);
        index.extend_from_slice(&self.offset.to_le_bytes());
        index.extend_from_slice(&(self.blocks.len() as u64).to_le_bytes());
        index.extend_from_slice(&sum.to_le_bytes());
        self.file.write_all(&index)?;
        let file = self.file.into_inner().map_err(|error| error.into_error())?;
        file.sync_data()?;
        random_reads(&file);
        Ok(Run { number, level, file, blocks: self.blocks, end: self.offset })
    }
}

/// Lookups read single blocks; read-ahead would fetch 32 times what is asked for.
fn random_reads(file: &File) {
    // SAFETY: the descriptor is open; advice cannot fail in a way that matters.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM) };
}

impl Run {
    fn open(path: &Path, number: u64, level: u32) -> Outcome<Run> {
        let file = File::open(path).map_err(text)?;
        random_reads(&file);
        let length = file.metadata().map_err(text)?.len();
        let mut footer = [0; 24];
        file.read_exact_at(&mut footer, length - 24).map_err(text)?;
        let word = |at: usize| u64::from_le_bytes(footer[at..at + 8].try_into().expect("eight bytes"));
        let (end, count) = (word(0), word(8));
        let mut index = vec![0; count as usize * 25];
        file.read_exact_at(&mut index, end).map_err(text)?;
        if checksum(end, &index) != word(16) {
            return Err(format!("{}: index checksum", path.display()));
        }
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let entry = |row: &[u8]| BlockEntry {
            first: (row[0], word(&row[1..9]), word(&row[9..17])),
            offset: word(&row[17..25]),
        };
        Ok(Run { number, level, file, blocks: index.chunks_exact(25).map(entry).collect(), end })
    }

    /// Hands the rows of one block to `visit` until it answers false.
    fn block(&self, index: usize, mut visit: impl FnMut(Row) -> bool) -> Outcome<()> {
        let entry = &self.blocks[index];
        let end = self.blocks.get(index + 1).map_or(self.end, |next| next.offset);
        let mut buffer = [0; BLOCK_BYTES];
        let bytes = &mut buffer[..(end - entry.offset) as usize];
        self.file.read_exact_at(bytes, entry.offset).map_err(text)?;
        let (bytes, sum) = bytes.split_at(bytes.len() - 8);
        if checksum(entry.offset, bytes).to_le_bytes() != sum {
            return Err(format!("run {}: checksum of block {index}", self.number));
        }
        let (mut at, mut row) = (0, Row { table: entry.first.0, tag: entry.first.1, number: 0, value: Some(0) });
        while at < bytes.len() {
            let step = take_varint(bytes, &mut at);
            row.tag += step;
            let number = take_varint(bytes, &mut at);
            row.number = if step == 0 { row.number + number } else { number };
            if row.table == 2 {
                row.value = take_varint(bytes, &mut at).checked_sub(1);
            }
            if !visit(row) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// All rows of one script.
    fn rows_of(&self, table: u8, tag: u64, rows: &mut Vec<Row>) -> Outcome<()> {
        let from = self.blocks.partition_point(|block| (block.first.0, block.first.1) < (table, tag));
        for index in from.saturating_sub(1)..self.blocks.len() {
            let first = self.blocks[index].first;
            if (first.0, first.1) > (table, tag) {
                break;
            }
            if first.0 == table {
                self.block(index, |row| {
                    if row.tag == tag {
                        rows.push(row);
                    }
                    row.tag <= tag
                })?;
            }
        }
        Ok(())
    }
}

/// Reads one file from its start to its end.
struct Reader<'a> {
    run: &'a Run,
    next_block: usize,
    rows: Vec<Row>,
    at: usize,
}

impl Reader<'_> {
    fn peek(&mut self) -> Outcome<Option<Row>> {
        if self.at == self.rows.len() {
            if self.next_block == self.run.blocks.len() {
                return Ok(None);
            }
            self.rows.clear();
            let rows = &mut self.rows;
            self.run.block(self.next_block, |row| {
                rows.push(row);
                true
            })?;
            (self.next_block, self.at) = (self.next_block + 1, 0);
        }
        Ok(Some(self.rows[self.at]))
    }
}

impl Runs {
    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{number:08}.run"))
    }

    fn next_run(&mut self) -> (u64, PathBuf) {
        let number = self.next_number;
        self.next_number += 1;
        (number, self.path(number))
    }

    /// Writes the commit record into the slot the last one is not in.
    fn write_record(&mut self) -> io::Result<()> {
        self.generation += 1;
        let mut record = Vec::with_capacity(SLOT_BYTES);
        record.extend_from_slice(&self.generation.to_le_bytes());
        record.extend_from_slice(&u64::from(self.tip.expect("set by the caller")).to_le_bytes());
        record.extend_from_slice(&(self.runs.len() as u64).to_le_bytes());
        for run in &self.runs {
            record.extend_from_slice(&run.number.to_le_bytes());
            record.extend_from_slice(&u64::from(run.level).to_le_bytes());
        }
        assert!(record.len() + 8 <= SLOT_BYTES);
        record.resize(SLOT_BYTES - 8, 0);
        record.extend_from_slice(&checksum(0, &record).to_le_bytes());
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(self.dir.join("commit"))?;
        file.write_all_at(&record, self.generation % 2 * SLOT_BYTES as u64)?;
        File::open(&self.dir)?.sync_all()?;
        file.sync_data()
    }

    /// The newest valid slot: generation, tip, files.
    fn read_record(dir: &Path) -> Option<(u64, u32, Vec<(u64, u32)>)> {
        let bytes = fs::read(dir.join("commit")).ok()?;
        let slots = bytes.chunks_exact(SLOT_BYTES).filter(|slot| {
            checksum(0, &slot[..SLOT_BYTES - 8]).to_le_bytes() == slot[SLOT_BYTES - 8..] && slot[..8] != [0; 8]
        });
        let word = |slot: &[u8], at: usize| u64::from_le_bytes(slot[at * 8..at * 8 + 8].try_into().expect("8 bytes"));
        let slot = slots.max_by_key(|slot| word(slot, 0))?;
        let runs = (0..word(slot, 2) as usize).map(|run| (word(slot, 3 + run * 2), word(slot, 4 + run * 2) as u32));
        Some((word(slot, 0), word(slot, 1) as u32, runs.collect()))
    }

    /// Merges while the newest files of one level are four; deletions go where nothing older is left to delete.
    fn merge(&mut self) -> Outcome<Vec<u64>> {
        let mut replaced = Vec::new();
        while let Some(from) = self.mergeable() {
            let (number, path) = self.next_run();
            let mut writer = RunWriter::new(&path).map_err(text)?;
            let mut readers: Vec<Reader> = self.runs[from..]
                .iter()
                .rev()
                .map(|run| Reader { run, next_block: 0, rows: Vec::new(), at: 0 })
                .collect();
            loop {
                let mut best: Option<Row> = None;
                for reader in &mut readers {
                    if let Some(row) = reader.peek()? {
                        // Readers come newest first: an equal key of an older file does not replace it.
                        best = Some(best.filter(|best| best.key() <= row.key()).unwrap_or(row));
                    }
                }
                let Some(best) = best else { break };
                for reader in &mut readers {
                    if reader.peek()?.is_some_and(|row| row.key() == best.key()) {
                        reader.at += 1;
                    }
                }
                if from > 0 || best.value.is_some() {
                    writer.push(best).map_err(text)?;
                }
            }
            let level = self.runs[from].level + 1;
            let merged = writer.finish(number, level).map_err(text)?;
            replaced.extend(self.runs.drain(from..).map(|run| run.number));
            self.runs.push(merged);
        }
        Ok(replaced)
    }

    fn mergeable(&self) -> Option<usize> {
        let from = self.runs.len().checked_sub(MERGE_COUNT)?;
        self.runs[from..].iter().all(|run| run.level == self.runs[from].level).then_some(from)
    }

    fn rows_of(&self, table: u8, tag: u64) -> Outcome<Vec<Row>> {
        let mut rows = Vec::new();
        for run in self.runs.iter().rev() {
            run.rows_of(table, tag, &mut rows)?;
        }
        // A stable sort keeps the newest file's row first among equal keys.
        rows.sort_by_key(Row::key);
        rows.dedup_by_key(|row| row.key());
        Ok(rows)
    }
}

impl Engine for Runs {
    fn open(dir: &Path, _cache_bytes: u64) -> Outcome<Runs> {
        fs::create_dir_all(dir).map_err(text)?;
        let mut runs = Runs { dir: dir.to_owned(), runs: Vec::new(), tip: None, generation: 0, next_number: 0 };
        let mut named = Vec::new();
        if let Some((generation, tip, files)) = Self::read_record(dir) {
            (runs.generation, runs.tip) = (generation, Some(tip));
            for (number, level) in files {
                runs.runs.push(Run::open(&runs.path(number), number, level)?);
                runs.next_number = runs.next_number.max(number + 1);
                named.push(runs.path(number));
            }
        }
        for entry in fs::read_dir(dir).map_err(text)? {
            let path = entry.map_err(text)?.path();
            if path.extension().is_some_and(|kind| kind == "run") && !named.contains(&path) {
                fs::remove_file(path).map_err(text)?;
            }
        }
        Ok(runs)
    }

    fn commit(&mut self, batch: &Batch) -> Outcome<()> {
        let (number, path) = self.next_run();
        let mut writer = RunWriter::new(&path).map_err(text)?;
        for row in &batch.history {
            let row = Row { table: 1, tag: row.tag, number: row.tx_num.into(), value: Some(0) };
            writer.push(row).map_err(text)?;
        }
        for row in &batch.unspent {
            let row = Row { table: 2, tag: row.tag, number: row.txo_num, value: row.amount_sat };
            writer.push(row).map_err(text)?;
        }
        let run = writer.finish(number, 0).map_err(text)?;
        self.runs.push(run);
        let replaced = self.merge()?;
        self.tip = Some(batch.number);
        self.write_record().map_err(text)?;
        for number in replaced {
            fs::remove_file(self.path(number)).map_err(text)?;
        }
        Ok(())
    }

    fn tip(&self) -> Outcome<Option<u32>> {
        Ok(self.tip)
    }

    fn history(&self, tag: u64, out: &mut Vec<u32>) -> Outcome<()> {
        out.extend(self.rows_of(1, tag)?.iter().map(|row| row.number as u32));
        Ok(())
    }

    fn unspent(&self, tag: u64, out: &mut Vec<(u64, u64)>) -> Outcome<()> {
        let rows = self.rows_of(2, tag)?;
        out.extend(rows.iter().filter_map(|row| Some((row.number, row.value?))));
        Ok(())
    }

    fn settle(&mut self) -> Outcome<()> {
        Ok(())
    }
}
