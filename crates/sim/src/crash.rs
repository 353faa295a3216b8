//! A node that loses its disk at any moment, and comes back.
//!
//! In:     a [`Story`] (blocks that arrive step by step, with reorganisations), faults, a seed.
//! Out:    [`Outcome`]: how often it fell, and that each time it stood up with a state that some prefix of the story has,
//!         and ended with the same coins and index as a control that never fell.
//! Fails:  with a sentence; the story's seed, the faults and the seed repeat it.
//!
//! Block files are on a disk of their own that never fails: they are Bitcoin Core's. Faults strike the data directory:
//! the first commit, segments, columns, merges, the commit record, removals, truncations, hints of earlier validations.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chain::{Chain, ChainError, Digest, Handle, HintsUse, Options, World};
use primitives::{Block, BlockHash, Network, Params};
use stdx::clock::Clock;
use stdx::disk::{Disk, DiskFile, Open};
use stdx::pool::Pool;

use crate::book::Book;
use crate::compare;
use crate::disk::{FakeDisk, Fault, Operation};
use crate::forge::{Forge, ForgeOptions, ForgedBlock};
use crate::learner::Learner;

/// Where the story's block files are.
const BLOCKS: &str = "/blocks";
/// Where the node keeps its own.
const DATA: &str = "/data";
/// Where it keeps hints.
const HINTS: &str = "/hints";
/// Times a run may fall before it counts as stuck: faults strike once each, and a full disk is emptied once.
const FALLS_MAX: u32 = 8;
/// One in so many seeds asks every question at the end: half a second. The digest of coins and rows is always compared.
const FULL_CHECK_EVERY: u64 = 5;

/// One disk for block files, and one for the node's own.
struct TwoDisks {
    blocks: FakeDisk,
    data: FakeDisk,
}

impl TwoDisks {
    fn of(&self, path: &Path) -> &FakeDisk {
        if path.starts_with(BLOCKS) { &self.blocks } else { &self.data }
    }
}

impl Disk for TwoDisks {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        self.of(path).open(path, how)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.of(from).rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.of(path).remove(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.of(path).create_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.of(path).sync_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.of(path).list(path)
    }
}

/// A clock that stands still but for a millisecond at each look.
#[derive(Default)]
pub(crate) struct StillClock(AtomicU64);

impl Clock for StillClock {
    fn unix_s(&self) -> u64 {
        2_000_000_000
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// Blocks that arrive in steps, and what a node must know at the end.
pub struct Story {
    /// Bytes appended to the block file at each step.
    steps: Vec<Vec<u8>>,
    /// Every block of every branch, genesis left out.
    pub(crate) blocks: HashMap<BlockHash, (BlockHash, Vec<u8>)>,
    pub(crate) book: Book,
    digests: Mutex<HashMap<BlockHash, Digest>>,
    pub(crate) params: Params,
}

/// What happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Times the node fell and was started again.
    pub falls: u32,
    /// Blocks disconnected in the last life.
    pub disconnected: u64,
    /// Operations on the data disk, over all lives.
    pub operations: Vec<Operation>,
}

impl Story {
    /// A chain that grows in steps of a few blocks, loses nine blocks to a longer branch, and wins them back.
    pub fn forge(seed: u64) -> Story {
        let pool = Pool::new("forge", 1);
        let options = ForgeOptions { seed, blocks: 118, inputs: 450, odd_permille: 20, ..ForgeOptions::default() };
        let mut forge = Forge::new(&options, &pool).expect("good options");
        let params = Params::of(Network::Regtest);
        let mut story = Story {
            steps: vec![record(&params, &params.genesis_block())],
            blocks: HashMap::new(),
            book: Book::new(Block::parse(params.genesis_block()).expect("a constant")),
            digests: Mutex::default(),
            params,
        };
        let mut main: Vec<ForgedBlock> = (0..100).map(|_| forge.extend(&pool)).collect();
        story.arrive(&main);
        let mut fork = None;
        for step in 0..6 {
            if step == 3 {
                fork = Some(forge.clone());
            }
            let new: Vec<ForgedBlock> = (0..3).map(|_| forge.extend(&pool)).collect();
            story.arrive(&new);
            main.extend(new);
        }
        let mut fork = fork.expect("set at the third step");
        fork.diverge(seed + 1);
        let other: Vec<ForgedBlock> = (0..11).map(|_| fork.extend(&pool)).collect();
        // The branch arrives in two pieces: the first does not have the most work yet.
        story.arrive(&other[..8]);
        story.arrive(&other[8..]);
        let last: Vec<ForgedBlock> = (0..4).map(|_| forge.extend(&pool)).collect();
        story.arrive(&last);
        main.extend(last);
        main.into_iter().for_each(|block| story.book.connect(Block::parse(block.bytes).expect("it was forged")));
        story
    }

