//! What a session is told without asking: tips, statuses of scripts, heights of transactions, fates of outpoints.
//!
//! In:     what may have changed, from the mailbox; what was told last.
//! Out:    notifications, each only where its content is another than the one told last; the tip first.
//! Fails:  [`EndReason::Fault`] where something cannot be computed: the client would go on believing what is no longer so.

use std::collections::HashMap;
use std::io::Write as _;

use chain::mempool::Mempool;
use index::status::Status;
use primitives::{OutPoint, ScriptHash, Txid};

use super::Env;
use super::answer;
use super::error::{Error, Fault};
use super::limits::STALE_RETRIES_MAX;
use super::machine::{EndReason, Machine};
use super::subscriptions::{Letters, Topic};
use super::version::V1_7;
use crate::source::View;
use crate::wallet::moment::{self, Shown, still};
use crate::wallet::outpoints::{self, OutpointStatus};
use crate::wallet::transactions;

/// Methods that notifications of scripts carry.
const BY_HASH: &str = "blockchain.scripthash.subscribe";
const BY_SCRIPT: &str = "blockchain.scriptpubkey.subscribe";
const BY_ADDRESS: &str = "blockchain.address.subscribe";

/// Scripts looked up together: with their first entries, at most a thousand transactions.
const SCRIPTS_TOGETHER: usize = 64;
/// Entries from which on a script is looked at alone, a page at a time.
const ENTRIES_TOGETHER: usize = 16;

/// A script's status as it was told last, or not told yet: its first half is enough to tell one from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told([u8; 16]);

impl Told {
    /// Nothing was told yet.
    pub const NOTHING: Told = Told([0xff; 16]);

    /// This status was told.
    pub fn of(status: Option<[u8; 32]>) -> Told {
        Told(status.map_or([0; 16], |hash| *hash.first_chunk().expect("half of it")))
    }
}

/// A header and its height.
pub(crate) type Tip = (u32, [u8; 80]);

fn tip_of(view: &dyn View) -> Result<Tip, Fault> {
    let height = view.tip_height();
    Ok((height, view.header(height)?.ok_or(Fault::Stale)?))
}

/// What one session wants to hear of, and what it was told last.
#[derive(Default)]
pub(crate) struct Wishes {
    /// The tip told last, while tips are wanted.
    pub tip: Option<Tip>,
    /// Scripts.
    pub scripts: HashMap<ScriptHash, Told>,
    /// Those of them that were subscribed to by address: the address, and whether also by hash.
    pub addresses: HashMap<ScriptHash, (String, bool)>,
    /// Transactions, with the height told last; none before the first answer.
    pub txs: HashMap<Txid, Option<Option<i64>>>,
    /// Outpoints.
    pub outpoints: HashMap<OutPoint, Option<OutpointStatus>>,
}

impl Wishes {
    /// How many, tips left out.
    pub fn count(&self) -> usize {
        self.scripts.len() + self.txs.len() + self.outpoints.len()
    }

    /// All of them, tips left out.
    pub fn topics(&self) -> impl Iterator<Item = Topic> + '_ {
        let scripts = self.scripts.keys().map(|script| Topic::Script(*script));
        let txs = self.txs.keys().map(|txid| Topic::Tx(*txid));
        scripts.chain(txs).chain(self.outpoints.keys().map(|outpoint| Topic::Outpoint(*outpoint)))
    }
}

/// What is still to be looked at.
#[derive(Default)]
pub(crate) struct Due {
    tip: bool,
    /// Not looked at yet.
    scripts: Vec<ScriptHash>,
    /// Those of them with many entries.
    long: Vec<ScriptHash>,
    txs: Vec<Txid>,
    outpoints: Vec<OutPoint>,
}

impl Due {
    /// What of the letters this session still wants to hear, to be taken from the end.
    pub fn of(letters: Letters, wishes: &Wishes) -> Due {
        let Letters { tip, everything, any_tx, scripts, txs, outpoints } = letters;
        let mut due = Due { tip: (tip || everything) && wishes.tip.is_some(), ..Due::default() };
        match everything {
            true => due.scripts.extend(wishes.scripts.keys()),
            false => due.scripts.extend(scripts.iter().filter(|script| wishes.scripts.contains_key(script))),
        }
        match everything || any_tx {
            true => due.txs.extend(wishes.txs.keys()),
            false => due.txs.extend(txs.iter().filter(|txid| wishes.txs.contains_key(txid))),
        }
        match everything {
            true => due.outpoints.extend(wishes.outpoints.keys()),
            false => due.outpoints.extend(outpoints.iter().filter(|it| wishes.outpoints.contains_key(it))),
        }
        // The order of a set is chance; this one can be tested.
        due.scripts.sort_unstable_by(|a, b| b.cmp(a));
        due.txs.sort_unstable_by(|a, b| b.cmp(a));
        due.outpoints.sort_unstable_by(|a, b| b.cmp(a));
        due
    }
}

