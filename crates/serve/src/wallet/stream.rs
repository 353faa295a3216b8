//! Answers made a page at a time: histories, unspent outputs, and the statuses computed from histories.
//!
//! In:     a script; view and mempool as they were when the answer began, the same from the first page to the last.
//! Out:    entries appended to a buffer, or a status at the end.
//! Fails:  [`Fault`]; before the first byte was written that can still become an error or a new start.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use index::status::Status;
use primitives::hash::sha256d;
use primitives::{OutPoint, ScriptHash, TxNum};

use super::moment::{self, Outputs, Shown, still};
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
    /// The answer to `get_mempool`.
    Mempool,
    /// The answer to `listunspent`.
    Unspent,
    /// The answer to `get_status`.
    Status,
    /// The status that answers `subscribe`.
    Subscribe,
    /// The status of a touched script.
    Notify,
}

/// Chain and mempool as they were when the answer began.
struct Ground {
    view: Arc<dyn View>,
    /// The unconfirmed part of the history.
    shown: Vec<Shown>,
    /// What the mempool does to the unspent outputs.
    outputs: Outputs,
}

/// One answer under way.
pub struct Stream {
    purpose: Purpose,
    script: ScriptHash,
    /// The member that holds the list, where the answer is an object.
    member: Option<&'static str>,
    /// Heights of a history: from, and up to but without; no end means that the mempool counts.
    heights: (u32, Option<u32>),
    ground: Option<Ground>,
    head: Option<(Head, usize)>,
    next: u64,
    entries: u64,
    /// Entries of the mempool written.
    tail: usize,
    /// The confirmed part is done.
    confirmed: bool,
    status: Status,
    result: Option<[u8; 32]>,
    begun: bool,
    retries: usize,
    /// Time spent computing so far.
    pub spent: Duration,
    /// Bytes of it written so far.
    pub bytes: u64,
}

impl Stream {
    /// An answer about `script` from the newest state.
    pub fn new(script: ScriptHash, purpose: Purpose) -> Stream {
        Stream {
            purpose,
            script,
            member: None,
            heights: (0, None),
            ground: None,
            head: None,
            next: 0,
            entries: 0,
            tail: 0,
            confirmed: purpose == Purpose::Mempool,
            status: Status::default(),
            result: None,
            begun: false,
            retries: 0,
            spent: Duration::ZERO,
            bytes: 0,
        }
    }

    /// The list is the member of an object.
    pub fn in_member(mut self, member: Option<&'static str>) -> Stream {
        self.member = member;
        self
    }

