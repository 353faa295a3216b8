//! One node and strangers that say what they like: whom it asks, what it tells, what a flood costs, what a spy learns.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use chain::mempool::{Accept, Event, SharedMempool};
use consensus::Work;
use primitives::{Block, OutPoint, Transaction};
use stdx::random::Random;

use super::Judgement;
use super::{Hub, UploadBudget};
use crate::moment::Moment;
use crate::peer::{ConnectionKind, End, Local, Peer, PeerId, Permissions, Setup};
use crate::relay::judge;
use crate::sync::Limits;
use crate::trials::network_tests::{COIN_SAT, Chains, Vice, coin, mine, params, pay, pool};
use crate::wire::{
    BlockBytes, BlockTxsRequest, CompactBlock, Endpoint, Inventory, InventoryKind, LocatorRequest, Message,
    SendCompact, Services,
};

pub(crate) struct Stranger {
    pub id: PeerId,
    pub peer: Peer,
    pub heard: Vec<Message>,
}

pub(crate) struct Stage {
    pub hub: Hub<Chains>,
    pool: SharedMempool,
    events: Receiver<Event>,
    pub strangers: Vec<Stranger>,
    pub now: Moment,
    random: Random,
    judges: bool,
    /// Strangers say that they have no headers; else nothing.
    pub answers_for_headers: bool,
}

pub(crate) fn wtx(tx: &Transaction) -> Inventory {
    Inventory { kind: InventoryKind::Wtx, hash: tx.tx().wtxid().0 }
}

fn by_txid(tx: &Transaction) -> Inventory {
    Inventory { kind: InventoryKind::WitnessTx, hash: tx.tx().txid().0 }
}

impl Stage {
    pub fn new(seed: u64) -> Stage {
        Stage::with(seed, |_| ())
    }

    fn with(seed: u64, change: impl FnOnce(&mut Local)) -> Stage {
        Stage::of(seed, 400, change)
    }

    fn of(seed: u64, coins: u32, change: impl FnOnce(&mut Local)) -> Stage {
        let mut random = Random::new(seed);
        let pool = pool(coins);
        let events = pool.write().subscribe();
        let mut local = Local::new(params().magic, &mut random);
        change(&mut local);
        let now = Moment { monotonic: Duration::from_secs(1), unix_s: 1_700_000_000 };
        let (chain, budget) = (Chains::new(Vice::None, Work::ZERO), UploadBudget::new(None));
        let (local, limits) = (Arc::new(local), Limits::default());
        let hub = Hub::new(chain, Arc::new(params()), local, limits, budget, Box::new(pool.clone()), &mut random);
        Stage { hub, pool, events, strangers: Vec::new(), now, random, judges: true, answers_for_headers: true }
    }

    /// A stranger; `kind` is what the connection is to the node.
    pub fn join(&mut self, kind: ConnectionKind) -> usize {
        self.join_with(kind, Permissions::NONE)
    }

    pub fn join_with(&mut self, kind: ConnectionKind, permissions: Permissions) -> usize {
        self.join_as(kind, permissions, |_| ())
    }

    /// A stranger that is not as we are.
    pub fn join_as(
        &mut self,
        kind: ConnectionKind,
        permissions: Permissions,
        change: impl FnOnce(&mut Local),
    ) -> usize {
        let id = PeerId(1 + self.strangers.len() as u64);
        let setup = |kind, permissions| Setup {
            id,
            kind,
            remote: Endpoint::NONE,
            told_remote: Endpoint::NONE,
            permissions,
            encrypted: false,
        };
        let other = if kind.is_outbound() { ConnectionKind::Inbound } else { ConnectionKind::OutboundFull };
        let mut local = Local::new(params().magic, &mut self.random);
        change(&mut local);
        let peer = Peer::new(setup(other, Permissions::NONE), Arc::new(local), self.now, &mut self.random);
        self.hub.connect(setup(kind, permissions), self.now, &mut self.random);
        self.strangers.push(Stranger { id, peer, heard: Vec::new() });
        self.carry();
        assert!(self.strangers.last().unwrap().peer.is_ready());
        // The first burst, which tells nothing, is over.
        self.pass(0.25);
        self.strangers.len() - 1
    }

    /// Bytes go both ways until nobody has any; headers that are asked for there are none.
    pub fn carry(&mut self) {
        loop {
            let mut silent = true;
            for stranger in &mut self.strangers {
                let bytes = self.hub.output(stranger.id).to_vec();
                self.hub.sent(stranger.id, bytes.len(), self.now);
                let mut events = Vec::new();
                stranger.peer.receive(&bytes, self.now, &mut self.random, &mut events);
                for event in events {
                    if let crate::peer::Event::Message(message) = event {
                        if self.answers_for_headers && matches!(message, Message::GetHeaders(_)) {
                            stranger.peer.send(&Message::Headers(Vec::new()));
                        }
                        stranger.heard.push(message);
                    }
                }
                let back = stranger.peer.output().to_vec();
                stranger.peer.sent(back.len(), self.now);
                self.hub.receive(stranger.id, &back, self.now, &mut self.random);
                silent &= bytes.is_empty() && back.is_empty();
            }
            if silent {
                return;
            }
        }
    }

    pub fn say(&mut self, who: usize, message: &Message) {
        self.strangers[who].peer.send(message);
        self.carry();
    }

    pub fn announce(&mut self, who: usize, txs: &[&Transaction]) {
        self.say(who, &Message::Inv(txs.iter().map(|tx| wtx(tx)).collect()));
    }

    fn give(&mut self, who: usize, tx: &Transaction) {
        self.say(who, &Message::Tx(tx.clone()));
    }

    /// Time goes by, and the threads of the node work.
    pub fn pass(&mut self, seconds: f64) {
        let end = self.now.after(Duration::from_secs_f64(seconds));
        while self.now < end {
            self.now = self.now.after(Duration::from_millis(250));
            self.now.unix_s = 1_700_000_000 + self.now.monotonic.as_secs();
            self.work();
        }
    }

