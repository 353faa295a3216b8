//! The single writer: scans block files, connects the best chain through the pipeline, follows reorganisations, commits.
//!
//! In:     a store, a folder of block files, a clock, a pool, a signature engine.
//! Out:    committed state, views of it, events.
//! Fails:  [`ChainError`] when the disk fails; an invalid block is refused, reported in the status, and the best chain
//!         without it is followed.
//! Source: Core's `ActivateBestChain`, `ConnectBlock`, `DisconnectBlock`.
//!
//! Stages of the pipeline, each over lots of about a megabyte:
//!
//! ```text
//!   prepare (pool, any order) -> fetch coins (pool) -> connect coins (writer, in order)
//!       -> scripts, amounts, rows (pool) -> harvest (writer, in order) -> commit
//! ```
//!
//! The writer helps the pool while it waits. A block that fails after its coins were connected is taken back together
//! with all that were connected after it; rows reach the batch only once a lot has passed everything.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, RwLockReadGuard};
use std::time::Duration;

use consensus::BlockError;
use primitives::{BlockHash, Params};
use store::blockfiles::{BlockFiles, Note, Progress};
use store::{Batch, Coins, Cut, Store, StoreError};

use crate::error::ChainError;
use crate::handle::{Handle, Phase, Shared};
use crate::intake::{Verdict, Waiter, Wish};
use crate::kept::hints::HintsKeeper;
use crate::lot::Judges;
use crate::news::News;
use crate::options::{Options, World};
use crate::start::{open_files, scan_into};
use crate::tree::{HeaderTree, NodeId};

/// The writer. Everything it knows of the chain is here; what others see is behind its [`Handle`].
pub struct Chain {
    pub(crate) world: World,
    pub(crate) options: Options,
    pub(crate) params: Arc<Params>,
    pub(crate) store: Store,
    pub(crate) coins: Coins,
    pub(crate) judges: Arc<Judges>,
    pub(crate) hints: HintsKeeper,
    /// Why filters of old blocks are not built.
    pub(crate) filter_problem: Option<String>,
    pub(crate) shared: Arc<Shared>,
    /// Readers of block files, in [`View`]s and on the pool.
    pub(crate) files: Arc<BlockFiles>,
    /// Finds blocks in the files of another node.
    pub(crate) scanner: Option<BlockFiles>,
    pub(crate) progress: Progress,
    pub(crate) last_scan: Duration,
    /// The last block whose rows are in the store or the batch.
    pub(crate) tip: NodeId,
    /// Rows since the last commit.
    pub(crate) batch: Batch,
    /// What subscribers have not been told yet, once the tip has been reached.
    pub(crate) news: News,
    /// Who waits for this pass.
    pub(crate) waiting: Vec<Waiter>,
    /// Verdicts of this pass that somebody waits for, and refusals of this one and the ones before.
    pub(crate) judged: HashMap<BlockHash, Result<(), BlockError>>,
    /// True once the tip has been reached: from then on scripts that blocks touch are gathered for subscribers.
    pub(crate) following: bool,
    pub(crate) last_commit: Duration,
    /// Why the scripts of the last block were checked, or that they were not; for the log.
    pub(crate) scripts_checked_for: Option<Option<&'static str>>,
    /// When damaged blocks were tried last.
    pub(crate) damaged_tried: Duration,
    pub(crate) merge: Option<std::thread::JoinHandle<Result<store::MergedSegment, StoreError>>>,
    pub(crate) merge_cancel: Option<Arc<std::sync::atomic::AtomicBool>>,
}

impl Chain {
    /// What others may see.
    pub fn handle(&self) -> Handle {
        Handle(self.shared.clone())
    }

    pub(crate) fn stopping(&self) -> bool {
        self.handle().stopping()
    }

