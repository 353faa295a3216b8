//! Every header we know, as a tree; the best header, and the best tip whose blocks are all there.
//!
//! In:     headers, alone or with the place of their block, in any order.
//! Out:    nodes in order of their heights, ancestors in logarithmic time, the best valid tip.
//! Fails:  with the rule that a header breaks; nothing is kept of it.
//! Source: Core's `CBlockIndex` (skip pointers: `GetSkipHeight`), `ChainstateManager::AcceptBlockHeader`; of tips with
//!         equal work the one seen first stays (Core's `CBlockIndexWorkComparator`).
//!
//! A node takes 128 bytes and 5 to 11 bytes in the table of hashes: 125 MB for mainnet's 900,000 headers.

mod judge;
mod table;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::HashMap;

use consensus::header::{self, Ancestry};
use consensus::{HeaderError, Work};
use primitives::{BlockHash, Header, Params};
use store::blockfiles::Position;

pub use judge::TipKind;
use table::Table;

/// A header's place in the tree; the genesis header is 0, and a parent's number is below its children's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    /// The genesis header.
    pub const GENESIS: NodeId = NodeId(0);
}

/// A header, and where its block is.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The header.
    pub header: Header,
    /// Where the bytes of its block are; none where they are in no file.
    pub position: Option<Position>,
}

/// Stands for "in no file".
const NO_POSITION: Position = Position { file: 0, offset: 0, size: 0 };

/// Its own block was refused.
const REFUSED: u8 = 1;
/// It or an ancestor was refused.
const INVALID: u8 = 1 << 1;
/// Its block and those of all its ancestors are in files.
const LINKED: u8 = 1 << 2;
/// Its block was connected since the start.
const CONNECTED: u8 = 1 << 3;

struct Node {
    hash: BlockHash,
    merkle_root: [u8; 32],
    /// Of the whole chain. Work is a number of hashes that somebody computed: 2^128 are out of reach, and a tree in
    /// which headers claim more stops counting there.
    work: [u64; 2],
    version: i32,
    time_s: u32,
    bits: u32,
    nonce: u32,
    parent: u32,
    skip: u32,
    height: u32,
    /// Order in which nodes were linked; lower comes first among tips of equal work.
    sequence: i32,
    position: Position,
    marks: u8,
}

const _: () = assert!(std::mem::size_of::<Node>() == 128);

/// What became of a header.
#[derive(Debug)]
pub enum Inserted {
    /// It is in the tree.
    Added,
    /// It was there before.
    Known,
    /// Its parent is unknown; it waits.
    Waiting,
    /// Its time is more than two hours ahead of ours; it waits for the clock.
    Early,
    /// It breaks a rule.
    Refused,
}

/// Headers waiting for a parent or for the clock at most, so that a folder of foreign blocks costs bounded memory
/// (about 130 bytes each).
const WAITING_MAX: usize = 2_000_000;

/// The tree.
pub struct HeaderTree {
    params: Params,
    nodes: Vec<Node>,
    table: Table,
    waiting: HashMap<BlockHash, Vec<Seen>>,
    waiting_count: usize,
    early: Vec<Seen>,
    /// Other places of blocks that are in the files more than once.
    copies: HashMap<u32, Vec<Position>>,
    /// Blocks that could not be read, or were not what their headers promise, and where.
    damaged: Vec<(u32, Position)>,
    /// Nodes with blocks whose parent is not linked, by that parent.
    unlinked: HashMap<u32, Vec<u32>>,
    /// Work of the bits seen last.
    work_of_bits: (u32, u128),
    best: u32,
    best_header: u32,
    /// Tip of the last commit.
    active: u32,
    /// The last block connected.
    connected: u32,
    next_sequence: i32,
    next_preferred: i32,
    /// Work of the tip at the last [`HeaderTree::prefer`].
    preferred_work: [u64; 2],
}

/// The branch that ends in one node, as the rules read it.
pub struct Branch<'a> {
    tree: &'a HeaderTree,
    tip: NodeId,
    /// The node asked for last: rules walk down step by step, so the next one is its parent.
    last: Cell<NodeId>,
}

impl Ancestry for Branch<'_> {
    fn header(&self, height: u32) -> Header {
        let last = self.last.get();
        let from = if self.tree.height(last) >= height { last } else { self.tip };
        let id = self.tree.ancestor(from, height).expect("rules ask for ancestors only");
        self.last.set(id);
        self.tree.header(id)
    }
}

