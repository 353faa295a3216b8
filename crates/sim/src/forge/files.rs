//! Writing a forged chain as Bitcoin Core's block files.
//!
//! In:     options, a disk, a folder.
//! Out:    `blk00000.dat` and on: records of magic, length, block; `xor.dat` where a key is set; `scripts.json`, `scripts.txt`, `wallet.txt`
//!         where there are scripts with an exact history ([`lists`]).
//! Fails:  with the disk's error.
//! Source: Core's `BlockManager::WriteBlock` and `XorBlockFile` (byte `i` of a file under byte `i % 8` of the key).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use primitives::{Network, Params, address};
use stdx::disk::{Disk, DiskFile, Open};
use stdx::hex;
use stdx::pool::Pool;
use stdx::random::Random;

use super::{Forge, ForgeError, ForgeOptions, Report, ScriptHistory, stream};

/// Bytes gathered before they are written.
const WRITE_BYTES: usize = 4 << 20;

/// The name of block file `number`.
pub fn file_name(number: u32) -> String {
    format!("blk{number:05}.dat")
}

/// Blocks into files of a bounded length.
pub struct Writer<'a> {
    disk: &'a dyn Disk,
    folder: PathBuf,
    magic: [u8; 4],
    xor_key: [u8; 8],
    file_bytes_max: u64,
    shuffle: Random,
    shuffle_blocks: usize,
    held: Vec<Vec<u8>>,
    file: Option<Arc<dyn DiskFile>>,
    files: u32,
    /// Bytes of the current file that are on the disk, and those still gathered.
    written: u64,
    buffer: Vec<u8>,
}

