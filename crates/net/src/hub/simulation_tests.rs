//! A network of many nodes in one process: links with delays, partitions, liars, and the same run for the same seed.
//!
//! In:     a seed.
//! Out:    every honest node on the chain with most work that is valid.
//! Fails:  where one is not, or memory of headers was filled by a chain without work.
//!
//! Hubs are the program's own; chains are a few vectors. Blocks are real ones of one coinbase, so that compact blocks and
//! merkle roots are what they are in life.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use consensus::Work;
use consensus::header::{check_proof_of_work, work_of};
use primitives::hash::sha256d;
use primitives::{BlockHash, Header, Network, Params};
use stdx::random::Random;

use super::{Chain, HeadersRefusal, Hub, Judgement, Place, UploadBudget};
use crate::moment::Moment;
use crate::peer::{ConnectionKind, Local, Peer, PeerId, Permissions, Setup};
use crate::relay::NoPool;
use crate::sync::Limits;
use crate::wire::{Command, Endpoint};

/// What a node does that it should not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Vice {
    None,
    /// Has every block and serves none.
    Stalls,
    /// Serves blocks with another coinbase than the header's.
    Mutates,
    /// Mines blocks that break a rule, and believes in them.
    Invalid,
}

/// Marks a block that breaks a rule nobody sees in its header.
const INVALID_MARK: u8 = 0xbd;

fn params() -> Params {
    Params::of(Network::Regtest)
}

/// A coinbase that pays nobody; `mark` tells blocks apart.
fn coinbase(height: u32, mark: [u8; 4]) -> Vec<u8> {
    let mut tx = vec![1, 0, 0, 0, 1];
    tx.extend_from_slice(&[0; 32]);
    tx.extend_from_slice(&[0xff; 4]);
    tx.push(9);
    tx.push(4);
    tx.extend_from_slice(&height.to_le_bytes());
    tx.extend_from_slice(&mark);
    tx.extend_from_slice(&[0xff; 4]);
    tx.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x51, 0, 0, 0, 0]);
    tx
}

fn mine(parent: &Place, mark: [u8; 4]) -> (Header, Vec<u8>) {
    let tx = coinbase(parent.height + 1, mark);
    let mut header = Header {
        version: 0x2000_0000,
        previous: parent.hash,
        merkle_root: sha256d(&tx),
        time_s: parent.header.time_s + 1,
        bits: parent.header.bits,
        nonce: 0,
    };
    while check_proof_of_work(&header.hash(), header.bits, &params()).is_err() {
        header.nonce += 1;
    }
    let mut block = header.encode().to_vec();
    block.push(1);
    block.extend_from_slice(&tx);
    (header, block)
}

/// A chain of a few vectors.
struct Chains {
    vice: Vice,
    least: Work,
    places: HashMap<BlockHash, Place>,
    blocks: HashMap<BlockHash, Vec<u8>>,
    refused: HashSet<BlockHash>,
    /// The best headers by height.
    best: Vec<BlockHash>,
    tip: BlockHash,
    /// Blocks that wait for their verdict.
    waiting: VecDeque<(BlockHash, Vec<u8>)>,
    clock_s: u64,
}

impl Chains {
    fn new(vice: Vice, least: Work) -> Chains {
        let header = params().genesis;
        let hash = header.hash();
        let place = Place {
            hash,
            header,
            height: 0,
            work: work_of(header.bits),
            median_time_past_s: header.time_s,
            has_block: true,
            is_invalid: false,
        };
        Chains {
            vice,
            least,
            places: HashMap::from([(hash, place)]),
            blocks: HashMap::new(),
            refused: HashSet::new(),
            best: vec![hash],
            tip: hash,
            waiting: VecDeque::new(),
            clock_s: 0,
        }
    }

    fn place(&self, hash: &BlockHash) -> Place {
        self.places[hash]
    }

    fn add_header(&mut self, header: &Header) -> Result<(), HeadersRefusal> {
        let hash = header.hash();
        let parent = *self.places.get(&header.previous).ok_or(HeadersRefusal::UnknownParent)?;
        if self.places.contains_key(&hash) {
            return Ok(());
        }
        if parent.is_invalid {
            return Err(HeadersRefusal::KnownInvalid);
        }
        if header.time_s <= parent.median_time_past_s {
            return Err(HeadersRefusal::Invalid("time-too-old"));
        }
        let work = parent.work + work_of(header.bits);
        let place = Place {
            hash,
            header: *header,
            height: parent.height + 1,
            work,
            median_time_past_s: parent.header.time_s,
            has_block: false,
            is_invalid: false,
        };
        self.places.insert(hash, place);
        self.choose_best();
        Ok(())
    }

