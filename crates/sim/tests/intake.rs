//! The door for headers and blocks from outside, before the node's writer.
//!
//! In:     forged chains and `sim::mutate`'s blocks, handed in instead of read from another node's files.
//! Out:    libbitcoinkernel's verdicts; Core's words; orders of the operator followed and remembered; events.
//! Fails:  with the case.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chain::{
    Acceptance, Chain, ControlError, Event, Handle, HeadersStop, Options, Phase, TipKind, Verdict, WorkProof,
    World as ChainWorld,
};
use consensus::BlockError;
use primitives::{Block, BlockHash, Header, Network, Params};
use sim::disk::FakeDisk;
use sim::forge::{Forge, ForgeOptions};
use sim::mutate::world::NOW_S;
use sim::mutate::{self, Craft, Want, World};
use sim::oracle::{self, Kernel};
use stdx::clock::Clock;
use stdx::disk::{Disk, Open};
use stdx::pool::Pool;
use stdx::random::Random;

struct FixedClock;

impl Clock for FixedClock {
    fn unix_s(&self) -> u64 {
        NOW_S
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

/// A node that lives on its own block files.
struct Node {
    chain: Chain,
    handle: Handle,
}

impl Node {
    fn open(disk: &FakeDisk, threads: usize) -> Node {
        Node::open_in("/data", Vec::new(), disk, threads)
    }

    /// The same with its store in a folder of this name, and headers from elsewhere.
    fn open_in(store: &str, headers: Vec<[u8; 80]>, disk: &FakeDisk, threads: usize) -> Node {
        let world = ChainWorld {
            disk: Arc::new(disk.clone()),
            clock: Arc::new(FixedClock),
            pool: Arc::new(Pool::new("test", threads)),
            engine: sigs::engine(sigs::EngineName::Scalar).unwrap(),
        };
        let mut options = Options::new(Params::of(Network::Regtest), store.into(), None, [9; 32]);
        options.headers = headers;
        options.own_blocks = Some("/own".into());
        options.memory_bytes = 64 << 20;
        let chain = Chain::open(world, options).unwrap();
        Node { handle: chain.handle(), chain }
    }

    /// Waits for an answer while the writer works.
    fn finish(&mut self, pending: chain::Pending) -> Verdict {
        loop {
            self.chain.catch_up().unwrap();
            if let Some(verdict) = pending.wait_for(Duration::from_millis(1)) {
                return verdict;
            }
        }
    }

    /// Hands a block in and has it judged.
    fn judge(&mut self, bytes: &[u8]) -> Verdict {
        let pending = self.handle.judge_block(bytes.to_vec()).ok().expect("the queue is empty");
        self.finish(pending)
    }

    fn tip(&self) -> BlockHash {
        self.handle.view().tip().hash
    }

    #[track_caller]
    fn connect(&mut self, blocks: &[Vec<u8>]) {
        for block in blocks {
            assert_eq!(self.judge(block), Verdict::Connected);
        }
    }
}

fn header(bytes: &[u8]) -> Header {
    *Block::parse(bytes).unwrap().header()
}

fn hash(bytes: &[u8]) -> BlockHash {
    header(bytes).hash()
}

/// A trunk of 105 blocks, and two branches of it with eight and nine more.
fn branches() -> (Vec<Vec<u8>>, Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let pool = Pool::new("forge", 1);
    let options = ForgeOptions { seed: 8, blocks: 113, inputs: 200, ..ForgeOptions::default() };
    let mut forge = Forge::new(&options, &pool).unwrap();
    let take = |forge: &mut Forge, count| (0..count).map(|_| forge.extend(&pool).bytes).collect::<Vec<_>>();
    let trunk = take(&mut forge, 105);
    let mut fork = forge.clone();
    fork.diverge(9);
    (trunk, take(&mut forge, 8), take(&mut fork, 9))
}

/// What the door says, in the oracle's words.
fn in_oracles_words(verdict: &Verdict) -> oracle::Verdict {
    match verdict {
        Verdict::Connected => oracle::Verdict::Accepted,
        Verdict::NotStored { why: Acceptance::Malformed { .. } } => oracle::Verdict::Refused("parse".to_owned()),
        verdict => oracle::Verdict::Refused(verdict.word().expect("it was refused").to_owned()),
    }
}

#[test]
fn every_broken_block_gets_cores_verdict_at_the_door() {
    let kernel = Kernel::new(0);
    let mut node = Node::open(&FakeDisk::default(), 2);
    let mut world = World::new(31, &mut |block| {
        assert_eq!(kernel.feed(block), oracle::Verdict::Accepted);
        assert_eq!(node.judge(block), Verdict::Connected);
    });
    let mut random = Random::new(31);
    let (mut refused, mut taken) = (0, 0);
    for case in mutate::cases().filter(|case| !mutate::is_heavy(case)) {
        let mut craft = Craft::new(&world, &mut random);
        if (case.make)(&mut craft).is_none() {
            continue;
        }
        let block = craft.build();
        let (core, ours) = (kernel.feed(&block), node.judge(&block));
        // Blocks that break BIP 30 here spend missing coins as well, which the writer finds first.
        if case.want == Want::Broken("Bip30") {
            assert_eq!(in_oracles_words(&ours), oracle::Verdict::Refused("bad-txns-inputs-missingorspent".to_owned()));
        } else {
            assert_eq!(in_oracles_words(&ours), core, "{:?}: {ours:?}", case.name);
        }
        let accepted = world.feed(&block).is_ok();
        assert_eq!(node.tip(), world.judge.book().tip(), "{:?}", case.name);
        (refused, taken) = (refused + u32::from(!accepted), taken + u32::from(accepted));
        if accepted {
            continue;
        }
        // A mutation says nothing about its header, nor does what is found before its place in the chain is looked at.
        let invalid = node.handle.header(&hash(&block)).is_some_and(|header| header.is_invalid);
        match &ours {
            Verdict::Invalid { .. } => assert!(invalid, "{:?}", case.name),
            Verdict::NotStored { why: Acceptance::Refused { error, header_invalid, .. } } => {
                assert_eq!(invalid, *header_invalid, "{:?}", case.name);
                assert!(!error.is_mutation() || !invalid, "{:?}", case.name);
            }
            _ => {}
        }
        if invalid {
            assert_eq!(node.judge(&block).word(), Some("duplicate-invalid"), "{:?}", case.name);
        }
    }
    assert!(refused > 80 && taken > 50, "{refused} refused, {taken} taken");
}

#[test]
fn answers_have_cores_words() {
    let (trunk, left, right) = branches();
    let mut node = Node::open(&FakeDisk::default(), 1);
    node.connect(&trunk);
    assert_eq!(node.judge(&trunk[50]).word(), Some("duplicate"));
    assert_eq!(node.judge(&right[1]).word(), Some("prev-blk-not-found"));
    assert_eq!(node.judge(&trunk[50][..70]).word(), Some("rejected"));
    node.connect(&left[..2]);
    // A branch with less work is kept, and not tried; one with as much neither.
    assert_eq!(node.judge(&right[0]).word(), Some("inconclusive"));
    assert_eq!(node.judge(&right[1]).word(), Some("inconclusive"));
    assert_eq!(node.judge(&right[2]), Verdict::Connected);
    assert_eq!(node.tip(), hash(&right[2]));
    // A witness that was changed on the way: the header is not to blame, and the block itself is taken.
    let block = Block::parse(&right[3][..]).unwrap();
    let coinbase_end = block.tx(0).raw().len() + block.tx(0).start();
    let mut changed = right[3].clone();
    changed[coinbase_end - 5] ^= 1;
    let Verdict::NotStored { why: Acceptance::Refused { error, header_invalid: false, .. } } = node.judge(&changed)
    else {
        panic!("a changed witness is a mutation")
    };
    assert_eq!(error, BlockError::WitnessCommitment {});
    assert_eq!(node.judge(&right[3]), Verdict::Connected);
}

#[test]
fn headers_are_taken_and_asked_for() {
    let (trunk, left, right) = branches();
    let headers = |blocks: &[Vec<u8>]| blocks.iter().map(|block| header(block)).collect::<Vec<Header>>();
    let mut node = Node::open(&FakeDisk::default(), 1);
    let handle = node.handle.clone();
    let submit = |run: &[Header]| handle.submit_headers(run, WorkProof::Unproven);
    assert_eq!(submit(&headers(&left)).stop.unwrap().reject_word(), "prev-blk-not-found");
    let answer = submit(&headers(&trunk));
    assert_eq!((answer.added, answer.known, answer.best_changed, answer.stop), (105, 0, true, None));
    let all = headers(&[&trunk[100..], &left[..]].concat());
    let answer = submit(&all);
    assert_eq!((answer.added, answer.known), (8, 5));
    assert_eq!(answer.last.unwrap(), handle.best_header());
    // A header that breaks a rule ends its run; those before it stay.
    let mut wrong = headers(&right);
    wrong[4].time_s = 1;
    while wrong[4].hash().0[31] > 0x7f {
        wrong[4].nonce += 1;
    }
    let answer = submit(&wrong);
    assert_eq!((answer.added, answer.best_changed), (4, false));
    assert!(matches!(answer.stop, Some(HeadersStop::Invalid { error, .. }) if error.reject_word() == "time-too-old"));
    // Nothing is connected, everything is missing.
    let wanted = handle.wanted(None, 1024, 50);
    assert_eq!((wanted.above, wanted.blocks.len(), wanted.blocks[0].height, wanted.waiting_blocks), (0, 50, 1, 0));
    node.connect(&trunk[..60]);
    assert_eq!(handle.wanted(None, 1024, 1000).blocks.len(), 113 - 60);
    assert_eq!(handle.wanted(None, 10, 1000).blocks.len(), 10);
    // Blocks ahead of the tip wait, and are no longer missing.
    for block in &trunk[70..80] {
        assert_eq!(node.judge(block), Verdict::Inconclusive);
    }
    let wanted = handle.wanted(None, 1024, 1000);
    assert_eq!((wanted.above, wanted.blocks.len(), wanted.waiting_blocks), (60, 43, 10));
    assert_eq!(wanted.waiting_bytes, trunk[70..80].iter().map(|block| block.len() as u64).sum::<u64>());
    // Locators and forks.
    let (a, b) = (hash(&left[7]), hash(&right[3]));
    assert_eq!(handle.fork_of(&a, &b).unwrap().hash, hash(&trunk[104]));
    assert!(handle.is_ancestor(&hash(&trunk[3]), &a) && !handle.is_ancestor(&b, &a));
    let locator = handle.locator(&a);
    assert_eq!(
        (locator[0], locator[10], *locator.last().unwrap()),
        (a, hash(&trunk[102]), hash(&Params::of(Network::Regtest).genesis_block()))
    );
    assert!(locator.len() < 20);
    // The active chain ends at block 60: that is where headers come from, and what a locator meets.
    assert_eq!(handle.locator_fork(&locator).hash, hash(&trunk[59]));
    let after = handle.headers_after(&[hash(&trunk[49])], &BlockHash([0; 32]), 2_000);
    assert_eq!(after, headers(&trunk[50..60]));
    assert_eq!(handle.headers_after(&[hash(&trunk[49])], &hash(&trunk[52]), 2_000), headers(&trunk[50..53]));
    assert_eq!(handle.headers_after(&[hash(&trunk[49])], &BlockHash([0; 32]), 4), headers(&trunk[50..54]));
    assert_eq!(handle.headers_after(&[], &hash(&trunk[52]), 4), headers(&trunk[52..53]));
    assert_eq!(handle.headers_after(&[hash(&trunk[59])], &BlockHash([0; 32]), 4), []);
    // Headers outlast a restart, those without blocks too.
    assert!(handle.is_initial_download(), "the tip is years old");
}

#[test]
fn headers_without_blocks_outlast_a_restart() {
    let (trunk, left, _) = branches();
    let disk = FakeDisk::default();
    let mut node = Node::open(&disk, 1);
    let headers: Vec<Header> = trunk.iter().chain(&left).map(|block| header(block)).collect();
    node.handle.submit_headers(&headers, WorkProof::Proven);
    node.connect(&trunk[..20]);
    assert_eq!(node.judge(&trunk[30]), Verdict::Inconclusive);
    drop(node);
    let mut node = Node::open(&disk, 1);
    let best = node.handle.best_header();
    assert_eq!((best.hash, best.height), (hash(&left[7]), 113));
    assert_eq!((node.tip(), node.handle.wanted(None, 2_000, 2_000).blocks.len()), (hash(&trunk[19]), 92));
    node.connect(&trunk[20..30]);
    // Block 31 was there: it follows without being handed in again.
    assert_eq!(node.tip(), hash(&trunk[30]));
}

#[test]
fn headers_without_blocks_outlast_a_store_that_is_built_again() {
    let (trunk, left, right) = branches();
    let disk = FakeDisk::default();
    let mut node = Node::open(&disk, 1);
    let headers: Vec<Header> = trunk.iter().chain(&left).map(|block| header(block)).collect();
    node.handle.submit_headers(&headers, WorkProof::Proven);
    node.connect(&trunk[..20]);
    assert_eq!(node.judge(&trunk[30]), Verdict::Inconclusive);
    let pending = node.handle.invalidate_block(&hash(&left[7])).unwrap();
    assert_eq!(node.finish(pending), Verdict::Done);
    drop(node);
    let known = chain::headers_of_store(Arc::new(disk.clone()), Path::new("/data"), &Params::of(Network::Regtest));
    let known = known.unwrap();
    assert_eq!(known.len(), headers.len());

    let mut node = Node::open_in("/again", known, &disk, 2);
    assert!(!node.handle.status().has_tried_all);
    node.chain.catch_up().unwrap();
    // All that is here has been tried, though the best headers are far ahead.
    let status = node.handle.status();
    assert!(status.has_tried_all && status.phase != Phase::Following, "{status:?}");
    node.chain.finish().unwrap();
    let mut node = Node::open_in("/again", Vec::new(), &disk, 1);
    let best = node.handle.best_header();
    assert_eq!((best.hash, best.height), (hash(&left[7]), 113), "what was refused is judged again");
    assert_eq!((node.tip(), node.handle.wanted(None, 2_000, 2_000).blocks.len()), (hash(&trunk[19]), 92));
    node.connect(&trunk[20..30]);
    assert_eq!(node.tip(), hash(&trunk[30]));
    assert_eq!(node.judge(&right[1]).word(), Some("prev-blk-not-found"), "not known, not made up");
}

#[test]
fn a_block_far_below_the_best_headers_is_shown_to_who_waits_for_it() {
    let (trunk, ..) = branches();
    let mut node = Node::open(&FakeDisk::default(), 1);
    let headers: Vec<Header> = trunk.iter().map(|block| header(block)).collect();
    node.handle.submit_headers(&headers, WorkProof::Proven);
    let (sender, tried) = std::sync::mpsc::channel();
    for block in &trunk[..20] {
        let (sender, handle) = (sender.clone(), node.handle.clone());
        let taken = node.handle.submit_block(block.clone(), WorkProof::Proven, move |acceptance| {
            let Acceptance::Stored { hash, .. } = acceptance else { panic!("{acceptance:?}") };
            handle.when_tried(hash, move || sender.send(hash).unwrap());
        });
        assert!(taken.is_ok());
    }
    for _ in 0..2 {
        node.chain.catch_up().unwrap();
    }
    assert_eq!(tried.try_iter().count(), 20);
    let at = |node: &Node| (node.handle.connected_tip().height, node.handle.view().tip().height);
    assert_eq!(at(&node), (20, 0), "more is to come, and one commit will do for all of it");
    let handle = node.handle.clone();
    node.handle.when_shown(hash(&trunk[19]), move || sender.send(handle.view().tip().hash).unwrap());
    node.chain.catch_up().unwrap();
    assert_eq!(tried.try_iter().collect::<Vec<_>>(), [hash(&trunk[19])]);
    assert_eq!(at(&node), (20, 20));
}

#[test]
fn headers_that_came_after_the_last_pass_are_kept_too() {
    let (trunk, ..) = branches();
    let disk = FakeDisk::default();
    let mut node = Node::open(&disk, 1);
    node.connect(&trunk[..20]);
    let headers: Vec<Header> = trunk.iter().map(|block| header(block)).collect();
    node.handle.submit_headers(&headers, WorkProof::Proven);
    node.handle.stop();
    node.chain.run().unwrap();
    let node = Node::open(&disk, 1);
    assert_eq!((node.handle.best_header().height, node.handle.view().tip().height), (105, 20));
}

#[test]
fn orders_of_the_operator_are_followed_and_remembered() {
    let (trunk, left, right) = branches();
    let disk = FakeDisk::default();
    let mut node = Node::open(&disk, 1);
    node.connect(&trunk);
    node.connect(&left);
    for block in &right[..8] {
        assert_eq!(node.judge(block), Verdict::Inconclusive);
    }
    let invalidate = |node: &mut Node, block: &[u8]| {
        let pending = node.handle.invalidate_block(&hash(block)).unwrap();
        assert_eq!(node.finish(pending), Verdict::Done);
    };
    invalidate(&mut node, &left[3]);
    assert_eq!(node.tip(), hash(&right[7]));
    let kinds = |node: &Node| node.handle.chain_tips().iter().map(|tip| (tip.hash, tip.kind)).collect::<Vec<_>>();
    let mut tips = kinds(&node);
    tips.sort_by_key(|tip| tip.1 == TipKind::Active);
    assert_eq!(tips, [(hash(&left[7]), TipKind::Invalid), (hash(&right[7]), TipKind::Active)]);
    // What builds on it is refused at the door.
    let child = header(&left[7]);
    let answer = node.handle.submit_headers(&[child], WorkProof::Proven);
    assert_eq!(answer.stop.unwrap().reject_word(), "duplicate-invalid");
    drop(node);
    let mut node = Node::open(&disk, 1);
    node.chain.catch_up().unwrap();
    assert_eq!(node.tip(), hash(&right[7]), "it is remembered");
    // Nothing is left of one branch, the other is refused: the trunk's end.
    invalidate(&mut node, &right[0]);
    assert_eq!(node.tip(), hash(&left[2]));
    let pending = node.handle.reconsider_block(&hash(&right[5])).unwrap();
    assert_eq!(node.finish(pending), Verdict::Done);
    assert_eq!(node.tip(), hash(&right[7]));
    let pending = node.handle.reconsider_block(&hash(&left[3])).unwrap();
    assert_eq!(node.finish(pending), Verdict::Done);
    assert_eq!(node.tip(), hash(&right[7]), "of equal tips the one followed stays");
    let pending = node.handle.prefer_block(&hash(&left[7])).unwrap();
    assert_eq!(node.finish(pending), Verdict::Done);
    assert_eq!(node.tip(), hash(&left[7]));
    assert_eq!(node.judge(&right[8]), Verdict::Connected, "work counts more");
    // The whole chain may be left, but for its first block.
    invalidate(&mut node, &trunk[0]);
    assert_eq!(node.handle.view().tip().height, 0);
    let genesis = Params::of(Network::Regtest).genesis_hash;
    assert_eq!(node.handle.invalidate_block(&genesis).err(), Some(ControlError::Genesis));
    assert_eq!(node.handle.invalidate_block(&BlockHash([1; 32])).err(), Some(ControlError::UnknownBlock));
    let pending = node.handle.reconsider_block(&hash(&trunk[40])).unwrap();
    assert_eq!(node.finish(pending), Verdict::Done);
    assert_eq!(node.tip(), hash(&right[8]));
}

#[test]
fn subscribers_hear_of_headers_tips_and_verdicts() {
    let (trunk, left, right) = branches();
    let mut node = Node::open(&FakeDisk::default(), 1);
    node.connect(&trunk);
    let events = node.handle.subscribe();
    node.connect(&left[..2]);
    for block in &right[..3] {
        node.judge(block);
    }
    let mut lines = Vec::new();
    for event in events.try_iter() {
        lines.push(match event {
            Event::NewHeader { height, .. } => format!("header {height}"),
            Event::BlockJudged { height, verdict, .. } => format!("judged {height} {}", verdict.is_ok()),
            Event::NewTip { height, connected, disconnected, reorganised_from, .. } => {
                let names = |blocks: &[chain::TipBlock]| {
                    assert!(blocks.iter().all(|tip| *tip.block.as_ref().unwrap().hash() == tip.hash));
                    blocks.iter().map(|block| block.height).collect::<Vec<_>>()
                };
                format!("tip {height} -{:?} +{:?} {reorganised_from:?}", names(&disconnected), names(&connected))
            }
        });
    }
    let want = [
        "header 106",
        "judged 106 true",
        "tip 106 -[] +[106] None",
        "header 107",
        "judged 107 true",
        "tip 107 -[] +[107] None",
        "header 108",
        "judged 106 true",
        "judged 107 true",
        "judged 108 true",
        "tip 108 -[107, 106] +[106, 107, 108] Some(105)",
    ];
    assert_eq!(lines, want);
}

#[test]
fn a_block_that_rotted_in_our_files_is_wanted_again() {
    let (trunk, ..) = branches();
    let disk = FakeDisk::default();
    let mut node = Node::open(&disk, 1);
    node.connect(&trunk[..20]);
    let headers: Vec<Header> = trunk.iter().map(|block| header(block)).collect();
    node.handle.submit_headers(&headers, WorkProof::Proven);
    for block in &trunk[21..30] {
        assert_eq!(node.judge(block), Verdict::Inconclusive);
    }
    drop(node);
    // A bit of block 25's coinbase turns over: its record is found, and is not its block.
    let path = Path::new("/own/blk00000.dat");
    let offset = trunk[..20].iter().chain(&trunk[21..24]).map(|block| block.len() as u64 + 8).sum::<u64>() + 8 + 120;
    let file = disk.open(path, Open::ReadWrite).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 4], offset).unwrap();
    let mut node = Node::open(&disk, 1);
    assert_eq!(node.judge(&trunk[20]), Verdict::Connected);
    assert_eq!(node.tip(), hash(&trunk[23]));
    let wanted = node.handle.wanted(None, 6, 100);
    assert_eq!(wanted.blocks.iter().map(|block| block.hash).collect::<Vec<_>>(), [hash(&trunk[24])]);
    assert_eq!(node.judge(&trunk[24]), Verdict::Connected);
    assert_eq!(node.tip(), hash(&trunk[29]));
}
