//! A chain of coins in memory, and transactions made by hand.
//!
//! In:     amounts, scripts, sizes.
//! Out:    [`World`]: a mempool on a [`Ledger`]; [`Draft`]s that become transactions; blocks.
//! Fails:  panics, as tests do.

use std::collections::HashMap;
use std::sync::Arc;

use chain::mempool::{Accept, Accepted, Base, Joined, Mempool};
use chain::policy::{Policy, Reject};
use chain::{Tip, ViewError};
use primitives::hash::sha256;
use primitives::{Block, BlockHash, Network, OutPoint, Params, Transaction, Txid};
use sigs::EngineName;
use store::CoinBuf;

/// Pay to anchor: standard, and anyone may spend it without a signature.
pub const ANCHOR: [u8; 4] = [0x51, 0x02, 0x4e, 0x73];
/// Time of the first moment of a test.
pub const START_S: u64 = 1_700_000_000;

/// The chain at one tip.
#[derive(Clone)]
pub struct Ledger {
    pub coins: HashMap<OutPoint, CoinBuf>,
    pub height: u32,
    pub params: Params,
}

impl Base for Ledger {
    fn tip(&self) -> Tip {
        Tip { height: self.height, hash: BlockHash(sha256(&self.height.to_le_bytes())) }
    }

    fn params(&self) -> &Params {
        &self.params
    }

    fn coin(&self, outpoint: &OutPoint) -> Result<Option<CoinBuf>, ViewError> {
        Ok(self.coins.get(outpoint).cloned())
    }

    /// Blocks are ten minutes apart.
    fn median_time_past_s(&self, height: u32) -> Result<u32, ViewError> {
        Ok(1_600_000_000 + 600 * height)
    }
}

/// A transaction before it is serialized.
#[derive(Clone)]
pub struct Draft {
    pub version: u32,
    pub inputs: Vec<(OutPoint, u32, Vec<u8>, Vec<Vec<u8>>)>,
    pub outputs: Vec<(i64, Vec<u8>)>,
    pub lock_time: u32,
}

impl Draft {
    /// Spends `inputs` to outputs of these amounts, all P2A, and an empty OP_RETURN: with one of each it has 74 bytes.
    pub fn new(inputs: &[OutPoint], outputs_sat: &[i64]) -> Draft {
        let inputs = inputs.iter().map(|&outpoint| (outpoint, 0xffff_fffd, Vec::new(), Vec::new())).collect();
        let paid = outputs_sat.iter().map(|&value| (value, ANCHOR.to_vec()));
        let outputs = paid.chain([(0, vec![0x6a])]).collect();
        Draft { version: 2, inputs, outputs, lock_time: 0 }
    }

    /// Adds an OP_RETURN output of so many bytes of script, 2 at least.
    pub fn padded(mut self, script_bytes: usize) -> Draft {
        let push = match script_bytes - 1 {
            0 => vec![],
            length @ 1..=76 => [vec![length as u8 - 1], vec![7; length - 1]].concat(),
            length @ 77..=257 => [vec![0x4c, (length - 2) as u8], vec![7; length - 2]].concat(),
            length => {
                let data = length - 3;
                [vec![0x4d, data as u8, (data >> 8) as u8], vec![7; data]].concat()
            }
        };
        self.outputs.push((0, [vec![0x6a], push].concat()));
        self
    }

    pub fn version(mut self, version: u32) -> Draft {
        self.version = version;
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = self.version.to_le_bytes().to_vec();
        let has_witness = self.inputs.iter().any(|(.., witness)| !witness.is_empty());
        if has_witness {
            out.extend([0, 1]);
        }
        let size = |out: &mut Vec<u8>, value: usize| primitives::encode::put_compact_size(out, value as u64);
        size(&mut out, self.inputs.len());
        for (outpoint, sequence, script, _) in &self.inputs {
            out.extend(outpoint.encode());
            size(&mut out, script.len());
            out.extend(script);
            out.extend(sequence.to_le_bytes());
        }
        size(&mut out, self.outputs.len());
        for (value, script) in &self.outputs {
            out.extend(value.to_le_bytes());
            size(&mut out, script.len());
            out.extend(script);
        }
        for (.., witness) in self.inputs.iter().filter(|_| has_witness) {
            size(&mut out, witness.len());
            for item in witness {
                size(&mut out, item.len());
                out.extend(item);
            }
        }
        out.extend(self.lock_time.to_le_bytes());
        out
    }

    pub fn tx(&self) -> Transaction {
        Transaction::parse(self.bytes()).unwrap()
    }
}

/// An output of a transaction.
pub fn out(tx: &Transaction, vout: u32) -> OutPoint {
    OutPoint { txid: tx.tx().txid(), vout }
}

pub fn txid(tx: &Transaction) -> Txid {
    tx.tx().txid()
}

