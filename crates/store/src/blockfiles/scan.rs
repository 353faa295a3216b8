//! Finding the records of block files without reading the blocks.
//!
//! In:     block files, and how far an earlier scan came.
//! Out:    one [`Found`] for each new record, file by file in the order of their numbers and offsets; [`Note`]s.
//! Fails:  [`BlockFilesError`]; whatever is no whole record is searched for the next magic, as Core does.
//! Source: Bitcoin Core, `validation.cpp`, `LoadExternalBlockFile`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use primitives::block::BLOCK_BYTES_MAX;
use primitives::header::HEADER_BYTES;
use primitives::{Network, Params};
use stdx::disk::DiskFile;

use super::RECORD_HEAD_BYTES;
use super::folder::{BlockFiles, BlockFilesError, Position, XorKey, io_error};

/// Bytes read at a record that lies far from the one before: one page holds its head.
const NEAR_BYTES: usize = 4096;
/// Bytes read while records lie close together, and while searching.
const FAR_BYTES: usize = 256 * 1024;
/// What is wanted of each record: magic, length, header.
const HEAD_BYTES: usize = RECORD_HEAD_BYTES as usize + HEADER_BYTES;
const _: () = assert!(HEAD_BYTES <= NEAR_BYTES && NEAR_BYTES <= FAR_BYTES);

/// A block in the files, known by its header; nothing about it has been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its header.
    pub header: [u8; HEADER_BYTES],
    /// Where it is.
    pub position: Position,
}

/// What a scan saw beside records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The file begins with another network's magic and has no record of ours.
    OtherNetwork {
        /// The file.
        path: PathBuf,
        /// Whose magic it is.
        network: Network,
    },
    /// Bytes that are no record, with a record or the file's end behind them.
    Skipped {
        /// The file.
        path: PathBuf,
        /// Where they begin.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// A record that is longer than what is left of the file; the next scan looks again.
    Torn {
        /// The file.
        path: PathBuf,
        /// Where the record begins.
        offset: u64,
    },
}

/// How far each file has been scanned.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// End of the last record by file.
    next: BTreeMap<u32, u64>,
    /// Length of the file and eight bytes behind the last record when it was last searched to its end.
    searched: BTreeMap<u32, (u64, [u8; 8])>,
}

impl Progress {
    /// Takes note of a record found earlier (from the store's `found` column).
    pub fn seen(&mut self, position: Position) {
        let end = u64::from(position.offset) + u64::from(position.size);
        let next = self.next.entry(position.file).or_default();
        *next = end.max(*next);
    }

    /// End of the last record known of a file.
    pub fn end_of(&self, file: u32) -> u64 {
        self.next.get(&file).copied().unwrap_or(0)
    }
}

/// A file read through one window.
struct Window {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    key: XorKey,
    length: u64,
    bytes: Vec<u8>,
    start: u64,
}

impl Window {
    /// Up to `want` bytes at `offset`, fewer only at the end of the file; reads `ahead` bytes where it has to read.
    fn at(&mut self, offset: u64, want: usize, ahead: usize) -> Result<&[u8], BlockFilesError> {
        let end = self.length.min(offset + want as u64);
        if offset < self.start || end > self.start + self.bytes.len() as u64 {
            let count = (self.length - offset.min(self.length)).min(ahead.max(want) as u64);
            self.bytes.resize(count as usize, 0);
            self.start = offset;
            self.file.read_exact_at(&mut self.bytes, offset).map_err(io_error(&self.path))?;
            self.key.apply(&mut self.bytes, offset);
        }
        let from = (offset - self.start) as usize;
        Ok(&self.bytes[from..from + end.saturating_sub(offset) as usize])
    }

    /// The next place from `from` on where `magic` stands, and whether a byte before it is not zero.
    fn find(&mut self, magic: [u8; 4], from: u64) -> Result<(Option<u64>, bool), BlockFilesError> {
        let (mut at, mut dirty) = (from, false);
        loop {
            let bytes = self.at(at, FAR_BYTES, FAR_BYTES)?;
            let found = bytes.windows(4).position(|four| four == magic);
            dirty |= bytes[..found.unwrap_or(bytes.len())].iter().any(|byte| *byte != 0);
            match found {
                Some(index) => return Ok((Some(at + index as u64), dirty)),
                None if bytes.len() < FAR_BYTES => return Ok((None, dirty)),
                None => at += (FAR_BYTES - 3) as u64,
            }
        }
    }
}

