//! Rules that no regtest block can be the first to break, and edges that need the clock as an argument.
//!
//! In:     facts made up for one rule.
//! Out:    one test a rule, both sides of its edge.
//! Fails:  with the numbers that were wrong.
//! Source: `mutate::NOT_ON_REGTEST`; Core's `ContextualCheckBlockHeader`, `CheckTransaction`, `CheckTxInputs`; BIP 325.

use std::collections::BTreeSet;

use consensus::connect::{self, Context};
use consensus::{BlockError, CheckedBlock, Flags, HeaderError, MONEY_SAT_MAX, block, header, tx};
use primitives::{Block, Coin, Header, Network, Params, SpentCoins};
use stdx::random::Random;

use crate::forge::{Draft, DraftInput, DraftOutput};
use crate::mutate::{Craft, NOT_ON_REGTEST, World};

fn time_warp(before_parent_s: u32) -> Result<(), HeaderError> {
    let params = Params::of(Network::Testnet4);
    let mut headers: Vec<Header> = Vec::new();
    for height in 0..2016 {
        headers.push(Header { time_s: params.genesis.time_s + 600 * height, ..params.genesis });
    }
    let parent_s = headers[2015].time_s + 20_000;
    headers[2015].time_s = parent_s;
    let time_s = parent_s - before_parent_s;
    let bits = header::next_bits(2016, time_s, &headers, &params);
    let first = Header { version: 0x2000_0000, time_s, bits, ..params.genesis };
    header::check_contextual(&first, 2016, &headers, u64::from(parent_s), &params)
}

fn oversize(stripped_bytes: usize) -> Result<(), consensus::TxError> {
    let input = DraftInput::unsigned(primitives::OutPoint { txid: primitives::Txid([1; 32]), vout: 0 }, 0);
    let mut draft = Draft {
        version: 2,
        inputs: vec![input],
        outputs: vec![DraftOutput { value_sat: 0, script: vec![0x6a; 100_000] }],
        lock_time: 0,
    };
    let more = stripped_bytes - draft.encode().len();
    draft.outputs[0].script.extend(std::iter::repeat_n(0, more));
    let parsed = draft.parse();
    assert_eq!(parsed.tx().stripped_length(), stripped_bytes);
    tx::check(&parsed.tx(), &parsed.tx().txid(), &mut tx::Scratch::default()).map(|_| ())
}

/// A block with two transactions of one input and one output each.
fn two_spends(params: &Params) -> (World, Result<CheckedBlock, BlockError>) {
    let world = World::new(5, &mut |_| ());
    let bytes = {
        let mut random = Random::new(5);
        let mut craft = Craft::empty(&world, &mut random);
        for _ in 0..2 {
            let coin = craft.free_coin().expect("the world has coins");
            craft.spend(&[coin], |_| ());
        }
        craft.build()
    };
    let checked = block::check(Block::parse(bytes).expect("it was built whole"), params);
    (world, checked)
}

fn signet(challenge: &[u8]) -> Result<(), BlockError> {
    let params = Params { signet_challenge: Some(challenge.to_vec()), ..Params::of(Network::Regtest) };
    two_spends(&params).1.map(|_| ())
}

fn amounts(first_sat: u64, second_sat: u64) -> Result<(), BlockError> {
    let params = Params::of(Network::Regtest);
    let (world, checked) = two_spends(&params);
    let checked = checked.expect("a valid block");
    let mut spent = SpentCoins::default();
    for value_sat in [first_sat, second_sat] {
        spent.push(Coin { value_sat, height: 1, coinbase: false, txo_num: 0, script: &[] });
    }
    let context = Context {
        height: world.next_height(),
        block_hash: *checked.hash(),
        median_time_past_s: 0,
        mtp_of: &|_| 0,
        params: &params,
        flags: Flags::NONE,
    };
    connect::check(&checked, &spent, &context).map(|_| ())
}

#[test]
fn rules_beyond_regtest_are_broken_too() {
    let mut produced: BTreeSet<&str> = BTreeSet::new();
    assert_eq!(time_warp(600), Ok(()));
    produced.insert(time_warp(601).unwrap_err().rule());
    assert_eq!(oversize(1_000_000), Ok(()));
    produced.insert(oversize(1_000_001).unwrap_err().rule());
    // True without a solution, and false with none.
    assert_eq!(signet(&[0x51]), Ok(()));
    produced.insert(signet(&[0x00]).unwrap_err().rule());
    let enough = 5_000_000_000;
    assert_eq!(amounts(MONEY_SAT_MAX, enough).map_err(|error| error.rule()), Err("FeeSum"));
    assert_eq!(amounts(MONEY_SAT_MAX / 2, MONEY_SAT_MAX / 2), Ok(()));
    produced.insert(amounts(MONEY_SAT_MAX, MONEY_SAT_MAX).unwrap_err().rule());
    produced.insert(amounts(MONEY_SAT_MAX + 1, enough).unwrap_err().rule());
    assert_eq!(produced, NOT_ON_REGTEST.iter().map(|(rule, _)| *rule).collect());
}

#[test]
fn a_header_may_be_two_hours_ahead_of_the_clock() {
    let params = Params::of(Network::Regtest);
    let headers = vec![params.genesis];
    let time_s = params.genesis.time_s + 100_000;
    let next = Header { version: 4, time_s, ..params.genesis };
    let check = |now_s: u64| header::check_contextual(&next, 1, &headers, now_s, &params);
    assert_eq!(check(u64::from(time_s) - 7200), Ok(()));
    let now_s = u64::from(time_s) - 7201;
    assert_eq!(check(now_s), Err(HeaderError::TimeTooNew { now_s, got_s: time_s }));
}
