//! Trees of regtest headers: order, forks, missing blocks, refusals, preferences.
//!
//! In:     headers mined here.
//! Out:    what the tree says is best.
//! Fails:  naming the case.

use primitives::Network;

use super::*;

/// A regtest header that builds on `previous`; its nonce is turned until the target is met.
fn mine(previous: &Header, time_s: u32, label: u8) -> Header {
    let mut header = Header {
        version: 0x2000_0000,
        previous: previous.hash(),
        merkle_root: [label; 32],
        time_s,
        bits: 0x207f_ffff,
        nonce: 0,
    };
    while header.hash().0[31] > 0x7f {
        header.nonce += 1;
    }
    header
}

fn seen(header: Header) -> Seen {
    Seen { header, position: Some(Position { file: 0, offset: 8, size: 285 }) }
}

fn chain(from: &Header, count: u32, label: u8) -> Vec<Header> {
    let mut headers: Vec<Header> = Vec::new();
    for n in 0..count {
        let previous = headers.last().unwrap_or(from);
        headers.push(mine(previous, from.time_s + 600 * (n + 1), label));
    }
    headers
}

#[test]
fn headers_in_reverse_order_make_the_same_chain() {
    let params = Params::of(Network::Regtest);
    let headers = chain(&params.genesis, 200, 1);
    let mut tree = HeaderTree::new(&params);
    for header in headers[1..].iter().rev() {
        assert!(matches!(tree.insert(seen(*header), 2_000_000_000), Inserted::Waiting));
    }
    assert!(matches!(tree.insert(seen(headers[0]), 2_000_000_000), Inserted::Added));
    assert_eq!((tree.height(tree.best()), tree.waiting()), (200, 0));
    let tip = tree.best();
    for height in 1..=200 {
        let ancestor = tree.ancestor(tip, height).unwrap();
        assert_eq!(tree.header(ancestor), headers[height as usize - 1]);
    }
    assert_eq!(tree.ancestor(tip, 201), None);
    assert_eq!(tree.path(NodeId::GENESIS, tip).len(), 200);
}

#[test]
fn the_first_of_equal_tips_stays_until_it_is_invalid() {
    let params = Params::of(Network::Regtest);
    let trunk = chain(&params.genesis, 50, 1);
    let left = chain(&trunk[29], 20, 2);
    let mut tree = HeaderTree::new(&params);
    for header in trunk.iter().chain(&left) {
        tree.insert(seen(*header), 2_000_000_000);
    }
    assert_eq!(tree.hash(tree.best()), trunk[49].hash());
    let other = tree.find(&left[19].hash()).unwrap();
    assert_eq!(tree.height(tree.fork_point(tree.best(), other)), 30);
    tree.invalidate(tree.find(&trunk[40].hash()).unwrap());
    assert_eq!(tree.best(), other);
    assert!(tree.is_invalid(tree.find(&trunk[49].hash()).unwrap()));
    tree.invalidate(tree.find(&trunk[0].hash()).unwrap());
    assert_eq!(tree.best(), NodeId::GENESIS);
}

#[test]
fn a_damaged_block_bars_its_branch_until_it_is_tried_again() {
    let params = Params::of(Network::Regtest);
    let headers = chain(&params.genesis, 20, 1);
    let mut tree = HeaderTree::new(&params);
    for header in &headers {
        tree.insert(seen(*header), 2_000_000_000);
    }
    let (tip, damaged) = (tree.best(), tree.find(&headers[9].hash()).unwrap());
    assert!(!tree.retry_damaged());
    tree.mark_damaged(damaged, true);
    // The headers say nothing wrong: only the block is missing.
    assert_eq!((tree.height(tree.best()), tree.is_invalid(tip), tree.best_header()), (9, false, tip));
    assert!(!tree.has_block(damaged) && !tree.is_linked(tip));
    // What is built on it meanwhile waits with it.
    let child = mine(&headers[19], headers[19].time_s + 600, 3);
    tree.insert(seen(child), 2_000_000_000);
    assert!(tree.retry_damaged() && !tree.retry_damaged());
    assert_eq!(tree.height(tree.best()), 21);
    // Another copy is used at once, whether it comes later or was there before.
    let copy = |file| Position { file, offset: 8, size: 285 };
    tree.mark_damaged(damaged, true);
    tree.insert(Seen { header: headers[9], position: Some(copy(1)) }, 2_000_000_000);
    assert_eq!((tree.height(tree.best()), tree.position(damaged)), (21, Some(copy(1))));
    assert!(!tree.retry_damaged() && !tree.use_other_copy(damaged));
    tree.insert(Seen { header: headers[9], position: Some(copy(2)) }, 2_000_000_000);
    assert!(tree.use_other_copy(damaged));
    assert_eq!(tree.position(damaged), Some(copy(2)));
    // One of our own files is not tried again: it is fetched.
    tree.mark_damaged(damaged, false);
    assert!(!tree.retry_damaged());
    assert_eq!(tree.missing(tree.best_header(), 0, 100, 100), [damaged]);
    // A block that breaks a rule stays refused.
    tree.invalidate(tree.find(&headers[4].hash()).unwrap());
    tree.add_block(damaged, copy(3));
    assert_eq!(tree.height(tree.best()), 4);
}

