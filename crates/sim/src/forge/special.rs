//! A script whose history ends with an exact length.
//!
//! In:     how many transactions shall touch it, and how many coins shall be left.
//! Out:    what its next transaction does: pay it, spend from it, or both.
//! Fails:  never; options that cannot be met are refused before.

use stdx::random::Random;

use super::SpecialScript;
use super::lock::Lock;
use super::planned::PlannedCoin;

/// A script on its way to its history.
#[derive(Clone)]
pub(super) struct Special {
    pub(super) lock: Lock,
    pub(super) funds_left: u32,
    pub(super) spends_left: u32,
    /// One transaction that spends and pays the script, where the numbers need it.
    pub(super) both_left: u32,
    pub(super) coins: Vec<PlannedCoin>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    Fund,
    Spend,
    Both,
}

impl Special {
    /// Nothing has touched it yet.
    pub(super) fn new(wanted: &SpecialScript, key: u32) -> Special {
        let (entries, unspent) = (wanted.entries, wanted.unspent);
        let both_left = (entries - unspent) % 2;
        let spends_left = (entries - unspent - both_left) / 2;
        let lock = Lock::new(wanted.kind, key);
        Special { lock, funds_left: spends_left + unspent, spends_left, both_left, coins: Vec::new() }
    }

    /// Entries that are still to be made.
    pub(super) fn left(&self) -> u32 {
        self.funds_left + self.spends_left + self.both_left
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
}
