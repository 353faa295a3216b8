//! What to pay to be confirmed within so many blocks, learnt from what others paid.
//!
//! In:     transactions as they come and go, blocks with those of the mempool that they confirm.
//! Out:    feerates for a target, cautious or not.
//! Fails:  `None` while too little has been seen.
//! Source: Bitcoin Core, `policy/fees/block_policy_estimator.cpp`.
//!
//! Feerates are sorted into buckets. For each bucket and number of blocks three horizons remember which share was confirmed
//! in time: the short one forgets half in 18 blocks, the medium one in 144, the long one in 1,008.

mod file;
mod horizon;

pub use file::EstimatesError;
pub use horizon::{BucketRange, Estimate};

use std::collections::HashMap;

use primitives::Txid;

use crate::mempool::{Entry, Event, Reason};
use crate::policy::FeeRate;
use horizon::Horizon;

/// Lowest and highest bucket, in satoshi for 1,000 virtual bytes, and the step between two.
const BUCKET_MIN: f64 = 100.0;
const BUCKET_MAX: f64 = 1e7;
const BUCKET_STEP: f64 = 1.05;
/// Of all transactions: at half the target, at the target, at twice the target.
const HALF_SUCCESS: f64 = 0.6;
const SUCCESS: f64 = 0.85;
const DOUBLE_SUCCESS: f64 = 0.95;
/// Old files say something for so many blocks; Core's `OLDEST_ESTIMATE_HISTORY`.
const HISTORY_BLOCKS_MAX: u32 = 6 * 1_008;

/// How long confirmations are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Span {
    /// Targets to 12 blocks.
    Short,
    /// Targets to 48 blocks.
    Medium,
    /// Targets to 1,008 blocks.
    Long,
}

impl Span {
    /// Every one, the shortest first.
    pub const ALL: [Span; 3] = [Span::Short, Span::Medium, Span::Long];

    /// The word in answers.
    pub fn name(self) -> &'static str {
        match self {
            Span::Short => "short",
            Span::Medium => "medium",
            Span::Long => "long",
        }
    }
}

/// A transaction that is watched.
#[derive(Clone, Copy)]
struct Watched {
    height: u32,
    bucket: usize,
}

/// What was learnt.
pub struct Estimates {
    buckets: Vec<f64>,
    /// In the order of [`Span::ALL`].
    horizons: [Horizon; 3],
    watched: HashMap<Txid, Watched>,
    best_height: u32,
    /// First block of this run that confirmed something watched; 0 before.
    first_height: u32,
    /// Blocks that a file has learnt from: first and last.
    history: (u32, u32),
}

impl Default for Estimates {
    fn default() -> Estimates {
        let mut buckets: Vec<f64> = Vec::new();
        let mut bound = BUCKET_MIN;
        while bound <= BUCKET_MAX {
            buckets.push(bound);
            bound *= BUCKET_STEP;
        }
        buckets.push(1e99);
        let count = buckets.len();
        let horizons = [
            Horizon::new(count, 12, 0.962, 1, 0.5),
            Horizon::new(count, 24, 0.9952, 2, 0.1),
            Horizon::new(count, 42, 0.99931, 24, 0.1),
        ];
        let (watched, best_height, first_height, history) = (HashMap::new(), 0, 0, (0, 0));
        Estimates { buckets, horizons, watched, best_height, first_height, history }
    }
}

impl Estimates {
    /// Learns from the mempool's events. Confirmed transactions are gathered until their block is told.
    pub fn learn(&mut self, event: &Event, confirmed: &mut Vec<(Txid, u32, f64)>) {
        match event {
            Event::Added { entry, estimable: true, .. } => self.watch(entry.txid, entry.height, rate_of(entry)),
            Event::Added { .. } | Event::Offered { .. } | Event::Shifted { .. } => {}
            Event::Removed { entry, reason: Reason::Block, .. } => {
                confirmed.push((entry.txid, entry.height, rate_of(entry)));
            }
            Event::Removed { entry, .. } => {
                self.unwatch(&entry.txid, false);
            }
            Event::Block { height, .. } => self.block(*height, std::mem::take(confirmed)),
        }
    }

    /// A transaction came while the tip was at `height`.
    pub fn watch(&mut self, txid: Txid, height: u32, sat_per_kvb: f64) {
        // What comes while we are behind or in a reorganisation says nothing about time.
        if height != self.best_height || self.watched.contains_key(&txid) {
            return;
        }
        let bucket = self.bucket(sat_per_kvb);
        self.horizons.iter_mut().for_each(|horizon| horizon.watch(height, bucket));
        self.watched.insert(txid, Watched { height, bucket });
    }

    /// A transaction left, confirmed or not; true where it was watched.
    pub fn unwatch(&mut self, txid: &Txid, confirmed: bool) -> bool {
        let Some(Watched { height, bucket }) = self.watched.remove(txid) else { return false };
        let blocks = if self.best_height == 0 { 0 } else { self.best_height.saturating_sub(height) };
        self.horizons.iter_mut().for_each(|horizon| horizon.unwatch(height, blocks, bucket, confirmed));
        true
    }

