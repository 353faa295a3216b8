//! The window in made-up worlds: peers with a rate each, and a validation that takes its time.
//!
//! In:     a seed; peers' rates, delays and vices; validation's rate.
//! Out:    how long the chain took.
//! Fails:  where bytes ahead pass their limit, the window's counts are wrong, or the chain does not end.

use std::collections::{BTreeMap, VecDeque};

use primitives::BlockHash;
use stdx::random::Random;

use super::action::{Action, Arrival, PartReason};
use super::window::{Limits, PeerId, Room, Window};

const BLOCK_BYTES_MAX: u64 = 2_000_000;

/// How a peer behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Vice {
    None,
    /// Takes orders and never delivers.
    Silent,
    /// Says notfound to everything.
    Empty,
    /// Leaves after so many milliseconds.
    Leaves(u64),
}

#[derive(Clone)]
struct Sender {
    bytes_per_ms: u64,
    delay_ms: u64,
    vice: Vice,
    queue: VecDeque<(BlockHash, u64)>,
    /// When the block at the queue's head is here.
    head_due_ms: u64,
}

fn sender(bytes_per_ms: u64, vice: Vice) -> Sender {
    Sender { bytes_per_ms, delay_ms: 40, vice, queue: VecDeque::new(), head_due_ms: 0 }
}

/// What a world came to.
#[derive(Debug)]
struct Outcome {
    took_ms: u64,
    parted: Vec<PeerId>,
    /// Bytes that came a second time.
    wasted: u64,
    ahead_max: u64,
}

struct World {
    window: Window,
    limits: Limits,
    sizes: Vec<u64>,
    senders: BTreeMap<PeerId, Sender>,
    here: Vec<bool>,
    outcome: Outcome,
}

fn hash(height: u32) -> BlockHash {
    let mut bytes = [7; 32];
    bytes[..4].copy_from_slice(&height.to_le_bytes());
    BlockHash(bytes)
}

fn height(hash: &BlockHash) -> u32 {
    u32::from_le_bytes(hash.0[..4].try_into().unwrap())
}

impl World {
    fn new(seed: u64, blocks: u32, senders: Vec<Sender>, limits: Limits) -> World {
        let mut random = Random::new(seed);
        let sizes = (0..=blocks).map(|_| 200_000 + random.below(BLOCK_BYTES_MAX - 200_000)).collect();
        let mut window = Window::new(limits, 0);
        for peer in 0..senders.len() as PeerId {
            window.join(peer);
            window.has(peer, blocks);
        }
        let outcome = Outcome { took_ms: 0, parted: Vec::new(), wasted: 0, ahead_max: 0 };
        let senders = (0..).zip(senders).collect();
        World { window, limits, sizes, senders, here: vec![false; blocks as usize + 1], outcome }
    }

    fn bytes(&self) -> u64 {
        self.sizes[1..].iter().sum()
    }

    /// Runs to the end of the chain; validation takes `validated_per_ms` bytes a millisecond.
    fn run(mut self, validated_per_ms: u64) -> Outcome {
        let end = self.sizes.len() as u32;
        let mut validated_ms = 0;
        for now_ms in 0.. {
            assert!(now_ms < 10_000_000, "the chain does not end");
            let mut events = now_ms % 100 == 0;
            events |= self.deliver(now_ms);
            while self.window.first() < end && self.here[self.window.first() as usize] && validated_ms <= now_ms {
                let first = self.window.first();
                validated_ms = validated_ms.max(now_ms) + self.sizes[first as usize] / validated_per_ms;
                self.window.connected(first);
                events = true;
            }
            if self.window.first() == end {
                self.outcome.took_ms = validated_ms.max(now_ms);
                return self.outcome;
            }
            if events {
                let (from, room) = (self.window.end(), self.window.room() as u32);
                self.window.extend((from..end.min(from + room)).map(|height| (hash(height), false)));
                self.obey(now_ms);
            }
        }
        unreachable!("the loop has no end of its own")
    }