impl HeaderTree {
    /// A tree of the genesis header alone.
    pub fn new(params: &Params) -> HeaderTree {
        let genesis = params.genesis;
        let work = narrow(header::work_of(genesis.bits));
        let node = Node {
            hash: params.genesis_hash,
            merkle_root: genesis.merkle_root,
            work: halves(work),
            version: genesis.version,
            time_s: genesis.time_s,
            bits: genesis.bits,
            nonce: genesis.nonce,
            parent: 0,
            skip: 0,
            height: 0,
            sequence: 0,
            position: NO_POSITION,
            marks: LINKED | CONNECTED,
        };
        let mut table = Table::new();
        table.insert(0, |_| params.genesis_hash);
        HeaderTree {
            params: params.clone(),
            nodes: vec![node],
            table,
            waiting: HashMap::new(),
            waiting_count: 0,
            early: Vec::new(),
            copies: HashMap::new(),
            damaged: Vec::new(),
            unlinked: HashMap::new(),
            work_of_bits: (genesis.bits, work),
            best: 0,
            best_header: 0,
            active: 0,
            connected: 0,
            next_sequence: 1,
            next_preferred: -1,
            preferred_work: [0; 2],
        }
    }

    /// Adds a header, and those that waited for it.
    pub fn insert(&mut self, seen: Seen, now_s: u64) -> Inserted {
        let hash = seen.header.hash();
        let outcome = self.insert_one(seen, hash, now_s);
        if let Inserted::Added = outcome {
            let mut parents = vec![hash];
            while let Some(parent) = parents.pop() {
                for child in self.waiting.remove(&parent).unwrap_or_default() {
                    self.waiting_count -= 1;
                    let child_hash = child.header.hash();
                    if let Inserted::Added = self.insert_one(child, child_hash, now_s) {
                        parents.push(child_hash);
                    }
                }
            }
        }
        outcome
    }

    fn insert_one(&mut self, seen: Seen, hash: BlockHash, now_s: u64) -> Inserted {
        if let Some(id) = self.find(&hash) {
            if let Some(position) = seen.position {
                self.add_block(id, position);
            }
            return Inserted::Known;
        }
        let Some(parent) = self.find(&seen.header.previous) else {
            if self.waiting_count < WAITING_MAX {
                self.waiting_count += 1;
                self.waiting.entry(seen.header.previous).or_default().push(seen);
            }
            return Inserted::Waiting;
        };
        let (height, branch) = (self.height(parent) + 1, self.branch(parent));
        match header::check(&seen.header, height, &branch, now_s, &self.params) {
            Ok(()) => {}
            Err(HeaderError::TimeTooNew { .. }) => {
                if self.early.len() < WAITING_MAX {
                    self.early.push(seen);
                }
                return Inserted::Early;
            }
            Err(_) => return Inserted::Refused,
        }
        let id = self.append(&seen.header, hash, parent);
        if let Some(position) = seen.position {
            self.add_block(id, position);
        }
        Inserted::Added
    }

    /// Adds a header whose parent is `parent`, after judging it by every rule; its hash has been computed already.
    pub fn add_header(
        &mut self,
        header: &Header,
        hash: BlockHash,
        parent: NodeId,
        now_s: u64,
    ) -> Result<NodeId, HeaderError> {
        let branch = self.branch(parent);
        header::check_proof_of_work(&hash, header.bits, &self.params)?;
        header::check_contextual(header, self.height(parent) + 1, &branch, now_s, &self.params)?;
        Ok(self.append(header, hash, parent))
    }

    fn append(&mut self, header: &Header, hash: BlockHash, parent: NodeId) -> NodeId {
        let id = u32::try_from(self.nodes.len()).expect("fewer than 2^32 headers fit into memory");
        // Bits change once in 2,016 blocks, and work is a long division.
        if self.work_of_bits.0 != header.bits {
            self.work_of_bits = (header.bits, narrow(header::work_of(header.bits)));
        }
        let height = self.height(parent) + 1;
        let [high, low] = self.nodes[parent.0 as usize].work;
        let work = (u128::from(high) << 64 | u128::from(low)).saturating_add(self.work_of_bits.1);
        let skip = self.ancestor(parent, skip_height(height)).expect("below its parent").0;
        let invalid = self.nodes[parent.0 as usize].marks & INVALID;
        self.nodes.push(Node {
            hash,
            merkle_root: header.merkle_root,
            work: halves(work),
            version: header.version,
            time_s: header.time_s,
            bits: header.bits,
            nonce: header.nonce,
            parent: parent.0,
            skip,
            height,
            sequence: 0,
            position: NO_POSITION,
            marks: invalid,
        });
        let nodes = &self.nodes;
        self.table.insert(id, |id| nodes[id as usize].hash);
        if invalid == 0 && halves(work) > self.nodes[self.best_header as usize].work {
            self.best_header = id;
        }
        NodeId(id)
    }

    /// Tries again the headers that were ahead of the clock; returns how many got in.
    pub fn retry_early(&mut self, now_s: u64) -> usize {
        let early = std::mem::take(&mut self.early);
        early.into_iter().filter(|&seen| matches!(self.insert(seen, now_s), Inserted::Added)).count()
    }

    /// The valid tip with the most work among those whose blocks are all there.
    pub fn best(&self) -> NodeId {
        NodeId(self.best)
    }

