//! What blocks do to the mempool, and what its owner does by hand.
//!
//! In:     blocks connected and disconnected, with the chain as it is afterwards.
//! Out:    a mempool that the next block could be made of.
//! Fails:  never; what is no longer valid is removed and told.
//! Source: Bitcoin Core, `txmempool.cpp` (`removeForBlock`, `PrioritiseTransaction`), `validation.cpp`
//!         (`MaybeUpdateMempoolForReorg`).
//!
//! Transactions of disconnected blocks come back first. What spends from them here is taken out for the moment and judged
//! again after them, so that no cluster is ever larger than policy allows. Core joins the clusters and trims them later.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use consensus::connect::COINBASE_MATURITY;
use primitives::{Block, OutPoint, Transaction, Txid};

use super::accept::{Accept, Terms};
use super::base::Base;
use super::entry::{Entry, Event, Reason};
use super::pool::{Mempool, Slot};
use crate::policy::Reject;
use crate::view::Tip;

/// Transactions of disconnected blocks that may come back; Core keeps 20 MB of them (`MAX_DISCONNECTED_TX_POOL_BYTES`).
const RETURNING_BYTES_MAX: usize = 20_000_000;

/// A block that joined the chain.
pub struct Joined<'a> {
    /// Its height and hash.
    pub tip: Tip,
    /// The block.
    pub block: &'a Block,
    /// Identifiers of its transactions, in order.
    pub txids: &'a [Txid],
}

/// Transactions, and whether they have unconfirmed parents.
type Standing = Vec<(Arc<Entry>, bool)>;

/// What blocks that left the chain had in them.
pub(super) struct Returning {
    /// Transactions that may come back, parents before children.
    pub transactions: Vec<Transaction>,
    /// How they are judged.
    pub how: Accept,
    /// Their outputs, those of coinbases too.
    outputs: Vec<OutPoint>,
}

impl Returning {
    /// Of blocks, the highest first.
    pub fn of(blocks: &[Block], time_s: u64) -> Returning {
        let (mut transactions, mut outputs) = (Vec::new(), Vec::new());
        let mut room = Some(RETURNING_BYTES_MAX);
        for tx in blocks.iter().rev().flat_map(Block::txs) {
            let txid = tx.txid();
            outputs.extend((0..tx.output_count() as u32).map(|vout| OutPoint { txid, vout }));
            if tx.is_coinbase() {
                continue;
            }
            room = room.and_then(|room| room.checked_sub(tx.raw().len()));
            if room.is_some() {
                transactions.push(Transaction::parse(tx.raw()).expect("a transaction of a block parses alone"));
            }
        }
        let how = Accept { bypass_limits: true, announce: false, ..Accept::at(time_s) };
        Returning { transactions, how, outputs }
    }
}

/// What was set aside for them.
pub(super) struct Aside {
    /// What spends from them, parents before children.
    pub waiting: Vec<Arc<Entry>>,
    /// How it stood.
    pub standing: Standing,
}

impl Mempool {
    /// A block was connected; `base` is the chain with it, and perhaps with others that are told next.
    pub fn block_connected(&mut self, joined: &Joined<'_>, base: Arc<dyn Base>, time_s: u64) {
        let Joined { tip, block, txids } = *joined;
        assert_eq!(block.tx_count(), txids.len(), "an identifier for each transaction");
        self.base = base;
        let spent: Vec<OutPoint> = block.txs().flat_map(|tx| tx.inputs().map(|input| input.outpoint())).collect();
        self.coins.forget(spent.iter());
        let confirmed: Vec<Slot> = txids.iter().filter_map(|txid| self.slot(txid)).collect();
        let children: BTreeSet<Slot> = confirmed.iter().flat_map(|&slot| self.node(slot).children.clone()).collect();
        let standing = self.standing(children.into_iter());
        let leaving = self.leaving(joined);
        self.remove_each(&leaving);
        txids.iter().for_each(|txid| {
            self.deltas.remove(txid);
        });
        self.note_block(time_s);
        self.tell_shifted(&standing);
        self.tell(Event::Block { height: tip.height, hash: tip.hash });
    }

    fn standing(&self, slots: impl Iterator<Item = Slot>) -> Standing {
        let of = |slot: Slot| (self.node(slot).entry.clone(), !self.node(slot).parents.is_empty());
        slots.map(of).collect()
    }

    /// Tells of those that are still here and for which that is no longer true.
    fn tell_shifted(&mut self, before: &[(Arc<Entry>, bool)]) {
        for (entry, had_parents) in before {
            let Some(slot) = self.slot(&entry.txid) else { continue };
            let node = self.node(slot);
            if *had_parents == node.parents.is_empty() {
                let entry = node.entry.clone();
                self.tell(Event::Shifted { entry });
            }
        }
    }