    /// A block came; `confirmed` are those of the mempool that are in it: txid, height of the tip when they came, feerate.
    pub fn block(&mut self, height: u32, confirmed: Vec<(Txid, u32, f64)>) {
        if height <= self.best_height {
            return;
        }
        self.best_height = height;
        self.horizons.iter_mut().for_each(|horizon| horizon.begin_block(height));
        let mut counted = 0;
        for (txid, since, sat_per_kvb) in confirmed {
            if !self.unwatch(&txid, true) || height <= since {
                continue;
            }
            let bucket = self.bucket(sat_per_kvb);
            self.horizons.iter_mut().for_each(|horizon| horizon.confirm(height - since, bucket, sat_per_kvb));
            counted += 1;
        }
        if self.first_height == 0 && counted > 0 {
            self.first_height = height;
        }
    }

    /// Counts what is still watched as not confirmed; before the mempool is given up at a stop.
    pub fn unwatch_all(&mut self) {
        let all: Vec<Txid> = self.watched.keys().copied().collect();
        for txid in &all {
            self.unwatch(txid, false);
        }
    }

    fn bucket(&self, sat_per_kvb: f64) -> usize {
        self.buckets.partition_point(|&bound| bound < sat_per_kvb).min(self.buckets.len() - 1)
    }

    fn horizon(&self, span: Span) -> &Horizon {
        &self.horizons[span as usize]
    }

    /// Highest target of a horizon.
    pub fn target_max(&self, span: Span) -> u32 {
        self.horizon(span).target_max()
    }

    fn span_blocks(&self) -> u32 {
        if self.first_height == 0 { 0 } else { self.best_height - self.first_height }
    }

    fn history_blocks(&self) -> u32 {
        let (first, last) = self.history;
        let is_old = self.best_height.saturating_sub(last) > HISTORY_BLOCKS_MAX;
        if first == 0 || is_old { 0 } else { last - first }
    }

    /// Highest target that enough blocks have been seen for.
    pub fn target_usable(&self) -> u32 {
        self.target_max(Span::Long).min(self.span_blocks().max(self.history_blocks()) / 2)
    }

    fn estimate(&self, span: Span, target: u32, success: f64) -> Estimate {
        self.horizon(span).estimate(&self.buckets, target, success, self.best_height)
    }

    fn median(&self, span: Span, target: u32, success: f64) -> Option<f64> {
        self.estimate(span, target, success).sat_per_kvb
    }

    /// One horizon's answer (estimaterawfee).
    pub fn raw(&self, target: u32, success: f64, span: Span) -> Option<Estimate> {
        let in_range = (1..=self.target_max(span)).contains(&target) && success <= 1.0;
        in_range.then(|| self.estimate(span, target, success))
    }

    /// What to pay to be confirmed within `target` blocks, and the target that is answered for, which may be another one
    /// where too little was seen (estimatesmartfee).
    pub fn smart(&self, target: u32, cautious: bool) -> (Option<FeeRate>, u32) {
        if target == 0 || target > self.target_max(Span::Long) {
            return (None, target);
        }
        let target = target.max(2).min(self.target_usable());
        if target <= 1 {
            return (None, target);
        }
        let half = self.combined(target / 2, HALF_SUCCESS, true);
        let whole = self.combined(target, SUCCESS, true);
        let double = self.combined(2 * target, DOUBLE_SUCCESS, !cautious);
        let mut best = [half, whole, double].into_iter().flatten().reduce(f64::max);
        if cautious || best.is_none() {
            best = [best, self.conservative(2 * target)].into_iter().flatten().reduce(f64::max);
        }
        (best.map(|rate| FeeRate::per_kvb(rate.round() as i64)), target)
    }

    /// The shortest horizon that knows the target; a shorter one's last target where that asks for less.
    fn combined(&self, target: u32, success: f64, shorter: bool) -> Option<f64> {
        if !(1..=self.target_max(Span::Long)).contains(&target) {
            return None;
        }
        let known = |span: &&Span| target <= self.target_max(**span);
        let span = *Span::ALL.iter().find(known).expect("the long horizon knows the target");
        let mut best = self.median(span, target, success);
        for span in [Span::Medium, Span::Short].into_iter().filter(|_| shorter) {
            let most = self.target_max(span);
            let other = (target > most).then(|| self.median(span, most, success)).flatten();
            if let Some(other) = other
                && other > 0.0
                && best.is_none_or(|best| other < best)
            {
                best = Some(other);
            }
        }
        best
    }

    /// Longer horizons at twice the target, so that a quiet hour does not lower the answer too much.
    fn conservative(&self, double: u32) -> Option<f64> {
        let of = |span: Span, below: Span| {
            let known = double <= self.target_max(below);
            known.then(|| self.median(span, double, DOUBLE_SUCCESS)).flatten()
        };
        let both = [of(Span::Medium, Span::Short), of(Span::Long, Span::Medium)];
        both.into_iter().flatten().reduce(f64::max)
    }
}

/// What a transaction pays by its own fee.
fn rate_of(entry: &Entry) -> f64 {
    FeeRate::of(entry.fee_sat, entry.size_vb()).sat_per_kvb() as f64
}