    /// Only what is between two heights, the second left out; without it, all above and the mempool.
    pub fn between(mut self, from: u32, to: Option<u32>) -> Stream {
        self.heights = (from, to);
        self
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

    /// Entries read so far.
    pub fn entries(&self) -> u64 {
        self.entries
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
        env.source.catch_up();
        let fresh = Stream::new(self.script, self.purpose).in_member(self.member);
        let (head, retries) = (self.head.take(), self.retries + 1);
        *self = Stream { head, retries, heights: self.heights, spent: self.spent, ..fresh };
        retries <= STALE_RETRIES_MAX
    }

    /// Makes one page; true when the answer is complete.
    pub fn page(&mut self, env: &Env, out: &mut Vec<u8>) -> Result<bool, Fault> {
        if !self.begun && self.spent > env.limits.request_time_max {
            return Err(Error::TooSlow { max_s: env.limits.request_time_max.as_secs() }.into());
        }
        // Taken out for the page, so that it can be read beside what the page changes.
        let ground = match self.ground.take() {
            Some(ground) => ground,
            None => self.take_ground(env)?,
        };
        let complete = match self.purpose {
            Purpose::History | Purpose::Mempool => self.history_page(&ground, out),
            Purpose::Unspent => self.unspent_page(&ground, out),
            Purpose::Subscribe | Purpose::Notify | Purpose::Status => self.status_page(&ground, env, out),
        };
        self.ground = Some(ground);
        complete
    }

    fn take_ground(&mut self, env: &Env) -> Result<Ground, Fault> {
        let (view, (shown, outputs)) = still(&*env.source, |_, mempool| match self.purpose {
            Purpose::Unspent => (Vec::new(), moment::outputs(mempool, &self.script)),
            _ => (moment::history(mempool, &self.script), Outputs::default()),
        })?;
        let mut ground = Ground { view, shown, outputs };
        self.check_length(&ground, env)?;
        if self.purpose == Purpose::History {
            let (from, to) = self.heights;
            if to.is_some() {
                ground.shown.clear();
            }
            match from <= ground.view.tip_height() {
                true => self.next = u64::from(ground.view.first_tx_num(from)?),
                false => self.confirmed = true,
            }
        }
        Ok(ground)
    }

    /// Refuses what is longer than configured, before anything is written.
    fn check_length(&self, ground: &Ground, env: &Env) -> Result<(), Fault> {
        let Some(max) = env.limits.history_entries_max else { return Ok(()) };
        let count = match self.purpose {
            Purpose::Mempool => ground.shown.len(),
            Purpose::Unspent => ground.view.unspent(&self.script, 0, max + 1)?.len() + ground.outputs.added.len(),
            // A notice is no answer: who is subscribed is told, however long the history has grown.
            Purpose::Notify => return Ok(()),
            _ => ground.view.history_count(&self.script, max + 1)? + ground.shown.len(),
        };
        if count > max { Err(Error::HistoryTooLong { max }.into()) } else { Ok(()) }
    }

    fn history_page(&mut self, ground: &Ground, out: &mut Vec<u8>) -> Result<bool, Fault> {
        if !self.confirmed {
            let page = ground.view.history(&self.script, self.next as TxNum, PAGE_ENTRIES)?;
            self.open_list(out);
            let below = |entry: &&HistoryEntry| self.heights.1.is_none_or(|to| entry.height < to);
            let wanted = page.iter().take_while(below).count();
            for entry in &page[..wanted] {
                self.separate(out);
                answer::history_entry(entry.height, &entry.txid, out);
            }
            self.next = page.last().map_or(self.next, |last| u64::from(last.tx_num) + 1);
            self.confirmed = wanted < PAGE_ENTRIES;
            return Ok(self.confirmed && self.close_if_done(ground.shown.len(), out));
        }
        self.open_list(out);
        for shown in ground.shown.iter().skip(self.tail).take(PAGE_ENTRIES) {
            self.separate(out);
            answer::unconfirmed_entry(shown, out);
        }
        self.tail += PAGE_ENTRIES;
        Ok(self.close_if_done(ground.shown.len(), out))
    }

    fn unspent_page(&mut self, ground: &Ground, out: &mut Vec<u8>) -> Result<bool, Fault> {
        let Outputs { added, spent } = &ground.outputs;
        if !self.confirmed {
            let page = ground.view.unspent(&self.script, self.next, PAGE_ENTRIES)?;
            self.open_list(out);
            for entry in page.iter().filter(|entry| !spent.contains(&OutPoint { txid: entry.txid, vout: entry.vout })) {
                self.separate(out);
                answer::unspent_entry(entry.height, &entry.txid, entry.vout, entry.value_sat, out);
            }
            self.next = page.last().map_or(self.next, |last| last.txo_num + 1);
            self.confirmed = page.len() < PAGE_ENTRIES;
            return Ok(self.confirmed && self.close_if_done(added.len(), out));
        }
        for (outpoint, value_sat) in added.iter().skip(self.tail).take(PAGE_ENTRIES) {
            self.separate(out);
            answer::unspent_entry(0, &outpoint.txid, outpoint.vout, *value_sat, out);
        }
        self.tail += PAGE_ENTRIES;
        Ok(self.close_if_done(added.len(), out))
    }

    fn open_list(&mut self, out: &mut Vec<u8>) {
        if !self.begun {
            self.begun = true;
            self.head.as_ref().expect("lists answer requests").0.open(out);
            if let Some(member) = self.member {
                out.extend_from_slice(format!("{{\"{member}\":").as_bytes());
            }
            out.push(b'[');
        }
    }

    fn separate(&mut self, out: &mut Vec<u8>) {
        if self.entries > 0 {
            out.push(b',');
        }
        self.entries += 1;
    }

    /// Closes the list once all that is unconfirmed is written.
    fn close_if_done(&mut self, unconfirmed: usize, out: &mut Vec<u8>) -> bool {
        let complete = self.tail >= unconfirmed;
        if complete {
            out.extend_from_slice(if self.member.is_some() { b"]}" } else { b"]" });
            self.head.as_ref().expect("lists answer requests").0.close(out);
        }
        complete
    }

    fn status_page(&mut self, ground: &Ground, env: &Env, out: &mut Vec<u8>) -> Result<bool, Fault> {
        if self.next == 0
            && self.entries == 0
            && let Some(kept) = env.statuses.find(&self.script, &*ground.view)?
        {
            (self.status, self.next, self.entries) = (kept.status, kept.next, kept.entries);
        }
        let page = ground.view.history(&self.script, self.next as TxNum, PAGE_ENTRIES)?;
        for entry in &page {
            self.status.push(&entry.txid, i64::from(entry.height));
        }
        self.entries += page.len() as u64;
        if let Some(last) = page.last() {
            self.next = u64::from(last.tx_num) + 1;
            env.statuses.keep(self, &*ground.view, last)?;
        }
        if page.len() == PAGE_ENTRIES {
            return Ok(false);
        }
        let mut status = std::mem::take(&mut self.status);
        ground.shown.iter().for_each(|shown| status.push(&shown.txid, shown.height));
        self.result = status.finish();
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
    fn keep(&self, stream: &Stream, view: &dyn View, last: &HistoryEntry) -> Result<(), Fault> {
        if stream.entries < STATUS_MEMORY_ENTRIES_MIN {
            return Ok(());
        }
        let Some(header) = view.header(last.height)? else { return Ok(()) };
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
