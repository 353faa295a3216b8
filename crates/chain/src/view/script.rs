//! What wallets ask about a script: history, status, unspent outputs, balance.
//!
//! In:     script hashes, and where a page begins.
//! Out:    entries in chain order; balance and unspent outputs cost what is unspent, not what ever happened.
//! Fails:  [`ViewError`].
//!
//! A history of any length is read [`PAGE_ROWS`] rows at a time; only the caller's page is ever in memory.

use index::status::Status;
use primitives::{OutPoint, ScriptHash, TxNum, TxoNum};
use store::{Table, TxPlace};

use super::{HistoryEntry, UnspentEntry, View, ViewError};

/// Entries whose transactions are read together: bounds memory to their places, 40 KiB.
const PAGE_ROWS: usize = 1024;

impl View {
    /// The history of a script from the transaction `from` on, at most `limit` entries, in chain order.
    pub fn history(&self, script_hash: &ScriptHash, from: TxNum, limit: usize) -> Result<Vec<HistoryEntry>, ViewError> {
        let mut entries = Vec::new();
        self.each_of_history(script_hash, from, limit, &mut |entry| entries.push(entry))?;
        Ok(entries)
    }

    /// The first entries of the histories of several scripts, at most `limit` of each, in the order of `scripts`. After a
    /// block thousands of scripts are asked about: rows and transactions that they share are read once.
    pub fn histories(&self, scripts: &[ScriptHash], limit: usize) -> Result<Vec<Vec<HistoryEntry>>, ViewError> {
        let mut tags: Vec<(u64, usize)> = (0..).zip(scripts).map(|(at, it)| (self.tag_key.tag(it), at)).collect();
        tags.sort_unstable();
        let Some(&(first, _)) = tags.first() else { return Ok(Vec::new()) };
        let mut rows = self.snapshot.rows_of_many(Table::History, first)?;
        let mut tx_nums: Vec<Vec<TxNum>> = vec![Vec::new(); scripts.len()];
        for of_tag in tags.chunk_by(|one, other| one.0 == other.0) {
            let found: Vec<TxNum> = rows.of(of_tag[0].0, limit)?.iter().map(|row| row.lo as TxNum).collect();
            of_tag.iter().for_each(|(_, at)| tx_nums[*at].clone_from(&found));
        }
        let mut wanted = tx_nums.concat();
        wanted.sort_unstable();
        wanted.dedup();
        let mut places = self.snapshot.places();
        let places: Vec<TxPlace> =
            wanted.iter().map(|tx_num| self.place(&mut places, *tx_num)).collect::<Result<_, _>>()?;
        let txids = self.txids_at(&places)?;
        let entry = |tx_num: &TxNum| {
            let at = wanted.binary_search(tx_num).expect("all of them are wanted");
            HistoryEntry { tx_num: *tx_num, height: places[at].height, txid: txids[at] }
        };
        Ok(tx_nums.iter().map(|of_script| of_script.iter().map(entry).collect()).collect())
    }

    /// Number of entries of a script's history, counted no further than `limit`.
    pub fn history_count(&self, script_hash: &ScriptHash, limit: usize) -> Result<usize, ViewError> {
        let rows = self.snapshot.rows(Table::History, self.tag_key.tag(script_hash), 0)?;
        Ok(rows.take(limit).try_fold(0, |count, row| row.map(|_| count + 1))?)
    }

    /// The Electrum status of a script's confirmed history.
    pub fn status(&self, script_hash: &ScriptHash) -> Result<Option<[u8; 32]>, ViewError> {
        let mut status = Status::default();
        self.each_of_history(script_hash, 0, usize::MAX, &mut |entry| {
            status.push(&entry.txid, i64::from(entry.height));
        })?;
        Ok(status.finish())
    }

    fn each_of_history(
        &self,
        script_hash: &ScriptHash,
        from: TxNum,
        limit: usize,
        each: &mut dyn FnMut(HistoryEntry),
    ) -> Result<(), ViewError> {
        let tag = self.tag_key.tag(script_hash);
        let mut rows = self.snapshot.rows(Table::History, tag, u64::from(from))?.take(limit).peekable();
        let mut places = self.snapshot.places();
        let mut page: Vec<TxPlace> = Vec::new();
        while rows.peek().is_some() {
            page.clear();
            for row in rows.by_ref().take(PAGE_ROWS) {
                page.push(self.place(&mut places, row?.lo as TxNum)?);
            }
            for (place, txid) in page.iter().zip(self.txids_at(&page)?) {
                each(HistoryEntry { tx_num: place.tx_num, height: place.height, txid });
            }
        }
        Ok(())
    }

    /// Sum of a script's unspent outputs.
    pub fn balance_sat(&self, script_hash: &ScriptHash) -> Result<u64, ViewError> {
        let mut sum = 0u64;
        for row in self.snapshot.rows(Table::Unspent, self.tag_key.tag(script_hash), 0)? {
            sum += row?.value;
        }
        Ok(sum)
    }

    /// Unspent outputs of a script from the output `from` on, at most `limit` entries, in chain order.
    pub fn unspent(
        &self,
        script_hash: &ScriptHash,
        from: TxoNum,
        limit: usize,
    ) -> Result<Vec<UnspentEntry>, ViewError> {
        let tag = self.tag_key.tag(script_hash);
        let mut rows = self.snapshot.rows(Table::Unspent, tag, from)?.take(limit).peekable();
        let mut places = self.snapshot.places();
        let mut entries = Vec::new();
        while rows.peek().is_some() {
            // Several outputs of one transaction are one place.
            let mut page: Vec<TxPlace> = Vec::new();
            let mut outputs = Vec::new();
            for row in rows.by_ref().take(PAGE_ROWS) {
                let row = row?;
                let no_such = ViewError::NoSuchOrdinal { ordinal: row.lo };
                let (place, vout) = places.output(row.lo)?.ok_or(no_such)?;
                if page.last().is_none_or(|last| last.tx_num != place.tx_num) {
                    page.push(place);
                }
                outputs.push((page.len() - 1, vout, row));
            }
            let txids = self.txids_at(&page)?;
            entries.extend(outputs.into_iter().map(|(at, vout, row)| UnspentEntry {
                txo_num: row.lo,
                height: page[at].height,
                outpoint: OutPoint { txid: txids[at], vout },
                value_sat: row.value,
            }));
        }
        Ok(entries)
    }
}