    /// What a block takes out, in Core's order: each of its transactions, then whatever else spends what that one spends, and
    /// never will be confirmed, with all that spends from it.
    fn leaving(&mut self, joined: &Joined<'_>) -> Vec<(Slot, Reason)> {
        let mut seen: HashSet<Slot> = joined.txids.iter().filter_map(|txid| self.slot(txid)).collect();
        let mut leaving = Vec::with_capacity(seen.len());
        for (tx, txid) in joined.block.txs().zip(joined.txids) {
            leaving.extend(self.slot(txid).map(|slot| (slot, Reason::Block)));
            for input in tx.inputs() {
                let Some(loser) = self.spender_slot(&input.outpoint()).filter(|slot| !seen.contains(slot)) else {
                    continue;
                };
                let txid = self.node(loser).entry.txid;
                self.deltas.remove(&txid);
                let mut losers = self.with_descendants(&[loser]);
                losers.retain(|&slot| seen.insert(slot));
                losers.sort_by_key(|&slot| self.node(slot).entry.sequence);
                leaving.extend(losers.into_iter().map(|slot| (slot, Reason::Conflict)));
            }
        }
        leaving
    }

    /// From now on the chain below is this one; what is here is still to be judged by it.
    pub(super) fn stand_on(&mut self, base: Arc<dyn Base>) {
        self.base = base;
        self.coins.clear();
    }

    /// Judges some of those that are here again, but for fees and scripts, with all that spend from them. Those that nobody
    /// could judge are taken out and returned.
    pub(super) fn judge_again(&mut self, txids: &[Txid]) -> Vec<Arc<Entry>> {
        let slots: Vec<Slot> = txids.iter().filter_map(|txid| self.slot(txid)).collect();
        let standing = self.standing(self.with_descendants(&slots).into_iter());
        let waiting = self.take_out(&slots);
        let unjudged = waiting.into_iter().filter_map(|entry| self.put_back(entry)).collect();
        self.tell_shifted(&standing);
        unjudged
    }

    /// All was judged by the chain below, and nobody knows by which blocks it became what it is.
    pub(super) fn end_move(&mut self, time_s: u64) {
        self.limit(time_s);
        self.note_block(time_s);
        self.tell_tip();
    }

    /// Blocks were disconnected, from the tip down, and perhaps others connected: those are told afterwards, each with
    /// [`Mempool::block_connected`]. `base` is the chain as it is now. For who has the mempool alone; others take
    /// [`super::SharedMempool::blocks_disconnected`].
    pub fn blocks_disconnected(&mut self, blocks: &[Block], base: Arc<dyn Base>, time_s: u64) {
        let returning = Returning::of(blocks, time_s);
        let Aside { waiting, standing } = self.begin_return(&returning, base);
        for transaction in &returning.transactions {
            // Whatever is refused now was valid in a chain that is gone: nobody is told.
            let _ = self.accept(transaction, &returning.how);
        }
        for entry in waiting {
            self.put_back(entry).into_iter().for_each(|entry| self.lose(entry, Reason::Reorg));
        }
        let all: Vec<Txid> = self.txids().collect();
        let invalid = self.invalid_among(&all);
        self.end_return(&invalid, &standing, time_s);
    }

    /// What spends from transactions that return is set aside, so that they come first.
    pub(super) fn begin_return(&mut self, returning: &Returning, base: Arc<dyn Base>) -> Aside {
        self.stand_on(base);
        let spending: Vec<Slot> = returning.outputs.iter().filter_map(|outpoint| self.spender_slot(outpoint)).collect();
        let standing = self.standing(self.with_descendants(&spending).into_iter());
        Aside { waiting: self.take_out(&spending), standing }
    }

    /// Those of them that the next block could not hold any more.
    pub(super) fn invalid_among(&self, txids: &[Txid]) -> Vec<Txid> {
        let is_invalid = |txid: &&Txid| self.slot(txid).is_some_and(|slot| !self.is_still_valid(slot));
        txids.iter().filter(is_invalid).copied().collect()
    }

    /// What the next block could not hold goes, then what there is no room for.
    pub(super) fn end_return(&mut self, invalid: &[Txid], standing: &Standing, time_s: u64) {
        let invalid: Vec<Slot> = self.invalid_among(invalid).iter().filter_map(|txid| self.slot(txid)).collect();
        let invalid = self.with_descendants(&invalid);
        self.remove(&invalid, Reason::Reorg);
        self.limit(time_s);
        self.tell_shifted(standing);
        self.tell_tip();
    }