    /// The valid header with the most work.
    pub fn best_header(&self) -> NodeId {
        NodeId(self.best_header)
    }

    /// Tip of the last commit.
    pub fn active(&self) -> NodeId {
        NodeId(self.active)
    }

    /// A commit was published.
    pub fn set_active(&mut self, id: NodeId) {
        self.active = id.0;
    }

    /// The last block connected, committed or not.
    pub fn connected(&self) -> NodeId {
        NodeId(self.connected)
    }

    /// A block was connected, or that above it disconnected.
    pub fn set_connected(&mut self, id: NodeId) {
        self.connected = id.0;
        self.nodes[id.0 as usize].marks |= CONNECTED;
    }

    /// Headers that wait for a parent.
    pub fn waiting(&self) -> usize {
        self.waiting_count
    }

    /// The node of a hash.
    pub fn find(&self, hash: &BlockHash) -> Option<NodeId> {
        self.table.find(hash, |id| self.nodes[id as usize].hash).map(NodeId)
    }

    /// Its hash.
    pub fn hash(&self, id: NodeId) -> BlockHash {
        self.nodes[id.0 as usize].hash
    }

    /// Its height.
    pub fn height(&self, id: NodeId) -> u32 {
        self.nodes[id.0 as usize].height
    }

    /// Work of its whole chain.
    pub fn work(&self, id: NodeId) -> Work {
        let [high, low] = self.nodes[id.0 as usize].work;
        Work([0, 0, high, low])
    }

    /// Its time, seconds since 1970.
    pub fn time_s(&self, id: NodeId) -> u32 {
        self.nodes[id.0 as usize].time_s
    }

    /// Where its block is; none where no file holds it.
    pub fn position(&self, id: NodeId) -> Option<Position> {
        Some(self.nodes[id.0 as usize].position).filter(|position| *position != NO_POSITION)
    }

    /// True once it or an ancestor was found invalid.
    pub fn is_invalid(&self, id: NodeId) -> bool {
        self.nodes[id.0 as usize].marks & INVALID != 0
    }

    /// The branch that ends in `tip`.
    pub fn branch(&self, tip: NodeId) -> Branch<'_> {
        Branch { tree: self, tip, last: Cell::new(tip) }
    }

    /// The parent; the genesis header is its own.
    pub fn parent(&self, id: NodeId) -> NodeId {
        NodeId(self.nodes[id.0 as usize].parent)
    }

    /// The ancestor of `id` at `height`, itself included; none above it.
    pub fn ancestor(&self, id: NodeId, height: u32) -> Option<NodeId> {
        let mut walk = id.0;
        let mut walk_height = self.nodes[walk as usize].height;
        if height > walk_height {
            return None;
        }
        while walk_height > height {
            let skip_to = skip_height(walk_height);
            let skip_before = skip_height(walk_height.saturating_sub(1));
            // Core: take the skip unless the parent's skip is the better one.
            let take_skip = walk_height - height > 1
                && (skip_to == height || (skip_to > height && !(skip_before + 2 < skip_to && skip_before >= height)));
            let node = &self.nodes[walk as usize];
            (walk, walk_height) = if take_skip { (node.skip, skip_to) } else { (node.parent, walk_height - 1) };
        }
        Some(NodeId(walk))
    }

    /// The last node that both have below them.
    pub fn fork_point(&self, a: NodeId, b: NodeId) -> NodeId {
        let height = self.height(a).min(self.height(b));
        let (mut low, mut high) = (0, height);
        // Branches agree up to the fork and never again: look for the last height where they do.
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if self.ancestor(a, middle) == self.ancestor(b, middle) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        self.ancestor(a, low).expect("below both")
    }

    /// Nodes after `from` up to `to`, lowest first; `from` must be an ancestor of `to`.
    pub fn path(&self, from: NodeId, to: NodeId) -> Vec<NodeId> {
        let mut path = Vec::with_capacity((self.height(to) - self.height(from)) as usize);
        let mut walk = to;
        while walk != from {
            path.push(walk);
            walk = self.parent(walk);
        }
        path.reverse();
        path
    }
}

/// Core's `GetSkipHeight`: turns off the lowest set bits so that ancestors are at most about 110 steps away in 2^18.
fn skip_height(height: u32) -> u32 {
    let without_lowest = |n: u32| n & n.wrapping_sub(1);
    match height {
        0 | 1 => 0,
        odd if odd & 1 == 1 => without_lowest(without_lowest(odd - 1)) + 1,
        even => without_lowest(even),
    }
}

/// Work as half of its type; see [`Node::work`].
fn narrow(Work([a, b, high, low]): Work) -> u128 {
    if a | b > 0 { u128::MAX } else { u128::from(high) << 64 | u128::from(low) }
}

fn halves(work: u128) -> [u64; 2] {
    [(work >> 64) as u64, work as u64]
}
