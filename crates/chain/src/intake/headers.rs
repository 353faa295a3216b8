//! Headers from outside, and every question about headers.
//!
//! In:     runs of headers from peers; hashes, heights, locators.
//! Out:    [`HeadersAnswer`]; [`HeaderInfo`]s; locators and answers to `getheaders`; which blocks are missing.
//! Fails:  [`HeadersStop`] says why the rest of a run was not taken.
//! Source: Bitcoin Core: `ProcessNewBlockHeaders`, `AcceptBlockHeader`, `GetAntiDoSWorkThreshold`, `LocatorEntries`,
//!         `FindForkInGlobalIndex`, the `getheaders` branch of `ProcessMessage`, `FindNextBlocksToDownload`.

use consensus::header::{median_time_past, work_of};
use consensus::{BlockError, HeaderError, Work};
use primitives::{BlockHash, Header};
use store::Fact;

use super::Intake;
use crate::handle::{Event, Handle, Shared};
use crate::tree::{HeaderTree, NodeId};

/// Headers taken under one hold of the lock: about half a millisecond.
const HEADERS_PER_HOLD: usize = 256;
/// Blocks below the tip that a chain may lack in work and still be taken from a stranger; Core's figure.
const ANTI_DOS_BLOCKS: u64 = 144;
/// Entries of a locator one by one, before steps double (Core: `LocatorEntries`).
const LOCATOR_SINGLE: u32 = 10;

/// What is known about the work behind a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkProof {
    /// The caller has seen that the chain has enough work, or vouches for it.
    Proven,
    /// A stranger sends it: its chain must have at least [`Handle::anti_dos_work`].
    Unproven,
}

/// A header we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderInfo {
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
    /// Its block is in the files.
    pub has_block: bool,
    /// Its block and those of all its ancestors are.
    pub is_linked: bool,
    /// It or an ancestor was refused.
    pub is_invalid: bool,
    /// It is on the chain of the last commit.
    pub is_active: bool,
}

/// Why a run of headers was not taken to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadersStop {
    /// The parent of a header is unknown. Reject word: "prev-blk-not-found".
    UnknownParent {
        /// That parent.
        previous: BlockHash,
    },
    /// The header breaks a rule.
    Invalid {
        /// Its hash.
        hash: BlockHash,
        /// The rule, with its reject word.
        error: HeaderError,
    },
    /// The header was refused before. Reject word: "duplicate-invalid".
    KnownInvalid {
        /// Its hash.
        hash: BlockHash,
    },
    /// It builds on a header that was refused. Reject word: "bad-prevblk".
    InvalidParent {
        /// Its hash.
        hash: BlockHash,
    },
    /// The whole run has too little work to be kept. Reject word: "too-little-chainwork".
    LowWork {
        /// Work of the chain it ends.
        work: Work,
    },
}

impl HeadersStop {
    /// Bitcoin Core's reject word.
    pub fn reject_word(&self) -> &'static str {
        match self {
            HeadersStop::UnknownParent { .. } => "prev-blk-not-found",
            HeadersStop::Invalid { error, .. } => error.reject_word(),
            HeadersStop::KnownInvalid { .. } => "duplicate-invalid",
            HeadersStop::InvalidParent { .. } => "bad-prevblk",
            HeadersStop::LowWork { .. } => "too-little-chainwork",
        }
    }
}

/// What became of a run of headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadersAnswer {
    /// Headers that are new.
    pub added: u32,
    /// Headers that were known.
    pub known: u32,
    /// The last header of the run that is in the tree now.
    pub last: Option<HeaderInfo>,
    /// True where the best header is another one than before.
    pub best_changed: bool,
    /// Why the rest was not taken.
    pub stop: Option<HeadersStop>,
}

/// A block that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Its height.
    pub height: u32,
    /// Its hash.
    pub hash: BlockHash,
}

/// Blocks to be fetched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Height that the window begins above: of the last connected block on the way.
    pub above: u32,
    /// Missing blocks, lowest first.
    pub blocks: Vec<Missing>,
    /// Blocks of the window that are there and not connected.
    pub waiting_blocks: u32,
    /// Their bytes.
    pub waiting_bytes: u64,
}

