//! Deciding what happens in each block, before anything is signed.
//!
//! In:     options, and after each block the ids its transactions got.
//! Out:    [`BlockPlan`]: transactions with the coins they spend and the locks they pay, coinbase, header fields.
//! Fails:  never: a transaction that cannot be made (no coin, no room) is left for a later block.
//!
//! Only whole numbers decide, so every machine decides alike. Coins lie in three pools, by age: of this block, recent,
//! and old; most spends take recent ones (the tail of old ones is what makes a coin cache miss).

use std::collections::{BTreeMap, HashMap, VecDeque};

use primitives::{Params, Txid};
use stdx::random::Random;

use super::lock::{Kind, Lock, SEQUENCE_SECONDS};
use super::mix::Mix;
use super::planned::{BlockPlan, PlannedCoin, PlannedInput, PlannedTx, Source, ready_height};
use super::sighash;
use super::special::{Event, Special};
use super::{ForgeOptions, KEYS_RESERVED, Keyring, Report, ScriptHistory, stream};

/// Blocks until a coinbase's outputs may be spent (Core: `COINBASE_MATURITY`).
pub const MATURITY: u32 = 100;
/// Bits of CSV (BIP 112), segregated witness (BIP 141) and taproot (BIP 341) in a block's version.
const SIGNALS: i32 = 0b111;
/// When a chain that signals begins, 2020-09-13: nodes that go by the clock know pay-to-script-hash since 2012-04-01 only
/// (BIP 16), and regtest's genesis block is of 2011.
const SIGNALS_BEGIN_S: u32 = 1_600_000_000;
/// Most inputs of one transaction; digests before BIP 143 cost its square.
const INPUTS_MAX: u64 = 200;
/// Estimated weight at which a block is full; the rule is 4,000,000 and the coinbase needs room.
const WEIGHT_FULL: u64 = 3_700_000;
/// Sigop cost at which a block is full; the rule is 80,000.
const SIGOP_COST_FULL: u64 = 70_000;
/// Longest row of parents within one block; each needs a wave of signing.
const DEPTH_MAX: u32 = 6;
/// Most scripts of one wallet that a transaction touches.
const TOGETHER_MAX: usize = 4;
/// Recent coins kept apart from old ones: this many times the inputs of a block.
const RECENT_BLOCKS: u64 = 12;
/// Seconds between forged blocks, before jitter.
pub(super) const SPACING_S: u32 = 600;
/// Jitter of a block's time; two spacings, so that times go back now and then.
pub(super) const JITTER_S: u32 = 1200;

/// What a transaction being planned holds so far.
pub(super) struct Open {
    pub(super) tx: PlannedTx,
    pub(super) total_sat: u64,
    pub(super) weight: u64,
    pub(super) sigop_cost: u64,
    lock_is_time: Option<bool>,
}

/// The state of the plan.
#[derive(Clone)]
pub struct Planner {
    pub(super) random: Random,
    pub(super) mix: Mix,
    pub(super) odd_permille: u32,
    blocks: u32,
    signals: bool,
    /// Height of the first block that spends.
    first_spends: u32,
    pub(super) inputs: u64,
    pub(super) height: u32,
    pub(super) inputs_done: u64,
    begin_s: u32,
    pub(super) halving_interval: u32,
    times: VecDeque<u32>,
    pub(super) keys: u32,
    pub(super) next_key: [u32; Kind::ALL.len()],
    pub(super) fresh: Vec<PlannedCoin>,
    recent: Vec<PlannedCoin>,
    old: Vec<PlannedCoin>,
    /// Coins by the height from which they may be spent.
    waiting: BTreeMap<u32, Vec<PlannedCoin>>,
    pub(super) late: Vec<(u32, PlannedCoin)>,
    pub(super) special: Vec<Special>,
    /// Their places, by lock.
    pub(super) special_places: HashMap<Lock, usize>,
    coinbase: Vec<(Lock, u64)>,
    pub(super) fees_sat: u64,
    depths: Vec<u32>,
    weight: u64,
    sigop_cost: u64,
    pub(super) outputs_done: u64,
    pub(super) made: [u64; Kind::ALL.len()],
    spent: [u64; Kind::ALL.len()],
}

