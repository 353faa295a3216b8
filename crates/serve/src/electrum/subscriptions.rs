//! Who wants to hear about which script, transaction or outpoint, and what waits to be told.
//!
//! In:     subscriptions of sessions; what each change of chain or mempool touched.
//! Out:    for each session concerned a full mailbox and a knock.
//! Fails:  [`Error::TooManySubscriptions`].
//!
//! A mailbox holds sets and flags, never a queue: however slow a session is, what waits for it is bounded by what it
//! subscribed to, and it is told the newest state of each once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard};

use primitives::{OutPoint, ScriptHash, Txid};
use tokio::sync::Notify;

use super::error::Error;

/// Subscriptions of a session that leaves which are forgotten under one lock: some tens of microseconds.
const LEFT_TOGETHER: usize = 256;

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
    /// Anything may have changed: news were missed.
    pub everything: bool,
    /// Scripts whose status may have changed.
    pub scripts: HashSet<ScriptHash>,
    /// Any transaction may be at another height.
    pub any_tx: bool,
    /// Transactions that may be at another height.
    pub txs: HashSet<Txid>,
    /// Outpoints that may have been funded or spent.
    pub outpoints: HashSet<OutPoint>,
}

impl Letters {
    /// True where nothing waits.
    pub fn is_empty(&self) -> bool {
        *self == Letters::default()
    }
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

/// What one may subscribe to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// The status of a script.
    Script(ScriptHash),
    /// The height of a transaction.
    Tx(Txid),
    /// Who funds and who spends an outpoint.
    Outpoint(OutPoint),
}

/// What a change of chain or mempool touched.
#[derive(Debug, Default)]
pub struct Touched {
    /// There is a new tip.
    pub tip: bool,
    /// Which transactions it was is not known.
    pub any_tx: bool,
    /// Scripts that were paid to or spent from.
    pub scripts: Arc<HashSet<ScriptHash>>,
    /// Transactions that came, went or moved.
    pub txs: HashSet<Txid>,
    /// Outpoints that they spend.
    pub spent: HashSet<OutPoint>,
}

/// Sessions with one subscription in common: nearly always one, which then needs no list.
#[derive(Debug)]
enum Watchers {
    One(SessionId),
    Many(Box<Vec<SessionId>>),
}

impl Watchers {
    fn add(&mut self, session: SessionId) {
        match self {
            Watchers::One(first) => *self = Watchers::Many(Box::new(vec![*first, session])),
            Watchers::Many(all) => all.push(session),
        }
    }

    /// Removes one; true where nobody is left.
    fn remove(&mut self, session: SessionId, known: &mut bool) -> bool {
        match self {
            Watchers::One(only) => {
                *known = *only == session;
                *known
            }
            Watchers::Many(all) => {
                if let Some(index) = all.iter().position(|one| *one == session) {
                    all.swap_remove(index);
                    *known = true;
                }
                all.is_empty()
            }
        }
    }

    fn sessions(&self) -> &[SessionId] {
        match self {
            Watchers::One(only) => std::slice::from_ref(only),
            Watchers::Many(all) => all,
        }
    }
}

#[derive(Debug, Default)]
struct Tables {
    mailboxes: HashMap<SessionId, Arc<Mailbox>>,
    headers: HashSet<SessionId>,
    /// By [`Tables::short`]: two scripts may share one, and whoever did not ask for the one told of throws it away.
    scripts: HashMap<u64, Watchers>,
    /// Likewise.
    txs: HashMap<u64, Watchers>,
    /// A secret, so that nobody can choose what shares.
    secret: RandomState,
    /// Ordered, so that those of one transaction lie together.
    outpoints: BTreeMap<OutPoint, Watchers>,
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

    /// Forgets a session and `topics`, the ones it subscribed to: some at a time, so that others come in between.
    pub fn leave(&self, session: SessionId, topics: impl Iterator<Item = Topic>) {
        let mut topics = topics.peekable();
        while topics.peek().is_some() {
            let mut tables = lock(&self.tables);
            for topic in topics.by_ref().take(LEFT_TOGETHER) {
                tables.remove(session, &topic);
            }
        }
        let mut tables = lock(&self.tables);
        tables.headers.remove(&session);
        tables.mailboxes.remove(&session);
    }

    /// Wants new tips.
    pub fn add_headers(&self, session: SessionId) {
        lock(&self.tables).headers.insert(session);
    }

    /// No longer wants new tips.
    pub fn remove_headers(&self, session: SessionId) {
        lock(&self.tables).headers.remove(&session);
    }

