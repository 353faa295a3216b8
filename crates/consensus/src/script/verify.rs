//! Rows of many inputs into few calls, and verdicts back to their inputs.
//!
//! In:     jobs, an engine, counters.
//! Out:    a verdict for each job.
//! Fails:  [`ScriptFailure`] names the first bad input in the job's order.
//!
//! One queue of rows for all jobs. When it is full it goes to the engine, and verdicts resolve their inputs; a multisig
//! whose walk goes on puts its next row into the queue again, among the rows of inputs that come later. So calls stay
//! full, and no more rows are asked for than Core computes. Where an earlier proof of the same block left hints, a row
//! carries its own, and a multisig asks for the pairs that were proved, together.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use primitives::{SpentCoins, Tx};
use sigs::{CALL_ROWS_MAX, Check, Engine, Hint};

use super::hints::{KeptTraces, SEGMENT_INPUTS, Trace, write_segment};
use super::interpreter::{Interpreter, ScriptError};
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
    /// Why, as Core's interpreter has it.
    pub error: ScriptError,
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
    hinted: AtomicU64,
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
    /// Rows proved with the hint of an earlier proof.
    pub hinted: u64,
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
            hinted: self.hinted.load(Relaxed),
            fallback_inputs: self.fallback_inputs.load(Relaxed),
        }
    }

    fn add(&self, work: CountersTotal) {
        self.inputs.fetch_add(work.inputs, Relaxed);
        self.template_inputs.fetch_add(work.template_inputs, Relaxed);
        self.signatures.fetch_add(work.signatures, Relaxed);
        self.hinted.fetch_add(work.hinted, Relaxed);
        self.fallback_inputs.fetch_add(work.fallback_inputs, Relaxed);
    }
}

/// Judges inputs of blocks.
pub fn verify(jobs: &[Job], engine: &dyn Engine, counters: &Counters) -> Vec<Result<(), ScriptFailure>> {
    let mut queue = Queue::new(jobs.len(), engine);
    queue.add_jobs(jobs);
    queue.finish(counters)
}

/// What a job's proof learnt, for the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learnt {
    /// The hints of its segments. Those of all jobs of a block, in order, are what [`verify_learning`] takes for it.
    pub bytes: Vec<u8>,
    /// ECDSA rows whose parity is in them.
    pub parities: u64,
}

impl Learnt {
    /// Adds what the job after this one learnt, of the same block.
    pub fn append(&mut self, next: Learnt) {
        match self.bytes.is_empty() {
            true => self.bytes = next.bytes,
            false => self.bytes.extend_from_slice(&next.bytes),
        }
        self.parities += next.parities;
    }
}

/// Judges inputs of blocks with what an earlier proof learnt, and says what this one did.
///
/// `kept[i]` is the hints of all of job `i`'s block; empty, or any bytes at all, where there are none. They change the time
/// it takes and never a verdict. Panics unless jobs begin at the first input of a segment and end at the last of one.
pub fn verify_learning(
    jobs: &[Job],
    kept: &[&[u8]],
    engine: &dyn Engine,
    counters: &Counters,
) -> Vec<(Result<(), ScriptFailure>, Learnt)> {
    assert_eq!(jobs.len(), kept.len(), "hints for each job, or none");
    let mut queue = Queue::new(jobs.len(), engine);
    queue.ledgers = jobs.iter().zip(kept).map(|(job, kept)| Ledger::of(job, kept)).collect();
    queue.add_jobs(jobs);
    queue.flush_all();
    let learnt: Vec<Learnt> = queue.ledgers.iter().map(Ledger::learnt).collect();
    queue.finish(counters).into_iter().zip(learnt).collect()
}

/// What is kept and learnt about the inputs of a job.
struct Ledger<'h> {
    kept: KeptTraces<'h>,
    /// Of the inputs with ECDSA rows, in order.
    traces: Vec<Trace>,
    /// Where segments begin in `traces`.
    segments: Vec<usize>,
}