    /// The tree, to be read. One hold at a time: a second one by the same thread may wait for a writer that waits for
    /// the first.
    pub(crate) fn tree(&self) -> RwLockReadGuard<'_, HeaderTree> {
        self.shared.intake.tree()
    }

    /// Connects what comes, from block files and from outside, until [`Handle::stop`] is called.
    pub fn run(mut self) -> Result<(), ChainError> {
        let mut wake = self.world.clock.monotonic();
        let mut quiet = Duration::ZERO;
        while !self.stopping() {
            self.catch_up_with(self.world.clock.monotonic() >= wake)?;
            wake = self.last_scan + self.options.poll_interval;
            if self.fill_filters()? {
                self.commit_if_changed()?;
                continue;
            }
            let now = self.world.clock.monotonic();
            if !self.stopping() && now < wake {
                let is_rung = self.shared.intake.signal.wait(wake - now);
                quiet = if is_rung { Duration::ZERO } else { quiet + (wake - now) };
            }
            // Blocks that are waited for may never come: what is connected is told of all the same.
            if quiet >= QUIET_BEFORE_COMMIT {
                self.commit_if_changed()?;
                quiet = Duration::ZERO;
            }
        }
        self.finish()
    }

    /// Connects what the block files hold and what came from outside, and commits; stops early when asked to. Filters of
    /// old blocks that are missing are built too.
    pub fn catch_up(&mut self) -> Result<(), ChainError> {
        self.catch_up_with(true)?;
        while self.fill_filters()? {
            self.commit_if_changed()?;
        }
        Ok(())
    }

    /// One pass: all that is known at its beginning is looked at. With `scan`, block files of others are, too.
    fn catch_up_with(&mut self, scan: bool) -> Result<(), ChainError> {
        self.world.pool.run_queued();
        // Whoever rings from here on is heard by the next pass; what they stored or asked before is seen by this one.
        self.shared.intake.signal.answer();
        self.waiting.extend(self.shared.intake.waiters.take());
        if scan {
            self.scan()?;
            self.last_scan = self.world.clock.monotonic();
        }
        self.absorb()?;
        while !self.stopping() {
            let (target, fork) = {
                let tree = self.tree();
                let target = self.target(&tree);
                (target, tree.fork_point(self.tip, target))
            };
            if target == self.tip {
                break;
            }
            if fork != self.tip {
                self.disconnect_to(fork)?;
            }
            self.advance(target)?;
            if self.shared.intake.signal.is_urgent() {
                break;
            }
        }
        if self.stopping() {
            return Ok(());
        }
        self.end_pass()
    }

    /// Commits where it is time to, tells, and answers who waits.
    fn end_pass(&mut self) -> Result<(), ChainError> {
        let (behind, done) = {
            let tree = self.tree();
            let best_header = tree.best_header();
            let ahead = tree.height(best_header).saturating_sub(tree.height(self.tip));
            // Beside the best headers nothing more may come: the blocks of those may be held back.
            let is_beside = tree.ancestor(best_header, tree.height(self.tip)) != Some(self.tip);
            (if is_beside { 0 } else { ahead }, self.target(&tree) == self.tip)
        };
        let near = done && (behind < BEHIND_BLOCKS_MAX || self.own_is_absent());
        if near || self.commit_is_wished() || self.commit_is_due() {
            self.commit_if_changed()?;
        }
        if near {
            self.following = true;
            self.shared.update(|status| status.phase = Phase::Following);
            self.announce();
        }
        self.shared.update(|status| status.has_tried_all = done);
        self.answer_waiting(done);
        self.poll_merge(false)
    }

    /// True where blocks come from block files alone: what they lack will not come.
    fn own_is_absent(&self) -> bool {
        self.shared.intake.own.is_none()
    }

    fn waits_for(&self, wish: Wish) -> bool {
        self.waiting.iter().any(|waiter| waiter.wish == wish)
    }

    /// True where somebody waits for a commit that can be had.
    fn commit_is_wished(&self) -> bool {
        self.waits_for(Wish::Committed) || (self.batch.bytes() <= SHOWN_BYTES_MAX && self.waits_for(Wish::Shown))
    }

    /// Answers who waits for the pass that ends. Where it ended early, those whose block was not tried go on waiting.
    fn answer_waiting(&mut self, done: bool) {
        for waiter in std::mem::take(&mut self.waiting) {
            let verdict = match waiter.block.map(|hash| (hash, self.judged.get(&hash))) {
                None => Verdict::Done,
                Some((_, Some(Ok(())))) => Verdict::Connected,
                Some((_, Some(Err(error)))) => Verdict::Invalid { error: *error },
                // The pass before may have taken it, after it was stored and before anybody could wait for it.
                Some((hash, None)) if self.is_connected(&hash) => Verdict::Connected,
                Some((_, None)) if done => Verdict::Inconclusive,
                Some((_, None)) => {
                    self.waiting.push(waiter);
                    continue;
                }
            };
            (waiter.answer)(verdict);
        }
        // Refusals stay for those who begin to wait for them too late.
        self.judged.retain(|_, verdict| verdict.is_err());
    }

    fn is_connected(&self, hash: &BlockHash) -> bool {
        let tree = self.tree();
        let found = tree.find(hash);
        found.is_some_and(|id| tree.ancestor(self.tip, tree.height(id)) == Some(id))
    }

    /// The block to stand at: the best there is, or the one the options name.
    pub(crate) fn target(&self, tree: &HeaderTree) -> NodeId {
        let named = self.options.last_block.and_then(|hash| tree.find(&hash));
        named.filter(|node| !tree.is_invalid(*node) && tree.is_linked(*node)).unwrap_or(tree.best())
    }

    /// Takes over what was learned at the door, for the next commit; ends where the door's disk has failed.
    pub(crate) fn absorb(&mut self) -> Result<(), ChainError> {
        if let Some(error) = self.shared.intake.failure.lock().expect("no panic while held").clone() {
            return Err(error.into());
        }
        let facts = std::mem::take(&mut *self.shared.intake.facts());
        facts.iter().for_each(|fact| self.store.push_fact(fact));
        Ok(())
    }

    /// Commits what is verified and ends the merge under way.
    pub fn finish(mut self) -> Result<(), ChainError> {
        self.shared.update(|status| status.phase = Phase::Stopping);
        if let Some(cancel) = &self.merge_cancel {
            cancel.store(true, std::sync::atomic::Ordering::SeqCst);
        }
        // What was learned at the door since the last pass is kept too.
        self.absorb()?;
        self.commit_if_changed()?;
        self.poll_merge(true)
    }

    /// Waits for merges until none is worth doing; for measuring and for tests.
    pub fn settle(&mut self) -> Result<(), ChainError> {
        loop {
            self.poll_merge(true)?;
            self.commit()?;
            if self.merge.is_none() {
                return Ok(());
            }
        }
    }

    /// Reads the headers of blocks that came into the files of another node.
    fn scan(&mut self) -> Result<(), ChainError> {
        let now_s = self.world.clock.unix_s();
        let (mut files, mut notes) = (HashSet::new(), Vec::new());
        if let Some(scanner) = &mut self.scanner {
            let intake = &self.shared.intake;
            let before = intake.tree().best_header();
            let mut insert = |seen| drop(intake.tree_mut().insert(seen, now_s));
            (files, notes) = scan_into(&mut self.store, scanner, &mut self.progress, &mut insert)?;
            self.shared.announce_header_after(before);
        }
        // Where nothing came, a block that was half written when it was read may be whole now.
        let now = self.world.clock.monotonic();
        let quiet = files.is_empty() && now >= self.damaged_tried + DAMAGED_RETRY;
        let mut tree = self.shared.intake.tree_mut();
        tree.retry_early(now_s);
        if quiet {
            self.damaged_tried = now;
            tree.retry_damaged();
        }
        drop(tree);
        if files.iter().any(|file| !self.files.paths().contains_key(file)) {
            self.files = Arc::new(open_files(&self.world, &self.options)?);
        }
        let tree = self.tree();
        let (waiting, headers_height) = (tree.waiting(), tree.height(tree.best_header()));
        let bytes_left = bytes_between(&tree, self.tip, tree.best());
        drop(tree);
        self.shared.update(|status| {
            status.headers_height = headers_height;
            status.headers_waiting = waiting as u64;
            status.bytes_left = bytes_left;
            status.notes.extend(notes.iter().filter_map(describe));
            status.notes.truncate(NOTES_MAX);
            if status.phase == Phase::Scanning {
                status.phase = Phase::Importing;
            }
        });
        Ok(())
    }

    pub(crate) fn commit_if_changed(&mut self) -> Result<(), ChainError> {
        let committed = self.store.snapshot().tip().map(|tip| tip.hash);
        let moved = committed != Some(self.tree().hash(self.tip)) || self.batch.rows() > 0;
        let now = self.world.clock.monotonic();
        let facts = self.store.found_uncommitted();
        let facts_due = facts > 0 && (self.waits_for(Wish::Committed) || now >= self.last_commit + FACTS_INTERVAL);
        if moved || facts_due || self.filters_are_due() || facts >= FACTS_MAX || (facts > 0 && self.stopping()) {
            self.commit()
        } else {
            Ok(())
        }
    }

    /// True when it is time to commit during an import.
    pub(crate) fn commit_is_due(&self) -> bool {
        let shares = self.options.shares();
        self.coins.wants_cut()
            || self.batch.bytes() >= shares.batch_bytes
            || self.store.found_uncommitted() >= FACTS_MAX
            || self.world.clock.monotonic() >= self.last_commit + self.options.commit_interval
    }

    /// Makes everything up to the tip durable and publishes the view. Nothing may be in the pipeline beyond the tip.
    pub(crate) fn commit(&mut self) -> Result<(), ChainError> {
        self.poll_merge(false)?;
        self.absorb()?;
        // Whatever the commit names in our own files is on the disk before it; meanwhile the segment is written.
        let shared = self.shared.clone();
        let own_synced = self.world.pool.submit(move || match &shared.intake.own {
            Some(own) => own.sync(),
            None => Ok(()),
        });
        let tip = {
            let tree = self.tree();
            let (height, hash) = (tree.height(self.tip), tree.hash(self.tip));
            store::Tip { height, hash, chainwork: tree.work(self.tip).to_be_bytes() }
        };
        let batch = std::mem::take(&mut self.batch);
        let cut = Cut { tip: Some(tip), batch, coins: &mut self.coins };
        let written = self.store.cut(cut)?.run(&self.world.pool);
        own_synced.wait()?;
        self.store.install(written, &mut self.coins)?;
        self.hints.flush();
        self.last_commit = self.world.clock.monotonic();
        let view = self.handle().view().moved(self.store.snapshot(), self.files.clone());
        *self.shared.view.write().expect("no panic while held") = Arc::new(view);
        self.shared.intake.tree_mut().set_active(self.tip);
        self.shared.note_synced();
        self.shared.intake.fresh.lock().expect("no panic while held").drop_below(tip.height + 1);
        let (coins_bytes, stored_bytes) = (self.coins.bytes() as u64, stored_bytes(&self.store));
        let (hints_bytes, hints_off) = (self.hints.bytes(), self.hints.off.clone());
        self.shared.update(|status| {
            status.committed_height = tip.height;
            status.commits += 1;
            status.coins_bytes = coins_bytes;
            status.stored_bytes = stored_bytes;
            (status.hints_bytes, status.hints_off) = (hints_bytes, hints_off);
        });
        self.report_filters()
    }

    /// Installs a finished merge, and starts the next one on a thread of its own.
    fn poll_merge(&mut self, wait: bool) -> Result<(), ChainError> {
        if self.merge.as_ref().is_some_and(|merge| wait || merge.is_finished()) {
            let merged = self.merge.take().expect("just seen").join().expect("a merge does not panic");
            self.merge_cancel = None;
            self.store.install_merge(merged)?;
        }
        if self.merge.is_none()
            && !self.stopping()
            && let Some(job) = self.store.pick_merge()
        {
            self.merge_cancel = Some(job.cancel_flag());
            let thread = std::thread::Builder::new().name("merge".into());
            self.merge = Some(thread.spawn(move || job.run()).expect("the operating system gives a thread"));
        }
        Ok(())
    }

    /// Tells subscribers about the tip, if it is another one than they know.
    fn announce(&mut self) {
        let (height, hash, header) = {
            let tree = self.tree();
            (tree.height(self.tip), tree.hash(self.tip), tree.header(self.tip).encode())
        };
        let mut known = false;
        self.shared.update(|status| {
            known = status.announced == Some(hash);
            status.announced = Some(hash);
        });
        if !known {
            let number = self.shared.tips_told.fetch_add(1, Ordering::SeqCst) + 1;
            let event = self.news.tell(number, height, header);
            self.shared.publish(&event);
        }
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        self.shared.intake.waiters.close();
    }
}

