//! Connecting blocks: from the tip to a better one, through all stages.
//!
//! In:     a target in the header tree that has the tip below it.
//! Out:    the tip moved up to the target, or as far as blocks are valid and nobody asked to stop.
//! Fails:  [`ChainError`] for the disk; an invalid block marks its header and everything above it, and the caller asks
//!         the tree again for the best tip.
//! Source: Core's `ConnectTip`, `ConnectBlock`, `UpdateCoins`.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use consensus::BlockError;
use consensus::header::median_time_past;
use primitives::OutPoint;
use primitives::script::is_unspendable;
use stdx::pool::Ticket;
use store::blockfiles::BlockFilesError;
use store::{Fact, Fetch, StoreError, TxEntry};

use crate::assumed;
use crate::error::ChainError;
use crate::handle::Event;
use crate::intake::condemns_header;
use crate::lot::{self, Connected, Failure, InFlight, LOT_BLOCKS_MAX, LOT_BYTES, Place, PrepareError, Prepared};
use crate::spend::{ConnectFailure, Ordinals};
use crate::tree::NodeId;
use crate::view::GENESIS_POSITION;
use crate::writer::{Chain, REFUSALS_KEPT_MAX};

/// Lots being read and checked ahead of the writer for each thread of the pool: one at work and one in the queue.
const LOTS_AHEAD_PER_THREAD: usize = 2;

type Preparing = (u64, Ticket<Vec<Result<Prepared, (NodeId, PrepareError)>>>);

/// Lots between the stages of one [`Chain::advance`].
#[derive(Default)]
struct Stages {
    preparing: VecDeque<Preparing>,
    in_flight: VecDeque<InFlight>,
    /// Bytes of the blocks in both queues.
    bytes: u64,
    /// Ordinals after the last block whose coins are connected.
    next: Ordinals,
}

/// A block that cannot be connected.
struct Refusal {
    node: NodeId,
    reason: String,
    /// The rule it breaks; none where its bytes are at fault.
    error: Option<BlockError>,
    /// The same header may have a good block elsewhere in the files.
    copy_may_be_bad: bool,
}

impl Refusal {
    /// A rule that only the block with this header can break.
    fn rule(node: NodeId, error: BlockError) -> Refusal {
        Refusal { node, reason: error.to_string(), error: Some(error), copy_may_be_bad: false }
    }
}

/// Why an advance ends before its target.
enum Halt {
    /// A block is invalid, or cannot be read.
    Refused(Refusal),
    /// The disk failed.
    Failed(ChainError),
    /// Somebody asked to stop.
    Stopped,
}

impl From<ChainError> for Halt {
    fn from(error: ChainError) -> Self {
        Halt::Failed(error)
    }
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        Halt::Failed(error.into())
    }
}

impl Chain {
    /// Connects blocks from the tip towards `target`, which has the tip below it.
    pub(crate) fn advance(&mut self, target: NodeId) -> Result<(), ChainError> {
        let mut path = self.tree().path(self.tip, target);
        let mut stages = Stages { next: self.ordinals(), ..Stages::default() };
        let outcome = self.run_stages(&mut path, &mut stages);
        if self.stopping() {
            self.judges.cancelled.store(true, Ordering::Relaxed);
        }
        // Whatever was connected beyond the tip is either verified now or taken back.
        let outcome = match outcome {
            Ok(()) => self.drain(&mut stages),
            Err(halt) => {
                let drained = self.drain(&mut stages);
                Err(match drained {
                    Err(earlier) => earlier,
                    Ok(()) => halt,
                })
            }
        };
        for (_, ticket) in stages.preparing.drain(..) {
            ticket.wait();
        }
        match outcome {
            Ok(()) | Err(Halt::Stopped) => Ok(()),
            Err(Halt::Failed(error)) => Err(error),
            Err(Halt::Refused(refusal)) => {
                // Whoever is told of the refusal may look at the tip below it.
                self.commit_if_changed()?;
                self.refuse(refusal);
                Ok(())
            }
        }
    }

