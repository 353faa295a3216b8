//! Transactions in the simulated network: every honest mempool ends the same, whatever comes late, alone or in the wrong order.
//!
//! In:     a seed; transactions put in at some nodes.
//! Out:    tests: equal mempools, packages, compact blocks with misses, the same run by seed.
//! Fails:  with the node that has another mempool.

use std::collections::BTreeSet;

use chain::mempool::Accept;
use chain::policy::Reject;
use consensus::Work;
use primitives::{OutPoint, Transaction, Wtxid};

use super::network_tests::{COIN_SAT, Chains, Vice, World, coin, pay};
use crate::hub::Hub;
use crate::wire::Command;

fn out(tx: &Transaction) -> OutPoint {
    OutPoint { txid: tx.tx().txid(), vout: 0 }
}

impl World {
    /// A user hands a transaction to a node.
    fn submit(&mut self, node: usize, tx: &Transaction) {
        let pool = &self.pools[node].pool;
        pool.accept(tx, &Accept::at(self.now.unix_s)).unwrap_or_else(|rejected| panic!("{}", rejected.reject));
        pool.write().set_unbroadcast(&tx.tx().txid());
    }

    fn mempool(&self, node: usize) -> BTreeSet<Wtxid> {
        self.pools[node].pool.read().entries().map(|entry| entry.wtxid).collect()
    }

    #[track_caller]
    fn assert_one_mempool(&self, want: usize) {
        let sizes: Vec<usize> = (0..self.nodes.len()).map(|node| self.mempool(node).len()).collect();
        assert!((0..self.nodes.len()).all(|node| self.mempool(node) == self.mempool(0)), "{sizes:?}");
        assert_eq!(sizes[0], want);
    }

    /// Messages' bytes that all nodes have sent.
    fn sent(&self, command: Command) -> u64 {
        let of = |hub: &Hub<Chains>| -> u64 {
            hub.peers().filter_map(|peer| peer.statistics().sent.by_message.get(&Some(command))).sum()
        };
        self.nodes.iter().map(of).sum()
    }
}

/// Transactions of every shape at random nodes; returns how many.
fn submit_all(world: &mut World, rounds: u32) -> usize {
    let mut count = 0;
    for number in 0..rounds {
        let node = world.random.below(world.nodes.len() as u64) as usize;
        let first = pay(&[coin(number)], &[COIN_SAT - 1_000 - i64::from(number)]);
        world.submit(node, &first);
        count += 1;
        if number % 4 == 1 {
            let child = pay(&[out(&first)], &[COIN_SAT - 9_000]);
            world.submit(node, &child);
            count += 1;
        }
        if number % 5 == 2 {
            // A parent that pays nothing, which no fee filter lets through, and a child that pays for both.
            let parent = pay(&[coin(200 + number)], &[COIN_SAT]);
            let child = pay(&[out(&parent)], &[COIN_SAT - 5_000]);
            let pool = &world.pools[node].pool;
            let result = pool.accept_package(&[parent, child], world.now.unix_s, None);
            assert!(result.reject.is_none());
            count += 2;
        }
        if number % 7 == 0 {
            world.run(1);
        }
    }
    count
}

#[test]
fn fifty_nodes_have_one_mempool_and_mine_it() {
    let mut world = World::new(21, &[Vice::None; 50], Work::ZERO);
    world.mine_at(0, 3);
    world.connect_all(4);
    world.run(8);
    world.assert_agreed(3);
    let count = submit_all(&mut world, 30);
    world.run(75);
    world.assert_one_mempool(count);
    assert!(world.nodes.iter().all(|node| node.orphans().is_empty()), "every orphan has found its parent");
    let unbroadcast =
        |world: &World| world.pools.iter().map(|side| side.pool.read().unbroadcast().count()).sum::<usize>();
    assert_eq!(unbroadcast(&world), 0, "everything was asked for");
    let before = world.sent(Command::GETBLOCKTXN);
    world.mine_at(17, 1);
    world.run(5);
    world.assert_agreed(4);
    world.assert_one_mempool(0);
    assert_eq!(world.sent(Command::GETBLOCKTXN), before, "every transaction was known");
    assert!(world.sent(Command::CMPCTBLOCK) > 0);
}

#[test]
fn a_block_with_unknown_transactions_is_put_together_all_the_same() {
    let mut world = World::new(22, &[Vice::None; 20], Work::ZERO);
    world.mine_at(0, 3);
    world.connect_all(4);
    world.run(8);
    // Nobody has heard of these when the block comes; those of before everybody knows.
    submit_all(&mut world, 10);
    world.run(60);
    for number in 100..120 {
        world.submit(7, &pay(&[coin(number)], &[COIN_SAT - 700]));
    }
    let before = world.sent(Command::GETBLOCKTXN);
    world.mine_at(7, 1);
    world.run(10);
    world.assert_agreed(4);
    world.assert_one_mempool(0);
    assert!(world.sent(Command::GETBLOCKTXN) > before, "what was missing was asked for");
    // The same again, on the other branch of a partition, and back: what was in the lost block is unconfirmed again.
    for node in 0..20 {
        world.sides[node] = u8::from(node == 3);
    }
    for number in 120..125 {
        world.submit(3, &pay(&[coin(number)], &[COIN_SAT - 700]));
    }
    world.mine_at(3, 1);
    world.mine_at(7, 2);
    world.run(5);
    world.sides = vec![0; 20];
    world.run(60);
    world.assert_agreed(6);
    assert_eq!(world.mempool(3).len(), 5);
}

#[test]
fn the_same_seed_gives_the_same_run_with_transactions() {
    let run = |seed| {
        let mut world = World::new(seed, &[Vice::None; 8], Work::ZERO);
        world.mine_at(0, 2);
        world.connect_all(3);
        world.run(4);
        submit_all(&mut world, 12);
        world.run(12);
        world.mine_at(5, 1);
        world.run(3);
        let sent = |hub: &Hub<Chains>| hub.peers().map(|peer| peer.statistics().sent.bytes).collect::<Vec<u64>>();
        (world.nodes.iter().map(sent).collect::<Vec<_>>(), world.mempool(3))
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

#[test]
fn a_double_spend_ends_with_whoever_pays_more() {
    let mut world = World::new(23, &[Vice::None; 12], Work::ZERO);
    world.mine_at(0, 2);
    world.connect_all(3);
    world.run(6);
    let cheap = pay(&[coin(1)], &[COIN_SAT - 1_000]);
    let dear = pay(&[coin(1)], &[COIN_SAT - 9_000]);
    world.submit(2, &cheap);
    world.run(40);
    world.assert_one_mempool(1);
    world.submit(9, &dear);
    world.run(40);
    world.assert_one_mempool(1);
    assert_eq!(world.mempool(4), BTreeSet::from([dear.tx().wtxid()]));
    let again = world.pools[4].pool.accept(&cheap, &Accept::at(world.now.unix_s)).unwrap_err();
    assert!(matches!(again.reject, Reject::InsufficientFee { .. }), "{}", again.reject);
}