    /// The best valid header, ties to the first seen: the one we are on.
    fn choose_best(&mut self) {
        let current = self.place(self.best.last().unwrap());
        let better = |place: &&Place| !place.is_invalid && (current.is_invalid || place.work > current.work);
        let best = self.places.values().filter(better).max_by_key(|place| (place.work, place.hash.0));
        let Some(best) = best.copied() else { return };
        let mut path = Vec::new();
        let mut at = best;
        while self.best.get(at.height as usize) != Some(&at.hash) {
            path.push(at.hash);
            at = self.place(&at.header.previous);
        }
        self.best.truncate(at.height as usize + 1);
        self.best.extend(path.into_iter().rev());
    }

    fn add_block(&mut self, hash: BlockHash, bytes: Vec<u8>) -> Judgement {
        let place = self.place(&hash);
        if sha256d(&bytes[81..]) != place.header.merkle_root {
            return Judgement::Mutated("bad-txnmrklroot");
        }
        if self.vice != Vice::Invalid && bytes[80 + 1 + 4 + 1 + 36 + 1 + 5] == INVALID_MARK {
            self.invalidate(hash);
            return Judgement::Invalid("bad-blk-mark");
        }
        self.places.get_mut(&hash).unwrap().has_block = true;
        self.blocks.insert(hash, bytes);
        self.connect();
        Judgement::Good
    }

    fn invalidate(&mut self, hash: BlockHash) {
        self.refused.insert(hash);
        loop {
            let is_bad = |place: &Place| {
                self.refused.contains(&place.hash)
                    || self.places.get(&place.header.previous).is_some_and(|parent| parent.is_invalid)
            };
            let bad: Vec<BlockHash> = self
                .places
                .values()
                .filter(|place| !place.is_invalid && is_bad(place))
                .map(|place| place.hash)
                .collect();
            if bad.is_empty() {
                break;
            }
            bad.iter().for_each(|hash| self.places.get_mut(hash).unwrap().is_invalid = true);
        }
        self.choose_best();
    }

    /// The tip moves up the best headers as far as blocks are here.
    fn connect(&mut self) {
        let here = self.best.iter().skip(1).take_while(|hash| self.places[*hash].has_block).count();
        let candidate = self.place(&self.best[here]);
        if candidate.work > self.place(&self.tip).work || self.place(&self.tip).is_invalid {
            self.tip = candidate.hash;
        }
    }

    fn ancestor(&self, hash: &BlockHash, height: u32) -> Place {
        let mut at = self.place(hash);
        while at.height > height {
            at = self.place(&at.header.previous);
        }
        at
    }
}

