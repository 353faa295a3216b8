//! A node without another node's folder, and one with blocks in both.
//!
//! In:     block files in the data directory, and beside it.
//! Out:    wallets are answered as from one folder; another node's files are never written.
//! Fails:  where a block is not found, or a file changes.

use std::fs;

use crate::node::Node;
use crate::raw::{Raw, compare};
use crate::world::{BlockFolder, Folder, World};

#[test]
fn a_node_lives_on_its_own_files_and_beside_those_of_another() {
    let folder = Folder::new("own");
    let mut world = World::new(51, 108, 400);
    let data = folder.join("data");
    // The first start makes the folder, with a key, and stands at the genesis block.
    let mut node = Node::start(&data, "own".as_ref());
    node.wait_height(0);
    assert_eq!(node.stop().code, Some(0));
    let own_path = data.join("regtest/blocks");
    let key: [u8; 8] = fs::read(own_path.join("xor.dat")).unwrap().try_into().unwrap();
    assert_ne!(key, [0; 8]);
    // Blocks that were put there are found at the next start, the last one as far as it was written.
    let own = BlockFolder::new(own_path, key);
    for block in world.blocks().skip(1) {
        own.append(0, &block);
    }
    let whole = fs::metadata(own.file(0)).unwrap().len();
    own.append_raw(0, &[0xab; 300]);
    let mut node = Node::start(&data, "own".as_ref());
    node.wait_height(108);
    compare(&mut Raw::connect(node.electrum()), &world.book);
    assert_eq!(node.stop().code, Some(0));
    assert_eq!(fs::metadata(own.file(0)).unwrap().len(), whole, "what is no block is cut");
    // Another node has the rest, in a file of the same name and under another key.
    let foreign = BlockFolder::new(folder.join("foreign"), [9, 8, 7, 6, 5, 4, 3, 2]);
    foreign.append(0, &world.grow());
    let mut node = Node::start(&data, &foreign.path);
    node.wait_height(109);
    foreign.append(0, &world.grow());
    node.wait_height(110);
    compare(&mut Raw::connect(node.electrum()), &world.book);
    assert_eq!(node.stop().code, Some(0));
    let mut node = Node::start(&data, &foreign.path);
    let mut raw = Raw::connect(node.electrum());
    raw.wait_ready();
    compare(&mut raw, &world.book);
    assert_eq!(node.stop().code, Some(0));
    // A folder that holds another node's undo data is not ours to write.
    fs::write(own.path.join("rev00000.dat"), "undo").unwrap();
    let exit = Node::start(&data, "own".as_ref()).end();
    assert_eq!(exit.code, Some(1));
    assert!(exit.log.contains("blocks_from"), "{}", exit.log);
}
