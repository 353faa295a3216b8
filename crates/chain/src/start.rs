//! The start of a chain: store, block files, headers known from before.
//!
//! In:     a [`World`], [`Options`].
//! Out:    a [`Chain`] that stands where its last commit stood, and knows every header it knew.
//! Fails:  [`ChainError`]; nothing of another node's folder is changed, the end of our own last file is cut to whole
//!         records.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, RwLock};

use index::filter;
use index::rows::txid_prefix;
use index::tag::TagKey;
use primitives::{Header, Params};
use stdx::checksum::checksum;
use stdx::disk::Disk;
use store::blockfiles::{BlockFiles, BlockFilesError, Found, Note, OwnFiles, Progress};
use store::{Batch, Coins, CoinsOptions, Cut, Fact, Store, Tip, TxEntry};

use crate::error::ChainError;
use crate::handle::{Shared, Status};
use crate::intake::Intake;
use crate::kept::hints::HintsKeeper;
use crate::lot::Judges;
use crate::news::News;
use crate::options::{Options, World};
use crate::tree::{HeaderTree, Inserted, NodeId, Seen};
use crate::view::{GENESIS_POSITION, View};
use crate::writer::Chain;

/// Seed of the checksum that makes the key of our own block files out of the secret.
const OWN_KEY_SEED: u64 = 0x626c_6f63_6b73;

impl Chain {
    /// Opens the store, or makes one that holds the genesis block, and learns the headers it has seen.
    pub fn open(world: World, mut options: Options) -> Result<Chain, ChainError> {
        let params = Arc::new(options.params.clone());
        let keys = store::Options { tag_key_seed: *options.secret.first_chunk().expect("32 bytes") };
        let mut store = Store::open(world.disk.clone(), &options.datadir, &params, &keys)?;
        if let Some(folder) = &options.own_blocks {
            let key_seed = checksum(OWN_KEY_SEED, &options.secret).to_le_bytes();
            OwnFiles::make_folder(&*world.disk, folder, key_seed)?;
        }
        let files = Arc::new(open_files(&world, &options)?);
        let key = TagKey::new(store.snapshot().tag_key());
        let coins = open_coins(&mut store, &world, &options, &params, key)?;
        let tip = store.snapshot().tip().expect("the genesis block is committed");
        let Known { tree, progress, scanner, own, tip_node } =
            learn_all(&world, &mut options, &mut store, &files, tip)?;
        let (keeper, hints) = HintsKeeper::open(&*world.disk, &options.hints, &params);
        let median_times_s = RwLock::new(median_times(&store, tip.height)?);
        let tag_key = (!options.skip_index).then_some(key);
        let judges = Judges { hints, median_times_s, tag_key, ..Judges::new(&options.params, &world.engine) };
        let judges = Arc::new(judges);
        let view = View::new(store.snapshot(), files.clone(), params.clone(), options.shares().view_bytes);
        let shared = Arc::new(Shared {
            view: RwLock::new(Arc::new(view)),
            status: Mutex::new(Status {
                height: tip.height,
                hash: tip.hash,
                committed_height: tip.height,
                headers_height: tree.height(tree.best_header()),
                hints_bytes: keeper.bytes(),
                hints_off: keeper.off.clone(),
                ..Status::default()
            }),
            subscribers: Mutex::default(),
            known: judges.known.clone(),
            tips_told: 0.into(),
            stop: false.into(),
            block_filters: options.block_filters,
            left_filters: Mutex::default(),
            intake: Intake::new(tree, own, &world, params.clone(), &options),
        });
        shared.note_synced();
        let last_commit = world.clock.monotonic();
        let mut chain = Chain {
            world,
            options,
            params,
            store,
            coins,
            judges,
            hints: keeper,
            filter_problem: None,
            shared,
            files,
            scanner,
            progress,
            last_scan: last_commit,
            tip: tip_node,
            batch: Batch::default(),
            news: News::default(),
            waiting: Vec::new(),
            judged: HashMap::new(),
            following: false,
            last_commit,
            scripts_checked_for: None,
            damaged_tried: last_commit,
            merge: None,
            merge_cancel: None,
        };
        chain.start_filters()?;
        Ok(chain)
    }
}

