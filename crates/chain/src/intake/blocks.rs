//! Blocks from outside.
//!
//! In:     a block's bytes, in any order.
//! Out:    [`Acceptance`] once it is checked without state and in the node's own files; [`Verdict`] once the writer has
//!         tried it.
//! Fails:  [`QueueFull`], which hands the bytes back; rules by their errors, as in [`Acceptance`].
//! Source: Bitcoin Core: `ProcessNewBlock`, `CheckBlock`, `AcceptBlock`; `rpc/mining.cpp` (`submitblock`), BIP 22.
//!
//! A block that is not what its header commits to says nothing about the header: another copy may be good. One that is,
//! and breaks a rule, is remembered as refused, with everything that builds on it, and so it is after a restart.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use consensus::block::{self, CheckedBlock};
use consensus::header::{check_contextual, check_proof_of_work, median_time_past};
use consensus::{BlockError, HeaderError};
use primitives::encode::ParseError;
use primitives::{Block, BlockHash, Header};
use store::Fact;
use store::blockfiles::{Found, Position};

use super::headers::{HeadersStop, WorkProof, enter, log_refused_header};
use super::pass::{Pending, Waiter, Wish};
use crate::handle::{Event, Handle, Shared};

/// The queue of blocks is full: hand the bytes in again when [`Handle::intake_load`] shows room.
pub struct QueueFull(pub Vec<u8>);

/// How full the queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntakeLoad {
    /// Bytes of blocks handed in and not answered.
    pub queued_bytes: u64,
    /// Bytes from which on blocks are handed back.
    pub queued_bytes_max: u64,
    /// Bytes of checked blocks that wait for the writer in memory.
    pub fresh_bytes: u64,
    /// Bytes of them that are kept in memory; what comes on top is read and checked again when its turn comes.
    pub fresh_bytes_max: u64,
}

/// What became of a block before the writer tried it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// It is new, passes every rule that needs no coins, and is in the node's files.
    Stored {
        /// Its hash.
        hash: BlockHash,
        /// Its height.
        height: u32,
    },
    /// It was there before.
    Duplicate {
        /// Its hash.
        hash: BlockHash,
    },
    /// It was refused before, or builds on a block that was.
    KnownInvalid {
        /// Its hash.
        hash: BlockHash,
    },
    /// Its parent is unknown.
    UnknownParent {
        /// Its hash.
        hash: BlockHash,
        /// Its parent's.
        previous: BlockHash,
    },
    /// It builds on a block that was refused.
    InvalidParent {
        /// Its hash.
        hash: BlockHash,
    },
    /// A stranger's block on a chain with too little work.
    LowWork {
        /// Its hash.
        hash: BlockHash,
    },
    /// It breaks a rule.
    Refused {
        /// Its hash.
        hash: BlockHash,
        /// The rule.
        error: BlockError,
        /// True where its header is remembered as invalid; false where another copy of the block may be good.
        header_invalid: bool,
    },
    /// The bytes are no block.
    Malformed {
        /// Why.
        error: ParseError,
    },
    /// The node keeps no blocks of its own, or its disk has failed.
    NotKept,
}

impl Acceptance {
    /// Bitcoin Core's word in answers to `submitblock`; none for a block that was stored.
    pub fn word(&self) -> Option<&'static str> {
        Some(match self {
            Acceptance::Stored { .. } => return None,
            Acceptance::Duplicate { .. } => "duplicate",
            Acceptance::KnownInvalid { .. } => "duplicate-invalid",
            Acceptance::UnknownParent { .. } => "prev-blk-not-found",
            Acceptance::InvalidParent { .. } => "bad-prevblk",
            Acceptance::LowWork { .. } => "too-little-chainwork",
            Acceptance::Refused { error, .. } => error.reject_word(),
            Acceptance::Malformed { .. } => "rejected",
            Acceptance::NotKept => "rejected",
        })
    }
}

/// What the writer found out about a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It joined the chain, and the commit with it is published.
    Connected,
    /// It was not tried: it is on no branch with the most work, or blocks below it are missing.
    Inconclusive,
    /// It breaks a rule about coins or scripts.
    Invalid {
        /// The rule.
        error: BlockError,
    },
    /// It did not get as far as the writer.
    NotStored {
        /// Why.
        why: Acceptance,
    },
    /// The pass that was waited for has ended.
    Done,
    /// The writer has ended.
    Stopped,
}