    fn deliver(&mut self, now_ms: u64) -> bool {
        let mut events = false;
        let leaving: Vec<PeerId> =
            self.senders.iter().filter(|(_, s)| s.vice == Vice::Leaves(now_ms)).map(|(&id, _)| id).collect();
        for peer in leaving {
            self.senders.remove(&peer);
            self.window.leave(peer);
            events = true;
        }
        for (&peer, sender) in &mut self.senders {
            while let Some(&(block, bytes)) = sender.queue.front() {
                if sender.vice == Vice::Silent || sender.head_due_ms > now_ms {
                    break;
                }
                events = true;
                sender.queue.pop_front();
                if let Some((_, bytes)) = sender.queue.front() {
                    sender.head_due_ms = now_ms + bytes / sender.bytes_per_ms;
                }
                if sender.vice == Vice::Empty {
                    self.window.not_found(peer, &block);
                    continue;
                }
                match self.window.arrived(peer, &block, bytes, now_ms) {
                    Arrival::Wanted { height: at } => {
                        assert_eq!(at, height(&block));
                        self.here[at as usize] = true;
                    }
                    Arrival::Again | Arrival::Unasked => self.outcome.wasted += bytes,
                }
            }
        }
        events
    }

    fn obey(&mut self, now_ms: u64) {
        for action in self.window.plan(now_ms) {
            match action {
                Action::Request { peer, blocks } => {
                    assert!(blocks.is_sorted_by_key(height));
                    let sender = self.senders.get_mut(&peer).expect("requests go to peers there are");
                    for block in blocks {
                        let bytes = self.sizes[height(&block) as usize];
                        if sender.queue.is_empty() {
                            sender.head_due_ms = now_ms + sender.delay_ms + bytes / sender.bytes_per_ms;
                        }
                        sender.queue.push_back((block, bytes));
                    }
                    assert!(sender.queue.len() <= 2 * self.limits.blocks_per_peer_max);
                }
                Action::Part { peer, .. } => {
                    self.senders.remove(&peer);
                    self.outcome.parted.push(peer);
                }
            }
        }
        assert!(self.window.is_consistent());
        self.outcome.ahead_max = self.outcome.ahead_max.max(self.window.bytes_ahead());
        // The mean size is an estimate; the block validation waits for is always asked for.
        assert!(self.window.bytes_ahead() <= self.limits.bytes_ahead_max * 5 / 4 + BLOCK_BYTES_MAX);
    }
}

/// Validation that is never the bound.
const INSTANT: u64 = u64::MAX;

fn limits() -> Limits {
    Limits { bytes_ahead_max: 64 << 20, ..Limits::default() }
}

fn took_ms(senders: Vec<Sender>) -> (u64, Outcome) {
    let world = World::new(1, 1_000, senders, limits());
    let bytes = world.bytes();
    (bytes, world.run(INSTANT))
}

#[test]
fn eight_equal_peers_are_kept_busy() {
    let (bytes, outcome) = took_ms(vec![sender(2_000, Vice::None); 8]);
    let least_ms = bytes / 16_000;
    println!("{least_ms} ms at full rates, {outcome:?}");
    assert!(outcome.took_ms * 100 <= least_ms * 105, "{outcome:?}, {least_ms} ms at full rates");
    assert!(outcome.wasted * 50 <= bytes, "{outcome:?}");
    assert_eq!(outcome.parted, []);
}

#[test]
fn one_slow_peer_of_eight_costs_less_than_a_twentieth() {
    let (_, seven) = took_ms(vec![sender(2_000, Vice::None); 7]);
    for vice in [Vice::None, Vice::Silent, Vice::Empty] {
        let mut senders = vec![sender(2_000, Vice::None); 7];
        senders.insert(3, sender(20, vice));
        let (_, outcome) = took_ms(senders);
        println!("{vice:?}: {outcome:?}, seven alone {} ms", seven.took_ms);
        assert!(outcome.took_ms * 100 <= seven.took_ms * 105, "{vice:?}: {outcome:?}, {seven:?}");
        if vice != Vice::Empty {
            assert_eq!(outcome.parted, [3]);
        }
    }
}