/// Headers that the store in a folder knows with or without their blocks, in the order they came: what [`Options::headers`] of
/// the store that replaces it may be. What it refused is not among them as such: it is judged again.
pub fn headers_of_store(disk: Arc<dyn Disk>, dir: &Path, params: &Params) -> Result<Vec<[u8; 80]>, ChainError> {
    let store = Store::open(disk, dir, params, &store::Options { tag_key_seed: [0; 16] })?;
    let mut headers = Vec::new();
    for_each_fact(&store, |fact| {
        if let Fact::Header(header) = fact {
            headers.push(header);
        }
    })?;
    Ok(headers)
}

/// Headers from elsewhere join the tree; those that are new to it are kept.
fn take_over(headers: Vec<[u8; 80]>, store: &mut Store, tree: &mut HeaderTree, now_s: u64) {
    for header in headers {
        match tree.insert(Seen { header: Header::decode(&header), position: None }, now_s) {
            Inserted::Added | Inserted::Waiting | Inserted::Early => store.push_fact(&Fact::Header(header)),
            Inserted::Known | Inserted::Refused => {}
        }
    }
}

/// What is known of headers and blocks at the start.
struct Known {
    tree: HeaderTree,
    progress: Progress,
    scanner: Option<BlockFiles>,
    own: Option<OwnFiles>,
    tip_node: NodeId,
}

/// What earlier runs learned, and what our own files hold beyond the last commit.
fn learn_all(
    world: &World,
    options: &mut Options,
    store: &mut Store,
    files: &BlockFiles,
    tip: Tip,
) -> Result<Known, ChainError> {
    let headers = std::mem::take(&mut options.headers);
    let (params, now_s) = (&options.params, world.clock.unix_s());
    let foreign = options.blocks_from.as_deref();
    let mut scanner = foreign.map(|path| BlockFiles::open(world.disk.clone(), path, params.magic)).transpose()?;
    let (mut tree, mut progress) = (HeaderTree::new(params), Progress::default());
    if !load_found(store, files, &mut tree, &mut progress, now_s)? {
        store.clear_found()?;
        (tree, progress) = (HeaderTree::new(params), Progress::default());
    }
    let own = open_own(world, options, store, &mut tree, &mut progress)?;
    if let Some(scanner) = &mut scanner
        && tree.find(&tip.hash).is_none()
    {
        scan_into(store, scanner, &mut progress, &mut |seen| drop(tree.insert(seen, now_s)))?;
    }
    let tip_node = tree.find(&tip.hash).ok_or(ChainError::TipUnknown { height: tip.height, hash: tip.hash })?;
    check_tip_position(store, files, tip)?;
    take_over(headers, store, &mut tree, now_s);
    tree.keep_tip(tip_node);
    tree.set_connected(tip_node);
    tree.set_active(tip_node);
    Ok(Known { tree, progress, scanner, own, tip_node })
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
        if options.block_filters {
            let bytes = filter::of_block(&genesis, &params.genesis_hash, std::iter::empty());
            let hash = filter::hash(&bytes);
            store.push_filter(&bytes, hash, filter::header(&hash, &[0; 32]))?;
        }
        let mut batch = Batch::default();
        batch.txid.push((txid_prefix(&tx.txid()), 0));
        let work = consensus::header::work_of(params.genesis.bits).to_be_bytes();
        let tip = store::Tip { height: 0, hash: params.genesis_hash, chainwork: work };
        store.commit(Cut { tip: Some(tip), batch, coins: &mut coins }, &world.pool)?;
    }
    Ok(coins)
}

/// Readers of all block files there are.
pub(crate) fn open_files(world: &World, options: &Options) -> Result<BlockFiles, BlockFilesError> {
    let (foreign, own) = (options.blocks_from.as_deref(), options.own_blocks.as_deref());
    BlockFiles::open_both(world.disk.clone(), foreign, own, options.params.magic)
}

