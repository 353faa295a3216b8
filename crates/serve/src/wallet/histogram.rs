//! The histogram of fees, computed once for all who ask.
//!
//! In:     the mempool.
//! Out:    feerates in tenths of a satoshi for a virtual byte, falling, and how much pays them.
//! Fails:  [`Fault`] where the mempool does not catch up with the chain.
//!
//! It takes a walk along the whole mempool. While nothing changed, and for a second in a large mempool, the last one holds.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::moment::still;
use crate::electrum::error::Fault;
use crate::source::Source;

/// Time for which a histogram of a large mempool holds; it changes by a few transactions in it.
const HOLDS: Duration = Duration::from_secs(1);
/// A mempool of fewer transactions is walked along whenever it changed: that takes less than a millisecond.
const LARGE_TXS: usize = 5_000;

type Bars = Arc<Vec<(u64, u64)>>;

struct Last {
    bars: Bars,
    changes: u64,
    at: Instant,
}

/// The last histogram.
#[derive(Default)]
pub struct Histogram(Mutex<Option<Last>>);

impl Histogram {
    /// The histogram of now, or of a moment ago.
    pub fn of(&self, source: &dyn Source) -> Result<Bars, Fault> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, bars) = still(source, |_, mempool| {
            let Some(mempool) = mempool else { return Bars::default() };
            let changes = mempool.changes();
            if let Some(last) = &*last
                && (last.changes == changes || (mempool.len() >= LARGE_TXS && last.at.elapsed() < HOLDS))
            {
                return last.bars.clone();
            }
            let bars = Bars::new(mempool.histogram());
            *last = Some(Last { bars: bars.clone(), changes, at: Instant::now() });
            bars
        })?;
        Ok(bars)
    }
}