    fn work(&mut self) {
        let now = self.now;
        let jobs = if self.judges { self.hub.take_tx_jobs() } else { Vec::new() };
        if !jobs.is_empty() {
            self.hub.txs_judged(judge(&self.pool, jobs, now.unix_s), now);
        }
        self.events.try_iter().for_each(|event| self.hub.pool_changed(&event, now));
        self.hub.tick(now, &mut self.random);
        self.carry();
    }

    /// What a stranger was asked for or told of since this was asked last.
    pub fn heard<T>(&mut self, who: usize, pick: impl Fn(&Message) -> Option<T>) -> Vec<T> {
        self.strangers[who].heard.drain(..).filter_map(|message| pick(&message)).collect()
    }

    pub fn asked(&mut self, who: usize) -> Vec<Inventory> {
        let lists = self.heard(who, |message| match message {
            Message::GetData(list) => Some(list.clone()),
            _ => None,
        });
        lists.concat()
    }

    fn told(&mut self, who: usize) -> Vec<Inventory> {
        let lists = self.heard(who, |message| match message {
            Message::Inv(list) => Some(list.clone()),
            _ => None,
        });
        lists.concat()
    }

    pub fn is_here(&self, who: usize) -> bool {
        self.hub.peer(self.strangers[who].id).is_some()
    }

    fn has(&self, tx: &Transaction) -> bool {
        self.pool.read().get_by_wtxid(&tx.tx().wtxid()).is_some()
    }

    /// A user of the node sends.
    fn submit(&mut self, tx: &Transaction) {
        self.pool.accept(tx, &Accept::at(self.now.unix_s)).unwrap_or_else(|rejected| panic!("{}", rejected.reject));
        self.pool.write().set_unbroadcast(&tx.tx().txid());
    }
}

pub(crate) fn simple(number: u32) -> Transaction {
    pay(&[coin(number)], &[COIN_SAT - 1_000])
}

fn out(tx: &Transaction) -> OutPoint {
    OutPoint { txid: tx.tx().txid(), vout: 0 }
}

#[test]
fn those_we_chose_are_asked_at_once_and_others_after_two_seconds() {
    let mut stage = Stage::new(1);
    let chosen = stage.join(ConnectionKind::OutboundFull);
    let other = stage.join(ConnectionKind::Inbound);
    let (a, b) = (simple(1), simple(2));
    stage.announce(chosen, &[&a]);
    assert_eq!(stage.asked(chosen), [wtx(&a)]);
    stage.announce(other, &[&a, &b]);
    stage.pass(1.75);
    assert_eq!(stage.asked(other), []);
    stage.pass(0.5);
    assert_eq!(stage.asked(other), [wtx(&b)]);
    stage.give(chosen, &a);
    stage.give(other, &b);
    stage.pass(1.0);
    assert!(stage.has(&a) && stage.has(&b));
    stage.announce(other, &[&a, &b]);
    stage.pass(70.0);
    assert_eq!((stage.asked(other), stage.asked(chosen)), (vec![], vec![]), "what is here is not asked for");
}

#[test]
fn whoever_never_answers_delays_a_transaction_by_a_minute_at_most() {
    // CVE-2024-52913: a peer that announces first must not be able to keep a transaction from us.
    let mut stage = Stage::new(2);
    let silent = stage.join(ConnectionKind::OutboundFull);
    let honest = stage.join(ConnectionKind::Inbound);
    let tx = simple(1);
    stage.announce(silent, &[&tx]);
    stage.announce(honest, &[&tx]);
    stage.pass(59.0);
    // Announcing it again and again changes nothing.
    stage.announce(silent, &[&tx]);
    assert_eq!((stage.asked(silent).len(), stage.asked(honest).len()), (1, 0));
    stage.pass(2.0);
    assert_eq!(stage.asked(honest), [wtx(&tx)]);
    stage.give(honest, &tx);
    stage.pass(1.0);
    assert!(stage.has(&tx));
}

#[test]
fn who_says_notfound_is_left_at_once() {
    let mut stage = Stage::new(3);
    let (first, second) = (stage.join(ConnectionKind::OutboundFull), stage.join(ConnectionKind::Inbound));
    let tx = simple(1);
    stage.announce(first, &[&tx]);
    stage.announce(second, &[&tx]);
    stage.pass(3.0);
    assert_eq!((stage.asked(first).len(), stage.asked(second).len()), (1, 0));
    stage.say(first, &Message::NotFound(vec![wtx(&tx)]));
    stage.pass(0.5);
    assert_eq!(stage.asked(second), [wtx(&tx)]);
}

#[test]
fn fifty_thousand_names_cost_a_fixed_room_and_nobody_else_a_transaction() {
    // CVE-2024-52915: memory must not follow what is announced.
    let mut stage = Stage::new(4);
    let (flooder, honest) = (stage.join(ConnectionKind::Inbound), stage.join(ConnectionKind::Inbound));
    let mut room = Vec::new();
    for round in 0..4u64 {
        let entry = |number: u64| {
            let hash = primitives::hash::sha256(&(round << 32 | number).to_le_bytes());
            Inventory { kind: InventoryKind::Wtx, hash }
        };
        stage.say(flooder, &Message::Inv((0..50_000).map(entry).collect()));
        let id = stage.strangers[flooder].id;
        assert_eq!(stage.hub.txs.download.requests().count(id), 5_000);
        room.push(stage.hub.talks[&id].txs.known.bytes());
    }
    assert!(room[3] == room[1] && room[3] < 400_000, "{room:?}");
    // Bytes of names count against the budget of messages: the flooder is read more slowly.
    assert!(stage.hub.input_wait(stage.strangers[flooder].id, stage.now).is_some());
    let tx = simple(1);
    stage.announce(honest, &[&tx]);
    stage.pass(2.25);
    assert_eq!(stage.asked(honest), [wtx(&tx)]);
    stage.give(honest, &tx);
    stage.pass(0.5);
    assert!(stage.has(&tx) && stage.is_here(flooder));
    // When it leaves, its room is free.
    let id = stage.strangers[flooder].id;
    stage.hub.disconnected(id, stage.now);
    assert_eq!(stage.hub.txs.download.requests().len(), 0);
}

