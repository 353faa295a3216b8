//! The writer's news, told to the mempool and the fee estimates.
//!
//! In:     [`Event::NewTip`], blocks by their hashes where the event does not carry them, the mempool's own events.
//! Out:    a mempool that stands on the newest view; estimates that have learnt from every change.
//! Fails:  never; where the news have a gap, all of the mempool is judged anew.
//! Source: Bitcoin Core: `MaybeUpdateMempoolForReorg`, `removeForBlock`, `CBlockPolicyEstimator`.
//!
//! The newest view may be ahead of the event that is being told: what its blocks change comes with their own events,
//! and nobody waits for less than all that were told of ([`Followed::wait`]).

use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use consensus::block::CheckedBlock;
use primitives::{Block, Header, Txid};
use sigs::Engine;
use stdx::clock::Clock;

use super::followed::{FRESH_LOOK, Followed};
use crate::estimates::Estimates;
use crate::handle::{Event, Handle, Phase, TipBlock};
use crate::mempool::{self, Base, Joined, Mempool, SharedMempool};
use crate::policy::Policy;
use crate::view::{Tip, View};

/// Bytes of disconnected blocks that are read again; the mempool takes no more of their transactions back.
const RETURNING_BYTES_MAX: usize = 20_000_000;

/// What was learnt about fees, shared with who asks.
#[derive(Clone, Default)]
pub struct SharedEstimates(Arc<Mutex<Estimates>>);

impl SharedEstimates {
    /// For one question.
    pub fn lock(&self) -> MutexGuard<'_, Estimates> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The mempool of a chain and everything that keeps it true.
pub struct Upkeep {
    handle: Handle,
    clock: Arc<dyn Clock>,
    mempool: SharedMempool,
    news: Receiver<Event>,
    changes: Receiver<mempool::Event>,
    estimates: SharedEstimates,
    /// Of the block that is being told, for the estimates.
    confirmed: Vec<(Txid, u32, f64)>,
    followed: Arc<Followed>,
    /// The tip that the mempool was told of last.
    tip: Tip,
}

/// A block's bytes, however they came.
struct Told {
    block: Block,
    txids: Vec<Txid>,
}

impl From<&CheckedBlock> for Told {
    fn from(checked: &CheckedBlock) -> Told {
        Told { block: checked.block().clone(), txids: checked.txids().to_vec() }
    }
}

impl Upkeep {
    /// An empty mempool on the newest view. `secret`: 16 random bytes, the key of its tables.
    pub fn open(
        handle: &Handle,
        policy: Policy,
        engine: Arc<dyn Engine>,
        clock: Arc<dyn Clock>,
        secret: [u8; 16],
    ) -> Upkeep {
        // In this order, so that no tip falls between them: what is told twice is known by its number.
        let news = handle.subscribe_tips();
        let told = handle.tips_told();
        let view = handle.view();
        let followed = Arc::new(Followed::new(handle.clone(), told, view.clone()));
        let tip = view.tip();
        let mempool = SharedMempool::new(Mempool::new(policy, view, engine, secret));
        handle.spare(mempool.read().scripts().clone());
        let changes = mempool.write().subscribe();
        let (handle, estimates, confirmed) = (handle.clone(), SharedEstimates::default(), Vec::new());
        Upkeep { handle, clock, mempool, news, changes, estimates, confirmed, followed, tip }
    }

    /// The mempool.
    pub fn mempool(&self) -> &SharedMempool {
        &self.mempool
    }

    /// What was learnt about fees.
    pub fn estimates(&self) -> &SharedEstimates {
        &self.estimates
    }

    /// How far the mempool has followed.
    pub fn followed(&self) -> &Arc<Followed> {
        &self.followed
    }

    /// Waits for news no longer than `longest`, and deals with all there are.
    ///
    /// Panics where a thread has panicked while it changed the mempool: nothing may go on with such tables.
    pub fn step(&mut self, longest: Duration) {
        assert!(!self.mempool.is_poisoned(), "a thread panicked while it changed the mempool");
        if let Ok(event) = self.news.recv_timeout(longest) {
            self.take(&event);
        }
        while let Ok(event) = self.news.try_recv() {
            self.take(&event);
        }
        self.keep_up_untold();
        if !self.followed.is_settled() {
            self.settle(); // the chain may have come back to a tip that was told of before
        }
        self.learn();
    }

