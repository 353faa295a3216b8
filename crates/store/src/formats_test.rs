//! Holds docs/formats.md to the code: every table of the page against encoded samples.
//!
//! In:     the page, and one sample of each format with the bytes each field should have.
//! Out:    the same fields, in the same order, at the same places.
//! Fails:  naming the format and the field.

use primitives::{BlockHash, Network, OutPoint, Params, Txid};

use crate::Fact;
use crate::blockfiles::{Found, Position};
use crate::columns::{ColumnName, PAGE_BYTES};
use crate::commit::{COMMIT_HEAD_BYTES, COMMIT_VERSION, CommitRecord};
use crate::entries::{self, BlockEntry, FilterEntry, TxEntry};
use crate::hints::{self, HINT_BYTES_MAX, HINTS_VERSION, Place};
use crate::segment::{CoinRow, SEGMENT_VERSION, Section, SectionWriter, SegmentWriter, key_of, segment_path};
use crate::tests::MemoryDisk;
use crate::{Op, Row, Table, Tip};

const PAGE: &str = include_str!("../../../docs/formats.md");

/// Bytes and name of each field in the first table with byte ranges below the heading.
fn fields_of(format: &str) -> Vec<(std::ops::Range<usize>, String)> {
    let heading = format!("\n## {format}\n");
    let start = PAGE.find(&heading).unwrap_or_else(|| panic!("no heading {format:?}")) + heading.len();
    let section = PAGE[start..].split("\n## ").next().expect("split gives one at least");
    let field = |line: &str| {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let (from, to) = cells.next()?.split_once("..")?;
        let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
        Some((from.parse().ok()?..to.parse().ok()?, name.to_string()))
    };
    section.lines().filter_map(field).collect()
}

#[track_caller]
fn check(format: &str, bytes: &[u8], want: &[(&str, &[u8])]) {
    let fields = fields_of(format);
    let names: Vec<&str> = fields.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, want.iter().map(|(name, _)| *name).collect::<Vec<_>>(), "{format}");
    let mut end = 0;
    for ((range, name), (_, value)) in fields.into_iter().zip(want) {
        assert_eq!(range.start, end, "{format}: {name} begins where the field before ends");
        assert_eq!(&bytes[range.clone()], *value, "{format}: {name}");
        end = range.end;
    }
    assert_eq!(end, bytes.len(), "{format} ends with its last field");
}

#[test]
fn commit_records_are_as_written() {
    let record = CommitRecord {
        sequence: 0x1112,
        tip: Some(Tip { height: 0x2122, hash: BlockHash([3; 32]), chainwork: [4; 32] }),
        txo_count: 0x5152,
        segment_next: 0x6162,
        ..CommitRecord::empty(&Params::of(Network::Regtest), [7; 16])
    };
    let bytes = record.encode();
    let genesis = Params::of(Network::Regtest).genesis_hash.0;
    let fields: [(&str, &[u8]); 13] = [
        ("magic", b"ASSAYCMT"),
        ("version", &[1, 0, 0, 0]),
        ("length", &[164 + 4 * 8 + 8, 0, 0, 0]),
        ("sequence", &[0x12, 0x11, 0, 0, 0, 0, 0, 0]),
        ("network", &[0xfa, 0xbf, 0xb5, 0xda]),
        ("genesis", &genesis),
        ("tag_key", &[7; 16]),
        ("blocks", &[0x23, 0x21, 0, 0]),
        ("tip_hash", &[3; 32]),
        ("chainwork", &[4; 32]),
        ("txos", &[0x52, 0x51, 0, 0, 0, 0, 0, 0]),
        ("segment_next", &[0x62, 0x61, 0, 0, 0, 0, 0, 0]),
        ("segments", &[0; 4]),
    ];
    check("commit", &bytes[..COMMIT_HEAD_BYTES], &fields);
    assert_eq!(CommitRecord::decode(&bytes, "commit.0".as_ref()).expect("own bytes"), record);
    let version = format!(
        "Format version of everything: **{SEGMENT_VERSION}**, of a commit record that names block filters: **{COMMIT_VERSION}**"
    );
    assert!(PAGE.contains(&version));
    let mut with_filters = record;
    with_filters.columns[ColumnName::Filters as usize] = (1, vec![5; 70]);
    let bytes = with_filters.encode();
    assert_eq!((bytes[8], bytes.len()), (2, 164 + 5 * 8 + 70 + 8));
    assert_eq!(CommitRecord::decode(&bytes, "commit.0".as_ref()).expect("own bytes"), with_filters);
}

