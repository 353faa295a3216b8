//! A segment's file: written once, read at any place.
//!
//! In:     finished sections, or a file that a commit record names.
//! Out:    a synced file; or a [`Segment`] with top fences and filter in memory.
//! Fails:  [`StoreError`]: `Corrupt`, `NewerFormat`, `Io`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use stdx::bytes::{Reader, Short};
use stdx::checksum::checksum;
use stdx::disk::{Disk, DiskFile, Open};

use super::bloom::Bloom;
use super::coin::COIN_KEY_BYTES;
use super::section::{CHECKSUM_BYTES, SectionEnd, SectionWriter};
use super::{Section, block_seed};
use crate::error::StoreError;

const MAGIC: &[u8; 8] = b"ASSAYSEG";
/// Format version of segment files.
pub const SEGMENT_VERSION: u32 = 1;
/// Bytes in front of the sections.
pub const SEGMENT_HEAD_BYTES: u64 = 20;
/// Bytes of the footer for one section.
const FOOTER_SECTION_BYTES: usize = 72;
/// Bytes of the footer.
pub const SEGMENT_FOOTER_BYTES: usize = Section::ALL.len() * FOOTER_SECTION_BYTES + CHECKSUM_BYTES;
/// Index blocks of one section kept in memory at most: half a megabyte, for the first 97 MB of its rows all of them.
const INDEX_BLOCKS_CACHED_MAX: usize = 128;
/// Bytes of an index block, about.
const INDEX_BLOCK_BYTES: usize = 4096;
/// Bytes gathered before they are written.
const WRITE_BYTES: usize = 1 << 20;

/// One section of an open segment.
pub(crate) struct OpenSection {
    start: u64,
    data_bytes: u64,
    /// Rows, deletions included.
    pub(crate) rows: u64,
    pub(super) top: Vec<u8>,
    bloom: Option<Bloom>,
    /// Index blocks read last, by their number: warm lookups read one block instead of two.
    index_cache: Vec<Mutex<CachedIndex>>,
}

/// An index block's number and bytes.
type CachedIndex = Option<(usize, Arc<Vec<u8>>)>;

impl OpenSection {
    fn new(kind: Section, start: u64, data_bytes: u64, rows: u64, top: Vec<u8>, bloom: Option<Bloom>) -> OpenSection {
        let index_blocks = top.len() / kind.fence_bytes();
        let index_cache = (0..index_blocks.min(INDEX_BLOCKS_CACHED_MAX)).map(|_| Mutex::default()).collect();
        OpenSection { start, data_bytes, rows, top, bloom, index_cache }
    }

    /// Bytes it keeps in memory, with every cached index block there.
    fn memory_bytes(&self) -> usize {
        self.top.len() + self.bloom.as_ref().map_or(0, Bloom::bytes) + self.index_cache.len() * INDEX_BLOCK_BYTES
    }

    /// Bytes of the file that are its.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.data_bytes + self.top.len() as u64 + self.bloom.as_ref().map_or(0, Bloom::bytes) as u64
    }
}

/// An open segment.
pub(crate) struct Segment {
    /// Its number.
    pub(crate) id: u64,
    /// Bytes of its file.
    pub(crate) bytes: u64,
    /// Checksum of its footer, which covers everything else through the checksums it holds.
    pub(crate) footer_checksum: u64,
    path: PathBuf,
    disk: Arc<dyn Disk>,
    file: Arc<dyn DiskFile>,
    sections: Vec<OpenSection>,
    /// Set once a durable commit no longer names it: the file goes with the last reader.
    doomed: AtomicBool,
}

impl Drop for Segment {
    fn drop(&mut self) {
        if self.doomed.load(Ordering::Acquire) {
            // What stays behind is removed at the next start, as any file the commit record does not name.
            let _ = self.disk.remove(&self.path);
        }
    }
}

/// Name of a segment's file.
pub(crate) fn segment_path(dir: &Path, id: u64) -> PathBuf {
    dir.join("segments").join(format!("{id:010}.seg"))
}

fn file_head(id: u64) -> [u8; SEGMENT_HEAD_BYTES as usize] {
    let mut head = [0; SEGMENT_HEAD_BYTES as usize];
    head[..8].copy_from_slice(MAGIC);
    head[8..12].copy_from_slice(&SEGMENT_VERSION.to_le_bytes());
    head[12..].copy_from_slice(&id.to_le_bytes());
    head
}

/// Writes a segment, section after section.
pub(crate) struct SegmentWriter {
    disk: Arc<dyn Disk>,
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    id: u64,
    written: u64,
    buffer: Vec<u8>,
    section_start: u64,
    footer: Vec<u8>,
    sections: Vec<OpenSection>,
}