    /// Wants changes of a topic; the caller knows that it did not before.
    pub fn add(&self, session: SessionId, topic: &Topic, max: usize) -> Result<(), Error> {
        let mut tables = lock(&self.tables);
        if tables.count >= max {
            return Err(Error::TooManySubscriptions { max });
        }
        let one = || Watchers::One(session);
        match topic {
            Topic::Script(key) => {
                let key = tables.short(&key.0);
                tables.scripts.entry(key).and_modify(|watchers| watchers.add(session)).or_insert_with(one);
            }
            Topic::Tx(key) => {
                let key = tables.short(&key.0);
                tables.txs.entry(key).and_modify(|watchers| watchers.add(session)).or_insert_with(one);
            }
            Topic::Outpoint(key) => {
                tables.outpoints.entry(*key).and_modify(|watchers| watchers.add(session)).or_insert_with(one);
            }
        }
        tables.count += 1;
        Ok(())
    }

    /// No longer wants changes of a topic.
    pub fn remove(&self, session: SessionId, topic: &Topic) {
        lock(&self.tables).remove(session, topic);
    }

    /// Subscriptions over all sessions, new tips left out.
    pub fn count(&self) -> usize {
        lock(&self.tables).count
    }

    /// Whether anybody asks for transactions or outpoints: otherwise nobody need look for them.
    pub fn watches_txs(&self) -> bool {
        let tables = lock(&self.tables);
        !tables.txs.is_empty() || !tables.outpoints.is_empty()
    }

    /// Fills the mailboxes of everyone whom a change concerns: one look for each script, transaction and outpoint touched.
    pub fn tell(&self, touched: &Touched) {
        let tables = lock(&self.tables);
        let mut concerned: HashMap<SessionId, Letters> = HashMap::new();
        if !tables.scripts.is_empty() {
            for script in touched.scripts.iter() {
                for session in tables.watchers(&tables.scripts, &script.0) {
                    concerned.entry(*session).or_default().scripts.insert(*script);
                }
            }
        }
        let any = touched.any_tx;
        if any || !touched.txs.is_empty() {
            tables.each_tx(touched, |txid, session| {
                let letters = concerned.entry(session).or_default();
                match txid {
                    Some(txid) => drop(letters.txs.insert(txid)),
                    None => letters.any_tx = true,
                }
            });
            tables.each_outpoint(touched, |outpoint, session| {
                concerned.entry(session).or_default().outpoints.insert(outpoint);
            });
        }
        if touched.tip {
            for session in &tables.headers {
                concerned.entry(*session).or_default().tip = true;
            }
        }
        for (session, news) in concerned {
            if let Some(mailbox) = tables.mailboxes.get(&session) {
                mailbox.put(|letters| {
                    letters.tip |= news.tip;
                    letters.any_tx |= news.any_tx;
                    letters.scripts.extend(news.scripts);
                    letters.txs.extend(news.txs);
                    letters.outpoints.extend(news.outpoints);
                });
            }
        }
    }

    /// News were missed: everybody looks at everything again.
    pub fn tell_everything(&self) {
        for mailbox in lock(&self.tables).mailboxes.values() {
            mailbox.put(|letters| letters.everything = true);
        }
    }
}

impl Tables {
    /// 64 bits that stand for a hash.
    fn short(&self, hash: &[u8; 32]) -> u64 {
        self.secret.hash_one(hash)
    }

