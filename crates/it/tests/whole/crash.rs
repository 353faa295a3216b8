//! Kills and stops at moments nobody chose.
//!
//! In:     a node that imports or follows, signals at random times.
//! Out:    the next start goes on from the last commit and ends with the same answers.
//! Fails:  where a start takes too long, work is lost that was committed, or an answer is wrong.

use std::time::{Duration, Instant};

use stdx::random::Random;

use crate::node::Node;
use crate::raw::{Raw, compare};
use crate::world::{BlockFolder, Folder, World};

/// The promise: from the start after a kill to serving, when nothing is left to import.
const START_MAX: Duration = Duration::from_secs(2);

#[test]
fn killed_at_random_moments_it_goes_on_and_answers_right() {
    let folder = Folder::new("kill");
    let mut world = World::new(31, 160, 8_000);
    let files = BlockFolder::new(folder.join("blocks"), [9, 8, 7, 6, 5, 4, 3, 2]);
    for block in world.blocks() {
        files.append(0, &block);
    }
    let data = folder.join("data");
    let mut random = Random::new(5);
    let mut committed = 0;
    for _ in 0..6 {
        let mut node = Node::start(&data, &files.path);
        node.electrum();
        std::thread::sleep(Duration::from_millis(random.below(500)));
        let height = node.status().map_or(0, |status| status["committed_height"].as_u64().unwrap());
        assert!(height >= committed || height == 0, "height {height} after {committed} was committed:\n{}", node.log());
        committed = height.max(committed);
        node.signal("KILL");
        assert_eq!(node.end().code, None);
    }
    let mut node = Node::start(&data, &files.path);
    Raw::connect(node.electrum()).wait_ready();

    // Killed while blocks arrive, then timed: everything is imported, so only the start itself is left.
    for _ in 0..3 {
        for _ in 0..3 {
            files.append(0, &world.grow());
            std::thread::sleep(Duration::from_millis(random.below(300)));
        }
        node.signal("KILL");
        node.end();
        node = Node::start(&data, &files.path);
        let mut raw = Raw::connect(node.electrum());
        raw.wait_ready();
        node.wait_height(world.book.height());
    }
    let mut quickest = Duration::MAX;
    for _ in 0..3 {
        node.signal("KILL");
        node.end();
        node = Node::start(&data, &files.path);
        let mut raw = Raw::connect(node.electrum());
        raw.wait_ready();
        quickest = quickest.min(node.started().elapsed());
    }
    compare(&mut Raw::connect(node.electrum()), &world.book);
    println!("start after kill -9 to answers about addresses: {quickest:?}");
    assert!(quickest < START_MAX, "{quickest:?}");
}

#[test]
fn asked_to_stop_in_the_middle_of_an_import_it_loses_nothing() {
    let folder = Folder::new("stop");
    let world = World::new(32, 150, 8_000);
    let files = BlockFolder::new(folder.join("blocks"), [0; 8]);
    for block in world.blocks() {
        files.append(0, &block);
    }
    let data = folder.join("data");
    let mut random = Random::new(6);
    for signal in ["TERM", "INT", "TERM", "INT"] {
        let mut node = Node::start(&data, &files.path);
        node.electrum();
        std::thread::sleep(Duration::from_millis(random.below(400)));
        let asked = Instant::now();
        node.signal(signal);
        let exit = node.end();
        assert_eq!(exit.code, Some(0), "{}", exit.log);
        assert!(asked.elapsed() < Duration::from_secs(5), "{:?}\n{}", asked.elapsed(), exit.log);
    }
    let mut node = Node::start(&data, &files.path);
    let mut raw = Raw::connect(node.electrum());
    raw.wait_ready();
    compare(&mut raw, &world.book);
    assert_eq!(node.stop().code, Some(0));
}
