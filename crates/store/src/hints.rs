//! Hints of earlier validations, by block: a cache beside the store that may be lost or damaged at any time.
//!
//! In:     for a block that was proved, its height, hash and hints (`consensus::script` makes and reads them).
//! Out:    the same bytes for the same block, or none.
//! Fails:  reading never does: what is missing or damaged is not there. Writing with [`StoreError`]; nothing in the
//!         store depends on it.
//! Source: docs/formats.md, "hints".
//!
//! Records are appended to one file; a second one is an array of their places by height, so a lookup is two reads and
//! takes no memory. Nothing is synced: after a crash places may name bytes that never came, which the records' checksums
//! show. A height may have several records, of blocks that a reorganisation left behind: each names the one before.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use primitives::{BlockHash, Params};
use stdx::checksum::checksum;
use stdx::disk::{Disk, DiskFile, Open};

use crate::error::StoreError;

const MAGIC: &[u8; 8] = b"ASSAYHNT";
/// Format version of both files, and of the hints in them: it changes with `consensus::script`'s templates too.
pub const HINTS_VERSION: u32 = 1;
/// Bytes in front of the records.
const HEAD_BYTES: usize = 16;
/// Bytes of one place.
const PLACE_BYTES: usize = 8;
/// Bytes of a record beside its hints.
const RECORD_BYTES_MIN: usize = 48;
/// Most hints of a block: 24,390 inputs, the most that 4,000,000 units of weight hold, at 13 bytes each, which is more
/// than the 20 rows of the longest walk take.
pub const HINT_BYTES_MAX: usize = 1 << 19;
const RECORD_BYTES_MAX: usize = RECORD_BYTES_MIN + HINT_BYTES_MAX;
const _: () = assert!(24_390 * 13 < HINT_BYTES_MAX && RECORD_BYTES_MAX < 1 << 24);
/// A place holds 40 bits of offset.
const OFFSET_MAX: u64 = (1 << 40) - 1;
/// Records looked at for one height; more blocks of one height are a reorganisation war.
const CHAIN_MAX: usize = 8;
/// Bytes gathered for one write.
const PENDING_BYTES: usize = 256 << 10;
/// Seed of a record's checksum, besides its offset.
const SEED: u64 = 0x6869_6e74_73;

/// Where a record is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub offset: u64,
    pub bytes: u32,
}

impl Place {
    pub fn encode(self) -> [u8; PLACE_BYTES] {
        (self.offset | u64::from(self.bytes) << 40).to_le_bytes()
    }

    /// The place in these bytes, if there can be a record.
    fn decode(bytes: [u8; PLACE_BYTES]) -> Option<Place> {
        let number = u64::from_le_bytes(bytes);
        let place = Place { offset: number & OFFSET_MAX, bytes: (number >> 40) as u32 };
        (RECORD_BYTES_MIN..=RECORD_BYTES_MAX).contains(&(place.bytes as usize)).then_some(place)
    }
}

pub(crate) fn encode_head(params: &Params) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(MAGIC);
    head[8..12].copy_from_slice(&HINTS_VERSION.to_le_bytes());
    head[12..].copy_from_slice(&params.magic);
    head
}

/// Appends the record that is to stand at `offset`; `previous` is the place of the height's record before it.
pub(crate) fn encode_record(
    out: &mut Vec<u8>,
    offset: u64,
    hash: &BlockHash,
    previous: [u8; PLACE_BYTES],
    hints: &[u8],
) {
    let start = out.len();
    out.extend_from_slice(&hash.0);
    out.extend_from_slice(&previous);
    out.extend_from_slice(hints);
    let sum = checksum(SEED ^ offset, &out[start..]);
    out.extend_from_slice(&sum.to_le_bytes());
}

/// The two files, for any thread to read from.
#[derive(Clone)]
pub struct Hints {
    records: Arc<dyn DiskFile>,
    places: Arc<dyn DiskFile>,
}

