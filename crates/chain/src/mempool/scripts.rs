//! Scripts: which transactions' were found valid, and those that are still to be judged.
//!
//! In:     wtxids and the rules they were judged by; transactions with the coins they spend.
//! Out:    whether a wtxid was found valid by at least these rules; [`Judged`], the verdicts on the transactions at hand.
//! Fails:  never; what is forgotten is judged again.
//! Source: Bitcoin Core's script execution cache (`ValidationCache`).
//!
//! A wtxid names the transaction, its witnesses and, through the txids it spends from, every output script and amount
//! that its scripts are judged by. So a verdict holds in any block. Rules of scripts only ever forbid: what is valid by
//! more of them is valid by fewer.
//!
//! A transaction is evaluated under the mempool's lock until its scripts are needed; they are judged with no lock held, and
//! it is evaluated again, because the mempool may have changed meanwhile. A verdict stays true whatever happens.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use consensus::Flags;
use consensus::script::{Counters, CountersTotal, TxCoins, TxJob, verify_txs};
use primitives::{SpentCoins, Transaction, Wtxid};
use sigs::Engine;

use super::accept::Rejected;
use super::base::Keyed;
use super::entry::Entry;
use crate::policy::{Reject, spends_witness_program};

/// Bytes of a mempool for each wtxid of a generation: a full mempool's worth of them. With 300 MB 200,000, which take about
/// 20 MiB.
const MEMPOOL_BYTES: u64 = 1_500;

/// Verdicts in two generations: when the younger is full the older is forgotten. And who judges.
pub struct ScriptMemory {
    generations: Mutex<[HashMap<Wtxid, Flags, Keyed>; 2]>,
    verdicts_max: usize,
    engine: Arc<dyn Engine>,
    counters: Counters,
}

impl ScriptMemory {
    /// For a mempool of at most so many bytes.
    pub(super) fn new(keyed: Keyed, mempool_bytes_max: u64, engine: Arc<dyn Engine>) -> ScriptMemory {
        let generations = Mutex::new([0, 1].map(|_| HashMap::with_hasher(keyed)));
        let verdicts_max = (mempool_bytes_max / MEMPOOL_BYTES).clamp(100, 200_000) as usize;
        ScriptMemory { generations, verdicts_max, engine, counters: Counters::default() }
    }

    /// Inputs and signatures judged so far.
    pub fn counters(&self) -> CountersTotal {
        self.counters.total()
    }

    /// True before anything was found valid.
    pub fn is_empty(&self) -> bool {
        let generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        generations.iter().all(HashMap::is_empty)
    }

    /// True where the scripts of this transaction are known to be valid by `flags`.
    pub fn is_valid(&self, wtxid: &Wtxid, flags: Flags) -> bool {
        let generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        generations.iter().any(|known| known.get(wtxid).is_some_and(|by| by.has(flags)))
    }

    fn remember(&self, wtxid: Wtxid, flags: Flags) {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        if generations[0].len() >= self.verdicts_max {
            generations.swap(0, 1);
            generations[0].clear();
        }
        generations[0].insert(wtxid, flags);
    }
}

/// Why a transaction goes no further.
pub(super) enum Stop {
    /// It breaks a rule.
    Rejected(Rejected),
    /// Its scripts are to be judged first: they are in [`Judged`] now, and who holds the mempool lets go of it meanwhile.
    Unjudged,
}

impl<R: Into<Rejected>> From<R> for Stop {
    fn from(rejected: R) -> Stop {
        Stop::Rejected(rejected.into())
    }
}

/// A transaction whose scripts are still to be judged, with all that they are judged by.
struct ScriptWork {
    wtxid: Wtxid,
    transaction: Transaction,
    coins: SpentCoins,
}

impl ScriptWork {
    fn job(&self) -> TxJob<'_> {
        let tx = self.transaction.tx();
        let count = tx.input_count();
        TxJob { tx, coins: TxCoins::new(&self.coins, 0, count), flags: Flags::STANDARD, inputs: 0..count }
    }

    /// What is wrong with the scripts, in Core's words.
    fn reject(&self, failure: &consensus::script::ScriptFailure) -> Reject {
        let (TxJob { tx, coins, .. }, input) = (self.job(), failure.input_index);
        let stripped = !tx.has_witness() && spends_witness_program(&tx, coins);
        let spent = tx.input(input).outpoint();
        let (txid, wtxid) = (tx.txid(), self.wtxid);
        let place = format!("input {input} of {txid} (wtxid {wtxid}), spending {}:{}", spent.txid, spent.vout);
        Reject::Script { place, error: failure.error, stripped }
    }
}

/// Verdicts on the scripts of the transactions at hand, by the rules of mempools, and what is still to be judged.
#[derive(Default)]
pub(super) struct Judged {
    verdicts: HashMap<Wtxid, Result<(), Reject>>,
    open: Vec<ScriptWork>,
    asked: HashSet<Wtxid>,
}

impl Judged {
    /// What is known of a transaction's scripts.
    pub fn verdict(&self, wtxid: &Wtxid) -> Option<&Result<(), Reject>> {
        self.verdicts.get(wtxid)
    }

    /// These scripts are to be judged.
    pub fn ask(&mut self, entry: &Entry) {
        if self.asked.insert(entry.wtxid) {
            let (transaction, coins) = (entry.transaction.clone(), entry.coins.clone());
            self.open.push(ScriptWork { wtxid: entry.wtxid, transaction, coins });
        }
    }

    /// Judges what is open, signatures of all together. Takes its time: to be called with the mempool unlocked.
    pub fn judge(&mut self, memory: &ScriptMemory) {
        let jobs: Vec<TxJob<'_>> = self.open.iter().map(ScriptWork::job).collect();
        let verdicts = verify_txs(&jobs, &*memory.engine, &memory.counters);
        for (work, verdict) in self.open.iter().zip(verdicts) {
            if verdict.is_ok() {
                memory.remember(work.wtxid, Flags::STANDARD);
            }
            self.verdicts.insert(work.wtxid, verdict.map_err(|failure| work.reject(&failure)));
        }
        self.open.clear();
    }
}
