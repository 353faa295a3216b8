//! Who wants to hear about which script, and what waits to be told.
//!
//! In:     subscriptions of sessions; the scripts each new tip touched.
//! Out:    for each session concerned a full mailbox and a knock.
//! Fails:  [`Error::TooManySubscriptions`].
//!
//! A mailbox holds a set of scripts and a flag, never a queue: however slow a session is, what waits for it is bounded
//! by what it subscribed to, and it is told the newest state of each once.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use primitives::ScriptHash;
use tokio::sync::Notify;

use super::error::Error;

/// What waits to be told to one session.
#[derive(Debug, Default)]
pub struct Mailbox {
    letters: Mutex<Letters>,
    knock: Notify,
}

/// The content of a mailbox.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Letters {
    /// There is a new tip.
    pub tip: bool,
    /// Scripts whose status may have changed.
    pub scripts: HashSet<ScriptHash>,
}

impl Mailbox {
    /// Takes what waits.
    pub fn take(&self) -> Letters {
        std::mem::take(&mut *lock(&self.letters))
    }

    /// Waits for the next knock; one that came before counts.
    pub async fn knocked(&self) {
        self.knock.notified().await;
    }

    fn put(&self, change: impl FnOnce(&mut Letters)) {
        change(&mut lock(&self.letters));
        self.knock.notify_one();
    }
}

/// A lock whose holder cannot leave things half done: poison is no reason to stop serving.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Names a session for as long as the server runs.
pub type SessionId = u64;

#[derive(Debug, Default)]
struct Tables {
    mailboxes: HashMap<SessionId, Arc<Mailbox>>,
    headers: HashSet<SessionId>,
    scripts: HashMap<ScriptHash, Vec<SessionId>>,
    count: usize,
    next: SessionId,
}

/// All sessions' subscriptions.
#[derive(Debug, Default)]
pub struct Subscriptions {
    tables: Mutex<Tables>,
}

impl Subscriptions {
    /// Makes a session known; it must be given back to [`Subscriptions::leave`].
    pub fn enter(&self, mailbox: Arc<Mailbox>) -> SessionId {
        let mut tables = lock(&self.tables);
        let session = tables.next;
        tables.next += 1;
        tables.mailboxes.insert(session, mailbox);
        session
    }

    /// Forgets a session and `scripts`, the ones it subscribed to.
    pub fn leave<'a>(&self, session: SessionId, scripts: impl Iterator<Item = &'a ScriptHash>) {
        let mut tables = lock(&self.tables);
        for script in scripts {
            tables.remove(session, script);
        }
        tables.headers.remove(&session);
        tables.mailboxes.remove(&session);
    }

    /// Wants new tips.
    pub fn add_headers(&self, session: SessionId) {
        lock(&self.tables).headers.insert(session);
    }

    /// Wants changes of a script; the caller knows that it did not before.
    pub fn add(&self, session: SessionId, script: &ScriptHash, max: usize) -> Result<(), Error> {
        let mut tables = lock(&self.tables);
        if tables.count >= max {
            return Err(Error::TooManySubscriptions { max });
        }
        tables.scripts.entry(*script).or_default().push(session);
        tables.count += 1;
        Ok(())
    }

    /// No longer wants changes of a script.
    pub fn remove(&self, session: SessionId, script: &ScriptHash) {
        lock(&self.tables).remove(session, script);
    }

    /// Subscriptions to scripts, over all sessions.
    pub fn count(&self) -> usize {
        lock(&self.tables).count
    }

    /// Fills the mailboxes of everyone whom a new tip concerns: the work is that of the smaller of both sets. None: any
    /// script may have been touched; a status that is the same is not told.
    pub fn tell(&self, touched: Option<&HashSet<ScriptHash>>) {
        let tables = lock(&self.tables);
        let mut concerned: HashMap<SessionId, Vec<ScriptHash>> = HashMap::new();
        let mut note = |script: &ScriptHash, sessions: &[SessionId]| {
            for session in sessions {
                concerned.entry(*session).or_default().push(*script);
            }
        };
        let is_touched = |script: &ScriptHash| touched.is_none_or(|touched| touched.contains(script));
        if let Some(touched) = touched.filter(|touched| touched.len() < tables.scripts.len()) {
            for script in touched {
                if let Some(sessions) = tables.scripts.get(script) {
                    note(script, sessions);
                }
            }
        } else {
            for (script, sessions) in tables.scripts.iter().filter(|(script, _)| is_touched(script)) {
                note(script, sessions);
            }
        }
        for session in &tables.headers {
            concerned.entry(*session).or_default();
        }
        for (session, scripts) in concerned {
            let tip = tables.headers.contains(&session);
            if let Some(mailbox) = tables.mailboxes.get(&session) {
                mailbox.put(|letters| {
                    letters.tip |= tip;
                    letters.scripts.extend(scripts);
                });
            }
        }
    }
}

impl Tables {
    fn remove(&mut self, session: SessionId, script: &ScriptHash) {
        let Some(sessions) = self.scripts.get_mut(script) else { return };
        if let Some(index) = sessions.iter().position(|known| *known == session) {
            sessions.swap_remove(index);
            self.count -= 1;
        }
        if sessions.is_empty() {
            self.scripts.remove(script);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(n: u8) -> ScriptHash {
        ScriptHash([n; 32])
    }

    #[test]
    fn only_those_concerned_are_told_and_nothing_is_left_behind() {
        let subscriptions = Subscriptions::default();
        let boxes: Vec<Arc<Mailbox>> = (0..3).map(|_| Arc::default()).collect();
        let ids: Vec<SessionId> = boxes.iter().map(|mailbox| subscriptions.enter(mailbox.clone())).collect();
        subscriptions.add_headers(ids[0]);
        subscriptions.add(ids[0], &script(1), 4).unwrap();
        subscriptions.add(ids[1], &script(1), 4).unwrap();
        subscriptions.add(ids[1], &script(2), 4).unwrap();
        subscriptions.add(ids[2], &script(3), 4).unwrap();
        assert_eq!(subscriptions.add(ids[2], &script(4), 4), Err(Error::TooManySubscriptions { max: 4 }));

        // One way round the smaller set is the touched one, the other way it is the table.
        for filler in [0, 100] {
            let mut touched: HashSet<ScriptHash> = (0..filler).map(|n| script(50 + n)).collect();
            touched.extend([script(1), script(9)]);
            subscriptions.tell(Some(&touched));
            assert_eq!(boxes[0].take(), Letters { tip: true, scripts: [script(1)].into() });
            assert_eq!(boxes[1].take(), Letters { tip: false, scripts: [script(1)].into() });
            assert_eq!(boxes[2].take(), Letters::default());
        }
        // Nobody knows which were: every one that somebody waits for may have been.
        subscriptions.tell(None);
        assert_eq!(boxes[0].take(), Letters { tip: true, scripts: [script(1)].into() });
        assert_eq!(boxes[1].take().scripts.len(), 2);
        assert_eq!(boxes[2].take(), Letters { tip: false, scripts: [script(3)].into() });
        subscriptions.leave(ids[0], [script(1)].iter());
        subscriptions.leave(ids[1], [script(1), script(2)].iter());
        subscriptions.remove(ids[2], &script(3));
        subscriptions.remove(ids[2], &script(3));
        subscriptions.leave(ids[2], [].iter());
        let tables = subscriptions.tables.into_inner().unwrap();
        assert_eq!((tables.count, tables.scripts.len(), tables.headers.len(), tables.mailboxes.len()), (0, 0, 0, 0));
    }
}