    fn arrive(&mut self, blocks: &[ForgedBlock]) {
        let mut bytes = Vec::new();
        for block in blocks {
            bytes.extend_from_slice(&record(&self.params, &block.bytes));
            let parsed = Block::parse(&block.bytes[..]).expect("it was forged");
            self.blocks.insert(block.hash, (parsed.header().previous, block.bytes.clone()));
        }
        self.steps.push(bytes);
    }

    /// The digest of the state at a block: from an import of its ancestors and nothing else.
    pub(crate) fn digest_at(&self, hash: BlockHash) -> Result<Digest, String> {
        if let Some(digest) = self.digests.lock().expect("no panic while held").get(&hash) {
            return Ok(digest.clone());
        }
        let mut path = Vec::new();
        let mut at = hash;
        while let Some((parent, bytes)) = self.blocks.get(&at) {
            path.push(record(&self.params, bytes));
            at = *parent;
        }
        if at != self.params.genesis_hash {
            return Err(format!("{hash} is no block of the story"));
        }
        path.push(record(&self.params, &self.params.genesis_block()));
        path.reverse();
        let mut life = Life::start(&FakeDisk::default(), &self.params);
        life.append(&path.concat());
        life.open()?.catch_up().map_err(|error| error.to_string())?;
        let digest = life.digest()?;
        self.digests.lock().expect("no panic while held").insert(hash, digest.clone());
        Ok(digest)
    }

    /// Lives through the story while `faults` strike one after the other, each in a life of its own.
    pub fn live(&self, faults: &[Fault], seed: u64) -> Result<Outcome, String> {
        let mut outcome = Outcome::default();
        let mut faults = faults.iter().copied();
        let mut data = FakeDisk::default();
        let blocks = FakeDisk::default();
        let mut step = 0;
        loop {
            let mut life = Life::start(&blocks, &self.params);
            life.data = data.clone();
            life.data.arm(faults.next().unwrap_or(Fault::None));
            let mut ended = self.live_once(&mut life, &mut step);
            outcome.operations.extend(life.data.operations());
            if ended.is_ok() && life.data.is_off() {
                // It struck where failure does not matter, as when a file nobody needs is removed.
                ended = Err(Fall::Disk("the power is off".to_owned()));
            }
            let Err(fall) = ended else {
                self.check_end(&life, seed.is_multiple_of(FULL_CHECK_EVERY))?;
                outcome.disconnected = life.handle().status().disconnected;
                return Ok(outcome);
            };
            outcome.falls += 1;
            if outcome.falls > FALLS_MAX {
                return Err(format!("it does not stand up again: {fall}"));
            }
            data = match fall {
                Fall::Wrong(text) => return Err(text),
                // Room was made, and the program started again.
                Fall::Full => life.data.copy(),
                Fall::Disk(_) => life.data.crash(seed.wrapping_add(u64::from(outcome.falls))),
            };
        }
    }

    fn live_once(&self, life: &mut Life, step: &mut usize) -> Result<(), Fall> {
        // What was there at the last fall is there again.
        if *step > 0 {
            life.open_chain()?;
            self.check_standing(life)?;
            life.catch_up()?;
        }
        while *step < self.steps.len() {
            life.append(&self.steps[*step]);
            *step += 1;
            if life.chain.is_none() {
                life.open_chain()?;
            }
            life.catch_up()?;
        }
        Ok(())
    }

