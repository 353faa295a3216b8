//! Every header we know, as a tree, and the tip with the most work.
//!
//! In:     headers with the place of their block, in any order.
//! Out:    nodes in order of their heights, ancestors in logarithmic time, the best valid tip.
//! Fails:  [`Inserted::Refused`] with the rule that a header breaks; nothing is kept of it.
//! Source: Core's `CBlockIndex` (skip pointers: `GetSkipHeight`), `ChainstateManager::AcceptBlockHeader`; of tips with
//!         equal work the one seen first stays (Core's `CBlockIndexWorkComparator`).

use std::cell::Cell;
use std::collections::HashMap;

use consensus::header::{self, Ancestry};
use consensus::{HeaderError, Work};
use primitives::{BlockHash, Header, Params};
use store::blockfiles::Position;

/// A header's place in the tree; the genesis header is 0, and a parent's number is below its children's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    /// The genesis header.
    pub const GENESIS: NodeId = NodeId(0);
}

/// A block seen in a block file.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Its header.
    pub header: Header,
    /// Where its bytes are.
    pub position: Position,
}

struct Node {
    header: Header,
    hash: BlockHash,
    work: Work,
    height: u32,
    parent: u32,
    skip: u32,
    position: Option<Position>,
    /// Its own block was refused.
    refused: bool,
    /// It or an ancestor was refused.
    invalid: bool,
}

/// What became of a header.
#[derive(Debug)]
pub enum Inserted {
    /// It is in the tree.
    Added(NodeId),
    /// It was there before.
    Known(NodeId),
    /// Its parent is unknown; it waits.
    Waiting,
    /// Its time is more than two hours ahead of ours; it waits for the clock.
    Early,
    /// It breaks a rule.
    Refused(HeaderError),
}

/// Headers waiting for a parent or for the clock at most, so that a folder of foreign blocks costs bounded memory
/// (about 130 bytes each).
const WAITING_MAX: usize = 2_000_000;

/// The tree.
pub struct HeaderTree {
    params: Params,
    nodes: Vec<Node>,
    by_hash: HashMap<BlockHash, u32>,
    waiting: HashMap<BlockHash, Vec<Seen>>,
    waiting_count: usize,
    early: Vec<Seen>,
    /// Other places of blocks that are in the files more than once.
    copies: HashMap<u32, Vec<Position>>,
    /// Nodes whose blocks could not be read, or were not what their headers promise.
    damaged: Vec<u32>,
    /// Work of the bits seen last.
    work_of_bits: (u32, Work),
    best: u32,
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
        self.tree.nodes[id.0 as usize].header
    }
}

impl HeaderTree {
    /// A tree of the genesis header alone.
    pub fn new(params: &Params) -> HeaderTree {
        let genesis = Node {
            header: params.genesis,
            hash: params.genesis_hash,
            work: header::work_of(params.genesis.bits),
            height: 0,
            parent: 0,
            skip: 0,
            position: None,
            refused: false,
            invalid: false,
        };
        HeaderTree {
            params: params.clone(),
            nodes: vec![genesis],
            by_hash: HashMap::from([(params.genesis_hash, 0)]),
            waiting: HashMap::new(),
            waiting_count: 0,
            early: Vec::new(),
            copies: HashMap::new(),
            damaged: Vec::new(),
            work_of_bits: (params.genesis.bits, header::work_of(params.genesis.bits)),
            best: 0,
        }
    }

    /// Adds a header, and those that waited for it.
    pub fn insert(&mut self, seen: Seen, now_s: u64) -> Inserted {
        let hash = seen.header.hash();
        let outcome = self.insert_one(seen, hash, now_s);
        if let Inserted::Added(_) = outcome {
            let mut parents = vec![hash];
            while let Some(parent) = parents.pop() {
                for child in self.waiting.remove(&parent).unwrap_or_default() {
                    self.waiting_count -= 1;
                    let child_hash = child.header.hash();
                    if let Inserted::Added(_) = self.insert_one(child, child_hash, now_s) {
                        parents.push(child_hash);
                    }
                }
            }
        }
        outcome
    }

    fn insert_one(&mut self, seen: Seen, hash: BlockHash, now_s: u64) -> Inserted {
        if let Some(&id) = self.by_hash.get(&hash) {
            self.add_copy(id, seen.position);
            return Inserted::Known(NodeId(id));
        }
        let Some(&parent) = self.by_hash.get(&seen.header.previous) else {
            if self.waiting_count < WAITING_MAX {
                self.waiting_count += 1;
                self.waiting.entry(seen.header.previous).or_default().push(seen);
            }
            return Inserted::Waiting;
        };
        let height = self.nodes[parent as usize].height + 1;
        let branch = self.branch(NodeId(parent));
        match header::check(&seen.header, height, &branch, now_s, &self.params) {
            Ok(()) => {}
            Err(HeaderError::TimeTooNew { .. }) => {
                if self.early.len() < WAITING_MAX {
                    self.early.push(seen);
                }
                return Inserted::Early;
            }
            Err(error) => return Inserted::Refused(error),
        }
        Inserted::Added(self.append(seen, hash, parent, height))
    }

