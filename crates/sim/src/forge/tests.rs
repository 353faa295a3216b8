//! The forge against itself; `oracle` holds it against Bitcoin Core.

use super::*;
use primitives::Block;

fn chain(options: &ForgeOptions, threads: usize) -> (Vec<ForgedBlock>, Report) {
    let pool = Pool::new("forge", threads);
    let mut forge = Forge::new(options, &pool).unwrap();
    let blocks: Vec<ForgedBlock> = std::iter::from_fn(|| forge.next_block(&pool)).collect();
    (blocks, forge.report().clone())
}

#[test]
fn any_crew_forges_the_same_bytes() {
    let options = ForgeOptions { blocks: 130, inputs: 2_000, ..ForgeOptions::default() };
    let (one, report) = chain(&options, 1);
    let (three, again) = chain(&options, 3);
    assert_eq!(report, again);
    assert!(one.iter().zip(&three).all(|(a, b)| a.bytes == b.bytes));
    assert_eq!(one.last().unwrap().hash, report.tip);
    // The hash of the last block stands for all of them, on every machine: where it changes, all forged chains do.
    assert_eq!(report.tip.to_string(), "53a7792487c2ffea4b257d9333b954be436ba82b568a9e21c39f7de80ffacc5f");
    let (other, _) = chain(&ForgeOptions { seed: 2, ..options }, 2);
    assert_ne!(other.last().unwrap().hash, report.tip);
}

#[test]
fn every_script_type_is_made_and_spent() {
    let options = ForgeOptions { blocks: 160, inputs: 3_000, odd_permille: 100, ..ForgeOptions::default() };
    let (blocks, report) = chain(&options, 2);
    assert_eq!(blocks.len(), 160);
    for kind in Kind::ALL {
        assert!(report.made[kind as usize] > 0 && report.spent[kind as usize] > 0, "{kind:?}");
    }
    assert!(report.inputs >= 3_000, "{}", report.inputs);
    for block in &blocks {
        let parsed = Block::parse(&block.bytes[..]).unwrap();
        assert!(parsed.weight() <= 4_000_000);
        assert_eq!(parsed.header().hash(), block.hash);
    }
}

#[test]
fn a_special_script_has_exactly_its_history() {
    for (entries, unspent) in [(1, 1), (10, 10), (11, 0), (500, 10), (501, 10)] {
        let special = vec![SpecialScript { kind: Kind::P2wpkh, entries, unspent }];
        let options = ForgeOptions { blocks: 120, inputs: 800, special, ..ForgeOptions::default() };
        let (blocks, report) = chain(&options, 2);
        let script = &report.special[0];
        let mut coins = std::collections::HashSet::new();
        let mut touched = 0;
        for block in blocks {
            for tx in Block::parse(block.bytes).unwrap().txs() {
                let spends = tx.inputs().filter(|input| coins.remove(&input.outpoint())).count();
                let pays = tx.outputs().filter(|output| output.script == script).count();
                for (vout, output) in tx.outputs().enumerate() {
                    if output.script == script {
                        coins.insert(primitives::OutPoint { txid: tx.txid(), vout: vout as u32 });
                    }
                }
                touched += u32::from(spends + pays > 0);
            }
        }
        assert_eq!((touched, coins.len() as u32), (entries, unspent));
    }
}

#[test]
fn options_out_of_range_are_refused() {
    #[track_caller]
    fn check(options: ForgeOptions, want: &str) {
        let pool = Pool::new("forge", 1);
        let error = Forge::new(&options, &pool).err().expect("refused").to_string();
        assert!(error.contains(want), "{error}");
    }
    let good = ForgeOptions::default;
    check(ForgeOptions { blocks: BLOCKS_MIN - 1, ..good() }, "blocks");
    check(ForgeOptions { odd_permille: 1001, ..good() }, "odd_permille");
    check(ForgeOptions { shuffle_blocks: 0, ..good() }, "shuffle_blocks");
    check(ForgeOptions { file_bytes_max: 4_000_007, ..good() }, "file_bytes_max");
    let special = |kind, entries, unspent| vec![SpecialScript { kind, entries, unspent }];
    check(ForgeOptions { special: special(Kind::P2wpkh, 1, 2), ..good() }, "entries");
    check(ForgeOptions { special: special(Kind::P2wpkh, 1, 0), ..good() }, "entries");
    check(ForgeOptions { special: special(Kind::P2wshBlocksLock, 1, 1), ..good() }, "spendable at once");
    check(ForgeOptions { special: special(Kind::Anchor, 1, 1), ..good() }, "one script");
    check(ForgeOptions { special: special(Kind::P2wpkh, 2_000_000, 1), ..good() }, "room");
}
