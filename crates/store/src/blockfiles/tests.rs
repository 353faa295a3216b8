//! Block files as they are found in the wild: keys, gaps, torn ends, strangers, growth.
//!
//! In:     files made byte by byte in memory, and a real run of blocks where `../shared` is there.
//! Out:    the records and notes of a scan.
//! Fails:  naming the case.

use std::path::Path;
use std::sync::Arc;

use primitives::{Network, Params};
use stdx::disk::SystemDisk;

use super::*;
use crate::tests::MemoryDisk;

const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];

/// A record whose block is `size` bytes of `fill`.
fn record(fill: u8, size: usize) -> Vec<u8> {
    [&MAGIC[..], &(size as u32).to_le_bytes(), &vec![fill; size]].concat()
}

fn folder(files: &[(&str, Vec<u8>)]) -> Arc<MemoryDisk> {
    let disk = Arc::new(MemoryDisk::default());
    files.iter().for_each(|(name, bytes)| disk.put(&format!("/blocks/{name}"), bytes));
    disk
}

fn open(disk: &Arc<MemoryDisk>) -> BlockFiles {
    BlockFiles::open(disk.clone(), Path::new("/blocks"), MAGIC).expect("the folder has files")
}

/// First byte of each block found, and the notes.
fn scan(files: &mut BlockFiles, progress: &mut Progress) -> (Vec<u8>, Vec<Note>) {
    let mut found = Vec::new();
    let notes = files.scan(progress, &mut |one| found.push(one)).expect("memory can be read");
    for one in &found {
        let block = files.read_block(one.position).expect("it was just found");
        assert_eq!((&block[..80], block.len()), (&one.header[..], one.position.size as usize));
        assert_eq!(files.read_at(one.position, 1, 79).expect("inside"), block[1..80]);
        assert!(files.read_at(one.position, 1, one.position.size).is_err());
    }
    (found.iter().map(|one| one.header[0]).collect(), notes)
}

#[track_caller]
fn check(bytes: Vec<u8>, want: &[u8], want_notes: &[Note]) {
    let disk = folder(&[("blk00000.dat", bytes)]);
    let mut progress = Progress::default();
    let mut files = open(&disk);
    assert_eq!(scan(&mut files, &mut progress), (want.to_vec(), want_notes.to_vec()));
    assert_eq!(scan(&mut files, &mut progress).0, [], "a second look finds nothing new");
}

#[test]
fn records_are_found_between_whatever_lies_around_them() {
    let path = || Path::new("/blocks/blk00000.dat").to_path_buf();
    let skipped = |offset, bytes| Note::Skipped { path: path(), offset, bytes };
    let torn = |offset| Note::Torn { path: path(), offset };
    let all = |parts: &[&[u8]]| parts.concat();
    check(vec![], &[], &[]);
    check(all(&[&record(1, 80), &record(2, 5000), &record(3, 81)]), &[1, 2, 3], &[]);
    check(all(&[&record(1, 700_000), &record(2, 700_000), &record(3, 100)]), &[1, 2, 3], &[]);
    // Room that Core allocated ahead.
    check(all(&[&record(1, 80), &[0; 100_000]]), &[1], &[]);
    check(all(&[&record(1, 80), &[0; 1_000_000], &record(2, 90)]), &[1, 2], &[]);
    // Bytes that are no record.
    check(all(&[&[9; 7], &record(1, 80)]), &[1], &[skipped(0, 7)]);
    check(
        all(&[&record(1, 80), &[9; 300_000], &record(2, 80), &[9; 3]]),
        &[1, 2],
        &[skipped(88, 300_000), skipped(300_176, 3)],
    );
    check(all(&[&record(1, 80), &MAGIC[..2], &record(2, 80)]), &[1, 2], &[skipped(88, 2)]);
    // A length no block has: 79, 4,000,001. The magic is searched for from the next byte on.
    check(all(&[&MAGIC, &79u32.to_le_bytes(), &record(1, 80)]), &[1], &[skipped(0, 8)]);
    check(all(&[&MAGIC, &4_000_001u32.to_le_bytes(), &record(1, 80)]), &[1], &[skipped(0, 8)]);
    check(record(1, 4_000_000), &[1], &[]);
    // An end in the middle of a record: in its head, in its block.
    check(all(&[&record(1, 80), &MAGIC, &[80, 0]]), &[1], &[skipped(88, 6)]);
    check(all(&[&record(1, 80), &record(2, 90)[..97]]), &[1], &[torn(88)]);
    check(all(&[&record(1, 80), &MAGIC, &200_000u32.to_le_bytes(), &record(2, 80)]), &[1, 2], &[skipped(88, 8)]);
}

#[test]
fn a_growing_folder_is_read_on() {
    let disk = folder(&[("blk00000.dat", record(1, 80)), ("rev00000.dat", record(7, 80)), ("index", vec![1; 200])]);
    let (mut files, mut progress) = (open(&disk), Progress::default());
    assert_eq!(scan(&mut files, &mut progress).0, [1]);
    // A record arrives in two steps.
    let two = [record(1, 80), record(2, 100)].concat();
    disk.put("/blocks/blk00000.dat", &two[..150]);
    let mut again = open(&disk);
    assert_eq!(scan(&mut again, &mut progress).0, []);
    disk.put("/blocks/blk00000.dat", &two);
    assert_eq!(scan(&mut open(&disk), &mut progress).0, [2]);
    // A file grows inside room that was there already, and another file comes.
    let room = |records: &[u8]| [records, &vec![0; 50_000 - records.len()]].concat();
    disk.put("/blocks/blk00001.dat", &room(&record(3, 80)));
    assert_eq!(scan(&mut open(&disk), &mut progress), (vec![3], vec![]));
    disk.put("/blocks/blk00001.dat", &room(&[record(3, 80), record(4, 300)].concat()));
    assert_eq!(scan(&mut open(&disk), &mut progress), (vec![4], vec![]));
    // After a restart only what the store knows is left.
    let (mut files, mut fresh) = (open(&disk), Progress::default());
    let mut positions = Vec::new();
    files.scan(&mut Progress::default(), &mut |found| positions.push(found.position)).expect("memory");
    positions[..3].iter().for_each(|position| fresh.seen(*position));
    assert_eq!(scan(&mut files, &mut fresh).0, [4]);
}