#[test]
fn a_header_ahead_of_the_clock_waits_for_it() {
    let params = Params::of(Network::Regtest);
    let header = mine(&params.genesis, 1_400_000_000, 1);
    let mut tree = HeaderTree::new(&params);
    assert!(matches!(tree.insert(seen(header), 1_399_992_799), Inserted::Early));
    assert_eq!(tree.retry_early(1_399_992_799), 0);
    assert_eq!(tree.retry_early(1_399_992_800), 1);
    assert_eq!(tree.height(tree.best()), 1);
}

#[test]
fn blocks_in_any_order_link_to_the_same_tip() {
    let params = Params::of(Network::Regtest);
    let headers = chain(&params.genesis, 60, 1);
    let side = chain(&headers[39], 30, 2);
    let all: Vec<Header> = headers.iter().chain(&side).copied().collect();
    for seed in 0..20 {
        let mut random = stdx::random::Random::new(seed);
        let mut tree = HeaderTree::new(&params);
        for header in &all {
            let parent = tree.find(&header.previous).unwrap();
            tree.add_header(header, header.hash(), parent, 2_000_000_000).unwrap();
        }
        assert_eq!((tree.height(tree.best()), tree.height(tree.best_header())), (0, 70));
        let mut order: Vec<Header> = all.clone();
        for index in (1..order.len()).rev() {
            order.swap(index, random.below(index as u64 + 1) as usize);
        }
        let mut there = std::collections::HashSet::from([params.genesis_hash]);
        for (count, header) in order.iter().enumerate() {
            tree.insert(seen(*header), 2_000_000_000);
            there.insert(header.hash());
            // The slow way: the highest of those that have all their ancestors.
            let linked = |header: &&Header| {
                let mut walk = tree.find(&header.hash()).unwrap();
                while there.contains(&tree.hash(walk)) && walk != NodeId::GENESIS {
                    walk = tree.parent(walk);
                }
                walk == NodeId::GENESIS
            };
            let heights = all.iter().filter(linked).map(|header| tree.height(tree.find(&header.hash()).unwrap()));
            assert_eq!(tree.height(tree.best()), heights.max().unwrap_or(0), "seed {seed}, {count} blocks");
        }
        assert_eq!(tree.best(), tree.best_header());
    }
}

#[test]
fn refusals_and_their_end_agree_with_a_slow_model() {
    let params = Params::of(Network::Regtest);
    for seed in 0..30 {
        let mut random = stdx::random::Random::new(seed);
        let mut tree = HeaderTree::new(&params);
        let mut headers = vec![params.genesis];
        let mut refused = std::collections::HashSet::new();
        for step in 0..150u32 {
            let parent = headers[random.below(headers.len() as u64) as usize];
            match random.below(6) {
                0 => {
                    let id = tree.find(&parent.hash()).unwrap();
                    if id != NodeId::GENESIS {
                        tree.invalidate(id);
                        refused.insert(parent.hash());
                    }
                }
                1 => {
                    let id = tree.find(&parent.hash()).unwrap();
                    tree.reconsider(id);
                    refused.retain(|hash| {
                        let other = tree.find(hash).unwrap();
                        let above = tree.ancestor(other, tree.height(id)) == Some(id);
                        let below = tree.ancestor(id, tree.height(other)) == Some(other);
                        !above && !below
                    });
                }
                _ => {
                    let header = mine(&parent, parent.time_s + 600, step as u8);
                    tree.insert(seen(header), 2_000_000_000);
                    headers.push(header);
                }
            }
            let valid = |header: &&Header| {
                let mut walk = tree.find(&header.hash()).unwrap();
                while walk != NodeId::GENESIS && !refused.contains(&tree.hash(walk)) {
                    walk = tree.parent(walk);
                }
                walk == NodeId::GENESIS
            };
            for header in &headers {
                let id = tree.find(&header.hash()).unwrap();
                assert_eq!(tree.is_invalid(id), !valid(&header), "seed {seed}, step {step}");
            }
            // The highest, and of those the first.
            let mut want = NodeId::GENESIS;
            for header in headers.iter().filter(valid) {
                let id = tree.find(&header.hash()).unwrap();
                want = if tree.height(id) > tree.height(want) { id } else { want };
            }
            assert_eq!((tree.best(), tree.best_header()), (want, want), "seed {seed}, step {step}");
        }
    }
}