/// What to do next of what is due.
pub(crate) enum Next {
    /// Compute this script's status.
    Script(ScriptHash),
    /// A notice was told, or there was none to tell.
    Told,
    /// Nothing is due.
    Nothing,
}

impl Machine {
    /// Does the next thing that is due; a script's status is left to the caller, because it may take many pages.
    pub(super) fn tell_next(&mut self, due: &mut Due, out: &mut Vec<u8>) -> Result<Next, EndReason> {
        if std::mem::take(&mut due.tip) {
            self.tell_tip(out)?;
        } else if !due.scripts.is_empty() {
            self.tell_scripts(due, out)?;
        } else if let Some(script) = due.long.pop() {
            return Ok(Next::Script(script));
        } else if let Some(txid) = due.txs.pop() {
            self.tell_tx(&txid, out)?;
        } else if let Some(outpoint) = due.outpoints.pop() {
            self.tell_outpoint(&outpoint, out)?;
        } else {
            return Ok(Next::Nothing);
        }
        Ok(Next::Told)
    }

    /// Tries again where a reorganisation passed under the view; what does not help then ends the session.
    fn computed<T>(&self, compute: impl Fn(&Machine) -> Result<T, Fault>) -> Result<T, EndReason> {
        for _ in 0..=STALE_RETRIES_MAX {
            match compute(self) {
                Ok(found) => return Ok(found),
                Err(Fault::Stale) => self.env.source.catch_up(),
                Err(Fault::Answer(Error::Syncing(_))) => return Err(EndReason::Fault),
                Err(fault @ Fault::Answer(_)) => {
                    self.env.metrics.note_fault(&fault.last_word().to_string());
                    return Err(EndReason::Fault);
                }
            }
        }
        self.env.metrics.note_fault("reorganisations passed under every view taken for a notice");
        Err(EndReason::Fault)
    }

    /// The tip that the mempool stands on too.
    pub(crate) fn newest_tip(&self) -> Result<Tip, Fault> {
        let (view, ()) = still(&*self.env.source, |_, _| ())?;
        tip_of(&*view)
    }

    fn tell_tip(&mut self, out: &mut Vec<u8>) -> Result<(), EndReason> {
        let tip = self.computed(Machine::newest_tip)?;
        self.write_tip(tip, out);
        Ok(())
    }

    fn write_tip(&mut self, tip: Tip, out: &mut Vec<u8>) {
        if self.wishes.tip.replace(tip) != Some(tip) {
            answer::open_notification(self.two, "blockchain.headers.subscribe", out);
            answer::tip(tip.0, &tip.1, out);
            out.extend_from_slice(b"]}\n");
            self.env.metrics.notifications.add(1);
        }
    }

    /// Tells of the next scripts together; those with many entries are left for later.
    fn tell_scripts(&mut self, due: &mut Due, out: &mut Vec<u8>) -> Result<(), EndReason> {
        let mut scripts = due.scripts.split_off(due.scripts.len().saturating_sub(SCRIPTS_TOGETHER));
        scripts.reverse();
        let (tip, found) = self.computed(|machine| {
            let unconfirmed =
                |mempool: Option<&Mempool>| scripts.iter().map(|script| moment::history(mempool, script)).collect();
            let (view, shown): (_, Vec<Vec<Shown>>) = still(&*machine.env.source, |_, mempool| unconfirmed(mempool))?;
            let confirmed = view.histories(&scripts, ENTRIES_TOGETHER)?;
            // Only who wants to hear of tips is told of this one first.
            let tip = machine.wishes.tip.map(|_| tip_of(&*view)).transpose()?;
            Ok((tip, confirmed.into_iter().zip(shown).collect::<Vec<_>>()))
        })?;
        for (script, (confirmed, shown)) in scripts.iter().zip(found) {
            if confirmed.len() >= ENTRIES_TOGETHER {
                due.long.push(*script);
                continue;
            }
            let mut status = Status::default();
            confirmed.iter().for_each(|entry| status.push(&entry.txid, i64::from(entry.height)));
            shown.iter().for_each(|shown| status.push(&shown.txid, shown.height));
            self.tell_status(script, status.finish(), tip, out);
        }
        Ok(())
    }

    /// Before anything that a block may have brought about: a block may have come since the notice was found to be due.
    fn tell_tip_first(&mut self, out: &mut Vec<u8>) -> Result<(), EndReason> {
        if self.wishes.tip.is_some() { self.tell_tip(out) } else { Ok(()) }
    }

    /// A script's status has been computed: tells it where it is news.
    pub(super) fn tell_script(
        &mut self,
        script: &ScriptHash,
        status: Option<[u8; 32]>,
        out: &mut Vec<u8>,
    ) -> Result<(), EndReason> {
        if self.wishes.scripts.get(script).is_some_and(|told| *told != Told::of(status)) {
            self.tell_tip_first(out)?;
            self.tell_status(script, status, None, out);
        }
        Ok(())
    }

