//! The program's chain, as the hub asks it.
//!
//! In:     a [`chain::Handle`].
//! Out:    answers from the header tree, which nobody holds for long; blocks go to the pool.
//! Fails:  as [`Chain`] says; judgements come by a channel, for [`super::Hub::judged`].

use std::sync::mpsc::{Receiver, Sender, channel};

use chain::{Acceptance, Handle, HeaderInfo, HeadersStop, QueueFull, WorkProof};
use consensus::block::CheckedBlock;
use consensus::{BlockError, Work};
use primitives::{BlockHash, Header};

use super::blocks::log_unreadable;
use super::{Chain, FilterHead, HeadersRefusal, Judgement, Place};
use crate::peer::PeerId;
use crate::sync::Room;

/// Time a block next to the validated chain has to be younger than the tip to be served, in seconds; Core's
/// `STALE_RELAY_AGE_LIMIT`.
const STALE_SERVED_S: u32 = 30 * 24 * 60 * 60;

/// The chain behind a handle.
pub struct NodeChain {
    handle: Handle,
    judgements: Sender<(BlockHash, Judgement)>,
    serves_filters: bool,
}

impl NodeChain {
    /// The chain, and the judgements on blocks it was given.
    ///
    /// What the writer finds out later comes as [`chain::Event::BlockJudged`]; [`judgement_of`] says what it means.
    pub fn new(handle: Handle) -> (NodeChain, Receiver<(BlockHash, Judgement)>) {
        let (judgements, receiver) = channel();
        (NodeChain { handle, judgements, serves_filters: false }, receiver)
    }

    /// Peers are served block filters, once every block has its own.
    pub fn serve_filters(&mut self) {
        self.serves_filters = true;
    }

    /// The handle.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

/// What a verdict on a block says about who sent it.
pub fn judgement_of(verdict: &Result<(), BlockError>) -> Judgement {
    match verdict {
        Ok(()) => Judgement::Good,
        Err(error) if error.is_mutation() => Judgement::Mutated(error.reject_word()),
        Err(error) => Judgement::Invalid(error.reject_word()),
    }
}

/// What the door's answer says about who sent the block.
fn judgement_at_door(acceptance: &Acceptance) -> Option<(BlockHash, Judgement)> {
    let word = acceptance.word().unwrap_or_default();
    match acceptance {
        Acceptance::Stored { hash, .. } | Acceptance::Duplicate { hash } => Some((*hash, Judgement::Good)),
        Acceptance::Refused { hash, header_invalid: true, .. } => Some((*hash, Judgement::Invalid(word))),
        Acceptance::Refused { hash, .. } => Some((*hash, Judgement::Mutated(word))),
        Acceptance::KnownInvalid { hash } | Acceptance::InvalidParent { hash } => {
            Some((*hash, Judgement::Invalid(word)))
        }
        // Asked for by its header, so the parent is known and the work proved: the header was refused meanwhile.
        Acceptance::UnknownParent { hash, .. } | Acceptance::LowWork { hash } => {
            Some((*hash, Judgement::Mutated(word)))
        }
        Acceptance::Malformed { .. } | Acceptance::NotKept => None,
    }
}

fn place(info: HeaderInfo) -> Place {
    Place {
        hash: info.hash,
        header: info.header,
        height: info.height,
        work: info.work,
        median_time_past_s: info.median_time_past_s,
        has_block: info.has_block,
        is_invalid: info.is_invalid,
    }
}

impl Chain for NodeChain {
    fn find(&self, hash: &BlockHash) -> Option<Place> {
        self.handle.header(hash).map(place)
    }

    fn best_header(&self) -> Place {
        place(self.handle.best_header())
    }

    fn tip(&self) -> Place {
        place(self.handle.active_tip())
    }

    fn connected(&self) -> Place {
        place(self.handle.connected_tip())
    }

    fn ancestor(&self, hash: &BlockHash, height: u32) -> Option<Place> {
        self.handle.ancestor(hash, height).map(place)
    }

    fn common_height(&self, hash: &BlockHash) -> u32 {
        self.handle.fork_of(hash, &self.handle.best_header().hash).map_or(0, |fork| fork.height)
    }

    fn locator(&self, from: &BlockHash) -> Vec<BlockHash> {
        self.handle.locator(from)
    }