#[test]
fn peers_of_any_rate_share_by_what_they_deliver() {
    let rates = [4_000, 2_000, 1_000, 500, 250, 3_000, 1_500, 750];
    let (bytes, outcome) = took_ms(rates.iter().map(|&rate| sender(rate, Vice::None)).collect());
    let least_ms = bytes / rates.iter().sum::<u64>();
    println!("{least_ms} ms at full rates, {outcome:?}");
    assert!(outcome.took_ms * 100 <= least_ms * 112, "{outcome:?}, {least_ms} ms at full rates");
}

#[test]
fn the_last_peer_left_brings_the_chain() {
    let mut senders: Vec<Sender> = (1..8).map(|n| sender(2_000, Vice::Leaves(n * 3_000))).collect();
    senders.push(sender(1_000, Vice::None));
    let (_, outcome) = took_ms(senders);
    assert!(outcome.took_ms > 21_000, "all others left before the end: {outcome:?}");
}

#[test]
fn a_slow_validation_is_never_idle_and_nobody_is_blamed_for_it() {
    let world = World::new(2, 1_000, vec![sender(2_000, Vice::None); 8], limits());
    let bytes = world.bytes();
    let outcome = world.run(4_000);
    let least_ms = bytes / 4_000;
    println!("{least_ms} ms of validation, {outcome:?}");
    assert!(outcome.took_ms * 100 <= least_ms * 102, "{outcome:?}, {least_ms} ms of validation");
    assert_eq!(outcome.parted, []);
    assert!(outcome.ahead_max >= limits().bytes_ahead_max * 8 / 10, "the window is used: {outcome:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| format!("{:?}", World::new(seed, 200, vec![sender(900, Vice::None); 3], limits()).run(INSTANT));
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

#[test]
fn any_world_with_one_honest_peer_ends() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let mut senders: Vec<Sender> = (0..random.below(9))
            .map(|_| {
                let vice = match random.below(5) {
                    0 => Vice::Silent,
                    1 => Vice::Empty,
                    2 => Vice::Leaves(random.below(20_000)),
                    _ => Vice::None,
                };
                sender(1 << random.below(13), vice)
            })
            .collect();
        senders.push(sender(500, Vice::None));
        let limits = Limits { bytes_ahead_max: 1 << (23 + random.below(6)), ..limits() };
        let world = World::new(seed, 100, senders, limits);
        let bytes = world.bytes();
        let outcome = world.run(INSTANT);
        // The honest peer alone takes bytes / 500 ms; nobody makes it much worse.
        assert!(outcome.took_ms <= bytes / 500 * 5 / 4 + 25_000, "seed {seed}: {outcome:?}, alone {}", bytes / 500);
    }
}

#[test]
fn headers_that_change_take_their_orders_back() {
    let mut window = Window::new(limits(), 10);
    window.join(1);
    window.has(1, 100);
    window.extend((11..=20).map(|height| (hash(height), height == 12)));
    let asked = window.plan(0);
    assert_eq!(asked, [Action::Request { peer: 1, blocks: vec![hash(11), hash(13)] }]);
    assert_eq!((window.first(), window.end(), window.orders_of(1)), (11, 21, 2));
    window.cut(13);
    // What the peer was asked for it goes on sending.
    assert_eq!((window.first(), window.end(), window.orders_of(1)), (11, 13, 2));
    // It comes back: what is still on its way is not asked for again.
    window.extend([(hash(13), false)]);
    assert_eq!((window.plan(1), window.orders_of(1)), (vec![], 2));
    assert!(window.is_consistent());
    window.cut(13);
    assert_eq!(window.arrived(1, &hash(13), 100, 5), Arrival::Unasked);
    assert_eq!(window.arrived(1, &hash(11), 100, 9), Arrival::Wanted { height: 11 });
    assert_eq!(window.arrived(1, &hash(11), 100, 9), Arrival::Again);
    window.connected(12);
    assert_eq!((window.first(), window.end(), window.bytes_ahead()), (13, 13, 0));
    // A reorganisation: validation goes on from below.
    window.cut(9);
    assert_eq!((window.first(), window.end()), (9, 9));
    assert!(window.is_consistent() && window.rate_of(1).is_some());
}