impl Planner {
    /// Stands at the genesis block.
    pub fn new(options: &ForgeOptions, params: &Params, keys: u32) -> Planner {
        // From the end of the keys, where nothing else draws.
        let first_spends = options.first_spends();
        let special = options.special.iter().zip(1u32..);
        let heights = (first_spends, options.blocks);
        let special: Vec<Special> =
            special.map(|(wanted, number)| Special::new(wanted, keys - number, heights)).collect();
        Planner {
            random: stream(options.seed, 0x706c_616e),
            mix: options.mix,
            odd_permille: options.odd_permille,
            blocks: options.blocks,
            signals: options.signals,
            first_spends,
            inputs: options.inputs,
            height: 0,
            inputs_done: 0,
            begin_s: if options.signals { SIGNALS_BEGIN_S } else { params.genesis.time_s },
            halving_interval: params.subsidy_halving_interval,
            times: VecDeque::from([params.genesis.time_s]),
            keys: keys - KEYS_RESERVED.max(special.len()) as u32 - 2,
            next_key: [0; Kind::ALL.len()],
            fresh: Vec::new(),
            recent: Vec::new(),
            old: Vec::new(),
            waiting: BTreeMap::new(),
            late: Vec::new(),
            special_places: special.iter().enumerate().map(|(place, special)| (special.lock, place)).collect(),
            special,
            coinbase: Vec::new(),
            fees_sat: 0,
            depths: Vec::new(),
            weight: 0,
            sigop_cost: 0,
            outputs_done: 0,
            made: [0; Kind::ALL.len()],
            spent: [0; Kind::ALL.len()],
        }
    }

    /// The scripts with an exact history, which nothing has touched yet.
    pub fn special_histories(&self, keys: &Keyring) -> Vec<ScriptHistory> {
        let history = |special: &Special| ScriptHistory {
            script: special.lock.script(keys),
            kind: special.lock.kind,
            wallet: special.wallet,
            entries: 0,
            unspent: 0,
            first_height: 0,
            last_height: 0,
        };
        self.special.iter().map(history).collect()
    }

    /// True at the height asked for.
    pub fn is_done(&self) -> bool {
        self.height >= self.blocks
    }

    /// Another chance from here on.
    pub fn reseed(&mut self, seed: u64) {
        self.random = stream(seed, 0x666f_726b);
    }

    /// Coins that may be spent in the next block.
    pub(super) fn available(&self) -> u64 {
        (self.recent.len() + self.old.len()) as u64
    }

    fn budget(&self) -> u64 {
        let active = u64::from(self.blocks + 1 - self.first_spends);
        match u64::from(self.blocks.saturating_sub(self.height - 1)) {
            0 => self.inputs.div_ceil(active),
            left => self.inputs.saturating_sub(self.inputs_done).div_ceil(left.min(active)),
        }
    }

    /// Plans the block after the last one; [`Planner::settle`] must follow.
    pub fn next_block(&mut self) -> BlockPlan {
        self.height += 1;
        let height = self.height;
        while let Some(entry) = self.waiting.first_entry().filter(|entry| *entry.key() <= height) {
            self.recent.extend(entry.remove());
        }
        (self.weight, self.sigop_cost, self.fees_sat) = (0, 0, 0);
        self.depths.clear();
        let txs = if height >= self.first_spends { self.plan_txs() } else { Vec::new() };
        let witness = |input: &PlannedInput| input.coin.lock.kind.has_witness();
        let needed = txs.iter().any(|tx| tx.inputs.iter().any(witness));
        let commitment = needed || self.random.chance(1, 2);
        // Its reserved value is a witness, which nobody may send who waits for the signals of BIP 141.
        let commitment = commitment && (height >= self.first_spends || !self.signals);
        self.coinbase = self.plan_coinbase();
        let time_s = self.draw_time();
        // One block in a hundred signals something (BIP 9).
        let signal = if self.random.chance(1, 100) { 1 << self.random.below(29) } else { 0 };
        let always = if self.signals { SIGNALS } else { 0 };
        let version = 0x2000_0000 | signal | always;
        let extra_nonce = self.random.next_u64();
        BlockPlan { height, time_s, version, extra_nonce, coinbase: self.coinbase.clone(), commitment, txs }
    }

