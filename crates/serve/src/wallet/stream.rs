//! Answers made a page at a time: histories, unspent outputs, and the statuses computed from histories.
//!
//! In:     a script and a view that stays the same from the first page to the last.
//! Out:    entries appended to a buffer, or a status at the end.
//! Fails:  [`Fault`]; before the first byte was written that can still become an error or a new start.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use index::status::Status;
use primitives::hash::sha256d;
use primitives::{ScriptHash, TxNum};

use crate::electrum::Env;
use crate::electrum::answer::{self, Head};
use crate::electrum::error::{Error, Fault};
use crate::electrum::limits::{PAGE_ENTRIES, STALE_RETRIES_MAX, STATUS_MEMORY_ENTRIES_MIN, STATUS_MEMORY_MAX};
use crate::source::{HistoryEntry, View};

/// What a stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The answer to `get_history`.
    History,
    /// The answer to `listunspent`.
    Unspent,
    /// The status that answers `subscribe`.
    Subscribe,
    /// The status of a touched script.
    Notify,
}

/// One answer under way.
pub struct Stream {
    purpose: Purpose,
    script: ScriptHash,
    view: Arc<dyn View>,
    head: Option<(Head, usize)>,
    next: u64,
    entries: u64,
    status: Status,
    result: Option<[u8; 32]>,
    begun: bool,
    retries: usize,
    /// Time spent computing so far.
    pub spent: Duration,
}

impl Stream {
    /// An answer about `script` from the newest state.
    pub fn new(env: &Env, script: ScriptHash, purpose: Purpose) -> Stream {
        Stream {
            purpose,
            script,
            view: env.source.view(),
            head: None,
            next: 0,
            entries: 0,
            status: Status::default(),
            result: None,
            begun: false,
            retries: 0,
            spent: Duration::ZERO,
        }
    }

    /// The request it answers and the number of its method.
    pub fn answering(mut self, head: Head, method: usize) -> Stream {
        self.head = Some((head, method));
        self
    }

    /// What it is for.
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// The script.
    pub fn script(&self) -> &ScriptHash {
        &self.script
    }

    /// True once something was written that cannot be taken back.
    pub fn begun(&self) -> bool {
        self.begun
    }

    /// True where it answers a request.
    pub fn has_head(&self) -> bool {
        self.head.is_some()
    }

    /// The method it answers.
    pub fn method(&self) -> Option<usize> {
        self.head.as_ref().map(|(_, method)| *method)
    }

    /// The request it answers.
    pub fn into_head(self) -> Option<Head> {
        self.head.map(|(head, _)| head)
    }

    /// The status, once it is finished.
    pub fn result(&self) -> Option<[u8; 32]> {
        self.result
    }

    /// Starts again from a newer view; false where that was tried often enough.
    pub fn start_again(&mut self, env: &Env) -> bool {
        self.retries += 1;
        let retries = self.retries;
        let head = self.head.take();
        *self = Stream { head, retries, spent: self.spent, ..Stream::new(env, self.script, self.purpose) };
        retries <= STALE_RETRIES_MAX
    }

    /// Makes one page; true when the answer is complete.
    pub fn page(&mut self, env: &Env, out: &mut Vec<u8>) -> Result<bool, Fault> {
        if !self.begun && self.spent > env.limits.request_time_max {
            return Err(Error::TooSlow { max_s: env.limits.request_time_max.as_secs() }.into());
        }
        match self.purpose {
            Purpose::History => self.history_page(env, out),
            Purpose::Unspent => self.unspent_page(env, out),
            Purpose::Subscribe | Purpose::Notify => self.status_page(env, out),
        }
    }

    /// Refuses what is longer than configured, before anything is written.
    fn check_length(&self, env: &Env, count: impl FnOnce(usize) -> Result<usize, Fault>) -> Result<(), Fault> {
        match env.limits.history_entries_max {
            Some(max) if count(max + 1)? > max => Err(Error::HistoryTooLong { max }.into()),
            _ => Ok(()),
        }
    }

    fn history_page(&mut self, env: &Env, out: &mut Vec<u8>) -> Result<bool, Fault> {
        if !self.begun {
            self.check_length(env, |limit| Ok(self.view.history_count(&self.script, limit)?))?;
        }
        let page = self.view.history(&self.script, self.next as TxNum, PAGE_ENTRIES)?;
        self.open_list(out);
        for entry in &page {
            self.separate(out);
            answer::history_entry(entry.height, &entry.txid, out);
        }
        Ok(self.turn(page.last().map(|entry| u64::from(entry.tx_num)), page.len(), out))
    }

