//! Real chains, block by block, through every rule but scripts.
//!
//! In:     `chains/*.blk`, `blocks/*.blk` with the outputs they spend.
//! Out:    every block passes; the coins left are the published number; one bit changed makes each fail.
//! Fails:  at the first block whose verdict differs.

use std::collections::HashMap;

use consensus::connect::{self, Context};
use consensus::{BlockError, CheckedBlock, block, flags, header};
use primitives::coin::Coin;
use primitives::script::is_unspendable;
use primitives::{Block, Header, Network, OutPoint, Params, SpentCoins};
use stdx::random::Random;

use crate::support;

/// The plainest book of coins.
#[derive(Default)]
struct Book {
    coins: HashMap<OutPoint, (u64, u32, bool, Vec<u8>)>,
    headers: Vec<Header>,
    txs: usize,
    spends: usize,
}

impl Book {
    fn spend(&mut self, block: &Block) -> SpentCoins {
        let mut spent = SpentCoins::default();
        let height = self.headers.len() as u32 - 1;
        for tx in block.txs() {
            let txid = tx.txid();
            for input in tx.inputs().filter(|_| tx.index() > 0) {
                let (value_sat, height, coinbase, script) = self.coins.remove(&input.outpoint()).expect("a coin");
                spent.push(Coin { value_sat, height, coinbase, txo_num: 0, script: &script });
                self.spends += 1;
            }
            for (vout, output) in tx.outputs().enumerate().filter(|(_, output)| !is_unspendable(output.script)) {
                let coin = (output.value_sat as u64, height, tx.index() == 0, output.script.to_vec());
                self.coins.insert(OutPoint { txid, vout: vout as u32 }, coin);
            }
        }
        self.txs += block.tx_count();
        spent
    }

    fn connect(&mut self, block: Block, params: &Params) -> Result<CheckedBlock, BlockError> {
        let height = self.headers.len() as u32;
        let one = *block.header();
        header::check(&one, height, &self.headers, u64::from(one.time_s), params)?;
        let median_time_past_s =
            height.checked_sub(1).map_or(0, |parent| header::median_time_past(parent, &self.headers));
        self.headers.push(one);
        let checked = block::check(block.clone(), params)?;
        block::check_contextual(&checked, height, median_time_past_s, params)?;
        if height == 0 {
            return Ok(checked);
        }
        let spent = self.spend(&block);
        let mtp_of = |height| header::median_time_past(height, &self.headers);
        let flags = flags::at(height, checked.hash(), params);
        let context =
            Context { height, block_hash: *checked.hash(), median_time_past_s, mtp_of: &mtp_of, params, flags };
        let totals = connect::check(&checked, &spent, &context)?;
        assert!(totals.coinbase_sat <= connect::subsidy_sat(height, params) + totals.fees_sat);
        Ok(checked)
    }
}

#[track_caller]
fn check(name: &str, network: Network, with_genesis: bool) -> Option<Book> {
    let params = Params::of(network);
    let mut book = Book::default();
    if !with_genesis {
        book.connect(Block::parse(params.genesis_block()).unwrap(), &params).unwrap();
    }
    for block in support::chain(name)? {
        let height = book.headers.len();
        book.connect(block, &params).unwrap_or_else(|error| panic!("{name} {height}: {error}"));
    }
    println!(
        "{name}: {} blocks, {} txs, {} spends, {} coins",
        book.headers.len(),
        book.txs,
        book.spends,
        book.coins.len()
    );
    Some(book)
}

#[test]
fn mainnet_to_4521() {
    let Some(book) = check("mainnet_0_4521.blk", Network::Main, true) else { return };
    // The published numbers, 4,583 and 4,349, count the genesis coinbase, whose output Core never makes a coin.
    assert_eq!((book.headers.len(), book.txs + 1, book.spends, book.coins.len() + 1), (4_522, 4_583, 260, 4_349));
}

#[test]
fn testnet3_to_4000() {
    let Some(book) = check("testnet3_0_4000.blk", Network::Testnet3, true) else { return };
    assert_eq!(book.headers.len(), 4_001);
}

#[test]
fn signet_to_120_with_block_signatures() {
    let Some(book) = check("signet_0_120.blk", Network::Signet, true) else { return };
    assert_eq!(book.headers.len(), 121);
}

#[test]
fn another_mainnet_to_2016() {
    let Some(book) = check("mainnet_alt_2016.blk", Network::Main, false) else { return };
    assert_eq!(book.headers.len(), 2_017);
}