    fn median_time_past_s(&self) -> u32 {
        let mut times: Vec<u32> = self.times.iter().copied().collect();
        times.sort_unstable();
        times[times.len() / 2]
    }

    fn draw_time(&mut self) -> u32 {
        let jitter = self.random.below(JITTER_S.into()) as u32;
        let time_s = self.begin_s + SPACING_S * self.height + jitter;
        let time_s = time_s.max(self.median_time_past_s() + 1);
        self.times.push_back(time_s);
        if self.times.len() > 11 {
            self.times.pop_front();
        }
        time_s
    }

    fn plan_txs(&mut self) -> Vec<PlannedTx> {
        let budget = self.budget();
        let mut events = self.draw_events();
        let mut txs: Vec<PlannedTx> = Vec::new();
        let mut spent = 0;
        while self.weight < WEIGHT_FULL && self.sigop_cost < SIGOP_COST_FULL && self.available() > 1 {
            let over = spent >= budget;
            if over && events.is_empty() {
                break;
            }
            let with_event = over || self.random.chance(1, 2);
            let touched = if with_event { self.draw_together(&mut events) } else { Vec::new() };
            let before: Vec<u32> = touched.iter().map(|&event| self.special[event].left()).collect();
            let Some(tx) = self.plan_tx(&touched, over, budget, txs.len() as u32) else { break };
            // Too poor a transaction touches nothing: the entry is tried again.
            let tried = touched.into_iter().zip(before);
            events.extend(tried.filter(|&(event, left)| left == self.special[event].left()).map(|(event, _)| event));
            spent += tx.inputs.len() as u64;
            self.depths.push(tx.depth);
            txs.push(tx);
        }
        self.inputs_done += spent;
        txs
    }

    /// Which special scripts are touched in this block, one entry a touch.
    fn draw_events(&mut self) -> Vec<usize> {
        let mut events = Vec::new();
        for (index, special) in self.special.iter().enumerate() {
            events.extend(std::iter::repeat_n(index, special.due(self.height, &mut self.random) as usize));
        }
        self.random.shuffle(&mut events);
        events
    }

    /// The scripts that the next transaction touches: one, or several of one wallet.
    fn draw_together(&mut self, events: &mut Vec<usize>) -> Vec<usize> {
        let mut together: Vec<usize> = events.pop().into_iter().collect();
        while let (Some(&first), Some(&next)) = (together.first(), events.last()) {
            let wallet = self.special[first].wallet;
            let fits = wallet > 0 && self.special[next].wallet == wallet && !together.contains(&next);
            if !fits || together.len() >= TOGETHER_MAX || !self.random.chance(2, 5) {
                break;
            }
            together.extend(events.pop());
        }
        together
    }

    fn plan_tx(&mut self, events: &[usize], small: bool, budget: u64, index: u32) -> Option<PlannedTx> {
        let era = self.mix.era(self.inputs_done, self.inputs);
        let want = if small { 1 } else { sample(&mut self.random, era.inputs_per_100_txs, INPUTS_MAX) };
        let tx = PlannedTx { version: 1, lock_time: 0, depth: 0, inputs: Vec::new(), outputs: Vec::new() };
        let mut open = Open { tx, total_sat: 0, weight: 44, sigop_cost: 0, lock_is_time: None };
        for _ in 0..want.min(self.available() / 2).max(1) {
            if let Some(coin) = self.take_coin() {
                self.add_input(&mut open, coin);
            }
        }
        if open.tx.inputs.is_empty() {
            return None;
        }
        let mut paid = Vec::new();
        for &event in events {
            let lock = self.touch(&mut open, event, paid.len() as u64);
            paid.extend(lock);
        }
        self.add_outputs(&mut open, era, budget, &paid, index);
        self.finish(&mut open);
        self.weight += open.weight;
        self.sigop_cost += open.sigop_cost;
        Some(open.tx)
    }

