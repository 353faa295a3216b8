//! The chain grows and forks under connected wallets.
//!
//! In:     blocks appended to the files of a running node.
//! Out:    wallets are told of the tip and of the scripts that changed, and of no others.
//! Fails:  where a notice is missing or wrong, or an answer is not the new chain's.

use std::collections::HashMap;

use primitives::ScriptHash;
use serde_json::{Value, json};

use crate::node::Node;
use crate::raw::{Raw, compare, scripts, status_text, waiting};
use crate::world::{BlockFolder, Folder, World};

/// Subscribes to scripts and remembers what was told of them.
struct Watcher {
    raw: Raw,
    statuses: HashMap<String, Value>,
}

impl Watcher {
    fn new(node: &mut Node, scripts: &[ScriptHash]) -> Watcher {
        let mut raw = Raw::connect(node.electrum());
        raw.wait_ready();
        raw.call("blockchain.headers.subscribe", json!([]));
        let mut statuses = HashMap::new();
        for some in scripts.chunks(100) {
            let params: Vec<Value> = some.iter().map(|script| json!([script.to_string()])).collect();
            let answers = raw.batch("blockchain.scripthash.subscribe", &params);
            statuses.extend(some.iter().map(ScriptHash::to_string).zip(answers));
        }
        Watcher { raw, statuses }
    }

    /// Reads notices until all that is another status than before has been told; how many scripts that were.
    #[track_caller]
    fn expect(&mut self, node: &mut Node, after: &sim::book::Book, watched: &[ScriptHash]) -> usize {
        let before = self.statuses.clone();
        loop {
            let told = self.raw.next_told();
            if told["method"] == "blockchain.headers.subscribe" {
                if told["params"][0]["height"] == after.height() {
                    let header = stdx::hex::encode(&after.header(after.height()).encode());
                    assert_eq!(told["params"][0]["hex"], header);
                    break;
                }
                continue; // a tip in between, when blocks came one by one
            }
            self.note(&told);
        }
        // With the tip everybody sees which transactions of blocks that left have come back.
        let waiting = waiting(&mut Raw::connect(node.electrum()), watched);
        let want: HashMap<String, Value> = (watched.iter().zip(&waiting))
            .map(|(script, waiting)| (script.to_string(), status_text(after, script, waiting)))
            .collect();
        while self.statuses != want {
            let told = self.raw.next_told();
            self.note(&told);
        }
        // Nothing more is on its way, and what did not change was not told.
        self.raw.call("server.ping", json!([]));
        for told in std::mem::take(&mut self.raw.told) {
            self.note(&told);
        }
        assert_eq!(self.statuses, want);
        want.iter().filter(|(script, status)| before[*script] != **status).count()
    }

    #[track_caller]
    fn note(&mut self, told: &Value) {
        assert_eq!(told["method"], "blockchain.scripthash.subscribe", "{told}");
        let script = told["params"][0].as_str().unwrap();
        let known = self.statuses.insert(script.to_owned(), told["params"][1].clone());
        assert!(known.is_some_and(|known| known != told["params"][1]), "told without a change: {told}");
    }
}

#[test]
fn blocks_that_come_and_forks_that_win_are_told() {
    let folder = Folder::new("growth");
    let mut world = World::new(21, 115, 1_500);
    let files = BlockFolder::new(folder.join("blocks"), [0; 8]);
    for block in world.blocks() {
        files.append(0, &block);
    }
    // What comes back out of blocks that left is in the mempool; a file of it would fill it anew while answers are compared.
    let forgets = ["--mempool-save", "off"];
    let mut node = Node::start_with(&folder.join("data"), &files.path, &forgets);
    // Scripts of the chain as it is, and some that only its future knows.
    let mut future = world.clone();
    (0..3).for_each(|_| drop(future.grow()));
    let mut other = world.fork(99);
    (0..5).for_each(|_| drop(other.grow()));
    let mut watched = scripts(&future.book);
    watched.extend(scripts(&other.book));
    watched.sort_unstable();
    watched.dedup();
    let mut watcher = Watcher::new(&mut node, &watched);
    let mut idle = Watcher::new(&mut node, &[]);

    let fork_point = world.clone();
    for _ in 0..3 {
        files.append(0, &world.grow());
        assert!(watcher.expect(&mut node, &world.book, &watched) > 0);
    }
    assert_eq!(idle.expect(&mut node, &world.book, &[]), 0);

    // A branch from three blocks back with five blocks wins.
    for height in fork_point.book.height() + 1..=other.book.height() {
        files.append(1, other.book.block(height).bytes());
    }
    assert!(watcher.expect(&mut node, &other.book, &watched) > 1);
    compare(&mut Raw::connect(node.electrum()), &other.book);

    // The first branch grows longer and wins back.
    (0..3).for_each(|_| files.append(2, &world.grow()));
    assert!(watcher.expect(&mut node, &world.book, &watched) > 1);
    let mut raw = Raw::connect(node.electrum());
    compare(&mut raw, &world.book);
    let status = node.wait_height(world.book.height());
    assert_eq!(status["since_start"]["disconnected_blocks"], 3 + 5);

    // And all of that is still so after a restart.
    assert_eq!(node.stop().code, Some(0));
    let mut node = Node::start_with(&folder.join("data"), &files.path, &forgets);
    let mut raw = Raw::connect(node.electrum());
    raw.wait_ready();
    compare(&mut raw, &world.book);
    assert_eq!(node.stop().code, Some(0));
}
