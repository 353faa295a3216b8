//! Lots: runs of consecutive blocks that go through the parallel stages together.
//!
//! In:     places of blocks; later the same blocks with the coins they spend.
//! Out:    [`Prepared`] blocks (read, parsed, checked without chain state, outputs tagged); later a [`Verdict`] with
//!         the index rows of the blocks that passed.
//! Fails:  each block with its own error; the writer decides what follows from it.
//!
//! Everything here is pure but for reading block files, and runs on the pool's threads. A lot holds about
//! [`LOT_BYTES`], so that signature batches fill up across transactions and blocks.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};

use consensus::BlockError;
use consensus::block::{self, CheckedBlock};
use consensus::connect;

use consensus::flags;
use consensus::script::{self, Learnt, SEGMENT_INPUTS};
use index::filter;
use index::rows::{self, BlockRows};
use index::tag::TagKey;
use primitives::encode::ParseError;
use primitives::{Block, BlockHash, Params, SpentCoins, TxNum};
use sigs::Engine;
use stdx::pool::{Pool, Ticket};
use store::Hints;
use store::blockfiles::{BlockFiles, BlockFilesError, Position};

use crate::tree::NodeId;

/// Block bytes of one lot: some 3,000 inputs, enough to fill signature batches and to hide the queue's cost.
pub const LOT_BYTES: u64 = 1_000_000;
/// Blocks of one lot; early blocks have 200 bytes each.
pub const LOT_BLOCKS_MAX: usize = 256;
/// Inputs of one script task; a multiple of the 512 rows that engines want per call.
const SCRIPT_TASK_INPUTS: usize = 2048;
const _: () = assert!(SCRIPT_TASK_INPUTS.is_multiple_of(SEGMENT_INPUTS));

/// Where a block is and which node it belongs to.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its header.
    pub node: NodeId,
    /// Hash the bytes must have.
    pub hash: BlockHash,
    /// Its height.
    pub height: u32,
    /// Median time past of its parent.
    pub median_time_past_s: u32,
    /// Where its bytes are.
    pub position: Position,
    /// The block, where it has just come in and been checked.
    pub fresh: Option<Arc<CheckedBlock>>,
}

/// A block that passed every rule needing no coins.
pub struct Prepared {
    /// Its header.
    pub node: NodeId,
    /// Its height.
    pub height: u32,
    /// Median time past of its parent.
    pub median_time_past_s: u32,
    /// Where its bytes are.
    pub position: Position,
    /// The block.
    pub checked: Arc<CheckedBlock>,
    /// Tags of its outputs, in order.
    pub output_tags: Arc<Vec<u64>>,
    /// What is kept of an earlier proof of its scripts.
    pub hints: Arc<Vec<u8>>,
}

/// Why a block could not be prepared.
#[derive(Debug)]
pub enum PrepareError {
    /// Its bytes could not be read.
    Read(BlockFilesError),
    /// Its bytes are no block.
    Parse(ParseError),
    /// The bytes hold another block than the one scanned there.
    Changed,
    /// It breaks a rule.
    Rule(BlockError),
}

impl fmt::Display for PrepareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PrepareError::Read(error) => write!(f, "{error}"),
            PrepareError::Parse(error) => write!(f, "no block: {error}"),
            PrepareError::Changed => f.write_str("the bytes changed since they were scanned"),
            PrepareError::Rule(error) => write!(f, "{error}"),
        }
    }
}

fn read_checked(files: &BlockFiles, place: &Place, params: &Params) -> Result<CheckedBlock, PrepareError> {
    let bytes = files.read_block(place.position).map_err(PrepareError::Read)?;
    let parsed = Block::parse(bytes).map_err(PrepareError::Parse)?;
    if parsed.header().hash() != place.hash {
        return Err(PrepareError::Changed);
    }
    block::check(parsed, params).map_err(PrepareError::Rule)
}

/// Reads, parses, checks and tags one block.
pub fn prepare(files: &BlockFiles, place: Place, judges: &Judges) -> Result<Prepared, PrepareError> {
    let params = &judges.params;
    let hints = judges.hints.as_ref().map_or(Vec::new(), |hints| hints.of(place.height, &place.hash));
    let checked = match place.fresh {
        Some(fresh) => fresh,
        None => Arc::new(read_checked(files, &place, params)?),
    };
    block::check_contextual(&checked, place.height, place.median_time_past_s, params).map_err(PrepareError::Rule)?;
    let output_tags = match &judges.tag_key {
        Some(key) => rows::output_tags(checked.block(), key),
        None => vec![rows::NO_TAG; checked.block().output_count()],
    };
    Ok(Prepared {
        node: place.node,
        height: place.height,
        median_time_past_s: place.median_time_past_s,
        position: place.position,
        checked,
        output_tags: Arc::new(output_tags),
        hints: Arc::new(hints),
    })
}

