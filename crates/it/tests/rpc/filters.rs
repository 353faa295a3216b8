//! Block filters through JSON-RPC and REST, against blocks read one by one; and a node without them.
//!
//! In:     calls.
//! Out:    the blocks that have a script, and no answer that is not true.

use std::collections::BTreeSet;

use serde_json::json;
use serve::rest;
use stdx::hex;

use crate::world::{BLOCKS, World};

/// Heights of the blocks that pay to a script or spend from it, by reading all of them.
fn blocks_with(world: &World, script: &[u8]) -> BTreeSet<u32> {
    let mut made = BTreeSet::new();
    let mut heights = BTreeSet::new();
    for (height, block) in world.blocks.iter().enumerate() {
        for tx in block.txs() {
            if tx.inputs().any(|input| made.contains(&input.outpoint())) {
                heights.insert(height as u32);
            }
            for (vout, _) in tx.outputs().enumerate().filter(|(_, output)| output.script == script) {
                made.insert(primitives::OutPoint { txid: tx.txid(), vout: vout as u32 });
                heights.insert(height as u32);
            }
        }
    }
    heights
}

#[test]
fn scans_find_every_block_of_a_script() {
    let world = World::new("scanblocks");
    let mut blocks = 0;
    for height in (1..BLOCKS).step_by(7) {
        let block = &world.blocks[height as usize];
        let tx = block.tx(block.tx_count() - 1);
        let script = tx.output(0).script.to_vec();
        if script.is_empty() || script[0] == 0x6a {
            continue;
        }
        let want = blocks_with(&world, &script);
        blocks += want.len();
        let hashes: Vec<String> =
            want.iter().map(|height| world.blocks[*height as usize].header().hash().to_string()).collect();
        let object = format!("\"raw({})\"", hex::encode(&script));
        for exact in ["{}", "{\"filter_false_positives\":true}"] {
            let found = world.call("scanblocks", &format!("[\"start\",[{object}],0,null,\"basic\",{exact}]")).unwrap();
            // 131 blocks with a dozen scripts each: a false find comes once in 60,000 runs.
            assert_eq!(found["relevant_blocks"], json!(hashes), "{}", hex::encode(&script));
            assert_eq!((&found["to_height"], &found["completed"]), (&json!(BLOCKS), &json!(true)));
        }
        let last = *want.last().unwrap();
        let found = world.call("scanblocks", &format!("[\"start\",[{object}],{last},{last}]")).unwrap();
        assert_eq!(found["relevant_blocks"], json!([hashes.last().unwrap()]));
        if last == BLOCKS {
            continue;
        }
        let after = world.call("scanblocks", &format!("[\"start\",[{object}],{}]", last + 1)).unwrap();
        assert_eq!((&after["relevant_blocks"], &after["from_height"]), (&json!([]), &json!(last + 1)));
    }
    assert!(blocks > 40, "{blocks} blocks");
    assert_eq!(world.call("scanblocks", "[\"status\"]").unwrap(), json!(null), "no scan is left");
}

#[test]
fn filters_of_a_branch_that_was_left_are_told() {
    let world = World::new("left-filters");
    let made = world.call("generatetoaddress", "[2,\"bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080\"]").unwrap();
    let before = world.call("getblockfilter", &format!("[{}]", made[1])).unwrap();
    world.call("invalidateblock", &format!("[{}]", made[0])).unwrap();
    assert_eq!(world.call("getblockfilter", &format!("[{}]", made[1])).unwrap(), before);
    let info = world.call("getindexinfo", "[\"basic block filter index\"]").unwrap();
    assert_eq!(info["basic block filter index"], json!({"synced": true, "best_block_height": BLOCKS}));
    // One that never joined the chain has none.
    let header_only = world.call("generateblock", "[\"raw(51)\",[],false]").unwrap();
    let (code, message) = world.call("getblockfilter", &format!("[{}]", header_only["hash"])).unwrap_err();
    assert_eq!((code, &*message), (-5, "Block not found"));
}

#[test]
fn a_node_without_filters_says_so() {
    let world = World::with_filters("no-filters", false);
    let hash = world.blocks[5].header().hash();
    let told = "Index is not enabled for filtertype basic";
    assert_eq!(world.call("getblockfilter", &format!("[\"{hash}\"]")).unwrap_err(), (-1, told.to_owned()));
    assert_eq!(world.call("scanblocks", "[\"start\",[\"raw(51)\"]]").unwrap_err(), (-1, told.to_owned()));
    let info = world.call("getindexinfo", "[]").unwrap();
    assert!(info.get("basic block filter index").is_none() && info.get("txindex").is_some());
    for path in [format!("blockfilter/basic/{hash}.json"), format!("blockfilterheaders/basic/{hash}.json")] {
        let answer = rest::answer(&world.env, &format!("/rest/{path}"), b"");
        assert_eq!((answer.status, &answer.body[..]), (400, format!("{told}\r\n").as_bytes()));
    }
}
