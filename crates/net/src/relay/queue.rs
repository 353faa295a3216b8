//! Transactions that wait to be judged, by who sent them.
//!
//! In:     transactions; requests for the next lot.
//! Out:    lots in which every peer has the same share; verdicts' transactions are known to be under way meanwhile.
//! Fails:  says when a peer's share is full: what he sends beyond it is dropped, and he is not read from.
//!
//! Core judges one transaction of each peer in turn, on the thread that reads. Here a lot of many is judged at once, away
//! from that thread, so that their signatures fill the engine's lanes.

use std::collections::{BTreeMap, VecDeque};

use chain::mempool::{Accepted, PackageResult, Rejected, Verdict};
use chain::policy::Reject;
use primitives::{Transaction, Txid, Wtxid};

use super::requests::TxName;
use crate::peer::PeerId;

/// Bytes that may wait for one peer: ten of the largest transactions.
const PEER_BYTES_MAX: usize = 4_000_000;
/// Transactions that may wait for one peer.
const PEER_TXS_MAX: usize = 2_000;
/// Transactions of a lot: enough signatures for every lane, few enough that the mempool is never held for long.
const LOT_TXS_MAX: usize = 64;
/// Bytes after which a lot is full.
const LOT_BYTES_MAX: usize = 400_000;

/// Something to judge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxJob {
    /// A transaction; an orphan was judged before.
    One {
        /// It.
        tx: Transaction,
        /// Who sent it, or stands for it.
        from: PeerId,
        /// It waited for its parents.
        is_orphan: bool,
    },
    /// A parent that pays too little alone, and its child.
    Package {
        /// The parent.
        parent: Transaction,
        /// The child.
        child: Transaction,
        /// Who sent both.
        from: PeerId,
    },
}

impl TxJob {
    /// Whose it is.
    pub fn from(&self) -> PeerId {
        match self {
            TxJob::One { from, .. } | TxJob::Package { from, .. } => *from,
        }
    }

    fn txs(&self) -> impl Iterator<Item = &Transaction> {
        match self {
            TxJob::One { tx, .. } => [Some(tx), None],
            TxJob::Package { parent, child, .. } => [Some(parent), Some(child)],
        }
        .into_iter()
        .flatten()
    }

    fn bytes(&self) -> usize {
        self.txs().map(|tx| tx.tx().raw().len()).sum()
    }
}

/// What became of a job.
pub enum TxVerdict {
    /// Of one transaction.
    One(Result<Accepted, Rejected>),
    /// Of a parent and its child.
    Package(PackageResult),
}

impl TxVerdict {
    /// True where nobody could judge, since the mempool had not followed the chain.
    pub fn is_stale(&self) -> bool {
        let of = |rejected: &Rejected| rejected.reject == Reject::Stale;
        match self {
            TxVerdict::One(verdict) => verdict.as_ref().is_err_and(of),
            TxVerdict::Package(result) => {
                result.txs.iter().any(|(_, verdict)| matches!(verdict, Verdict::Invalid(rejected) if of(rejected)))
            }
        }
    }
}

#[derive(Default)]
struct Share {
    jobs: VecDeque<TxJob>,
    bytes: usize,
}

/// What waits, and what is being judged.
#[derive(Default)]
pub struct TxQueue {
    shares: BTreeMap<PeerId, Share>,
    /// Who had his turn last.
    last: Option<PeerId>,
    wtxids: BTreeMap<Wtxid, usize>,
    txids: BTreeMap<Txid, usize>,
    out: usize,
    /// Jobs of each peer that wait or are being judged.
    peers: BTreeMap<PeerId, usize>,
}

/// One more, or one less, under a key.
fn count<K: Ord>(table: &mut BTreeMap<K, usize>, key: K, is_in: bool) {
    let number = table.get(&key).copied().unwrap_or_default();
    match if is_in { number + 1 } else { number.saturating_sub(1) } {
        0 => table.remove(&key),
        number => table.insert(key, number),
    };
}

