//! Events of the writer and the mempool as messages.
//!
//! In:     the writer's events; a way to subscribe to the mempool's, where there is a mempool.
//! Out:    messages of the five topics, in the order in which things happened.
//! Fails:  never. Blocks that cannot be read back are left out; events that came too fast leave a gap in the numbers.
//! Source: Bitcoin Core, `src/zmq/zmqnotificationinterface.cpp` (order of calls), `src/zmq/zmqpublishnotifier.cpp` (bodies).
//!
//! As in Core: blocks that leave and join are told one by one with their transactions, and `hashblock` and `rawblock` name a
//! block only where the chain up to it has more work than the tip before. Before the tip has been reached for the first time
//! nothing is told; Core tells of transactions even then.
//!
//! What a block makes the mempool drop is told before the block; what a reorganisation brings back, after the blocks that left
//! and before those that joined.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use chain::mempool::{Event as MempoolEvent, Reason};
use chain::{Event, Handle, TipBlock};
use primitives::{Block, BlockHash};

use super::{Publisher, Topic};

/// Longest time between two looks whether to stop.
const STEP: Duration = Duration::from_millis(50);
/// How long a block waits for the mempool to tell what it dropped for it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Subscribes to the mempool's events.
pub type MempoolSource = Box<dyn Fn() -> Receiver<MempoolEvent> + Send>;

/// A new tip that has not been told of.
struct Waiting {
    tip: BlockHash,
    connected: Arc<[TipBlock]>,
    /// Height that was left: up to there blocks do not make the chain better than it was.
    left_height: u32,
    since: Instant,
}

/// Turns events into messages.
pub struct News {
    handle: Handle,
    publisher: Arc<Publisher>,
    events: Receiver<Event>,
    mempool: Option<(MempoolSource, Receiver<MempoolEvent>)>,
    waiting: VecDeque<Waiting>,
}

impl News {
    /// Listens from now on.
    pub fn new(handle: Handle, publisher: Arc<Publisher>, mempool: Option<MempoolSource>) -> News {
        let events = handle.subscribe_tips();
        let mempool = mempool.map(|subscribe| {
            let receiver = subscribe();
            (subscribe, receiver)
        });
        News { handle, publisher, events, mempool, waiting: VecDeque::new() }
    }

    /// Publishes until `stop` is set or the writer has ended.
    pub fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::SeqCst) && self.step() {}
    }

    /// Waits for something to tell. False: the writer has ended.
    fn step(&mut self) -> bool {
        let Some((subscribe, receiver)) = &self.mempool else {
            match self.events.recv_timeout(STEP) {
                Ok(event) => self.take(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
            }
            self.tell_waiting(None);
            return true;
        };
        let changed = receiver.recv_timeout(STEP);
        if let Err(RecvTimeoutError::Disconnected) = changed {
            // It came too fast for us, and was taken off the list. The numbers show what is missing.
            let receiver = subscribe();
            self.mempool.as_mut().expect("just seen").1 = receiver;
        }
        loop {
            match self.events.try_recv() {
                Ok(event) => self.take(event),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
        while self.waiting.front().is_some_and(|first| first.since.elapsed() > PATIENCE) {
            self.tell_first();
        }
        if let Ok(event) = changed {
            self.take_change(&event);
        }
        true
    }

    fn take(&mut self, event: Event) {
        if let Event::NewTip { header, disconnected, connected, .. } = event {
            let tip = primitives::Header::decode(&header).hash();
            if !disconnected.is_empty() {
                // What was told before comes first, whether the mempool has followed or not.
                self.tell_waiting(None);
                disconnected.iter().for_each(|left| self.tell_block(left, b'D', false));
            }
            let left_height = disconnected.first().map_or(0, |highest| highest.height);
            self.waiting.push_back(Waiting { tip, connected, left_height, since: Instant::now() });
        }
    }

    /// Tells of new tips up to `last`, or of all.
    fn tell_waiting(&mut self, last: Option<BlockHash>) {
        if last.is_some_and(|last| self.waiting.iter().all(|waiting| waiting.tip != last)) {
            return;
        }
        while let Some(tip) = self.waiting.front().map(|first| first.tip) {
            self.tell_first();
            if last == Some(tip) {
                return;
            }
        }
    }

    fn tell_first(&mut self) {
        let Some(Waiting { connected, left_height, .. }) = self.waiting.pop_front() else { return };
        // Heights stand for work.
        connected.iter().for_each(|joined| self.tell_block(joined, b'C', joined.height > left_height));
    }

    /// A block's transactions, the block, and the tip where it is one.
    fn tell_block(&self, told: &TipBlock, label: u8, is_tip: bool) {
        let wants_txs = self.publisher.has(Topic::HashTx) || self.publisher.has(Topic::RawTx);
        let read;
        let block = match &told.block {
            Some(checked) => Some(checked.block()),
            None if wants_txs || self.publisher.has(Topic::RawBlock) => {
                read = self.handle.block_bytes(&told.hash).and_then(|bytes| Block::parse(bytes).ok());
                read.as_ref()
            }
            None => None,
        };
        if let Some(block) = block.filter(|_| wants_txs) {
            for tx in block.txs() {
                self.tell_tx(tx.txid().0, tx.raw());
            }
        }
        self.publisher.publish(Topic::Sequence, &[&shown(told.hash.0)[..], &[label]].concat());
        if is_tip {
            self.publisher.publish(Topic::HashBlock, &shown(told.hash.0));
            if let Some(block) = block {
                self.publisher.publish(Topic::RawBlock, block.bytes());
            }
        }
    }

    fn tell_tx(&self, txid: [u8; 32], bytes: &[u8]) {
        self.publisher.publish(Topic::HashTx, &shown(txid));
        self.publisher.publish(Topic::RawTx, bytes);
    }

    fn take_change(&mut self, event: &MempoolEvent) {
        match event {
            MempoolEvent::Added { entry, sequence, .. } => {
                self.tell_tx(entry.txid.0, entry.tx().raw());
                self.tell_change(entry.txid.0, b'A', *sequence);
            }
            // Whoever hears of the block knows which transactions it has.
            MempoolEvent::Offered { .. }
            | MempoolEvent::Shifted { .. }
            | MempoolEvent::Removed { reason: Reason::Block, .. } => {}
            MempoolEvent::Removed { entry, sequence, .. } => self.tell_change(entry.txid.0, b'R', *sequence),
            MempoolEvent::Block { hash, .. } => self.tell_waiting(Some(*hash)),
        }
    }

    fn tell_change(&self, txid: [u8; 32], label: u8, sequence: u64) {
        let body = [&shown(txid)[..], &[label], &sequence.to_le_bytes()].concat();
        self.publisher.publish(Topic::Sequence, &body);
    }
}

/// A hash in the order of its digits.
fn shown(mut hash: [u8; 32]) -> [u8; 32] {
    hash.reverse();
    hash
}