/// Blocks that the tip may be behind the best header and still count as the tip: commits are published block by block.
/// Further behind, the chain is being fetched, and each block on its own would cost a commit.
const BEHIND_BLOCKS_MAX: u32 = 16;
/// Rows up to which a commit is made for a peer that waits for it: some milliseconds. A download at full speed has more.
const SHOWN_BYTES_MAX: usize = 1 << 20;
/// Time without a new block after which what is connected is committed though the best headers are far ahead.
const QUIET_BEFORE_COMMIT: Duration = Duration::from_secs(5);
/// Refusals that are remembered with their rule; beyond, who asks too late is told that nothing is known.
pub(crate) const REFUSALS_KEPT_MAX: usize = 1_000;
/// Facts about headers that wait for a commit at most: 2 MB.
const FACTS_MAX: u64 = 20_000;
/// How long they wait at most while nothing else is committed.
const FACTS_INTERVAL: Duration = Duration::from_secs(30);
/// Time between two tries of a block whose bytes are damaged, while nothing new comes into the files.
const DAMAGED_RETRY: Duration = Duration::from_secs(5);
/// Notes about the block files that the status keeps.
const NOTES_MAX: usize = 20;

/// Bytes of all tables and columns.
fn stored_bytes(store: &Store) -> u64 {
    store.snapshot().sizes().iter().map(|section| section.bytes).sum()
}

/// What is odd about the block files, in a sentence; a record that is still being written is not odd.
fn describe(note: &Note) -> Option<String> {
    match note {
        Note::OtherNetwork { path, network } => {
            Some(format!("{} holds blocks of {network}, none of ours; check `chain`", path.display()))
        }
        Note::Skipped { path, offset, bytes } => {
            Some(format!("{}: {bytes} bytes at {offset} are no block record, skipped", path.display()))
        }
        Note::Torn { .. } => None,
    }
}

/// Bytes of the blocks from the fork up to `to`.
fn bytes_between(tree: &HeaderTree, from: NodeId, to: NodeId) -> u64 {
    let fork = tree.fork_point(from, to);
    let sizes = tree.path(fork, to).into_iter().filter_map(|node| tree.position(node));
    sizes.map(|position| u64::from(position.size)).sum()
}