impl SegmentWriter {
    /// Makes the file.
    pub(crate) fn create(disk: Arc<dyn Disk>, dir: &Path, id: u64) -> Result<SegmentWriter, StoreError> {
        let path = segment_path(dir, id);
        let file = disk.open(&path, Open::Truncate).map_err(StoreError::io("create", &path))?;
        let buffer = file_head(id).to_vec();
        let section_start = buffer.len() as u64;
        let (footer, sections) = (Vec::new(), Vec::new());
        Ok(SegmentWriter { disk, file, path, id, written: 0, buffer, section_start, footer, sections })
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        if bytes.len() >= WRITE_BYTES {
            self.flush()?;
            self.file.write_all_at(bytes, self.written).map_err(StoreError::io("write", &self.path))?;
            self.written += bytes.len() as u64;
            return Ok(());
        }
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.file.write_all_at(&self.buffer, self.written).map_err(StoreError::io("write", &self.path))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Writes what the section has ready.
    pub(crate) fn drain(&mut self, section: &mut SectionWriter) -> Result<(), StoreError> {
        let ready = section.take_ready();
        self.append(&ready)
    }

    /// True once [`SegmentWriter::drain`] is due for bounded memory.
    pub(crate) fn wants_drain(section: &SectionWriter) -> bool {
        section.ready_bytes() >= WRITE_BYTES
    }

    /// Closes a section; they come in the order of [`Section::ALL`].
    pub(crate) fn end_section(&mut self, mut section: SectionWriter) -> Result<(), StoreError> {
        section.finish();
        self.drain(&mut section)?;
        let SectionEnd { data_bytes, rows, top, bloom } = section.end();
        let kind = Section::ALL[self.sections.len()];
        let filter = bloom.as_ref().map(Bloom::encode).unwrap_or_default();
        let seed = block_seed(self.id, kind, data_bytes);
        self.append(&top)?;
        self.append(&filter)?;
        let (start, reserved) = (self.section_start, 0);
        let (top_sum, filter_sum) = (checksum(seed, &top), checksum(!seed, &filter));
        let numbers = [start, data_bytes, top.len() as u64, filter.len() as u64, rows, top_sum, filter_sum, reserved];
        self.footer.extend_from_slice(&(kind.index() as u64).to_le_bytes());
        self.footer.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        self.section_start += data_bytes + (top.len() + filter.len()) as u64;
        self.sections.push(OpenSection::new(kind, start, data_bytes, rows, top, bloom));
        Ok(())
    }

    /// Writes the footer and returns once everything is on the disk; the folder is the caller's to sync.
    pub(crate) fn finish(mut self) -> Result<Segment, StoreError> {
        assert_eq!(self.sections.len(), Section::ALL.len());
        let footer_checksum = checksum(self.id, &self.footer);
        let footer = std::mem::take(&mut self.footer);
        self.append(&footer)?;
        self.append(&footer_checksum.to_le_bytes())?;
        self.flush()?;
        self.file.sync().map_err(StoreError::io("sync", &self.path))?;
        let SegmentWriter { disk, file, path, id, written, sections, .. } = self;
        Ok(Segment { id, bytes: written, footer_checksum, path, disk, file, sections, doomed: AtomicBool::new(false) })
    }

    /// Removes what was written so far.
    pub(crate) fn abandon(self) {
        // A file that cannot be removed now is removed at the next start.
        let _ = self.disk.remove(&self.path);
    }
}

impl Segment {
    /// Opens a segment that a commit record names.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        id: u64,
        bytes: u64,
        footer_checksum: u64,
    ) -> Result<Segment, StoreError> {
        let path = segment_path(dir, id);
        let corrupt = |what| StoreError::corrupt(&path, what);
        let file = disk.open(&path, Open::Read).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => corrupt("the file is missing"),
            _ => StoreError::io("open", &path)(error),
        })?;
        let length = file.length().map_err(StoreError::io("measure", &path))?;
        let head: [u8; SEGMENT_HEAD_BYTES as usize] =
            read(&*file, &path, 0, SEGMENT_HEAD_BYTES)?.try_into().expect("as long as asked");
        if head != file_head(id) {
            let version = u32::from_le_bytes(head[8..12].try_into().expect("four bytes"));
            if head[..8] == MAGIC[..] && version > SEGMENT_VERSION {
                return Err(StoreError::NewerFormat { path, got: version, known: SEGMENT_VERSION });
            }
            return Err(corrupt("its head"));
        }
        let data_end = length.checked_sub(SEGMENT_FOOTER_BYTES as u64);
        let data_end = data_end.filter(|_| length == bytes).ok_or_else(|| corrupt("its length"))?;
        let footer = read(&*file, &path, data_end, SEGMENT_FOOTER_BYTES as u64)?;
        let (numbers, sum) = footer.split_at(SEGMENT_FOOTER_BYTES - CHECKSUM_BYTES);
        if checksum(id, numbers) != footer_checksum || sum != footer_checksum.to_le_bytes() {
            return Err(corrupt("its footer"));
        }
        let mut reader = Reader::new(numbers);
        let mut sections = Vec::new();
        for kind in Section::ALL {
            sections.push(open_section(&*file, &path, &mut reader, id, kind, data_end)?);
        }
        Ok(Segment { id, bytes, footer_checksum, path, disk, file, sections, doomed: AtomicBool::new(false) })
    }

    /// One of its sections.
    pub(crate) fn section(&self, section: Section) -> &OpenSection {
        &self.sections[section.index()]
    }

    /// False: no row of the coins section has this key.
    pub(crate) fn may_have_coin(&self, key: &[u8; COIN_KEY_BYTES]) -> bool {
        self.section(Section::Coins).bloom.as_ref().is_some_and(|bloom| bloom.may_have(key))
    }

    /// Bytes kept in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.sections.iter().map(OpenSection::memory_bytes).sum()
    }

    /// Reads a block of a section into `block` and verifies it; the checksum stays at its end.
    pub(super) fn read_block(
        &self,
        section: Section,
        offset: u64,
        length: usize,
        block: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        let open = self.section(section);
        let fits = length > CHECKSUM_BYTES && offset + length as u64 <= open.data_bytes;
        if !fits {
            return Err(self.corrupt("a fence"));
        }
        block.resize(length, 0);
        let at = open.start + offset;
        self.file.read_exact_at(block, at).map_err(StoreError::io("read", &self.path))?;
        let (bytes, sum) = block.split_at(length - CHECKSUM_BYTES);
        if checksum(block_seed(self.id, section, offset), bytes).to_le_bytes() != sum {
            return Err(self.corrupt("a block's checksum"));
        }
        Ok(())
    }

    /// An index block, checksum cut off: from memory if it was read lately.
    pub(super) fn read_index_block(
        &self,
        section: Section,
        number: usize,
        offset: u64,
        length: usize,
    ) -> Result<Arc<Vec<u8>>, StoreError> {
        let cache = &self.section(section).index_cache;
        let mut slot = cache[number % cache.len()].lock().expect("nobody panics while holding a slot");
        if let Some((_, block)) = slot.as_ref().filter(|(other, _)| *other == number) {
            return Ok(block.clone());
        }
        let mut block = Vec::new();
        self.read_block(section, offset, length, &mut block)?;
        block.truncate(length - CHECKSUM_BYTES);
        let block = Arc::new(block);
        *slot = Some((number, block.clone()));
        Ok(block)
    }

    /// An error about this file.
    pub(crate) fn corrupt(&self, what: &'static str) -> StoreError {
        StoreError::corrupt(&self.path, what)
    }

    /// The file is removed once nobody reads it; call when a durable commit no longer names it.
    pub(crate) fn doom(&self) {
        self.doomed.store(true, Ordering::Release);
    }
}