#[test]
fn entries_are_as_written() {
    let position = Position { file: 0x0102, offset: 0x0304, size: 0x0506 };
    let block = BlockEntry { position, first_tx_num: 0x0708, first_txo_num: 0x09_0a0b_0c0d };
    let (file, offset, size): (&[u8], &[u8], &[u8]) = (&[2, 1, 0, 0], &[4, 3, 0, 0], &[6, 5, 0, 0]);
    let place = [("file", file), ("offset", offset), ("size", size)];
    let ordinals: [(&str, &[u8]); 2] = [("first_tx_num", &[8, 7, 0, 0]), ("first_txo_num", &[0xd, 0xc, 0xb, 0xa, 9])];
    check("blocks entry", &block.encode(), &[&place[..], &ordinals[..]].concat());
    let tx = TxEntry { offset: 0x010203, first_output: 0x040506 };
    check("txs entry", &tx.encode(), &[("offset", &[3, 2, 1]), ("first_output", &[6, 5, 4])]);
    let found = Fact::Block(Found { header: [8; 80], position });
    check("found entry", &entries::encode_fact(&found), &[&[("header", &[8u8; 80][..])], &place[..]].concat());
    let filter = FilterEntry { hash: [6; 32], header: [7; 32], end: 0x0102_0304_0506 };
    let end: &[u8] = &[6, 5, 4, 3, 2, 1];
    check("filters entry", &filter.encode(), &[("hash", &[6; 32][..]), ("header", &[7; 32]), ("end", end)]);
    for name in ColumnName::ALL {
        let column = name.file_name().strip_suffix(".col").expect("their ending");
        let line = format!("| `{column}` | {} | {} |", name.width(), name.entries_per_page());
        assert!(PAGE.contains(&line), "{line}");
        assert!(PAGE.contains(&format!("columns/{}", name.file_name())));
    }
    let page = fields_of("column page");
    assert_eq!(page.last().map(|(range, _)| range.end), Some(PAGE_BYTES));
}

#[test]
fn hints_are_as_written() {
    let head = hints::encode_head(&Params::of(Network::Regtest));
    let network: &[u8] = &[0xfa, 0xbf, 0xb5, 0xda];
    check("hints head", &head, &[("magic", b"ASSAYHNT"), ("version", &[1, 0, 0, 0]), ("network", network)]);
    let place = Place { offset: 0x01_0203_0405, bytes: 0x06_0708 };
    check("hints place", &place.encode(), &[("offset", &[5, 4, 3, 2, 1]), ("bytes", &[8, 7, 6])]);
    let mut record = Vec::new();
    hints::encode_record(&mut record, 99, &BlockHash([9; 32]), place.encode(), b"abc");
    let (hash, sum) = ([9; 32], record[43..].to_vec());
    let previous = place.encode();
    let fields = [("hash", &hash[..]), ("previous", &previous), ("hints", b"abc"), ("checksum", &sum)];
    check("hints record", &record, &fields);
    assert_eq!(HINTS_VERSION, SEGMENT_VERSION, "format version of everything");
    assert!(PAGE.contains("524,288 bytes at most") && HINT_BYTES_MAX == 524_288);
}