    /// The block of a known header is in the files again.
    fn add_copy(&mut self, id: u32, position: Position) {
        let node = &mut self.nodes[id as usize];
        if node.position.is_none() {
            node.position = Some(position);
        } else if node.position != Some(position) {
            self.copies.entry(id).or_default().push(position);
        }
    }

    /// Turns to another copy of a block, because the one at [`HeaderTree::position`] is damaged. False: there is none.
    pub fn use_other_copy(&mut self, id: NodeId) -> bool {
        let other = self.copies.get_mut(&id.0).and_then(Vec::pop);
        self.nodes[id.0 as usize].position = other.or(self.nodes[id.0 as usize].position);
        other.is_some()
    }

    fn append(&mut self, seen: Seen, hash: BlockHash, parent: u32, height: u32) -> NodeId {
        let id = u32::try_from(self.nodes.len()).expect("fewer than 2^32 headers fit into memory");
        // Bits change once in 2,016 blocks, and work is a long division.
        if self.work_of_bits.0 != seen.header.bits {
            self.work_of_bits = (seen.header.bits, header::work_of(seen.header.bits));
        }
        let work = self.nodes[parent as usize].work + self.work_of_bits.1;
        let skip = self.ancestor(NodeId(parent), skip_height(height)).expect("below its parent").0;
        let invalid = self.nodes[parent as usize].invalid;
        let position = Some(seen.position);
        let refused = false;
        self.nodes.push(Node { header: seen.header, hash, work, height, parent, skip, position, refused, invalid });
        self.by_hash.insert(hash, id);
        if !invalid {
            if work > self.nodes[self.best as usize].work {
                self.best = id;
            }
        }
        NodeId(id)
    }

    /// Tries again the headers that were ahead of the clock; returns how many got in.
    pub fn retry_early(&mut self, now_s: u64) -> usize {
        let early = std::mem::take(&mut self.early);
        early.into_iter().filter(|&seen| matches!(self.insert(seen, now_s), Inserted::Added(_))).count()
    }

    /// Marks a node and all that build on it; the best tip is found anew.
    pub fn invalidate(&mut self, id: NodeId) {
        self.nodes[id.0 as usize].refused = true;
        self.judge_anew();
    }

    /// Marks a node whose block is not what its header promises: the bytes may be better later, or elsewhere.
    pub fn mark_damaged(&mut self, id: NodeId) {
        self.damaged.push(id.0);
        self.invalidate(id);
    }

    /// True where a damaged block is in the files a second time.
    pub fn damaged_has_copy(&self) -> bool {
        self.damaged.iter().any(|id| self.copies.get(id).is_some_and(|copies| !copies.is_empty()))
    }

    /// Forgets what damaged blocks were refused for, so that they are read again. False: there are none.
    pub fn retry_damaged(&mut self) -> bool {
        if self.damaged.is_empty() {
            return false;
        }
        for id in std::mem::take(&mut self.damaged) {
            self.nodes[id as usize].refused = false;
        }
        self.judge_anew();
        true
    }

    fn judge_anew(&mut self) {
        self.best = 0;
        for index in 1..self.nodes.len() {
            let parent_invalid = self.nodes[self.nodes[index].parent as usize].invalid;
            self.nodes[index].invalid = self.nodes[index].refused || parent_invalid;
            let node = &self.nodes[index];
            if !node.invalid && node.work > self.nodes[self.best as usize].work {
                self.best = index as u32;
            }
        }
    }

    /// The valid tip with the most work.
    pub fn best(&self) -> NodeId {
        NodeId(self.best)
    }

    /// Height of the best tip.
    pub fn best_height(&self) -> u32 {
        self.nodes[self.best as usize].height
    }

    /// Headers that wait for a parent.
    pub fn waiting(&self) -> usize {
        self.waiting_count
    }

    /// Number of headers in the tree.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Never: the genesis header is always there.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The node of a hash.
    pub fn find(&self, hash: &BlockHash) -> Option<NodeId> {
        self.by_hash.get(hash).copied().map(NodeId)
    }

    /// Its header.
    pub fn header(&self, id: NodeId) -> &Header {
        &self.nodes[id.0 as usize].header
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
        self.nodes[id.0 as usize].work
    }

    /// Where its block is; none for the genesis block where no file holds it.
    pub fn position(&self, id: NodeId) -> Option<Position> {
        self.nodes[id.0 as usize].position
    }

