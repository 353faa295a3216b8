//! Forged chains before both judges.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::judge::Refusal;
use super::*;
use crate::forge::{Forge, ForgeOptions, Mix};
use crate::mutate::{self, Case, Craft, Want, World};
use primitives::{Network, Params};
use stdx::pool::Pool;
use stdx::random::Random;

fn judge() -> Judge {
    Judge::new(Params::of(Network::Regtest), Arc::new(sigs::Jury::new()), 1_700_000_000)
}

#[test]
fn both_judges_accept_forged_chains() {
    let pool = Pool::new("forge", 2);
    for (seed, mix) in [(1, Mix::History), (2, Mix::Recent), (3, Mix::Legacy)] {
        let options =
            ForgeOptions { seed, mix, blocks: 150, inputs: 2_500, odd_permille: 60, ..ForgeOptions::default() };
        let mut forge = Forge::new(&options, &pool).unwrap();
        let (kernel, mut ours) = (Kernel::new(0), judge());
        while let Some(block) = forge.next_block(&pool) {
            assert_eq!(kernel.feed(&block.bytes), Verdict::Accepted, "seed {seed} height {}", block.height);
            assert_eq!(ours.feed(&block.bytes), Ok(()), "seed {seed} height {}", block.height);
        }
        let counters = ours.counters().total();
        assert_eq!(counters.inputs, forge.report().inputs);
        assert!(counters.fallback_inputs > 0 && counters.template_inputs > counters.fallback_inputs);
    }
}

/// Chains, each with a seed of its own; short ones, for Core checks its whole index after each block on regtest.
const WORLDS: u64 = 5;
/// Rounds through all cases on each chain; each case makes another block every time.
const ROUNDS: u32 = 3;
/// Flipped bits of each kind in a round.
const FLIPS: usize = 20;

#[derive(Default)]
struct Tally {
    made: BTreeMap<&'static str, u32>,
    produced: BTreeSet<&'static str>,
    faults: Vec<String>,
}

impl Tally {
    /// Makes one block of a case and puts it before both judges.
    fn run(&mut self, case: &Case, world: &mut World, kernel: &Kernel, random: &mut Random) {
        let mut craft = Craft::new(world, random);
        if (case.make)(&mut craft).is_none() {
            return;
        }
        let block = craft.build();
        *self.made.entry(case.name).or_default() += 1;
        let (core, ours) = (kernel.feed(&block), world.feed(&block));
        if let Err(Refusal::Rule(error)) = &ours {
            self.produced.insert(error.rule());
        }
        let as_wanted = match (&ours, case.want) {
            (Ok(()), Want::Valid) | (_, Want::Agreement) => true,
            (Err(Refusal::Rule(error)), Want::Broken(want)) => error.rule() == want,
            _ => false,
        };
        if !as_wanted || core != Verdict::of(&ours) {
            let height = world.next_height();
            let Case { name, want, .. } = case;
            self.faults.push(format!("{name:?}, height {height}: wanted {want:?}, Core {core:?}, ours {ours:?}"));
        }
    }
}

#[test]
fn both_judges_say_the_same_of_every_broken_rule() {
    let mut tally = Tally::default();
    for seed in 0..WORLDS {
        let kernel = Kernel::new(0);
        let mut world = World::new(seed, &mut |block| assert_eq!(kernel.feed(block), Verdict::Accepted));
        let mut random = Random::new(seed);
        for round in 0..ROUNDS {
            for case in mutate::cases().filter(|case| round == 0 || !mutate::is_heavy(case)) {
                for _ in 0..if case.want == Want::Agreement { FLIPS } else { 1 } {
                    tally.run(case, &mut world, &kernel, &mut random);
                }
            }
        }
        assert!(tally.faults.is_empty(), "{}", tally.faults.join("\n"));
    }
    for case in mutate::cases() {
        assert!(tally.made.contains_key(case.name), "{:?} was never possible", case.name);
    }
    tally.produced.extend(mutate::NOT_ON_REGTEST.iter().map(|(rule, _)| *rule));
    let all: BTreeSet<&str> = consensus::BlockError::all_rules().map(|(rule, _)| rule).collect();
    assert_eq!(tally.produced, all, "every rule was broken at least once");
    let blocks: u32 = tally.made.values().sum();
    println!("{blocks} blocks of {} cases", tally.made.len());
    assert!(blocks > 3_500);
}
