//! A script whose history ends with an exact length.
//!
//! In:     how many transactions shall touch it, how many coins shall be left, between which heights.
//! Out:    what its next transaction does: pay it, spend from it, or both; what has become of it so far.
//! Fails:  never; options that cannot be met are refused before.

use stdx::random::Random;

use super::SpecialScript;
use super::lock::Lock;
use super::planned::PlannedCoin;

/// A script on its way to its history.
#[derive(Clone)]
pub(super) struct Special {
    pub(super) lock: Lock,
    pub(super) wallet: u32,
    pub(super) funds_left: u32,
    pub(super) spends_left: u32,
    /// One transaction that spends and pays the script, where the numbers need it.
    pub(super) both_left: u32,
    pub(super) coins: Vec<PlannedCoin>,
    /// Height of the first transaction that touched it, and of the last; 0 for none.
    pub(super) touched: (u32, u32),
    entries: u32,
    heights: (u32, u32),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    Fund,
    Spend,
    Both,
}

impl Special {
    /// Nothing has touched it yet; the chain spends between these heights.
    pub(super) fn new(wanted: &SpecialScript, key: u32, (first, last): (u32, u32)) -> Special {
        let SpecialScript { entries, unspent, wallet, .. } = *wanted;
        let both_left = (entries - unspent) % 2;
        let spends_left = (entries - unspent - both_left) / 2;
        let (from, to) = wanted.heights.unwrap_or((first, last));
        Special {
            lock: Lock::new(wanted.kind, key),
            wallet,
            funds_left: spends_left + unspent,
            spends_left,
            both_left,
            coins: Vec::new(),
            touched: (0, 0),
            entries,
            heights: (from.max(first), to.clamp(first, last)),
        }
    }

    /// Entries that are still to be made.
    pub(super) fn left(&self) -> u32 {
        self.funds_left + self.spends_left + self.both_left
    }

    /// Entries there are.
    pub(super) fn entries(&self) -> u32 {
        self.entries - self.left()
    }

    /// How many of them come in the block at `height`: evenly over its heights, by chance; at the last height and above all
    /// that are left.
    pub(super) fn due(&self, height: u32, random: &mut Random) -> u32 {
        let (from, to) = self.heights;
        if height < from || self.left() == 0 {
            return 0;
        }
        let blocks = u64::from(to.saturating_sub(height) + 1);
        let (whole, rest) = (u64::from(self.left()) / blocks, u64::from(self.left()) % blocks);
        (whole + u64::from(random.chance(rest, blocks))) as u32
    }

    /// What the next entry does.
    pub(super) fn next(&self, random: &mut Random) -> Event {
        let must_fund = self.coins.is_empty() || (self.spends_left == 0 && self.both_left == 0);
        if self.funds_left > 0 && (must_fund || random.chance(1, 2)) {
            return Event::Fund;
        }
        // The one that does both comes before the last coin is spent for good.
        if self.both_left > 0 { Event::Both } else { Event::Spend }
    }

    /// One entry less to make.
    pub(super) fn count(&mut self, event: Event, height: u32) {
        match event {
            Event::Fund => self.funds_left -= 1,
            Event::Spend => self.spends_left -= 1,
            Event::Both => self.both_left -= 1,
        }
        let first = if self.touched.0 == 0 { height } else { self.touched.0 };
        self.touched = (first, height);
    }
}