#[test]
fn the_key_is_taken_off_by_file_offset() {
    let key = [1, 2, 3, 4, 5, 6, 7, 0x80];
    let plain = [record(1, 83), record(2, 5001), vec![0; 1000], record(3, 700_001)].concat();
    let stored: Vec<u8> = plain.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key).collect();
    let disk = folder(&[("blk00000.dat", stored.clone()), ("xor.dat", key.to_vec())]);
    assert_eq!(scan(&mut open(&disk), &mut Progress::default()), (vec![1, 2, 3], vec![]));
    let disk = folder(&[("blk00000.dat", plain), ("xor.dat", vec![0; 8])]);
    assert_eq!(scan(&mut open(&disk), &mut Progress::default()), (vec![1, 2, 3], vec![]));
    let disk = folder(&[("blk00000.dat", stored), ("xor.dat", key[..7].to_vec())]);
    let refused = BlockFiles::open(disk, Path::new("/blocks"), MAGIC).err();
    assert!(matches!(refused, Some(BlockFilesError::BadKey { got_bytes: 7, .. })));
}

#[test]
fn a_file_of_another_network_is_named() {
    let mut main = record(1, 80);
    main[..4].copy_from_slice(&Params::of(Network::Main).magic);
    let disk = folder(&[("blk00000.dat", main.clone()), ("blk00001.dat", [main.clone(), record(2, 80)].concat())]);
    let (found, notes) = scan(&mut open(&disk), &mut Progress::default());
    assert_eq!(found, [2]);
    let path = Path::new("/blocks/blk00000.dat").to_path_buf();
    assert!(notes.contains(&Note::OtherNetwork { path, network: Network::Main }), "{notes:?}");
    assert_eq!(notes.iter().filter(|note| matches!(note, Note::OtherNetwork { .. })).count(), 1);
}

#[test]
fn files_are_known_by_their_names() {
    let refused = |disk: Arc<MemoryDisk>, path: &str| BlockFiles::open(disk, Path::new(path), MAGIC).err();
    assert!(matches!(refused(folder(&[("xor.dat", vec![0; 8])]), "/blocks"), Some(BlockFilesError::NoFiles { .. })));
    let same = folder(&[("blk1.dat", vec![]), ("blk00001.dat", vec![])]);
    assert!(matches!(refused(same, "/blocks"), Some(BlockFilesError::SameNumber { .. })));
    // One file is as good as a folder.
    let disk = folder(&[("a.blk", record(1, 80)), ("b.blk", record(2, 80))]);
    assert_eq!(open(&disk).paths().len(), 2);
    let mut one = BlockFiles::open(disk.clone(), Path::new("/blocks/a.blk"), MAGIC).expect("it is there");
    assert_eq!(scan(&mut one, &mut Progress::default()).0, [1]);
    // A number from a name stays when another file comes.
    let before: Vec<u32> = open(&disk).paths().keys().copied().collect();
    disk.put("/blocks/0.blk", &[]);
    assert!(before.iter().all(|number| open(&disk).paths().contains_key(number)));
}

#[test]
fn a_file_that_shrank_is_gone_and_not_misread() {
    let disk = folder(&[("blk00000.dat", [record(1, 80), record(2, 80)].concat())]);
    let mut files = open(&disk);
    let mut positions = Vec::new();
    files.scan(&mut Progress::default(), &mut |found| positions.push(found.position)).expect("memory");
    disk.put("/blocks/blk00000.dat", &record(1, 80));
    let files = open(&disk);
    assert!(files.read_block(positions[0]).is_ok());
    assert!(
        matches!(files.read_block(positions[1]), Err(BlockFilesError::Gone { position }) if position == positions[1])
    );
    let nowhere = Position { file: 9, offset: 8, size: 80 };
    assert!(matches!(files.read_block(nowhere), Err(BlockFilesError::Gone { position }) if position == nowhere));
}

#[test]
fn more_files_than_handles_can_be_read() {
    let disk = Arc::new(MemoryDisk::default());
    (0..100).for_each(|n| disk.put(&format!("/blocks/blk{n:05}.dat"), &record(n, 80)));
    let (found, notes) = scan(&mut open(&disk), &mut Progress::default());
    assert_eq!((found, notes), ((0..100).collect(), vec![]));
}

#[test]
fn a_real_run_of_mainnet_blocks_is_found_whole() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors/chains/mainnet_0_4521.blk");
    if !path.exists() {
        println!("skipped: {} is not there", path.display());
        return;
    }
    let disk = Arc::new(SystemDisk::default());
    let mut files = BlockFiles::open(disk, &path, Params::of(Network::Main).magic).expect("it is there");
    let (mut previous, mut count) = (None, 0);
    let mut chained = |found: Found| {
        let header = primitives::Header::decode(&found.header);
        assert!(previous.is_none_or(|previous| previous == header.previous));
        (previous, count) = (Some(header.hash()), count + 1);
    };
    assert_eq!(files.scan(&mut Progress::default(), &mut chained).expect("it can be read"), []);
    assert_eq!(count, 4522);
}
