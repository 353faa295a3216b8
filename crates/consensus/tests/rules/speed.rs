//! What the rules cost, as multiples of hashing the same bytes.
//!
//! In:     real blocks.
//! Out:    a line a block; run with `--ignored --nocapture` on a quiet machine.
//! Fails:  never.

use std::hint::black_box;
use std::time::Instant;

use consensus::connect::{self, Context};
use consensus::flags::Flags;
use consensus::{block, sigops, tx};
use primitives::{Block, Network, Params};

use crate::support;

/// Least time of many runs, in microseconds.
fn least_us<T>(mut run: impl FnMut() -> T) -> f64 {
    let once = |run: &mut dyn FnMut() -> T| {
        let start = Instant::now();
        black_box(run());
        start.elapsed().as_secs_f64() * 1e6
    };
    (0..60).map(|_| once(&mut run)).fold(f64::INFINITY, f64::min)
}

#[test]
#[ignore = "a measurement"]
fn checks_against_hashing() {
    let mut blocks: Vec<(&str, Network, Block, Option<primitives::SpentCoins>)> = Vec::new();
    for (name, network) in [
        ("mainnet_367891", Network::Main),
        ("mainnet_478558", Network::Main),
        ("mainnet_757753", Network::Main),
        ("testnet3_928831", Network::Testnet3),
        ("testnet3_928848", Network::Testnet3),
    ] {
        let Some((block, spent)) = support::block_with_spent(name) else { return };
        blocks.push((name, network, block, Some(spent)));
    }
    if let Some(path) = support::path("merkle/mainnet_830000.blk") {
        let bytes = std::fs::read(path).unwrap();
        let block = Block::parse(&bytes[..]).or_else(|_| Block::parse(&bytes[8..])).unwrap();
        blocks.push(("mainnet_830000", Network::Main, block, None));
    }
    for (name, network, block, spent) in blocks {
        let params = Params::of(network);
        let copy = least_us(|| block.bytes().to_vec());
        let parse = least_us(|| Block::parse(block.bytes())) - copy;
        let txids = least_us(|| block.txs().map(|tx| tx.txid()).collect::<Vec<_>>());
        let wtxids = least_us(|| block.txs().filter(|tx| tx.has_witness()).map(|tx| tx.wtxid()).collect::<Vec<_>>());
        let check = least_us(|| block::check(block.clone(), &params).unwrap());
        let checked = block::check(block.clone(), &params).unwrap();
        let mut scratch = tx::Scratch::default();
        let txs = least_us(|| {
            block
                .txs()
                .zip(checked.txids())
                .map(|(tx, txid)| tx::check(&tx, txid, &mut scratch).unwrap().out_sat)
                .sum::<u64>()
        });
        let count = least_us(|| {
            block.txs().flat_map(|tx| tx.inputs()).map(|i| sigops::count_input(i.script_sig())).sum::<u32>()
        });
        let leaves: Vec<[u8; 32]> = checked.txids().iter().map(|txid| txid.0).collect();
        let merkle = least_us(|| primitives::hash::merkle_root(&leaves));
        let contextual = least_us(|| block::check_contextual(&checked, 928_848, u32::MAX, &params));
        let connect = spent.map_or(0.0, |spent| {
            let context = Context {
                height: 800_000,
                block_hash: *checked.hash(),
                median_time_past_s: u32::MAX,
                mtp_of: &|_| 0,
                params: &params,
                flags: Flags::ALL,
            };
            least_us(|| connect::check(&checked, &spent, &context))
        });
        println!(
            "{name}: {} bytes, {} txs, {} inputs, {} outputs: parse {parse:.0} us, txids {txids:.0}, wtxids {wtxids:.0}, \
             check {check:.0} = {:.2}x, of which merkle {merkle:.0} txs {txs:.0} (input sigops {count:.0}); contextual {contextual:.0}, connect {connect:.0}",
            block.bytes().len(),
            block.tx_count(),
            block.input_count(),
            block.output_count(),
            check / (txids + wtxids),
        );
    }
}
