//! What other threads may see of the writer: its status, the newest view, events, and a way to stop it.
//!
//! In:     calls from servers, the status command, signal handlers.
//! Out:    copies; nobody outside waits for the writer or makes it wait.
//! Fails:  never.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use consensus::{BlockError, CheckedBlock, Work};
use primitives::{BlockHash, ScriptHash};

use crate::intake::Intake;
use crate::kept::filters::{FilterStatus, LeftFilters};
use crate::mempool::ScriptMemory;
use crate::view::View;

/// What the writer is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Reading headers out of the block files.
    #[default]
    Scanning,
    /// Connecting blocks that were there at the start.
    Importing,
    /// At the tip, or as good as.
    Following,
    /// Writing its last commit.
    Stopping,
}

impl Phase {
    /// The word in logs and answers.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Scanning => "scanning",
            Phase::Importing => "importing",
            Phase::Following => "following",
            Phase::Stopping => "stopping",
        }
    }
}

/// Progress and counts since the program started.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// What the writer is doing.
    pub phase: Phase,
    /// Height of the best header known.
    pub headers_height: u32,
    /// Height up to which every rule has been checked.
    pub height: u32,
    /// Hash of the block at `height`.
    pub hash: BlockHash,
    /// Its time, seconds since 1970.
    pub time_s: u32,
    /// Height of the last commit; what a restart begins from.
    pub committed_height: u32,
    /// Every block that the node has is connected or refused, as far as the blocks below it are here: what is missing can
    /// only come from outside.
    pub has_tried_all: bool,
    /// Bytes of the blocks connected.
    pub bytes_done: u64,
    /// Bytes of the blocks still to be connected to reach the best header.
    pub bytes_left: u64,
    /// Blocks connected.
    pub blocks: u64,
    /// Transactions connected.
    pub transactions: u64,
    /// Inputs connected, coinbases left out.
    pub inputs: u64,
    /// Outputs connected.
    pub outputs: u64,
    /// Signatures checked by the engine.
    pub signatures: u64,
    /// Signatures proved with the hint of an earlier validation.
    pub hinted_signatures: u64,
    /// Bytes of the hints kept for later validations.
    pub hints_bytes: u64,
    /// Why no hints are kept although they should be.
    pub hints_off: Option<String>,
    /// Block filters.
    pub filters: FilterStatus,
    /// Inputs whose script a template recognised and proved.
    pub template_inputs: u64,
    /// Inputs whose scripts the mempool had found valid before their block came.
    pub known_inputs: u64,
    /// Inputs decided by Bitcoin Core's interpreter.
    pub interpreter_inputs: u64,
    /// Bytes that the coin table holds in memory.
    pub coins_bytes: u64,
    /// Commits written.
    pub commits: u64,
    /// Bytes of all segment files and columns.
    pub stored_bytes: u64,
    /// The last block refused: height, hash, reject word and details.
    pub refused: Option<(u32, BlockHash, String)>,
    /// Blocks disconnected by reorganisations.
    pub disconnected: u64,
    /// Headers whose parent is in no block file.
    pub headers_waiting: u64,
    /// What was odd about the block files, the first few.
    pub notes: Vec<String>,
    /// The tip that subscribers know.
    pub(crate) announced: Option<BlockHash>,
}

/// Something happened to the best chain.
#[derive(Clone, Debug)]
pub enum Event {
    /// A new tip is committed and visible in [`Handle::view`].
    NewTip {
        /// How many tips were told of with this one: see [`Handle::tips_told`].
        number: u64,
        /// Its height.
        height: u32,
        /// Its header.
        header: [u8; 80],
        /// Scripts whose history changed since the tip before; none where they are too many to list.
        touched: Option<Arc<HashSet<ScriptHash>>>,
        /// The height that stayed, where blocks were disconnected.
        reorganised_from: Option<u32>,
        /// Blocks that left the chain since the tip before, highest first.
        disconnected: Arc<[TipBlock]>,
        /// Blocks that joined it, lowest first.
        connected: Arc<[TipBlock]>,
    },
    /// The best header is another one; its block may be missing still.
    NewHeader {
        /// Its height.
        height: u32,
        /// Its hash.
        hash: BlockHash,
        /// The header.
        header: [u8; 80],
    },
    /// A block was judged: at the door by rules that need no coins, or by the writer. Blocks that pass are told of near
    /// the tip only; those that fail always.
    BlockJudged {
        /// Its hash.
        hash: BlockHash,
        /// Its height.
        height: u32,
        /// The rule it breaks.
        verdict: Result<(), BlockError>,
    },
}

