//! A sample of unconfirmed transactions, and the chain whose coins they spend.
//!
//! In:     [`Wish`]: how many, how many of them spend from others, a seed.
//! Out:    [`Offered`]: block files of a regtest chain, one block more to hand in, transactions with parents before
//!         children, and blocks of them ([`Offered::block_of`]).
//! Fails:  when the disk does.
//!
//! Coinbases pay eight keys each; a hundred blocks later each share is paid out to thousands of coins, so that a
//! transaction spends coins of one confirmed block and, unless it is a child, depends on no other. Types of scripts are
//! those of recent blocks' inputs, rounded; feerates differ, so that none is like its neighbour in any order.

use std::collections::VecDeque;
use std::path::Path;

use primitives::{BlockHash, Network, OutPoint, Params, Transaction, Txid};
use sim::forge::assemble::{self, Coinbase, HeaderPlan, Part};
use sim::forge::plan::subsidy_sat;
use sim::forge::sighash::{self, SignedCoin};
use sim::forge::sign::{Opening, sign};
use sim::forge::{Draft, DraftInput, DraftOutput, Keyring, Kind, Lock};
use stdx::pool::Pool;
use stdx::random::Random;

use crate::sample::Blocks;
use crate::{BenchError, machine};

/// Shares of a coinbase, and coins that each becomes; with outputs of 43 bytes at most they fill two thirds of a block.
const SHARES: u32 = 8;
const COINS_PER_SHARE: u32 = 2_000;
const COINS_PER_BLOCK: usize = (SHARES * COINS_PER_SHARE) as usize;
/// Blocks until a coinbase may be spent.
const MATURITY: u32 = 100;
/// Time between blocks, in seconds.
const SPACING_S: u32 = 600;
/// Most keys; beyond that scripts repeat.
const KEYS_MAX: usize = 1 << 17;
/// Feerates, in satoshi a virtual byte: 1 to this.
const RATE_MAX: u64 = 40;
/// Outputs of unconfirmed transactions that wait for a child; the oldest go.
const OPEN_MAX: usize = 1_000;
/// Longest row of unconfirmed parents.
const DEPTH_MAX: u32 = 2;
/// Types of scripts, in percent.
const KINDS: [(Kind, u64); 5] =
    [(Kind::P2wpkh, 50), (Kind::P2trKey, 25), (Kind::P2pkh, 12), (Kind::P2shP2wpkh, 7), (Kind::P2wshMultisig, 6)];

/// What to make.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// Transactions.
    pub count: usize,
    /// Of a hundred, those that spend from an unconfirmed one.
    pub children_percent: u64,
    /// Same seed, same bytes.
    pub seed: u64,
}

/// A coin that can be spent.
#[derive(Clone, Copy, Debug)]
struct Coin {
    outpoint: OutPoint,
    value_sat: u64,
    lock: Lock,
    /// Unconfirmed transactions it needs in a row.
    depth: u32,
}

/// The sample.
pub struct Offered {
    /// The chain.
    pub blocks: Blocks,
    /// One more block, to be handed in: a node counts as following when its tip is new.
    pub first: Vec<u8>,
    /// Transactions, parents before children.
    pub txs: Vec<Transaction>,
    chain: Chain,
}

impl Offered {
    /// Makes it, in a folder of its own in `scratch`.
    pub fn make(scratch: &Path, wish: &Wish) -> Result<Offered, BenchError> {
        // 1.25 coins a transaction, see below.
        let coins_wanted = wish.count * 13 / 10 + COINS_PER_BLOCK;
        let funding = coins_wanted.div_ceil(COINS_PER_BLOCK) as u32;
        eprintln!("making {} transactions on {} blocks", wish.count, MATURITY + funding);
        let keys = coins_wanted.next_power_of_two().min(KEYS_MAX) as u32;
        let keys = Keyring::new(wish.seed, keys, &Pool::new("forge", machine::cores()));
        let mut maker = Maker { random: Random::new(wish.seed), keys: &keys, next_key: 0 };
        let mut chain = Chain::new();
        let mut files = vec![Params::of(Network::Regtest).genesis_block()];
        let (mut shares, mut coins) = (VecDeque::new(), Vec::new());
        for _ in 0..MATURITY + funding {
            let txs = match shares.len() >= MATURITY as usize {
                true => maker.pay_out(shares.pop_front().expect("a hundred are there"), &mut coins),
                false => Vec::new(),
            };
            let (block, share) = chain.extend(&mut maker, &txs);
            files.push(block);
            shares.push_back(share);
        }
        let blocks = Blocks::of_bytes(scratch, files)?;
        let first = chain.extend(&mut maker, &[]).0;
        maker.random.shuffle(&mut coins);
        let txs = maker.unconfirmed(wish, coins);
        Ok(Offered { blocks, first, txs, chain })
    }

