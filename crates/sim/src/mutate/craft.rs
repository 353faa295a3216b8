//! A block on the bench: everything in it can still be bent, and the rest is put right at the end.
//!
//! In:     a world, a seed, and a case that bends something.
//! Out:    the block's bytes: amounts, commitment, merkle root and proof of work made to fit what was not bent.
//! Fails:  never.

use std::collections::HashSet;

use consensus::connect::subsidy_sat;
use primitives::hash::merkle_root;
use primitives::{Block, Header, OutPoint};
use stdx::random::Random;

use super::world::{COINBASE_OUTPUTS, World, WorldCoin};
use crate::forge::assemble::{self, HeaderPlan, Part};
use crate::forge::draft::{Draft, DraftInput, DraftOutput};
use crate::forge::lock::{Kind, Lock, push, push_number};
use crate::forge::sighash::{self, SignedCoin};
use crate::forge::sign::{self, Opening};

/// What the coinbase says about witnesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Commitment {
    /// The right one.
    Right,
    /// None; whatever the case put into the coinbase stays.
    Left,
}

/// The bench.
pub struct Craft<'a> {
    /// The chain it extends.
    pub world: &'a World,
    /// Chance.
    pub random: &'a mut Random,
    /// Its height.
    pub height: u32,
    /// Median time past of its parent.
    pub median_s: u32,
    /// The coinbase, without commitment; its first output gets what is left of subsidy and fees.
    pub coinbase: Draft,
    /// Added to what the coinbase may claim.
    pub coinbase_extra_sat: i64,
    /// Transactions after the coinbase.
    pub txs: Vec<Draft>,
    /// Header fields; the merkle root is computed.
    pub header: HeaderPlan,
    /// Witness commitment.
    pub commitment: Commitment,
    /// Stack of the coinbase's witness under a right commitment.
    pub reserved: Vec<Vec<u8>>,
    /// Merkle root to write instead of the right one.
    pub root: Option<[u8; 32]>,
    /// Transactions repeated at the end after the merkle root was computed.
    pub repeat_tail: usize,
    /// True to leave the coinbase out.
    pub drop_coinbase: bool,
    /// True for a hash above the target.
    pub miss_target: bool,
    /// The last word over the bytes.
    pub bend: Option<fn(&mut Random, &mut Vec<u8>)>,
    used: HashSet<OutPoint>,
    fees_sat: u64,
}

