//! A node that lives on what it is offered: headers and blocks of a [`Story`] in any order, on a disk that may fail.
//!
//! In:     a story's blocks, faults, a seed that decides what is offered when.
//! Out:    [`Outcome`]: how often it fell, and that each time it stood up as some block of the story leaves it, and ended
//!         with the same tip, coins and index as an import of the same blocks from files.
//! Fails:  with a sentence; the story's seed, the faults and the seed repeat it.
//!
//! Here everything is on the disk that fails: the node's own block files as well as its store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use chain::{Acceptance, Chain, Digest, Handle, Options, TipKind, WorkProof, World};
use primitives::{Block, BlockHash, Header};
use stdx::pool::Pool;
use stdx::random::Random;

use crate::compare;
use crate::crash::{Fall, Outcome, StillClock, Story};
use crate::disk::{FakeDisk, Fault};

/// Where the node keeps its own.
const DATA: &str = "/data/store";
/// Where it keeps its blocks.
const BLOCKS: &str = "/data/blocks";
/// Times a run may fall before it counts as stuck.
const FALLS_MAX: u32 = 8;
/// Blocks that are offered out of order at most: later ones wait until some of these are taken.
const DISORDER_BLOCKS: usize = 24;
/// One in so many seeds asks every question at the end.
const FULL_CHECK_EVERY: u64 = 5;

/// A story in pieces to be handed in.
pub struct Offer<'a> {
    story: &'a Story,
    /// Parents before children, branches mixed.
    headers: Vec<(BlockHash, Header)>,
}

/// From one start to the next fall.
struct Life {
    data: FakeDisk,
    chain: Chain,
    handle: Handle,
    answers: Arc<Mutex<Vec<Acceptance>>>,
}