/// A block that joined or left the chain near its tip.
#[derive(Clone, Debug)]
pub struct TipBlock {
    /// Its height.
    pub height: u32,
    /// Its hash.
    pub hash: BlockHash,
    /// The block; none where so many came at once that they are not kept in memory: [`Handle::block_bytes`] has it.
    pub block: Option<Arc<CheckedBlock>>,
}

/// Who hears of events.
pub(crate) struct Subscriber {
    sender: Sender<Event>,
    tips_only: bool,
}

pub(crate) struct Shared {
    pub(crate) view: RwLock<Arc<View>>,
    pub(crate) status: Mutex<Status>,
    pub(crate) subscribers: Mutex<Vec<Subscriber>>,
    /// Transactions whose scripts the mempool has found valid, once there is one.
    pub(crate) known: Arc<OnceLock<Arc<ScriptMemory>>>,
    pub(crate) tips_told: AtomicU64,
    pub(crate) stop: AtomicBool,
    pub(crate) block_filters: bool,
    pub(crate) left_filters: Mutex<LeftFilters>,
    pub(crate) intake: Intake,
}

/// A way to the writer; cloning it is cheap.
#[derive(Clone)]
pub struct Handle(pub(crate) Arc<Shared>);

impl Handle {
    /// The newest committed state.
    pub fn view(&self) -> Arc<View> {
        self.0.view.read().expect("no panic while held").clone()
    }

    /// A copy of the status.
    pub fn status(&self) -> Status {
        self.0.status.lock().expect("no panic while held").clone()
    }

    /// Events from now on. A receiver that is dropped is forgotten at the next event. Who subscribes later hears first: what
    /// follows from the work of an earlier subscriber never comes before the event itself.
    pub fn subscribe(&self) -> Receiver<Event> {
        self.subscribe_as(false)
    }

    /// The same, but new tips only. Whoever wants nothing else is not woken for headers and verdicts, just when those whom
    /// peers wait for need the processor.
    pub fn subscribe_tips(&self) -> Receiver<Event> {
        self.subscribe_as(true)
    }

    fn subscribe_as(&self, tips_only: bool) -> Receiver<Event> {
        let (sender, receiver) = channel();
        self.0.subscribers.lock().expect("no panic while held").insert(0, Subscriber { sender, tips_only });
        receiver
    }

    /// How many tips subscribers were told of. A subscriber that has dealt with the tip of this number has dealt with
    /// everything that any view shows.
    pub fn tips_told(&self) -> u64 {
        self.0.tips_told.load(Ordering::SeqCst)
    }

    /// From now on scripts of transactions that `known` has found valid, by at least a block's rules, are not judged again
    /// in that block. Only the first one counts.
    pub fn spare(&self, known: Arc<ScriptMemory>) {
        let _ = self.0.known.set(known);
    }

    /// Asks the writer to commit and return.
    pub fn stop(&self) {
        self.0.stop.store(true, Ordering::SeqCst);
        self.0.intake.signal.ring();
    }

    /// True once [`Handle::stop`] was called.
    pub fn stopping(&self) -> bool {
        self.0.stop.load(Ordering::SeqCst)
    }
}

impl Shared {
    pub(crate) fn publish(&self, event: &Event) {
        let is_tip = matches!(event, Event::NewTip { .. });
        let hears = |subscriber: &Subscriber| is_tip || !subscriber.tips_only;
        let mut subscribers = self.subscribers.lock().expect("no panic while held");
        subscribers.retain(|subscriber| !hears(subscriber) || subscriber.sender.send(event.clone()).is_ok());
    }

    /// Ends the initial download for good once the tip is recent and has the least work (Core:
    /// `IsInitialBlockDownload`).
    pub(crate) fn note_synced(&self) {
        let tree = self.intake.tree();
        let tip = tree.active();
        let has_work = tree.work(tip) >= Work::from_be_bytes(&self.intake.params.minimum_chainwork);
        if has_work
            && u64::from(tree.time_s(tip)).saturating_add(self.intake.tip_age_max_s) >= self.intake.clock.unix_s()
        {
            self.intake.synced.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut Status)) {
        change(&mut self.status.lock().expect("no panic while held"));
    }
}
