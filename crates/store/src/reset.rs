//! Unspent rows of a script written anew, so that readers never step over long rows of what is gone.
//!
//! In:     what a cut or a merge says about a script, and the segments below it.
//! Out:    all rows of the script that are alive, where they are few beside the dead ones.
//! Fails:  [`StoreError`] from reading.
//!
//! A reader steps over each row that is gone, and over its deletion. A script that had 100,000 coins and has 10 would be
//! read ten thousand times as slowly as another with 10. So a cut or a merge that deletes [`DELETES_MIN`] rows of one
//! script or more looks at what is left of it, and writes [`Op::Reset`] and the rest where the dead pay for it: at most
//! [`LIVE_PER_DEAD`] rows are written again for a row that is gone, and each dead row pays once. Whatever a reader finds
//! below that bound costs it less than one block of rows.

use std::sync::Arc;

use crate::error::StoreError;
use crate::merge::RowMerge;
use crate::row::{Op, Row, Table};
use crate::segment::{SectionWriter, Segment};

/// Deletions of one script from which on it is looked at. Below it, stepping over is cheaper than looking.
pub(crate) const DELETES_MIN: usize = 32;
/// A script is written anew if at most this many rows are alive for each that is dead.
pub(crate) const LIVE_PER_DEAD: usize = 2;

/// Rows alive that a look goes through before it gives up although few dead ones were met: old coins that stay are often
/// in front of those that come and go. About 50 us.
const LOOK_ROWS: usize = 4096;

/// All rows of a script that are alive in `segments` after `changes`; none where they are too many to be worth writing
/// again. At least `deletes` rows are known to be gone.
pub(crate) fn live_rows(
    segments: &[Arc<Segment>],
    hi: u64,
    deletes: usize,
    changes: &[Row],
) -> Result<Option<Vec<Row>>, StoreError> {
    let changed = |lo: u64| changes.binary_search_by_key(&lo, |row| row.lo).is_ok();
    let mut live: Vec<Row> = changes.iter().filter(|row| row.op.is_live()).copied().collect();
    let mut merge = RowMerge::seek_hi(segments, Table::Unspent, hi, 0)?;
    let mut dead = 0;
    while let Some((row, _)) = merge.next()?.filter(|(row, _)| row.hi == hi) {
        match row.op {
            Op::Put | Op::Replace if !changed(row.lo) => live.push(row),
            Op::Reset => {}
            Op::Put | Op::Replace | Op::Delete => dead += 1,
        }
        if live.len() > deletes.max(dead) * LIVE_PER_DEAD + LOOK_ROWS {
            return Ok(None);
        }
    }
    live.sort_unstable_by_key(|row| row.lo);
    let worth = live.len() <= deletes.max(dead) * LIVE_PER_DEAD;
    // Position 0 below a script is the reset itself; the one output with ordinal 0 can never be spent.
    Ok(Some(live).filter(|live| worth && live.first().is_none_or(|row| row.lo > 0)))
}

