//! Real blocks of mainnet and testnet3: every input is valid, and most are taken by a template.
//!
//! In:     `../shared/vectors/blocks`: blocks and the outputs they spend.
//! Out:    valid for every input whose coin is known; the share that templates took.
//! Fails:  says "skipped" where the folder is not on this machine.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use consensus::flags::Flags;
use consensus::script::{Counters, Job, verify};
use consensus::{CheckedBlock, block, flags};
use primitives::{Block, Coin, Network, Params, SpentCoins};
use stdx::hex;

use crate::published::shared;
use crate::raw::jury;

/// The spent outputs of a block, and whether each one's amount is known.
fn spent(path: &std::path::Path) -> (SpentCoins, Vec<bool>) {
    let mut text = String::new();
    flate2::read::GzDecoder::new(fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let (mut coins, mut known) = (SpentCoins::default(), Vec::new());
    for line in text.lines() {
        let fields: Vec<&str> = line.split(',').collect();
        let script = hex::decode(fields[3]).unwrap();
        let value_sat = fields[2].parse::<u64>();
        known.push(value_sat.is_ok());
        coins.push(Coin { value_sat: value_sat.unwrap_or(0), height: 0, coinbase: false, txo_num: 0, script: &script });
    }
    (coins, known)
}

/// A block out of the folder, with what its inputs spend.
pub struct RealBlock {
    pub name: String,
    pub checked: Arc<CheckedBlock>,
    pub spent: Arc<SpentCoins>,
    pub flags: Flags,
}

/// All of them; none where the folder is not on this machine.
pub fn real_blocks() -> Vec<RealBlock> {
    let Some(folder) = shared("blocks") else { return Vec::new() };
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "blk"));
    paths.sort();
    let read = |path: &PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let (network, height) = name.split_once('_').unwrap();
        let params = Params::of(if network == "mainnet" { Network::Main } else { Network::Testnet3 });
        let checked = block::check(Block::parse(fs::read(path).unwrap()).unwrap(), &params).unwrap();
        let flags = flags::at(height.parse().unwrap(), checked.hash(), &params);
        let (coins, known) = spent(&path.with_extension("prevouts.csv.gz"));
        assert_eq!(coins.len(), checked.block().input_count() - 1, "{name}");
        assert!(known.iter().all(|&known| known), "{name}: an amount is not known");
        RealBlock { name: name.to_owned(), checked: Arc::new(checked), spent: Arc::new(coins), flags }
    };
    let blocks: Vec<RealBlock> = paths.iter().map(read).collect();
    assert_eq!(blocks.len(), 17);
    blocks
}

#[test]
fn every_input_is_valid_and_most_are_templates() {
    let engine = jury();
    for RealBlock { name, checked, spent, flags } in real_blocks() {
        let job = |inputs| Job { block: checked.clone(), spent: spent.clone(), flags, inputs };
        let count = checked.block().input_count();
        let counters = Counters::default();
        // Cut at every thousandth input, in the midst of transactions, and rows of all parts in common calls.
        let jobs: Vec<Job> = (0..count).step_by(1000).map(|start| job(start..count.min(start + 1000))).collect();
        let verdicts = verify(&jobs, engine, &counters);
        assert!(verdicts.iter().all(Result::is_ok), "{name}: {verdicts:?}");
        let total = counters.total();
        println!("{name}: {total:?}");
        assert_eq!(total.inputs as usize, spent.len());
        // Block 367,891 gathers 20,000 outputs with scripts of their own kind; all other blocks are ordinary.
        let ordinary = name != "mainnet_367891";
        assert!(total.template_inputs * 100 >= total.inputs * 95 || !ordinary, "{name}: {total:?}");
    }
}
