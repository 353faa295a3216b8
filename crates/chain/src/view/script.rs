//! What wallets ask about a script: history, status, unspent outputs, balance.
//!
//! In:     script hashes, and where a page begins.
//! Out:    entries in chain order; balance and unspent outputs cost what is unspent, not what ever happened.
//! Fails:  [`ViewError`].
//!
//! A history of any length is read [`PAGE_ROWS`] rows at a time; only the caller's page is ever in memory.

use index::status::Status;
use primitives::{OutPoint, ScriptHash, TxNum, TxoNum};
use store::{Places, Row, Table, TxPlace};

use super::memory::Known;
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
        let entries = self.entries_of(&mut self.snapshot.places(), &wanted)?;
        let entry = |tx_num: &TxNum| entries[wanted.binary_search(tx_num).expect("all of them are wanted")];
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
        while rows.peek().is_some() {
            let page = rows.by_ref().take(PAGE_ROWS).map(|row| Ok(row?.lo as TxNum));
            let page = page.collect::<Result<Vec<TxNum>, ViewError>>()?;
            self.entries_of(&mut places, &page)?.into_iter().for_each(&mut *each);
        }
        Ok(())
    }

    /// The entries of transactions, whose ordinals rise: from memory, and the others from the files in one go.
    fn entries_of(&self, places: &mut Places<'_>, tx_nums: &[TxNum]) -> Result<Vec<HistoryEntry>, ViewError> {
        let memory = &self.ordinal_memory;
        let mut entries = Vec::with_capacity(tx_nums.len());
        let (mut missing, mut page) = (Vec::new(), Vec::new());
        for (at, tx_num) in tx_nums.iter().enumerate() {
            let known = memory.tx(*tx_num);
            if known.is_none() {
                missing.push(at);
                page.push(self.place(places, *tx_num)?);
            }
            let known = known.unwrap_or(Known::NOTHING);
            entries.push(HistoryEntry { tx_num: *tx_num, height: known.height, txid: known.txid });
        }
        for ((at, place), txid) in missing.into_iter().zip(&page).zip(self.txids_at(&page)?) {
            memory.keep_tx(place.tx_num, Known { txid, height: place.height, vout: 0 });
            (entries[at].height, entries[at].txid) = (place.height, txid);
        }
        Ok(entries)
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
            let page: Vec<Row> = rows.by_ref().take(PAGE_ROWS).collect::<Result<_, _>>()?;
            let known = self.outputs_of(&mut places, page.iter().map(|row| row.lo))?;
            entries.extend(page.iter().zip(known).map(|(row, known)| UnspentEntry {
                txo_num: row.lo,
                height: known.height,
                outpoint: OutPoint { txid: known.txid, vout: known.vout },
                value_sat: row.value,
            }));
        }
        Ok(entries)
    }

    /// What is known of outputs, whose ordinals rise: from memory, and the others from the files in one go.
    fn outputs_of(
        &self,
        places: &mut Places<'_>,
        txo_nums: impl Iterator<Item = TxoNum>,
    ) -> Result<Vec<Known>, ViewError> {
        let memory = &self.ordinal_memory;
        let mut outputs = Vec::new();
        // Several outputs of one transaction are one place.
        let (mut missing, mut page) = (Vec::new(), Vec::<TxPlace>::new());
        for txo_num in txo_nums {
            let known = memory.output(txo_num);
            if known.is_none() {
                let (place, vout) = places.output(txo_num)?.ok_or(ViewError::NoSuchOrdinal { ordinal: txo_num })?;
                if page.last().is_none_or(|last| last.tx_num != place.tx_num) {
                    page.push(place);
                }
                missing.push((outputs.len(), txo_num, vout, page.len() - 1));
            }
            outputs.push(known.unwrap_or(Known::NOTHING));
        }
        let txids = self.txids_at(&page)?;
        for (at, txo_num, vout, place) in missing {
            outputs[at] = Known { txid: txids[place], height: page[place].height, vout };
            memory.keep_output(txo_num, outputs[at]);
        }
        Ok(outputs)
    }
}