    /// Right after a start: the state of some block of the story, whole.
    fn check_standing(&self, life: &mut Life) -> Result<(), Fall> {
        let tip = life.handle().view().tip();
        let want = self.digest_at(tip.hash).map_err(Fall::Wrong)?;
        // A disk that fails while it is read says nothing about what is on it.
        match life.digest() {
            Ok(found) if found == want => Ok(()),
            Ok(found) => Err(Fall::Wrong(format!(
                "after a fall, at height {} ({}): {:?} differ",
                tip.height,
                tip.hash,
                found.differences(&want)
            ))),
            Err(error) if life.data.is_off() => Err(Fall::Disk(error)),
            Err(error) => Err(Fall::Wrong(error)),
        }
    }

    fn check_end(&self, life: &Life, every_answer: bool) -> Result<(), String> {
        let found = life.digest()?;
        let want = self.digest_at(self.book.tip())?;
        if found != want {
            return Err(format!("at the end, height {}: {:?} differ", found.height, found.differences(&want)));
        }
        if every_answer { compare::agree(&life.handle().view(), &self.book) } else { Ok(()) }
    }
}

/// Magic, length, block: Bitcoin Core's record.
fn record(params: &Params, block: &[u8]) -> Vec<u8> {
    let mut bytes = params.magic.to_vec();
    bytes.extend_from_slice(&(block.len() as u32).to_le_bytes());
    bytes.extend_from_slice(block);
    bytes
}

/// Why a life ended.
pub(crate) enum Fall {
    /// The disk failed.
    Disk(String),
    /// No room was left.
    Full,
    /// Something is not as it must be.
    Wrong(String),
}

impl Fall {
    pub(crate) fn of(error: ChainError) -> Fall {
        let text = error.to_string();
        if error.is_disk_full() {
            return Fall::Full;
        }
        // The disk's own words; anything else is an answer the node should not give.
        match text.contains("power is off") || text.contains("os error 5)") {
            true => Fall::Disk(text),
            false => Fall::Wrong(text),
        }
    }
}

impl std::fmt::Display for Fall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fall::Disk(text) | Fall::Wrong(text) => f.write_str(text),
            Fall::Full => f.write_str("the disk is full"),
        }
    }
}

/// From one start to the next fall.
struct Life {
    blocks: FakeDisk,
    data: FakeDisk,
    params: Params,
    chain: Option<Chain>,
}

impl Life {
    fn start(blocks: &FakeDisk, params: &Params) -> Life {
        blocks.create_dir(Path::new(BLOCKS)).expect("this disk does not fail");
        Life { blocks: blocks.clone(), data: FakeDisk::default(), params: params.clone(), chain: None }
    }

    fn append(&self, bytes: &[u8]) {
        let path = Path::new(BLOCKS).join("blk00000.dat");
        let file = self.blocks.open(&path, Open::Create).expect("this disk does not fail");
        let length = file.length().expect("this disk does not fail");
        file.write_all_at(bytes, length).expect("this disk does not fail");
    }

    fn open(&mut self) -> Result<&mut Chain, String> {
        self.open_chain().map_err(|fall| fall.to_string())?;
        Ok(self.chain.as_mut().expect("just opened"))
    }

    fn open_chain(&mut self) -> Result<(), Fall> {
        let world = World {
            disk: Arc::new(TwoDisks { blocks: self.blocks.clone(), data: self.data.clone() }),
            clock: Arc::new(StillClock::default()),
            // Alone, the writer does all work itself and in order: the same seed is the same run.
            pool: Arc::new(Pool::new("crash", 1)),
            // Signatures are the oracle's subject; what is learnt of them is kept on the disk that fails.
            engine: Arc::new(Learner::believing()),
        };
        let mut options = Options::new(self.params.clone(), DATA.into(), PathBuf::from(BLOCKS), [7; 32]);
        // So little that coins are cut and read back.
        options.memory_bytes = 400_000;
        options.hints = HintsUse::Keep(HINTS.into());
        options.block_filters = true;
        match Chain::open(world, options) {
            Ok(chain) => {
                self.chain = Some(chain);
                Ok(())
            }
            Err(error) => Err(Fall::of(error)),
        }
    }

