//! The chain's mempool as JSON-RPC needs it.
//!
//! In:     a shared mempool, and the clock.
//! Out:    [`needs::Mempool`]: entries, totals, verdicts in Core's words, transactions for a block.
//! Fails:  with Core's codes for what is not taken; writing the mempool to a file, which nobody does yet.
//! Source: Bitcoin Core, `src/node/transaction.cpp` (`BroadcastTransaction`), `src/rpc/mempool.cpp`.

use std::sync::Arc;

use chain::mempool::{Accept, Accepted, Details, PackageResult, Rejected, Room, SharedMempool, Verdict};
use chain::policy::{Class, FeeRate, PackageReject};
use primitives::{OutPoint, Transaction, Txid};

use crate::rpc::error::{RpcError, code};
use crate::rpc::needs::{
    self, Chosen, Chunk, FeeEstimate, Host, MempoolEntry, MempoolTotals, Prioritised, Refusal, Tried, TriedTogether,
};

/// Longest target of estimates, in blocks; Core's longest horizon.
const ESTIMATE_BLOCKS_MAX: u32 = 1008;
/// What pays less is not mined, in satoshi for 1,000 virtual bytes; Core's `DEFAULT_BLOCK_MIN_TX_FEE`.
const MINING_FLOOR_SAT_PER_KVB: i64 = 1;

/// The mempool, and the clock that it is asked by.
pub struct Pool {
    mempool: SharedMempool,
    host: Arc<dyn Host>,
}