    /// Marks a block that cannot be connected, and tells of it.
    fn refuse(&mut self, Refusal { node, reason, error, copy_may_be_bad }: Refusal) {
        let mut tree = self.shared.intake.tree_mut();
        let (height, hash) = (tree.height(node), tree.hash(node));
        let is_own = tree.position(node).is_some_and(|position| self.files.is_own(position.file));
        match copy_may_be_bad {
            true if tree.use_other_copy(node) => {}
            // Bytes of ours do not get better; those of another node may be half written.
            true => tree.mark_damaged(node, !is_own),
            false => {
                let fact = Fact::Refused(tree.header(node).encode());
                tree.invalidate(node);
                self.shared.intake.facts().push(fact);
            }
        }
        drop(tree);
        self.shared.update(|status| status.refused = Some((height, hash, reason)));
        if let Some(error) = error.filter(|_| !copy_may_be_bad) {
            log::info!(target: "validation", "Block validation error: {}, {}", error.reject_reason(), error.detail());
            if self.judged.len() >= REFUSALS_KEPT_MAX {
                self.judged.clear();
            }
            self.judged.insert(hash, Err(error));
            self.shared.publish(&Event::BlockJudged { hash, height, verdict: Err(error) });
        }
    }

    fn run_stages(&mut self, path: &mut Vec<NodeId>, stages: &mut Stages) -> Result<(), Halt> {
        let ahead = LOTS_AHEAD_PER_THREAD * self.world.pool.threads();
        let pipeline_bytes = self.options.shares().pipeline_bytes;
        let mut next = 0;
        while !self.stopping() {
            while stages.preparing.len() < ahead && stages.bytes < pipeline_bytes {
                if next == path.len() && !self.extend(path) {
                    break;
                }
                next += self.submit_lot(&path[next..], stages);
            }
            while stages.in_flight.front().is_some_and(InFlight::is_done) {
                self.harvest(stages)?;
            }
            if self.commit_is_due() {
                self.drain(stages)?;
                self.commit()?;
            }
            if stages.bytes >= pipeline_bytes && !stages.in_flight.is_empty() {
                self.harvest(stages)?;
            } else if let Some((bytes, ticket)) = stages.preparing.pop_front() {
                self.connect_lot(ticket.wait(), bytes, stages)?;
            } else if stages.in_flight.is_empty() {
                return Ok(());
            } else {
                self.harvest(stages)?;
            }
            if self.shared.intake.signal.is_urgent() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Goes on to blocks that came meanwhile, so that the stages need not run dry between them. False: none came on top.
    fn extend(&self, path: &mut Vec<NodeId>) -> bool {
        let Some(&last) = path.last() else { return false };
        let tree = self.tree();
        let target = self.target(&tree);
        let is_on_top = target != last && tree.ancestor(target, tree.height(last)) == Some(last);
        if is_on_top {
            path.extend(tree.path(last, target));
        }
        is_on_top
    }

    /// Queues the next lot of `path` for reading and checking; returns its number of blocks.
    fn submit_lot(&mut self, path: &[NodeId], stages: &mut Stages) -> usize {
        let mut places = Vec::new();
        let mut bytes = 0;
        let tree = self.tree();
        let mut fresh = self.shared.intake.fresh.lock().expect("no panic while held");
        for &node in path.iter().take(LOT_BLOCKS_MAX) {
            let position = tree.position(node).unwrap_or(GENESIS_POSITION);
            if !places.is_empty() && bytes + u64::from(position.size) > LOT_BYTES {
                break;
            }
            bytes += u64::from(position.size);
            let height = tree.height(node);
            let branch = tree.branch(tree.parent(node));
            let median_time_past_s = median_time_past(height - 1, &branch);
            let fresh = fresh.take(height, node);
            places.push(Place { node, hash: tree.hash(node), height, position, median_time_past_s, fresh });
        }
        drop((fresh, tree));
        let count = places.len();
        let (files, judges) = (self.files.clone(), self.judges.clone());
        let ticket = self.world.pool.submit(move || {
            let prepare = |place: Place| {
                let node = place.node;
                lot::prepare(&files, place, &judges).map_err(|error| (node, error))
            };
            places.into_iter().map(prepare).collect()
        });
        stages.bytes += bytes;
        stages.preparing.push_back((bytes, ticket));
        count
    }

    /// Connects the coins of a lot and sends it to the script checks.
    fn connect_lot(
        &mut self,
        lot: Vec<Result<Prepared, (NodeId, PrepareError)>>,
        bytes: u64,
        stages: &mut Stages,
    ) -> Result<(), Halt> {
        let fetch = self.fetch_coins(&lot);
        if let Some(fetch) = fetch {
            self.coins.load(fetch)?;
        }
        let mut connected = Vec::with_capacity(lot.len());
        let mut halt = None;
        for prepared in lot {
            let step = match prepared {
                Ok(prepared) => {
                    let node = prepared.node;
                    self.connect_block(prepared, &mut stages.next).map_err(|failure| match failure {
                        ConnectFailure::Rule(error) => Halt::Refused(Refusal::rule(node, error)),
                        ConnectFailure::Store(error) => error.into(),
                    })
                }
                Err((node, error)) => Err(self.halt_of(node, error)),
            };
            match step {
                Ok(block) => connected.push(block),
                Err(why) => {
                    halt = Some(why);
                    break;
                }
            }
        }
        stages.bytes -= bytes;
        if !connected.is_empty() {
            let in_flight = InFlight::submit(connected, &self.judges, &self.world.pool);
            stages.bytes += in_flight.bytes;
            stages.in_flight.push_back(in_flight);
        }
        halt.map_or(Ok(()), Err)
    }

    fn halt_of(&self, node: NodeId, error: PrepareError) -> Halt {
        let position = self.tree().position(node);
        let is_own = position.is_some_and(|position| self.files.is_own(position.file));
        let reason = match position {
            Some(position) => format!("{error} (block file {}, offset {})", position.file, position.offset),
            None => error.to_string(),
        };
        match error {
            // Our own disk fails.
            PrepareError::Read(error @ BlockFilesError::Io { .. }) if is_own => {
                Halt::Failed(ChainError::BlockFiles(error))
            }
            PrepareError::Rule(rule) => {
                Halt::Refused(Refusal { node, reason, error: Some(rule), copy_may_be_bad: !condemns_header(&rule) })
            }
            _ => Halt::Refused(Refusal { node, reason, error: None, copy_may_be_bad: true }),
        }
    }

    /// Starts reading the coins a lot spends that only the disk has; none where everything is in memory.
    fn fetch_coins(&self, lot: &[Result<Prepared, (NodeId, PrepareError)>]) -> Option<Fetch> {
        if self.store.snapshot().block_count() <= 1 {
            return None;
        }
        let blocks = lot.iter().flatten().map(|prepared| prepared.checked.block());
        let outpoints: Vec<OutPoint> = blocks
            .flat_map(|block| block.txs().skip(1).flat_map(|tx| tx.inputs().map(|input| input.outpoint())))
            .collect();
        Some(self.coins.fetch(&self.world.pool, &outpoints))
    }

    /// False where scripts need no check: below an `assume_valid` block, or when measuring without them.
    pub(crate) fn checks_scripts(&mut self, node: NodeId) -> bool {
        if self.options.skip_scripts {
            return false;
        }
        let tree = self.tree();
        let why = assumed::why_scripts_are_checked(&tree, node, self.options.assume_valid, &self.params);
        let (height, hash) = (tree.height(node), tree.hash(node));
        drop(tree);
        if self.scripts_checked_for != Some(why) {
            self.scripts_checked_for = Some(why);
            match why {
                Some(why) => {
                    log::info!(target: "validation", "Enabling script verification at block #{height} ({hash}): {why}.");
                }
                None => log::info!(target: "validation", "Disabling script verification at block #{height} ({hash})."),
            }
        }
        why.is_some()
    }

    /// Takes the oldest lot out of the script checks: what passed joins the batch, what did not is taken back.
    fn harvest(&mut self, stages: &mut Stages) -> Result<(), Halt> {
        let Some(in_flight) = stages.in_flight.pop_front() else { return Ok(()) };
        stages.bytes -= in_flight.bytes;
        let (blocks, verdict) = in_flight.wait();
        let passed = verdict.failure.as_ref().map_or(blocks.len(), |(index, _)| *index);
        let failure = verdict.failure.map(|(index, failure)| (blocks[index].node, failure));
        let derived = verdict.rows.into_iter().zip(verdict.filters);
        for ((block, (rows, filter)), learnt) in blocks[..passed].iter().zip(derived).zip(&verdict.learnt) {
            self.accept(block, rows);
            self.keep_filter(block.height, filter)?;
            self.hints.keep(block.height, block.checked.hash(), &block.hints, learnt);
        }
        let Some((node, failure)) = failure else {
            self.report(&blocks);
            return Ok(());
        };
        // Everything connected after the failed block stands on it: newest first, all of it is taken back.
        let mut above: Vec<Connected> = blocks[passed..].to_vec();
        for later in stages.in_flight.drain(..) {
            stages.bytes -= later.bytes;
            above.extend(later.wait().0.iter().cloned());
        }
        for block in above.iter().rev() {
            self.take_back(&block.checked, &block.spent, block.checked.block().tx_count())?;
        }
        stages.next = self.ordinals();
        self.report(&blocks[..passed]);
        Err(match failure {
            Failure::Cancelled => Halt::Stopped,
            // The witnesses are committed to by now, so no other copy of this block can be better.
            Failure::Rule(error) => Halt::Refused(Refusal::rule(node, error)),
        })
    }

    /// The block passed everything: its rows and entries join what the next commit writes.
    fn accept(&mut self, block: &Connected, rows: index::BlockRows) {
        let parsed = block.checked.block();
        let mut entries = Vec::with_capacity(parsed.tx_count());
        for tx in parsed.txs() {
            entries.push(TxEntry { offset: tx.start() as u32, first_output: tx.output_range().start as u32 });
        }
        let outputs = parsed.output_count() as u32;
        self.store.push_block(&parsed.header().encode(), block.position, &entries, outputs);
        self.batch.history.extend_from_slice(&rows.history);
        self.batch.txid.extend_from_slice(&rows.txid);
        self.batch.spender.extend_from_slice(&rows.spender);
        self.tip = block.node;
        self.shared.intake.tree_mut().set_connected(block.node);
        self.note_judged(block);
        if self.following {
            self.news.joined(block.height, &block.checked);
            let created = parsed.txs().flat_map(|tx| tx.outputs().map(|output| output.script).collect::<Vec<_>>());
            let scripts = created.chain(block.spent.iter().map(|coin| coin.script));
            self.news.touch(scripts.filter(|script| !is_unspendable(script)));
        }
    }

    /// Keeps the verdict for who waits for it, and tells of it near the tip.
    fn note_judged(&mut self, block: &Connected) {
        let hash = *block.checked.hash();
        if self.waiting.iter().any(|waiter| waiter.block == Some(hash)) {
            self.judged.insert(hash, Ok(()));
        } else {
            self.judged.remove(&hash); // it may have been refused before
        }
        if self.following {
            self.shared.publish(&Event::BlockJudged { hash, height: block.height, verdict: Ok(()) });
        }
    }

    /// Adds blocks to the status.
    fn report(&self, blocks: &[Connected]) {
        let Some(last) = blocks.last() else { return };
        let counters = self.judges.counters.total();
        let coins_bytes = self.coins.bytes() as u64;
        self.shared.update(|status| {
            status.height = last.height;
            status.hash = *last.checked.hash();
            status.time_s = last.checked.header().time_s;
            status.coins_bytes = coins_bytes;
            (status.signatures, status.template_inputs, status.interpreter_inputs) =
                (counters.signatures, counters.template_inputs, counters.fallback_inputs);
            status.hinted_signatures = counters.hinted;
            for block in blocks {
                let parsed = block.checked.block();
                let bytes = parsed.bytes().len() as u64;
                status.blocks += 1;
                status.bytes_done += bytes;
                status.bytes_left = status.bytes_left.saturating_sub(bytes);
                status.transactions += parsed.tx_count() as u64;
                status.inputs += block.spent.len() as u64;
                status.outputs += parsed.output_count() as u64;
                status.known_inputs += block.known_inputs() as u64;
            }
        });
    }

    /// Harvests all that is in flight.
    fn drain(&mut self, stages: &mut Stages) -> Result<(), Halt> {
        while !stages.in_flight.is_empty() {
            self.harvest(stages)?;
        }
        Ok(())
    }
}