    /// All that are here.
    pub(super) fn txids(&self) -> impl Iterator<Item = Txid> + '_ {
        self.slots().map(|slot| self.node(slot).entry.txid)
    }

    fn tell_tip(&mut self) {
        let tip = self.base.tip();
        self.tell(Event::Block { height: tip.height, hash: tip.hash });
    }

    /// Takes transactions and all that spends from them out for the moment, in an order that puts parents first.
    fn take_out(&mut self, slots: &[Slot]) -> Vec<Arc<Entry>> {
        let mut all = self.with_descendants(slots);
        // By feerate of chunks, as a miner would: where not all fit a cluster again, those that pay stay.
        all.sort_by_cached_key(|&slot| self.rank(slot));
        if all.is_empty() {
            return Vec::new();
        }
        let plan = self.plan(&all, &[], &[]).expect("clusters only get smaller");
        self.apply(plan, Vec::new(), None)
    }

    /// Judges one that was taken out by everything but fees and scripts, and puts it back or tells why it is gone. It is
    /// returned where the chain below has become another one, so that nobody can judge it.
    pub(super) fn put_back(&mut self, entry: Arc<Entry>) -> Option<Arc<Entry>> {
        let terms = Terms { bypass_limits: true, ..Terms::single(&Accept::at(entry.time_s)) };
        let evaluated = self.evaluate(&entry.transaction, &terms, None);
        match evaluated {
            Ok((mut draft, plan)) if plan.removed.is_empty() => {
                draft.entry.height = entry.height;
                draft.entry.sequence = entry.sequence;
                let mut arrival = draft.arrival(false, false);
                arrival.quiet = true;
                self.apply(plan, vec![arrival], None);
            }
            other => match other.map_err(|error| error.reject) {
                Err(Reject::Stale) => return Some(entry),
                Err(Reject::TooLargeCluster) => self.lose(entry, Reason::SizeLimit),
                Err(Reject::AlreadyConfirmed) => self.lose(entry, Reason::Block),
                _ => self.lose(entry, Reason::Reorg),
            },
        }
        None
    }

    /// One that was taken out does not come back.
    pub(super) fn lose(&mut self, entry: Arc<Entry>, reason: Reason) {
        let sequence = self.next_sequence();
        self.unbroadcast.remove(&entry.txid);
        self.tell(Event::Removed { entry, reason, sequence });
    }

    /// Final, unlocked and mature in the next block of the chain as it is now; where the disk fails it stays.
    fn is_still_valid(&self, slot: Slot) -> bool {
        let entry = &self.node(slot).entry;
        if !self.is_final(&entry.transaction).unwrap_or(true) {
            return false;
        }
        if !entry.relative_locks && !entry.spends_coinbase {
            return true;
        }
        // Heights may have changed: coins are asked for again.
        let next = self.base.tip().height + 1;
        let mut coins = primitives::SpentCoins::with_capacity(entry.coins.len());
        for (input, old) in entry.tx().inputs().zip(entry.coins.iter()) {
            let outpoint = input.outpoint();
            let unconfirmed = self.slot(&outpoint.txid).is_some();
            let now = if unconfirmed { None } else { self.coins.coin(&*self.base, &outpoint).ok().flatten() };
            match now {
                Some(coin) => {
                    if coin.coinbase && next - coin.height < COINBASE_MATURITY {
                        return false;
                    }
                    coins.push(coin.coin());
                }
                None => coins.push(primitives::Coin { height: super::entry::UNCONFIRMED, ..old }),
            }
        }
        !entry.relative_locks || self.relative_locks_reached(&entry.transaction, &coins).unwrap_or(true)
    }

    /// Adds to what a transaction is taken to pay, here or not yet (prioritisetransaction).
    pub fn prioritise(&mut self, txid: &Txid, delta_sat: i64) {
        let delta = self.deltas.entry(*txid).or_default();
        *delta = delta.saturating_add(delta_sat);
        let delta = *delta;
        if delta == 0 {
            self.deltas.remove(txid);
        }
        if let Some(slot) = self.slot(txid) {
            // The order of chunks holds the fee as it was until the plan is applied.
            let before = std::mem::replace(&mut self.node_mut(slot).delta_sat, delta);
            if before != delta {
                let plan = self.plan(&[], &[], &[slot]).expect("no cluster grows");
                self.apply(plan, Vec::new(), None);
            }
        }
    }

    /// What was added to fees by hand: txid, amount, whether it is here.
    pub fn prioritised(&self) -> impl Iterator<Item = (Txid, i64, bool)> + '_ {
        self.deltas.iter().map(|(txid, delta)| (*txid, *delta, self.slot(txid).is_some()))
    }

    /// Remembers that a transaction of our own was not handed to a peer yet.
    pub fn set_unbroadcast(&mut self, txid: &Txid) {
        if self.slot(txid).is_some() {
            self.unbroadcast.insert(*txid);
        }
    }

    /// Its owner offers it once more: peers that do not know it are to hear of it again.
    pub fn announce_again(&mut self, txid: &Txid) {
        if let Some(slot) = self.slot(txid) {
            let entry = self.node(slot).entry.clone();
            self.tell(Event::Offered { entry });
        }
    }

    /// A peer has asked for it.
    pub fn broadcast(&mut self, txid: &Txid) {
        self.unbroadcast.remove(txid);
    }

    /// Transactions of our own that no peer has asked for.
    pub fn unbroadcast(&self) -> impl Iterator<Item = &Txid> + '_ {
        self.unbroadcast.iter()
    }
}
