//! Transactions whose scripts have been found valid, by wtxid.
//!
//! In:     wtxids and the rules they were judged by.
//! Out:    whether a wtxid was found valid by at least these rules.
//! Fails:  never; what is forgotten is judged again.
//! Source: Bitcoin Core's script execution cache (`ValidationCache`).
//!
//! A wtxid names the transaction, its witnesses and, through the txids it spends from, every output script and amount
//! that its scripts are judged by. So a verdict holds in any block. Rules of scripts only ever forbid: what is valid by
//! more of them is valid by fewer.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use consensus::Flags;
use primitives::Wtxid;

use super::base::Keyed;

/// Bytes of a mempool for each wtxid of a generation: a full mempool's worth of them. With 300 MB 200,000, which take about
/// 20 MiB.
const MEMPOOL_BYTES: u64 = 1_500;

/// Verdicts in two generations: when the younger is full the older is forgotten.
pub struct ScriptMemory {
    generations: Mutex<[HashMap<Wtxid, Flags, Keyed>; 2]>,
    verdicts_max: usize,
}

impl ScriptMemory {
    /// For a mempool of at most so many bytes.
    pub(super) fn new(keyed: Keyed, mempool_bytes_max: u64) -> ScriptMemory {
        let generations = Mutex::new([0, 1].map(|_| HashMap::with_hasher(keyed)));
        ScriptMemory { generations, verdicts_max: (mempool_bytes_max / MEMPOOL_BYTES).clamp(100, 200_000) as usize }
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

    pub(super) fn remember(&self, wtxid: Wtxid, flags: Flags) {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        if generations[0].len() >= self.verdicts_max {
            generations.swap(0, 1);
            generations[0].clear();
        }
        generations[0].insert(wtxid, flags);
    }
}
