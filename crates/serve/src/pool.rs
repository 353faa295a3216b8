//! The chain's mempool as JSON-RPC needs it.
//!
//! In:     a shared mempool and what stands around it: estimates, its file, how far it has followed the chain, the clock.
//! Out:    [`needs::Mempool`]: entries, totals, verdicts in Core's words, transactions for a block.
//! Fails:  with Core's codes for what is not taken, and for files that cannot be read or written.
//! Source: Bitcoin Core, `src/node/transaction.cpp` (`BroadcastTransaction`), `src/rpc/mempool.cpp`.
//!
//! Core changes chain and mempool under one lock. Here the mempool follows the chain, so every question first waits until
//! it has dealt with what was told of before.

use std::path::Path;
use std::sync::Arc;

use chain::estimates::{BucketRange, Span};
use chain::mempool::{Accept, Accepted, Details, PackageResult, Rejected, Room, SharedMempool, Verdict};
use chain::policy::{Class, FeeRate, PackageReject, Reject};
use chain::upkeep::{Followed, MempoolFile, RestoreWish, SharedEstimates};
use consensus::SIGOP_COST_MAX;
use primitives::{OutPoint, Transaction, Txid};

use crate::rpc::error::{RpcError, code};
use crate::rpc::needs::{
    self, Chosen, Chunk, FeeEstimate, Host, ImportWish, MempoolEntry, MempoolTotals, Prioritised, RateRange,
    RawEstimate, Refusal, Tried, TriedTogether,
};

/// Signature operation cost kept for the coinbase (Core: `DEFAULT_COINBASE_OUTPUT_MAX_ADDITIONAL_SIGOPS`).
const RESERVED_SIGOP_COST: u64 = 400;

/// What a block made here may hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MiningLimits {
    /// Weight for transactions, header and coinbase left out.
    pub weight_max: u64,
    /// What pays less is not mined.
    pub min_feerate: FeeRate,
}

impl Default for MiningLimits {
    /// Core's `DEFAULT_BLOCK_MAX_WEIGHT` less `DEFAULT_BLOCK_RESERVED_WEIGHT`, and `DEFAULT_BLOCK_MIN_TX_FEE`.
    fn default() -> MiningLimits {
        MiningLimits { weight_max: 4_000_000 - 8_000, min_feerate: FeeRate::per_kvb(1) }
    }
}

/// The mempool and what stands around it.
pub struct Pool {
    /// The mempool.
    pub mempool: SharedMempool,
    /// What was learnt about fees.
    pub estimates: SharedEstimates,
    /// How far the mempool has followed the chain.
    pub followed: Arc<Followed>,
    /// Its file.
    pub file: Arc<MempoolFile>,
    /// What a block may hold.
    pub mining: MiningLimits,
    /// The clock that it is asked by.
    pub host: Arc<dyn Host>,
}

impl Pool {
    /// The mempool, as of the newest chain that anybody was told of.
    fn current(&self) -> &SharedMempool {
        self.followed.wait();
        &self.mempool
    }
}

fn entry_of(details: &Details) -> MempoolEntry {
    let entry = &details.entry;
    MempoolEntry {
        txid: entry.txid,
        wtxid: entry.wtxid,
        size_vb: entry.size_vb().into(),
        weight: entry.weight.into(),
        time_s: entry.time_s,
        height: entry.height,
        fee_sat: entry.fee_sat,
        modified_fee_sat: details.modified_fee_sat,
        ancestor_count: details.ancestors.0 as u64,
        ancestor_vb: details.ancestors.1,
        ancestor_fee_sat: details.ancestors.2,
        descendant_count: details.descendants.0 as u64,
        descendant_vb: details.descendants.1,
        descendant_fee_sat: details.descendants.2,
        chunk_weight: details.chunk.size.into(),
        chunk_fee_sat: details.chunk.fee_sat,
        parents: details.depends.clone(),
        children: details.spent_by.clone(),
        unbroadcast: details.unbroadcast,
    }
}

fn parsed(transactions: &[Vec<u8>]) -> Option<Vec<Transaction>> {
    transactions.iter().map(|bytes| Transaction::parse(&bytes[..]).ok()).collect()
}

