//! A forged chain, the book of what it holds, and the folder of block files that a node reads.
//!
//! In:     a seed and a size.
//! Out:    blocks one after the other, each entered in the book; files as Bitcoin Core writes them.
//! Fails:  panics; everything is in our hands.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use primitives::{Block, Network, Params};
use sim::book::Book;
use sim::forge::{Forge, ForgeOptions};
use stdx::pool::Pool;

/// A folder below the system's temporary one, removed when the test passes.
pub struct Folder(pub PathBuf);

impl Folder {
    /// A fresh one.
    pub fn new(name: &str) -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("assay-it-{name}-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path); // of an earlier process with our number
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// A path in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// A chain that grows, with its book.
#[derive(Clone)]
pub struct World {
    forge: Forge,
    pub book: Book,
}

fn pool() -> Pool {
    Pool::new("forge", 1)
}

impl World {
    /// A chain of `blocks` blocks that spends `inputs` inputs.
    pub fn new(seed: u64, blocks: u32, inputs: u64) -> World {
        let options = ForgeOptions { seed, blocks, inputs, ..ForgeOptions::default() };
        let forge = Forge::new(&options, &pool()).unwrap();
        let genesis = Block::parse(Params::of(Network::Regtest).genesis_block()).unwrap();
        let mut world = World { forge, book: Book::new(genesis) };
        for _ in 0..blocks {
            world.grow();
        }
        world
    }

    /// The next block's bytes.
    pub fn grow(&mut self) -> Vec<u8> {
        let block = self.forge.extend(&pool());
        self.book.connect(Block::parse(block.bytes.clone()).unwrap());
        block.bytes
    }

    /// The other side of a fork begins here.
    pub fn fork(&self, seed: u64) -> World {
        let mut other = self.clone();
        other.forge.diverge(seed);
        other
    }

    /// All blocks' bytes, the genesis block first.
    pub fn blocks(&self) -> impl DoubleEndedIterator<Item = Vec<u8>> + '_ {
        (0..=self.book.height()).map(|height| self.book.block(height).bytes().to_vec())
    }
}

/// A `blocks/` folder.
pub struct BlockFolder {
    pub path: PathBuf,
    key: [u8; 8],
}

impl BlockFolder {
    /// An empty one; with a key that is not zero, files are XORed with it.
    pub fn new(path: PathBuf, key: [u8; 8]) -> BlockFolder {
        fs::create_dir_all(&path).unwrap();
        if key != [0; 8] {
            fs::write(path.join("xor.dat"), key).unwrap();
        }
        BlockFolder { path, key }
    }

    /// The path of a file.
    pub fn file(&self, number: u32) -> PathBuf {
        self.path.join(format!("blk{number:05}.dat"))
    }

    /// Appends bytes to a file under the key.
    pub fn append_raw(&self, number: u32, bytes: &[u8]) {
        let path = self.file(number);
        let start = fs::metadata(&path).map_or(0, |data| data.len()) as usize;
        let hidden: Vec<u8> =
            bytes.iter().enumerate().map(|(index, byte)| byte ^ self.key[(start + index) % 8]).collect();
        fs::OpenOptions::new().create(true).append(true).open(&path).unwrap().write_all(&hidden).unwrap();
    }

    /// Appends a block's record to a file.
    pub fn append(&self, number: u32, block: &[u8]) {
        self.append_raw(number, &record(Network::Regtest, block));
    }
}

/// A block as block files hold it: magic, length, block.
pub fn record(network: Network, block: &[u8]) -> Vec<u8> {
    [&Params::of(network).magic[..], &(block.len() as u32).to_le_bytes(), block].concat()
}

/// Turns one bit of a file over.
pub fn flip_bit(path: &Path, offset: u64) {
    let mut bytes = fs::read(path).unwrap();
    bytes[offset as usize] ^= 1;
    fs::write(path, bytes).unwrap();
}
