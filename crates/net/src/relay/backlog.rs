//! Transactions to be told of, before they are dealt out to peers: as fast as the network can bear, the best first.
//!
//! In:     what came into the mempool, the time.
//! Out:    what to put before the peers that connected to us, and before those we chose.
//! Fails:  never; what left the mempool meanwhile is left away.
//! Source: Bitcoin Core 31+, `InvToSendBucket`, `ProcessInvBacklog` (before it, Core limited each message to a peer instead:
//!         `INVENTORY_BROADCAST_TARGET`).
//!
//! Two buckets of tokens limit how many transactions, and how many bytes, are told of in a second. While there are tokens
//! everything goes on at once; in a flood the mempool's best go first, and a flood that pays little waits.

use std::time::Duration;

use primitives::Wtxid;

use super::pool::{Offer, Pool};
use crate::moment::Moment;

/// Transactions told in a second to those who connected; Core's `DEFAULT_TX_SEND_RATE`.
const TXS_PER_S: f64 = 14.0;
/// Those we chose are told so much faster: the ratio of both intervals.
const OUTBOUND_FACTOR: f64 = 2.5;
/// Tokens at the start and at most: those of 30 seconds.
const TXS_MAX: f64 = 30.0 * TXS_PER_S;
/// A look at the backlog takes an average message's worth at least, since it is sorted for each look.
const TXS_FLOOR: f64 = -5.0 * TXS_PER_S;
/// Bytes told of in a second: 12 MB in ten minutes, six times what blocks can take.
const BYTES_PER_S: f64 = 20_000.0;
const BYTES_FIRST: f64 = 12_000_000.0;
const BYTES_MAX: f64 = 50_000_000.0;
const BYTES_FLOOR: f64 = -50_000.0;
/// Time between two looks; Core's `INVENTORY_BUCKET_CHECK_DELAY`.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// One direction.
struct Side {
    backlog: Vec<Wtxid>,
    txs: f64,
    bytes: f64,
    factor: f64,
}

impl Side {
    fn new(factor: f64) -> Side {
        Side { backlog: Vec::new(), txs: TXS_MAX, bytes: BYTES_FIRST, factor }
    }

    fn refill(&mut self, passed: Duration) {
        let passed_s = passed.as_secs_f64() * self.factor;
        self.txs = (self.txs + passed_s * TXS_PER_S).min(TXS_MAX);
        self.bytes = (self.bytes + passed_s * BYTES_PER_S).min(BYTES_MAX);
    }

    /// Takes the best of the backlog while there are tokens.
    fn take(&mut self, pool: &dyn Pool) -> Vec<Wtxid> {
        if self.backlog.is_empty() || self.txs <= 0.0 || self.bytes <= 0.0 {
            return Vec::new();
        }
        let offers = pool.sorted(&self.backlog);
        let is_last = |offer: &Offer| {
            self.txs -= 1.0;
            self.bytes -= offer.bytes as f64;
            self.txs <= TXS_FLOOR || self.bytes <= BYTES_FLOOR
        };
        let count = offers.iter().position(is_last).map_or(offers.len(), |last| last + 1);
        // The list is made anew: a flood's memory goes back.
        self.backlog = offers[count..].iter().map(|offer| offer.wtxid).collect();
        offers[..count].iter().map(|offer| offer.wtxid).collect()
    }
}

/// Both directions.
pub struct Backlog {
    inbound: Side,
    outbound: Side,
    /// When tokens were counted last.
    counted: Option<Moment>,
    /// Something came since.
    bumped: bool,
}

impl Default for Backlog {
    fn default() -> Backlog {
        Backlog { inbound: Side::new(1.0), outbound: Side::new(OUTBOUND_FACTOR), counted: None, bumped: false }
    }
}

impl Backlog {
    /// Everybody is to be told of it.
    pub fn push(&mut self, wtxid: Wtxid) {
        self.inbound.backlog.push(wtxid);
        self.outbound.backlog.push(wtxid);
        self.bumped = true;
    }

    /// Transactions that wait, for those who connected and for those we chose.
    pub fn len(&self) -> [usize; 2] {
        [self.inbound.backlog.len(), self.outbound.backlog.len()]
    }