/// Our own files, ready to be appended to; blocks in them that no commit knows of are found again.
fn open_own(
    world: &World,
    options: &Options,
    store: &mut Store,
    tree: &mut HeaderTree,
    progress: &mut Progress,
) -> Result<Option<OwnFiles>, ChainError> {
    let Some(folder) = &options.own_blocks else { return Ok(None) };
    let mut files = BlockFiles::open_both(world.disk.clone(), None, Some(folder), options.params.magic)?;
    let now_s = world.clock.unix_s();
    scan_into(store, &mut files, progress, &mut |seen| drop(tree.insert(seen, now_s)))?;
    Ok(Some(OwnFiles::open(world.disk.clone(), folder, options.params.magic, progress)?))
}

/// Puts the blocks that came into the files into the store's list and the tree; returns the files they are in.
pub(crate) fn scan_into(
    store: &mut Store,
    scanner: &mut BlockFiles,
    progress: &mut Progress,
    insert: &mut dyn FnMut(Seen),
) -> Result<(HashSet<u32>, Vec<Note>), ChainError> {
    let mut files = HashSet::new();
    let mut each = |found: Found| {
        files.insert(found.position.file);
        store.push_found(&found);
        insert(Seen { header: Header::decode(&found.header), position: Some(found.position) });
    };
    let notes = scanner.scan(progress, &mut each)?;
    Ok((files, notes))
}

fn holds(files: &BlockFiles, found: &Found) -> bool {
    files.read_at(found.position, 0, 80).is_ok_and(|header| header == found.header)
}

/// The index points into block files: at its tip they must hold the block it was built from.
fn check_tip_position(store: &Store, files: &BlockFiles, tip: Tip) -> Result<(), ChainError> {
    let (Some(entry), Some(header)) = (store.block_entry(tip.height)?, store.header(tip.height)?) else {
        return Ok(());
    };
    let same = entry.position == GENESIS_POSITION || holds(files, &Found { header, position: entry.position });
    if same { Ok(()) } else { Err(ChainError::BlocksMoved { height: tip.height }) }
}

/// Feeds the tree from what was learned in earlier runs. False where the blocks are not at their places any more; of
/// them the first and the last are looked at.
fn load_found(
    store: &Store,
    files: &BlockFiles,
    tree: &mut HeaderTree,
    progress: &mut Progress,
    now_s: u64,
) -> Result<bool, ChainError> {
    let (mut first_block, mut last_block) = (None, None);
    for_each_fact(store, |fact| {
        learn(tree, progress, &fact, now_s);
        if let Fact::Block(found) = fact {
            first_block.get_or_insert(found);
            last_block = Some(found);
        }
    })?;
    Ok([first_block, last_block].into_iter().flatten().all(|found| holds(files, &found)))
}

fn for_each_fact(store: &Store, mut each: impl FnMut(Fact)) -> Result<(), ChainError> {
    /// Records read at once: 400 KiB.
    const PAGE: u32 = 4096;
    let mut first = 0;
    while first < store.found_count() {
        store.found(first, PAGE)?.into_iter().for_each(&mut each);
        first += PAGE;
    }
    Ok(())
}

fn learn(tree: &mut HeaderTree, progress: &mut Progress, fact: &Fact, now_s: u64) {
    let mut insert = |header: &[u8; 80], position| {
        let header = Header::decode(header);
        tree.insert(Seen { header, position }, now_s);
        tree.find(&header.hash())
    };
    match fact {
        Fact::Block(found) => {
            progress.seen(found.position);
            insert(&found.header, Some(found.position));
        }
        Fact::Header(header) => drop(insert(header, None)),
        Fact::Refused(header) => {
            if let Some(id) = insert(header, None) {
                tree.invalidate(id);
            }
        }
        Fact::Reconsidered(header) => {
            if let Some(id) = insert(header, None) {
                tree.reconsider(id);
            }
        }
    }
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
