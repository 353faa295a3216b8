//! Files that are not as they should be, and two programs that want the same ones.
//!
//! In:     block files cut short, with bits turned over, or of others; data directories of others.
//! Out:    what is sound is served; what is not is refused with one line; nothing answers wrongly.
//! Fails:  where damage is served, or the program ends otherwise than with a line and its exit code.

use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use primitives::{Network, Params};
use serde_json::json;

use crate::node::{Node, PATIENCE, assay, program, settings};
use crate::raw::{Raw, compare};
use crate::world::{BlockFolder, Folder, World, flip_bit, record};

/// Runs the program to its end, which must come by itself.
#[track_caller]
fn run(command: &mut Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("it runs on: {:?}", child.wait_with_output().unwrap());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

/// The last line on standard error, which is for the user.
fn last_line(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned()
}

#[test]
fn block_files_cut_short_or_of_others_are_read_as_far_as_they_are_sound() {
    let folder = Folder::new("torn");
    let mut world = World::new(41, 110, 500);
    let files = BlockFolder::new(folder.join("blocks"), [1, 2, 3, 4, 5, 6, 7, 8]);
    for block in world.blocks() {
        files.append(0, &block);
    }
    // A file of another network, one of noise, one that is empty, and blocks whose parents nobody has.
    let mainnet = record(Network::Main, &Params::of(Network::Main).genesis_block());
    files.append_raw(1, &mainnet.repeat(3));
    files.append_raw(2, &[0xab; 5000]);
    files.append_raw(3, b"");
    let stranger = World::new(999, 103, 100);
    for height in 50..60 {
        files.append(4, stranger.book.block(height).bytes());
    }
    // The newest block is cut off in the middle, as while Bitcoin Core writes it.
    let before = world.clone();
    let newest = record(Network::Regtest, &world.grow());
    let (first, rest) = newest.split_at(newest.len() / 2);
    files.append_raw(0, first);

    let mut node = Node::start(&folder.join("data"), &files.path);
    let mut raw = Raw::connect(node.electrum());
    raw.wait_ready();
    compare(&mut raw, &before.book);
    let status = node.wait_height(before.book.height());
    assert!(status["headers_waiting"].as_u64().unwrap() >= 10, "the strangers wait for parents: {status}");
    files.append_raw(0, rest);
    node.wait_height(world.book.height());
    compare(&mut raw, &world.book);
    assert_eq!(node.stop().code, Some(0));
}

#[test]
fn a_bit_that_turned_over_before_the_import_stops_the_chain_before_that_block() {
    let folder = Folder::new("flip");
    let world = World::new(42, 112, 800);
    let files = BlockFolder::new(folder.join("blocks"), [0; 8]);
    let bad_height = 108;
    let mut offset = 0;
    for (height, block) in world.blocks().enumerate() {
        if height < bad_height {
            offset += block.len() as u64 + 8;
        }
        files.append(0, &block);
    }
    let length = world.book.block(bad_height as u32).bytes().len() as u64;
    // In the last transaction's last input or output: the merkle root no longer fits.
    flip_bit(&files.file(0), offset + 8 + length - 12);

    let mut sound = sim::book::Book::new(world.book.block(0).clone());
    (1..bad_height as u32).for_each(|height| sound.connect(world.book.block(height).clone()));
    let mut node = Node::start(&folder.join("data"), &files.path);
    let status = node.wait_height(sound.height());
    assert!(!status["refused"].is_null(), "{status}");
    let mut raw = Raw::connect(node.electrum());
    raw.wait_ready();
    compare(&mut raw, &sound);

    // A whole copy of the block appears in another file: the chain goes on.
    for height in bad_height as u32..=world.book.height() {
        files.append(1, world.book.block(height).bytes());
    }
    node.wait_height(world.book.height());
    compare(&mut Raw::connect(node.electrum()), &world.book);
    assert_eq!(node.stop().code, Some(0));
}

#[test]
fn a_bit_that_turned_over_after_the_import_is_never_served() {
    let folder = Folder::new("rot");
    let world = World::new(43, 110, 500);
    let files = BlockFolder::new(folder.join("blocks"), [0; 8]);
    let mut offset = 0;
    for (height, block) in world.blocks().enumerate() {
        if height < 105 {
            offset += block.len() as u64 + 8;
        }
        files.append(0, &block);
    }
    let mut node = Node::start(&folder.join("data"), &files.path);
    let mut raw = Raw::connect(node.electrum());
    raw.wait_ready();
    let block = world.book.block(105);
    let tx = block.tx(block.tx_count() - 1);
    let txid = tx.txid().to_string();
    assert_eq!(raw.call("blockchain.transaction.get", json!([txid])), stdx::hex::encode(tx.raw()));
    // A bit of the amount of its last output: everything still parses.
    let lock_time_and_script = 4 + 1 + tx.outputs().last().unwrap().script.len();
    let witness: usize = if tx.has_witness() { tx.raw().len() - tx.stripped_length() - 2 } else { 0 };
    let end = offset + 8 + block.bytes().len() as u64;
    flip_bit(&files.file(0), end - (lock_time_and_script + witness + 8) as u64);
    let answer = raw.ask("blockchain.transaction.get", json!([txid]));
    let code = answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("damage is served: {answer}"));
    assert!(code == 2 || code == -32603, "{answer}");
    // The rest of the chain is as it was.
    let other = world.book.block(104).tx(0).txid().to_string();
    assert!(raw.call("blockchain.transaction.get", json!([other])).is_string());
    assert_eq!(node.stop().code, Some(0));
}