    /// True where nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == [0, 0]
    }

    /// What to tell now, to those who connected and to those we chose; of a kind that is not there, all is forgotten.
    pub fn take(&mut self, pool: &dyn Pool, is_there: [bool; 2], now: Moment) -> [Vec<Wtxid>; 2] {
        let passed = self.counted.map_or(Duration::ZERO, |counted| now.since(&counted));
        if self.counted.is_some() && !self.bumped && passed < LOOK_INTERVAL {
            return [Vec::new(), Vec::new()];
        }
        (self.counted, self.bumped) = (Some(now), false);
        let mut taken = [Vec::new(), Vec::new()];
        for (index, side) in [&mut self.inbound, &mut self.outbound].into_iter().enumerate() {
            side.refill(passed);
            if is_there[index] {
                taken[index] = side.take(pool);
            } else {
                side.backlog = Vec::new();
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::{NoPool, TxName};
    use primitives::{Transaction, Txid};

    /// Has every transaction whose first byte is not 255, the highest number the best; each has so many bytes.
    struct Even(usize);

    impl Pool for Even {
        fn has(&self, name: &TxName) -> bool {
            NoPool.has(name)
        }
        fn get(&self, name: &TxName, sequence: u64) -> Option<Transaction> {
            NoPool.get(name, sequence)
        }
        fn sequence(&self) -> u64 {
            1
        }
        fn minimum_sat_per_kvb(&self, _: u64) -> i64 {
            0
        }
        fn policy_sat_per_kvb(&self) -> (i64, i64) {
            (0, 0)
        }
        fn sorted(&self, wtxids: &[Wtxid]) -> Vec<Offer> {
            let mut here: Vec<Wtxid> = wtxids.iter().filter(|wtxid| wtxid.0[0] != 255).copied().collect();
            here.sort_by(|a, b| b.cmp(a));
            here.dedup();
            let offer = |wtxid| Offer { txid: Txid::default(), wtxid, fee_sat: 1, size_vb: 1, bytes: self.0 };
            here.into_iter().map(offer).collect()
        }
        fn all(&self) -> Vec<Offer> {
            Vec::new()
        }
        fn unbroadcast(&self) -> Vec<Wtxid> {
            Vec::new()
        }
        fn asked_for(&mut self, _: &Txid) {}
        fn find(&self, _: &mut dyn FnMut(&Wtxid) -> bool) -> Vec<(crate::wire::Ids, Transaction)> {
            Vec::new()
        }
    }

    fn wtxid(number: u32) -> Wtxid {
        let mut bytes = [0; 32];
        bytes[1..5].copy_from_slice(&number.to_be_bytes());
        Wtxid(bytes)
    }

    fn at(seconds: f64) -> Moment {
        Moment { monotonic: Duration::from_secs(9), unix_s: 9 }.after(Duration::from_secs_f64(seconds))
    }

    #[test]
    fn few_go_at_once_and_a_flood_at_fourteen_a_second_the_best_first() {
        let mut backlog = Backlog::default();
        backlog.push(wtxid(5));
        backlog.push(wtxid(9));
        backlog.push(Wtxid([255; 32]));
        let want = vec![wtxid(9), wtxid(5)];
        assert_eq!(backlog.take(&Even(300), [true, true], at(0.0)), [want.clone(), want]);
        assert!(backlog.is_empty());
        (0..5_000).for_each(|number| backlog.push(wtxid(number)));
        let [first, chosen] = backlog.take(&Even(300), [true, true], at(0.0));
        // 420 tokens less the two of above, and an average message's worth below zero.
        assert_eq!((first.len(), chosen.len()), (488, 488));
        assert_eq!((first[0], first[487]), (wtxid(4_999), wtxid(4_512)));
        let mut told = [0, 0];
        for tenth in 1..=600 {
            let taken = backlog.take(&Even(300), [true, true], at(f64::from(tenth) / 10.0));
            told = [told[0] + taken[0].len(), told[1] + taken[1].len()];
        }
        // A minute brings 840 and 2,100 tokens; what is borrowed is at most a message's worth.
        assert!((770..=840).contains(&told[0]) && (2_030..=2_100).contains(&told[1]), "{told:?}");
    }

    #[test]
    fn bytes_are_limited_as_numbers_are() {
        let mut backlog = Backlog::default();
        (0..1_000).for_each(|number| backlog.push(wtxid(number)));
        let [first, _] = backlog.take(&Even(100_000), [true, true], at(0.0));
        assert_eq!(first.len(), 121, "12 MB, and 50 kB below zero");
        let [none, _] = backlog.take(&Even(100_000), [true, true], at(2.0));
        assert_eq!(none.len(), 0);
        let [next, _] = backlog.take(&Even(100_000), [true, true], at(10.0));
        assert_eq!(next.len(), 2, "200 kB came back");
    }

    #[test]
    fn without_peers_of_a_kind_nothing_waits_for_them() {
        let mut backlog = Backlog::default();
        (0..1_000).for_each(|number| backlog.push(wtxid(number)));
        assert_eq!(backlog.take(&Even(300), [false, true], at(0.0))[0].len(), 0);
        assert_eq!(backlog.len(), [0, 510]);
        assert_eq!(backlog.take(&Even(300), [true, true], at(0.05)), [vec![], vec![]], "looks are rare");
    }
}
