//! Connecting blocks: from the tip to a better one, through all stages.
//!
//! In:     a target in the header tree that has the tip below it.
//! Out:    the tip moved up to the target, or as far as blocks are valid and nobody asked to stop.
//! Fails:  [`ChainError`] for the disk; an invalid block marks its header and everything above it, and the caller asks
//!         the tree again for the best tip.
//! Source: Core's `ConnectTip`, `ConnectBlock`, `UpdateCoins`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use consensus::connect::bip30_applies;
use consensus::header::median_time_past;
use consensus::{BlockError, CheckedBlock};
use primitives::script::is_unspendable;
use primitives::{Coin, OutPoint, ScriptHash, SpentCoins, Tx, TxNum, Txid, TxoNum};
use stdx::pool::Ticket;
use store::{Fetch, StoreError, TxEntry};

use crate::error::ChainError;
use crate::lot::{self, Connected, Failure, InFlight, LOT_BLOCKS_MAX, LOT_BYTES, Place, PrepareError, Prepared};
use crate::tree::NodeId;
use crate::view::GENESIS_POSITION;
use crate::writer::Chain;

/// Lots being read and checked ahead of the writer for each thread of the pool: one at work and one in the queue.
const LOTS_AHEAD_PER_THREAD: usize = 2;
/// Coins brought into the processor's cache at once, before they are spent one by one.
const COINS_WARMED: usize = 32;

type Preparing = (u64, Ticket<Vec<Result<Prepared, (NodeId, PrepareError)>>>);

/// Lots between the stages of one [`Chain::advance`].
#[derive(Default)]
struct Stages {
    preparing: VecDeque<Preparing>,
    in_flight: VecDeque<InFlight>,
    /// Bytes of the blocks in both queues.
    bytes: u64,
    /// The block after the last one whose coins are connected, and its ordinals.
    next_tx_num: TxNum,
    next_txo_num: TxoNum,
}

/// A block that cannot be connected.
struct Refusal {
    node: NodeId,
    reason: String,
    /// The same header may have a good block elsewhere in the files.
    copy_may_be_bad: bool,
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

/// Why a block's coins could not be connected; what it had changed has been taken back.
enum ConnectFailure {
    Rule(BlockError),
    Store(StoreError),
}

impl From<StoreError> for ConnectFailure {
    fn from(error: StoreError) -> Self {
        ConnectFailure::Store(error)
    }
}

impl Chain {
    /// Connects blocks from the tip towards `target`, which has the tip below it.
    pub(crate) fn advance(&mut self, target: NodeId) -> Result<(), ChainError> {
        let path = self.tree.path(self.tip, target);
        let mut stages =
            Stages { next_tx_num: self.store.tx_count(), next_txo_num: self.store.txo_count(), ..Stages::default() };
        let outcome = self.run_stages(&path, &mut stages);
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
            Err(Halt::Refused(Refusal { node, reason, copy_may_be_bad })) => {
                let (height, hash) = (self.tree.height(node), self.tree.hash(node));
                match copy_may_be_bad {
                    true if self.tree.use_other_copy(node) => {}
                    true => self.tree.mark_damaged(node),
                    false => self.tree.invalidate(node),
                }
                self.shared.update(|status| status.refused = Some((height, hash, reason)));
                Ok(())
            }
        }
    }

