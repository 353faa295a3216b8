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

use std::collections::BTreeSet;
use std::sync::Arc;

use consensus::connect::COINBASE_MATURITY;
use primitives::{Block, OutPoint, Transaction, Tx, Txid};

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
        self.remove(&confirmed, Reason::Block);
        // What is left and spends the same outputs never will be confirmed.
        let mut losers: Vec<Slot> = spent.iter().filter_map(|outpoint| self.spender_slot(outpoint)).collect();
        losers.sort_unstable();
        losers.dedup();
        for &slot in &losers {
            let txid = self.node(slot).entry.txid;
            self.deltas.remove(&txid);
        }
        let losers = self.with_descendants(&losers);
        self.remove(&losers, Reason::Conflict);
        txids.iter().for_each(|txid| {
            self.deltas.remove(txid);
        });
        self.note_block(time_s);
        self.tell_shifted(&standing);
        self.tell(Event::Block { height: tip.height, hash: tip.hash });
    }

    /// Transactions, and whether they have unconfirmed parents.
    fn standing(&self, slots: impl Iterator<Item = Slot>) -> Vec<(Arc<Entry>, bool)> {
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

    /// The chain is another one, and nobody knows by which blocks: everything is judged again by `base`, but for fees
    /// and scripts.
    pub fn chain_moved(&mut self, base: Arc<dyn Base>, time_s: u64) {
        self.base = base;
        self.coins.clear();
        let all: Vec<Slot> = self.slots().collect();
        let standing = self.standing(all.iter().copied());
        let waiting = self.take_out(&all);
        for entry in waiting {
            self.put_back(entry);
        }
        self.limit(time_s);
        self.note_block(time_s);
        self.tell_shifted(&standing);
        self.tell_tip();
    }

    /// Blocks were disconnected, from the tip down, and perhaps others connected: those are told afterwards, each with
    /// [`Mempool::block_connected`]. `base` is the chain as it is now.
    pub fn blocks_disconnected(&mut self, blocks: &[Block], base: Arc<dyn Base>, time_s: u64) {
        self.base = base;
        self.coins.clear();
        // The oldest first, so that parents come before children.
        let returning: Vec<Tx<'_>> = blocks.iter().rev().flat_map(Block::txs).collect();
        let spending = returning.iter().flat_map(|tx| self.spenders_of(tx)).collect::<Vec<Slot>>();
        let standing = self.standing(self.with_descendants(&spending).into_iter());
        let waiting = self.take_out(&spending);
        let mut room = RETURNING_BYTES_MAX;
        let how = Accept { bypass_limits: true, announce: false, ..Accept::at(time_s) };
        for tx in returning.iter().filter(|tx| !tx.is_coinbase()) {
            let Some(left) = room.checked_sub(tx.raw().len()) else { break };
            room = left;
            let transaction = Transaction::parse(tx.raw()).expect("a transaction of a block parses alone");
            // Whatever is refused now was valid in a chain that is gone: nobody is told.
            let _ = self.accept(&transaction, &how);
        }
        for entry in waiting {
            self.put_back(entry);
        }
        let invalid: Vec<Slot> = self.slots().filter(|&slot| !self.is_still_valid(slot)).collect();
        let invalid = self.with_descendants(&invalid);
        self.remove(&invalid, Reason::Reorg);
        self.limit(time_s);
        self.tell_shifted(&standing);
        self.tell_tip();
    }

    fn tell_tip(&mut self) {
        let tip = self.base.tip();
        self.tell(Event::Block { height: tip.height, hash: tip.hash });
    }

    fn spenders_of(&self, tx: &Tx<'_>) -> Vec<Slot> {
        let txid = tx.txid();
        (0..tx.output_count() as u32).filter_map(|vout| self.spender_slot(&OutPoint { txid, vout })).collect()
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

    /// Judges one that was taken out by everything but fees and scripts, and puts it back or tells why it is gone.
    fn put_back(&mut self, entry: Arc<Entry>) {
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
            other => {
                let reason = match other.map_err(|error| error.reject) {
                    Err(Reject::TooLargeCluster) => Reason::SizeLimit,
                    Err(Reject::AlreadyConfirmed) => Reason::Block,
                    _ => Reason::Reorg,
                };
                let sequence = self.next_sequence();
                self.unbroadcast.remove(&entry.txid);
                self.tell(Event::Removed { entry, reason, sequence });
            }
        }
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
