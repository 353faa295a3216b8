//! What we take into the mempool and relay, beyond consensus, as pure functions.
//!
//! In:     transactions, the coins they spend, facts about their relatives, a [`Policy`].
//! Out:    sizes, feerates, or the first rule that is broken.
//! Fails:  [`Reject`]: one variant a rule, each with Bitcoin Core's reject word.
//! Source: Bitcoin Core 31 (`policy/`, `validation.cpp`). Where ours differs is listed in docs/mempool.md.

mod feerate;
mod inputs;
mod linearize;
mod package;
mod reject;
mod standard;
mod truc;

pub use feerate::{FeeFrac, FeeRate, compare_diagrams};
pub use inputs::{check_inputs, check_witness, spends_witness_program};
pub use linearize::{Chunk, Graph, chunks, linearize};
pub use package::{
    PACKAGE_TXS_MAX, PACKAGE_WEIGHT_MAX, PackageReject, check_package, is_child_with_parents, package_hash,
};
pub use reject::{Class, Reject};
pub use standard::{check_standard, dust_outputs, dust_threshold_sat, is_dust};
pub use truc::{InPackage, Relative, TRUC_VERSION, TrucBreach, check_package as check_truc_package, check_truc};

use consensus::{SIGOP_COST_MAX, WITNESS_SCALE};

/// Largest weight of a transaction we take; Core's `MAX_STANDARD_TX_WEIGHT`.
pub const TX_WEIGHT_MAX: usize = 400_000;
/// Fewest bytes without witnesses: one more than 64, which a merkle tree's inner node has (CVE-2017-12842).
pub const TX_STRIPPED_BYTES_MIN: usize = 65;
/// Most signature operation cost of a transaction we take; Core's `MAX_STANDARD_TX_SIGOPS_COST`.
pub const TX_SIGOP_COST_MAX: u64 = SIGOP_COST_MAX / 5;
/// Most dust outputs of a transaction; Core's `MAX_DUST_OUTPUTS_PER_TX`.
pub const DUST_OUTPUTS_MAX: usize = 1;
/// Most clusters that a replacement may conflict with; Core's `MAX_REPLACEMENT_CANDIDATES`.
pub const REPLACED_CLUSTERS_MAX: usize = 100;
/// Most transactions of a cluster that the linearisation can hold: the bits of its sets.
pub const CLUSTER_TXS_BOUND: usize = 64;

/// What a node's owner may choose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// Below it nothing is taken in alone.
    pub min_relay: FeeRate,
    /// What a replacement pays beyond what it replaces, and the step of the rolling minimum.
    pub incremental: FeeRate,
    /// Feerate at which spending an output must leave something of it.
    pub dust_relay: FeeRate,
    /// Bytes of OP_RETURN scripts in one transaction; none takes no such outputs.
    pub datacarrier_bytes_max: Option<usize>,
    /// Multisig without P2SH or witness is taken.
    pub bare_multisig: bool,
    /// Forms that the network does not use are refused; switched off on test networks only.
    pub require_standard: bool,
    /// Virtual bytes that one unit of signature operation cost counts for at least, times four.
    pub bytes_per_sigop: u32,
    /// Most transactions of a cluster, at most [`CLUSTER_TXS_BOUND`].
    pub cluster_txs_max: usize,
    /// Most virtual bytes of a cluster.
    pub cluster_vbytes_max: u64,
    /// Memory of the mempool, in bytes as `Mempool::bytes` counts them.
    pub mempool_bytes_max: u64,
    /// How long a transaction stays, in seconds.
    pub expiry_s: u64,
}

impl Default for Policy {
    /// Core's defaults.
    fn default() -> Policy {
        Policy {
            min_relay: FeeRate::per_kvb(100),
            incremental: FeeRate::per_kvb(100),
            dust_relay: FeeRate::per_kvb(3_000),
            datacarrier_bytes_max: Some(TX_WEIGHT_MAX / WITNESS_SCALE),
            bare_multisig: true,
            require_standard: true,
            bytes_per_sigop: 20,
            cluster_txs_max: CLUSTER_TXS_BOUND,
            cluster_vbytes_max: 101_000,
            mempool_bytes_max: 300_000_000,
            expiry_s: 336 * 3_600,
        }
    }
}

impl Policy {
    /// Weight, or what its signature operations weigh where that is more (Core: `GetSigOpsAdjustedWeight`).
    pub fn adjusted_weight(&self, weight: usize, sigop_cost: u64) -> u32 {
        let by_sigops = sigop_cost.saturating_mul(u64::from(self.bytes_per_sigop));
        u32::try_from((weight as u64).max(by_sigops)).unwrap_or(u32::MAX)
    }
}

/// Virtual bytes of a weight.
pub fn vsize(weight: u32) -> u32 {
    weight.div_ceil(WITNESS_SCALE as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weight_is_rounded_up_and_signature_operations_weigh() {
        let policy = Policy::default();
        for (weight, want) in [(0, 0), (1, 1), (4, 1), (5, 2), (400_000, 100_000)] {
            assert_eq!(vsize(weight), want);
        }
        assert_eq!(policy.adjusted_weight(400, 20), 400);
        assert_eq!(policy.adjusted_weight(400, 21), 420);
        assert_eq!(policy.adjusted_weight(400, u64::MAX), u32::MAX);
    }
}