fn info(tree: &HeaderTree, id: NodeId) -> HeaderInfo {
    let height = tree.height(id);
    HeaderInfo {
        hash: tree.hash(id),
        header: tree.header(id),
        height,
        work: tree.work(id),
        median_time_past_s: median_time_past(height, &tree.branch(id)),
        has_block: tree.has_block(id),
        is_linked: tree.is_linked(id),
        is_invalid: tree.is_invalid(id),
        is_active: tree.ancestor(tree.active(), height) == Some(id),
    }
}

impl Shared {
    /// Takes headers in order until one cannot be taken.
    fn take_headers(&self, headers: &[Header], proof: WorkProof, publishes: bool) -> HeadersAnswer {
        let hashes: Vec<BlockHash> = headers.iter().map(Header::hash).collect();
        let mut answer = HeadersAnswer { added: 0, known: 0, last: None, best_changed: false, stop: None };
        if let Some(work) = self.intake.low_work(headers, &hashes, proof) {
            answer.stop = Some(HeadersStop::LowWork { work });
            return answer;
        }
        let mut last = None;
        let before = self.intake.tree().best_header();
        for (headers, hashes) in headers.chunks(HEADERS_PER_HOLD).zip(hashes.chunks(HEADERS_PER_HOLD)) {
            answer.stop = self.intake.take_some(headers, hashes, &mut last, &mut answer);
            if answer.stop.is_some() {
                break;
            }
        }
        let tree = self.intake.tree();
        answer.last = last.map(|id| info(&tree, id));
        answer.best_changed = tree.best_header() != before;
        let best = info(&tree, tree.best_header());
        drop(tree);
        if answer.best_changed {
            self.note_header(&best);
            if publishes {
                self.publish_header(&best);
            }
        }
        answer
    }

    fn note_header(&self, best: &HeaderInfo) {
        self.update(|status| status.headers_height = best.height);
        if !self.intake.synced.load(std::sync::atomic::Ordering::Relaxed) {
            let age_s = self.intake.clock.unix_s().saturating_sub(u64::from(best.header.time_s));
            let left = age_s as f64 / f64::from(self.intake.params.pow_spacing_s);
            let percent = 100.0 / (f64::from(best.height) + left) * f64::from(best.height);
            log::info!(target: "validation", "Synchronizing blockheaders, height: {} (~{percent:.2}%)", best.height);
        }
    }

    fn publish_header(&self, best: &HeaderInfo) {
        self.publish(&Event::NewHeader { height: best.height, hash: best.hash, header: best.header.encode() });
    }

    /// Tells of the best header, if it is another one than `before`.
    pub(crate) fn announce_header_after(&self, before: NodeId) {
        let tree = self.intake.tree();
        let best = tree.best_header();
        if best != before {
            let best = info(&tree, best);
            drop(tree);
            self.note_header(&best);
            self.publish_header(&best);
        }
    }
}

impl Intake {
    fn take_some(
        &self,
        headers: &[Header],
        hashes: &[BlockHash],
        last: &mut Option<NodeId>,
        answer: &mut HeadersAnswer,
    ) -> Option<HeadersStop> {
        let now_s = self.clock.unix_s();
        let mut tree = self.tree_mut();
        let mut facts = self.facts();
        for (header, &hash) in headers.iter().zip(hashes) {
            match enter(&mut tree, header, hash, now_s) {
                Ok((id, added)) => {
                    if added {
                        facts.push(Fact::Header(header.encode()));
                    }
                    answer.added += u32::from(added);
                    answer.known += u32::from(!added);
                    *last = Some(id);
                }
                Err(stop) => return Some(stop),
            }
        }
        None
    }

    /// The work of a run that is unproven, has headers we lack, and is too little.
    pub(super) fn low_work(&self, headers: &[Header], hashes: &[BlockHash], proof: WorkProof) -> Option<Work> {
        let (first, WorkProof::Unproven) = (headers.first()?, proof) else { return None };
        let tree = self.tree();
        if tree.find(hashes.last()?).is_some() {
            return None;
        }
        let parent = tree.find(&first.previous)?;
        let work = tree.work(parent) + headers.iter().map(|header| work_of(header.bits)).sum();
        (work < anti_dos_work(&tree, &self.params.minimum_chainwork)).then_some(work)
    }
}

