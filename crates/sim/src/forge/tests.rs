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
        let special = vec![SpecialScript::new(Kind::P2wpkh, entries, unspent)];
        let options = ForgeOptions { blocks: 120, inputs: 800, special, ..ForgeOptions::default() };
        let (blocks, report) = chain(&options, 2);
        let script = &report.special[0].script;
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
fn a_chain_that_signals_spends_when_everything_is_active_everywhere() {
    let options = ForgeOptions { blocks: 450, inputs: 800, signals: true, ..ForgeOptions::default() };
    let (blocks, report) = chain(&options, 2);
    assert!(report.inputs >= 800);
    for block in &blocks {
        let parsed = Block::parse(&block.bytes[..]).unwrap();
        assert_eq!(parsed.header().version & 7, 7, "height {}", block.height);
        let early = block.height < ACTIVE_HEIGHT;
        assert!(!early || parsed.txs().count() == 1, "height {}", block.height);
        assert!(!early || parsed.txs().all(|tx| !tx.has_witness()), "height {}", block.height);
    }
    let last = Block::parse(&blocks[449].bytes[..]).unwrap();
    assert!(last.txs().any(|tx| tx.has_witness()));
}

#[test]
fn each_era_spends_coins_of_its_own_ages() {
    let options = |mix| ForgeOptions { blocks: 160, inputs: 3_000, mix, ..ForgeOptions::default() };
    let (even, _) = chain(&options(Mix::History), 2);
    let (own, report) = chain(&options(Mix::Mainnet), 2);
    assert_ne!(even.last().unwrap().hash, own.last().unwrap().hash);
    assert_eq!((own.len(), report.inputs >= 3_000), (160, true));
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
    check(ForgeOptions { blocks: ACTIVE_HEIGHT + 1, signals: true, ..good() }, "active from height 432 on");
    check(ForgeOptions { odd_permille: 1001, ..good() }, "odd_permille");
    check(ForgeOptions { shuffle_blocks: 0, ..good() }, "shuffle_blocks");
    check(ForgeOptions { file_bytes_max: 4_000_007, ..good() }, "file_bytes_max");
    let special = |kind, entries, unspent| vec![SpecialScript::new(kind, entries, unspent)];
    check(ForgeOptions { special: special(Kind::P2wpkh, 1, 2), ..good() }, "entries");
    check(ForgeOptions { special: special(Kind::P2wpkh, 1, 0), ..good() }, "entries");
    check(ForgeOptions { special: special(Kind::P2wshBlocksLock, 1, 1), ..good() }, "spendable at once");
    check(ForgeOptions { special: special(Kind::Anchor, 1, 1), ..good() }, "one script");
    check(ForgeOptions { special: special(Kind::P2wpkh, 2_000_000, 1), ..good() }, "room");
    check(ForgeOptions { special: special(Kind::P2wpkh, 1, 1).repeat(SPECIAL_MAX + 1), ..good() }, "at most 20000");
    let script = |heights| vec![SpecialScript { heights: Some(heights), ..SpecialScript::new(Kind::P2wpkh, 1, 1) }];
    check(ForgeOptions { special: script((200, 199)), ..good() }, "no heights from 200 to 199");
    check(ForgeOptions { special: script((301, 400)), ..good() }, "no heights from 301 to 400 in 300 blocks");
}

/// Entries, unspent outputs, first and last height of each script, counted in the blocks themselves.
fn counted(blocks: &[ForgedBlock]) -> std::collections::HashMap<Vec<u8>, (u32, u32, u32, u32)> {
    let mut coins = std::collections::HashMap::new();
    let mut found = std::collections::HashMap::new();
    for block in blocks {
        for tx in Block::parse(&block.bytes[..]).unwrap().txs() {
            let mut touched = std::collections::BTreeSet::new();
            for input in tx.inputs() {
                if let Some(script) = coins.remove(&input.outpoint()) {
                    let entry: &mut (u32, u32, u32, u32) = found.get_mut(&script).unwrap();
                    entry.1 -= 1;
                    touched.insert(script);
                }
            }
            for (vout, output) in tx.outputs().enumerate() {
                coins.insert(primitives::OutPoint { txid: tx.txid(), vout: vout as u32 }, output.script.to_vec());
                found.entry(output.script.to_vec()).or_insert((0, 0, block.height, 0)).1 += 1;
                touched.insert(output.script.to_vec());
            }
            for script in touched {
                let entry = found.get_mut(&script).unwrap();
                (entry.0, entry.3) = (entry.0 + 1, block.height);
            }
        }
    }
    found
}

#[test]
fn wallets_and_histories_are_what_the_report_says() {
    let blocks = 300;
    let mut special = wallet::histories(1, 20, 1_000);
    special.extend(wallet::wallet(1, 1, 300, (101, blocks)));
    let options = ForgeOptions { blocks, inputs: 4_000, special: special.clone(), ..ForgeOptions::default() };
    let (forged, report) = chain(&options, 2);
    let found = counted(&forged);
    let mut shared = 0;
    for (wanted, got) in special.iter().zip(&report.special) {
        let counted = found[&got.script];
        assert_eq!((got.entries, got.unspent), (wanted.entries, wanted.unspent), "{got:?}");
        assert_eq!(counted, (got.entries, got.unspent, got.first_height, got.last_height), "{got:?}");
        let (from, to) = wanted.heights.unwrap_or((0, blocks));
        assert!(got.first_height >= from && got.last_height <= to + 1, "{wanted:?} {got:?}");
        shared += u32::from(got.last_height > to);
    }
    assert!(shared <= 15, "entries that came late, where transactions were too poor: {shared}");
    let wallet: std::collections::HashSet<&[u8]> =
        report.special.iter().filter(|history| history.wallet == 1).map(|history| &history.script[..]).collect();
    let several = |tx: &primitives::Tx<'_>| tx.outputs().filter(|output| wallet.contains(output.script)).count() > 1;
    let together: usize =
        forged.iter().map(|block| Block::parse(&block.bytes[..]).unwrap().txs().filter(several).count()).sum();
    assert!(together > 50, "transactions that pay several addresses of the wallet: {together}");
    // Stands for every forged wallet, on every machine.
    assert_eq!(report.tip.to_string(), "07e3adae7eea35091ff10ca5b2089c0333b22e9848e5aacbde5c7efba8219378");
}