#[test]
fn a_preferred_block_wins_among_equals() {
    let params = Params::of(Network::Regtest);
    let (left, right) = (chain(&params.genesis, 5, 1), chain(&params.genesis, 5, 2));
    let mut tree = HeaderTree::new(&params);
    left.iter().chain(&right).for_each(|header| drop(tree.insert(seen(*header), 2_000_000_000)));
    let node = |tree: &HeaderTree, header: &Header| tree.find(&header.hash()).unwrap();
    let (a, b) = (node(&tree, &left[4]), node(&tree, &right[4]));
    assert_eq!(tree.best(), a);
    // A block with less work than the tip is not preferred to it.
    tree.prefer(node(&tree, &right[3]), a);
    assert_eq!(tree.best(), a);
    tree.prefer(b, a);
    assert_eq!(tree.best(), b);
    // The last wish counts, and work counts more.
    tree.prefer(a, b);
    assert_eq!(tree.best(), a);
    let child = mine(&right[4], right[4].time_s + 600, 3);
    tree.insert(seen(child), 2_000_000_000);
    assert_eq!(tree.best(), node(&tree, &child));
    // After a start the tip of before stays.
    let mut tree = HeaderTree::new(&params);
    left.iter().chain(&right).for_each(|header| drop(tree.insert(seen(*header), 2_000_000_000)));
    tree.keep_tip(b);
    assert_eq!(tree.best(), b);
}

#[test]
fn ends_of_branches_have_cores_words() {
    let params = Params::of(Network::Regtest);
    let trunk = chain(&params.genesis, 10, 1);
    let mut tree = HeaderTree::new(&params);
    trunk.iter().for_each(|header| drop(tree.insert(seen(*header), 2_000_000_000)));
    let branch = |tree: &mut HeaderTree, from: usize, label: u8, blocks: bool| {
        let headers = chain(&trunk[from], 3, label);
        for header in &headers {
            let position = seen(*header).position.filter(|_| blocks);
            tree.insert(Seen { header: *header, position }, 2_000_000_000);
        }
        tree.find(&headers[2].hash()).unwrap()
    };
    let headers_only = branch(&mut tree, 2, 2, false);
    let untried = branch(&mut tree, 3, 3, true);
    let tried = branch(&mut tree, 4, 4, true);
    let refused = branch(&mut tree, 5, 5, true);
    tree.invalidate(tree.parent(refused));
    tree.set_connected(tried);
    let active = tree.find(&trunk[9].hash()).unwrap();
    let words: Vec<_> = tree.tips(active).into_iter().map(|(id, kind)| (id, kind.name())).collect();
    let want = [
        (active, "active"),
        (headers_only, "headers-only"),
        (untried, "valid-headers"),
        (tried, "valid-fork"),
        (refused, "invalid"),
    ];
    assert_eq!(words, want);
}

#[test]
fn of_two_blocks_that_waited_for_one_parent_the_first_is_best() {
    let params = Params::of(Network::Regtest);
    let mut tree = HeaderTree::new(&params);
    let parent = mine(&params.genesis, params.genesis.time_s + 600, 1);
    let children = [2, 3].map(|label| mine(&parent, parent.time_s + 600, label));
    let header_only = |header| Seen { header, position: None };
    for header in [parent, children[0], children[1]] {
        assert!(matches!(tree.insert(header_only(header), 2_000_000_000), Inserted::Added));
    }
    for (offset, child) in children.iter().enumerate() {
        let id = tree.find(&child.hash()).unwrap();
        tree.add_block(id, Position { file: 0, offset: 1_000 * (1 + offset as u32), size: 285 });
    }
    assert_eq!(tree.best(), NodeId::GENESIS);
    let id = tree.find(&parent.hash()).unwrap();
    tree.add_block(id, Position { file: 0, offset: 8, size: 285 });
    assert_eq!(tree.hash(tree.best()), children[0].hash());
}