#[test]
fn a_flood_of_junk_is_judged_in_its_sender_s_turns_only() {
    let mut stage = Stage::new(5);
    let (flooder, honest) = (stage.join(ConnectionKind::Inbound), stage.join(ConnectionKind::Inbound));
    stage.judges = false;
    for number in 0..3_000 {
        // Nobody has these coins: each would be an orphan.
        stage.strangers[flooder].peer.send(&Message::Tx(pay(&[coin(10_000 + number)], &[5_000])));
    }
    stage.carry();
    let id = stage.strangers[flooder].id;
    assert_eq!(stage.hub.txs.queue.len(), 2_000, "what is beyond a peer's share is dropped");
    assert!(stage.hub.input_wait(id, stage.now) >= Some(Duration::from_millis(50)), "and it is not read from");
    let tx = simple(1);
    stage.give(honest, &tx);
    stage.judges = true;
    stage.work();
    assert!(stage.has(&tx), "the first lot has it");
    stage.pass(20.0);
    assert!(stage.hub.txs.queue.is_empty() && stage.is_here(flooder));
    // Orphans of one peer stay within the share of all, and go with it.
    assert!(stage.hub.orphans().len() <= 3_000);
    stage.hub.disconnected(id, stage.now);
    assert!(stage.hub.orphans().is_empty());
}

#[test]
fn a_spy_gets_what_it_was_told_of_and_nothing_else() {
    let mut stage = Stage::new(6);
    let spy = stage.join(ConnectionKind::Inbound);
    let tx = simple(1);
    let want = |stage: &mut Stage, entry: Inventory| {
        stage.strangers[spy].heard.clear();
        stage.say(spy, &Message::GetData(vec![entry]));
        stage.heard(spy, |message| match message {
            Message::Tx(tx) => Some(Ok(tx.tx().wtxid())),
            Message::NotFound(list) => Some(Err(list.clone())),
            _ => None,
        })
    };
    stage.submit(&tx);
    stage.events.try_iter().for_each(|event| stage.hub.pool_changed(&event, stage.now));
    for entry in [wtx(&tx), by_txid(&tx)] {
        assert_eq!(want(&mut stage, entry), [Err(vec![entry])], "it was not told yet");
    }
    assert_eq!(stage.pool.read().unbroadcast().count(), 1);
    stage.pass(60.0);
    assert_eq!(stage.told(spy), [wtx(&tx)]);
    for entry in [wtx(&tx), by_txid(&tx), Inventory { kind: InventoryKind::Tx, ..by_txid(&tx) }] {
        assert_eq!(want(&mut stage, entry), [Ok(tx.tx().wtxid())]);
    }
    assert_eq!(stage.pool.read().unbroadcast().count(), 0);
    // The next one is not to be had before it is told either.
    let next = simple(2);
    stage.submit(&next);
    assert_eq!(want(&mut stage, wtx(&next)), [Err(vec![wtx(&next)])]);
}

#[test]
fn unknown_kinds_are_passed_over_and_what_follows_is_answered() {
    // CVE-2024-52920: such an entry stood in the way for ever.
    let mut stage = Stage::new(7);
    let peer = stage.join(ConnectionKind::Inbound);
    let tx = simple(1);
    stage.submit(&tx);
    stage.pass(60.0);
    let odd = Inventory { kind: InventoryKind::Unknown(77), hash: [7; 32] };
    let absent = Inventory { kind: InventoryKind::Wtx, hash: [8; 32] };
    stage.strangers[peer].heard.clear();
    stage.say(peer, &Message::GetData(vec![odd, absent, odd, wtx(&tx), odd]));
    let got = stage.heard(peer, |message| match message {
        Message::Tx(_) => Some("tx"),
        Message::NotFound(list) => Some(if *list == [absent] { "notfound" } else { "wrong" }),
        _ => None,
    });
    assert_eq!(got, ["tx", "notfound"]);
}

#[test]
fn transactions_end_connections_they_do_not_belong_to() {
    #[track_caller]
    fn check(kind: ConnectionKind, permissions: Permissions, relays: bool, message: &Message, stays: bool) {
        let mut stage = Stage::with(8, |local| local.relays_txs = relays);
        let peer = stage.join_with(kind, permissions);
        stage.say(peer, message);
        assert_eq!(stage.is_here(peer), stays, "{kind:?} {permissions:?} {relays} {message:?}");
    }
    use ConnectionKind::{BlocksOnly, Inbound, OutboundFull};
    let tx = simple(1);
    let (none, inv, bytes) = (Permissions::NONE, Message::Inv(vec![wtx(&tx)]), Message::Tx(tx.clone()));
    for message in [&inv, &bytes] {
        check(BlocksOnly, none, true, message, false);
        check(OutboundFull, none, true, message, true);
        check(Inbound, none, false, message, false);
        check(Inbound, Permissions::RELAY, false, message, true);
    }
    check(Inbound, none, true, &Message::MemPool, false);
    check(Inbound, Permissions::NO_BAN, true, &Message::MemPool, true);
    check(Inbound, Permissions::MEMPOOL, true, &Message::MemPool, true);
}

#[test]
fn the_mempool_is_told_to_whoever_asks_where_that_is_offered_and_upload_is_left() {
    let ask = |budget: Option<u64>, permissions| {
        let mut stage = Stage::with(28, |local| local.tells_mempool = true);
        stage.hub.upload = UploadBudget::new(budget);
        let tx = simple(1);
        stage.submit(&tx);
        stage.pass(60.0);
        let who = stage.join_with(ConnectionKind::Inbound, permissions);
        stage.say(who, &Message::MemPool);
        stage.pass(60.0);
        let told = stage.told(who);
        (stage.is_here(who), told == [wtx(&tx)])
    };
    // A handshake is more than a byte.
    assert_eq!(ask(None, Permissions::NONE), (true, true));
    assert_eq!(ask(Some(1 << 30), Permissions::NONE), (true, true));
    assert_eq!(ask(Some(1), Permissions::NONE), (false, false));
    assert_eq!(ask(Some(1), Permissions::NO_BAN).0, true);
    assert_eq!(ask(Some(1), Permissions::MEMPOOL), (true, true));
}