impl Chain for Chains {
    fn find(&self, hash: &BlockHash) -> Option<Place> {
        self.places.get(hash).copied()
    }
    fn best_header(&self) -> Place {
        self.place(self.best.last().unwrap())
    }
    fn tip(&self) -> Place {
        self.place(&self.tip)
    }
    fn connected(&self) -> Place {
        self.tip()
    }
    fn on_best(&self, height: u32) -> Option<Place> {
        self.best.get(height as usize).map(|hash| self.place(hash))
    }
    fn common_height(&self, hash: &BlockHash) -> u32 {
        let mut at = self.place(hash);
        while self.best.get(at.height as usize) != Some(&at.hash) {
            at = self.place(&at.header.previous);
        }
        at.height
    }
    fn locator(&self, from: &BlockHash) -> Vec<BlockHash> {
        let (mut out, mut at, mut step) = (Vec::new(), self.place(from), 1);
        loop {
            out.push(at.hash);
            if at.height == 0 {
                return out;
            }
            step = if out.len() > 10 { step * 2 } else { 1 };
            at = self.ancestor(&at.hash, at.height.saturating_sub(step));
        }
    }
    fn headers_after(&self, locator: &[BlockHash], stop: &BlockHash, count: usize) -> Vec<Header> {
        let tip = self.tip();
        let active = |hash: &&BlockHash| {
            self.find(hash).is_some_and(|place| {
                place.height <= tip.height && self.ancestor(&tip.hash, place.height).hash == place.hash
            })
        };
        let from = locator.iter().find(active).map_or(0, |hash| self.place(hash).height);
        let mut out = Vec::new();
        let (mut at, lowest) = (self.ancestor(&tip.hash, from + count as u32), from);
        while at.height > lowest {
            out.push(at.header);
            at = self.place(&at.header.previous);
        }
        out.reverse();
        let end = out.iter().position(|header| header.hash() == *stop).map_or(out.len(), |at| at + 1);
        out.truncate(end);
        out
    }
    fn may_serve(&self, _: &BlockHash) -> bool {
        true
    }
    fn block(&self, hash: &BlockHash) -> Option<Vec<u8>> {
        let mut bytes = self.blocks.get(hash).filter(|_| self.vice != Vice::Stalls)?.clone();
        if self.vice == Vice::Mutates {
            *bytes.last_mut().unwrap() ^= 1;
        }
        Some(bytes)
    }
    fn enough_work(&self) -> Work {
        self.least
    }
    fn is_initial_download(&self) -> bool {
        self.tip().work < self.least
    }
    fn take_headers(&mut self, headers: &[Header]) -> Result<(), HeadersRefusal> {
        headers.iter().try_for_each(|header| self.add_header(header))
    }
    fn take_block(&mut self, _: PeerId, hash: BlockHash, bytes: Vec<u8>) -> bool {
        self.waiting.push_back((hash, bytes));
        true
    }
}

/// Bytes on their way: from whom to whom, when they are there.
struct Link {
    ends: [(usize, PeerId); 2],
    delay: Duration,
    /// To the second end and to the first.
    queues: [VecDeque<(Duration, Vec<u8>)>; 2],
    open: bool,
}

struct World {
    random: Random,
    now: Moment,
    nodes: Vec<Hub<Chains>>,
    links: Vec<Link>,
    /// Nodes of different sides do not hear each other.
    sides: Vec<u8>,
    next_peer: u64,
}

const STEP: Duration = Duration::from_millis(20);

impl World {
    fn new(seed: u64, vices: &[Vice], least: Work) -> World {
        let mut random = Random::new(seed);
        let params = Arc::new(params());
        let start = Moment { monotonic: Duration::from_secs(1), unix_s: u64::from(params.genesis.time_s) + 100_000 };
        let mut nodes = Vec::new();
        for vice in vices {
            let local = Arc::new(Local::new(params.magic, &mut random));
            let limits = Limits { silence_ms_max: 5_000, ..Limits::default() };
            let budget = UploadBudget::new(None);
            nodes.push(Hub::new(
                Chains::new(*vice, least),
                params.clone(),
                local,
                limits,
                budget,
                Box::new(NoPool),
                &mut random,
            ));
        }
        let sides = vec![0; nodes.len()];
        World { random, now: start, nodes, links: Vec::new(), sides, next_peer: 1 }
    }

    fn connect(&mut self, from: usize, to: usize) {
        let end = |world: &mut World, node: usize, kind| {
            let id = PeerId(world.next_peer);
            world.next_peer += 1;
            let setup = Setup {
                id,
                kind,
                remote: Endpoint::NONE,
                told_remote: Endpoint::NONE,
                permissions: Permissions::NONE,
                encrypted: false,
            };
            world.nodes[node].connect(setup, world.now, &mut world.random);
            (node, id)
        };
        let ends = [end(self, from, ConnectionKind::OutboundFull), end(self, to, ConnectionKind::Inbound)];
        let delay = Duration::from_millis(5 + self.random.below(200));
        self.links.push(Link { ends, delay, queues: Default::default(), open: true });
    }

    /// Every node gets eight outbound links to others.
    fn connect_all(&mut self, links: usize) {
        for node in 0..self.nodes.len() {
            for _ in 0..links {
                let other = self.random.below(self.nodes.len() as u64) as usize;
                if other != node {
                    self.connect(node, other);
                }
            }
        }
    }

    fn mine_at(&mut self, node: usize, count: u32) {
        for _ in 0..count {
            let chain = self.nodes[node].chain_mut();
            let mut mark: [u8; 4] = self.random.bytes();
            mark[0] = if chain.vice == Vice::Invalid { INVALID_MARK } else { mark[0] & 0x7f };
            let (header, block) = mine(&chain.tip(), mark);
            chain.add_header(&header).unwrap();
            assert_eq!(chain.add_block(header.hash(), block), Judgement::Good);
        }
    }