/// Puts one header into the tree; the node, and whether it is new. Core: `AcceptBlockHeader`.
pub(super) fn enter(
    tree: &mut HeaderTree,
    header: &Header,
    hash: BlockHash,
    now_s: u64,
) -> Result<(NodeId, bool), HeadersStop> {
    if let Some(id) = tree.find(&hash) {
        return if tree.is_invalid(id) { Err(HeadersStop::KnownInvalid { hash }) } else { Ok((id, false)) };
    }
    let Some(parent) = tree.find(&header.previous) else {
        return Err(HeadersStop::UnknownParent { previous: header.previous });
    };
    if tree.is_invalid(parent) {
        return Err(HeadersStop::InvalidParent { hash });
    }
    let added = tree.add_header(header, hash, parent, now_s).map(|id| (id, true));
    added.map_err(|error| {
        log_refused_header(&hash, error);
        HeadersStop::Invalid { hash, error }
    })
}

/// Core's line about a header that breaks a rule.
pub(super) fn log_refused_header(hash: &BlockHash, error: HeaderError) {
    let error = BlockError::from(error);
    let (reason, detail) = (error.reject_reason(), error.detail());
    log::debug!(
        target: "validation",
        "AcceptBlockHeader: Consensus::ContextualCheckBlockHeader: {hash}, {reason}, {detail}"
    );
}

/// Core's `GetAntiDoSWorkThreshold`: the network's minimum, and the tip's work less that of a day.
fn anti_dos_work(tree: &HeaderTree, minimum: &[u8; 32]) -> Work {
    let tip = tree.connected();
    let day: Work = std::iter::repeat_n(work_of(tree.header(tip).bits), ANTI_DOS_BLOCKS as usize).sum();
    Work::from_be_bytes(minimum).max(tree.work(tip).saturating_sub(day))
}

impl Handle {
    /// Takes a run of headers, each the parent of the next, under every rule; stops at the first that cannot be taken.
    pub fn submit_headers(&self, headers: &[Header], proof: WorkProof) -> HeadersAnswer {
        self.0.take_headers(headers, proof, true)
    }

    /// The same for whoever is the one that others' headers are told to: no [`Event::NewHeader`] comes of it, which would
    /// wake threads to tell him what he has said.
    pub fn submit_headers_quietly(&self, headers: &[Header], proof: WorkProof) -> HeadersAnswer {
        self.0.take_headers(headers, proof, false)
    }

    /// Work that a chain from a stranger must have.
    pub fn anti_dos_work(&self) -> Work {
        anti_dos_work(&self.0.intake.tree(), &self.0.intake.params.minimum_chainwork)
    }

    /// What is known of a hash.
    pub fn header(&self, hash: &BlockHash) -> Option<HeaderInfo> {
        let tree = self.0.intake.tree();
        tree.find(hash).map(|id| info(&tree, id))
    }

    /// The valid header with the most work.
    pub fn best_header(&self) -> HeaderInfo {
        let tree = self.0.intake.tree();
        info(&tree, tree.best_header())
    }

    /// The tip of the last commit: that of [`Handle::view`].
    pub fn active_tip(&self) -> HeaderInfo {
        let tree = self.0.intake.tree();
        info(&tree, tree.active())
    }

    /// The last block connected, committed or not.
    pub fn connected_tip(&self) -> HeaderInfo {
        let tree = self.0.intake.tree();
        info(&tree, tree.connected())
    }

    /// The header at `height` of the active chain.
    pub fn active_header_at(&self, height: u32) -> Option<HeaderInfo> {
        let tree = self.0.intake.tree();
        tree.ancestor(tree.active(), height).map(|id| info(&tree, id))
    }

    /// The ancestor at `height` of a header, itself included.
    pub fn ancestor(&self, of: &BlockHash, height: u32) -> Option<HeaderInfo> {
        let tree = self.0.intake.tree();
        let id = tree.ancestor(tree.find(of)?, height)?;
        Some(info(&tree, id))
    }

    /// True where `ancestor` is `of`, or below it on its branch.
    pub fn is_ancestor(&self, ancestor: &BlockHash, of: &BlockHash) -> bool {
        let tree = self.0.intake.tree();
        let (Some(ancestor), Some(of)) = (tree.find(ancestor), tree.find(of)) else { return false };
        tree.ancestor(of, tree.height(ancestor)) == Some(ancestor)
    }