/// Writes a script anew.
pub(crate) fn write(hi: u64, live: Vec<Row>, out: &mut SectionWriter) {
    out.push_row(Row { hi, lo: 0, value: 0, op: Op::Reset });
    live.into_iter().for_each(|row| out.push_row(Row { op: Op::Put, ..row }));
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use primitives::{BlockHash, Coin, Network, OutPoint, Params, Txid};
    use stdx::pool::Pool;

    use super::*;
    use crate::blockfiles::Position;
    use crate::tests::{MemoryDisk, tagger};
    use crate::{Batch, Coins, CoinsOptions, Cut, Options, Snapshot, Store, Tip, TxEntry};

    const SCRIPT: &[u8] = b"script";

    /// A store whose blocks make and spend coins of one script.
    struct World {
        store: Store,
        coins: Coins,
        pool: Pool,
        tag: u64,
        made: u64,
        /// Ordinals of the coins alive.
        live: Vec<u64>,
    }

    fn outpoint(txo_num: u64) -> OutPoint {
        OutPoint { txid: Txid([(txo_num * 0x9d) as u8; 32]), vout: txo_num as u32 }
    }

    fn coin(txo_num: u64) -> Coin<'static> {
        Coin { value_sat: 1_000 + txo_num, height: 1, coinbase: false, txo_num, script: SCRIPT }
    }

    impl World {
        fn new() -> World {
            let (disk, params) = (Arc::new(MemoryDisk::default()), Params::of(Network::Regtest));
            let store = Store::open(disk, Path::new("/data"), &params, &Options { tag_key_seed: [7; 16] }).unwrap();
            let options = CoinsOptions { bytes_max: 1 << 24, hash_key: [3, 4] };
            let coins = Coins::new(store.snapshot(), tagger(), &options);
            // The output with ordinal 0 is genesis', which is no coin.
            let (made, live) = (1, Vec::new());
            World { store, coins, pool: Pool::new("test", 1), tag: tagger()(SCRIPT), made, live }
        }

        fn create(&mut self, count: usize) {
            for _ in 0..count {
                self.coins.create(&outpoint(self.made), coin(self.made), self.tag).unwrap();
                self.live.push(self.made);
                self.made += 1;
            }
        }

        /// Spends the oldest.
        fn spend(&mut self, count: usize) -> Vec<u64> {
            let spent: Vec<u64> = self.live.drain(..count).collect();
            for txo_num in &spent {
                assert!(self.coins.spend(&outpoint(*txo_num)).unwrap().is_some());
            }
            spent
        }

        fn restore(&mut self, spent: Vec<u64>) {
            for txo_num in &spent {
                self.coins.restore(&outpoint(*txo_num), coin(*txo_num)).unwrap();
            }
            self.live.splice(..0, spent);
        }

        /// Commits, and compares what is unspent with the book while that is little.
        fn commit(&mut self) {
            let height = self.store.block_count();
            let tx = TxEntry { offset: 81, first_output: 0 };
            self.store.push_block(&[height as u8; 80], Position { file: 0, offset: 0, size: 9 }, &[tx], 1);
            let tip = Some(Tip { height, hash: BlockHash([height as u8; 32]), chainwork: [0; 32] });
            let cut = Cut { tip, batch: Batch::default(), coins: &mut self.coins };
            self.store.commit(cut, &self.pool).unwrap();
            if self.live.len() < 1_000 {
                self.check();
            }
        }

        fn merge(&mut self) -> bool {
            let Some(job) = self.store.pick_merge() else { return false };
            self.store.install_merge(job.run()).unwrap();
            true
        }

        fn check(&self) {
            let snapshot = self.store.snapshot();
            for from in [0, self.live.first().map_or(0, |first| first + 1)] {
                let rows: Vec<(u64, u64)> = snapshot
                    .rows(Table::Unspent, self.tag, from)
                    .unwrap()
                    .map(|r| r.unwrap())
                    .map(|r| (r.lo, r.value))
                    .collect();
                let want: Vec<(u64, u64)> =
                    self.live.iter().filter(|lo| **lo >= from).map(|lo| (*lo, 1_000 + lo)).collect();
                assert_eq!(rows, want, "from {from}");
            }
        }

        /// Rows that a reader of the script goes through.
        fn walked(&self) -> usize {
            walked(&self.store.snapshot(), self.tag)
        }
    }

    fn walked(snapshot: &Snapshot, hi: u64) -> usize {
        let mut merge = RowMerge::seek_hi(&snapshot.segments, Table::Unspent, hi, 0).unwrap();
        let mut count = 0;
        while merge.next().unwrap().is_some_and(|(row, _)| row.hi == hi) {
            count += 1;
        }
        count
    }

    #[test]
    fn a_cut_writes_a_script_anew_from_enough_deletions_on() {
        #[track_caller]
        fn check(make: usize, spend: usize, make_more: usize, want_walked: usize) {
            let mut world = World::new();
            world.create(make);
            world.commit();
            world.spend(spend);
            world.create(make_more);
            world.commit();
            assert_eq!(world.walked(), want_walked, "{make} made, {spend} spent, {make_more} made");
        }
        // One deletion too few: each dead row is walked as one key.
        check(40, DELETES_MIN - 1, 0, 40);
        // Enough: the reset itself and what is alive.
        check(40, DELETES_MIN, 0, 1 + 40 - DELETES_MIN);
        check(40, DELETES_MIN, 5, 1 + 40 - DELETES_MIN + 5);
        // Alive is twice the dead, and one more than that.
        check(3 * DELETES_MIN, DELETES_MIN, 0, 1 + 2 * DELETES_MIN);
        check(3 * DELETES_MIN + 1, DELETES_MIN, 0, 3 * DELETES_MIN + 1);
        check(3 * DELETES_MIN, DELETES_MIN, 1, 3 * DELETES_MIN + 1);
        // The look ends where the living are far too many.
        check(3 * LOOK_ROWS, DELETES_MIN, 0, 3 * LOOK_ROWS);
        check(100, 100, 0, 1);
    }

    #[test]
    fn a_merge_writes_a_script_anew_where_its_cuts_were_too_small() {
        let mut world = World::new();
        // A first segment that stays larger than what comes on top.
        world.create(20_000);
        world.commit();
        let spend_in_small_cuts = |world: &mut World, cuts: usize| {
            for _ in 0..cuts {
                world.spend(DELETES_MIN - 1);
                world.commit();
                while world.merge() {
                    world.commit();
                }
            }
        };
        let cuts = (20_000 - 10) / (DELETES_MIN - 1);
        spend_in_small_cuts(&mut world, cuts);
        let left = world.live.len();
        assert!(left < 10 + DELETES_MIN);
        assert!(world.walked() <= 2_000, "{} rows walked for {left}", world.walked());
    }

    #[test]
    fn coins_restored_after_a_reset_are_found_again() {
        for merge_between in [false, true] {
            let mut world = World::new();
            world.create(100);
            world.commit();
            let spent = world.spend(90);
            world.commit();
            assert_eq!(world.walked(), 11);
            if merge_between {
                for _ in 0..3 {
                    world.create(1);
                    world.commit();
                }
                assert!(world.merge());
                world.commit();
            }
            // The blocks are left: the coins come back, some of them are spent again.
            world.restore(spent);
            world.commit();
            world.spend(20);
            world.commit();
            world.spend(60);
            world.commit();
            world.create(4);
            world.commit();
            while world.merge() {
                world.commit();
            }
            world.check();
        }
    }
}