    /// True once it or an ancestor was found invalid.
    pub fn is_invalid(&self, id: NodeId) -> bool {
        self.nodes[id.0 as usize].invalid
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

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::Network;

    /// A regtest header that builds on `previous`; its nonce is turned until the target is met.
    fn mine(previous: &Header, time_s: u32, label: u8) -> Header {
        let mut header = Header {
            version: 0x2000_0000,
            previous: previous.hash(),
            merkle_root: [label; 32],
            time_s,
            bits: 0x207f_ffff,
            nonce: 0,
        };
        while header.hash().0[31] > 0x7f {
            header.nonce += 1;
        }
        header
    }

    fn seen(header: Header) -> Seen {
        Seen { header, position: Position { file: 0, offset: 8, size: 285 } }
    }

    fn chain(from: &Header, count: u32, label: u8) -> Vec<Header> {
        let mut headers: Vec<Header> = Vec::new();
        for n in 0..count {
            let previous = headers.last().unwrap_or(from);
            headers.push(mine(previous, from.time_s + 600 * (n + 1), label));
        }
        headers
    }

    #[test]
    fn headers_in_reverse_order_make_the_same_chain() {
        let params = Params::of(Network::Regtest);
        let headers = chain(&params.genesis, 200, 1);
        let mut tree = HeaderTree::new(&params);
        for header in headers[1..].iter().rev() {
            assert!(matches!(tree.insert(seen(*header), 2_000_000_000), Inserted::Waiting));
        }
        assert!(matches!(tree.insert(seen(headers[0]), 2_000_000_000), Inserted::Added(_)));
        assert_eq!((tree.best_height(), tree.waiting()), (200, 0));
        let tip = tree.best();
        for height in 1..=200 {
            let ancestor = tree.ancestor(tip, height).unwrap();
            assert_eq!(*tree.header(ancestor), headers[height as usize - 1]);
        }
        assert_eq!(tree.ancestor(tip, 201), None);
        assert_eq!(tree.path(NodeId::GENESIS, tip).len(), 200);
    }

    #[test]
    fn the_first_of_equal_tips_stays_until_it_is_invalid() {
        let params = Params::of(Network::Regtest);
        let trunk = chain(&params.genesis, 50, 1);
        let left = chain(&trunk[29], 20, 2);
        let mut tree = HeaderTree::new(&params);
        for header in trunk.iter().chain(&left) {
            tree.insert(seen(*header), 2_000_000_000);
        }
        assert_eq!(tree.hash(tree.best()), trunk[49].hash());
        let other = tree.find(&left[19].hash()).unwrap();
        assert_eq!(tree.height(tree.fork_point(tree.best(), other)), 30);
        tree.invalidate(tree.find(&trunk[40].hash()).unwrap());
        assert_eq!(tree.best(), other);
        assert!(tree.is_invalid(tree.find(&trunk[49].hash()).unwrap()));
        tree.invalidate(tree.find(&trunk[0].hash()).unwrap());
        assert_eq!(tree.best(), NodeId::GENESIS);
    }

    #[test]
    fn a_damaged_block_bars_its_branch_until_it_is_tried_again() {
        let params = Params::of(Network::Regtest);
        let headers = chain(&params.genesis, 20, 1);
        let mut tree = HeaderTree::new(&params);
        for header in &headers {
            tree.insert(seen(*header), 2_000_000_000);
        }
        let (tip, damaged) = (tree.best(), tree.find(&headers[9].hash()).unwrap());
        assert!(!tree.retry_damaged());
        tree.mark_damaged(damaged);
        assert_eq!((tree.best_height(), tree.is_invalid(tip)), (9, true));
        // What is built on it meanwhile waits with it, and its other copy is used first.
        let child = mine(&headers[19], headers[19].time_s + 600, 3);
        tree.insert(seen(child), 2_000_000_000);
        let copy = Position { file: 1, offset: 8, size: 285 };
        assert!(!tree.use_other_copy(damaged));
        tree.insert(Seen { header: headers[9], position: copy }, 2_000_000_000);
        assert!(tree.damaged_has_copy() && tree.retry_damaged());
        assert_eq!(tree.best_height(), 21);
        assert!(tree.use_other_copy(damaged));
        assert_eq!(tree.position(damaged), Some(copy));
        // A block that breaks a rule stays refused.
        tree.invalidate(tree.find(&headers[4].hash()).unwrap());
        tree.mark_damaged(damaged);
        assert!(tree.retry_damaged());
        assert_eq!(tree.best_height(), 4);
    }

    #[test]
    fn a_header_ahead_of_the_clock_waits_for_it() {
        let params = Params::of(Network::Regtest);
        let header = mine(&params.genesis, 1_400_000_000, 1);
        let mut tree = HeaderTree::new(&params);
        assert!(matches!(tree.insert(seen(header), 1_399_992_799), Inserted::Early));
        assert_eq!(tree.retry_early(1_399_992_799), 0);
        assert_eq!(tree.retry_early(1_399_992_800), 1);
        assert_eq!(tree.best_height(), 1);
    }
}