impl TxQueue {
    /// True where it waits or is being judged.
    pub fn has(&self, name: &TxName) -> bool {
        match name {
            TxName::Txid(txid) => self.txids.contains_key(txid),
            TxName::Wtxid(wtxid) => self.wtxids.contains_key(wtxid),
        }
    }

    /// Jobs that wait.
    pub fn len(&self) -> usize {
        self.shares.values().map(|share| share.jobs.len()).sum()
    }

    /// True where nothing waits.
    pub fn is_empty(&self) -> bool {
        self.shares.is_empty()
    }

    /// Jobs that were handed out and have no verdict yet.
    pub fn out(&self) -> usize {
        self.out
    }

    /// True while so much of a peer waits that nothing more should be read from it.
    pub fn is_full(&self, peer: PeerId) -> bool {
        let is_half = |share: &Share| share.bytes > PEER_BYTES_MAX / 2 || share.jobs.len() > PEER_TXS_MAX / 2;
        self.shares.get(&peer).is_some_and(is_half)
    }

    /// True while something of a peer waits or is being judged.
    pub fn has_of(&self, peer: PeerId) -> bool {
        self.peers.contains_key(&peer)
    }

    fn note(&mut self, job: &TxJob, is_in: bool) {
        count(&mut self.peers, job.from(), is_in);
        for tx in job.txs() {
            count(&mut self.wtxids, tx.tx().wtxid(), is_in);
            count(&mut self.txids, tx.tx().txid(), is_in);
        }
    }

    /// Lets a job wait; false where its peer's share is full, and the job is dropped.
    pub fn push(&mut self, job: TxJob) -> bool {
        let share = self.shares.entry(job.from()).or_default();
        let bytes = job.bytes();
        if share.bytes + bytes > PEER_BYTES_MAX || share.jobs.len() >= PEER_TXS_MAX {
            return false;
        }
        share.bytes += bytes;
        self.note(&job, true);
        self.shares.get_mut(&job.from()).expect("entered above").jobs.push_back(job);
        true
    }

    /// A peer has left: what he sent and nobody looked at goes.
    pub fn leave(&mut self, peer: PeerId) {
        for job in self.shares.remove(&peer).unwrap_or_default().jobs {
            self.note(&job, false);
        }
    }

    /// The next lot: one job of each peer in turn. `orphan` gives a peer's orphans that are to be judged again, before
    /// anything else of his; `others` are peers that may have such.
    pub fn next_lot(
        &mut self,
        others: impl Iterator<Item = PeerId>,
        mut orphan: impl FnMut(PeerId) -> Option<Transaction>,
    ) -> Vec<TxJob> {
        let mut turns: Vec<PeerId> = self.shares.keys().copied().chain(others).collect();
        turns.sort_unstable();
        turns.dedup();
        let start = self.last.map_or(0, |last| turns.partition_point(|peer| *peer <= last));
        turns.rotate_left(start);
        let (mut lot, mut bytes) = (Vec::new(), 0);
        while !turns.is_empty() && lot.len() < LOT_TXS_MAX && bytes < LOT_BYTES_MAX {
            turns.retain(|&peer| {
                if lot.len() >= LOT_TXS_MAX || bytes >= LOT_BYTES_MAX {
                    return false;
                }
                let Some(job) = self.next_of(peer, &mut orphan) else { return false };
                bytes += job.bytes();
                lot.push(job);
                self.last = Some(peer);
                true
            });
        }
        self.out += lot.len();
        lot
    }

    fn next_of(&mut self, peer: PeerId, orphan: &mut impl FnMut(PeerId) -> Option<Transaction>) -> Option<TxJob> {
        while let Some(tx) = orphan(peer) {
            if !self.wtxids.contains_key(&tx.tx().wtxid()) {
                let job = TxJob::One { tx, from: peer, is_orphan: true };
                self.note(&job, true);
                return Some(job);
            }
        }
        let share = self.shares.get_mut(&peer)?;
        let job = share.jobs.pop_front();
        share.bytes -= job.as_ref().map_or(0, TxJob::bytes);
        if share.jobs.is_empty() {
            self.shares.remove(&peer);
        }
        job
    }