    fn take(&mut self, event: &Event) {
        let Event::NewTip { number, height, header, connected, disconnected, .. } = event else { return };
        if *number <= self.followed.number() {
            return; // it is what the mempool began with
        }
        let tip = Tip { height: *height, hash: Header::decode(header).hash() };
        self.followed.unsettle();
        if tip != self.tip && !(self.is_whole(tip, connected, disconnected) && self.tell(connected, disconnected)) {
            self.move_to(self.handle.view());
        }
        self.tip = tip;
        self.learn();
        self.settle();
        self.followed.reach(*number);
    }

    /// Says that chain and mempool agree, unless the chain has moved on: then the next event is on its way.
    fn settle(&self) {
        let view = self.handle.view();
        if view.tip() == self.tip {
            self.followed.settle(view);
        }
    }

    /// True where the event leads from the last tip to this one without a gap.
    fn is_whole(&self, tip: Tip, connected: &[TipBlock], disconnected: &[TipBlock]) -> bool {
        let fork = i64::from(self.tip.height) - disconnected.len() as i64;
        let left = disconnected.first().is_none_or(|first| first.hash == self.tip.hash);
        let joined = connected.last().is_none_or(|last| last.hash == tip.hash);
        left && joined && fork + connected.len() as i64 == i64::from(tip.height)
    }

    /// Tells the mempool of blocks; false where one of them cannot be found.
    fn tell(&mut self, connected: &[TipBlock], disconnected: &[TipBlock]) -> bool {
        if !disconnected.is_empty() {
            let Some(returning) = self.returning(disconnected) else { return false };
            let (now_s, view) = (self.clock.unix_s(), self.handle.view());
            self.mempool.blocks_disconnected(&returning, view, now_s, &mut || self.fresh_view());
        }
        for place in connected {
            let Some(told) = self.told(place) else { return false };
            let tip = Tip { height: place.height, hash: place.hash };
            let joined = Joined { tip, block: &told.block, txids: &told.txids };
            self.mempool.write().block_connected(&joined, self.handle.view(), self.clock.unix_s());
            self.learn();
        }
        true
    }

    /// Disconnected blocks, the highest first; of a long branch the lowest, as many as the mempool takes back.
    fn returning(&self, disconnected: &[TipBlock]) -> Option<Vec<Block>> {
        let mut bytes = 0;
        let mut returning = Vec::new();
        for place in disconnected.iter().rev() {
            if bytes > RETURNING_BYTES_MAX {
                break;
            }
            let block = self.told(place)?.block;
            bytes += block.bytes().len();
            returning.push(block);
        }
        returning.reverse();
        Some(returning)
    }

    fn told(&self, place: &TipBlock) -> Option<Told> {
        if let Some(checked) = &place.block {
            return Some(Told::from(&**checked));
        }
        let block = Block::parse(self.handle.block_bytes(&place.hash)?).ok()?;
        let txids = block.txs().map(|tx| tx.txid()).collect();
        Some(Told { block, txids })
    }

    /// While blocks are imported nobody is told of tips. The mempool moves on with the view all the same, so that it
    /// judges by the chain there is and keeps no files of an old view open.
    fn keep_up_untold(&mut self) {
        let view = self.handle.view();
        if view.tip() == self.tip || matches!(self.handle.status().phase, Phase::Following | Phase::Stopping) {
            return;
        }
        self.tip = view.tip();
        self.followed.unsettle();
        self.move_to(view.clone());
        self.followed.settle(view);
    }

    /// The mempool moves to a chain that nobody knows the way to.
    fn move_to(&self, view: Arc<View>) {
        self.mempool.chain_moved(view, self.clock.unix_s(), &mut || self.fresh_view());
    }

    /// The newest view once it can be read: while blocks are disconnected, it cannot. None where the node ends.
    fn fresh_view(&self) -> Option<Arc<dyn Base>> {
        loop {
            let view = self.handle.view();
            if view.is_fresh() {
                return Some(view);
            }
            if self.handle.stopping() {
                return None;
            }
            std::thread::sleep(FRESH_LOOK);
        }
    }

    /// Lets the estimates learn from what has changed since the last time.
    fn learn(&mut self) {
        let mut estimates = self.estimates.lock();
        loop {
            match self.changes.try_recv() {
                Ok(event) => estimates.learn(&event, &mut self.confirmed),
                Err(TryRecvError::Empty) => return,
                // It lagged behind and was dropped: what it missed is not learnt.
                Err(TryRecvError::Disconnected) => {
                    self.changes = self.mempool.write().subscribe();
                    self.confirmed.clear();
                    estimates.unwatch_all();
                    return;
                }
            }
        }
    }
}