impl Verdict {
    /// The answer of `submitblock` (BIP 22): none for a block that joined the chain.
    pub fn word(&self) -> Option<&'static str> {
        match self {
            Verdict::Connected | Verdict::Done => None,
            Verdict::Inconclusive | Verdict::Stopped => Some("inconclusive"),
            Verdict::Invalid { error } => Some(error.reject_word()),
            Verdict::NotStored { why } => why.word(),
        }
    }
}

/// True where the rule is broken by the block that the header commits to, and by no other.
///
/// Not so for mutations, nor for rules that are looked at before the transactions are known to be the header's: the
/// signet solution comes before the merkle root, and 64 bytes of two inner nodes may pose as a transaction until the
/// first one is known to be a coinbase (Core: `IsBlockMutated`).
pub(crate) fn condemns_header(error: &BlockError) -> bool {
    let ambiguous = matches!(
        error,
        BlockError::Header { .. }
            | BlockError::SignetSolution {}
            | BlockError::Length { .. }
            | BlockError::CoinbaseMissing {}
    );
    !ambiguous && !error.is_mutation()
}

/// What a block builds on.
struct Ground {
    height: u32,
    median_time_past_s: u32,
}

impl Shared {
    /// Checks and stores a block; runs on the pool.
    pub(crate) fn take_block(&self, bytes: Vec<u8>, proof: WorkProof) -> Acceptance {
        if self.intake.own.is_none() {
            return Acceptance::NotKept;
        }
        // Peers' blocks have met the limit of messages; what callers hand in may be too large, and is told why it is bad.
        let block = match Block::parse_first(bytes) {
            Ok(block) => block,
            Err(error) => return Acceptance::Malformed { error },
        };
        let (header, hash) = (*block.header(), block.header().hash());
        let ground = match self.find_ground(&header, hash, proof) {
            Ok(ground) => ground,
            Err(why) => return why,
        };
        let params = &self.intake.params;
        // What is found before its place in the chain is looked at says nothing about the header: should the bytes of a block
        // be malleable in a way that nobody knows of, a good block is not lost for it (Core: `ProcessNewBlock`).
        match block::check(block, params) {
            Ok(checked) => self.place_block(checked, &ground),
            Err(error) => self.refuse_block(&header, hash, &ground, error, false),
        }
    }

    /// Stores a block that was checked without state already; runs on the pool.
    fn take_checked(&self, checked: CheckedBlock, proof: WorkProof) -> Acceptance {
        if self.intake.own.is_none() {
            return Acceptance::NotKept;
        }
        match self.find_ground(checked.header(), *checked.hash(), proof) {
            Ok(ground) => self.place_block(checked, &ground),
            Err(why) => why,
        }
    }

    /// Judges a checked block by its place, and stores it.
    fn place_block(&self, checked: CheckedBlock, ground: &Ground) -> Acceptance {
        let params = &self.intake.params;
        match block::check_contextual(&checked, ground.height, ground.median_time_past_s, params) {
            Ok(()) => self.store_block(checked, ground.height),
            Err(error) => self.refuse_block(checked.header(), *checked.hash(), ground, error, condemns_header(&error)),
        }
    }

    fn refuse_block(
        &self,
        header: &Header,
        hash: BlockHash,
        ground: &Ground,
        error: BlockError,
        header_invalid: bool,
    ) -> Acceptance {
        log::error!(target: "validation", "ProcessNewBlock: AcceptBlock FAILED ({}, {})", error.reject_reason(), error.detail());
        if header_invalid {
            self.condemn(header, hash);
        }
        self.publish(&Event::BlockJudged { hash, height: ground.height, verdict: Err(error) });
        Acceptance::Refused { hash, error, header_invalid }
    }

