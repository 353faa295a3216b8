//! How fast blocks come in: run by hand, `cargo test --release -p assay-sim --test intake_speed -- --ignored --nocapture`.
//!
//! In:     forged chains, on the system's disk.
//! Out:    times and ratios, printed.
//! Fails:  only where a block is not taken.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use chain::{Chain, Event, Handle, Options, Phase, Verdict, WorkProof, World};
use primitives::{Block, Header, Network, Params};
use sim::forge::{Forge, ForgeOptions, Mix};
use stdx::clock::SystemClock;
use stdx::disk::{Disk, Open, SystemDisk};
use stdx::pool::Pool;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("assay-intake-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left in the temporary folder harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn forge(blocks: u32, inputs: u64) -> Vec<Vec<u8>> {
    let pool = Pool::new("forge", 2);
    let options = ForgeOptions { seed: 5, mix: Mix::Recent, blocks, inputs, ..ForgeOptions::default() };
    let mut forge = Forge::new(&options, &pool).unwrap();
    std::iter::from_fn(|| forge.next_block(&pool)).map(|block| block.bytes).collect()
}

/// Processor time that this process has used: on a busy machine it says more than the clock.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    let ticks: u64 = after_name.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

/// Clock and processor time of `work`.
fn timed(work: impl FnOnce()) -> (Duration, Duration) {
    let (started, used) = (Instant::now(), processor_time());
    work();
    (started.elapsed(), processor_time() - used)
}

/// A node on a thread of its own.
struct Node {
    handle: Handle,
    thread: std::thread::JoinHandle<()>,
}

impl Node {
    fn start(folder: &Path, blocks_from: Option<PathBuf>) -> Node {
        let world = World {
            disk: Arc::new(SystemDisk::default()),
            clock: Arc::new(SystemClock::default()),
            pool: Arc::new(Pool::new("check", 2)),
            engine: sigs::engine(sigs::EngineName::Auto).unwrap(),
        };
        let mut options = Options::new(Params::of(Network::Regtest), folder.join("store"), blocks_from, [9; 32]);
        options.own_blocks = Some(folder.join("blocks"));
        let chain = Chain::open(world, options).unwrap();
        let handle = chain.handle();
        Node { handle, thread: std::thread::spawn(move || chain.run().unwrap()) }
    }

    fn stop(self) {
        self.handle.stop();
        self.thread.join().unwrap();
    }
}

#[test]
#[ignore = "measures"]
fn a_block_at_the_tip() {
    let folder = Folder::new("tip");
    let blocks = forge(130, 110_000);
    let node = Node::start(&folder.0, None);
    let events = node.handle.subscribe();
    let (mut large, mut used) = (0, Duration::ZERO);
    for block in &blocks {
        let parsed = Block::parse(&block[..]).unwrap();
        let (txs, inputs) = (parsed.tx_count(), parsed.input_count());
        let (sender, stored) = channel();
        let before = processor_time();
        let started = Instant::now();
        node.handle
            .submit_block(block.clone(), WorkProof::Proven, move |_| sender.send(started.elapsed()).unwrap())
            .ok()
            .unwrap();
        let hash = parsed.header().hash();
        let stored = stored.recv().unwrap();
        let mut judged = Duration::ZERO;
        loop {
            match events.recv_timeout(Duration::from_secs(20)).unwrap() {
                Event::BlockJudged { hash: one, verdict: Ok(()), .. } if one == hash => judged = started.elapsed(),
                Event::NewTip { header, .. } if Header::decode(&header).hash() == hash => break,
                _ => {}
            }
        }
        let published = started.elapsed();
        if txs > 1_000 {
            (large, used) = (large + 1, used + (processor_time() - before));
            println!(
                "{txs} txs, {inputs} inputs, {} KB: stored {stored:?}, judged {judged:?}, published {published:?}",
                block.len() / 1000
            );
        }
    }
    println!("{large} large blocks, processor time {:?} each", used / large);
    // What one sync of a file costs here.
    let file = SystemDisk::default().open(&folder.0.join("probe"), Open::Create).unwrap();
    let mut syncs: Vec<Duration> = (0..20u64)
        .map(|n| {
            file.write_all_at(&[n as u8; 100_000], n * 100_000).unwrap();
            let started = Instant::now();
            file.sync().unwrap();
            started.elapsed()
        })
        .collect();
    syncs.sort_unstable();
    println!("a sync of 100 KB: median {:?}", syncs[10]);
    node.stop();
}

/// All blocks handed in as fast as they are taken, headers first.
fn hand_in(folder: &Path, blocks: &[Vec<u8>]) {
    let node = Node::start(folder, None);
    let headers: Vec<Header> = blocks.iter().map(|block| *Block::parse(&block[..]).unwrap().header()).collect();
    for run in headers.chunks(2_000) {
        assert_eq!(node.handle.submit_headers(run, WorkProof::Proven).stop, None);
    }
    for block in blocks {
        let mut bytes = block.clone();
        while let Err(full) = node.handle.submit_block(bytes, WorkProof::Proven, |_| ()) {
            bytes = full.0;
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    wait(&node, blocks);
    node.stop();
}

fn write_files(folder: &Path, blocks: &[Vec<u8>]) -> PathBuf {
    let foreign = folder.join("foreign");
    std::fs::create_dir_all(&foreign).unwrap();
    let mut file = Vec::new();
    for block in blocks {
        file.extend_from_slice(&Params::of(Network::Regtest).magic);
        file.extend_from_slice(&(block.len() as u32).to_le_bytes());
        file.extend_from_slice(block);
    }
    std::fs::write(foreign.join("blk00000.dat"), file).unwrap();
    foreign
}

fn from_files(folder: &Path, foreign: PathBuf, blocks: &[Vec<u8>]) {
    let node = Node::start(folder, Some(foreign));
    wait(&node, blocks);
    node.stop();
}

fn wait(node: &Node, blocks: &[Vec<u8>]) {
    let last = Block::parse(&blocks.last().unwrap()[..]).unwrap().header().hash();
    while node.handle.view().tip().hash != last || node.handle.status().phase != Phase::Following {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(node.handle.flush().wait(), Verdict::Done);
}

#[test]
#[ignore = "measures"]
fn a_chain_handed_in_against_the_same_from_files() {
    let blocks = forge(400, 150_000);
    let bytes: usize = blocks.iter().map(Vec::len).sum();
    let (mut offered, mut imported) = ([Duration::MAX; 2], [Duration::MAX; 2]);
    for round in 0..4 {
        let (one, other) = (Folder::new(&format!("offered-{round}")), Folder::new(&format!("imported-{round}")));
        let foreign = write_files(&other.0, &blocks);
        let a = timed(|| hand_in(&one.0, &blocks));
        let b = timed(|| from_files(&other.0, foreign, &blocks));
        println!("{} MB, clock and processor: handed in {a:?}, from files {b:?}", bytes / 1_000_000);
        offered = [offered[0].min(a.0), offered[1].min(a.1)];
        imported = [imported[0].min(b.0), imported[1].min(b.1)];
    }
    let ratio = |index: usize| imported[index].as_secs_f64() / offered[index].as_secs_f64();
    println!("speed of handing in against importing: {:.2} by the clock, {:.2} by the processor", ratio(0), ratio(1));
}