/// Blocks asked of a peer that joins where 40 blocks of a million bytes are missing, with this room.
fn asked_with(room: Room) -> usize {
    let mut window = Window::new(limits(), 0);
    window.join(1);
    window.has(1, 100);
    window.extend((1..=140).map(|height| (hash(height), false)));
    // A hundred blocks teach it the mean size, and that the peer is worth long orders.
    for step in 0..100 {
        window.plan(step * 10);
        let height = window.first();
        assert_eq!(window.arrived(1, &hash(height), 1_000_000, step * 10 + 5), Arrival::Wanted { height });
        window.connected(height);
    }
    window.leave(1);
    window.join(2);
    window.has(2, 140);
    window.set_room(room);
    window.plan(1_000);
    window.orders_of(2)
}

#[test]
fn no_more_is_asked_for_than_there_is_room_for() {
    assert_eq!(asked_with(Room::default()), 2, "a new peer gets two");
    let queue: fn(u64) -> usize = |queue_bytes| asked_with(Room { queue_bytes, ..Room::default() });
    let memory: fn(u64) -> usize = |memory_bytes| asked_with(Room { memory_bytes, ..Room::default() });
    for with in [queue, memory] {
        assert_eq!(with(2_000_000), 2);
        assert_eq!(with(1_999_999), 1);
        assert_eq!(with(0), 1, "the block validation waits for is always asked for");
    }
}

#[test]
fn a_large_block_on_a_slow_line_is_waited_for_as_long_as_it_grows() {
    /// When a peer is parted with that has one block on order, of which so many bytes come every ten seconds for a time.
    fn parted_ms(piece_bytes: u64, until_ms: u64) -> Option<u64> {
        let mut window = Window::new(limits(), 0);
        window.join(1);
        window.has(1, 1);
        window.extend([(hash(1), false)]);
        assert_eq!(window.plan(0), [Action::Request { peer: 1, blocks: vec![hash(1)] }]);
        let mut here = 0;
        for now_ms in (0..=900_000).step_by(1_000) {
            if now_ms % 10_000 == 0 && now_ms <= until_ms {
                here += piece_bytes;
                window.growing(1, here, now_ms);
            }
            let actions = window.plan(now_ms);
            if actions.iter().any(|action| matches!(action, Action::Part { why: PartReason::Silent { .. }, .. })) {
                return Some(now_ms);
            }
        }
        None
    }
    assert_eq!(parted_ms(0, 0), Some(21_000));
    assert_eq!(parted_ms(20_000, 200_000), Some(221_000), "twenty seconds after it stopped");
    assert_eq!(parted_ms(1_000, 900_000), Some(21_000), "drops are no sign of life");
    // 16 KiB in 20 seconds are enough, but not for ever.
    assert_eq!(parted_ms(9_000, 900_000), Some(621_000));
}

#[test]
fn a_new_message_begins_to_grow_anew() {
    let mut window = Window::new(limits(), 0);
    window.join(1);
    window.has(1, 1);
    window.extend([(hash(1), false)]);
    window.plan(0);
    window.growing(1, 1_000_000, 10_000);
    window.growing(1, 0, 11_000); // it is complete, and was no block
    window.growing(1, 20_000, 29_000);
    assert_eq!(window.plan(48_000), []);
    assert!(matches!(window.plan(50_000)[..], [Action::Part { why: PartReason::Silent { ms: 21_000 }, .. }, ..]));
}
