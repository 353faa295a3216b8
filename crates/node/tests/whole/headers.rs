//! Headers whose blocks never come: what a node does without them.
//!
//! In:     the built program, twice; headers of one handed to the other by hand, and no blocks.
//! Out:    one test: reindexing ends and keeps them, and the mempool does not wait for them.
//! Fails:  with the first answer that differs, or what does not come within a minute.

use std::process::Command;

use serde_json::json;

use super::peers::{Node, wait};

/// Headers beyond the blocks: more than a node may be behind and still count as at the tip.
const AHEAD: u64 = 20;

#[test]
fn headers_without_blocks_outlast_reindexing_and_hold_up_neither_it_nor_the_mempool() {
    let folder = std::env::temp_dir().join(format!("assay-headers-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let folders = [folder.join("a"), folder.join("b")];
    folders.iter().for_each(|folder| std::fs::create_dir_all(folder).unwrap());
    let [a, b] = folders.each_ref().map(|folder| Node::start(folder, &[]));
    a.result("generatetodescriptor", json!([5, "raw(51)"]));
    b.result("addnode", json!([a.peers.to_string(), "onetry"]));
    wait("five blocks", || b.result("getblockcount", json!([])) == 5);
    // Alone again, b goes on.
    b.result("disconnectnode", json!([a.peers.to_string()]));
    wait("they part", || a.result("getconnectioncount", json!([])) == 0);
    for hash in b.result("generatetodescriptor", json!([AHEAD, "raw(51)"])).as_array().unwrap() {
        a.result("submitheader", json!([b.result("getblockheader", json!([hash, false]))]));
    }
    b.stop();
    let node = Node::start(&a.stop(), &[]);
    let check = |node: &Node| {
        wait("the mempool", || node.result("getmempoolinfo", json!([]))["loaded"] == true);
        let info = node.result("getblockchaininfo", json!([]));
        assert_eq!((&info["blocks"], &info["headers"]), (&json!(5), &json!(5 + AHEAD)));
    };
    check(&node);
    let datadir = node.stop();
    let reindexed = Command::new(env!("CARGO_BIN_EXE_assay"))
        .args(["reindex", "--chain", "regtest", "--memory-mib", "256", "--disk-free-min-mib", "16", "--datadir"])
        .arg(&datadir)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&reindexed.stderr).into_owned();
    assert!(reindexed.status.success() && text.contains("event=reindexed height=5"), "{text}");
    let node = Node::start(&datadir, &[]);
    check(&node);
    node.stop();
    std::fs::remove_dir_all(&folder).unwrap();
}