/// A block whose coins have been spent and created in the coin table.
#[derive(Clone)]
pub struct Connected {
    /// Its header.
    pub node: NodeId,
    /// Its height.
    pub height: u32,
    /// Where its bytes are.
    pub position: Position,
    /// The block.
    pub checked: Arc<CheckedBlock>,
    /// Tags of its outputs, in order.
    pub output_tags: Arc<Vec<u64>>,
    /// What it spends.
    pub spent: Arc<SpentCoins>,
    /// Tags of the scripts of what it spends.
    pub spent_tags: Arc<Vec<u64>>,
    /// Ordinal of its first transaction.
    pub first_tx_num: TxNum,
    /// Median time past of its parent.
    pub median_time_past_s: u32,
    /// What is kept of an earlier proof of its scripts.
    pub hints: Arc<Vec<u8>>,
    /// False below an `assume_valid` block.
    pub check_scripts: bool,
}

/// Why a block does not join the chain.
#[derive(Clone, Copy, Debug)]
pub enum Failure {
    /// It breaks a rule.
    Rule(BlockError),
    /// The program is stopping, and nobody looked.
    Cancelled,
}

/// What the parallel stages found out about one lot.
#[derive(Default)]
pub struct Verdict {
    /// Rows of each block, up to the first that fails.
    pub rows: Vec<BlockRows>,
    /// Filters of the same blocks; none where they are not built.
    pub filters: Vec<Option<Vec<u8>>>,
    /// The first block that does not pass, by its position in the lot.
    pub failure: Option<(usize, Failure)>,
    /// What the proof of each block's scripts learnt.
    pub learnt: Vec<Learnt>,
}

/// What verification needs besides the blocks.
pub struct Judges {
    /// The network's constants.
    pub params: Params,
    /// Who checks signatures.
    pub engine: Arc<dyn Engine>,
    /// Counts of inputs, templates, signatures and fallbacks.
    pub counters: script::Counters,
    /// Key of the script tags; none leaves the index out.
    pub tag_key: Option<TagKey>,
    /// Filters are built with the rows.
    pub builds_filters: AtomicBool,
    /// Hints of earlier proofs.
    pub hints: Option<Hints>,
    /// Median time past by height, of every connected block.
    pub median_times_s: RwLock<Vec<u32>>,
    /// True once the program is stopping: scripts not yet checked are left unchecked, and their blocks taken back.
    pub cancelled: AtomicBool,
}

impl Judges {
    /// Judges without hints, index or history.
    pub fn new(params: &Params, engine: &Arc<dyn Engine>) -> Judges {
        Judges {
            params: params.clone(),
            engine: engine.clone(),
            counters: script::Counters::default(),
            tag_key: None,
            builds_filters: false.into(),
            hints: None,
            median_times_s: RwLock::default(),
            cancelled: false.into(),
        }
    }
}

/// A lot on its way through the script checks.
pub struct InFlight {
    /// The blocks, lowest first.
    pub blocks: Arc<Vec<Connected>>,
    /// Bytes of the blocks.
    pub bytes: u64,
    scripts: Vec<Ticket<ScriptsJudged>>,
    rest: Ticket<Verdict>,
}

impl InFlight {
    /// Queues everything that remains to be judged about `blocks`.
    pub fn submit(blocks: Vec<Connected>, judges: &Arc<Judges>, pool: &Pool) -> InFlight {
        let blocks = Arc::new(blocks);
        let bytes = blocks.iter().map(|block| block.checked.block().bytes().len() as u64).sum();
        let scripts = script_tasks(&blocks)
            .into_iter()
            .map(|task| {
                let (blocks, judges) = (blocks.clone(), judges.clone());
                pool.submit(move || check_scripts(&blocks, &task, &judges))
            })
            .collect();
        let rest = {
            let (blocks, judges) = (blocks.clone(), judges.clone());
            pool.submit(move || check_amounts_and_derive_rows(&blocks, &judges))
        };
        InFlight { blocks, bytes, scripts, rest }
    }

    /// True once [`InFlight::wait`] would return at once.
    pub fn is_done(&self) -> bool {
        self.rest.is_done() && self.scripts.iter().all(Ticket::is_done)
    }

    /// Waits, and answers with the blocks and what was found.
    pub fn wait(self) -> (Arc<Vec<Connected>>, Verdict) {
        let mut verdict = self.rest.wait();
        verdict.learnt = vec![Learnt::default(); self.blocks.len()];
        for ticket in self.scripts {
            let judged = ticket.wait();
            for (index, learnt) in judged.learnt {
                verdict.learnt[index].append(learnt);
            }
            if let Some((index, failure)) = judged.failure
                && verdict.failure.as_ref().is_none_or(|(first, _)| index < *first)
            {
                verdict.rows.truncate(index);
                verdict.failure = Some((index, failure));
            }
        }
        (self.blocks, verdict)
    }
}