    fn catch_up(&mut self) -> Result<(), Fall> {
        let chain = self.chain.as_mut().expect("open");
        // Merges are waited for, so that their writes have their place in the order.
        let done = chain.catch_up().and_then(|()| chain.settle());
        let refused = chain.handle().status().refused;
        match (done, refused) {
            (Err(error), _) => Err(Fall::of(error)),
            (Ok(()), Some(refused)) => Err(Fall::Wrong(format!("a valid block was refused: {refused:?}"))),
            (Ok(()), None) => Ok(()),
        }
    }

    fn handle(&self) -> Handle {
        self.chain.as_ref().expect("open").handle()
    }

    fn digest(&self) -> Result<Digest, String> {
        Digest::of(self.handle().view().snapshot(), |_, _| ()).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::random::Random;

    #[test]
    fn a_control_lives_through_the_story() {
        let story = Story::forge(1);
        let outcome = story.live(&[], 0).unwrap();
        assert_eq!(outcome.falls, 0);
        assert_eq!(outcome, story.live(&[], 0).unwrap(), "the same seed is the same run");
        // Commits, merges (their inputs are removed), and both reorganisations took place.
        for kind in [Operation::Create, Operation::Write, Operation::Sync, Operation::SyncDir, Operation::Remove] {
            assert!(outcome.operations.contains(&kind), "{kind:?}");
        }
        assert_eq!(outcome.disconnected, 9 + 11);
    }

    /// Lives once for every `stride`-th operation of a control, with faults made from its number.
    ///
    /// `ASSAY_SIM_STORIES=n` strikes every operation of `n` stories instead.
    fn strike(seed: u64, stride: u64, faults: impl Fn(u64, &mut Random) -> Vec<Fault>) {
        let wanted = std::env::var("ASSAY_SIM_STORIES").ok().and_then(|text| text.parse::<u64>().ok());
        let stride = if wanted.is_some() { 1 } else { stride };
        for seed in (seed..).step_by(1000).take(wanted.unwrap_or(1) as usize) {
            strike_story(seed, stride, &faults);
        }
    }

    fn strike_story(seed: u64, stride: u64, faults: &impl Fn(u64, &mut Random) -> Vec<Fault>) {
        let story = Story::forge(seed);
        let operations = story.live(&[], 0).unwrap().operations.len() as u64;
        let mut random = Random::new(seed);
        let mut falls = 0;
        for at in (random.below(stride)..operations).step_by(stride as usize) {
            let faults = faults(at, &mut random);
            let fate = random.next_u64();
            let outcome = story.live(&faults, fate).unwrap_or_else(|text| panic!("{seed}, {faults:?}, {fate}: {text}"));
            falls += outcome.falls;
        }
        println!("{operations} operations, {falls} falls");
        assert!(u64::from(falls) >= operations / stride / 2, "{falls} falls");
    }

    #[test]
    fn power_goes_at_any_operation() {
        strike(2, 2, |at, _| vec![Fault::PowerLoss { at }]);
    }

    #[test]
    fn power_goes_again_while_it_recovers() {
        strike(3, 4, |at, random| {
            let again = random.below(40);
            vec![Fault::PowerLoss { at }, Fault::PowerLoss { at: again }, Fault::PowerLoss { at: again / 2 }]
        });
    }

    #[test]
    fn any_operation_fails() {
        strike(4, 4, |at, _| vec![Fault::Eio { at }]);
    }

    #[test]
    fn the_disk_fills_up() {
        strike(5, 4, |at, _| vec![Fault::NoSpace { from: at }]);
    }
}