impl<'h> Ledger<'h> {
    fn of(job: &Job, kept: &'h [u8]) -> Ledger<'h> {
        let Range { start, end } = job.inputs;
        let first = start.max(1) - 1;
        let whole = end == job.block.block().input_count() || end % SEGMENT_INPUTS == 1;
        assert!(first.is_multiple_of(SEGMENT_INPUTS) && whole, "inputs {start}..{end} are no whole segments");
        let kept = KeptTraces::new(kept, first / SEGMENT_INPUTS);
        Ledger { kept, traces: Vec::with_capacity(end.saturating_sub(start)), segments: Vec::new() }
    }

    fn begin_segment(&mut self) {
        self.kept.next_segment();
        self.segments.push(self.traces.len());
    }

    fn learnt(&self) -> Learnt {
        let mut bytes = Vec::new();
        for (number, &start) in self.segments.iter().enumerate() {
            let end = self.segments.get(number + 1).copied().unwrap_or(self.traces.len());
            write_segment(&mut bytes, &self.traces[start..end]);
        }
        let parities = self.traces.iter().map(|trace| u64::from(trace.parities())).sum();
        Learnt { bytes, parities }
    }
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
    /// Rows in the queue, in one call, that are about this input.
    rows: usize,
    /// The walk that goes on with the verdict; none where the row alone decides.
    multisig: Option<Box<Multisig>>,
    /// What an earlier proof learnt of the rows asked; [`Trace::UNKNOWN`] in a walk that asks one after the other.
    known: Trace,
    /// Its place in its job's ledger, where there is one.
    entry: Option<usize>,
}

struct Queue<'a, 'e> {
    engine: &'e dyn Engine,
    rows: Vec<Check>,
    hints: Vec<Hint>,
    askers: Vec<Asker<'a>>,
    failures: Vec<Option<ScriptFailure>>,
    /// By job; empty where nothing is to be learnt.
    ledgers: Vec<Ledger<'e>>,
    /// The transaction the interpreter was used for last, by job and position.
    interpreter: Option<((usize, usize), Interpreter)>,
    work: CountersTotal,
}

impl<'a, 'e> Queue<'a, 'e> {
    fn new(jobs: usize, engine: &'e dyn Engine) -> Queue<'a, 'e> {
        Queue {
            engine,
            rows: Vec::new(),
            hints: Vec::new(),
            askers: Vec::new(),
            failures: vec![None; jobs],
            ledgers: Vec::new(),
            interpreter: None,
            work: CountersTotal::default(),
        }
    }

    fn add_jobs(&mut self, jobs: &'a [Job]) {
        for (number, job) in jobs.iter().enumerate() {
            for part in tx_jobs(job) {
                if !self.add(number, &part) {
                    break;
                }
            }
        }
    }

    /// Plans the inputs of one transaction; false once its job has failed.
    ///
    /// Inputs are planned in order, so when one fails all before it are in the queue and will be resolved.
    fn add(&mut self, job: usize, work: &TxJob<'a>) -> bool {
        let TxJob { tx, coins, flags, ref inputs } = *work;
        let first = tx.input_range().start;
        let mut sighasher = Sighasher::new(tx, coins);
        for index in inputs.clone() {
            if self.failures[job].is_some() {
                return false;
            }
            self.work.inputs += 1;
            // The coinbase's input is no part of any segment.
            if let Some(ledger) = self.ledgers.get_mut(job).filter(|_| (first + index) % SEGMENT_INPUTS == 1) {
                ledger.begin_segment();
            }
            let (input, coin) = (tx.input(index), coins.get(index));
            let plan = template::plan(&mut Subject { input, index, coin, flags, sighasher: &mut sighasher });
            let known = Trace::UNKNOWN;
            let mut asker = Asker { job, tx, coins, flags, input: index, rows: 1, multisig: None, known, entry: None };
            match plan {
                Some(Plan::Single(row @ Check::Schnorr { .. })) => self.push([(row, Hint::Unknown)], asker),
                Some(Plan::Single(row)) => {
                    let hint = self.open_entry(&mut asker).single();
                    self.push([(row, hint)], asker);
                }
                Some(Plan::Multisig(walk)) => {
                    let known = self.open_entry(&mut asker);
                    let pairs = walk.pairs(known);
                    asker.multisig = Some(walk);
                    match pairs {
                        Some(pairs) => self.push(pairs, Asker { known, ..asker }),
                        None => self.step(asker),
                    }
                }
                None => self.interpret(&asker),
            }
        }
        true
    }

    /// What is kept of an input with ECDSA rows; from now on it has a place for what is learnt.
    fn open_entry(&mut self, asker: &mut Asker<'a>) -> Trace {
        let Some(ledger) = self.ledgers.get_mut(asker.job) else { return Trace::UNKNOWN };
        asker.entry = Some(ledger.traces.len());
        ledger.traces.push(Trace::UNKNOWN);
        ledger.kept.next()
    }

