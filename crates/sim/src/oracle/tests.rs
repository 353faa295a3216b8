//! Forged chains before both judges.

use super::*;
use crate::forge::{Forge, ForgeOptions, Mix};
use primitives::{Network, Params};
use stdx::pool::Pool;

fn judge() -> Judge {
    let engine = sigs::engine(sigs::EngineName::Scalar).expect("always there");
    Judge::new(Params::of(Network::Regtest), engine, 1_700_000_000)
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
            assert_eq!(ours.feed(&block.bytes), Verdict::Accepted, "seed {seed} height {}", block.height);
        }
        let counters = ours.counters().total();
        assert_eq!(counters.inputs, forge.report().inputs);
        assert!(counters.fallback_inputs > 0 && counters.template_inputs > counters.fallback_inputs);
    }
}