impl BlockFiles {
    /// Reports every record that `progress` does not know, and moves it on. Files that came since are found.
    pub fn scan(&mut self, progress: &mut Progress, each: &mut dyn FnMut(Found)) -> Result<Vec<Note>, BlockFilesError> {
        self.refresh()?;
        let mut notes = Vec::new();
        let numbers: Vec<u32> = self.files.keys().copied().collect();
        for number in numbers {
            self.scan_file(number, progress, each, &mut notes)?;
        }
        Ok(notes)
    }

    fn scan_file(
        &self,
        number: u32,
        progress: &mut Progress,
        each: &mut dyn FnMut(Found),
        notes: &mut Vec<Note>,
    ) -> Result<(), BlockFilesError> {
        let (path, file) = (self.files[&number].clone(), self.file(number)?);
        let length = file.length().map_err(io_error(&path))?;
        let key = self.key_of(number);
        let mut window = Window { file, path, key, length, bytes: Vec::new(), start: 0 };
        let first = progress.next.get(&number).copied().unwrap_or(0);
        let head = first_eight(window.at(first.min(length), NEAR_BYTES, NEAR_BYTES)?);
        if progress.searched.get(&number) == Some(&(length, head)) {
            return Ok(());
        }
        let mut next = first;
        let mut torn = None;
        let mut at = first;
        while let Some(found) = self.next_record(number, &mut window, &mut at, &mut torn, notes)? {
            next = at;
            each(found);
        }
        progress.next.insert(number, next);
        let head = first_eight(window.at(next.min(length), NEAR_BYTES, NEAR_BYTES)?);
        progress.searched.insert(number, (length, head));
        if let Some(offset) = torn.filter(|offset| *offset >= next) {
            notes.push(Note::Torn { path: window.path.clone(), offset });
        }
        if next == 0 {
            let start: Vec<u8> = window.at(0, 4, NEAR_BYTES)?.to_vec();
            let other = Network::ALL.into_iter().find(|network| Params::of(*network).magic[..] == start[..]);
            if let Some(network) = other.filter(|network| Params::of(*network).magic != self.magic) {
                notes.push(Note::OtherNetwork { path: window.path, network });
            }
        }
        Ok(())
    }

    /// The first whole record at or behind `at`, which moves to its end; None at the end of the file.
    fn next_record(
        &self,
        file: u32,
        window: &mut Window,
        at: &mut u64,
        torn: &mut Option<u64>,
        notes: &mut Vec<Note>,
    ) -> Result<Option<Found>, BlockFilesError> {
        let (start, length) = (*at, window.length);
        let mut dirty = false;
        loop {
            let near = *at < window.start + 2 * FAR_BYTES as u64 && window.start > 0;
            let head = window.at(*at, HEAD_BYTES, if near { FAR_BYTES } else { NEAR_BYTES })?;
            if head.len() >= 8 && head[..4] == self.magic {
                let size = u32::from_le_bytes(head[4..8].try_into().expect("four bytes"));
                let offset = *at + RECORD_HEAD_BYTES;
                let plausible = (HEADER_BYTES..=BLOCK_BYTES_MAX).contains(&(size as usize));
                if plausible && offset + u64::from(size) <= length && offset <= u64::from(u32::MAX) {
                    let header = head[8..].try_into().expect("the file has the whole record");
                    if *at > start && dirty {
                        notes.push(Note::Skipped { path: window.path.clone(), offset: start, bytes: *at - start });
                    }
                    *at = offset + u64::from(size);
                    let position = Position { file, offset: offset as u32, size };
                    return Ok(Some(Found { header, position }));
                }
                if plausible {
                    torn.get_or_insert(*at);
                }
            }
            dirty |= first_eight(head)[0] != 0;
            let (found, seen) = window.find(self.magic, (*at + 1).min(length))?;
            dirty |= seen;
            match found {
                Some(next) => *at = next,
                None => {
                    if dirty && *torn < Some(start) {
                        let bytes = length - start;
                        notes.push(Note::Skipped { path: window.path.clone(), offset: start, bytes });
                    }
                    return Ok(None);
                }
            }
        }
    }
}

/// The first eight of `bytes`, zeros where there are fewer.
fn first_eight(bytes: &[u8]) -> [u8; 8] {
    let mut eight = [0; 8];
    let count = bytes.len().min(8);
    eight[..count].copy_from_slice(&bytes[..count]);
    eight
}
