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

use std::collections::HashSet;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use consensus::script;
use index::rows::txid_prefix;
use index::tag::TagKey;
use primitives::{Header, Params, ScriptHash};
use store::blockfiles::{BlockFiles, Found, Note, Progress};
use store::{Batch, Coins, CoinsOptions, Cut, Store, StoreError, TxEntry};

use crate::error::ChainError;
use crate::handle::{Event, Handle, Phase, Shared, Status};
use crate::lot::Judges;
use crate::options::{Options, World};
use crate::tree::{HeaderTree, NodeId, Seen};
use crate::view::{GENESIS_POSITION, View};

/// The writer. Everything it knows of the chain is here; what others see is behind its [`Handle`].
pub struct Chain {
    pub(crate) world: World,
    pub(crate) options: Options,
    pub(crate) params: Arc<Params>,
    pub(crate) store: Store,
    pub(crate) coins: Coins,
    pub(crate) tree: HeaderTree,
    pub(crate) judges: Arc<Judges>,
    pub(crate) shared: Arc<Shared>,
    /// Readers of block files, in [`View`]s and on the pool.
    pub(crate) files: Arc<BlockFiles>,
    scanner: BlockFiles,
    progress: Progress,
    /// The last block whose rows are in the store or the batch.
    pub(crate) tip: NodeId,
    /// Rows since the last commit.
    pub(crate) batch: Batch,
    /// Scripts touched since the last event, once the tip has been reached.
    pub(crate) touched: HashSet<ScriptHash>,
    reorganised_from: Option<u32>,
    /// True once the tip has been reached: from then on scripts that blocks touch are gathered for subscribers.
    pub(crate) following: bool,
    last_commit: Duration,
    /// When damaged blocks were tried last.
    damaged_tried: Duration,
    merge: Option<std::thread::JoinHandle<Result<store::MergedSegment, StoreError>>>,
    merge_cancel: Option<Arc<std::sync::atomic::AtomicBool>>,
}

impl Chain {
    /// Opens the store, or makes one that holds the genesis block, and learns the headers it has seen.
    pub fn open(world: World, options: Options) -> Result<Chain, ChainError> {
        let params = Arc::new(options.params.clone());
        let mut tag_key_seed = [0; 16];
        tag_key_seed.copy_from_slice(&options.secret[..16]);
        let store_options = store::Options { tag_key_seed };
        let mut store = Store::open(world.disk.clone(), &options.datadir, &params, &store_options)?;
        let mut scanner = BlockFiles::open(world.disk.clone(), &options.blocks_from, params.magic)?;
        let files = Arc::new(BlockFiles::open(world.disk.clone(), &options.blocks_from, params.magic)?);
        let key = TagKey::new(store.snapshot().tag_key());
        let coins = open_coins(&mut store, &world, &options, &params, key)?;

        if !found_is_of(&store, &files)? {
            store.clear_found()?;
        }
        let mut tree = HeaderTree::new(&params);
        let mut progress = Progress::default();
        let now_s = world.clock.unix_s();
        load_found(&store, &mut tree, &mut progress, now_s)?;
        let tip = store.snapshot().tip().expect("the genesis block is committed");
        if tree.find(&tip.hash).is_none() {
            scan_into(&mut store, &mut tree, &mut scanner, &mut progress, now_s)?;
        }
        let tip_node = tree.find(&tip.hash).ok_or(ChainError::TipUnknown { height: tip.height, hash: tip.hash })?;
        check_tip_position(&store, &files, tip)?;

        let judges = Arc::new(Judges {
            params: options.params.clone(),
            engine: world.engine.clone(),
            counters: script::Counters::default(),
            tag_key: (!options.skip_index).then_some(key),
            median_times_s: RwLock::new(median_times(&store, tip.height)?),
            cancelled: false.into(),
        });
        let view = View::new(store.snapshot(), files.clone(), params.clone());
        let shared = Arc::new(Shared {
            view: RwLock::new(Arc::new(view)),
            status: Mutex::new(Status {
                height: tip.height,
                hash: tip.hash,
                committed_height: tip.height,
                headers_height: tree.best_height(),
                ..Status::default()
            }),
            subscribers: Mutex::default(),
            stop: false.into(),
        });
        let last_commit = world.clock.monotonic();
        Ok(Chain {
            world,
            options,
            params,
            store,
            coins,
            tree,
            judges,
            shared,
            files,
            scanner,
            progress,
            tip: tip_node,
            batch: Batch::default(),
            touched: HashSet::new(),
            reorganised_from: None,
            following: false,
            last_commit,
            damaged_tried: last_commit,
            merge: None,
            merge_cancel: None,
        })
    }

    /// What others may see.
    pub fn handle(&self) -> Handle {
        Handle(self.shared.clone())
    }

    pub(crate) fn stopping(&self) -> bool {
        self.handle().stopping()
    }