#[test]
fn a_refused_transaction_costs_no_connection_and_is_judged_once_until_the_next_block() {
    let mut stage = Stage::new(9);
    let (peer, other) = (stage.join(ConnectionKind::Inbound), stage.join(ConnectionKind::OutboundFull));
    // More than the coin is worth: no block may have it.
    let bad = pay(&[coin(1)], &[COIN_SAT + 1]);
    stage.give(peer, &bad);
    assert!(stage.hub.has_tx_jobs());
    stage.pass(1.0);
    assert!(stage.is_here(peer) && !stage.has(&bad));
    stage.give(other, &bad);
    assert!(!stage.hub.has_tx_jobs());
    stage.announce(other, &[&bad]);
    stage.pass(3.0);
    assert_eq!(stage.asked(other), []);
    stage.hub.txs.download.tip_changed();
    stage.announce(other, &[&bad]);
    assert_eq!(stage.asked(other), [wtx(&bad)]);
}

#[test]
fn an_orphan_s_parent_is_asked_of_everybody_who_told_us_of_it() {
    let mut stage = Stage::new(10);
    let (first, second) = (stage.join(ConnectionKind::Inbound), stage.join(ConnectionKind::Inbound));
    let parent = simple(1);
    let child = pay(&[out(&parent)], &[COIN_SAT - 3_000]);
    stage.announce(first, &[&child]);
    stage.announce(second, &[&child]);
    stage.pass(2.5);
    let asked = [stage.asked(first), stage.asked(second)];
    let who = if asked[0].is_empty() { second } else { first };
    stage.give(who, &child);
    stage.pass(5.0);
    assert_eq!(stage.hub.orphans().len(), 1);
    let asked = [stage.asked(first), stage.asked(second)];
    assert_eq!(asked.concat(), [by_txid(&parent)], "one is asked first");
    let late = if asked[0].is_empty() { first } else { second };
    stage.pass(61.0);
    assert_eq!(stage.asked(late), [by_txid(&parent)], "then the other");
    stage.give(late, &parent);
    stage.pass(1.0);
    assert!(stage.has(&parent) && stage.has(&child) && stage.hub.orphans().is_empty());
}

#[test]
fn a_parent_that_pays_nothing_comes_in_with_its_child() {
    let mut stage = Stage::new(11);
    let peer = stage.join(ConnectionKind::Inbound);
    let parent = pay(&[coin(1)], &[COIN_SAT]);
    let child = pay(&[out(&parent)], &[COIN_SAT - 3_000]);
    // The parent alone is refused, and not asked for again by its wtxid.
    stage.give(peer, &parent);
    stage.pass(0.5);
    stage.announce(peer, &[&parent]);
    stage.pass(3.0);
    assert_eq!(stage.asked(peer), []);
    stage.give(peer, &child);
    stage.pass(6.0);
    assert_eq!(stage.asked(peer), [by_txid(&parent)], "for the child's sake it is asked for");
    stage.give(peer, &parent);
    stage.pass(1.0);
    assert!(stage.has(&parent) && stage.has(&child));
    // A child that does not pay enough either is refused with it, once.
    let parent = pay(&[coin(2)], &[COIN_SAT]);
    let child = pay(&[out(&parent)], &[COIN_SAT - 10]);
    stage.give(peer, &child);
    stage.give(peer, &parent);
    stage.pass(2.0);
    assert!(!stage.has(&parent) && !stage.has(&child));
    stage.give(peer, &parent);
    assert!(!stage.hub.has_tx_jobs(), "the same two are not judged twice");
}

#[test]
fn many_orphans_of_one_parent_are_judged_in_turns() {
    // CVE-2024-52914: a parent with many orphaned children kept a node busy for hours.
    let mut stage = Stage::new(12);
    let (flooder, honest) = (stage.join(ConnectionKind::Inbound), stage.join(ConnectionKind::Inbound));
    let parent = pay(&[coin(1)], &[COIN_SAT - 1_000]);
    for number in 0..200 {
        let lost = OutPoint { txid: coin(9_000 + number).txid, vout: 1 };
        stage.give(flooder, &pay(&[out(&parent), lost], &[1_000]));
    }
    stage.pass(2.0);
    let count = stage.hub.orphans().len();
    assert!(count > 100, "{count} orphans");
    stage.give(flooder, &parent);
    stage.work();
    let tx = simple(2);
    stage.give(honest, &tx);
    stage.work();
    assert!(stage.has(&parent) && stage.has(&tx), "the honest peer has its turn in the next lot");
    stage.pass(5.0);
    assert!(!stage.hub.has_tx_jobs(), "each orphan is looked at once");
    assert_eq!(stage.hub.orphans().len(), count, "and waits for its other parent");
}

#[test]
fn peers_of_one_network_are_told_together_in_mining_order_and_by_their_filters() {
    let mut stage = Stage::new(13);
    let (a, b, rich) =
        (stage.join(ConnectionKind::Inbound), stage.join(ConnectionKind::Inbound), stage.join(ConnectionKind::Inbound));
    stage.say(rich, &Message::FeeFilter(20_000));
    let mut times = Vec::new();
    for round in 0..40u32 {
        let cheap = pay(&[coin(2 * round)], &[COIN_SAT - 500]);
        let dear = pay(&[coin(2 * round + 1)], &[COIN_SAT - 5_000]);
        stage.submit(&cheap);
        stage.submit(&dear);
        let begin = stage.now;
        loop {
            stage.pass(0.25);
            let [told, other, filtered] = [a, b, rich].map(|who| stage.told(who));
            assert_eq!(told, other, "both learn it at the same moment");
            if !told.is_empty() {
                assert_eq!((told, filtered), (vec![wtx(&dear), wtx(&cheap)], vec![wtx(&dear)]));
                break;
            }
            assert!(stage.now.since(&begin) < Duration::from_secs(90));
        }
        times.push(stage.now.since(&begin).as_secs_f64());
    }
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    assert!((2.5..9.0).contains(&mean), "a mean of {mean} seconds");
}