    fn run_stages(&mut self, path: &[NodeId], stages: &mut Stages) -> Result<(), Halt> {
        let ahead = LOTS_AHEAD_PER_THREAD * self.world.pool.threads();
        let pipeline_bytes = self.options.shares().pipeline_bytes;
        let mut next = 0;
        while !self.stopping() {
            while stages.preparing.len() < ahead && next < path.len() && stages.bytes < pipeline_bytes {
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
        }
        Ok(())
    }

    /// Queues the next lot of `path` for reading and checking; returns its number of blocks.
    fn submit_lot(&mut self, path: &[NodeId], stages: &mut Stages) -> usize {
        let mut places = Vec::new();
        let mut bytes = 0;
        for &node in path.iter().take(LOT_BLOCKS_MAX) {
            let position = self.tree.position(node).unwrap_or(GENESIS_POSITION);
            if !places.is_empty() && bytes + u64::from(position.size) > LOT_BYTES {
                break;
            }
            bytes += u64::from(position.size);
            let height = self.tree.height(node);
            let branch = self.tree.branch(self.tree.parent(node));
            let median_time_past_s = median_time_past(height - 1, &branch);
            places.push(Place { node, hash: self.tree.hash(node), height, position, median_time_past_s });
        }
        let count = places.len();
        let (files, judges) = (self.files.clone(), self.judges.clone());
        let ticket = self.world.pool.submit(move || {
            let prepare = |place: Place| {
                lot::prepare(&files, place, &judges.params, judges.tag_key.as_ref())
                    .map_err(|error| (place.node, error))
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
                    self.connect_block(prepared, stages).map_err(|failure| match failure {
                        ConnectFailure::Rule(error) => {
                            Halt::Refused(Refusal { node, reason: error.to_string(), copy_may_be_bad: false })
                        }
                        ConnectFailure::Store(error) => error.into(),
                    })
                }
                Err((node, error)) => Err(Halt::Refused(Refusal {
                    node,
                    reason: self.describe(node, &error),
                    copy_may_be_bad: error.copy_may_be_bad(),
                })),
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

    fn describe(&self, node: NodeId, error: &PrepareError) -> String {
        match self.tree.position(node) {
            Some(position) => format!("{error} (block file {}, offset {})", position.file, position.offset),
            None => error.to_string(),
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

    /// Spends and creates the coins of one block; on failure all of it is taken back.
    fn connect_block(&mut self, prepared: Prepared, stages: &mut Stages) -> Result<Connected, ConnectFailure> {
        let Prepared { node, height, position, checked, output_tags, median_time_past_s } = prepared;
        self.check_bip30(node, height, &checked)?;
        let inputs = checked.block().input_count();
        let mut spent = SpentCoins::with_capacity(inputs);
        let mut spent_tags = Vec::with_capacity(inputs);
        let mut txo_num = stages.next_txo_num;
        let outpoints: Vec<OutPoint> =
            checked.block().txs().skip(1).flat_map(|tx| tx.inputs().map(|input| input.outpoint())).collect();
        for tx in checked.block().txs() {
            if let Err(failure) = self.spend_inputs(&tx, &outpoints, &mut spent, &mut spent_tags) {
                self.take_back(&checked, &spent, tx.index())?;
                return Err(failure);
            }
            self.create_outputs(&tx, &checked.txids()[tx.index()], height, txo_num, &output_tags)?;
            txo_num += tx.output_count() as u64;
        }
        let connected = Connected {
            node,
            height,
            position,
            output_tags,
            spent: Arc::new(spent),
            spent_tags: Arc::new(spent_tags),
            first_tx_num: stages.next_tx_num,
            median_time_past_s,
            check_scripts: self.checks_scripts(node),
            checked,
        };
        stages.next_tx_num += connected.checked.block().tx_count() as TxNum;
        stages.next_txo_num = txo_num;
        let median_s = median_time_past(height, &self.tree.branch(node));
        let mut times = self.judges.median_times_s.write().expect("no panic while held");
        times.truncate(height as usize);
        times.push(median_s);
        Ok(connected)
    }

    /// BIP 30: a transaction must not repeat one that has unspent outputs.
    ///
    /// Only coinbases are looked up. Any other repeated transaction spends what the first one spent, so the transaction
    /// it spends was repeated too, and so on down to a repeated coinbase; the two that history allows overwrote coins
    /// that nobody had spent.
    fn check_bip30(&mut self, node: NodeId, height: u32, checked: &CheckedBlock) -> Result<(), ConnectFailure> {
        let bip34_ancestor = self.tree.ancestor(node, self.params.bip34_height).map(|id| self.tree.hash(id));
        if !bip30_applies(height, checked.hash(), bip34_ancestor, &self.params) {
            return Ok(());
        }
        let (coinbase, txid) = (checked.block().tx(0), checked.txids()[0]);
        for vout in 0..coinbase.output_count() as u32 {
            let outpoint = OutPoint { txid, vout };
            if self.coins.exists(&outpoint)? {
                return Err(ConnectFailure::Rule(BlockError::Bip30 { outpoint }));
            }
        }
        Ok(())
    }

    fn spend_inputs(
        &mut self,
        tx: &Tx<'_>,
        outpoints: &[OutPoint],
        spent: &mut SpentCoins,
        spent_tags: &mut Vec<u64>,
    ) -> Result<(), ConnectFailure> {
        if tx.index() == 0 {
            return Ok(());
        }
        for index in tx.input_range() {
            let (outpoint, rest) = (outpoints[index - 1], &outpoints[index - 1..]);
            if (index - 1) % COINS_WARMED == 0 {
                self.coins.warm(&rest[..rest.len().min(COINS_WARMED)]);
            }
            match self.coins.spend(&outpoint)? {
                Some(found) => {
                    spent.push(found.coin);
                    spent_tags.push(found.tag);
                }
                None => {
                    let tx_index = tx.index();
                    return Err(ConnectFailure::Rule(BlockError::MissingInput { tx_index, outpoint }));
                }
            }
        }
        Ok(())
    }

    fn create_outputs(
        &mut self,
        tx: &Tx<'_>,
        txid: &Txid,
        height: u32,
        first_txo_num: TxoNum,
        output_tags: &[u64],
    ) -> Result<(), StoreError> {
        let tags = &output_tags[tx.output_range()];
        for (vout, (output, &tag)) in tx.outputs().zip(tags).enumerate() {
            if is_unspendable(output.script) {
                continue;
            }
            let coin = Coin {
                value_sat: output.value_sat as u64,
                height,
                coinbase: tx.index() == 0,
                txo_num: first_txo_num + vout as u64,
                script: output.script,
            };
            self.coins.create(&OutPoint { txid: *txid, vout: vout as u32 }, coin, tag)?;
        }
        Ok(())
    }

    /// Takes back a block whose transactions before `end` are connected, and of which `spent` has been spent.
    fn take_back(&mut self, checked: &CheckedBlock, spent: &SpentCoins, end: usize) -> Result<(), StoreError> {
        let mut left = spent.len();
        // The transaction at `end` has spent some of its inputs and created nothing.
        for index in (0..=end.min(checked.block().tx_count() - 1)).rev() {
            let tx = checked.block().tx(index);
            if index < end {
                for (vout, output) in tx.outputs().enumerate() {
                    if !is_unspendable(output.script) {
                        self.coins.remove(&OutPoint { txid: checked.txids()[index], vout: vout as u32 })?;
                    }
                }
            }
            if index == 0 {
                break;
            }
            let first = tx.input_range().start - 1;
            for input in (first..left).rev() {
                self.coins.restore(&tx.input(input - first).outpoint(), spent.get(input))?;
            }
            left = left.min(first);
        }
        Ok(())
    }

    /// False where scripts need no check: below an `assume_valid` block, or when measuring without them.
    fn checks_scripts(&self, node: NodeId) -> bool {
        let assumed = self.options.assume_valid.and_then(|hash| self.tree.find(&hash));
        let below = assumed.is_some_and(|assumed| self.tree.ancestor(assumed, self.tree.height(node)) == Some(node));
        !(below || self.options.skip_scripts)
    }

    /// Takes the oldest lot out of the script checks: what passed joins the batch, what did not is taken back.
    fn harvest(&mut self, stages: &mut Stages) -> Result<(), Halt> {
        let Some(in_flight) = stages.in_flight.pop_front() else { return Ok(()) };
        stages.bytes -= in_flight.bytes;
        let (blocks, verdict) = in_flight.wait();
        let passed = verdict.failure.as_ref().map_or(blocks.len(), |(index, _)| *index);
        let failure = verdict.failure.map(|(index, failure)| (blocks[index].node, failure));
        for (block, rows) in blocks[..passed].iter().zip(verdict.rows) {
            self.accept(block, rows);
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
        stages.next_tx_num = self.store.tx_count();
        stages.next_txo_num = self.store.txo_count();
        self.report(&blocks[..passed]);
        Err(match failure {
            Failure::Cancelled => Halt::Stopped,
            // The witnesses are committed to by now, so no other copy of this block can be better.
            Failure::Rule(error) => Halt::Refused(Refusal { node, reason: error.to_string(), copy_may_be_bad: false }),
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
        if self.following {
            let created = parsed.txs().flat_map(|tx| tx.outputs().map(|output| output.script).collect::<Vec<_>>());
            let scripts = created.chain(block.spent.iter().map(|coin| coin.script));
            self.touched.extend(scripts.filter(|script| !is_unspendable(script)).map(ScriptHash::of));
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
            for block in blocks {
                let parsed = block.checked.block();
                let bytes = parsed.bytes().len() as u64;
                status.blocks += 1;
                status.bytes_done += bytes;
                status.bytes_left = status.bytes_left.saturating_sub(bytes);
                status.transactions += parsed.tx_count() as u64;
                status.inputs += block.spent.len() as u64;
                status.outputs += parsed.output_count() as u64;
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