#[test]
fn data_directories_that_are_taken_newer_or_read_only_are_refused() {
    let folder = Folder::new("datadir");
    let world = World::new(44, 103, 100);
    let files = BlockFolder::new(folder.join("blocks"), [0; 8]);
    for block in world.blocks() {
        files.append(0, &block);
    }
    let data = folder.join("data");
    let (data_text, blocks_text) = (data.to_str().unwrap(), files.path.to_str().unwrap());
    let mut node = Node::start(&data, &files.path);
    node.wait_height(103);
    let second = run(&mut assay(&settings(data_text, blocks_text)));
    assert_eq!(second.status.code(), Some(1));
    assert!(last_line(&second).contains("another assay"), "{}", last_line(&second));
    compare(&mut Raw::connect(node.electrum()), &world.book);
    assert_eq!(node.stop().code, Some(0));

    // A format that does not exist yet, in the record that names all others.
    for name in ["commit.0", "commit.1"] {
        let path = data.join("regtest/store").join(name);
        let mut bytes = fs::read(&path).unwrap();
        fs::write(data.join(format!("{name}.kept")), &bytes).unwrap();
        bytes[8..12].copy_from_slice(&99u32.to_le_bytes());
        fs::write(&path, bytes).unwrap();
    }
    let newer = run(&mut assay(&settings(data_text, blocks_text)));
    assert_eq!(newer.status.code(), Some(1));
    assert!(last_line(&newer).contains("format 99"), "{}", last_line(&newer));
    for name in ["commit.0", "commit.1"] {
        let path = data.join("regtest/store").join(name);
        fs::rename(data.join(format!("{name}.kept")), &path).unwrap();
    }
    // Nothing was touched: the same directory serves again.
    let mut node = Node::start(&data, &files.path);
    let mut raw = Raw::connect(node.electrum());
    raw.wait_ready();
    compare(&mut raw, &world.book);
    assert_eq!(node.stop().code, Some(0));

    let unknown = run(&mut assay(&["run", "--datadir", data_text, "--electrum-lisen", "127.0.0.1:0"]));
    assert_eq!(unknown.status.code(), Some(2));
    assert!(last_line(&unknown).contains("\"electrum_listen\""), "the nearest name: {}", last_line(&unknown));

    // A user who may do everything is only stopped by a read-only file system, so one is made where that is allowed.
    let script = format!(
        "mount -t tmpfs none {data_text} && mount -o remount,ro {data_text} && exec {} {}",
        program().display(),
        settings(data_text, blocks_text).join(" ")
    );
    let allowed = Command::new("unshare").args(["-m", "mount", "-t", "tmpfs", "none", data_text]).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        println!("skipped: a read-only data directory needs the right to mount");
        return;
    }
    let read_only = run(Command::new("unshare").args(["-m", "sh", "-c", &script]));
    assert_eq!(read_only.status.code(), Some(1), "{}", last_line(&read_only));
    assert!(last_line(&read_only).contains("Read-only file system"), "{}", last_line(&read_only));
}