impl<'a> Writer<'a> {
    /// Starts at `blk00000.dat`.
    pub fn new(disk: &'a dyn Disk, folder: &Path, options: &ForgeOptions) -> Result<Writer<'a>, ForgeError> {
        disk.create_dir(folder)?;
        if let Some(key) = options.xor_key {
            let file = disk.open(&folder.join("xor.dat"), Open::Truncate)?;
            file.write_all_at(&key, 0)?;
            file.sync()?;
        }
        Ok(Writer {
            disk,
            folder: folder.to_owned(),
            magic: Params::of(Network::Regtest).magic,
            xor_key: options.xor_key.unwrap_or_default(),
            file_bytes_max: options.file_bytes_max,
            shuffle: stream(options.seed, 0x7368_7566),
            shuffle_blocks: options.shuffle_blocks,
            held: Vec::new(),
            file: None,
            files: 0,
            written: 0,
            buffer: Vec::new(),
        })
    }

    /// Takes a block.
    pub fn push(&mut self, block: Vec<u8>) -> Result<(), ForgeError> {
        self.held.push(block);
        if self.held.len() >= self.shuffle_blocks { self.write_held() } else { Ok(()) }
    }

    /// Writes what is left; the number of files.
    pub fn finish(mut self) -> Result<u32, ForgeError> {
        self.write_held()?;
        self.flush()?;
        self.close()?;
        self.disk.sync_dir(&self.folder)?;
        Ok(self.files)
    }

    fn write_held(&mut self) -> Result<(), ForgeError> {
        let mut blocks = std::mem::take(&mut self.held);
        self.shuffle.shuffle(&mut blocks);
        for block in blocks {
            self.append(&block)?;
        }
        Ok(())
    }

    fn append(&mut self, block: &[u8]) -> Result<(), ForgeError> {
        let end = self.written + (self.buffer.len() + 8 + block.len()) as u64;
        if self.file.is_none() || end > self.file_bytes_max {
            self.flush()?;
            self.close()?;
            let path = self.folder.join(file_name(self.files));
            self.file = Some(self.disk.open(&path, Open::Truncate)?);
            self.files += 1;
            self.written = 0;
        }
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&self.magic);
        self.buffer.extend_from_slice(&(block.len() as u32).to_le_bytes());
        self.buffer.extend_from_slice(block);
        if self.xor_key != [0; 8] {
            let at = self.written as usize + start;
            for (index, byte) in self.buffer[start..].iter_mut().enumerate() {
                *byte ^= self.xor_key[(at + index) % 8];
            }
        }
        if self.buffer.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), ForgeError> {
        if let Some(file) = &self.file {
            file.write_all_at(&self.buffer, self.written)?;
        }
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn close(&mut self) -> Result<(), ForgeError> {
        if let Some(file) = self.file.take() {
            file.sync()?;
        }
        Ok(())
    }
}

/// Forges a whole chain into `folder`; `progress` hears after every block.
pub fn forge_to(
    disk: &dyn Disk,
    folder: &Path,
    options: &ForgeOptions,
    pool: &Pool,
    progress: &mut dyn FnMut(&Report),
) -> Result<Report, ForgeError> {
    let mut forge = Forge::new(options, pool)?;
    let mut writer = Writer::new(disk, folder, options)?;
    writer.push(Params::of(Network::Regtest).genesis_block())?;
    while let Some(block) = forge.next_block(pool) {
        writer.push(block.bytes)?;
        progress(forge.report());
    }
    let mut report = forge.report().clone();
    report.files = writer.finish()?;
    for (name, text) in lists(options, &report) {
        let file = disk.open(&folder.join(name), Open::Truncate)?;
        file.write_all_at(text.as_bytes(), 0)?;
        file.sync()?;
    }
    Ok(report)
}

/// Name and text of the lists of scripts with an exact history; none where there are none: `scripts.json` with all of them;
/// `scripts.txt` with those of no wallet, and `wallet.txt` (the second wallet's is `wallet-2.txt`), a line each: script,
/// entries, unspent, first height, last height.
pub fn lists(options: &ForgeOptions, report: &Report) -> Vec<(String, String)> {
    if report.special.is_empty() {
        return Vec::new();
    }
    let mut files = vec![("scripts.json".to_owned(), as_json(options, report))];
    let wallets = report.special.iter().map(|history| history.wallet).max().unwrap_or(0);
    for wallet in 0..=wallets {
        let members: Vec<&ScriptHistory> = report.special.iter().filter(|history| history.wallet == wallet).collect();
        let name = match wallet {
            0 => "scripts.txt".to_owned(),
            1 => "wallet.txt".to_owned(),
            more => format!("wallet-{more}.txt"),
        };
        if !members.is_empty() {
            files.push((name, as_lines(&members)));
        }
    }
    files
}

fn as_lines(members: &[&ScriptHistory]) -> String {
    let mut text = String::from("# script entries unspent first_height last_height\n");
    for history in members {
        let ScriptHistory { script, entries, unspent, first_height, last_height, .. } = history;
        text.push_str(&format!("{} {entries} {unspent} {first_height} {last_height}\n", hex::encode(script)));
    }
    text
}

/// Only numbers, hexadecimal digits and our own words: nothing in it needs escaping.
fn as_json(options: &ForgeOptions, report: &Report) -> String {
    let params = Params::of(Network::Regtest);
    let row = |history: &ScriptHistory| {
        let ScriptHistory { script, kind, wallet, entries, unspent, first_height, last_height } = history;
        let address = address::of_script(script, &params).map_or("null".to_owned(), |text| format!("\"{text}\""));
        format!(
            "  {{\"script\": \"{}\", \"address\": {address}, \"kind\": \"{kind:?}\", \"wallet\": {wallet}, \
             \"entries\": {entries}, \"unspent\": {unspent}, \"first_height\": {first_height}, \"last_height\": {last_height}}}",
            hex::encode(script)
        )
    };
    let rows: Vec<String> = report.special.iter().map(row).collect();
    format!(
        "{{\n \"chain\": \"regtest\", \"seed\": {}, \"mix\": \"{}\", \"height\": {}, \"tip\": \"{}\",\n \"scripts\": [\n{}\n ]\n}}\n",
        options.seed,
        options.mix.name(),
        report.height,
        report.tip,
        rows.join(",\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forge::Kind;

    #[test]
    fn lists_say_what_became_of_each_script() {
        let history = |wallet, byte: u8| ScriptHistory {
            script: [&[0, 20][..], &[byte; 20]].concat(),
            kind: Kind::P2wpkh,
            wallet,
            entries: 3,
            unspent: 1,
            first_height: 101,
            last_height: 110,
        };
        let options = ForgeOptions::default();
        let mut report = Report::default();
        assert!(lists(&options, &report).is_empty());
        report.special = vec![history(0, 1), history(1, 2), history(2, 3)];
        let files = lists(&options, &report);
        let names: Vec<&str> = files.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["scripts.json", "scripts.txt", "wallet.txt", "wallet-2.txt"]);
        let line = format!("0014{} 3 1 101 110", "02".repeat(20));
        assert_eq!(files[2].1, format!("# script entries unspent first_height last_height\n{line}\n"));
        let json = &files[0].1;
        assert_eq!(json.matches("\"kind\": \"P2wpkh\", \"wallet\": 2, \"entries\": 3").count(), 1, "{json}");
        assert_eq!(json.matches("\"address\": \"bcrt1q").count(), 3, "{json}");
    }
}
