//! The commit record: what is on the disk, and nothing else is.
//!
//! Two files, `commit.0` and `commit.1`, take turns, so that a torn write leaves the one before. A record is:
//!
//! | bytes   | field         | meaning                                                       |
//! |---------|---------------|---------------------------------------------------------------|
//! | 0..8    | `magic`       | "ASSAYCMT"                                                    |
//! | 8..12   | `version`     | 1; [`COMMIT_VERSION`] once there are block filters            |
//! | 12..16  | `length`      | bytes of the record, checksum included                        |
//! | 16..24  | `sequence`    | counts commits; its lowest bit is the file's number           |
//! | 24..28  | `network`     | magic of the network                                          |
//! | 28..60  | `genesis`     | hash of block 0                                               |
//! | 60..76  | `tag_key`     | key of the script tags                                        |
//! | 76..80  | `blocks`      | connected blocks; the tip's height is one less                |
//! | 80..112 | `tip_hash`    | hash of the tip, zeros without blocks                         |
//! | 112..144 | `chainwork`  | work up to the tip, big endian                                |
//! | 144..152 | `txos`       | outputs of connected blocks                                   |
//! | 152..160 | `segment_next` | number of the next segment                                  |
//! | 160..164 | `segments`   | number of segments                                            |
//! | 164..   | `columns`     | 4 times (version 2: 5): entries (8 bytes), and the entries behind the last full page |
//! | then    | `segment`     | each, oldest first: id, bytes, footer checksum (8 bytes each) |
//! | last 8  | `checksum`    | over everything before                                        |
//!
//! In:     the state to make durable.
//! Out:    the newest record that is whole.
//! Fails:  [`StoreError`]: `Corrupt`, `NewerFormat`, `OtherNetwork`, `Io`.

use std::io;
use std::path::{Path, PathBuf};

use primitives::{BlockHash, Params, TxoNum};
use stdx::bytes::{Reader, Short};
use stdx::checksum::checksum;
use stdx::disk::{Disk, Open};

use crate::columns::ColumnName;
use crate::error::StoreError;
use crate::store::Tip;

const MAGIC: &[u8; 8] = b"ASSAYCMT";
/// Newest format version of the commit record, and with it of the whole folder. Version 1 has no column `filters`; a
/// folder without filters stays one.
pub const COMMIT_VERSION: u32 = 2;
/// Columns of version 1.
const COLUMNS_BEFORE_FILTERS: usize = 4;
/// Bytes in front of the columns.
pub const COMMIT_HEAD_BYTES: usize = 164;
/// Seed of the record's checksum.
const SEED: u64 = 0x636f_6d6d_6974;
/// Segments at most; merging keeps them at a few dozen, so more is damage.
const SEGMENTS_MAX: u32 = 4096;
/// Longest record: head, a page for each column, the segments, checksum.
const RECORD_BYTES_MAX: u64 =
    COMMIT_HEAD_BYTES as u64 + ColumnName::ALL.len() as u64 * (8 + 4096) + SEGMENTS_MAX as u64 * 24 + 8;

/// A segment as the record names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentName {
    /// Its number.
    pub id: u64,
    /// Bytes of its file.
    pub bytes: u64,
    /// Checksum of its footer.
    pub footer_checksum: u64,
}

/// One commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitRecord {
    /// Counts commits.
    pub sequence: u64,
    /// Magic of the network.
    pub network: [u8; 4],
    /// Hash of block 0.
    pub genesis: BlockHash,
    /// Key of the script tags.
    pub tag_key: [u8; 16],
    /// The last connected block.
    pub tip: Option<Tip>,
    /// Outputs of connected blocks.
    pub txo_count: TxoNum,
    /// Number of the next segment.
    pub segment_next: u64,
    /// Entries of each column, and the bytes of those behind the last full page.
    pub columns: [(u64, Vec<u8>); ColumnName::ALL.len()],
    /// Segments, oldest first.
    pub segments: Vec<SegmentName>,
}