/// The reject word, and what more there is to say (Core: `ValidationState::ToString`).
fn told(rejected: &Rejected) -> (String, String) {
    let (reason, details) = (rejected.reject.reject_word().into_owned(), rejected.reject.details());
    let text = if details.is_empty() { reason.clone() } else { format!("{reason}, {details}") };
    (reason, text)
}

fn accepted(accepted: &Accepted) -> Tried {
    Tried::Accepted {
        size_vb: accepted.size_vb.into(),
        fee_sat: accepted.fee_sat,
        effective_sat_per_kvb: accepted.effective.sat_per_kvb(),
        effective_with: accepted.effective_with.clone(),
        replaced: accepted.replaced.iter().map(|entry| entry.txid).collect(),
    }
}

fn tried(verdict: &Verdict) -> Tried {
    match verdict {
        Verdict::Valid(taken) => accepted(taken),
        Verdict::InMempool { size_vb, fee_sat } => Tried::Known { size_vb: (*size_vb).into(), fee_sat: *fee_sat },
        Verdict::DifferentWitness { wtxid } => Tried::OtherWitness { wtxid: *wtxid },
        Verdict::Invalid(rejected) if rejected.reject.class() == Class::MissingInputs => Tried::MissingInputs,
        Verdict::Invalid(rejected) => {
            let (reason, details) = told(rejected);
            Tried::Rejected { reason, details }
        }
    }
}

fn refused(rejected: Rejected) -> RpcError {
    // What it spends is missing, or the disk failed: no verdict on the transaction.
    let has_failed = matches!(rejected.reject, Reject::Store(_) | Reject::Stale);
    let unjudged = rejected.reject.class() == Class::MissingInputs || has_failed;
    RpcError::new(if unjudged { code::VERIFY_ERROR } else { code::VERIFY_REJECTED }, told(&rejected).1)
}

fn range(range: BucketRange) -> RateRange {
    let BucketRange { start, end, within_target, confirmed, in_mempool, left } = range;
    RateRange { start, end, within_target, confirmed, in_mempool, left }
}

/// Verdicts in the order of the transactions.
fn together(transactions: &[Transaction], result: &PackageResult, package_error: Option<String>) -> TriedTogether {
    let of = |transaction: &Transaction| {
        let wtxid = transaction.tx().wtxid();
        let verdict = result.txs.iter().find(|(known, _)| *known == wtxid);
        verdict.map_or(Tried::Unjudged, |(_, verdict)| tried(verdict))
    };
    TriedTogether { package_error, each: transactions.iter().map(of).collect() }
}

impl needs::Mempool for Pool {
    fn settle(&self) {
        self.followed.wait();
    }

    fn totals(&self) -> MempoolTotals {
        let (mempool, now_s) = (self.current().read(), self.host.unix_s());
        let policy = mempool.policy();
        MempoolTotals {
            loaded: self.file.is_loaded(),
            count: mempool.len() as u64,
            size_vb: mempool.size_vb(),
            memory_bytes: mempool.bytes(),
            memory_bytes_max: policy.mempool_bytes_max,
            fee_sat: mempool.fee_sat(),
            floor_sat_per_kvb: mempool.minimum(now_s).sat_per_kvb(),
            relay_floor_sat_per_kvb: policy.min_relay.sat_per_kvb(),
            increment_sat_per_kvb: policy.incremental.sat_per_kvb(),
            unbroadcast_count: mempool.unbroadcast().count() as u64,
            bare_multisig: policy.bare_multisig,
            data_carrier_bytes_max: policy.datacarrier_bytes_max.unwrap_or(0) as u64,
            cluster_count_max: policy.cluster_txs_max as u64,
            cluster_vb_max: policy.cluster_vbytes_max,
            optimal: true,
        }
    }

    fn sequence(&self) -> u64 {
        self.current().read().sequence()
    }

    fn txids(&self) -> Vec<Txid> {
        self.current().read().entries().map(|entry| entry.txid).collect()
    }