    /// Adds a special script's input where one is due; the output to add, where one is.
    fn touch(&mut self, open: &mut Open, index: usize, paid: u64) -> Option<Lock> {
        let event = self.special[index].next(&mut self.random);
        // An amount that leaves room for the special outputs and a fee; otherwise the entry waits for a later block.
        if event == Event::Fund && open.total_sat < 40_000 * (paid + 1) {
            return None;
        }
        let special = &mut self.special[index];
        special.count(event, self.height);
        let lock = special.lock;
        if event != Event::Fund {
            let at = self.random.below(special.coins.len() as u64) as usize;
            let coin = special.coins.swap_remove(at);
            self.add_input(open, coin);
        }
        (event != Event::Spend).then_some(lock)
    }

    fn take_coin(&mut self) -> Option<PlannedCoin> {
        let [same_block, recent, _] = self.mix.ages(self.mix.era(self.inputs_done, self.inputs));
        let order = match self.random.below(100) {
            drawn if drawn < same_block => [0, 1, 2],
            drawn if drawn < same_block + recent => [1, 2, 0],
            _ => [2, 1, 0],
        };
        for pool in order {
            let pool = match pool {
                0 => &mut self.fresh,
                1 => &mut self.recent,
                _ => &mut self.old,
            };
            if pool.is_empty() {
                continue;
            }
            let at = self.random.below(pool.len() as u64) as usize;
            let coin = pool.swap_remove(at);
            match coin.source {
                Source::SameBlock(parent) if self.depths[parent as usize] + 1 >= DEPTH_MAX => self.late.push((0, coin)),
                _ => return Some(coin),
            }
        }
        None
    }

    fn add_input(&mut self, open: &mut Open, coin: PlannedCoin) {
        let needs = coin.lock.needs();
        if let Some(lock_time) = needs.lock_time {
            let is_time = lock_time >= 500_000_000;
            if open.lock_is_time.is_some_and(|other| other != is_time) {
                return self.late.push((0, coin));
            }
            open.lock_is_time = Some(is_time);
            open.tx.lock_time = open.tx.lock_time.max(lock_time);
        }
        if let Source::SameBlock(parent) = coin.source {
            open.tx.depth = open.tx.depth.max(self.depths[parent as usize] + 1);
        }
        if needs.sequence.is_some() {
            open.tx.version = 2;
        }
        open.total_sat += coin.value_sat;
        open.weight += coin.lock.kind.sizes().1;
        open.sigop_cost += coin.lock.kind.sigop_costs().1;
        self.spent[coin.lock.kind as usize] += 1;
        let sequence = needs.sequence.unwrap_or(u32::MAX);
        open.tx.inputs.push(PlannedInput { coin, sequence, hash_type: sighash::ALL });
    }