    fn watchers<'a>(&self, table: &'a HashMap<u64, Watchers>, hash: &[u8; 32]) -> &'a [SessionId] {
        table.get(&self.short(hash)).map_or(&[], Watchers::sessions)
    }

    /// Sessions that wait for a transaction, and which; none where nobody knows which it was.
    fn each_tx(&self, touched: &Touched, mut note: impl FnMut(Option<Txid>, SessionId)) {
        if touched.any_tx {
            self.txs.values().flat_map(Watchers::sessions).for_each(|session| note(None, *session));
        } else if !self.txs.is_empty() {
            for txid in &touched.txs {
                self.watchers(&self.txs, &txid.0).iter().for_each(|session| note(Some(*txid), *session));
            }
        }
    }

    fn each_outpoint(&self, touched: &Touched, mut note: impl FnMut(OutPoint, SessionId)) {
        let mut all = |(outpoint, watchers): (&OutPoint, &Watchers)| {
            watchers.sessions().iter().for_each(|session| note(*outpoint, *session));
        };
        if touched.any_tx {
            self.outpoints.iter().for_each(all);
            return;
        }
        if self.outpoints.is_empty() {
            return;
        }
        for outpoint in &touched.spent {
            if let Some(watchers) = self.outpoints.get(outpoint) {
                all((outpoint, watchers));
            }
        }
        for &txid in &touched.txs {
            let of_tx = OutPoint { txid, vout: 0 }..=OutPoint { txid, vout: u32::MAX };
            self.outpoints.range(of_tx).for_each(&mut all);
        }
    }

    fn remove(&mut self, session: SessionId, topic: &Topic) {
        let mut known = false;
        match topic {
            Topic::Script(key) => {
                let key = &self.short(&key.0);
                if self.scripts.get_mut(key).is_some_and(|watchers| watchers.remove(session, &mut known)) {
                    self.scripts.remove(key);
                }
            }
            Topic::Tx(key) => {
                let key = &self.short(&key.0);
                if self.txs.get_mut(key).is_some_and(|watchers| watchers.remove(session, &mut known)) {
                    self.txs.remove(key);
                }
            }
            Topic::Outpoint(key) => {
                if self.outpoints.get_mut(key).is_some_and(|watchers| watchers.remove(session, &mut known)) {
                    self.outpoints.remove(key);
                }
            }
        }
        self.count -= usize::from(known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(n: u8) -> Topic {
        Topic::Script(ScriptHash([n; 32]))
    }

    fn outpoint(n: u8, vout: u32) -> OutPoint {
        OutPoint { txid: Txid([n; 32]), vout }
    }

    fn touched(scripts: impl IntoIterator<Item = u8>) -> Touched {
        let scripts: HashSet<ScriptHash> = scripts.into_iter().map(|n| ScriptHash([n; 32])).collect();
        Touched { tip: true, scripts: scripts.into(), ..Touched::default() }
    }

    fn letters(tip: bool, scripts: &[u8]) -> Letters {
        Letters { tip, scripts: scripts.iter().map(|n| ScriptHash([*n; 32])).collect(), ..Letters::default() }
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

        for filler in [0, 100] {
            subscriptions.tell(&touched((0..filler).map(|n| 50 + n).chain([1, 9])));
            assert_eq!(boxes[0].take(), letters(true, &[1]));
            assert_eq!(boxes[1].take(), letters(false, &[1]));
            assert!(boxes[2].take().is_empty());
        }
        subscriptions.leave(ids[0], [script(1)].into_iter());
        subscriptions.leave(ids[1], [script(1), script(2)].into_iter());
        subscriptions.remove(ids[2], &script(3));
        subscriptions.remove(ids[2], &script(3));
        subscriptions.leave(ids[2], [].into_iter());
        let tables = subscriptions.tables.into_inner().unwrap();
        assert_eq!((tables.count, tables.scripts.len(), tables.headers.len(), tables.mailboxes.len()), (0, 0, 0, 0));
    }

    #[test]
    fn an_outpoint_is_touched_by_who_funds_it_and_by_who_spends_it() {
        let subscriptions = Subscriptions::default();
        let mailbox = Arc::<Mailbox>::default();
        let id = subscriptions.enter(mailbox.clone());
        assert!(!subscriptions.watches_txs());
        for (n, vout) in [(1, 0), (1, 1), (2, 0), (3, u32::MAX)] {
            subscriptions.add(id, &Topic::Outpoint(outpoint(n, vout)), 9).unwrap();
        }
        subscriptions.add(id, &Topic::Tx(Txid([1; 32])), 9).unwrap();
        subscriptions.add(id, &Topic::Tx(Txid([7; 32])), 9).unwrap();
        assert!(subscriptions.watches_txs());
        let mut change =
            Touched { txs: [Txid([1; 32])].into(), spent: [outpoint(2, 0), outpoint(9, 9)].into(), ..touched([]) };
        subscriptions.tell(&change);
        let told = mailbox.take();
        assert_eq!(told.outpoints, [outpoint(1, 0), outpoint(1, 1), outpoint(2, 0)].into());
        assert_eq!(told.txs, [Txid([1; 32])].into());
        assert!(!told.tip, "it did not ask for tips");
        // Where nobody knows which transactions it was, all are looked at.
        change.any_tx = true;
        subscriptions.tell(&change);
        let told = mailbox.take();
        assert_eq!((told.outpoints.len(), told.any_tx), (4, true));
        subscriptions.tell_everything();
        assert_eq!(mailbox.take(), Letters { everything: true, ..Letters::default() });
    }
}
