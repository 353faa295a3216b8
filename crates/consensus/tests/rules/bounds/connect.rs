//! Rules about a block and the coins it spends.
//!
//! In:     forged blocks and coins.
//! Out:    verdicts on both sides of every bound.
//! Fails:  where one differs.

use consensus::connect::{self, Context, bip30_applies, is_overwritten, subsidy_sat};
use consensus::flags::Flags;
use consensus::{BlockError, MONEY_SAT_MAX, block};
use primitives::coin::Coin;
use primitives::{BlockHash, Network, Params, SpentCoins};

use super::Broken;
use crate::forge::{ForgedBlock, ForgedTx, HEIGHT, MEDIAN_S};

const ANYONE: &[u8] = &[0x51];

fn coin(value_sat: u64) -> Coin<'static> {
    Coin { value_sat, height: 1, coinbase: false, txo_num: 0, script: ANYONE }
}

/// Median times ten minutes apart, so that the parent's is `MEDIAN_S`.
fn mtp_of(height: u32) -> u32 {
    MEDIAN_S - 600 * (HEIGHT - 1 - height)
}

fn judge(
    forged: &ForgedBlock,
    coins: &[Coin<'_>],
    params: &Params,
    flags: Flags,
) -> Result<connect::Totals, BlockError> {
    let checked = block::check(forged.seal(), params).expect("only coins are at fault");
    let mut spent = SpentCoins::default();
    coins.iter().for_each(|&coin| spent.push(coin));
    let block_hash = *checked.hash();
    let mtp_of: &dyn Fn(u32) -> u32 = &mtp_of;
    let context = Context { height: HEIGHT, block_hash, median_time_past_s: MEDIAN_S, mtp_of, params, flags };
    connect::check(&checked, &spent, &context)
}

pub fn table(broken: &mut Broken) {
    amounts(broken);
    relative_locks(broken);
    signature_operations(broken);
}

fn amounts(broken: &mut Broken) {
    // Three halvings on regtest are behind by height 1,000: 6.
    let params = Params::of(Network::Regtest);
    let subsidy = subsidy_sat(HEIGHT, &params) as i64;
    assert_eq!(subsidy, 5_000_000_000 >> 6);
    let money = MONEY_SAT_MAX;
    let mut check = |what: &str, forged: ForgedBlock, coins: &[Coin<'_>], want: &str| {
        let verdict = judge(&forged, coins, &params, Flags::ALL);
        broken.note(what, verdict.err().map(|error| error.rule()), want);
    };
    let one = |value_sat: i64| ForgedBlock::of([ForgedTx::spending([1]).paying(value_sat)]);
    for (depth, want) in [(0, "PrematureCoinbaseSpend"), (99, "PrematureCoinbaseSpend"), (100, "")] {
        let young = Coin { coinbase: true, height: HEIGHT - depth, ..coin(0) };
        check("a coinbase's output", one(0), &[young], want);
        check("another's output", one(0), &[Coin { coinbase: false, ..young }], "");
    }
    check("all money", one(0), &[coin(money)], "");
    check("one more", one(0), &[coin(money + 1)], "InputValues");
    check("greatest number", one(0), &[coin(u64::MAX)], "InputValues");
    let two = || ForgedBlock::of([ForgedTx::spending([1, 2])]);
    check("all money in two", two(), &[coin(money - 1), coin(1)], "");
    check("one more in two", two(), &[coin(money), coin(1)], "InputValues");
    check("overflow in two", two(), &[coin(money), coin(u64::MAX)], "InputValues");
    check("pays what it spends", one(7), &[coin(7)], "");
    check("pays one more", one(8), &[coin(7)], "InBelowOut");
    let apart = || ForgedBlock::of([ForgedTx::spending([1]), ForgedTx::spending([2])]);
    check("fees of all money", apart(), &[coin(money - 1), coin(1)], "");
    check("fees of one more", apart(), &[coin(money), coin(1)], "FeeSum");
    let paid = |value_sat: i64| one(0).with_coinbase(|tx| tx.outputs[0].0 = value_sat);
    check("subsidy and fees", paid(subsidy + 5), &[coin(5)], "");
    check("one more", paid(subsidy + 6), &[coin(5)], "CoinbaseAmount");
    check("fees are not subsidy", paid(subsidy + 1), &[coin(0)], "CoinbaseAmount");
    // The first transaction that breaks a rule names it, and the coinbase's amount comes last.
    let both = ForgedBlock::of([ForgedTx::spending([1]).paying(8), ForgedTx::spending([2])]);
    check(
        "the first in order",
        both.with_coinbase(|tx| tx.outputs[0].0 = 1 << 50),
        &[coin(7), coin(money + 1)],
        "InBelowOut",
    );
}

fn relative_locks(broken: &mut Broken) {
    let regtest = Params::of(Network::Regtest);
    let before_csv = Params { csv_height: HEIGHT + 1, ..regtest.clone() };
    let mut check = |sequence: u32, version: u32, coin_height: u32, params: &Params, want: &str| {
        let mut forged = ForgedTx::spending([1, 2]);
        (forged.version, forged.inputs[1].sequence) = (version, sequence);
        let coins = [coin(0), Coin { height: coin_height, ..coin(0) }];
        let verdict = judge(&ForgedBlock::of([forged]), &coins, params, Flags::ALL);
        let what = format!("sequence {sequence:08x}, version {version}, coin at {coin_height}");
        broken.note(&what, verdict.err().map(|error| error.rule()), want);
    };
    check(10, 2, HEIGHT - 10, &regtest, "");
    check(11, 2, HEIGHT - 10, &regtest, "SequenceLock");
    check(0xffff, 2, 1, &regtest, "SequenceLock");
    check(0, 2, HEIGHT, &regtest, "");
    check(1, 2, HEIGHT, &regtest, "SequenceLock");
    // Bits outside the mask mean nothing, but for the two that do.
    check(0x7fbf_0000 | 10, 2, HEIGHT - 10, &regtest, "");
    check(0x7fbf_0000 | 11, 2, HEIGHT - 10, &regtest, "SequenceLock");
    check(1 << 31 | 11, 2, HEIGHT - 10, &regtest, "");
    // Versions compare unsigned: -1 is the greatest.
    check(11, 1, HEIGHT - 10, &regtest, "");
    check(11, 0, HEIGHT - 10, &regtest, "");
    check(11, u32::MAX, HEIGHT - 10, &regtest, "SequenceLock");
    check(11, 2, HEIGHT - 10, &before_csv, "");
    // Time: the block before the coin's is 64 blocks of 600 s below the parent, 75 units of 512 s.
    let time = 1 << 22;
    check(time | 75, 2, HEIGHT - 64, &regtest, "");
    check(time | 76, 2, HEIGHT - 64, &regtest, "SequenceLock");
    check(time | 75, 2, HEIGHT - 63, &regtest, "SequenceLock");
    check(time | 1 << 31 | 76, 2, HEIGHT - 64, &regtest, "");
    check(time, 2, 0, &regtest, "");
}

fn signature_operations(broken: &mut Broken) {
    let params = Params::of(Network::Regtest);
    let mut check = |what: &str, legacy: usize, last: (&[u8], &[u8], &[u8]), flags: Flags, want: Result<u64, &str>| {
        let (script, script_sig, witness) = last;
        let mut forged = ForgedTx::spending([1]);
        forged.outputs[0].1 = vec![0xac; legacy];
        forged.inputs[0].script_sig = script_sig.to_vec();
        forged.inputs[0].witness = if witness.is_empty() { vec![] } else { vec![vec![1], witness.to_vec()] };
        let coins = [Coin { script, ..coin(0) }];
        let verdict = judge(&ForgedBlock::of([forged]), &coins, &params, flags);
        assert_eq!(verdict.as_ref().ok().map(|totals| totals.sigop_cost), want.ok(), "{what}");
        broken.note(what, verdict.err().map(|error| error.rule()), want.err().unwrap_or(""));
    };
    let p2sh = [&[0xa9, 20][..], &[0; 20], &[0x87]].concat();
    let key_hash = [&[0, 20][..], &[0; 20]].concat();
    let script_hash = [&[0, 32][..], &[0; 32]].concat();
    let taproot = [&[0x51, 32][..], &[0; 32]].concat();
    let push = |data: &[u8]| [&[data.len() as u8], data].concat();
    let (none, no_witness) = (Flags::NONE, Flags::P2SH);
    check("legacy", 20_000, (ANYONE, &[], &[]), Flags::ALL, Ok(80_000));
    check("what a coin's own script says is not counted", 0, (&[0xac; 9], &[], &[]), Flags::ALL, Ok(0));
    // A redeem script counts four times, its CHECKMULTISIG as many keys as it says.
    let redeem = push(&[0x53, 0xae, 0xac]);
    check("redeem script", 19_996, (&p2sh, &redeem, &[]), Flags::ALL, Ok(80_000));
    check("one more", 19_997, (&p2sh, &redeem, &[]), Flags::ALL, Err("SigOpCost"));
    check("no number of keys", 0, (&p2sh, &push(&[0xae]), &[]), Flags::ALL, Ok(80));
    check("not without BIP 16", 0, (&p2sh, &redeem, &[]), none, Ok(0));
    let not_pushes = [&[0x61][..], &redeem].concat();
    check("more than pushes", 0, (&p2sh, &not_pushes, &[]), Flags::ALL, Ok(0));
    check("a push too long", 0, (&p2sh, &[&redeem[..], &[5]].concat(), &[]), Flags::ALL, Ok(0));
    check("a number last", 0, (&p2sh, &[&redeem[..], &[0x51]].concat(), &[]), Flags::ALL, Ok(0));
    check("key hash", 19_999, (&key_hash, &[], &[9]), Flags::ALL, Ok(79_997));
    check("key hash without BIP 141", 19_999, (&key_hash, &[], &[9]), no_witness, Ok(79_996));
    check("witness script", 0, (&script_hash, &[], &[0x53, 0xae, 0xac]), Flags::ALL, Ok(4));
    check("no witness script", 0, (&script_hash, &[], &[]), Flags::ALL, Ok(0));
    check("exactly", 19_999, (&script_hash, &[], &[0xac; 4]), Flags::ALL, Ok(80_000));
    check("one more", 19_999, (&script_hash, &[], &[0xac; 5]), Flags::ALL, Err("SigOpCost"));
    check("taproot", 0, (&taproot, &[], &[0xac; 5]), Flags::ALL, Ok(0));
    check("nested key hash", 0, (&p2sh, &push(&key_hash), &[9]), Flags::ALL, Ok(1));
    check("nested witness script", 0, (&p2sh, &push(&script_hash), &[0xac, 0xad]), Flags::ALL, Ok(2));
    check("nested without BIP 141", 0, (&p2sh, &push(&script_hash), &[0xac, 0xad]), no_witness, Ok(0));
    // A witness program of another length or version costs nothing.
    let odd = [&[0, 21][..], &[0; 21]].concat();
    check("21 bytes", 0, (&odd, &[], &[0xac]), Flags::ALL, Ok(0));
}

#[test]
fn subsidy_halves_until_nothing_is_left() {
    #[track_caller]
    fn check(network: Network, height: u32, want_sat: u64) {
        assert_eq!(subsidy_sat(height, &Params::of(network)), want_sat, "{network} {height}");
    }
    check(Network::Main, 0, 5_000_000_000);
    check(Network::Main, 209_999, 5_000_000_000);
    check(Network::Main, 210_000, 2_500_000_000);
    check(Network::Main, 6_929_999, 1);
    check(Network::Main, 6_930_000, 0);
    check(Network::Main, 64 * 210_000, 0);
    check(Network::Main, u32::MAX, 0);
    check(Network::Regtest, 149, 5_000_000_000);
    check(Network::Regtest, 150, 2_500_000_000);
    // Core's subsidy_limit_test: all of it together.
    let params = Params::of(Network::Main);
    let sum: u64 = (0..14_000_000).step_by(1_000).map(|height| subsidy_sat(height, &params) * 1_000).sum();
    assert_eq!(sum, 2_099_999_997_690_000);
}

#[test]
fn bip_30_applies_but_where_bip_34_implies_it() {
    let main = Params::of(Network::Main);
    let hash = BlockHash([9; 32]);
    let known = main.bip34_hash;
    #[track_caller]
    fn check(height: u32, hash: &BlockHash, ancestor: Option<BlockHash>, params: &Params, want: bool) {
        assert_eq!(bip30_applies(height, hash, ancestor, params), want, "{height}");
    }
    check(1, &hash, None, &main, true);
    check(227_931, &hash, None, &main, true);
    check(227_932, &hash, known, &main, false);
    check(227_932, &hash, Some(hash), &main, true);
    check(1_983_701, &hash, known, &main, false);
    check(1_983_702, &hash, known, &main, true);
    let repeats = [
        (91_842, "00000000000a4d0a398161ffc163c503763b1f4360639393e0e4c8e300e0caec"),
        (91_880, "00000000000743f190a18c5577a3c2d2a1f610ae9601ac046a38084ccb7cd721"),
    ];
    for (height, name) in repeats {
        check(height, &name.parse().unwrap(), None, &main, false);
        check(height + 1, &name.parse().unwrap(), None, &main, true);
        check(height, &hash, None, &main, true);
    }
    // Networks without a BIP 34 hash check always, even where an ancestor is not known.
    for network in [Network::Regtest, Network::Signet, Network::Testnet4] {
        check(5, &hash, None, &Params::of(network), true);
        check(5, &hash, Some(hash), &Params::of(network), true);
    }
    let first: BlockHash = "00000000000271a2dc26e7667f8419f2e15416dc6955e5a6c6cdf3f2574dd08e".parse().unwrap();
    assert!(is_overwritten(91_722, &first) && !is_overwritten(91_722, &hash) && !is_overwritten(91_723, &first));
}