    /// What needs no look at the transactions: the header, whether the block is here already, and where it belongs.
    fn find_ground(&self, header: &Header, hash: BlockHash, proof: WorkProof) -> Result<Ground, Acceptance> {
        let refused = |error: HeaderError| {
            log_refused_header(&hash, error);
            Acceptance::Refused { hash, error: error.into(), header_invalid: false }
        };
        check_proof_of_work(&hash, header.bits, &self.intake.params).map_err(refused)?;
        let tree = self.intake.tree();
        let known = tree.find(&hash);
        if let Some(id) = known {
            if tree.is_invalid(id) {
                return Err(Acceptance::KnownInvalid { hash });
            }
            if tree.has_block(id) {
                return Err(Acceptance::Duplicate { hash });
            }
        }
        let Some(parent) = tree.find(&header.previous) else {
            return Err(Acceptance::UnknownParent { hash, previous: header.previous });
        };
        if known.is_none() && tree.is_invalid(parent) {
            return Err(Acceptance::InvalidParent { hash });
        }
        let (parent_height, branch) = (tree.height(parent), tree.branch(parent));
        let height = parent_height + 1;
        if known.is_none() {
            let now_s = self.intake.clock.unix_s();
            check_contextual(header, height, &branch, now_s, &self.intake.params).map_err(refused)?;
        }
        let median_time_past_s = median_time_past(parent_height, &branch);
        drop(tree);
        match self.intake.low_work(&[*header], &[hash], proof) {
            Some(_) => Err(Acceptance::LowWork { hash }),
            None => Ok(Ground { height, median_time_past_s }),
        }
    }

    /// Writes a checked block and tells the writer.
    fn store_block(&self, checked: CheckedBlock, height: u32) -> Acceptance {
        let (intake, hash) = (&self.intake, *checked.hash());
        let known = intake.tree().find(&hash);
        if known.is_some_and(|id| intake.tree().has_block(id)) {
            return Acceptance::Duplicate { hash };
        }
        let own = intake.own.as_ref().expect("looked at before");
        let position = match own.append(checked.block().bytes()) {
            Ok(position) => position,
            Err(error) => {
                *intake.failure.lock().expect("no panic while held") = Some(error);
                intake.signal.ring_urgently();
                return Acceptance::NotKept;
            }
        };
        let before = intake.tree().best_header();
        let entered = self.enter_block(checked.header(), hash, Some(position));
        match entered {
            Ok(id) => intake.fresh.lock().expect("no panic while held").put(height, id, Arc::new(checked)),
            // It or its parent was refused while it was checked.
            Err(_) => return Acceptance::KnownInvalid { hash },
        }
        self.announce_header_after(before);
        intake.signal.ring();
        Acceptance::Stored { hash, height }
    }

    /// Puts a header into the tree with its block, or alone.
    fn enter_block(
        &self,
        header: &Header,
        hash: BlockHash,
        position: Option<Position>,
    ) -> Result<crate::tree::NodeId, HeadersStop> {
        let now_s = self.intake.clock.unix_s();
        let mut tree = self.intake.tree_mut();
        let (id, added) = enter(&mut tree, header, hash, now_s)?;
        let header = header.encode();
        match position {
            Some(position) => {
                tree.add_block(id, position);
                self.intake.facts().push(Fact::Block(Found { header, position }));
            }
            None if added => self.intake.facts().push(Fact::Header(header)),
            None => {}
        }
        Ok(id)
    }

    /// Remembers that the block of a header breaks a rule.
    fn condemn(&self, header: &Header, hash: BlockHash) {
        if let Ok(id) = self.enter_block(header, hash, None) {
            let mut tree = self.intake.tree_mut();
            tree.invalidate(id);
            self.intake.facts().push(Fact::Refused(header.encode()));
            drop(tree);
            self.intake.signal.ring();
        }
    }
}

impl Handle {
    /// Hands a block in; `done` is called on a thread of the pool once it is stored or turned away, and must not wait
    /// for anything. Whether a stored block joins the chain is told by [`Event::BlockJudged`].
    pub fn submit_block(
        &self,
        bytes: Vec<u8>,
        proof: WorkProof,
        done: impl FnOnce(Acceptance) + Send + 'static,
    ) -> Result<(), QueueFull> {
        let length = bytes.len() as u64;
        if !self.reserve(length) {
            return Err(QueueFull(bytes));
        }
        self.take_later(length, move |shared| shared.take_block(bytes, proof), done);
        Ok(())
    }

