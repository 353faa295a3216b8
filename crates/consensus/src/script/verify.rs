//! Rows of many inputs into few calls, and verdicts back to their inputs.
//!
//! In:     jobs, an engine, counters.
//! Out:    a verdict for each job.
//! Fails:  [`ScriptFailure`] names the first bad input in the job's order.
//!
//! One queue of rows for all jobs. When it is full it goes to the engine, and verdicts resolve their inputs; a multisig
//! whose walk goes on puts its next row into the queue again, among the rows of inputs that come later. So calls stay
//! full, and no more rows are asked for than Core computes.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use primitives::{SpentCoins, Tx};
use sigs::{CALL_ROWS_MAX, Check, Engine};

use super::interpreter::Interpreter;
use super::multisig::{Multisig, Step};
use super::sighash::{Sighasher, TxCoins};
use super::template::{self, Plan, Subject};
use crate::block::CheckedBlock;
use crate::flags::Flags;

/// Inputs of one block, to be judged together.
///
/// A transaction may be cut: many threads can share one of a megabyte.
#[derive(Clone)]
pub struct Job {
    /// The block.
    pub block: Arc<CheckedBlock>,
    /// The coins all its inputs spend, the coinbase's left out.
    pub spent: Arc<SpentCoins>,
    /// The rules of its height.
    pub flags: Flags,
    /// Positions among the inputs of all transactions; the coinbase's, which is 0, is passed over.
    pub inputs: Range<usize>,
}

/// Inputs of one transaction to be judged, without a block around it.
#[derive(Clone)]
pub struct TxJob<'a> {
    /// The transaction.
    pub tx: Tx<'a>,
    /// The coins its inputs spend.
    pub coins: TxCoins<'a>,
    /// The rules it is judged by.
    pub flags: Flags,
    /// Positions of the inputs to judge.
    pub inputs: Range<usize>,
}

/// The first input of a job that its coin's script does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScriptFailure {
    /// Position of the transaction in its block.
    pub tx_index: usize,
    /// Position of the input in it.
    pub input_index: usize,
}

impl fmt::Display for ScriptFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the script of input {} of transaction {} does not allow it", self.input_index, self.tx_index)
    }
}

/// What verifiers have done, added up over threads.
#[derive(Debug, Default)]
pub struct Counters {
    inputs: AtomicU64,
    template_inputs: AtomicU64,
    signatures: AtomicU64,
    fallback_inputs: AtomicU64,
}

/// The numbers of [`Counters`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountersTotal {
    /// Inputs judged.
    pub inputs: u64,
    /// Inputs that a template found valid.
    pub template_inputs: u64,
    /// Rows given to the engine.
    pub signatures: u64,
    /// Inputs that Core's interpreter decided.
    pub fallback_inputs: u64,
}

impl Counters {
    /// The numbers now.
    pub fn total(&self) -> CountersTotal {
        CountersTotal {
            inputs: self.inputs.load(Relaxed),
            template_inputs: self.template_inputs.load(Relaxed),
            signatures: self.signatures.load(Relaxed),
            fallback_inputs: self.fallback_inputs.load(Relaxed),
        }
    }

    fn add(&self, work: CountersTotal) {
        self.inputs.fetch_add(work.inputs, Relaxed);
        self.template_inputs.fetch_add(work.template_inputs, Relaxed);
        self.signatures.fetch_add(work.signatures, Relaxed);
        self.fallback_inputs.fetch_add(work.fallback_inputs, Relaxed);
    }
}

/// Judges inputs of blocks.
pub fn verify(jobs: &[Job], engine: &dyn Engine, counters: &Counters) -> Vec<Result<(), ScriptFailure>> {
    let mut queue = Queue::new(jobs.len(), engine);
    for (number, job) in jobs.iter().enumerate() {
        for part in tx_jobs(job) {
            if !queue.add(number, &part) {
                break;
            }
        }
    }
    queue.finish(counters)
}

/// The transactions that a job's inputs belong to, the coinbase left out.
fn tx_jobs(job: &Job) -> impl Iterator<Item = TxJob<'_>> {
    let (block, Range { start, end }) = (job.block.block(), job.inputs.clone());
    let count = block.tx_count();
    let first = first_where(count, |index| block.tx(index).input_range().end > start);
    let cut = move |index: usize| {
        let tx = block.tx(index);
        let whole = tx.input_range();
        // The coinbase has one input and spends no coin.
        let coins = TxCoins::new(&job.spent, whole.start - 1, whole.len());
        let inputs = start.max(whole.start) - whole.start..end.min(whole.end) - whole.start;
        TxJob { tx, coins, flags: job.flags, inputs }
    };
    let belongs = move |&index: &usize| block.tx(index).input_range().start < end;
    (first.max(1)..count).take_while(belongs).map(cut)
}