fn read(file: &dyn DiskFile, path: &Path, offset: u64, length: u64) -> Result<Vec<u8>, StoreError> {
    let mut bytes = vec![0; length as usize];
    match file.read_exact_at(&mut bytes, offset) {
        Ok(()) => Ok(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Err(StoreError::corrupt(path, "the file is too short"))
        }
        Err(error) => Err(StoreError::io("read", path)(error)),
    }
}

fn open_section(
    file: &dyn DiskFile,
    path: &Path,
    reader: &mut Reader<'_>,
    id: u64,
    kind: Section,
    data_end: u64,
) -> Result<OpenSection, StoreError> {
    let corrupt = |what| StoreError::corrupt(path, what);
    let mut numbers = || -> Result<[u64; 9], Short> {
        let mut numbers = [0; 9];
        for number in &mut numbers {
            *number = reader.u64()?;
        }
        Ok(numbers)
    };
    let [_, start, data_bytes, top_bytes, filter_bytes, rows, top_sum, filter_sum, _] =
        numbers().map_err(|Short| corrupt("its footer"))?;
    let end = [data_bytes, top_bytes, filter_bytes].iter().try_fold(start, |end, bytes| end.checked_add(*bytes));
    if end.is_none_or(|end| end > data_end) || !top_bytes.is_multiple_of(kind.fence_bytes() as u64) {
        return Err(corrupt("its footer"));
    }
    let seed = block_seed(id, kind, data_bytes);
    let top = read(file, path, start + data_bytes, top_bytes)?;
    if checksum(seed, &top) != top_sum {
        return Err(corrupt("its top fences"));
    }
    let filter = read(file, path, start + data_bytes + top_bytes, filter_bytes)?;
    if checksum(!seed, &filter) != filter_sum {
        return Err(corrupt("its filter"));
    }
    Ok(OpenSection::new(kind, start, data_bytes, rows, top, Bloom::decode(&filter)))
}
