//! Reading the vectors: block files, header runs, spent outputs.
//!
//! In:     names below `../shared/vectors`.
//! Out:    blocks, headers, coins; `None` (and a line that says so) where a file is absent.
//! Fails:  panics on a file that is there and cannot be read.

use std::io::Read;
use std::path::PathBuf;

use primitives::coin::Coin;
use primitives::{Block, Header, SpentCoins};
use stdx::{hex, vectors};

/// A path below `../shared/vectors`, or a line that says the test is skipped.
pub fn path(name: &str) -> Option<PathBuf> {
    let path = vectors::shared(name);
    if path.is_none() {
        println!("skipped: ../shared/vectors/{name} is absent");
    }
    path
}

/// A run of 80-byte headers.
pub fn headers(name: &str) -> Option<Vec<Header>> {
    let bytes = std::fs::read(path(&format!("headers/{name}"))?).expect("readable");
    Some(bytes.chunks_exact(80).map(|header| Header::decode(header.try_into().unwrap())).collect())
}

/// Blocks in Core's framing: magic, length, block.
pub fn chain(name: &str) -> Option<Vec<Block>> {
    let bytes = std::fs::read(path(&format!("chains/{name}"))?).expect("readable");
    let mut blocks = Vec::new();
    let mut left = &bytes[..];
    while !left.is_empty() {
        let length = u32::from_le_bytes(left[4..8].try_into().unwrap()) as usize;
        blocks.push(Block::parse(&left[8..8 + length]).expect("a block"));
        left = &left[8 + length..];
    }
    Some(blocks)
}

/// A bare block of `blocks/`, and the coins it spends; unknown heights read as 0.
pub fn block_with_spent(name: &str) -> Option<(Block, SpentCoins)> {
    let block = std::fs::read(path(&format!("blocks/{name}.blk"))?).expect("readable");
    let csv = std::fs::File::open(path(&format!("blocks/{name}.prevouts.csv.gz"))?).expect("readable");
    let mut text = String::new();
    flate2::read::GzDecoder::new(csv).read_to_string(&mut text).expect("a gzip file");
    let mut spent = SpentCoins::default();
    for line in text.lines().filter(|line| !line.starts_with("txid")) {
        let fields: Vec<&str> = line.split(',').collect();
        let coin = Coin {
            value_sat: fields[2].parse().unwrap(),
            height: fields[4].parse::<i64>().unwrap().max(0) as u32,
            coinbase: fields[5] == "1" || fields[5].eq_ignore_ascii_case("true"),
            txo_num: 0,
            script: &hex::decode(fields[3]).unwrap(),
        };
        spent.push(coin);
    }
    Some((Block::parse(block).expect("a block"), spent))
}