/// The first of `0..count` for which a test holds that holds for all after it.
fn first_where(count: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

/// Judges transactions, each for itself.
pub fn verify_txs(jobs: &[TxJob<'_>], engine: &dyn Engine, counters: &Counters) -> Vec<Result<(), ScriptFailure>> {
    let mut queue = Queue::new(jobs.len(), engine);
    for (number, job) in jobs.iter().enumerate() {
        queue.add(number, job);
    }
    queue.finish(counters)
}

/// Whose verdict a row is.
struct Asker<'a> {
    job: usize,
    tx: Tx<'a>,
    coins: TxCoins<'a>,
    flags: Flags,
    input: usize,
    /// The walk that goes on with the verdict; none where the row alone decides.
    multisig: Option<Box<Multisig>>,
}

struct Queue<'a, 'e> {
    engine: &'e dyn Engine,
    rows: Vec<Check>,
    askers: Vec<Asker<'a>>,
    failures: Vec<Option<ScriptFailure>>,
    /// The transaction the interpreter was used for last, by job and position.
    interpreter: Option<((usize, usize), Interpreter)>,
    work: CountersTotal,
}

impl<'a, 'e> Queue<'a, 'e> {
    fn new(jobs: usize, engine: &'e dyn Engine) -> Queue<'a, 'e> {
        let (rows, askers) = (Vec::new(), Vec::new());
        Queue { engine, rows, askers, failures: vec![None; jobs], interpreter: None, work: CountersTotal::default() }
    }

    /// Plans the inputs of one transaction; false once its job has failed.
    ///
    /// Inputs are planned in order, so when one fails all before it are in the queue and will be resolved.
    fn add(&mut self, job: usize, work: &TxJob<'a>) -> bool {
        let TxJob { tx, coins, flags, ref inputs } = *work;
        let mut sighasher = Sighasher::new(tx, coins);
        for index in inputs.clone() {
            if self.failures[job].is_some() {
                return false;
            }
            self.work.inputs += 1;
            let (input, coin) = (tx.input(index), coins.get(index));
            let plan = template::plan(&mut Subject { input, index, coin, flags, sighasher: &mut sighasher });
            let asker = |multisig| Asker { job, tx, coins, flags, input: index, multisig };
            match plan {
                Some(Plan::Single(row)) => self.push(row, asker(None)),
                Some(Plan::Multisig(walk)) => self.step(asker(Some(walk))),
                None => self.interpret(&asker(None)),
            }
        }
        true
    }

    fn push(&mut self, row: Check, asker: Asker<'a>) {
        self.rows.push(row);
        self.askers.push(asker);
        if self.rows.len() == CALL_ROWS_MAX {
            self.flush();
        }
    }

    /// Lets a walk ask for its next row.
    fn step(&mut self, asker: Asker<'a>) {
        match asker.multisig.as_ref().map(|walk| walk.ask()) {
            Some(Step::Ask(row)) => self.push(row, asker),
            Some(Step::Yes) => self.work.template_inputs += 1,
            Some(Step::No) | None => self.interpret(&asker),
        }
    }

    /// One call of the engine for all rows in the queue.
    fn flush(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        let askers = std::mem::take(&mut self.askers);
        let mut verdicts = vec![false; rows.len()];
        // What is not proved here is Core's interpreter's to decide: a single row at once, and a multisig walk when it
        // ends without enough pairs. A yes of the walk needs no more than an order-preserving choice of proved pairs.
        self.engine.prove(&rows, &mut verdicts);
        self.work.signatures += rows.len() as u64;
        for (mut asker, good) in askers.into_iter().zip(verdicts) {
            match &mut asker.multisig {
                Some(walk) => {
                    walk.answer(good);
                    self.step(asker);
                }
                None if good => self.work.template_inputs += 1,
                None => self.interpret(&asker),
            }
        }
    }

    /// Core's interpreter decides.
    fn interpret(&mut self, asker: &Asker<'a>) {
        let place = ScriptFailure { tx_index: asker.tx.index(), input_index: asker.input };
        let failure = &mut self.failures[asker.job];
        // A failure further in front is known: this input cannot change the answer.
        if failure.is_some_and(|known| known < place) {
            return;
        }
        self.work.fallback_inputs += 1;
        let key = (asker.job, place.tx_index);
        let held = self.interpreter.take().filter(|(held, _)| *held == key);
        let (_, interpreter) =
            self.interpreter.insert(held.unwrap_or_else(|| (key, Interpreter::new(asker.tx, asker.coins))));
        if !interpreter.verify(asker.input, asker.flags) {
            *failure = Some(failure.map_or(place, |known| known.min(place)));
        }
    }

    fn finish(mut self, counters: &Counters) -> Vec<Result<(), ScriptFailure>> {
        // Each call takes at least one key from every walk, so at most 20 calls follow.
        while !self.rows.is_empty() {
            self.flush();
        }
        counters.add(self.work);
        self.failures.into_iter().map(|failure| failure.map_or(Ok(()), Err)).collect()
    }
}