    /// The last block that two headers have in common.
    pub fn fork_of(&self, a: &BlockHash, b: &BlockHash) -> Option<HeaderInfo> {
        let tree = self.0.intake.tree();
        let fork = tree.fork_point(tree.find(a)?, tree.find(b)?);
        Some(info(&tree, fork))
    }

    /// The locator of a header we know, itself first, then further and further apart; that of the genesis header for
    /// others.
    pub fn locator(&self, from: &BlockHash) -> Vec<BlockHash> {
        let tree = self.0.intake.tree();
        let (mut at, mut step) = (tree.find(from).unwrap_or(NodeId::GENESIS), 1);
        let mut locator = vec![tree.hash(at)];
        while at != NodeId::GENESIS {
            let height = tree.height(at).saturating_sub(step);
            at = tree.ancestor(at, height).expect("below it");
            locator.push(tree.hash(at));
            if locator.len() as u32 > LOCATOR_SINGLE {
                step *= 2;
            }
        }
        locator
    }

    /// The highest block of the active chain that a locator names, or the tip where it names a block above it.
    pub fn locator_fork(&self, locator: &[BlockHash]) -> HeaderInfo {
        let tree = self.0.intake.tree();
        info(&tree, locator_fork(&tree, locator))
    }

    /// The answer to `getheaders`: up to `count` headers of the active chain behind what the locator names, up to `stop`
    /// (included, where it is on the way). An empty locator asks for the header `stop` alone.
    pub fn headers_after(&self, locator: &[BlockHash], stop: &BlockHash, count: usize) -> Vec<Header> {
        let tree = self.0.intake.tree();
        if locator.is_empty() {
            let alone = tree.find(stop).filter(|id| !tree.is_invalid(*id));
            return alone.map(|id| tree.header(id)).into_iter().collect();
        }
        let first = tree.height(locator_fork(&tree, locator)) + 1;
        let end = (u64::from(first) + count as u64).min(u64::from(tree.height(tree.active())) + 1) as u32;
        if first >= end {
            return Vec::new();
        }
        let last = tree.ancestor(tree.active(), end - 1).expect("at most the tip");
        let before = tree.ancestor(last, first - 1).expect("below it");
        let path = tree.path(before, last);
        let wanted = path.iter().position(|id| tree.hash(*id) == *stop).map_or(path.len(), |index| index + 1);
        path[..wanted].iter().map(|id| tree.header(*id)).collect()
    }

    /// Which blocks are missing on the way to a header (the best one for none), from the last connected block on: of the
    /// first `window` blocks at most `count`. Costs about 50 ns for each block of the window.
    pub fn wanted(&self, towards: Option<&BlockHash>, window: u32, count: usize) -> Wanted {
        let tree = self.0.intake.tree();
        let towards = towards.map_or(Some(tree.best_header()), |hash| tree.find(hash));
        let Some(towards) = towards.filter(|id| !tree.is_invalid(*id)) else { return Wanted::default() };
        let above = tree.height(tree.fork_point(tree.connected(), towards));
        let missing = tree.missing(towards, above, window, count);
        let (waiting_blocks, waiting_bytes) = tree.waiting_in(towards, above, window);
        let blocks = missing.into_iter().map(|id| Missing { height: tree.height(id), hash: tree.hash(id) });
        Wanted { above, blocks: blocks.collect(), waiting_blocks, waiting_bytes }
    }

    /// True where the block is in the files.
    pub fn has_block(&self, hash: &BlockHash) -> bool {
        let tree = self.0.intake.tree();
        tree.find(hash).is_some_and(|id| tree.has_block(id))
    }

    /// True until the tip has once had the network's minimum of work and been less than a day old (Core:
    /// `IsInitialBlockDownload`).
    pub fn is_initial_download(&self) -> bool {
        !self.0.intake.synced.load(std::sync::atomic::Ordering::Relaxed)
    }
}

/// Core's `FindForkInGlobalIndex`.
fn locator_fork(tree: &HeaderTree, locator: &[BlockHash]) -> NodeId {
    let active = tree.active();
    for id in locator.iter().filter_map(|hash| tree.find(hash)) {
        if tree.ancestor(active, tree.height(id)) == Some(id) {
            return id;
        }
        if tree.ancestor(id, tree.height(active)) == Some(active) {
            return active;
        }
    }
    NodeId::GENESIS
}