    /// The next block, with these transactions of the sample.
    pub fn block_of(&mut self, txs: &[Transaction]) -> Vec<u8> {
        let part = |tx: &Transaction| {
            let tx = tx.tx();
            Part { bytes: tx.raw().to_vec(), txid: tx.txid().0, wtxid: tx.wtxid().0 }
        };
        let parts: Vec<Part> = txs.iter().map(part).collect();
        self.chain.append(&parts, vec![DraftOutput { value_sat: 0, script: vec![0x51] }]).0
    }
}

/// The end of a chain.
struct Chain {
    tip: BlockHash,
    height: u32,
    time_s: u32,
    bits: u32,
    halving_interval: u32,
}

impl Chain {
    fn new() -> Chain {
        let params = Params::of(Network::Regtest);
        let Params { genesis_hash: tip, genesis, subsidy_halving_interval: halving_interval, .. } = params;
        Chain { tip, height: 0, time_s: genesis.time_s, bits: genesis.bits, halving_interval }
    }

    /// A block whose coinbase pays shares.
    fn extend(&mut self, maker: &mut Maker<'_>, txs: &[Draft]) -> (Vec<u8>, Vec<Coin>) {
        let value_sat = subsidy_sat(self.height + 1, self.halving_interval) / u64::from(SHARES);
        let locks: Vec<Lock> = (0..SHARES).map(|_| maker.lock_of(Kind::P2wpkh)).collect();
        let output = |lock: &Lock| DraftOutput { value_sat: value_sat as i64, script: lock.script(maker.keys) };
        let parts: Vec<Part> = txs.iter().map(Part::of).collect();
        let (block, txid) = self.append(&parts, locks.iter().map(output).collect());
        let coin = |(vout, &lock)| Coin { outpoint: OutPoint { txid, vout }, value_sat, lock, depth: 0 };
        (block, (0..).zip(&locks).map(coin).collect())
    }

    fn append(&mut self, parts: &[Part], outputs: Vec<DraftOutput>) -> (Vec<u8>, Txid) {
        self.height += 1;
        self.time_s += SPACING_S;
        let coinbase = Coinbase { height: self.height, extra_nonce: 0, outputs, commitment: true };
        let header = HeaderPlan { version: 0x2000_0000, previous: self.tip, time_s: self.time_s, bits: self.bits };
        let built = assemble::block(&coinbase, parts, &header);
        self.tip = built.hash;
        (built.bytes, built.coinbase_txid)
    }
}

/// Draws locks and signs.
struct Maker<'a> {
    random: Random,
    keys: &'a Keyring,
    next_key: u32,
}