    fn entries(&self) -> Vec<MempoolEntry> {
        let mempool = self.current().read();
        mempool.entries().filter_map(|entry| mempool.details(&entry.txid)).map(|details| entry_of(&details)).collect()
    }

    fn entry(&self, txid: &Txid) -> Option<MempoolEntry> {
        self.current().read().details(txid).map(|details| entry_of(&details))
    }

    fn transaction(&self, txid: &Txid) -> Option<Vec<u8>> {
        self.current().read().get(txid).map(|entry| entry.tx().raw().to_vec())
    }

    fn ancestors(&self, txid: &Txid) -> Option<Vec<Txid>> {
        self.current().read().ancestors(txid)
    }

    fn descendants(&self, txid: &Txid) -> Option<Vec<Txid>> {
        self.current().read().descendants(txid)
    }

    fn cluster(&self, txid: &Txid) -> Option<Vec<Chunk>> {
        let chunks = self.current().read().cluster_of(txid)?;
        let chunk = |(fee, txids): (chain::policy::FeeFrac, Vec<Txid>)| Chunk {
            fee_sat: fee.fee_sat,
            weight: fee.size.into(),
            txids,
        };
        Some(chunks.into_iter().map(chunk).collect())
    }

    fn feerate_diagram(&self) -> Vec<(u64, i64)> {
        let mempool = self.current().read();
        let (mut weight, mut fee_sat) = (0, 0);
        let mut rows = vec![(0, 0)];
        for (chunk, _) in mempool.chunks() {
            (weight, fee_sat) = (weight + u64::from(chunk.size), fee_sat + chunk.fee_sat);
            rows.push((weight, fee_sat));
        }
        rows
    }

    fn spender(&self, outpoint: &OutPoint) -> Option<Txid> {
        self.current().read().spender(outpoint).map(|(entry, _)| entry.txid)
    }

    fn test(&self, transactions: &[Vec<u8>]) -> TriedTogether {
        let Some(transactions) = parsed(transactions) else {
            return TriedTogether { package_error: None, each: Vec::new() };
        };
        let result = self.current().test_package(&transactions, self.host.unix_s());
        // One that failed by itself says so itself.
        let error = result.reject.as_ref().filter(|reject| **reject != PackageReject::TransactionFailed);
        together(&transactions, &result, error.map(PackageReject::to_string))
    }

    fn submit(&self, transaction: &[u8], fee_sat_max: Option<i64>) -> Result<(), Refusal> {
        let parsed = Transaction::parse(transaction).map_err(|_| RpcError::decode("TX decode failed"))?;
        let (txid, now_s, mempool) = (parsed.tx().txid(), self.host.unix_s(), self.current());
        if mempool.read().get(&txid).is_some() {
            mempool.write().announce_again(&txid);
            return Ok(());
        }
        if let Some(most) = fee_sat_max {
            let tested = mempool.accept(&parsed, &Accept::test_at(now_s)).map_err(refused)?;
            if tested.fee_sat > most {
                let told = "Fee exceeds maximum configured by user (e.g. -maxtxfee, maxfeerate)";
                return Err(RpcError::new(code::VERIFY_ERROR, told));
            }
        }
        mempool.accept(&parsed, &Accept::at(now_s)).map_err(refused)?;
        mempool.write().set_unbroadcast(&txid);
        Ok(())
    }

    fn submit_package(&self, transactions: &[Vec<u8>], rate_sat_per_kvb_max: Option<i64>) -> TriedTogether {
        let Some(transactions) = parsed(transactions) else {
            return TriedTogether { package_error: None, each: Vec::new() };
        };
        let most = rate_sat_per_kvb_max.map(FeeRate::per_kvb);
        let result = self.current().accept_package(&transactions, self.host.unix_s(), most);
        let mut mempool = self.current().write();
        // Those that were here before are offered to peers again, as Core does; the others are told as they come.
        let known = |(_, verdict): &&(_, Verdict)| {
            matches!(verdict, Verdict::InMempool { .. } | Verdict::DifferentWitness { .. })
        };
        let known: Vec<_> = result.txs.iter().filter(known).map(|(wtxid, _)| *wtxid).collect();
        for transaction in transactions.iter().filter(|transaction| known.contains(&transaction.tx().wtxid())) {
            mempool.announce_again(&transaction.tx().txid());
        }
        drop(mempool);
        let error = result.reject.as_ref().map(PackageReject::to_string);
        together(&transactions, &result, error)
    }