/// A signed block whose solution no longer fits what it signs.
#[test]
fn signet_solutions_sign_the_block() {
    let Some(blocks) = support::chain("signet_0_120.blk") else { return };
    let params = Params::of(Network::Signet);
    for block in &blocks[1..] {
        let txids: Vec<_> = block.txs().map(|tx| tx.txid()).collect();
        let solved = |bytes: Vec<u8>| {
            let changed = Block::parse(bytes).unwrap();
            consensus::signet::is_solved(&changed, &changed.header().hash(), &txids, &params)
        };
        assert!(solved(block.bytes().to_vec()));
        // Version, previous hash and time are signed; bits, nonce and the root in the header are not.
        for (at, want) in [(0, false), (4, false), (68, false), (36, true), (72, true), (76, true)] {
            let mut bytes = block.bytes().to_vec();
            bytes[at] ^= 1;
            assert_eq!(solved(bytes), want, "{at}");
        }
    }
}

/// `NET_HEIGHT` of the bare blocks.
const BLOCKS: [(&str, Network, u32); 17] = [
    ("mainnet_170", Network::Main, 170),
    ("mainnet_24835", Network::Main, 24_835),
    ("mainnet_57043", Network::Main, 57_043),
    ("mainnet_91722", Network::Main, 91_722),
    ("mainnet_116928", Network::Main, 116_928),
    ("mainnet_150013", Network::Main, 150_013),
    ("mainnet_210000", Network::Main, 210_000),
    ("mainnet_255018", Network::Main, 255_018),
    ("mainnet_277647", Network::Main, 277_647),
    ("mainnet_300025", Network::Main, 300_025),
    ("mainnet_367891", Network::Main, 367_891),
    ("mainnet_403200", Network::Main, 403_200),
    ("mainnet_478558", Network::Main, 478_558),
    ("mainnet_757753", Network::Main, 757_753),
    ("testnet3_928816", Network::Testnet3, 928_816),
    ("testnet3_928831", Network::Testnet3, 928_831),
    ("testnet3_928848", Network::Testnet3, 928_848),
];

#[test]
fn single_blocks_pass_and_pay_what_they_may() {
    for (name, network, height) in BLOCKS {
        let Some((block, spent)) = support::block_with_spent(name) else { return };
        let params = Params::of(network);
        let time_s = block.header().time_s;
        let checked = block::check(block, &params).unwrap_or_else(|error| panic!("{name}: {error}"));
        // The parent's median time past is not known here; the block's own time bounds it from above.
        block::check_contextual(&checked, height, time_s, &params).unwrap_or_else(|error| panic!("{name}: {error}"));
        let flags = flags::at(height, checked.hash(), &params);
        let hash = *checked.hash();
        let context =
            Context { height, block_hash: hash, median_time_past_s: time_s, mtp_of: &|_| 0, params: &params, flags };
        let totals = connect::check(&checked, &spent, &context).unwrap_or_else(|error| panic!("{name}: {error}"));
        println!("{name}: {totals:?} weight {}", checked.weight());
    }
}

/// Whether a block with one bit changed is refused, as bytes that are no block or by a rule.
fn is_refused(block: &Block, bit: usize, height: u32, params: &Params) -> bool {
    let mut bytes = block.bytes().to_vec();
    bytes[bit / 8] ^= 1 << (bit % 8);
    let Ok(changed) = Block::parse(bytes) else { return true };
    let verdict = block::check(changed, params);
    verdict.and_then(|checked| block::check_contextual(&checked, height, u32::MAX, params)).is_err()
}

#[test]
fn one_bit_changed_makes_every_block_fail() {
    let mut random = Random::new(1);
    let params = Params::of(Network::Main);
    for (height, block) in support::chain("mainnet_0_4521.blk").unwrap_or_default().iter().enumerate() {
        let bit = random.below(8 * block.bytes().len() as u64) as usize;
        assert!(is_refused(block, bit, height as u32, &params), "{height}: bit {bit}");
    }
    // Witnesses are held by their commitment alone.
    for (name, network, height) in BLOCKS {
        let Some((block, _)) = support::block_with_spent(name) else { return };
        for _ in 0..if height > 500_000 { 60 } else { 10 } {
            let bit = random.below(8 * block.bytes().len() as u64) as usize;
            assert!(is_refused(&block, bit, height, &Params::of(network)), "{name}: bit {bit}");
        }
    }
}