/// A block with a coinbase that pays nobody, and the identifiers of its transactions.
pub fn block(height: u32, txs: &[Transaction]) -> (Block, Vec<Txid>) {
    let mut coinbase = Draft::new(&[OutPoint::NULL], &[0]);
    coinbase.inputs[0].2 = [&[4][..], &height.to_le_bytes()].concat();
    let coinbase = coinbase.tx();
    let mut bytes = vec![0; 80];
    primitives::encode::put_compact_size(&mut bytes, txs.len() as u64 + 1);
    let all = || std::iter::once(&coinbase).chain(txs);
    all().for_each(|tx| bytes.extend(tx.tx().raw()));
    (Block::parse(bytes).unwrap(), all().map(txid).collect())
}

/// A mempool, the chain below it, and a clock.
pub struct World {
    pub ledger: Ledger,
    pub pool: Mempool,
    pub now_s: u64,
    coins: u32,
}

impl World {
    pub fn new(policy: Policy) -> World {
        let ledger = Ledger { coins: HashMap::new(), height: 1_000, params: Params::of(Network::Regtest) };
        let engine = sigs::engine(EngineName::Scalar).unwrap();
        let pool = Mempool::new(policy, Arc::new(ledger.clone()), engine, [7; 16]);
        World { ledger, pool, now_s: START_S, coins: 0 }
    }

    /// Hands the mempool the chain as it is now, as a block without anything of interest would.
    pub fn publish(&mut self) {
        let (block, txids) = block(self.ledger.height, &[]);
        let tip = self.ledger.tip();
        let joined = Joined { tip, block: &block, txids: &txids };
        self.pool.block_connected(&joined, Arc::new(self.ledger.clone()), self.now_s);
    }

    /// A confirmed coin; the mempool sees it after [`World::publish`].
    pub fn coin_of(&mut self, value_sat: u64, script: &[u8], height: u32, coinbase: bool) -> OutPoint {
        self.coins += 1;
        let outpoint = OutPoint { txid: Txid(sha256(&self.coins.to_le_bytes())), vout: 0 };
        let coin = CoinBuf { value_sat, height, coinbase, txo_num: 0, script: script.to_vec() };
        self.ledger.coins.insert(outpoint, coin);
        outpoint
    }

    /// So many confirmed P2A coins of this amount, seen by the mempool.
    pub fn coins<const N: usize>(&mut self, value_sat: u64) -> [OutPoint; N] {
        let coins = std::array::from_fn(|_| self.coin_of(value_sat, &ANCHOR, 500, false));
        self.publish();
        coins
    }

    pub fn accept(&mut self, tx: &Transaction) -> Result<Accepted, Reject> {
        self.pool.accept(tx, &Accept::at(self.now_s)).map_err(|rejected| rejected.reject)
    }

    #[track_caller]
    pub fn must(&mut self, tx: &Transaction) -> Accepted {
        self.accept(tx).unwrap_or_else(|reject| panic!("{reject}"))
    }

    /// Judges only; the reject word, or "" where it would be taken.
    pub fn word(&mut self, tx: &Transaction) -> String {
        let sequence = (self.pool.sequence(), self.pool.changes());
        let verdict = self.pool.accept(tx, &Accept::test_at(self.now_s));
        assert_eq!(sequence, (self.pool.sequence(), self.pool.changes()), "a test changes nothing");
        verdict.map_or_else(|rejected| rejected.reject.reject_word().into_owned(), |_| String::new())
    }

    pub fn has(&self, tx: &Transaction) -> bool {
        self.pool.get(&txid(tx)).is_some()
    }

    /// Confirms transactions in a block.
    pub fn mine(&mut self, txs: &[Transaction]) -> (Block, Ledger) {
        let before = self.ledger.clone();
        self.ledger.height += 1;
        for tx in txs {
            tx.tx().inputs().for_each(|input| {
                self.ledger.coins.remove(&input.outpoint());
            });
            for (vout, output) in tx.tx().outputs().enumerate().filter(|(_, output)| output.script[0] != 0x6a) {
                let (value_sat, height) = (output.value_sat as u64, self.ledger.height);
                let coin = CoinBuf { value_sat, height, coinbase: false, txo_num: 0, script: output.script.to_vec() };
                self.ledger.coins.insert(out(tx, vout as u32), coin);
            }
        }
        let (block, txids) = block(self.ledger.height, txs);
        let tip = self.ledger.tip();
        let joined = Joined { tip, block: &block, txids: &txids };
        self.pool.block_connected(&joined, Arc::new(self.ledger.clone()), self.now_s);
        (block, before)
    }

    /// Disconnects blocks, the tip first, back to a ledger from before them.
    pub fn disconnect(&mut self, blocks: &[Block], before: Ledger) {
        self.ledger = before;
        self.pool.blocks_disconnected(blocks, Arc::new(self.ledger.clone()), self.now_s);
    }
}