impl<'a> Craft<'a> {
    /// A valid block with nothing but a coinbase.
    pub fn empty(world: &'a World, random: &'a mut Random) -> Craft<'a> {
        let book = world.judge.book();
        let height = world.next_height();
        let median_s = world.judge.median_time_past_s(height - 1);
        let parent = book.header(height - 1);
        let mut script_sig = Vec::new();
        push_number(&mut script_sig, height);
        push(&mut script_sig, &random.next_u64().to_le_bytes());
        let mut input = DraftInput::unsigned(OutPoint::NULL, u32::MAX);
        input.script_sig = script_sig;
        // Every type in turn, so that each becomes spendable.
        let first = height as usize * COINBASE_OUTPUTS;
        let share_sat = subsidy_sat(height, world.judge.params()) as i64 / (COINBASE_OUTPUTS as i64 + 1);
        let outputs = (first..first + COINBASE_OUTPUTS).map(|turn| {
            let lock = Lock::new(Kind::ALL[turn % Kind::ALL.len()], random.below(8) as u32);
            DraftOutput { value_sat: share_sat, script: lock.script(&world.keys) }
        });
        let coinbase = Draft { version: 2, inputs: vec![input], outputs: outputs.collect(), lock_time: 0 };
        let header = HeaderPlan {
            version: 0x2000_0000,
            previous: parent.hash(),
            time_s: (parent.time_s + 600).max(median_s + 1),
            bits: parent.bits,
        };
        Craft {
            world,
            random,
            height,
            median_s,
            coinbase,
            coinbase_extra_sat: 0,
            txs: Vec::new(),
            header,
            commitment: Commitment::Right,
            reserved: vec![vec![0; 32]],
            root: None,
            repeat_tail: 0,
            drop_coinbase: false,
            miss_target: false,
            bend: None,
            used: HashSet::new(),
            fees_sat: 0,
        }
    }

    /// A valid block with up to three transactions.
    pub fn new(world: &'a World, random: &'a mut Random) -> Craft<'a> {
        let mut craft = Craft::empty(world, random);
        for _ in 0..craft.random.below(4) {
            let coins: Vec<WorldCoin> = (0..=craft.random.below(2)).filter_map(|_| craft.any_coin()).collect();
            if !coins.is_empty() {
                craft.spend(&coins, |_| ());
            }
        }
        craft
    }

    /// An unused coin that may be spent, and that `fits`.
    pub fn coin(&mut self, fits: impl Fn(&WorldCoin) -> bool) -> Option<WorldCoin> {
        self.coin_of_any_age(|craft, coin| craft.world.is_ready(coin) && fits(coin))
    }

    /// The same without regard to maturity and relative locks.
    pub fn coin_of_any_age(&mut self, fits: impl Fn(&Self, &WorldCoin) -> bool) -> Option<WorldCoin> {
        let coins = &self.world.coins;
        let start = self.random.below(coins.len() as u64) as usize;
        let around = (start..coins.len()).chain(0..start).map(|index| coins[index]);
        // Ten thousand satoshi leave room for outputs and fees.
        let mut good = around.filter(|coin| coin.value_sat >= 10_000 && !self.used.contains(&coin.outpoint));
        let coin = good.find(|coin| fits(self, coin))?;
        self.used.insert(coin.outpoint);
        Some(coin)
    }

    /// Any coin that goes together with any other: no absolute lock.
    pub fn any_coin(&mut self) -> Option<WorldCoin> {
        self.coin(|coin| coin.lock.needs().lock_time.is_none())
    }

    /// A coin of this type.
    pub fn coin_of(&mut self, kind: Kind) -> Option<WorldCoin> {
        self.coin(|coin| coin.lock.kind == kind)
    }

    /// A coin that needs no lock time and no sequence.
    pub fn free_coin(&mut self) -> Option<WorldCoin> {
        self.coin(|coin| coin.lock.kind.is_spendable_at_once())
    }

    /// An output the world can spend later.
    pub fn output(&mut self, value_sat: u64) -> DraftOutput {
        let lock = self.world.draw_lock(self.random);
        DraftOutput { value_sat: value_sat as i64, script: lock.script(&self.world.keys) }
    }

    /// The unsigned draft that spends `coins` to one output, 1,000 satoshi of fee.
    pub fn draft(&mut self, coins: &[WorldCoin]) -> Draft {
        let total_sat: u64 = coins.iter().map(|coin| coin.value_sat).sum();
        let output = self.output(total_sat - 1_000);
        let mut draft = Draft { version: 2, inputs: Vec::new(), outputs: vec![output], lock_time: 0 };
        for coin in coins {
            let needs = coin.lock.needs();
            draft.inputs.push(DraftInput::unsigned(coin.outpoint, needs.sequence.unwrap_or(u32::MAX - 2)));
            draft.lock_time = draft.lock_time.max(needs.lock_time.unwrap_or(0));
        }
        draft
    }

    /// How `coins` open, signed for everything.
    pub fn openings(&self, coins: &[WorldCoin]) -> Vec<Opening> {
        let opening = |coin: &WorldCoin| Opening {
            coin: SignedCoin { value_sat: coin.value_sat, script: coin.lock.script(&self.world.keys) },
            lock: coin.lock,
            hash_type: sighash::ALL,
        };
        coins.iter().map(opening).collect()
    }

    /// Adds a transaction that spends `coins`; `set_up` may bend it before it is signed. Returns its position.
    pub fn spend(&mut self, coins: &[WorldCoin], set_up: impl FnOnce(&mut Draft)) -> usize {
        let openings = self.openings(coins);
        self.spend_by(coins, set_up, openings)
    }

    /// The same with openings of one's own.
    pub fn spend_by(&mut self, coins: &[WorldCoin], set_up: impl FnOnce(&mut Draft), openings: Vec<Opening>) -> usize {
        let mut draft = self.draft(coins);
        set_up(&mut draft);
        sign::sign(&mut draft, &openings, &self.world.keys);
        self.add(draft, coins.iter().map(|coin| coin.value_sat).sum())
    }

    /// Adds a transaction that spends `in_sat`.
    pub fn add(&mut self, draft: Draft, in_sat: u64) -> usize {
        let out_sat: i64 = draft.outputs.iter().fold(0, |sum: i64, output| sum.saturating_add(output.value_sat));
        self.fees_sat += in_sat.saturating_sub(out_sat.max(0) as u64);
        self.txs.push(draft);
        self.txs.len() - 1
    }

    /// Takes all transactions off the bench, and their fees.
    pub fn clear(&mut self) {
        self.txs.clear();
        self.fees_sat = 0;
    }

    /// Makes an output with this script and spends it in the next transaction, with this input.
    pub fn custom(&mut self, script: Vec<u8>, script_sig: Vec<u8>, witness: Vec<Vec<u8>>) -> Option<()> {
        let coin = self.free_coin()?;
        let funding = self.spend(&[coin], |draft| draft.outputs[0].script = script);
        let output = self.txs[funding].outputs[0].clone();
        let outpoint = OutPoint { txid: self.txs[funding].txid(), vout: 0 };
        let input = DraftInput { outpoint, sequence: u32::MAX - 2, script_sig, witness };
        let pays = self.output(output.value_sat as u64 - 500);
        let draft = Draft { version: 2, inputs: vec![input], outputs: vec![pays], lock_time: 0 };
        self.add(draft, output.value_sat as u64);
        Some(())
    }

    /// Puts right what was not bent, and mines.
    pub fn build(mut self) -> Vec<u8> {
        let paid: i64 = self.coinbase.outputs.iter().skip(1).map(|output| output.value_sat).sum();
        if let Some(first) = self.coinbase.outputs.first_mut() {
            let may = subsidy_sat(self.height, self.world.judge.params()) + self.fees_sat;
            first.value_sat = may as i64 - paid + self.coinbase_extra_sat;
        }
        let parts: Vec<Part> = self.txs.iter().map(Part::of).collect();
        if self.commitment == Commitment::Right {
            let reserved = self.reserved.first().and_then(|item| item[..].try_into().ok()).unwrap_or([0; 32]);
            let script = assemble::commitment_script(&parts, &reserved);
            self.coinbase.outputs.push(DraftOutput { value_sat: 0, script });
            self.coinbase.inputs[0].witness = self.reserved.clone();
        }
        let mut txs = vec![Part::of(&self.coinbase)];
        txs.extend(parts);
        if self.drop_coinbase {
            txs.remove(0);
        }
        let leaves: Vec<[u8; 32]> = txs.iter().map(|part| part.txid).collect();
        let root = self.root.unwrap_or(merkle_root(&leaves).0);
        txs.extend_from_within(txs.len() - self.repeat_tail..);
        let mut bytes = self.mine(root).encode().to_vec();
        primitives::encode::put_compact_size(&mut bytes, txs.len() as u64);
        txs.iter().for_each(|part| bytes.extend_from_slice(&part.bytes));
        if let Some(bend) = self.bend {
            bend(self.random, &mut bytes);
        }
        bytes
    }

    fn mine(&self, merkle_root: [u8; 32]) -> Header {
        let HeaderPlan { version, previous, time_s, bits } = self.header;
        let mut header = Header { version, previous, merkle_root, time_s, bits, nonce: 0 };
        // Half of all hashes reach regtest's target, and half miss it.
        let easiest = self.world.judge.params().genesis.bits;
        // Others than those near it take too long to reach, or cannot be reached.
        let near = (0x200f_ffff..=easiest).contains(&bits);
        let aim = if near { bits } else { easiest };
        while assemble::reaches(&header.hash(), aim) == self.miss_target {
            header.nonce += 1;
        }
        header
    }
}

/// Computes merkle root and proof of work anew for a block whose transactions were bent.
pub fn seal(bytes: &mut [u8]) {
    let Ok(block) = Block::parse(&bytes[..]) else { return };
    let leaves: Vec<[u8; 32]> = block.txs().map(|tx| tx.txid().0).collect();
    let mut header = *block.header();
    header.merkle_root = merkle_root(&leaves).0;
    bytes[..80].copy_from_slice(&assemble::mine(header).encode());
}