    fn headers_after(&self, locator: &[BlockHash], stop: &BlockHash, count: usize) -> Vec<Header> {
        self.handle.headers_after(locator, stop, count)
    }

    fn serves_filters(&self) -> bool {
        self.serves_filters && self.handle.has_filters() && self.handle.view().has_all_filters()
    }

    // A view that a reorganisation passed under answers nothing, as does a disk that fails: the writer finds that too.
    fn filter_heads(&self, first: u32, stop: &BlockHash) -> Option<Vec<FilterHead>> {
        self.handle.filter_heads(first, stop).ok().flatten()
    }

    fn filter_checkpoints(&self, stop: &BlockHash, interval: u32) -> Option<Vec<[u8; 32]>> {
        self.handle.filter_checkpoints(stop, interval).ok().flatten()
    }

    fn filter(&self, block: &BlockHash) -> Option<Vec<u8>> {
        self.handle.block_filter(block).ok().flatten().map(|filter| filter.bytes)
    }

    fn may_serve(&self, hash: &BlockHash) -> bool {
        let (Some(info), tip) = (self.handle.header(hash), self.handle.active_tip()) else { return false };
        // A branch that was left says which blocks we saw: only young ones, which everybody saw, are served.
        let is_young = tip.header.time_s < info.header.time_s.saturating_add(STALE_SERVED_S);
        info.is_active || (info.has_block && !info.is_invalid && is_young)
    }

    fn block(&self, hash: &BlockHash) -> Option<Vec<u8>> {
        self.handle.block_bytes(hash)
    }

    fn enough_work(&self) -> Work {
        self.handle.anti_dos_work()
    }

    fn is_initial_download(&self) -> bool {
        self.handle.is_initial_download()
    }

    fn room(&self) -> Room {
        let load = self.handle.intake_load();
        Room {
            queue_bytes: load.queued_bytes_max.saturating_sub(load.queued_bytes),
            memory_bytes: load.fresh_bytes_max.saturating_sub(load.fresh_bytes + load.queued_bytes),
        }
    }

    fn take_headers(&mut self, headers: &[Header]) -> Result<(), HeadersRefusal> {
        match self.handle.submit_headers_quietly(headers, WorkProof::Proven).stop {
            None => Ok(()),
            Some(HeadersStop::UnknownParent { .. }) => Err(HeadersRefusal::UnknownParent),
            Some(HeadersStop::KnownInvalid { .. }) => Err(HeadersRefusal::KnownInvalid),
            Some(HeadersStop::InvalidParent { .. }) => Err(HeadersRefusal::InvalidParent),
            Some(stop) => Err(HeadersRefusal::Invalid(stop.reject_word())),
        }
    }

    fn take_block(&mut self, _: PeerId, hash: BlockHash, bytes: Vec<u8>) -> bool {
        let length = bytes.len();
        match self.handle.submit_block(bytes, WorkProof::Proven, self.answer(hash, length)) {
            Ok(()) => true,
            Err(QueueFull(_)) => false,
        }
    }

    fn take_checked(&mut self, _: PeerId, block: CheckedBlock) -> bool {
        let answer = self.answer(*block.hash(), block.block().bytes().len());
        self.handle.submit_checked(block, WorkProof::Proven, answer)
    }

    fn show(&mut self, hash: &BlockHash) -> bool {
        let is_shown = self.handle.header(hash).is_some_and(|header| header.is_active);
        if !is_shown {
            let (judgements, hash) = (self.judgements.clone(), *hash);
            self.handle.when_shown(hash, move || {
                let _ = judgements.send((hash, Judgement::Tried));
            });
        }
        !is_shown
    }
}

impl NodeChain {
    /// Passes on what becomes of a block of so many bytes.
    fn answer(&self, hash: BlockHash, length: usize) -> impl FnOnce(Acceptance) + Send + 'static {
        let (judgements, handle) = (self.judgements.clone(), self.handle.clone());
        move |acceptance: Acceptance| {
            if let Acceptance::Malformed { error } = &acceptance {
                log_unreadable(length, *error);
            }
            let judgement = judgement_at_door(&acceptance).unwrap_or((hash, Judgement::Malformed));
            let _ = judgements.send(judgement);
            let tried = move || {
                let _ = judgements.send((hash, Judgement::Tried));
            };
            match acceptance {
                Acceptance::Stored { hash, .. } => handle.when_tried(hash, tried),
                _ => tried(),
            }
        }
    }
}