/// A part of a lot's inputs: positions among a block's inputs, by position of the block in the lot.
type ScriptTask = Vec<(usize, Range<usize>)>;

/// What one task found.
#[derive(Default)]
struct ScriptsJudged {
    failure: Option<(usize, Failure)>,
    /// By position of the block in the lot; the parts of one block are in order.
    learnt: Vec<(usize, Learnt)>,
}

/// Cuts the inputs of a lot into tasks of about [`SCRIPT_TASK_INPUTS`], in the midst of transactions where need be: one
/// transaction of a megabyte, the costliest kind, is shared by all threads. A block is cut where segments of hints end.
fn script_tasks(blocks: &[Connected]) -> Vec<ScriptTask> {
    let mut tasks = Vec::new();
    let mut task: ScriptTask = Vec::new();
    let mut room = SCRIPT_TASK_INPUTS;
    for (index, connected) in blocks.iter().enumerate().filter(|(_, connected)| connected.check_scripts) {
        let count = connected.checked.block().input_count();
        // The coinbase's input spends nothing.
        let mut first = 1;
        while first < count {
            let segments = room - room % SEGMENT_INPUTS;
            let taken = if count - first <= room { count - first } else { segments };
            if taken > 0 {
                task.push((index, first..first + taken));
            }
            (room, first) = (room - taken, first + taken);
            if room == 0 || first < count {
                tasks.push(std::mem::take(&mut task));
                room = SCRIPT_TASK_INPUTS;
            }
        }
    }
    if !task.is_empty() {
        tasks.push(task);
    }
    tasks
}

fn check_scripts(blocks: &[Connected], task: &ScriptTask, judges: &Judges) -> ScriptsJudged {
    if judges.cancelled.load(Ordering::Relaxed) {
        let failure = task.first().map(|(index, _)| (*index, Failure::Cancelled));
        return ScriptsJudged { failure, ..ScriptsJudged::default() };
    }
    let jobs: Vec<script::Job> = task
        .iter()
        .map(|(index, inputs)| {
            let connected = &blocks[*index];
            script::Job {
                block: connected.checked.clone(),
                spent: connected.spent.clone(),
                flags: flags::at(connected.height, connected.checked.hash(), &judges.params),
                inputs: inputs.clone(),
            }
        })
        .collect();
    let indices = task.iter().map(|(index, _)| *index);
    let (verdicts, learnt): (Vec<_>, Vec<_>) = match judges.hints {
        Some(_) => {
            let kept: Vec<&[u8]> = indices.clone().map(|index| &blocks[index].hints[..]).collect();
            script::verify_learning(&jobs, &kept, &*judges.engine, &judges.counters).into_iter().unzip()
        }
        None => (script::verify(&jobs, &*judges.engine, &judges.counters), Vec::new()),
    };
    let failed = verdicts.into_iter().zip(indices.clone()).find_map(|(verdict, index)| Some((index, verdict.err()?)));
    let failure = failed.map(|(index, failure)| (index, Failure::Rule(failure.into())));
    ScriptsJudged { failure, learnt: indices.zip(learnt).collect() }
}

fn check_amounts_and_derive_rows(blocks: &[Connected], judges: &Judges) -> Verdict {
    let mut verdict = Verdict::default();
    for (index, connected) in blocks.iter().enumerate() {
        let hash = *connected.checked.hash();
        let median_time_of = |height: u32| {
            let times = judges.median_times_s.read().expect("writers do not panic while they hold it");
            times[height as usize]
        };
        let context = connect::Context {
            height: connected.height,
            block_hash: hash,
            median_time_past_s: connected.median_time_past_s,
            mtp_of: &median_time_of,
            params: &judges.params,
            flags: flags::at(connected.height, &hash, &judges.params),
        };
        if let Err(error) = connect::check(&connected.checked, &connected.spent, &context) {
            verdict.failure = Some((index, Failure::Rule(error)));
            return verdict;
        }
        verdict.rows.push(match judges.tag_key.is_some() {
            true => rows::of_block(
                &connected.checked,
                &connected.output_tags,
                &connected.spent,
                &connected.spent_tags,
                connected.first_tx_num,
            ),
            false => BlockRows::default(),
        });
        let spent = || connected.spent.iter().map(|coin| coin.script);
        let builds = judges.builds_filters.load(Ordering::Relaxed);
        verdict.filters.push(builds.then(|| filter::of_block(connected.checked.block(), &hash, spent())));
    }
    verdict
}
