//! What the hub asks of a chain.
//!
//! In:     hashes, heights, headers, blocks.
//! Out:    answers that cost no more than a look into memory, but for the bytes of a block to serve.
//! Fails:  [`HeadersRefusal`] for headers; a block's verdict comes later, by [`super::Hub::judged`].
//!
//! Narrow on purpose: the program answers by `chain::Handle`, a simulation of many nodes by a few vectors.

use std::fmt;

use consensus::Work;
use consensus::block::CheckedBlock;
use primitives::{BlockHash, Header};

pub use ::chain::FilterHead;

use crate::peer::PeerId;
use crate::sync::Room;

/// A header of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its hash.
    pub hash: BlockHash,
    /// The header.
    pub header: Header,
    /// Its height.
    pub height: u32,
    /// Work of the chain up to it.
    pub work: Work,
    /// Median time past at it.
    pub median_time_past_s: u32,
    /// Its block is here.
    pub has_block: bool,
    /// It, or one below it, breaks a rule.
    pub is_invalid: bool,
}

/// Why headers were not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadersRefusal {
    /// The first one's parent is unknown.
    UnknownParent,
    /// One breaks a rule, in Core's words.
    Invalid(&'static str),
    /// One builds on one that was refused.
    InvalidParent,
    /// One was refused before.
    KnownInvalid,
}

impl fmt::Display for HeadersRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HeadersRefusal::UnknownParent => "prev-blk-not-found",
            HeadersRefusal::Invalid(word) => word,
            HeadersRefusal::InvalidParent => "bad-prevblk",
            HeadersRefusal::KnownInvalid => "duplicate-invalid",
        })
    }
}

/// What became of a block that a peer sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It passed what could be checked so far.
    Good,
    /// It breaks a rule that its header commits to, in Core's words: whoever sends it is at fault.
    Invalid(&'static str),
    /// The bytes are not those its header commits to: another copy may be good, and the header is not to blame.
    Mutated(&'static str),
    /// The bytes are no block. A message that cannot be read is passed over, and nobody is at fault (Core: an exception in
    /// `ProcessMessages`).
    Malformed,
    /// Whether it can be connected has been tried, if it could be: nothing that waits for it need wait any longer.
    Tried,
}

/// A chain of headers and blocks.
pub trait Chain {
    /// A header we know.
    fn find(&self, hash: &BlockHash) -> Option<Place>;
    /// The end of the headers with most work, none of them refused.
    fn best_header(&self) -> Place;
    /// True where block filters are served: every block has its own.
    fn serves_filters(&self) -> bool {
        false
    }
    /// Hash and header of each filter from height `first` up to the block `stop`; none where one of them is missing.
    fn filter_heads(&self, first: u32, stop: &BlockHash) -> Option<Vec<FilterHead>> {
        let _ = (first, stop);
        None
    }
    /// Headers of the filters at each `interval`-th height up to the block `stop`; none where one of them is missing.
    fn filter_checkpoints(&self, stop: &BlockHash, interval: u32) -> Option<Vec<[u8; 32]>> {
        let _ = (stop, interval);
        None
    }
    /// The filter of a block.
    fn filter(&self, block: &BlockHash) -> Option<Vec<u8>> {
        let _ = block;
        None
    }
    /// The end of the validated chain that others are told of: all of it would outlast a power cut.
    fn tip(&self) -> Place;
    /// The last block connected, told of or not: nothing below it is waited for any more.
    fn connected(&self) -> Place;
    /// The ancestor of a known header at a height, itself included.
    fn ancestor(&self, hash: &BlockHash, height: u32) -> Option<Place>;
    /// The ancestor of the best header at a height.
    fn on_best(&self, height: u32) -> Option<Place> {
        self.ancestor(&self.best_header().hash, height)
    }
    /// Height of the highest block that a known header has in common with the best header.
    fn common_height(&self, hash: &BlockHash) -> u32;
    /// Hashes from a block down, ever sparser.
    fn locator(&self, from: &BlockHash) -> Vec<BlockHash>;
    /// Up to `count` headers of the validated chain after the first hash of the locator that is on it, to `stop` at most.
    fn headers_after(&self, locator: &[BlockHash], stop: &BlockHash, count: usize) -> Vec<Header>;
    /// True where the block is on the validated chain, or so near its end that telling of it says nothing about us.
    fn may_serve(&self, hash: &BlockHash) -> bool;
    /// Bytes of a block.
    fn block(&self, hash: &BlockHash) -> Option<Vec<u8>>;
    /// Work without which a chain of headers is not kept (Core: `GetAntiDoSWorkThreshold`).
    fn enough_work(&self) -> Work;
    /// True until the tip is recent and has the network's least work.
    fn is_initial_download(&self) -> bool;
    /// How many blocks it could take now, in bytes.
    fn room(&self) -> Room {
        Room::default()
    }
    /// Takes headers that follow each other, whose chain has been seen to have enough work.
    fn take_headers(&mut self, headers: &[Header]) -> Result<(), HeadersRefusal>;
    /// Takes a block; the judgement comes later. False where there is no room now, and the block is forgotten.
    fn take_block(&mut self, from: PeerId, hash: BlockHash, bytes: Vec<u8>) -> bool;
    /// The same for a block that has passed every rule that needs no coins, but for those of its place.
    fn take_checked(&mut self, from: PeerId, block: CheckedBlock) -> bool {
        self.take_block(from, *block.hash(), block.block().bytes().to_vec())
    }
    /// [`Judgement::Tried`] comes once more for a block, when whoever asks about the chain is answered with it. False where that
    /// is so already.
    fn show(&mut self, hash: &BlockHash) -> bool {
        let _ = hash;
        false
    }
}