#[test]
fn nobody_is_told_of_what_he_has_or_does_not_want() {
    let mut stage = Stage::new(14);
    let knows = stage.join(ConnectionKind::OutboundFull);
    let other = stage.join(ConnectionKind::OutboundFull);
    let blocks = stage.join(ConnectionKind::BlocksOnly);
    let tx = simple(1);
    stage.announce(knows, &[&tx]);
    stage.give(knows, &tx);
    stage.pass(40.0);
    assert_eq!(stage.told(other), [wtx(&tx)]);
    assert_eq!((stage.told(knows), stage.told(blocks)), (vec![], vec![]));
}

#[test]
fn what_nobody_asked_for_is_told_again_and_the_mempool_to_who_may_ask() {
    let mut stage = Stage::new(15);
    let first = stage.join(ConnectionKind::OutboundFull);
    let tx = simple(1);
    stage.submit(&tx);
    stage.pass(60.0);
    assert_eq!(stage.told(first), [wtx(&tx)]);
    let (late, trusted) =
        (stage.join(ConnectionKind::OutboundFull), stage.join_with(ConnectionKind::Inbound, Permissions::MEMPOOL));
    stage.pass(8.0 * 60.0);
    assert_eq!((stage.told(late), stage.told(trusted)), (vec![], vec![]), "what came before them is no news");
    stage.say(trusted, &Message::MemPool);
    stage.pass(60.0);
    assert_eq!(stage.told(trusted), [wtx(&tx)]);
    stage.pass(8.0 * 60.0);
    assert_eq!(stage.told(late), [wtx(&tx)]);
    stage.say(late, &Message::GetData(vec![wtx(&tx)]));
    stage.join(ConnectionKind::OutboundFull);
    stage.pass(20.0 * 60.0);
    assert_eq!(stage.told(3), [], "it was asked for");
}

#[test]
fn fee_filters_are_sent_to_those_who_may_send() {
    let mut stage = Stage::new(16);
    let (inbound, blocks) = (stage.join(ConnectionKind::Inbound), stage.join(ConnectionKind::BlocksOnly));
    stage.pass(1.0);
    let filter = |stage: &Stage, who: usize| stage.strangers[who].peer.features().fee_filter_sat_per_kvb;
    assert_eq!(filter(&stage, inbound), 100, "the least that is relayed, and no step above it");
    assert_eq!(filter(&stage, blocks), 0);
}

impl Stage {
    /// A peer that wants new blocks at once, and knows our tip.
    fn join_for_blocks(&mut self) -> usize {
        let who = self.join(ConnectionKind::Inbound);
        let genesis = params().genesis_hash;
        let request = LocatorRequest { protocol: 70_016, locator: vec![genesis], stop: genesis };
        self.say(who, &Message::GetHeaders(request));
        self.say(who, &Message::SendCompact(SendCompact { announce: true, version: 2 }));
        who
    }

    /// The chain has looked at the blocks that came, and has not connected them.
    fn look_at_blocks(&mut self) {
        let waiting: Vec<_> = self.hub.chain_mut().waiting.drain(..).collect();
        for (hash, _) in waiting {
            self.hub.judged(&hash, Judgement::Good, self.now);
        }
        self.carry();
    }

    /// The chain has tried the blocks that came.
    fn try_blocks(&mut self) {
        let waiting: Vec<_> = self.hub.chain_mut().waiting.drain(..).collect();
        for (hash, bytes) in waiting {
            let judgement = match Block::parse(bytes.clone()) {
                Ok(_) => self.hub.chain_mut().add_block(hash, bytes),
                Err(_) => Judgement::Malformed,
            };
            self.hub.judged(&hash, judgement, self.now);
            self.hub.judged(&hash, Judgement::Tried, self.now);
        }
        self.carry();
    }
}

fn asked_blocks(message: &Message) -> Option<Vec<[u8; 32]>> {
    let Message::GetData(list) = message else { return None };
    Some(list.iter().filter(|entry| entry.kind.is_block()).map(|entry| entry.hash).collect())
}

#[test]
fn a_block_whose_copy_was_damaged_is_asked_of_the_same_peer_when_it_tells_of_it_anew() {
    let mut stage = Stage::new(21);
    let who = stage.join_with(ConnectionKind::Inbound, Permissions::NO_BAN);
    let genesis = crate::hub::Chain::tip(stage.hub.chain());
    let (header, good) = mine(&genesis, [1, 2, 3, 4], &[]);
    let (_, other) = mine(&genesis, [4, 3, 2, 1], &[]);
    let mutated = [&good[..80], &other[80..]].concat();
    for bad in [mutated, good[..100].to_vec()] {
        stage.say(who, &Message::Headers(vec![header]));
        assert_eq!(stage.heard(who, asked_blocks), [[header.hash().0]]);
        stage.say(who, &Message::Block(BlockBytes::new(bad).unwrap()));
        stage.try_blocks();
        stage.pass(5.0);
        assert!(stage.is_here(who));
        assert_eq!(stage.heard(who, asked_blocks), Vec::<Vec<[u8; 32]>>::new(), "not again by itself");
    }
    stage.say(who, &Message::Headers(vec![header]));
    assert_eq!(stage.heard(who, asked_blocks), [[header.hash().0]]);
    stage.say(who, &Message::Block(BlockBytes::new(good).unwrap()));
    stage.try_blocks();
    assert_eq!(crate::hub::Chain::tip(stage.hub.chain()).hash, header.hash());
}