    fn run(&mut self, seconds: u64) {
        let end = self.now.after(Duration::from_secs(seconds));
        while self.now < end {
            self.step();
        }
    }

    fn step(&mut self) {
        self.now = self.now.after(STEP);
        self.now.unix_s = u64::from(params().genesis.time_s) + 100_000 + self.now.monotonic.as_secs();
        let now = self.now;
        for node in &mut self.nodes {
            node.chain_mut().clock_s = now.unix_s;
            node.tick(now, &mut self.random);
            // The verdict on a block comes a while after the block.
            while let Some((hash, bytes)) = node.chain_mut().waiting.pop_front() {
                let judgement = node.chain_mut().add_block(hash, bytes);
                node.judged(&hash, judgement, now);
            }
        }
        for link in self.links.iter_mut().filter(|link| link.open) {
            let parted = self.sides[link.ends[0].0] != self.sides[link.ends[1].0];
            for direction in 0..2 {
                let ((from, from_id), (to, to_id)) = (link.ends[direction], link.ends[1 - direction]);
                let bytes = self.nodes[from].output(from_id).to_vec();
                if !bytes.is_empty() {
                    self.nodes[from].sent(from_id, bytes.len(), now);
                    link.queues[direction].push_back((now.monotonic + link.delay, bytes));
                }
                while !parted && link.queues[direction].front().is_some_and(|(due, _)| *due <= now.monotonic) {
                    let (_, bytes) = link.queues[direction].pop_front().unwrap();
                    self.nodes[to].receive(to_id, &bytes, now, &mut self.random);
                }
            }
        }
        self.close_gone();
    }

    /// A connection one side is done with is over for the other too; whoever chose it chooses another.
    fn close_gone(&mut self) {
        let mut lonely = Vec::new();
        for node in 0..self.nodes.len() {
            for gone in self.nodes[node].take_gone() {
                let end = (node, gone.id);
                let Some(link) = self.links.iter_mut().find(|link| link.open && link.ends.contains(&end)) else {
                    continue;
                };
                link.open = false;
                let other = link.ends[usize::from(link.ends[0] == end)];
                self.nodes[other.0].disconnected(other.1, self.now);
                lonely.push(link.ends[0].0);
            }
        }
        for node in lonely {
            let other = self.random.below(self.nodes.len() as u64) as usize;
            if other != node {
                self.connect(node, other);
            }
        }
        self.links.retain(|link| link.open);
    }

    fn honest(&self) -> impl Iterator<Item = &Chains> {
        self.nodes.iter().map(Hub::chain).filter(|chain| chain.vice == Vice::None)
    }

    #[track_caller]
    fn assert_agreed(&self, height: u32) {
        let tips: Vec<Place> = self.honest().map(|chain| chain.tip()).collect();
        let heights: Vec<u32> = tips.iter().map(|tip| tip.height).collect();
        assert!(tips.iter().all(|tip| tip.hash == tips[0].hash), "heights {heights:?}");
        assert_eq!(tips[0].height, height);
    }
}

fn work(count: u32) -> Work {
    (0..=count).map(|_| work_of(params().genesis.bits)).sum()
}

#[test]
fn fifty_nodes_agree_after_a_partition() {
    let mut world = World::new(1, &[Vice::None; 50], Work::ZERO);
    world.mine_at(0, 150);
    world.connect_all(4);
    world.run(20);
    world.assert_agreed(150);
    for node in 0..50 {
        world.sides[node] = (node % 2) as u8;
    }
    for _ in 0..6 {
        world.mine_at(4, 2);
        world.mine_at(7, 1);
        world.run(3);
    }
    let heights: HashSet<u32> = world.honest().map(|chain| chain.tip().height).collect();
    assert_eq!(heights, HashSet::from([162, 156]), "each half has its own chain");
    world.sides = vec![0; 50];
    world.mine_at(4, 1);
    world.run(15);
    world.assert_agreed(163);
}