impl Maker<'_> {
    fn lock_of(&mut self, kind: Kind) -> Lock {
        self.next_key += 1;
        Lock::new(kind, self.next_key)
    }

    fn lock(&mut self) -> Lock {
        let mut drawn = self.random.below(100);
        let kind = KINDS.iter().find(|(_, percent)| match drawn.checked_sub(*percent) {
            Some(rest) => {
                drawn = rest;
                false
            }
            None => true,
        });
        self.lock_of(kind.expect("they add up to a hundred").0)
    }

    /// Signed, and its outputs as coins.
    fn sign(&mut self, inputs: &[Coin], outputs: &[(Lock, u64)]) -> (Draft, Vec<Coin>) {
        let unsigned = |coin: &Coin| DraftInput::unsigned(coin.outpoint, 0xffff_fffd);
        let pay = |&(lock, value_sat): &(Lock, u64)| DraftOutput {
            value_sat: value_sat as i64,
            script: lock.script(self.keys),
        };
        let mut draft = Draft {
            version: 2,
            inputs: inputs.iter().map(unsigned).collect(),
            outputs: outputs.iter().map(pay).collect(),
            lock_time: 0,
        };
        let opening = |coin: &Coin| {
            let signed = SignedCoin { value_sat: coin.value_sat, script: coin.lock.script(self.keys) };
            Opening { coin: signed, lock: coin.lock, hash_type: sighash::ALL }
        };
        sign(&mut draft, &inputs.iter().map(opening).collect::<Vec<_>>(), self.keys);
        let (txid, depth) = (draft.txid(), 1 + inputs.iter().map(|coin| coin.depth).max().unwrap_or(0));
        let coin = |(vout, &(lock, value_sat))| Coin { outpoint: OutPoint { txid, vout }, value_sat, lock, depth };
        let coins = (0..).zip(outputs).map(coin).collect();
        (draft, coins)
    }

    /// Each share becomes thousands of coins.
    fn pay_out(&mut self, shares: Vec<Coin>, coins: &mut Vec<Coin>) -> Vec<Draft> {
        let one = |share: Coin| {
            let value_sat = share.value_sat / u64::from(COINS_PER_SHARE);
            let outputs: Vec<(Lock, u64)> = (0..COINS_PER_SHARE).map(|_| (self.lock(), value_sat)).collect();
            let (draft, paid) = self.sign(&[share], &outputs);
            coins.extend(paid.into_iter().map(|coin| Coin { depth: 0, ..coin }));
            draft
        };
        shares.into_iter().map(one).collect()
    }

    fn unconfirmed(&mut self, wish: &Wish, mut coins: Vec<Coin>) -> Vec<Transaction> {
        let mut open: VecDeque<Coin> = VecDeque::new();
        let mut txs = Vec::with_capacity(wish.count);
        while txs.len() < wish.count {
            let is_child = !open.is_empty() && self.random.chance(wish.children_percent, 100);
            let inputs = match is_child {
                true => {
                    let index = self.random.below(open.len() as u64) as usize;
                    vec![open.swap_remove_back(index).expect("inside")]
                }
                false => {
                    let count = match self.random.below(100) {
                        0..80 => 1,
                        80..95 => 2,
                        _ => 3,
                    };
                    let left = coins.len().saturating_sub(count);
                    coins.split_off(left)
                }
            };
            assert!(!inputs.is_empty(), "coins for every transaction were made");
            let (draft, paid) = self.spend(&inputs);
            open.extend(paid.into_iter().filter(|coin| coin.depth <= DEPTH_MAX));
            while open.len() > OPEN_MAX {
                open.pop_front();
            }
            txs.push(draft.parse());
        }
        txs
    }

    /// Pays one or two, and a fee.
    fn spend(&mut self, inputs: &[Coin]) -> (Draft, Vec<Coin>) {
        let total_sat: u64 = inputs.iter().map(|coin| coin.value_sat).sum();
        let locks: Vec<Lock> = (0..1 + u64::from(self.random.chance(70, 100))).map(|_| self.lock()).collect();
        let spent: u64 = inputs.iter().map(|coin| coin.lock.kind.sizes().1).sum();
        let paid: u64 = locks.iter().map(|lock| 4 * (9 + lock.kind.sizes().0)).sum();
        let size_vb = (42 + spent + paid).div_ceil(4);
        let left_sat = total_sat - size_vb * (1 + self.random.below(RATE_MAX));
        let first_sat = if locks.len() == 1 { left_sat } else { left_sat * (40 + self.random.below(20)) / 100 };
        let values = [first_sat, left_sat - first_sat];
        let outputs: Vec<(Lock, u64)> = locks.into_iter().zip(values).collect();
        self.sign(inputs, &outputs)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn made(children_percent: u64) -> Offered {
        Offered::make(&std::env::temp_dir(), &Wish { count: 400, children_percent, seed: 3 }).unwrap()
    }

    #[test]
    fn only_children_spend_from_others() {
        let children = |offered: &Offered| {
            let ids: HashSet<Txid> = offered.txs.iter().map(|tx| tx.tx().txid()).collect();
            assert_eq!(ids.len(), 400);
            let mut seen = HashSet::new();
            let mut children = 0;
            for tx in &offered.txs {
                let parents: Vec<Txid> = tx.tx().inputs().map(|input| input.outpoint().txid).collect();
                children += usize::from(parents.iter().any(|txid| ids.contains(txid)));
                assert!(parents.iter().all(|txid| !ids.contains(txid) || seen.contains(txid)), "parents come first");
                seen.insert(tx.tx().txid());
            }
            children
        };
        assert_eq!(children(&made(0)), 0);
        assert!((20..120).contains(&children(&made(15))));
    }

    #[test]
    fn a_block_of_the_sample_follows_the_one_handed_in() {
        let mut offered = made(0);
        let txs = offered.txs[..50].to_vec();
        let block = primitives::Block::parse(offered.block_of(&txs)).unwrap();
        let first = primitives::Block::parse(offered.first.clone()).unwrap();
        assert_eq!(block.header().previous, first.header().hash());
        assert_eq!(block.tx_count(), 51);
    }
}
