//! What transactions pay: locks, amounts, data.
//!
//! In:     the era's shape and what a transaction has to give.
//! Out:    outputs, and the coins they become.
//! Fails:  never.

use super::lock::{Kind, Lock};
use super::mix::{Drawn, Era};
use super::plan::{MATURITY, Open, Planner, sample, subsidy_sat};
use super::planned::{PlannedCoin, PlannedOutput, Source, ready_height};
/// Most outputs of one transaction.
const OUTPUTS_MAX: u64 = 400;
/// Least amount of an output, a wallet's idea of dust.
const DUST_SAT: u64 = 330;
/// Outputs of one funding coinbase, at most.
const FUNDING_OUTPUTS_MAX: u64 = 2_500;

impl Planner {
    pub(super) fn draw_lock(&mut self, kind: Kind) -> Lock {
        let next = &mut self.next_key[kind as usize];
        // Three in four outputs pay a script seen before somewhere on the real chain's busiest days, half on quiet ones.
        if *next == 0 || self.random.chance(55, 100) {
            let key = *next % self.keys;
            *next += 1;
            return Lock::new(kind, key);
        }
        // Evenly over orders of magnitude: few scripts are used very often, many seldom.
        let bits = self.random.below(u64::from(next.ilog2()) + 1) + 1;
        let key = self.random.below((1 << bits).min(u64::from(*next)));
        Lock::new(kind, key as u32 % self.keys)
    }

    fn draw_output(&mut self, era: &Era, may_be_data: bool) -> PlannedOutput {
        if self.random.chance(self.odd_permille.into(), 1000) {
            let kind = Kind::ALL[self.random.below(Kind::ALL.len() as u64) as usize];
            return PlannedOutput::Pay(self.draw_lock(kind), 0);
        }
        match era.draw(&mut self.random) {
            Drawn::Kind(kind) => PlannedOutput::Pay(self.draw_lock(kind), 0),
            Drawn::OpReturn if may_be_data => {
                PlannedOutput::Data([20, 32, 36, 40, 80][self.random.below(5) as usize], self.random.next_u64())
            }
            Drawn::OpReturn => PlannedOutput::Pay(self.draw_lock(Kind::P2pkh), 0),
        }
    }

    pub(super) fn add_outputs(&mut self, open: &mut Open, era: &Era, budget: u64, special: &[Lock], index: u32) {
        let few = self.available() < 3 * budget;
        let mut count = sample(&mut self.random, era.outputs_per_100_txs, OUTPUTS_MAX);
        if few {
            // Coins run short: this transaction makes more than it spends.
            count = count.max(2 * open.tx.inputs.len() as u64 + 1).min(OUTPUTS_MAX);
        }
        // At most a twentieth goes to the miner, else 1 to 20 satoshi a virtual byte.
        let estimate = open.weight / 4 + 40 * count;
        let mut left = open.total_sat - (estimate * (1 + self.random.below(20))).min(open.total_sat / 20);
        for &lock in special {
            let value = (10_000 + self.random.below(10_000)).min(left);
            left -= value;
            open.tx.outputs.push(PlannedOutput::Pay(lock, value));
        }
        let count = count.min(left / 1000);
        let first = open.tx.outputs.len();
        for _ in 0..count {
            let output = self.draw_output(era, !few);
            open.tx.outputs.push(output);
        }
        if open.tx.outputs.is_empty() {
            open.tx.outputs.push(PlannedOutput::Data(32, index.into()));
        }
        self.share_out(&mut open.tx.outputs[first..], left);
        self.random.shuffle(&mut open.tx.outputs);
        self.fees_sat += open.total_sat;
        self.outputs_done += open.tx.outputs.len() as u64;
        for (vout, output) in open.tx.outputs.iter().enumerate() {
            let PlannedOutput::Pay(lock, value_sat) = *output else {
                open.weight += 4 * 100;
                continue;
            };
            open.weight += 4 * (9 + lock.kind.sizes().0);
            open.sigop_cost += lock.kind.sigop_costs().0;
            self.fees_sat -= value_sat;
            self.made[lock.kind as usize] += 1;
            let coin = PlannedCoin {
                source: Source::SameBlock(index),
                vout: vout as u32,
                height: self.height,
                value_sat,
                lock,
            };
            self.keep(coin);
        }
    }

    /// Puts a new coin where it waits to be spent.
    fn keep(&mut self, coin: PlannedCoin) {
        if let Some(&place) = self.special_places.get(&coin.lock) {
            return self.special[place].coins.push(coin);
        }
        match ready_height(&coin) {
            ready if ready > self.height => self.late.push((ready, coin)),
            _ => self.fresh.push(coin),
        }
    }

    /// Divides `left` over the outputs that carry amounts, unevenly.
    fn share_out(&mut self, outputs: &mut [PlannedOutput], left: u64) {
        let shares: Vec<u64> = outputs.iter().map(|_| 1 + self.random.below(64)).collect();
        let paying = |output: &PlannedOutput| matches!(output, PlannedOutput::Pay(..));
        let count = outputs.iter().filter(|output| paying(output)).count() as u64;
        let whole: u64 = outputs.iter().zip(&shares).filter(|(output, _)| paying(output)).map(|(_, s)| s).sum();
        let above = left.saturating_sub(count * DUST_SAT);
        for (output, share) in outputs.iter_mut().zip(shares) {
            if let PlannedOutput::Pay(_, value_sat) = output {
                *value_sat = DUST_SAT.min(left) + (u128::from(above) * u128::from(share) / u128::from(whole)) as u64;
            }
        }
    }

    pub(super) fn plan_coinbase(&mut self) -> Vec<(Lock, u64)> {
        let height = self.height;
        let funding = height <= MATURITY;
        let count = if funding { (self.inputs / 400).clamp(8, FUNDING_OUTPUTS_MAX) } else { 1 };
        let value_sat = subsidy_sat(height, self.halving_interval) + self.fees_sat;
        // One block in two hundred claims less than it may; that is lost for good.
        let value_sat = if self.random.chance(1, 200) { value_sat - value_sat / 1000 } else { value_sat };
        // Funding goes through the eras once, so that the first spends are not all of one type.
        let era = match funding {
            true => self.mix.era(height.into(), u64::from(MATURITY) + 1),
            false => self.mix.era(self.inputs_done, self.inputs),
        };
        // A part of it goes to every script type in turn, so that each is there to be spent.
        let turns = if funding { (count / 32).max(4) } else { 0 };
        let mut outputs = Vec::new();
        for index in 0..count {
            let output = if index < turns {
                let turn = (u64::from(height) * turns + index) % Kind::ALL.len() as u64;
                PlannedOutput::Pay(self.draw_lock(Kind::ALL[turn as usize]), 0)
            } else {
                self.draw_output(era, false)
            };
            outputs.push(output);
        }
        self.share_out(&mut outputs, value_sat);
        self.outputs_done += outputs.len() as u64;
        let pays = outputs.into_iter().map(|output| match output {
            PlannedOutput::Pay(lock, value_sat) => (lock, value_sat),
            PlannedOutput::Data(..) => unreachable!("no data was asked for"),
        });
        let pays: Vec<(Lock, u64)> = pays.collect();
        pays.iter().for_each(|(lock, _)| self.made[lock.kind as usize] += 1);
        pays
    }
}