    /// Sequences, lock time, version and hash types.
    fn finish(&mut self, open: &mut Open) {
        let tx = &mut open.tx;
        let height = self.height;
        if tx.version == 1 && self.random.chance(3, 5) {
            tx.version = 2;
        }
        let locked = tx.lock_time > 0 || self.random.chance(1, 5);
        if locked {
            let as_time = open.lock_is_time.unwrap_or_else(|| self.random.chance(1, 10));
            // The latest that is final in this block: height - 1, or a time before its parent's median (BIP 113).
            let latest = if as_time { self.median_time_past_s() - 1 } else { height - 1 };
            tx.lock_time = tx.lock_time.max(latest);
        }
        let common = match self.random.below(10) {
            0..5 if !locked => u32::MAX,
            0..8 => u32::MAX - 2,
            _ => u32::MAX - 1,
        };
        let outputs = tx.outputs.len();
        for (index, input) in tx.inputs.iter_mut().enumerate() {
            if input.sequence == u32::MAX {
                input.sequence = common;
                if tx.version >= 2 && self.random.chance(3, 100) {
                    input.sequence = relative_lock(&mut self.random, height, input.coin.height);
                }
            }
            if self.random.chance(1, 100) {
                let base = [sighash::ALL, sighash::NONE, sighash::SINGLE][self.random.below(3) as usize];
                let hash_type = base | if self.random.chance(1, 2) { sighash::ANYONE_CAN_PAY } else { 0 };
                let no_digest = input.coin.lock.kind.is_taproot() && base == sighash::SINGLE && index >= outputs;
                if !no_digest {
                    input.hash_type = hash_type;
                }
            }
        }
    }

    /// Learns the ids the planned block got, and adds it to the report.
    pub fn settle(&mut self, coinbase: Txid, txids: &[Txid], report: &mut Report) {
        let known = |coin: &mut PlannedCoin| {
            if let Source::SameBlock(index) = coin.source {
                coin.source = Source::Known(txids[index as usize]);
            }
        };
        self.fresh.iter_mut().for_each(known);
        self.special.iter_mut().for_each(|special| special.coins.iter_mut().for_each(known));
        for (ready, mut coin) in self.late.drain(..) {
            known(&mut coin);
            self.waiting.entry(ready).or_default().push(coin);
        }
        for (vout, &(lock, value_sat)) in self.coinbase.iter().enumerate() {
            let source = Source::Known(coinbase);
            let coin = PlannedCoin { source, vout: vout as u32, height: self.height, value_sat, lock };
            let ready = ready_height(&coin).max(self.height + MATURITY);
            self.waiting.entry(ready).or_default().push(coin);
        }
        self.recent.append(&mut self.fresh);
        let keep = (RECENT_BLOCKS * self.budget()).max(64) as usize;
        while self.recent.len() > keep {
            let at = self.random.below(self.recent.len() as u64) as usize;
            self.old.push(self.recent.swap_remove(at));
        }
        report.txs += 1 + txids.len() as u64;
        (report.inputs, report.outputs) = (self.inputs_done, self.outputs_done);
        (report.made, report.spent) = (self.made, self.spent);
        for (history, special) in report.special.iter_mut().zip(&self.special) {
            (history.entries, history.unspent) = (special.entries(), special.coins.len() as u32);
            (history.first_height, history.last_height) = special.touched;
        }
    }
}

/// A relative lock (BIP 68) that has just passed or passed long ago.
fn relative_lock(random: &mut Random, height: u32, coin_height: u32) -> u32 {
    let age = height - coin_height;
    if random.chance(1, 4) {
        // The median of 11 times lags 5 spacings behind, except near the genesis block, where it has fewer to look at.
        let lag_s = if coin_height <= 11 { 5 * SPACING_S } else { 0 };
        let units = (age * SPACING_S).saturating_sub(JITTER_S + lag_s) / 512;
        return SEQUENCE_SECONDS | units.min(0xffff);
    }
    age.min(0xffff)
}

/// One plus a geometric number, so that 100 of them sum to `per_100` on average; one in fifty is 15 times as large.
pub(super) fn sample(random: &mut Random, per_100: u64, max: u64) -> u64 {
    // 0.98 + 0.02 * 15 = 1.28.
    let mean_per_128 = per_100 - 100;
    let scale = if random.chance(1, 50) { 15 } else { 1 };
    let mean = mean_per_128 * scale;
    let mut number = 1;
    while number < max && random.chance(mean, 128 + mean) {
        number += 1;
    }
    number
}

/// Core's `GetBlockSubsidy`.
pub fn subsidy_sat(height: u32, halving_interval: u32) -> u64 {
    5_000_000_000u64.checked_shr(height / halving_interval).unwrap_or(0)
}