/// A segment of one coin and one row in each table, as its file's bytes.
fn sample_segment() -> Vec<u8> {
    let disk = std::sync::Arc::new(MemoryDisk::default());
    let mut writer = SegmentWriter::create(disk.clone(), "/".as_ref(), 0x0a0b).expect("memory");
    for section in Section::ALL {
        let mut out = SectionWriter::new(0x0a0b, section, 1);
        match section {
            Section::Coins => {
                let key = key_of(&OutPoint { txid: Txid([9; 32]), vout: 0x0102 });
                out.push_coin(&CoinRow { key, op: Op::Delete, body: &[] });
            }
            Section::Rows(Table::Spender) => {
                out.push_row(Row { hi: 0x0304, lo: 0, value: 0x0506, op: Op::Put });
                out.push_row(Row { hi: 0x0306, lo: 0, value: 0x0586, op: Op::Replace });
            }
            Section::Rows(_) => out.push_row(Row { hi: 0x0304, lo: 0x0506, value: 0, op: Op::Put }),
        }
        writer.end_section(out).expect("memory");
    }
    writer.finish().expect("memory");
    disk.bytes(&segment_path("/".as_ref(), 0x0a0b))
}

fn number(bytes: &[u8], at: usize) -> usize {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes")) as usize
}

#[test]
fn segments_are_as_written() {
    let file = sample_segment();
    let id: &[u8] = &[0x0b, 0x0a, 0, 0, 0, 0, 0, 0];
    check("segment head", &file[..20], &[("magic", b"ASSAYSEG"), ("version", &[1, 0, 0, 0]), ("id", id)]);
    let footer = &file[file.len() - 5 * 72 - 8..file.len() - 8];
    let names = fields_of("footer section");
    let mut start = 20;
    for (section, bytes) in footer.chunks(72).enumerate() {
        let field = |name: &str| {
            let (range, _) = names.iter().find(|(_, other)| other == name).expect("a field of the page");
            number(bytes, range.start)
        };
        assert_eq!((field("section"), field("start")), (section, start));
        assert_eq!((field("rows"), field("reserved")), (1 + usize::from(section == 4), 0));
        assert_eq!(field("top_bytes"), if section == 0 { 45 } else { 22 });
        assert_eq!(field("filter_bytes"), if section == 0 { 64 } else { 0 });
        let top_at = start + field("data_bytes");
        let top = &file[top_at..top_at + field("top_bytes")];
        check_fences(section, &file[start..top_at], top);
        start = top_at + field("top_bytes") + field("filter_bytes");
    }
    assert_eq!(start, file.len() - 5 * 72 - 8);
}

/// The only fence of the top names the only index block, whose only fence names the only data block.
fn check_fences(section: usize, blocks: &[u8], top: &[u8]) {
    let fence_bytes = top.len();
    let data_bytes = blocks.len() - fence_bytes - 8;
    let index = &blocks[data_bytes..data_bytes + fence_bytes];
    for (fence, offset, length) in [(index, 0, data_bytes), (top, data_bytes, fence_bytes + 8)] {
        let (offset, length) = ([offset as u8, 0, 0, 0, 0, 0], [length as u8, 0, 0]);
        let lo: &[u8] = if section == 4 { &[0; 5] } else { &[0, 0, 0, 5, 6] };
        match section {
            0 => {
                let key: [(&str, &[u8]); 2] = [("txid", &[9; 32]), ("vout", &[0, 0, 1, 2])];
                check("coins fence", fence, &[&key[..], &[("offset", &offset[..]), ("length", &length)]].concat());
            }
            _ => {
                let key = [("hi", &[0, 0, 0, 0, 0, 0, 3, 4][..]), ("lo", lo)];
                check("rows fence", fence, &[&key[..], &[("offset", &offset[..]), ("length", &length)]].concat());
            }
        }
    }
    if section == 4 {
        let fields: [(&str, &[u8]); 9] = [
            ("rows", &[2, 0]),
            ("flags", &[1]),
            ("hi_bits", &[0]),
            ("lo_bits", &[0]),
            ("step_bits", &[0]),
            ("value_bits", &[8]),
            ("hi_first", &[4, 3, 0, 0, 0, 0, 0, 0]),
            ("lo_base", &[0; 5]),
            ("value_base", &[6, 5, 0, 0, 0, 0, 0, 0]),
        ];
        check("rows block", &blocks[..28], &fields);
        // put (00), value 0 (eight bits); replace (10), a step of one (01), value 0x80.
        assert_eq!(blocks[28..data_bytes - 8], [0b0000_0000, 0b0000_0100 | 0b10_0000, 0b0010_0000][..]);
    }
}