impl Hints {
    /// The hints in `dir`; none where there are none of this network and format.
    pub fn open(disk: &dyn Disk, dir: &Path, params: &Params) -> Option<Hints> {
        let records = disk.open(&dir.join(RECORDS), Open::Read).ok()?;
        let places = disk.open(&dir.join(PLACES), Open::Read).ok()?;
        let mut head = [0; HEAD_BYTES];
        records.read_exact_at(&mut head, 0).ok()?;
        (head == encode_head(params)).then_some(Hints { records, places })
    }

    /// What is kept of this block; nothing where nothing is, or what is there is damaged.
    pub fn of(&self, height: u32, hash: &BlockHash) -> Vec<u8> {
        let mut next = self.place(height);
        for _ in 0..CHAIN_MAX {
            let Some((place, record)) = next.and_then(|place| Some((place, self.record(place)?))) else { break };
            let (head, hints) = record.split_at(RECORD_BYTES_MIN - 8);
            if head[..32] == hash.0 {
                return hints.to_vec();
            }
            let previous = Place::decode(head[32..].try_into().expect("eight bytes"));
            // Older ones are further in front, so this ends.
            next = previous.filter(|previous| previous.offset < place.offset);
        }
        Vec::new()
    }

    fn place(&self, height: u32) -> Option<Place> {
        let mut bytes = [0; PLACE_BYTES];
        self.places.read_exact_at(&mut bytes, u64::from(height) * PLACE_BYTES as u64).ok()?;
        Place::decode(bytes)
    }

    /// The record there without its checksum, if it is whole.
    fn record(&self, place: Place) -> Option<Vec<u8>> {
        let mut record = vec![0; place.bytes as usize];
        self.records.read_exact_at(&mut record, place.offset).ok()?;
        let sum = record.split_off(record.len() - 8);
        (checksum(SEED ^ place.offset, &record).to_le_bytes() == sum[..]).then_some(record)
    }
}

const RECORDS: &str = "hints.records";
const PLACES: &str = "hints.places";

/// Adds to the hints; there is one, the chain's writer.
pub struct HintsWriter {
    hints: Hints,
    /// Length of the file of records.
    end: u64,
    /// Records for the end of the file.
    pending: Vec<u8>,
    /// Their places, by height.
    pending_places: BTreeMap<u32, Place>,
}

impl HintsWriter {
    /// Opens the hints in `dir`, or makes the files anew where they are missing or of no use here.
    ///
    /// Fails on files of a later format: they are of use to the program that wrote them.
    pub fn open(disk: &dyn Disk, dir: &Path, params: &Params) -> Result<HintsWriter, StoreError> {
        disk.create_dir(dir).map_err(StoreError::io("make", dir))?;
        let (records_path, places_path) = (dir.join(RECORDS), dir.join(PLACES));
        let mut how = Open::Create;
        let mut records = disk.open(&records_path, how).map_err(StoreError::io("open", &records_path))?;
        let (mut head, want) = ([0; HEAD_BYTES], encode_head(params));
        let read = records.read_exact_at(&mut head, 0);
        let got = u32::from_le_bytes(head[8..12].try_into().expect("four bytes"));
        if head[..8] == *MAGIC && got > HINTS_VERSION {
            return Err(StoreError::NewerFormat { path: records_path, got, known: HINTS_VERSION });
        }
        if read.is_err() || head != want {
            how = Open::Truncate;
            records = disk.open(&records_path, how).map_err(StoreError::io("open", &records_path))?;
            records.write_all_at(&want, 0).map_err(StoreError::io("write", &records_path))?;
        }
        let places = disk.open(&places_path, how).map_err(StoreError::io("open", &places_path))?;
        let end = records.length().map_err(StoreError::io("measure", &records_path))?;
        let hints = Hints { records, places };
        Ok(HintsWriter { hints, end, pending: Vec::new(), pending_places: BTreeMap::new() })
    }

    /// For readers on other threads; they see what has been flushed.
    pub fn hints(&self) -> Hints {
        self.hints.clone()
    }

    /// Bytes of both files, with what waits to be written.
    pub fn bytes(&self) -> u64 {
        let places = self.hints.places.length().unwrap_or(0);
        self.end + self.pending.len() as u64 + places
    }