    /// Puts rows into the queue that one call is to judge.
    fn push(&mut self, rows: impl IntoIterator<Item = (Check, Hint), IntoIter: ExactSizeIterator>, asker: Asker<'a>) {
        let rows = rows.into_iter();
        if self.rows.len() + rows.len() > CALL_ROWS_MAX {
            self.flush();
        }
        self.askers.push(Asker { rows: rows.len(), ..asker });
        for (row, hint) in rows {
            self.rows.push(row);
            self.hints.push(hint);
        }
    }

    /// Lets a walk ask for its next row.
    fn step(&mut self, asker: Asker<'a>) {
        match asker.multisig.as_ref().map(|walk| walk.ask()) {
            Some(Step::Ask(row)) => self.push([(row, Hint::Unknown)], asker),
            Some(Step::Yes(trace)) => self.accept(&asker, trace),
            Some(Step::No) | None => self.interpret(&asker),
        }
    }

    /// One call of the engine for all rows in the queue.
    fn flush(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        let given = std::mem::take(&mut self.hints);
        let askers = std::mem::take(&mut self.askers);
        let (mut hints, mut proved) = (given.clone(), vec![false; rows.len()]);
        // What is not proved here is Core's interpreter's to decide: a single row at once, and a multisig walk when it
        // ends without enough pairs. A yes of the walk needs no more than an order-preserving choice of proved pairs.
        self.engine.prove(&rows, &mut hints, &mut proved);
        self.work.signatures += rows.len() as u64;
        let found = proved.iter().zip(hints).map(|(proved, hint)| proved.then_some(hint)).collect::<Vec<_>>();
        let fits = |(given, found): &(&Hint, &Option<Hint>)| **given != Hint::Unknown && **found == Some(**given);
        self.work.hinted += given.iter().zip(&found).filter(fits).count() as u64;
        let mut start = 0;
        for asker in askers {
            let end = start + asker.rows;
            self.resolve(asker, &found[start..end]);
            start = end;
        }
    }

    /// Goes on with an input whose rows are found proved, with their hints, or not.
    fn resolve(&mut self, mut asker: Asker<'a>, found: &[Option<Hint>]) {
        let all_proved = found.iter().all(Option::is_some);
        match &mut asker.multisig {
            None if all_proved => {
                let trace = found.iter().flatten().fold(Trace::UNKNOWN, |trace, hint| trace.proved(*hint));
                self.accept(&asker, trace);
            }
            None => self.interpret(&asker),
            // The pairs of an earlier walk.
            Some(_) if asker.known != Trace::UNKNOWN => {
                let known = std::mem::replace(&mut asker.known, Trace::UNKNOWN);
                match all_proved {
                    true => self.accept(&asker, known.with(found.iter().flatten().copied())),
                    false => self.step(asker),
                }
            }
            Some(walk) => {
                walk.answer(found[0]);
                self.step(asker);
            }
        }
    }

    /// A template's yes.
    fn accept(&mut self, asker: &Asker<'a>, trace: Trace) {
        self.work.template_inputs += 1;
        if let Some(entry) = asker.entry {
            self.ledgers[asker.job].traces[entry] = trace;
        }
    }

    /// Core's interpreter decides.
    fn interpret(&mut self, asker: &Asker<'a>) {
        let (tx_index, input_index) = (asker.tx.index(), asker.input);
        let failure = &mut self.failures[asker.job];
        // A failure further in front is known: this input cannot change the answer.
        if failure.is_some_and(|known| (known.tx_index, known.input_index) < (tx_index, input_index)) {
            return;
        }
        self.work.fallback_inputs += 1;
        let key = (asker.job, tx_index);
        let held = self.interpreter.take().filter(|(held, _)| *held == key);
        let (_, interpreter) =
            self.interpreter.insert(held.unwrap_or_else(|| (key, Interpreter::new(asker.tx, asker.coins))));
        if let Err(error) = interpreter.judge(input_index, asker.flags) {
            *failure = Some(ScriptFailure { tx_index, input_index, error }); // what was known lies behind it
        }
    }

    fn flush_all(&mut self) {
        // Each call takes at least one key from every walk, or the pairs of an earlier one: at most 21 calls follow.
        while !self.rows.is_empty() {
            self.flush();
        }
    }

    fn finish(mut self, counters: &Counters) -> Vec<Result<(), ScriptFailure>> {
        self.flush_all();
        counters.add(self.work);
        self.failures.into_iter().map(|failure| failure.map_or(Ok(()), Err)).collect()
    }
}