    fn prioritise(&self, txid: &Txid, delta_sat: i64) -> Result<(), Refusal> {
        let mut mempool = self.current().write();
        let policy = *mempool.policy();
        let dusty = mempool
            .get(txid)
            .is_some_and(|entry| chain::policy::dust_outputs(&entry.tx(), policy.dust_relay).next().is_some());
        if policy.require_standard && dusty {
            return Err(RpcError::parameter("Priority is not supported for transactions with dust outputs."));
        }
        mempool.prioritise(txid, delta_sat);
        Ok(())
    }

    fn prioritised(&self) -> Vec<Prioritised> {
        let mempool = self.current().read();
        let row = |(txid, delta_sat, here): (Txid, i64, bool)| Prioritised {
            txid,
            delta_sat,
            modified_fee_sat: here.then(|| mempool.details(&txid)).flatten().map(|details| details.modified_fee_sat),
        };
        mempool.prioritised().map(row).collect()
    }

    fn estimate_blocks_max(&self) -> u32 {
        self.estimates.lock().target_max(Span::Long)
    }

    fn estimate(&self, blocks: u32, conservative: bool) -> FeeEstimate {
        self.followed.wait();
        let (rate, blocks) = self.estimates.lock().smart(blocks, conservative);
        FeeEstimate { sat_per_kvb: rate.map(|rate| rate.sat_per_kvb()), blocks }
    }

    fn raw_estimates(&self, blocks: u32, threshold: f64) -> Vec<RawEstimate> {
        self.followed.wait();
        let estimates = self.estimates.lock();
        let known = Span::ALL.into_iter().filter(|span| blocks <= estimates.target_max(*span));
        let raw = |span: Span| {
            let estimate = estimates.raw(blocks, threshold, span)?;
            let rate = estimate.sat_per_kvb.map(|rate| rate.round() as i64).filter(|rate| *rate != 0);
            let (pass, fail) = (estimate.pass.map(range), estimate.fail.map(range));
            let (decay, scale) = (estimate.decay, estimate.scale);
            Some(RawEstimate { horizon: span.name(), sat_per_kvb: rate, decay, scale, pass, fail })
        };
        known.filter_map(raw).collect()
    }

    fn choose(&self) -> Vec<Chosen> {
        // Core stops one short of both limits.
        let room = Room {
            weight_max: self.mining.weight_max.saturating_sub(1),
            sigop_cost_max: SIGOP_COST_MAX - RESERVED_SIGOP_COST - 1,
            min_feerate: self.mining.min_feerate,
        };
        let chosen = self.current().read().select(&room);
        let one = |entry: &Arc<chain::mempool::Entry>| Chosen {
            bytes: entry.tx().raw().to_vec(),
            fee_sat: entry.fee_sat,
            sigop_cost: entry.sigop_cost,
        };
        chosen.iter().map(one).collect()
    }

    fn mining_floor_sat_per_kvb(&self) -> i64 {
        self.mining.min_feerate.sat_per_kvb()
    }

    fn save(&self) -> Result<String, Refusal> {
        self.followed.wait();
        self.file.save().map_err(|_| RpcError::misc("Unable to dump mempool to disk"))?;
        Ok(self.file.path().display().to_string())
    }

    fn import(&self, path: &str, wish: ImportWish) -> Result<(), Refusal> {
        let failed = || RpcError::misc("Unable to import mempool file, see debug log for details.");
        let ImportWish { current_time, deltas, unbroadcast } = wish;
        let opened = self.file.open(Path::new(path), RestoreWish { current_time, deltas, unbroadcast });
        let mut restore = opened.ok_or_else(failed)?.map_err(|_| failed())?;
        while restore.step(self.current(), self.host.unix_s()).map_err(|_| failed())? {
            if self.host.stopping() {
                return Err(failed());
            }
        }
        Ok(())
    }
}