    /// Keeps the hints of a block, instead of those kept before; they are written some time later.
    pub fn keep(&mut self, height: u32, hash: &BlockHash, hints: &[u8]) -> Result<(), StoreError> {
        assert!(hints.len() <= HINT_BYTES_MAX, "more hints than a block's inputs have");
        let offset = self.end + self.pending.len() as u64;
        let place = Place { offset, bytes: (RECORD_BYTES_MIN + hints.len()) as u32 };
        if offset + u64::from(place.bytes) > OFFSET_MAX {
            return Ok(()); // a terabyte of hints, where a gigabyte is expected: enough is kept
        }
        let previous = self.pending_places.get(&height).copied().or_else(|| self.hints.place(height));
        let previous = previous.map_or([0; PLACE_BYTES], Place::encode);
        encode_record(&mut self.pending, offset, hash, previous, hints);
        self.pending_places.insert(height, place);
        if self.pending.len() >= PENDING_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes what has been gathered; it is not synced.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let write = |source| StoreError::io("write", Path::new(RECORDS))(source);
        self.hints.records.write_all_at(&self.pending, self.end).map_err(write)?;
        self.end += self.pending.len() as u64;
        self.pending.clear();
        let places: Vec<(u32, Place)> = std::mem::take(&mut self.pending_places).into_iter().collect();
        for run in places.chunk_by(|(a, _), (b, _)| a + 1 == *b) {
            let bytes: Vec<u8> = run.iter().flat_map(|(_, place)| place.encode()).collect();
            let offset = u64::from(run[0].0) * PLACE_BYTES as u64;
            let write = |source| StoreError::io("write", Path::new(PLACES))(source);
            self.hints.places.write_all_at(&bytes, offset).map_err(write)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::MemoryDisk;
    use primitives::Network;
    use stdx::random::Random;

    fn params() -> Params {
        Params::of(Network::Regtest)
    }

    fn writer(disk: &Arc<MemoryDisk>) -> HintsWriter {
        HintsWriter::open(&**disk, Path::new("/hints"), &params()).unwrap()
    }

    fn reader(disk: &Arc<MemoryDisk>) -> Hints {
        Hints::open(&**disk, Path::new("/hints"), &params()).unwrap()
    }

    fn hash(number: u8) -> BlockHash {
        BlockHash([number; 32])
    }

    /// Three heights with hints, one of them twice, and a block that was replaced.
    fn written() -> Arc<MemoryDisk> {
        let disk = Arc::new(MemoryDisk::default());
        let mut writer = writer(&disk);
        writer.keep(7, &hash(1), b"one").unwrap();
        writer.keep(8, &hash(2), b"two").unwrap();
        writer.flush().unwrap();
        writer.keep(8, &hash(3), b"").unwrap();
        writer.keep(8, &hash(4), &[9; 1000]).unwrap();
        writer.keep(20, &hash(5), b"five").unwrap();
        writer.keep(7, &hash(1), b"better").unwrap();
        assert_eq!(writer.hints().of(20, &hash(5)), b"", "not flushed yet");
        writer.flush().unwrap();
        assert_eq!(writer.bytes(), disk.lengths().iter().map(|(_, length)| *length as u64).sum::<u64>());
        disk
    }

    const WANT: [(u32, u8, &[u8]); 9] = [
        (7, 1, b"better"),
        (8, 2, b"two"),
        (8, 3, b""),
        (8, 4, &[9; 1000]),
        (20, 5, b"five"),
        (7, 2, b""),
        (8, 1, b""),
        (19, 5, b""),
        (21, 5, b""),
    ];

    #[test]
    fn what_was_kept_is_found_by_height_and_hash() {
        let disk = written();
        for opened in [reader(&disk), writer(&disk).hints()] {
            for (height, number, want) in WANT {
                assert_eq!(opened.of(height, &hash(number)), want, "block {number} at {height}");
            }
        }
        // Opening again and adding leaves the rest as it was.
        let mut writer = writer(&disk);
        writer.keep(9, &hash(6), b"six").unwrap();
        writer.flush().unwrap();
        assert_eq!(reader(&disk).of(9, &hash(6)), b"six");
        assert_eq!(reader(&disk).of(8, &hash(2)), b"two");
    }

    #[test]
    fn many_blocks_are_written_in_few_writes_and_found() {
        let disk = Arc::new(MemoryDisk::default());
        let mut writer = writer(&disk);
        let of = |height: u32| Random::new(height.into()).bytes::<40>().repeat(1 + height as usize % 4);
        for height in 0..5_000 {
            writer.keep(height, &BlockHash(Random::new(height.into()).bytes()), &of(height)).unwrap();
            assert!(writer.pending.len() < PENDING_BYTES);
        }
        writer.flush().unwrap();
        let hints = reader(&disk);
        for height in 0..5_000 {
            assert_eq!(hints.of(height, &BlockHash(Random::new(height.into()).bytes())), of(height));
        }
    }

    /// Reads everything from a damaged disk: each answer is the right one or none.
    fn check_damaged(disk: &Arc<MemoryDisk>, what: &str) {
        let Some(hints) = Hints::open(&**disk, Path::new("/hints"), &params()) else { return };
        for (height, number, want) in WANT {
            let got = hints.of(height, &hash(number));
            // The record that "better" replaced is its own block's, and whole.
            assert!(got.is_empty() || got == want || got == b"one", "{what}: block {number} at {height}: {got:?}");
        }
    }

    #[test]
    fn damage_anywhere_loses_hints_and_nothing_else() {
        let whole = written();
        for (path, length) in whole.lengths() {
            for at in 0..length {
                let disk = whole.copy();
                disk.change(&path, |bytes| bytes[at] ^= 1 << (at % 8));
                check_damaged(&disk, &format!("{} at {at}", path.display()));
                let disk = whole.copy();
                disk.change(&path, |bytes| bytes.truncate(at));
                check_damaged(&disk, &format!("{} cut at {at}", path.display()));
                // The next writer goes on behind whatever is there, or begins anew.
                let mut writer = writer(&disk);
                writer.keep(8, &hash(4), b"new").unwrap();
                writer.flush().unwrap();
                assert_eq!(reader(&disk).of(8, &hash(4)), b"new");
                let cut = format!("{} cut at {at} and written to", path.display());
                for (height, number, want) in WANT.into_iter().filter(|(_, number, _)| *number != 4) {
                    let got = reader(&disk).of(height, &hash(number));
                    assert!(got.is_empty() || got == want || got == b"one", "{cut}: {got:?}");
                }
            }
        }
    }

    #[test]
    fn places_that_lead_in_circles_or_far_away_end() {
        let disk = written();
        let mut random = Random::new(1);
        let length = disk.bytes(Path::new("/hints/hints.places")).len();
        disk.put("/hints/hints.places", &(0..length).map(|_| random.below(256) as u8).collect::<Vec<u8>>());
        check_damaged(&disk, "random places");
        // A record whose place before is its own.
        let disk = Arc::new(MemoryDisk::default());
        let place = Place { offset: 16, bytes: 48 };
        let mut records = encode_head(&params()).to_vec();
        encode_record(&mut records, 16, &hash(1), place.encode(), b"");
        disk.put("/hints/hints.records", &records);
        disk.put("/hints/hints.places", &place.encode());
        assert_eq!(reader(&disk).of(0, &hash(2)), b"");
    }

    #[test]
    fn files_of_others_are_begun_anew_and_those_of_later_programs_left_alone() {
        let disk = written();
        let main = Params::of(Network::Main);
        assert!(Hints::open(&*disk, Path::new("/hints"), &main).is_none(), "another network's");
        let fresh = HintsWriter::open(&*disk, Path::new("/hints"), &main).unwrap();
        assert_eq!((fresh.end, fresh.hints().of(8, &hash(2))), (HEAD_BYTES as u64, Vec::new()));
        assert!(disk.bytes(Path::new("/hints/hints.places")).is_empty());

        let disk = written();
        disk.change(Path::new("/hints/hints.records"), |bytes| bytes[8] = 2);
        let before = disk.lengths();
        assert!(Hints::open(&*disk, Path::new("/hints"), &params()).is_none());
        let error = HintsWriter::open(&*disk, Path::new("/hints"), &params()).err().unwrap();
        assert!(matches!(error, StoreError::NewerFormat { got: 2, known: 1, .. }), "{error}");
        assert_eq!(disk.lengths(), before);
    }
}