    /// The same for a block that was checked without state already; false where the queue is full, and the block is forgotten.
    pub fn submit_checked(
        &self,
        checked: CheckedBlock,
        proof: WorkProof,
        done: impl FnOnce(Acceptance) + Send + 'static,
    ) -> bool {
        let length = checked.block().bytes().len() as u64;
        let is_reserved = self.reserve(length);
        if is_reserved {
            self.take_later(length, move |shared| shared.take_checked(checked, proof), done);
        }
        is_reserved
    }

    /// Takes room in the queue; false where there is none.
    fn reserve(&self, length: u64) -> bool {
        let intake = &self.0.intake;
        let before = intake.queued_bytes.fetch_add(length, Ordering::SeqCst);
        // One block is always taken, however small the queue.
        let is_full = before > 0 && before + length > intake.queued_bytes_max;
        if is_full {
            intake.queued_bytes.fetch_sub(length, Ordering::SeqCst);
        }
        !is_full
    }

    fn take_later(
        &self,
        length: u64,
        take: impl FnOnce(&Shared) -> Acceptance + Send + 'static,
        done: impl FnOnce(Acceptance) + Send + 'static,
    ) {
        let (intake, shared) = (&self.0.intake, self.0.clone());
        let ticket = intake.pool.submit(move || {
            let acceptance = take(&shared);
            shared.intake.queued_bytes.fetch_sub(length, Ordering::SeqCst);
            done(acceptance);
        });
        // Nobody waits for it; `done` tells.
        drop(ticket);
        // A pool of one thread works while the writer is awake.
        if intake.pool.threads() == 1 {
            intake.signal.ring();
        }
    }

    /// Hands a block in; the answer comes when the writer has tried it and committed what followed, as `submitblock`
    /// wants it.
    pub fn judge_block(&self, bytes: Vec<u8>) -> Result<Pending, QueueFull> {
        let (answer, pending) = Pending::pair();
        let shared = self.0.clone();
        self.submit_block(bytes, WorkProof::Proven, move |acceptance| match acceptance {
            Acceptance::Stored { hash, .. } => {
                shared.intake.waiters.add(Waiter { block: Some(hash), wish: Wish::Committed, answer });
                shared.intake.signal.ring_urgently();
            }
            why => answer(Verdict::NotStored { why }),
        })?;
        Ok(pending)
    }

    /// Calls `tried` once the writer has tried a block that was stored, or has found that it cannot yet. It is called on
    /// the writer's thread, and must not wait for anything.
    pub fn when_tried(&self, hash: BlockHash, tried: impl FnOnce() + Send + 'static) {
        self.when(hash, Wish::Tried, tried);
    }

    /// Calls `shown` once [`Handle::view`] has what became of a block that was tried. Where much waits for a commit, as in a
    /// download at full speed, that is not waited for. Called as in [`Handle::when_tried`].
    pub fn when_shown(&self, hash: BlockHash, shown: impl FnOnce() + Send + 'static) {
        self.when(hash, Wish::Shown, shown);
    }

    fn when(&self, hash: BlockHash, wish: Wish, answer: impl FnOnce() + Send + 'static) {
        self.0.intake.waiters.add(Waiter { block: Some(hash), wish, answer: Box::new(move |_| answer()) });
        self.0.intake.signal.ring();
    }

    /// How full the queue of blocks is.
    pub fn intake_load(&self) -> IntakeLoad {
        let intake = &self.0.intake;
        let queued_bytes = intake.queued_bytes.load(Ordering::SeqCst);
        let (fresh_bytes, fresh_bytes_max) = intake.fresh.lock().expect("no panic while held").load();
        IntakeLoad { queued_bytes, queued_bytes_max: intake.queued_bytes_max, fresh_bytes, fresh_bytes_max }
    }

    /// The bytes of a block in the files, on whatever branch; none where there is none, or it cannot be read.
    pub fn block_bytes(&self, hash: &BlockHash) -> Option<Vec<u8>> {
        let position = {
            let tree = self.0.intake.tree();
            tree.position(tree.find(hash)?)
        };
        match position {
            Some(position) => self.view().files().read_block(position).ok(),
            None => (*hash == self.0.intake.params.genesis_hash).then(|| self.0.intake.params.genesis_block()),
        }
    }
}