#[test]
fn who_has_no_witnesses_is_not_asked_for_blocks() {
    let mut stage = Stage::new(26);
    let old = stage.join_as(ConnectionKind::Inbound, Permissions::NONE, |local| local.services = Services::NETWORK);
    let genesis = crate::hub::Chain::tip(stage.hub.chain());
    let (first, _) = mine(&genesis, [1, 2, 3, 4], &[]);
    let (beside, _) = mine(&genesis, [4, 3, 2, 1], &[]);
    for header in [first, beside] {
        stage.say(old, &Message::Headers(vec![header]));
        stage.pass(30.0);
        assert!(stage.is_here(old));
        assert_eq!(stage.heard(old, asked_blocks), Vec::<Vec<[u8; 32]>>::new());
    }
    let young = stage.join(ConnectionKind::Inbound);
    stage.say(young, &Message::Headers(vec![first]));
    assert_eq!(stage.heard(young, asked_blocks), [[first.hash().0]]);
}

#[test]
fn a_block_that_nobody_asked_for_brings_its_header_only_where_it_is_the_header_s() {
    let mut stage = Stage::new(25);
    let trusted = stage.join_with(ConnectionKind::Inbound, Permissions::NO_BAN);
    let other = stage.join(ConnectionKind::Inbound);
    let genesis = crate::hub::Chain::tip(stage.hub.chain());
    let (header, good) = mine(&genesis, [1, 2, 3, 4], &[]);
    let (_, another) = mine(&genesis, [4, 3, 2, 1], &[]);
    let mutated = [&good[..80], &another[80..]].concat();
    let say = |stage: &mut Stage, who: usize, bytes: &[u8]| {
        stage.say(who, &Message::Block(BlockBytes::new(bytes.to_vec()).unwrap()));
        stage.try_blocks();
        crate::hub::Chain::find(stage.hub.chain(), &header.hash()).is_some()
    };
    assert!(!say(&mut stage, trusted, &mutated) && !say(&mut stage, trusted, &good[..100]));
    assert!(!say(&mut stage, other, &good[..100]) && stage.is_here(other), "what cannot be read is passed over");
    assert!(!say(&mut stage, other, &mutated) && !stage.is_here(other) && stage.is_here(trusted));
    assert!(say(&mut stage, trusted, &good));
    assert_eq!(crate::hub::Chain::tip(stage.hub.chain()).hash, header.hash());
}

#[test]
fn what_is_wrong_with_an_unasked_block_is_its_work_before_its_transactions() {
    let check = |has_work: bool, why: &'static str| {
        let mut stage = Stage::new(29);
        let who = stage.join(ConnectionKind::Inbound);
        let genesis = crate::hub::Chain::tip(stage.hub.chain());
        let (mut header, good) = mine(&genesis, [1, 2, 3, 4], &[]);
        let (_, another) = mine(&genesis, [4, 3, 2, 1], &[]);
        while consensus::header::check_proof_of_work(&header.hash(), header.bits, &params()).is_ok() != has_work {
            header.nonce += 1;
        }
        let mutated = [&header.encode()[..], &another[80..]].concat();
        assert_eq!(good[..80] == mutated[..80], has_work);
        stage.say(who, &Message::Block(BlockBytes::new(mutated).unwrap()));
        let ends: Vec<End> = stage.hub.take_gone().into_iter().map(|gone| gone.end).collect();
        assert_eq!(ends, [End::Misbehaviour(why)]);
    };
    check(true, "mutated block");
    check(false, "header with invalid proof of work");
}

#[test]
fn bytes_that_are_no_block_are_asked_for_elsewhere_and_nobody_is_at_fault() {
    let mut stage = Stage::new(22);
    let (first, second) = (stage.join(ConnectionKind::OutboundFull), stage.join(ConnectionKind::OutboundFull));
    let genesis = crate::hub::Chain::tip(stage.hub.chain());
    let (header, good) = mine(&genesis, [1, 2, 3, 4], &[]);
    stage.say(first, &Message::Headers(vec![header]));
    stage.say(second, &Message::Headers(vec![header]));
    stage.say(first, &Message::Block(BlockBytes::new(good[..100].to_vec()).unwrap()));
    stage.try_blocks();
    assert_eq!(stage.heard(second, asked_blocks), [[header.hash().0]]);
    assert!(stage.is_here(first));
}

#[test]
fn a_compact_block_beside_one_that_never_comes_is_put_together() {
    let mut stage = Stage::new(23);
    let (source, other) = (stage.join_for_blocks(), stage.join_for_blocks());
    let (known, unknown) = (simple(1), simple(2));
    stage.submit(&known);
    let genesis = crate::hub::Chain::tip(stage.hub.chain());
    let compact = |bytes: &[u8]| Message::CompactBlock(CompactBlock::of(&Block::parse(bytes.to_vec()).unwrap(), 7));
    // The first block of this height is the best header from then on, and lacks a transaction that nobody sends.
    let (_, stuck) = mine(&genesis, [1, 2, 3, 4], &[unknown]);
    stage.say(source, &compact(&stuck));
    let (header, beside) = mine(&genesis, [2, 2, 3, 4], &[known]);
    stage.strangers[other].heard.clear();
    // Nobody asked for it: its header is an announcement, and the block is asked for.
    stage.say(other, &compact(&beside));
    assert_eq!(stage.heard(other, asked_blocks), [[header.hash().0]]);
    stage.say(other, &compact(&beside));
    let waiting = &stage.hub.chain().waiting;
    assert_eq!(waiting.iter().map(|(hash, _)| *hash).collect::<Vec<_>>(), [header.hash()]);
    assert_eq!(stage.heard(other, asked_blocks), Vec::<Vec<[u8; 32]>>::new(), "all of it was here");
}