impl Pool {
    /// What JSON-RPC sees of a mempool.
    pub fn new(mempool: SharedMempool, host: Arc<dyn Host>) -> Pool {
        Pool { mempool, host }
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
    fn totals(&self) -> MempoolTotals {
        let (mempool, now_s) = (self.mempool.read(), self.host.unix_s());
        let policy = mempool.policy();
        MempoolTotals {
            loaded: true,
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
        self.mempool.read().sequence()
    }

    fn txids(&self) -> Vec<Txid> {
        self.mempool.read().entries().map(|entry| entry.txid).collect()
    }

    fn entries(&self) -> Vec<MempoolEntry> {
        let mempool = self.mempool.read();
        mempool.entries().filter_map(|entry| mempool.details(&entry.txid)).map(|details| entry_of(&details)).collect()
    }

    fn entry(&self, txid: &Txid) -> Option<MempoolEntry> {
        self.mempool.read().details(txid).map(|details| entry_of(&details))
    }

    fn transaction(&self, txid: &Txid) -> Option<Vec<u8>> {
        self.mempool.read().get(txid).map(|entry| entry.tx().raw().to_vec())
    }

    fn ancestors(&self, txid: &Txid) -> Option<Vec<Txid>> {
        self.mempool.read().ancestors(txid)
    }

    fn descendants(&self, txid: &Txid) -> Option<Vec<Txid>> {
        self.mempool.read().descendants(txid)
    }

    fn cluster(&self, txid: &Txid) -> Option<Vec<Chunk>> {
        let chunks = self.mempool.read().cluster_of(txid)?;
        let chunk = |(fee, txids): (chain::policy::FeeFrac, Vec<Txid>)| Chunk {
            fee_sat: fee.fee_sat,
            weight: fee.size.into(),
            txids,
        };
        Some(chunks.into_iter().map(chunk).collect())
    }

    fn feerate_diagram(&self) -> Vec<(u64, i64)> {
        let mempool = self.mempool.read();
        let (mut weight, mut fee_sat) = (0, 0);
        let mut rows = vec![(0, 0)];
        for (chunk, _) in mempool.chunks() {
            (weight, fee_sat) = (weight + u64::from(chunk.size), fee_sat + chunk.fee_sat);
            rows.push((weight, fee_sat));
        }
        rows
    }

    fn spender(&self, outpoint: &OutPoint) -> Option<Txid> {
        self.mempool.read().spender(outpoint).map(|(entry, _)| entry.txid)
    }

    fn test(&self, transactions: &[Vec<u8>]) -> TriedTogether {
        let Some(transactions) = parsed(transactions) else {
            return TriedTogether { package_error: None, each: Vec::new() };
        };
        let result = self.mempool.write().test_package(&transactions, self.host.unix_s());
        // One that failed by itself says so itself.
        let error = result.reject.as_ref().filter(|reject| **reject != PackageReject::TransactionFailed);
        together(&transactions, &result, error.map(PackageReject::to_string))
    }

    fn submit(&self, transaction: &[u8], fee_sat_max: Option<i64>) -> Result<(), Refusal> {
        let parsed = Transaction::parse(transaction).map_err(|_| RpcError::decode("TX decode failed"))?;
        let (txid, now_s) = (parsed.tx().txid(), self.host.unix_s());
        if self.mempool.read().get(&txid).is_some() {
            self.mempool.write().set_unbroadcast(&txid);
            return Ok(());
        }
        let refused = |rejected: Rejected| {
            let missing = rejected.reject.class() == Class::MissingInputs;
            let code = if missing { code::VERIFY_ERROR } else { code::VERIFY_REJECTED };
            RpcError::new(code, told(&rejected).1)
        };
        if let Some(most) = fee_sat_max {
            let tested = self.mempool.accept(&parsed, &Accept::test_at(now_s)).map_err(refused)?;
            if tested.fee_sat > most {
                let told = "Fee exceeds maximum configured by user (e.g. -maxtxfee, maxfeerate)";
                return Err(RpcError::new(code::VERIFY_ERROR, told));
            }
        }
        self.mempool.accept(&parsed, &Accept::at(now_s)).map_err(refused)?;
        self.mempool.write().set_unbroadcast(&txid);
        Ok(())
    }

    fn submit_package(&self, transactions: &[Vec<u8>], rate_sat_per_kvb_max: Option<i64>) -> TriedTogether {
        let Some(transactions) = parsed(transactions) else {
            return TriedTogether { package_error: None, each: Vec::new() };
        };
        let most = rate_sat_per_kvb_max.map(FeeRate::per_kvb);
        let result = self.mempool.write().accept_package(&transactions, self.host.unix_s(), most);
        let error = result.reject.as_ref().map(PackageReject::to_string);
        together(&transactions, &result, error)
    }

    fn prioritise(&self, txid: &Txid, delta_sat: i64) -> Result<(), Refusal> {
        let mut mempool = self.mempool.write();
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
        let mempool = self.mempool.read();
        let row = |(txid, delta_sat, here): (Txid, i64, bool)| Prioritised {
            txid,
            delta_sat,
            modified_fee_sat: here.then(|| mempool.details(&txid)).flatten().map(|details| details.modified_fee_sat),
        };
        mempool.prioritised().map(row).collect()
    }

    fn estimate_blocks_max(&self) -> u32 {
        ESTIMATE_BLOCKS_MAX
    }

    fn estimate(&self, blocks: u32, _conservative: bool) -> FeeEstimate {
        // Nobody observes confirmations yet.
        FeeEstimate { sat_per_kvb: None, blocks }
    }

    fn choose(&self, weight_max: u64, sigop_cost_max: u64) -> Vec<Chosen> {
        let min_feerate = FeeRate::per_kvb(MINING_FLOOR_SAT_PER_KVB);
        let chosen = self.mempool.read().select(&Room { weight_max, sigop_cost_max, min_feerate });
        let one = |entry: &Arc<chain::mempool::Entry>| Chosen {
            bytes: entry.tx().raw().to_vec(),
            fee_sat: entry.fee_sat,
            sigop_cost: entry.sigop_cost,
        };
        chosen.iter().map(one).collect()
    }

    fn mining_floor_sat_per_kvb(&self) -> i64 {
        MINING_FLOOR_SAT_PER_KVB
    }

    fn save(&self) -> Result<String, Refusal> {
        Err(RpcError::misc("Unable to dump mempool to disk"))
    }
}