    /// Follows the block files until [`Handle::stop`] is called.
    pub fn run(mut self) -> Result<(), ChainError> {
        while !self.stopping() {
            self.catch_up()?;
            let wake = self.world.clock.monotonic() + self.options.poll_interval;
            while !self.stopping() && self.world.clock.monotonic() < wake {
                std::thread::sleep(Duration::from_millis(20).min(self.options.poll_interval));
            }
        }
        self.finish()
    }

    /// Connects what the block files hold now, and commits; stops early when asked to.
    pub fn catch_up(&mut self) -> Result<(), ChainError> {
        self.scan()?;
        while !self.stopping() && self.target() != self.tip {
            let target = self.target();
            let fork = self.tree.fork_point(self.tip, target);
            if fork != self.tip {
                self.disconnect_to(fork)?;
            }
            self.advance(target)?;
        }
        if self.stopping() {
            return Ok(());
        }
        self.commit_if_changed()?;
        self.following = true;
        self.shared.update(|status| status.phase = Phase::Following);
        self.announce();
        self.poll_merge(false)
    }

    /// The block to stand at: the best there is, or the one the options name.
    fn target(&self) -> NodeId {
        let named = self.options.last_block.and_then(|hash| self.tree.find(&hash));
        named.filter(|node| !self.tree.is_invalid(*node)).unwrap_or(self.tree.best())
    }