#[test]
fn a_tip_is_told_of_though_another_header_of_as_much_work_came_first() {
    let mut stage = Stage::new(27);
    let (source, plain) = (stage.join(ConnectionKind::Inbound), stage.join(ConnectionKind::Inbound));
    let genesis = crate::hub::Chain::tip(stage.hub.chain());
    let (held_back, _) = mine(&genesis, [1, 2, 3, 4], &[]);
    stage.say(source, &Message::Headers(vec![held_back]));
    let (header, bytes) = mine(&genesis, [4, 3, 2, 1], &[]);
    stage.strangers[plain].heard.clear();
    stage.say(source, &Message::Block(BlockBytes::new(bytes).unwrap()));
    stage.try_blocks();
    assert_eq!(crate::hub::Chain::tip(stage.hub.chain()).hash, header.hash());
    assert_eq!(crate::hub::Chain::best_header(stage.hub.chain()).hash, held_back.hash());
    let told = stage.told(plain);
    assert_eq!(told, [Inventory { kind: InventoryKind::Block, hash: header.hash().0 }]);
    // What follows is told of with it, to those who like headers.
    let likes = stage.join(ConnectionKind::Inbound);
    stage.say(likes, &Message::SendHeaders);
    let request = LocatorRequest { protocol: 70_016, locator: vec![genesis.hash], stop: header.hash() };
    stage.say(likes, &Message::GetHeaders(request));
    let tip = crate::hub::Chain::tip(stage.hub.chain());
    let (next, bytes) = mine(&tip, [5, 5, 5, 5], &[]);
    stage.say(source, &Message::Block(BlockBytes::new(bytes).unwrap()));
    stage.try_blocks();
    let headers = stage.heard(likes, |message| match message {
        Message::Headers(headers) if !headers.is_empty() => Some(headers.clone()),
        _ => None,
    });
    assert_eq!(headers, [vec![header], vec![next]], "the answer, and what is new");
}

#[test]
fn a_ping_is_answered_when_all_blocks_before_it_are_tried_and_the_last_is_shown() {
    let mut stage = Stage::new(28);
    let who = stage.join(ConnectionKind::Inbound);
    let mut chain = vec![crate::hub::Chain::tip(stage.hub.chain())];
    let mut blocks = Vec::new();
    for mark in 1..=40 {
        let (header, bytes) = mine(chain.last().unwrap(), [mark, 1, 1, 1], &[]);
        stage.say(who, &Message::Headers(vec![header]));
        chain.push(crate::hub::Chain::find(stage.hub.chain(), &header.hash()).unwrap());
        blocks.push((header.hash(), bytes));
    }
    for (_, bytes) in &blocks {
        stage.say(who, &Message::Block(BlockBytes::new(bytes.clone()).unwrap()));
    }
    let last = blocks.last().unwrap().0;
    stage.hub.chain_mut().unshown.insert(last);
    stage.say(who, &Message::Ping(Some(5)));
    // What follows the ping is answered after it.
    let request = LocatorRequest { protocol: 70_016, locator: vec![chain[0].hash], stop: last };
    stage.say(who, &Message::GetHeaders(request));
    stage.strangers[who].heard.clear();
    let answers = |stage: &mut Stage| {
        stage
            .heard(who, |message| matches!(message, Message::Headers(headers) if !headers.is_empty()).then_some(()))
            .len()
    };
    // The first block is tried last, as where a thread of the pool was held up.
    stage.hub.chain_mut().waiting.rotate_left(1);
    let first = stage.hub.chain_mut().waiting.pop_back().unwrap();
    stage.try_blocks();
    assert_eq!(answers(&mut stage), 0, "those above the first could not be connected");
    stage.hub.chain_mut().waiting.push_back(first);
    stage.try_blocks();
    assert_eq!(answers(&mut stage), 0, "it is not shown yet");
    stage.hub.chain_mut().unshown.clear();
    stage.hub.judged(&last, Judgement::Tried, stage.now);
    stage.carry();
    assert_eq!(answers(&mut stage), 1);
    // Nothing came since: nothing to wait for.
    stage.hub.chain_mut().unshown.insert(last);
    stage.say(who, &Message::Ping(Some(6)));
    let request = LocatorRequest { protocol: 70_016, locator: vec![chain[0].hash], stop: last };
    stage.say(who, &Message::GetHeaders(request));
    assert_eq!(answers(&mut stage), 1);
}

#[test]
fn who_comes_after_a_transaction_is_not_told_of_it() {
    let mut stage = Stage::new(29);
    let first = stage.join(ConnectionKind::Inbound);
    let tx = simple(1);
    stage.submit(&tx);
    let (events, now): (Vec<Event>, Moment) = (stage.events.try_iter().collect(), stage.now);
    events.iter().for_each(|event| stage.hub.pool_changed(event, now));
    stage.hub.pool_settled(now);
    let late = stage.join(ConnectionKind::Inbound);
    stage.pass(60.0);
    assert_eq!((stage.told(first), stage.told(late)), (vec![wtx(&tx)], vec![]));
}

#[test]
fn parts_of_a_block_told_of_early_are_served_though_it_turned_out_to_be_bad() {
    let mut stage = Stage::new(24);
    let (source, sink) = (stage.join_for_blocks(), stage.join_for_blocks());
    let genesis = crate::hub::Chain::tip(stage.hub.chain());
    let tx = simple(1);
    let (header, bytes) = mine(&genesis, [0xbd, 2, 3, 4], std::slice::from_ref(&tx));
    stage.strangers.iter_mut().for_each(|stranger| stranger.heard.clear());
    stage.say(source, &Message::Block(BlockBytes::new(bytes.clone()).unwrap()));
    stage.look_at_blocks();
    let compact = |message: &Message| matches!(message, Message::CompactBlock(_)).then_some(());
    assert_eq!(stage.heard(sink, compact).len(), 1);
    let judgement = stage.hub.chain_mut().add_block(header.hash(), bytes);
    assert_eq!(judgement, Judgement::Invalid("bad-blk-mark"));
    stage.hub.judged(&header.hash(), judgement, stage.now);
    stage.say(sink, &Message::GetBlockTxs(BlockTxsRequest { block: header.hash(), indexes: vec![1] }));
    let parts = stage.heard(sink, |message| match message {
        Message::BlockTxs(parts) => Some(parts.txs.iter().map(<[u8]>::to_vec).collect::<Vec<_>>()),
        _ => None,
    });
    assert_eq!(parts, [[tx.tx().raw().to_vec()]], "the sink judges for itself");
    assert!(!stage.is_here(source) && stage.is_here(sink));
}