    fn unspent_page(&mut self, env: &Env, out: &mut Vec<u8>) -> Result<bool, Fault> {
        if !self.begun {
            self.check_length(env, |limit| Ok(self.view.unspent(&self.script, 0, limit)?.len()))?;
        }
        let page = self.view.unspent(&self.script, self.next, PAGE_ENTRIES)?;
        self.open_list(out);
        for entry in &page {
            self.separate(out);
            answer::unspent_entry(entry, out);
        }
        Ok(self.turn(page.last().map(|entry| entry.txo_num), page.len(), out))
    }

    fn open_list(&mut self, out: &mut Vec<u8>) {
        if !self.begun {
            self.begun = true;
            self.head.as_ref().expect("lists answer requests").0.open(out);
            out.push(b'[');
        }
    }

    fn separate(&mut self, out: &mut Vec<u8>) {
        if self.entries > 0 {
            out.push(b',');
        }
        self.entries += 1;
    }

    /// Moves behind the page's last entry; a page that is not full was the last.
    fn turn(&mut self, last: Option<u64>, entries: usize, out: &mut Vec<u8>) -> bool {
        self.next = last.map_or(self.next, |last| last + 1);
        let complete = entries < PAGE_ENTRIES;
        if complete {
            out.push(b']');
            self.head.as_ref().expect("lists answer requests").0.close(out);
        }
        complete
    }

    fn status_page(&mut self, env: &Env, out: &mut Vec<u8>) -> Result<bool, Fault> {
        if self.next == 0 && self.entries == 0 {
            if self.purpose == Purpose::Subscribe {
                self.check_length(env, |limit| Ok(self.view.history_count(&self.script, limit)?))?;
            }
            if let Some(kept) = env.statuses.find(&self.script, &*self.view)? {
                (self.status, self.next, self.entries) = (kept.status, kept.next, kept.entries);
            }
        }
        let page = self.view.history(&self.script, self.next as TxNum, PAGE_ENTRIES)?;
        for entry in &page {
            self.status.push(&entry.txid, i64::from(entry.height));
        }
        self.entries += page.len() as u64;
        if let Some(last) = page.last() {
            self.next = u64::from(last.tx_num) + 1;
            env.statuses.keep(self, last)?;
        }
        if page.len() == PAGE_ENTRIES {
            return Ok(false);
        }
        self.result = std::mem::take(&mut self.status).finish();
        if let Some((head, _)) = &self.head {
            head.open(out);
            answer::status(self.result, out);
            head.close(out);
        }
        Ok(true)
    }
}

/// The hash over a history up to some entry, and the block that entry is in.
#[derive(Clone)]
struct Kept {
    status: Status,
    next: u64,
    entries: u64,
    height: u32,
    block_hash: [u8; 32],
}

/// Hashes over long histories, so that a new transaction costs one entry and not all of them.
#[derive(Default)]
pub struct StatusMemory {
    kept: Mutex<HashMap<ScriptHash, Kept>>,
}

impl StatusMemory {
    /// What is kept for a script, if the chain of `view` still holds the block it ends in.
    fn find(&self, script: &ScriptHash, view: &dyn View) -> Result<Option<Kept>, Fault> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(script).cloned();
        let Some(kept) = kept else { return Ok(None) };
        let same = view.header(kept.height)?.is_some_and(|header| sha256d(&header) == kept.block_hash);
        Ok(same.then_some(kept))
    }

    /// Keeps the hash up to and including `last`, where the history is long enough to be worth it.
    fn keep(&self, stream: &Stream, last: &HistoryEntry) -> Result<(), Fault> {
        if stream.entries < STATUS_MEMORY_ENTRIES_MIN {
            return Ok(());
        }
        let Some(header) = stream.view.header(last.height)? else { return Ok(()) };
        let kept = Kept {
            status: stream.status.clone(),
            next: stream.next,
            entries: stream.entries,
            height: last.height,
            block_hash: sha256d(&header),
        };
        let mut all = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= STATUS_MEMORY_MAX && !all.contains_key(&stream.script) {
            let victim = *all.keys().next().expect("it is full");
            all.remove(&victim);
        }
        all.insert(stream.script, kept);
        Ok(())
    }

    /// Histories whose hash is kept.
    pub fn len(&self) -> usize {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// True where none is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
