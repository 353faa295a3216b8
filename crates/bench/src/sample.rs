//! Folders that are removed afterwards, and the sample chain a bench forges where it is given none.
//!
//! In:     options.
//! Out:    a folder of block files, warm in the page cache.
//! Fails:  with the forge's or the disk's error.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use primitives::{Network, Params};
use sim::forge::files::Writer;
use sim::forge::{Forge, ForgeOptions, ForgedBlock, ScriptHistory, SpecialScript};
use stdx::disk::SystemDisk;
use stdx::pool::Pool;

use crate::arguments::SourceOptions;
use crate::{BenchError, at, machine};

/// Inputs the forge puts into one block at most, by room and with a margin.
const FORGE_INPUTS_PER_BLOCK: u64 = 3_000;

/// A folder of its own, removed when dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes `assay-bench-<process>-<name>` in `parent`.
    pub fn new(parent: &Path, name: &str) -> Result<Scratch, BenchError> {
        let path = parent.join(format!("assay-bench-{}-{name}", std::process::id()));
        if path.exists() {
            fs::remove_dir_all(&path).map_err(at(&path))?;
        }
        fs::create_dir_all(&path).map_err(at(&path))?;
        Ok(Scratch(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Leaving files in a temporary folder is no reason to lose a result.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A chain's block files, given or forged.
pub struct Blocks {
    folder: PathBuf,
    /// Height of the last one, where it was forged here.
    height: Option<u64>,
    _forged: Option<Scratch>,
}

impl Blocks {
    /// The files that the options name, or a sample chain; read once, so that nobody measures the first read.
    pub fn of(options: &SourceOptions) -> Result<Blocks, BenchError> {
        let blocks = match &options.blocks_from {
            Some(folder) => Blocks { folder: folder.clone(), height: None, _forged: None },
            None => Blocks::forge(&options.scratch, options.forge_inputs, Vec::new())?.0,
        };
        for file in blocks.files()? {
            io::copy(&mut File::open(&file).map_err(at(&file))?, &mut io::sink()).map_err(at(&file))?;
        }
        Ok(blocks)
    }

    /// The files that the options name, or a sample chain that signals what is to be active, for nodes of all kinds.
    pub fn signalling(options: &SourceOptions) -> Result<Blocks, BenchError> {
        match options.blocks_from {
            Some(_) => Blocks::of(options),
            None => {
                let blocks = sim::forge::ACTIVE_HEIGHT + 20 + (options.forge_inputs / FORGE_INPUTS_PER_BLOCK) as u32;
                let forge =
                    ForgeOptions { blocks, inputs: options.forge_inputs, signals: true, ..ForgeOptions::default() };
                Ok(Blocks::forge_with(&options.scratch, &forge)?.0)
            }
        }
    }

    /// Forges a chain; returns the output scripts of `special`, in order.
    pub fn forge(
        scratch: &Path,
        inputs: u64,
        special: Vec<SpecialScript>,
    ) -> Result<(Blocks, Vec<Vec<u8>>), BenchError> {
        let entries: u64 = special.iter().map(|script| u64::from(script.entries)).sum();
        let blocks = 120 + inputs / FORGE_INPUTS_PER_BLOCK + entries / 1_000;
        Blocks::forge_with(scratch, &ForgeOptions { blocks: blocks as u32, inputs, special, ..ForgeOptions::default() })
    }

    fn forge_with(scratch: &Path, options: &ForgeOptions) -> Result<(Blocks, Vec<Vec<u8>>), BenchError> {
        let folder = Scratch::new(scratch, "blocks")?;
        let ForgeOptions { blocks, inputs, .. } = options;
        eprintln!("forging {blocks} blocks with {inputs} inputs in {}", folder.path().display());
        let pool = Pool::new("forge", machine::cores());
        let report = sim::forge::forge_to(&SystemDisk::default(), folder.path(), options, &pool, &mut |_| {})?;
        Ok((
            Blocks { folder: folder.path().to_owned(), height: Some(report.height.into()), _forged: Some(folder) },
            report.special.into_iter().map(|history| history.script).collect(),
        ))
    }

    /// Forges a chain and `held` blocks more, which come back beside its files; and what became of `special`.
    pub fn forge_ahead(
        scratch: &Path,
        options: &ForgeOptions,
        held: usize,
    ) -> Result<(Blocks, Vec<ForgedBlock>, Vec<ScriptHistory>), BenchError> {
        let folder = Scratch::new(scratch, "blocks")?;
        eprintln!("forging {} blocks in {}", options.blocks, folder.path().display());
        let pool = Pool::new("forge", machine::cores());
        let disk = SystemDisk::default();
        let mut writer = Writer::new(&disk, folder.path(), options)?;
        writer.push(Params::of(Network::Regtest).genesis_block())?;
        let mut forge = Forge::new(options, &pool)?;
        while let Some(block) = forge.next_block(&pool) {
            writer.push(block.bytes)?;
        }
        writer.finish()?;
        let (height, special) = (forge.report().height.into(), forge.report().special.clone());
        let ahead = (0..held).map(|_| forge.extend(&pool)).collect();
        Ok((Blocks { folder: folder.path().to_owned(), height: Some(height), _forged: Some(folder) }, ahead, special))
    }

    /// Files of these blocks of a regtest chain, the genesis block first.
    pub fn of_bytes(scratch: &Path, blocks: Vec<Vec<u8>>) -> Result<Blocks, BenchError> {
        let folder = Scratch::new(scratch, "blocks")?;
        let height = blocks.len() as u64 - 1;
        let disk = SystemDisk::default();
        let mut writer = Writer::new(&disk, folder.path(), &ForgeOptions::default())?;
        for block in blocks {
            writer.push(block)?;
        }
        writer.finish()?;
        Ok(Blocks { folder: folder.path().to_owned(), height: Some(height), _forged: Some(folder) })
    }

    /// Where they are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// `blk*.dat` and `xor.dat`, sorted.
    pub fn files(&self) -> Result<Vec<PathBuf>, BenchError> {
        let entries = fs::read_dir(&self.folder).map_err(at(&self.folder))?;
        let is_block_file = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name == "xor.dat" || (name.starts_with("blk") && name.ends_with(".dat"))
        };
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_block_file).collect();
        files.sort();
        if files.is_empty() {
            return Err(BenchError::Usage(format!("--blocks-from {}: no blk*.dat in it", self.folder.display())));
        }
        Ok(files)
    }

    /// Height of the last one of a forged chain.
    pub fn height(&self) -> Result<u64, BenchError> {
        self.height.ok_or_else(|| BenchError::Usage("the height of given block files is not known".to_owned()))
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> Result<u64, BenchError> {
        self.files()?.iter().map(|file| Ok(fs::metadata(file).map_err(at(file))?.len())).sum()
    }

    /// Copies them, and puts one more block of a forged chain behind them.
    pub fn copy_with(&self, block: &[u8], folder: &Path) -> Result<(), BenchError> {
        self.copy_to(folder)?;
        let path = folder.join(sim::forge::files::file_name(self.files()?.len() as u32));
        let length = (block.len() as u32).to_le_bytes();
        let record = [&Params::of(Network::Regtest).magic[..], &length[..], block].concat();
        fs::write(&path, record).map_err(at(&path))
    }

    /// Copies them: a program that truncates its block files when it closes them must not touch the originals.
    pub fn copy_to(&self, folder: &Path) -> Result<(), BenchError> {
        fs::create_dir_all(folder).map_err(at(folder))?;
        for file in self.files()? {
            let copy = folder.join(file.file_name().expect("a file has a name"));
            fs::copy(&file, &copy).map_err(at(&copy))?;
        }
        Ok(())
    }
}