impl<'a> Offer<'a> {
    /// Takes a story apart.
    pub fn of(story: &'a Story) -> Offer<'a> {
        let header = |bytes: &[u8]| *Block::parse(bytes).expect("it was forged").header();
        let mut left: HashMap<BlockHash, Header> =
            story.blocks.iter().map(|(hash, (_, bytes))| (*hash, header(bytes))).collect();
        let mut headers: Vec<(BlockHash, Header)> = Vec::new();
        let mut known = vec![story.params.genesis_hash];
        while let Some(parent) = known.pop() {
            let mut children: Vec<BlockHash> =
                left.iter().filter(|(_, header)| header.previous == parent).map(|(hash, _)| *hash).collect();
            children.sort_unstable_by_key(|hash| hash.0);
            for hash in children {
                headers.push((hash, left.remove(&hash).expect("just seen")));
                known.push(hash);
            }
        }
        Offer { story, headers }
    }

    /// Offers all of it while `faults` strike one after the other, each in a life of its own.
    pub fn live(&self, faults: &[Fault], seed: u64) -> Result<Outcome, String> {
        let mut outcome = Outcome::default();
        let mut faults = faults.iter().copied();
        let mut random = Random::new(seed);
        let mut data = FakeDisk::default();
        loop {
            data.arm(faults.next().unwrap_or(Fault::None));
            let mut ended = self.live_once(&data, &mut random, &mut outcome, seed);
            outcome.operations.extend(data.operations());
            if ended.is_ok() && data.is_off() {
                // It struck where failure does not matter.
                ended = Err(Fall::Disk("the power is off".to_owned()));
            }
            let Err(fall) = ended else { return Ok(outcome) };
            outcome.falls += 1;
            if outcome.falls > FALLS_MAX {
                return Err(format!("it does not stand up again: {fall}"));
            }
            data = match fall {
                Fall::Wrong(text) => return Err(text),
                Fall::Full => data.copy(),
                Fall::Disk(_) => data.crash(seed.wrapping_add(u64::from(outcome.falls))),
            };
        }
    }

    fn live_once(&self, data: &FakeDisk, random: &mut Random, outcome: &mut Outcome, seed: u64) -> Result<(), Fall> {
        let mut life = self.open(data)?;
        self.check_standing(&life)?;
        // What our own files hold beyond the last commit is connected without being offered again.
        life.pass()?;
        // Some lives begin with every header, some learn them with the blocks.
        if random.chance(1, 2) {
            self.offer_headers(&life, random).map_err(Fall::Wrong)?;
        }
        while let Some(offered) = self.offer_blocks(&life, random) {
            if offered == 0 || random.chance(1, 3) {
                life.pass()?;
            }
        }
        life.pass()?;
        self.check_end(&life, seed).map_err(|text| match life.data.is_off() {
            true => Fall::Disk(text),
            false => Fall::Wrong(text),
        })?;
        outcome.disconnected = life.handle.status().disconnected;
        Ok(())
    }

    fn open(&self, data: &FakeDisk) -> Result<Life, Fall> {
        let world = World {
            disk: Arc::new(data.clone()),
            clock: Arc::new(StillClock::default()),
            pool: Arc::new(Pool::new("offered", 1)),
            engine: sigs::engine(sigs::EngineName::Scalar).expect("always there"),
        };
        let mut options = Options::new(self.story.params.clone(), DATA.into(), None, [7; 32]);
        options.own_blocks = Some(BLOCKS.into());
        options.memory_bytes = 400_000;
        options.skip_scripts = true;
        options.block_filters = true; // as the states compared with have them
        let chain = Chain::open(world, options).map_err(Fall::of)?;
        Ok(Life { data: data.clone(), handle: chain.handle(), chain, answers: Arc::default() })
    }

    /// Runs of headers of any length, some of them twice.
    fn offer_headers(&self, life: &Life, random: &mut Random) -> Result<(), String> {
        let mut at = 0;
        while at < self.headers.len() {
            let end = (at + 1 + random.below(40) as usize).min(self.headers.len());
            let run: Vec<Header> = self.headers[at..end].iter().map(|(_, header)| *header).collect();
            let answer = life.handle.submit_headers(&run, WorkProof::Unproven);
            if let Some(stop) = answer.stop {
                return Err(format!("a valid header was not taken: {stop:?}"));
            }
            at = if random.chance(1, 4) { at + (end - at) / 2 } else { end };
        }
        Ok(())
    }

    /// Offers one of the first blocks that are missing; how many were offered, none once all are there.
    fn offer_blocks(&self, life: &Life, random: &mut Random) -> Option<usize> {
        let missing = |(hash, _): &&(BlockHash, Header)| !life.handle.has_block(hash);
        let window: Vec<&(BlockHash, Header)> = self.headers.iter().filter(missing).take(DISORDER_BLOCKS).collect();
        if window.is_empty() || life.data.is_off() {
            return None;
        }
        let (hash, _) = window[random.below(window.len() as u64) as usize];
        let (_, bytes) = &self.story.blocks[hash];
        let answers = life.answers.clone();
        let done = move |answer| answers.lock().expect("no panic while held").push(answer);
        Some(life.handle.submit_block(bytes.clone(), WorkProof::Unproven, done).map_or(0, |()| 1))
    }

    /// Right after a start: the state of some block of the story, whole.
    fn check_standing(&self, life: &Life) -> Result<(), Fall> {
        let tip = life.handle.view().tip();
        let want = self.story.digest_at(tip.hash).map_err(Fall::Wrong)?;
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

    fn check_end(&self, life: &Life, seed: u64) -> Result<(), String> {
        let want = self.story.digest_at(self.story.book.tip())?;
        let found = life.digest()?;
        if found != want {
            return Err(format!("at the end, height {}: {:?} differ", found.height, found.differences(&want)));
        }
        let refused = life.handle.chain_tips().into_iter().find(|tip| tip.kind == TipKind::Invalid);
        if let Some(tip) = refused {
            return Err(format!("a valid branch was refused: {tip:?}, {:?}", life.handle.status().refused));
        }
        let best = life.handle.best_header();
        if best.hash != self.story.book.tip() || !best.is_active || !best.is_linked {
            return Err(format!("the best header is {best:?}"));
        }
        match seed.is_multiple_of(FULL_CHECK_EVERY) {
            true => compare::agree(&life.handle.view(), &self.story.book),
            false => Ok(()),
        }
    }
}

impl Life {
    /// The writer does what there is to do.
    fn pass(&mut self) -> Result<(), Fall> {
        self.chain.catch_up().and_then(|()| self.chain.settle()).map_err(Fall::of)?;
        for answer in self.answers.lock().expect("no panic while held").drain(..) {
            match answer {
                Acceptance::Stored { .. } | Acceptance::Duplicate { .. } | Acceptance::UnknownParent { .. } => {}
                other => return Err(Fall::Wrong(format!("a valid block was not taken: {other:?}"))),
            }
        }
        Ok(())
    }

    fn digest(&self) -> Result<Digest, String> {
        Digest::of(self.handle.view().snapshot(), |_, _| ()).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_order_ends_where_an_import_from_files_ends() {
        for seed in 0..4 {
            let story = Story::forge(40 + seed % 2);
            let outcome = Offer::of(&story).live(&[], seed).unwrap_or_else(|text| panic!("seed {seed}: {text}"));
            assert_eq!(outcome.falls, 0);
        }
    }

    /// Lives once for each of so many operations of a control; with `ASSAY_SIM_STORIES=n`, for every operation of `n`
    /// stories.
    fn strike(seed: u64, lives: u64, faults: impl Fn(u64, &mut Random) -> Vec<Fault>) {
        let wanted = std::env::var("ASSAY_SIM_STORIES").ok().and_then(|text| text.parse::<u64>().ok());
        for seed in (seed..).step_by(1000).take(wanted.unwrap_or(1) as usize) {
            let story = Story::forge(seed);
            let offer = Offer::of(&story);
            let mut random = Random::new(seed);
            let operations = offer.live(&[], seed).unwrap().operations.len() as u64;
            let stride = if wanted.is_some() { 1 } else { operations / lives };
            let (mut falls, mut lives) = (0, 0);
            for at in (random.below(stride)..operations).step_by(stride as usize) {
                let faults = faults(at, &mut random);
                let outcome =
                    offer.live(&faults, seed).unwrap_or_else(|text| panic!("seed {seed}, {faults:?}: {text}"));
                (falls, lives) = (falls + u64::from(outcome.falls), lives + 1);
            }
            println!("{operations} operations, {falls} falls");
            assert!(falls >= lives / 2, "{falls} falls in {lives} lives");
        }
    }

    #[test]
    fn power_goes_at_any_operation() {
        strike(42, 20, |at, _| vec![Fault::PowerLoss { at }]);
    }

    #[test]
    fn power_goes_again_while_it_recovers() {
        strike(43, 12, |at, random| {
            let again = random.below(60);
            vec![Fault::PowerLoss { at }, Fault::PowerLoss { at: again }, Fault::PowerLoss { at: again / 2 }]
        });
    }

    #[test]
    fn any_operation_fails() {
        strike(44, 14, |at, _| vec![Fault::Eio { at }]);
    }

    #[test]
    fn the_disk_fills_up() {
        strike(45, 14, |at, _| vec![Fault::NoSpace { from: at }]);
    }
}
