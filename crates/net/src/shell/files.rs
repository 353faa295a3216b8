//! The files of the shell: addresses, anchors, bans.
//!
//! In:     a folder.
//! Out:    what they say, and lines for the log about those that cannot be used.
//! Fails:  writing fails with the system's error; reading never: what cannot be read is begun anew.
//!
//! A file is written beside its name, synced and renamed, so that a crash leaves the old one or the new one.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use crate::addresses::{Bans, Book, decode_anchors, encode_anchors};
use crate::entropy::Entropy;
use crate::hosts::Groups;
use crate::wire::PeerAddress;

const BOOK: &str = "peers.dat";
const ANCHORS: &str = "anchors.dat";
const BANS: &str = "bans.txt";

/// What the files said.
pub struct Files {
    pub book: Book,
    pub anchors: Vec<PeerAddress>,
    pub bans: Bans,
    /// Lines about files that were not used.
    pub remarks: Vec<String>,
}

/// Reads the files; anchors are used once, so a crash caused by one does not come back.
pub fn read(directory: Option<&Path>, magic: [u8; 4], groups: &Groups, now_s: u64, entropy: &mut dyn Entropy) -> Files {
    let book = Book::grouped(groups.clone(), entropy);
    let mut files = Files { book, anchors: Vec::new(), bans: Bans::default(), remarks: Vec::new() };
    let Some(directory) = directory else { return files };
    if let Err(error) = fs::create_dir_all(directory) {
        files.remarks.push(format!("{} cannot be made: {error}", directory.display()));
    }
    let content = |name: &str| fs::read(directory.join(name)).ok();
    if let Some(bytes) = content(BOOK) {
        match Book::decode(&bytes, magic, groups.clone(), now_s) {
            Ok(book) => files.book = book,
            Err(error) => files.remarks.push(format!("{BOOK} is begun anew: {error}")),
        }
    }
    if let Some(bytes) = content(ANCHORS) {
        match decode_anchors(&bytes, magic) {
            Ok(anchors) => files.anchors = anchors,
            Err(error) => files.remarks.push(format!("{ANCHORS} is not used: {error}")),
        }
        if let Err(error) = fs::remove_file(directory.join(ANCHORS)) {
            files.remarks.push(format!("{ANCHORS} cannot be removed: {error}"));
        }
    }
    if let Some(bytes) = content(BANS) {
        match String::from_utf8(bytes).map_err(|_| 1).and_then(|text| Bans::from_text(&text)) {
            Ok(bans) => files.bans = bans,
            Err(line) => files.remarks.push(format!("{BANS} is begun anew: line {line}")),
        }
    }
    files
}

/// Writes addresses and bans.
pub fn write(directory: &Path, book: &[u8], bans: &str) -> io::Result<()> {
    replace(directory, BOOK, book)?;
    replace(directory, BANS, bans.as_bytes())
}

/// Writes the bans alone: what the user decides is not lost with the next crash.
pub fn write_bans(directory: &Path, bans: &str) -> io::Result<()> {
    replace(directory, BANS, bans.as_bytes())
}

/// Writes a key for nobody else's eyes.
pub fn write_secret(path: &Path, key: &[u8]) -> io::Result<()> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(key)?;
    file.sync_all()
}

/// Writes the anchors, at a clean stop.
pub fn write_anchors(directory: &Path, magic: [u8; 4], anchors: &[PeerAddress]) -> io::Result<()> {
    replace(directory, ANCHORS, &encode_anchors(anchors, magic))
}

fn replace(directory: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let beside = directory.join(format!("{name}.new"));
    let mut file = File::create(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(beside, directory.join(name))
}