    /// Commits what is verified and ends the merge under way.
    pub fn finish(mut self) -> Result<(), ChainError> {
        self.shared.update(|status| status.phase = Phase::Stopping);
        if let Some(cancel) = &self.merge_cancel {
            cancel.store(true, std::sync::atomic::Ordering::SeqCst);
        }
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

    /// Reads the headers of blocks that came into the files.
    fn scan(&mut self) -> Result<(), ChainError> {
        let now_s = self.world.clock.unix_s();
        let (files, notes) = scan_into(&mut self.store, &mut self.tree, &mut self.scanner, &mut self.progress, now_s)?;
        self.tree.retry_early(now_s);
        // Another copy may have come; or, where nothing came, a block that was half written when it was read may be
        // whole now.
        let now = self.world.clock.monotonic();
        let quiet = files.is_empty() && now >= self.damaged_tried + DAMAGED_RETRY;
        if quiet || self.tree.damaged_has_copy() {
            self.damaged_tried = now;
            self.tree.retry_damaged();
        }
        if files.iter().any(|file| !self.files.paths().contains_key(file)) {
            let magic = self.params.magic;
            self.files = Arc::new(BlockFiles::open(self.world.disk.clone(), &self.options.blocks_from, magic)?);
        }
        let (best, waiting) = (self.tree.best(), self.tree.waiting());
        let bytes_left = self.bytes_between(self.tip, best);
        let headers_height = self.tree.best_height();
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

    /// Bytes of the blocks from the fork up to `to`.
    fn bytes_between(&self, from: NodeId, to: NodeId) -> u64 {
        let fork = self.tree.fork_point(from, to);
        let sizes = self.tree.path(fork, to).into_iter().filter_map(|node| self.tree.position(node));
        sizes.map(|position| u64::from(position.size)).sum()
    }

    pub(crate) fn commit_if_changed(&mut self) -> Result<(), ChainError> {
        let committed = self.store.snapshot().tip().map(|tip| tip.hash);
        if committed == Some(self.tree.hash(self.tip)) && self.batch.rows() == 0 {
            return Ok(());
        }
        self.commit()
    }

    /// True when it is time to commit during an import.
    pub(crate) fn commit_is_due(&self) -> bool {
        let shares = self.options.shares();
        self.coins.wants_cut()
            || self.batch.bytes() >= shares.batch_bytes
            || self.world.clock.monotonic() >= self.last_commit + self.options.commit_interval
    }

    /// Makes everything up to the tip durable and publishes the view. Nothing may be in the pipeline beyond the tip.
    pub(crate) fn commit(&mut self) -> Result<(), ChainError> {
        self.poll_merge(false)?;
        let tip = store::Tip {
            height: self.tree.height(self.tip),
            hash: self.tree.hash(self.tip),
            chainwork: self.tree.work(self.tip).to_be_bytes(),
        };
        let batch = std::mem::take(&mut self.batch);
        let cut = Cut { tip: Some(tip), batch, coins: &mut self.coins };
        self.store.commit(cut, &self.world.pool)?;
        self.last_commit = self.world.clock.monotonic();
        let view = self.handle().view().moved(self.store.snapshot(), self.files.clone());
        *self.shared.view.write().expect("no panic while held") = Arc::new(view);
        let (coins_bytes, stored_bytes) = (self.coins.bytes() as u64, stored_bytes(&self.store));
        self.shared.update(|status| {
            status.committed_height = tip.height;
            status.commits += 1;
            status.coins_bytes = coins_bytes;
            status.stored_bytes = stored_bytes;
        });
        Ok(())
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
        let hash = self.tree.hash(self.tip);
        let mut known = false;
        self.shared.update(|status| {
            known = status.announced == Some(hash);
            status.announced = Some(hash);
        });
        if known {
            return;
        }
        self.shared.publish(&Event::NewTip {
            height: self.tree.height(self.tip),
            header: self.tree.header(self.tip).encode(),
            touched: Arc::new(std::mem::take(&mut self.touched)),
            reorganised_from: self.reorganised_from.take(),
        });
    }

    pub(crate) fn note_reorganisation(&mut self, fork_height: u32) {
        let lowest = self.reorganised_from.map_or(fork_height, |height| height.min(fork_height));
        self.reorganised_from = Some(lowest);
    }
}

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

/// The coin table over the store's coins; a new store gets its genesis block, whose output is no coin.
fn open_coins(
    store: &mut Store,
    world: &World,
    options: &Options,
    params: &Params,
    key: TagKey,
) -> Result<Coins, ChainError> {
    let word = |at: usize| u64::from_le_bytes(options.secret[at..at + 8].try_into().expect("eight bytes"));
    let coins_options = CoinsOptions { bytes_max: options.shares().coins_bytes, hash_key: [word(16), word(24)] };
    let tagger: store::Tagger = Arc::new(move |script: &[u8]| key.tag_of_script(script));
    let mut coins = Coins::new(store.snapshot(), tagger, &coins_options);
    if store.snapshot().tip().is_none() {
        let genesis = primitives::Block::parse(params.genesis_block()).expect("a constant");
        let tx = genesis.tx(0);
        let entry = TxEntry { offset: tx.start() as u32, first_output: 0 };
        store.push_block(&params.genesis.encode(), GENESIS_POSITION, &[entry], tx.output_count() as u32);
        let mut batch = Batch::default();
        batch.txid.push((txid_prefix(&tx.txid()), 0));
        let work = consensus::header::work_of(params.genesis.bits).to_be_bytes();
        let tip = store::Tip { height: 0, hash: params.genesis_hash, chainwork: work };
        store.commit(Cut { tip: Some(tip), batch, coins: &mut coins }, &world.pool)?;
    }
    Ok(coins)
}

/// Puts the blocks that came into the files into the store's list and the tree; returns the files they are in.
fn scan_into(
    store: &mut Store,
    tree: &mut HeaderTree,
    scanner: &mut BlockFiles,
    progress: &mut Progress,
    now_s: u64,
) -> Result<(HashSet<u32>, Vec<Note>), ChainError> {
    let mut files = HashSet::new();
    let mut each = |found: Found| {
        files.insert(found.position.file);
        store.push_found(&found);
        tree.insert(Seen { header: Header::decode(&found.header), position: found.position }, now_s);
    };
    let notes = scanner.scan(progress, &mut each)?;
    Ok((files, notes))
}

/// True where the blocks seen in earlier runs are still at their places: the first and the last are looked at.
fn found_is_of(store: &Store, files: &BlockFiles) -> Result<bool, ChainError> {
    let count = store.found_count();
    for index in [0, count.saturating_sub(1)] {
        for found in store.found(index, 1.min(count))? {
            if !holds(files, &found) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn holds(files: &BlockFiles, found: &Found) -> bool {
    files.read_at(found.position, 0, 80).is_ok_and(|header| header == found.header)
}

/// The index points into block files: at its tip they must hold the block it was built from.
fn check_tip_position(store: &Store, files: &BlockFiles, tip: store::Tip) -> Result<(), ChainError> {
    let (Some(entry), Some(header)) = (store.block_entry(tip.height)?, store.header(tip.height)?) else {
        return Ok(());
    };
    let same = entry.position == GENESIS_POSITION || holds(files, &Found { header, position: entry.position });
    if same { Ok(()) } else { Err(ChainError::BlocksMoved { height: tip.height }) }
}

/// Feeds the tree from the blocks seen in earlier runs.
fn load_found(store: &Store, tree: &mut HeaderTree, progress: &mut Progress, now_s: u64) -> Result<(), ChainError> {
    /// Records read at once: 400 KiB.
    const PAGE: u32 = 4096;
    let mut first = 0;
    while first < store.found_count() {
        for found in store.found(first, PAGE)? {
            progress.seen(found.position);
            tree.insert(Seen { header: Header::decode(&found.header), position: found.position }, now_s);
        }
        first += PAGE;
    }
    Ok(())
}

/// Median time past of every block up to `height`, from the headers in the store.
fn median_times(store: &Store, height: u32) -> Result<Vec<u32>, ChainError> {
    let bytes = store.snapshot().headers(0, height + 1)?;
    let times: Vec<u32> = bytes
        .chunks_exact(80)
        .map(|header| u32::from_le_bytes(header[68..72].try_into().expect("four bytes")))
        .collect();
    let median = |end: usize| {
        let mut last = times[(end + 1).saturating_sub(11)..=end].to_vec();
        last.sort_unstable();
        last[last.len() / 2]
    };
    Ok((0..times.len()).map(median).collect())
}
