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
use std::sync::mpsc::Receiver;
use std::time::Duration;

use chain::mempool::{Base, Event, Joined, Mempool, SharedMempool};
use chain::policy::Policy;
use chain::{Tip, ViewError};
use consensus::Work;
use consensus::header::{check_proof_of_work, work_of};
use primitives::hash::{merkle_root, sha256};
use primitives::{Block, BlockHash, Header, Network, OutPoint, Params, Transaction, Txid};
use sigs::EngineName;
use stdx::random::Random;
use store::CoinBuf;

use crate::hub::{Chain, HeadersRefusal, Hub, Judgement, Place, UploadBudget};
use crate::moment::Moment;
use crate::peer::{ConnectionKind, Local, Peer, PeerId, Permissions, Setup};
use crate::relay::{TxJob, judge, tx_ids};
use crate::sync::Limits;
use crate::wire::{Command, Endpoint};

/// What a node does that it should not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vice {
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

pub(crate) fn params() -> Params {
    Params::of(Network::Regtest)
}

/// A coinbase that pays nobody; `mark` tells blocks apart.
fn coinbase(height: u32, mark: [u8; 4]) -> Vec<u8> {
    let mut tx = vec![1, 0, 0, 0, 1];
    tx.extend_from_slice(&[0; 32]);
    tx.extend_from_slice(&[0xff; 4]);
    let script = [consensus::block::height_push(height), mark.to_vec()].concat();
    tx.push(script.len() as u8);
    tx.extend_from_slice(&script);
    tx.extend_from_slice(&[0xff; 4]);
    tx.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x51, 0, 0, 0, 0]);
    tx
}

/// Root of a block's transactions; none of bytes that are no block.
fn root_of(bytes: &[u8]) -> Option<[u8; 32]> {
    let block = Block::parse(bytes).ok()?;
    let txids: Vec<[u8; 32]> = block.txs().map(|tx| tx.txid().0).collect();
    Some(merkle_root(&txids).0)
}

pub(crate) fn mine(parent: &Place, mark: [u8; 4], txs: &[Transaction]) -> (Header, Vec<u8>) {
    let mut body = Vec::new();
    primitives::encode::put_compact_size(&mut body, txs.len() as u64 + 1);
    body.extend_from_slice(&coinbase(parent.height + 1, mark));
    txs.iter().for_each(|tx| body.extend_from_slice(tx.tx().raw()));
    let root = root_of(&[&[0; 80][..], &body].concat()).unwrap();
    let mut header = Header {
        version: 0x2000_0000,
        previous: parent.hash,
        merkle_root: root,
        time_s: parent.header.time_s + 1,
        bits: parent.header.bits,
        nonce: 0,
    };
    while check_proof_of_work(&header.hash(), header.bits, &params()).is_err() {
        header.nonce += 1;
    }
    (header, [&header.encode()[..], &body].concat())
}

/// A chain of a few vectors.
pub(crate) struct Chains {
    vice: Vice,
    pub(crate) least: Work,
    places: HashMap<BlockHash, Place>,
    blocks: HashMap<BlockHash, Vec<u8>>,
    refused: HashSet<BlockHash>,
    /// The best headers by height.
    best: Vec<BlockHash>,
    tip: BlockHash,
    /// Blocks that wait for their verdict.
    pub(crate) waiting: VecDeque<(BlockHash, Vec<u8>)>,
    /// Blocks that are connected and not shown yet; filled by hand.
    pub(crate) unshown: HashSet<BlockHash>,
    clock_s: u64,
}