    /// A job that was handed out has its verdict.
    pub fn done(&mut self, job: &TxJob) {
        self.out = self.out.saturating_sub(1);
        self.note(job, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tx(number: u32, padding: usize) -> Transaction {
        let mut bytes = vec![1, 0, 0, 0, 1];
        bytes.extend_from_slice(&[7; 36]);
        bytes.extend_from_slice(&[0, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        primitives::encode::put_compact_size(&mut bytes, padding as u64);
        bytes.resize(bytes.len() + padding, 0x6a);
        bytes.extend_from_slice(&number.to_le_bytes());
        Transaction::parse(bytes).unwrap()
    }

    fn job(number: u32, from: u64, padding: usize) -> TxJob {
        TxJob::One { tx: tx(number, padding), from: PeerId(from), is_orphan: false }
    }

    fn whose(lot: &[TxJob]) -> Vec<u64> {
        lot.iter().map(|job| job.from().0).collect()
    }

    fn lot(queue: &mut TxQueue) -> Vec<TxJob> {
        queue.next_lot(std::iter::empty(), |_| None)
    }

    #[test]
    fn a_flood_is_the_flooder_s_alone() {
        let mut queue = TxQueue::default();
        let taken = (0..5_000).filter(|number| queue.push(job(*number, 1, 10))).count();
        assert_eq!(taken, PEER_TXS_MAX);
        assert!(queue.is_full(PeerId(1)) && !queue.is_full(PeerId(2)));
        for number in 0..3 {
            assert!(queue.push(job(10_000 + number, 2, 10)) && queue.push(job(20_000 + number, 3, 10)));
        }
        let first = lot(&mut queue);
        assert_eq!(whose(&first)[..9], [1, 2, 3, 1, 2, 3, 1, 2, 3], "each in turn");
        assert_eq!((first.len(), queue.out()), (LOT_TXS_MAX, LOT_TXS_MAX));
        queue.leave(PeerId(1));
        assert!(queue.is_empty());
        assert!(queue.has(&TxName::Wtxid(tx(0, 10).tx().wtxid())), "what is being judged is not forgotten");
        first.iter().for_each(|job| queue.done(job));
        assert!(
            !queue.has(&TxName::Wtxid(tx(0, 10).tx().wtxid())) && queue.wtxids.is_empty() && queue.txids.is_empty()
        );
    }

    #[test]
    fn bytes_of_a_share_and_of_a_lot_are_limited() {
        let mut queue = TxQueue::default();
        let taken = (0..100).filter(|number| queue.push(job(*number, 1, 100_000))).count();
        assert_eq!(taken, 39, "4 MB");
        assert_eq!(lot(&mut queue).len(), 4);
        while !lot(&mut queue).is_empty() {}
        assert!(queue.push(job(1_000, 1, 100_000)), "what is handed out is not of the share");
    }

    #[test]
    fn orphans_come_before_their_peer_s_other_transactions_and_turns_go_on() {
        let mut queue = TxQueue::default();
        (0..2).for_each(|number| assert!(queue.push(job(number, 5, 10))));
        let mut orphans = vec![tx(100, 10), tx(1, 10), tx(101, 10)];
        let mut orphan = |peer: PeerId| if peer == PeerId(7) { orphans.pop() } else { None };
        let got = queue.next_lot([PeerId(7)].into_iter(), &mut orphan);
        let is_orphan: Vec<bool> = got.iter().map(|job| matches!(job, TxJob::One { is_orphan: true, .. })).collect();
        // The second orphan waits in the queue already: it is judged once.
        assert_eq!((whose(&got), is_orphan), (vec![5, 7, 5, 7], vec![false, true, false, true]));
        (0..3).for_each(|number| assert!(queue.push(job(200 + number, 3 + u64::from(number), 10))));
        assert_eq!(whose(&lot(&mut queue)), [3, 4, 5], "after 7 the lowest comes");
    }
}