#[test]
fn a_new_block_goes_on_before_its_scripts_are_judged_and_its_parts_are_served_from_memory() {
    let mut stage = Stage::new(17);
    let (source, sink, plain) = (stage.join_for_blocks(), stage.join_for_blocks(), stage.join(ConnectionKind::Inbound));
    let known = simple(1);
    stage.submit(&known);
    let unknown = simple(2);
    let genesis = crate::hub::Chain::tip(stage.hub.chain());
    let (header, bytes) = mine(&genesis, [1, 2, 3, 4], &[known.clone(), unknown.clone()]);
    let block = Block::parse(bytes.clone()).unwrap();
    stage.strangers.iter_mut().for_each(|stranger| stranger.heard.clear());
    stage.say(source, &Message::Headers(vec![header]));
    stage.say(source, &Message::CompactBlock(CompactBlock::of(&block, 7)));
    let asked = stage.heard(source, |message| match message {
        Message::GetBlockTxs(request) => Some(request.indexes.clone()),
        _ => None,
    });
    assert_eq!(asked, [[2]], "the coinbase came along, one is in the mempool");
    let txs = crate::wire::TxList::of([unknown.tx().raw()]);
    stage.say(source, &Message::BlockTxs(crate::wire::BlockTxs { block: header.hash(), txs }));
    let compact = |message: &Message| matches!(message, Message::CompactBlock(_)).then_some(());
    assert_eq!(stage.heard(sink, compact).len(), 1, "it is told of before the chain has looked at it");
    assert_eq!(stage.heard(source, compact).len(), 0, "who sent it has it");
    assert_eq!(stage.hub.chain().waiting.len(), 1);
    assert_eq!(stage.hub.chain().waiting[0].1, bytes);
    stage.look_at_blocks();
    assert_eq!(stage.heard(sink, compact).len(), 0, "nobody is told twice");
    let any = |message: &Message| matches!(message, Message::Inv(_) | Message::Headers(_)).then_some(());
    assert_eq!(stage.heard(plain, any).len(), 0, "others are told when it is the tip");
    // The chain has no bytes of it yet, and still it can be asked for, whole and in parts.
    stage.say(sink, &Message::GetBlockTxs(BlockTxsRequest { block: header.hash(), indexes: vec![1, 2] }));
    stage.say(sink, &Message::GetData(vec![wtx(&unknown), by_txid(&known)]));
    let got = stage.heard(sink, |message| match message {
        Message::BlockTxs(got) => Some(got.txs.iter().map(<[u8]>::to_vec).collect::<Vec<_>>()),
        Message::Tx(tx) => Some(vec![tx.tx().raw().to_vec()]),
        _ => None,
    });
    assert_eq!(got[1..], [vec![unknown.tx().raw().to_vec()], vec![known.tx().raw().to_vec()]]);
    assert_eq!(got[0], [known.tx().raw().to_vec(), unknown.tx().raw().to_vec()]);
    // When it is the tip, those who were not told are.
    assert_eq!(stage.hub.chain_mut().add_block(header.hash(), bytes), Judgement::Good);
    stage.hub.chain_changed(stage.now);
    stage.carry();
    assert_eq!((stage.heard(sink, compact).len(), stage.heard(plain, any).len()), (0, 1));
}

#[test]
#[ignore = "a measurement"]
fn speed_of_a_block_of_known_transactions() {
    const OTHERS: u32 = 100_000;
    const KNOWN: u32 = 3_000;
    let mut stage = Stage::of(18, OTHERS + KNOWN, |_| ());
    let tx = |number: u32| pay(&[coin(number)], &[4_000; 20].map(|value: i64| value + i64::from(number % 97)));
    let all: Vec<Transaction> = (0..OTHERS + KNOWN).map(tx).collect();
    for part in all.chunks(1_000) {
        let taken = stage.pool.accept_all(part, &Accept::at(stage.now.unix_s));
        assert!(taken.iter().all(Result::is_ok));
    }
    let (source, sink) = (stage.join_for_blocks(), stage.join_for_blocks());
    let mut least = [f64::INFINITY; 3];
    for round in 0..20u8 {
        let tip = crate::hub::Chain::tip(stage.hub.chain());
        let (header, bytes) = mine(&tip, [round, 0, 0, 0], &all[OTHERS as usize..]);
        let block = Block::parse(bytes.clone()).unwrap();
        stage.strangers[source].peer.send(&Message::CompactBlock(CompactBlock::of(&block, u64::from(round))));
        let wire = stage.strangers[source].peer.output().to_vec();
        stage.strangers[source].peer.sent(wire.len(), stage.now);
        let begin = std::time::Instant::now();
        stage.hub.receive(stage.strangers[source].id, &wire, stage.now, &mut stage.random);
        let put_together = begin.elapsed();
        let output = stage.hub.output(stage.strangers[sink].id).len();
        assert!(output > 6 * KNOWN as usize, "{output} bytes for the sink");
        stage.hub.hand_over();
        let (_, copy) = stage.hub.chain_mut().waiting.pop_front().expect("every transaction is known");
        let handed_over = begin.elapsed();
        let checked = consensus::block::check(Block::parse(copy).unwrap(), &params());
        assert!(checked.is_ok());
        let looked_at = begin.elapsed();
        stage.hub.judged(&header.hash(), Judgement::Good, stage.now);
        for (slot, time) in [put_together, handed_over, looked_at].into_iter().enumerate() {
            let time_ms = time.as_secs_f64() * 1e3;
            least[slot] = least[slot].min(time_ms);
            if round == 0 {
                println!("the first of {} bytes, step {slot}: {time_ms:.2} ms", bytes.len());
            }
        }
        assert_eq!(stage.hub.chain_mut().add_block(header.hash(), bytes), Judgement::Good);
        stage.hub.chain_changed(stage.now);
        stage.carry();
    }
    println!(
        "{KNOWN} of {OTHERS} known: put together and told {:.2} ms, handed over {:.2} ms, looked at anew {:.2} ms",
        least[0], least[1], least[2]
    );
}