impl CommitRecord {
    /// The record of a folder without blocks.
    pub fn empty(params: &Params, tag_key: [u8; 16]) -> CommitRecord {
        CommitRecord {
            sequence: 0,
            network: params.magic,
            genesis: params.genesis_hash,
            tag_key,
            tip: None,
            txo_count: 0,
            segment_next: 1,
            columns: Default::default(),
            segments: Vec::new(),
        }
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(MAGIC);
        let has_filters = self.columns[COLUMNS_BEFORE_FILTERS].0 > 0;
        let (version, columns) = if has_filters { (2u32, self.columns.len()) } else { (1, COLUMNS_BEFORE_FILTERS) };
        out.extend_from_slice(&version.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&self.network);
        out.extend_from_slice(&self.genesis.0);
        out.extend_from_slice(&self.tag_key);
        let blocks = self.tip.map_or(0, |tip| tip.height + 1);
        out.extend_from_slice(&blocks.to_le_bytes());
        out.extend_from_slice(&self.tip.map_or([0; 32], |tip| tip.hash.0));
        out.extend_from_slice(&self.tip.map_or([0; 32], |tip| tip.chainwork));
        out.extend_from_slice(&self.txo_count.to_le_bytes());
        out.extend_from_slice(&self.segment_next.to_le_bytes());
        out.extend_from_slice(&(self.segments.len() as u32).to_le_bytes());
        assert_eq!(out.len(), COMMIT_HEAD_BYTES);
        for (entries, tail) in &self.columns[..columns] {
            out.extend_from_slice(&entries.to_le_bytes());
            out.extend_from_slice(tail);
        }
        for segment in &self.segments {
            for number in [segment.id, segment.bytes, segment.footer_checksum] {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        let length = (out.len() + 8) as u32;
        out[12..16].copy_from_slice(&length.to_le_bytes());
        let sum = checksum(SEED, &out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// A record from the bytes of its file; bytes behind it are those of a longer record before.
    pub fn decode(bytes: &[u8], path: &Path) -> Result<CommitRecord, StoreError> {
        let corrupt = || StoreError::corrupt(path, "the commit record");
        let mut head = Reader::new(bytes);
        let magic = head.array::<8>().map_err(|Short| corrupt())?;
        let got = head.u32().map_err(|Short| corrupt())?;
        if magic != *MAGIC {
            return Err(corrupt());
        }
        if got > COMMIT_VERSION {
            return Err(StoreError::NewerFormat { path: path.to_path_buf(), got, known: COMMIT_VERSION });
        }
        let length = head.u32().map_err(|Short| corrupt())? as usize;
        let whole = bytes.get(..length).filter(|whole| whole.len() >= COMMIT_HEAD_BYTES + 8).ok_or_else(corrupt)?;
        let (body, sum) = whole.split_at(length - 8);
        if checksum(SEED, body).to_le_bytes() != sum || got == 0 {
            return Err(corrupt());
        }
        let columns = if got == 1 { COLUMNS_BEFORE_FILTERS } else { ColumnName::ALL.len() };
        Self::decode_body(&body[16..], columns).map_err(|Short| corrupt())
    }

    fn decode_body(body: &[u8], column_count: usize) -> Result<CommitRecord, Short> {
        let mut reader = Reader::new(body);
        let sequence = reader.u64()?;
        let network = reader.array()?;
        let genesis = BlockHash(reader.array()?);
        let tag_key = reader.array()?;
        let blocks = reader.u32()?;
        let (hash, chainwork) = (BlockHash(reader.array()?), reader.array()?);
        let tip = blocks.checked_sub(1).map(|height| Tip { height, hash, chainwork });
        let (txo_count, segment_next) = (reader.u64()?, reader.u64()?);
        let segment_count = reader.u32()?;
        if segment_count > SEGMENTS_MAX {
            return Err(Short);
        }
        let mut columns: [(u64, Vec<u8>); ColumnName::ALL.len()] = Default::default();
        for (name, column) in ColumnName::ALL.into_iter().zip(&mut columns).take(column_count) {
            let entries = reader.u64()?;
            let tail = reader.take((entries % name.entries_per_page()) as usize * name.width())?;
            *column = (entries, tail.to_vec());
        }
        let mut segments = Vec::new();
        for _ in 0..segment_count {
            segments.push(SegmentName { id: reader.u64()?, bytes: reader.u64()?, footer_checksum: reader.u64()? });
        }
        if reader.left() > 0 {
            return Err(Short);
        }
        Ok(CommitRecord { sequence, network, genesis, tag_key, tip, txo_count, segment_next, columns, segments })
    }
}

fn slot_path(dir: &Path, sequence: u64) -> PathBuf {
    dir.join(if sequence & 1 == 0 { "commit.0" } else { "commit.1" })
}

/// Makes a new folder's first record, both files at once: they are renamed into place whole.
pub fn create(disk: &dyn Disk, dir: &Path, record: &CommitRecord) -> Result<(), StoreError> {
    for sequence in [1, 0] {
        let path = dir.join("commit.new");
        let record = CommitRecord { sequence, ..record.clone() };
        let file = disk.open(&path, Open::Truncate).map_err(StoreError::io("create", &path))?;
        file.write_all_at(&record.encode(), 0).map_err(StoreError::io("write", &path))?;
        file.sync().map_err(StoreError::io("sync", &path))?;
        disk.rename(&path, &slot_path(dir, sequence)).map_err(StoreError::io("rename", &path))?;
        disk.sync_dir(dir).map_err(StoreError::io("sync", dir))?;
    }
    Ok(())
}

/// Makes `record` the newest one; everything it names is on the disk already.
pub fn write(disk: &dyn Disk, dir: &Path, record: &CommitRecord) -> Result<(), StoreError> {
    let path = slot_path(dir, record.sequence);
    let bytes = record.encode();
    let (file, made) = match disk.open(&path, Open::ReadWrite) {
        Ok(file) => (file, false),
        // The folder was made and the start ended between its two files.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            (disk.open(&path, Open::Create).map_err(StoreError::io("create", &path))?, true)
        }
        Err(error) => return Err(StoreError::io("open", &path)(error)),
    };
    file.write_all_at(&bytes, 0).map_err(StoreError::io("write", &path))?;
    file.sync().map_err(StoreError::io("sync", &path))?;
    if made { disk.sync_dir(dir).map_err(StoreError::io("sync", dir)) } else { Ok(()) }
}

/// The newest whole record; None where the folder never had one.
pub fn read_newest(disk: &dyn Disk, dir: &Path, params: &Params) -> Result<Option<CommitRecord>, StoreError> {
    let mut newest: Option<CommitRecord> = None;
    let mut damage = None;
    for sequence in [0, 1] {
        let path = slot_path(dir, sequence);
        let file = match disk.open(&path, Open::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(StoreError::io("open", &path)(error)),
        };
        let length = file.length().map_err(StoreError::io("measure", &path))?.min(RECORD_BYTES_MAX);
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, 0).map_err(StoreError::io("read", &path))?;
        match CommitRecord::decode(&bytes, &path) {
            Ok(record) if newest.as_ref().is_none_or(|other| other.sequence < record.sequence) => {
                if (record.network, record.genesis) != (params.magic, params.genesis_hash) {
                    return Err(StoreError::OtherNetwork { path, got: record.network, want: params.magic });
                }
                newest = Some(record);
            }
            Ok(_) => {}
            Err(error @ StoreError::Corrupt { .. }) => damage = Some(error),
            Err(error) => return Err(error),
        }
    }
    match (newest, damage) {
        (None, Some(error)) => Err(error),
        (newest, _) => Ok(newest),
    }
}