impl Chains {
    pub(crate) fn new(vice: Vice, least: Work) -> Chains {
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
            unshown: HashSet::new(),
            clock_s: 0,
        }
    }

    pub(crate) fn place(&self, hash: &BlockHash) -> Place {
        self.places[hash]
    }

    pub(crate) fn add_header(&mut self, header: &Header) -> Result<(), HeadersRefusal> {
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

    pub(crate) fn add_block(&mut self, hash: BlockHash, bytes: Vec<u8>) -> Judgement {
        let place = self.place(&hash);
        if root_of(&bytes) != Some(place.header.merkle_root) {
            return Judgement::Mutated("bad-txnmrklroot");
        }
        let block = Block::parse(bytes.clone()).unwrap();
        // The mark is the script's last four bytes.
        let is_marked = block.tx(0).input(0).script_sig().iter().rev().nth(3) == Some(&INVALID_MARK);
        if self.vice != Vice::Invalid && is_marked {
            self.invalidate(hash);
            self.connect(); // blocks of the branch that is best now may be here
            return Judgement::Invalid("bad-blk-mark");
        }
        self.places.get_mut(&hash).unwrap().has_block = true;
        self.blocks.insert(hash, bytes);
        self.connect();
        // The block of the best header may be held back: another of as much work is the tip then.
        let added = self.place(&hash);
        if added.work > self.place(&self.tip).work && self.is_whole(&added) {
            self.tip = hash;
        }
        Judgement::Good
    }

    fn is_whole(&self, place: &Place) -> bool {
        let mut at = *place;
        while at.has_block && !at.is_invalid && at.height > 0 {
            at = self.place(&at.header.previous);
        }
        at.height == 0
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

    fn ancestor_of(&self, hash: &BlockHash, height: u32) -> Place {
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
    fn ancestor(&self, hash: &BlockHash, height: u32) -> Option<Place> {
        self.find(hash).filter(|place| place.height >= height).map(|_| self.ancestor_of(hash, height))
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
            at = self.ancestor_of(&at.hash, at.height.saturating_sub(step));
        }
    }
    fn headers_after(&self, locator: &[BlockHash], stop: &BlockHash, count: usize) -> Vec<Header> {
        let tip = self.tip();
        let active = |hash: &&BlockHash| {
            self.find(hash).is_some_and(|place| {
                place.height <= tip.height && self.ancestor_of(&tip.hash, place.height).hash == place.hash
            })
        };
        let from = locator.iter().find(active).map_or(0, |hash| self.place(hash).height);
        let mut out = Vec::new();
        let (mut at, lowest) = (self.ancestor_of(&tip.hash, from + count as u32), from);
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
    fn show(&mut self, hash: &BlockHash) -> bool {
        self.unshown.contains(hash)
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

/// Coins of a chain.
#[derive(Clone)]
pub(crate) struct Ledger {
    coins: HashMap<OutPoint, CoinBuf>,
    tip: Tip,
}

/// Pay to anchor: standard, and anyone may spend it without a signature.
pub(crate) const ANCHOR: [u8; 4] = [0x51, 0x02, 0x4e, 0x73];
/// Coins that are there from the start, and what each is worth.
const COINS: u32 = 400;
pub(crate) const COIN_SAT: i64 = 100_000;

/// One of the coins that are there from the start.
pub(crate) fn coin(number: u32) -> OutPoint {
    OutPoint { txid: Txid(sha256(&number.to_le_bytes())), vout: 0 }
}

impl Ledger {
    pub(crate) fn new(coins: u32) -> Ledger {
        let value_sat = COIN_SAT as u64;
        let first = |_| CoinBuf { value_sat, height: 0, coinbase: false, txo_num: 0, script: ANCHOR.to_vec() };
        let tip = Tip { height: 0, hash: params().genesis_hash };
        Ledger { coins: (0..coins).map(|number| (coin(number), first(number))).collect(), tip }
    }

    /// The coins at a block.
    fn at(chain: &Chains, hash: &BlockHash) -> Ledger {
        let (mut path, mut at) = (Vec::new(), chain.place(hash));
        while at.height > 0 {
            // One transaction is the coinbase, which pays nobody.
            path.extend(chain.blocks.get(&at.hash).filter(|bytes| bytes[80] > 1).map(|bytes| (at.height, bytes)));
            at = chain.place(&at.header.previous);
        }
        let mut ledger = Ledger::new(COINS);
        for (height, bytes) in path.into_iter().rev() {
            let block = Block::parse(bytes.clone()).unwrap();
            for tx in block.txs() {
                tx.inputs().for_each(|input| {
                    ledger.coins.remove(&input.outpoint());
                });
                let (txid, outputs) = (tx.txid(), tx.outputs().enumerate());
                for (vout, output) in outputs.filter(|(_, output)| output.script == ANCHOR) {
                    let (value_sat, script) = (output.value_sat as u64, output.script.to_vec());
                    let coin = CoinBuf { value_sat, height, coinbase: false, txo_num: 0, script };
                    ledger.coins.insert(OutPoint { txid, vout: vout as u32 }, coin);
                }
            }
        }
        ledger.tip = Tip { height: chain.place(hash).height, hash: *hash };
        ledger
    }
}

impl Base for Ledger {
    fn tip(&self) -> Tip {
        self.tip
    }
    fn params(&self) -> &Params {
        static PARAMS: std::sync::OnceLock<Params> = std::sync::OnceLock::new();
        PARAMS.get_or_init(params)
    }
    fn coin(&self, outpoint: &OutPoint) -> Result<Option<CoinBuf>, ViewError> {
        Ok(self.coins.get(outpoint).cloned())
    }
    fn median_time_past_s(&self, _: u32) -> Result<u32, ViewError> {
        Ok(params().genesis.time_s)
    }
}

/// An empty mempool on so many coins.
pub(crate) fn pool(coins: u32) -> SharedMempool {
    let engine = sigs::engine(EngineName::Scalar).unwrap();
    SharedMempool::new(Mempool::new(Policy::default(), Arc::new(Ledger::new(coins)), engine, [7; 16]))
}

/// Spends to anchors of these amounts, and to an empty OP_RETURN so that it is large enough to be standard.
pub(crate) fn pay(inputs: &[OutPoint], outputs_sat: &[i64]) -> Transaction {
    let mut tx = vec![2, 0, 0, 0, inputs.len() as u8];
    for input in inputs {
        tx.extend_from_slice(&input.encode());
        tx.extend_from_slice(&[0, 0xfd, 0xff, 0xff, 0xff]);
    }
    tx.push(outputs_sat.len() as u8 + 1);
    for value_sat in outputs_sat {
        tx.extend_from_slice(&value_sat.to_le_bytes());
        tx.push(4);
        tx.extend_from_slice(&ANCHOR);
    }
    tx.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 1, 0x6a, 0, 0, 0, 0]);
    Transaction::parse(tx).unwrap()
}

/// The mempool of a node, and what is on its way between it and the hub.
pub(crate) struct Side {
    pub pool: SharedMempool,
    events: Receiver<Event>,
    /// The block it stands on.
    tip: BlockHash,
    /// Transactions that are being judged, and when that is done.
    lot: Option<(Duration, Vec<TxJob>)>,
}

pub(crate) struct World {
    pub(crate) random: Random,
    pub(crate) now: Moment,
    pub(crate) nodes: Vec<Hub<Chains>>,
    pub(crate) pools: Vec<Side>,
    links: Vec<Link>,
    /// Nodes of different sides do not hear each other.
    pub(crate) sides: Vec<u8>,
    next_peer: u64,
}

const STEP: Duration = Duration::from_millis(20);

impl World {
    pub(crate) fn new(seed: u64, vices: &[Vice], least: Work) -> World {
        let mut random = Random::new(seed);
        let params = Arc::new(params());
        let start = Moment { monotonic: Duration::from_secs(1), unix_s: u64::from(params.genesis.time_s) + 100_000 };
        let (mut nodes, mut pools) = (Vec::new(), Vec::new());
        for vice in vices {
            let local = Arc::new(Local::new(params.magic, &mut random));
            let limits = Limits { silence_ms_max: 5_000, ..Limits::default() };
            let budget = UploadBudget::new(None);
            let pool = pool(COINS);
            let events = pool.write().subscribe();
            pools.push(Side { pool: pool.clone(), events, tip: params.genesis_hash, lot: None });
            nodes.push(Hub::new(
                Chains::new(*vice, least),
                params.clone(),
                local,
                limits,
                budget,
                Box::new(pool),
                &mut random,
            ));
        }
        let sides = vec![0; nodes.len()];
        World { random, now: start, nodes, pools, links: Vec::new(), sides, next_peer: 1 }
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
    pub(crate) fn connect_all(&mut self, links: usize) {
        for node in 0..self.nodes.len() {
            for _ in 0..links {
                let other = self.random.below(self.nodes.len() as u64) as usize;
                if other != node {
                    self.connect(node, other);
                }
            }
        }
    }

    pub(crate) fn mine_at(&mut self, node: usize, count: u32) {
        for _ in 0..count {
            let chain = self.nodes[node].chain_mut();
            let mut mark: [u8; 4] = self.random.bytes();
            mark[0] = if chain.vice == Vice::Invalid { INVALID_MARK } else { mark[0] & 0x7f };
            let entries: Vec<Transaction> = match chain.tip().hash == self.pools[node].tip {
                true => self.pools[node].pool.read().entries().map(|entry| entry.transaction.clone()).collect(),
                false => Vec::new(),
            };
            let (header, block) = mine(&chain.tip(), mark, &entries);
            chain.add_header(&header).unwrap();
            assert_eq!(chain.add_block(header.hash(), block), Judgement::Good);
        }
    }

    pub(crate) fn run(&mut self, seconds: u64) {
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
        (0..self.nodes.len()).for_each(|node| self.step_pool(node));
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

    /// What the threads of the program do: the mempool follows the chain, the hub hears of both, transactions are judged.
    fn step_pool(&mut self, index: usize) {
        let (node, side, now) = (&mut self.nodes[index], &mut self.pools[index], self.now);
        let tip = node.chain().tip;
        if side.tip != tip {
            follow(node, side, now);
        }
        side.events.try_iter().for_each(|event| node.pool_changed(&event, now));
        if side.lot.as_ref().is_some_and(|(due, _)| *due <= now.monotonic) {
            let (_, jobs) = side.lot.take().unwrap();
            node.txs_judged(judge(&side.pool, jobs, now.unix_s), now);
        }
        if side.lot.is_none() && node.has_tx_jobs() {
            let wait = Duration::from_millis(self.random.below(100));
            side.lot = Some((now.monotonic + wait, node.take_tx_jobs()));
        }
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
    pub(crate) fn assert_agreed(&self, height: u32) {
        let tips: Vec<Place> = self.honest().map(|chain| chain.tip()).collect();
        let heights: Vec<u32> = tips.iter().map(|tip| tip.height).collect();
        assert!(tips.iter().all(|tip| tip.hash == tips[0].hash), "heights {heights:?}");
        assert_eq!(tips[0].height, height);
    }
}

/// The mempool follows its node's chain to the tip.
fn follow(node: &mut Hub<Chains>, side: &mut Side, now: Moment) {
    let (mut disconnected, mut connected) = (Vec::new(), Vec::new());
    let (mut from, mut to) = (node.chain().place(&side.tip), node.chain().tip());
    let block = |node: &Hub<Chains>, place: &Place| Block::parse(node.chain().blocks[&place.hash].clone()).unwrap();
    while from.hash != to.hash {
        if to.height >= from.height {
            connected.push((to, block(node, &to)));
            to = node.chain().place(&to.header.previous);
        } else {
            disconnected.push(block(node, &from));
            from = node.chain().place(&from.header.previous);
        }
    }
    side.tip = node.chain().tip;
    let base = Arc::new(Ledger::at(node.chain(), &side.tip));
    if !disconnected.is_empty() {
        let fork = Arc::new(Ledger::at(node.chain(), &to.hash));
        side.pool.blocks_disconnected(&disconnected, fork, now.unix_s, &mut || None);
        node.block_disconnected(now);
    }
    for (place, block) in connected.iter().rev() {
        let ids = tx_ids(block);
        let txids: Vec<Txid> = ids.iter().map(|(txid, _)| *txid).collect();
        let joined = Joined { tip: Tip { height: place.height, hash: place.hash }, block, txids: &txids };
        side.pool.write().block_connected(&joined, base.clone(), now.unix_s);
        node.block_connected(block, &ids, now);
    }
    node.chain_changed(now);
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
fn a_branch_longer_than_the_window_is_left() {
    let mut world = World::new(13, &[Vice::None; 2], Work::ZERO);
    let ahead_max = crate::sync::Limits::default().blocks_ahead_max as u32;
    world.mine_at(0, ahead_max + 4);
    world.mine_at(1, ahead_max + 6);
    world.connect(0, 1);
    world.run(60);
    world.assert_agreed(ahead_max + 6);
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
    let known: Vec<Option<u32>> = ids.iter().map(|id| world.nodes[0].report(*id).synced_headers).collect();
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
