//! One horizon: for each bucket of feerates, which share was confirmed within how many periods.
//!
//! In:     transactions that come, leave and are confirmed, by bucket and height.
//! Out:    the median feerate of the lowest range of buckets of which enough was confirmed in time.
//! Fails:  never; without a feerate where no range qualifies.
//! Source: Bitcoin Core, `policy/fees/block_policy_estimator.cpp` (`TxConfirmStats`).

/// A range of buckets and what became of its transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BucketRange {
    /// Lowest feerate, exclusive.
    pub start: f64,
    /// Highest feerate.
    pub end: f64,
    /// Confirmed within the target.
    pub within_target: f64,
    /// Confirmed at all.
    pub confirmed: f64,
    /// Not confirmed yet, for longer than the target.
    pub in_mempool: f64,
    /// Left unconfirmed after more than the target.
    pub left: f64,
}

/// An answer and what it stands on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The feerate, in satoshi for 1,000 virtual bytes; none where no range qualifies.
    pub sat_per_kvb: Option<f64>,
    /// The range it is of.
    pub pass: Option<BucketRange>,
    /// The first range below that failed, if any; of all where none qualifies.
    pub fail: Option<BucketRange>,
    /// What is kept of the counts from block to block.
    pub decay: f64,
    /// Blocks of a period.
    pub scale: u32,
}

/// Moving averages and what is watched.
#[derive(Clone)]
pub(super) struct Horizon {
    pub decay: f64,
    pub scale: u32,
    /// Average number of transactions a block that a range must have.
    pub sufficient: f64,
    /// By bucket: confirmed transactions, and the sum of their feerates.
    pub counts: Vec<f64>,
    pub rates: Vec<f64>,
    /// By period, then bucket: confirmed within, and given up after.
    pub confirmed: Vec<Vec<f64>>,
    pub failed: Vec<Vec<f64>>,
    /// By height (round the clock), then bucket: watched. And by bucket those watched for longer.
    watched: Vec<Vec<u32>>,
    old: Vec<u32>,
}

impl Horizon {
    pub fn new(buckets: usize, periods: usize, decay: f64, scale: u32, sufficient: f64) -> Horizon {
        Horizon {
            decay,
            scale,
            sufficient,
            counts: vec![0.0; buckets],
            rates: vec![0.0; buckets],
            confirmed: vec![vec![0.0; buckets]; periods],
            failed: vec![vec![0.0; buckets]; periods],
            watched: vec![vec![0; buckets]; periods * scale as usize],
            old: vec![0; buckets],
        }
    }

    /// Highest target.
    pub fn target_max(&self) -> u32 {
        self.watched.len() as u32
    }

    fn place(&self, height: u32) -> usize {
        height as usize % self.watched.len()
    }

    pub fn watch(&mut self, height: u32, bucket: usize) {
        let place = self.place(height);
        self.watched[place][bucket] += 1;
    }

    /// It left after `blocks`; those not confirmed count as failed for all periods that have passed whole.
    pub fn unwatch(&mut self, height: u32, blocks: u32, bucket: usize, confirmed: bool) {
        let place = self.place(height);
        let count = match blocks >= self.target_max() {
            true => &mut self.old[bucket],
            false => &mut self.watched[place][bucket],
        };
        *count = count.saturating_sub(1);
        if !confirmed {
            let periods = (blocks / self.scale) as usize;
            self.failed.iter_mut().take(periods).for_each(|failed| failed[bucket] += 1.0);
        }
    }

    /// Makes room for a height, and lets the averages fade.
    pub fn begin_block(&mut self, height: u32) {
        let place = self.place(height);
        for (old, watched) in self.old.iter_mut().zip(&mut self.watched[place]) {
            *old += std::mem::take(watched);
        }
        let rows = self.confirmed.iter_mut().chain(&mut self.failed).chain([&mut self.counts, &mut self.rates]);
        rows.flatten().for_each(|value| *value *= self.decay);
    }

    /// It was confirmed after `blocks`, 1 at least.
    pub fn confirm(&mut self, blocks: u32, bucket: usize, sat_per_kvb: f64) {
        let periods = blocks.div_ceil(self.scale) as usize;
        self.confirmed.iter_mut().skip(periods - 1).for_each(|confirmed| confirmed[bucket] += 1.0);
        self.counts[bucket] += 1.0;
        self.rates[bucket] += sat_per_kvb;
    }

    /// Transactions of a bucket that wait for the target or longer.
    fn waiting(&self, bucket: usize, target: u32, height: u32) -> f64 {
        let ages = target..self.target_max();
        let recent = ages.map(|age| self.watched[self.place(height.wrapping_sub(age) % self.target_max())][bucket]);
        f64::from(recent.sum::<u32>() + self.old[bucket])
    }

    /// From the highest feerate down, ranges of buckets are gathered until they hold enough; the lowest one that still
    /// succeeds gives the answer.
    pub fn estimate(&self, buckets: &[f64], target: u32, success: f64, height: u32) -> Estimate {
        let period = target.div_ceil(self.scale) as usize - 1;
        let enough = self.sufficient / (1.0 - self.decay);
        let mut range = BucketRange::default();
        let (mut top, mut part, mut fresh) = (buckets.len() - 1, 0.0, true);
        let mut best: Option<(usize, usize, BucketRange)> = None;
        let mut fail: Option<(usize, usize, BucketRange)> = None;
        for bucket in (0..buckets.len()).rev() {
            if std::mem::take(&mut fresh) {
                top = bucket;
            }
            range.within_target += self.confirmed[period][bucket];
            range.confirmed += self.counts[bucket];
            range.left += self.failed[period][bucket];
            range.in_mempool += self.waiting(bucket, target, height);
            part += self.counts[bucket];
            if part < enough {
                continue;
            }
            part = 0.0;
            let share = range.within_target / (range.confirmed + range.left + range.in_mempool);
            if share < success {
                fail.get_or_insert((bucket, top, range));
                continue;
            }
            best = Some((bucket, top, range));
            (fail, range, fresh) = (None, BucketRange::default(), true);
        }
        // What is left at the bottom, too little to judge, counts as failed.
        if fail.is_none() && !fresh {
            fail = Some((0, top, range));
        }
        let named = |(low, high, range): (usize, usize, BucketRange)| BucketRange {
            start: if low == 0 { 0.0 } else { buckets[low - 1] },
            end: buckets[high],
            ..range
        };
        let sat_per_kvb = best.and_then(|(low, high, _)| self.median_of(low, high));
        let (pass, fail) = (best.map(named), fail.map(named));
        Estimate { sat_per_kvb, pass, fail, decay: self.decay, scale: self.scale }
    }

    /// The average feerate of the bucket that holds the median transaction of a range.
    fn median_of(&self, low: usize, high: usize) -> Option<f64> {
        let mut left = self.counts[low..=high].iter().sum::<f64>() / 2.0;
        if left == 0.0 {
            return None;
        }
        for bucket in low..=high {
            if self.counts[bucket] >= left {
                return Some(self.rates[bucket] / self.counts[bucket]);
            }
            left -= self.counts[bucket];
        }
        None
    }
}