#[test]
fn liars_and_stallers_cost_time_and_nothing_else() {
    for seed in 0..3 {
        let mut vices = vec![Vice::None; 12];
        vices.extend([Vice::Stalls; 6]);
        vices.extend([Vice::Mutates; 6]);
        vices.extend([Vice::Invalid; 6]);
        let mut world = World::new(10 + seed, &vices, Work::ZERO);
        world.mine_at(0, 80);
        world.connect_all(6);
        world.run(30);
        // The invalid chain has more work than the honest one.
        world.mine_at(29, 10);
        world.mine_at(3, 5);
        world.run(90);
        world.assert_agreed(85);
    }
}

#[test]
fn one_honest_peer_among_stallers_is_enough() {
    let mut vices = vec![Vice::Stalls; 10];
    vices.extend([Vice::None; 2]);
    let mut world = World::new(5, &vices, Work::ZERO);
    world.mine_at(11, 300);
    // The stallers have the headers too, and every block.
    let (headers, blocks) = (world.nodes[11].chain().best.clone(), world.nodes[11].chain().blocks.clone());
    for node in 0..10 {
        let chain = world.nodes[11].chain();
        let run: Vec<Header> = headers[1..].iter().map(|hash| chain.place(hash).header).collect();
        let staller = world.nodes[node].chain_mut();
        staller.take_headers(&run).unwrap();
        for header in &run {
            staller.add_block(header.hash(), blocks[&header.hash()].clone());
        }
        world.connect(10, node);
    }
    world.connect(10, 11);
    world.run(60);
    world.assert_agreed(300);
}

#[test]
fn all_are_asked_for_the_headers_of_a_chain_whose_end_is_old() {
    let mut world = World::new(9, &[Vice::None; 4], Work::ZERO);
    world.mine_at(3, 400);
    let (best, blocks) = (world.nodes[3].chain().best.clone(), world.nodes[3].chain().blocks.clone());
    let headers: Vec<Header> = best[1..].iter().map(|hash| world.nodes[3].chain().place(hash).header).collect();
    for node in [1, 2] {
        let chain = world.nodes[node].chain_mut();
        chain.take_headers(&headers).unwrap();
        for hash in &best[1..] {
            assert_eq!(chain.add_block(*hash, blocks[hash].clone()), Judgement::Good);
        }
    }
    (1..4).for_each(|node| world.connect(0, node));
    world.run(20);
    assert_eq!(world.nodes[0].chain().tip().height, 400);
    let ids: Vec<PeerId> = world.nodes[0].peers().map(Peer::id).collect();
    let known: Vec<Option<u32>> = ids.iter().map(|id| world.nodes[0].synced_headers(*id)).collect();
    assert_eq!(known, [Some(400); 3], "all were asked, and may be asked for blocks");
}

#[test]
fn those_with_nothing_worth_having_are_asked_once() {
    let mut world = World::new(11, &[Vice::None; 3], work(2_500));
    world.mine_at(0, 5);
    world.mine_at(1, 7);
    (0..2).for_each(|node| world.connect(2, node));
    world.run(30);
    let asked = |peer: &Peer| peer.statistics().sent.by_message.get(&Some(Command::GETHEADERS)).copied().unwrap_or(0);
    let asked: Vec<u64> = world.nodes[2].peers().map(asked).collect();
    // One question has a frame of 24 bytes, a locator of one hash, and the hash to stop at.
    assert_eq!(asked, [24 + 4 + 1 + 32 + 32; 2]);
}

#[test]
fn chains_without_work_fill_no_memory() {
    let least = work(2_500);
    let mut world = World::new(6, &[Vice::None, Vice::None, Vice::None], least);
    world.mine_at(0, 2_400); // not enough work
    world.connect(2, 0);
    world.run(10);
    assert_eq!(world.nodes[2].chain().places.len(), 1, "nothing is kept of it");
    assert_eq!(world.nodes[2].peers().count(), 1, "and nobody is blamed: the peer may be behind");
    world.mine_at(1, 2_600);
    world.connect(2, 1);
    world.run(30);
    assert_eq!(world.nodes[2].chain().tip().height, 2_600);
    assert_eq!(world.nodes[2].chain().places.len(), 2_601);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut world = World::new(seed, &[Vice::None; 8], Work::ZERO);
        world.mine_at(0, 30);
        world.connect_all(3);
        world.run(4);
        let sent = |hub: &Hub<Chains>| hub.peers().map(|peer| peer.statistics().sent.bytes).collect::<Vec<u64>>();
        world.nodes.iter().map(sent).collect::<Vec<_>>()
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}