    /// The same, behind the tip of the chain that the status is of, where that is wanted.
    fn tell_status(&mut self, script: &ScriptHash, status: Option<[u8; 32]>, tip: Option<Tip>, out: &mut Vec<u8>) {
        // It may have been unsubscribed meanwhile, or told already with the answer that subscribed.
        let Some(told) = self.wishes.scripts.get_mut(script) else { return };
        if std::mem::replace(told, Told::of(status)) == Told::of(status) {
            return;
        }
        if let Some(tip) = tip {
            self.write_tip(tip, out);
        }
        let by_address = self.wishes.addresses.get(script);
        if by_address.is_none_or(|(_, also)| *also) {
            let by_hash = if self.version.is_some_and(|version| version >= V1_7) { BY_SCRIPT } else { BY_HASH };
            let mut named = Vec::with_capacity(66);
            answer::hash_string(&script.0, &mut named);
            answer::script_notification(self.two, by_hash, &named, status, out);
            self.env.metrics.notifications.add(1);
        }
        if let Some((address, _)) = by_address {
            let mut named = Vec::new();
            answer::string(address, &mut named);
            answer::script_notification(self.two, BY_ADDRESS, &named, status, out);
            self.env.metrics.notifications.add(1);
        }
    }

    fn tell_tx(&mut self, txid: &Txid, out: &mut Vec<u8>) -> Result<(), EndReason> {
        let height = self.computed(|machine| transactions::height_of(&machine.env, txid))?;
        let Some(told) = self.wishes.txs.get_mut(txid) else { return Ok(()) };
        if told.replace(height) != Some(height) {
            self.notify("blockchain.transaction.subscribe", out, |out| {
                answer::hash_string(&txid.0, out);
                out.push(b',');
                transactions::write_height(height, out);
            })?;
        }
        Ok(())
    }

    fn tell_outpoint(&mut self, outpoint: &OutPoint, out: &mut Vec<u8>) -> Result<(), EndReason> {
        let status = self.computed(|machine| outpoints::status_of(&machine.env, outpoint))?;
        let Some(told) = self.wishes.outpoints.get_mut(outpoint) else { return Ok(()) };
        if told.replace(status) != Some(status) {
            self.notify("blockchain.outpoint.subscribe", out, |out| {
                answer::hash_string(&outpoint.txid.0, out);
                write!(out, ",{},", outpoint.vout).expect("writing to memory");
                status.write(out);
            })?;
        }
        Ok(())
    }

    /// Writes a notification of something that a block may have brought about.
    fn notify(&mut self, method: &str, out: &mut Vec<u8>, params: impl FnOnce(&mut Vec<u8>)) -> Result<(), EndReason> {
        self.tell_tip_first(out)?;
        answer::open_notification(self.two, method, out);
        params(out);
        out.extend_from_slice(b"]}\n");
        self.env.metrics.notifications.add(1);
        Ok(())
    }

    /// Begins to hear of a topic; false where it did already.
    pub(crate) fn wish(&mut self, topic: &Topic) -> Result<bool, Error> {
        let known = match topic {
            Topic::Script(script) => self.wishes.scripts.contains_key(script),
            Topic::Tx(txid) => self.wishes.txs.contains_key(txid),
            Topic::Outpoint(outpoint) => self.wishes.outpoints.contains_key(outpoint),
        };
        if known {
            return Ok(false);
        }
        let max = self.env.limits.subscriptions_session_max;
        if self.wishes.count() >= max {
            return Err(Error::TooManySubscriptions { max });
        }
        self.env.subscriptions.add(self.id, topic, self.env.limits.subscriptions_max)?;
        self.env.metrics.subscriptions_now.add(1);
        match topic {
            Topic::Script(script) => drop(self.wishes.scripts.insert(*script, Told::NOTHING)),
            Topic::Tx(txid) => drop(self.wishes.txs.insert(*txid, None)),
            Topic::Outpoint(outpoint) => drop(self.wishes.outpoints.insert(*outpoint, None)),
        }
        Ok(true)
    }

    /// Begins to hear of a topic and reads how it stands: it is known to the table before, so that no change falls between the
    /// two. What cannot be read is not subscribed to.
    pub(crate) fn wish_and_read<T>(
        &mut self,
        topic: &Topic,
        read: impl FnOnce(&Env) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let is_new = self.wish(topic)?;
        read(&self.env).inspect_err(|_| {
            if is_new {
                self.forget(topic);
            }
        })
    }

    /// Ends a subscription; false where there was none.
    pub(crate) fn forget(&mut self, topic: &Topic) -> bool {
        let known = match topic {
            Topic::Script(script) => {
                self.wishes.addresses.remove(script);
                self.wishes.scripts.remove(script).is_some()
            }
            Topic::Tx(txid) => self.wishes.txs.remove(txid).is_some(),
            Topic::Outpoint(outpoint) => self.wishes.outpoints.remove(outpoint).is_some(),
        };
        if known {
            self.env.subscriptions.remove(self.id, topic);
            self.env.metrics.subscriptions_now.sub(1);
        }
        known
    }
}
